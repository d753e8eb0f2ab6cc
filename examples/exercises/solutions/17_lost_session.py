"""17. The lost session (a client over HTTP, 2025-11-25)

`python 17_lost_session.py URL` asks a server for the time, twice. In between the server is restarted and forgets the
session; the client keeps its id. Teach it the way back. After other errors it rightly tries again in the session.

Page: basic/transports#session-management
"""

import itertools
import json
import sys
import urllib.request

ids, session = itertools.count(1), {}
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "patient", "version": "1"}}
ALWAYS = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def post(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    with urllib.request.urlopen(urllib.request.Request(sys.argv[1], body, ALWAYS | session)) as reply:
        if given := reply.headers["Mcp-Session-Id"]:
            session.update({"Mcp-Session-Id": given, "MCP-Protocol-Version": "2025-11-25"})
        return json.loads(reply.read() or "{}").get("result")


def connect():
    post(id=next(ids), method="initialize", params=CLIENT)
    post(method="notifications/initialized")


def time(tries=3):
    try:
        return post(id=next(ids), method="tools/call", params={"name": "time"})["content"][0]["text"]
    except urllib.error.HTTPError as problem:
        if problem.code == 404:
            session.clear()
            connect()
        return time(tries - 1) if tries > 1 else sys.exit(f"the server refuses: {problem}")


connect()
print(time(), time())
