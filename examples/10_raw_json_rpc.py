"""Lesson 10: speaking to a server by hand.

Era:       both
Revision:  2025-06-18 in its session, 2026-07-28 before it
Page:      basic/index, basic/lifecycle, basic/transports/stdio
Needs:     lesson 0 or 2

No client, no library: a process, two pipes, and lines of JSON. This is all that a client does underneath, and the way
to find out what a server does with a message that no client would send.

    python examples/10_raw_json_rpc.py
"""

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

server = subprocess.Popen(
    [sys.executable, str(Path(__file__).with_name("weather.py"))],
    stdin=subprocess.PIPE,
    stdout=subprocess.PIPE,
    text=True,
)
assert server.stdin is not None
assert server.stdout is not None


def show(who: str, line: str) -> None:
    print(textwrap.fill(line, 100, initial_indent=who, subsequent_indent="   ", break_on_hyphens=False))


def say(line: str) -> None:
    """One message is one line."""
    assert server.stdin is not None
    show("C> ", line)
    server.stdin.write(line + "\n")
    server.stdin.flush()


def hear() -> Any:
    assert server.stdout is not None
    line = server.stdout.readline().rstrip("\n")
    show("S< ", line)
    return json.loads(line)


# In the session era a server answers only `ping` before `initialize`.
say('{"jsonrpc":"2.0","id":1,"method":"tools/list"}')
hear()

# This server also speaks the stateless era. A request that says in `_meta` all that `initialize` would have said needs
# no session, and is answered at any time: lesson 13.
meta = '{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'
say('{"jsonrpc":"2.0","id":"one","method":"tools/list","params":{"_meta":' + meta + "}}")
hear()

# The client says which revision it wants, and who it is. The server answers with the one that it will speak.
say(
    '{"jsonrpc":"2.0","id":2,"method":"initialize","params":'
    '{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"hand","version":"1"}}}'
)
assert hear()["result"]["protocolVersion"] == "2025-06-18"

# Without an id it is a notification: nobody answers. The session is open now.
say('{"jsonrpc":"2.0","method":"notifications/initialized"}')

# An id is an integer or a string, and comes back as it is. 1.5 would be refused: see below.
say('{"jsonrpc":"2.0","id":"three","method":"tools/call","params":{"name":"forecast","arguments":{"city":"Lisbon"}}}')
hear()

# Five mistakes, and the four codes of JSON-RPC for them. Where the id of a request cannot be used, the error says null;
# from 2025-11-25 on it leaves the id out, as lesson 0 does.
say("this is not JSON")
hear()
say('{"jsonrpc":"1.0","id":4,"method":"ping"}')
hear()
say('{"jsonrpc":"2.0","id":1.5,"method":"ping"}')
hear()
say('{"jsonrpc":"2.0","id":5,"method":"tools/explode"}')
hear()
say('{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":7}}')
hear()

# The end of its input is the end of the session.
server.stdin.close()
server.stdout.close()
print("exit code", server.wait(timeout=5))

# Output:
#
# C> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
# S< {"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"Invalid request: tools/list is not
#    allowed while the session is 'new'"}}
# C> {"jsonrpc":"2.0","id":"one","method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/pro
#    tocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}
# S< {"jsonrpc":"2.0","id":"one","result":{"resultType":"complete","ttlMs":0,"cacheScope":"private","t
#    ools":[{"name":"forecast","description":"The weather in a city.","inputSchema":{"type":"object","
#    properties":{"city":{"type":"string"},"days":{"type":"integer","default":3}},"required":["city"],
#    "additionalProperties":false}}],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"weather","
#    version":"1.0"}}}}
# C> {"jsonrpc":"2.0","id":2,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilit
#    ies":{},"clientInfo":{"name":"hand","version":"1"}}}
# S< {"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"2025-06-18","capabilities":{"logging":{},"to
#    ols":{"listChanged":true}},"serverInfo":{"name":"weather","version":"1.0"}}}
# C> {"jsonrpc":"2.0","method":"notifications/initialized"}
# C> {"jsonrpc":"2.0","id":"three","method":"tools/call","params":{"name":"forecast","arguments":{"cit
#    y":"Lisbon"}}}
# S< {"jsonrpc":"2.0","id":"three","result":{"content":[{"type":"text","text":"Lisbon: sun for 3
#    days"}]}}
# C> this is not JSON
# S< {"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error: Expecting value: line 1
#    column 1 (char 0)"}}
# C> {"jsonrpc":"1.0","id":4,"method":"ping"}
# S< {"jsonrpc":"2.0","id":4,"error":{"code":-32600,"message":"Invalid request: jsonrpc must be
#    \"2.0\""}}
# C> {"jsonrpc":"2.0","id":1.5,"method":"ping"}
# S< {"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request: id must be a string
#    or an integer"}}
# C> {"jsonrpc":"2.0","id":5,"method":"tools/explode"}
# S< {"jsonrpc":"2.0","id":5,"error":{"code":-32601,"message":"Method not found:
#    tools/explode","data":{"method":"tools/explode"}}}
# C> {"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":7}}
# S< {"jsonrpc":"2.0","id":6,"error":{"code":-32602,"message":"Invalid params: params.name must be a
#    string, not an integer","data":{"path":"params.name"}}}
# exit code 0
