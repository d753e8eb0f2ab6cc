"""The client's half of subscriptions: over streams that the test fills, and over two peers that talk to each other."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import nullcontext
from queue import Empty, SimpleQueue
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import pytest

from mcp_ref.connection.connection import SentRequest
from mcp_ref.errors import (
    ErrorResponse,
    HttpStatusError,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    TransportClosed,
)
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.kit.threads.warn_once import Complaints
from mcp_ref.pages.basic import subscriptions as listening
from mcp_ref.pages.basic.subscriptions import Listening, listen
from mcp_ref.revisions import LATEST_STATELESS
from tests.support.wire import PATIENCE, Background

ID = "io.modelcontextprotocol/subscriptionId"
TOOLS = "notifications/tools/list_changed"
PROMPTS = "notifications/prompts/list_changed"
UPDATED = "notifications/resources/updated"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
CANCELLED = "notifications/cancelled"
BROKEN = TransportClosed("the connection broke")
GIVEN_UP = object()


class FakeStream:
    """A stream whose messages the test says, before or while it is read."""

    def __init__(self, *said: Any) -> None:
        self.inbox, self.closed = SimpleQueue[Any](), list[str]()
        self.handed, self.reading = threading.Semaphore(0), threading.Event()
        self.deadline = Deadline(None)
        self.once_given_up: Any = GIVEN_UP
        for each in said:
            self.inbox.put(each)

    def say(self, method: str, **params: Any) -> None:
        self.inbox.put(note(method, **params))

    def acknowledge(self, **honoured: Any) -> FakeStream:
        self.say(ACKNOWLEDGED, notifications=honoured)
        return self

    def run(self, row: SentRequest) -> Any:
        """Return what `Connection.request` does."""
        self.deadline, row.on_give_up = row.deadline, lambda: self.inbox.put(self.once_given_up)
        try:
            if not row.empty():
                raise row.get()
            assert row.on_notification is not None
            while (message := self._next(row)).get("method") not in (None, CANCELLED):
                self.handed.release()
                row.on_notification(message)
            if "error" in message:
                raise ErrorResponse.of(message["error"])
        except McpError as problem:
            self.closed.append(str(problem))
            raise
        return message.get("result", message.get("params"))

    def _next(self, row: SentRequest) -> Any:
        left = self.deadline.left()
        if self.inbox.empty():
            self.reading.set()
        try:
            message = self.inbox.get(timeout=PATIENCE if left is None else left)
        except Empty:
            assert left is not None, "nobody ended the stream"
            raise RequestTimeout("no acknowledgement") from None
        if message is GIVEN_UP:
            message = row.get()
        if isinstance(message, BaseException):
            raise message
        return message


def note(method: str, **params: Any) -> Any:
    return {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": {ID: 1}}}


CLOSING: Any = {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "_meta": {ID: 1}}}
FAILING: Any = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "no"}}


class FakeClient:
    """An opener of streams: those that the test has laid out, or what opening them raises."""

    def __init__(self, *streams: FakeStream | McpError) -> None:
        self.streams = list(streams)
        self.asked: list[tuple[str, Any]] = []
        self.before_opening: Callable[[], None] | None = None
        self.listenings: WeakSet[Listening] = WeakSet()
        complain, terms = Complaints(logging.getLogger("mcp_ref")), SimpleNamespace(revision=LATEST_STATELESS)
        self.session = SimpleNamespace(connection=SimpleNamespace(complain=complain, terms=terms))

    def connection_for_stream(self, deadline: Deadline) -> Any:
        return SimpleNamespace(request=self._request, request_type=SentRequest)

    def _request(self, method: str, params: Any, pending: SentRequest) -> Any:
        self.asked.append((method, params))
        if self.before_opening is not None:
            self.before_opening()
        stream = self.streams.pop(0) if self.streams else TransportClosed("nobody is there")
        if isinstance(stream, BaseException):
            raise stream
        return stream.run(pending)


def acknowledged(*said: Any) -> FakeStream:
    stream = FakeStream().acknowledge(toolsListChanged=True)
    for each in said:
        stream.inbox.put(each)
    return stream


READ: list[Callable[[Listening], Any]] = [next, lambda events: events.get(PATIENCE)]


def assert_ended(events: Listening) -> None:
    """Nothing more comes, however it is asked for."""
    with pytest.raises(TransportClosed, match="has ended"):
        events.get(PATIENCE)
    assert list(events) == []


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other without a pause."""
    monkeypatch.setattr(listening, "REOPEN_INTERVALS", (0.0, 0.0, 0.0))


