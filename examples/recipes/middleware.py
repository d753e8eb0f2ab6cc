"""Middleware: a decorator around each tool, which measures it, counts it, or refuses a call before it runs.

Needs: nothing

    python examples/recipes/middleware.py
"""

import time
from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

from mcp_ref import Client, Context, Server, ToolError, text_of

server = Server("shop")
calls: Counter[str] = Counter()


def tool(function: Callable[..., Any]) -> Callable[..., Any]:
    """As `@server.tool()`, for every tool of this server; `wraps` keeps its name, its types and its text."""

    @wraps(function)
    def around(*args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()
        try:
            if calls["sell"] >= 2:
                raise ToolError("the shop is closed")
            return function(*args, **kwargs)
        finally:
            calls[function.__name__] += 1
            calls["milliseconds"] += round(1000 * (time.perf_counter() - began))

    return server.tool()(around)


@tool
def sell(what: str, ctx: Context) -> str:
    """Sell something."""
    return f"sold {what} to {ctx.client_info['name']}"


if __name__ == "__main__":
    with Client(server, info={"name": "Ada"}) as client:
        print(*(text_of(client.call_tool("sell", {"what": what})) for what in ("tea", "milk", "bread")), sep=", ")

# Output: sold tea to Ada, sold milk to Ada, the shop is closed
