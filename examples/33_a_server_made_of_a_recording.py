"""Lesson 33: a server made from a recording.

Era:       stateless
Revision:  2026-07-28
Page:      every page: what was recorded is answered as it was
Needs:     lessons 1 and 9

A conversation is recorded once, and from then on the recording answers: no server is needed, and nothing changes. What
was never recorded is an error that says what comes nearest. The other way round, the recorded client asks a server
again, and shows where the answers differ now.

    python examples/33_a_server_made_of_a_recording.py
"""

import tempfile
from pathlib import Path

from mcp_ref import Client, ErrorResponse, Server
from mcp_ref.lab.testing.replay import turns_of
from mcp_ref.lab.testing.replay_check import against
from mcp_ref.testing import Replay


def weather(sky: str) -> Server:
    server = Server("weather", "1")

    @server.tool()
    def forecast(city: str) -> str:
        return f"{city}: {sky}"

    return server


with tempfile.TemporaryDirectory() as folder:
    trace = Path(folder, "trace.jsonl")
    with Client(weather("sun"), trace=trace) as client:
        client.call_tool("forecast", {"city": "Lisbon"})

    # 1. The recording answers. What it does not know it refuses, and remembers.
    replay = Replay(trace)
    with Client(replay) as client:
        print(client.call_tool("forecast", {"city": "Lisbon"})["content"])
        try:
            client.call_tool("forecast", {"city": "Porto"})
        except ErrorResponse as refused:
            print(refused.code)
    print(*replay.mismatches, sep="\n")

    # 2. The recorded client asks again: once the same server, once one that has changed.
    turns, notes = turns_of(trace)
    for sky in ("sun", "rain"):
        differences, answers = against(turns, weather(sky))
        print(f"{sky}: {answers} answers", *differences, sep="\n")

# Output:
#
# [{'type': 'text', 'text': 'Lisbon: sun'}]
# -32603
# tools/call: the nearest is event 3: params.arguments.city: recorded "Lisbon", here "Porto"
# sun: 2 answers
# rain: 2 answers
# event 3, tools/call: answer.result.content[0].text: recorded "Lisbon: sun", here "Lisbon: rain"
