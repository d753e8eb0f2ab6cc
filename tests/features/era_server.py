"""A server over stdio of the revisions that it is run with; its tool `hello` says in which it was called."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mcp_ref import Context, Server


def build(revisions: Sequence[str]) -> Server:
    server = Server("s", revisions=revisions)

    @server.tool()
    def hello(ctx: Context) -> str:
        return str(ctx.revision)

    return server


if __name__ == "__main__":
    build(sys.argv[1:]).run()
