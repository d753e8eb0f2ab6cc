"""This tree against another commit of it: `python -m tests.benchmarks.versus COMMIT` (five minutes).

A server of each tree runs at the same time, and they are asked in turns of some hundredths of a second, so that a
machine that is busy, hot or cold is so for both; the median of the turns counts, and that of their ratios, here to
there. CPU is the server's own, in microseconds a call. What takes a start is taken in turns, too.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import product
from pathlib import Path
from typing import TypeVar

from tests.benchmarks import http, starts, stdio
from tests.benchmarks.driver import ROOT, WINDOW

Server = TypeVar("Server")

TURNS = 8
"""Of each figure in each round, for which both servers start."""

Pairs = dict[str, list[tuple[float, float]]]
"""Of each figure what it is here and there, turn by turn."""


def take(
    found: Pairs, name: str, both: Sequence[Server], figure: Callable[[Server], float], turns: int = TURNS
) -> None:
    """Take a figure of both servers in turns; each begins as often as the other."""
    for turn in range(turns):
        taken = {each: figure(both[each]) for each in ((0, 1) if turn % 2 else (1, 0))}
        found.setdefault(name, []).append((taken[0], taken[1]))


def calls_of(calls: int, width: int, era: str, server: http.Driven) -> float:
    """Return the CPU of so many calls over so many connections, in microseconds a call."""
    return server.calls(calls, width, era).cpu


def one_round(found: Pairs, trees: tuple[Path, Path], calls: int) -> None:
    """Add to what is compared what one pair of servers of each kind comes to."""
    for era in stdio.ERAS:
        with ExitStack() as servers:
            pipes = [servers.enter_context(stdio.Driven("our", era, tree)) for tree in trees]
            take(found, f"stdio {era} 1: CPU", pipes, lambda server: server.calls(calls, 1).cpu)
            take(found, f"stdio {era} {WINDOW}: CPU", pipes, lambda server: server.calls(calls, WINDOW).cpu)
            take(found, f"stdio {era} progress: CPU", pipes, lambda server: server.notifications(calls).cpu)
    for era, width in product(http.ERAS, http.CONNECTIONS):
        with ExitStack() as servers:
            ports = [servers.enter_context(http.Driven("our", tree)) for tree in trees]
            take(found, f"HTTP {era} {width}: CPU", ports, partial(calls_of, calls, width, era))
    with ExitStack() as servers:
        ports = [servers.enter_context(http.Driven("our", tree)) for tree in trees]
        take(found, "HTTP session: KB", ports, lambda server: server.per_session(300), 1)
    for name, start in (
        ("import", lambda tree: starts.run("import mcp_ref", tree)),
        ("cold start", lambda tree: starts.answer("our", tree)),
    ):
        both = starts.medians({"here": trees[0], "there": trees[1]}, start, TURNS)
        found.setdefault(f"{name}: CPU ms", []).append((both["here"].cpu, both["there"].cpu))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--calls", type=int, default=300, help="of each turn")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    found: Pairs = {}
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "there"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", there, given.commit], cwd=ROOT, check=True)
        try:
            for _ in range(given.rounds):
                one_round(found, (ROOT, there), given.calls)
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", there], cwd=ROOT, check=True)
    for name, pairs in found.items():
        here, other = (statistics.median(side) for side in zip(*pairs, strict=True))
        print(f"{name:36} {here:9.1f} {other:9.1f} {statistics.median(h / o for h, o in pairs):6.2f}")


if __name__ == "__main__":
    main()
