"""The adapter over real sockets: what clients may do to it, and what is left of them afterwards: nothing."""

from __future__ import annotations

import errno
import logging
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from queue import SimpleQueue
from typing import Any

import pytest

from mcp_ref.kit.http.http_exchange import HANG_UP, HttpLimits, HttpReply, HttpRequest, has_hung_up
from mcp_ref.kit.http.http_server import HttpServer
from mcp_ref.kit.threads.deadline import Deadline
from tests.pages.basic.transports.streamable_http.raw import Wire, descriptors, http_threads, request, until
from tests.pages.basic.transports.streamable_http.replies import PATIENCE
from tests.support.wire import at_once

QUICK = HttpLimits(read=0.2, write=0.2)


def echo(request: HttpRequest, reply: HttpReply) -> None:
    """Answer with what came."""
    reply.send(200, {"X-Method": request.method, "X-Query": request.query}, request.body)


def stream(request: HttpRequest, reply: HttpReply) -> None:
    """Answer with the body, a byte at a time."""
    reply.open({"Content-Type": "text/plain"})
    for number in range(len(request.body)):
        reply.write(request.body[number : number + 1])
    reply.end()


@contextmanager
def serving(endpoint: Any = echo, limits: HttpLimits | None = None, **more: Any) -> Iterator[HttpServer]:
    """A server, with what it holds counted before and after."""
    before = descriptors()
    server = HttpServer({"/mcp": endpoint, "/stream": stream}, limits=limits, **more)
    server.start()
    try:
        yield server
    finally:
        assert server.close(PATIENCE) == []
    assert until(lambda: not http_threads())
    assert until(lambda: descriptors() <= before), "descriptors are left"


def still_works(server: HttpServer) -> None:
    with Wire(server.address) as wire:
        assert wire.ask(request(body=b"next")).body == b"next"


def idle(server: HttpServer) -> bool:
    return until(lambda: not server._connections)


# -- HTTP ---------------------------------------------------------------------------------------------------------


def test_a_connection_goes_on_after_each_answer() -> None:
    with serving() as server, Wire(server.address) as wire:
        # 1. Pipelined requests are answered in order, whatever their method.
        wire.send(b"".join(request("PUT", body=b"%d" % number) for number in range(20)) + request("MADE-UP"))
        assert [wire.answer().body for _ in range(20)] == [b"%d" % number for number in range(20)]
        assert wire.answer().headers["x-method"] == "MADE-UP"
        # 2. A HEAD is answered without a body.
        wire.send(request("HEAD") + request(body=b"next"))
        assert wire.answer(to_head=True).status == 200
        assert wire.answer().body == b"next"
        # 3. A stream comes in chunks.
        answer = wire.ask(request(path="/stream", body=b"abc"))
        assert (answer.headers["transfer-encoding"], answer.body) == ("chunked", b"abc")
        # 4. Any other path is 404.
        for path in ("/", "/mcp/", "/MCP", "//mcp", "*", "http://localhost/", "ftp://localhost/mcp"):
            assert wire.ask(request(path=path, body=b"a")).status == 404
        assert wire.ask(request(path="/mcp?a=b")).headers["x-query"] == "a=b"
        # 5. The body is asked for where the client waits.
        whole = request(body=b"abc", expect="100-continue")
        assert wire.ask(whole[:-3]).status == 100
        assert wire.ask(b"abc").body == b"abc"


def test_http_1_0_gets_one_answer_and_a_stream_without_chunks() -> None:
    with serving() as server:
        with Wire(server.address) as wire:
            answer = wire.ask(request(body=b"a", version="1.0"))
            assert (answer.body, answer.headers["connection"]) == (b"a", "close")
            assert wire.ended()
        with Wire(server.address) as wire:
            answer = wire.ask(request(path="/stream", body=b"abc", version="1.0", connection="keep-alive"))
            assert "transfer-encoding" not in answer.headers
            assert (answer.body, wire.ended()) == (b"abc", True)


def test_a_star_stands_for_every_path_that_has_no_endpoint() -> None:
    def path_of(request: HttpRequest, reply: HttpReply) -> None:
        reply.send(200, {"X-Path": request.path})

    with closing(HttpServer({"/mcp": echo, "*": path_of})) as server:
        server.start()
        with Wire(server.address) as wire:
            for path in ("/", "/mcp/", "/a/b", "*"):
                assert wire.ask(request(path=path)).headers["x-path"] == path
            assert "x-path" not in wire.ask(request(path="/mcp")).headers


def test_a_body_that_is_refused_is_not_asked_for() -> None:
    with serving(limits=HttpLimits(max_message=1000)) as server:
        with Wire(server.address) as wire:
            assert wire.ask(request(content_length="1001", expect="100-continue")).status == 413
            assert wire.ended()
        # A client that sends it all the same sees the refusal.
        with Wire(server.address) as wire:
            assert wire.ask(request(body=b"x" * 500_000)).status == 413


