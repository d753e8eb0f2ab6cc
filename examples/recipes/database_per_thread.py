"""A server with a database: a connection for each thread, for handlers run in several, and all closed at the end.

Needs: nothing

    python examples/recipes/database_per_thread.py
"""

import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from mcp_ref import Client, Context, Server, text_of

server = Server("trips")


class Database(threading.local):
    """The view of one thread: made again in each thread that looks, with the same arguments."""

    def __init__(self, path: Path, opened: list[sqlite3.Connection]) -> None:
        # The last word belongs to the end of the lifespan, in another thread.
        self.connection = sqlite3.connect(path, check_same_thread=False)
        opened.append(self.connection)


@server.lifespan
def database() -> Iterator[Database]:
    opened: list[sqlite3.Connection] = []
    with tempfile.TemporaryDirectory() as folder:
        yield Database(Path(folder, "trips.db"), opened)
        for connection in opened:
            connection.close()


@server.tool()
def book(city: str, ctx: Context) -> int:
    """Book a trip; returns how many there are."""
    with ctx.lifespan.connection as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS trips (city TEXT)")
        connection.execute("INSERT INTO trips VALUES (?)", [city])
        return int(connection.execute("SELECT count(*) FROM trips").fetchone()[0])


if __name__ == "__main__":
    with Client(server) as client:
        print([text_of(client.call_tool("book", {"city": city})) for city in ("Lisbon", "Oslo", "Rome")])

# Output: ['1', '2', '3']
