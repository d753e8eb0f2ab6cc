"""Lesson 29: an end, seen from the server.

Era:       session
Revision:  2025-11-25
Page:      basic/lifecycle, basic/transports/stdio
Needs:     lessons 2 and 10

No message says goodbye. Over stdio the end of a server's input is the end of the session: handlers that still run have
a short time to finish and are then cancelled, `run()` returns, and the process ends. So a tool that takes long looks
now and then whether it should stop. This file starts itself as the server, and shows what it writes on standard error.

    python examples/29_an_end_seen_from_the_server.py
"""

import sys
import threading
from subprocess import PIPE, Popen

from mcp_ref import Context, RequestCancelled, Server

server = Server("oven")


@server.tool()
def bake(ctx: Context) -> str:
    print("the handler begins", file=sys.stderr, flush=True)
    try:
        while True:
            ctx.check_cancelled()
            threading.Event().wait(0.01)
    except RequestCancelled:
        print("the handler puts the bread away", file=sys.stderr, flush=True)
        raise


if sys.argv[1:] == ["serve"]:
    server.run()
    print("run() has returned", file=sys.stderr)
    sys.exit()

child = Popen([sys.executable, __file__, "serve"], stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True)
assert child.stdin and child.stdout and child.stderr
who = '{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hand","version":"1"}}'
child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"initialize","params":' + who + "}\n")
child.stdin.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
child.stdin.write('{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"bake"}}\n')
child.stdin.flush()
print(child.stderr.readline(), end="")
print("the client closes the server's input")
out, err = child.communicate(timeout=20)
print(err, end="")
print("answers:", len(out.splitlines()), "(to initialize); exit code:", child.returncode)

# Output:
#
# the handler begins
# the client closes the server's input
# the handler puts the bread away
# run() has returned
# answers: 1 (to initialize); exit code: 0
