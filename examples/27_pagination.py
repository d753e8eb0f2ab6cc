"""Lesson 27: pagination: a long list comes page by page.

Era:       both
Revision:  2024-11-05 to 2026-07-28
Page:      server/utilities/pagination
Needs:     lesson 1

The server decides how long a page is. A result that has a `nextCursor` is not the last page; the client sends the
cursor back as it came, and must not look into it. `list_tools` of the client asks for all pages by itself.

    python examples/27_pagination.py
"""

from mcp_ref import Client, ErrorResponse, Server, TraceEvent

server = Server("shelf", page_size=2)
for name in ("anise", "basil", "cumin", "dill", "endive"):
    server.tool(name=name)(lambda: "a herb")

events: list[TraceEvent] = []
with Client(server, trace=events.append) as client:
    print("all of them:", *(tool["name"] for tool in client.list_tools()))

    # The same by hand, for one page.
    page = client.request("tools/list")
    print("one page:", *(tool["name"] for tool in page["tools"]))

    # A cursor that the server did not make is refused with -32602 (Invalid params).
    try:
        client.request("tools/list", {"cursor": "page 2"})
    except ErrorResponse as problem:
        print("a cursor of one's own:", problem.code)

print()
for event in events:
    message = event.message
    if isinstance(message, dict) and message.get("method") == "tools/list":
        print("C> tools/list, cursor", message["params"].get("cursor"))
    elif isinstance(message, dict) and "tools" in message.get("result", {}):
        print("S<", len(message["result"]["tools"]), "tools, nextCursor", message["result"].get("nextCursor"))

# Output:
#
# all of them: anise basil cumin dill endive
# one page: anise basil
# a cursor of one's own: -32602
#
# C> tools/list, cursor None
# S< 2 tools, nextCursor YmFzaWw=
# C> tools/list, cursor YmFzaWw=
# S< 2 tools, nextCursor ZGlsbA==
# C> tools/list, cursor ZGlsbA==
# S< 1 tools, nextCursor None
# C> tools/list, cursor None
# S< 2 tools, nextCursor YmFzaWw=
# C> tools/list, cursor page 2
