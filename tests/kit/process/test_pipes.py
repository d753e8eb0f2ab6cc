"""basic/transports#stdio: lines out of bytes, and the flag that poll can wait for."""

from __future__ import annotations

import select

import pytest

from mcp_ref.kit.process.pipes import LineSplitter, LineTooLong, WakePipe

TEXT = b'{"a":1}\n\n\xe2\x80\xa8 \r x\r\n\x85\x0b\x0c\x1c\nrest'
LINES = [b'{"a":1}', b"", b"\xe2\x80\xa8 \r x\r", b"\x85\x0b\x0c\x1c"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(TEXT)])
def test_lines_end_at_newlines_and_at_nothing_else_however_they_arrive(size):
    splitter = LineSplitter(100)
    chunks = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == LINES
    assert (len(splitter), splitter.take(), len(splitter)) == (4, b"rest", 0)


@pytest.mark.parametrize("chunks", [[b"ok\nabcd\n"], [b"ok\nabcd"], [b"ok\nab", b"cd"], [b"ok\nab", b"cd\n"]])
def test_a_longer_line_is_refused_after_those_before_it(chunks):
    splitter = LineSplitter(3)
    lines = []
    with pytest.raises(LineTooLong, match="longer than 3 bytes"):
        for chunk in chunks:
            lines.extend(splitter.feed(chunk))
    assert lines == [b"ok"]
    assert list(LineSplitter(3).feed(b"abc\n")) == [b"abc"], "one of just the limit passes"


def is_awake(wake: WakePipe) -> bool:
    poll = select.poll()
    poll.register(wake.fd, select.POLLIN)
    return bool(poll.poll(0))


def test_a_wake_stays_set_and_may_be_set_before_it_is_opened_and_after_it_is_closed():
    wake = WakePipe()
    wake.open()
    assert not is_awake(wake)
    wake.set()
    wake.set()
    assert is_awake(wake) and is_awake(wake)
    wake.close()
    wake.set()
    wake.close()
    early = WakePipe()
    early.set()
    early.open()
    assert is_awake(early)
    early.close()
