"""The command that the suite starts as its client: hands the URL to a process that has everything imported already.

python -S tests/conformance/handed.py SOCKET URL
"""

import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX) as clients:
    clients.connect(sys.argv[1])
    named = {name: os.environ[name] for name in os.environ if name.startswith("MCP_")}
    clients.sendall(json.dumps({"url": sys.argv[2], "environment": named}).encode() + b"\n")
    # The connection ends with the client.
    code = clients.recv(1)
sys.exit(code[0] if code else 1)
