"""Lesson 30: batching: several messages in one line, in one revision.

Era:       session
Revision:  2025-03-26, and 2025-06-18, which took it away
Page:      basic/index
Needs:     lesson 10

JSON-RPC knows batches: an array of messages. Of the five revisions only 2025-03-26 has them. The requests of a batch
are answered with a batch, whose responses may stand in any order; a batch of notifications alone is not answered.

    python examples/30_batching.py
"""

import json
import subprocess
import sys
from pathlib import Path


def converse(revision: str) -> None:
    command = [sys.executable, str(Path(__file__).with_name("weather.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None and server.stdout is not None

        who = {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "hand", "version": "1"}}
        # The handshake is not shown: lesson 10. It cannot be part of a batch.
        print(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": who}),
            file=server.stdin,
            flush=True,
        )
        assert json.loads(server.stdout.readline())["result"]["protocolVersion"] == revision
        print('{"jsonrpc":"2.0","method":"notifications/initialized"}', file=server.stdin, flush=True)
        batch = json.dumps([{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (2, 3)])
        print("C>", batch)
        print(batch, file=server.stdin, flush=True)
        answer = json.loads(server.stdout.readline())
        if isinstance(answer, list):
            # By their ids: the order of the responses says nothing.
            answer.sort(key=lambda response: int(response["id"]))
        else:
            answer = answer["error"]
        print("S<", json.dumps(answer))


for revision in ("2025-03-26", "2025-06-18"):
    print(f"-- {revision}")
    converse(revision)

# Output:
#
# -- 2025-03-26
# C> [{"jsonrpc": "2.0", "id": 2, "method": "ping"}, {"jsonrpc": "2.0", "id": 3, "method": "ping"}]
# S< [{"jsonrpc": "2.0", "id": 2, "result": {}}, {"jsonrpc": "2.0", "id": 3, "result": {}}]
# -- 2025-06-18
# C> [{"jsonrpc": "2.0", "id": 2, "method": "ping"}, {"jsonrpc": "2.0", "id": 3, "method": "ping"}]
# S< {"code": -32600, "message": "Invalid request: batches exist only in revision 2025-03-26"}
