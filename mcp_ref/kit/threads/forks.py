"""Forks: what was opened in one process cannot be used in another that was forked from it.

Its threads exist in the first alone, its locks may be held for ever in the second, and both would read from the same
descriptors, each losing what the other gets. So a conversation, a server and a pool note their process. In any other
each of their calls begins with `check_process`, before it takes a lock or writes, and their `close()` does nothing.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from mcp_ref.errors import LocalProtocolError


def check_process(what: str, process: int) -> None:
    """Raise LocalProtocolError unless this is the process that opened `what`."""
    if process != os.getpid():
        raise LocalProtocolError(
            f"{what} was opened in process {process} and cannot be used in process {os.getpid()}, which was forked from"
            " it; open another one here"
        )


def end_child(problem: BaseException | None) -> None:
    """End the process that a job has forked, once the job has ended there, with the exit code that a program has."""
    code = problem.code if isinstance(problem, SystemExit) else problem and 1
    with suppress(Exception):
        sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 1 if code else 0)
