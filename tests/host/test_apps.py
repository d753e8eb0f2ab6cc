"""Views: what a host tells a document that it shows, and what it lets it do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, reduce
from typing import Any

import pytest

from mcp_ref import Consent, Context, ErrorResponse, Host, LocalProtocolError, McpError, Rule, Server, text_of
from mcp_ref.client.entries import Entry
from mcp_ref.host import apps as page
from mcp_ref.host.apps import MAX_CALLS, MAX_VIEWS, AppCall
from mcp_ref.lab.testing.headless_view import HeadlessView
from mcp_ref.pages.extensions.apps import APPS, Apps
from mcp_ref.wire.messages import JsonObject
from tests.host.common import PATIENCE, Heard, User, free
from tests.support.clock import until
from tests.support.wire import Background, at_once

HTML = "<!doctype html><title>Weather</title>"
URI = "ui://weather/now"
START = Rule("allow", "start")
NOW = AppCall("weather/now", {"city": "Porto"}, {"content": [{"type": "text", "text": "rain"}]})


@pytest.fixture(autouse=True)
def a_view_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "LEAVE", 0.02)


class Held:
    """A tool that waits to be let go."""

    def __init__(self) -> None:
        self.entered, self.leave = threading.Semaphore(0), threading.Event()


def weather(held: Held | None = None, **about: Any) -> Server:
    apps = Apps()
    apps.html(URI, HTML, **about)
    server = Server("weather", extensions=[apps])

    @server.tool(ui=URI)
    def now(city: str) -> str:
        return f"rain in {city}"

    @server.tool(visibility=["app"])
    def refresh(ctx: Context) -> str:
        if held is not None:
            held.entered.release()
            while not held.leave.wait(0.01) and not ctx.cancelled:
                pass
        return "sun"

    @server.tool(visibility=["model"])
    def secret() -> str:
        return "for the model"

    @server.tool()
    def refused() -> None:
        raise ErrorResponse(4242, "no", None)

    server.resource("note://here")(lambda: "a note")
    return server


@contextmanager
def hosting(
    server: Server | None = None, *, modes: list[str] | None = None, call: AppCall = NOW, more: Any = (), **options: Any
) -> Iterator[tuple[Host, HeadlessView]]:
    entries = [Entry("weather", server or weather()), *more]
    options = {"consent": free(), "extensions": [APPS], **options}
    shown = {"modes": options.pop("shown")} if "shown" in options else {}
    with Host(entries, **options) as host:
        yield host, HeadlessView(host.open_app(call, **shown), modes, PATIENCE)


@pytest.fixture
def hosted() -> Iterator[tuple[Host, HeadlessView]]:
    with hosting() as (host, view):
        view.open()
        yield host, view


@pytest.fixture
def view(hosted: tuple[Host, HeadlessView]) -> HeadlessView:
    """A view that is open."""
    return hosted[1]


@pytest.fixture
def host(hosted: tuple[Host, HeadlessView]) -> Host:
    """The host of the view that is open."""
    return hosted[0]


def code(ask: Callable[[], object]) -> int:
    with pytest.raises(ErrorResponse) as refused:
        ask()
    return refused.value.code


# -- opening


def test_a_view_is_told_where_it_is_and_then_of_the_call() -> None:
    with hosting() as (host, view):
        assert repr(view.view) == f"<AppView {URI} of weather: loading>"
        assert view.view.document.html == HTML
        context = view.open()
        assert (context["displayMode"], context["availableDisplayModes"]) == ("inline", ["inline"])
        assert context["toolInfo"]["tool"]["name"] == "now"
        assert view.host["protocolVersion"] == "2026-01-26" and view.host["hostInfo"]["name"] == "mcp_ref"
        assert view.host["hostCapabilities"].keys() >= {"openLinks", "serverTools", "serverResources", "logging"}
        assert view.told("ui/notifications/tool-input") == {"arguments": {"city": "Porto"}}
        assert view.told("ui/notifications/tool-result") == NOW.result
        assert (view.view.state, view.view.info["name"]) == ("running", "headless")
        assert host.views == [view.view]


def test_what_the_resource_declares_is_in_the_policy_and_the_user_is_told() -> None:
    heard = Heard()
    with hosting(weather(csp={"connectDomains": ["https://api.example.com"]}), on_event=heard) as (_, view):
        assert "connect-src https://api.example.com;" in view.view.document.policy
        view.open()
        sandbox = view.host["hostCapabilities"]["sandbox"]
        assert sandbox == {"csp": {"connectDomains": ["https://api.example.com"]}, "permissions": {}}
        heard.wait("weather", "notice", f"the app {URI} reaches https://api.example.com")


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ("weather/secret", "not a tool that names a document"), ("weather/nothing", "not a tool that names a document"),
        ("other/now", "no server is called"), ("now", "SERVER/NAME"),
    ],
)  # fmt: skip
def test_a_tool_without_a_document_is_not_shown(host: Host, call: str, why: str) -> None:
    with pytest.raises(LocalProtocolError, match=why):
        host.open_app(AppCall(call))


def test_a_host_without_the_extension_shows_nothing_and_declares_nothing() -> None:
    with Host([Entry("weather", weather())], consent=free()) as host:
        with pytest.raises(LocalProtocolError, match=r"extensions=\[APPS\]"):
            host.open_app(NOW)
        assert "extensions" not in host.servers["weather"].client.capabilities  # type: ignore[union-attr]


def test_a_document_of_another_type_is_not_shown() -> None:
    server = Server("s", extensions=[Apps()])
    server.tool("now", ui=URI)(lambda: "x")
    server.resource(URI, mime_type="text/html")(lambda: HTML)
    with Host([Entry("weather", server)], consent=free(), extensions=[APPS]) as host:
        with pytest.raises(McpError, match="text/html;profile=mcp-app"):
            host.open_app(NOW)
        assert host.views == []


def test_a_host_has_so_many_views(host: Host, view: HeadlessView) -> None:
    for _ in range(MAX_VIEWS - 1):
        host.open_app(NOW)
    with pytest.raises(LocalProtocolError, match="close one first"):
        host.open_app(NOW)
    view.view.close(0.02)
    host.open_app(NOW)


# -- the order


def test_nothing_goes_to_a_view_before_it_is_ready() -> None:
    with hosting(call=NOW._replace(result=None)) as (_, view):
        view.view.finish({"content": []})
        view.view.change_context(theme="dark")
        assert view.view.next(0) is None
        about = {"name": "v", "version": "1"}
        answer = view.ask("ui/initialize", appInfo=about, appCapabilities={}, protocolVersion="2026-01-26")
        assert answer["hostContext"]["theme"] == "dark"
        view.view.change_context(theme="light")
        assert view.view.next(0) is None
        view.say("ui/notifications/initialized")
        assert view.told("ui/notifications/tool-input")


def test_nothing_is_done_for_a_view_that_has_not_introduced_itself() -> None:
    asks: dict[str, Any] = {"tools/call": {"name": "refresh"}, "resources/read": {"uri": "note://here"}}
    with hosting() as (host, view):
        for method, params in (asks | dict.fromkeys(("ui/message", "ui/open-link", "ping"), {})).items():
            assert code(partial(view.ask, method, **params)) == -32600, method
        view.say("ui/notifications/initialized")
        assert view.view.state == "loading"
        view.open()
        assert code(lambda: view.ask("ui/initialize", appInfo={}, appCapabilities={}, protocolVersion="x")) == -32600
        assert host.context == []


def test_a_call_that_ends_later_is_told_once_and_by_its_first_end() -> None:
    with hosting(call=NOW._replace(result=None)) as (_, view):
        view.open()
        assert view.told("ui/notifications/tool-input") and view.view.next(0) is None
        view.view.cancel("the user has changed their mind")
        view.view.finish({"content": []})
        assert view.told("ui/notifications/tool-cancelled") == {"reason": "the user has changed their mind"}
        assert view.view.next(0) is None


def test_a_result_that_comes_while_the_document_loads_waits_for_it() -> None:
    with hosting(call=NOW._replace(result=None)) as (_, view):
        view.view.finish({"content": []})
        view.open()
        assert [view.view.next(0)["method"] for _ in range(2)] == [  # type: ignore[index]
            "ui/notifications/tool-input", "ui/notifications/tool-result"
        ]  # fmt: skip


def test_a_view_is_asked_to_save_what_it_has_and_waited_for(host: Host, view: HeadlessView) -> None:
    closing = Background(view.view.close, PATIENCE, "the page was left")
    assert until(lambda: view.view.state != "running") and view.view.state == "closing"
    assert view.save() == "the page was left"
    closing.outcome()
    assert view.view.state == "closed" and host.views == []
    assert view.view.next() is None and view.view.next() is None


@pytest.mark.parametrize("end", ["view", "server", "host"])
def test_a_view_that_does_not_answer_at_its_end_is_closed_all_the_same(
    host: Host, view: HeadlessView, end: str
) -> None:
    if end == "view":
        view.view.close(0.05)
    elif end == "server":
        host.stop("weather", timeout=0.2)
    else:
        host.close(0.2)
    assert view.told("ui/resource-teardown")["reason"]
    assert view.view.state == "closed" and host.views == []
    view.say("ui/notifications/size-changed", width=1)
    assert view.view.size == (None, None)


def test_a_view_that_never_was_ready_is_not_asked() -> None:
    with hosting() as (_, view):
        view.view.close()
        assert view.view.next(0) is None and view.view.state == "closed"
        view.view.close()


def test_what_a_view_waits_for_is_given_up_at_its_end() -> None:
    held = Held()
    with hosting(weather(held)) as (_, view):
        view.open()
        view.view.receive({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "refresh"}})
        assert held.entered.acquire(timeout=PATIENCE)
        view.view.close(0.5)
        assert view.answer("x")["error"]["code"] == -32000
    assert not [each for each in threading.enumerate() if each.name.startswith("mcp-app")]


# -- what it may ask


def test_a_view_calls_tools_and_reads_resources_of_its_server(view: HeadlessView) -> None:
    assert text_of(view.ask("tools/call", name="refresh")) == "sun"
    assert text_of(view.ask("tools/call", name="now", arguments={"city": "Faro"})) == "rain in Faro"
    assert view.ask("resources/read", uri="note://here")["contents"][0]["text"] == "a note"
    assert view.ask("ping") == {}
    assert code(lambda: view.ask("resources/read", uri="note://nowhere")) == -32602


def test_a_view_calls_no_tool_that_is_not_for_apps_and_none_of_another_server() -> None:
    other = Server("other")
    other.tool("theirs")(lambda: "theirs")
    with hosting(more=[Entry("other", other)]) as (_, view):
        view.open()
        for name in ("secret", "nothing", "theirs", "other/theirs", "weather/refresh"):
            assert code(partial(view.ask, "tools/call", name=name)) == -32602, name


def test_the_model_is_shown_no_tool_that_is_for_apps_alone(host: Host) -> None:
    assert {each["name"] for each in host.for_model()} == {f"weather__{name}" for name in ("now", "secret", "refused")}
    assert "weather/refresh" in [tool.name for tool in host.tools()]


def test_a_call_of_a_view_passes_the_door_that_any_other_passes() -> None:
    user, rows = User(False, True), list[JsonObject]()
    consent = Consent([START], ask=user, keep=False, audit=rows.append)
    with hosting(consent=consent) as (_, view):
        view.open()
        assert code(lambda: view.ask("tools/call", name="refresh")) == -32000
        assert text_of(view.ask("tools/call", name="refresh")) == "sun"
    assert [each.origin for each in user.asked] == [f"the app {URI}"] * 2
    assert user.asked[0].lines()[0] == f"weather: call the tool weather/refresh? the app {URI} asks for it"
    decided = [row["decision"] for row in rows if row.get("origin") == f"the app {URI}" and "decision" in row]
    assert decided == ["deny", "allow"]


def test_what_the_user_does_is_not_asked_about_and_is_written_down() -> None:
    user, rows = User(True), list[JsonObject]()
    rules = [START, Rule("deny", "tool", "weather/secret")]
    with hosting(consent=Consent(rules, ask=user, keep=False, audit=rows.append)) as (host, _):
        assert host.call("weather/now", {"city": "Porto"}, by="user")["content"]
        with pytest.raises(McpError, match=r"refused \(rule\)"):
            host.call("weather/secret", by="user")
    assert user.asked == []
    assert [row["by"] for row in rows if row.get("origin") == "user" and "by" in row] == ["user", "rule"]


LONG_URL = "https://xn--pple-43d.example/" + "a" * 300
TEXT = {"type": "text", "text": "What about Faro?"}


@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize(
    ("kind", "method", "params", "shown"),
    [
        ("url", "ui/open-link", {"url": LONG_URL}, {"url": LONG_URL, "host": "xn--pple-43d.example"}),
        ("message", "ui/message", {"role": "user", "content": TEXT}, {"message": TEXT}),
    ],
)
def test_a_link_is_opened_and_a_message_taken_if_the_user_agrees_who_sees_all_of_it(
    kind: Any, method: str, params: Any, shown: Any, said: bool
) -> None:
    user, opened = User(said), list[Any]()
    # No rule answers for the user.
    consent = Consent([START, Rule("allow", kind)], ask=user, keep=False)
    with hosting(consent=consent, browse=opened.append) as (host, view):
        view.open()
        if said:
            assert view.ask(method, **params) == {}
        else:
            assert code(partial(view.ask, method, **params)) == -32000
        done = [*opened, *host.context]
    assert shown.items() <= user.asked[0].shown.items()
    assert done == ([LONG_URL if kind == "url" else params] if said else [])


def test_nothing_but_a_web_page_is_opened() -> None:
    user, opened = User(True), list[str]()
    with hosting(consent=free(ask=user), browse=opened.append) as (_, view):
        view.open()
        for url in ("javascript:alert(1)", "file:///etc/passwd", "https:", "//a.example", ""):
            assert code(partial(view.ask, "ui/open-link", url=url)) == -32000, url
    assert opened == [] and user.asked == []


def test_the_model_has_the_last_context_that_a_view_gave(host: Host, view: HeadlessView) -> None:
    other = HeadlessView(host.open_app(NOW))
    other.open()
    host.context.append({"role": "user", "content": {"type": "text", "text": "hello"}})
    for city in ("Porto", "Faro"):
        said = {"type": "text", "text": city}
        assert view.ask("ui/update-model-context", content=[said], structuredContent={"city": city}) == {}
    other.ask("ui/update-model-context", structuredContent={"city": "Lagos"})
    texts = ["".join(block["text"] for block in each["content"]) for each in host.context[1:]]
    assert texts == [
        f'[from server \'weather\', app {URI}: what it shows now]Faro{{"city": "Faro"}}',
        f'[from server \'weather\', app {URI}: what it shows now]{{"city": "Lagos"}}',
    ]
    view.ask("ui/update-model-context")
    assert len(host.context) == 2


@pytest.mark.parametrize(
    ("shown", "declared", "asked", "mode"),
    [
        (["inline", "fullscreen"], ["inline", "fullscreen"], "fullscreen", "fullscreen"),
        (["inline", "fullscreen"], None, "fullscreen", "fullscreen"),
        (["inline", "fullscreen"], ["inline"], "fullscreen", "inline"),
        (["inline"], ["inline", "pip"], "pip", "inline"),
    ],
)
def test_the_answer_about_a_mode_names_the_one_that_holds(shown: Any, declared: Any, asked: str, mode: str) -> None:
    with hosting(modes=declared, shown=shown) as (_, view):
        view.open()
        assert view.ask("ui/request-display-mode", mode=asked) == {"mode": mode}
        assert view.view.mode == mode


def test_the_size_and_the_log_of_a_view_are_heard() -> None:
    heard = Heard()
    with hosting(on_event=heard) as (_, view):
        view.open()
        view.say("ui/notifications/size-changed", width=300, height=120.5)
        view.say("ui/notifications/size-changed", height=90)
        assert view.view.size == (300, 90)
        view.say("notifications/message", level="info", data={"a": 1})
        assert heard.wait("weather", "log", f"[info] the app {URI}: {{'a': 1}}")


def test_a_change_of_the_context_is_told(view: HeadlessView) -> None:
    view.view.change_context(theme="dark", locale="pt-PT")
    assert view.told("ui/notifications/host-context-changed") == {"theme": "dark", "locale": "pt-PT"}


# -- strangers


ID = {"jsonrpc": "2.0", "id": 9}


def test_a_request_that_is_wrong_gets_an_error(view: HeadlessView) -> None:
    for message, expected in (
        ({**ID, "method": "ui/unknown"}, -32601),
        ({**ID, "method": "ui/notifications/size-changed"}, -32601),
        ({**ID, "method": "ui/open-link", "params": {}}, -32602),
        ({**ID, "method": "ui/open-link", "params": []}, -32602),
        ({**ID, "method": "ui/message", "params": {"role": "assistant", "content": []}}, -32602),
        ({**ID, "method": "ui/request-display-mode", "params": {"mode": "large"}}, -32602),
        ({**ID, "method": "tools/call", "params": {"name": 1}}, -32602),
        ({**ID, "method": 7}, -32600),
        ({"id": 9, "method": "ping"}, -32600),
        ({**ID, "method": "ping", "params": {"x": "y" * page.MAX_MESSAGE}}, -32600),
    ):
        view.view.receive(message)
        assert view.answer(9)["error"]["code"] == expected, str(message)[:200]
        assert view.ask("ping") == {}


NOTE = {"jsonrpc": "2.0", "method": "ui/notifications/size-changed"}


def test_whatever_cannot_be_answered_is_dropped(view: HeadlessView) -> None:
    deep: Any = reduce(lambda inner, _: {"a": inner}, range(5_000), {})
    view.told("ui/notifications/tool-result")
    for message in (
        None, 1, [], {}, [{"jsonrpc": "2.0", "id": 1, "method": "ping"}], {"jsonrpc": "2.0"}, {**ID, "result": {}},
        {"jsonrpc": "2.0", "id": None, "method": "ping"}, {"jsonrpc": "2.0", "id": [], "method": "ping"},
        {**NOTE, "method": "ui/unknown"}, {**NOTE, "method": "ping"}, {**NOTE, "params": {"width": "wide"}},
        {**NOTE, "params": deep}, {"jsonrpc": "2.0", "id": "teardown", "result": {}}, {**ID, "error": {"code": "x"}},
    ):  # fmt: skip
        view.view.receive(message)
        assert view.ask("ping") == {} and view.heard[1:] == [] and view.view.state == "running"


def test_a_view_that_posts_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "RATE", page.Rate(0.001, 5))
    with hosting() as (_, view):
        view.open()
        for _ in range(3):
            view.ask("ping")
        assert code(lambda: view.ask("ping")) != 0
        view.say("ui/notifications/size-changed", width=5)
        assert view.view.size == (None, None)


def test_a_view_has_so_many_requests_under_way() -> None:
    held = Held()
    with hosting(weather(held), timeout=PATIENCE) as (_, view):
        view.open()
        ask = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "refresh"}}
        for number in range(100, 100 + 2 * MAX_CALLS):
            view.view.receive({**ask, "id": number})
        for _ in range(MAX_CALLS):
            assert held.entered.acquire(timeout=PATIENCE)
        view.view.receive({**ask, "id": 999})
        assert view.answer(999)["error"]["code"] == -32600
        assert view.ask("ping") == {}
        held.leave.set()
        assert all("result" in view.answer(number) for number in range(100, 100 + 2 * MAX_CALLS))


def test_a_view_that_takes_nothing_is_closed(monkeypatch: pytest.MonkeyPatch, host: Host, view: HeadlessView) -> None:
    monkeypatch.setattr(page, "MAX_WAITING", 10)
    for number in range(20):
        view.view.change_context(locale=str(number))
    assert view.view.state == "closed"
    view.view.close()
    assert host.views == []


def test_views_in_many_threads_take_nothing_from_each_other() -> None:
    def use(view: HeadlessView) -> list[str]:
        view.open()
        cities = [f"{id(view)} {number}" for number in range(20)]
        texts = [text_of(view.ask("tools/call", name="now", arguments={"city": city})) for city in cities]
        view.view.close(0.01)
        assert texts == [f"rain in {city}" for city in cities]
        return texts

    with hosting() as (host, first):
        views = [first, *(HeadlessView(host.open_app(NOW), None, PATIENCE) for _ in range(7))]
        at_once(*(partial(use, view) for view in views))
        assert until(lambda: not host.views)
