"""`{sentences} NOTE HEADING`: the rows of a note under a heading, each with its code, its tests, the checker's rules.

It stands in the place of the table that the note has there. The comments in the code say which lines uphold a sentence.
"""

from __future__ import annotations

import functools
import html
import inspect
import re
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any

import sources
from docutils import nodes
from folds import details, markup, summary
from sphinx.util.docutils import SphinxDirective

import mcp_ref.lab.judge.check  # noqa: F401  (declares the rules of the checker)
from mcp_ref.lab.judge.rulebook import RULES
from tests.lab.judge.rules import rows as rule_rows
from tests.test_spec_notes import ALL, EDITIONS, SITE, TABLE, Note, Row, having, headings_of, notes, read_note
from tests.test_where import all_comments

ROOT = sources.ROOT
WHY = dict(
    re.findall(
        r"`(table|type|elsewhere|absence|whole)`:\s+(.*?\.)(?=\s+`|\n- )",
        (ROOT / "spec_notes/README.md").read_text("utf-8"),
        re.S,
    )
)
"""What the word means that a row has for code without a comment."""


def with_directives(document: str, text: str) -> str:
    """The text of a note, its tables replaced by the directive."""
    lines, heading, inside = list[str](), "", False
    for line in text.splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ").strip()
        if line == TABLE[0]:
            lines += [f"```{{sentences}} {document}", heading, "```"]
            inside = True
        elif not (inside and line.startswith("|")):
            inside = False
            lines.append(line)
    return "\n".join(lines) + "\n"


@cache
def note_of(document: str) -> Note:
    """A note, read once."""
    return read_note(ROOT / document)


@cache
def rows_by_id() -> dict[str, Row]:
    """The row of each sentence."""
    return {each: row for note in notes() for row in note.rows for each in row.ids}


