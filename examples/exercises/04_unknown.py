"""4. What it does not know (a server over stdio, 2025-11-25)

A newer client asks this parrot for something that nobody had thought of when it was written, and it dies. Another
sends `params` as a list, a third calls a tool and does not say which: it dies too. Let it answer whatever request
comes, and go on.

Page: basic/index#responses (and section 5.1 of JSON-RPC 2.0, for the codes)
"""

import json
import sys

ME = {"name": "parrot", "version": "1"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": ME}
WORDS = {"type": "object", "properties": {"words": {"type": "string"}}}


def say(arguments):
    return {"content": [{"type": "text", "text": str(arguments.get("words", "hello"))}]}


TOOLS = {"say": say}
ANSWERS = {
    "initialize": lambda params: OPENING,
    "ping": lambda params: {},
    "tools/list": lambda params: {"tools": [{"name": "say", "inputSchema": WORDS}]},
    "tools/call": lambda params: TOOLS[params["name"]](params.get("arguments", {})),
}

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        params = {**message.get("params", {})}
        outcome = {"result": ANSWERS[message["method"]](params)}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
