"""The cost of mcp_ref over HTTP, beside a bare `http.server` and the official SDK, all in one run.

    python -m tests.benchmarks.http                 two minutes
    python -m tests.benchmarks.http --calls 500     some seconds, and less certain

Each server runs in a process of its own, and is asked over keep-alive by a driver that does as little as possible: what
it writes is made beforehand, and of what it reads it looks for the length alone. The servers take turns, the best of a
few rounds counts, and the marks are ratios: a busy machine is busy for all of them.
"""

from __future__ import annotations

import argparse
import re
import selectors
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Self

from tests.benchmarks.driver import ENVELOPE, INITIALIZE, ROOT, Run, command, cpu_of, environment
from tests.benchmarks.driver import line as encode
from tests.benchmarks.stdio import ERAS, Row, client_row, table
from tests.support.machine import free_port

SERVERS = {
    "bare": ["bare_http"],
    "our": ["our"],
    "sdk": ["sdk"],
    "json": ["sdk", "json"],
}
CONNECTIONS = (1, 8, 32)
MARKS = {"session": (4.5, 1.5), "stateless": (4.0, 1.6)}
"""At least so many times the calls of the SDK, and at most so many times the CPU of the bare server."""
WAIT = 20.0

HEAD = (
    "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUser-Agent: driver\r\nAccept-Encoding: identity\r\n"
    "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
    "{session}Content-Length: {length}\r\n\r\n"
)


class Connection:
    """One keep-alive connection of a client that looks at nothing but where an answer ends."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WAIT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def ask(self, request: bytes) -> bytes:
        """Send a request, and wait for the whole answer."""
        self.socket.sendall(request)
        while not (answer := self.take()):
            chunk = self.socket.recv(1 << 16)
            if not chunk:
                raise RuntimeError(f"the server hung up after {self.buffer[:200]!r}")
            self.buffer += chunk
        return answer

    def take(self) -> bytes:
        """The answer that has arrived whole, or nothing."""
        head = self.buffer.find(b"\r\n\r\n")
        if head < 0:
            return b""
        low = self.buffer[:head].lower()
        if b"transfer-encoding: chunked" in low:
            last = self.buffer.find(b"\r\n0\r\n\r\n", head)
            end = last + 7 if last > 0 else 1 << 60
        else:
            found = re.search(rb"content-length: *(\d+)", low)
            end = head + 4 + (int(found[1]) if found else 0)
        if len(self.buffer) < end:
            return b""
        answer, self.buffer = self.buffer[:end], self.buffer[end:]
        return answer


class Driven:
    """A server under way."""

    def __init__(self, name: str, tree: Path = ROOT) -> None:
        self.port = free_port()
        program, *arguments = SERVERS[name]
        start = [*command(program, tree), str(self.port), *arguments]
        self.process = subprocess.Popen(start, stderr=subprocess.DEVNULL, env=environment(tree))
        self._await()

    def _await(self) -> None:
        until = time.monotonic() + WAIT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), WAIT).close()
                return
            except OSError:
                if time.monotonic() > until or self.process.poll() is not None:
                    raise
                time.sleep(0.02)

    def request(self, message: dict[str, Any], session: str = "", headers: str = "") -> bytes:
        """The bytes of a POST."""
        body = encode(message).strip()
        named = f"Mcp-Session-Id: {session}\r\nMCP-Protocol-Version: 2025-11-25\r\n" if session else headers
        return HEAD.format(port=self.port, session=named, length=len(body)).encode() + body

    def open(self) -> tuple[Connection, str]:
        """A new connection with a new session on it."""
        connection = Connection(self.port)
        answer = connection.ask(self.request(INITIALIZE))
        session = re.search(rb"(?i)mcp-session-id: *(\S+)", answer)
        assert session is not None, answer
        name = session[1].decode()
        connection.ask(self.request({"jsonrpc": "2.0", "method": "notifications/initialized"}, name))
        return connection, name

    def ready(self, width: int, era: str) -> dict[Connection, bytes]:
        """So many connections, each with the bytes of a call of `echo`."""
        params: dict[str, Any] = {"name": "echo", "arguments": {"text": "hi"}}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        if era == "session":
            opened = [self.open() for _ in range(width)]
            return {connection: self.request(call, session) for connection, session in opened}
        params["_meta"] = ENVELOPE
        headers = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: echo\r\n"
        return {Connection(self.port): self.request(call, headers=headers) for _ in range(width)}

    def calls(self, count: int, width: int, era: str = "session") -> Run:
        """So many calls of `echo`, over so many connections at once."""
        requests = self.ready(width, era)
        for connection, request in requests.items():
            assert b'"hi"' in connection.ask(request)
        with selectors.DefaultSelector() as selector:
            for connection in requests:
                selector.register(connection.socket, selectors.EVENT_READ, connection)
            used, began = cpu_of(self.process.pid), time.perf_counter()
            _drive(selector, requests, count)
            seconds = time.perf_counter() - began
            used = cpu_of(self.process.pid) - used
        for connection in requests:
            connection.socket.close()
        return Run(count / seconds, used / count * 1e6)

    def memory(self) -> int:
        """Bytes that are in memory and the server's own."""
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return sum(int(kib) for kib in re.findall(r"Private_\w+: +(\d+)", text)) * 1024

    def per_session(self, count: int) -> float:
        """KB for each session that is open and has its connection open, beyond the first few."""
        opened = [self.open() for _ in range(50)]
        before = self.memory()
        opened += [self.open() for _ in range(count)]
        grown = self.memory() - before
        for connection, _ in opened:
            connection.socket.close()
        return grown / count / 1000

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait(WAIT)


