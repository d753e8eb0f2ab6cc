"""Lesson 3: resources and templates.

Era:       session
Revision:  2025-11-25
Page:      server/resources
Needs:     lesson 1

A *resource* is data that the application picks, named by a URI. A *template* is a family of them. (A *tool* is picked
by the model, and a *prompt*, lesson 4, by the user.) A client may subscribe to a resource: the server tells it of each
change, and the client reads the resource again. How a client subscribes depends on the era: lesson 16 shows the other.

    python examples/03_resources.py
"""

import queue

from mcp_ref import Client, ErrorResponse, JsonObject, Server

server = Server("notes")
notes = {"monday": "buy bread"}


@server.resource("note://all", mime_type="text/plain")
def all_notes() -> str:
    """Every note, one a line."""
    return "\n".join(f"{day}: {note}" for day, note in sorted(notes.items()))


# The variable of the template is the parameter of the function.
@server.resource("note://day/{day}", mime_type="text/plain")
def note(day: str) -> str:
    """The note of one day."""
    return notes.get(day, "nothing")


# Bytes travel as base64, in a block with `blob` instead of `text`.
@server.resource("note://icon", mime_type="image/png")
def icon() -> bytes:
    return b"\x89PNG"


@server.tool()
def write(day: str, text: str) -> None:
    """Write the note of a day."""
    notes[day] = text
    # Only the clients that subscribed to it are told.
    server.resource_updated("note://all")


changes: queue.Queue[tuple[str, JsonObject]] = queue.Queue()

# Callbacks run in a thread of the client, `mcp-events`, one after the other.
with Client(server, revision="2025-11-25", on_change=lambda method, params: changes.put((method, params))) as client:
    print("resources:", [resource["uri"] for resource in client.list_resources()])
    print("templates:", [template["uriTemplate"] for template in client.list_resource_templates()])
    print("read:", client.read_resource("note://day/monday")["contents"])
    print("read:", client.read_resource("note://icon")["contents"])

    client.subscribe_resource("note://all")
    client.call_tool("write", {"day": "friday", "text": "sell bread"})
    print("change:", *changes.get(timeout=5))
    print("read:", client.read_resource("note://all")["contents"])

    # A resource that does not exist is a protocol error, unlike a tool that fails.
    try:
        client.read_resource("note://elsewhere")
    except ErrorResponse as problem:
        print("error:", problem.code, problem.message, problem.data)

# Output:
#
# resources: ['note://all', 'note://icon']
# templates: ['note://day/{day}']
# read: [{'uri': 'note://day/monday', 'mimeType': 'text/plain', 'text': 'buy bread'}]
# read: [{'uri': 'note://icon', 'mimeType': 'image/png', 'blob': 'iVBORw=='}]
# change: notifications/resources/updated {'uri': 'note://all'}
# read: [{'uri': 'note://all', 'mimeType': 'text/plain', 'text': 'friday: sell bread\nmonday: buy bread'}]
# error: -32002 Resource not found {'uri': 'note://elsewhere'}
