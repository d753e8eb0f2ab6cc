"""Bodies in chunks: what is read, what is skipped, what is refused; over sockets and without."""

from __future__ import annotations

import io
import threading

import pytest

from mcp_ref.kit.http.chunked import MAX_SKIPPED, read_chunked
from mcp_ref.kit.http.http_exchange import SMALL_BODY, HttpLimits, HttpRefusal, HttpReply, HttpRequest
from tests.kit.http.test_http_server import CHUNKED as HEAD
from tests.kit.http.test_http_server import serving, still_works
from tests.pages.basic.transports.streamable_http.raw import Answer, Wire, request
from tests.pages.basic.transports.streamable_http.replies import PATIENCE
from tests.server.test_wsgi_gateway import Asked
from tests.server.test_wsgi_gateway import echo as wsgi_echo


def chunks(body: bytes, size: int, extension: bytes = b"", trailers: bytes = b"") -> bytes:
    """A body in chunks of so many bytes."""
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x%b\r\n%b\r\n" % (len(each), extension, each) for each in parts) + b"0\r\n%b\r\n" % trailers


BODY = bytes(range(256)) * 600  # above SMALL_BODY
WHOLE = {
    "a byte each": chunks(BODY[:3000], 1),
    "64 KiB each": chunks(BODY, 65536),
    "at once": chunks(BODY, len(BODY)),
    "none": b"0\r\n\r\n",
    "extensions": chunks(BODY, 1000, b' ; a=b;c="d\\"; e"'),
    "trailers": chunks(BODY, 1000, trailers=b"A: b\r\nContent-Length: 5\r\n"),
    "sizes with zeros": b"00000003\r\nabc\r\n0000\r\n\r\n",
    "sizes in capitals": b"A\r\n0123456789\r\n0\r\n\r\n",
}
BODIES = {"a byte each": BODY[:3000], "none": b"", "sizes with zeros": b"abc", "sizes in capitals": b"0123456789"}

MALFORMED = [
    b"\r\n", b"x\r\n", b"-1\r\n", b"+3\r\nabc\r\n", b"0x3\r\nabc\r\n", b"3 \r\nabc\r\n", b" 3\r\nabc\r\n",
    b"3\nabc\r\n", b"3\r\nabcd\r\n", b"3\r\nabc\n\n0\r\n\r\n", b"1_0\r\n", b"\xb2\r\n", b"1" * 17 + b"\r\n",
    b"3;a\0\r\nabc\r\n", b"3;" + b"x" * MAX_SKIPPED + b"\r\nabc\r\n0\r\n\r\n",
    chunks(b"x" * 100, 1, b";" + b"x" * 1000), b"0\r\nA: b\n\r\n", b"0\r\n" + b"A: b\r\n" * 20_000 + b"\r\n",
    b"1" * 100_000,
]  # fmt: skip


def ask(wire: Wire, body: bytes, head: bytes = HEAD) -> Answer:
    try:
        return wire.ask(head + body)
    except (BrokenPipeError, ConnectionResetError):
        return wire.answer()  # it has been refused before it was sent


