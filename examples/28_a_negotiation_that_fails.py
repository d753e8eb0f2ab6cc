"""Lesson 28: a negotiation that fails: two sides that have no revision in common.

Era:       both
Revision:  2024-11-05, 2025-11-25 and 2026-07-28
Page:      basic/lifecycle, basic/versioning
Needs:     lesson 8

In the session era the client names one revision, and the server answers with another if it does not speak that one. A
client that does not speak that other one leaves. A server of the stateless era alone refuses `initialize` with error
-32022, and names what it speaks. A server of the session era alone refuses `server/discover`, with an error of its own
choice: it cannot know the method. A client that speaks several revisions would try another now.

    python examples/28_a_negotiation_that_fails.py
"""

from mcp_ref import Client, McpError, Server, TraceEvent

for speaks, wants in (("2024-11-05", "2025-11-25"), ("2026-07-28", "2025-11-25"), ("2025-11-25", "2026-07-28")):
    events: list[TraceEvent] = []
    print(f"The server speaks {speaks}, the client {wants}:")
    client = Client(Server("calendar", revisions=[speaks]), revision=wants, trace=events.append)
    try:
        client.connect()
    except McpError as problem:
        print(f"  {type(problem).__name__}: {problem}")
    finally:
        client.close()
    for event in events:
        message = event.message if isinstance(event.message, dict) else {}
        if "method" in message:
            print("  C>", message["method"])
        elif "error" in message:
            print("  S<", {name: value for name, value in message["error"].items() if name != "message"})
        elif "result" in message:
            print("  S< protocolVersion", message["result"]["protocolVersion"])

# Output:
#
# The server speaks 2024-11-05, the client 2025-11-25:
#   RemoteProtocolError: the server speaks '2024-11-05', and this client 2025-11-25
#   C> initialize
#   S< protocolVersion 2024-11-05
# The server speaks 2026-07-28, the client 2025-11-25:
#   ErrorResponse: Unsupported protocol version; this server speaks 2026-07-28 (-32022)
#   C> initialize
#   S< {'code': -32022, 'data': {'supported': ['2026-07-28'], 'requested': '2025-11-25'}}
# The server speaks 2025-11-25, the client 2026-07-28:
#   RemoteProtocolError: the server does not speak 2026-07-28: it expects initialize
#   C> server/discover
#   S< {'code': -32600}
