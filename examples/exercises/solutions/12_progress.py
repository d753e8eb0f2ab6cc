"""12. How far is it? (a server over stdio, 2025-11-25)

The mill grinds in three steps and reports each. No client's progress bar moves, and a strict client hangs up at the
first report, even in a call that wanted none. Whoever asks should get three reports that he knows for his own.

Page: basic/utilities/progress#progress-flow
"""

import json
import sys

ME = {"name": "mill", "version": "1"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": ME}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def grind(request_id, params):
    meta = params.get("_meta", {})
    for step in range(1, 4) if "progressToken" in meta else ():
        report = {"progressToken": meta["progressToken"], "progress": step, "total": 3}
        send(method="notifications/progress", params=report)
    return {"content": [{"type": "text", "text": "flour"}]}


ANSWERS = {
    "initialize": lambda request_id, params: OPENING,
    "ping": lambda request_id, params: {},
    "tools/list": lambda request_id, params: {"tools": [{"name": "grind", "inputSchema": {"type": "object"}}]},
    "tools/call": grind,
}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and message["method"] in ANSWERS:
        send(id=message["id"], result=ANSWERS[message["method"]](message["id"], message.get("params", {})))
    elif "id" in message:
        send(id=message["id"], error={"code": -32601, "message": "Method not found"})
