"""Shared by tests: what holds for all tests of the command line, and a terminal for it."""

from __future__ import annotations

import io

import pytest

from mcp_ref.lab.cli import commands


@pytest.fixture(autouse=True)
def no_server_is_said_to_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_SLOW", 60.0)


class Terminal(io.TextIOWrapper):
    """A terminal of some encoding, or else a pipe."""

    def __init__(self, encoding: str, *, terminal: bool = True) -> None:
        super().__init__(io.BytesIO(), encoding=encoding)
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal

    def shown(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(self.encoding)