@cache
def rules_by_id() -> dict[str, dict[str, dict[str, Any]]]:
    """For each sentence the rows of the checker's rules that decide it, by the name of the rule."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for rule in rule_rows():
        for each in rule["ids"] if "rule" in rule else ():
            found.setdefault(each, {})[rule["rule"]] = rule
    return found


@cache
def comments_of(file: str) -> list[Any]:
    """The comments of a file that uphold sentences."""
    return [each for each in all_comments() if each.file == file]


def place_of(reference: str) -> sources.Place | None:
    """Where `file:name` or `file::test[case]` is; None if nothing has that name."""
    file, _, name = reference.partition("[")[0].replace("::", ":").partition(":")
    return sources.definitions(file).get(name) if (ROOT / file).exists() else None


def lit(row: Row, place: sources.Place) -> set[int]:
    """The lines of the comments in a place that uphold a row: of its headings, and of its level where one has that."""
    sections = {each.partition("/")[2].rpartition(".")[0] for each in row.ids}
    inside = [
        c for c in comments_of(place.file) if place.first <= c.line <= place.last and sections & set(headings_of(c))
    ]
    inside = [each for each in inside if each.level == row.level] or inside
    return {number for each in inside for number in range(each.line, each.last + 1)}


def rule_place(name: str) -> sources.Place | None:
    """Where a rule of the checker stands, unwrapped from what declared it."""
    function = getattr(RULES.get(name), "function", None)
    while isinstance(function, functools.partial):
        function = function.func
    written = getattr(inspect.unwrap(function), "__code__", None) if function is not None else None
    if written is None:
        return None
    file = Path(written.co_filename).relative_to(ROOT).as_posix()
    return sources.definitions(file).get(written.co_qualname.replace(".<locals>", ""))


def shown(place: sources.Place, lines: set[int], docname: str, app: Any, ran: Collection[int] = ()) -> markup:
    """The code of a place under its name, which is a link to the page of its file where there is one."""
    name = html.escape(f"{place.file.removeprefix('mcp_ref/')} {place.name}")
    if place.file in sources.files():
        page = f"{sources.way_up(app, docname)}{sources.page_of(place.file)}.html"
        name = f'<a href="{page}#L{place.first}">{name}</a>'
    code = sources.code(place, frozenset(lines), frozenset(ran))
    return markup(html=f'<p class="place">{name}</p>{code}')


def parsed(text: str) -> list[nodes.Node]:
    """Our words as nodes, which the search finds; what stands in backquotes is code."""
    return [
        nodes.literal(part, part) if number % 2 else nodes.Text(part) for number, part in enumerate(text.split("`"))
    ]


def anchor_of(row: Row) -> str:
    """The name of a row within its page: its newest sentence."""
    return row.ids[-1].partition("/")[2].replace("/", "-").replace("#", ".") if row.ids else f"row-{row.line}"


class Sentences(SphinxDirective):
    """See the head. `{sentences}` with ids in the place of a note, one a line, shows the rows that answer these."""

    optional_arguments, has_content = 1, True

    def run(self) -> list[nodes.Node]:
        """Make a part for each row under the heading."""
        if self.arguments:
            rows = [row for row in note_of(self.arguments[0]).rows if row.heading == self.content[0]]
        else:
            rows = [rows_by_id()[each] for each in self.content]
        return [self.part(row) for row in rows]

    def part(self, row: Row) -> nodes.Node:
        """One sentence: a line, and what is beside it."""
        revisions = [each for each in (*ALL, *EDITIONS) if any(name.startswith(f"{each}/") for name in row.ids)]
        rules = {name: rule for each in row.ids for name, rule in rules_by_id().get(each, {}).items()}
        given = {"name": "sentence", "data-level": row.level, "data-revisions": "|".join(revisions)}
        made = details(ids=[anchor_of(row)], classes=["row", *["wide"][: len(self.arguments)]], given=given)
        line = summary(
            "", "", nodes.strong(row.level, row.level, classes=["level"]), nodes.Text(" "), *parsed(row.asked)
        )
        line += nodes.inline("", f" {having(row)}", classes=["revisions"])
        made += line
        beside = nodes.container(classes=["beside"])
        made += beside
        beside += nodes.paragraph("", "", *self.published(row, revisions))
        docname, app = self.env.docname, self.env.app
        if row.reason:
            beside += nodes.paragraph("", "", *parsed(row.reason[:1].upper() + row.reason[1:]))
        if row.why:
            beside += nodes.paragraph("", "", *parsed(" ".join(WHY[row.why].split())))
        places = [place for each in row.code if (place := place_of(each)) is not None]
        for place in places:
            beside += shown(place, lit(row, place), docname, app)
            beside += self.at_work(place)
        tests = [place for each in row.tests if (place := place_of(each)) is not None]
        if tests:
            beside += nodes.rubric("", "Shown by")
            beside += [shown(place, set(), docname, app) for place in dict.fromkeys(tests)]
        if rules:
            beside += nodes.rubric("", "The checker")
        for name, rule in rules.items():
            beside += nodes.paragraph(
                "", "", nodes.literal(name, name), nodes.Text(f" {rule['level']}: "), *parsed(rule["says"])
            )
            if (place := rule_place(name)) is not None:
                beside += shown(place, set(), docname, app)
        return made

    def at_work(self, place: sources.Place) -> list[nodes.Node]:
        """A link to a followed call in which a function runs, if there is one."""
        import followed  # which shows code as this module does

        found = followed.at_work().get((place.file, place.first)) if self.config.language == "en" else None
        if found is None:
            return []
        link = nodes.reference(
            "", f"{found[0].replace('_', ', ')}, step {found[1]}", refuri=f"page:walks/{found[0]}.md#step-{found[1]}"
        )
        return [nodes.paragraph("", "", nodes.Text("At work: "), link)]

    def published(self, row: Row, revisions: list[str]) -> list[nodes.Node]:
        """Links to the published headings, one for each revision; an extension has none."""
        found: list[nodes.Node] = []
        for revision in revisions:
            page, _, item = (
                next(each for each in row.ids if each.startswith(f"{revision}/")).partition("/")[2].partition("#")
            )
            section = item.rpartition(".")[0]
            uri = f"{SITE}/{revision}/{page.removesuffix('/index')}" + (f"#{section.lower()}" if section else "")
            found += [
                nodes.reference("", revision, refuri=uri) if revision in ALL else nodes.Text(revision),
                nodes.Text(" "),
            ]
        return [nodes.Text("As published: "), *found] if found else []


def setup(app: Any) -> None:
    """Register the directive."""
    app.add_directive("sentences", Sentences)
