"""The notes under spec_notes/, held against the specification, the code and the tests, in both directions.

A note is a Markdown file with a head (`Pages:`, `Published:`, `Code:`), prose, and short tables of what is asked and
where it is answered. Beside it stands a `.jsonl` file of the same name: a row for each statement, with its level, the
ids of its sentences, the code and the tests. The tables are made from these rows:
`python -m tests.test_spec_notes --write`.
spec_notes/README.md explains the form. All five revisions are counted.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.test_where import Comment, all_comments, reads_wrong, said

ROOT = Path(__file__).parent.parent
NOTES = ROOT / "spec_notes"
SPEC = ROOT.parent / "shared" / "spec"
REPOSITORY = ROOT.parent / "modelcontextprotocol"
"""A clone of the specification's own repository, if there is one beside this checkout."""
ALL = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
EDITIONS = ("stable", "draft", "2026-01-26")
"""Of extensions, which have no revisions: they stand in an id where a revision does elsewhere."""
NO_IDS = "-"
"""In the cell of the ids: the page has no sentence that the specification's data knows."""

BINDING = {"MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "REQUIRED", "RECOMMENDED", "SHALL", "SHALL NOT"}
LEVELS = BINDING | {"MAY", "OPTIONAL"}

SAID_OTHERWISE = {
    # The keywords are in italics.
    "2025-03-26/basic/authorization#server-metadata-discovery.1": "MUST",
    "2025-03-26/basic/authorization#server-metadata-discovery.2": "SHOULD",
    "2025-03-26/basic/authorization#server-metadata-discovery.3": "MUST",
    "2025-03-26/basic/authorization#server-metadata-discovery-headers.1": "SHOULD",
    # One sentence with two of them.
    "2026-07-28/deprecated#.1": "SHOULD NOT",
    "2026-07-28/deprecated#.2": "SHOULD",
    # A page in the repository ext-auth.
    "draft/extensions/oauth-client-credentials#extension-requirements.1": "MUST",
    "draft/extensions/oauth-client-credentials#extension-requirements.2": "MUST",
    "draft/extensions/oauth-client-credentials#client-authentication-methods.1": "MUST",
    "draft/extensions/oauth-client-credentials#client-authentication-methods.2": "RECOMMENDED",
    "draft/extensions/oauth-client-credentials#server-metadata-requirements.1": "MUST",
    "draft/extensions/oauth-client-credentials#server-metadata-requirements.2": "MUST",
    "draft/extensions/oauth-client-credentials#security-considerations.1": "MUST",
}
"""Sentences that the data beside this checkout does not have, with their levels."""

OUT_OF_SCOPE = {}
"""Pages (with everything below them), and sections of pages, that nothing is written for yet, with the reason."""


class Row(NamedTuple):
    """One row of a note; `reason` says "not ours: ..." or "later: ..." for one that no code answers.

    `why` is the word of WHY for code without a comment that says the sentence.
    """

    note: str
    line: int
    heading: str
    asked: str
    level: str
    ids: tuple[str, ...]
    code: tuple[str, ...]
    tests: tuple[str, ...]
    reason: str
    why: str

    def __str__(self) -> str:
        return f"{self.note}:{self.line}"


def having(row: Row) -> str:
    """The revisions, or the editions of an extension, whose sentences a row answers, in few words."""
    found = [each for each in (*ALL, *EDITIONS) if any(name.startswith(f"{each}/") for name in row.ids)]
    if found == list(ALL):
        return "every revision"
    together = " ".join(found) in " ".join(ALL)
    return f"{found[0]} to {found[-1]}" if together and len(found) > 1 else ", ".join(found)


class Note(NamedTuple):
    """One file under spec_notes/, with the rows beside it."""

    path: str
    pages: tuple[str, ...]
    code: tuple[str, ...]
    rows: tuple[Row, ...]


# -- reading ------------------------------------------------------------------------------------------------------

KEYS = {"heading", "asked", "level", "ids", "code", "why", "tests", "not_ours", "later"}

WHY = {"table", "type", "elsewhere", "absence", "whole"}
"""Why no function of a row has a comment under the row's heading: spec_notes/README.md says what each word means."""


def read_note(path: Path) -> Note:
    """The head and the rows of a note; ValueError if it does not have the form."""
    name = path.relative_to(ROOT).as_posix()
    lines = path.read_text("utf-8").splitlines()
    pages, code = _head(name, lines, "Pages:"), _head(name, lines, "Code:")
    data = path.with_suffix(".jsonl")
    rows = tuple(
        _row(data.relative_to(ROOT).as_posix(), number, json.loads(line), pages)
        for number, line in enumerate(data.read_text("utf-8").splitlines(), 1)
    )
    return Note(name, pages, code, rows)


def _head(name: str, lines: list[str], word: str) -> tuple[str, ...]:
    for line in lines:
        if line.startswith(word):
            return tuple(part.strip().strip("`") for part in line.removeprefix(word).split(",") if part.strip())
    raise ValueError(f"{name} has no line {word}")


def _row(name: str, number: int, row: dict[str, Any], pages: tuple[str, ...]) -> Row:
    if not set(row) <= KEYS:
        raise ValueError(f"{name}:{number}: unknown keys {sorted(set(row) - KEYS)}")
    reasons = [f"{kind.replace('_', ' ')}: {row[kind]}" for kind in ("not_ours", "later") if kind in row]
    try:
        ids = () if row["ids"] == NO_IDS else tuple(expand(row["ids"], pages[0]))
    except ValueError as problem:
        raise ValueError(f"{name}:{number}: {problem}") from None
    code, tests = tuple(row.get("code", ())), tuple(row.get("tests", ()))
    reason, why = "; ".join(reasons), row.get("why", "")
    return Row(name, number, row["heading"], row["asked"], row["level"], ids, code, tests, reason, why)


# -- the tables of a note, made from its rows ---------------------------------------------------------------------

TABLE = ("| what is asked | where |", "|---|---|")


def tables(note: Note) -> dict[str, list[str]]:
    """The lines of the table under each heading."""
    found: dict[str, list[str]] = {}
    for row in note.rows:
        places = ", ".join(f"`{place.removeprefix('mcp_ref/')}`" for place in row.code)
        asked = said(row.level, row.asked).replace("|", "\\|")
        found.setdefault(row.heading, list(TABLE)).append(f"| {asked} | {places or row.reason} |")
    return found


def written(note: Note, text: str) -> str:
    """The text of a note with its tables made again from the rows."""
    made, lines, heading, inside = tables(note), list[str](), "", False
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").strip()
        if line == TABLE[0] or line == "<!-- rows -->":
            lines += made.pop(heading, [])
            inside = True
        elif not (inside and line.startswith("|")):
            inside = False
            lines.append(line)
    if made:
        raise ValueError(f"{note.path} has rows for headings that it does not have: {sorted(made)}")
    return "\n".join(lines) + "\n"


def expand(groups: str, page: str) -> Iterator[str]:
    """The ids of a cell: groups of revisions, an optional page, and `#SECTION.N` items, separated by `;`."""
    for group in groups.split(";"):
        words = group.split()
        revisions = [word for word in words if word in (*ALL, *EDITIONS)]
        items = [word for word in words if re.fullmatch(r"#[^#]*\.\d+", word)]
        named = [word for word in words if word not in revisions and word not in items]
        joined = [word for word in named if re.fullmatch(r"[a-z_/-]+#[^#]*\.\d+", word)]
        pages = [word for word in named if word not in joined]
        if not revisions or not (items or joined) or len(pages) > 1:
            raise ValueError(f"not a group of ids: {group.strip()!r}")
        where = pages[0] if pages else page
        for revision in revisions:
            yield from (f"{revision}/{where}{item}" for item in items)
            yield from (f"{revision}/{item}" for item in joined)


FILES = sorted(
    [NOTES / "index.md", NOTES / "deprecated.md", NOTES / "schema.md"]
    + [path for part in ("basic", "server", "client", "extensions") for path in (NOTES / part).rglob("*.md")]
)


@cache
def notes() -> tuple[Note, ...]:
    """Every note that has the form; what has not is a failure of its own."""
    found = []
    for path in FILES:
        with suppress(ValueError):
            found.append(read_note(path))
    return tuple(found)


@cache
def requirements() -> dict[str, dict[str, Any]]:
    """Every requirement of every revision by its id; empty where the specification's data is not there."""
    found: dict[str, dict[str, Any]] = {}
    for file in (
        *(SPEC / revision / "requirements.jsonl" for revision in ALL),
        SPEC.parent / "tasks" / "extension.jsonl",
        SPEC.parent / "skills" / "requirements.jsonl",
        SPEC.parent / "apps" / "requirements.jsonl",
        SPEC.parent / "authorization" / "ema_requirements.jsonl",
    ):
        if file.exists():
            entries = (json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip())
            found.update((entry["id"], entry | {"page": page_of(entry["id"])}) for entry in entries)
    if found:
        said = [(each, level, "") for each, level in SAID_OTHERWISE.items()]
        for each, level, text in (*said, *(sentence for name in ALL for sentence in schema_sentences(name))):
            found.setdefault(each, {"id": each, "page": page_of(each), "level": level, "text": text})
    return found


def page_of(requirement_id: str) -> str:
    return requirement_id.partition("/")[2].partition("#")[0]


KEYWORD = re.compile(r"\b(?:(?:MUST|SHOULD|SHALL)(?: NOT)?|REQUIRED|RECOMMENDED|MAY|OPTIONAL)\b")


def schema_sentences(revision: str) -> Iterator[tuple[str, str, str]]:
    """The id, the level and the text of each sentence of a published schema that has a keyword.

    `#TYPE.N` counts them within a type; what several types have is counted once, in the first of them.
    """
    schema, seen = json.loads((SPEC / revision / "schema.json").read_text("utf-8")), set[str]()
    for name, body in (schema.get("$defs") or schema["definitions"]).items():
        number = 0
        for text in descriptions(body):
            for part in re.split(r"\n\s*\n|\n\s*- |(?<=[.:])\s+(?=[A-Z`*])", text):
                sentence = " ".join(part.split())
                if (word := KEYWORD.search(sentence)) is not None and sentence not in seen:
                    seen.add(sentence)
                    number += 1
                    yield f"{revision}/schema#{name}.{number}", word[0], sentence


def descriptions(value: Any) -> Iterator[str]:
    """Every `description` of a schema, in its order."""
    if isinstance(value, dict):
        if isinstance(value.get("description"), str):
            yield value["description"]
        value = list(value.values())
    for each in value if isinstance(value, list) else ():
        yield from descriptions(each)


needs_the_specification = pytest.mark.skipif(
    not SPEC.exists(), reason="the specification's requirements are not beside this checkout (../shared/spec)"
)


def out_of_scope(requirement_id: str) -> bool:
    """Whether nothing is written for this requirement yet."""
    place = requirement_id.split("/", 1)[1]
    page, _, item = place.partition("#")
    section = f"{page}#{item.rpartition('.')[0]}"
    return any(page == each or page.startswith(f"{each}/") or section == each for each in OUT_OF_SCOPE)


# -- counting -----------------------------------------------------------------------------------------------------


def counts() -> dict[str, Counter[str]]:
    """Per page, of all revisions: requirements in scope, how many a row answers, how many are not ours or for later."""
    rows = {each: row for note in notes() for row in note.rows for each in row.ids}
    pages: dict[str, Counter[str]] = {}
    for each, entry in requirements().items():
        if entry["level"] in BINDING and not out_of_scope(each):
            page = pages.setdefault(entry["page"], Counter())
            page["in scope"] += 1
            page["answered"] += each in rows
            page["not ours"] += each in rows and rows[each].reason.startswith("not ours:")
            page["later"] += each in rows and rows[each].reason.startswith("later:")
    return pages


def summary() -> str:
    """One line for the end of a test run."""
    if not SPEC.exists() or not NOTES.exists():
        return "spec notes: nothing to count them against"
    total: Counter[str] = Counter()
    for page in counts().values():
        total.update(page)
    return (
        f"spec notes: {total['answered']} of {total['in scope']} requirements in scope in {len(ALL)} revisions, "
        f"{total['not ours']} not ours, {total['later']} later"
    )


# -- the specification --------------------------------------------------------------------------------------------


def rows() -> list[Row]:
    return [row for note in notes() for row in note.rows]


def none(wrong: Iterable[object]) -> None:
    """Fail with each of them on a line."""
    assert not (lines := [*map(str, wrong)]), "\n".join(lines)


def test_every_note_has_the_form() -> None:
    assert all(read_note(path).rows for path in FILES)


def test_the_tables_of_a_note_are_made_from_its_rows() -> None:
    texts = {note: (ROOT / note.path).read_text("utf-8") for note in notes()}
    stale = [note.path for note, text in texts.items() if text != written(note, text)]
    assert not stale, "run python -m tests.test_spec_notes --write"


@needs_the_specification
def test_every_id_exists_and_a_row_has_the_level_of_one() -> None:
    known = requirements()
    none(f"{row}: no such requirement: {each}" for row in rows() for each in row.ids if each not in known)
    none(row for row in rows() if row.ids and row.level not in {known[each]["level"] for each in row.ids})


@needs_the_specification
def test_a_row_has_ids_wherever_its_page_has_any() -> None:
    counted = {entry["page"] for entry in requirements().values()}
    none(row for note in notes() if not counted.isdisjoint(note.pages) for row in note.rows if not row.ids)


def test_no_id_has_two_rows() -> None:
    none(each for each, times in Counter(each for row in rows() for each in row.ids).items() if times > 1)


@needs_the_specification
def test_every_binding_requirement_in_scope_has_a_row() -> None:
    answered = {each for row in rows() for each in row.ids}
    asked = ((each, entry) for each, entry in requirements().items() if entry["level"] in BINDING)
    none(f"{each}: {entry['text']}" for each, entry in asked if each not in answered and not out_of_scope(each))


@needs_the_specification
def test_what_is_out_of_scope_exists() -> None:
    places = {each.split("/", 1)[1].rpartition(".")[0] for each in requirements()}
    pages = {entry["page"] for entry in requirements().values()}
    known = places | pages
    unknown = [each for each in OUT_OF_SCOPE if each not in known and not any(p.startswith(f"{each}/") for p in known)]
    assert not unknown


# -- the links to the published pages -----------------------------------------------------------------------------

SITE = "https://modelcontextprotocol.io/specification"


def published(pages: tuple[str, ...], exist: set[str]) -> str:
    """The line of links to the pages of a note, for each revision that has the page; `exist` has REVISION/PAGE."""
    parts = []
    for page in pages:
        # The page of a folder is its index, and is published without that word.
        file = page if any(f"{revision}/{page}" in exist for revision in ALL) else f"{page}/index"
        url = "" if file == "index" else f"/{file.removesuffix('/index')}"
        links = [f"[{revision}]({SITE}/{revision}{url})" for revision in ALL if f"{revision}/{file}" in exist]
        parts.append(f"{page} in {', '.join(links)}")
    return "; ".join(parts)


@cache
def published_pages() -> frozenset[str]:
    """Every page of the specification's repository, as REVISION/PAGE."""
    tree = ["git", "-C", str(REPOSITORY), "ls-tree", "-r", "--name-only", "HEAD", "docs/specification"]
    listed = subprocess.run(tree, capture_output=True, text=True, check=True, timeout=30).stdout
    return frozenset(re.findall(r"^docs/specification/(.*)\.mdx$", listed, re.MULTILINE))


PUBLISHED = [note for note in notes() if not note.path.startswith("spec_notes/extensions/")]
"""The notes of the specification's own pages; an extension has its page in a repository of its own."""


def test_a_note_links_its_published_pages() -> None:
    for note in PUBLISHED:
        lines = (ROOT / note.path).read_text("utf-8").splitlines()
        line = next((line for line in lines if line.startswith("Published: ")), "")
        assert [part.partition(" in ")[0] for part in line.removeprefix("Published: ").split("; ")] == list(note.pages)
        assert all(f"[{revision}]({SITE}/{revision}" in line for revision in re.findall(r"\[([\d-]+)\]", line))


@pytest.mark.skipif(not REPOSITORY.exists(), reason="the specification's repository is not beside this checkout")
def test_each_published_page_of_a_note_is_linked_and_exists() -> None:
    lines = {note: f"Published: {published(note.pages, set(published_pages()))}" for note in PUBLISHED}
    none(
        f"{note.path} should have:\n{line}"
        for note, line in lines.items()
        if line not in (ROOT / note.path).read_text("utf-8").splitlines()
    )


# -- the code -----------------------------------------------------------------------------------------------------


@cache
def names_in(path: str) -> frozenset[str]:
    """Yield what a Python file defines, as qualified names."""

    def walk(body: list[ast.stmt], prefix: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield prefix + node.name
                if isinstance(node, ast.ClassDef):
                    yield from walk(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                yield from (prefix + target.id for target in targets if isinstance(target, ast.Name))
            elif isinstance(node, ast.If | ast.Try):
                yield from walk([*node.body, *node.orelse], prefix)

    file = ROOT / path
    return frozenset(walk(ast.parse(file.read_text("utf-8")).body, "")) if file.is_file() else frozenset()


def test_every_row_names_code_and_a_test_or_says_why_not() -> None:
    none(f"{row}: code or a test is missing" for row in rows() if not row.reason and not (row.code and row.tests))
    reasoned = [row for row in rows() if row.reason]
    none(f"{row}: code, or a reason" for row in reasoned if row.code or not row.reason.partition(":")[2].strip())
    none(f"{row}: names something twice" for row in rows() if len({*row.code, *row.tests}) < len(row.code + row.tests))
    none(
        f"{row}: what is asked, or its level, is missing" for row in rows() if row.level not in LEVELS or not row.asked
    )


POINTS_BACK = re.compile(
    r"[^A-Z0-9`\-]|(?:The same|It|Its|That|Those|These|They|Their|This|So|And|Or|But|Nor|Else|Then|Here|There)\b"
)
"""How a sentence begins that cannot be read without the one before it."""


def test_every_row_can_be_read_alone() -> None:
    none(f"{row}: {row.asked}" for row in rows() if POINTS_BACK.match(row.asked) or row.asked[-1] not in ".)")


def test_a_prohibition_has_its_keyword_in_its_place() -> None:
    none(f"{row}: {row.asked}" for row in rows() if reads_wrong(row.level, row.asked))


def test_the_code_of_every_row_exists() -> None:
    named = ((row, each, *each.split(":", 1)) for row in rows() for each in row.code)
    none(f"{row}: no such code: {each}" for row, each, path, name in named if name not in names_in(path))


def test_the_tests_of_every_row_exist() -> None:
    named = ((row, each, *each.split("::", 1)) for row in rows() for each in row.tests)
    none(
        f"{row}: no such test: {each}"
        for row, each, path, name in named
        if name.replace("::", ".") not in names_in(path) or not name.rpartition("::")[2].startswith("test_")
    )


# -- the code of a row is where the comment stands -----------------------------------------------------------------


def headings_of(comment: Comment) -> Iterator[str]:
    """The place of a comment without its revision, once for each of its headings."""
    page, _, headings = re.sub(r"^20\d\d-\d\d-\d\d/", "", comment.place).partition("#")
    yield from (f"{page}#{heading.strip().lstrip('#')}" for heading in headings.split(","))


@cache
def comments_by_heading() -> dict[str, list[str]]:
    """Under each PAGE#HEADING the functions, as `file:function`, that have a comment of it."""
    found: dict[str, list[str]] = {}
    for comment in all_comments():
        for heading in headings_of(comment):
            found.setdefault(heading, []).append(f"{comment.file}:{comment.function}")
    return found


def commented(code: tuple[str, ...], functions: list[str]) -> bool:
    """Whether one of these functions, or one inside a class or function of `code`, is among them."""
    return any(function == each or function.startswith(f"{each}.") for each in code for function in functions)


def disagreement(row: Row) -> str:
    """Return what is wrong between the code of a row, the comments under its headings, and its `why`; empty if nothing
    is.
    """
    places = {each.partition("/")[2].rpartition(".")[0] for each in row.ids}
    candidates = [function for place in sorted(places) for function in comments_by_heading().get(place, [])]
    if not row.code or not candidates or commented(row.code, candidates):
        return "has a `why`, and needs none" if row.why else ""
    if row.why not in WHY:
        return f"no function of its code has a comment under {sorted(places)}; these have: {sorted(set(candidates))}"
    kinds = {kind_of(reference) for reference in row.code}
    if row.why in {"table", "type"} and row.why not in kinds:
        return f"says {row.why!r}, and its code has none"
    if row.why == "elsewhere" and not commented(row.code, sum(comments_by_heading().values(), [])):
        return "says 'elsewhere', and no function of its code has any comment"
    return ""


def kind_of(reference: str) -> str:
    """Return what `file:name` is: a type begins with a capital letter, a table is written in capitals."""
    name = reference.rpartition(":")[2].rpartition(".")[2].lstrip("_")
    return "table" if name.isupper() else "type" if name[:1].isupper() else "function"


def test_the_code_of_a_row_has_its_comment_or_the_row_says_why_not() -> None:
    none(f"{row}: {found}" for row in rows() if (found := disagreement(row)))


def test_a_row_that_disagrees_with_the_comments_is_found() -> None:
    heading, functions = next(iter(comments_by_heading().items()))
    row = Row("", 0, "", "", "MUST", (f"2025-11-25/{heading}.1",), (functions[0],), (), "", "")
    assert not disagreement(row)
    assert "needs none" in disagreement(row._replace(why="whole"))
    other = row._replace(code=("mcp_ref/errors.py:nothing",))
    assert "no function of its code" in disagreement(other)
    assert "no function of its code" in disagreement(other._replace(why="because"))
    assert "has none" in disagreement(other._replace(why="table"))
    assert "has none" in disagreement(other._replace(why="type"))
    assert "has any comment" in disagreement(other._replace(why="elsewhere"))
    assert not disagreement(other._replace(why="whole"))


def test_the_files_that_a_note_names_exist() -> None:
    folders = ("mcp_ref", "tests", "examples")
    files = [f"/{each.relative_to(ROOT).as_posix()}" for folder in folders for each in (ROOT / folder).rglob("*.py")]
    for path in NOTES.rglob("*.md"):
        named = set(re.findall(r"`((?:[a-z_]+/)*[a-z_]+\.py)`", path.read_text("utf-8")))
        none(f"{path}: {name}" for name in named if not any(file.endswith(f"/{name}") for file in files))


# -- modules and notes name each other ----------------------------------------------------------------------------


def upheld_by(path: Path) -> set[str]:
    """The notes that a module's docstring names."""
    doc = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
    return set(re.findall(r"spec_notes/[\w/-]+\.md", doc))


def test_the_modules_and_notes_that_name_each_other_exist() -> None:
    modules = {path.relative_to(ROOT).as_posix(): upheld_by(path) for path in (ROOT / "mcp_ref").rglob("*.py")}
    none(f"{module}: {note}" for module, named in modules.items() for note in named if not (ROOT / note).is_file())
    assert all(note.code for note in notes())
    named = ((note.path, module) for note in notes() for module in note.code)
    none(f"{module} does not name {note}" for note, module in named if note not in modules.get(module, ()))


# -- the reading itself -------------------------------------------------------------------------------------------


def test_the_revisions_of_a_row_are_told_in_few_words() -> None:
    def told(*revisions: str) -> str:
        return having(Row("n", 1, "h", "a", "MUST", tuple(f"{each}/p#.1" for each in revisions), (), (), "", ""))

    assert told(*ALL) == "every revision"
    assert told("2025-03-26", "2025-06-18") == "2025-03-26 to 2025-06-18"
    assert told("2024-11-05", "2025-06-18") == "2024-11-05, 2025-06-18"
    assert (told("2026-07-28"), told("draft"), told()) == ("2026-07-28", "draft", "")


def test_ids_are_expanded() -> None:
    assert list(expand("2024-11-05 2025-03-26 #a.1 #b-c.2; 2025-06-18 basic/x #.3", "basic/y")) == [
        "2024-11-05/basic/y#a.1",
        "2024-11-05/basic/y#b-c.2",
        "2025-03-26/basic/y#a.1",
        "2025-03-26/basic/y#b-c.2",
        "2025-06-18/basic/x#.3",
    ]
    assert list(expand("2026-07-28 basic/patterns/progress#a.1", "x")) == ["2026-07-28/basic/patterns/progress#a.1"]


@pytest.mark.parametrize(
    "wrong", ["", "#a.1", "2024-11-05", "2024-11-05 #a", "2024-11-05 one two #a.1", "1999-01-01 #a.1"]
)
def test_what_is_not_a_group_of_ids_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="not a group"):
        list(expand(wrong, "x"))


def test_the_sentences_of_a_schema_are_counted_within_their_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = {"description": "Whether. It MUST NOT be sent\n again."}
    types = {
        "A": {
            "description": "A thing: it SHOULD be small. It is.\n- OPTIONAL in a list\n\nmay be",
            "properties": {"x": shared},
        },
        "B": {"properties": {"description": {"description": "You MAY."}, "y": {"items": [shared]}}},
    }
    (tmp_path / "2025-06-18").mkdir()
    (tmp_path / "2025-06-18" / "schema.json").write_text(json.dumps({"definitions": types}), "utf-8")
    monkeypatch.setattr(sys.modules[__name__], "SPEC", tmp_path)
    assert list(schema_sentences("2025-06-18")) == [
        ("2025-06-18/schema#A.1", "SHOULD", "A thing: it SHOULD be small."),
        ("2025-06-18/schema#A.2", "OPTIONAL", "OPTIONAL in a list"),
        ("2025-06-18/schema#A.3", "MUST NOT", "It MUST NOT be sent again."),
        ("2025-06-18/schema#B.1", "MAY", "You MAY."),
    ]


@needs_the_specification
def test_the_schemas_have_as_many_sentences_as_their_note_says() -> None:
    texts = {text for revision in ALL for _, _, text in schema_sentences(revision)}
    assert f"sentences of their own: {len(texts)} with" in (NOTES / "schema.md").read_text("utf-8")


if __name__ == "__main__" and "--write" in sys.argv:
    for each in notes():
        (ROOT / each.path).write_text(written(each, (ROOT / each.path).read_text("utf-8")), "utf-8")