@pytest.mark.parametrize("how", WHOLE)
def test_a_body_in_chunks_arrives_and_the_connection_goes_on(how: str) -> None:
    with serving() as server, Wire(server.address) as wire:
        for _ in range(2):
            assert wire.ask(HEAD + WHOLE[how] + request(body=b"next")).body == BODIES.get(how, BODY)
            assert wire.answer().body == b"next"
        assert not server.room._taken
        # It is asked for where the client waits.
        assert wire.ask(HEAD.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")).status == 100
        assert wire.ask(WHOLE[how]).body == BODIES.get(how, BODY)


@pytest.mark.parametrize("body", MALFORMED)
def test_malformed_chunks_are_400_and_nothing_after_them_is_read(body: bytes) -> None:
    came: list[bytes] = []

    def endpoint(request: HttpRequest, reply: HttpReply) -> None:
        came.append(request.body)
        reply.send(200, {})

    assert Asked(endpoint, body=body, HTTP_TRANSFER_ENCODING="chunked").status == "400 Bad Request"
    with serving(endpoint) as server, Wire(server.address) as wire:
        answer = ask(wire, body + request(body=b"smuggled"))
        assert (answer.status, answer.headers["connection"]) == (400, "close")
        assert wire.ended()
    assert came == []


@pytest.mark.parametrize(
    ("coding", "length", "version", "status"),
    [
        ("chunked", "5", "1.1", 400), ("identity", None, "1.1", 400), ("", None, "1.1", 400),
        ("chunked, gzip", None, "1.1", 400), ("chunked, chunked", None, "1.1", 400), ("gzip, chunked", "5", "1.1", 400),
        ("gzip, chunked", None, "1.1", 501), ("chunked", None, "1.0", 400),
    ],
)  # fmt: skip
def test_two_lengths_or_another_coding_are_refused_and_the_connection_closed(
    coding: str, length: str | None, version: str, status: int
) -> None:
    fields = {"transfer_encoding": coding} | ({} if length is None else {"content_length": length})
    head = request(version=version, **fields)
    head = head if length is not None else head.replace(b"content-length: 0\r\n", b"")
    with serving() as server, Wire(server.address) as wire:
        answer = wire.ask(head + b"0\r\n\r\n" + request(body=b"smuggled"))
        assert (answer.status, answer.headers["connection"]) == (status, "close")
        assert wire.ended()
    if version == "1.1":
        environ = {} if length is None else {"CONTENT_LENGTH": length}
        asked = Asked(wsgi_echo, body=b"0\r\n\r\n", HTTP_TRANSFER_ENCODING=coding, **environ)
        assert int(asked.status[:3]) == status


@pytest.mark.parametrize("size", [1, 60, 1000])
def test_a_body_that_is_too_long_in_all_is_413(size: int) -> None:
    limits = HttpLimits(max_message=100)
    with serving(limits=limits) as server:
        with Wire(server.address) as wire:
            assert wire.ask(HEAD + chunks(b"x" * 100, size)).body == b"x" * 100
        with Wire(server.address) as wire:
            answer = ask(wire, chunks(b"x" * 101, size))
            assert (answer.status, answer.headers["connection"]) == (413, "close")
            assert wire.ended()
    assert Asked(wsgi_echo, limits, body=chunks(b"x" * 101, size), HTTP_TRANSFER_ENCODING="chunked").status[:3] == "413"
    huge = b"f" * 16 + b"\r\n"  # which nobody makes room for
    assert Asked(wsgi_echo, limits, body=huge, HTTP_TRANSFER_ENCODING="chunked").status[:3] == "413"


def test_a_body_that_breaks_off_is_never_taken_for_a_whole_one() -> None:
    whole = chunks(b"abcdef", 4, b";a", b"A: b\r\n")
    for cut in range(len(whole)):
        with pytest.raises(ConnectionError, match="mid-body"):
            read_chunked(io.BytesIO(whole[:cut]), 100)
    assert read_chunked(io.BytesIO(whole), 100) == b"abcdef"


def test_a_body_in_chunks_takes_room_as_it_grows() -> None:
    limits = HttpLimits(max_message=3 * SMALL_BODY, bodies_per_client=4 * SMALL_BODY)
    began, leave = threading.Event(), threading.Event()

    def endpoint(request: HttpRequest, reply: HttpReply) -> None:
        length = len(request.body)
        if length > SMALL_BODY:
            began.set()
            leave.wait(PATIENCE)
        reply.send(200, {}, b"%d" % length)

    large = b"x" * (2 * SMALL_BODY)
    with serving(endpoint, limits) as server, Wire(server.address) as first, Wire(server.address) as second:
        first.send(HEAD + chunks(large, 1000))
        assert began.wait(PATIENCE)
        # A small one needs none.
        assert second.ask(HEAD + chunks(large[:SMALL_BODY], 1000)).body == b"%d" % SMALL_BODY
        assert ask(second, chunks(large, 1000)).status == 429
        leave.set()
        assert first.answer().body == b"%d" % len(large)
        assert second.ended()
    assert not server.room._taken


def test_a_body_in_chunks_that_nobody_wants_ends_the_connection() -> None:
    with serving() as server:
        with Wire(server.address) as wire:
            answer = wire.ask(HEAD.replace(b"/mcp", b"/other") + chunks(BODY, 1000))
            assert (answer.status, answer.headers["connection"]) == (404, "close")
            assert wire.ended()
        still_works(server)


def test_room_is_asked_for_before_a_chunk_is_read() -> None:
    def full(size: int) -> None:
        raise HttpRefusal(503, f"no room for {size}")

    with pytest.raises(HttpRefusal, match="no room for 4"):
        read_chunked(io.BytesIO(b"4\r\nabcd\r\n0\r\n\r\n"), 100, full)
