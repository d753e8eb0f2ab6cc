"""The heads of HTTP, without a socket: what is read strictly, what is never written."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_ref.kit.http.http_exchange import HttpRefusal
from mcp_ref.kit.http.http_server import MAX_HEAD, Head, read_head, write_head

HOST = b"Host: x\r\n"


def read(text: bytes) -> Head | None:
    return read_head(io.BytesIO(text).readline)


def status_of(text: bytes) -> int:
    with pytest.raises(HttpRefusal) as refused:
        read(text)
    return refused.value.status


def length_of(field: bytes) -> int | None:
    head = read(b"POST / HTTP/1.1\r\n" + HOST + field + b"\r\n")
    assert head is not None
    return head.length


def test_a_head_is_read() -> None:
    head = read(b"POST /mcp?a=b HTTP/1.1\r\nHost: localhost:1\r\nX-A:  b c \r\nx-a:d\r\nEmpty:\r\n\r\n")
    assert head == Head(
        "POST",
        "/mcp?a=b",
        {"host": "localhost:1", "x-a": "b c, d", "empty": ""},
        repeated=frozenset({"x-a"}),
        chunks=True,
        keep=True,
        length=0,
        asks=False,
    )


def test_a_head_that_breaks_off_is_not_a_request() -> None:
    whole = b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n"
    assert not any(read(whole[:size]) for size in range(len(whole)))
    # An empty line before the request is passed over.
    assert read(whole) == read(b"\r\n" + whole) is not None


LINES = [
    b"GET / HTTP/1.1\n", b"GET  / HTTP/1.1\r\n", b" GET / HTTP/1.1\r\n", b"GET / HTTP/1.1 \r\n", b"GET /\r\n",
    b"GET / http/1.1\r\n", b"GET / HTTP/1\r\n", b"GET / HTTP/1.10\r\n", b"GET /\x00 HTTP/1.1\r\n",
    b"GET /\xe9 HTTP/1.1\r\n", b"G\rET / HTTP/1.1\r\n", b"(GET) / HTTP/1.1\r\n", b"\r\n\r\n",
    b"\x16\x03\x01\x02\x00\n",
]  # fmt: skip
FIELDS = [
    b"A: b\n", b"A : b\r\n", b" folded\r\n", b"\tfolded\r\n", b": b\r\n", b"A\r\n", b"A: b\r\r\n", b"A: \x00\r\n",
    b"A: \x7f\r\n", b"A\xe9: b\r\n", b"A B: c\r\n", b"From x\r\n", b"A: b\rTransfer-Encoding: chunked\r\n", HOST,
]  # fmt: skip
LENGTHS = ["5, 5", "+5", "-5", "0x5", "5.0", " ", "", "\xb2", "1" * 19, "5 5", "5;", "1_0", "5\r\nContent-Length: 5"]


@pytest.mark.parametrize(
    "text",
    [
        *(line + HOST for line in LINES),
        *(b"GET / HTTP/1.1\r\n" + HOST + field + b"B: c\r\n" for field in FIELDS),
        *(b"GET / HTTP/1.1\r\n" + host for host in (b"", b"Host: a, b\r\n")),
        *(b"POST / HTTP/1.1\r\n" + HOST + f"Content-Length: {each}\r\n".encode("latin-1") for each in LENGTHS),
    ],
)
def test_a_line_a_field_or_a_length_that_is_not_exactly_one_is_400(text: bytes) -> None:
    assert status_of(text + b"\r\n") == 400


def test_another_version_is_505() -> None:
    assert [status_of(b"GET / HTTP/%b\r\n\r\n" % version) for version in (b"0.9", b"2.0", b"9.9")] == [505] * 3


def test_a_head_that_is_too_long_is_431() -> None:
    assert status_of(b"GET /" + b"x" * MAX_HEAD) == 431
    assert status_of(b"GET / HTTP/1.1\r\nA: " + b"x" * MAX_HEAD) == 431
    assert status_of(b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 20_000 + b"\r\n") == 431


@pytest.mark.parametrize(
    ("version", "connection", "keep"),
    [(b"1.1", b"", True), (b"1.1", b"keep-alive", True), (b"1.1", b"Close", False), (b"1.1", b"upgrade, close", False),
     (b"1.0", b"", False), (b"1.0", b"Keep-Alive", False)],
)  # fmt: skip
def test_whether_another_request_may_follow(version: bytes, connection: bytes, keep: bool) -> None:
    head = read(b"GET / HTTP/" + version + b"\r\n" + HOST + b"Connection: " + connection + b"\r\n\r\n")
    assert head is not None
    assert (head.keep, head.chunks) == (keep, version == b"1.1")


@pytest.mark.parametrize(
    ("target", "host", "path"),
    [
        (b"http://localhost:1/mcp?a=b", "localhost:1", "/mcp?a=b"),
        (b"HTTPS://other.example/mcp", "other.example", "/mcp"),
        (b"http://localhost", "localhost", "/"),
        (b"http://localhost?a=b", "localhost", "/?a=b"),
        (b"http://user@localhost/", "user@localhost", "/"),
        (b"/mcp?http://x/", "x", "/mcp?http://x/"),
        (b"*", "x", "*"),
    ],
)
def test_a_target_in_absolute_form_names_the_host(target: bytes, host: str, path: str) -> None:
    head = read(b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"\r\n")
    assert head is not None
    assert (head.headers["host"], head.target) == (host, path)


def test_a_length_is_bounded() -> None:
    assert (length_of(b""), length_of(b"Content-Length: 0100\r\n")) == (0, 100)
    assert length_of(b"Transfer-Encoding: Chunked\r\n") is None


# -- writing ------------------------------------------------------------------------------------------------------


def test_an_answers_head_is_a_line_a_date_and_the_fields() -> None:
    first, date, *rest = write_head(404, {"A": "b", "C": ""}).decode().split("\r\n")
    assert (first, rest) == ("HTTP/1.1 404 Not Found", ["A: b", "C: ", "", ""])
    assert date.startswith("Date: ") and date.endswith(" GMT")


@pytest.mark.parametrize(
    ("name", "value"),
    [*(("A", value) for value in ("a\r\nB: c", "a\nb", "a\rb", "a\0b", "a\x7fb", "€", "\u2028")),
     *((name, "x") for name in ("", "A B", "A:", "A\r\nB", "é", "A\n"))],
)  # fmt: skip
def test_no_field_can_begin_another_or_another_answer(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="not a header field"):
        write_head(200, {name: value})


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_head_or_refused_or_none(text: bytes) -> None:
    try:
        read(b"GET / HTTP/1.1\r\n" + text)
    except HttpRefusal as refusal:
        assert refusal.status in (400, 413, 431, 501)
