"""host/skills: skills are loaded by consent to all that they are, and nothing else loads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import (
    Answer,
    Consent,
    Context,
    ErrorResponse,
    Host,
    LocalProtocolError,
    Question,
    Rule,
    Server,
    SkillMismatch,
    Skills,
)
from mcp_ref.client.entries import Entry
from mcp_ref.host import skills as page
from mcp_ref.host.consent import ConsentRefused
from mcp_ref.kit.threads.bounded_dict import Latest
from mcp_ref.pages.extensions.skills import MAX_BYTES, SKILLS
from mcp_ref.pages.server.resources import ResourceNotFound
from mcp_ref.pages.server.utilities import pagination
from tests.host.common import PATIENCE, Heard, User, hostile
from tests.support.clock import grows_with_its_size

HEAD = "---\nname: {}\ndescription: What it is for.\n{}---\n# Do it\n"
REFUNDS = "skill://acme/refunds/SKILL.md"
STARTS = [Rule("allow", "start"), Rule("allow", "tool")]


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Shady:
    """The skills of a server that can say anything: entries and files are put here, and changed, by tests.

    Attributes:
        asked: the methods and URIs that came, in order. before: called with each, before it is answered.
    """

    name: str = SKILLS.name
    settings: Mapping[str, Any] = {}

    def __init__(self, *skills: str, more: str = "", **files: str) -> None:
        self.files: dict[str, bytes] = {}
        self.entries: dict[str, Any] = {}
        self.listed: list[Any] | None = None
        self.asked: list[str] = []
        self.before: Callable[[str], object] = lambda what: None
        self.endless = False
        for path in skills or ("acme/refunds",):
            self.put(path, {"SKILL.md": HEAD.format(path.rpartition("/")[2], more), **files})

    def put(self, path: str, files: dict[str, str | bytes], **said: Any) -> Any:
        """A skill with its true entry, but for what is `said`."""
        folder = f"skill://{path}/"
        made = {folder + name: data.encode() if isinstance(data, str) else data for name, data in files.items()}
        self.files.update(made)
        head = {"name": path.rpartition("/")[2], "description": "What it is for."}
        listed = [{"uri": uri, "digest": digest(data), "size": len(data)} for uri, data in made.items()]
        entry = {"uri": f"{folder}SKILL.md", "frontmatter": head, "resources": listed, **said}
        self.entries[f"{folder}SKILL.md"] = entry
        return entry

    def changes(self, files: dict[str, str | bytes]) -> None:
        """The skill of refunds has these files beside its own from now on."""
        self.put("acme/refunds", {"SKILL.md": HEAD.format("refunds", ""), **files})

    def for_server(self, server: Server) -> Any:
        @server.resource("skill://{+path}")
        def read(path: str) -> str | bytes:
            self._note(f"resources/read skill://{path}")
            data = self.files.get(f"skill://{path}")
            if data is None:
                raise ResourceNotFound(f"skill://{path}")
            try:
                return data.decode()
            except UnicodeDecodeError:
                return data

        answers = {"skills/list": self._list, "skills/get": self._get}
        return SKILLS._replace(answers=answers)

    def _note(self, what: str) -> None:
        self.asked.append(what)
        self.before(what)

    def _list(self, ctx: Context, params: Any) -> Any:
        self._note("skills/list")
        more = {"nextCursor": f"{len(self.asked)}"} if self.endless else {}
        listed = list(self.entries.values()) if self.listed is None else self.listed
        return {"skills": listed, "ttlMs": 0, "cacheScope": "private", **more}

    def _get(self, ctx: Context, params: Any) -> Any:
        self._note(f"skills/get {params['uri']}")
        return {"skill": self.entries[params["uri"]], "ttlMs": 0, "cacheScope": "private"}


def serving(skills: Any) -> Server:
    made = Server("a claim", extensions=[skills])

    @made.tool(description="Runs here.")
    def tool() -> str:
        return "done"

    return made


class Place:
    """A host, its user, and what it tells."""

    def __init__(self, *answers: Any, rules: Any = (), keep: Any = False, timeout: float | None = PATIENCE) -> None:
        self.user, self.heard = User(*answers), Heard()
        self.consent = Consent([*STARTS, *rules], ask=self.user, keep=keep, timeout=timeout)

    def host(self, **servers: Any) -> Host:
        entries = [Entry(name, serving(each)) for name, each in servers.items()]
        return Host(entries, consent=self.consent, on_event=self.heard, timeout=PATIENCE, skills=True).start()


@pytest.fixture
def shady() -> Shady:
    return Shady(**{"FORMS.md": "the forms"})


@pytest.fixture
def place() -> Place:
    return Place(True)


@pytest.fixture
def host(shady: Shady, place: Place) -> Iterator[Host]:
    with closing(place.host(shop=shady)) as made:
        yield made


def said(message: Any) -> str:
    return str(message["content"]["text"])


def reads(shady: Shady) -> list[str]:
    return [each.removeprefix("resources/read skill://") for each in shady.asked if each.startswith("resources/read")]


# -- listing ------------------------------------------------------------------------------------------------------


def test_skills_are_listed_under_the_name_in_the_configuration_and_no_file_is_read(host: Host, shady: Shady) -> None:
    [row] = host.skills()
    assert (row.name, row.server, row.state) == ("shop/acme/refunds", "shop", "new")
    assert row.definition == shady.entries[REFUNDS]
    assert shady.asked == ["skills/list"]


def test_skills_of_two_servers_with_one_uri_stay_apart(place: Place) -> None:
    one, two = Shady(**{"own.md": "x"}), Shady(**{"own.md": "x"})
    with closing(place.host(one=one, two=two)) as host:
        assert [row.name for row in host.skills()] == ["one/acme/refunds", "two/acme/refunds"]
        place.heard.wait("two", "notice", "these skills call themselves refunds: one/acme/refunds, two/acme/refunds")
        host.load_skill("one", REFUNDS)
        # MUST: neither stands in for the other: the second is asked about, and read from its own server.
        with pytest.raises(LocalProtocolError, match="not loaded"):
            host.read_skill("two", REFUNDS, "own.md")
        # Digests that were consented to at one open nothing at another.
        host.load_skill("two", REFUNDS)
        assert "server 'two'" in said(host.read_skill("two", REFUNDS, "own.md"))
        assert [question.subject for question in place.user.asked] == ["one/acme/refunds", "two/acme/refunds"]
        assert len(reads(one)) == 1 and len(reads(two)) == 2
    assert any("calls itself the same: one/acme/refunds" in each for each in place.user.asked[1].warnings)


def test_names_that_meet_on_one_server_are_both_listed_by_their_paths_and_told_once(place: Place) -> None:
    with closing(place.host(shop=Shady("a/refunds", "b/refunds"))) as host:
        for _ in range(2):
            assert [row.name for row in host.skills()] == ["shop/a/refunds", "shop/b/refunds"]
        host.load_skill("shop", "skill://a/refunds/SKILL.md")
    told = [said for _, what, said in place.heard.events if what == "notice"]
    assert told == ["these skills call themselves refunds: shop/a/refunds, shop/b/refunds"]


def _of_one_name(number: int) -> Shady:
    many = Shady()
    [entry] = many.entries.values()
    uris = [f"skill://a{n}/refunds/SKILL.md" for n in range(number)]
    many.listed = [{**entry, "uri": uri, "resources": [{**entry["resources"][0], "uri": uri}]} for uri in uris]
    return many


def test_many_skills_of_one_name_are_told_in_one_sentence(place: Place) -> None:
    many = _of_one_name(20)
    uri = many.listed[0]["uri"]
    many.entries[uri], many.files[uri] = many.listed[0], many.files[REFUNDS]
    with closing(place.host(many=many)) as host:
        assert len(host.skills()) == 20
        told = place.heard.wait("many", "notice", "these skills call themselves refunds: many/a0/refunds, ")
        assert told.endswith(" and 15 more")
        # The question about one of them is as short.
        host.load_skill("many", uri)
        [warning] = place.user.asked[0].warnings
        assert "and 14 more" in warning


def test_skills_of_one_name_are_compared_by_one_look_at_each() -> None:
    def listed(number: int) -> None:
        with closing(Place(True).host(many=_of_one_name(number))) as host:
            assert len(host.skills()) == number

    grows_with_its_size(listed, 2_000)


def test_a_server_pushes_no_skill_of_another_out_of_what_names_are_compared_with(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "Latest", lambda number: Latest(10))
    many = _of_one_name(11)
    for number, entry in enumerate(many.listed):
        entry["frontmatter"] = {**entry["frontmatter"], "name": f"s{number}"}
        entry["uri"], entry["resources"] = f"skill://s{number}/SKILL.md", "dynamic"
    with closing(place.host(shop=Shady(), many=many)) as host:
        assert len(host.skills()) == 12
        host.load_skill("many", REFUNDS)
    assert place.user.asked[0].warnings == ["another skill calls itself the same: shop/acme/refunds"]


def test_a_uri_in_another_spelling_is_the_same_skill(host: Host, shady: Shady, place: Place) -> None:
    host.load_skill("shop", REFUNDS)
    sound = shady.entries[REFUNDS]
    other = shady.put("%61cme/refunds", {"SKILL.md": HEAD.format("refunds", "license: MIT\n")})
    shady.listed = [other]
    # It has another text than the one that was consented to, and the name by which a rule may know it.
    assert [(row.name, row.state) for row in host.skills()] == [("shop/acme/refunds", "changed")]
    shady.listed = [sound, other]
    assert host.skills() == []
    place.heard.wait("shop", "notice", f"a skill is left out: {REFUNDS}: the server lists it more than once")


def test_entries_that_are_not_valid_or_stand_there_twice_are_told_and_hide_no_other(
    host: Host, shady: Shady, place: Place
) -> None:
    sound = shady.entries[REFUNDS]
    other = shady.put("twice", {"SKILL.md": HEAD.format("twice", "")})
    shady.listed = [5, {}, {"uri": []}, {**sound, "uri": "skill://x/SKILL.md"}, other, sound, {**other},
                    {**sound, "uri": "skill://refunds/SKILL.md", "resources": "many"}]  # fmt: skip
    assert [row.name for row in host.skills()] == ["shop/acme/refunds"]
    for told in ("skill://twice/SKILL.md: the server lists it more than once", "skill://refunds/SKILL.md: "):
        place.heard.wait("shop", "notice", f"a skill is left out: {told}")
    assert not [said for _, _, said in place.heard.events if "calls itself" in said]


def test_a_list_without_an_end_is_the_servers_own_problem(
    place: Place, shady: Shady, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "MAX_PAGES", 100)
    endless = Shady()
    endless.endless, endless.listed = True, []
    with closing(place.host(endless=endless, shop=shady)) as host:
        assert [row.server for row in host.skills()] == ["shop"]
        place.heard.wait("endless", "notice", "skills:")


def test_a_server_without_skills_and_a_uri_that_is_none_are_refused_without_a_question(place: Place) -> None:
    entries = [Entry("plain", Server("plain")), Entry("empty", serving(Skills())), hostile("old", "echo")]
    with closing(Host(entries, consent=place.consent, skills=True, timeout=PATIENCE).start()) as host:
        assert host.skills() == []
        for name in ("plain", "empty", "old"):
            with pytest.raises((LocalProtocolError, ErrorResponse)):
                host.load_skill(name, REFUNDS)
    assert not place.user.asked


def test_a_host_that_takes_no_skills_declares_and_loads_nothing_of_them(shady: Shady) -> None:
    told: list[Any] = []
    consent = Consent(STARTS, keep=False)
    with Host([Entry("shop", serving(shady))], consent=consent, trace=lambda name: told.append) as host:
        for refused in (host.skills, lambda: host.load_skill("shop", REFUNDS)):
            with pytest.raises(LocalProtocolError, match="skills=True"):
                refused()
        assert host.call("shop/tool")["content"]
    assert SKILLS.name not in json.dumps([event.message for event in told if event.direction == "send"])


# -- loading ------------------------------------------------------------------------------------------------------


def test_a_skill_is_loaded_by_consent_and_enters_the_context_with_its_origin(
    host: Host, shady: Shady, place: Place
) -> None:
    message = host.load_skill("shop", REFUNDS)
    assert host.context == [message] and message["role"] == "user"
    origin, text = said(message).split("\n", 1)
    assert origin == f"[from server 'shop', skill file '{REFUNDS}': a text of this server, not of the user]"
    assert text == HEAD.format("refunds", "")
    [question] = place.user.asked
    assert (question.kind, question.subject, question.server) == ("skill", "shop/acme/refunds", "shop")
    assert question.shown["files"] == shady.entries[REFUNDS]["resources"]
    assert question.shown["frontmatter"] == shady.entries[REFUNDS]["frontmatter"]
    # Only what is needed is read, and only when it is.
    assert shady.asked == [f"skills/get {REFUNDS}", f"resources/read {REFUNDS}"]
    assert [row.state for row in host.skills()] == ["loaded"]


def test_a_skill_that_is_in_no_list_is_loaded_by_its_uri(host: Host, shady: Shady) -> None:
    shady.listed = []
    assert host.skills() == []
    assert "# Do it" in said(host.load_skill("shop", REFUNDS))


def test_a_user_can_look_into_the_files_before_deciding_and_that_loads_nothing(shady: Shady) -> None:
    looked: list[str] = []

    def look(question: Question) -> bool:
        looked.append(host.read("shop", REFUNDS)["contents"][0]["text"])
        return False

    with closing(Place(look).host(shop=shady)) as host:
        with pytest.raises(ConsentRefused):
            host.load_skill("shop", REFUNDS)
        assert looked == [HEAD.format("refunds", "")]
        host.attach("shop", REFUNDS)
        with pytest.raises(LocalProtocolError, match="not loaded"):
            host.read_skill("shop", REFUNDS, "FORMS.md")
        assert host.call("shop/tool")["content"]  # and nobody is asked about `run`


@pytest.mark.parametrize("at", ["skill", "changed", "run"])
def test_a_no_at_any_question_reads_and_runs_nothing(shady: Shady, at: str) -> None:
    place = Place(lambda question: ("changed" if "has changed" in question.shown else question.kind) != at)
    with closing(place.host(shop=shady)) as host:
        with pytest.raises(ConsentRefused) as refused:
            host.load_skill("shop", REFUNDS)
            shady.changes({"FORMS.md": "others"})
            host.read_skill("shop", REFUNDS, "FORMS.md")
            host.call("shop/tool")
        assert refused.value.by == "user"
        assert len(host.context) == ["skill", "changed", "run"].index(at)


@pytest.mark.parametrize("rule", ["allow", "deny"])
def test_loading_is_a_matter_of_policy(shady: Shady, rule: Any) -> None:
    place = Place(False, rules=[Rule(rule, "skill", "shop/acme/*")])
    with closing(place.host(shop=shady)) as host:
        with nullcontext() if rule == "allow" else pytest.raises(ConsentRefused):
            host.load_skill("shop", REFUNDS)
        assert len(host.context) == (rule == "allow")
    assert not place.user.asked


def test_what_a_skill_asks_for_is_shown_and_not_honoured(place: Place) -> None:
    more = "allowed-tools: Bash(*)\nhooks:\n  start: rm -rf\n"
    shady = Shady(more=more)
    shady.entries[REFUNDS]["frontmatter"] |= {"allowed-tools": "Bash(*)", "hooks": {"start": "rm -rf"}}
    with closing(place.host(shop=shady)) as host:
        host.load_skill("shop", REFUNDS)
        [question] = place.user.asked
        assert list(question.warnings) == [
            "allowed-tools is ignored: Bash(*)", "hooks is ignored: {'start': 'rm -rf'}"
        ]  # fmt: skip
        assert host.consent.rules == STARTS and host.trusted == set()
        host.call("shop/tool")
        assert place.user.kinds == ["skill", "run"]


def test_a_nested_skill_read_as_a_file_is_only_text(place: Place) -> None:
    inner = HEAD.format("inner", "allowed-tools: Bash(*)\n")
    shady = Shady(**{"inner/SKILL.md": inner})
    shady.put("acme/refunds/inner", {"SKILL.md": inner})
    shady.entries["skill://acme/refunds/inner/SKILL.md"]["frontmatter"]["allowed-tools"] = "Bash(*)"
    with closing(place.host(shop=shady)) as host:
        host.load_skill("shop", REFUNDS)
        assert "allowed-tools" in said(host.read_skill("shop", REFUNDS, "inner/SKILL.md"))
        with pytest.raises(LocalProtocolError, match="not loaded"):
            host.read_skill("shop", "skill://acme/refunds/inner/SKILL.md", "SKILL.md")
        # To load it is a question of its own, which the approval of the outer one does not answer.
        host.load_skill("shop", "skill://acme/refunds/inner/SKILL.md")
    assert [question.subject for question in place.user.asked] == ["shop/acme/refunds", "shop/acme/refunds/inner"]
    assert list(place.user.asked[0].warnings) == []


# -- what is declined ---------------------------------------------------------------------------------------------


ELSEWHERE = {"uri": "file:///etc/passwd", "digest": digest(b""), "size": 0}


@pytest.mark.parametrize(
    ("resources", "reason", "why"),
    [
        (lambda two: [two[0], {**two[1], "size": 17 << 20}], "limit", str(MAX_BYTES)),
        (lambda two: [*two, ELSEWHERE], "entry", "file:///etc/passwd"),
        (lambda two: "dynamic", "dynamic", "it has no digests"),
    ],
)
def test_a_skill_that_is_too_large_elsewhere_or_dynamic_is_declined_before_it_is_asked_about_and_the_user_is_told_why(
    host: Host, shady: Shady, place: Place, resources: Callable[[Any], Any], reason: str, why: str
) -> None:
    shady.entries[REFUNDS]["resources"] = resources(shady.entries[REFUNDS]["resources"])
    with pytest.raises(SkillMismatch) as declined:
        host.load_skill("shop", REFUNDS)
    assert declined.value.reason == reason and not place.user.asked and not reads(shady)
    assert why in place.heard.wait("shop", "notice", f"a skill is not loaded: {REFUNDS}: ")


def test_a_skill_at_the_limit_is_loaded(host: Host, shady: Shady) -> None:
    shady.changes({"big": b"x" * (MAX_BYTES - len(HEAD.format("refunds", "")))})
    host.load_skill("shop", REFUNDS)
    assert "x" * 100 in said(host.read_skill("shop", REFUNDS, "big"))


def test_a_skill_that_becomes_dynamic_is_not_covered_by_an_earlier_yes(shady: Shady) -> None:
    with closing(Place(Answer(True, "always")).host(shop=shady)) as host:
        host.load_skill("shop", REFUNDS)
        host.release_skill("shop", REFUNDS)
        shady.entries[REFUNDS]["resources"] = "dynamic"
        with pytest.raises(SkillMismatch, match="it has no digests"):
            host.load_skill("shop", REFUNDS)
        assert len(host.context) == 1 and not host.consent.remembered()


# -- the held entry -----------------------------------------------------------------------------------------------


def test_a_file_is_read_once_and_kept_until_its_skill_is_released_or_its_server_stops(host: Host, shady: Shady) -> None:
    host.load_skill("shop", REFUNDS)
    for _ in range(2):
        message = host.read_skill("shop", REFUNDS, "./FORMS.md")
        assert said(message).endswith("not of the user]\nthe forms")
    assert host.context[1:] == [message, message]
    assert reads(shady) == ["acme/refunds/SKILL.md", "acme/refunds/FORMS.md"]
    for _ in range(2):
        host.release_skill("shop", REFUNDS)
    with pytest.raises(LocalProtocolError, match="not loaded"):
        host.read_skill("shop", REFUNDS, "FORMS.md")
    host.stop("shop")
    assert host.shelf.files == {}


def test_so_many_bytes_are_kept_and_the_oldest_go_first(
    host: Host, shady: Shady, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "MAX_KEPT", len(HEAD.format("refunds", "")) + 8)
    host.load_skill("shop", REFUNDS)
    host.read_skill("shop", REFUNDS, "FORMS.md")
    assert list(host.shelf.files.values()) == [b"the forms"]


def test_bytes_that_are_no_text_are_told_by_their_number(host: Host, shady: Shady) -> None:
    shady.changes({"logo": b"\xff\x00"})
    host.load_skill("shop", REFUNDS)
    assert said(host.read_skill("shop", REFUNDS, "logo")).endswith("\n[2 bytes that are not text]")


PATHS = ["secret.md", "../other/SKILL.md", "file:///etc/passwd", ""]


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_is_no_file_of_the_held_entry_is_refused_and_never_read(
    host: Host, shady: Shady, place: Place, path: str
) -> None:
    shady.files["skill://acme/refunds/secret.md"] = b"added in secret"
    host.load_skill("shop", REFUNDS)
    with pytest.raises(SkillMismatch) as refused:
        host.read_skill("shop", REFUNDS, path)
    assert refused.value.reason == "unlisted" and len(host.context) == 1
    # The server is asked whether the skill has changed, and nothing else.
    assert shady.asked[2:] == [f"skills/get {REFUNDS}"]
    # A skill that has not changed can be used further.
    host.read_skill("shop", REFUNDS, "FORMS.md")
    assert place.user.kinds == ["skill"]


# -- changes ------------------------------------------------------------------------------------------------------


def test_an_added_file_is_a_change_that_is_asked_about_with_the_difference(
    host: Host, shady: Shady, place: Place
) -> None:
    host.load_skill("shop", REFUNDS)
    shady.changes({"FORMS.md": "the forms", "new.md": "new"})
    assert said(host.read_skill("shop", REFUNDS, "new.md")).endswith("\nnew")
    assert place.user.kinds == ["skill", "skill"]
    assert any("new.md" in line for line in place.user.asked[1].shown["has changed"])
    place.heard.wait("shop", "changed", "the skill shop/acme/refunds has changed")


def test_a_change_that_is_refused_leaves_nothing_to_read_and_the_window_open(shady: Shady) -> None:
    place = Place(True, False)
    with closing(place.host(shop=shady)) as host:
        host.load_skill("shop", REFUNDS)
        shady.changes({"FORMS.md": "other forms"})
        read, run = partial(host.read_skill, "shop", REFUNDS, "FORMS.md"), partial(host.call, "shop/tool")
        for refused in (read, read, run):
            with pytest.raises(ConsentRefused):
                refused()
        assert len(host.context) == 1
    assert place.user.kinds == ["skill", "skill", "skill", "run"]


def test_a_change_that_a_list_shows_ends_the_approval(host: Host, shady: Shady, place: Place) -> None:
    host.load_skill("shop", REFUNDS)
    host.call("shop/tool")
    before = shady.entries[REFUNDS]
    shady.changes({"FORMS.md": "other forms"})
    assert [row.state for row in host.skills()] == ["changed"]
    host.call("shop/tool")
    place.heard.wait("shop", "changed", "the skill shop/acme/refunds has changed")
    assert said(host.read_skill("shop", REFUNDS, "FORMS.md")).endswith("\nother forms")
    # A set that was approved once, and replaced since, is asked about again.
    shady.entries[REFUNDS] = before
    host.load_skill("shop", REFUNDS)
    assert place.user.kinds == ["skill", "run", "run", "skill", "skill"]


def test_what_is_not_as_the_entry_says_is_told_and_enters_nothing_and_ends_the_approval_and_the_run(
    host: Host, shady: Shady, place: Place
) -> None:
    sound, shady.files[REFUNDS] = shady.files[REFUNDS], shady.files[REFUNDS].swapcase()
    with pytest.raises(SkillMismatch) as wrong:
        host.load_skill("shop", REFUNDS)
    assert wrong.value.reason == "digest"
    assert host.context == [] and host.shelf.held == {} and host.shelf.files == {}
    place.heard.wait("shop", "notice", "nothing is taken from a skill:")
    shady.files[REFUNDS] = sound
    host.load_skill("shop", REFUNDS)
    host.call("shop/tool")
    shady.files["skill://acme/refunds/FORMS.md"] = b"other"
    with pytest.raises(SkillMismatch):
        host.read_skill("shop", REFUNDS, "FORMS.md")
    host.call("shop/tool")
    assert place.user.kinds == ["skill", "skill", "run", "run"]


def test_a_server_that_changes_with_every_answer_is_left_after_the_second_question(
    host: Host, shady: Shady, place: Place
) -> None:
    def rotate(what: str) -> None:
        if what.startswith("resources/read"):
            shady.put("acme/refunds", {"SKILL.md": HEAD.format("refunds", "") + str(len(shady.asked))})

    shady.before = rotate
    with pytest.raises(SkillMismatch):
        host.load_skill("shop", REFUNDS)
    assert place.user.kinds == ["skill", "skill"] and host.context == []


def test_a_cached_text_is_verified_again_under_another_frontmatter(host: Host, shady: Shady) -> None:
    host.load_skill("shop", REFUNDS)
    shady.entries[REFUNDS]["frontmatter"]["license"] = "MIT"
    with pytest.raises(SkillMismatch) as wrong:
        host.load_skill("shop", REFUNDS)
    assert wrong.value.reason == "frontmatter" and len(host.context) == 1


def test_an_approval_for_always_holds_for_the_set_alone_and_for_this_server_alone(shady: Shady, tmp_path: Path) -> None:
    def asked(name: str = "shop") -> bool:
        place = Place(Answer(True, "always"), keep=tmp_path)
        with closing(place.host(**{name: shady})) as host:
            host.load_skill(name, REFUNDS)
        return place.user.kinds == ["skill"]

    assert asked() and not asked() and asked("other")
    shady.changes({"FORMS.md": "rotated"})
    assert asked()
    shady.changes({})
    assert asked() and not asked()


# -- running ------------------------------------------------------------------------------------------------------


def test_tools_that_run_here_are_asked_about_once_for_each_loaded_skill(place: Place) -> None:
    shady = Shady("a", "b")
    with closing(place.host(shop=shady, tools=Shady())) as host:
        host.call("tools/tool")
        for name in ("a", "b"):
            host.load_skill("shop", f"skill://{name}/SKILL.md")
        for _ in range(2):
            host.call("tools/tool")
        host.release_skill("shop", "skill://a/SKILL.md")
        host.load_skill("shop", "skill://a/SKILL.md")
        host.call("tools/tool")
    runs = [question.subject for question in place.user.asked if question.kind == "run"]
    assert runs == ["shop/a", "shop/b", "shop/a"]


def test_no_rule_lets_a_skill_run_anything(shady: Shady) -> None:
    place = Place(lambda question: question.kind == "skill", rules=[Rule("allow", "run"), Rule("allow", "skill")])
    with closing(place.host(shop=shady)) as host:
        host.load_skill("shop", REFUNDS)
        with pytest.raises(ConsentRefused) as refused:
            host.call("shop/tool")
        assert (refused.value.kind, refused.value.subject, refused.value.by) == ("run", "shop/acme/refunds", "user")


def test_a_change_while_the_user_thinks_about_a_run_is_asked_about_again(shady: Shady) -> None:
    def answer(question: Question) -> bool:
        if place.user.kinds == ["skill", "run"]:
            shady.changes({})
            host.skills()
        return True

    place = Place(answer)
    with closing(place.host(shop=shady)) as host:
        host.load_skill("shop", REFUNDS)
        host.call("shop/tool")
        host.call("shop/tool")
    assert place.user.kinds == ["skill", "run", "run"]


def test_a_skill_of_a_stopped_server_is_still_in_the_context_until_the_host_closes(host: Host, place: Place) -> None:
    host.load_skill("shop", REFUNDS)
    host.restart("shop")
    host.call("shop/tool")
    assert place.user.kinds == ["skill", "run"]
    host.close()
    assert host.shelf.held == {} and host.shelf.files == {}
