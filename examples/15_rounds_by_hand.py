"""Lesson 15: rounds that are driven by hand, and continued in another process.

Era:       stateless
Revision:  2026-07-28
Page:      basic/patterns/mrtr
Needs:     lesson 14

A result that asks for input holds all that is needed to go on: the questions, and a `requestState`, in which the server
has sealed what it has to remember. So a program may write both down and end; another one, tomorrow, sends the answers,
to another process of the server. All that these processes share is the key that seals.

    python examples/15_rounds_by_hand.py
"""

import json
import tempfile
from pathlib import Path
from typing import Any

from mcp_ref import Client, Context, ErrorResponse, Server, StateKeys

CALL = {"city": "Lisbon"}
CAN_ASK: dict[str, Any] = {"elicitation": {"form": {}}}


def build(key: bytes) -> Server:
    """The server, as each of its processes makes it."""
    server = Server("travel", state_keys=StateKeys([key], lifetime=3600))

    @server.tool()
    def book(city: str, ctx: Context) -> str:
        """Book a trip."""
        seat = ctx.elicit("Where do you want to sit?", {"seat": {"type": "string", "enum": ["window", "aisle"]}})
        meal = ctx.elicit("Something to eat?", {"meal": {"type": "boolean"}})
        return f"{city}: {seat.get('content')}, {meal.get('content')}"

    return server


def send(server: Server, **round_: Any) -> Any:
    """One round, by a client that asks nobody: the questions come back as they are."""
    # A client declares what it has handlers for. This one has none, and says itself what it can do.
    with Client(server, revision="2026-07-28", capabilities=CAN_ASK) as client:
        return client.call_tool("book", CALL, by_hand=True, **round_)


def first_program(key: bytes, notes: Path) -> None:
    result = send(build(key))
    print("asked:", {name: question["params"]["message"] for name, question in result["inputRequests"].items()})
    # The state is opaque: the client keeps it, and gives it back as it is.
    notes.write_text(json.dumps({"asks": list(result["inputRequests"]), "state": result["requestState"]}))


def later_program(key: bytes, notes: Path, answer: dict[str, Any]) -> None:
    kept = json.loads(notes.read_text())
    answers = {name: {"action": "accept", "content": answer} for name in kept["asks"]}
    try:
        result = send(build(key), input_responses=answers, request_state=kept["state"])
    except ErrorResponse as refusal:
        print("refused:", refusal)
        return
    if result.get("resultType") == "input_required":
        print("asked:", {name: question["params"]["message"] for name, question in result["inputRequests"].items()})
        notes.write_text(json.dumps({"asks": list(result["inputRequests"]), "state": result["requestState"]}))
    else:
        print("done:", result["content"][0]["text"])


KEY = b"a key of at least 32 bytes, from a safe place"

with tempfile.TemporaryDirectory() as folder:
    notes = Path(folder, "round.json")
    first_program(KEY, notes)
    later_program(KEY, notes, {"seat": "aisle"})

    # A server with another key cannot open this state. Whatever is wrong with a state, the refusal is the same.
    later_program(b"another key, which has 32 bytes as well", notes, {"meal": True})
    # A state that was changed on the way is refused too; and a state belongs to one call alone, with its arguments.
    kept = json.loads(notes.read_text())
    Path(folder, "forged.json").write_text(json.dumps({**kept, "state": kept["state"][:-1] + "!"}))
    later_program(KEY, Path(folder, "forged.json"), {"meal": True})

    later_program(KEY, notes, {"meal": True})

# Output:
#
# asked: {'elicitation-1': 'Where do you want to sit?'}
# asked: {'elicitation-2': 'Something to eat?'}
# refused: Invalid or expired requestState (-32602)
# refused: Invalid or expired requestState (-32602)
# done: Lisbon: {'seat': 'aisle'}, {'meal': True}
