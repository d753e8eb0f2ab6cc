"""client/elicitation by a visit: which URLs go out, what the user is shown, and how the end of a visit is told."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Callable
from queue import Queue
from typing import Any

import pytest
import requests

from mcp_ref import (
    Client,
    Context,
    ErrorResponse,
    LocalProtocolError,
    RemoteProtocolError,
    Server,
    UrlElicitationRequired,
    text,
)
from mcp_ref.kit.typed.json_schema import is_uuid
from mcp_ref.pages.client import elicitation
from mcp_ref.pages.client.elicitation import url_elicitation
from tests.pages.client.asking import (
    LATEST,
    OLDER,
    JsonObject,
    answer_to,
    asked_of,
    in_both_eras,
    refused_by,
    traffic,
    with_the_result,
)
from tests.support.wire import PATIENCE, to_client

URL = "https://mcp.example.com/connect?id=1"
DECLARED: JsonObject = {"elicitation": {"url": {}}}
ASKED: Any = {"mode": "url", "message": "Log in", "url": URL, "elicitationId": "e-1"}
COMPLETE = "notifications/elicitation/complete"


def asking(url: str) -> Callable[[Context], Any]:
    return lambda ctx: ctx.elicit_url("Log in", url)


def answered(open_url: Any, url: str = URL) -> Any:
    """Return what a client answers that is asked to visit a page."""
    return asked_of("elicitation/create", {**ASKED, "url": url}, open_url=open_url)


# -- the server asks


def test_a_visit_is_asked_for_with_an_id_that_the_result_tells() -> None:
    asked, result = with_the_result({"action": "accept"}, asking(URL), DECLARED)
    assert is_uuid(result["elicitationId"]) and result["action"] == "accept"
    assert asked["method"] == "elicitation/create"
    assert asked["params"] == {**ASKED, "elicitationId": result["elicitationId"]}


@pytest.mark.parametrize(
    "url", ["mcp.example.com", "file:///etc/passwd", "https://", "javascript:alert(1)", "https://a b/"]
)
def test_what_cannot_be_visited_is_not_sent(url: str) -> None:
    refused_by(asking(url), LocalProtocolError, "URL", open_url=lambda *asked: True)


@pytest.mark.parametrize("before", ["ada:secret@", "ada@", ":secret@", "@", "ada%40home@", "a:b@c@"])
def test_credentials_in_the_url_are_not_sent(before: str) -> None:
    refused_by(asking(f"https://{before}example.com/"), LocalProtocolError, "password", open_url=lambda *asked: True)


def test_plain_http_is_sent_and_logged_unless_it_stays_here(caplog: pytest.LogCaptureFixture) -> None:
    with_the_result({"action": "decline"}, asking("http://localhost:8000/"), DECLARED)
    assert caplog.text == ""
    with_the_result({"action": "decline"}, asking("http://example.com/"), DECLARED)
    assert "plain http" in caplog.text


# -- the client answers


@in_both_eras
@pytest.mark.parametrize(("consent", "action"), [(True, "accept"), (False, "decline"), (None, "cancel")])
def test_a_url_is_opened_only_with_the_users_consent(revision: str, consent: Any, action: str) -> None:
    seen: list[Any] = []

    def open_url(url: str, message: str, host: str, ctx: Any) -> Any:
        seen.append((url, message, host, ctx.server_info["name"]))
        return consent

    result = answer_to(lambda ctx: ctx.elicit_url("Log in", URL, elicitation_id="e-1"), revision, open_url=open_url)
    assert result == {"action": action, "elicitationId": "e-1"}
    assert seen == [(URL, "Log in", "mcp.example.com", "asker")]


@pytest.mark.parametrize(
    "url",
    [
        "https://mcp.example.com/connect?id=1#then=here",
        "https://mcp.example.com:8443/a;b/c%2Fd?x=%20+&y=&x=2#?/",
        "https://mcp.example.com/?" + "a" * 3_000 + "&next=https://evil.example/#tail",
        "HTTPS://MCP.Example.com/A/../B//",
        "https://mcp.example.com",
        # On this machine it may be plain http.
        "http://localhost:8000/",
        "http://127.0.0.1/",
        "http://[::1]:80/",
    ],
    ids=lambda url: url[:40],
)
def test_every_character_of_the_url_is_shown(url: str) -> None:
    seen: list[str] = []
    assert answered(lambda url, message, host: bool(seen.append(url)), url) == {"action": "decline"}
    assert seen == [url]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:alert(1)", "https://", "http://example.com/"])
def test_a_url_that_is_neither_https_nor_here_is_refused_unasked(url: str) -> None:
    asked: list[str] = []
    error = answered(lambda url, message, host: asked.append(url), url)
    assert error["code"] == -32602 and "params.url" in error["message"]
    assert asked == []


def test_an_answer_that_open_url_cannot_give_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    assert answered(lambda url, message, host: "yes") == {"code": -32603, "message": "Internal error"}
    assert "open_url" in caplog.text


def test_nothing_is_fetched_or_looked_up_before_the_user_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    for owner, name in (
        (socket, "getaddrinfo"),
        (socket, "create_connection"),
        (socket.socket, "connect"),
        (urllib.request.Request, "__init__"),
        (urllib.request, "urlopen"),
        (requests.Session, "request"),
    ):
        monkeypatch.setattr(owner, name, lambda *args, name=name, **more: tried.append(name))
    for consent in (True, False, None):
        assert answered(lambda url, message, host, consent=consent: consent)["action"]
    assert tried == []


def test_warnings_tell_what_is_odd_about_a_url() -> None:
    odd = {
        "https://xn--pple-43d.com/": "Punycode",
        "https://bank.com@evil.example/": "user name",
        "https://192.0.2.7/": "number",
        "https://b%61nk.com/": "percent",
        "http://example.com/": "encrypted",
    }
    for host in ("2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.0x1", "0X7F.1.", "[2001:db8::1]"):
        odd[f"https://{host}/"] = "number"
    for url, warning in odd.items():
        assert warning in elicitation.url_warnings(url)[0]
    for host in ("0x7f.example", "1.example.com", "example.x1", "127.0.0.1", "[::1]"):
        assert elicitation.url_warnings(f"https://{host}/") == []
    assert elicitation.url_warnings(URL) == elicitation.url_warnings("http://localhost/") == []


# -- completion


def test_completion_is_heard_once_and_for_known_visits_alone() -> None:
    heard: Queue[Any] = Queue()
    consents: list[Any] = [True, False, None]

    def open_url(url: str, message: str, host: str) -> Any:
        # The end may be told before the user's function returns.
        if not (consent := consents.pop(0)):
            return consent
        wire.notify(COMPLETE, {"elicitationId": "e-1"})
        assert heard.get(timeout=PATIENCE) == (COMPLETE, {"elicitationId": "e-1"})
        return consent

    with to_client(open_url=open_url, on_change=lambda *told: heard.put(told)) as (_, wire):
        # Nobody hears of it twice, of a stranger's visit, or of one that was refused, or that failed for want of an
        # answer.
        for number in range(4):
            wire.request(number, "elicitation/create", ASKED)
            for name in ("e-1", "stranger"):
                wire.notify(COMPLETE, {"elicitationId": name})
        wire.notify("notifications/tools/list_changed")
        assert heard.get(timeout=PATIENCE)[0] == "notifications/tools/list_changed"


def test_completion_is_told_to_the_client_that_was_asked_alone() -> None:
    heard: Queue[Any] = Queue()
    server, asked = Server("asker", "1"), list[Context]()
    messages, trace = traffic()
    # An id is a text without meaning.
    names = [" ", "E-1", "e-1", "e-1 ", "../e-1", "%65-1", "0", "null", "\u00e9", "e\u0301", '{"a": 1}', "x" * 5_000]

    @server.tool()
    def connect(ctx: Context, name: str) -> str:
        asked.append(ctx)
        return ctx.elicit_url("Log in", URL, elicitation_id=name)["elicitationId"]

    visiting: Any = {"revision": LATEST, "open_url": lambda u, m, h: True}
    with (
        Client(server, trace=trace, **visiting) as other,
        Client(server, on_change=lambda method, params: heard.put(params), **visiting) as client,
    ):
        assert [client.call_tool("connect", {"name": name})["content"][0] for name in names] == list(map(text, names))
        # The user takes longer than the call that asked.
        for name in reversed(names):
            asked[0].complete_elicitation(name)
            assert heard.get(timeout=PATIENCE) == {"elicitationId": name}
        other.ping()
    assert COMPLETE not in [message.get("method") for message in messages]


# -- the error -32042


@pytest.mark.parametrize("revision", OLDER[:-1])
@pytest.mark.parametrize("method", ["tools/call", "resources/read", "prompts/get"])
def test_a_visit_that_a_call_requires_is_an_internal_error_where_that_error_does_not_exist(
    revision: str, method: str
) -> None:
    server = Server("asker", "1")

    def guarded() -> str:
        raise UrlElicitationRequired([url_elicitation("Allow it", URL, "e-1")])

    server.tool("guarded")(guarded)
    server.resource("x://guarded")(guarded)
    server.prompt("guarded")(guarded)
    with Client(server, revision=revision) as client:
        params = {"uri": "x://guarded"} if method == "resources/read" else {"name": "guarded"}
        with pytest.raises(ErrorResponse, match=f"visit a page first, which {revision} cannot ask for") as refused:
            client.request(method, params)
    assert (refused.value.code, refused.value.data) == (-32603, None)


def test_a_visit_that_is_required_needs_a_way_to_open_it_and_a_url_to_open() -> None:
    with Client(Server("s")) as client:
        with pytest.raises(LocalProtocolError, match="open_url"):
            client.visit_required(ASKED)
    asked: list[str] = []
    with Client(Server("s"), open_url=lambda u, m, h: asked.append(u)) as client:
        with pytest.raises(RemoteProtocolError, match="url"):
            client.visit_required({**ASKED, "url": "file:///etc/passwd"})
    assert asked == []


@pytest.mark.parametrize(
    "listed", [[], ASKED, ["x"], [{**ASKED, "mode": "form"}], [{"mode": "url", "message": "x", "url": URL}]]
)
def test_the_error_must_list_url_elicitations_with_ids(listed: Any) -> None:
    assert elicitation.required_urls(ErrorResponse(-32602, "x", {"elicitations": [ASKED]})) == []
    for data in (None, {}, {"elicitations": listed or "none"}):
        with pytest.raises(RemoteProtocolError, match="-32042"):
            elicitation.required_urls(ErrorResponse(-32042, "x", data))
    if isinstance(listed, list) and listed != ["x"]:
        with pytest.raises(ValueError, match="URL elicitations"):
            UrlElicitationRequired(listed)
