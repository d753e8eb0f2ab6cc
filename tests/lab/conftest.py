"""Shared by tests: servers of this process that the command line can ask, and whether another process has ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

At = Callable[..., list[str]]


@pytest.fixture
def at() -> Iterator[At]:
    """The words by which the command line asks a server that runs in this process, over HTTP."""
    with ExitStack() as running:
        yield lambda server, **options: ["--", running.enter_context(server.serve_http(**options)).url]


def is_gone(number: int) -> bool:
    """Whether a process has ended; one that nobody has waited for yet is a zombie."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
