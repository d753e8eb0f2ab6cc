"""basic/transports#security-warning and the rules of entry: Host, Origin, Content-Type, Accept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_ref.kit.http.http_exchange import HttpRefusal, HttpRequest
from mcp_ref.pages.basic.transports.streamable_http.headers import (
    LOOPBACK,
    check_accept,
    check_content_type,
    check_host_and_origin,
)


def status_of(check: Callable[..., None], headers: dict[str, str], *arguments: Any) -> int:
    try:
        check(HttpRequest("POST", "/mcp", headers), *arguments)
    except HttpRefusal as refusal:
        return refusal.status
    return 200


def check_host(request: HttpRequest, allowed: Any) -> None:
    check_host_and_origin(request, allowed, None)


def check_origin(request: HttpRequest, allowed: Any) -> None:
    check_host_and_origin(request, None, allowed)


OURS = ["localhost", "localhost:80", "LOCALHOST:1", "127.0.0.1:8000", "[::1]", "[::1]:8000"]
FOREIGN = [
    "evil.example",
    "localhost.evil.example",
    "evil.example:80",
    "localhost:80@evil.example",
    "localhost:x@evil.example",
    "evil.example@localhost",
    "[::1].evil.example",
    "[::1]:80@evil.example",
    "localhost:80, evil.example",
    "localhost evil.example",
    "127.0.0.1.evil.example",
    "[::2]",
    "[::1",
    "",
]


@pytest.mark.parametrize(("host", "status"), [*((host, 200) for host in OURS), *((host, 403) for host in FOREIGN)])
def test_a_host_of_this_machine_is_let_in_and_none_that_only_looks_like_it(host: str, status: int) -> None:
    for check, headers in ((check_host, {"host": host}), (check_origin, {"origin": f"http://{host}"})):
        assert status_of(check, headers, LOOPBACK) == status
        assert status_of(check, headers, None) == 200, "None lets everybody in"


def test_a_request_needs_a_host_and_no_origin() -> None:
    assert status_of(check_host, {}, LOOPBACK) == 403
    assert status_of(check_origin, {}, LOOPBACK) == 200, "who is not a browser sends none"


@pytest.mark.parametrize("origin", ["null", "file://", "http://localhost:80:80", "http://localhost\\.evil.example"])
def test_a_malformed_origin(origin: str) -> None:
    assert status_of(check_origin, {"origin": origin}, LOOPBACK) == 403


def test_an_origin_may_be_named_whole_or_by_its_host() -> None:
    allowed = ["https://app.example", "any.example"]
    assert status_of(check_origin, {"origin": "https://app.example"}, allowed) == 200
    assert status_of(check_origin, {"origin": "https://app.example:8443"}, allowed) == 403
    assert status_of(check_origin, {"origin": "http://any.example:1"}, allowed) == 200


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON ; charset=utf-8", 200),
        ("", 415),
        ("application/json-rpc", 415),
        ("text/plain, application/json", 415),
    ],
)
def test_the_type_of_the_body(kind: str, status: int) -> None:
    assert status_of(check_content_type, {"content-type": kind}) == status


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/json, text/event-stream", 200),
        ("TEXT/EVENT-STREAM;q=0.5 ,application/json", 200),
        ("application/*, text/*", 200),
        ("*/*", 200),
        ("application/json", 406),
        ("text/event-stream", 406),
        ("application/jsonx, text/event-stream", 406),
        ("", 406),
        ("application/json, text/event-stream;q=0", 406),
        ("application/json;q=0.000, */*", 406),
        ("application/json ; level=1 ; Q=0 , text/event-stream", 406),
        ("application/json, text/*;q=0, */*", 406),
        ("application/json;q=0.001, text/event-stream;q=1.0", 200),
        ("application/json, text/event-stream, */*;q=0", 200),
        ("application/json;" + "; " * 100_000 + ", text/event-stream", 200),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_the_client_accepts(accept: str, status: int) -> None:
    assert status_of(check_accept, {"accept": accept}, "application/json", "text/event-stream") == status
