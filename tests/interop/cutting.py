"""A proxy in front of a server, whose connections a test cuts."""

from __future__ import annotations

import socket
import threading
from typing import Self
from urllib.parse import urlsplit

__all__ = ["Proxy"]


class Proxy:
    """Hands bytes to and fro until it is told to cut.

    Attributes:
        url: that of the server, through here.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None and parts.port is not None
        self._server = parts.hostname, parts.port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = parts._replace(netloc=f"127.0.0.1:{self._listening.getsockname()[1]}").geturl()
        self._lock = threading.Lock()  # guards the two fields below
        self._open: list[socket.socket] = []
        self._closed = False
        self._threads = [threading.Thread(target=self._accept)]

    def _accept(self) -> None:
        while True:
            near, _ = self._listening.accept()
            with self._lock:
                if self._closed:
                    near.close()
                    return
                far = socket.create_connection(self._server)
                self._open += [near, far]
                pumps = [threading.Thread(target=_pump, args=ends) for ends in ((near, far), (far, near))]
                self._threads += pumps
            for pump in pumps:
                pump.start()

    def cut(self) -> None:
        """End every connection, in the middle of whatever it carries."""
        with self._lock:
            for end in self._open:
                _shut_down(end)

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._closed = True
        # One more connection, for the accepting thread to see it.
        socket.create_connection(self._listening.getsockname()).close()
        self.cut()
        for thread in self._threads:
            thread.join()
        for end in [self._listening, *self._open]:
            end.close()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass
    _shut_down(sink)


def _shut_down(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
