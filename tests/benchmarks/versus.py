"""This tree against another commit of it, in turns: `python -m tests.benchmarks.versus COMMIT` (six minutes).

Each round runs the same figures once in each tree, so that a busy machine is busy for both; the median of the rounds
counts, as a ratio of here to there. CPU is the server's own, in microseconds a call.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def figures(calls: int) -> dict[str, float]:
    """Return what is compared, of the tree that this process runs in; less is better."""
    from tests.benchmarks import http, starts, stdio

    found: dict[str, float] = {}
    for era in stdio.ERAS:
        with stdio.Driven("our", era) as server:
            for window in (1, 64):
                found[f"stdio {era} {window}: CPU"] = server.calls(calls, window).cpu
            found[f"stdio {era} progress: CPU"] = server.notifications(calls).cpu
    for era in http.ERAS:
        with http.Driven("our") as server:
            for width in http.CONNECTIONS:
                found[f"HTTP {era} {width}: CPU"] = server.calls(calls, width, era).cpu
    with http.Driven("our") as server:
        found["HTTP session: KB"] = server.per_session(300)
    found["import: CPU ms"] = starts.imports(5)["our"].cpu
    found["cold start: CPU ms"] = starts.cold_starts(5, ("our",))["our"].cpu
    return found


def run(tree: Path, calls: int) -> dict[str, float]:
    """The figures of a tree, from a process that imports from it alone."""
    # The function is handed over as text, for an older tree has no such module.
    code = Path(__file__).read_text().split("def run(")[0].replace("Path(__file__).parent.parent.parent", "None")
    code += f"\nprint(json.dumps(figures({calls})))"
    environment = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tree, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "there"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", there, given.commit], cwd=ROOT, check=True)
        try:
            rounds = [(run(ROOT, given.calls), run(there, given.calls)) for _ in range(given.rounds)]
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", there], cwd=ROOT, check=True)
    for name in rounds[0][0]:
        here, other = (statistics.median(each[side][name] for each in rounds) for side in (0, 1))
        print(f"{name:36} {here:9.1f} {other:9.1f} {here / other:6.2f}")


if __name__ == "__main__":
    main()
