"""16. Who is calling? (a server over HTTP, 2025-11-25)

This server listens on your own machine only; and yet every page that is open in your browser can call its tools. The
browser says which page it is. Let in programs, which send no Origin, and pages of this machine; nobody else.

Page: basic/transports#security-warning
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import urlsplit

ME = {"name": "door", "version": "1"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": ME}
RESULTS = {"initialize": OPENING, "ping": {}, "tools/list": {"tools": []}}


class Door(BaseHTTPRequestHandler):
    def answer(self, status, body=None):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        origin = self.headers["Origin"]
        if origin is not None and urlsplit(origin).hostname not in ("localhost", "127.0.0.1"):
            return self.answer(403)
        if "id" not in message:
            return self.answer(202)
        outcome = {"error": {"code": -32601, "message": "Method not found"}}
        if message["method"] in RESULTS:
            outcome = {"result": RESULTS[message["method"]]}
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], **outcome})


HTTPServer(("127.0.0.1", int(sys.argv[1])), Door).serve_forever()
