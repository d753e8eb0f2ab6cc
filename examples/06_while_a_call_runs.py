"""Lesson 6: progress, log messages, cancellation, time limits.

Era:       session
Revision:  2025-11-25
Page:      basic/utilities/progress, basic/utilities/cancellation, server/utilities/logging
Needs:     lesson 1

A call may take long. The server reports progress if the request asked for it, and logs if the client wants to hear it.
The client may give the call up, also from another thread, and never waits longer than its time limit. From 2026-07-28
on log messages are deprecated; the rest is the same there.

    python examples/06_while_a_call_runs.py
"""

import queue
import threading

from mcp_ref import Cancel, Client, Context, JsonObject, RequestCancelled, RequestTimeout, Server

server = Server("kitchen")
stopped: queue.Queue[str] = queue.Queue()


@server.tool()
def bake(loaves: int, ctx: Context) -> str:
    """Bake some bread."""
    for loaf in range(1, loaves + 1):
        ctx.log("info", f"loaf {loaf} is in the oven")
        ctx.progress(loaf, loaves, f"loaf {loaf}")
    return f"{loaves} loaves"


@server.tool()
def ferment(ctx: Context) -> str:
    """Let the dough rest until somebody has had enough."""
    ctx.progress(1, message="resting")
    # A handler cannot be stopped from outside: it has to check now and then whether it should go on.
    try:
        while True:
            ctx.check_cancelled()
            threading.Event().wait(0.01)
    except RequestCancelled as reason:
        stopped.put(str(reason))
        raise


logged: queue.Queue[JsonObject] = queue.Queue()

with Client(server, revision="2025-11-25", on_log=logged.put) as client:
    # Log messages come once the client has said from which level on. They arrive in the thread `mcp-events`.
    client.set_log_level("info")

    # Giving `on_progress` asks for progress. It is called here, in the thread that waits for the result.
    baked = client.call_tool(
        "bake", {"loaves": 2}, on_progress=lambda done, total, text: print(done, "of", total, text)
    )
    print(baked["content"])
    print("logged:", [logged.get(timeout=5)["data"] for _ in range(2)])

    # A `Cancel` is a handle that any thread may call. The call ends here at once; the server is told, with the reason.
    enough = Cancel()
    resting = threading.Event()

    def interrupt() -> None:
        resting.wait(5)
        enough("the guests are here")

    other = threading.Thread(target=interrupt)
    other.start()
    try:
        client.call_tool("ferment", cancel=enough, on_progress=lambda *seen: resting.set())
    except RequestCancelled as problem:
        print("cancelled:", problem)
    other.join()
    print("the handler stopped:", stopped.get(timeout=5))

    # A time limit does the same.
    try:
        client.call_tool("ferment", timeout=0.2)
    except RequestTimeout as problem:
        print("timeout:", problem)
    print("the handler stopped:", stopped.get(timeout=5))

    # The session goes on.
    client.ping()

# Output:
#
# 1 of 2 loaf 1
# 2 of 2 loaf 2
# [{'type': 'text', 'text': '2 loaves'}]
# logged: ['loaf 1 is in the oven', 'loaf 2 is in the oven']
# cancelled: the guests are here
# the handler stopped: the guests are here
# timeout: timed out after 0.2 s waiting for the answer to tools/call
# the handler stopped: timed out after 0.2 s waiting for the answer to tools/call
