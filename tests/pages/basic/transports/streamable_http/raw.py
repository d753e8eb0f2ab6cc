"""A client of bytes: says what no library would say, and sees what none would show. Every wait is bounded."""

from __future__ import annotations

import json
import os
import socket
import struct
import threading
from typing import Any, NamedTuple, Self

from tests.pages.basic.transports.streamable_http.replies import BOTH, PATIENCE
from tests.support.clock import until as until


class Answer(NamedTuple):
    """One answer, whole."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def messages(self) -> list[Any]:
        """Those of an event stream."""
        lines = self.body.decode().splitlines()
        return [json.loads(line[6:]) for line in lines if line.startswith("data: ") and line != "data: "]


class Wire:
    """One connection."""

    def __init__(self, address: tuple[str, int], family: int = socket.AF_INET, buffer: int | None = None) -> None:
        self.socket = socket.socket(family)
        if buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(address)
        self._file = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, data: bytes) -> Answer:
        self.send(data)
        return self.answer()

    def head(self) -> tuple[int, dict[str, str]]:
        """The head of the next answer."""
        status = self._file.readline()
        assert status.startswith(b"HTTP/1.1 "), status
        headers: dict[str, str] = {}
        while (line := self._file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return int(status.split()[1]), headers

    def answer(self, *, to_head: bool = False) -> Answer:
        """The next answer, to its end."""
        status, headers = self.head()
        if status in (100, 204, 304) or to_head:
            return Answer(status, headers, b"")
        if headers.get("transfer-encoding") == "chunked":
            return Answer(status, headers, b"".join(iter(self.chunk, b"")))
        if "content-length" in headers:
            return Answer(status, headers, self._file.read(int(headers["content-length"])))
        return Answer(status, headers, self._file.read())

    def chunk(self) -> bytes:
        """The next chunk; nothing for the last."""
        line = self._file.readline()
        assert line, "the connection ended within a body"
        data = self._file.read(int(line, 16))
        assert self._file.readline() == b"\r\n"
        return data

    def rest(self) -> bytes:
        """Return whatever comes until the server closes the connection."""
        return self._file.read()

    def ended(self) -> bool:
        """Whether the server closes the connection, without another word."""
        try:
            return self._file.read(1) == b""
        except ConnectionError:
            return True

    def reset(self) -> None:
        """Hang up in the rudest way."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def request(
    method: str = "POST", path: str = "/mcp", body: bytes = b"", *, version: str = "1.1", **fields: str
) -> bytes:
    """The bytes of a request; fields are named with underscores."""
    headers = {"host": "localhost", **fields}
    if body or method == "POST":
        headers.setdefault("content_length", str(len(body)))
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"{method} {path} HTTP/{version}\r\n{lines}\r\n".encode("latin-1") + body


def post(message: Any, **fields: str) -> bytes:
    """The bytes of a POST of a message."""
    return request(body=json.dumps(message).encode(), content_type="application/json", accept=BOTH, **fields)


def opened(wire: Wire, capabilities: Any = None, **fields: str) -> str:
    """Open a session; its id."""
    info = {"name": "raw", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities or {}, "clientInfo": info}
    answer = wire.ask(post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, **fields))
    assert answer.status == 200, answer
    session = answer.headers["mcp-session-id"]
    ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    fields = {"mcp_session_id": session, "mcp_protocol_version": "2025-11-25", **fields}
    assert wire.ask(post(ready, **fields)).status == 202
    return session


def call(name: str, request_id: Any = 1, **arguments: Any) -> Any:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


def descriptors() -> int:
    """How many this process has open."""
    return len(os.listdir("/proc/self/fd"))


def http_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("mcp-http")]
