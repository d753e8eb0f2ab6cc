"""9. The next page (a server over stdio, 2025-11-25)

Two tools make a page of this list. A client that brings a cursor from yesterday gets the first page once more, takes
it for the next one, and may go round forever. Tell whoever brings a cursor that was not given out here.

Page: server/utilities/pagination#error-handling
"""

import json
import sys

ME = {"name": "shed", "version": "1"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": ME}
TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("saw", "drill", "file", "plane", "clamp")]


def tools_list(params):
    given_out = {f"from-{start}": start for start in range(2, len(TOOLS), 2)}
    if "cursor" in params and params["cursor"] not in given_out:
        return {"error": {"code": -32602, "message": "Invalid params: this cursor is not from here"}}
    start = given_out[params["cursor"]] if "cursor" in params else 0
    page = {"tools": TOOLS[start : start + 2]}
    if start + 2 < len(TOOLS):
        page["nextCursor"] = f"from-{start + 2}"
    return {"result": page}


ANSWERS = {
    "initialize": lambda params: {"result": OPENING},
    "ping": lambda params: {"result": {}},
    "tools/list": tools_list,
}
UNKNOWN = {"error": {"code": -32601, "message": "Method not found"}}

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        outcome = ANSWERS.get(message["method"], lambda params: UNKNOWN)(message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
