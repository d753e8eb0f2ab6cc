"""Shared by tests: what holds for all tests of the command line, and servers of this process that it can ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

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


At = Callable[[Any], list[str]]
