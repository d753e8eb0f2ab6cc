"""The glossary has every word of the wire, and the Chinese README keeps to it and to README.md."""

from __future__ import annotations

import re
from pathlib import Path

from mcp_ref.errors import STATELESS_ERRORS
from mcp_ref.lab.judge.narrate import METHODS
from mcp_ref.wire.types import ClientCapabilities, ServerCapabilities

ROOT = Path(__file__).parent.parent
GLOSSARY = (ROOT / "spec_notes" / "glossary.md").read_text("utf-8")
ENGLISH, CHINESE = ((ROOT / name).read_text("utf-8") for name in ("README.md", "README.zh.md"))
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in GLOSSARY.splitlines() if line.startswith("| ")
][1:]
TERMS = {row[0] for row in ROWS}
CODES = {-32700, -32600, -32601, -32602, -32603, -32002, -32042, *STATELESS_ERRORS}
CAPABILITIES = {*ClientCapabilities.__annotations__, *ServerCapabilities.__annotations__}
BLOCK = re.compile(r"^```\w*\n.*?^```$", re.MULTILINE | re.DOTALL)
# What the title of a lesson is about; a lesson without a row here is missed.
LESSONS = {
    0: "message", 1: "server", 2: "standard input and output (stdio)", 3: "resource", 4: "completion", 5: "sampling",
    6: "progress", 7: "error", 8: "revision", 9: "trace", 10: "message", 11: "Streamable HTTP", 12: "resumption",
    13: "stateless era", 14: "multi round-trip request", 15: "multi round-trip request", 16: "listening", 17: "caching",
    18: "authorization", 19: "scope", 20: "host", 21: "consent", 22: "model", 23: "task", 24: "task", 25: "extension",
    26: "cancellation", 27: "pagination", 28: "negotiation", 29: "lifecycle", 30: "batch", 31: "finding",
    32: "skill", 33: "recording", 34: "fixture", 35: "app", 36: "app",
}  # fmt: skip


def test_a_row_has_five_cells_and_a_term_one_row() -> None:
    assert {len(row) for row in ROWS} == {5}
    assert len(TERMS) == len(ROWS)
    assert all(row[0] and row[1] and row[3] and row[4] for row in ROWS)


def test_a_chinese_word_stands_for_one_term() -> None:
    assert len({row[1] for row in ROWS}) == len(ROWS)


def test_a_method_or_capability_is_in_the_glossary() -> None:
    assert not [name for name in (*METHODS, *CAPABILITIES) if f"`{name}`" not in GLOSSARY]


def test_every_error_code_has_a_row() -> None:
    assert {str(code) for code in CODES} <= TERMS


def test_what_a_lesson_is_about_has_a_row() -> None:
    assert {int(path.name[:2]) for path in (ROOT / "examples").glob("[0-9][0-9]_*.py")} == set(LESSONS)
    assert set(LESSONS.values()) <= TERMS


def test_words_that_readme_introduces_have_rows() -> None:
    introduced = re.findall(r"(?<!\*)\*(\w+)\*(?!\*)", ENGLISH.partition("## Set up")[0])
    assert introduced
    assert [word for word in introduced if word not in TERMS and word.removesuffix("s") not in TERMS] == []


def test_the_chinese_readme_uses_the_words_of_the_glossary() -> None:
    text = BLOCK.sub("", CHINESE)
    chosen = "".join(row[1] for row in ROWS)
    others = [word for row in ROWS for word in row[2].split("、") if word and " " not in word and word not in chosen]
    assert [word for word in others if len(word) > 1 and word in text] == []


def test_code_in_the_chinese_readme_is_that_of_the_english_one() -> None:
    blocks = BLOCK.findall(CHINESE)
    assert len(blocks) == CHINESE.count("\n```") / 2 >= 5
    assert [block for block in blocks if block not in BLOCK.findall(ENGLISH)] == []


def test_the_chinese_readme_is_short_and_linked_from_line_three() -> None:
    assert len(CHINESE.splitlines()) <= 200
    assert "](README.zh.md)" in ENGLISH.splitlines()[2]


def test_links_of_the_chinese_readme_lead_somewhere() -> None:
    links = [link for link in re.findall(r"\]\(([^()\s]+)\)", CHINESE) if "://" not in link]
    headings = re.findall(r"^## (.+)$", CHINESE, re.MULTILINE)
    lost = [
        link
        for link in links
        if (link[1:] not in headings if link[0] == "#" else not (ROOT / link.partition("#")[0]).exists())
    ]
    assert lost == []


def write() -> None:
    """Put the blocks of README.md into README.zh.md again."""
    english = {block.splitlines()[1]: block for block in BLOCK.findall((ROOT / "README.md").read_text("utf-8"))}
    text = BLOCK.sub(lambda found: english[found[0].splitlines()[1]], CHINESE)
    (ROOT / "README.zh.md").write_text(text, "utf-8")
