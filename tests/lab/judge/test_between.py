"""Standing between two peers: bytes, ends, signals and hang-ups pass unchanged, over stdio and HTTP."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit
from xml.etree import ElementTree

import pytest
import requests

from mcp_ref import Client, Command, Context, OAuth, Server
from mcp_ref.kit.http.http_exchange import HttpLimits
from mcp_ref.kit.process.pipes import LineSplitter
from mcp_ref.lab.cli import main
from mcp_ref.lab.judge.check import Checker, check
from mcp_ref.lab.judge.relay import HttpProxy
from mcp_ref.recording.record import Recorder, TraceEvent, read_trace
from tests.pages.basic.authorization.world import Answer, Asked, World
from tests.slow import slow_but
from tests.support.clock import until
from tests.support.machine import free_port
from tests.support.wire import PATIENCE

ROOT = Path(__file__).parent.parent.parent.parent
CHECK = [sys.executable, "-m", "mcp_ref", "check"]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}

# A server that is a mirror: what comes in goes out, and its length to standard error.
MIRROR = (
    "import os, sys\n"
    "n = 0\n"
    "while chunk := os.read(0, 65536):\n"
    "    n += len(chunk)\n"
    "    while chunk: chunk = chunk[os.write(1, chunk):]\n"
    "os.write(2, b'%d' % n)\n"
    "sys.exit(7)\n"
)


PING = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'


def between(*command: str, options: tuple[str, ...] = (), **kwargs: Any) -> subprocess.Popen[bytes]:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*CHECK, *options, "--", *command], env=ENV, **pipes, **kwargs)


def noise(seed: int, size: int) -> bytes:
    """Anything at all, with lines, half lines, JSON, zero bytes and bytes that are not UTF-8 in it."""
    pick = random.Random(seed)
    parts = []
    while sum(map(len, parts)) < size:
        parts.append(
            pick.choice(
                (b"\n", b"\r\n", b"{}", b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', b"\xff\xfe\x00",
                 b'{"a":1,"a":2}\n', b"[" * 2000, pick.randbytes(pick.randrange(1, 300)), "\u2028\U0001f600".encode())
            )
        )  # fmt: skip
    return b"".join(parts)


@pytest.mark.parametrize("streams", slow_but([100], [100, 500]))
def test_any_bytes_in_any_pieces_come_out_as_they_went_in_and_the_exit_code_too(streams: int, tmp_path: Path) -> None:
    report, trace = tmp_path / "report", tmp_path / "trace"
    options = ("--report", str(report), "--trace", str(trace))
    sent = b"".join(noise(seed, 40) for seed in range(streams)) + b"half a line"
    child = between(sys.executable, "-c", MIRROR, options=options)
    assert child.stdin and child.stdout and child.stderr
    write = child.stdin

    def feed() -> None:
        rest, pick = sent, random.Random(1)
        while rest:
            size = pick.choice((1, 3, 100, 5000, 70_000))
            write.write(rest[:size])
            write.flush()
            rest = rest[size:]
        write.close()

    feeder = threading.Thread(target=feed)
    feeder.start()
    with child:
        got = child.stdout.read()
        feeder.join(PATIENCE)
        assert got == sent
        assert child.stderr.read() == b"%d" % len(sent)
        assert child.wait(PATIENCE) == 7
    # The trace is readable, whatever passed, and has each line, both ways.
    events = list(read_trace(trace))
    assert [event.end for event in events if event.end] == [{"eof": "client"}, {"exit": 7}]
    for way in ("send", "receive"):
        assert sum(event.direction == way and not event.end for event in events) == len(
            [line for line in sent.split(b"\n") if line.strip()]
        )
    assert "findings in" in report.read_text("utf-8")


def test_a_line_that_is_too_long_is_cut() -> None:
    cut = LineSplitter(3, cut=True)
    assert [*cut.feed(b"12345\n12"), *cut.feed(b"345"), *cut.feed(b"6\n1\n1234")] == [b"123", b"123", b"1"]
    assert cut.take() == b"123"


SIGNALS = slow_but([signal.SIGTERM], [signal.SIGTERM, signal.SIGINT])


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_passes_and_the_end_by_it_comes_back(number: int) -> None:
    code = "import signal, time; signal.signal(2, signal.SIG_DFL); print('{}', flush=True); time.sleep(60)"
    child = between(sys.executable, "-c", code)
    assert child.stdout is not None
    assert child.stdout.readline() == b"{}\n"
    child.send_signal(number)
    assert child.wait(PATIENCE) == -number
    child.communicate()


def alive(process: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(process, 0)
        return True
    return False


STUBBORN = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print(os.getpid(), flush=True)\n"
    "while True: time.sleep(60)"
)


@pytest.mark.parametrize("whom", slow_but(["the process"], ["the process", "its group"]))
def test_a_client_that_kills_leaves_no_server_behind(whom: str) -> None:
    child = between(sys.executable, "-c", STUBBORN, start_new_session=True)
    with child:
        assert child.stdin and child.stdout and child.stderr
        server = int(child.stdout.readline())
        child.stdin.close()
        (os.killpg if whom == "its group" else os.kill)(child.pid, signal.SIGKILL)
        try:
            assert b"the server with it: only --report has what it found" in child.stderr.read()
            until(lambda: not alive(server))
        finally:
            with suppress(ProcessLookupError):
                os.kill(server, signal.SIGKILL)


ANSWERS_TEXT = (
    "import sys, json\n"
    "print('hello')\n"
    "for line in sys.stdin:\n"
    "    m = json.loads(line)\n"
    "    if 'id' in m: print(json.dumps({'jsonrpc': '2.0', 'id': str(m['id']), 'result': {}}), flush=True)\n"
)
NO_MESSAGE = b"A server MUST NOT write anything to its standard output that is not a message."


@pytest.mark.parametrize(
    ("program", "options", "out", "code", "told"),
    [
        ("import os; os.write(1, b'{\"half'); os._exit(7)", (), b'{"half', 7, [NO_MESSAGE]),
        (ANSWERS_TEXT, ("--strict",), b'hello\n{"jsonrpc": "2.0", "id": "1", "result": {}}\n', 3,
         [NO_MESSAGE, b"2 findings"]),
    ],
    ids=["half a line", "strict"],
)  # fmt: skip
def test_the_client_sees_its_server_and_what_is_wrong_is_told_on_stderr(
    program: str, options: tuple[str, ...], out: bytes, code: int, told: list[bytes]
) -> None:
    child = between(sys.executable, "-c", program, options=options)
    got, err = child.communicate(PING % 1, timeout=PATIENCE)
    assert (got, child.returncode) == (out, code)
    assert all(each in err for each in told)


def test_what_a_server_wrote_last_waits_for_a_client_that_is_slow() -> None:
    # More than the client's pipe holds, and less than both pipes and what is in between.
    line = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n'
    program = f"import os\ndata = {line!r} * 1700\nwhile data: data = data[os.write(1, data):]"
    quick = "from mcp_ref.lab.judge import relay; relay._AFTER_EXIT = 0.01; from mcp_ref.lab.cli import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", quick, "check", "--report", os.devnull, "--", sys.executable, "-c", program],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=ENV,
    )  # fmt: skip
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(1)
    except BaseException:
        child.kill()
        child.communicate(timeout=PATIENCE)
        raise
    out, _ = child.communicate(timeout=PATIENCE)
    assert (out == line * 1700, child.returncode) == (True, 0)


def test_a_client_that_reads_no_stderr_changes_neither_the_bytes_nor_the_exit_code() -> None:
    program = (
        "import os, sys\nprint('junk', flush=True)\ntry:\n    for _ in range(100): os.write(2, b'x' * 10000)\n"
        "except BrokenPipeError: print('broken', flush=True)\nsys.exit(7)"
    )
    child = between(sys.executable, "-c", program)
    assert child.stderr is not None and child.stdin is not None
    child.stderr.close()
    child.stderr = None
    out, _ = child.communicate(timeout=PATIENCE)
    assert (out.split(), child.returncode) == ([b"junk", b"broken"], 7)


@pytest.mark.slow
def test_findings_that_nobody_reads_keep_no_client_waiting() -> None:
    child = between(sys.executable, "-c", "print('{}\\n' * 3000, flush=True)")
    assert child.stdout is not None
    assert child.stdout.read() == b"{}\n" * 3000 + b"\n"
    assert child.wait(PATIENCE * 2) == 0
    child.communicate()


def test_a_command_that_does_not_exist_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--", "no-such-command"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and "no-such-command" in err


def test_a_trace_that_another_process_writes_is_left_alone(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl")
    with (tmp_path / "t.jsonl").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        child = between(sys.executable, "-c", MIRROR, options=("--trace", other.name))
        out, err = child.communicate(PING % 2, timeout=PATIENCE)
    assert out == PING % 2 and b"t-2.jsonl" in err and not Path(other.name).read_text()
    said = [event.message for event in read_trace(tmp_path / "t-2.jsonl") if isinstance(event.message, dict)]
    assert [message["id"] for message in said] == [2, 2]


WHOLE: dict[str, Any] = {
    "text": lambda told: told.index("rules were checked"),
    "json": lambda told: list(map(json.loads, told.splitlines())),
    "junit": ElementTree.fromstring,
    "sarif": json.loads,
}


@pytest.mark.parametrize("form", slow_but(["json"], WHOLE))
def test_the_report_is_there_when_the_client_kills_it(form: str, tmp_path: Path) -> None:
    report, odd = tmp_path / "report", b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n'
    child = between(sys.executable, "-c", MIRROR, options=("--format", form, "--report", str(report)))
    assert child.stdin and child.stdout

    def read() -> bool:
        """Whether it is whole, and has what is found of both sides."""
        with suppress(ElementTree.ParseError, ValueError):
            WHOLE[form](told := report.read_text("utf-8"))
            sides = [re.search(rf'(MUST, |\(|"blame": "){side}', told) for side in ("client", "server")]
            return all(sides) and told.endswith(("\n", ">", "}")) and "goes on still" in told
        return False

    with child:
        child.stdin.write(odd)
        child.stdin.flush()
        child.stdout.readline()
        until(read)
        child.kill()
        child.stdin.close()
        child.wait(PATIENCE)
    assert read()


@pytest.mark.parametrize("revision", slow_but(["2025-11-25"], ["2025-03-26", "2025-11-25", "2026-07-28"]))
def test_a_client_of_ours_works_through_it_without_a_finding(revision: str, tmp_path: Path) -> None:
    report, serve = tmp_path / "report", [sys.executable, "-m", "mcp_ref", "serve", str(ROOT / "examples/weather.py")]
    command = [*CHECK, "--format", "json", "--report", str(report), "--", *serve]
    with Client(Command(command, {"PYTHONPATH": str(ROOT)}), revision=revision) as client:
        assert client.call_tool("forecast", {"city": "Oslo"})["content"]
    summary = json.loads(report.read_text("utf-8").splitlines()[-1])
    assert summary["findings"] == 0 and summary["asked"] > 15


# -- HTTP ---------------------------------------------------------------------------------------------------------


class Upstream(ThreadingHTTPServer):
    """Answers with what a test wants, and remembers what came."""

    daemon_threads = True
    request_queue_size = 300

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.requests: list[tuple[str, list[tuple[str, str]], bytes]] = []
        super().__init__(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self.server_port}/mcp"

    def handle_error(self, request: Any, client_address: Any) -> None: ...


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Upstream

    def log_message(self, format: str, *args: Any) -> None: ...

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.requests.append((self.command, list(self.headers.items()), body))
        self.server.answer(self, body)

    do_GET = do_PUT = do_DELETE = do_HEAD = do_POST


@contextmanager
def proxied(answer: Any) -> Iterator[tuple[Upstream, HttpProxy, list[TraceEvent]]]:
    seen: list[TraceEvent] = []
    with Upstream(answer) as upstream, Recorder(seen.append, exact=True) as recorder:
        threading.Thread(target=upstream.serve_forever, args=(0.01,), daemon=True).start()
        with HttpProxy(upstream.url, [recorder], lambda text: None) as proxy:
            yield upstream, proxy, seen
        upstream.shutdown()


def head(handler: Answering, status: int, *fields: tuple[str, str]) -> None:
    """The head of an answer, with these fields alone."""
    handler.send_response_only(status)
    for name, value in fields:
        handler.send_header(name, value)
    handler.end_headers()


def echo(handler: Answering, body: bytes) -> None:
    """The body back: with a length, in chunks, or until the end of the connection."""
    how = handler.headers.get("x-how")
    framed = {"length": ("Content-Length", str(len(body))), "chunked": ("Transfer-Encoding", "chunked")}
    kind = ("Content-Type", handler.headers.get("x-type", "text/plain"))
    status = int(handler.headers.get("x-status", "200"))
    head(handler, status, kind, ("X-Own", "kept"), framed.get(how, ("Connection", "close")))
    handler.close_connection = how not in framed
    pick = random.Random(len(body))
    while body:
        part, body = body[: (size := pick.randrange(1, 4000))], body[size:]
        handler.wfile.write(b"%x\r\n%b\r\n" % (len(part), part) if how == "chunked" else part)
    if how == "chunked":
        handler.wfile.write(b"0\r\n\r\n")


def exchange(
    url: str, body: bytes | None, method: str = "POST", path: str = "/mcp?x=1", **headers: str
) -> tuple[int, dict[str, str], bytes]:
    with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as connection:
        connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        with connection.getresponse() as reply:
            return reply.status, dict(reply.getheaders()), reply.read()


@pytest.mark.parametrize("bodies", slow_but([2], [2, 60]))
@pytest.mark.parametrize("how", ["length", "chunked", "end"])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/plain"])
def test_bodies_pass_byte_for_byte_in_every_framing(how: str, kind: str, bodies: int) -> None:
    with proxied(echo) as (upstream, proxy, _):
        for seed in range(bodies):
            body = noise(seed, 20_000)
            status, headers, got = exchange(
                proxy.url, body, X_How=how, X_Type=kind, X_Status="203", X_Mine="a, b", Mcp_Param_Own="1"
            )
            assert (status, headers["X-Own"], got) == (203, "kept", body)
            _, sent, came = upstream.requests[-1]
            assert came == body and {("x-mine", "a, b"), ("mcp-param-own", "1")} <= set(sent)
            assert dict(sent)["Host"] == upstream.url.removeprefix("http://").partition("/")[0]
        assert {name.lower() for name, _ in sent} == {
            "host", "accept-encoding", "content-length", "x-how", "x-type", "x-status", "x-mine", "mcp-param-own"
        }  # fmt: skip


def test_a_request_in_chunks_passes_as_one_with_a_length() -> None:
    with proxied(echo) as (upstream, proxy, seen):
        for parts in ([b'{"a"', b": 1}"], [b""]):
            reply = requests.post(proxy.url, data=iter(parts), headers={"X-How": "length"}, timeout=PATIENCE)
            assert (reply.content, upstream.requests[-1][2]) == (b"".join(parts), b"".join(parts))
        assert "transfer-encoding" not in {name.lower() for name, _ in upstream.requests[0][1]}
        assert raw(proxy, b"Transfer-Encoding: chunked", b"x\r\n").startswith(b"HTTP/1.1 400 ")
        assert len(upstream.requests) == 2
    assert seen[0].message == {"a": 1}


def test_a_body_that_is_too_long_is_refused_before_it_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.lab.judge.relay._LIMITS", HttpLimits(max_message=1000))
    with proxied(echo) as (upstream, proxy, seen):
        assert raw(proxy, b"Content-Length: 1001", b"").startswith(b"HTTP/1.1 413 ")
        assert not upstream.requests and not seen
        assert exchange(proxy.url, b"x" * 1000, X_How="length")[2] == b"x" * 1000


def raw(proxy: HttpProxy, fields: bytes, body: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=PATIENCE) as client:
        client.sendall(b"POST /mcp HTTP/1.1\r\nHost: x\r\n%b\r\n\r\n%b" % (fields, body))
        return client.makefile("rb").read()


def test_fields_that_come_twice_and_a_status_without_a_name_pass() -> None:
    def answer(handler: Answering, body: bytes) -> None:
        head(handler, 520, ("Set-Cookie", "a=1, 2"), ("set-cookie", "b=2"), ("X-How", "é"), ("Content-Length", "2"))
        handler.wfile.write(body)

    with proxied(answer) as (_, proxy, _):
        got = raw(proxy, b"Content-Length: 2\r\nConnection: close", b"{}")
        assert got.startswith(b"HTTP/1.1 520 ") and got.endswith(b"\r\n\r\n{}") and b"X-How: \xe9\r\n" in got
        assert b"Set-Cookie: a=1, 2\r\n" in got and b"set-cookie: b=2\r\n" in got and got.count(b"Date: ") == 1


def test_what_head_asks_about_is_told_and_an_answer_without_a_body_has_none() -> None:
    def answer(handler: Answering, body: bytes) -> None:
        fields = [("Content-Type", "text/event-stream"), ("Date", "Mon, 01 Jan 2001 00:00:00 GMT")]
        if handler.command == "HEAD":
            head(handler, 200, *fields, ("Content-Length", "1234"))
        else:
            head(handler, 204, *fields)

    with proxied(answer) as (_, proxy, _), closing(http.client.HTTPConnection("127.0.0.1", proxy.port)) as connection:
        for method, length in (("HEAD", "1234"), ("DELETE", None), ("HEAD", "1234")):
            connection.request(method, "/mcp")
            with connection.getresponse() as reply:
                assert (reply.getheader("Content-Length"), reply.read(), reply.will_close) == (length, b"", False)


def test_interim_responses_of_the_server_are_read_past_and_it_is_asked_once() -> None:
    def early(handler: Answering, body: bytes) -> None:
        for _ in range(3):
            handler.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n")
            handler.wfile.write(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
        echo(handler, body)

    with proxied(early) as (upstream, proxy, _):
        for number in range(20):
            status, _, got = exchange(proxy.url, b"%d" % number, X_How="length")
            assert (status, got) == (200, b"%d" % number)
        assert len(upstream.requests) == 20


@pytest.mark.parametrize(
    "where", ["OURS/mcp/", "OURS?a=b", "/mcp/", "OURS", "http://127.0.0.1:1/x", "OURS0/x", "OURS.example/"]
)
def test_a_redirect_to_the_server_leads_to_the_proxy_and_no_other_does(where: str) -> None:
    def redirect(handler: Answering, body: bytes) -> None:
        place = where.replace("OURS", f"http://127.0.0.1:{handler.server.server_port}")
        head(handler, 307, ("Location", place), ("Content-Length", "0"))

    with proxied(redirect) as (upstream, proxy, _):
        _, headers, _ = exchange(proxy.url, b"{}")
        port = upstream.server_port if where in ("OURS0/x", "OURS.example/") else proxy.port
        assert headers["Location"] == where.replace("OURS", f"http://127.0.0.1:{port}")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_one_can_log_in_to_a_guarded_server_through_it(revision: str) -> None:
    def authorize(asked: Asked) -> Answer:
        query = {name: values[0] for name, values in parse_qs(urlsplit(asked.url).query).items()}
        seen.append(query["resource"])
        back = urlencode({"code": "the-code", "state": query["state"], "iss": world.issuer})
        return 302, {"Location": f"{query['redirect_uri']}?{back}"}, b""

    def visit(url: str) -> str:
        assert url.startswith(proxy.ours)
        return str(requests.get(url, allow_redirects=False, timeout=PATIENCE).headers["Location"])

    seen: list[str] = []
    said: list[str] = []
    with World() as world, HttpProxy(world.url, [], said.append) as proxy:
        world.at["/authorize"] = authorize
        with Client(proxy.url, auth=OAuth("tests", visit=visit), revision=revision) as client:
            client.call_tool("t", undeclared=True)
        # The token is for the server itself, and that something was rewritten is said.
        assert seen == [world.url] and [form["resource"] for form in world.forms()] == [world.url]
    assert any("WWW-Authenticate" in each for each in said) and any("/.well-known/" in each for each in said)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_the_proxy_with_its_summary_whatever_is_under_way(number: int) -> None:
    def never(handler: Answering, body: bytes) -> None:
        begun.set()
        handler.connection.recv(1)

    begun = threading.Event()
    with Upstream(never) as upstream:
        threading.Thread(target=upstream.serve_forever, args=(0.01,), daemon=True).start()
        child = subprocess.Popen([*CHECK, "--http", upstream.url], stderr=subprocess.PIPE, env=ENV)
        assert child.stderr is not None
        url = child.stderr.readline().decode().rpartition("give your client this URL: ")[2].strip()
        with closing(http.client.HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE)) as client:
            client.request("POST", "/mcp", b"{}")
            assert begun.wait(PATIENCE)
            child.send_signal(number)
            _, err = child.communicate(timeout=PATIENCE)
        assert (child.returncode, b" in 1 events" in err, b"Traceback" in err) == (0, True, False)
        upstream.shutdown()


def test_the_name_of_another_host_is_for_the_server_to_refuse() -> None:
    with proxied(echo) as (upstream, proxy, _):
        for host in ("evil.example.com", f"localhost:{proxy.port}"):
            exchange(proxy.url, b"{}", Host=host, X_How="length")
        named = [dict(headers)["Host"] for _, headers, _ in upstream.requests]
        assert named == ["evil.example.com", f"127.0.0.1:{upstream.server_port}"]


def test_only_the_path_of_the_endpoint_is_judged() -> None:
    def found(path: str) -> list[str]:
        with proxied(echo) as (upstream, proxy, seen):
            headers = {"MCP_Protocol_Version": "2025-11-25", "X_Type": "application/json", "X_How": "length"}
            for body in (b'{"secret": "swordfish"}', b"not a message"):
                assert exchange(proxy.url, body, path=path, **headers)[2] == body
            assert len(upstream.requests) == 2
        assert ("swordfish" in str(seen)) == (path in ("/mcp", "/mcp?x=1", "/mcp/"))
        return sorted({finding.rule for finding in check(seen)})

    assert (
        found("/mcp?x=1") == found("/mcp/") == ["bodies_are_messages", "is_json_rpc", "post_accepts_json_and_streams"]
    )
    for path in ("/health", "/protected/api", "/mcp2", "/mcp/x", "/token"):
        assert found(path) == []


@pytest.mark.parametrize("uri", ["/post?id=1", "post?id=1", "http://{}/post?id=1"])
def test_what_is_posted_to_an_endpoint_event_is_judged(uri: str) -> None:
    def answer(handler: Answering, body: bytes) -> None:
        data = b"event: endpoint\ndata: %b\n\n" % uri.format(handler.headers["host"]).encode()
        head(handler, 200, ("Content-Type", "text/event-stream"), ("Content-Length", str(len(data))))
        handler.wfile.write(data)

    with proxied(answer) as (_, proxy, seen):
        *_, told = exchange(proxy.url, None, "GET", "/mcp")
        # An absolute URI is rewritten: it would lead past the relay.
        assert told.endswith(b"data: %b\n\n" % uri.format(f"127.0.0.1:{proxy.port}").encode())
        exchange(proxy.url, b"{}", "POST", "/post?id=1")
    assert len({event.conn for event in seen}) == 1
    assert {} in [event.message for event in seen]
    assert not any("path" in (event.http or {}) for event in seen)


def begin_stream(handler: Answering, first: bytes) -> None:
    """The head of a stream that lasts as long as its connection, and what stands first in it."""
    head(handler, 200, ("Content-Type", "text/event-stream"), ("Connection", "close"))
    handler.wfile.write(first)


def test_a_stream_arrives_as_it_is_written_and_a_hang_up_passes_within_a_second() -> None:
    begun, gone = threading.Event(), threading.Event()

    def stream(handler: Answering, body: bytes) -> None:
        begin_stream(handler, b"data: {}\n\n")
        handler.wfile.flush()
        begun.set()
        if handler.connection.recv(1) == b"":
            gone.set()

    with proxied(stream) as (_, proxy, seen):
        with socket.create_connection(("127.0.0.1", proxy.port), PATIENCE) as client:
            client.sendall(b"POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
            got = b""
            while b"data: {}\n\n" not in got:
                got += client.recv(4096)
        assert gone.wait(PATIENCE)
        # It is noted once the server's end has come back.
        until(lambda: any((event.http or {}).get("end") == "client" for event in seen))


def test_the_end_of_the_proxy_is_nobodys_hang_up() -> None:
    gone = threading.Event()

    def stream(handler: Answering, body: bytes) -> None:
        begin_stream(handler, b"data: {}\n\n")
        assert handler.connection.recv(1) == b""
        gone.set()

    with (
        proxied(stream) as (_, proxy, seen),
        closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=PATIENCE)) as client,
    ):
        client.request("POST", "/mcp", b"{}")
        reply = client.getresponse()
        assert reply.readline() == b"data: {}\n"
        # The client is still there, and ends with the proxy.
        proxy.__exit__()
        assert gone.wait(PATIENCE)
    assert len(seen) == 3 and not any({"end", "hangUp"} & set(event.http or {}) for event in seen)


@pytest.mark.parametrize(("kind", "ends"), [("text/event-stream", ["receive"]), ("text/plain", [])])
def test_what_breaks_off_is_cut_and_a_stream_is_blamed_on_the_server(kind: str, ends: list[str]) -> None:
    def cut(handler: Answering, body: bytes) -> None:
        head(handler, 200, ("Content-Type", kind), ("Content-Length", "100"))
        handler.wfile.write(b"data: {}\n\n")
        handler.close_connection = True

    with proxied(cut) as (_, proxy, seen), pytest.raises((http.client.IncompleteRead, OSError)):
        exchange(proxy.url, b"{}")
    assert [event.direction for event in seen if (event.http or {}).get("end") == "broken"] == ends


def test_a_server_that_cannot_be_reached_is_a_broken_connection() -> None:
    said: list[str] = []
    port = free_port()
    with HttpProxy(f"http://127.0.0.1:{port}/mcp", [], said.append) as proxy:
        with pytest.raises(OSError):
            exchange(proxy.url, b"{}")
    assert len(said) == 1 and f"127.0.0.1:{port}" in said[0]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
def test_clients_of_ours_work_through_the_proxy_without_a_finding(revision: str) -> None:
    server = Server("weather")

    @server.tool()
    def forecast(city: str, ctx: Context) -> str:
        ctx.progress(1, 2)
        return f"{city}: sun"

    seen: list[TraceEvent] = []
    with server.serve_http(sse_path="/sse") as served, Recorder(seen.append, exact=True) as recorder:
        url = served.sse_url if revision == "2024-11-05" else served.url
        with HttpProxy(url or "", [recorder], lambda text: None) as proxy:
            clients = [Client(proxy.url, revision=revision) for _ in range(2)]
            for client in clients:
                client.connect()
            for client in clients * 2:
                client.list_tools()
                client.call_tool("forecast", {"city": "Oslo"}, on_progress=lambda *seen: None)
            for client in clients:
                client.close()
    assert list(check(seen, checker := Checker())) == []
    assert len(checker.applied) > 20
