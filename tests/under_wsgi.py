"""WSGI servers that we did not write, in processes of their own, with an application of the tests.

`python -m tests.under_wsgi waitress tests.features.mounted:application` serves with one that has no command of its own,
or none that says its port.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
SERVERS = ["wsgiref", "waitress", "gunicorn"]


def children(process: int) -> list[int]:
    """The workers of a server."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


class Running:
    """A WSGI server that runs: which one, its process, its URL, and what it has logged."""

    def __init__(self, kind: str, process: subprocess.Popen[str], url: str, log: list[str]) -> None:
        self.kind, self.process, self.url, self.log = kind, process, url, log


@contextmanager
def under(
    server: str,
    application: str,
    *,
    workers: int = 1,
    threads: int = 32,
    options: Sequence[str] = (),
    env: dict[str, str] | None = None,
) -> Iterator[Running]:
    """Serve an application, "module:name", under a server; skip the test where that is not installed."""
    if server not in ("own", "wsgiref") and importlib.util.find_spec(server) is None:
        pytest.skip(f"{server} is not installed: pip install -e '.[test]'")
    command = [sys.executable, "-m", "tests.under_wsgi", server, application, str(threads)]
    if server == "gunicorn":
        # It keeps a connection for 2 seconds by itself: a client that pauses so long may send into its end.
        command = [sys.executable, "-m", "gunicorn", "-b", "127.0.0.1:0", f"--workers={workers}",
                   f"--threads={threads}", "--graceful-timeout=1", "--keep-alive=60", "--no-control-socket",
                   *options, application]  # fmt: skip
    environ = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    log: list[str] = []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=environ) as process:
        try:
            assert process.stderr is not None
            port, booted = "", 0
            for line in process.stderr:
                log.append(line)
                if found := re.search(r"[Ll]istening at: http://127\.0\.0\.1:(\d+)", line):
                    port = found[1]
                booted += "Booting worker" in line
                if port and booted >= (workers if server == "gunicorn" else 0):
                    break
            assert port, "".join(log)
            # Read on, so that the server is never held up by what it has to say.
            rest = threading.Thread(target=log.extend, args=(process.stderr,), daemon=True)
            rest.start()
            yield Running(server, process, f"http://127.0.0.1:{port}/mcp", log)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def main(server: str, application: str, threads: str) -> None:
    module, _, name = application.partition(":")
    app: Any = getattr(importlib.import_module(module), name)
    if server == "own":
        # Not WSGI: our own server, to compare with.
        service = importlib.import_module(module).server.serve_http()
        print(f"listening at: {service.url.removesuffix('/mcp')}", file=sys.stderr, flush=True)
        service.wait()
        return
    if server == "waitress":
        import waitress.server

        # Looks ahead: only then it hears that a client hangs up while its request runs.
        serving: Any = waitress.server.create_server(
            app, host="127.0.0.1", port=0, threads=int(threads), channel_request_lookahead=1, connection_limit=1000
        )
        port, run = serving.effective_port, serving.run
    else:
        from socketserver import ThreadingMixIn
        from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

        class Threads(ThreadingMixIn, WSGIServer):
            daemon_threads = True

        class Quiet(WSGIRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

        serving = make_server("127.0.0.1", 0, app, Threads, Quiet)
        port, run = serving.server_port, serving.serve_forever
    print(f"listening at: http://127.0.0.1:{port}", file=sys.stderr, flush=True)
    run()


if __name__ == "__main__":
    main(*sys.argv[1:])
