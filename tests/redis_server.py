"""Redis, in a process of its own, that a test can kill, stop and start again at the same port."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.features.conftest import until
from tests.support.machine import free_port


class Redis:
    """One Redis server. Nothing of it is kept on disk."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.url, self._folder = f"redis://127.0.0.1:{self.port}/0", folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            [*command, *options], cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

        def listens() -> bool:
            with socket.socket() as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        until(listens)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It answers nothing, and its connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)


@contextmanager
def redis_server(folder: Path, *, started: bool = True) -> Iterator[Redis]:
    """A Redis server for a test, which is skipped where Redis is not installed."""
    pytest.importorskip("redis", reason="no package redis: pip install -e '.[test]'")
    if shutil.which("redis-server") is None:
        pytest.skip("no redis-server: bash .ci/system-packages, or apt-get install redis-server")
    redis = Redis(folder)
    try:
        if started:
            redis.start()
        yield redis
    finally:
        redis.kill()
