"""22. Not that version (a server over stdio, 2026-07-28)

This server knows one version, and answers requests of any other as well as it can: badly. A client that is refused can
take another version, if it is told which there are. Say so, in the form that the page gives.

Page: basic/versioning#protocol-version-negotiation
"""

import json
import sys

SUPPORTED = ["2026-07-28"]
SAYS = "io.modelcontextprotocol/protocolVersion"


def answer(message):
    version = message["params"]["_meta"][SAYS]
    if version not in SUPPORTED:
        data = {"supported": SUPPORTED, "requested": version}
        return {"error": {"code": -32022, "message": "Unsupported protocol version", "data": data}}
    if message["method"] != "tools/call":
        return {"error": {"code": -32601, "message": "Method not found"}}
    text = message["params"]["arguments"]["text"]
    return {"result": {"resultType": "complete", "content": [{"type": "text", "text": text.upper()}]}}


for line in sys.stdin:
    message = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}), flush=True)
