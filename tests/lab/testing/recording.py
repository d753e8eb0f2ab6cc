"""Recordings to replay: of the lessons and the demo, by whatever client they make."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from mcp_ref.recording.record import read_trace

ROOT = Path(__file__).parent.parent.parent.parent

PROGRAM = """
import itertools, os, runpy, sys
from mcp_ref import Client
from mcp_ref.recording.record import Recorder
folder, program = sys.argv[1:]
sys.argv[:], sys.path[0] = [program], os.path.dirname(program)
client, recorder, numbers = Client.__init__, Recorder.__init__, itertools.count(1)

def traced(self, *args, trace=None, **options):
    client(self, *args, trace=(lambda event: None) if trace is None else trace, **options)

def recording(self, *sinks, **options):
    recorder(self, *sinks, f"{folder}/{next(numbers)}.jsonl", **options)

Client.__init__, Recorder.__init__ = traced, recording
runpy.run_path(program, run_name="__main__")
"""
"""Runs a program, each recorder of which also writes a file; a client that has none gets one."""


def recorded(program: Path, folder: Path) -> list[Path]:
    """Run a program, and give what each recorder in it has heard; one whose server was gone before its client had said
    anything, as in lesson 2, has nothing to give.
    """
    env = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'unhurried'}"}
    command = [sys.executable, "-c", PROGRAM, str(folder), str(program)]
    subprocess.run(command, env=env, check=True, capture_output=True, timeout=60)
    return sorted(path for path in folder.glob("*.jsonl") if any(each.direction == "send" for each in read_trace(path)))
