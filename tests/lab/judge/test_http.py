"""HTTP in a trace: what stands beside a message, what comes without one, and that no secret is among it."""

from __future__ import annotations

import json
import threading
from functools import partial
from typing import Any

import pytest
import requests

from mcp_ref import Client, Context, Server
from mcp_ref.client.targets import Url
from mcp_ref.errors import McpError
from mcp_ref.kit.http.http_exchange import HttpRefusal, HttpRequest
from mcp_ref.lab.judge.narrate import narrate
from mcp_ref.recording.record import Recorder, TraceEvent, from_row, to_row
from tests.support.clock import until
from tests.support.wire import at_once

SESSION = "2025-11-25"
SECRET = "Bearer swordfish"
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


def weather(**options: Any) -> Server:
    server = Server("weather", **options)

    @server.tool()
    def forecast(ctx: Context) -> str:
        ctx.progress(1, 2)
        return "sun"

    @server.tool()
    def come_back(ctx: Context) -> str:
        ctx.close_stream(retry=1)
        return "rain"

    return server


def facts(events: list[TraceEvent]) -> list[tuple[Any, ...]]:
    """Of each event: the direction, whether it has a message, and what HTTP says of it, but for its headers."""
    rows = []
    for event in events:
        http = {name: value for name, value in (event.http or {}).items() if name not in ("headers", "exchange")}
        rows.append((event.direction, event.message is not None, http))
    return rows


def ids(events: list[TraceEvent]) -> list[str]:
    return [event.http["eventId"] for event in events if event.http and "eventId" in event.http]


def both_sides(talk: Any, *, last: str | None = None, **options: Any) -> tuple[list[TraceEvent], list[TraceEvent]]:
    """Return what a client and a server saw of one conversation, which ends after the client has read event `last`."""
    ours: list[TraceEvent] = []
    theirs: list[TraceEvent] = []
    server = weather(trace=theirs.append)
    with server.serve_http(sse_path="/sse") as http:
        url = http.sse_url if options.get("revision") == "2024-11-05" else http.url
        target = Url(url or "", {"Authorization": SECRET, "X-Own": "anything"})
        with Client(target, trace=ours.append, **options) as client:
            talk(client)
            until(lambda: last is None or last in ids(ours))
    return ours, theirs


def test_both_sides_see_the_method_the_status_and_the_events_of_each_exchange() -> None:
    ours, theirs = both_sides(
        lambda client: client.call_tool("forecast", on_progress=lambda *seen: None), last="s1-1", revision=SESSION
    )
    posted, answered = {"method": "POST"}, {"method": "POST", "status": 200}
    assert [row for row in facts(ours) if row[2]["method"] != "GET"] == [
        ("send", True, posted),
        ("receive", True, answered),
        ("send", True, posted),
        ("receive", False, {"method": "POST", "status": 202}),
        ("send", True, posted),
        ("receive", False, answered),
        ("receive", False, answered | {"eventId": "s2-1"}),
        ("receive", True, answered | {"eventId": "s2-2"}),
        ("receive", True, answered | {"eventId": "s2-3"}),
        ("send", False, {"method": "POST", "end": "client"}),
        ("send", False, {"method": "DELETE"}),
        ("receive", False, {"method": "DELETE", "status": 200}),
    ]
    # The standing stream is read by a thread of its own, whose notes may come between the others, and after them.
    assert [row for row in facts(ours) if row[2]["method"] == "GET"] == [
        ("send", False, {"method": "GET"}),
        ("receive", False, {"method": "GET", "status": 200}),
        ("receive", False, {"method": "GET", "status": 200, "eventId": "s1-1"}),
        ("send", False, {"method": "GET", "end": "client"}),
    ]
    assert [event.message for event in ours if event.message] == [event.message for event in theirs if event.message]
    assert sorted(ids(ours)) == sorted(ids(theirs)) == ["s1-1", "s2-1", "s2-2", "s2-3"]


