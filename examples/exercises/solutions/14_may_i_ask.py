"""14. May I ask? (a server over stdio, 2025-11-25)

This tool asks the client for the folders that it may work in. With some clients that goes well, with others the call
never ends. Whether a client can be asked, it has said beforehand; where it cannot, let the call fail and say why.

Page: client/roots#capabilities
"""

import json
import sys

ME = {"name": "folders", "version": "1"}
TOOLS = {"tools": [{"name": "where", "inputSchema": {"type": "object"}}]}
client = {}


def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def initialize(params):
    client.update(params)
    return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": ME}


def where(params):
    if "roots" not in client["capabilities"]:
        return {"content": [{"type": "text", "text": "this client shows no folders"}], "isError": True}
    send(id="folders", method="roots/list")
    while (reply := json.loads(sys.stdin.readline())).get("id") != "folders":
        pass
    return {"content": [{"type": "text", "text": root["uri"]} for root in reply["result"]["roots"]]}


ANSWERS = {"initialize": initialize, "ping": lambda p: {}, "tools/list": lambda p: TOOLS, "tools/call": where}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and message.get("method") in ANSWERS:
        send(id=message["id"], result=ANSWERS[message["method"]](message.get("params", {})))
    elif "id" in message:
        send(id=message["id"], error={"code": -32601, "message": "Method not found"})
