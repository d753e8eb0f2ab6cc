"""Keys that processes share: checked when they are read, and read again when they change."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from mcp_ref.kit.process.keys import KeyFile, keys_in

OLD, NEW = "o" * 43, "n" * 43 + "="


def put(path: Path, text: str) -> None:
    """Replace a file, as an operator should."""
    beside = path.with_suffix(".new")
    beside.write_text(text)
    os.replace(beside, path)


@pytest.mark.parametrize(
    "text",
    [f"{NEW}\n{OLD}\n", f"{NEW} {OLD}", f"# the keys\n\n{NEW}  # since Monday\r\n  {OLD}"],
)
def test_reads_keys_with_comments_one_a_line_or_with_spaces_between(text: str) -> None:
    assert keys_in(text, "here") == (NEW.encode(), OLD.encode())


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no key was found in here"),
        ("# none\n", "no key was found in here"),
        (f"{NEW}\nsecret\n", "key 2 in here is not 32 random bytes"),
        ("n" * 42, "key 1 in here"),
        ("pass-word!" * 9, "key 1 in here"),
    ],
)
def test_refuses_what_is_not_a_key_without_repeating_it(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem) as refused:
        keys_in(text, "here")
    assert "secret" not in str(refused.value)
    assert "pass-word" not in str(refused.value)


@pytest.mark.parametrize("broken", ["", "half a k", None])
def test_the_keys_read_last_go_on_to_count_while_the_file_is_wrong(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: str | None
) -> None:
    path = tmp_path / "keys"
    put(path, OLD)
    keys = KeyFile(path)
    path.unlink() if broken is None else put(path, broken)
    with caplog.at_level(logging.WARNING):
        assert [keys(), keys()] == [(OLD.encode(),)] * 2
    assert len(caplog.records) == 1
    put(path, NEW)
    assert keys() == (NEW.encode(),)


def test_a_file_is_checked_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        KeyFile(tmp_path / "none")
    put(tmp_path / "empty", "\n")
    with pytest.raises(ValueError, match="no key was found in .*empty"):
        KeyFile(tmp_path / "empty")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError):
        KeyFile(tmp_path / "bytes")
