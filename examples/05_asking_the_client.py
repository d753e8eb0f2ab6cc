"""Lesson 5: the server asks.

Era:       session
Revision:  2025-11-25
Page:      client/elicitation, client/sampling, client/roots
Needs:     lesson 1

While a tool runs, its handler may turn around and ask the client: for a choice of the user (*elicitation*), for a text
of the model (*sampling*), for the folders that it may work in (*roots*). In the session era each question is a request
of the server: it blocks the handler's thread until the answer is there, and the handler reads like any function. In the
stateless era questions reach the client in another way, which a handler does not notice: lesson 14. From 2026-07-28 on
roots and sampling are deprecated.

    python examples/05_asking_the_client.py
"""

from pathlib import Path
from typing import Any

from mcp_ref import Client, Context, Server, ToolError, reply, root_path

server = Server("travel")


# A parameter annotated with Context gets the request that is being served. Clients do not see it.
@server.tool()
def book(city: str, ctx: Context) -> str:
    """Book a trip."""
    # A server must not ask what a client cannot answer: the client said in `initialize` what it can.
    if "elicitation" not in ctx.peer_capabilities:
        raise ToolError("This needs a client that can ask its user.")

    for root in ctx.roots():
        print("  [server] may write to the folder", root_path(root).name)

    # A form has flat fields. The answer is "accept" with content, "decline" or "cancel".
    answer = ctx.elicit("Where do you want to sit?", {"seat": {"type": "string", "enum": ["window", "aisle"]}})
    if answer["action"] != "accept":
        return "Nothing was booked."

    # A reply of the model may hold several kinds of content; here it is a text.
    said: Any = ctx.sample(f"Write a line about {city}.", max_tokens=30)
    return f"{city}, {answer.get('content', {})['seat']} seat. {said['model']} says: {said['content']['text']}"


def ask_the_user(message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
    print("  [client] asks the user:", message, schema["properties"]["seat"]["enum"])
    return {"seat": next(seats)}  # None would be a no


def ask_the_model(params: dict[str, Any]) -> Any:
    print("  [client] asks the model:", params["messages"][0]["content"]["text"])
    return reply("Bring good shoes.", model="a-poet")


seats = iter(["window"])
here = Path(__file__).parent

# The handlers that a client is given are the capabilities that it declares.
with Client(server, revision="2025-11-25", roots=[here], elicit=ask_the_user, sample=ask_the_model) as client:
    print("client can answer:", sorted(client.capabilities))
    print(client.call_tool("book", {"city": "Lisbon"})["content"])

# A user who says no: that is an answer, not an error.
with Client(server, revision="2025-11-25", roots=[here], elicit=lambda message, schema: None) as client:
    print(client.call_tool("book", {"city": "Oslo"})["content"])

# A client without handlers. Had the tool asked all the same, nothing would have been sent: ctx.elicit raises an error.
with Client(server, revision="2025-11-25") as client:
    result = client.call_tool("book", {"city": "Lyon"})
    print("isError:", result.get("isError"), result["content"])

# Output:
#
# client can answer: ['elicitation', 'roots', 'sampling']
#   [server] may write to the folder examples
#   [client] asks the user: Where do you want to sit? ['window', 'aisle']
#   [client] asks the model: Write a line about Lisbon.
# [{'type': 'text', 'text': 'Lisbon, window seat. a-poet says: Bring good shoes.'}]
#   [server] may write to the folder examples
# [{'type': 'text', 'text': 'Nothing was booked.'}]
# isError: True [{'type': 'text', 'text': 'This needs a client that can ask its user.'}]
