"""Lesson 2: the same over stdio, with a server that is a process of its own.

Era:       stateless
Revision:  2026-07-28
Page:      basic/transports/stdio
Needs:     lesson 1

The client starts the server (`weather.py`, beside this file). It writes each message as one line to the server's
standard input, and reads each message as one line from its standard output. That is the whole transport; lesson 10
writes the lines by hand.

    python examples/02_over_stdio.py
"""

import sys
from pathlib import Path

from mcp_ref import Client, TransportClosed

weather = [sys.executable, str(Path(__file__).with_name("weather.py"))]

# A list of strings is a command. Leaving the `with` block closes the server's input, and the server ends.
with Client(weather, timeout=10) as client:
    print("tools:", [tool["name"] for tool in client.list_tools()])
    result = client.call_tool("forecast", {"city": "Lisbon", "days": 2})
    print("result:", result["content"])

# A call after the end fails at once; it does not wait for its timeout.
try:
    client.list_tools()
except TransportClosed as problem:
    print("afterwards:", problem)

# If a server dies, no call waits for ever: the error has its exit code and its last words.
broken = [sys.executable, "-c", "import sys; sys.exit('no configuration found')"]
try:
    with Client(broken):
        pass
except TransportClosed as problem:
    print("broken:", str(problem).splitlines()[1].strip())

# Output:
#
# tools: ['forecast']
# result: [{'type': 'text', 'text': 'Lisbon: sun for 2 days'}]
# afterwards: the client was closed
# broken: no configuration found
