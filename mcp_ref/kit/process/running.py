"""A program that serves: what is there while it does, and the two signals that end it.

Not here:  what is served (server/server)

    Lifespan         a value that a user's generator function makes for the first who needs it, and ends after the last
    end_by_sigterm   SIGTERM ends a wait as Ctrl-C does
    end_as_by_ctrl_c SIGTERM and SIGHUP end whatever is done
    tell, tell_terminal, leave    a word to whoever started the program; its end, although threads still run
"""

from __future__ import annotations

import logging
import os
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, Final, NoReturn

log = logging.getLogger(__name__)

_SIGNAL_INTERVAL: Final = 0.5
"""Seconds until a signal is noticed, at most."""


class Lifespan:
    """A value that is there while somebody uses it. `enter` and `leave` come in pairs.

    Args:
        function: a generator function: what stands before its one `yield` starts, what it yields is the value, what
            follows ends.

    Attributes:
        value: what was yielded; None while nobody uses it.

    Threads: any.
    """

    def __init__(self, function: Callable[[], Iterator[Any]]) -> None:
        self._manager = contextmanager(function)
        # Guards _users, _running and value. Held, against the habit, while the user's function starts or ends:
        # whoever comes meanwhile must wait for that, and nobody acquires it for anything else.
        self._lock = threading.Lock()
        self._users = 0
        self._running: AbstractContextManager[Any] | None = None
        self.value: Any = None

    def enter(self) -> None:
        """Start, unless somebody else has. Raises: whatever the function raises before it yields."""
        with self._lock:
            if self._running is None:
                running = self._manager()
                self.value = running.__enter__()
                self._running = running
            self._users += 1

    def leave(self) -> None:
        """End, unless somebody else goes on. What the function raises after its `yield` is logged."""
        with self._lock:
            self._users -= 1
            if self._users or self._running is None:
                return
            running, self._running, self.value = self._running, None, None
            try:
                running.__exit__(None, None, None)
            except Exception:
                # Whoever leaves has more to end.
                log.exception("the end of the lifespan failed")


@contextmanager
def end_by_sigterm() -> Iterator[Callable[[Callable[[float], bool]], bool]]:
    """Let SIGTERM, while it lasts, interrupt a wait as Ctrl-C does, and nothing else: what starts and ends is not torn.

    It gives a function that runs waits (`wait(seconds)` says whether what it waits for has come), until that is so, and
    says whether a signal has interrupted it. SIGTERM is left alone outside the main thread, and where the program
    handles it itself.
    """
    before = signal.getsignal(signal.SIGTERM)
    ours = threading.current_thread() is threading.main_thread() and before in (signal.SIG_DFL, _interrupt)
    waiting = asked = False

    def on_sigterm(*_: object) -> None:
        nonlocal asked
        asked = True
        if waiting:
            raise KeyboardInterrupt

    def interrupted(wait: Callable[[float], bool]) -> bool:
        nonlocal waiting
        try:
            # Set first, looked at second: a signal in between is not missed. One that comes just before a wait begins
            # is not noticed until it has ended: so none takes long.
            waiting = True
            while not asked and not wait(_SIGNAL_INTERVAL):
                continue
            return asked
        except KeyboardInterrupt:
            return True
        finally:
            waiting = False

    if ours:
        signal.signal(signal.SIGTERM, on_sigterm)
    try:
        yield interrupted
    finally:
        if ours:
            signal.signal(signal.SIGTERM, before)


_ENDING: Final = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]


def _interrupt(*_: object) -> NoReturn:
    # A terminal that goes, and systemd, send both: the second one must not keep the first from ending all.
    for each in _ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


@contextmanager
def end_as_by_ctrl_c() -> Iterator[None]:
    """Let SIGTERM and SIGHUP, while it lasts, raise KeyboardInterrupt, so that what was started is ended on the way
    out.

    A signal that the program handles or ignores is left alone, and all are outside the main thread.
    """
    main = threading.current_thread() is threading.main_thread()
    ours = [each for each in _ENDING if main and signal.getsignal(each) is signal.SIG_DFL]
    for each in ours:
        signal.signal(each, _interrupt)
    try:
        yield
    finally:
        for each in ours:
            signal.signal(each, signal.SIG_DFL)


def tell(text: str) -> None:
    """Print something for whoever started this program, if anybody can read it."""
    with suppress(OSError, ValueError, AttributeError):
        print(text, file=sys.stderr, flush=True)


def tell_terminal(name: str) -> None:
    """Say how a server is tried if standard input is a terminal: then no client has started it."""
    if sys.stdin is not None and sys.stdin.isatty():
        tell(
            f"{name} waits for an MCP client on standard input, which is this terminal; Ctrl-C ends it.\n"
            "A client starts it by itself; to try it: python -m mcp_ref tools -- "
            + shlex.join(["python", *sys.orig_argv[1:]])
        )


def leave() -> None:
    """End the process now, with what was printed; it waits for no thread."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(0)
