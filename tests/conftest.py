"""Shared by tests: what holds for every test: no thread of ours outlives it. And, at the end, how many requirements
have a row.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mcp_ref import Client
from tests.slow import examples

GRACE = 10.0


def _ours() -> set[threading.Thread]:
    """Our threads that run: Python remembers one for ever whose start Ctrl-C has interrupted."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("mcp-") and thread.is_alive()}


@pytest.fixture(scope="session", autouse=True)
def nothing_stays_open() -> Iterator[None]:
    """Collect, at the end of the run, what is still open: it is a ResourceWarning, and so an error."""
    yield
    gc.unfreeze()
    gc.collect()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield from threads_are_gone()


@pytest.fixture(autouse=True)
def nothing_is_known_of_servers() -> None:
    """A port, and so a URL, is used again by the server of another test."""
    from mcp_ref.kit.threads.era_cache import ERAS

    ERAS.clear()


# In which era a test meets a server must not depend on how busy the machine is, so here a client waits for the answer
# to its probe as for any other. Tests of servers that are slow or silent say their limit, or take the default again.
PROBE_TIMEOUT = Client.__init__.__kwdefaults__["probe_timeout"]
Client.__init__.__kwdefaults__["probe_timeout"] = 60

# How long an example takes says how busy the machine is, and nothing of the code.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100)
)
settings.load_profile("any machine")

# Under nohup it is ignored, and so would be by the programs that tests start, and end by it.
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Where no bytecode is to be written, each process of the hundreds that tests start would compile all it imports, and
# pytest every test in each of its processes: here it is written, but not beside the sources.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parent.parent / ".pytest_cache" / "bytecode")
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """For `-n auto`: two more than there are processors, since tests wait for processes, and for time, as well."""
    return (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1) + 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes minutes begins first, so that no process waits for it at the end."""
    items.sort(key=lambda item: not ((mark := item.get_closest_marker("timeout")) and mark.args[0] >= 900))


def pytest_collection_finish() -> None:
    """Ten thousand tests are objects that stay: no collection of garbage need look at them again."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Hostile JSON is nested as deep as Python can go. Where garbage is collected just there, a finalizer finds no room
    left to run; Python tells of it, and pytest would call it a failure. The clients it stood for were closed before."""
    tell = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if unraisable.exc_type is not RecursionError or type(unraisable.object) is not weakref.finalize:
            tell(unraisable)

    sys.unraisablehook = hook


# A shell that starts a job with `&` in a script has it ignore Ctrl-C, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.verbosity <= -2:
        return
    reports = terminalreporter.stats.get("skipped", ())
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in reports)
    if reasons:
        said = "; ".join(f"{count} because {reason}" for reason, count in reasons.most_common())
        terminalreporter.write_line(f"skipped: {said}")
    from tests.test_spec_notes import summary

    terminalreporter.write_line(summary())


def threads_are_gone() -> Iterator[None]:
    """Yield what the fixture does, for a folder that needs it in another scope."""
    before = _ours()
    yield
    stray = _ours() - before
    for thread in stray:
        thread.join(GRACE)
    left = sorted(thread.name for thread in stray if thread.is_alive())
    assert not left, f"threads left by the test: {left}"


@pytest.fixture(params=["sqlite", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Where `store_at` finds a store of tasks that several processes share."""
    if request.param == "sqlite":
        yield str(tmp_path / "tasks.db")
    else:
        from tests.redis_server import redis_server

        with redis_server(tmp_path) as redis:
            yield redis.url
