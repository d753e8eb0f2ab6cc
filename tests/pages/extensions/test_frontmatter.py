"""pages/extensions/frontmatter: YAML as everybody reads it, and nothing that makes it slow."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_ref.errors import LocalProtocolError
from mcp_ref.pages.extensions import frontmatter
from mcp_ref.pages.extensions.frontmatter import MAX_FRONTMATTER, MAX_LEVELS, read_frontmatter

SAMPLES = Path(__file__).parents[4] / "shared" / "skills" / "yaml_samples.jsonl"


def read(yaml: str) -> dict[str, Any]:
    return read_frontmatter(f"---\n{yaml}\n---\n".encode())


@pytest.mark.parametrize(
    ("yaml", "value"),
    [("no", "no"), ("true", True), ("2026-01-01", "2026-01-01"), ("010", 10), ("0o10", 8), ("0x1F", 31),
     ("1:30", "1:30"), ("1e3", 1000.0), ("~", None), ("", None), ("'1'", "1"), ("[1, b]", [1, "b"]),
     ("{b: 2}", {"b": 2}), ("<<", "<<")],
)  # fmt: skip
def test_values_are_those_of_the_core_schema(yaml: str, value: Any) -> None:
    assert read(f"a: {yaml}") == {"a": value}


@pytest.mark.parametrize(
    "yaml",
    ["a: &x 1", "a: *x", "a: !!str 1", "a: 1\na: 2", "1: a", "? [a]\n: b", "a: .inf", "a: .nan", f"a: {10**17}", "- a",
     "a", "a: b: c", "a: '", "a: \x07", "a: {b: 1, b: 2}"],
)  # fmt: skip
def test_what_readers_disagree_about_or_json_cannot_hold_is_refused(yaml: str) -> None:
    with pytest.raises(ValueError, match="frontmatter"):
        read(yaml)


@pytest.mark.parametrize(
    "text", [b"", b"# A", b"---\na: 1\n", b"--- a\n---\n", b"x\n---\na: 1\n---\n", b"---\na: \xff\n---\n"]
)
def test_a_text_without_frontmatter_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):
        read_frontmatter(text)


def test_a_mark_of_byte_order_and_other_line_ends_are_taken() -> None:
    assert read_frontmatter(b"\xef\xbb\xbf---\r\na: 1\r\n---\r\nrest") == {"a": 1}
    assert read_frontmatter(b"---\na: 1\n---") == {"a": 1}


def test_bombs_end_at_once() -> None:
    began = time.thread_time()
    for yaml in ("a: " + "[" * 5_000, "a: &a [x]\n" + "b: [*a, *a]\n" * 1_000, "a: " + "{b: " * 5_000, "a: 'x"):
        with pytest.raises(ValueError):
            read(yaml)
    assert time.thread_time() - began < 3


def test_size_and_depth_have_bounds() -> None:
    assert read("a: " + "x" * (MAX_FRONTMATTER - 4))
    with pytest.raises(ValueError, match="16 KiB"):
        read("a: " + "x" * MAX_FRONTMATTER)
    assert read("a: " + "[" * (MAX_LEVELS - 2) + "]" * (MAX_LEVELS - 2))
    with pytest.raises(ValueError, match="levels"):
        read("a: " + "[" * MAX_LEVELS + "]" * MAX_LEVELS)


@pytest.mark.skipif(not SAMPLES.exists(), reason="the samples are not beside this checkout")
def test_the_official_sdk_reads_the_same() -> None:
    for line in SAMPLES.read_text("utf-8").splitlines() if SAMPLES.exists() else ():
        sample = json.loads(line)
        theirs = sample["typescript_sdk_2.4.0"]
        try:
            ours = read(sample["yaml"])
        except ValueError:
            continue
        # What it refuses and we read is read alike by the other readers of YAML 1.2.
        assert theirs.startswith("ERR") or json.loads(theirs) == ours, sample


def test_without_pyyaml_there_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    frontmatter._reader.cache_clear()
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(LocalProtocolError, match=r"mcp-ref\[skills\]"):
        read("a: 1")
    frontmatter._reader.cache_clear()
