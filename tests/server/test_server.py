"""server/server: registries, what is declared, who is told, rates, and the end."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest.mock import Mock

import pytest

from mcp_ref import Client, Context, LocalProtocolError, Server, TransportClosed
from mcp_ref.kit.threads.deadline import Deadline, Rate, RateLimits
from mcp_ref.pages.server.utilities.completion import prompt_ref
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS
from mcp_ref.server.server import DEFAULT_RATE, DEFAULT_RATES
from tests.eras import open_server
from tests.support.clock import Clock
from tests.support.wire import PATIENCE, at_once, opened, to_server

NAMES = list(REVISIONS)
OLDER = [row.name for row in SESSION_REVISIONS]
ONE = Rate(per_second=0.5, burst=1)

ADD: dict[str, Callable[[Server], Any]] = {
    "tools": lambda server: server.tool("t")(lambda: ""),
    "resources": lambda server: server.resource("x://a")(lambda: ""),
    "templates": lambda server: server.resource("x://{a}/b")(lambda a: ""),
    "prompts": lambda server: server.prompt("p")(lambda: ""),
    "completions": lambda server: server.completion(prompt="p", argument="a")(lambda value: []),
}
REMOVE: dict[str, Callable[[Server], Any]] = {
    "tools": lambda server: server.remove_tool("t"),
    "resources": lambda server: server.remove_resource("x://a"),
    "templates": lambda server: server.remove_resource("x://{a}/b"),
    "prompts": lambda server: server.remove_prompt("p"),
}
CHANGED = {
    feature: f"notifications/{'resources' if feature == 'templates' else feature}/list_changed" for feature in REMOVE
}
RESOURCES: Any = {"resources": {"subscribe": True, "listChanged": True}}
CAPABILITY: dict[str, Any] = {
    **{feature: {feature: {"listChanged": True}} for feature in ("tools", "prompts")},
    **dict.fromkeys(("resources", "templates"), RESOURCES),
    "completions": {"completions": {}},
}


# -- registries ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("feature", REMOVE)
def test_a_name_is_taken_once_until_it_is_removed_and_a_snapshot_never_changes(feature: str) -> None:
    server = Server("s")
    for _ in range(2):
        before = server.registries[feature]
        ADD[feature](server)
        first = server.registries[feature]
        with pytest.raises(ValueError, match=f"{feature} already has"):
            ADD[feature](server)
        assert server.registries[feature] == first
        REMOVE[feature](server)
        assert [len(each) for each in (before, first, server.registries[feature])] == [0, 1, 0]
    with pytest.raises(KeyError):
        REMOVE[feature](server)


def test_nothing_is_lost_when_several_threads_register_at_once() -> None:
    server = Server("s")

    def register(first: int) -> None:
        for number in range(first, first + 25):
            server.tool(f"t{number}")(lambda: "")

    at_once(*(partial(register, first) for first in range(0, 100, 25)))
    assert set(server.registries["tools"]) == {f"t{number}" for number in range(100)}


# -- what is declared ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("feature", ADD)
def test_a_feature_is_declared_with_its_first_entry_or_before(feature: str, name: str) -> None:
    expected = {} if (feature, name) == ("completions", "2024-11-05") else CAPABILITY[feature]
    before, with_entry = Server("s", declare=[feature]), Server("s")
    ADD[feature](with_entry)
    for server in (before, with_entry):
        with open_server(server, name) as wire:
            assert wire.opening["capabilities"] == {"logging": {}} | expected  # type: ignore[attr-defined]


ASKED: dict[str, tuple[Callable[[Client], Any], list[str]]] = {
    "tools": (Client.list_tools, ["tools/list", "tools/call"]),
    "prompts": (Client.list_prompts, ["prompts/list", "prompts/get"]),
    "resources": (Client.list_resources, ["resources/list", "resources/read"]),
    "completions": (lambda client: client.complete(prompt_ref("p"), "a", ""), ["completion/complete"]),
}


@pytest.mark.parametrize(
    ("feature", "name"),
    [(feature, name) for feature in ASKED for name in NAMES if (feature, name) != ("completions", "2024-11-05")],
)
def test_what_was_not_declared_is_neither_asked_for_nor_answered(feature: str, name: str) -> None:
    ask, methods = ASKED[feature]
    with Client(Server("s"), revision=name) as client:
        assert feature not in client.server_capabilities
        with pytest.raises(LocalProtocolError, match=rf"server\.{feature}"):
            ask(client)
    with open_server(Server("s"), name) as wire:
        for method in methods:
            assert wire.request(method, method, {"name": "a", "uri": "x://a"})["error"]["code"] == -32601


@pytest.mark.parametrize("name", NAMES)
def test_a_feature_that_is_declared_and_empty_has_empty_lists(name: str) -> None:
    with Client(Server("s", declare=["tools", "resources", "prompts"]), revision=name) as client:
        assert client.list_tools() == client.list_prompts() == []
        assert client.list_resources() == client.list_resource_templates() == []


@pytest.mark.parametrize("options", [{"declare": ["tool"]}, {"page_size": 0}, {"revisions": []}])
def test_what_a_server_cannot_be_is_refused_when_it_is_made(options: Any) -> None:
    with pytest.raises(ValueError, match=r"unknown features|page_size|choose one or more"):
        Server("s", **options)


# -- who is told --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OLDER)
def test_a_change_of_a_list_is_told_by_itself_to_every_open_session(name: str) -> None:
    server = Server("s", declare=[*REMOVE])
    with opened(server, name) as one, opened(server, name) as other:
        for feature, change in itertools.product(REMOVE, (ADD, REMOVE)):
            change[feature](server)
            assert one.receive() == other.receive() == {"jsonrpc": "2.0", "method": CHANGED[feature]}


def test_who_was_never_told_of_a_feature_is_not_told_of_its_changes() -> None:
    server = Server("s")
    with opened(server, "2025-11-25") as before, to_server(server) as opening:
        ADD["tools"](server)
        assert before.request(1, "tools/list")["error"]["code"] == -32601
        with opened(server, "2025-11-25") as after:
            # A completion is in no list.
            ADD["completions"](server)
            REMOVE["tools"](server)
            assert after.receive()["method"] == CHANGED["tools"]
        for wire in (before, opening):
            assert wire.request(2, "ping")["result"] == {}


@pytest.mark.parametrize("how", ["it is gone", "it breaks while it is told"])
def test_a_session_that_cannot_be_told_does_not_keep_the_others_from_it(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server("s", declare=["tools"])
    with opened(server, "2025-11-25") as one, opened(server, "2025-11-25") as other:
        first = server.sessions[0]
        if how == "it is gone":
            one.transport.close(Deadline(PATIENCE))
            assert first.wait(PATIENCE)
        else:
            monkeypatch.setattr(first, "notify", Mock(side_effect=TransportClosed("gone")))
        ADD["tools"](server)
        assert other.receive()["method"] == CHANGED["tools"]


# -- rates --------------------------------------------------------------------------------------------------------


def limited() -> Server:
    server = Server("s", rates=dict.fromkeys(DEFAULT_RATES, ONE))

    @server.tool()
    def busy(ctx: Context) -> str:
        for number in range(3):
            ctx.log("info", number)
            ctx.progress(number)
        return "done"

    server.prompt("p")(lambda a: a)
    server.completion_values(["x"], prompt="p", argument="a")
    return server


def test_what_can_flood_has_a_rate_without_any_setting() -> None:
    for method in ("tools/call", "completion/complete", "notifications/message", "notifications/progress"):
        assert Server("s").limits.rates[method] is DEFAULT_RATE


def test_a_flood_meets_the_rates_that_nobody_set_and_heavy_use_does_not() -> None:
    clock, part = Clock(0.0), 100
    # A hundredth of everything: so many fewer calls meet it.
    rate = Rate(DEFAULT_RATE.per_second / part, DEFAULT_RATE.burst // part)
    limits = RateLimits({"tools/call": rate}, clock)

    def calls(number: int, per_second: int) -> bool:
        """Whether so many calls pass, the last of them too."""
        for _ in range(number // part):
            waits = limits.take("a client", "tools/call")
            clock.now += part / per_second
        return not waits

    assert calls(40_000, per_second=25_000), "as a benchmark does"
    assert calls(100_000, per_second=5_000), "for a while"
    assert not calls(100_000, per_second=20_000)
    clock.now += 10
    assert calls(50_000, per_second=100_000) and not calls(10_000, per_second=100_000)


@pytest.mark.parametrize("name", NAMES)
def test_too_many_requests_are_refused_with_429_and_told_when_to_try_again(name: str) -> None:
    completion = {"ref": prompt_ref("p"), "argument": {"name": "a", "value": ""}}
    with open_server(limited(), name) as wire:
        for method, params in (("tools/call", {"name": "p"}), ("completion/complete", completion)):
            assert wire.request(method, method, params).get("error", {}).get("code") != 429
            error = wire.request(f"again {method}", method, params)["error"]
            assert (error["code"], error["message"]) == (429, "Too many requests")
            assert 0 < error["data"]["retryAfter"] <= 2
        assert wire.request(9, "prompts/list")["result"]["prompts"]


def test_a_flood_of_log_and_progress_is_dropped_and_the_loss_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    params = {"name": "busy", "_meta": {"progressToken": "t"}}
    with opened(limited(), "2025-11-25") as wire:
        assert wire.request(1, "tools/call", params)["params"] == {"level": "info", "data": 0}
        assert wire.receive()["params"] == {"progressToken": "t", "progress": 0}
        assert wire.receive()["result"]["content"][0]["text"] == "done"
    lost = [record.message.split()[3] for record in caplog.records]
    assert lost == ["notifications/message", "notifications/progress"]


# -- the end ------------------------------------------------------------------------------------------------------


def test_close_ends_every_session_and_may_be_called_again() -> None:
    server = Server("s")
    with opened(server, "2025-11-25") as one, opened(server, "2024-11-05") as other:
        assert len(server.sessions) == 2
        assert server.close() == server.close() == []
        assert server.sessions == ()
        assert isinstance(one.receive(), ConnectionError) and isinstance(other.receive(), ConnectionError)
        server.tool("late")(lambda: "")
        server.log("info", "nobody hears this")
    with opened(server, "2025-11-25") as again:
        assert again.request(1, "tools/list")["result"]["tools"]


def test_close_names_the_handlers_that_do_not_end() -> None:
    server, running, leave = Server("s"), threading.Semaphore(0), threading.Event()

    @server.tool()
    def stuck() -> str:
        running.release()
        leave.wait(PATIENCE)
        return ""

    with opened(server, "2025-11-25") as one, opened(server, "2025-11-25") as other:
        for wire in (one, other):
            wire.call(1, "stuck")
            assert running.acquire(timeout=PATIENCE)
        assert server.close(timeout=0.1) == ["tools/call (id 1)", "tools/call (id 1)"]
        leave.set()


@pytest.mark.slow
def test_a_program_loads_nothing_that_it_does_not_use() -> None:
    program = (
        "import sys; from mcp_ref import Client, Server\n"
        "with Server('s').serve_http() as http, Client(http.url) as client: client.discover()\n"
        "with Client(Server('s')) as client: client.discover()\n"
        "extras = ('authorization', 'jwt', 'cryptography', 'mcp_ref.host', 'skills', 'frontmatter', 'yaml')\n"
        "print([name for name in sys.modules if any(extra in name for extra in extras)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout == "[]\n"
