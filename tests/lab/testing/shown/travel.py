"""A server that is tested."""

from mcp_ref import Context, Server

server = Server("travel", "1")


@server.tool()
def forecast(city: str, days: int = 3) -> str:
    """Tells the weather in a city."""
    return f"{city}: sun for {days} days"


@server.tool()
def book(city: str, ctx: Context) -> str:
    """Books a trip."""
    answer = ctx.elicit("Where do you want to sit?", {"seat": {"type": "string", "enum": ["window", "aisle"]}})
    return f"{city}: {answer.get('content', {}).get('seat', 'nowhere')}"


if __name__ == "__main__":
    server.run()
