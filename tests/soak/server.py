"""The server of the soak: its tools write down each run. Run with a folder, and for HTTP a port."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp_ref import Context, Server, StateKeys

FORM = {"answer": {"type": "string"}}
KEYS = StateKeys([b"the same for whoever comes after one that was killed"])


def build(folder: Path) -> Server:
    server = Server("soak", state_keys=KEYS)
    story = os.open(folder / "story", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def run(key: str) -> str:
        # One write: lines of several processes and threads do not mix.
        os.write(story, f"{key}\n".encode())
        return key

    server.tool("once")(run)
    server.tool("again", annotations={"idempotentHint": True})(run)

    @server.tool()
    def reports(key: str, ctx: Context) -> str:
        for step in range(3):
            ctx.progress(step + 1, message=key)
        return run(key)

    @server.tool()
    def asks(key: str, ctx: Context) -> str:
        answer = ctx.elicit(key, FORM)
        return run(str((answer.get("content") or {}).get("answer")))

    @server.tool()
    def large(key: str) -> str:
        return run(key) + "." * 50_000

    return server


if __name__ == "__main__":
    home = Path(sys.argv[1])
    if len(sys.argv) == 2:
        # For who kills.
        (home / f"pid-{os.getpid()}").touch()
        build(home).run()
    else:
        build(home).run("http", port=int(sys.argv[2]), sse_path="/sse")
