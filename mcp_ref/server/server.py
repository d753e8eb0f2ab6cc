"""Server: features that are registered once and offered to any number of clients; a table of contents.

Spec:      server/index, basic/lifecycle, server/utilities/caching
Upholds:   the rows of the server's pages on capabilities and on list-changed notifications
Not here:  what a method does (each page's module); one client's conversation, and requests that stand alone
           (server/session); HTTP (server/http)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

from mcp_ref.kit.process.running import Lifespan, end_by_sigterm, leave, tell_terminal
from mcp_ref.kit.threads.arguments import check_kind, check_known, check_limits
from mcp_ref.kit.threads.deadline import Deadline, Rate, RateLimits
from mcp_ref.kit.threads.forks import check_process
from mcp_ref.kit.typed.uri_template import covers
from mcp_ref.pages.basic import mrtr
from mcp_ref.pages.basic.extensions import Extension, extensions_of
from mcp_ref.pages.basic.lifecycle import Introduction
from mcp_ref.pages.basic.subscriptions import Subscriptions
from mcp_ref.pages.basic.versioning import server_discover
from mcp_ref.pages.client import roots
from mcp_ref.pages.server import prompts, resources, tools
from mcp_ref.pages.server.utilities import completion as completion_page
from mcp_ref.pages.server.utilities import logging as log_page
from mcp_ref.pages.server.utilities.caching import CACHEABLE, CacheHint
from mcp_ref.pages.table import METHODS
from mcp_ref.revisions import REVISIONS, Revision, in_order
from mcp_ref.server.session import Context, Handler, Session, StatelessAnswerer
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.transport import MAX_MESSAGE, Transport

if TYPE_CHECKING:
    from mcp_ref.recording.record import Recorder, Tap
    from mcp_ref.server.bus import Bus
    from mcp_ref.server.http import HttpOptions, HttpService, RunOptions
    from mcp_ref.server.tasks import ServerTasks
    from mcp_ref.server.wsgi import WsgiApplication
    from mcp_ref.tasks.running import Tasks


class Feature(NamedTuple):
    """A kind of thing that is registered: the capability it means, and what announces that one comes or goes."""

    capability: str
    declared_as: JsonObject
    list_changed: str | None = None


_RESOURCES: Final = Feature(
    "resources", {"subscribe": True, "listChanged": True}, "notifications/resources/list_changed"
)
FEATURES: Final = {
    "completions": Feature("completions", {}),
    "prompts": Feature("prompts", {"listChanged": True}, "notifications/prompts/list_changed"),
    "resources": _RESOURCES,
    "templates": _RESOURCES,
    "tools": Feature("tools", {"listChanged": True}, "notifications/tools/list_changed"),
}

_LIMITED: Final = (
    *("tools/call", "completion/complete", "notifications/message", "notifications/progress"),
    # SHOULD: rate limits on task operations (basic/utilities/tasks#task-isolation-and-access-control)
    *("tasks/get", "tasks/result", "tasks/list", "tasks/cancel", "tasks/update"),
)
DEFAULT_RATE: Final = Rate(per_second=5_000, burst=50_000)
"""Per client and method: a burst as fast as a server can answer passes; what goes on like that is a flood."""
DEFAULT_RATES: Final[Mapping[str, Rate]] = MappingProxyType(dict.fromkeys(_LIMITED, DEFAULT_RATE))
"""The default rates. Give `rates=` to set your own."""

ANSWERS: Final[dict[str, Handler]] = {
    "server/discover": server_discover,
    "prompts/list": prompts.prompts_list,
    "prompts/get": prompts.prompts_get,
    "resources/list": resources.resources_list,
    "resources/templates/list": resources.resources_templates_list,
    "resources/read": resources.resources_read,
    "resources/subscribe": resources.resources_subscribe,
    "resources/unsubscribe": resources.resources_unsubscribe,
    "tools/list": tools.tools_list,
    "tools/call": tools.tools_call,
    "completion/complete": completion_page.completion_complete,
    "logging/setLevel": log_page.logging_set_level,
}
"""Which function answers which request. `initialize` and `ping` are answered by the session itself, and
`subscriptions/listen` by `StatelessAnswerer`."""


class Server:
    """A server: features that are registered once, offered to any number of clients.

    Args:
        name, version: who it is.
        revisions: the revisions that it speaks, of either era or of both; all by default.
        trace: where its traffic is recorded: a `Recorder`, a path, an open file or a callable of one `TraceEvent`; may
            be set later, as an attribute, until the server runs.

    What it says of itself:
        info: more members of its `Implementation`, such as `title`, `icons`, `websiteUrl`.
        instructions: hints for the model, given to each client.
        declare: features to declare while nothing is registered for them: tools, resources, prompts, completions.
        experimental: capabilities outside the protocol, by name.
        extensions: settings by the name of the extension, such as `{"com.example/audit": {}}`, or a list of `Extension`
            values, for those that have methods of their own; see `Context.extension`.
        mask_errors: whether the client learns only the tool's name when a tool raises (but for a `ToolError`): the
            exception's text may hold what is not the client's business. The log has it all.

    Limits:
        page_size: how many entries a page of a list holds, at least 1.
        rates: by method, over `DEFAULT_RATES`.
        max_workers: how many handlers of one client run at once.
        question_timeout: seconds that a handler's question to the client waits unless the handler says otherwise.
        ping_interval: seconds between pings to a client; None for none. Over Streamable HTTP a ping reaches only a
            client that holds a standing stream open; any other counts as lost.
        tasks: how tasks are run and kept; None: in memory, once there is a tool with `task=`.

    In the stateless era:
        cache: how long clients may keep results, by method; see `CacheHint`.
        state_keys: what signs the `requestState` of multi round-trip requests; processes of the same `name` that share
            them can answer each other's: `StateKeys.from_file`, `StateKeys.from_env`. None: a random key.

    In several processes:
        bus: carries what is announced to the clients of all processes of the same `name`; see `RedisBus`. None: those
            of this process are told. It is listened to from the first client, or service, to `close`.

    What a program calls:
        tool, resource, prompt, completion, roots_changed, lifespan: decorators; remove_tool, remove_resource,
        remove_prompt; run, serve_http, wsgi, connect, close; announce, log, resource_updated; extend, state_keys.
        The other members are for the rest of this package, and may change in any version.

    Threads: any thread may register, unregister and announce, also while clients are connected.
    """

    context_type: type = Context

    def __init__(
        self,
        name: str,
        version: str = "0",
        *,
        revisions: str | Revision | Sequence[str | Revision] = tuple(REVISIONS),
        trace: Any = None,
        # what it says of itself
        info: JsonObject | None = None,
        instructions: str | None = None,
        declare: Sequence[str] = (),
        experimental: JsonObject | None = None,
        extensions: Mapping[str, JsonObject] | Sequence[Extension | Any] | None = None,
        mask_errors: bool = False,
        # limits
        page_size: int = 100,
        rates: Mapping[str, Rate] | None = None,
        max_workers: int = 64,
        question_timeout: float | None = 300,
        ping_interval: float | None = None,
        tasks: Tasks | None = None,
        # in the stateless era
        cache: Mapping[str, CacheHint] | None = None,
        state_keys: mrtr.StateKeys | Sequence[bytes] | None = None,
        # in several processes
        bus: Bus | None = None,
    ) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f'the name of a server must be a string, such as Server("weather"), not {name!r}')
        check_kind("a string", version=version, instructions=instructions)
        check_kind("a dict", info=info, experimental=experimental, rates=rates, cache=cache)
        check_kind("a whole number of at least 1", page_size=page_size, max_workers=max_workers)
        check_kind("a list of strings", declare=declare)
        check_limits(question_timeout=question_timeout, ping_interval=ping_interval)
        check_known("features", declare, FEATURES)
        check_known("methods, for rates,", rates, {*METHODS, *DEFAULT_RATES})
        check_known("methods, for cache,", cache, CACHEABLE)
        self.revisions, self.trace, self.bus = in_order(revisions), trace, bus
        self.info: JsonObject = {"name": name, "version": version, **(info or {})}
        self.instructions, self.mask_errors = instructions, mask_errors
        self._experimental, self.extensions = experimental, dict[str, Extension]()
        self.page_size, self.max_workers = page_size, max_workers
        self.question_timeout, self.ping_interval = question_timeout, ping_interval
        self.limits = RateLimits({**DEFAULT_RATES, **(rates or {})})
        self.cache_hints = {method: hint.fields() for method, hint in (cache or {}).items()}
        if state_keys is not None and not isinstance(state_keys, mrtr.StateKeys):
            state_keys = mrtr.StateKeys(state_keys)
        self.given_keys = state_keys
        self.leave_bus: Callable[[], None] | None = None
        self.one_of_many = False  # whether other processes are known to serve the same clients
        # By era: an extension of the stateless era may have methods that the other one has too.
        self.handlers: dict[str, dict[str, Handler]] = {"session": ANSWERS, "stateless": ANSWERS}
        self.span: Lifespan | None = None
        self.on_roots_changed: Callable[[Context], None] | None = None
        # Guards the replacement of what follows: none of it is changed in place, so that a reader needs no lock.
        self.lock = threading.Lock()
        # What is registered, by feature and then by name or URI.
        self.registries: dict[str, dict[str, Any]] = {feature: {} for feature in FEATURES}
        self._declare = set(declare)
        self.generation = 0
        self.sessions: tuple[Session, ...] = ()  # that have not been closed
        self.services: tuple[HttpService | WsgiApplication, ...] = ()
        self.subscriptions = Subscriptions()
        self._recorder: Recorder | None = None
        self.process = os.getpid()  # in which the sessions and services are
        alone = [revision for revision in self.revisions if revision.era == "stateless"]
        self.stateless = StatelessAnswerer(self, alone) if alone else None
        for extension in extensions_of(extensions).values() if extensions else ():
            self.extend(extension)
        self.tasks: ServerTasks | None = None
        if tasks is not None:
            self.offer_tasks(tasks)

    # server/tools
    tool = tools.tool
    remove_tool = tools.remove_tool
    # server/resources
    resource = resources.resource
    remove_resource = resources.remove_resource
    resource_updated = resources.resource_updated
    # server/prompts
    prompt = prompts.prompt
    remove_prompt = prompts.remove_prompt
    # server/utilities/completion
    completion = completion_page.completion
    completion_values = completion_page.completion_values
    # server/utilities/logging
    log = log_page.log_to_all
    # basic/patterns/mrtr
    state_keys = property(mrtr.state_keys)
    # client/roots
    roots_changed = roots.when_roots_changed

    def register(self, feature: str, key: str, entry: Any, *, replace: bool = False) -> None:
        """Put an entry into a registry, and tell the clients.

        Raises: ValueError: the key is taken; or it has scopes, and this server is on HTTP without `authorization=`.
        """
        if getattr(entry, "scopes", ()) and any(service.protection is None for service in self.services):
            raise ValueError(f"{key!r} has scopes, which nobody checks without authorization=")
        with self.lock:
            registry = self.registries[feature]
            if key in registry and not replace:
                # SHOULD: tool names are unique within a server (server/tools#tool-names)
                raise ValueError(f"{feature} already has {key!r}; replace=True replaces it")
            self.registries[feature] = {**registry, key: entry}
            self.generation += 1
        self._announce_list(feature)

    def unregister(self, feature: str, key: str) -> None:
        """Take an entry out of a registry, and tell the clients. Raises: KeyError: it is not there."""
        with self.lock:
            registry = dict(self.registries[feature])
            del registry[key]
            self.registries[feature] = registry
            # A client that was told of the feature may go on to ask for it, and finds that it is empty.
            self._declare = self._declare | {feature}
            self.generation += 1
        self._announce_list(feature)

    def _announce_list(self, feature: str) -> None:
        # SHOULD: notify when the list of tools changes (server/tools#list-changed-notification)
        # SHOULD: notify when the list of resources changes (server/resources#list-changed-notification)
        # SHOULD: notify when the list of prompts changes (server/prompts#list-changed-notification)
        heard = self.sessions or self.services or self.leave_bus or self.subscriptions
        if heard and (method := FEATURES[feature].list_changed) is not None:
            self.announce_change(method, {})

    def announce_change(self, method: str, params: JsonObject) -> None:
        """Announce a change to the clients of both eras; with a bus, to those of all processes that share it."""
        if self.bus is None:
            self.tell_change(method, params)
        elif self.leave_bus is not None or params:
            # The list of what is registered before anybody is served is not a change: every process begins with it.
            self.bus.publish(self.info["name"], {"method": method, "params": params})

    def tell_change(self, method: str, params: JsonObject) -> None:
        """Tell the clients of this process of a change: the sessions that want it, and the subscriptions."""
        uri = params.get("uri")
        self.announce(
            method,
            params or None,
            lambda session: uri is None or any(covers(asked, uri) for asked in session.subscriptions),
        )
        for subscription in list(self.subscriptions):
            subscription.put(method, params)

    def announce(self, method: str, params: JsonObject | None, wanted: Callable[[Session], bool]) -> None:
        """Queue a notification for every open session that wants it; never blocks, whether or not clients read."""
        if self.process != os.getpid():
            self.take_over()
        for session in self.sessions:
            if session.lifecycle.state == "open" and session.connection.closed is None and wanted(session):
                session.announce(method, params)

    def offer_tasks(self, tasks: Tasks | None = None) -> ServerTasks:
        """Declare tasks from here on, as a tool that is registered with `task=` does."""
        if self.tasks is None:
            from mcp_ref.server.tasks import ServerTasks
            from mcp_ref.tasks.running import Tasks

            self.tasks = ServerTasks(self, tasks or Tasks())
            self.extend(self.tasks.extension)
            around = {"tools/call": self.tasks.tools_call}
            self.handlers["session"] = {**self.handlers["session"], **self.tasks.answers, **around}
            self.handlers["stateless"] = {**self.handlers["stateless"], **around}
        return self.tasks

    def extend(self, extension: Extension | Any) -> None:
        """Declare an extension, and answer its methods; or what makes one by `for_server(server)`, such as `Skills`."""
        if not isinstance(extension, Extension):
            extension = extension.for_server(self)
        with self.lock:
            self.extensions = {**self.extensions, extension.name: extension}
            self.handlers["stateless"] = {**self.handlers["stateless"], **extension.answering()}
            self.generation += 1

    def introduction(self, owner: str | None = None) -> Introduction:
        """Return what a client is told when it opens a session; `owner` is who asks, if that is known."""
        # MUST: declare `logging` to send log messages (server/utilities/logging#capabilities)
        capabilities: JsonObject = {"logging": {}}
        if self._experimental:
            capabilities["experimental"] = self._experimental
        if self.extensions:
            capabilities["extensions"] = {name: each.settings for name, each in self.extensions.items()}
        # MUST: a server with tools declares `tools` (server/tools#capabilities)
        # MUST: a server with resources declares `resources` (server/resources#capabilities)
        # MUST: a server with prompts declares `prompts` (server/prompts#capabilities)
        # MUST: a server that completes declares `completions` (server/utilities/completion#capabilities)
        for name, feature in FEATURES.items():
            if self.registries[name] or name in self._declare:
                capabilities[feature.capability] = dict(feature.declared_as)
        if self.tasks is not None:
            capabilities["tasks"] = self.tasks.capability(owner)
        return Introduction(self.info, capabilities, self.instructions)

    def connect(self, transport: Transport, revisions: Sequence[Revision] | None = None) -> Session:
        """Begin a conversation over a transport, and return at once. Close the session, or the server, to end it.

        Args:
            revisions: those of ours that the transport can carry, oldest first; None: all.
        """
        self.take_over()
        session = Session(self, transport, revisions or self.revisions)
        if self.span is not None:
            self.span.enter()
        try:
            with self.lock:
                self.sessions = (*self.sessions, session)
            if self.tasks is not None:
                self.tasks.tasks.wake()
            session.connection.start()
        except BaseException:
            self.forget(session)
            raise
        return session

    def take_over(self) -> None:
        """Serve in this process from here on; LocalProtocolError if it was forked from one that has sessions."""
        if self.process != os.getpid():
            if self.sessions or self.services:
                check_process("the server", self.process)
            self.process, self.leave_bus = os.getpid(), None
        for extension in self.extensions.values():
            extension.ready(self)
        if self.bus is not None and self.leave_bus is None:
            from mcp_ref.server.bus import join_bus

            join_bus(self, self.bus)

    def forget(self, session: Session) -> None:
        """Forget a session that was closed."""
        with self.lock:
            known, self.sessions = self.sessions, tuple(other for other in self.sessions if other is not session)
        # It may be closed several times, and leaves once.
        if self.span is not None and session in known:
            self.span.leave()

    def lifespan(self, function: Callable[[], Iterator[Any]]) -> Callable[[], Iterator[Any]]:
        """Return a decorator: keep something open while the server serves, such as the connection to a database.

        >>> @server.lifespan
        ... def database():
        ...     with sqlite3.connect("trips.db") as connection:
        ...         yield connection

        The function starts before the first client is served, and goes on behind its `yield` when the last has gone,
        also by Ctrl-C or SIGTERM. What it yields is `ctx.lifespan` in each handler.
        """
        if self.sessions or self.services:
            raise RuntimeError("the server is already serving: register a lifespan before that")
        self.span = Lifespan(function)
        return function

    def serve_http(self, host: str = "127.0.0.1", port: int = 0, **options: Unpack[HttpOptions]) -> HttpService:
        """Serve over HTTP in threads of its own, and return at once; close what is returned to end it.

        >>> with server.serve_http() as http:
        ...     print(http.url)

        Args: `HttpOptions` lists them (server/http); port 0 takes a free one. `mcp_ref` has what they are made of:
            `limits=HttpLimits(...)`; `authorization=Protection(...)` with `JwtVerifier`, `Introspection` and
            `Principal`; `authenticate=`, a function of an `HttpRequest`, which may raise `HttpRefusal`;
            `event_store=MemoryEventStore`, or an `EventStore` of yours.
        Returns: an `HttpService`. The trace is complete when the last one is closed.
        Raises: OSError: it cannot listen, or write its trace; ValueError: none of its revisions has a way over HTTP.
        """
        from mcp_ref.server.http import serve

        return serve(self, host, port, options)

    def wsgi(self, **options: Unpack[HttpOptions]) -> WsgiApplication:
        """Return a WSGI application (PEP 3333) that serves both eras: for waitress, gunicorn, or to be mounted.

        >>> application = server.wsgi(hosts=["mcp.example.com"], origins=["https://mcp.example.com"])

        It serves from its first request on, in the process that gets it; so it may be made before a fork. Each request
        and each stream that a client keeps open takes a thread of the WSGI server's for as long as it lasts.

        Args: see `HttpOptions`; of `limits` `max_message` has an effect, and `write` where there is access to sockets.
        """
        from mcp_ref.server.wsgi import WsgiApplication

        return WsgiApplication(self, options)

    def run(self, transport: str = "stdio", **options: Unpack[RunOptions]) -> None:
        """Serve until the client is gone; over stdio, this process is the server of the one that started it.

        Over HTTP, `run("http", host="127.0.0.1", port=8000, path="/mcp")` serves any number of clients, until Ctrl-C,
        SIGTERM (`drain=` gives calls time then) or `close()`, and says on stderr at which URL; see `serve_http`.

        Over stdio, descriptors 0 and 1 are out of reach from here on: what a handler prints goes to stderr. At the end
        of input, handlers have a second to finish; on Ctrl-C, or SIGTERM, they are cancelled at once. A handler that
        does not end is named in the log, and the process leaves without it.

        Blocks: until the end of input, the parent's end, Ctrl-C, SIGTERM, or `close()` in another thread.
        Spec: basic/transports#stdio, basic/lifecycle#shutdown
        """
        if transport != "http" and (transport != "stdio" or not options.keys() <= {"max_message"}):
            raise ValueError(f'run() knows "http", and "stdio" with max_message alone, not {transport!r} {[*options]}')
        if transport == "http":
            from mcp_ref.server.http import run

            stuck = run(self, options)
        else:
            from mcp_ref.pages.basic.transports.stdio import StdioServerTransport

            tell_terminal(self.info["name"])
            self.open_recorder()
            limit = options.get("max_message", MAX_MESSAGE)
            stdio = StdioServerTransport(max_message=limit, tap=self.tap("stdio"))
            with end_by_sigterm() as interrupted:
                try:
                    session = self.connect(stdio)
                    drain = 0.0 if interrupted(session.wait) else 1.0
                    stuck = session.close(timeout=drain + 0.6, drain=drain)
                finally:
                    self.close_recorder(0.6)
        if self.tasks is not None:
            stuck += self.tasks.tasks.close(0.6)
        if stuck:
            # End the process although a handler still runs: waiting for it could last for ever.
            leave()

    def close(self, timeout: float = 5) -> list[str]:
        """End every conversation; returns what handlers would not end. Idempotent; any thread may call it.

        Blocks: at most `timeout` seconds in all. Why each thread ends: see `HttpService.close` and `Connection.close`.
        """
        if self.process != os.getpid():
            return []
        deadline = Deadline(timeout)
        for service in self.services:
            service.close(deadline.left() or 0.0)
        stuck = [doing for session in self.sessions for doing in session.close(deadline.left() or 0.0)]
        if self.tasks is not None:
            stuck += self.tasks.tasks.close(deadline.left() or 0.0)
        if self.leave_bus is not None:
            self.leave_bus()
            self.leave_bus = None
        self.close_recorder(deadline.left())
        return stuck

    def __repr__(self) -> str:
        offers = [f"{len(entries)} {feature}" for feature, entries in self.registries.items() if entries]
        return f"<Server {self.info['name']!r} {self.info['version']}: {', '.join(offers) or 'nothing registered'}>"

    # -- the trace: opened by whoever runs the server, since its file cannot be begun again by each connection

    def open_recorder(self) -> None:
        if self.trace is not None and self._recorder is None:
            from mcp_ref.recording.record import recorder

            self._recorder = recorder(self.trace)

    def close_recorder(self, timeout: float | None) -> None:
        """Close the recorder, which writes what is left; one that the user gave is for its owner to close."""
        with self.lock:
            recorder, self._recorder = self._recorder, None
        if recorder is not None and recorder is not self.trace:
            recorder.close(timeout)

    def tap(self, transport: str) -> Tap | None:
        """Return the tap to which a transport shows its traffic; None without a trace."""
        return None if (recorder := self._recorder) is None else recorder.tap("client", transport)
