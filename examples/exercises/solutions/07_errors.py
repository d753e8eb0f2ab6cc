"""7. Whose error is it? (a server over stdio, 2025-11-25)

A call can go wrong in two ways. The tool ran and failed: the model should read why, and try something else. Or the
request was wrong, for there is no such tool: that is for the program that sent it. Here it is the other way round.

Page: server/tools#error-handling
"""

import json
import sys

ME = {"name": "ratio", "version": "1"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": ME}
PAIR = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
UNKNOWN = {"error": {"code": -32601, "message": "Method not found"}}


def call(name, a=0, b=0):
    if name != "divide":
        return {"error": {"code": -32602, "message": f"no tool is called {name}"}}
    if b == 0:
        return {"result": {"content": [{"type": "text", "text": "nothing can be divided by 0"}], "isError": True}}
    return {"result": {"content": [{"type": "text", "text": str(a // b)}], "isError": False}}


ANSWERS = {
    "initialize": lambda params: {"result": OPENING},
    "ping": lambda params: {"result": {}},
    "tools/list": lambda params: {"result": {"tools": [{"name": "divide", "inputSchema": PAIR}]}},
    "tools/call": lambda params: call(params["name"], **params["arguments"]),
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        outcome = ANSWERS.get(message["method"], lambda params: UNKNOWN)(message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
