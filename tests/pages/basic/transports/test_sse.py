"""The format of an event stream: what the standard says about lines, fields and events, in any pieces."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.pages.basic.transports.sse import COMMENT, Event, EventParser, EventTooLong, encode_event
from tests.slow import examples
from tests.support.clock import grows_with_its_size


def parse(text: bytes, size: int | None = None) -> list[Event]:
    """The events of a stream that comes in pieces of so many bytes."""
    parser, size = EventParser(1 << 26), size or len(text) or 1
    return [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]


# -- writing ------------------------------------------------------------------------------------------------------


def test_an_event_is_its_fields_and_an_empty_line() -> None:
    assert encode_event("hi") == b"data: hi\n\n"
    assert encode_event("a\nb", id="7", event="note", retry=250) == (
        b"event: note\nid: 7\nretry: 250\ndata: a\ndata: b\n\n"
    )


@pytest.mark.parametrize("data", [None, ""])
def test_an_event_can_have_an_id_and_no_data(data: str | None) -> None:
    assert encode_event(data, id="7") == b"id: 7\ndata: \n\n"


# -- reading ------------------------------------------------------------------------------------------------------

STREAMS = [
    pytest.param(b"data: hi\n\n", [Event("hi")], id="one line"),
    pytest.param(b"data: a\ndata: b\n\n", [Event("a\nb")], id="several lines of data"),
    pytest.param(b"data:a\n\ndata:  b\n\n", [Event("a"), Event(" b")], id="one blank after the colon is not data"),
    pytest.param(b"data\n\n", [Event("")], id="a field without a colon"),
    pytest.param(
        b"event: note\ndata: x\n\ndata: y\n\n", [Event("x", event="note"), Event("y")], id="a type for one event"
    ),
    pytest.param(b"event: note\n\n", [], id="a type alone is not an event"),
    pytest.param(b"id: 1\ndata: x\n\ndata: y\n\n", [Event("x", "1"), Event("y", "1")], id="an id stays in force"),
    pytest.param(b"id: 1\ndata: x\n\nid\ndata: y\n\n", [Event("x", "1"), Event("y", "")], id="an empty id"),
    pytest.param(b"id: 1\0\ndata: x\n\n", [Event("x")], id="an id with NUL is ignored"),
    pytest.param(b"id: 1\n\n", [Event("", "1")], id="an id without data"),
    pytest.param(b"retry: 250\n\n", [Event("", retry=250)], id="a time to wait without data"),
    pytest.param(b"retry: " + b"9" * 5000 + b"\n\n", [Event("", retry=10**18)], id="a time as good as for ever"),
    pytest.param(b"retry: 2s\nretry: -1\ndata: x\n\n", [Event("x")], id="no time to wait"),
    pytest.param("retry: ١\ndata: x\n\n".encode(), [Event("x")], id="digits of another script"),
    pytest.param(b"data: x\nnonsense: y\n: z\n\n", [Event("x")], id="other fields and comments are passed over"),
    pytest.param(COMMENT + b"data: x\n\n" + COMMENT, [Event("x")], id="comments between events"),
    pytest.param(b"\n\n\ndata: x\n\n", [Event("x")], id="empty lines are not events"),
    pytest.param(b"\xef\xbb\xbfdata: x\n\n", [Event("x")], id="a byte order mark at the beginning"),
    pytest.param(b"data: x\n\n\xef\xbb\xbfdata: y\n\n", [Event("x")], id="and nowhere else"),
    pytest.param(b"data: \xff\n\n", [Event("\ufffd")], id="what is not UTF-8"),
    pytest.param("data: é€😀\n\n".encode(), [Event("é€😀")], id="characters of several bytes"),
    pytest.param("data: a\u2028b\x85c\x0bd\n\n".encode(), [Event("a\u2028b\x85c\x0bd")], id="not line breaks"),
    pytest.param(b"data: x\n", [], id="the stream ends within an event"),
    pytest.param(b"", [], id="an empty stream"),
]


@pytest.mark.parametrize(("text", "events"), STREAMS)
def test_a_stream_is_the_same_with_any_line_ends_and_in_any_pieces(text: bytes, events: list[Event]) -> None:
    for end, size in product([b"\n", b"\r", b"\r\n"], [None, 1, 2, 3]):
        assert parse(text.replace(b"\n", end), size) == events, (end, size)


@pytest.mark.parametrize("text", [b"data: " + b"x" * 200, b"data: xxxx\n" * 20, b": " + b"x" * 200 + b"\n"])
@pytest.mark.parametrize("size", [1, 1000])
def test_an_event_without_an_end_is_given_up(text: bytes, size: int) -> None:
    parser = EventParser(limit=100)
    with pytest.raises(EventTooLong):
        for at in range(0, len(text), size):
            list(parser.feed(text[at : at + size]))


def test_many_events_together_may_be_longer_than_one() -> None:
    assert len(list(EventParser(limit=100).feed(b"data: xxxx\n\n" * 100))) == 100


def test_a_long_event_in_small_pieces_costs_what_its_length_does() -> None:
    grows_with_its_size(lambda size: parse(encode_event("x" * size), 4096), 10_000_000)


LINE = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))
ID = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1)


@settings(deadline=None, max_examples=examples(40))
@given(
    st.lists(st.tuples(st.lists(LINE, min_size=1), ID, st.none() | st.integers(0, 10**9)), max_size=5),
    st.sampled_from([b"\n", b"\r", b"\r\n"]),
    st.data(),
)
def test_what_is_written_is_read_again(
    sent: list[tuple[list[str], str, int | None]], end: bytes, data: st.DataObject
) -> None:
    events = [Event("\n".join(lines), name, retry=retry) for lines, name, retry in sent]
    text = b"".join(encode_event(e.data, id=e.id, retry=e.retry) for e in events).replace(b"\n", end)
    parser, read = EventParser(1 << 26), []
    while text:
        size = data.draw(st.integers(1, len(text)))
        read += parser.feed(text[:size])
        text = text[size:]
    assert read == events


@settings(deadline=None)
@given(st.lists(st.binary(), max_size=20))
def test_no_bytes_break_the_parser_and_pieces_do_not_matter(pieces: list[bytes]) -> None:
    parser = EventParser(1 << 26)
    assert [event for piece in pieces for event in parser.feed(piece)] == parse(b"".join(pieces))
