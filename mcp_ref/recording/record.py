"""Recording the wire: each message that a connection carries becomes a `TraceEvent`, in the order of the wire.

Spec:      basic/transports; basic/index#messages
Not here:  what the events mean (lab/judge/narrate); when a transport notes a message (each transport)

    transport, in its write lock      tap.note("send", message)      number it, and queue it
    the thread mcp-trace-writer       parse, redact, write to the files
    the thread mcp-trace              a user's callables: they may use the client that they watch

Over HTTP an event also says what HTTP has beside the message, or without one: a stream that is opened, a refusal.

A trace file is JSON Lines, one event in a line:

    {"seq":1,"time":"2025-11-25T09:00:00.000000Z","thread":"MainThread","conn":1,"direction":"send","peer":"server",
     "transport":"stdio","message":{"jsonrpc":"2.0","id":1,"method":"ping"}}
    {... "transport":"http","message":{...},"http":{"exchange":4,"method":"POST","headers":{"host":"127.0.0.1:8000"}}}
    {... "transport":"stdio","message":null,"end":{"exit":0}}

A trace that is exact holds everything, secrets too, and so can be judged in all points (lab/judge/check).
"""

from __future__ import annotations

import atexit
import base64
import copy
import itertools
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Literal, NamedTuple, Self, TextIO, TypeAlias, cast, get_args

from mcp_ref.errors import LocalProtocolError, Refusal
from mcp_ref.kit.threads.callbacks import CallbackThread
from mcp_ref.kit.threads.deadline import Deadline, has_ended
from mcp_ref.recording.redact import redact, redact_http, redact_text
from mcp_ref.wire.messages import JsonObject, decode, encode

if TYPE_CHECKING:
    from mcp_ref.kit.http.http_exchange import HttpReply, HttpRequest

logger = logging.getLogger(__name__)

Direction = Literal["send", "receive", "stderr"]
Message = dict[str, Any] | list[Any] | str | None


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
        type, where it is not "message"; "hangUp", the id of the request that the end of a connection gives up; "end",
        who has ended an event stream, "server" or "client", or "broken"; "query", the names of the parameters in the
        URL; "path" of what is asked beside the endpoint; of a request for authorization "what" it is for, and "oauth",
        what it says; "exchange", the number of the HTTP request to which all of this belongs, unique in the trace. None
        elsewhere.
    conn: the number of what the message travels on, unique in the trace: the same for all that share one set of request
        ids. A process or an in-memory pair is one; over HTTP a client is one, and to a server each session is one, and
        each request that belongs to no session. None where nobody counts them: then all are one.
    raw: in an exact trace, base64 of the bytes, where encoding `message` again gives others: blanks between members,
        members that come twice, what is not JSON or not UTF-8. None elsewhere.
    end: how a child process ended, step by step: {"eof": "client"}, the end of its input; {"signal": 15}; {"exit": 0},
        its exit code, negative for the signal that ended it. None elsewhere.

    Secrets are redacted in `message` and `http`, unless the trace is exact. Both are copies: changing them changes
    nothing on the wire.
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
    raw: str | None = None
    end: JsonObject | None = None


_MAX_WAITING: Final = 1000  # events; whoever notes one more waits, so that nobody reads faster than the disk takes it
_PAUSE: Final = 0.001  # seconds

Sink = str | os.PathLike[str] | TextIO | Callable[[TraceEvent], None]
Trace: TypeAlias = "Recorder | Sink"


