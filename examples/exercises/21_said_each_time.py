"""21. Said each time (a server over stdio, 2026-07-28)

There is no opening in this revision: `_meta` of every request says which version it is written in, and what its client
can do. This server answers whoever asks. Refuse a request that does not say both, whatever the one before it has said.

Page: basic/index#_meta
"""

import json
import sys


def answer(message):
    if message["method"] != "tools/call":
        return {"error": {"code": -32601, "message": "Method not found"}}
    text = message["params"]["arguments"]["text"]
    return {"result": {"resultType": "complete", "content": [{"type": "text", "text": f"{text} and {text}"}]}}


for line in sys.stdin:
    message = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}), flush=True)