# -- what is asked for --------------------------------------------------------------------------------------------


def test_nothing_is_sent_before_the_block_is_entered() -> None:
    client = FakeClient()
    events = listen(client, tools=True)
    for read in READ:
        with pytest.raises(LocalProtocolError, match="enter it first"):
            read(events)
    assert client.asked == []


def test_listening_for_nothing_is_refused_here() -> None:
    with pytest.raises(ValueError, match="listen for at least one"):
        listen(FakeClient(), resources=[])
    with pytest.raises(TypeError, match="list of URIs"):
        listen(FakeClient(), resources="file:///a")


# -- entering -----------------------------------------------------------------------------------------------------


def test_entering_waits_for_the_acknowledgement_and_from_then_on_there_is_no_limit() -> None:
    stream = FakeStream()
    events = listen(FakeClient(stream), tools=True, timeout=PATIENCE)
    entering = Background(events.__enter__)
    assert stream.reading.wait(PATIENCE) and stream.deadline.left() is not None
    stream.acknowledge(toolsListChanged=True)
    assert entering.outcome() is events and stream.deadline.left() is None
    assert events.honoured == {"toolsListChanged": True}
    events.close()


def test_what_is_not_honoured_is_said_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with listen(FakeClient(acknowledged()), tools=True, prompts=True, resources=["a:"]) as events:
        assert events.honoured == {"toolsListChanged": True}
        assert events.refused == {"promptsListChanged": True, "resourceSubscriptions": ["a:"]}
    assert "leaves out {'promptsListChanged': True, 'resourceSubscriptions': ['a:']}" in caplog.text


@pytest.mark.parametrize(("said", "problem"), [((), RequestTimeout), ((BROKEN,), TransportClosed)])
def test_who_is_not_acknowledged_in_time_or_at_all_has_not_entered(said: Any, problem: type[McpError]) -> None:
    stream = FakeStream(*said)
    client = FakeClient(stream, acknowledged())
    with pytest.raises(problem), listen(client, tools=True, timeout=PATIENCE if said else 0.01):
        pass
    assert (len(stream.closed), len(client.asked)) == (1, 1)


@pytest.mark.parametrize(
    "first",
    [note(TOOLS), CLOSING, note(CANCELLED, requestId=1), note(ACKNOWLEDGED), note(ACKNOWLEDGED, notifications=[])],
    ids=["a notification", "the closing", "a cancellation", "without filter", "a filter of another shape"],
)
def test_anything_else_before_the_acknowledgement_breaks_the_protocol(first: Any) -> None:
    stream = FakeStream(first)
    broken = pytest.raises(RemoteProtocolError, match="before it acknowledged|malformed")
    with broken, listen(FakeClient(stream), tools=True):
        pass
    # What the server has ended needs no cancellation.
    assert len(stream.closed) == (first.get("method") not in (None, CANCELLED))


# -- iterating ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "message",
    [note(PROMPTS), note("notifications/message", data=1), note(ACKNOWLEDGED, notifications={}), note(UPDATED, uri=1)],
)
def test_what_was_not_asked_for_is_not_an_event(message: Any) -> None:
    with listen(FakeClient(acknowledged(message, note(TOOLS), CLOSING)), tools=True, resources=["a:"]) as events:
        assert [event.method for event in events] == [TOOLS]


@pytest.mark.parametrize(
    "last",
    [
        [CLOSING],
        [note(CANCELLED, requestId=1, reason="maintenance"), CLOSING],
        [note(CANCELLED, requestId=1)],
        [{"jsonrpc": "2.0", "id": 1, "result": {}}],
        [CLOSING, note(CANCELLED, requestId=1)],
    ],
    ids=["result", "cancelled, result", "cancelled", "a bare result", "result, cancelled"],
)
def test_the_server_ends_it_in_any_of_the_ways_there_are(last: list[Any]) -> None:
    client = FakeClient(acknowledged(note(TOOLS), *last))
    with listen(client, tools=True) as events:
        assert not events.graceful
        assert [event.method for event in events] == [TOOLS]
        assert events.graceful
        assert_ended(events)
    assert len(client.asked) == 1
    with pytest.raises(RuntimeError, match="entered only once"):
        events.__enter__()


