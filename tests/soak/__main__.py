"""Many clients call at once over everything there is, while connections are cut and servers killed.

    python -m tests.soak --seconds 90

Threads call over memory, stdio, Streamable HTTP and HTTP+SSE, in both eras; each call has a key of its own, which the
server writes down when its tool runs. A proxy cuts connections after random numbers of bytes, and servers are killed
and come back. At the end:

- each call has ended once, in time, with its own answer or with one of the errors that `Client` documents;
- none ran twice that was not marked as harmless, and each that was answered did run;
- threads and descriptors are as before, and no log has a traceback.

The last line says what there was, and that nothing was wrong; otherwise what was wrong, and the exit code is 1.
200,000 calls (`--seconds 900 --calls 200000`) take five minutes on two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mcp_ref import Client, Command, McpError, RequestTimeout, TransportClosed
from tests.soak.server import build
from tests.support.machine import free_port, held
from tests.support.relay import RandomCuts

CALL_TIMEOUT, SLACK = 10.0, 5.0
SESSION, STATELESS = "2025-11-25", "2026-07-28"
TOOLS = ("once", "again", "reports", "asks", "large")
HARMLESS = {"again"}


class Soak:
    """One run, and what it found."""

    def __init__(self, folder: Path, seed: int, calls: int) -> None:
        self.folder, self.random, self.most = folder, random.Random(seed), calls
        self.server = build(folder)
        self.over, self.numbers = threading.Event(), itertools.count()
        self.lock = threading.Lock()  # guards what follows
        self.outcomes: dict[str, str] = {}
        self.errors: Counter[str] = Counter()
        self.problems: Counter[str] = Counter()
        self.longest = 0.0
        self.killed = self.cut = 0

    def tell(self, args: Any) -> None:
        """The hook of `threading`, and that of `sys` for what cannot be raised."""
        self.wrong("".join(traceback.format_exception(args.exc_value)))

    def wrong(self, text: str) -> None:
        with self.lock:
            self.problems[text] += 1

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.wrong(f"logged: {logging.Formatter().format(record)}")

    # -- servers

    def http_server(self, port: int) -> subprocess.Popen[bytes]:
        """Start one, and wait until it listens."""
        argv = [sys.executable, "-m", "tests.soak.server", str(self.folder), str(port)]
        with (self.folder / f"log-{port}").open("ab") as file:
            process = subprocess.Popen(argv, stderr=file)
        for _ in range(200):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                return process
            time.sleep(0.05)
        raise AssertionError("the HTTP server does not start")

    def kill_stdio_servers(self) -> None:
        """Kill one of the servers over stdio now and then."""
        while not self.over.wait(self.random.uniform(0.3, 1.5)):
            pids = [int(path.name[4:]) for path in self.folder.glob("pid-*")]
            pids = [pid for pid in pids if is_ours(pid)]
            if pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.random.choice(pids), signal.SIGKILL)
                    with self.lock:
                        self.killed += 1

    def restart(self, port: int, servers: dict[int, subprocess.Popen[bytes]]) -> None:
        """Kill an HTTP server now and then, and start it again. The last one goes on for calls that are under way."""
        while not self.over.wait(self.random.uniform(2, 5)):
            servers[port].kill()
            servers[port].wait()
            with self.lock:
                self.killed += 1
            servers[port] = self.http_server(port)

    # -- clients

    def call(self, seat: Seat, number: int) -> None:
        """One call, and what becomes of it."""
        tool = TOOLS[number % len(TOOLS)]
        if tool == "asks" and "sse" in seat.name:
            tool = "once"  # Its revision has no questions of that kind.
        key = f"{tool}-{next(self.numbers)}"
        began = time.monotonic()
        outcome, client = "answered", None
        try:
            client = seat.client()
            more = {"on_progress": lambda *report: None} if tool == "reports" else {}
            result = client.call_tool(tool, {"key": key}, **more)
            text = result["content"][0]["text"].rstrip(".")
            if result.get("isError") or text != key:
                self.wrong(f"{seat.name}: {tool} got the answer of another: {text[:200]}")
        except (TransportClosed, RequestTimeout) as problem:
            outcome = type(problem).__name__
            if client is not None:
                seat.renew(client, problem)
        except McpError as problem:
            outcome = type(problem).__name__
            self.wrong(f"{seat.name}: {tool}: {outcome}: {problem}")
        except BaseException as problem:
            outcome = type(problem).__name__
            self.wrong(f"{seat.name}: {tool}: not documented: {problem!r}")
        took = time.monotonic() - began
        if took > CALL_TIMEOUT + SLACK:
            self.wrong(f"{seat.name}: a call took {took:.0f} s")
        with self.lock:
            self.longest = max(self.longest, took)
            self.errors[f"{seat.name}: {outcome}"] += 1
            self.outcomes[key] = outcome

    def work(self, seat: Seat) -> None:
        """Do what one thread does, until it is over."""
        number = 0
        while not self.over.is_set() and len(self.outcomes) < self.most:
            self.call(seat, number)
            number += 1

    # -- the end

    def judge(self) -> None:
        """Compare what the callers know with what the servers did."""
        runs = Counter((self.folder / "story").read_text().split())
        for key, outcome in self.outcomes.items():
            tool = key.partition("-")[0]
            if runs[key] > 1 and tool not in HARMLESS:
                self.wrong(f"{tool} ran {runs[key]} times; the caller was told {outcome}")
            if outcome == "answered" and not runs[key]:
                self.wrong(f"{tool} was answered, and did not run")
        for path in self.folder.glob("log-*"):
            text = path.read_text(errors="replace")
            if "Traceback" in text:
                self.wrong(f"{path.name}: {text[text.index('Traceback') :][:3000]}")


class Seat:
    """A client that two threads share; another takes its place when it cannot go on."""

    def __init__(self, soak: Soak, name: str, make: Callable[[], Client]) -> None:
        self.name, self._soak, self._make = name, soak, make
        self._lock = threading.Lock()  # guards _client, and is held while another is opened
        self._client: Client | None = None

    def client(self) -> Client:
        with self._lock:
            if self._client is None:
                client = self._make()
                client.connect()
                self._client = client
            return self._client

    def renew(self, used: Client, problem: McpError) -> None:
        """Let go of a client whose connection ended; over HTTP now and then, for it goes on by itself."""
        if self.name.startswith("http") and self._soak.random.random() < 0.9:
            return
        with self._lock:
            if self._client is used:
                self._client = None
        began = time.monotonic()
        used.close()
        if time.monotonic() - began > 15:
            self._soak.wrong(f"{self.name}: close() took {time.monotonic() - began:.0f} s")

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def is_ours(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"tests.soak.server" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def seats(soak: Soak, ports: dict[str, int]) -> Iterator[Seat]:
    """One for each way to a server."""
    command = Command(
        [sys.executable, "-m", "tests.soak.server", str(soak.folder)],
        inherit=True,
        stderr=lambda line: soak.wrong(f"stdio server: {line}") if "Traceback" in line else None,
    )

    def make(target: Any, revision: str) -> Callable[[], Client]:
        def answer(message: str, schema: Any) -> Any:
            return {"answer": message}

        return lambda: Client(target, revision=revision, timeout=CALL_TIMEOUT, connect_timeout=10, elicit=answer)

    for revision in (SESSION, STATELESS):
        yield Seat(soak, f"memory {revision}", make(soak.server, revision))
        for number in (1, 2):
            yield Seat(soak, f"stdio {number} {revision}", make(command, revision))
        for name, port in ports.items():
            yield Seat(soak, f"http {name} {revision}", make(f"http://127.0.0.1:{port}/mcp", revision))
    for name, port in ports.items():
        yield Seat(soak, f"http+sse {name}", make(f"http://127.0.0.1:{port}/sse", "2024-11-05"))


def run(soak: Soak, seconds: float, threads: int, seed: int, lasting: int, mortal: int) -> None:
    """The whole of it, from servers to servers: one for each of the two ports, of which the second is killed."""
    servers = {port: soak.http_server(port) for port in (lasting, mortal)}
    proxies = {"cut": RandomCuts(lasting, 60_000, seed), "killed": RandomCuts(mortal, 200_000, seed + 1)}
    ports = {"direct": lasting, **{name: proxy.port for name, proxy in proxies.items()}}
    all_seats = list(seats(soak, ports))
    trouble = [
        threading.Thread(target=soak.kill_stdio_servers, name="soak-killer"),
        threading.Thread(target=soak.restart, args=(mortal, servers), name="soak-restarter"),
    ]
    workers = [
        threading.Thread(target=soak.work, args=(all_seats[number % len(all_seats)],), name=f"soak-{number}")
        for number in range(threads)
    ]
    for thread in [*trouble, *workers]:
        thread.start()
    ends = time.monotonic() + seconds
    while time.monotonic() < ends and any(each.is_alive() for each in workers):
        time.sleep(0.2)
    soak.over.set()
    for thread in workers:
        thread.join(CALL_TIMEOUT + 2 * SLACK)
        if thread.is_alive():
            frame = sys._current_frames().get(thread.ident or 0)
            soak.wrong(f"{thread.name} hangs: {''.join(traceback.format_stack(frame))}")
    for thread in trouble:
        thread.join()
    for seat in all_seats:
        seat.close()
    for proxy in proxies.values():
        proxy.close()
    for process in servers.values():
        process.terminate()
        process.wait()
    soak.cut += sum(proxy.cuts for proxy in proxies.values())


def main() -> int:
    arguments = argparse.ArgumentParser(prog="python -m tests.soak", description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--seconds", type=float, default=90)
    arguments.add_argument("--calls", type=int, default=10**9, help="end after so many")
    arguments.add_argument("--threads", type=int, default=32)
    arguments.add_argument("--seed", type=int, default=1)
    given = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), given.seed, given.calls)
        handler = logging.Handler()
        handler.emit = soak.emit  # type: ignore[method-assign]
        logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(logging.WARNING)
        threading.excepthook = sys.unraisablehook = soak.tell
        # What is imported late, and what stays open for ever, is there before it is counted.
        ports = free_port(), free_port()
        run(soak, 2, given.threads, given.seed, *ports)
        soak.over.clear()
        before = held()
        began = time.monotonic()
        run(soak, given.seconds, given.threads, given.seed, *ports)
        took = time.monotonic() - began
        for _ in range(100):
            if not (left := held() - before):
                break
            time.sleep(0.05)
        else:
            soak.wrong(f"left: threads and descriptors {dict(left)}")
        soak.judge()
        for outcome, count in sorted(soak.errors.items()):
            print(f"{count:8,}  {outcome}")
        print(f"the longest call took {soak.longest:.1f} s")
        for problem, count in soak.problems.most_common(20):
            print(f"\nWRONG, {count} times: {problem}")
        answered = sum(outcome == "answered" for outcome in soak.outcomes.values())
        found = (
            f"{sum(soak.problems.values()):,} things were WRONG"
            if soak.problems
            else ("none ran twice, hung or got a wrong answer; no thread or descriptor is left, no traceback in a log")
        )
        print(
            f"{len(soak.outcomes):,} calls in {took:.0f} s, {answered:,} answered, {soak.cut:,} connections cut, "
            f"{soak.killed:,} servers killed: {found}"
        )
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
