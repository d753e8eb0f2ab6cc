"""Tests of what is printed goes elsewhere; a writing end of one's own does not block, and nobody else's does."""

from __future__ import annotations

import os
import socket
import sys

import pytest

from mcp_ref.kit.process.standard_streams import StandardStreams, own_end


@pytest.mark.skipif(sys.platform != "linux", reason="a pipe is opened a second time by /proc")
def test_only_our_own_end_of_a_pipe_does_not_block() -> None:
    reading, shared = os.pipe()
    own = own_end(shared)
    try:
        assert own != shared
        assert not os.get_blocking(own) and not os.get_inheritable(own)
        assert os.get_blocking(shared)
        os.write(own, b"one pipe")
        assert os.read(reading, 100) == b"one pipe"
    finally:
        for fd in (reading, shared, own):
            os.close(fd)


def test_what_is_not_a_pipe_gets_another_number_and_blocks_as_before() -> None:
    one, other = socket.socketpair()
    with one, other, open(os.devnull, "wb") as nowhere:
        for shared in (one.fileno(), nowhere.fileno()):
            own = own_end(shared)
            assert own != shared and os.get_blocking(own) and not os.get_inheritable(own)
            os.close(own)


def test_what_is_printed_goes_to_standard_error_and_messages_alone_to_standard_out(
    capfd: pytest.CaptureFixture[str],
) -> None:
    kept = [(os.dup(number), number) for number in (0, 1)]
    reading, writing = os.pipe()
    try:
        os.dup2(writing, 1)
        streams = StandardStreams()
        os.write(1, b"stray\n")
        os.write(streams.write_fd, b"message\n")
        streams.restore()
    finally:
        for fd, number in kept:
            os.dup2(fd, number)
            os.close(fd)
        os.close(writing)
    assert os.read(reading, 100) == b"message\n"
    os.close(reading)
    assert "stray" in capfd.readouterr().err