@pytest.mark.parametrize("read", READ, ids=["next", "get"])
@pytest.mark.parametrize(
    ("last", "error", "says"),
    [
        (FAILING, ErrorResponse, "no"),
        (
            {**CLOSING, "result": {"resultType": "com.example/odd"}},
            RemoteProtocolError,
            "of the kind 'com.example/odd'",
        ),
        (RequestCancelled("by another hand"), RequestCancelled, "another hand"),
    ],
    ids=["an error", "a closing of an unknown kind", "given up by somebody else"],
)
def test_what_ends_the_reading_is_raised_once(
    last: Any, error: type[McpError], says: str, read: Callable[[Listening], Any]
) -> None:
    with listen(FakeClient(acknowledged(note(TOOLS), last)), tools=True) as events:
        assert read(events).method == TOOLS
        with pytest.raises(error, match=says):
            read(events)
        assert not events.graceful
        assert_ended(events)


# -- ending it here -----------------------------------------------------------------------------------------------


def test_leaving_the_block_tells_the_server_once() -> None:
    stream = acknowledged(note(TOOLS))
    with listen(FakeClient(stream), tools=True) as events:
        next(events)
    events.close()
    assert stream.closed == ["no longer wanted"]
    assert events.closed and not events.graceful
    assert_ended(events)


@pytest.mark.parametrize("problem", [BROKEN, RemoteProtocolError("half a message"), RequestCancelled("closed")])
def test_whatever_closing_does_to_the_stream_the_iteration_ends_quietly(problem: McpError) -> None:
    stream = acknowledged()
    client = FakeClient(stream, acknowledged())
    stream.once_given_up = problem
    with listen(client, tools=True) as events:
        assert stream.reading.wait(PATIENCE)
        events.close()
        assert list(events) == []
    assert len(client.asked) == 1


@pytest.mark.parametrize("when", ["before", "while the request is sent", "while it waits"])
def test_one_that_is_closed_before_it_is_acknowledged_is_given_up(when: str) -> None:
    stream = FakeStream()
    client = FakeClient(stream)
    events = listen(client, tools=True)
    if when == "before":
        events.close()
    elif when == "while the request is sent":
        client.before_opening = events.close
    entering = Background(events.__enter__)
    if when == "while it waits":
        assert stream.reading.wait(PATIENCE)
        events.close()
    assert isinstance(entering.outcome(), RequestCancelled)
    assert (len(client.asked), len(stream.closed)) == ((0, 0) if when == "before" else (1, 1))


# -- a connection that breaks -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("at_once")
def test_a_stream_that_breaks_is_asked_for_again() -> None:
    second = FakeStream().acknowledge(toolsListChanged=True, promptsListChanged=True)
    second.say(PROMPTS)
    second.inbox.put(CLOSING)
    client, reopened = FakeClient(acknowledged(note(TOOLS), BROKEN), second), list[Any]()
    with listen(client, tools=True, prompts=True, on_reopen=lambda: reopened.append(dict(events.honoured))) as events:
        assert [event.method for event in events] == [TOOLS, PROMPTS]
    assert client.asked == [client.asked[0]] * 2
    assert reopened == [{"toolsListChanged": True, "promptsListChanged": True}]
    assert second.deadline.left() is None


def test_it_is_not_asked_for_again_where_that_is_not_wanted() -> None:
    client = FakeClient(acknowledged(BROKEN), acknowledged())
    with listen(client, tools=True, reopen=False) as events:
        with pytest.raises(TransportClosed, match="the connection broke"):
            next(events)
        assert list(events) == []
    assert len(client.asked) == 1


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize(
    ("opening", "error"),
    [
        (BROKEN, None),
        (FakeStream(BROKEN), None),
        (HttpStatusError(503), None),
        (HttpStatusError(429), None),
        (RequestTimeout("no connection"), None),
        (FakeStream(RequestTimeout("no acknowledgement")), None),
        (HttpStatusError(401), HttpStatusError),
        (LocalProtocolError("the client is closed"), LocalProtocolError),
        (FakeStream(FAILING), ErrorResponse),
        (FakeStream(CLOSING), RemoteProtocolError),
    ],
)
def test_what_may_pass_is_tried_again_and_what_will_not_is_raised(opening: Any, error: type[McpError] | None) -> None:
    client = FakeClient(acknowledged(BROKEN), opening, acknowledged(CLOSING))
    with listen(client, tools=True) as events:
        with pytest.raises(error) if error else nullcontext():
            assert list(events) == []
        assert list(events) == []
    assert len(client.asked) == (2 if error else 3)


