"""5. Which version? (a server over stdio, 2024-11-05 to 2025-11-25)

Three versions are spoken here, and KNOWN says which. All the same, clients that know one of the older ones leave at
once. What should each of them be told, and what a client whose version nobody here has heard of?

Page: basic/lifecycle#version-negotiation
"""

import json
import sys

KNOWN = ["2024-11-05", "2025-06-18", "2025-11-25"]
ABOUT = {"capabilities": {"tools": {}}, "serverInfo": {"name": "polyglot", "version": "1"}}


def initialize(params):
    asked = params["protocolVersion"]
    chosen = asked if asked in KNOWN else max(KNOWN)
    return {"protocolVersion": chosen, **ABOUT}


def answer(method, params):
    match method:
        case "initialize":
            return initialize(params)
        case "ping":
            return {}
        case "tools/list":
            return {"tools": []}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = answer(message["method"], message.get("params", {}))
        outcome = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