class Recorder:
    """Writes what the connections with its taps carry to one or more sinks.

    Args:
        sinks: each the path of a file, written as JSON Lines, each line flushed; or a text file that is open, which
            `close()` leaves open; or a callable of one `TraceEvent`. It may use the client that it watches.
        forms: also show what users typed into the forms of elicitation, which is hidden otherwise.
        exact: hide nothing, leave nothing out, and keep bytes that cannot be told from the JSON (`TraceEvent.raw`). The
            files hold tokens and passwords then: a file given by its path gets the mode 0600, whatever it had.

    A file given by its path is emptied. One that does not exist is created with mode 0600, for a trace holds what was
    said; the mode of one that does is left alone. A file that cannot be written any more, as on a full disk, ends
    there, which the log says once.

    Raises: OSError where a path cannot be opened for writing.
    Threads: taps may be used by any thread. Each sink gets the events one at a time, in the order of `seq`, soon after
        they were noted. Files are written by the thread `mcp-trace-writer`, and callables are called by `mcp-trace`;
        each starts with the first event for it. When a program ends, what is left is written.
    """

    def __init__(self, *sinks: Sink, forms: bool = False, exact: bool = False) -> None:
        self._forms, self._exact = forms, exact
        # Guards _seq, _conns, _closed, the `conn` of each tap, the order of _notes, and the start of the thread.
        self._lock = threading.Lock()
        self._notes: SimpleQueue[TraceEvent | None] = SimpleQueue()
        self._seq = self._conns = 0
        self._exchanges = itertools.count(1)
        self._closed = False
        self._opened: list[TextIO] = []
        self._files: list[TextIO] = []
        self._callables: list[Callable[[TraceEvent], None]] = []
        for sink in sinks:
            if callable(sink):
                self._callables.append(sink)
            elif isinstance(sink, (str, os.PathLike)):
                opener = partial(os.open, mode=0o600)
                file = open(sink, "w", encoding="utf-8", newline="\n", opener=opener)  # noqa: SIM115
                if exact:
                    os.chmod(file.fileno(), 0o600)
                self._opened.append(file)
                self._files.append(file)
            elif not hasattr(sink, "write"):
                raise TypeError(f"trace= takes a path, an open file, a function or a Recorder, not {sink!r}")
            else:
                self._files.append(sink)
        self._calls = CallbackThread("mcp-trace")
        # Daemon: a program must end whatever its disk does.
        self._writer = threading.Thread(target=self._write, name="mcp-trace-writer", daemon=True)

    def tap(self, peer: str, transport: str) -> Tap:
        """Return a tap, to which one connection shows its traffic; `peer` and `transport` go into each of its events.

        The connection gets its number, `conn`, with its first event.
        """
        return Tap(self, peer, transport)

    @property
    def seq(self) -> int:
        """The number of the event noted last; 0 before the first."""
        return self._seq

    def close(self, timeout: float | None = 5) -> None:
        """Hand over what is left and close the files that this opened; what is noted afterwards is ignored.

        Why the two threads end: each finds a sentinel after what is waiting. A disk or a callable that takes longer
        than the timeout is left behind with its daemon, and still gets the rest.

        Blocks: at most `timeout` seconds.
        Threads: any, any number of times; also a callable, which then does not wait for itself.
        """
        deadline = Deadline(timeout)
        with self._lock:
            self._closed = True
        self._notes.put(None)
        written = has_ended(self._writer, deadline)
        self._calls.close(deadline)
        atexit.unregister(self.close)
        for file in self._opened if written else ():
            # What was not written to a full disk is still to be written then; the log has said so.
            with suppress(OSError):
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _note(self, tap: Tap, direction: Direction, message: Any, http: Mapping[str, Any] | None) -> None:
        thread = threading.current_thread()
        if isinstance(message, (dict, list)):
            # Whoever sends it may change it afterwards.
            try:
                message = copy.deepcopy(message)
            except RecursionError:
                message = TOO_DEEP
        while self._notes.qsize() >= _MAX_WAITING and self._writer.is_alive() and thread is not self._writer:
            time.sleep(_PAUSE)
        with self._lock:
            if self._closed:
                return
            if tap.conn is None:
                self._conns += 1
                tap.conn = self._conns
            self._seq += 1
            peer, transport, conn = tap.peer, tap.transport, tap.conn
            facts = cast(JsonObject | None, http)
            # How a process ends does not belong to HTTP: it comes by the same door, under a name of its own.
            end = None if facts is None or "process" not in facts else facts["process"]
            facts = None if end is not None else facts
            noted = TraceEvent(
                self._seq, time.time(), thread.name, direction, peer, message, transport, facts, conn, None, end
            )
            self._notes.put(noted)
            if self._writer.ident is None:
                try:
                    self._writer.start()
                    atexit.register(self.close, 1)
                except RuntimeError as problem:
                    # It stays in the queue, and the next one tries again.
                    logger.warning("could not start a thread: %s", problem)

    def _write(self) -> None:
        """Hand over one event after the other, in the thread `mcp-trace-writer`."""
        for noted in iter(self._notes.get, None):
            self._hand_over(noted)

    def _hand_over(self, noted: TraceEvent) -> None:
        http = noted.http
        if self._exact:
            message, raw = _exactly(noted.message)
            if http is not None and "headers" in http:
                http = {**http, "headers": {str(name).lower(): str(value) for name, value in http["headers"].items()}}
            event = noted._replace(message=message, http=http, raw=raw)
        else:
            event = without_secrets(noted, forms=self._forms)
        for file in list(self._files):
            try:
                _write_row(file, event)
            except Exception:
                # A trace must not break the conversation that it watches, nor has it holes.
                logger.exception("a trace ends before event %d, which could not be written", event.seq)
                self._files.remove(file)
        for sink in self._callables:
            self._calls.put(partial(_try, sink, event), f"event {event.seq}", event.message)


