"""Recording the wire: each message that a connection carries becomes a `TraceEvent`, in the order of the wire.

Spec:      basic/transports; basic/index#messages
Not here:  what the events mean (trace/narrate); when a transport notes a message (each transport)

    transport, in its write lock      tap.note("send", message)      number it, remember it: a microsecond
    transport, after the lock         tap.deliver()                  parse, redact, write to the files
    the thread mcp-trace              a user's callables             they may use the client that they watch

Over HTTP an event also says what HTTP has beside the message, or without one: a stream that is opened, a refusal.

A trace file is JSON Lines, one event in a line:

    {"seq":1,"time":"2025-11-25T09:00:00.000000Z","thread":"MainThread","conn":1,"direction":"send","peer":"server",
     "transport":"stdio","message":{"jsonrpc":"2.0","id":1,"method":"ping"}}
    {... "transport":"http","message":{...},"http":{"exchange":4,"method":"POST","headers":{"host":"127.0.0.1:8000"}}}
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, Literal, NamedTuple, Self, TextIO, cast, get_args

from mcp_ref.basic.transports.transport import Tap
from mcp_ref.errors import Refusal
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.messages import JsonObject, decode, encode
from mcp_ref.trace.redact import redact, redact_headers, redact_text

logger = logging.getLogger(__name__)

Direction = Literal["send", "receive", "stderr"]
Message = dict[str, Any] | list[Any] | str | None

_MOST_WAITING: Final = 100_000  # events that wait for slow callables; those on top are lost, and the log says so


class TraceEvent(NamedTuple):
    """One message that went over the wire, or one line that a child wrote to stderr.

    seq: 1, 2, 3 ... in one recorder, whatever the connection; the order of the wire.
    time: seconds since the UNIX epoch; ISO 8601 in UTC with microseconds in a file.
    thread: the name of the thread that wrote or read it.
    direction: "send", "receive" or "stderr", seen from the side that records.
    peer: who is at the other end: "server", "client", or the label that the connection was given.
    message: the JSON of a message (a list: a batch); text where it could not be parsed, and for stderr; None where
        HTTP carried none.
    transport: such as "stdio".
    http: over HTTP, what is known of these: "method"; "status"; "headers", those that say something of the protocol,
        by their names in lower case; "eventId" and "retry" (milliseconds) of an event in a stream, and "event", its
        type, where it is not "message"; "hangUp", the id of the request that the end of a connection gives up;
        "exchange", the number of the HTTP request to which all of this belongs, unique in the trace. None elsewhere.
    conn: the number of what the message travels on, unique in the trace: the same for all that share one set of request
        ids. A process or an in-memory pair is one; over HTTP a client is one, and to a server each session is one, and
        each request that belongs to no session. None in files recorded before there were such numbers.

    Secrets are redacted in `message` and `http`, which are copies: changing them changes nothing on the wire.
    """

    seq: int
    time: float
    thread: str
    direction: Direction
    peer: str
    message: Message
    transport: str
    http: JsonObject | None = None
    conn: int | None = None


Sink = str | os.PathLike[str] | TextIO | Callable[[TraceEvent], None]


class Recorder:
    """Writes what the connections with its taps carry to one or more sinks.

    Args:
        sinks: each the path of a file, written as JSON Lines, each line flushed; or a text file that is open, which
            `close()` leaves open; or a callable of one `TraceEvent`. It may use the client that it watches.
        append: keep what a file given by its path holds; it is emptied otherwise. A file that does not exist is created
            with mode 0600, for a trace holds what was said; the mode of one that does is left alone.

    Raises: OSError where a path cannot be opened for writing.
    Threads: taps may be used by any thread. Each sink gets the events one at a time, in the order of `seq`, and never
        inside a lock. Files are written by whoever delivers, such as the reader of a transport. Callables are called by
        the thread `mcp-trace`, which starts with the first event for them: on a reader, one that waited for an answer
        would wait for itself.
    """

    def __init__(self, *sinks: Sink, append: bool = False) -> None:
        # Guards _notes, _seq, _conns, _exchanges, _drainer, _closed, and the `conn` of each tap;
        # held for a few statements, never while the sink runs.
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._notes: deque[tuple[Any, ...]] = deque()
        self._seq = self._conns = self._exchanges = 0
        self._drainer: int | None = None
        self._closed = False
        self._files: list[TextIO] = []
        self._writers = [self._open(sink, append) for sink in sinks if not callable(sink)]
        self._listeners = _Listeners([sink for sink in sinks if callable(sink)])

    def _open(self, sink: str | os.PathLike[str] | TextIO, append: bool) -> Callable[[TraceEvent], None]:
        if isinstance(sink, (str, os.PathLike)):
            self._files.append(_create(sink, append))
            return _line_writer(self._files[-1])
        return _line_writer(sink)

    def tap(self, peer: str, transport: str) -> Tap:
        """What one connection shows its traffic to; `peer` and `transport` go into each of its events.

        The connection gets its number, `conn`, with its first event.
        """
        return _Tap(self, peer, transport)

    @property
    def seq(self) -> int:
        """The number of the event noted last; 0 before the first."""
        return self._seq

    def _note(self, tap: _Tap, direction: Direction, message: Any, http: Mapping[str, Any] | None) -> None:
        thread = threading.current_thread().name
        with self._lock:
            if self._closed:
                return
            if tap.conn is None:
                self._conns += 1
                tap.conn = self._conns
            self._seq += 1
            note = (self._seq, time.time(), thread, direction, tap.peer, message, tap.transport, http, tap.conn)
            self._notes.append(note)

    def _exchange(self) -> int:
        with self._lock:
            self._exchanges += 1
            return self._exchanges

    def deliver(self) -> None:
        """Write everything noted so far to the files, and leave it to `mcp-trace` for the callables.

        Where another thread does that already, this returns at once and what was noted is handed over there: no event
        is lost, and the order is kept.
        """
        with self._lock:
            if self._drainer is not None:
                return
            self._drainer = threading.get_ident()
        try:
            while (note := self._next()) is not None:
                self._hand_over(note)
        except BaseException:
            # Ctrl-C in the writing: the events that are left go with the next delivery.
            self._stop_draining()
            raise

    def close(self, timeout: float | None = 5) -> None:
        """Hand over what is left and close the files that this opened; what is noted afterwards is ignored.

        Why `mcp-trace` ends: it finds a sentinel after the events that are waiting. A callable that takes longer than
        the timeout is left behind as a daemon, and still gets them.

        Blocks: at most `timeout` seconds, and for what the disk takes.
        Threads: any, any number of times; a callable too, which then does not wait for itself.
        """
        deadline = Deadline(timeout)
        self.deliver()
        with self._lock:
            self._closed = True
            if self._drainer != threading.get_ident():
                self._idle.wait_for(lambda: self._drainer is None, timeout=deadline.left())
        # A note may have come between the delivery and the flag.
        self.deliver()
        self._listeners.close(deadline)
        for file in self._files if self._drainer is None else ():
            file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _next(self) -> tuple[Any, ...] | None:
        """The next note. None ends the draining, in the same moment, so that no note falls between two drainers."""
        with self._lock:
            if self._notes:
                return self._notes.popleft()
            self._drainer = None
            self._idle.notify_all()
            return None

    def _stop_draining(self) -> None:
        with self._lock:
            self._drainer = None
            self._idle.notify_all()

    def _hand_over(self, note: tuple[Any, ...]) -> None:
        seq, at, thread, direction, peer, message, transport, http, conn = note
        event = TraceEvent(seq, at, thread, direction, peer, _shown(message), transport, _shown_http(http), conn)
        for sink in (*self._writers, self._listeners.put):
            _try(sink, event)


class _Listeners:
    """The callables of one recorder, and the thread `mcp-trace` that calls them.

    Threads: `put` by whoever delivers, one at a time; `close` by any.
    """

    def __init__(self, callables: list[Callable[[TraceEvent], None]]) -> None:
        self._callables = callables
        self._queue: SimpleQueue[TraceEvent | None] = SimpleQueue()
        self._started = self._lost = False
        # Daemon: a callable is the user's code, which nobody can end.
        self._thread = threading.Thread(target=self._run, name="mcp-trace", daemon=True)

    def put(self, event: TraceEvent) -> None:
        """Have the callables called with the event, after those that came before. Never blocks."""
        if not self._callables:
            return
        if self._queue.qsize() >= _MOST_WAITING:
            if not self._lost:
                logger.warning("the trace's callables are too slow: events are lost from number %d on", event.seq)
            self._lost = True
            return
        self._queue.put(event)
        if not self._started:
            self._started = True
            self._thread.start()

    def _run(self) -> None:
        # Bounded by close(), which sends the sentinel.
        while (event := self._queue.get()) is not None:
            for sink in self._callables:
                # Also what is no Exception, such as SystemExit: it ends one call, and not the thread.
                _try(sink, event, BaseException)

    def close(self, deadline: Deadline) -> None:
        """End the thread after what is waiting; a later caller waits for it too."""
        self._queue.put(None)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(deadline.left())


def _try(sink: Callable[[TraceEvent], None], event: TraceEvent, caught: type[BaseException] = Exception) -> None:
    try:
        sink(event)
    except caught:
        # A trace must not break the conversation that it watches.
        logger.exception("the trace's sink failed on event %d", event.seq)


def recorder(trace: Recorder | Sink) -> Recorder:
    """What the argument `trace=` of a client or a server stands for: a recorder as it is, a new one for any other sink.

    Raises: OSError where a path cannot be opened for writing.
    """
    return trace if isinstance(trace, Recorder) else Recorder(trace)


class _Tap:
    """A connection's view of a recorder."""

    def __init__(self, recorder: Recorder, peer: str, transport: str) -> None:
        self._recorder = recorder
        self.peer = peer
        self.transport = transport
        self.conn: int | None = None

    def note(self, direction: Direction, message: Any, http: Mapping[str, Any] | None = None) -> None:
        self._recorder._note(self, direction, message, http)

    def exchange(self) -> int:
        return self._recorder._exchange()

    def deliver(self) -> None:
        self._recorder.deliver()


