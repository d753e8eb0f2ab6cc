"""One complete vertical, for tests/test_reading_core.py: open, call, report progress, cancel, ping and close.

python -m tests.reading_core TRANSPORT REVISION     prints, as JSON, every function of mcp_ref that ran on either side
python -m tests.reading_core --serve FILE           the server, over stdio; writes what ran here into FILE at its end
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

BLOCKED = ("mcp_ref.recording", "mcp_ref.lab", "mcp_ref.host", "mcp_ref.pages.basic.transports.streamable_http",
           "mcp_ref.pages.basic.transports.http_sse", "mcp_ref.pages.basic.authorization", "requests",
           "jsonschema")  # fmt: skip
seen: set[tuple[str, str]] = set()


class _Blocker:
    """A finder that refuses what a reader of the core need not have."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if any(name == each or name.startswith(f"{each}.") for each in BLOCKED):
            raise ImportError(f"{name} is not part of the reading core")


def watch() -> None:
    """Note each function of the package that runs from here on, in every thread."""
    import mcp_ref

    place = os.path.dirname(os.path.abspath(mcp_ref.__file__)) + os.sep

    def hook(frame: Any, event: str, arg: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(place) and not being_imported(frame):
            seen.add((code.co_filename.removeprefix(place), code.co_qualname))

    def being_imported(frame: Any) -> bool:
        """Whether it runs because a module is imported: what is bound there may be imported, but not called."""
        while frame is not None:
            if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(place):
                return True
            frame = frame.f_back
        return False

    threading.setprofile(hook)
    sys.setprofile(hook)


def make_server() -> Any:
    """A server with a tool that reports progress, and one that waits until it is cancelled."""
    from mcp_ref import Context, Server

    server = Server("core")

    @server.tool()
    def count(steps: int, ctx: Context) -> str:
        for step in range(steps):
            ctx.progress(step + 1, steps)
        return f"{steps} steps"

    @server.tool()
    def wait(ctx: Context) -> str:
        started.set()
        while not ctx.cancelled:
            ctx.check_cancelled()
        return "cancelled"

    return server


started = threading.Event()


def vertical(target: Any, revision: str) -> None:
    """The client's side of it."""
    from mcp_ref import Cancel, Client, RequestCancelled

    reports: list[float] = []
    with Client(target, revision=None if revision == "unpinned" else revision) as client:
        result = client.call_tool("count", {"steps": 3}, on_progress=lambda done, total, text: reports.append(done))
        assert result["content"][0]["text"] == "3 steps" and reports == [1, 2, 3]
        cancel = Cancel()
        timer = threading.Timer(0.1, cancel, args=("enough",))
        timer.start()
        try:
            client.call_tool("wait", {}, cancel=cancel)
        except RequestCancelled:
            pass
        timer.join(5)
        if revision < "2026":
            client.ping()


def main() -> None:
    """See the head."""
    sys.meta_path.insert(0, _Blocker())  # type: ignore[arg-type]
    watch()
    if sys.argv[1] == "--serve":
        try:
            make_server().run()
        finally:
            Path(sys.argv[2]).write_text(json.dumps(sorted(seen)))
        return
    transport, revision = sys.argv[1:]
    if transport == "memory":
        vertical(make_server(), revision)
    else:
        file = Path(tempfile.mkdtemp()) / "seen.json"
        vertical([sys.executable, "-m", "tests.reading_core", "--serve", str(file)], revision)
        seen.update(tuple(each) for each in json.loads(file.read_text()))
    sys.setprofile(None)
    threading.setprofile(None)  # type: ignore[arg-type]
    print(json.dumps(sorted(seen)))


if __name__ == "__main__":
    main()
