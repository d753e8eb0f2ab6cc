"""One owner floods a server with tasks: a short run of `python -m tests.soak.tasks`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="how much memory a process has is not told here")
@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_an_owner_who_floods_fills_neither_memory_nor_disk_and_holds_nobody_up(store: str) -> None:
    command = [sys.executable, "-m", "tests.soak.tasks", "--seconds", "5", "--store", store]
    # Other tests run beside this one: what it measures of time counts when it is run alone.
    command += ["--times", "8"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