def test_a_port_that_is_taken_is_an_error_and_leaves_nothing() -> None:
    with serving() as server:
        before = descriptors()
        with pytest.raises(OSError):
            HttpServer({}, port=server.address[1])
        assert descriptors() <= before


# -- an endpoint that goes wrong ----------------------------------------------------------------------------------


def failing(request: HttpRequest, reply: HttpReply) -> None:
    raise RuntimeError("a secret")


@pytest.mark.parametrize(
    "endpoint",
    [
        failing,
        lambda request, reply: None,
        lambda request, reply: reply.send(200, {"X-Name": "a\r\nSet-Cookie: b"}),
        lambda request, reply: reply.send(200, {"X-Name": "\u2028"}),
    ],
    ids=["one that fails", "one that forgets", "two fields in one", "what cannot be encoded"],
)
def test_an_endpoint_without_an_answer_is_500(endpoint: Any, caplog: pytest.LogCaptureFixture) -> None:
    with serving(endpoint) as server, Wire(server.address) as wire:
        answer = wire.ask(request(body=b"a"))
        assert (answer.status, answer.body, "set-cookie" in answer.headers) == (500, b"", False)
        assert wire.ended()


def test_half_an_answer_is_not_taken_for_a_whole(caplog: pytest.LogCaptureFixture) -> None:
    def half(request: HttpRequest, reply: HttpReply) -> None:
        reply.open({})
        reply.write(b"half")
        raise RuntimeError("and no more")

    with serving(half) as server, Wire(server.address) as wire:
        wire.send(request(body=b"a"))
        wire.head()
        assert wire.chunk() == b"half"
        assert wire.ended()


# -- slow clients -------------------------------------------------------------------------------------------------


CHUNKED = request(transfer_encoding="chunked").replace(b"content-length: 0\r\n", b"")


@pytest.mark.parametrize("text", [b"POST /mcp HT", request(content_length="5") + b"abc", CHUNKED + b"3\r\nabc\r\n"])
def test_half_a_request_is_not_answered_and_reaches_nobody(text: bytes) -> None:
    came: list[bytes] = []
    with serving(lambda request, reply: came.append(request.body)) as server, Wire(server.address) as wire:
        wire.send(text)
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.ended()
    assert came == []


DRIBBLED = [
    # how a request begins, and what then keeps coming, each time within the limit
    (b"", b"x"), (request(content_length="100000"), b"x"), (CHUNKED, b"1\r\nx\r\n"), (CHUNKED + b"1;", b"x"),
    (CHUNKED + b"0\r\nA: ", b"x"),
]  # fmt: skip


def test_who_dribbles_is_given_up_in_all() -> None:
    """Each byte comes in time, and the request as a whole does not."""
    with serving(limits=QUICK) as server, ExitStack() as stack:
        wires = [(stack.enter_context(Wire(server.address)), *each) for each in DRIBBLED]
        for wire, begin, _ in wires:
            wire.send(begin)
        tick, end = threading.Event(), Deadline(PATIENCE)
        while wires:
            end.check("dribbling")
            for wire, begin, each in wires[:]:
                try:
                    wire.send(each)
                except OSError:
                    wires.remove((wire, begin, each))
            tick.wait(0.02)
        assert idle(server)


def test_an_idle_connection_is_closed() -> None:
    with serving(limits=QUICK) as server, Wire(server.address) as wire:
        assert wire.ask(request(body=b"a")).body == b"a"
        assert wire.ended()
        assert idle(server)


def test_an_endpoint_may_take_longer_than_a_request() -> None:
    leave = threading.Event()

    def slow(request: HttpRequest, reply: HttpReply) -> None:
        leave.wait(0.4)
        reply.send(200, {})

    with serving(slow, QUICK) as server, Wire(server.address) as wire:
        assert wire.ask(request()).status == 200


@pytest.mark.parametrize("chunked", [True, False])
def test_who_does_not_read_is_given_up(chunked: bool) -> None:
    problems: list[BaseException] = []

    def much(request: HttpRequest, reply: HttpReply) -> None:
        try:
            if chunked:
                reply.open({})
                for _ in range(1000):
                    reply.write(b"x" * 100_000)
            else:
                reply.send(200, {}, b"x" * 20_000_000)
        except OSError as problem:
            problems.append(problem)
            raise

    with serving(much, QUICK) as server, Wire(server.address, buffer=4096) as wire:
        wire.send(request())
        assert until(lambda: problems)
        assert idle(server)
    assert isinstance(problems[0], TimeoutError)


