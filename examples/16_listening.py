"""Lesson 16: being told of changes without a session: `subscriptions/listen`.

Era:       stateless
Revision:  2026-07-28
Page:      basic/patterns/subscriptions
Needs:     lessons 3 and 13

A client that wants to hear of changes sends a request that stays unanswered while it listens. Before the answer come
notifications of the changes that it named; the answer says that the server has ended the subscription. Either side may
end it at any time.

    python examples/16_listening.py
"""

import logging
import sys
import threading

from mcp_ref import Client, Server

# The library's warnings go to the log of the program.
logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="log: %(message)s")

server = Server("notes")
notes = {"monday": "buy bread"}


@server.resource("note://day/{day}", mime_type="text/plain")
def note(day: str) -> str:
    """The note of one day."""
    return notes.get(day, "nothing")


@server.tool()
def write(day: str, text: str) -> None:
    """Write the note of a day."""
    notes[day] = text
    server.resource_updated(f"note://day/{day}")


with server.serve_http() as http, Client(http.url) as client:
    # Entering waits until the server has said which changes it will tell of: this one has no prompts. `note://day`
    # stands for everything below it.
    with client.listen(tools=True, prompts=True, resources=["note://day"]) as events:
        print("told of:", events.honoured)
        print("not told of:", events.refused)

        client.call_tool("write", {"day": "friday", "text": "sell bread"})
        event = events.get(timeout=5)
        print(event.method, event.params["uri"])
        print("read:", client.read_resource(event.params["uri"])["contents"])

        @server.tool()
        def wipe() -> None:
            """Forget all notes."""
            notes.clear()

        print(events.get(timeout=5).method)
        print("tools:", [tool["name"] for tool in client.list_tools()])

    # The end of the block ended that subscription. Another thread can end one too, and then the iteration ends:
    with client.listen(resources=["note://day/monday"]) as events:
        other = threading.Timer(0.1, events.close)
        other.start()
        print("events:", list(events))
        other.join()

    # Several at once, each with its own filter; and the server may end them all.
    with client.listen(tools=True) as one, client.listen(resources=["note://day/sunday"]) as two:
        http.close()
        print("events left:", list(one), list(two))
        print("ended by the server:", one.graceful, two.graceful)

# Output:
#
# log: the server will not report everything that was asked for; it leaves out {'promptsListChanged': True}
# told of: {'toolsListChanged': True, 'resourceSubscriptions': ['note://day']}
# not told of: {'promptsListChanged': True}
# notifications/resources/updated note://day/friday
# read: [{'uri': 'note://day/friday', 'mimeType': 'text/plain', 'text': 'sell bread'}]
# notifications/tools/list_changed
# tools: ['write', 'wipe']
# events: []
# events left: [] []
# ended by the server: True True