def test_headers_of_the_protocol_are_shown_and_secrets_are_not() -> None:
    sessions = set()
    for events in both_sides(lambda client: client.ping(), revision=SESSION):
        text = "\n".join(map(to_row, events))
        assert "swordfish" not in text and "anything" not in text
        headers = [(event.http or {}).get("headers", {}) for event in events]
        assert headers[0]["authorization"] == "[redacted]"
        assert headers[2]["mcp-protocol-version"] == SESSION
        sessions |= {head["mcp-session-id"] for head in headers if "mcp-session-id" in head}
    # The same digits wherever the session is named, and on both sides.
    assert len(sessions) == 1


def test_a_stream_that_is_gone_on_with_shows_the_retry_and_the_event_it_goes_on_after() -> None:
    for events in (both := both_sides(lambda client: client.call_tool("come_back"), revision=SESSION)):
        (retry,) = [event for event in events if event.http and "retry" in event.http]
        (again,) = [event for event in events if event.http and "last-event-id" in event.http.get("headers", {})]
        assert retry.message is None and retry.http and retry.http["retry"] == 1 and again.seq > retry.seq
        assert again.http and again.http["method"] == "GET"
        assert again.http["headers"]["last-event-id"] == retry.http["eventId"]
        # An exchange has the request, its status and its events, though two streams were open at the same time.
        exchanges: dict[int, list[TraceEvent]] = {}
        for event in events:
            exchanges.setdefault((event.http or {})["exchange"], []).append(event)
        assert sorted(exchanges) == list(range(1, len(exchanges) + 1))
        for request, *answer in exchanges.values():
            assert answer and "status" not in (request.http or {})
            assert all({"status", "end"} & set(event.http or {}) for event in answer)
        asked = [first.message["method"] for first, *_ in exchanges.values() if isinstance(first.message, dict)]
        assert asked == ["initialize", "notifications/initialized", "tools/call"]
    told = "\n".join(narrate(both[0]))
    assert "says to wait 1 ms before connecting again" in told
    assert 'goes on with a stream, after event "s2-' in told


def test_over_http_and_sse_the_posts_and_the_stream_are_told_apart() -> None:
    ours, theirs = both_sides(lambda client: client.ping(), revision="2024-11-05")
    assert {event.transport for event in (*ours, *theirs)} == {"http+sse"}
    assert facts(ours)[:4] == [
        ("send", False, {"method": "GET"}),
        ("receive", False, {"method": "GET", "status": 200}),
        ("receive", False, {"method": "GET", "status": 200, "event": "endpoint"}),
        ("send", True, {"method": "POST"}),
    ]
    answers = [http for way, carried, http in facts(ours) if way == "receive" and carried]
    assert answers == [{"method": "GET", "status": 200}] * 2
    assert sum(http.get("status") == 202 for _, _, http in facts(theirs)) == 3


def refused(request: HttpRequest) -> None:
    raise HttpRefusal(401, "Unauthorized", headers={"WWW-Authenticate": 'Bearer realm="here"'})


def test_a_refusal_is_noted_with_its_status_by_both_sides() -> None:
    ours: list[TraceEvent] = []
    theirs: list[TraceEvent] = []
    with weather(trace=theirs.append).serve_http(authenticate=refused) as http, pytest.raises(McpError):
        Client(http.url, trace=ours.append, revision="2025-11-25").connect()
    for event in (theirs[1], next(event for event in ours if event.direction == "receive")):
        assert event.http is not None and event.http["status"] == 401
        assert event.http["headers"]["www-authenticate"] == 'Bearer realm="here"'
    assert "HTTP: status 401 Unauthorized" in "\n".join(narrate(theirs))