# -- what is shown of a message -----------------------------------------------------------------------------------


def _shown(message: Any) -> Message:
    """The message as an event has it: parsed, copied, without secrets; text where there is no object or array."""
    try:
        if isinstance(message, (bytes, bytearray)):
            message = _parsed(bytes(message))
        return redact_text(message) if isinstance(message, str) else cast(Message, redact(message))
    except RecursionError:
        return "[nested too deeply to be shown]"


def _shown_http(http: Mapping[str, Any] | None) -> JsonObject | None:
    """What a transport noted of HTTP, without secrets."""
    if http is None:
        return None
    shown = {name: redact_text(value) if isinstance(value, str) else value for name, value in http.items()}
    return {**shown, "headers": redact_headers(http["headers"])} if "headers" in http else shown


def _parsed(data: bytes) -> Any:
    try:
        value = decode(data)
    except Refusal:
        value = None
    return value if isinstance(value, (dict, list)) else data.decode("utf-8", "replace").rstrip("\r\n")


# -- files --------------------------------------------------------------------------------------------------------


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _create(path: str | os.PathLike[str], append: bool) -> TextIO:
    mode = "a" if append else "w"
    return cast(TextIO, open(path, mode, encoding="utf-8", newline="\n", opener=_private))


def _line_writer(file: TextIO) -> Callable[[TraceEvent], None]:
    def write(event: TraceEvent) -> None:
        line = to_row(event)
        try:
            file.write(line + "\n")
        except UnicodeEncodeError:
            # A file that the user opened may be in any encoding.
            file.write(json.dumps(json.loads(line), separators=(",", ":")) + "\n")
        file.flush()

    return write


