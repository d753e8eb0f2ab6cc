"""Lesson 12: HTTP that breaks: a stream is resumed, a session is replaced.

Era:       session
Revision:  2025-11-25
Page:      basic/transports
Needs:     lesson 11

The events of a stream have ids. A client whose connection breaks asks for the events after the last one that it has
seen; a server may also close a connection on purpose, and ask the client to come back later. A server that has ended or
forgotten a session answers 404: the client then opens another session, and sends again the message that was refused,
and no other. In the stateless era nothing can be resumed: a request whose answer was lost is sent again, if that does
no harm.

    python examples/12_when_http_breaks.py
"""

import logging
import sys
from typing import Any

from mcp_ref import Client, Context, Recorder, Server, TraceEvent


def build() -> Server:
    server = Server("slow")

    @server.tool()
    def report(ctx: Context) -> str:
        """A report that takes long: the client does not hold a connection meanwhile."""
        ctx.close_stream(retry=10)
        return "all is well"

    return server


def steps(events: list[TraceEvent], after: int) -> str:
    """Return what HTTP did for calls, from an event on, and what it carried."""
    return "\n".join(filter(None, (step(event) for event in events if event.seq > after)))


def step(event: TraceEvent) -> str:
    http: Any = event.http
    message: Any = event.message or {}
    last = http.get("headers", {}).get("last-event-id", "")
    # The standing stream is s1, and what it does may come at any time; s2 is what answers the call.
    if http["method"] != "POST" and not (last or http.get("eventId", "")).startswith("s2-"):
        return ""
    went_on = f" after {last}" if last else ""
    retry = f", come back in {http['retry']} ms" if "retry" in http else ""
    carried = message.get("method") or ("a result" if "result" in message else "")
    what = "the stream ends" if "end" in http else str(http.get("status", http["method"]))
    return f"{'->' if event.direction == 'send' else '<-'} {what}{went_on}{retry} {carried}".rstrip()


# The library's warnings go to the log of the program.
logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="log: %(message)s")

events: list[TraceEvent] = []
with Recorder(events.append) as recorder:
    with build().serve_http() as http, Client(http.url, revision="2025-11-25", trace=recorder) as client:
        opened = recorder.seq
        print(client.call_tool("report")["content"])
print(steps(events, opened), end="\n\n")

# Another server begins at the same port, and knows nothing of the sessions of the first.
events = []
with Recorder(events.append) as recorder:
    first = build().serve_http()
    port = int(first.url.rpartition(":")[2].partition("/")[0])
    with Client(first.url, revision="2025-11-25", trace=recorder) as client:
        first.close()
        opened = recorder.seq
        with build().serve_http(port=port):
            print("after a restart:", client.call_tool("report")["content"])
print(steps(events, opened))

# Output:
#
# [{'type': 'text', 'text': 'all is well'}]
# -> POST tools/call
# <- 200
# <- 200
# <- 200, come back in 10 ms
# <- the stream ends
# -> GET after s2-1
# <- 200 a result
#
# log: the server has ended the session; subscriptions and the log level are lost with it
# after a restart: [{'type': 'text', 'text': 'all is well'}]
# -> POST tools/call
# <- 404
# -> POST initialize
# <- 200 a result
# -> POST notifications/initialized
# <- 202
# -> POST tools/call
# <- 200
# <- 200
# <- 200, come back in 10 ms
# <- the stream ends
# -> GET after s2-1
# <- 200 a result
