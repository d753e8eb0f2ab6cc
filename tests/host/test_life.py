"""The life of a server: every state and every event, deaths, and the end."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import closing, nullcontext
from itertools import product
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from mcp_ref import (
    Answer,
    Client,
    Consent,
    Context,
    Host,
    LocalProtocolError,
    RequestTimeout,
    Rule,
    Server,
    ServerDown,
    TransportClosed,
)
from mcp_ref.client.entries import Entry
from mcp_ref.errors import McpError
from mcp_ref.host import life
from mcp_ref.host.life import NEXT
from mcp_ref.kit.threads.deadline import Deadline
from tests.host.common import FREE, PATIENCE, Heard, User, free, hostile, server
from tests.support.clock import until
from tests.support.wire import Background

STATES = ("disabled", "waiting", "starting", "ready", "restarting", "failed", "stopped")
EVENTS = ("ask", "allow", "refuse", "opened", "broken", "lost", "give up", "stop")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(life, "RESTART_INTERVAL", 0.01)


def test_every_event_in_every_state_leads_where_the_table_says() -> None:
    hosted = Host([Entry("a", server())]).servers["a"]
    for state, event in product(STATES, EVENTS):
        hosted.state = state
        assert hosted.happen(event) is (event in NEXT[state])
        assert hosted.state == NEXT[state].get(event, state)
    assert set(NEXT) == set(STATES) and {each for row in NEXT.values() for each in row} == set(EVENTS)


def test_what_is_ready_is_usable_while_others_hang() -> None:
    entries = [hostile("silent", "silent"), Entry("here", server())]
    with closing(Host(entries, consent=free(), start_timeout=30).start(wait=False)) as host:
        assert host.call("here/hello")["content"] == [{"type": "text", "text": "hello"}]
        assert host.servers["silent"].state == "starting"
        assert [tool.name for tool in host.tools()] == ["here/hello"]
    assert host.servers["silent"].state == "stopped"


def test_a_server_that_cannot_be_started_fails_alone_and_says_why() -> None:
    def no_trace(name: str) -> Any:
        return None if name != "untraced" else open("/no/such/folder/trace", "w")

    entries = [
        hostile("dies", "dies-at-start"),
        hostile("silent", "silent", start_timeout=1.0),
        Entry("missing", ["/no/such/program"]),
        hostile("garbage", "garbage", start_timeout=1.0),
        Entry("wrong", None, "a server must have either a command or a url"),
        Entry("old", server(), revision="1999-01-01"),
        Entry("untraced", server()),
        Entry("off", server(), disabled=True),
        Entry("here", server()),
    ]
    problems = {
        "dies": "no such database",
        "silent": "timed out",
        "missing": "could not be started",
        "garbage": "",
        "wrong": "either a command or a url",
        "old": "1999-01-01",
        "untraced": "No such file",
    }
    with Host(entries, consent=free(), start_timeout=60, trace=no_trace) as host:
        found = {name: each.state for name, each in host.servers.items()}
        assert found == {**dict.fromkeys(problems, "failed"), "off": "disabled", "here": "ready"}
        assert [name for name, why in problems.items() if why not in str(host.servers[name].problem)] == []
        assert [tool.name for tool in host.tools()] == ["here/hello"]
        with pytest.raises(ServerDown, match="(?s)server 'dies' is failed.*no such database"):
            host.call("dies/echo")
        with pytest.raises(ServerDown, match="disabled"):
            host.call("off/hello")
        host.start("off")
        assert host.call("off/hello")["content"]
        # A wrong entry stays wrong, whoever asks for it.
        assert host.start("wrong").servers["wrong"].state == "failed"


def test_a_server_that_dies_comes_back_and_after_three_times_a_minute_has_failed(tmp_path: Path) -> None:
    calls, heard = tmp_path / "calls", Heard()
    with Host([hostile("a", "dies-in-call", str(calls))], consent=free(), on_event=heard) as host:
        for lives in range(1, 5):
            with pytest.raises(TransportClosed, match="out of memory"):
                host.call("a/die")
            # A hint of a server that is not trusted does not make it safe to call it again.
            assert calls.read_text() == "x" * lives
            if lives < 4:
                assert host.call("a/echo", {"x": lives})["content"][0]["text"] == json.dumps({"x": lives})
        heard.wait("a", "state", "failed: died 4 times within a minute")
        with pytest.raises(ServerDown, match="out of memory"):
            host.call("a/echo")
        # Until somebody asks for it.
        host.restart("a")
        assert host.call("a/echo")["content"] and host.servers["a"].state == "ready"


def test_a_harmless_tool_of_a_trusted_server_is_called_once_more(tmp_path: Path) -> None:
    calls = tmp_path / "calls"
    with Host([hostile("a", "dies-in-call", str(calls))], consent=free(), trusted=["a"]) as host:
        with pytest.raises(TransportClosed):
            host.call("a/die")
        assert calls.read_text() == "xx"
        with pytest.raises(TransportClosed):
            host.call("a/die", resend=False)
        assert calls.read_text() == "xxx"


def test_a_call_of_a_server_that_dies_after_each_call_joins_the_restart() -> None:
    # It may die before the next call is written, or after: a hint of a trusted server makes both safe.
    with Host([hostile("a", "dies-after-call")], consent=free(), trusted=["a"]) as host:
        for _ in range(3):
            assert host.call("a/die")["content"]


def test_a_call_waits_for_a_restart_no_longer_than_its_time_and_stop_ends_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(life, "RESTART_INTERVAL", 600)
    heard = Heard()
    with Host([hostile("a", "dies-in-call")], consent=free(), on_event=heard) as host:
        with pytest.raises(TransportClosed):
            host.call("a/die")
        heard.wait("a", "state", "restarting")
        with pytest.raises(ServerDown, match="restarting"):
            host.call("a/echo", timeout=0.1)
        host.stop("a")
        assert host.servers["a"].state == "stopped"
        host.servers["a"].stop(Deadline(1))


def test_check_says_what_is_wrong_with_each_and_is_bounded() -> None:
    stuck = threading.Event()
    entries = [Entry("here", server()), Entry("slow", server("slow")), hostile("dies", "dies-at-start")]
    with Host(entries, consent=free()) as host:
        assert host.check()["here"] is None and "failed" in str(host.check()["dies"])
        client: Any = host.servers["slow"].client
        client.request = lambda *given: stuck.wait(600)
        assert host.check(timeout=0.2)["slow"] == "it did not answer in time"
        stuck.set()


def test_close_ends_what_hangs_at_each_of_its_waits() -> None:
    """A start, a call, a model, a window that never closes: each is hanging while the host is closed."""
    stuck, prompted, under_way = threading.Event(), Server("prompts"), list[str]()

    @prompted.tool()
    def prompt(ctx: Context) -> str:
        return str(ctx.sample("hello", max_tokens=1))

    class Model:
        url = "here"

        def choose(self, preferences: Any) -> str:
            return "m"

        def complete(self, request: Any, name: str, cancelled: Any) -> Any:
            under_way.append(name)
            until(cancelled)
            raise RuntimeError("cancelled")

    def ask(question: Any) -> bool:
        under_way.append(question.kind)
        return stuck.wait(600)

    entries = [hostile("s", "silent"), Entry("p", prompted, revision="2025-11-25"), Entry("q", server())]
    consent = Consent([*FREE, Rule("ask", "tool", "q/*")], ask=ask, keep=False)
    host = Host(entries, consent=consent, model=Model(), start_timeout=30).start(wait=False)
    calls = [Background(host.call, name) for name in ("p/prompt", "q/hello")]
    until(lambda: len(under_way) == 2)
    host.close(1)
    prompting, waiting = (call.outcome() for call in calls)
    assert isinstance(prompting, McpError) and "withdrawn" in str(waiting)
    assert sorted(under_way) == ["m", "tool"]
    stuck.set()
    host.close()


@pytest.mark.parametrize("method", ["tools/list", "tools/call", "ping"])
def test_a_server_that_never_answers_one_method_holds_nothing_up(method: str) -> None:
    starts = method != "tools/list"
    entries = [hostile("a", f"hangs-at-{method}", start_timeout=60.0 if starts else 0.7), Entry("here", server())]
    with Host(entries, consent=free(), start_timeout=60) as host:
        assert host.servers["a"].state == ("ready" if starts else "failed")
        assert host.call("here/hello")["content"] and [tool.name for tool in host.tools()][-1] == "here/hello"
        if method == "tools/call":
            with pytest.raises(RequestTimeout):
                host.call("a/echo", timeout=0.3)
        if method == "ping":
            assert host.check(timeout=0.3)["a"] is not None


def test_names_that_there_are_not_are_refused() -> None:
    with Host([Entry("a", server())], consent=free()) as host:
        unknown = "no server is called 'b'", "no tool is called 'a/other'"
        for name, problem in zip(("hello", "b/hello", "a/other"), ("SERVER/NAME", *unknown), strict=True):
            with pytest.raises(LocalProtocolError, match=problem):
                host.call(name)


def test_a_configuration_is_a_file_or_a_dict(tmp_path: Path) -> None:
    weather = {"command": sys.executable, "args": ["examples/weather.py"], "cwd": os.getcwd()}
    config, path = {"mcpServers": {"weather": weather, "wrong": {}}}, tmp_path / "mcp.json"
    path.write_text(json.dumps(config), "utf-8")
    bound = [[each.bound for each in Host(given).servers.values()] for given in (config, path, str(path))]
    assert bound[0] == bound[1] == bound[2]
    with Host(path, consent=free()) as host:
        assert host.servers["wrong"].problem is not None
        assert "sun" in host.call("weather/forecast", {"city": "Lisbon"})["content"][0]["text"]


def test_a_server_gets_the_named_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "swordfish")
    monkeypatch.setenv("NAMED", "herring")
    given = {"command": sys.executable, "args": ["-m", "tests.host.hostile", "echo"], "env": {"OWN": "tuna"},
             "inheritEnv": ["NAMED"], "revision": "2025-11-25"}  # fmt: skip
    with Host({"servers": {"a": given}}, consent=free()) as host:
        found = json.loads(host.call("a/environment")["content"][0]["text"])
    assert found["OWN"] == "tuna" and found["NAMED"] == "herring" and "SECRET" not in found


def test_the_tools_of_an_entry_are_those_that_it_allows_and_does_not_deny() -> None:
    with Host([hostile("a", "echo", allow=("e*", "die"), deny=("env*",))], consent=free()) as host:
        assert [tool.name for tool in host.tools()] == ["a/die", "a/echo"]
        with pytest.raises(LocalProtocolError, match="no tool"):
            host.call("a/environment")


# -- Client(on_close=)


def test_on_close_is_told_once_when_the_server_dies_and_not_when_we_close() -> None:
    told: Queue[McpError] = Queue()
    with Client(hostile("a", "dies-in-call").target, revision="2025-11-25", on_close=told.put) as client:
        for _ in range(2):
            with pytest.raises(TransportClosed):
                client.call_tool("die")
        assert "out of memory" in str(told.get(timeout=PATIENCE))
    for revision in ("2025-11-25", "2026-07-28"):
        with Client(server(), revision=revision, on_close=told.put):
            pass
    assert told.empty()


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_on_close_is_never_told_over_http(revision: str) -> None:
    told: list[McpError] = []
    with server().serve_http() as http:
        with Client(http.url, revision=revision, timeout=2, on_close=told.append) as client:
            client.call_tool("hello")
            http.close(1)
            with pytest.raises(McpError):
                client.call_tool("hello")
    assert not told


def test_an_answer_for_all_tools_holds_for_the_tools_as_they_are() -> None:
    user = User(Answer(True, "run", all=True))
    with Host([hostile("a", "echo")], consent=Consent([Rule("allow", "start")], ask=user, keep=False)) as host:
        host.call("a/echo")
        host.call("a/count")
        host.call("a/echo")
    assert user.kinds == ["tool"]


@pytest.mark.parametrize("trusted", [True, False])
def test_a_server_of_the_stateless_era_comes_back_and_harm_is_not_done_twice(trusted: bool, tmp_path: Path) -> None:
    story, heard = tmp_path / "story", Heard()
    entry = Entry("a", [sys.executable, "-m", "tests.features.mortal_server", str(story), "1"], revision="2026-07-28")
    with Host([entry], consent=free(), trusted=["a"] * trusted, on_event=heard) as host:
        # It says that it only reads.
        with nullcontext() if trusted else pytest.raises(TransportClosed):
            host.call("a/look")
        heard.wait("a", "state", "restarting")
        assert host.call("a/pay")["content"][0]["text"] == "pay"
    lines = story.read_text().split()
    assert lines.count("look") == 1 + trusted and lines.count("pay") == 1 and lines.count("died") == 1
