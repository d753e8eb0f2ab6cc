"""Tests of what is lost with a connection in the stateless era, and what is sent again: a server over stdio that dies
in
mid-call, a reply over HTTP that breaks off, a client that hangs up; headers that the server does not take."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref import Client, Context, RequestTimeout, Server, TransportClosed, text
from mcp_ref.client.targets import Command
from mcp_ref.errors import AnswerLost
from mcp_ref.pages.basic.subscriptions import Listening
from mcp_ref.server.http import HttpService
from tests.features.conftest import until
from tests.support.relay import Relay
from tests.support.wire import PATIENCE, Background

NEW = "2026-07-28"

# -- over stdio: the server dies ----------------------------------------------------------------------------------


class Mortal:
    """A server that dies so many times, and what is known of its life."""

    def __init__(self, folder: Path, deaths: int) -> None:
        self._story = folder / "story"
        self.command = Command([sys.executable, "-m", "tests.features.mortal_server", str(self._story), str(deaths)])
        self.reopened = SimpleQueue[Any]()

    def client(self, **options: Any) -> Client:
        more = {"timeout": PATIENCE, "on_reopen": lambda: self.reopened.put(True), **options}
        return Client(self.command, revision=NEW, **more)

    @property
    def story(self) -> list[str]:
        return self._story.read_text().split()


@pytest.mark.parametrize("what", ["read", "look"])
def test_what_does_no_harm_is_sent_again_to_a_server_that_is_started_again(what: str, tmp_path: Path) -> None:
    mortal = Mortal(tmp_path, 1)
    with mortal.client() as client:
        client.list_tools()
        assert client.read_resource("story://now") if what == "read" else client.call_tool(what)
        assert mortal.story == ["started", what, "died", "started", what]
        assert mortal.reopened.get(timeout=PATIENCE)


def test_any_other_call_fails_and_the_next_one_finds_the_server_started_again(tmp_path: Path) -> None:
    mortal = Mortal(tmp_path, 1)
    with mortal.client() as client:
        client.list_tools()
        with pytest.raises(TransportClosed, match="exited with code 3") as failed:
            client.call_tool("pay")
        # Connecting again would take time, and its own failure would hide whether this call was carried out.
        assert failed.value.sent and mortal.story == ["started", "pay", "died"]
        assert client.call_tool("pay")["content"] == [text("pay")]
        assert mortal.story[3:] == ["started", "pay"]


def test_a_call_is_sent_again_at_most_twice(tmp_path: Path) -> None:
    mortal = Mortal(tmp_path, 100)
    with mortal.client() as client:
        client.list_tools()
        with pytest.raises(TransportClosed, match="exited with code 3"):
            client.call_tool("put")
    assert mortal.story.count("put") == 3


def test_a_server_that_dies_again_and_again_is_not_started_without_end(tmp_path: Path) -> None:
    mortal = Mortal(tmp_path, 100)
    with mortal.client() as client:
        for _ in range(8):
            with pytest.raises(TransportClosed):
                client.call_tool("pay")
    # Once, and five times again within a minute.
    assert mortal.story.count("started") == 6


def test_calls_under_way_in_several_threads_share_one_new_start(tmp_path: Path) -> None:
    mortal = Mortal(tmp_path, 1)
    with mortal.client() as client:
        client.list_tools()
        calls = [Background(client.read_resource, "story://now") for _ in range(4)]
        for call in calls:
            assert call.outcome()["contents"][0]["text"] == "read"
    assert mortal.story.count("started") == 2


def listen_on(events: Listening, heard: SimpleQueue[Any]) -> None:
    """Put the methods of all events into a queue, to the end."""
    for event in events:
        heard.put(event.method)


def test_what_is_listened_for_is_listened_for_again(tmp_path: Path) -> None:
    mortal, again = Mortal(tmp_path, 1), threading.Event()
    with mortal.client() as client, client.listen(tools=True, on_reopen=again.set) as events:
        heard = SimpleQueue[Any]()
        reading = Background(listen_on, events, heard)
        with pytest.raises(TransportClosed):
            client.call_tool("pay")
        assert again.wait(PATIENCE)
        client.call_tool("change")
        assert heard.get(timeout=PATIENCE) == "notifications/tools/list_changed"
        events.close()
        reading.outcome()
    assert mortal.story.count("started") == 2


def test_a_server_that_cannot_be_started_again_leaves_nothing_behind(tmp_path: Path) -> None:
    mortal, gone = Mortal(tmp_path, 1), tmp_path / "gone"
    program = "import sys, pathlib; pathlib.Path(sys.argv[1]).exists() and sys.exit(9);" + (
        "from tests.features.mortal_server import build; build(pathlib.Path(sys.argv[2]), 1).run()"
    )
    command = Command([sys.executable, "-c", program, str(gone), str(tmp_path / "story")])
    with Client(command, revision=NEW, timeout=PATIENCE) as client:
        assert [tool["name"] for tool in client.list_tools()][:1] == ["pay"]
        gone.touch()
        for _ in range(3):
            with pytest.raises(TransportClosed):
                client.call_tool("pay")
        gone.unlink()
        assert client.call_tool("pay")["content"] == [text("pay")]
    assert mortal.reopened.empty()


def test_the_time_limit_of_a_call_holds_while_the_server_is_started_again(tmp_path: Path) -> None:
    program = "import os, sys, pathlib; story = pathlib.Path(sys.argv[1]);" + (
        # The second time it starts, and says nothing.
        "story.exists() and [os.read(0, 65536) for _ in iter(int, 1)];"
        "from tests.features.mortal_server import build; build(story, 1).run()"
    )
    command = Command([sys.executable, "-c", program, str(tmp_path / "story")], grace=0.1)
    with Client(command, revision=NEW, timeout=PATIENCE, connect_timeout=None) as client:
        client.list_tools()
        assert isinstance(Background(client.call_tool, "put", timeout=1).outcome(), RequestTimeout)


# -- over HTTP: the reply breaks off ------------------------------------------------------------------------------


class Held:
    """A server on HTTP whose tools wait until they are let go, or given up; `runs` has what became of each run."""

    def __init__(self) -> None:
        self.server = Server("s")
        self.began, self.runs, self.go = SimpleQueue[Any](), SimpleQueue[Any](), threading.Event()

        def work(ctx: Context) -> str:
            self.began.put(True)
            until(lambda: ctx.cancelled or self.go.is_set())
            self.runs.put("given up" if ctx.cancelled else "done")
            return "done"

        def work_with_reports(ctx: Context) -> str:
            ctx.progress(1)
            return work(ctx)

        self.server.tool("pay")(work)
        self.server.tool("put", annotations={"idempotentHint": True})(work)
        self.server.tool("report")(work_with_reports)
        self.server.tool("hello")(lambda: "hello")

        @self.server.resource("r://y")
        def read(ctx: Context) -> str:
            return work(ctx)

    def serve(self) -> HttpService:
        return self.server.serve_http(keep_alive=0.2)


def connected(url: str, **options: Any) -> Client:
    return Client(url, revision=NEW, **{"timeout": PATIENCE, **options})


@pytest.mark.parametrize("tool", ["pay", "report"])
def test_a_reply_that_breaks_off_loses_its_call_alone(tool: str) -> None:
    held = Held()
    with held.serve() as service, Relay(service.url) as relay, connected(relay.url) as client:
        client.list_tools()
        call = Background(client.call_tool, tool, on_progress=lambda *report: None)
        assert held.began.get(timeout=PATIENCE)
        relay.cut()
        assert isinstance(call.outcome(), AnswerLost)
        # The end of the connection is the end of the request.
        assert held.runs.get(timeout=PATIENCE) == "given up"
        assert client.call_tool("hello")["content"] == [text("hello")]


@pytest.mark.parametrize("how", ["idempotent", "reading", "asked for"])
def test_what_does_no_harm_is_sent_again(how: str) -> None:
    held = Held()
    with held.serve() as service, Relay(service.url) as relay, connected(relay.url) as client:
        client.list_tools()
        if how == "reading":
            call = Background(client.read_resource, "r://y")
        else:
            options: Any = {"resend": True} if how == "asked for" else {}
            call = Background(client.call_tool, "put" if how == "idempotent" else "pay", **options)
        assert held.began.get(timeout=PATIENCE)
        relay.cut()
        assert held.runs.get(timeout=PATIENCE) == "given up"
        assert held.began.get(timeout=PATIENCE)
        held.go.set()
        assert "done" in str(call.outcome())
        assert held.runs.get(timeout=PATIENCE) == "done"
