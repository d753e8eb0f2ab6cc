from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.errors import ErrorResponse, InvalidParams, LocalProtocolError, RemoteProtocolError
from mcp_ref.kit.typed.json_schema import is_uuid
from mcp_ref.pages.client import elicitation
from mcp_ref.pages.client.elicitation import Elicitors, UrlElicitationRequired
from tests.pages.client.fakes import FakeClient, FakeServer

JsonObject = dict[str, Any]

URL = "https://mcp.example.com/connect?id=1"
DECLARED: JsonObject = {"elicitation": {"url": {}}}
ASKED: Any = {"mode": "url", "message": "Log in", "url": URL, "elicitationId": "e-1"}


def visit(handlers: Elicitors, **changes: Any) -> Any:
    asked: Any = {**ASKED, **changes}
    return elicitation.elicitation_create(handlers, FakeClient(DECLARED), asked)


# -- the server asks


def test_a_visit_is_asked_for_with_an_id_that_the_result_tells() -> None:
    server = FakeServer({"action": "accept"}, DECLARED)
    result = elicitation.elicit_url(server, "Log in", URL, timeout=9)
    assert is_uuid(result["elicitationId"])
    assert server.sent == [("elicitation/create", {**ASKED, "elicitationId": result["elicitationId"]})]
    assert result["action"] == "accept"


@pytest.mark.parametrize(
    "url", ["mcp.example.com", "file:///etc/passwd", "https://", "javascript:alert(1)", "https://a b/"]
)
def test_what_cannot_be_visited_is_not_sent(url: str) -> None:
    with pytest.raises(LocalProtocolError, match="URL"):
        elicitation.elicit_url(FakeServer(None, DECLARED), "Log in", url)


@pytest.mark.parametrize("before", ["ada:secret@", "ada@", ":secret@", "@", "ada:@", "ada%40home@", "a:b@c@"])
def test_credentials_in_the_url_are_not_sent(before: str) -> None:
    server = FakeServer(None, DECLARED)
    with pytest.raises(LocalProtocolError, match="password"):
        elicitation.elicit_url(server, "Log in", f"https://{before}example.com/")
    assert server.sent == []


def test_plain_http_is_sent_and_logged_unless_it_stays_here(caplog: pytest.LogCaptureFixture) -> None:
    server = FakeServer({"action": "decline"}, DECLARED)
    elicitation.elicit_url(server, "Log in", "http://localhost:8000/")
    assert caplog.text == ""
    elicitation.elicit_url(server, "Log in", "http://example.com/")
    assert "plain http" in caplog.text


# -- the client answers


@pytest.mark.parametrize(
    "url",
    [
        "https://mcp.example.com/connect?id=1#then=here",
        "https://mcp.example.com:8443/a;b/c%2Fd?x=%20+&y=&x=2#?/",
        "https://mcp.example.com/?" + "a" * 3_000 + "&next=https://evil.example/#tail",
        "HTTPS://MCP.Example.com/A/../B//",
        "https://mcp.example.com",
    ],
    ids=lambda url: url[:40],
)
def test_every_character_of_the_url_is_shown(url: str) -> None:
    seen: list[str] = []
    visit(Elicitors({}, url=lambda url, message, host: seen.append(url)), url=url)
    assert seen == [url]


@pytest.mark.parametrize("url", ["file:///etc/passwd", "javascript:alert(1)", "https://", "http://example.com/"])
def test_a_url_that_is_neither_https_nor_here_is_refused_unasked(url: str) -> None:
    asked: list[str] = []
    with pytest.raises(InvalidParams, match=r"params\.url"):
        visit(Elicitors({}, url=lambda url, message, host: asked.append(url)), url=url)
    assert asked == []


@pytest.mark.parametrize(
    "url", ["http://localhost:8000/", "http://127.0.0.1/", "http://[::1]:80/", "HTTPS://example.com/"]
)
def test_a_url_on_this_machine_may_be_plain_http(url: str) -> None:
    assert visit(Elicitors({}, url=lambda url, message, host: False), url=url) == {"action": "decline"}


def test_an_answer_that_open_url_cannot_give_is_not_sent() -> None:
    with pytest.raises(LocalProtocolError, match="open_url"):
        visit(Elicitors({}, url=lambda url, message, host: "yes"))  # type: ignore[arg-type, return-value]


# -- completion


def complete(handlers: Elicitors, name: str) -> bool:
    return elicitation.elicitation_complete(handlers, {"elicitationId": name})


def test_completion_may_arrive_before_the_handler_returns() -> None:
    known: list[bool] = []

    def handler(url: str, message: str, host: str) -> bool:
        known.append(complete(handlers, "e-1"))
        return True

    handlers = Elicitors({}, url=handler)
    visit(handlers)
    assert known == [True]
    assert not complete(handlers, "e-1")


def test_a_visit_that_was_refused_or_failed_is_not_under_way() -> None:
    def fail(url: str, message: str, host: str) -> bool:
        raise RuntimeError("no browser")

    refused, failed = Elicitors({}, url=lambda url, message, host: False), Elicitors({}, url=fail)
    visit(refused)
    with pytest.raises(RuntimeError):
        visit(failed)
    assert not complete(refused, "e-1") and not complete(failed, "e-1")


# -- the error -32042


def test_another_error_requires_no_visit() -> None:
    assert elicitation.required_urls(ErrorResponse(-32602, "x", {"elicitations": [ASKED]})) == []


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"elicitations": ASKED},
        {"elicitations": [{**ASKED, "mode": "form"}]},
        {"elicitations": [{"mode": "url", "message": "x", "url": URL}]},
        {"elicitations": ["x"]},
    ],
)
def test_the_error_must_list_url_elicitations_with_ids(data: Any) -> None:
    with pytest.raises(RemoteProtocolError, match="-32042"):
        elicitation.required_urls(ErrorResponse(-32042, "x", data))


@pytest.mark.parametrize("pages", [[], [{**ASKED, "mode": "form"}], [{"mode": "url", "message": "x", "url": URL}]])
def test_the_error_cannot_be_made_of_anything_but_url_elicitations_with_ids(pages: Any) -> None:
    with pytest.raises(ValueError, match="URL elicitations"):
        UrlElicitationRequired(pages)


# -- warnings


def test_warnings_tell_what_is_odd_about_a_url() -> None:
    assert elicitation.url_warnings(URL) == []
    assert elicitation.url_warnings("http://localhost/") == []
    assert "Punycode" in elicitation.url_warnings("https://xn--pple-43d.com/")[0]
    assert "user name" in elicitation.url_warnings("https://bank.com@evil.example/")[0]
    assert "number" in elicitation.url_warnings("https://192.0.2.7/")[0]
    for host in ("2130706433", "0x7f000001", "0177.0.0.1", "127.1", "127.0.0.0x1", "0X7F.1.", "[2001:db8::1]"):
        assert "number" in elicitation.url_warnings(f"https://{host}/")[0]
    assert "percent" in elicitation.url_warnings("https://b%61nk.com/")[0]
    for host in ("0x7f.example", "1.example.com", "example.x1", "127.0.0.1", "[::1]"):
        assert elicitation.url_warnings(f"https://{host}/") == []
    assert "encrypted" in elicitation.url_warnings("http://example.com/")[0]


def test_nothing_is_fetched_or_looked_up_before_the_user_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket
    import urllib.request

    import requests

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
        assert visit(Elicitors({}, url=lambda url, message, host, consent=consent: consent))["action"]
    assert tried == []
