"""A server over stdio that dies in mid-call: run with a file, and how often it is to die. Each run of a handler adds a
line to the file, and so does each start; as long as there are fewer deaths in it, a handler that began ends in one."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mcp_ref import Server


def build(story: Path, deaths: int) -> Server:
    server = Server("mortal")

    def live(what: str) -> str:
        with story.open("a") as file:
            file.write(f"{what}\n")
        if story.read_text().count("died\n") < deaths:
            with story.open("a") as file:
                file.write("died\n")
            os._exit(3)
        return what

    server.tool("pay")(lambda: live("pay"))
    server.tool("look", annotations={"readOnlyHint": True})(lambda: live("look"))
    server.tool("put", annotations={"idempotentHint": True})(lambda: live("put"))
    server.resource("story://now")(lambda: live("read"))
    server.prompt("tell")(lambda: live("prompt"))

    @server.tool()
    def change() -> str:
        server.tool("new")(lambda: "new")
        return "changed"

    return server


if __name__ == "__main__":
    path = Path(sys.argv[1])
    with path.open("a") as opened:
        opened.write("started\n")
    build(path, int(sys.argv[2])).run()
