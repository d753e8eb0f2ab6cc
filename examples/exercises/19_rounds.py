"""19. Asked in rounds (a server over stdio, 2026-07-28)

Before it books, this tool asks for a seat; the price waits in `requestState` meanwhile, with the client, who can
write. Somebody has paid 1 for a trip that costs 100. Refuse every state that was not given out here.

Page: basic/patterns/mrtr#server-requirements-basic-workflow
"""

import json
import sys

SEAT = {"type": "object", "properties": {"seat": {"type": "string"}}, "required": ["seat"]}
QUESTION = {"method": "elicitation/create", "params": {"message": "Which seat?", "requestedSchema": SEAT}}


def seal(text):
    return text


def unseal(text):
    return text


def book(params):
    if "requestState" not in params:
        state = seal(f"{params['arguments']['city']} for 100")
        return {"result": {"resultType": "input_required", "inputRequests": {"seat": QUESTION}, "requestState": state}}
    trip, seat = unseal(params["requestState"]), params["inputResponses"]["seat"]["content"]["seat"]
    if trip is None:
        return {"error": {"code": -32602, "message": "Invalid params: this requestState was not given out here"}}
    return {"result": {"resultType": "complete", "content": [{"type": "text", "text": f"{trip}, seat {seat}"}]}}


for line in sys.stdin:
    message = json.loads(line)
    unknown = {"error": {"code": -32601, "message": "Method not found"}}
    outcome = book(message["params"]) if message["method"] == "tools/call" else unknown
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