def _drive(selector: selectors.BaseSelector, requests: dict[Connection, bytes], count: int) -> None:
    """Each connection sends its next request when its answer is there."""
    for connection, request in requests.items():
        connection.socket.sendall(request)
    sent, answered = len(requests), 0
    while answered < count:
        ready = selector.select(WAIT)
        if not ready:
            raise RuntimeError("the server does not answer")
        for key, _ in ready:
            connection = key.data
            connection.buffer += connection.socket.recv(1 << 16)
            if not connection.take():
                continue
            answered += 1
            if sent < count:
                sent += 1
                connection.socket.sendall(requests[connection])


def measure(calls: int, rounds: int, era: str = "session") -> dict[str, dict[int, Run]]:
    """Each server in turn, round by round; of each figure the best."""
    taken: dict[str, dict[int, list[Run]]] = {name: {width: [] for width in CONNECTIONS} for name in SERVERS}
    for _ in range(rounds):
        for name in SERVERS:
            count = max(64, calls // 5) if name in ("sdk", "json") else max(64, calls)
            with Driven(name) as server:
                for width in CONNECTIONS:
                    taken[name][width].append(server.calls(count, width, era))
    return {
        name: {width: Run(max(r.per_second for r in runs), min(r.cpu for r in runs)) for width, runs in widths.items()}
        for name, widths in taken.items()
    }


def rows(measured: dict[str, dict[int, Run]], era: str = "session") -> list[Row]:
    """Return what is compared, and whether the marks are met."""
    lines = []
    least, most = MARKS[era]
    for width in CONNECTIONS:
        bare, ours, sdk, json_mode = (measured[name][width] for name in ("bare", "our", "sdk", "json"))
        faster, dearer = ours.per_second / sdk.per_second, ours.cpu / bare.cpu
        rates = [f"{run.per_second:,.0f}" for run in (ours, bare, sdk)]
        used = [f"{run.cpu:.0f} us" for run in (ours, bare, sdk)]
        named = f"{width} connection{'s' * (width > 1)}, {era} era"
        lines.append(Row(f"calls/s, {named}", *rates, f"{faster:.1f} x SDK", f">= {least}", faster >= least))
        json_rate, json_used = f"{json_mode.per_second:,.0f}", f"{json_mode.cpu:.0f} us"
        faster = ours.per_second / json_mode.per_second
        lines.append(Row(f"  its JSON mode, {named}", "", "", f"{json_rate}, {json_used}", f"{faster:.1f} x SDK"))
        lines.append(Row(f"CPU per call, {named}", *used, f"{dearer:.2f} x bare", f"<= {most}", dearer <= most))
    return lines


def memory_row(count: int) -> Row:
    """Return what a session costs that is open, with its connection."""
    kilobytes = {}
    for name in ("our", "sdk"):
        with Driven(name) as server:
            kilobytes[name] = server.per_session(count)
    ours, sdk = kilobytes["our"], kilobytes["sdk"]
    ratio = ours / sdk
    return Row(
        "memory per open session", f"{ours:.1f} KB", "", f"{sdk:.1f} KB", f"{ratio:.2f} x SDK", "<= 1", ratio <= 1
    )


def main(arguments: list[str] | None = None) -> list[Row]:
    """Measure everything, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.http", description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=10_000, help="of each server in each round; the SDK gets a fifth")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sessions", type=int, default=900, help="for the figure of the memory; at most 950")
    chosen = parser.parse_args(arguments)
    lines = [line for era in ERAS for line in rows(measure(chosen.calls, chosen.rounds, era), era)]
    with Driven("bare") as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        lines.append(client_row(max(20, chosen.calls // 5), chosen.rounds, 1.8, url))
    lines.append(memory_row(chosen.sessions))
    print(table(lines))
    return lines


if __name__ == "__main__":
    main()
