"""Client: the table of contents of everything that a client does, and the way of one call.

Spec:      client/index (2024-11-05), basic/lifecycle, server/*, client/*
Upholds:   spec_notes/basic/lifecycle.md, the rows on the client; spec_notes/basic/patterns/mrtr.md, the same
Not here:  what a method does (each page); how a server is connected to, and what is sent again
           (client/connecting); the conversations of the two eras (client/session); several servers at once
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from mcp_ref._version import __version__
from mcp_ref.client import input_rounds, reconnect, targets
from mcp_ref.client.connecting import Reconnector, server_key
from mcp_ref.client.input_rounds import MAX_PAUSE
from mcp_ref.client.session import Answers, Conversation, Stateless
from mcp_ref.client.targets import Command, Url
from mcp_ref.errors import (
    ErrorResponse,
    HttpStatusError,
    InvalidParams,
    LocalProtocolError,
    McpError,
    RemoteProtocolError,
    SessionExpired,
    TransportClosed,
)
from mcp_ref.kit.threads.arguments import check_command, check_kind, check_limits
from mcp_ref.kit.threads.callbacks import CallbackThread
from mcp_ref.kit.threads.deadline import Clock, Deadline, Rate
from mcp_ref.pages.basic import batching, mrtr, subscriptions, utilities, versioning
from mcp_ref.pages.basic.extensions import Extension, extensions_of
from mcp_ref.pages.basic.lifecycle import Introduction
from mcp_ref.pages.client import elicitation
from mcp_ref.pages.client import roots as roots_page
from mcp_ref.pages.extensions import OF_SKILLS, loaded_later
from mcp_ref.pages.server import prompts, resources, tools
from mcp_ref.pages.server.utilities import completion, logging
from mcp_ref.pages.server.utilities.caching import CACHEABLE, CacheView, ResultCache
from mcp_ref.revisions import REVISIONS, Revision, in_order
from mcp_ref.tasks import handle as following
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options, check_options
from mcp_ref.wire.transport import is_transport

if TYPE_CHECKING:
    import requests

    from mcp_ref.client.tasks import Follower
    from mcp_ref.recording.record import Recorder, Tap, Trace


class Client:
    """A client of one server.

    What every call does. It sends one or more requests and *blocks* until the answer is there. One time limit,
    `timeout=`, holds for everything that the call has to do; it stands still only while a function of yours answers a
    question of the server. Every call accepts the options of `mcp_ref.Options`, and any *thread* may make it.

    Every call *raises* LocalProtocolError (the specification forbids it here; nothing was sent), ErrorResponse (the
    server answered with an error), RemoteProtocolError (it answered what the specification forbids), RequestTimeout,
    RequestCancelled, TransportClosed; and in the stateless era InputRefused (a function of yours refused what the
    server asked first). The docstring of a call says what is particular to it.

    Args:
        target: a command as a list of strings, a `Command` (with environment, folder and what becomes of stderr), a
            URL, a `Url` (with headers, proxies and what TLS needs), a `Server` (or `Replay`) here, or a transport.
        session: a `requests.Session` to send by to a URL, as you have set it up; it is neither changed nor closed. What
            an adapter of yours cannot do stands at `pages.basic.transports.streamable_http.client.HttpOptions`.
        auth: for a URL, what authorizes the requests to it: a bearer token, a function that gives one, a callable of a
            prepared request as `requests` has them, or what gets tokens by itself, such as `OAuth("My script")`.

        What is spoken:
        revision: the revision, or several to choose from; None: all. Of several it is the newest that both sides have.
        info: members of our `Implementation`, over the name and version of this library.
        capabilities: members laid over those that follow from the functions given, such as
            `{"sampling": {"tools": {}}}` or `{"experimental": {...}}`.
        extensions: settings by name, such as `{"com.example/audit": {}}`, or a list of `Extension` values.
        result_types: values of `resultType` that an extension of yours has; any other is an error (stateless era).
        tasks: whether to follow tasks: `call_tool` then waits for those that the server makes of a call, and
            `call_tool_as_task` returns a handle.

        How long it waits, in seconds; None for no limit:
        timeout: for a call that does not name a limit of its own.
        connect_timeout: for opening the conversation, in all.
        probe_timeout: over stdio, a server that has not answered `server/discover` by then is also asked `initialize`.
        ping_interval: between pings; None for none. A ping that is not answered ends the connection (session era).

        Functions that answer the server's questions:
        roots: folders the server may work in: paths, `file://` URIs or `Root` objects, or a function returning them.
        sample: `sample(params)` answers `sampling/createMessage`; see client/sampling.
        elicit: `elicit(message, schema)` answers form elicitation; see client/elicitation.
        open_url: `open_url(url, message, host)` asks the user, and opens the URL; see client/elicitation.
        rates: limits on what the server may ask, by method, over `client.session.DEFAULT_RATES`.

        Callbacks, which run one after the other in a thread of their own:
        on_log: called with the params of each log message; in the stateless era giving it asks for all of them.
        on_change: called as `(method, params)` for every other notification of the server.
        on_close: called once with the TransportClosed when a conversation has ended that nobody closed: its text says
            why. In the stateless era the next call opens another one; over HTTP there it is never called.
        on_reopen: called after another connection was opened: the server had ended the session over HTTP, and what that
            knew is lost (subscriptions, the log level); or, in the stateless era, its process had died. What is sent
            again then: `client.reconnect.may_resend`.

        What is kept:
        cache: whether to keep results for as long as the server says (stateless era); a `ResultCache` can be shared.
        trace: a path, an open file, a callable of one `TraceEvent`, or a `Recorder`; not of a transport as the target.

    What a program calls:
        from_config, connect, close; revision, server_info, server_capabilities, instructions; list_tools, call_tool;
        list_resources, list_resource_templates, read_resource, subscribe_resource, unsubscribe_resource; list_prompts,
        get_prompt, complete; list_skills, get_skill, read_skill, read_directory; `list_..._page` for one page; listen,
        call_tool_as_task, task, list_tasks, set_log_level, roots_changed, visit_required, ping, discover; and for any
        method request, request_batch, notify.
        The other members are for the rest of this package, and may change in any version.
    """

    def __init__(
        self,
        target: targets.Target,
        *,
        session: requests.Session | None = None,
        auth: Any = None,
        revision: str | Revision | Sequence[str | Revision] | None = None,
        info: JsonObject | None = None,
        capabilities: JsonObject | None = None,
        extensions: Mapping[str, JsonObject] | Sequence[Extension] | None = None,
        result_types: Sequence[str] = (),
        tasks: bool = False,
        timeout: float | None = 60,
        connect_timeout: float | None = 10,
        probe_timeout: float = 1,
        ping_interval: float | None = None,
        roots: Sequence[str | os.PathLike[str] | Mapping[str, Any]] | Callable[..., Any] | None = None,
        sample: Callable[..., Any] | None = None,
        elicit: Callable[..., Any] | None = None,
        open_url: Callable[..., Any] | None = None,
        rates: Mapping[str, Rate] | None = None,
        on_log: Callable[[JsonObject], None] | None = None,
        on_change: Callable[[str, JsonObject], None] | None = None,
        on_close: Callable[[McpError], None] | None = None,
        on_reopen: Callable[[], None] | None = None,
        cache: bool | ResultCache = True,
        trace: Trace | None = None,
    ) -> None:
        # What was given does not change; the conversations read it.
        self.target = known_target(target, session)
        check_limits(timeout=timeout, connect_timeout=connect_timeout)
        check_limits(probe_timeout=probe_timeout, ping_interval=ping_interval)
        check_kind("a function", sample=sample, elicit=elicit, open_url=open_url)
        check_kind("a function", on_log=on_log, on_change=on_change, on_close=on_close, on_reopen=on_reopen)
        check_kind("a dict", info=info, capabilities=capabilities)
        check_kind("a bool or a ResultCache", cache=cache)
        self.revisions = in_order(tuple(REVISIONS) if revision is None else revision)
        self.result_types = frozenset(result_types)
        self.extensions: dict[str, Extension] = extensions_of(extensions) if extensions else {}
        if answering := [name for name, each in self.extensions.items() if each.answers]:
            raise ValueError(f"a client does not answer for an extension: give answers= of {answering} to the server")
        if auth is not None:
            self.target, using = targets.authorized(self.target, auth, self.revisions)
            self.extensions = {**extensions_of(using), **self.extensions}
        self.timeout, self.connect_timeout = timeout, connect_timeout
        self.probe_timeout, self.ping_interval = probe_timeout, ping_interval
        self.on_log, self.on_change = on_log, on_change
        self.on_close, self.on_reopen = on_close, on_reopen
        self.answers: Answers = Answers(roots, sample, elicit, open_url, rates)
        self.follower: Follower | None = None
        if tasks:
            from mcp_ref.client.tasks import Follower
            from mcp_ref.pages.extensions.tasks import TASKS

            self.extensions[TASKS.name] = TASKS
            self.follower = self.answers = Follower(self, self.answers)
        declared = self.answers.capabilities
        if capabilities:
            declared = targets.merged(declared, capabilities)
        if self.extensions:
            declared = {**declared, "extensions": {name: each.settings for name, each in self.extensions.items()}}
        about = {"name": "mcp_ref", "version": __version__, **(info or {})}
        self.introduction = Introduction(about, declared, None, self.extensions)
        self._cache, self._trace = cache, trace
        self._process: int | None = None  # in which it was connected
        self._connects = count()
        self._recorder: Recorder | None = None

        # What the conversations share.
        self.events = CallbackThread("mcp-events")
        self.clock = Clock(MAX_PAUSE)
        # The least level of log messages that each request asks for in the stateless era; None: it asks for none.
        self.log_level: str | None = None if on_log is None else logging.LEVELS[0]
        # Tools by name, as last listed; replaced when the server says that the list has changed.
        self.tool_definitions: dict[str, Any] = {}
        self.listenings: weakref.WeakSet[subscriptions.Listening] = weakref.WeakSet()
        self.reconnector = Reconnector(self)

    # basic/utilities/ping
    ping = utilities.ping
    # basic/index#batching (2025-03-26)
    request_batch = batching.request_batch
    # basic/patterns/subscriptions
    listen = subscriptions.listen
    connection_for_stream = reconnect.connection_for_stream
    # server/discover
    discover = versioning.discover
    # server/tools
    list_tools = tools.list_tools
    list_tools_page = tools.list_tools_page
    call_tool = tools.call_tool
    # basic/utilities/tasks
    call_tool_as_task = following.call_tool_as_task
    task = following.task
    list_tasks = following.list_tasks
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
    set_log_level = logging.set_log_level
    # basic/patterns/mrtr
    answers_to = input_rounds.answers_to
    # client/roots
    roots_changed = roots_page.roots_changed
    # client/elicitation
    visit_required = elicitation.visit_required
    # extensions/skills
    list_skills, list_skills_page, get_skill, read_skill, read_directory = loaded_later(*OF_SKILLS)

    @classmethod
    def from_config(cls, path: str | os.PathLike[str], server: str, **options: Any) -> Self:
        """Make a client of the server of that name in a file like `mcpServers`; see `client.entries.read_entries`.
        Options of the class that are given come before what the file says.

        Raises: OSError, ValueError: the file cannot be read, or has no such server, or its entry is wrong.
        """
        from mcp_ref.client.entries import entry_of

        return cls(**{**entry_of(path, server).for_a_client(), **options})

    # -- opening and closing (basic/lifecycle)

    def connect(self) -> Self:
        """Connect, and hold the opening conversation: `server/discover`, or with an older server `initialize`, its
        answer and `notifications/initialized`.

        With a URL, Streamable HTTP is tried first, and HTTP+SSE if the answer says that the server is older still.

        Blocks: until the conversation is open, at most `connect_timeout` seconds; where that fails, as `close()` after.
        Raises: as any call; RemoteProtocolError also if the two have no revision in common. The client is then closed;
            not so if this is not the first time that it is called (LocalProtocolError).
        Spec: basic/lifecycle#initialization, basic/transports#backwards-compatibility
        """
        if next(self._connects):
            # And not closed for that: it may be connected, and used, by another thread.
            raise LocalProtocolError("a client can connect only once; make another one")
        self._process = os.getpid()
        try:
            self.reconnector.open()
        except BaseException:
            # A client MUST NOT cancel `initialize`; so the transport is closed
            # (basic/utilities/cancellation#behavior-requirements)
            self.close()
            raise
        return self

    def close(self, timeout: float = 5) -> None:
        """End the conversation. Idempotent; any thread may call it, also while others wait for answers. In a process
        that was forked from the one that connected it does nothing.

        Blocks: at most `timeout` seconds; over stdio that includes the server's own end.
        Why each thread ends: see `Connection.close` for the workers and the transport; `mcp-ping` waits on an event
        that is set here, `mcp-events` finds a sentinel, and so does `mcp-trace` of a recorder that this client made.
        Spec: basic/lifecycle#shutdown
        """
        if self._process not in (None, os.getpid()):
            return
        deadline = Deadline(timeout)
        for each in list(self.listenings):
            each.close()
        self.reconnector.close(deadline)
        if self.follower is not None:
            self.follower.close(deadline.left())
        self.events.close(deadline)
        if self._recorder is not None and self._recorder is not self._trace:
            self._recorder.close(deadline.left())

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __repr__(self) -> str:
        session, state = self.reconnector.current, "closed" if self.reconnector.closed else "not connected"
        if session is not None and state != "closed":
            state = f"{session.revision}, {session.server_info.get('name', 'a server without a name')}"
        return f"<Client of {targets.shown_target(self.target)}: {state}>"

    def tap(self, transport: str, peer: str = "server") -> Tap | None:
        """Return the tap to which a transport of that name shows its traffic; None without `trace=`."""
        if self._trace is None:
            return None
        from mcp_ref.recording.record import recorder

        self._recorder = self._recorder or recorder(self._trace)
        return self._recorder.tap(peer, transport)

    # -- who it is with

    @property
    def session(self) -> Conversation:
        """Return the current conversation; LocalProtocolError before `connect()`, TransportClosed after `close()`."""
        if (current := self.reconnector.current) is not None:
            return current
        if self.reconnector.closed:
            raise TransportClosed("the client was closed")
        raise LocalProtocolError("the client is not connected: call connect(), or use it in a with statement")

    @property
    def revision(self) -> Revision:
        """Return the revision in use with the server."""
        return self.session.connection.terms.revision

    @property
    def capabilities(self) -> JsonObject:
        """Return what this client declared, as that revision knows it."""
        return self.session.connection.terms.local

    @property
    def server_capabilities(self) -> JsonObject:
        """Return what the server declared, as that revision knows it."""
        return self.session.connection.terms.remote

    # The name that a server's `Context` has for the same.
    peer_capabilities = server_capabilities

    @property
    def server_info(self) -> JsonObject:
        """Return what the server said of itself: an `Implementation`."""
        return self.session.server_info

    @property
    def instructions(self) -> str | None:
        """Return the server's hints for the model, or None."""
        return self.session.instructions

    @cached_property
    def cache(self) -> CacheView | None:
        """Return the kept results of this server; None until there is one, and without `cache`."""
        kept = ResultCache() if self._cache is True else self._cache
        # A private result MUST NOT be shared across authorization contexts; each client counts as one, and each login
        # (server/utilities/caching#cache-scope-field)
        server = repr(server_key(self.target, whole=True) or os.urandom(16).hex())
        return kept.for_(server, targets.owner_of(self.target)) if isinstance(kept, ResultCache) else None

    # -- messages of any kind

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject:
        """Send a request and wait for its result; every other call of this class goes through here.

        Args:
            method, params: as on the wire. A method of the protocol must exist in the revision in use, and its
                capability must be declared; params are shaped for the revision. Any other name passes as it is.

        Returns: the `result` of the response, checked against the type of the page.
        """
        if options:
            check_options(options, method)
        session = self.reconnector.current or self.session
        options, known = options or {}, self.tool_definitions
        # One time limit for the call, whatever it has to do: connect again, answer questions, be sent a second time. It
        # stands still while a function of the user's answers, but not for the calls that this function makes.
        deadline = session.connection.begin_wait(options)
        for attempt in count(1):
            try:
                if isinstance(session, Stateless):
                    return self._request_alone(session, method, params, options, deadline)
                return session.connection.request(method, params, options, deadline=deadline)
            except (TransportClosed, HttpStatusError, ErrorResponse) as problem:
                # First of all: a failure to connect again must not hide that this may have been carried out.
                if not reconnect.may_resend(problem, method, params, options, known):
                    raise
                # MUST: a request whose stream broke off is sent again as a new request, with another id
                # (2026-07-28/changelog#major-changes)
                session = reconnect.after(self.reconnector, problem, session, attempt, deadline)
        raise AssertionError("it counts without end")

    def _request_alone(
        self, session: Stateless, method: str, params: JsonObject | None, options: Options, deadline: Deadline
    ) -> JsonObject:
        """Make one attempt at a call in the stateless era: find a result that was kept, or go through the rounds."""
        # 1. What the request says beside its params.
        if self.log_level is not None and "log_level" not in options:
            options = {**options, "log_level": self.log_level}
        asked: JsonObject | None = params
        for option, field in (("input_responses", "inputResponses"), ("request_state", "requestState")):
            if (given := options.get(option)) is not None:
                asked = {**(asked or {}), field: given}
        # 2. An earlier answer that is still fresh.
        cache = self.cache if method in CACHEABLE else None
        if cache is not None and options.get("cached", True) and (kept := cache.get(method, asked)) is not None:
            return session.usable(kept) if method == "tools/list" else kept
        cacheable = None if cache is None else cache.begin(method, asked)
        for number in count(1):
            # 3. One round is one request, sent once more if the server says what was wrong and that can be mended.
            try:
                result = session.connection.request(method, asked, options, deadline=deadline)
            except ErrorResponse as refusal:
                if cache is not None and refusal.code == InvalidParams.code and "cursor" in (params or {}):
                    # SHOULD: discard the pages of a list if a cursor is refused
                    # (server/utilities/caching#interaction-with-pagination)
                    cache.forget_pages(method)
                if not reconnect.mended(session, refusal, method, options, deadline):
                    raise
                result = session.connection.request(method, asked, options, deadline=deadline)
            if result.get("resultType") != "input_required" or options.get("by_hand"):
                break
            # 4. The server needs input first: our functions give it, and the next round brings it there.
            if number == mrtr.MAX_ROUNDS:
                raise RemoteProtocolError(f"the server asked for input {number} times; is each question a new one?")
            # MUST: the next round is a new request, with another id
            # (basic/patterns/mrtr#client-requirements-basic-workflow)
            asked = input_rounds.next_round(session, asked, result, options.get("cancel"), deadline)
            # A client MUST NOT keep a result that depends on inputResponses (server/utilities/caching#cache-key)
            cacheable = None
        # 5. The result, for now and for later.
        if cache is not None and cacheable is not None:
            cache.put(cacheable, result)
        return session.usable(result) if method == "tools/list" else result

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification; returns when it is written."""
        session = self.session
        try:
            session.connection.notify(method, params)
        except SessionExpired as problem:
            session = reconnect.after(self.reconnector, problem, session, 1, Deadline(self.timeout))
            session.connection.notify(method, params)


def known_target(target: Any, session: requests.Session | None = None) -> Any:
    """Return a target, where it is a list of strings or a URL as a `Command` or `Url` with the session to send by."""
    if isinstance(target, str | Url) or session is not None:
        return targets.known_url(target, session)
    if isinstance(target, list | tuple) and not isinstance(target, Command):
        target = Command(target)
    if isinstance(target, Command):
        check_command(target.argv, target.env)
    elif not is_transport(target) and not (
        # A Server, or what takes conversations as one does. (A Client connects as well, and has none of them.)
        callable(getattr(target, "connect", None)) and isinstance(getattr(target, "sessions", None), tuple)
    ):
        raise targets.not_a_target(target)
    return target