# -- many clients -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "status"), [(HttpLimits(connections=2), 503), (HttpLimits(connections_per_client=2), 429)]
)
def test_there_are_so_many_connections(limits: HttpLimits, status: int) -> None:
    with serving(limits=limits) as server:
        with Wire(server.address) as first, Wire(server.address) as second:
            for wire in (first, second):
                wire.ask(request())
            with Wire(server.address) as third:
                answer = third.answer()
                assert (answer.status, answer.headers["retry-after"]) == (status, "10")
                assert third.ended()
        assert idle(server)
        still_works(server)


def test_many_clients_come_and_go() -> None:
    with serving(limits=HttpLimits(connections=50)) as server:
        for number in range(300):
            wire = Wire(server.address)
            if number % 3 == 0:
                wire.send(b"POST /mcp HTTP/1.1\r\nHos")
            wire.reset() if number % 2 else wire.close()
        assert idle(server)
        still_works(server)


def test_descriptors_above_what_select_can_take() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2000:
        pytest.skip("this machine does not allow more than that")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    held = [socket.socket() for _ in range(1100)]
    try:
        with serving(stream) as server, Wire(server.address) as wire:
            assert wire.socket.fileno() > 1023
            assert wire.ask(request(body=b"abc")).body == b"abc"
            assert [has_hung_up(each.socket) for each in server._connections] == [False]
    finally:
        for each in held:
            each.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("problem", [OSError(errno.EMFILE, "no descriptors"), BlockingIOError()])
def test_a_connection_that_cannot_be_accepted_does_not_stop_the_others(
    problem: OSError, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    class Listening:
        failed = 0

        def __init__(self, real: socket.socket) -> None:
            self.accept_for_real, self.close, self.fileno = real.accept, real.close, real.fileno

        def accept(self) -> Any:
            self.failed += 1
            if self.failed <= 3:
                raise problem
            return self.accept_for_real()

    with serving() as server:
        server._listening = Listening(server._listening)  # type: ignore[assignment]
        still_works(server)


def test_a_connection_without_a_thread_is_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with serving() as server:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            with Wire(server.address) as wire:
                assert wire.answer().status == 503
        still_works(server)


# -- clients that vanish, and the end -----------------------------------------------------------------------------


@pytest.mark.skipif(not HANG_UP, reason="this system does not tell")
def test_who_sends_the_next_request_early_and_leaves_has_hung_up_and_who_stays_has_not() -> None:
    looks: SimpleQueue[bool] = SimpleQueue()
    left = threading.Event()

    def look(request: HttpRequest, reply: HttpReply) -> None:
        looks.put(request.gone())
        looks.put(left.wait(PATIENCE) and until(request.gone))

    with serving(look) as server, Wire(server.address) as wire:
        wire.send(request() + request())
        assert looks.get(timeout=PATIENCE) is False
        wire.close()
        left.set()
        assert looks.get(timeout=PATIENCE) is True


def test_hanging_up_ends_the_connection_while_the_endpoint_goes_on() -> None:
    leave, after = threading.Event(), threading.Event()

    def endpoint(request: HttpRequest, reply: HttpReply) -> None:
        reply.open({})
        reply.write(b"a")
        reply.hang_up()
        assert leave.wait(PATIENCE)
        after.set()

    with serving(endpoint) as server, Wire(server.address) as wire:
        assert wire.ask(request()).body == b"a"
        assert wire.ended()
        leave.set()
        assert after.wait(PATIENCE)


def test_breaking_off_an_answer_that_has_ended_leaves_the_next_request_alone() -> None:
    replies: list[HttpReply] = []

    def endpoint(request: HttpRequest, reply: HttpReply) -> None:
        # What another thread may do that was about to give the first one up.
        for former in replies:
            former.abort()
        replies.append(reply)
        stream(request, reply)

    with serving(endpoint) as server, Wire(server.address) as wire:
        assert [wire.ask(request(body=text)).body for text in (b"one", b"two")] == [b"one", b"two"]


def test_an_endpoint_that_does_not_end_is_left_behind_and_named(caplog: pytest.LogCaptureFixture) -> None:
    entered, leave = threading.Event(), threading.Event()

    def stubborn(request: HttpRequest, reply: HttpReply) -> None:
        entered.set()
        assert leave.wait(PATIENCE)

    with serving(stubborn) as server, Wire(server.address) as wire:
        wire.send(request())
        assert entered.wait(PATIENCE)
        assert server.close(0.1) == ["mcp-http-1"]
        assert "still runs a handler" in caplog.text
        leave.set()


def test_the_end_may_come_twice_from_several_threads_and_without_time() -> None:
    with serving() as server:
        at_once(*(partial(server.close, 0) for _ in range(5)))
        with pytest.raises(OSError):
            socket.create_connection(server.address, PATIENCE)


def test_an_endpoint_may_end_its_server() -> None:
    closed = threading.Event()

    def closing(request: HttpRequest, reply: HttpReply) -> None:
        assert server.close(PATIENCE) == []
        closed.set()

    with serving(closing) as server, Wire(server.address) as wire:
        wire.send(request())
        assert closed.wait(PATIENCE)
