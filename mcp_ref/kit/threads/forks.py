"""Forks: what was opened in one process cannot be used in another that was forked from it.

Its threads exist in the first alone, its locks may be held for ever in the second, and both would read from the same
descriptors, each losing what the other gets. So whatever is opened notes its process; in any other it raises what
`opened_elsewhere` gives, before it takes a lock or writes, and its `close()` does nothing.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from mcp_ref.errors import LocalProtocolError


def opened_elsewhere(what: str, process: int) -> LocalProtocolError:
    """The error to raise in a process that did not open `what` itself."""
    return LocalProtocolError(
        f"{what} was opened in process {process} and cannot be used in process {os.getpid()}, which was forked from it;"
        " open another one here"
    )


def end_child(problem: BaseException | None) -> None:
    """End the process that a job has forked, once the job has ended there, with the exit code that a program has."""
    code = problem.code if isinstance(problem, SystemExit) else problem and 1
    with suppress(Exception):
        sys.stdout.flush()
    os._exit(code if isinstance(code, int) else 1 if code else 0)
