"""A server in ten lines. `python examples/weather.py` waits for a client on standard input; README.md talks to it."""

from mcp_ref import Server

server = Server("weather", version="1.0")


@server.tool()
def forecast(city: str, days: int = 3) -> str:
    """The weather in a city."""
    return f"{city}: sun for {days} days"


if __name__ == "__main__":
    server.run()
