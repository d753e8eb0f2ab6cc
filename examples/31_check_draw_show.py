"""Lesson 31: a trace that is checked, drawn and shown.

Era:       session
Revision:  2025-11-25
Page:      every page: the checker knows the sentences of all of them
Needs:     lessons 9 and 10

`check` says which sentences of the specification a recorded conversation breaks, and who broke them. `draw` makes a
sequence diagram of it, and `show` a page for a browser. Here the trace is written by hand, so that something is wrong
with it; a `Recorder` (lesson 9), or `--trace FILE`, makes one of a real conversation.

    python examples/31_check_draw_show.py
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

hasty, opening = {"name": "hasty", "version": "1"}, {"protocolVersion": "2025-11-25", "capabilities": {}}
said: list[tuple[str, dict[str, Any]]] = [
    ("send", {"id": 1, "method": "initialize", "params": {**opening, "clientInfo": hasty}}),
    ("receive", {"id": 1, "result": {**opening, "serverInfo": hasty}}),
    ("send", {"method": "notifications/initialized"}),
    ("send", {"id": 1, "method": "ping"}),
]

with tempfile.TemporaryDirectory() as folder:
    trace = Path(folder, "trace.jsonl")
    with trace.open("w", encoding="utf-8") as file:
        for seq, (direction, message) in enumerate(said, 1):
            row = {"seq": seq, "time": f"2026-01-01T09:00:0{seq}.000000Z", "thread": "main", "direction": direction}
            row |= {"peer": "server", "transport": "stdio", "conn": 1, "message": {"jsonrpc": "2.0", **message}}
            print(json.dumps(row), file=file)
    for command in ("check trace.jsonl", "draw trace.jsonl", "show trace.jsonl -o trace.html"):
        print(f"$ python -m mcp_ref {command}", flush=True)
        subprocess.run([sys.executable, "-m", "mcp_ref", *command.split()], cwd=folder, check=True)
    print(Path(folder, "trace.html").read_text("utf-8")[:15])

# Output:
#
# $ python -m mcp_ref check trace.jsonl
# 4: MUST, client: A requestor MUST NOT use the id of a request twice in a session.
#     rule:     id_not_used_before
#     expected: an id that no request before it has had
#     says so:  2025-11-25/basic/index#requests.3
#     message:  {"jsonrpc":"2.0","id":1,"method":"ping"}
# 1 finding in 4 events; 32 rules were checked
# $ python -m mcp_ref draw trace.jsonl
# sequenceDiagram
#     participant C as Client
#     participant S as Server
#     C->>S: request 1: initialize
#     S-->>C: result of 1: initialize
#     C-)S: notifications/initialized
#     C--xS: request 1: ping [wrong]
# $ python -m mcp_ref show trace.jsonl -o trace.html
# <!doctype html>