@pytest.mark.usefixtures("at_once")
def test_attempts_are_numbered_in_a_row_and_then_it_is_given_up() -> None:
    client = FakeClient(acknowledged(BROKEN), acknowledged(BROKEN))
    with listen(client, tools=True) as events:
        with pytest.raises(TransportClosed, match="could not be reopened: nobody is there"):
            next(events)
    assert len(client.asked) == 1 + len(listening.REOPEN_INTERVALS)


@pytest.mark.usefixtures("at_once")
def test_a_stream_that_has_lasted_begins_a_new_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "STEADY_INTERVAL", 0.0)
    streams = [acknowledged(note(TOOLS), BROKEN) for _ in range(3 * len(listening.REOPEN_INTERVALS))]
    with listen(FakeClient(*streams, acknowledged(CLOSING)), tools=True) as events:
        assert len(list(events)) == len(streams)


def test_closing_ends_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "REOPEN_INTERVALS", (3600.0,))
    broke = acknowledged()
    client = FakeClient(broke, acknowledged())
    with listen(client, tools=True) as events:
        wait_for, pausing = events._changed.wait_for, threading.Event()

        def watched(predicate: Callable[[], Any], timeout: float | None = None) -> Any:
            if timeout is not None:
                pausing.set()
            return wait_for(predicate, timeout)

        events._changed.wait_for = watched  # type: ignore[method-assign]
        broke.inbox.put(BROKEN)
        assert pausing.wait(PATIENCE)
        events.close()
        assert list(events) == []
    assert len(client.asked) == 1


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("read", [list, lambda events: events.get()], ids=["iterating", "get"])
@pytest.mark.parametrize("again", [False, True], ids=["", "while it is opened again"])
def test_closing_ends_whoever_waits(again: bool, read: Callable[[Listening], Any]) -> None:
    quiet = FakeStream() if again else acknowledged()
    with listen(FakeClient(*[acknowledged(BROKEN)] * again, quiet), tools=True) as events:
        waiting = Background(read, events)
        assert quiet.reading.wait(PATIENCE)
        events.close()
        outcome = waiting.outcome()
    assert outcome == [] if read is list else isinstance(outcome, TransportClosed)
    assert quiet.closed


# -- get ----------------------------------------------------------------------------------------------------------


def test_one_event_can_be_waited_for_for_a_time_and_waited_for_again() -> None:
    stream = acknowledged()
    with listen(FakeClient(stream), tools=True) as events:
        for _ in range(2):
            with pytest.raises(RequestTimeout):
                events.get(0.01)
        stream.say(TOOLS)
        assert events.get(PATIENCE).method == TOOLS
        stream.say(TOOLS)
        assert next(events).method == TOOLS
    assert stream.closed == ["no longer wanted"]


def test_a_stream_is_read_one_event_ahead_and_then_waits_for_its_reader() -> None:
    """One waits to be taken, the thread that reads holds another, and the rest is left to the server."""
    stream = acknowledged(*(note(UPDATED, uri=f"a:/{number}") for number in range(5)))
    with listen(FakeClient(stream), resources=["a:"]) as events:
        assert events.get(PATIENCE).params["uri"] == "a:/0"
        assert all(stream.handed.acquire(timeout=PATIENCE) for _ in range(4))
        assert stream.inbox.qsize() == 2 and not stream.handed.acquire(blocking=False)
        assert [events.get(PATIENCE).params["uri"] for _ in range(4)] == ["a:/1", "a:/2", "a:/3", "a:/4"]


@pytest.mark.parametrize("unread", [1, 2, 3])
def test_closing_ends_the_reading_of_what_nobody_takes(unread: int) -> None:
    stream = acknowledged(*[note(TOOLS)] * unread)
    with listen(FakeClient(stream), tools=True) as events:
        assert stream.handed.acquire(timeout=PATIENCE)
    assert events._thread is not None and not events._thread.is_alive()
    assert stream.closed == ["no longer wanted"] and list(events) == []


@pytest.mark.usefixtures("at_once")
def test_a_callback_may_close_it() -> None:
    client = FakeClient(acknowledged(BROKEN), acknowledged(note(TOOLS)))
    with listen(client, tools=True, on_reopen=lambda: events.close()) as events:
        assert_ended(events)
