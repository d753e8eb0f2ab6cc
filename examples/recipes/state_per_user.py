"""State for each user: what one client puts aside, no other sees; the key is the session, or who asks.

Needs: nothing

    python examples/recipes/state_per_user.py
"""

from collections import defaultdict

from mcp_ref import Client, Context, Server, ToolError, text_of

server = Server("basket")
baskets: dict[str, list[str]] = defaultdict(list)


@server.tool()
def put(item: str, ctx: Context) -> str:
    """Put something into your basket."""
    if ctx.session_key is None:
        # Over HTTP in the stateless era nothing tells clients apart but who they are: give serve_http authenticate=.
        raise ToolError("I cannot tell who you are")
    basket = baskets[ctx.session_key]
    basket.append(item)
    return ", ".join(basket)


if __name__ == "__main__":
    with Client(server) as one, Client(server) as other:
        one.call_tool("put", {"item": "bread"})
        other.call_tool("put", {"item": "milk"})
        print(text_of(one.call_tool("put", {"item": "butter"})), "|", text_of(other.call_tool("put", {"item": "tea"})))

# Output: bread, butter | milk, tea
