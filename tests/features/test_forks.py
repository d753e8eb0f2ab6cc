"""`os.fork()`: what is open in one process raises at once in the other, and goes on undisturbed in its own."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mcp_ref import Client, Server, text_of
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.kit.threads.workers import Workers
from tests.support.wire import PATIENCE

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork"),
    # What it warns of is what is tested.
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]


def build() -> Server:
    server = Server("forked")

    @server.tool()
    def where() -> str:
        return str(os.getpid())

    return server


def in_a_child(job: Callable[[], object]) -> str:
    """Return what a job says, or raises, in a forked process; it has a few seconds."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))  # a lock that was inherited would be waited for without end
        try:
            said = repr(job())
        except BaseException as problem:
            said = f"{type(problem).__name__}: {problem}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said = pipe.read().decode()
    status = os.waitpid(child, 0)[1]
    assert status == 0, f"the child was ended by signal {status}"
    return said


def refused(said: str) -> bool:
    found = re.match(r"LocalProtocolError: .* opened in process (\d+) and cannot be used in process (\d+)", said)
    return found is not None and int(found[1]) == os.getpid() != int(found[2]) and "open another one here" in said


@pytest.mark.parametrize(
    ("way", "revision"),
    [("stdio", "2026-07-28"), ("http", "2025-11-25"), ("http", "2026-07-28"), ("memory", "2025-11-25")],
)
def test_a_client_of_another_process_raises_and_closes_nothing(way: str, revision: str) -> None:
    server = build()
    with server.serve_http() as service:
        target: Any = {
            "stdio": [sys.executable, "-m", "tests.features.test_forks"],
            "http": service.url,
            "memory": server,
        }[way]
        with Client(target, revision=revision, timeout=PATIENCE) as client:
            called = client.call_tool("where")
            for job in (
                lambda: client.call_tool("where"),
                lambda: client.list_tools(timeout=1),
                lambda: client.notify("notifications/x"),
                lambda: server.serve_http(),
                lambda: server.tool("another")(lambda: ""),
            ):
                assert refused(in_a_child(job))
            assert in_a_child(client.close) == "None"
            assert in_a_child(service.close) == in_a_child(server.close) == "[]"
            assert client.call_tool("where") == called


def test_a_subscription_of_another_process_raises() -> None:
    with Client(build(), timeout=PATIENCE) as client, client.listen(tools=True) as events:
        assert refused(in_a_child(lambda: next(events)))
        assert refused(in_a_child(lambda: events.get(1)))
        assert in_a_child(events.close) == "None"
        assert not events.closed


@pytest.mark.slow
def test_no_lock_is_inherited_that_blocks() -> None:
    server, over = build(), threading.Event()
    with server.serve_http() as service, Client(service.url, timeout=PATIENCE) as client, Client(server) as near:

        def keep_calling() -> None:
            while not over.is_set():
                client.call_tool("where")
                near.call_tool("where")
                with Client(server) as another:
                    another.ping() if another.revision.era == "session" else another.list_tools()

        threads = [threading.Thread(target=keep_calling) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                assert refused(in_a_child(lambda: client.call_tool("where")))
                assert refused(in_a_child(lambda: near.call_tool("where")))
                assert in_a_child(lambda: (client.close(), near.close())) == "(None, None)"

                def fresh() -> str:
                    with Client(build(), timeout=PATIENCE) as own:
                        return str(own.call_tool("where")["content"][0]["text"]) + " " + str(os.getpid())

                there, here = in_a_child(fresh).strip("'").split()
                assert there == here
        finally:
            over.set()
            for thread in threads:
                thread.join()


def test_a_server_that_serves_nobody_may_be_forked() -> None:
    server = build()
    with Client(server) as client:
        client.call_tool("where")

    def serve() -> str:
        with server.serve_http() as service, Client(service.url, timeout=PATIENCE) as client:
            return str(client.call_tool("where")["content"][0]["text"] == str(os.getpid()))

    assert in_a_child(serve) == "'True'"


def test_a_pool_of_another_process_raises() -> None:
    pool = Workers()
    ran = threading.Event()
    pool.run(ran.set)
    assert ran.wait(PATIENCE)
    assert refused(in_a_child(lambda: pool.run(print)))
    pool.close(Deadline(PATIENCE))


if __name__ == "__main__":
    build().run()


FORKING = """
import os, sys
from mcp_ref import Server
server = Server("s")

@server.tool()
def forks(how: str) -> str:
    child = os.fork()
    if child == 0:
        if how == "raise":
            raise RuntimeError("no")
        if how != "return":
            sys.exit(int(how))
        return "from the child"
    return str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

server.run()
"""


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_child_of_a_tool_ends_and_answers_nothing(revision: str) -> None:
    with Client([sys.executable, "-W", "ignore", "-c", FORKING], revision=revision, timeout=PATIENCE) as client:
        for how, code in (("0", "0"), ("3", "3"), ("return", "0")):
            assert text_of(client.call_tool("forks", {"how": how})) == code
