"""basic/transports#stdio: the server's side, and the reading and writing that both sides share."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

import mcp_ref
from mcp_ref.errors import LocalProtocolError, McpError, RequestTimeout, TransportClosed
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.transports.stdio import StdioServerTransport

from .collector import WAIT, Collector, Notes, in_thread, soon

ROOT = str(Path(mcp_ref.__file__).parents[1])


pytestmark = pytest.mark.usefixtures("no_descriptor_leaks")


class Pipes(Collector):
    """A server's transport over two pipes, and the other ends of them."""

    def __init__(self, tap: Notes | None = None, *, receive: Any = None, lost: Any = None, **options: Any) -> None:
        super().__init__()
        read_fd, self.input = os.pipe()
        self.output, write_fd = os.pipe()
        self.transport = StdioServerTransport(read_fd=read_fd, write_fd=write_fd, tap=tap, **options)
        self.transport.start(receive or self.receive, lost or self.lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.transport.close(soon())
        for fd in {self.input, self.output} - {-1}:
            os.close(fd)

    def end_input(self) -> None:
        os.close(self.input)
        self.input = -1

    def end_output(self) -> None:
        os.close(self.output)
        self.output = -1

    def written(self, size: int) -> bytes:
        """Return what was written, up to so many bytes; waits for the first."""
        poll = select.poll()
        poll.register(self.output, select.POLLIN)
        assert poll.poll(WAIT * 1000), "nothing was written"
        return os.read(self.output, size)

    def fill(self) -> None:
        """Write to the pipe, behind the transport's back, until it is full."""
        fd = self.transport._write_fd
        os.set_blocking(fd, False)
        for size in (65536, 1):
            try:
                while True:
                    os.write(fd, b"x" * size)
            except BlockingIOError:
                pass
        os.set_blocking(fd, True)


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    with Pipes() as pipes:
        yield pipes


# -- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pieces", "texts"),
    [
        ([b'{"id":1}\n{"id":2}\n{"i', b'd":3}\n'], [b'{"id":1}', b'{"id":2}', b'{"id":3}']),
        ([b"hello\n"], [b"hello"]),
        ([b'\xef\xbb\xbf{"id":1}\n', b"\xef\xbb\xbf{}\n"], [b'{"id":1}', b"\xef\xbb\xbf{}"]),
    ],
    ids=["messages in pieces", "what is not JSON, to be refused", "a byte order mark, before the first line alone"],
)
def test_each_line_is_handed_on(pipes, pieces, texts):
    for piece in pieces:
        os.write(pipes.input, piece)
    assert [pipes.text() for _ in texts] == texts


def test_a_last_line_without_newline_is_handed_on_and_the_end_of_input_told_once(pipes):
    os.write(pipes.input, b'{"id":1}\n{"id":2}')
    pipes.end_input()
    assert [pipes.text(), pipes.text()] == [b'{"id":1}', b'{"id":2}']
    assert pipes.reason() == "the client closed its end"
    pipes.transport.close(soon())
    assert pipes.ends == 1


def test_a_line_beyond_the_limit_ends_the_connection():
    with Pipes(max_message=10) as pipes:
        os.write(pipes.input, b'{"id":1}\n{"id":12345678}\n')
        assert pipes.text() == b'{"id":1}'
        assert pipes.reason() == "a line is longer than 10 bytes"
        assert pipes.texts.empty()


def test_a_receiver_that_fails_ends_the_connection_with_a_reason(caplog):
    with Pipes(receive=lambda text: 1 / 0) as pipes:
        os.write(pipes.input, b"{}\n")
        assert "ZeroDivisionError" in pipes.reason()


# -- writing --------------------------------------------------------------------------------------------------------


def test_a_message_is_one_line(pipes):
    pipes.transport.send({"id": 1, "result": {"text": "a\nb\u2028"}}, soon())
    line = pipes.written(1000)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert json.loads(line) == {"id": 1, "result": {"text": "a\nb\u2028"}}


def test_what_is_not_json_is_refused_and_nothing_is_written(pipes):
    with pytest.raises(LocalProtocolError):
        pipes.transport.send({"id": object()}, soon())
    pipes.transport.send({"id": 1}, soon())
    assert pipes.written(1000) == b'{"id":1}\n'


