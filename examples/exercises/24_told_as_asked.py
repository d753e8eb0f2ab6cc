"""24. Told as it was asked (a server over stdio, 2026-07-28)

`learn` adds a tool, and whoever listens is told that the list has changed. But several listen on one pipe, each for
something else, and nobody can tell whose news it is; some never asked for any.

Page: basic/patterns/subscriptions#receiving-notifications
"""

import json
import sys

TELLS = {"toolsListChanged": "notifications/tools/list_changed"}
listeners = {}  # what each has asked for, by the id of its request


def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "subscriptions/listen":
        honoured = {name: True for name in TELLS if message["params"]["notifications"].get(name)}
        listeners[message["id"]] = honoured
        say(method="notifications/subscriptions/acknowledged", params={"notifications": honoured})
    elif message["method"] == "notifications/cancelled":
        listeners.pop(message["params"]["requestId"], None)
    elif message["method"] == "tools/call":
        for _ in listeners:
            say(method="notifications/tools/list_changed")
        say(id=message["id"], result={"resultType": "complete", "content": [{"type": "text", "text": "learned"}]})
    else:
        say(id=message["id"], error={"code": -32601, "message": "Method not found"})
