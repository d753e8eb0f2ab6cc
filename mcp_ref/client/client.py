"""Client: the table of contents of everything that a client does.

Spec:      client/index (2024-11-05), basic/lifecycle, server/*, client/*
Upholds:   spec_notes/basic/lifecycle.md, the rows on the client
Not here:  what a method does (each page's module); the conversations (client/connecting); several servers at once
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from mcp_ref._version import __version__
from mcp_ref.basic import subscriptions as listening
from mcp_ref.basic import utilities as ping
from mcp_ref.basic import versioning as discover
from mcp_ref.basic.lifecycle import Introduction
from mcp_ref.basic.transports.transport import Tap
from mcp_ref.basic.versioning import checked_extensions
from mcp_ref.client import answers, elicitation, roots
from mcp_ref.client import config as targets
from mcp_ref.client.answers import Events, Setup
from mcp_ref.client.connecting import Connection, Conversation
from mcp_ref.client.stateless import Stateless
from mcp_ref.errors import ErrorResponse, HttpStatusError, LocalProtocolError, McpError, SessionExpired, TransportClosed
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.rates import Rate
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Options
from mcp_ref.revisions import REVISIONS, Revision, in_order
from mcp_ref.server import prompts, resources, tools
from mcp_ref.server.utilities import completion
from mcp_ref.server.utilities import logging as log_page
from mcp_ref.server.utilities.caching import CacheView, ResultCache


class Client:
    """A client of one server.

    Args:
        target: a command as a list of strings, a `Command` (with environment, folder and what becomes of stderr), a
            URL, a `Url` (with headers, proxies and what TLS needs), a `Server` in this process, or a transport.
        revision: the revision to speak, or several to choose from; None: all. Of several it is the newest that both
            sides have.
        timeout: seconds that a call waits where it does not say; None for no limit.
        connect_timeout: seconds for the opening, in all.
        roots: folders the server may work in: paths, `file://` URIs or `Root` objects, or a function returning them.
        sample: `sample(params)` answers `sampling/createMessage`; see client/sampling.
        elicit: `elicit(message, schema)` answers form elicitation; see client/elicitation.
        open_url: `open_url(url, message, host)` asks the user, and opens the URL; see client/elicitation.
        on_log: called with the params of each log message; in the stateless era giving it asks for all of them.
        on_change: called as `(method, params)` for every other notification of the server.
        on_reopen: called when another connection was made: the server had ended the session over HTTP, and what that
            knew is lost (subscriptions, the log level); or, in the stateless era, its process had died. What is sent
            again then: client/resending.
        capabilities: members laid over those that follow from the handlers, such as `{"sampling": {"tools": {}}}` or
            `{"experimental": {...}}`.
        extensions: settings by the name of the extension, such as `{"com.example/audit": {}}` (stateless era).
        result_types: values of `resultType` that an extension of yours has; any other is an error (stateless era).
        cache: whether to keep results for as long as the server says; a `ResultCache` is kept by several clients
            (stateless era).
        probe_timeout: seconds in which a server over stdio must answer `server/discover`, or counts as older.
        info: members of our `Implementation`, over the name and version of this library.
        rates: limits on what the server may ask, by method, over `client.answers.DEFAULT_RATES`.
        ping_interval: seconds between pings; None for none. A ping that is not answered ends the connection.
        trace: a path, an open file, a callable of one `TraceEvent`, or a `Recorder`. A transport that is given as the
            target is not traced by this: it takes a tap of its own.

    Nothing happens before `connect()`, or `with`. Threads: any thread may use a client.
    """

    def __init__(
        self,
        target: Any,
        *,
        revision: str | Revision | Sequence[str | Revision] | None = None,
        timeout: float | None = 60,
        connect_timeout: float | None = 10,
        roots: Any = None,
        sample: Callable[..., Any] | None = None,
        elicit: Callable[..., Any] | None = None,
        open_url: Callable[..., Any] | None = None,
        on_log: Callable[[JsonObject], None] | None = None,
        on_change: Callable[[str, JsonObject], None] | None = None,
        on_reopen: Callable[[], None] | None = None,
        capabilities: JsonObject | None = None,
        extensions: Mapping[str, JsonObject] | None = None,
        result_types: Sequence[str] = (),
        cache: bool | ResultCache = True,
        probe_timeout: float = 5,
        info: JsonObject | None = None,
        rates: Mapping[str, Rate] | None = None,
        ping_interval: float | None = None,
        trace: Any = None,
    ) -> None:
        self._target, self._trace = target, trace
        self._recorder: Any = None
        self._on_reopen = on_reopen
        self._answers = answers.Answers(roots, sample, elicit, open_url, rates)
        declared = answers.merged(self._answers.capabilities(), capabilities or {})
        if extensions:
            declared = {**declared, "extensions": checked_extensions(extensions)}
        introduction = Introduction({"name": "mcp_ref", "version": __version__, **(info or {})}, declared)
        self._events = Events()
        self._setup = Setup(
            introduction,
            self._answers,
            self._events,
            on_log,
            on_change,
            timeout,
            ping_interval,
            _cache_view(cache, target),
            frozenset(result_types),
            probe_timeout,
        )
        self._connection = Connection(
            self._setup, target, _supported(revision), connect_timeout, self._tap, self._reopened
        )
        self.listenings: weakref.WeakSet[listening.Listening] = weakref.WeakSet()
        self.open_stream = self._connection.open_stream

    # basic/utilities/ping
    ping = ping.ping
    # basic/patterns/subscriptions
    listen = listening.listen
    # server/discover
    discover = discover.discover
    # server/tools
    list_tools = tools.list_tools
    list_tools_page = tools.list_tools_page
    call_tool = tools.call_tool
    # server/resources
    list_resources = resources.list_resources
    list_resources_page = resources.list_resources_page
    list_resource_templates = resources.list_resource_templates
    list_resource_templates_page = resources.list_resource_templates_page
    read_resource = resources.read_resource
    subscribe_resource = resources.subscribe_resource
    unsubscribe_resource = resources.unsubscribe_resource
    # server/prompts
    list_prompts = prompts.list_prompts
    list_prompts_page = prompts.list_prompts_page
    get_prompt = prompts.get_prompt
    # server/utilities
    complete = completion.complete
    set_log_level = log_page.set_log_level
    # client/roots
    roots_changed = roots.roots_changed
    # client/elicitation
    visit_required = elicitation.visit_required

    # -- opening and closing (basic/lifecycle)

    def connect(self) -> Self:
        """Connect, and hold the opening conversation: `server/discover`, or with an older server `initialize`, its
        answer and `notifications/initialized`.

        With a URL, Streamable HTTP is tried first, and HTTP+SSE where the answer says that the server is older still.

        Blocks: until the session is open, at most `connect_timeout` seconds.
        Raises: TransportClosed (the server could not be started or reached, or died), RequestTimeout, ErrorResponse,
            RemoteProtocolError (it speaks no revision of ours). The connection is then closed.
        Spec: basic/lifecycle#initialization, basic/transports#backwards-compatibility
        """
        try:
            self._connection.open()
        except BaseException:
            # MUST NOT: cancel initialize; so the transport is closed (basic/utilities/cancellation)
            self.close()
            raise
        return self

    def _reopened(self) -> None:
        if self._on_reopen is not None:
            self._events.put(self._on_reopen)

    def close(self, timeout: float = 5) -> None:
        """End the session. Idempotent; any thread may call it, also while others wait for answers.

        Blocks: at most `timeout` seconds; over stdio that includes the server's own end.
        Why each thread ends: see `Peer.close` for the workers and the transport; `mcp-ping` waits on an event that is
        set here, `mcp-events` finds a sentinel, and so does `mcp-trace` of a recorder that this client made.
        Spec: basic/lifecycle#shutdown
        """
        deadline = Deadline(timeout)
        for each in list(self.listenings):
            each.close()
        self._connection.close(deadline)
        self._events.close(deadline)
        if self._recorder is not None and self._recorder is not self._trace:
            self._recorder.close(deadline.left())

    def _tap(self, transport: str) -> Tap | None:
        """What the transport shows its traffic to, where the client was given a `trace`."""
        if self._trace is None:
            return None
        if self._recorder is None:
            from mcp_ref.trace.record import recorder

            self._recorder = recorder(self._trace)
        tap: Tap = self._recorder.tap("server", transport)
        return tap

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- what was agreed

    @property
    def session(self) -> Conversation:
        """The conversation that is going on; LocalProtocolError before `connect()`, TransportClosed after `close()`."""
        return self._connection.live()

    @property
    def revision(self) -> Revision:
        """The revision agreed with the server."""
        return self.session.peer.terms.revision

    @property
    def capabilities(self) -> JsonObject:
        """What this client declared, as the agreed revision knows it."""
        return self.session.peer.terms.local

    @property
    def server_capabilities(self) -> JsonObject:
        """What the server declared, as the agreed revision knows it."""
        return self.session.peer.terms.remote

    @property
    def peer_capabilities(self) -> JsonObject:
        """The same, under the name that both roles have."""
        return self.session.peer.terms.remote

    @property
    def server_info(self) -> JsonObject:
        """What the server said of itself: an `Implementation`."""
        return self.session.server_info

    @property
    def instructions(self) -> str | None:
        """The server's hints for the model, or None."""
        return self.session.instructions

    @property
    def tool_definitions(self) -> dict[str, Any]:
        """Tools by name, as last listed in this session; what `call_tool` checks structured output with."""
        return self.session.tool_definitions

    @property
    def elicitors(self) -> elicitation.Elicitors:
        """The user's functions for elicitation, and the visits under way."""
        return self._answers.elicitors

    # -- messages of any kind

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject:
        """Send a request and wait for its result; every other call of this class goes through here.

        Args:
            method, params: as on the wire. A method of the protocol must exist in the revision agreed, and its
                capability must be declared; params are shaped for the revision. Any other name passes as it is.
            options: see `mcp_ref.basic.methods.Options`.

        Returns: the `result` of the response, checked against the type of the page.
        Blocks: until the response, at most `timeout` seconds; the time stands still while this client answers a
            question of the server.
        Raises: LocalProtocolError (nothing was sent), ErrorResponse, RemoteProtocolError, RequestTimeout,
            RequestCancelled, TransportClosed.
        Threads: any.
        """
        connection = self._connection
        session = connection.current or connection.live()
        try:
            return session.ask(method, params, options)
        except SessionExpired:
            return connection.reopen(session).ask(method, params, options)
        except (TransportClosed, HttpStatusError, ErrorResponse) as problem:
            return connection.ask_again(session, problem, method, params, options)

    def ask_for_logs(self, level: str) -> None:
        """Have each request say, from now on, that it wants log messages of this level and above (stateless era)."""
        session = self.session
        if isinstance(session, Stateless):
            session.log_level = level

    def answers_to(self, result: JsonObject) -> JsonObject:
        """What this client's handlers answer to a result that asks for input, for a call that is driven by hand:

        >>> result = client.call_tool("book", {}, by_hand=True)
        >>> while result.get("resultType") == "input_required":
        ...     answers = client.answers_to(result)
        ...     result = client.call_tool("book", {}, by_hand=True, input_responses=answers,
        ...                               request_state=result["requestState"])

        The state may be kept meanwhile, and the next round be sent by another process.

        Blocks: as long as the handlers do. Raises: InputRefused, RemoteProtocolError; LocalProtocolError in the session
            era, which has no such results.
        Spec: basic/patterns/mrtr (2026-07-28)
        """
        session = self.session
        if not isinstance(session, Stateless):
            raise LocalProtocolError(f"in {self.revision} no result asks for input")
        return session.answers_to(result)

    def request_batch(
        self, calls: Sequence[tuple[str, JsonObject | None]], options: Options | None = None
    ) -> list[JsonObject | McpError]:
        """Send several requests as one batch, in revision 2025-03-26; the results or errors in the order asked.

        Blocks and raises: as `request`, for the whole batch; an error response to one of them is in the list.
        Spec: 2025-03-26/basic/index#batching
        """
        return self.session.peer.request_batch(list(calls), options or {})

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification. Blocks until it is written. Raises: LocalProtocolError, TransportClosed."""
        session = self.session
        try:
            session.peer.notify(method, params)
        except SessionExpired:
            self._connection.reopen(session).peer.notify(method, params)


def _supported(revision: str | Revision | Sequence[str | Revision] | None) -> tuple[Revision, ...]:
    return in_order(
        [revision] if isinstance(revision, str | Revision) else tuple(REVISIONS) if revision is None else revision
    )


def _cache_view(cache: bool | ResultCache, target: Any) -> CacheView | None:
    """What of a cache is for this client: the results of its server, and of its user."""
    if cache is False:
        return None
    kept = ResultCache() if cache is True else cache
    # MUST NOT: shared across authorization contexts; nobody can tell them apart here, so this view is one
    return kept.for_(repr(targets.server_key(target, whole=True) or os.urandom(16).hex()))
