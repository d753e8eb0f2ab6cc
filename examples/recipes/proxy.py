"""A proxy: the tools of another server as one's own, with their progress and questions; giving up passes on, too.

Needs: nothing

    python examples/recipes/proxy.py

The other server may be a command, or a URL. Each call has a connection of its own, so that a question finds its call.
In the stateless era a call that asks begins again in each round, there and here. Over HTTP in that era nobody tells
that a client has hung up while the other server is silent: then the call there ends by its time limit.
"""

from collections.abc import Callable
from typing import Any

from mcp_ref import Cancel, Client, Context, Server, text_of

far = Server("far")


@far.tool()
def book(city: str, ctx: Context) -> str:
    """Book a trip."""
    seat = ctx.elicit("Which seat?", {"seat": {"type": "string"}}).get("content", {}).get("seat", "any")
    ctx.progress(1, 2, "paying")
    return f"{city}, seat {seat}"


def proxy_of(target: Any) -> Server:
    """A server with the tools that the target has now."""
    server = Server("near")

    def forwarding(name: str) -> Callable[..., Any]:
        def forward(ctx: Context, arguments: dict[str, Any]) -> Any:
            give_up = Cancel()
            ctx.incoming.attach(give_up)
            with Client(target, elicit=lambda message, schema: ctx.elicit(message, schema)) as other:
                return other.call_tool(name, arguments, on_progress=ctx.progress, cancel=give_up)

        return forward

    with Client(target) as other:
        for tool in other.list_tools():
            name, says, takes = tool["name"], tool.get("description"), tool["inputSchema"]
            server.tool(name, description=says, input_schema=takes)(forwarding(name))
    return server


if __name__ == "__main__":
    with Client(proxy_of(far), elicit=lambda message, schema: {"seat": "12A"}) as client:
        told: list[Any] = []
        booked = client.call_tool("book", {"city": "Oslo"}, on_progress=lambda *more: told.append(more[2]))
        print(text_of(booked), "|", *told)

# Output: Oslo, seat 12A | paying