def _try(sink: Callable[[TraceEvent], None], event: TraceEvent) -> None:
    try:
        sink(event)
    except BaseException:
        logger.exception("the trace's sink failed on event %d", event.seq)


class Tap:
    """The place to which one connection shows its traffic.

    `note` is called where the order is certain, so that the order of notes is the order on the wire: for what is sent
    inside the transport's write lock, before the write, since the answer could be noted first otherwise (a message that
    then fails to be written was noted all the same); for what comes in the thread that reads it, before it is handed
    on. It queues the event, waits for no other message and runs no user's code.

    Threads: several at once: writers, the reader, the reader of a child's stderr.
    """

    def __init__(self, recorder: Recorder, peer: str, transport: str) -> None:
        self._recorder, self.peer, self.transport = recorder, peer, transport
        self.conn: int | None = None

    def note(self, direction: Direction, message: Any, http: Mapping[str, Any] | None = None) -> None:
        """Remember a message (the dict or list that is sent, the bytes that came), or a line of a child's stderr.

        Args:
            http: what HTTP has beside it, as recording/over_http lists it; the message may be None then.
        """
        self._recorder._note(self, direction, message, http)

    def exchange(self) -> int:
        """Return the number of one more HTTP request and its reply, for the `http` of their notes; unique in the
        trace.
        """
        return next(self._recorder._exchanges)

    def answering(
        self, request: HttpRequest, reply: HttpReply
    ) -> AbstractContextManager[tuple[HttpRequest, HttpReply]]:
        """Return the request and reply for a server's endpoint to use instead: what it reads and writes is noted."""
        from mcp_ref.recording.over_http import answering

        return answering(self, request, reply)


def recorder(trace: Recorder | Sink) -> Recorder:
    """Return what the argument `trace=` of a client or a server stands for: a recorder as it is, a new one for any
    other sink.

    Raises: OSError where a path cannot be opened for writing.
    """
    return trace if isinstance(trace, Recorder) else Recorder(trace)


def _parsed(message: Any) -> Any:
    """Return the bytes as JSON; as text if they are neither object nor array."""
    if not isinstance(message, (bytes, bytearray)):
        return message
    try:
        value = decode(bytes(message))
    except Refusal:
        value = None
    return value if isinstance(value, (dict, list)) else message.decode("utf-8", "replace").rstrip("\r\n")


def without_secrets(event: TraceEvent, *, forms: bool = False) -> TraceEvent:
    """Return an event as a trace has it that is not exact; `forms`: with what users typed into forms."""
    try:
        message = _parsed(event.message)
        shown = redact_text(message) if isinstance(message, str) else cast(Message, redact(message, forms=forms))
    except RecursionError:
        shown = TOO_DEEP
    return event._replace(message=shown, http=None if event.http is None else redact_http(event.http), raw=None)


def _exactly(message: Any) -> tuple[Message, str | None]:
    """Return the message as it came, parsed and copied, and its bytes if they are not those of encoding it again."""
    try:
        if not isinstance(message, (bytes, bytearray)):
            return message, None
        value, line = _parsed(message), bytes(message).rstrip(b"\r\n")
        same = (value.encode() if isinstance(value, str) else encode(value)) == line
    except (RecursionError, Refusal, LocalProtocolError):
        value, same = TOO_DEEP, False
    return value, None if same else base64.b64encode(bytes(message)).decode("ascii")


TOO_DEEP: Final = "[nested too deeply to be shown]"


def as_text(value: Any, **style: Any) -> str:
    """Return JSON to be shown, whatever stands in it; still to be escaped for where it is shown."""
    try:
        return json.dumps(value, ensure_ascii=False, default=repr, **style)
    except RecursionError:
        return TOO_DEEP


# -- files --------------------------------------------------------------------------------------------------------


