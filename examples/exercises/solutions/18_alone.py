"""18. Every request stands alone (a client over HTTP, 2026-07-28)

`python 18_alone.py URL` lists the tools of a server, calls the first, and prints what it says. The list comes; the
call is refused with 400, though nothing is wrong in its body. There are no sessions here: what goes with each request?

Page: basic/transports/streamable-http#standard-request-headers
"""

import json
import sys
import urllib.request

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "loner", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2026-07-28",
}


def ask(request_id, method, **params):
    body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {"_meta": META, **params}}
    headers = HEADERS | {"Mcp-Method": method} | ({"Mcp-Name": params["name"]} if "name" in params else {})
    try:
        with urllib.request.urlopen(urllib.request.Request(sys.argv[1], json.dumps(body).encode(), headers)) as reply:
            return json.load(reply)["result"]
    except urllib.error.HTTPError as problem:
        sys.exit(f"{method} was refused: {problem}")


tool = ask(1, "tools/list")["tools"][0]["name"]
print(ask(2, "tools/call", name=tool, arguments={})["content"][0]["text"])
