"""A server on the loopback that says, byte by byte, what a test has written down for it."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

from tests.pages.basic.transports.collector import WAIT

STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


@dataclass
class Asked:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int

    def json(self) -> Any:
        return json.loads(self.body)


class Wire:
    """The end to which an answer is written."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.sock.sendall(piece)

    def until_gone(self) -> None:
        """Wait until the client has hung up."""
        self.sock.settimeout(WAIT)
        try:
            assert self.sock.recv(1) == b""
        except ConnectionError:
            return


Answer = bytes | Callable[[Wire, Asked], bool | None]
"""What is sent; or a function that sends. After bytes the connection is kept, after a function if that returns True."""


class ScriptedServer:
    """Gives the answers to each method in turn, whatever the connection; the last one again and again.

    A GET without a script is refused with 405, a DELETE accepted, and an unexpected POST answered with 500.
    """

    def __init__(self, **answers: Answer | Iterable[Answer]) -> None:
        given = {
            method: [value] if isinstance(value, bytes) or callable(value) else list(value)
            for method, value in answers.items()
        }
        self._answers: dict[str, list[Answer]] = {"GET": [status(405)], "DELETE": [status(200)], "POST": [status(500)]}
        self._answers.update({method.upper(): value for method, value in given.items()})
        self.asked: queue.Queue[Asked] = queue.Queue()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.problems: list[BaseException] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.origin = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self.url = f"{self.origin}/mcp"
        self.connections = 0

    def __enter__(self) -> Self:
        self._accepting = threading.Thread(target=self._accept, name="scripted-accept")
        self._accepting.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *more: object) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._accepting.join(WAIT)
        self._listening.close()
        for sock in list(self._sockets):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self._threads:
            thread.join(WAIT)
            assert not thread.is_alive()
        assert not self.problems or kind is not None, self.problems

    def request(self, method: str | None = None) -> Asked:
        """The next request; it must be of that method."""
        asked = self.asked.get(timeout=WAIT)
        assert method is None or asked.method == method, asked
        return asked

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listening.accept()
            except OSError:
                return
            self.connections += 1
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            thread = threading.Thread(target=self._serve, args=(sock, self.connections), name="scripted")
            self._sockets.append(sock)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket, number: int) -> None:
        try:
            while (asked := _read(sock, number)) is not None:
                with self._lock:
                    script = self._answers[asked.method]
                    answer = script.pop(0) if len(script) > 1 else script[0]
                self.asked.put(asked)
                if isinstance(answer, bytes):
                    sock.sendall(answer)
                elif not answer(Wire(sock), asked):
                    return
        except OSError:
            pass
        except BaseException as problem:
            self.problems.append(problem)
        finally:
            sock.close()


def _read(sock: socket.socket, number: int) -> Asked | None:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = sock.recv(65536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += sock.recv(65536)
    method, path, _ = first.split(" ")
    return Asked(method, path, headers, body, number)


def head(code: int, *headers: str, length: int | None = 0) -> bytes:
    lines = [f"HTTP/1.1 {code} Status", *headers, *([] if length is None else [f"Content-Length: {length}"])]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def status(code: int, *headers: str, body: bytes = b"") -> bytes:
    """A whole answer with that status."""
    return head(code, *headers, length=len(body)) + body


def content(message: Any, *headers: str, code: int = 200) -> bytes:
    """An answer in JSON."""
    return status(code, "Content-Type: application/json", *headers, body=json.dumps(message).encode())


def result(request_id: Any = 1, **members: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": members}


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(message: Any = None, **fields: Any) -> bytes:
    """A chunk with one event."""
    lines = [f"{name}: {value}" for name, value in fields.items()]
    return chunk("\n".join([*lines, f"data: {'' if message is None else json.dumps(message)}", "", ""]).encode())


def stream(*chunks: bytes) -> bytes:
    """A whole event stream."""
    return b"".join([STREAM_HEAD, *chunks, END])


def then(*pieces: bytes, wait: bool = False) -> Answer:
    """Send that and hang up; or leave that to the client."""

    def answer(wire: Wire, asked: Asked) -> None:
        wire.send(*pieces)
        if wait:
            wire.until_gone()

    return answer
