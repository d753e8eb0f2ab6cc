"""25. How long is it true? (a client over stdio, 2026-07-28)

`python 25_how_long.py COMMAND...` starts a server, looks at its tools three times, and calls the last that it saw. It
keeps the list for good, and calls a tool that is gone. A result says how long it may be kept: do what it says.

Page: server/utilities/caching#time-to-live-ttl-field
"""

import json
import subprocess
import sys
import time

META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
kept = None  # a result, and until when it is fresh


def ask(request_id, method, **params):
    request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {"_meta": META, **params}}
    print(json.dumps(request), file=server.stdin, flush=True)
    return json.loads(server.stdout.readline())["result"]


def look(request_id):
    global kept
    if kept is None or time.monotonic() >= kept[1]:
        result = ask(request_id, "tools/list")
        kept = result, time.monotonic() + max(result.get("ttlMs", 0), 0) / 1000
    return kept[0]["tools"][-1]["name"]


names = [look(request_id) for request_id in range(3)]
print(ask(9, "tools/call", name=names[-1], arguments={})["content"][0]["text"])
server.stdin.close()
server.wait()
