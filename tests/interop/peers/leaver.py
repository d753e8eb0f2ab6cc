"""A client without any library: it opens a session, leaves a call unanswered, closes the pipe, and waits for the end.

Usage: python leaver.py COMMAND [ARGUMENT ...]      prints how the server ended, and after how many seconds, as JSON
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")
assert server.stdin is not None and server.stdout is not None


def send(message: dict[str, Any]) -> None:
    assert server.stdin is not None
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()


client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "leaver", "version": "0"}}
send({"id": 1, "method": "initialize", "params": client})
assert json.loads(server.stdout.readline())["id"] == 1
send({"method": "notifications/initialized"})
send({"id": 2, "method": "tools/call", "params": {"name": "wait", "arguments": {}}})
assert json.loads(server.stdout.readline())["method"] == "notifications/message"
began = time.monotonic()
server.stdin.close()
print(json.dumps({"code": server.wait(20), "seconds": time.monotonic() - began}))
