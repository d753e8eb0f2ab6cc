"""Lesson 8: one conversation in five revisions.

A revision is a date. In the first four it is agreed when a session opens; in the fifth each request says its own.
Either side can be pinned to one, or to several. The program below is written once; what a revision does not have is
left out of its messages, and that is all there is to see on the wire.

    python examples/08_five_revisions.py
"""

import json
from dataclasses import dataclass
from typing import Any

from mcp_ref import REVISIONS, Client, ErrorResponse, Server, TraceEvent


@dataclass
class Weather:
    city: str
    degrees: int


server = Server("weather", info={"title": "Weather", "websiteUrl": "https://example.com"})


@server.tool(title="The weather now", annotations={"readOnlyHint": True})
def now(city: str) -> Weather:
    """The weather in a city."""
    return Weather(city, 21)


def members(value: Any, path: str = "") -> list[str]:
    """The names in a message, each with the way to it; what is inside a schema counts as one."""
    if not isinstance(value, dict):
        return [member for each in value for member in members(each, path)] if isinstance(value, list) else []
    found = []
    for name, inner in value.items():
        found.append(path + name)
        if name not in ("inputSchema", "outputSchema"):
            found += members(inner, f"{path}{name}.")
    return found


def conversation(revision: str) -> tuple[list[str], str]:
    """What the server sends in that revision, and what becomes of wrong arguments."""
    events: list[TraceEvent] = []
    # `trace=` shows every message, as it is on the wire. All have come when the client is closed.
    with Client(server, revision=revision, trace=events.append) as client:
        client.list_tools()
        client.call_tool("now", {"city": "Lisbon"})
        try:
            outcome = json.dumps(client.call_tool("now", {})["content"])
        except ErrorResponse as problem:
            outcome = f"error {problem.code}: {problem.message}"
    received = [event.message for event in events if event.direction == "receive"]
    return [member for message in received[:3] for member in members(message)], outcome


before: set[str] = set()
for revision in REVISIONS:
    seen, outcome = conversation(revision)
    print(revision)
    for name in dict.fromkeys(name for name in seen if before and name not in before):
        print("  new:", name)
    print("  wrong arguments:", outcome)
    before |= set(seen)

# A server that does not speak what is asked for says what it speaks. A client that does not speak that leaves.
for names in (["2024-11-05"], ["2025-11-25", "2026-07-28"]):
    some = Server("some", revisions=names)
    with Client(some) as client, Client(some, revision=["2024-11-05", "2025-06-18", names[0]]) as older:
        print(names, "with one that speaks all:", client.revision, "- with an older one:", older.revision)

# Output:
#
# 2024-11-05
#   wrong arguments: error -32602: Invalid arguments for tool now: city: missing
# 2025-03-26
#   new: result.tools.annotations
#   new: result.tools.annotations.readOnlyHint
#   wrong arguments: error -32602: Invalid arguments for tool now: city: missing
# 2025-06-18
#   new: result.serverInfo.title
#   new: result.tools.title
#   new: result.tools.outputSchema
#   new: result.structuredContent
#   new: result.structuredContent.city
#   new: result.structuredContent.degrees
#   wrong arguments: error -32602: Invalid arguments for tool now: city: missing
# 2025-11-25
#   new: result.serverInfo.websiteUrl
#   wrong arguments: [{"type": "text", "text": "Invalid arguments for tool now: city: missing"}]
# 2026-07-28
#   new: result.resultType
#   new: result.supportedVersions
#   new: result.ttlMs
#   new: result.cacheScope
#   new: result._meta
#   new: result._meta.io.modelcontextprotocol/serverInfo
#   new: result._meta.io.modelcontextprotocol/serverInfo.name
#   new: result._meta.io.modelcontextprotocol/serverInfo.version
#   new: result._meta.io.modelcontextprotocol/serverInfo.title
#   new: result._meta.io.modelcontextprotocol/serverInfo.websiteUrl
#   wrong arguments: [{"type": "text", "text": "Invalid arguments for tool now: city: missing"}]
# ['2024-11-05'] with one that speaks all: 2024-11-05 - with an older one: 2024-11-05
# ['2025-11-25', '2026-07-28'] with one that speaks all: 2026-07-28 - with an older one: 2025-11-25
