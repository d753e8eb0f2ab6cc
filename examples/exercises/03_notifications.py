"""3. Not everything wants an answer (a server over stdio, 2025-11-25)

A strict client hangs up on this parrot as soon as the session is open; another says "a response came to a request
that I have never sent". One kind of message must not be answered. What did the parrot answer?

Page: basic/index#notifications
"""

import json
import sys

ME = {"name": "parrot", "version": "1"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": ME}
WORDS = {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]}


def answer(method, params):
    match method:
        case "initialize":
            return OPENING
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [{"name": "say", "inputSchema": WORDS}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": params["arguments"]["words"]}]}


for line in sys.stdin:
    message = json.loads(line)
    result = answer(message["method"], message.get("params", {}))
    outcome = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message.get("id"), **outcome}), flush=True)
