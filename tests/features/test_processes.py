"""A server in several processes: what any of them can answer, what one of them has, and what happens when one dies."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mcp_ref import Client, Context, Server, StateKeys, TransportClosed, text_of
from tests.features.conftest import until
from tests.pages.basic.transports.streamable_http import modern
from tests.support.machine import free_port
from tests.support.wire import PATIENCE, Background
from tests.under_wsgi import ROOT, Running, children, under

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
APPLICATION = "tests.features.mounted:application"
KEY, OTHER = "k" * 43, "o" * 43


# -- rounds: the question from one process, the answer to another --------------------------------------------------


def process_of(keys: StateKeys | None) -> Server:
    """A server as each process makes it."""
    server = Server("travel", state_keys=keys)

    @server.tool()
    def book(city: str, ctx: Context) -> str:
        answer = ctx.elicit("Where?", {"seat": {"type": "string"}})
        return f"{city}: {answer['content']['seat']}"

    return server


def test_a_process_goes_on_with_what_another_has_asked_also_while_keys_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(OTHER)
    here, there = process_of(StateKeys.from_file(path)), process_of(StateKeys.from_file(path))
    for replaced in (False, True):
        with Client(here, revision="2026-07-28", elicit=lambda message, schema: {"seat": "aisle"}) as client:
            asked = client.call_tool("book", {"city": "Oslo"}, by_hand=True)
            more: Any = {"input_responses": client.answers_to(asked), "request_state": asked["requestState"]}
        if replaced:
            (tmp_path / "new").write_text(f"{KEY}\n{OTHER}")
            os.replace(tmp_path / "new", path)
        with Client(there, revision="2026-07-28") as client:
            assert text_of(client.call_tool("book", {"city": "Oslo"}, by_hand=True, **more)) == "Oslo: aisle"


def test_a_missing_key_is_named_where_several_processes_serve(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ValueError, match="no key was found in the environment variable MCP_STATE_KEYS"):
        StateKeys.from_env("MCP_STATE_KEYS")
    application = process_of(None).wsgi()
    message = modern.asked(
        "tools/call", {"name": "book", "arguments": {"city": "Oslo"}}, meta=modern.envelope(elicitation={})
    )
    body = json.dumps(message).encode()
    environ = {
        "REQUEST_METHOD": "POST", "PATH_INFO": "/mcp", "HTTP_HOST": "localhost", "CONTENT_TYPE": "application/json",
        "HTTP_ACCEPT": "application/json, text/event-stream", "CONTENT_LENGTH": str(len(body)),
        **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in modern.mirrored(message).items()},
        "wsgi.input": io.BytesIO(body), "wsgi.multiprocess": True,
    }  # fmt: skip
    answer = json.loads(b"".join(application(environ, lambda status, headers: lambda data: None)))
    application.close()
    assert "cannot read each other's questions: give state_keys=" in text_of(answer["result"])
    assert "give sessions=False" in caplog.text


# -- four workers at one address ----------------------------------------------------------------------------------


def pid(client: Client) -> int:
    return int(text_of(client.call_tool("process")))


@contextmanager
def four_workers(**options: Any) -> Iterator[Running]:
    env = {"MOUNTED_KEYS": KEY, "MOUNTED_OPTIONS": json.dumps({"sessions": False, **options})}
    with under("gunicorn", APPLICATION, workers=4, threads=16, env=env) as running:
        yield running


@pytest.mark.slow
def test_a_worker_that_is_killed_takes_its_calls_with_it_and_nothing_else() -> None:
    heard: list[str] = []
    with (
        four_workers() as running,
        Client(running.url, revision="2026-07-28", timeout=PATIENCE) as client,
        Client(running.url, revision="2026-07-28", timeout=PATIENCE) as other,
    ):
        # In mid-call: the call ends with an error that says so.
        began = threading.Event()
        call = Background(
            lambda: client.call_tool("wait", {"name": "x"}, on_progress=lambda *_: began.set(), timeout=PATIENCE)
        )
        assert began.wait(PATIENCE)
        # Not the worker of the call, or not it alone: the one that a listener is with.
        with other.listen(tools=True, on_reopen=lambda: heard.append("reopened")) as events:
            reading = Background(lambda: next(iter(events)))
            for worker in children(running.process.pid):
                os.kill(worker, signal.SIGKILL)
            assert isinstance(call.outcome(), TransportClosed)
            # In mid-stream: it is opened again with another worker; the next call finds one too.
            until(lambda: heard)
            assert pid(client) > 0
            events.close()
            assert isinstance(reading.outcome(), StopIteration)


# -- sessions, each with its process -------------------------------------------------------------------------------


@contextmanager
def nginx(folder: Path, *processes: Running) -> Iterator[str]:
    """The configuration that the guide names, with the addresses of these processes; gives the URL."""
    if NGINX is None:
        pytest.skip("no nginx: apt-get install nginx-light, or bash .ci/system-packages")
    config, port = (ROOT / "examples/recipes/pinned_sessions.conf").read_text(), free_port()
    for number, process in enumerate(processes, 8001):
        config = config.replace(f"127.0.0.1:{number}", urlsplit(process.url).netloc)
    (folder / "pinned.conf").write_text(config.replace("127.0.0.1:8000", f"127.0.0.1:{port}"))
    user = "user root;" if os.getuid() == 0 else ""
    (folder / "nginx.conf").write_text(
        f"daemon off; {user} pid {folder}/pid; worker_processes 1; events {{ worker_connections 512; }}"
        f" http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;"
        f" include {folder}/pinned.conf; }}"
    )
    command = [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "errors")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:

            def listens() -> bool:
                with socket.socket() as probe:
                    return probe.connect_ex(("127.0.0.1", port)) == 0

            until(listens)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()


@pytest.mark.slow
def test_sessions_are_pinned_to_their_process_behind_nginx(tmp_path: Path) -> None:
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                under("waitress", APPLICATION, env={"MOUNTED_OPTIONS": json.dumps({"session_prefix": prefix})})
            )
            for prefix in ("a.", "b.")
        ]
        url = stack.enter_context(nginx(tmp_path, *processes))
        heard: list[str] = []
        answering = {
            "revision": "2025-11-25", "timeout": PATIENCE, "elicit": lambda message, schema: {"seat": "aisle"},
            "on_change": lambda method, params: heard.append(method),
        }  # fmt: skip
        clients = [stack.enter_context(Client(url, **answering)) for _ in range(4)]
        # Each stays where it is, in a handler's question and on its standing stream too; they are not all in one place.
        homes = [{pid(client) for _ in range(5)} for client in clients]
        assert all(len(home) == 1 for home in homes)
        assert len(set[int]().union(*homes)) == 2
        for client in clients:
            assert text_of(client.call_tool("book", {"city": "Oslo"})) == "Oslo: aisle"
        clients[0].subscribe_resource("note://1")
        clients[0].call_tool("change")
        until(lambda: "notifications/resources/updated" in heard)
        # A listener of the stateless era is told at once: nothing holds events back.
        with Client(url, revision="2026-07-28", timeout=PATIENCE) as alone, alone.listen(tools=True) as events:
            [told.call_tool("change") for told in clients]
            assert events.get(PATIENCE).method == "notifications/tools/list_changed"
        # One process is gone: its sessions are answered with 404 by the other, and their clients open new ones.
        gone = next(iter(homes[0]))
        killed = next(each for each in processes if each.process.pid == gone).process
        killed.kill()
        killed.wait(PATIENCE)
        assert {pid(client) for client in clients} == set[int]().union(*homes) - {gone}
