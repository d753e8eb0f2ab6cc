"""2. The id comes back (a server over stdio, 2025-11-25)

Half of all clients wait forever for the answers of this clock, the others have no complaint. Look at what they send
and at what comes back: whoever has asked must be able to tell which answer is his.

Page: basic/index#responses
"""

import json
import sys
import time

ME = {"name": "clock", "version": "1"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": ME}


def answer(method, params):
    match method:
        case "initialize":
            return OPENING
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [{"name": "now", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            return {"content": [{"type": "text", "text": time.ctime()}]}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        key = f"{message['id']}"
        result = answer(message["method"], message.get("params", {}))
        outcome = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": key, **outcome}), flush=True)