def test_a_write_to_a_full_pipe_and_one_behind_it_are_bounded_and_leave_the_connection_whole(pipes):
    pipes.fill()
    first = in_thread(lambda: pipes.transport.send({"id": 1}, Deadline(0.2)))
    with pytest.raises(RequestTimeout):
        pipes.transport.send({"id": 2}, Deadline(0.05))
    assert isinstance(first(), RequestTimeout)
    while pipes.written(65536)[-1:] == b"x" and select.select([pipes.output], [], [], 0)[0]:
        pass
    pipes.transport.send({"id": 3}, soon())
    assert pipes.written(1000) == b'{"id":3}\n'
    assert pipes.ends == 0


def test_a_line_written_in_part_ends_the_connection(pipes):
    with pytest.raises(RequestTimeout):
        pipes.transport.send({"text": "x" * 1_000_000}, Deadline(0.05))
    with pytest.raises(TransportClosed, match="only in part"):
        pipes.transport.send({"id": 2}, soon())
    assert "only in part" in pipes.reason()
    assert b"\n" not in pipes.written(1 << 20)


def test_a_lock_that_ctrl_c_has_left_held_does_not_stop_the_next_message(pipes):
    pipes.transport._write_lock.acquire()
    pipes.transport.send({"id": 1}, soon())
    assert pipes.written(1000) == b'{"id":1}\n'


def test_when_nobody_reads_any_more_what_had_come_before_is_still_handed_on(pipes):
    pipes.end_output()
    os.write(pipes.input, b'{"id":1}\n{"id":2}\n')
    for _ in range(2):
        with pytest.raises(TransportClosed, match="has stopped reading"):
            pipes.transport.send({"id": 1}, soon())
    assert "has stopped reading" in pipes.reason()
    assert [pipes.text(), pipes.text()] == [b'{"id":1}', b'{"id":2}']


def test_a_transport_is_started_once_and_before_that_sends_nothing(pipes):
    with pytest.raises(RuntimeError):
        pipes.transport.start(pipes.receive, pipes.lost)
    transport = StdioServerTransport()
    with pytest.raises(TransportClosed, match="not been started"):
        transport.send({"id": 1}, soon())
    transport.close(soon())
    with pytest.raises(TransportClosed):
        transport.start(lambda text: None, lambda reason: None)


def test_huge_messages_both_ways_at_once_do_not_hang():
    a_read, b_write = os.pipe()
    b_read, a_write = os.pipe()
    ends = []
    for read_fd, write_fd in ((a_read, a_write), (b_read, b_write)):
        collector = Collector()
        transport = StdioServerTransport(read_fd=read_fd, write_fd=write_fd)
        transport.start(collector.receive, collector.lost)
        ends.append((transport, collector))
    huge = {"text": "x" * 5_000_000}
    senders = [in_thread(lambda transport=transport: transport.send(huge, soon())) for transport, _ in ends]
    assert [sender() for sender in senders] == [None, None]
    for transport, collector in ends:
        assert collector.message() == huge
        transport.close(soon())


# -- ending ---------------------------------------------------------------------------------------------------------


def test_close_ends_the_reader_while_the_client_says_nothing_also_from_several_threads(pipes):
    closers = [in_thread(lambda: pipes.transport.close(soon())) for _ in range(4)]
    assert [closer() for closer in closers] == [None] * 4
    pipes.transport.close(soon())
    assert pipes.reason() == "closed by this side"
    assert pipes.ends == 1
    assert not any(thread.name == "mcp-stdio-reader" for thread in threading.enumerate())


def test_close_frees_whoever_waits_in_send(pipes):
    pipes.fill()
    noted = threading.Event()

    class Tap(Notes):
        def note(self, direction, message):
            noted.set()

    pipes.transport._tap = Tap()
    senders = [in_thread(lambda: pipes.transport.send({"id": 1}, Deadline(None))) for _ in range(3)]
    assert noted.wait(WAIT)
    pipes.transport.close(soon())
    assert [type(sender()) for sender in senders] == [TransportClosed] * 3


@pytest.mark.parametrize("who", ["the client", "another thread"])
def test_close_within_lost_whoever_ends_it(who):
    told = threading.Event()

    def lost(reason: McpError) -> None:
        pipes.transport.close(Deadline(60))
        told.set()

    with Pipes(lost=lost) as pipes:
        if who == "the client":
            pipes.end_input()
        else:
            pipes.transport.close(Deadline(60))
        assert told.wait(WAIT)


