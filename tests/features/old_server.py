"""A server of 2025-11-25 over stdio, built without mcp_ref. Its argument (JSON) says how it meets `server/discover`:

    {"say": MESSAGE}     answers with that, its id filled in where it says "ID"
    {"line": TEXT}       writes that
    {"exit": CODE}       ends
    {}                   says nothing

What it was asked it names on standard error, method by method. It imports next to nothing, to start fast.
"""

import json
import sys


def answer(message: dict) -> dict | None:  # type: ignore[type-arg]
    if message["method"] == "initialize":
        info = {"name": "old", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if message["method"] == "tools/call":
        return {"content": [{"type": "text", "text": "old"}]}
    return None


def main(does: dict) -> None:  # type: ignore[type-arg]
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message:
            continue
        print(message["method"], file=sys.stderr, flush=True)
        if message["method"] == "server/discover":
            if "exit" in does:
                sys.exit(does["exit"])
            if "line" in does:
                print(does["line"], flush=True)
            if "say" in does:
                said = does["say"]
                print(json.dumps({**said, "id": message["id"]} if said.get("id") == "ID" else said), flush=True)
        elif "id" in message:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": answer(message)}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
