"""13. Never mind (a server over stdio with threads, 2025-11-25)

Counting takes time, on the only abacus. When a client gives a call up, the counting stops at once, as it should; then
something is said that nobody waits for. What should whoever has said "never mind" hear of it?

Page: basic/utilities/cancellation#behavior-requirements
"""

import json
import sys
import threading

ME = {"serverInfo": {"name": "counter", "version": "1"}, "capabilities": {"tools": {}}}
TOOLS = {"tools": [{"name": "count", "inputSchema": {"type": "object"}}]}
RESULTS = {"initialize": {"protocolVersion": "2025-11-25", **ME}, "ping": {}, "tools/list": TOOLS}
UNKNOWN = {"error": {"code": -32601, "message": "Method not found"}}
given_up, abacus = {}, threading.Lock()


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}) + "\n", end="", flush=True)


def count(request_id, to):
    with abacus:
        if any(given_up[request_id].wait(0.1) for sheep in range(to)):
            return send(id=request_id, error={"code": 0, "message": "this call was cancelled"})
    send(id=request_id, result={"content": [{"type": "text", "text": f"{to} sheep"}]})


for line in sys.stdin:
    message = json.loads(line)
    method, request_id, params = message["method"], message.get("id"), message.get("params", {})
    if method == "tools/call":
        given_up[request_id] = threading.Event()
        threading.Thread(target=count, args=(request_id, params["arguments"]["to"])).start()
    elif method == "notifications/cancelled" and params["requestId"] in given_up:
        given_up[params["requestId"]].set()
    elif "id" in message:
        send(id=request_id, **({"result": RESULTS[method]} if method in RESULTS else UNKNOWN))