def test_what_is_not_a_session_is_noted_though_no_conversation_has_it() -> None:
    theirs: list[TraceEvent] = []
    with weather(trace=theirs.append).serve_http() as http:
        requests.get(http.url, headers={**HEADERS, "Mcp-Session-Id": "guessed"}, timeout=5)
    assert facts(theirs)[0] == ("receive", False, {"method": "GET"})
    assert theirs[1].http is not None and theirs[1].http["status"] == 404
    assert "guessed" not in "".join(map(to_row, theirs))


# -- several clients of one server: which connection, which exchange


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_answers_are_paired_with_the_requests_of_their_own_client(revision: str) -> None:
    """Two clients of one server call a tool at the same time, with the same request id."""
    events, inside = list[TraceEvent](), threading.Barrier(2)
    server = Server("weather", trace=events.append)

    @server.tool()
    def forecast(city: str) -> str:
        inside.wait(timeout=5)
        return city

    def talk(url: str, city: str) -> None:
        with Client(url, revision=revision) as client:
            client.call_tool("forecast", {"city": city})

    with server.serve_http(sse_path="/sse") as http:
        url = (http.sse_url if revision == "2024-11-05" else http.url) or ""
        at_once(*(partial(talk, url, city) for city in ("Lisbon", "Porto")))
    told = [*narrate(events)]
    assert not [line for line in told if "no request that was seen" in line]
    said: list[tuple[TraceEvent, Any]] = [(each, each.message) for each in events if isinstance(each.message, dict)]
    (one, asked), (other, too) = [each for each in said if each[1].get("method") == "tools/call"]
    assert asked["id"] == too["id"] and one.conn != other.conn
    for conn, call in ((one.conn, asked), (other.conn, too)):
        ((at, answer),) = [
            (event.seq, message["result"])
            for event, message in said
            if event.conn == conn and "result" in message and message["id"] == call["id"]
        ]
        assert answer["content"][0]["text"] == call["params"]["arguments"]["city"]
        assert "response to 2: tools/call, after" in told[at - 1] or revision == "2026-07-28"


def test_a_session_is_one_connection_to_the_server_and_each_request_without_one_is_one() -> None:
    for revision, connections in ((SESSION, 1), ("2026-07-28", 3)):
        # The stateless one begins with server/discover.
        _, theirs = both_sides(lambda client: [client.list_tools(), client.list_tools()], revision=revision)
        assert len({event.conn for event in theirs}) == connections


# -- the recorder of a server on HTTP


def test_a_recorder_is_closed_with_the_last_service_and_one_that_was_given_by_whoever_made_it() -> None:
    def asked(events: list[TraceEvent]) -> int:
        return sum(isinstance(each.message, dict) and each.message.get("method") == "tools/call" for each in events)

    own, given = list[TraceEvent](), list[TraceEvent]()
    server = weather(trace=own.append)
    with server.serve_http() as first:
        with server.serve_http() as second, Client(second.url) as client:
            client.call_tool("forecast")
        with Client(first.url) as client:
            client.call_tool("forecast")
    assert asked(own) == 2
    assert "mcp-trace" not in {thread.name for thread in threading.enumerate()}
    with Recorder(given.append) as recorder:
        for _ in range(2):
            with weather(trace=recorder).serve_http() as http, Client(http.url) as client:
                client.call_tool("forecast")
    assert asked(given) == 2


def test_a_trace_that_cannot_be_written_is_told_to_who_serves() -> None:
    with pytest.raises(OSError, match="no/such"):
        weather(trace="/no/such/folder/trace.jsonl").serve_http()


def test_a_line_keeps_the_microsecond_and_what_http_says_and_one_without_is_read_as_before() -> None:
    event = TraceEvent(1, 1764061200.123456, "t", "send", "server", None, "http", {"method": "GET"})
    old = event._replace(message={"jsonrpc": "2.0", "method": "x"}, transport="stdio", http=None)
    for each in (event, old, event._replace(conn=7, http={"method": "GET", "exchange": 3})):
        assert from_row(to_row(each)) == each
    assert not {"http", "conn"} & set(json.loads(to_row(old)))
