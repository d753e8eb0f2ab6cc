"""Server-sent events: the format of an event stream.

Spec:      basic/transports (the pages on HTTP name it); the WHATWG HTML standard, "Server-sent events"
Upholds:   spec_notes/basic/transports.md, the rows on event streams
Not here:  which events are sent when (streamable_http/server), reading them from a socket (streamable_http/client)

    stream  = event*                          an event ends with an empty line
    event   = ( comment | field )* EOL
    comment = ":" text EOL                    keeps the connection alive, and says nothing
    field   = name [":" [" "] value] EOL      data, event, id, retry; others are ignored
    EOL     = CRLF | LF | CR
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

CONTENT_TYPE = "text/event-stream"

COMMENT = b": keep-alive\n\n"
"""The bytes sent now and then on a stream with nothing to say, so that nobody between the two ends closes it."""


class Event(NamedTuple):
    """One event.

    Attributes:
        data: its lines, joined with line feeds; may be empty.
        id: the event id that is in force after it, or None when none was ever given.
        event: its type; "message" where none is named.
        retry: milliseconds to wait before connecting again, or None where this event does not say.
    """

    data: str
    id: str | None = None
    event: str = "message"
    retry: int | None = None


def event_facts(event: Event) -> dict[str, Any]:
    """Return what an event has beside its data."""
    facts: dict[str, Any] = {} if event.event == "message" else {"event": event.event}
    if event.id:
        facts["eventId"] = event.id
    if event.retry is not None:
        facts["retry"] = event.retry
    return facts


class EventTooLong(ValueError):
    """An event has no end within the bound."""


def encode_event(
    data: str | None, *, id: str | None = None, event: str | None = None, retry: int | None = None
) -> bytes:
    """Return the text of one event.

    Args:
        data: what it carries; None or "" for an event that only sets an id or a time to wait. Line feeds are kept.
        id: a visible-ASCII event id. event: a type other than "message". retry: milliseconds.
    """
    fields = {"event": event, "id": id, "retry": retry}
    lines = [f"{name}: {value}" for name, value in fields.items() if value is not None]
    lines += [f"data: {line}" for line in (data or "").split("\n")]
    return ("\n".join(lines) + "\n\n").encode("utf-8")


class EventParser:
    """Takes the bytes of a stream in any pieces and gives its events.

    Args:
        limit: bytes that an event may have.
        last_id: the id that is in force before the first event.

    Attributes:
        last_id: the id to resume after; it survives events without one, as the standard says.
    """

    def __init__(self, limit: int, last_id: str | None = None) -> None:
        self.last_id = last_id
        self._limit = limit
        self._rest = bytearray()
        self._after_cr, self._first = False, True
        self._fields: dict[str, Any] = {}  # of the event that has begun
        self._size = 0  # of its lines

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that the chunk completes. An event that the stream ends in the middle of is never given.

        An event without data is given too when it sets an id or a time to wait: those count for resuming.

        Raises: EventTooLong.
        """
        # A CR and the LF that follows it end one line, also when they come in two chunks.
        rest = chunk[1:] if self._after_cr and chunk.startswith(b"\n") else chunk
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        *lines, rest = rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            if self._rest:
                line = bytes(self._rest + line)
                self._rest.clear()
            self._size += len(line)
            if self._size > self._limit:
                raise EventTooLong(f"an event of more than {self._limit} bytes")
            if line:
                self._field(line)
                continue
            # Only a whole event counts: after half of one, the client must come back for it.
            fields, self._fields, self._size = self._fields, {}, 0
            self.last_id = fields.get("id", self.last_id)
            if fields.keys() - {"event"}:
                data, kind = "\n".join(fields.get("data", ())), fields.get("event") or "message"
                yield Event(data, self.last_id, kind, fields.get("retry"))
        self._rest += rest
        if len(self._rest) + self._size > self._limit:
            raise EventTooLong(f"an event of more than {self._limit} bytes")

    def _field(self, line: bytes) -> None:
        if self._first:
            line = line.removeprefix(b"\xef\xbb\xbf")
            self._first = False
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._fields.setdefault("data", []).append(value)
        elif name == "event" or (name == "id" and "\0" not in value):
            self._fields[name] = value
        elif name == "retry" and value.isascii() and value.isdigit():
            # So many digits are as good as for ever, and `int` refuses thousands of them.
            self._fields["retry"] = int(value) if len(value) < 18 else 10**18
