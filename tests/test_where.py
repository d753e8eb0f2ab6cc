"""spec_notes/where.md: from each sentence of the specification that a comment upholds to the line below it.

It is made from the comments of the package of the form `# MUST: the sentence in our words (page#heading)`, and of the
prohibitions, which say it as the specification does: `# A server MUST NOT answer a notification (page#heading)`.
`python -m tests.test_where --write` makes it. The place in parentheses may begin with a revision; several are separated
by `;`.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mcp_ref"
WHERE = ROOT / "spec_notes" / "where.md"

PROHIBITIONS = ("MUST NOT", "SHOULD NOT")
LEVEL = re.compile(
    r"(MUST|SHOULD|MAY):\s|(?:^|(?<=[.;:)] ))(?=(?:(?![.;:)] ).)*\b(MUST NOT|SHOULD NOT)\b)",
)
"""Where a sentence begins: with its level, or with the clause that has the keyword of a prohibition."""
PAGES = r"(?:basic|server|client|extensions|schema|changelog|JSON-RPC|RFC)"
PLACE = re.compile(rf"\(((?:20\d\d-\d\d-\d\d/)?{PAGES}[^()]*)\)")
HEAD = """# Where each sentence is upheld

Made from the comments in the code by `python -m tests.test_where --write`. Each line is one sentence of the
specification in our own words, under its page and heading, with the file and the function that upholds it: search this
page for a word of the wire (`Last-Event-ID`, `202`, `Mcp-Session-Id`), and one step takes you to the line.
"""


class Comment(NamedTuple):
    """One sentence that a comment upholds, with its first and its last line; `below` are the lines of code that follow
    the comment.
    """

    place: str
    level: str
    sentence: str
    file: str
    function: str
    line: int
    last: int
    below: str


def comments_of(path: Path) -> Iterator[Comment]:
    """The sentences that a file upholds. ValueError for a comment without its place."""
    text = path.read_text("utf-8")
    lines = text.splitlines()
    owners: list[tuple[int, int, str]] = []

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                name = f"{prefix}{child.name}"
                owners.append((child.lineno, child.end_lineno or child.lineno, name))
                walk(child, f"{name}.")
            else:
                if isinstance(child, ast.Assign | ast.AnnAssign) and not prefix:
                    # A table is named by its name: `TRANSITIONS`.
                    named = child.targets[0] if isinstance(child, ast.Assign) else child.target
                    owners.append((child.lineno, child.end_lineno or child.lineno, ast.unparse(named)))
                walk(child, prefix)

    walk(ast.parse(text), "")
    name = path.relative_to(ROOT).as_posix()
    number = 0
    while number < len(lines):
        start, words = number, list[str]()
        while number < len(lines) and (more := re.match(r"\s*# ?(.*)", lines[number])):
            words.append(more[1])
            number += 1
        number += not words
        if not LEVEL.search(" ".join(words)):
            continue
        inside = [owner for owner in owners if owner[0] <= number + 1 <= owner[1]]
        function = max(inside)[2] if inside else ""
        below = "\n".join(lines[number : number + 12])
        yield from _sentences(words, name, function, start + 1, below)


def _sentences(words: list[str], file: str, function: str, line: int, below: str) -> Iterator[Comment]:
    text, lines = " ".join(words), [line + number for number, each in enumerate(words) for _ in f"{each} "]
    starts = [match.start() for match in LEVEL.finditer(text)]
    for begin, end in zip(starts, [*starts[1:], len(text)], strict=True):
        piece = text[begin:end].strip().rstrip(";")
        level = LEVEL.match(piece)
        assert level is not None
        inside = PLACE.search(piece)
        places = inside or PLACE.search(text[begin:])
        if places is None:
            raise ValueError(f"{file}:{line}: no (page#heading) in {piece!r}")
        # What follows the place is a remark for whoever reads the code.
        sentence = piece[level.end() : inside.start() if inside else None].strip().rstrip(".;,: ")
        sentence = sentence[:1].upper() + sentence[1:] if level[2] else sentence
        for place in places[1].split(";"):
            yield Comment(
                place.strip(), level[1] or level[2], sentence, file, function, lines[begin], lines[end - 1], below
            )


def said(level: str, sentence: str) -> str:
    """A sentence with its level, as a document shows it: a prohibition has its keyword in its place."""
    return sentence.replace(level, f"**{level}**") if level in PROHIBITIONS else f"**{level}** {sentence}"


def reads_wrong(level: str, sentence: str) -> bool:
    """Whether a sentence does not say, read alone, what its level is: only a prohibition has a keyword, and one."""
    found = re.findall(r"\b(?:MUST|SHOULD) NOT\b", sentence)
    there = re.search(rf"^.*\S {level} [a-z]", sentence) if level in PROHIBITIONS else None
    return found != ([level] if level in PROHIBITIONS else []) or (level in PROHIBITIONS and not there)


@cache
def all_comments() -> list[Comment]:
    """Every sentence of every file, by place."""
    found = [each for path in sorted(PACKAGE.rglob("*.py")) for each in comments_of(path)]
    return sorted(found, key=lambda each: (*_page_and_heading(each), each.file, each.line))


def _page_and_heading(comment: Comment) -> tuple[str, str]:
    """Of the place of a comment; of several headings of one page the first."""
    first = re.sub(r"^20\d\d-\d\d-\d\d/", "", comment.place.partition(",")[0])
    page, _, heading = first.partition("#")
    return page, heading


def made() -> str:
    """The text of where.md."""
    out, page, heading = [HEAD], None, None
    for each in all_comments():
        where, section = _page_and_heading(each)
        if where != page:
            out.append(f"\n## {where}\n\n| heading | sentence | where |\n|---|---|---|")
            page, heading = where, None
        revision = re.match(r"20\d\d-\d\d-\d\d", each.place)
        shown = f"{section} ({revision[0]})".strip() if revision else section
        name = each.file.removeprefix("mcp_ref/")
        sentence = said(each.level, each.sentence).replace("|", "\\|")
        link = f"[{name}](../{each.file}) `{each.function}`" if each.function else f"[{name}](../{each.file})"
        out.append(f"| {'' if shown == heading else shown} | {sentence} | {link} |")
        heading = shown
    return "\n".join(out) + "\n"


def test_every_comment_that_upholds_a_sentence_names_its_page() -> None:
    assert len(all_comments()) > 150


def test_a_prohibition_reads_as_the_specification_says_it() -> None:
    assert not [each for each in all_comments() if reads_wrong(each.level, each.sentence)]


def test_which_sentences_read_wrong() -> None:
    assert not reads_wrong("MUST NOT", "A host MUST NOT assume that names are unique.")
    assert not reads_wrong("MUST", "A request has an id.")
    for sentence in (
        "A host assumes that names are unique.",
        "MUST NOT assume that names are unique.",
        "MUST NOT: a host assumes that names are unique.",
        "A host SHOULD NOT assume that names are unique.",
        "A host MUST NOT assume that names are unique, and MUST NOT prefer one.",
    ):
        assert reads_wrong("MUST NOT", sentence), sentence
    assert reads_wrong("MUST", "A host MUST NOT assume that names are unique.")


def test_where_is_made_from_the_comments() -> None:
    assert WHERE.read_text("utf-8") == made(), "run python -m tests.test_where --write"


TWELVE_QUESTIONS = {
    "where is 202 sent?": ("`?202`? ", "send(202"),
    "where is a batch refused?": ("refuse a batch", "InvalidRequest"),
    "where is Last-Event-ID honoured?": ("honour `Last-Event-ID`", "attach(reply, number)"),
    "where is -32042 raised?": ("-32042", "code = -32042"),
    "where is requestState verified?": ("verify a `requestState`", "compare_digest"),
    "where is the progress token chosen?": ("`progressToken` is unique", 'meta["progressToken"] ='),
    "where is `notifications/cancelled` sent on a time-out?": ("`notifications/cancelled` .* timed out", "CANCELLED"),
    "where is a request before `initialize` refused?": ("refuse a request before `initialize`", "raise"),
    "where is Origin checked?": ("check the `Origin`", '_not_allowed("Origin"'),
    "where is the version picked?": ("same `protocolVersion`", "return"),
    "where is tool output validated?": ("conform to the outputSchema", "output_problems"),
    "where is HTTP+SSE fallen back to?": ("fall back to HTTP\\+SSE", "405"),
}
"""What a reader searches where.md for, as a pattern, and what must stand in the lines of code below the comment."""


@pytest.mark.parametrize("question", TWELVE_QUESTIONS)
def test_a_question_is_answered_in_one_hop(question: str) -> None:
    searched, code = TWELVE_QUESTIONS[question]
    found = [each for each in all_comments() if re.search(searched, each.sentence)]
    assert found, f"no sentence of where.md has {searched!r}"
    assert any(code in each.below for each in found), f"{code!r} does not stand below {[each.line for each in found]}"


if __name__ == "__main__" and "--write" in sys.argv:
    WHERE.write_text(made(), "utf-8")
