"""20. A transport of your own (a server over a Unix socket, 2026-07-28)

`python 20_own_transport.py PATH` speaks over a socket, a line for each message as over stdio. For months all is well.
Then somebody pastes words from a web page into an argument, and it breaks in the middle. Where does a line end?

Page: basic/transports/stdio
"""

import codecs
import json
import socket
import sys

ME = {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "socket", "version": "1"}}}
WORDS = {"type": "object", "properties": {"words": {"type": "string"}}, "required": ["words"]}
ABOUT = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}
TOOLS = {"tools": [{"name": "say", "inputSchema": WORDS}], "ttlMs": 0, "cacheScope": "private"}


def answer(message):
    result = {"server/discover": ABOUT, "tools/list": TOOLS}.get(message["method"])
    if message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": message["params"]["arguments"]["words"]}]}
    if result is None:
        return {"error": {"code": -32601, "message": "Method not found"}}
    return {"result": {"resultType": "complete", **result, **ME}}


with socket.socket(socket.AF_UNIX) as door:
    door.bind(sys.argv[1])
    door.listen()
    client, _ = door.accept()
rest, decoder = "", codecs.getincrementaldecoder("utf-8")()
while data := client.recv(65536):
    lines = (rest + decoder.decode(data)).splitlines(keepends=True)
    rest = "" if lines[-1].endswith("\n") else lines.pop()
    for line in lines:
        message = json.loads(line)
        client.sendall(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer(message)}).encode() + b"\n")
