"""A proxy that cuts each connection after a random number of bytes, in either direction."""

from __future__ import annotations

import random
import socket
import struct
import threading


class CuttingProxy:
    """Listens on a port of its own; `close()` ends it.

    Args:
        port: of the server.
        mean: bytes after which a connection is cut, on average; every third is not cut at all.

    Attributes:
        port: to connect to instead. cuts: how many there have been.
    """

    def __init__(self, port: int, mean: int, seed: int) -> None:
        self._target, self._mean, self._random = port, mean, random.Random(seed)
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = int(self._listening.getsockname()[1])
        self.cuts = 0
        self._lock = threading.Lock()  # guards the field below
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, name="soak-proxy", daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            near, _ = self._listening.accept()
            if self._target == 0:
                near.close()
                return
            far = socket.socket()
            try:
                far.connect(("127.0.0.1", self._target))
            except OSError:
                # The server is dead just now.
                near.close()
                far.close()
                continue
            left = [self._random.expovariate(1 / self._mean) if self._random.random() < 0.67 else float("inf")]
            with self._lock:
                self._open |= {near, far}
            pair = [threading.Thread(target=self._pass_on, args=(*ends, left), name="soak-proxy", daemon=True)
                    for ends in ((near, far), (far, near))]  # fmt: skip
            for thread in pair:
                thread.start()
            self._threads = [each for each in self._threads if each.is_alive()] + pair

    def _pass_on(self, source: socket.socket, target: socket.socket, left: list[float]) -> None:
        try:
            while data := source.recv(65536):
                left[0] -= len(data)
                if left[0] < 0:
                    target.sendall(data[: int(left[0])])
                    self.cuts += 1
                    if self._random.random() < 0.5:
                        # A reset, and not an end.
                        target.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    break
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        with self._lock:
            # The later of the two closes both.
            if source not in self._open:
                source.close()
                target.close()
            self._open -= {source, target}

    def close(self) -> None:
        """End every connection, and wait for the threads."""
        self._target = 0
        socket.create_connection(("127.0.0.1", self.port)).close()
        with self._lock:
            for end in self._open:
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
        for thread in self._threads:
            thread.join(5)
        self._listening.close()