def _write_row(file: TextIO, event: TraceEvent) -> None:
    line = to_row(event)
    try:
        file.write(line + "\n")
    except UnicodeEncodeError:
        # A file that the user opened may be in any encoding.
        file.write(json.dumps(json.loads(line), separators=(",", ":")) + "\n")
    file.flush()


def to_row(event: TraceEvent) -> str:
    """Return the line of a trace file for an event, without its line break."""
    at = datetime.fromtimestamp(event.time, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    row = {name: getattr(event, name) for name in _MEMBERS} | {"time": at}
    return encode({name: value for name, value in row.items() if value is not None or name == "message"}).decode(
        "utf-8"
    )


_Kinds = Mapping[str, type | tuple[type, ...]]

_MEMBERS: Final[_Kinds] = {
    "seq": int, "time": str, "thread": str, "conn": (int, type(None)), "direction": str, "peer": str, "transport": str,
    "message": (dict, list, str, type(None)), "http": (dict, type(None)), "raw": (str, type(None)),
    "end": (dict, type(None)),
}  # fmt: skip
_INSIDE: Final[_Kinds] = {  # of `http`, and of `end`
    "exchange": int, "method": str, "status": int, "headers": dict, "eventId": str, "retry": int, "event": str,
    "hangUp": (str, int), "end": str, "query": list, "what": str, "url": str, "oauth": dict,
    "eof": str, "signal": int, "exit": int,
}  # fmt: skip
_MAX_LINE: Final = 256 << 20  # bytes
_LARGEST: Final = 10**18  # also the longest `retry` that is recorded; as a float it is still a number


class TruncatedTrace(ValueError):
    """The last line of a trace stops in its middle: whoever wrote it was cut off."""


def from_row(line: bytes | str) -> TraceEvent:
    """Return the event in a line of a trace file; members that it does not know are ignored.

    A trace may come from a stranger: here each member gets the type that every reader of traces relies on. What stands
    in a text, or in a message, may still be anything.

    Raises: ValueError saying what is wrong with the line.
    """
    try:
        row = decode(line)
    except Refusal as problem:
        raise ValueError(problem.message.replace("Parse error", "not JSON")) from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    if row.get("message") is None and row.get("http") is None and row.get("end") is None:
        raise ValueError("message is missing or of the wrong type")
    members: dict[str, Any] = {name: row.get(name) for name in _MEMBERS}
    _check(members, _MEMBERS)
    http = members["http"] or {}
    _check(http, _INSIDE, "http.")
    _check(members["end"] or {}, _INSIDE, "end.")
    if not all(isinstance(each, str) for each in (*http.get("headers", {}).values(), *http.get("query", ()))):
        raise ValueError("http.headers or http.query must hold text alone")
    if row["direction"] not in get_args(Direction):
        raise ValueError(f"direction must be one of {', '.join(get_args(Direction))}")
    at = datetime.fromisoformat(row["time"])
    if at.tzinfo is None:
        raise ValueError("time has no time zone")
    try:
        base64.b64decode(members["raw"] or "", validate=True)
    except ValueError:
        raise ValueError("raw is not base64") from None
    return TraceEvent(**members | {"time": at.timestamp()})


def _check(members: JsonObject, kinds: _Kinds, of: str = "") -> None:
    for name, value in members.items():
        fits = name not in kinds or (isinstance(value, kinds[name]) and not isinstance(value, bool))
        if not fits or (isinstance(value, int) and abs(value) > _LARGEST):
            raise ValueError(f"{of}{name} is missing or of the wrong type, or too large")


def read_trace(path: str | os.PathLike[str]) -> Iterator[TraceEvent]:
    """Yield the events of a recorded file, one by one as they are read; empty lines are skipped.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is not an event; the text begins with the path and the number of the line. It is a
            `TruncatedTrace` for a last line without its end.
    """
    with Path(path).open("rb") as lines:
        yield from events_of(bounded(lines), os.fspath(path))


def bounded(file: BinaryIO) -> Iterator[bytes]:
    """Return the lines of a trace file; one that does not end, as in a device, is cut, and so is not an event."""
    return iter(partial(file.readline, _MAX_LINE), b"")


def events_of(lines: Iterable[bytes], name: str) -> Iterator[TraceEvent]:
    """Yield the events of the lines of a trace, which errors call by that name; see `read_trace`."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = from_row(line)
        except ValueError as problem:
            kind = ValueError if line.endswith(b"\n") else TruncatedTrace
            raise kind(f"{name}:{number}: {problem}") from None
        yield event
