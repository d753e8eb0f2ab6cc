"""Lesson 26: cancellation on the wire: a request that is given up is not answered.

Era:       session
Revision:  2025-11-25
Page:      basic/utilities/cancellation
Needs:     lesson 6

`notifications/cancelled` names the request and, if the sender likes, a reason. The server stops and sends no response.
The notification and the response may cross on their way, so whoever gave up ignores a response that still comes; and a
server ignores a notification about a request that it does not know, or has answered.

This holds for every transport in the session era, where a stream that breaks off cancels nothing. In the stateless era
it holds for stdio; over HTTP a client closes the stream of its request instead, and sends no notification.

    python examples/26_cancellation_on_the_wire.py
"""

import json
import threading

from mcp_ref import Cancel, Client, Context, RequestCancelled, Server, TraceEvent

server = Server("kitchen")


@server.tool()
def ferment(ctx: Context) -> str:
    """Let the dough rest until somebody has had enough."""
    ctx.progress(1, message="resting")
    while True:
        ctx.check_cancelled()
        threading.Event().wait(0.01)


events: list[TraceEvent] = []
with Client(server, revision="2025-11-25", trace=events.append) as client:
    enough = Cancel()
    try:
        # The first report of progress is the sign that the handler runs: then the client gives the call up.
        client.call_tool("ferment", cancel=enough, on_progress=lambda *seen: enough("the guests are here"))
    except RequestCancelled as problem:
        print("the call ended here:", problem)
    client.ping()

# Without the three messages that open the session. Request 2 is never answered.
for event in [event for event in events if event.message is not None][3:]:
    print("C>" if event.direction == "send" else "S<", json.dumps(event.message, separators=(",", ":")))

# Output:
#
# the call ended here: the guests are here
# C> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ferment","_meta":{"progressToken":2}}}
# S< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":2,"progress":1,"message":"resting"}}
# C> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"the guests are here"}}
# C> {"jsonrpc":"2.0","id":3,"method":"ping"}
# S< {"jsonrpc":"2.0","id":3,"result":{}}
