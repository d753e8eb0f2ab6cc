"""A network between a client and a server, which a test can break."""

from __future__ import annotations

import socket
import threading
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.wire import PATIENCE


class Relay:
    """Passes connections on to a server's URL; `cut()` breaks those that there are, `close()` ends it.

    Attributes:
        url: what to connect to instead.
        connections: how many there have been.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = parts.hostname, parts.port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}{parts.path}"
        self.connections = 0
        self._lock = threading.Lock()  # guards the two fields below
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name="test-relay")  # type: ignore[arg-type]
        with self._lock:
            self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(self._server, PATIENCE)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self.connections += 1
                self._sockets += [near, far]
            self._begin(self._pass_on, near, far)
            self._begin(self._pass_on, far, near)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            _shut_down(end)

    def cut(self) -> None:
        """Break every connection that there is."""
        with self._lock:
            sockets = list(self._sockets)
        for each in sockets:
            _shut_down(each)

    def close(self) -> None:
        """Break them, and stop accepting."""
        _shut_down(self._listening)
        self._listening.close()
        self.cut()
        for thread in self._threads:
            thread.join(PATIENCE)
        for each in self._sockets:
            each.close()


def _shut_down(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
