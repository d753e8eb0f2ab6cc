"""Shared by tests: what holds for all tests of the command line, and servers of this process that it can ask."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from mcp_ref.lab.cli import commands


@pytest.fixture(autouse=True)
def no_server_is_said_to_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_SLOW", 60.0)


@pytest.fixture
def at() -> Iterator[Callable[..., list[str]]]:
    """The words by which the command line asks a server that runs in this process, over HTTP."""
    with ExitStack() as running:
        yield lambda server, **options: ["--", running.enter_context(server.serve_http(**options)).url]


At = Callable[..., list[str]]


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
