"""10. The first client (a client over stdio, 2025-11-25)

`python 10_first_client.py COMMAND ...` starts a server and prints the names of its tools. Some servers play along,
others refuse: no session has been opened, they say. What have they never been told?

Page: basic/lifecycle#initialization
"""

import json
import subprocess
import sys

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def send(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


def ask(request_id, method, **params):
    send(id=request_id, method=method, params=params)
    for line in server.stdout:
        message = json.loads(line)
        if message.get("method") == "ping":
            send(id=message["id"], result={})
        elif message.get("id") == request_id:
            if "error" in message:
                sys.exit(f"{method} was refused: {message['error']}")
            return message["result"]
    sys.exit(f"{method} was not answered")


ME = {"name": "lister", "version": "1"}
ask(1, "initialize", protocolVersion="2025-11-25", capabilities={}, clientInfo=ME)
send(method="notifications/initialized")
print(", ".join(tool["name"] for tool in ask(2, "tools/list")["tools"]))
server.stdin.close()
server.wait()
