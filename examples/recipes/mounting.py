"""Mounting: a part of a server in a module of its own, put into any server, under any prefix, as often as you like.

Needs: nothing

    python examples/recipes/mounting.py

A part is a function that registers. So its tools have the context, questions and progress of the server they are in.
"""

from mcp_ref import Client, Context, Server, contents_bytes, text_of


def counter(server: Server, name: str, start: int = 0) -> None:
    """A part: a counter, with a tool and a resource; `name` begins their names."""
    value = [start]

    @server.tool(f"{name}_add")
    def add(number: int, ctx: Context) -> int:
        """Add to the counter."""
        value[0] += number
        ctx.server.resource_updated(f"counter://{name}")
        return value[0]

    @server.resource(f"counter://{name}", name=name)
    def shown() -> str:
        return f"{name} is {value[0]}"


server = Server("counters")
counter(server, "apples")
counter(server, "pears", 10)

if __name__ == "__main__":
    with Client(server) as client:
        added = [text_of(client.call_tool(name, {"number": 5})) for name in ("apples_add", "pears_add")]
        print(*added, "|", contents_bytes(client.read_resource("counter://pears")["contents"][0]).decode())

# Output: 5 15 | pears is 15
