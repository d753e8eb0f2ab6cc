"""The life of one server within a host: from consent to its end, and back from its death.

Spec:      architecture, "Host" and "Clients"; basic/lifecycle
Upholds:   spec_notes/architecture.md
Not here:  what a server may do (host/host, host/consent); the conversation itself (client/client)

    state        what it means                              events
    disabled     in the list, and not to be started         ask
    waiting      to be started, once somebody consents      ask, allow, refuse, stop
    starting     a client connects                          opened, broken, stop
    ready        it can be asked                            lost, stop
    restarting   it died, and is started again              opened, give up, stop
    failed       it could not be started, or died too often ask, stop
    stopped      somebody stopped it, or did not consent    ask

A server that dies is started again after 0.5, 1 and 2 seconds; one that dies a fourth time within a minute has failed,
until somebody asks for it. A server over HTTP that ends its session is the client's business, and is seen here by its
answers alone.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_ref.client.client import Client
from mcp_ref.client.entries import Entry, dangers, described
from mcp_ref.client.targets import Url
from mcp_ref.errors import AnswerLost, McpError, TransportClosed
from mcp_ref.host.json_file import fingerprint
from mcp_ref.host.pins import print_of
from mcp_ref.kit.threads.bounded_dict import Latest, once
from mcp_ref.kit.threads.deadline import Deadline, Rate, RateLimits
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options

if TYPE_CHECKING:
    from mcp_ref.host.host import Host

RESTART_INTERVAL: Final = 0.5
"""Seconds before the first restart; before each further one twice as many."""

MAX_RESTARTS: Final = 3
RESTARTS_COUNT_FOR: Final = 60.0  # seconds

RATES: Final = {
    "sampling": Rate(10 / 60, 10), "form": Rate(10 / 60, 10), "url": Rate(10 / 60, 10), "roots": Rate(1, 20),
    "message": Rate(10 / 60, 10),
    "log": Rate(100, 100), "stderr": Rate(100, 100),
}  # fmt: skip
"""How often one server may ask the user, or speak; what comes more often is refused, or dropped."""

NEXT: Final = {
    "disabled":   {"ask": "waiting"},
    "waiting":    {"ask": "waiting", "allow": "starting", "refuse": "stopped", "stop": "stopped"},
    "starting":   {"opened": "ready", "broken": "failed", "stop": "stopped"},
    "ready":      {"lost": "restarting", "stop": "stopped"},
    "restarting": {"opened": "ready", "give up": "failed", "stop": "stopped"},
    "failed":     {"ask": "waiting", "stop": "stopped"},
    "stopped":    {"ask": "waiting"},
}  # fmt: skip
"""The state after an event. What has no row does not happen: the event comes too late, and changes nothing."""

_NUMBER = count(1)


class ServerDown(TransportClosed):
    """The server is not there to be asked; the text has its state, and why."""

    sent = False


class Hosted:
    """One server of a host, and the one client that talks with it.

    Attributes:
        name: in the configuration. entry: what that says.
        state: see the module. problem: why it is not ready, or what went wrong last; or None.
        bound: the fingerprint of how it is started: with the name, what decisions about it are bound to.
        shown: how it is started or reached, for a person; warnings: what stands out.
        client: the client, while the state is ready.

    Threads: any.
    """

    def __init__(self, host: Host, entry: Entry) -> None:
        self.host, self.name, self.entry = host, entry.name, entry
        self.timeout, self.start_timeout = entry.timeout or host.timeout, entry.start_timeout or host.start_timeout
        self.shown: JsonObject = {} if entry.target is None else dict(entry.shown or described(entry.target))
        self.warnings = [*dangers(self.shown), *entry.warnings]
        target = entry.target
        given = entry.given or [getattr(target, "env", None), getattr(target, "headers", None)]
        # As it is shown, as it was written, and what an `envFile` brings: a value that was changed behind a name asks
        # again. (What comes from this process's environment is the user's own, and differs from one shell to the next.)
        written = entry.given or {}
        variables = getattr(target, "env", None) or {}
        in_file = {
            name: variables[name] for name in variables if "envFile" in written and name not in written.get("env", ())
        }
        self.bound = fingerprint([self.name, self.shown, given, in_file])
        self.rates = RateLimits(RATES)
        self.told: Latest[str, None] = Latest(10_000)  # fingerprints of what the user is told once
        self.print_of = once(print_of)  # the fingerprint of a definition
        # Guards state, problem, client and what follows; told of each change.
        self._changed = threading.Condition()
        self.state = "failed" if entry.problem else "disabled" if entry.disabled else "waiting"
        self.problem = entry.problem
        self.client: Client | None = None
        self._beginning: Client | None = None  # the client that connects, or the last that did
        self._lost_early: str | None = None
        self._deaths: deque[float] = deque()
        self.threads: list[threading.Thread] = []

    def happen(self, event: str, problem: str | None = None, of: Client | None = None) -> bool:
        """Go to the state that follows an event; False if the event cannot happen in the present state.

        Args:
            of: the client that it happened to; an event of any but the present client is ignored.
        """
        with self._changed:
            state = NEXT[self.state].get(event)
            if of is not None and of is not self._beginning:
                return False
            if event == "lost" and state is None:
                self._lost_early = problem  # whoever opens it finds that out
            if state is None or (event == "opened" and self._lost_early is not None):
                return False
            self.state, self.problem = state, problem
            self.client = self._beginning if state == "ready" else None
            self._changed.notify_all()
        self.host.tell(self.name, "state", state if problem is None else f"{state}: {problem}")
        return True

    def tell_once(self, what: str, said: str, about: Any = None) -> None:
        """Tell the user something about this server, unless it was said before, or is `about` what was told before."""
        key = fingerprint([what, about or said])
        if key not in self.told:
            self.told[key] = None
            self.host.tell(self.name, what, said)

    # -- starting

    def begin(self, reason: str | None = None) -> None:
        """Start it, in a thread of its own that ends when it is ready or has failed; `reason` is why it died before."""
        number = next(_NUMBER)
        # Daemon: it may connect to what never answers, which is bounded; stop() ends it sooner.
        thread = threading.Thread(target=self._open, args=(reason,), name=f"mcp-host-start-{number}", daemon=True)
        with self._changed:
            self.threads = [*(each for each in self.threads if each.is_alive()), thread]
        thread.start()

    def _open(self, died: str | None) -> None:
        while True:
            # 1. After a death: close the old client, and pause.
            if died is not None and not self._may_restart(died):
                return
            # 2. A client, which stop() can close from here on.
            try:
                client, deadline = self.host.client_for(self), Deadline(self.start_timeout)
            except Exception as problem_of_ours:
                # The entry asks for what no client does, or the trace cannot be written.
                self.happen("broken" if self.state == "starting" else "give up", str(problem_of_ours))
                return
            with self._changed:
                if self.state not in ("starting", "restarting"):
                    return
                self._beginning, self._lost_early = client, None
            try:
                client.connect()
                if "tools" in client.server_capabilities:
                    client.list_tools(timeout=deadline.left())
                problem = None
            except (McpError, OSError, ValueError, TypeError, RuntimeError) as failure:
                problem = str(failure) or type(failure).__name__
                client.close(1)
            # 3. What came of it.
            if problem is None and self.happen("opened", of=client):
                self.host.compare(self, client.tool_definitions)
                return
            problem = problem or self._lost_early
            if self.state == "starting" and self.happen("broken", problem):
                return
            if self.state != "restarting":
                client.close(1)
                return
            died = problem or "it was stopped"

    def _may_restart(self, died: str) -> bool:
        """Close the client that was lost, and pause. False: it was stopped meanwhile, or has died too often."""
        if self._beginning is not None:
            self._beginning.close(1)
        with self._changed:
            now = time.monotonic()
            while self._deaths and self._deaths[0] < now - RESTARTS_COUNT_FOR:
                self._deaths.popleft()
            pause = RESTART_INTERVAL * 2 ** len(self._deaths)
            self._deaths.append(now)
            if len(self._deaths) <= MAX_RESTARTS:
                return not self._changed.wait_for(lambda: self.state != "restarting", pause)
        self.happen("give up", f"died {MAX_RESTARTS + 1} times within a minute: {died}")
        return False

    def lost(self, client: Client, reason: str) -> None:
        """Start it again: its client has lost the connection."""
        if self.happen("lost", reason, of=client):
            self.begin(reason)

    def stop(self, deadline: Deadline) -> None:
        """Stop it, whatever it is doing. Blocks: at most until the deadline.

        The threads that start it end, for their client is closed, and their pause ends by the change of the state.
        """
        self.happen("stop")
        with self._changed:
            client, threads = self._beginning, self.threads
            self._deaths.clear()
        if client is not None:
            client.close(deadline.left() or 0.0)
        for thread in threads:
            if thread is not threading.current_thread() and thread.ident is not None:
                thread.join(deadline.left())

    def settle(self) -> None:
        """Wait until it is not starting any more. Blocks: as long as it may take to start, and a moment."""
        with self._changed:
            self._changed.wait_for(lambda: self.state != "starting", self.start_timeout and self.start_timeout + 5)

    # -- asking it

    def usable(self, deadline: Deadline, other_than: Client | None = None) -> Client:
        """Return a client that is connected, and is not the one that was lost; waits while it starts.

        Raises: ServerDown: it will not be there by itself, or not in time.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self.state not in ("starting", "restarting")
                    and (self.state != "ready" or self.client is not other_than)
                ),
                deadline.left(),
            )
            if self.state == "ready" and self.client is not other_than:
                return cast(Client, self.client)
            raise ServerDown(f"server {self.name!r} is {self.state}" + (f": {self.problem}" if self.problem else ""))

    def ask(self, method: str, *args: Any, options: Options, safe: bool) -> Any:
        """Make a call of its client, by the method's name; one more time if the server died and that is safe.

        Args:
            safe: whether it may be done twice.

        Blocks: as the call does, a restart included, which counts against the call's own time limit.
        """
        client = self.client
        if client is not None:
            try:
                return getattr(client, method)(*args, **options)
            except TransportClosed as lost:
                # Over HTTP the client itself has done what can be done; and an answer may be lost without a death.
                if isinstance(lost, AnswerLost) or isinstance(self.entry.target, Url) or not (safe or not lost.sent):
                    raise
        # What was spent so far is not counted: the call has not begun, or the server ended it.
        deadline = Deadline(options.get("timeout", self.timeout))
        client = self.usable(deadline, other_than=client)
        return getattr(client, method)(*args, **{**options, "timeout": deadline.left()})

    def tools(self, deadline: Deadline) -> dict[str, Any]:
        """Return the tools that its client knows, by name; they are listed first if they are not known."""
        client = self.client or self.usable(deadline)
        if not client.tool_definitions and "tools" in client.server_capabilities:
            client.list_tools(timeout=deadline.left())
        return client.tool_definitions

    def definition(self, tool: str, deadline: Deadline) -> tuple[Any, str] | None:
        """Return a tool's definition as last listed, and its fingerprint; None: no tool has that name."""
        found = self.tools(deadline).get(tool)
        return None if found is None or not self.entry.offers(tool) else (found.tool, self.print_of(found.tool))

    def __repr__(self) -> str:
        return f"<Hosted {self.name}: {self.state}>"
