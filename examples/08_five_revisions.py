"""Lesson 8: one conversation in five revisions.

Era:       both
Revision:  all five
Page:      basic/lifecycle, basic/versioning, server/tools
Needs:     lessons 1 and 7

A revision of the protocol is a date, and either side can be kept to one, or to several. The program below is written
once. In each revision the library leaves out what does not exist there, and says in that revision's way what has
changed: up to 2025-11-25 a session is opened with `initialize`; from 2026-07-28 on each request names its own revision,
and there is nothing to open. In the lists below, + marks what is new, and - what is gone.

    python examples/08_five_revisions.py
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mcp_ref import REVISIONS, Client, ErrorResponse, Server, TraceEvent


@dataclass
class Weather:
    city: str
    degrees: int


server = Server("weather", info={"title": "Weather"})


@server.tool(title="The weather now", annotations={"readOnlyHint": True})
def now(city: str) -> Weather:
    """The weather in a city."""
    return Weather(city, 21)


def compared(names: Iterable[str], before: Iterable[str]) -> str:
    """The names, with + at those that the revision before did not have; and with - those that it had."""
    now, then = list(names), list(before)
    gone = [f"-{name}" for name in then if name not in now]
    return ", ".join([name if name in then or not then else f"+{name}" for name in now] + gone)


sent: list[str] = []
tool: list[str] = []
result: list[str] = []
for revision in REVISIONS:
    events: list[TraceEvent] = []
    before = sent, tool, result
    # `trace=` shows every message, as it is on the wire. All of them have come when the client is closed.
    with Client(server, revision=revision, trace=events.append) as client:
        (found,) = client.list_tools()
        tool, result = list(found), list(client.call_tool("now", {"city": "Lisbon"}))
        try:
            wrong = f"a result, isError: {client.call_tool('now', {}).get('isError')}"
        except ErrorResponse as problem:
            wrong = f"error {problem.code}"
    messages = [event.message for event in events if event.direction == "send"]
    sent = [message["method"] for message in messages[:-1] if isinstance(message, dict)]

    print(revision)
    print("  the client sends:", compared(sent, before[0]))
    print("  a tool has:      ", compared(tool, before[1]))
    print("  its result has:  ", compared(result, before[2]))
    print("  wrong arguments: ", wrong)
print()

# A server that does not speak the revision that a client asks for says which it speaks, and the client uses one of
# those; if it speaks none of them, it leaves.
for names in (["2024-11-05"], ["2025-11-25", "2026-07-28"]):
    some = Server("some", revisions=names)
    with Client(some) as client, Client(some, revision=["2024-11-05", "2025-06-18", names[0]]) as older:
        print(names, "with one that speaks all:", client.revision, "- with an older one:", older.revision)

# Output:
#
# 2024-11-05
#   the client sends: initialize, notifications/initialized, tools/list, tools/call
#   a tool has:       name, description, inputSchema
#   its result has:   content
#   wrong arguments:  error -32602
# 2025-03-26
#   the client sends: initialize, notifications/initialized, tools/list, tools/call
#   a tool has:       name, description, +annotations, inputSchema
#   its result has:   content
#   wrong arguments:  error -32602
# 2025-06-18
#   the client sends: initialize, notifications/initialized, tools/list, tools/call
#   a tool has:       name, +title, description, annotations, inputSchema, +outputSchema
#   its result has:   content, +structuredContent
#   wrong arguments:  error -32602
# 2025-11-25
#   the client sends: initialize, notifications/initialized, tools/list, tools/call
#   a tool has:       name, title, description, annotations, inputSchema, outputSchema
#   its result has:   content, structuredContent
#   wrong arguments:  a result, isError: True
# 2026-07-28
#   the client sends: +server/discover, tools/list, tools/call, -initialize, -notifications/initialized
#   a tool has:       name, title, description, annotations, inputSchema, outputSchema
#   its result has:   +resultType, content, structuredContent, +_meta
#   wrong arguments:  a result, isError: True
#
# ['2024-11-05'] with one that speaks all: 2024-11-05 - with an older one: 2024-11-05
# ['2025-11-25', '2026-07-28'] with one that speaks all: 2026-07-28 - with an older one: 2025-11-25
