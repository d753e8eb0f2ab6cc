"""How a client hands a server's question to the function that its user gave.

Spec:      client/roots, client/sampling, client/elicitation
Upholds:   the rows of their notes on telling the user which server asks
Not here:  turning what such a function raises into an error reply (peer)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from mcp_ref.basic import utilities as progress
from mcp_ref.basic.lifecycle import Introduction
from mcp_ref.client import elicitation, roots, sampling
from mcp_ref.errors import MethodNotFound, RequestCancelled
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.rates import Rate, RateLimited, TokenBucket
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Answering
from mcp_ref.revisions import Revision

if TYPE_CHECKING:
    from mcp_ref.client.session import Session
    from mcp_ref.client.stateless import Stateless
    from mcp_ref.server.utilities.caching import CacheView

log = logging.getLogger(__name__)


# -- context ---------------------------------------------------------------------------------------------


class ClientContext:
    """The request of a server that a user's function answers; handed to it when it takes one argument more.

    Threads: any, while the function runs.
    """

    __slots__ = ("_incoming", "_session", "last_progress", "progress_token")

    def __init__(self, session: Session | Stateless, incoming: Incoming) -> None:
        self._session, self._incoming = session, incoming
        self.progress_token = progress.token_of(incoming.params)
        self.last_progress: float | None = None

    # basic/utilities/progress
    progress = progress.progress

    @property
    def revision(self) -> Revision:
        """The revision agreed with the server."""
        return self._session.revision

    @property
    def capabilities(self) -> JsonObject:
        """What this client declared itself, as the agreed revision knows it."""
        return self._session.capabilities

    @property
    def server_info(self) -> JsonObject:
        """The `Implementation` of the server that asks, for the user to see who it is."""
        return self._session.server_info

    @property
    def meta(self) -> JsonObject:
        """The `_meta` of the server's request; empty where there is none."""
        meta: JsonObject = self._incoming.params.get("_meta") or {}
        return meta

    @property
    def cancelled(self) -> bool:
        """Whether the server, or the end of the conversation, has given the request up."""
        return self._incoming.cancelled

    def check_cancelled(self) -> None:
        """Raise RequestCancelled if the request was given up."""
        if self._incoming.cancelled:
            raise RequestCancelled(self._incoming.reason or "cancelled")

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification that belongs to this request; nothing is sent once it is answered or given up."""
        self._session.peer.notify(method, params, self._incoming)


# -- events ----------------------------------------------------------------------------------------------


MOST_WAITING = 100_000
"""Callbacks that may wait; a server that floods a slow callback loses what comes on top, and the log says so."""


class Events:
    """The thread `mcp-events` of one client.

    Threads: `put` by the transport's reader; `close` by any thread.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()  # guards the start of the thread, and _closed
        self._closed = False
        self._lost = False
        # Daemon: a callback is the user's code, and must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name="mcp-events", daemon=True)

    def put(self, callback: Callable[[], None]) -> None:
        """Have the callback run after those that came before. Never blocks; starts the thread the first time."""
        if self._queue.qsize() >= MOST_WAITING:
            if not self._lost:
                log.warning("callbacks are too slow: notifications of the server are dropped")
            self._lost = True
            return
        with self._lock:
            if not self._closed:
                self._queue.put(callback)
                if self._thread.ident is None:
                    self._thread.start()

    def _run(self) -> None:
        while True:
            # Bounded by close(), which sends the sentinel.
            callback = self._queue.get()
            if callback is None:
                return
            try:
                callback()
            except BaseException:
                # Also what is no Exception, such as SystemExit: it ends the callback, not those after it.
                log.exception("a callback for a notification failed")

    def close(self, deadline: Deadline) -> None:
        """End the thread after what is waiting: it finds a sentinel. A callback that lasts longer is left behind."""
        with self._lock:
            first, self._closed = not self._closed, True
        if first:
            self._queue.put(None)
        if self._thread.ident is not None and self._thread is not threading.current_thread():
            self._thread.join(deadline.left())


