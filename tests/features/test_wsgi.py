"""A server under WSGI servers that others wrote, with real clients: wsgiref, waitress and gunicorn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from mcp_ref import Cancel, Client, McpError, Protection, RequestCancelled, Server, text
from tests.features.conftest import address_of, until
from tests.pages.basic.transports.streamable_http import modern, raw
from tests.support.wire import PATIENCE
from tests.test_readme import blocks
from tests.under_wsgi import SERVERS, Running, under

REVISIONS = ["2025-03-26", "2025-11-25", "2026-07-28"]
BODY = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@pytest.fixture(scope="module", params=SERVERS)
def running(request: pytest.FixtureRequest) -> Iterator[Running]:
    with under(request.param, "tests.features.mounted:application") as it:
        yield it


def connected(running: Running, revision: str, **options: Any) -> Client:
    return Client(running.url, revision=revision, timeout=PATIENCE, **options)


@pytest.mark.parametrize("revision", REVISIONS)
def test_serves_calls_progress_and_questions_in_each_era(running: Running, revision: str) -> None:
    with connected(running, revision, elicit=lambda message, schema: {"seat": "aisle"}) as client:
        assert client.call_tool("add", {"a": 1, "b": 2})["content"] == [text("3")]
        enough = Cancel()
        with pytest.raises(RequestCancelled, match="it reports"):
            client.call_tool("wait", {"name": revision}, on_progress=lambda *_: enough("it reports"), cancel=enough)
        if revision != "2025-03-26":
            assert client.call_tool("book", {"city": "Oslo"})["content"] == [text("Oslo: aisle")]


def test_tells_of_changes_on_standing_streams(running: Running) -> None:
    heard: list[str] = []
    with connected(running, "2025-11-25", on_change=lambda method, params: heard.append(method)) as client:
        client.subscribe_resource("note://1")
        client.call_tool("change")
        until(lambda: len(heard) == 2)
    with connected(running, "2026-07-28") as client, client.listen(tools=True, resources=["note://1"]) as events:
        client.call_tool("change")
        heard = [events.get(PATIENCE).method, events.get(PATIENCE).method]
    assert sorted(heard) == ["notifications/resources/updated", "notifications/tools/list_changed"]


def test_notices_a_client_that_hangs_up_as_far_as_the_server_tells(running: Running) -> None:
    # wsgiref tells nothing: there only a write finds out.
    name = "reporting" if running.kind == "wsgiref" else "quietly"
    with connected(running, "2026-07-28") as client:
        with pytest.raises(McpError):
            client.call_tool("wait", {"name": name}, timeout=0.3, on_progress=lambda *more: None)
        until(lambda: name in client.call_tool("last_given_up")["content"][0]["text"])


def test_refuses_what_our_own_server_refuses(running: Running) -> None:
    json = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    for status, method, headers, body in [
        (403, "POST", {**json, "Host": "evil.example.com"}, BODY),
        (403, "POST", {**json, "Origin": "http://evil.example.com"}, BODY),
        (415, "POST", {**json, "Content-Type": "text/plain"}, BODY),
        (406, "POST", {**json, "Accept": "text/html"}, BODY),
        (413, "POST", json, b"x" * (5 << 20)),
        (400, "POST", json, b"{"),
        (400, "POST", json, BODY),  # no session
        (404, "POST", {**json, "Mcp-Session-Id": "unknown"}, BODY),
        (405, "PUT", json, BODY),
    ]:
        answer = requests.request(method, running.url, headers=headers, data=body, timeout=PATIENCE)
        assert (answer.status_code, answer.request.method) == (status, method), (headers, answer.text)
    assert requests.post(running.url + "/other", timeout=PATIENCE).status_code == 404


def test_headers_that_were_sent_twice_are_not_two_chances(running: Running) -> None:
    address = address_of(running.url)
    whole = modern.post(modern.called("process"), connection="close")
    for names, status in [(b"Mcp-Name: process\r\n", 200), (b"Mcp-Name: process\r\nMcp-Name: process\r\n", 400),
                          (b"Mcp-Name: add\r\nMcp_Name: process\r\n", 400)]:  # fmt: skip
        with raw.Wire(address) as wire:
            wire.send(whole.replace(b"mcp-name: process\r\n", names))
            answer = wire.rest()
        assert int(answer.split()[1]) == status, answer


@pytest.mark.slow
def test_a_handler_can_close_its_stream_where_the_server_shows_its_socket() -> None:
    """The client polls for the rest; elsewhere the stream ends with the handler, and it comes then."""
    for server in ("waitress", "gunicorn"):
        with under(server, "tests.features.mounted:application") as running, connected(running, "2025-11-25") as client:
            assert client.call_tool("poll")["content"] == [text("polled")]


# -- processes ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_serves_in_each_process_when_it_was_made_before_the_fork() -> None:
    options = ["--preload"]
    with under("gunicorn", "tests.features.mounted:application", workers=2, options=options) as running:
        seen = set[str]()

        def ask() -> bool:
            with connected(running, "2026-07-28") as client:
                seen.add(client.call_tool("process")["content"][0]["text"])
            return len(seen) == 2

        until(ask)
        assert str(running.process.pid) not in seen


@pytest.mark.slow
def test_ends_gracefully_when_a_worker_is_told_to_end(tmp_path: Path) -> None:
    """With the configuration that the guide shows."""
    shown = next(block for block in blocks("python") if block.startswith("# gunicorn_conf.py"))
    config = tmp_path / "gunicorn_conf.py"
    config.write_text(shown.replace("from under_wsgi import", "from tests.features.mounted import"))
    with (
        under("gunicorn", "tests.features.mounted:application", options=["-c", str(config)]) as running,
        connected(running, "2026-07-28") as client,
        client.listen(tools=True, reopen=False) as events,
    ):
        running.process.terminate()
        assert list(events) == []
        assert events.graceful


# -- in this process ----------------------------------------------------------------------------------------------


def test_starts_with_its_first_request_and_ends_once() -> None:
    server, began = Server("s"), list[str]()

    @server.lifespan
    def there() -> Iterator[None]:
        began.append("began")
        yield
        began.append("ended")

    application = server.wsgi()
    assert began == []
    environ: dict[str, Any] = {"REQUEST_METHOD": "PUT", "PATH_INFO": "/mcp", "HTTP_HOST": "localhost"}
    statuses: list[str] = []
    application(environ, lambda status, headers: statuses.append(status))
    assert (statuses, began) == (["405 Method Not Allowed"], ["began"])
    server.close()
    application.close()
    assert began == ["began", "ended"]


def test_a_guarded_application_must_know_its_own_url() -> None:
    def verify(token: str) -> None:
        return None

    server = Server("s")
    protection = Protection(verify, authorization_servers=["https://as.example.com"])
    with pytest.raises(ValueError, match="give resource="):
        server.wsgi(authorization=protection)
    protection = Protection(
        verify, authorization_servers=["https://as.example.com"], resource="https://mcp.example.com/mcp"
    )
    application = server.wsgi(authorization=protection)
    said: list[Any] = []
    environ: dict[str, Any] = {"REQUEST_METHOD": "POST", "PATH_INFO": "/mcp", "HTTP_HOST": "mcp.example.com"}
    application(environ, lambda status, headers: said.append((status, dict(headers))))
    application.close()
    assert said[0][0] == "401 Unauthorized"
    assert "https://mcp.example.com/.well-known/oauth-protected-resource/mcp" in said[0][1]["WWW-Authenticate"]
