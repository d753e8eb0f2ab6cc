"""What the tests of tasks share: clients that follow tasks, by several ways, and what they ask and are told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from mcp_ref import Client, ErrorResponse, Server, Tasks
from tests.features.task_server import elicit, make_server

CORE, EXTENSION = "2025-11-25", "2026-07-28"
LIMIT = 20.0
NAME: Any = {"name": {"type": "string"}}

in_both_designs = pytest.mark.parametrize("revision", [CORE, EXTENSION])
over_http_too = pytest.mark.parametrize("transport", ["memory", "http"])


def client_of(target: Any, revision: str = CORE, **options: Any) -> Client:
    """A client that follows tasks, and answers the questions of `task_server`."""
    return Client(target, revision=revision, **{"tasks": True, "elicit": elicit, "roots": ["/"], **options})


@contextmanager
def on_http(server: Server, **options: Any) -> Iterator[str]:
    """Give the URL at which a server is served, and close it."""
    with closing(server), server.serve_http(**options) as http:
        yield http.url


@contextmanager
def served(transport: str, server: Server, *arguments: str) -> Iterator[Any]:
    """Give what a client is given as its target."""
    if transport == "http":
        with on_http(server) as url:
            yield url
    else:
        with closing(server):
            command = [sys.executable, "-m", "tests.features.task_server", *arguments]
            yield server if transport == "memory" else command


@contextmanager
def connected(
    server: Server | None = None, transport: str = "memory", revision: str = CORE, **options: Any
) -> Iterator[Client]:
    """A client of a server, both of which are closed."""
    with served(transport, server or make_server()) as target, client_of(target, revision, **options) as client:
        yield client


def engine(server: Server) -> Tasks:
    """The tasks of a server."""
    assert server.tasks is not None
    return server.tasks.tasks


def release(server: Server) -> None:
    """Let the tools of `task_server` go on that wait for it."""
    server.released.set()  # type: ignore[attr-defined]


def refused(client: Client, method: str, params: Any) -> ErrorResponse:
    with pytest.raises(ErrorResponse) as caught:
        client.request(method, params)
    return caught.value


def said(result: Any) -> str:
    """The text of a result."""
    return str(result["content"][0]["text"])
