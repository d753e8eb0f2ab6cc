"""A partner with a script, over HTTP: as a client, or as the server of one.

Not here:  the script and its other lines, the process (lab/testing/scripted_peer)

    > POST [NAME: VALUE; ...] {...}     as a client: a request, with these headers beside the usual ones; or GET
    < 200 [NAME: VALUE; ...] {...}      its answer, of which any member may be missing here; * is any status
    < POST [NAME: VALUE; ...] {...}     as a server: what must come; "none" is a header that is missing
    > 200 [NAME: VALUE; ...] {...}      its answer

Each exchange has a connection of its own. PORT in a header is the port of the program.
"""

from __future__ import annotations

import io
import json
import re
import selectors
import socket
import time
from contextlib import suppress
from http.client import HTTPException, parse_headers
from pathlib import Path
from typing import Any, Final

from mcp_ref.facts import sse
from mcp_ref.lab.testing.scripted_peer import MAX_OUTPUT, Partner, difference, parsed

_USUAL: Final = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def _parts(line: str) -> tuple[str, dict[str, str], str]:
    """Return a status or a method, headers and a body."""
    first, more, text = re.findall(r"(\S+) ?(?:\[(.*?)\])? ?(.*)", line)[0]
    return first, dict(each.split(": ", 1) for each in more.split("; ") if more), text


class HttpPartner(Partner):
    """One program against one script, over HTTP on this machine."""

    _exchange, _listens = 0, False

    def _connect(self, where: str) -> None:
        # The port stays ours until the end: nobody else gets it by chance, and a server may listen on it all the same.
        self._listening = self._closing.enter_context(socket.socket())
        self._listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listening.bind(("127.0.0.1", 0))
        self._address = self._listening.getsockname()
        if self.role == "client":
            self._listening.listen()
            self._listening.setblocking(False)
            self._run([f"http://127.0.0.1:{self._address[1]}/mcp"], self.out)
        else:
            self._run([str(self._address[1])], self.out)
            self._reach(lambda: socket.create_connection(self._address).close())

    def _transfer(self, near: socket.socket) -> tuple[str, dict[str, str], Any]:
        """Read a request or a response to its end: its first line, its headers in lower case, and its body.

        Of an event stream the body is the response that it brings; of the stream of a GET nothing is waited for.
        """
        self._wire.clear()
        self._selector.register(near, selectors.EVENT_READ, self._wire)
        until, length, message = time.monotonic() + self._patience, None, None
        while True:
            head, whole, body = self._wire.partition(b"\r\n\r\n")
            found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
            length = int(found[1]) if found else 0 if self.role == "client" else MAX_OUTPUT
            if streams := re.search(rb"(?i)\r\ncontent-type: *" + sse.CONTENT_TYPE.encode(), head):
                told = [
                    parsed(event.data.encode()) for event in sse.EventParser(MAX_OUTPUT).feed(bytes(body)) if event.data
                ]
                message = next((each for each in told if not isinstance(each, dict) or "method" not in each), None)
                length = 0 if message is not None or self._listens else MAX_OUTPUT
            if whole and len(body) >= length or not self._open() or not self._take(until - time.monotonic()):
                break
        with suppress(KeyError):
            self._selector.unregister(near)
        self._patience, (first, _, rest) = self._timeout, head.partition(b"\r\n")
        try:
            headers = parse_headers(io.BytesIO(rest + b"\r\n\r\n"))
        except HTTPException as problem:
            self._fail(f"headers that nobody can read came: {problem}")
        shown = {name.lower(): value for name, value in headers.items()}
        return first.decode("latin-1"), shown, message if streams else parsed(body) if body else None

    def _tell(self, mine: bool, message: Any, headers: dict[str, str], **facts: Any) -> None:
        if not mine:
            self.said.append((facts.get("status", headers), message))
        shown = {name.lower(): value for name, value in headers.items()}
        self._note(mine, message, {"exchange": self._exchange, **facts, "headers": shown})

    def _receive(self, otherwise: str = "") -> Any:
        return None  # at the end: nothing comes without a connection

    def _send(self, rest: str) -> None:
        method, more, text = _parts(rest)
        self._exchange, self._listens = self._exchange + 1, method == "GET"
        message = self._filled(text)
        body = b"" if message is None else json.dumps(message).encode()
        headers = _USUAL | {"Host": "127.0.0.1:PORT", "Content-Length": str(len(body))} | more
        headers = {name: value.replace("PORT", str(self._address[1])) for name, value in headers.items()}
        self._tell(True, message, headers, method=method)
        with self._reach(lambda: socket.create_connection(self._address)) as near:
            # Of 1.0, so that the answer comes in one piece, and its end is the end of the connection.
            _write(near, f"{method} /mcp HTTP/1.0", headers, body)
            first, headers, came = self._transfer(near)
        if not re.fullmatch(r"HTTP/1\.\d \d{3}( .*)?", first):
            self._fail("nothing came that is an answer over HTTP")
        self._came = first.split()[1], headers, came
        self._tell(False, came, headers, status=int(self._came[0]))

    def _expect(self, rest: str) -> None:
        if self.role == "client":
            return self._serve(rest)
        self._compare(rest, self._came)

    def _unlike(self, wanted: str, came: Any) -> str:
        """Compare as for a message that comes with a status or a method, and with headers."""
        (first, more, text), (given, headers, message) = _parts(wanted), came
        if first not in ("*", given):
            return f"expected {first}, got {given}"
        shown = {name: headers.get(name.lower(), "none").partition(";")[0] for name in more}
        return difference(more, shown, self._kept, "header") or (super()._unlike(text, message) if text else "")

    def _serve(self, rest: str) -> None:
        """Serve one exchange: the next line of the script is the answer, if what came is what was wanted."""
        self._exchange += 1
        with self._reach(lambda: self._listening.accept()[0], "nothing came") as near:
            first, headers, message = self._transfer(near)
            method = first.split(" ")[0]
            self._tell(False, message, headers, method=method)
            self._compare(rest, (method, headers, message))
            status, more, answer = _parts(self._lines.pop(0).removeprefix("> "))
            reply, more = self._filled(answer), {"Content-Type": "application/json", **more}
            self._tell(True, reply, more, status=int(status))
            _write(near, f"HTTP/1.0 {status} -", more, b"" if reply is None else json.dumps(reply).encode())


def _write(near: socket.socket, first: str, headers: dict[str, str], body: bytes) -> None:
    with suppress(OSError):
        near.sendall("\r\n".join([first, *map(": ".join, headers.items()), "", ""]).encode() + body)


def partner_for(script: str, program: Path, *, seed: int | None = None, timeout: float | None = None) -> Partner:
    """Return the partner that a script wants."""
    kind = HttpPartner if script.startswith("partner http") else Partner
    return kind(script, program, seed=seed, timeout=timeout)
