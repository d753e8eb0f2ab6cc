"""Pages in a browser, by what a browser sends and looks at (the Fetch standard)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from mcp_ref import HttpRefusal, HttpRequest, Server
from mcp_ref.server.http import HttpService
from tests.features.test_limits import INITIALIZE, PING
from tests.pages.basic.transports.streamable_http import modern
from tests.support.wire import PATIENCE

PAGE = "https://app.example"
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
ASKED = (
    "authorization,content-type,last-event-id,mcp-method,mcp-name,mcp-param-region,mcp-protocol-version,mcp-session-id"
)


def hello(name: str = "you") -> str:
    return f"hello {name}"


@pytest.fixture
def service() -> Iterator[HttpService]:
    server = Server("s")
    server.tool()(hello)
    with server.serve_http(sse_path="/sse", origins=[PAGE]) as service:
        yield service


def ask(service: HttpService, method: str, origin: str | None = PAGE, body: Any = None, **more: Any) -> Any:
    headers = {**JSON, **({} if origin is None else {"Origin": origin}), **more.pop("headers", {})}
    url, data = more.pop("url", service.url), None if body is None else json.dumps(body)
    return requests.request(method, url, headers=headers, data=data, timeout=PATIENCE, **more)


def preflight(service: HttpService, origin: str | None = PAGE, wanted: str = "POST", **more: Any) -> Any:
    asked = {"Access-Control-Request-Method": wanted, "Access-Control-Request-Headers": ASKED}
    return ask(service, "OPTIONS", origin, headers=asked, **more)


def told(answer: Any) -> list[str]:
    return [name for name in answer.headers if name.lower().startswith("access-control-")]


def test_a_page_of_an_allowed_origin_may_ask_and_read(service: HttpService) -> None:
    may = preflight(service)
    assert (may.status_code, may.content) == (204, b"")
    assert may.headers["Access-Control-Allow-Origin"] == PAGE
    assert may.headers["Access-Control-Allow-Methods"] == "POST, GET, DELETE"
    assert may.headers["Access-Control-Allow-Headers"] == ASKED
    answer = ask(service, "POST", body=INITIALIZE)
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, PAGE)
    assert answer.headers["Vary"] == "Origin"
    exposed = answer.headers["Access-Control-Expose-Headers"].split(", ")
    assert {"Mcp-Session-Id", "MCP-Protocol-Version", "WWW-Authenticate"} <= set(exposed)
    assert "Access-Control-Allow-Credentials" not in answer.headers, "a page sends tokens by itself, and no cookies"
    # The stream of the session, too, and the stateless era.
    session = {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}
    with ask(service, "GET", headers=session, stream=True) as stream:
        assert (stream.status_code, stream.headers["Access-Control-Allow-Origin"]) == (200, PAGE)
    message = modern.called("hello")
    alone = ask(service, "POST", body=message, headers=modern.mirrored(message))
    assert (alone.status_code, alone.headers["Access-Control-Allow-Origin"]) == (200, PAGE)


def test_a_page_may_read_why_it_was_refused(service: HttpService) -> None:
    for status, answer in [
        (404, ask(service, "POST", body=PING, headers={"Mcp-Session-Id": "gone"})),
        (406, ask(service, "POST", body=PING, headers={"Accept": "text/html"})),
        (405, ask(service, "PUT")),
        (405, ask(service, "OPTIONS")),
    ]:
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (status, PAGE)


@pytest.mark.parametrize("origin", [None, "https://evil.example", "https://app.example:8443", "null"])
def test_any_other_origin_gets_nothing_of_it(service: HttpService, origin: str | None) -> None:
    for answer in (preflight(service, origin), ask(service, "POST", origin, body=INITIALIZE)):
        assert answer.status_code == 403 or origin is None
        assert told(answer) == []
    assert preflight(service, None).status_code == 405


def test_a_page_may_ask_before_it_has_a_token_and_learns_how_to_get_one() -> None:
    def authenticate(request: HttpRequest) -> str:
        if request.headers.get("authorization") != "Bearer good":
            raise HttpRefusal(401, "who are you?", headers={"WWW-Authenticate": "Bearer"})
        return "somebody"

    server = Server("s")
    with server.serve_http(origins=[PAGE], authenticate=authenticate) as service:
        assert preflight(service).status_code == 204
        answer = ask(service, "POST", body=INITIALIZE)
        assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert answer.headers["Access-Control-Allow-Origin"] == PAGE
        assert ask(service, "POST", body=INITIALIZE, headers={"Authorization": "Bearer good"}).status_code == 200


def test_only_what_there_is_is_allowed(service: HttpService) -> None:
    """Without sessions there is POST alone; the event stream of 2024-11-05 is read by GET."""
    with Server("s").serve_http(origins=[PAGE], sessions=False) as alone:
        assert preflight(alone).headers["Access-Control-Allow-Methods"] == "POST"
    assert service.sse_url is not None
    assert preflight(service, url=service.sse_url).headers["Access-Control-Allow-Methods"] == "GET"
    with ask(service, "GET", url=service.sse_url, stream=True) as stream:
        assert (stream.status_code, stream.headers["Access-Control-Allow-Origin"]) == (200, PAGE)
        posting = service.sse_url.replace("/sse", "/messages")
        assert preflight(service, url=posting).headers["Access-Control-Allow-Methods"] == "POST"
        assert ask(service, "POST", url=posting, body=PING).headers["Access-Control-Allow-Origin"] == PAGE
    assert told(preflight(service, "https://evil.example", url=service.sse_url)) == []
