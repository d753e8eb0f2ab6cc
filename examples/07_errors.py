"""Lesson 7: errors, and who is at fault.

Era:       both
Revision:  2026-07-28, and 2025-11-25 for the last error
Page:      server/tools, basic/index
Needs:     lesson 1

A tool that fails is a *result*: the model is meant to read it, and to try something else. Everything else is an
exception, and its class says who broke what.

    python examples/07_errors.py
"""

import logging
import sys

from mcp_ref import Client, ErrorResponse, LocalProtocolError, McpError, Refusal, Server, ToolError

# If a handler fails by a bug, the server logs the traceback, for whoever runs it. Here we do not want to see it.
logging.disable(logging.ERROR)

server = Server("bank")


@server.tool()
def withdraw(amount: int) -> str:
    """Take money out."""
    if amount > 100:
        raise ToolError("There are only 100 in the account. Ask for less.")
    if amount < 0:
        # A code of this server's own. JSON-RPC keeps -32768 to -32000 for itself, and -1 says in MCP that the user has
        # rejected a request for sampling.
        raise Refusal("Amounts must be positive", {"amount": amount}, code=1001)
    return f"Here are {100 / amount:.0f} coins"


with Client(server) as client:
    # Three failures that are results, with `isError`: the tool says no (500); the tool has a bug, whose traceback stays
    # in the server's log (0); the arguments do not fit, which is a result since 2025-11-25 ("all").
    for amount in (500, 0, "all"):
        result = client.call_tool("withdraw", {"amount": amount})
        for block in result["content"]:
            if block["type"] == "text":
                print("isError", result.get("isError"), "-", block["text"])

    # The server answers with an error of the protocol: an ErrorResponse. A handler does so by raising a Refusal.
    for name, arguments in (("withdraw", {"amount": -1}), ("rob", {})):
        try:
            client.call_tool(name, arguments)
        except ErrorResponse as problem:
            print("ErrorResponse:", problem.code, problem.message, problem.data)

    # You ask for something that the server did not declare: nothing is sent.
    try:
        client.list_prompts()
    except LocalProtocolError as problem:
        print("LocalProtocolError:", problem)

# The server sends something that the specification forbids, here its answer to `initialize`. All of these errors are
# McpErrors.
nonsense = """
import json, sys
request = json.loads(sys.stdin.readline())
print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"protocolVersion": "2025-11-25"}}), flush=True)
sys.stdin.read()
"""
try:
    with Client([sys.executable, "-c", nonsense], revision="2025-11-25"):
        pass
except McpError as problem:
    print(f"{type(problem).__name__}:", problem)

# Output:
#
# isError True - There are only 100 in the account. Ask for less.
# isError True - Error executing tool withdraw: division by zero
# isError True - Invalid arguments for tool withdraw: amount: expected an integer, got a string: "all"
# ErrorResponse: 1001 Amounts must be positive {'amount': -1}
# ErrorResponse: -32602 Unknown tool: rob None
# LocalProtocolError: prompts/list needs the capability server.prompts, which was not declared; see declare=["prompts"]
# RemoteProtocolError: the result of initialize does not fit revision 2025-11-25: result.capabilities is required
