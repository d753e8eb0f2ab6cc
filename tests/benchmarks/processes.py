"""How many calls a second under other servers, and in several processes: `python -m tests.benchmarks.processes`.

The load comes from wrk (Debian's package), in the stateless era, over connections that are kept. The contestants take
turns, so that a busy machine is busy for all of them; of each the best turn counts. Printed are the calls a second, and
per call the CPU time of the server with all its workers, and of wrk.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from tests.under_wsgi import Running, children, under

APPLICATION = "tests.features.mounted:application"
NOTHING = "tests.benchmarks.processes:nothing"
CONTESTANTS = {
    "own server": ("own", APPLICATION, 1),
    "waitress": ("waitress", APPLICATION, 1),
    "waitress, nothing": ("waitress", NOTHING, 1),
    "gunicorn, 1 worker": ("gunicorn", APPLICATION, 1),
    "gunicorn, nothing": ("gunicorn", NOTHING, 1),
    "gunicorn, 4 workers": ("gunicorn", APPLICATION, 4),
}
TICK = os.sysconf("SC_CLK_TCK")


class Turn(NamedTuple):
    """The result of one turn: calls a second, and microseconds of CPU per call."""

    rate: float
    server: float
    wrk: float


def nothing(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """An application that only reads and answers: what a server takes for itself."""
    environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", "200")])
    return [b" " * 200]


def script() -> str:
    """Return what wrk sends: one call of a tool, again and again."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "wrk", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}}  # fmt: skip
    params = {"name": "add", "arguments": {"a": 1, "b": 2}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
               "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "add"}  # fmt: skip
    lines = [f'wrk.headers["{name}"] = "{value}"' for name, value in headers.items()]
    return "\n".join(['wrk.method = "POST"', f"wrk.body = [[{body}]]", *lines])


def cpu(running: Running) -> float:
    """Seconds of CPU that a server and its workers have taken."""
    root = running.process.pid
    stats = (Path(f"/proc/{each}/stat").read_text() for each in (root, *children(root)))
    fields = (stat.rpartition(")")[2].split() for stat in stats)
    return sum(int(each[11]) + int(each[12]) for each in fields) / TICK


def turn(running: Running, wrk: str, lua: str, seconds: int, connections: int) -> Turn:
    """Let wrk call for so many seconds."""
    before, used = cpu(running), resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [wrk, "-t1", f"-c{connections}", f"-d{seconds}s", "-s", lua, running.url]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 30).stdout
    after, now = cpu(running), resource.getrusage(resource.RUSAGE_CHILDREN)
    assert "Non-2xx" not in said and "Socket errors" not in said, said
    calls = int(re.findall(r"(\d+) requests in", said)[0])
    load = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return Turn(
        float(re.findall(r"Requests/sec: +([0-9.]+)", said)[0]), 1e6 * (after - before) / calls, 1e6 * load / calls
    )


def measure(seconds: int, turns: int, connections: int, names: Iterable[str] = CONTESTANTS) -> dict[str, Turn]:
    """The best turn of each contestant."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise FileNotFoundError("no wrk: bash .ci/system-packages, or apt-get install wrk")
    with ExitStack() as stack, tempfile.NamedTemporaryFile("w", suffix=".lua") as lua:
        lua.write(script())
        lua.flush()
        env = {"MOUNTED_KEYS": "k" * 43, "MOUNTED_OPTIONS": '{"sessions": false}'}
        running = {
            name: stack.enter_context(under(server, application, workers=workers, threads=8, env=env))
            for name, (server, application, workers) in ((name, CONTESTANTS[name]) for name in names)
        }
        found: dict[str, list[Turn]] = {name: [] for name in running}
        for number in range(turns + 1):
            for name, each in running.items():
                done = turn(each, wrk, lua.name, 1 if number == 0 else seconds, connections)
                if number:
                    found[name].append(done)
    return {name: max(done) for name, done in found.items()}


def memory(running: Running) -> float:
    """Kilobytes that a server and its workers hold; what they share with others counts in part."""
    root = running.process.pid
    maps = (Path(f"/proc/{each}/smaps_rollup").read_text() for each in (root, *children(root)))
    return float(sum(int(re.findall(r"^Pss: +(\d+)", text, re.MULTILINE)[0]) for text in maps))


def weigh(listeners: int) -> None:
    """Print what a server holds when nobody is there, and for each listener."""
    from tests.features.test_bus import Listeners

    for server in ("own", "waitress", "gunicorn"):
        with under(server, APPLICATION, threads=listeners + 8) as running:
            Listeners(running.url, 1).close()
            before = memory(running)
            listening = Listeners(running.url, listeners)
            assert listening.look(listening.each(1), 30)
            each = (memory(running) - before) / listeners
            listening.close()
            print(f"{server:20} {before / 1024:6.1f} MB, and {each:.0f} KB for each listener")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--seconds", type=int, default=3)
    options.add_argument("--turns", type=int, default=5)
    options.add_argument("--connections", type=int, default=32)
    options.add_argument("--memory", action="store_true", help="weigh them instead")
    given = options.parse_args()
    if given.memory:
        return weigh(200)
    found = measure(given.seconds, given.turns, given.connections)
    print(f"{'':20} calls/s  server µs/call  wrk µs/call   of our own  of one worker")
    own, one = found["own server"].rate, found["gunicorn, 1 worker"].rate
    for name, (rate, server, load) in found.items():
        print(f"{name:20} {rate:7.0f}  {server:14.0f}  {load:11.0f}  {rate / own:11.2f}  {rate / one:13.2f}")


if __name__ == "__main__":
    main()
