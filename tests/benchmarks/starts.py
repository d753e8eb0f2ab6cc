"""How long a start takes: `import mcp_ref`, and a stdio server's answer to `initialize`."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from tests.benchmarks.driver import INITIALIZE, ROOT, command, environment, line

Each = TypeVar("Each")


class Start(NamedTuple):
    """Medians in milliseconds."""

    wall: float
    cpu: float


def imports(rounds: int) -> dict[str, Start]:
    """A bare interpreter, and one that imports mcp_ref, in turns."""
    return medians({"bare": "pass", "our": "import mcp_ref"}, run, rounds)


def cold_starts(rounds: int, servers: tuple[str, ...]) -> dict[str, Start]:
    """From the launch of a server to its answer to `initialize`, in turns; the CPU includes the server's end."""
    return medians({name: name for name in servers}, answer, rounds)


def run(code: str, tree: Path = ROOT) -> float:
    """Run a program that can import a tree; the seconds that it took."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], env=environment(tree), cwd=tree, check=True)
    return time.perf_counter() - began


def answer(server: str, tree: Path = ROOT) -> float:
    """Start a server of a tree, and end it once it has answered; the seconds until then."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command(server, tree),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        env=environment(tree),
    )
    with process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(line(INITIALIZE))
        if not process.stdout.readline():
            raise RuntimeError(f"the server {server!r} does not answer")
        seconds = time.perf_counter() - began
        process.stdin.close()
    return seconds


def medians(candidates: Mapping[str, Each], start: Callable[[Each], float], rounds: int) -> dict[str, Start]:
    """Start each candidate in turn, round by round."""
    taken: dict[str, list[Start]] = {name: [] for name in candidates}
    for each in candidates.values():
        start(each)
    for _ in range(rounds):
        for name, each in candidates.items():
            used = _children_cpu()
            wall = start(each)
            taken[name].append(Start(wall * 1e3, (_children_cpu() - used) * 1e3))
    return {
        name: Start(statistics.median(each.wall for each in starts), statistics.median(each.cpu for each in starts))
        for name, starts in taken.items()
    }


def _children_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
