"""extensions/skills: a server that hands out folders of skills, and a client that verifies what it reads."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref import SKILLS, Client, Context, ErrorResponse, LocalProtocolError, Server, SkillMismatch, Skills
from mcp_ref.pages.extensions import skills as page
from mcp_ref.pages.extensions.frontmatter import read_frontmatter
from mcp_ref.pages.extensions.skills import MAX_BYTES, MAX_FILES, MAX_URI, _verified, check_skill, find_file, plain_uri
from tests.support.wire import PATIENCE

HEAD = "---\nname: {}\ndescription: What it is for.\n---\n# Do it\n"
PDF = "skill://pdf/SKILL.md"


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files: dict[str, str | bytes] = {
        "pdf/SKILL.md": HEAD.format("pdf"),
        "pdf/references/FORMS.md": "forms",
        "pdf/scripts/run me.py": "print()",
        "pdf/logo.bin": b"\xff\x00\x10",
        "pdf/inner/SKILL.md": HEAD.format("inner"),
        "pdf/.env": "SECRET=1",
        "pdf/__pycache__/x.pyc": b"\0",
        "README.txt": "no skill",
    }
    (tmp_path / "pdf/empty").mkdir(parents=True)
    return write(tmp_path, files)


@contextmanager
def opened(skills: Skills, **options: Any) -> Iterator[Client]:
    with Client(Server("shop", extensions=[skills], **options), extensions=[SKILLS], timeout=PATIENCE) as client:
        yield client


# -- the server ---------------------------------------------------------------------------------------------------


def test_each_folder_with_a_skill_file_is_listed_whole_with_sizes_and_digests(folder: Path) -> None:
    with opened(Skills(folder)) as client:
        pdf, inner = sorted(client.list_skills(), key=lambda skill: len(skill["uri"]))
    assert pdf["frontmatter"] == {"name": "pdf", "description": "What it is for."}
    assert [each["uri"].removeprefix("skill://pdf/") for each in pdf["resources"]] == [
        "SKILL.md", "inner/SKILL.md", "logo.bin", "references/FORMS.md", "scripts/run%20me.py"
    ]  # fmt: skip
    forms = next(each for each in pdf["resources"] if each["uri"].endswith("FORMS.md"))
    assert forms["size"] == 5 and forms["digest"] == f"sha256:{hashlib.sha256(b'forms').hexdigest()}"
    assert inner["uri"] == "skill://pdf/inner/SKILL.md" and len(inner["resources"]) == 1


def test_the_server_declares_resources_too_and_an_empty_folder_is_no_mistake(tmp_path: Path) -> None:
    with opened(Skills(tmp_path)) as client:
        assert client.server_capabilities["extensions"] == {SKILLS.name: {"directoryRead": True}}
        assert "resources" in client.server_capabilities
        assert client.list_skills() == []


def test_a_client_need_not_declare_the_extension(folder: Path) -> None:
    quiet = SKILLS._replace(name="com.example/quiet")
    with Client(Server("shop", extensions=[Skills(folder)]), extensions=[quiet]) as client:
        assert len(client.request("skills/list", {}, {"undeclared": True})["skills"]) == 2


def test_a_skill_file_is_a_resource_with_what_its_frontmatter_says(folder: Path) -> None:
    with opened(Skills(folder)) as client:
        listed = {each["uri"]: each for each in client.list_resources()}
        about = listed[PDF]
        assert (about["name"], about["mimeType"], about["description"]) == ("pdf", "text/markdown", "What it is for.")
        assert about["size"] == len(HEAD.format("pdf"))
        assert client.read_resource(PDF)["contents"][0]["text"] == HEAD.format("pdf")
        assert "blob" in client.read_resource("skill://pdf/logo.bin")["contents"][0]


NOT_THERE = {
    "read_resource": [
        "skill://pdf/.env", "skill://pdf/__pycache__/x.pyc", "skill://pdf/../README.txt", "skill://README.txt",
        "skill://pdf/%2e%2e/README.txt", "skill://pdf/references%2FFORMS.md", "skill://pdf", "skill://pdf/",
        "skill:///etc/passwd",
    ],
    "get_skill": ["skill://none/SKILL.md", "skill://pdf", "skill://pdf/references/FORMS.md", "file:///etc"],
    "read_directory": ["skill://pdf/", "skill://pdf/SKILL.md", "skill://pdf/none", "skill://"],
}  # fmt: skip


@pytest.mark.parametrize("ask", NOT_THERE)
def test_what_is_no_file_no_skill_or_no_directory_is_refused(folder: Path, ask: str) -> None:
    with opened(Skills(folder)) as client:
        for uri in NOT_THERE[ask]:
            with pytest.raises(ErrorResponse) as refused:
                getattr(client, ask)(uri)
            assert refused.value.code == -32602 and refused.value.data == {"uri": uri}


def test_a_skill_that_is_not_listed_is_found_by_its_uri() -> None:
    skills = Skills()
    skills.add("a/returns", {"SKILL.md": "Take it back."}, description='Of "things": é\u2028, 100 %', listed=False)
    with opened(skills) as client:
        assert client.list_skills() == []
        skill = client.get_skill("skill://a/returns/SKILL.md")
        assert skill["frontmatter"]["description"] == 'Of "things": é\u2028, 100 %'
        assert client.read_skill(skill).endswith(b"---\nTake it back.")


def test_a_directory_lists_its_children_page_by_page(folder: Path) -> None:
    with opened(Skills(folder), page_size=2) as client:
        children = client.read_directory("skill://pdf")
        assert [(each["name"], each["mimeType"]) for each in children] == [
            ("SKILL.md", "text/markdown"), ("empty", "inode/directory"), ("inner", "inode/directory"),
            ("logo.bin", "application/octet-stream"), ("references", "inode/directory"), ("scripts", "inode/directory"),
        ]  # fmt: skip
        assert client.read_directory("skill://pdf/empty") == []
        result = client.request("resources/directory/read", {"uri": "skill://pdf/references"})
        assert result["resultType"] == "complete" and result["ttlMs"] == 0


def test_a_dynamic_skill_is_made_at_each_reading() -> None:
    skills, count = Skills(), iter(range(9))

    @skills.dynamic("reports/daily", description="Assemble it", files=["today.md"])
    def daily(path: str, ctx: Context) -> str:
        return f"{path} {next(count)} {ctx.server.info['name']}"

    with opened(skills) as client:
        (skill,) = client.list_skills()
        assert skill["resources"] == "dynamic"
        with pytest.raises(SkillMismatch) as refused:
            client.read_skill(skill)
        assert refused.value.reason == "dynamic"
        assert client.read_skill(skill, unverified=True).endswith(b"---\nSKILL.md 0 shop")
        assert client.read_skill(skill, "today.md", unverified=True) == b"today.md 1 shop"
        with pytest.raises(ErrorResponse):
            client.read_skill(skill, "other.md", unverified=True)


def test_a_skill_whose_function_fails_is_an_internal_error() -> None:
    skills = Skills()
    skills.dynamic("broken", description="x")(lambda path: 1 / 0)
    with opened(skills) as client, pytest.raises(ErrorResponse) as failed:
        client.read_resource("skill://broken/SKILL.md")
    assert failed.value.code == -32603


@pytest.mark.parametrize("prefix", ["acme", "acme/billing/eu"])
def test_prefix_and_base_stand_before_the_path(folder: Path, prefix: str) -> None:
    with opened(Skills(folder, prefix=prefix, base="github://owner/repo/")) as client:
        skill = client.get_skill(f"github://owner/repo/{prefix}/pdf/SKILL.md")
        assert client.read_skill(skill, "references/FORMS.md") == b"forms"


BAD: dict[str, tuple[dict[str, str | bytes], str]] = {
    "no frontmatter": ({"a/SKILL.md": "# A"}, "does not begin with YAML frontmatter"),
    "another name": ({"a/SKILL.md": HEAD.format("b")}, "not that of its folder"),
    "a name that breaks the rules": ({"A_b/SKILL.md": HEAD.format("A_b")}, "must have 1 to 64"),
    "no description": ({"a/SKILL.md": "---\nname: a\n---\n"}, "description must be a text"),
    "a long description": ({"a/SKILL.md": f"---\nname: a\ndescription: {'x' * 1025}\n---\n"}, "1 to 1024"),
    "metadata that is not a text": (
        {"a/SKILL.md": "---\nname: a\ndescription: d\nmetadata:\n  v: 1\n---\n"}, "value of its metadata"),
    "a date": ({"a/SKILL.md": "---\nname: a\ndescription: d\nday: 2026-01-01\n---\n"}, "take day differently"),
    "no": ({"a/SKILL.md": "---\nname: a\ndescription: d\ndraft: no\n---\n"}, "take draft differently"),
    "too many files": ({"a/SKILL.md": HEAD.format("a"), **{f"a/{n}": "" for n in range(MAX_FILES)}}, "at most 512"),
    "too many bytes": ({"a/SKILL.md": HEAD.format("a"), "a/b": b"x" * MAX_BYTES}, "16 MiB"),
    "names that meet": ({"a/SKILL.md": HEAD.format("a"), "a/B.md": "", "a/b.md": ""}, "differs from it in case"),
    "too deep": ({"a/SKILL.md": HEAD.format("a"), "a/" + "d/" * 16 + "x": ""}, "levels"),
    "a backslash": ({"a/SKILL.md": HEAD.format("a"), "a/b\\c": ""}, "no path may have"),
    "the folder itself": ({"SKILL.md": HEAD.format("a")}, "give the folder above"),
    "keys that are not texts elsewhere": (
        {"a/SKILL.md": "---\nname: a\ndescription: d\non: 1\n1:20: 1\n2026-01-01: 1\nb: {on: 1, c: 2}\n---\n"},
        "take 1:20, 2026-01-01, 80, True, b, on differently"),
    "an escape of no character": (
        {"a/SKILL.md": '---\nname: a\ndescription: "\\UFFFFFFFF"\n---\n'}, "a/SKILL.md: its frontmatter is not YAML"),
    "a folder that is called so": ({"a/SKILL.md/x": ""}, "a/SKILL.md: a link, not a file"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_with_a_folder_is_named_at_the_start(tmp_path: Path, name: str) -> None:
    files, problem = BAD[name]
    with pytest.raises(ValueError, match=problem):
        Skills(write(tmp_path, files))


def test_everything_that_is_wrong_is_named_at_once(tmp_path: Path) -> None:
    write(tmp_path, {"a/SKILL.md": "# A", "b/SKILL.md": HEAD.format("c"), "c/SKILL.md": HEAD.format("c")})
    # Also a name that is not UTF-8.
    Path(os.fsdecode(bytes(tmp_path) + b"/c/caf\xe9.md")).write_text("")
    with pytest.raises(ValueError) as refused:
        Skills(tmp_path)
    for named in ("a/SKILL.md", "b/SKILL.md", r"c/caf\udce9.md: a segment of its path"):
        assert named in str(refused.value)


@pytest.mark.parametrize("by", ["descriptor", "path"])
@pytest.mark.parametrize("kind", ["link to a file", "link to a folder", "pipe"])
def test_links_and_special_files_are_refused_and_not_followed(
    tmp_path: Path, kind: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "_BY_DESCRIPTOR", by == "descriptor")
    write(tmp_path, {"skills/a/SKILL.md": HEAD.format("a"), "secret/x": "s"})
    place = tmp_path / "skills/a/odd"
    make: dict[str, Callable[[], None]] = {
        "link to a file": lambda: place.symlink_to(tmp_path / "secret/x"),
        "link to a folder": lambda: place.symlink_to(tmp_path / "secret"),
        "pipe": lambda: os.mkfifo(place),
    }
    make[kind]()
    with pytest.raises(ValueError, match=r"a/odd: a link, not a file"):
        Skills(tmp_path / "skills")


@pytest.mark.parametrize("at", ["inner", "x"])
def test_a_link_that_takes_the_place_of_a_folder_meanwhile_is_not_followed(
    tmp_path: Path, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"skills/a/SKILL.md": HEAD.format("a"), "skills/a/inner/x": "mine", "secret/x": "theirs"})
    inner, really = tmp_path / "skills/a/inner", os.open

    def swap_and_open(path: Any, *arguments: Any, **options: Any) -> int:
        if os.path.basename(path) == at and not inner.is_symlink():
            inner.rename(tmp_path / "away")
            inner.symlink_to(tmp_path / "secret")
        return really(path, *arguments, **options)

    monkeypatch.setattr(os, "open", swap_and_open)
    if at == "inner":
        with pytest.raises(ValueError, match=r"a/inner: a link, not a file"):
            Skills(tmp_path / "skills")
        return
    with opened(Skills(tmp_path / "skills")) as client:
        assert client.read_resource("skill://a/inner/x")["contents"][0]["text"] == "mine"


def test_what_is_outside_of_all_skills_is_not_opened(tmp_path: Path) -> None:
    write(tmp_path, {"b/a/SKILL.md": HEAD.format("a")})
    os.mkfifo(tmp_path / "b/pipe")
    (tmp_path / "b/link").symlink_to(tmp_path)
    with opened(Skills(tmp_path)) as client:
        assert [skill["uri"] for skill in client.list_skills()] == ["skill://b/a/SKILL.md"]


def test_a_skill_is_read_once_however_many_are_added(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    monkeypatch.setattr(page, "read_frontmatter", lambda text: read.append(text) or read_frontmatter(text))
    skills = Skills(folder)
    for n in range(50):
        skills.add(f"some/s{n}", {"SKILL.md": ""}, description="d")
    assert len(read) == 2 + 50
    skills.add("some/s0", {"SKILL.md": "Another."}, description="d")
    skills.add("pdf/inner", {"SKILL.md": ""}, description="Instead of that of the folder, in both skills.")
    assert len(read) == 52 + 1 + 2
    skills.reload()
    assert len(read) == 55
    with opened(skills) as client:
        assert b"Instead" in client.read_skill(client.get_skill(PDF), "inner/SKILL.md")


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        Skills(tmp_path / "none")
    with pytest.raises(ValueError, match="ends in a slash"):
        Skills(base="skill:")


def test_a_static_skill_cannot_hold_a_dynamic_one() -> None:
    skills = Skills()
    skills.dynamic("a/b", description="d")(lambda path: "")
    with pytest.raises(ValueError, match="cannot hold the dynamic"):
        skills.add("a", {"SKILL.md": ""}, description="d")
    with opened(skills) as client:
        assert len(client.list_skills()) == 1


def test_reload_tells_what_has_changed_or_leaves_all_as_it_was(folder: Path) -> None:
    skills = Skills(folder)
    server = Server("shop", extensions=[skills])
    with Client(server, extensions=[SKILLS]) as client:
        with client.listen(resources=["skill://pdf/references/FORMS.md"], resource_list=True) as news:
            (folder / "pdf/references/FORMS.md").write_text("other")
            skills.reload()
            told = {news.get(PATIENCE).method, news.get(PATIENCE).method}
            assert told == {"notifications/resources/list_changed", "notifications/resources/updated"}
        pdf = client.get_skill(PDF)
        assert client.read_skill(pdf, "references/FORMS.md") == b"other"
        (folder / "pdf/SKILL.md").write_text("broken")
        with pytest.raises(ValueError):
            skills.reload()
        assert client.get_skill(PDF, cached=False) == pdf
        write(folder, {"pdf/SKILL.md": HEAD.format("pdf"), "new/SKILL.md": HEAD.format("new")})
        skills.reload()
        assert len(client.list_skills(cached=False)) == 3
        (folder / "new/SKILL.md").unlink()
        skills.reload()
        assert len(client.list_skills(cached=False)) == 2
        with pytest.raises(ErrorResponse):
            client.read_resource("skill://new/SKILL.md")


def test_in_the_session_era_the_files_are_ordinary_resources(folder: Path) -> None:
    with Client(Server("shop", extensions=[Skills(folder)]), revision="2025-11-25", extensions=[SKILLS]) as client:
        assert client.read_resource(PDF)["contents"][0]["text"] == HEAD.format("pdf")
        with pytest.raises(ErrorResponse, match="-32601"):
            client.list_skills()


# -- the client ---------------------------------------------------------------------------------------------------


class Lying(Skills):
    """Skills whose answers can be changed on their way."""

    change: Callable[[str, Any], Any] = staticmethod(lambda what, value: value)

    def _get(self, ctx: Any, params: Any) -> Any:
        return self.change("entry", json.loads(json.dumps(super()._get(ctx, params))))

    def _read(self, ctx: Any) -> Any:
        return self.change("file", super()._read(ctx))


LIES: dict[str, tuple[Callable[[str, Any], Any], str]] = {
    "a byte": (lambda what, value: value | {"text": value["text"].swapcase()} if what == "file" else value, "digest"),
    "longer": (lambda what, value: {**value, "text": value["text"] + "!"} if what == "file" else value, "size"),
    "several contents": (lambda what, value: [value, value] if what == "file" else value, "unlisted"),
    "another field": (
        lambda what, value: value["skill"]["frontmatter"].update(license="MIT") or value if what == "entry" else value,
        "frontmatter",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_what_is_not_as_its_entry_says_is_not_given_out(folder: Path, lie: str) -> None:
    skills = Lying(folder)
    change, reason = LIES[lie]
    skills.change = change  # type: ignore[method-assign]
    with opened(skills) as client, pytest.raises(SkillMismatch) as found:
        client.read_skill(client.get_skill(PDF))
    assert found.value.reason == reason


def test_a_path_that_is_not_listed_is_refused_before_anything_is_sent(folder: Path) -> None:
    with opened(Skills(folder)) as client:
        skill = client.get_skill(PDF)
        client.close()
        for path in ("../x", "/etc/passwd", "a//b", "", ".env", "%2e%2e/x", "a\\b", "SKILL.md?x"):
            with pytest.raises(SkillMismatch) as found:
                client.read_skill(skill, path)
            assert found.value.reason == "unlisted"


def test_references_are_resolved_as_in_a_file_system(folder: Path) -> None:
    with opened(Skills(folder)) as client:
        skill = client.get_skill(PDF)
        for path in ("references/FORMS.md", "./references/FORMS.md", "inner/../references/FORMS.md"):
            assert client.read_skill(skill, path) == b"forms"
        assert client.read_skill(skill, "scripts/run me.py") == b"print()"


ENTRY: dict[str, Any] = {
    "uri": PDF,
    "frontmatter": {"name": "pdf", "description": "d"},
    "resources": [{"uri": PDF, "digest": f"sha256:{'0' * 64}", "size": 1}],
}
FILE: dict[str, Any] = ENTRY["resources"][0]


def files(*more: dict[str, Any]) -> dict[str, Any]:
    return {**ENTRY, "resources": [FILE, *more]}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({}, "entry"),
        ({**ENTRY, "uri": "skill://pdf"}, "entry"),
        ({**ENTRY, "uri": f"skill://{'x' * (MAX_URI - 20)}/pdf/SKILL.md"}, "limit"),
        ({**ENTRY, "frontmatter": {"name": "other", "description": "d"}}, "entry"),
        ({**ENTRY, "resources": "static"}, "entry"),
        ({**ENTRY, "resources": []}, "entry"),
        (files(FILE), "entry"),
        (files({**FILE, "uri": "skill://pdf/SKILL%2emd"}), "entry"),
        (files(*({**FILE, "uri": f"skill://{path}"} for path in ("pdf/caf%C3%A9", "pd%66/caf%c3%A9"))), "entry"),
        ({**ENTRY, "resources": [{**FILE, "uri": "skill://pdf/SKILL%2emd"}]}, "entry"),
        ({**ENTRY, "uri": "skill://x/%2e%2E/pdf/SKILL.md", "resources": "dynamic"}, "entry"),
        (files({**FILE, "uri": "skill://other/x"}), "entry"),
        (files({**FILE, "uri": "skill://pdf/%2e%2e/x"}), "entry"),
        (files({**FILE, "uri": "skill://pdf/x", "digest": "md5:1"}), "entry"),
        (files({**FILE, "uri": "skill://pdf/x", "size": -1}), "entry"),
        (files({**FILE, "uri": "skill://pdf/x", "size": MAX_BYTES}), "limit"),
        (files(*({**FILE, "uri": f"skill://pdf/{n}"} for n in range(MAX_FILES))), "limit"),
    ],
)
def test_an_entry_that_is_not_valid_is_refused(entry: Any, reason: str) -> None:
    with pytest.raises(SkillMismatch) as found:
        check_skill(entry)
    assert found.value.reason == reason


def test_an_entry_of_too_many_files_is_refused_before_they_are_looked_at() -> None:
    began = time.thread_time()
    with pytest.raises(SkillMismatch) as found:
        check_skill({**ENTRY, "resources": [FILE] * 1_000_000})
    assert found.value.reason == "limit" and time.thread_time() - began < 0.1


def test_files_are_told_apart_by_their_paths_whatever_their_uris_escape() -> None:
    other = HEAD.format("pdf").encode() + b"hidden"
    more = {"uri": "SKILL://pd%66/a%2Eb", "digest": f"sha256:{hashlib.sha256(other).hexdigest()}", "size": len(other)}
    skill = check_skill({**files(more), "frontmatter": {"name": "pdf", "description": "Another one."}})
    assert find_file(skill, "a.b")[0] == more["uri"]
    text: Any = {"uri": "skill://pdf/a.b", "text": other.decode()}
    assert _verified(skill, str(more["uri"]), cast(Any, more), [text]) == other
    for uri in (PDF, "skill://pdf/SKILL%2Emd", "skill://pdf/./SKILL.md"):
        with pytest.raises(SkillMismatch) as found:
            _verified(skill, uri, cast(Any, more), [{**text, "uri": uri}])
        assert found.value.reason == "frontmatter"


@given(st.text(max_size=30))
def test_a_plain_uri_is_the_same_for_all_that_are_decoded_alike(path: str) -> None:
    plain = plain_uri(f"skill://{path}")
    assert plain_uri(plain) == plain
    everything = "".join(f"%{byte:02x}" for byte in path.encode("utf-8", "surrogatepass"))
    if "/" not in path and "%" not in path:
        assert plain_uri(f"Skill://{everything}") == plain


def test_entries_up_to_the_limits_are_valid() -> None:
    check_skill(files(*({**FILE, "uri": f"skill://pdf/{n}", "size": 0} for n in range(MAX_FILES - 1))))
    check_skill(files({**FILE, "uri": "skill://pdf/x", "size": MAX_BYTES - 1}))
    check_skill({**ENTRY, "resources": "dynamic"})
    check_skill({**ENTRY, "uri": f"skill://{'x' * (MAX_URI - 21)}/pdf/SKILL.md", "resources": "dynamic"})


def test_a_directory_is_asked_for_only_where_that_is_declared(folder: Path) -> None:
    class Plain(Skills):
        settings: dict[str, Any] = {}

    with opened(Plain(folder)) as client, pytest.raises(LocalProtocolError, match="directoryRead"):
        client.read_directory("skill://pdf")


@given(st.dictionaries(st.text("abcDE .%é", min_size=1, max_size=8), st.binary(max_size=40), max_size=4))
def test_what_is_added_is_what_is_read(given_files: dict[str, bytes]) -> None:
    skills = Skills()
    try:
        skills.add("some", {**given_files, "SKILL.md": "body"}, description="d")
    except ValueError:
        return
    with opened(skills) as client:
        skill = client.get_skill("skill://some/SKILL.md")
        for each in skill["resources"]:
            path = each["uri"].removeprefix("skill://some/")
            assert hashlib.sha256(client.read_skill(skill, path)).hexdigest() == each["digest"].removeprefix("sha256:")