def test_close_returns_by_its_deadline_even_if_the_receiver_hangs(caplog):
    hanging, free = threading.Event(), threading.Event()

    def receive(text: bytes) -> None:
        hanging.set()
        free.wait(WAIT)

    with Pipes(receive=receive) as pipes:
        os.write(pipes.input, b"{}\n")
        assert hanging.wait(WAIT)
        pipes.transport.close(Deadline(0.05))
        assert "still busy after close" in caplog.text
        free.set()


# -- a process as a server ------------------------------------------------------------------------------------------

SERVER = """
    import os, queue, subprocess, sys, threading
    from mcp_ref.kit.threads.deadline import Deadline
    from mcp_ref.pages.basic.transports.stdio import StdioServerTransport

    events = queue.Queue()
    transport = StdioServerTransport()
    transport.start(events.put, events.put)
    def say(message):
        transport.send(message, Deadline(5))
"""


def serve(code: str, **options: object) -> subprocess.Popen[bytes]:
    script = textwrap.dedent(SERVER) + textwrap.dedent(code)
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    env = {**os.environ, "PYTHONPATH": ROOT}
    return subprocess.Popen([sys.executable, "-c", script], env=env, **options)  # type: ignore[call-overload]


def test_nothing_but_messages_reaches_standard_out_and_nobody_else_reads_standard_in_until_the_close():
    process = serve("""
        print("a print")
        os.write(1, b"a write to 1\\n")
        os.system("echo an echo")
        child = "import sys; print('a child'); sys.exit(len(sys.stdin.read()))"
        code = subprocess.run([sys.executable, "-c", child]).returncode
        say({"child read": code, "we read": sys.stdin.read()})
        say({"received": events.get(timeout=5).decode()})
        print("a print that is not flushed")
        transport.close(Deadline(5))
        os.write(1, b"closed\\n")
        os.write(1, os.read(0, 100))
    """)
    assert process.stdin is not None and process.stdout is not None
    assert json.loads(process.stdout.readline()) == {"child read": 0, "we read": ""}
    process.stdin.write(b'{"id":1}\n')
    process.stdin.flush()
    assert json.loads(process.stdout.readline()) == {"received": '{"id":1}'}
    assert process.stdout.readline() == b"closed\n"
    out, err = process.communicate(b"hello", timeout=WAIT)
    assert out == b"hello", "both are given back"
    texts = (b"a print\n", b"a write to 1\n", b"an echo\n", b"a child\n", b"a print that is not flushed\n")
    assert all(text in err for text in texts)


def test_a_printed_line_reaches_standard_error_when_it_ends():
    process = serve("""
        print("a line")
        events.get(timeout=5)
        print("another")
        os._exit(0)
    """)
    assert process.stdin is not None
    assert process.stderr is not None
    assert process.stderr.readline() == b"a line\n"
    _, err = process.communicate(b'{"id":1}\n', timeout=WAIT)
    assert err == b"another\n"


def test_it_works_with_standard_error_closed_and_ends_without_close():
    process = serve(
        """
        print("stray")
        say({"id": 1})
    """,
        stderr=None,
        preexec_fn=lambda: os.close(2),
    )
    out, _ = process.communicate(b"", timeout=WAIT)
    assert (out, process.returncode) == (b'{"id":1}\n', 0)


def test_without_standard_in_there_is_nobody_to_talk_to():
    process = serve("", stdin=None, preexec_fn=lambda: os.close(0))
    _, err = process.communicate(timeout=WAIT)
    assert b"TransportClosed: standard in or standard out is not open" in err


def test_a_server_ends_when_its_parent_does_though_the_pipes_are_open():
    server_in, our_out = os.pipe()
    our_in, server_out = os.pipe()
    script = textwrap.dedent(SERVER) + textwrap.dedent("""
        say({"pid": os.getpid()})
        say({"lost": str(events.get(timeout=5))})
    """)
    parent = textwrap.dedent("""
        import subprocess, sys, signal
        subprocess.Popen([sys.executable, "-c", sys.argv[1]])
        signal.pause()
    """)
    env = {**os.environ, "PYTHONPATH": ROOT}
    process = subprocess.Popen([sys.executable, "-c", parent, script], stdin=server_in, stdout=server_out, env=env)
    os.close(server_in)
    os.close(server_out)
    with open(our_in, "rb") as lines:
        assert "pid" in json.loads(lines.readline())
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT)
        assert json.loads(lines.readline()) == {"lost": "the process that started this server is gone"}
        assert lines.read() == b""
    os.close(our_out)


def test_both_descriptors_are_given_or_none():
    with pytest.raises(ValueError, match="or neither"):
        StdioServerTransport(read_fd=0)
