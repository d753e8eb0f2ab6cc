"""15. Statuses (a server over HTTP, 2025-11-25)

`python 15_statuses.py PORT` says 200 to everything, and clients do not know what to make of it: they wait for messages
where none will come, or open its stream over and over. Which status is due to each of the three kinds of requests?

Page: basic/transports#sending-messages-to-the-server
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

ME = {"name": "door", "version": "1"}
OPENING = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": ME}
RESULTS = {"initialize": OPENING, "ping": {}, "tools/list": {"tools": []}}


class Door(BaseHTTPRequestHandler):
    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in message:
            return self.answer(200, {})
        outcome = {"error": {"code": -32601, "message": "Method not found"}}
        if message["method"] in RESULTS:
            outcome = {"result": RESULTS[message["method"]]}
        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], **outcome})

    def do_GET(self):
        self.answer(200, {"status": "open"})


HTTPServer(("127.0.0.1", int(sys.argv[1])), Door).serve_forever()
