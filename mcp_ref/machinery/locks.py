"""Locks that are waited for until a deadline, and that no Ctrl-C can lose.

The contract: `hold` acquires a lock or raises; in either case the caller's list says whether it holds the lock, even if
a KeyboardInterrupt came at the worst moment. `with lock:` is as safe, but waits without a limit.
"""

from __future__ import annotations

import threading

from mcp_ref.machinery.deadline import Deadline


def hold(lock: threading.Lock, held: list[bool], deadline: Deadline, doing: str) -> None:
    """Acquire a lock, and note in `held` that it is to be released.

    >>> held: list[bool] = []
    >>> try:
    ...     hold(lock, held, deadline, "waiting for another message to be written")
    ...     ...
    ... finally:
    ...     if held:
    ...         lock.release()

    Raises: RequestTimeout: the deadline passed first; the text says what was being done.
    """
    # Python handles Ctrl-C between two calls, also between `acquire` and the assignment of what it returned. Here
    # `extend` makes the call and keeps the result in one step of C: it has happened and is remembered, or it has not.
    # At first without waiting: the lock is free as a rule, and then nobody need look at the clock.
    held.extend(filter(None, map(lock.acquire, (False,))))
    while not held:
        left = deadline.left()
        held.extend(filter(None, map(lock.acquire, (True,), (-1 if left is None else left,))))
        if not held:
            deadline.check(doing)
