"""Lesson 1: a server and a client in one process.

Era:       stateless
Revision:  2026-07-28, the newest that both sides speak
Page:      server/tools
Needs:     nothing; lesson 0 shows the messages underneath

A server offers *tools*: functions that a model may ask to have called. A client lists them and calls them. Here both
live in one process and talk over memory: no process is started, but every message still travels as JSON text.

    python examples/01_first_server.py
"""

import json

from mcp_ref import Client, Server

server = Server("calculator", version="1.0")


# The name, the first paragraph of the docstring and the type hints are what a client is told of the tool.
@server.tool()
def add(a: int, b: int = 1) -> int:
    """The sum of two numbers."""
    return a + b


# `with` asks the server who it is and what it can do: with `server/discover`, which a client may leave out, or, of an
# older server, with `initialize`, which must come first. At the end it closes the connection. Both sides speak five
# revisions, and use the newest that they share.
with Client(server) as client:
    print("revision", client.revision, "spoken with", client.server_info["name"])

    for tool in client.list_tools():
        print("tool", tool["name"], "-", tool.get("description"))
        print(json.dumps(tool["inputSchema"], indent=2))

    # A result is a plain dict, spelled as on the wire. Its content is a list of blocks, of which text is one kind.
    result = client.call_tool("add", {"a": 2, "b": 3})
    for block in result["content"]:
        if block["type"] == "text":
            print("2 + 3 =", block["text"])

    # Arguments that do not fit the schema never reach the function. The model gets to read what was wrong. (Up to
    # 2025-06-18 they are an error and not a result: lesson 8.)
    result = client.call_tool("add", {"a": "two"})
    print("isError:", result.get("isError"))
    print(json.dumps(result["content"]))

# Output:
#
# revision 2026-07-28 spoken with calculator
# tool add - The sum of two numbers.
# {
#   "type": "object",
#   "properties": {
#     "a": {
#       "type": "integer"
#     },
#     "b": {
#       "type": "integer",
#       "default": 1
#     }
#   },
#   "required": [
#     "a"
#   ],
#   "additionalProperties": false
# }
# 2 + 3 = 5
# isError: True
# [{"type": "text", "text": "Invalid arguments for tool add: a: expected an integer, got a string: \"two\""}]
