"""6. Say what you can (a server over stdio, 2025-11-25)

While it bakes, this oven tells how hot it is. Some clients show that, others show nothing, and a strict one complains
that nobody told it. The oven must go on telling, and every client must be able to know that before it asks.

Page: server/utilities/logging#capabilities
"""

import json
import sys

ME = {"name": "oven", "version": "1"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": ME}
CAKE = {"type": "object", "properties": {"cake": {"type": "string"}}, "required": ["cake"]}


def bake(cake):
    news = {"method": "notifications/message", "params": {"level": "info", "data": "180 degrees"}}
    print(json.dumps({"jsonrpc": "2.0", **news}), flush=True)
    return {"content": [{"type": "text", "text": f"one {cake}"}]}


def answer(method, params):
    match method:
        case "initialize":
            return OPENING
        case "ping" | "logging/setLevel":
            return {}
        case "tools/list":
            return {"tools": [{"name": "bake", "inputSchema": CAKE}]}
        case "tools/call":
            return bake(params["arguments"]["cake"])


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        outcome = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
