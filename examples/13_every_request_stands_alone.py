"""Lesson 13: the stateless era, by hand: every request says what it is.

Era:       stateless
Revision:  2026-07-28
Page:      basic/index, basic/versioning, basic/transports/streamable-http
Needs:     lesson 10

From revision 2026-07-28 on nothing is opened, and nothing is remembered from one request to the next. Each request says
in its `_meta` in which revision it is written, who sends it, and what that client can do; the answer depends on nothing
else.

    python examples/13_every_request_stands_alone.py
"""

import json
import textwrap
from pathlib import Path
from runpy import run_path
from typing import Any
from urllib.parse import urlsplit

import requests

server = run_path(str(Path(__file__).with_name("weather.py")))["server"]

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "hand", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def show(who: str, text: str) -> None:
    print(textwrap.fill(text, 100, initial_indent=who, subsequent_indent="   ", break_on_hyphens=False))


def ask(method: str, params: Any = None, meta: Any = META, headers: Any = None) -> None:
    """Send one POST, with nothing before it. Its headers repeat what a proxy may want to know without reading JSON."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": meta}}
    if headers is None:
        headers = {"MCP-Protocol-Version": meta["io.modelcontextprotocol/protocolVersion"], "Mcp-Method": method}
        headers |= {"Mcp-Name": params["name"]} if params else {}
    show("C> ", f"{method} {json.dumps(params or {})} {json.dumps(headers)}")
    answer = requests.post(url, json=message, headers=ACCEPT | headers, timeout=5)
    shown = answer.json()
    show("S< ", f"{answer.status_code} {json.dumps(shown.get('result', shown.get('error')))}")


with server.serve_http() as http:
    url = http.url
    print("POST", urlsplit(url).path, "with this _meta each time:")
    print(json.dumps(META, indent=2))

    # Which revisions the server speaks, and what it offers. A client may ask this first, but need not.
    ask("server/discover")
    # Each request here has the id 1, and another client may use it at the same moment: an id only says which request a
    # response answers, and over HTTP the response comes back with the POST of its request.
    forecast = {"name": "forecast", "arguments": {"city": "Lisbon"}}
    ask("tools/call", forecast)

    # Four mistakes. The HTTP status repeats what the code says: 400 for a request that is wrong in itself, 404 for a
    # method that does not exist.
    ask("tools/list", meta={**META, "io.modelcontextprotocol/protocolVersion": "2030-01-01"})
    ask("tools/call", forecast, headers={"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"})
    ask("tools/list", meta={"io.modelcontextprotocol/protocolVersion": "2026-07-28"})
    ask("ping")

# Output:
#
# POST /mcp with this _meta each time:
# {
#   "io.modelcontextprotocol/protocolVersion": "2026-07-28",
#   "io.modelcontextprotocol/clientInfo": {
#     "name": "hand",
#     "version": "1"
#   },
#   "io.modelcontextprotocol/clientCapabilities": {}
# }
# C> server/discover {} {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "server/discover"}
# S< 200 {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "supportedVersions":
#    ["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"], "capabilities":
#    {"logging": {}, "tools": {"listChanged": true}}, "_meta": {"io.modelcontextprotocol/serverInfo":
#    {"name": "weather", "version": "1.0"}}}
# C> tools/call {"name": "forecast", "arguments": {"city": "Lisbon"}} {"MCP-Protocol-Version":
#    "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "forecast"}
# S< 200 {"resultType": "complete", "content": [{"type": "text", "text": "Lisbon: sun for 3 days"}],
#    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "weather", "version": "1.0"}}}
# C> tools/list {} {"MCP-Protocol-Version": "2030-01-01", "Mcp-Method": "tools/list"}
# S< 400 {"code": -32022, "message": "Unsupported protocol version; this server speaks 2026-07-28,
#    2025-11-25, 2025-06-18, 2025-03-26, 2024-11-05", "data": {"supported": ["2026-07-28",
#    "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"], "requested": "2030-01-01"}}
# C> tools/call {"name": "forecast", "arguments": {"city": "Lisbon"}} {"MCP-Protocol-Version":
#    "2026-07-28", "Mcp-Method": "tools/list"}
# S< 400 {"code": -32020, "message": "Header mismatch: Mcp-Method does not match the body"}
# C> tools/list {} {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
# S< 400 {"code": -32602, "message": "Invalid params:
#    params._meta['io.modelcontextprotocol/clientCapabilities'] is missing", "data": {"path":
#    "params._meta['io.modelcontextprotocol/clientCapabilities']"}}
# C> ping {} {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "ping"}
# S< 404 {"code": -32601, "message": "Method not found: ping", "data": {"method": "ping"}}
