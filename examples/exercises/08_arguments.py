"""8. Look at the arguments (a server over stdio, 2025-06-18 and 2025-11-25)

The schema of this tool wants a city, which is a string, and days, an integer; but whatever comes is believed. Refuse
what does not fit, in the way of the version that was agreed on: the two pages differ.

Page: server/tools#error-handling, in 2025-06-18 and in 2025-11-25
"""

import json
import sys

FIELDS = {"city": {"type": "string"}, "days": {"type": "integer"}}
SCHEMA = {"type": "object", "properties": FIELDS, "required": ["city", "days"]}
session = {"version": "2025-11-25"}


def initialize(params):
    if params["protocolVersion"] == "2025-06-18":
        session["version"] = "2025-06-18"
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "weather", "version": "1"}}
    return {"result": {"protocolVersion": session["version"], **about}}


def call(params):
    given = params["arguments"]
    text = f"{given.get('days')} days of sun in {given.get('city')}"
    return {"result": {"content": [{"type": "text", "text": text}]}}


TOOLS = {"result": {"tools": [{"name": "forecast", "inputSchema": SCHEMA}]}}
UNKNOWN = {"error": {"code": -32601, "message": "Method not found"}}
ANSWERS = {"initialize": initialize, "tools/list": lambda params: TOOLS, "tools/call": call}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        outcome = ANSWERS.get(message["method"], lambda params: UNKNOWN)(message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