def to_row(event: TraceEvent) -> str:
    """The line of a trace file for an event, without its line break."""
    at = datetime.fromtimestamp(event.time, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    row: JsonObject = {"seq": event.seq, "time": at, "thread": event.thread}
    row |= {} if event.conn is None else {"conn": event.conn}
    row |= {"direction": event.direction, "peer": event.peer, "transport": event.transport, "message": event.message}
    return encode(row if event.http is None else {**row, "http": event.http}).decode("utf-8")


def from_row(line: bytes | str) -> TraceEvent:
    """The event in a line of a trace file; members that it does not know are ignored.

    Raises: ValueError saying what is wrong with the line.
    """
    try:
        row = decode(line)
    except Refusal as problem:
        raise ValueError(problem.message) from None
    wrong = _problem(row)
    if wrong is not None:
        raise ValueError(wrong)
    return TraceEvent(**{name: row.get(name) for name in _MEMBERS} | {"time": _timestamp(row["time"])})


_MEMBERS: Final[dict[str, type | tuple[type, ...]]] = {
    "seq": int,
    "time": str,
    "thread": str,
    "direction": str,
    "peer": str,
    "message": (dict, list, str, type(None)),
    "transport": str,
    "http": (dict, type(None)),
    "conn": (int, type(None)),
}


def _problem(row: Any) -> str | None:
    """What keeps the JSON of a line from being an event."""
    if not isinstance(row, dict):
        return "not a JSON object"
    if row.get("message") is None and row.get("http") is None:
        return "message is missing or of the wrong type"
    for name, kinds in _MEMBERS.items():
        if not isinstance(row.get(name), kinds) or isinstance(row.get(name), bool):
            return f"{name} is missing or of the wrong type"
    return None if row["direction"] in get_args(Direction) else f"direction is none of {', '.join(get_args(Direction))}"


def _timestamp(text: str) -> float:
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError("time says no time zone")
    return at.timestamp()


def read_trace(path: str | os.PathLike[str]) -> Iterator[TraceEvent]:
    """The events of a recorded file, one by one as they are read; empty lines are skipped.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is no event; the text begins with the path and the number of the line.
    """
    with Path(path).open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield _event_at(line, f"{os.fspath(path)}:{number}")


def _event_at(line: bytes, where: str) -> TraceEvent:
    try:
        return from_row(line)
    except ValueError as problem:
        raise ValueError(f"{where}: {problem}") from None
