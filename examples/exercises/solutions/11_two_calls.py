"""11. Two calls at once (a client over stdio, 2025-11-25)

Two cities, two calls under way at the same time, one printed line for each. Now and then Lisbon gets the weather of
Oslo and Oslo that of Lisbon, though nothing on the wire is wrong. Mend it, and leave both calls under way at once.

Page: basic/index#responses
"""

import json
import subprocess
import sys

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
CITIES = ["Lisbon", "Oslo"]
ME = {"name": "two", "version": "1"}


def send(**message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    server.stdin.flush()


def response():
    for line in server.stdout:
        message = json.loads(line)
        if message.get("method") == "ping":
            send(id=message["id"], result={})
        elif "method" not in message:
            return message


send(id="open", method="initialize", params={"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": ME})
response()
send(method="notifications/initialized")
for city in CITIES:
    send(id=f"for {city}", method="tools/call", params={"name": "forecast", "arguments": {"city": city}})
results = {message["id"]: message["result"] for message in (response(), response())}
for city in CITIES:
    print(f"{city}: {results[f'for {city}']['content'][0]['text']}")
server.stdin.close()
server.wait()
