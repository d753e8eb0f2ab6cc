"""Lesson 9: recording a conversation, and explaining it.

Era:       stateless
Revision:  2026-07-28
Page:      every page: it names the one of each message
Needs:     lesson 1

A trace holds every message in the order of the wire. It goes to a file, one JSON object a line, or to a function, or
both. The narrator says of each message what it is, what it answers, and which page of the specification describes it.

    python examples/09_traces.py

The same for any server, without a program:

    python -m mcp_ref call forecast city=Lisbon --narrate -- python examples/weather.py
"""

import tempfile
from pathlib import Path

from mcp_ref import Client, Narrator, Recorder, Server, TraceEvent, narrate, read_trace

server = Server("vault")


@server.tool()
def unlock(name: str, password: str) -> str:
    """Open a drawer."""
    return f"{name} is open"


directions: list[str] = []


# A function is called in a thread of the recorder, `mcp-trace`: it may use the client that it watches.
def count(event: TraceEvent) -> None:
    directions.append(event.direction)


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "trace.jsonl")
    with Recorder(path, count) as recorder, Client(server, trace=recorder) as client:
        client.call_tool("unlock", {"name": "the drawer", "password": "swordfish"})

    # Passwords, tokens and keys are not written down.
    print("sent", directions.count("send"), "received", directions.count("receive"))
    print("the password is in the file:", "swordfish" in path.read_text(encoding="utf-8"))
    print()
    for told in narrate(read_trace(path), Narrator(width=100)):
        print(told)

# Output:
#
# sent 2 received 2
# the password is in the file: False
#
#    1  C → S  request 1: server/discover                                 [2026-07-28/server/discover]
#              ask which versions the server speaks, what it can do, and what it is for
#              _meta: this request is written in revision "2026-07-28"
#              _meta: the client is "mcp_ref" "0.2.0" and declares no capabilities
#              {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontext…
#    2  C ← S  response to 1: server/discover, after N ms  [2026-07-28/server/discover]
#              speaks 2026-07-28, 2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05; nothing is agreed
#                on, for each request names its own revision
#              declares the capabilities logging, tools.listChanged
#              ttlMs 0: to be asked for again each time
#              _meta: the server is "vault" "0"
#              resultType "complete": this is the end of the request
#              {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"priv…
#    3  C → S  request 2: tools/call                                         [2026-07-28/server/tools]
#              call a tool
#              tool "unlock", arguments: name, password
#              _meta as in request 1
#              {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"unlock","arguments":{"…
#    4  C ← S  response to 2: tools/call, after N ms  [2026-07-28/server/tools]
#              content: text
#              {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","content":[{"type":"text","t…
