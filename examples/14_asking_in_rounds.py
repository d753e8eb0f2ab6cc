"""Lesson 14: one handler, both eras: a question waits for its answer, or ends the request.

Era:       both
Revision:  2025-11-25 and 2026-07-28
Page:      client/elicitation, basic/patterns/mrtr
Needs:     lesson 5

In the session era a server asks with a request of its own, and the handler's thread waits. In the stateless era nobody
waits: the question is the *result*, and the client sends its request again, with the answer. The handler does not
notice: it is run again from its beginning, and the questions that have answers return them.

    python examples/14_asking_in_rounds.py
"""

from typing import Any

from mcp_ref import Client, Context, Server, TraceEvent

server = Server("travel")
bookings: list[str] = []


@server.tool()
def book(city: str, ctx: Context) -> str:
    """Book a trip."""
    print("  [server] the handler begins")
    seat = ctx.elicit("Where do you want to sit?", {"seat": {"type": "string", "enum": ["window", "aisle"]}})
    if seat["action"] != "accept":
        return "Nothing was booked."
    # Two at once: in the stateless era they travel in one result, and cost one round.
    meal, bags = ctx.ask_all(
        lambda: ctx.elicit("Something to eat?", {"meal": {"type": "boolean"}}),
        lambda: ctx.elicit("How many bags?", {"bags": {"type": "integer"}}),
    )
    # Put what must happen only once after the last question: in the stateless era everything before it happens again in
    # each round. Move this line up, and there are two or three bookings.
    bookings.append(city)
    return f"{city}: {seat.get('content')}, {meal.get('content')}, {bags.get('content')}"


ANSWERS = {"seat": "window", "meal": True, "bags": 2}


def ask_the_user(message: str, schema: dict[str, Any]) -> dict[str, Any]:
    print("  [client]", message)
    return {name: ANSWERS[name] for name in schema["properties"]}


def said(event: TraceEvent) -> str:
    """A message in a few words."""
    message: Any = event.message
    arrow = "C>" if event.direction == "send" else "S<"
    what = message.get("method") or message["result"].get("resultType", "a result")
    asked = ", ".join(message.get("result", {}).get("inputRequests", {}))
    answers = ", ".join(message.get("params", {}).get("inputResponses", {}))
    about = f" asks {asked}" if asked else f" with answers to {answers}" if answers else ""
    return f"{arrow} {message.get('id')} {what}{about}"


for revision in ("2025-11-25", "2026-07-28"):
    print(revision)
    bookings.clear()
    events: list[TraceEvent] = []
    with Client(server, revision=revision, elicit=ask_the_user, trace=events.append) as client:
        print(" ", client.call_tool("book", {"city": "Lisbon"})["content"])
    print("  booked:", bookings)
    # The messages that opened the conversation are left out.
    opening = 3 if revision == "2025-11-25" else 2
    for event in events[opening:]:
        print("   ", said(event))

# Output:
#
# 2025-11-25
#   [server] the handler begins
#   [client] Where do you want to sit?
#   [client] Something to eat?
#   [client] How many bags?
#   [{'type': 'text', 'text': "Lisbon: {'seat': 'window'}, {'meal': True}, {'bags': 2}"}]
#   booked: ['Lisbon']
#     C> 2 tools/call
#     S< 1 elicitation/create
#     C> 1 a result
#     S< 2 elicitation/create
#     C> 2 a result
#     S< 3 elicitation/create
#     C> 3 a result
#     S< 2 a result
# 2026-07-28
#   [server] the handler begins
#   [client] Where do you want to sit?
#   [server] the handler begins
#   [client] Something to eat?
#   [client] How many bags?
#   [server] the handler begins
#   [{'type': 'text', 'text': "Lisbon: {'seat': 'window'}, {'meal': True}, {'bags': 2}"}]
#   booked: ['Lisbon']
#     C> 2 tools/call
#     S< 2 input_required asks elicitation-1
#     C> 3 tools/call with answers to elicitation-1
#     S< 3 input_required asks elicitation-2.1.1, elicitation-2.2.1
#     C> 4 tools/call with answers to elicitation-2.1.1, elicitation-2.2.1
#     S< 4 complete
