"""The start of a process, as far as it can be shown without one."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_ref.kit.process.child import found_on_path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with spaces and an umlaut, and a batch file in it."""
    folder = tmp_path / "Eigene Dateien für MCP"
    folder.mkdir()
    (folder / "npx.cmd").touch(0o755)
    return folder


def test_a_bare_name_is_looked_for_on_the_path_of_the_child(folder: Path) -> None:
    assert found_on_path(["npx.cmd", "-y", "a server"], str(folder)) == [str(folder / "npx.cmd"), "-y", "a server"]
    # What is not found is left to the system, which says so.
    assert found_on_path(["nobody", "x&y"], str(folder)) == ["nobody", "x&y"]


@pytest.mark.parametrize("odd", list('"%!&|<>^\r\n'))
def test_a_batch_file_is_given_no_order_to_the_shell_that_runs_it(folder: Path, odd: str) -> None:
    with pytest.raises(OSError, match="is a batch file, and cmd.exe would read more than a text in its argument"):
        found_on_path([str(folder / "npx.cmd"), "ready", f"a{odd}b"], None)
