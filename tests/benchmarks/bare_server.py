"""The least that answers: a loop of `json.loads` and `json.dumps` over standard in and out."""

from __future__ import annotations

import json
import sys

ANSWERS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bare", "version": "1"},
    },
    "tools/list": {
        "tools": [
            {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}},
            {"name": "steps", "inputSchema": {"type": "object", "properties": {"count": {"type": "integer"}}}},
        ]
    },
}


def main() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "id" not in message:
            continue
        if message["method"] == "tools/call":
            result = called(message["params"])
        elif message["method"] in ANSWERS:
            result = ANSWERS[message["method"]]
        else:
            write({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}})
            continue
        write({"jsonrpc": "2.0", "id": message["id"], "result": result})


def called(params: dict) -> dict:
    arguments = params["arguments"]
    for step in range(1, arguments.get("count", 0) + 1):
        token = params["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": step, "total": arguments["count"]}
        write({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
    return {"content": [{"type": "text", "text": arguments.get("text", "done")}]}


def write(message: dict) -> None:
    sys.stdout.buffer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
