"""Lesson 11: over HTTP, with a server that any number of clients can reach.

Era:       session
Revision:  2025-11-25, and 2024-11-05 for the old transport
Page:      basic/transports
Needs:     lessons 3, 6 and 10

One URL. Each message of the client is a POST, and the answer comes back with that POST: as JSON or, if the server has
something to say first, as a stream of events. A POST that holds no request gets the status 202: there is nothing to
answer, neither now nor later. What belongs to no request comes on the *standing stream*, which the client opens with
GET. A stream begins with an event that has an id but no message: from there on the client can resume it (lesson 12).

A client of 2024-11-05 uses one stream for everything that it receives, and posts beside it. In 2026-07-28 there are no
sessions, and the POSTs are all that there is (lesson 13).

    python examples/11_over_http.py

The same from a shell, with the server in a process of its own:

    python -m mcp_ref serve examples/weather.py --http
    python -m mcp_ref call forecast city=Lisbon --narrate -- http://127.0.0.1:8000/mcp
"""

import queue
from typing import Any

from mcp_ref import SESSION_REVISIONS, Client, Context, Server, TraceEvent

server = Server("weather")


@server.tool()
def forecast(city: str, ctx: Context, days: int = 3) -> str:
    """The weather in a city, day by day; reports progress to a client that asks for it."""
    ctx.progress(1, days)
    return f"{city}: sun for {days} days"


@server.resource("weather://alerts")
def alerts() -> str:
    """What to be afraid of."""
    return "nothing"


def told(event: TraceEvent) -> str:
    """One line: what HTTP did, and what it carried."""
    http: Any = event.http
    message: Any = event.message or {}
    what = http["method"] if event.direction == "send" else str(http["status"])
    carried = message.get("method") or ("a result" if "result" in message else "")
    kind = http.get("headers", {}).get("content-type", "event" if "eventId" in http else "")
    place = f"{kind} {http.get('eventId', '')}" if event.direction == "receive" else ""
    return f"{'->' if event.direction == 'send' else '<-'} {what:6} {place:18} {carried}".rstrip()


def conversation(url: str) -> list[TraceEvent]:
    """Return what a client sends and gets for a call with a wait in it, and for a change that it has subscribed to."""
    events: list[TraceEvent] = []
    changed: queue.Queue[str] = queue.Queue()
    with Client(
        url,
        revision=SESSION_REVISIONS,
        trace=events.append,
        on_change=lambda method, params: changed.put(params["uri"]),
    ) as client:
        print(f"{client.revision}:", client.call_tool("forecast", {"city": "Oslo"})["content"])
        client.call_tool("forecast", {"city": "Oslo"}, on_progress=lambda *seen: None)
        client.subscribe_resource("weather://alerts")
        server.resource_updated("weather://alerts")
        print(f"{client.revision}: changed:", changed.get(timeout=5))
    # It is not news that the client leaves a stream once it has its answer.
    return [event for event in events if event.http and "end" not in event.http]


# Port 0 takes a free one. Only this machine can reach it, and no page in a browser can.
with server.serve_http(sse_path="/sse") as http:
    new = conversation(http.url)
    # The standing stream is read by a thread of its own: what it brings may stand anywhere between the rest.
    standing = [event for event in new if event.http and event.http["method"] == "GET"]
    print("\nposts, and the end of the session:")
    print("\n".join(told(event) for event in new if event not in standing))
    print("\nthe standing stream:")
    print("\n".join(told(event) for event in standing), end="\n\n")

    # A client that is given the URL of the old transport finds that out, and uses it.
    old = conversation(http.sse_url or "")
    stream = [event for event in old if event.http and event.http["method"] == "GET"]
    print("\nby the old transport, on its one stream:")
    print("\n".join(told(event) for event in stream if event.message))

# Output:
#
# 2025-11-25: [{'type': 'text', 'text': 'Oslo: sun for 3 days'}]
# 2025-11-25: changed: weather://alerts
#
# posts, and the end of the session:
# -> POST                      initialize
# <- 200    application/json   a result
# -> POST                      notifications/initialized
# <- 202
# -> POST                      tools/call
# <- 200    application/json   a result
# -> POST                      tools/call
# <- 200    text/event-stream
# <- 200    event s2-1
# <- 200    event s2-2         notifications/progress
# <- 200    event s2-3         a result
# -> POST                      resources/subscribe
# <- 200    application/json   a result
# -> DELETE
# <- 200
#
# the standing stream:
# -> GET
# <- 200    text/event-stream
# <- 200    event s1-1
# <- 200    event s1-2         notifications/resources/updated
#
# 2024-11-05: [{'type': 'text', 'text': 'Oslo: sun for 3 days'}]
# 2024-11-05: changed: weather://alerts
#
# by the old transport, on its one stream:
# <- 200                       a result
# <- 200                       a result
# <- 200                       notifications/progress
# <- 200                       a result
# <- 200                       a result
# <- 200                       notifications/resources/updated
