"""A network between a client and a server, which a test can break."""

from __future__ import annotations

import random
import socket
import struct
import threading
from typing import Self
from urllib.parse import urlsplit

PATIENCE = 20.0


class Link:
    """One connection: the client's end, and the server's; the later of two threads that pass on closes both."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near, self.far = near, far
        self.running = 2
        self.left: float | None = None  # bytes, where they are counted


class Relay:
    """Passes connections on to a server's URL; `cut()` breaks those that there are, `close()` ends it.

    Attributes:
        url: what to connect to instead.
        after: if set, the bytes of an answer after which its connection is broken.
        connections: how many there have been.
    """

    def __init__(self, url: str = "http://127.0.0.1:1") -> None:
        parts = urlsplit(url)
        self._server = parts.hostname, parts.port
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = int(self._listening.getsockname()[1])
        self.url = parts._replace(netloc=f"127.0.0.1:{self.port}").geturl()
        self.after: int | None = None
        self.connections = 0
        self._lock = threading.Lock()  # guards the fields below
        self._links: set[Link] = set()
        self._threads: list[threading.Thread] = []
        self._begin(self._accept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _begin(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, name="test-relay", daemon=True)  # type: ignore[arg-type]
        with self._lock:
            self._threads = [each for each in self._threads if each.is_alive() or each.ident is None] + [thread]
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            self._begin(self._join, near)

    def _join(self, near: socket.socket) -> None:
        try:
            far = self.reach(near)
        except OSError:
            far = None
        if far is None:
            # The server is not there just now.
            near.close()
            return
        link = Link(near, far)
        with self._lock:
            self.connections += 1
            self._links.add(link)
        self._begin(self._pass_on, link, far, near)
        self._pass_on(link, near, far)

    def reach(self, near: socket.socket) -> socket.socket | None:
        """Connect to the server on behalf of this connection; None: it is closed."""
        far = socket.create_connection(self._server, PATIENCE)
        far.settimeout(None)
        return far

    def let_through(self, link: Link, data: bytes, target: socket.socket) -> bytes:
        """Return what is passed on of these bytes; where that is not all, the connection is broken after it."""
        return data if self.after is None or target is link.far else data[: self.after]

    def _pass_on(self, link: Link, source: socket.socket, target: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                passed = self.let_through(link, data, target)
                target.sendall(passed)
                if len(passed) < len(data):
                    break
        except OSError:
            pass
        shut_down(link)
        with self._lock:
            link.running -= 1
            if link.running == 0:
                self._links.discard(link)
                link.near.close()
                link.far.close()

    def cut(self) -> None:
        """Break every connection that there is."""
        with self._lock:
            for link in self._links:
                shut_down(link)

    def close(self) -> None:
        """Break them, and stop accepting."""
        try:
            self._listening.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listening.close()
        self._threads[0].join(PATIENCE)
        self.cut()
        for thread in list(self._threads):
            thread.join(PATIENCE)


def shut_down(link: Link) -> None:
    """End both sides of a connection, for whoever reads or writes them."""
    for end in (link.near, link.far):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class RandomCuts(Relay):
    """Cuts each connection after a random number of bytes, in either direction; every third is not cut at all.

    Args:
        mean: the number on average.

    Attributes:
        cuts: how many there have been.
    """

    def __init__(self, port: int, mean: int, seed: int) -> None:
        self._mean, self._random = mean, random.Random(seed)
        self.cuts = 0
        super().__init__(f"http://127.0.0.1:{port}")

    def let_through(self, link: Link, data: bytes, target: socket.socket) -> bytes:
        if link.left is None:
            lasts = self._random.random() >= 0.67
            link.left = float("inf") if lasts else self._random.expovariate(1 / self._mean)
        link.left -= len(data)
        if link.left >= 0:
            return data
        self.cuts += 1
        if self._random.random() < 0.5:
            # A reset, and not an end.
            target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return data[: int(link.left)]
