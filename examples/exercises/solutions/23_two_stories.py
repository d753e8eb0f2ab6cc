"""23. Two stories (a server over HTTP, 2026-07-28)

`python 23_two_stories.py PORT` has a gateway before it, which lets in by the headers: `Mcp-Name: read` may pass, and
`erase` may not. The server does what the body says. What if the two tell different stories, or the headers none?

Page: basic/transports/streamable-http#server-validation
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

SAYS = "io.modelcontextprotocol/protocolVersion"


def wrong(headers, message):
    params = message["params"]
    pairs = {"MCP-Protocol-Version": params["_meta"][SAYS], "Mcp-Method": message["method"], "Mcp-Name": params["name"]}
    return next((name for name, value in pairs.items() if headers[name] != value), None)


class Door(BaseHTTPRequestHandler):
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        params, status = message["params"], 200
        outcome = {
            "result": {"resultType": "complete", "content": [{"type": "text", "text": f"{params['name']} done"}]}
        }
        if problem := wrong(self.headers, message):
            status, outcome = 400, {"error": {"code": -32020, "message": f"Header mismatch: {problem}"}}
        text = json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


HTTPServer(("127.0.0.1", int(sys.argv[1])), Door).serve_forever()