# -- setup -----------------------------------------------------------------------------------------------


class Setup(NamedTuple):
    """What a client was given.

    Attributes:
        introduction: what the client says of itself.
        answers: the user's functions for the server's questions.
        events, on_log, on_change: the user's callbacks, and the thread that calls them.
        timeout: seconds that a call waits where it does not say.
        ping_interval: seconds between pings, or None.
        cache: the results that may be used again, or None.
        kinds: values of `resultType` that an extension has, beside those of the protocol.
        probe_timeout: seconds in which a server must say that it is of the stateless era.
    """

    introduction: Introduction
    answers: Answers
    events: Events
    on_log: Callable[[JsonObject], None] | None
    on_change: Callable[[str, JsonObject], None] | None
    timeout: float | None
    ping_interval: float | None
    cache: CacheView | None = None
    kinds: frozenset[str] = frozenset()
    probe_timeout: float = 5.0


# -- answers ---------------------------------------------------------------------------------------------


Answer = Callable[[Any, Any], Any]

DEFAULT_RATES: Final[Mapping[str, Rate]] = MappingProxyType(
    {
        "sampling/createMessage": Rate(per_second=1_000, burst=10_000),
        "elicitation/create": Rate(per_second=1_000, burst=10_000),
    }
)
"""Per conversation. Generous: only a flood meets them."""


class Answers:
    """What a client was given to answer with; the capabilities that it declares follow from that.

    Threads: any.
    """

    def __init__(
        self,
        roots_source: Any,
        sample: Callable[..., Any] | None,
        elicit: Callable[..., Any] | None,
        open_url: Callable[..., Any] | None,
        rates: Mapping[str, Rate] | None,
    ) -> None:
        self._lock = threading.Lock()  # guards _buckets
        self._buckets = {method: TokenBucket(rate) for method, rate in {**DEFAULT_RATES, **(rates or {})}.items()}
        self.elicitors = elicitation.Elicitors(elicit, open_url)
        self._capabilities: JsonObject = {}
        self._answers: dict[str, Answer] = {}
        if roots_source is not None:
            self._capabilities["roots"] = roots.capability()
            self._answers["roots/list"] = lambda ctx, params: roots.roots_list(roots_source, ctx, params)
        if sample is not None:
            self._capabilities["sampling"] = sampling.capability()
            self._answers["sampling/createMessage"] = lambda ctx, p: sampling.sampling_create_message(sample, ctx, p)
        if elicit is not None or open_url is not None:
            # MUST: declare elicitation, with the modes that are supported (client/elicitation#capabilities)
            self._capabilities["elicitation"] = elicitation.capability(elicit is not None, open_url is not None)
            self._answers["elicitation/create"] = lambda ctx, p: elicitation.elicitation_create(self.elicitors, ctx, p)

    def capabilities(self) -> JsonObject:
        """The capabilities that follow from what was given."""
        return dict(self._capabilities)

    def __call__(self, ctx: Answering, incoming: Incoming) -> JsonObject:
        """The result of a request of the server. Raises Refusal, or whatever the user's function raises."""
        answer = self._answers.get(incoming.method)
        if answer is None:
            raise MethodNotFound(f"Method not found: {incoming.method}", {"method": incoming.method})
        self._spend(incoming.method)
        result: JsonObject = answer(ctx, incoming.params)
        return result

    def _spend(self, method: str) -> None:
        # SHOULD: rate limit what the server asks (client/sampling and client/elicitation #security-considerations)
        with self._lock:
            wait = self._buckets[method].take() if method in self._buckets else 0.0
        if wait:
            raise RateLimited(wait)


def merged(first: JsonObject, second: JsonObject) -> JsonObject:
    """Two sets of capabilities as one: objects that both have are merged, else the second counts."""
    both = dict(first)
    for key, value in second.items():
        mine = both.get(key)
        both[key] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both
