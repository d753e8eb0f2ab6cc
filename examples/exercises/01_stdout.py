"""1. Nothing but messages (a server over stdio, 2025-11-25)

This till adds up prices, and every sum is right. Yet many clients give it up before they have seen one: they read
something that they did not expect. Find out what a client reads, and mend it. The clerk at the terminal must still be
told what the till is doing.

Page: basic/transports#stdio
"""

import json
import sys

ME = {"name": "till", "version": "1"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": ME}
PRICES = {"type": "object", "properties": {"prices": {"type": "array", "items": {"type": "number"}}}}


def answer(method, params):
    match method:
        case "initialize":
            return OPENING
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [{"name": "total", "inputSchema": PRICES}]}
        case "tools/call":
            prices = params["arguments"]["prices"]
            print("adding up", len(prices), "prices")
            return {"content": [{"type": "text", "text": str(sum(prices))}]}


print("the till is open")
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        outcome = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
