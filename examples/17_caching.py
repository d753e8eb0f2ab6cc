"""Lesson 17: how long a result may be kept.

Era:       stateless
Revision:  2026-07-28
Page:      server/utilities/caching
Needs:     lessons 3 and 16

Since 2026-07-28 a server says with its lists, and with the contents of resources, for how long they hold (`ttlMs`), and
whether they are the same for everybody (`cacheScope`). A client keeps them for so long, and asks again when it is told
of a change.

    python examples/17_caching.py
"""

from typing import Any

from mcp_ref import CacheHint, Client, Recorder, Server, TraceEvent

server = Server("library", cache={"tools/list": CacheHint(3600, "public"), "resources/read": CacheHint(60, "private")})
books = {"dune": "on loan"}


@server.resource("book://{title}")
def book(title: str) -> str:
    """Where a book is."""
    return books[title]


@server.tool()
def put(title: str, where: str) -> None:
    """Put a book somewhere."""
    books[title] = where
    server.resource_updated(f"book://{title}")


asked: list[str] = []


def note(event: TraceEvent) -> None:
    message: Any = event.message
    if event.direction == "send" and message.get("method") in ("tools/list", "resources/read"):
        asked.append(message["method"])


def state(client: Client) -> str:
    contents: Any = client.read_resource("book://dune")["contents"]
    return str(contents[0]["text"])


with Recorder(note) as recorder, Client(server, trace=recorder) as client:
    result: Any = client.read_resource("book://dune")
    print({name: result[name] for name in ("ttlMs", "cacheScope")})
    print(state(client), "-", state(client), "-", [tool["name"] for tool in client.list_tools() + client.list_tools()])

    # Nobody tells this client of the change: it uses what it keeps, at most a minute old, as the server allowed.
    client.call_tool("put", {"title": "dune", "where": "on the shelf"})
    print("kept:", state(client))
    # A call may ask the server all the same; the new answer is kept.
    fresh: Any = client.read_resource("book://dune", cached=False)["contents"]
    print("asked:", fresh[0]["text"])
    print("kept:", state(client))

    # A client that listens is told, and forgets with the notification what it kept of the resource.
    with client.listen(resources=["book://dune"]) as events:
        client.call_tool("put", {"title": "dune", "where": "in repair"})
        events.get(timeout=5)
        print("told, and asked:", state(client))

print("requests:", asked)

# One switch turns it off.
asked.clear()
with Recorder(note) as recorder, Client(server, trace=recorder, cache=False) as client:
    print(state(client), "-", state(client))
print("requests:", asked)

# Output:
#
# {'ttlMs': 60000, 'cacheScope': 'private'}
# on loan - on loan - ['put', 'put']
# kept: on loan
# asked: on the shelf
# kept: on the shelf
# told, and asked: in repair
# requests: ['resources/read', 'tools/list', 'resources/read', 'resources/read']
# in repair - in repair
# requests: ['resources/read', 'resources/read']
