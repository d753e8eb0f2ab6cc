"""Conversation: with whom a handler of a server speaks; `Session` and `StatelessAnswerer`, in either era.

Spec:      basic/lifecycle; server/index; basic/versioning, basic/index#statelessness, basic/patterns/index (2026-07-28)
Upholds:   spec_notes/basic/lifecycle.md, spec_notes/basic/versioning.md, spec_notes/basic/patterns/index.md, the rows
           on the server; the rows on rate limits of each page
Not here:  methods (each page); registries (server/server); headers and statuses (streamable_http/server)
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property, partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, cast

from mcp_ref.connection.connection import Answerer, Connection
from mcp_ref.connection.keep_alive import KeepAlive
from mcp_ref.errors import (
    STATELESS_ERRORS,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    Refusal,
    UnsupportedVersion,
)
from mcp_ref.kit.threads.arguments import refuse_attribute
from mcp_ref.kit.threads.deadline import Deadline, RateLimited
from mcp_ref.kit.threads.outbox import Outbox
from mcp_ref.kit.typed.json_text import weigh_up_to
from mcp_ref.kit.typed.uri_template import covers
from mcp_ref.pages.basic import extensions, mrtr, tasks, utilities
from mcp_ref.pages.basic.extensions import open_extended, rows_with
from mcp_ref.pages.basic.lifecycle import MAX_INTRODUCTION, Lifecycle, initialize_result, negotiate
from mcp_ref.pages.basic.mrtr import MAX_ROUNDS, Rounds, ask_now
from mcp_ref.pages.basic.subscriptions import (
    LISTEN,
    ChannelSubscriptions,
    Subscription,
    SubscriptionsListenRequestParams,
)
from mcp_ref.pages.basic.utilities import answer_ping, token_of
from mcp_ref.pages.basic.versioning import Envelope, complete, is_stateless, read_envelope
from mcp_ref.pages.client import elicitation, roots, sampling
from mcp_ref.pages.client.elicitation import UrlElicitationRequired
from mcp_ref.pages.extensions import property_later
from mcp_ref.pages.server.utilities import logging as log_page
from mcp_ref.pages.server.utilities.caching import CACHEABLE, NO_HINT
from mcp_ref.pages.table import METHODS
from mcp_ref.revisions import Revision
from mcp_ref.tasks import handle
from mcp_ref.wire import messages
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options, check_options
from mcp_ref.wire.negotiated import Negotiated, declares, undeclared
from mcp_ref.wire.served import ServedRequest
from mcp_ref.wire.transport import Transport
from mcp_ref.wire.types import client_capabilities, server_capabilities

if TYPE_CHECKING:
    from mcp_ref.pages.basic.transports.streamable_http.headers import MirroredHeaders
    from mcp_ref.server.server import Server
    from mcp_ref.tasks.running import TaskRun


log = logging.getLogger(__name__)


class Context(utilities.HandlerContext):
    """The request that a handler serves, for a parameter annotated with this class.

    What is sent through it travels with the reply of that request, and after the answer nothing more is sent.

    Attributes:
        revision: the revision in use with this client.
        server, conversation, incoming: whose handler it is, with whom it speaks, and what it answers; for the pages.

    Threads: any, while the handler runs; the questions (`elicit`, `sample`, `roots`, `request`) block the caller.
    """

    __slots__ = ("conversation", "revision", "server")

    asks = True

    def __init__(self, conversation: Conversation, incoming: ServedRequest) -> None:
        self.server, self.conversation, self.incoming = conversation.server, conversation, incoming
        self.revision: Revision = conversation.terms.revision
        self.last_progress: float | None = None

    def __repr__(self) -> str:
        return f"<Context of {self.incoming.method}, request {self.incoming.id!r}, {self.revision}>"

    if not TYPE_CHECKING:
        __getattr__ = refuse_attribute  # of what other libraries call it

    # server/utilities/logging
    log = log_page.log
    # client/roots
    roots = roots.roots
    # client/sampling
    sample = sampling.sample
    # client/elicitation
    elicit = elicitation.elicit
    elicit_url = elicitation.elicit_url
    complete_elicitation = elicitation.complete_elicitation
    # basic/utilities/tasks
    task_id, status, become_task = property(tasks.task_id), tasks.status, tasks.become_task
    sample_as_task, elicit_as_task = handle.sample_as_task, handle.elicit_as_task
    # basic/extensions
    extension = extensions.extension
    require_extension = extensions.require_extension
    renders_apps = property_later("pages.extensions.apps", "renders_apps")
    # basic/patterns/mrtr
    ask_all = mrtr.ask_all
    input_responses = property(mrtr.input_responses)
    input_response = mrtr.input_response
    request_state = property(mrtr.request_state)

    def close_stream(self, retry: int = 1000) -> None:
        """Close the HTTP connection of this request; its answer is kept, and the client comes back for it after `retry`
        milliseconds. Nothing happens without such a connection, or in a revision without such a way.

        Spec: basic/transports#sending-messages-to-the-server (2025-11-25)
        """
        if self.revision.priming_event:
            # SHOULD: say when to come back (basic/transports#sending-messages-to-the-server)
            self.incoming.reply.release(retry)

    @property
    def principal(self) -> Any:
        """Return the sender: the `Principal` of its token, or what `authenticate` returned; None over stdio."""
        return self.incoming.reply.principal

    @property
    def owner(self) -> str | None:
        """Return the owner of what this request leaves behind, such as a task; see `ServedRequest.owner`."""
        return self.incoming.owner

    def require_scopes(self, *scopes: str) -> None:
        """Refuse to go on unless the token of this request grants these scopes; over stdio nothing happens.

        Raises: a Refusal: the 403 with which a client asks for a wider token or, once anything was sent and in a batch,
            a JSON-RPC error with the scopes in `data`. LocalProtocolError: served over HTTP without `authorization=`.
        Spec: basic/authorization#runtime-insufficient-scope-errors
        """
        incoming = self.incoming
        incoming.reply.require_scopes({"method": incoming.method, "params": incoming.params}, scopes)

    @property
    def client_info(self) -> JsonObject:
        """Return the client's `Implementation`."""
        return self.conversation.client_info

    @property
    def log_level(self) -> str | None:
        """Return the least level of log messages that the client asked for, or None."""
        return self.conversation.log_level

    @property
    def peer_capabilities(self) -> JsonObject:
        """Return the client's capabilities, as the revision knows them; in the stateless era, those of this request."""
        return self.conversation.client_capabilities

    def require(self, capability: str) -> None:
        """Refuse to go on unless the client declared a capability, such as "sampling" or "elicitation.url".

        In the stateless era the refusal is the error -32021, which says what to declare; in the session era it is
        LocalProtocolError, for nothing can be declared any more.
        """
        if not declares(self.peer_capabilities, capability):
            # MUST: answer -32021 if a request needs what its client did not declare (2026-07-28/basic/index#_meta)
            raise undeclared(self.revision, capability, f"the client did not declare {capability}")

    @property
    def lifespan(self) -> Any:
        """Return the value that the function of `@server.lifespan` has yielded; None without such a function."""
        return None if (span := self.server.span) is None else span.value

    @property
    def session_key(self) -> str | None:
        """Return a key for state of this client: the user whom `authenticate` named, else the session or the pipe. None
        over HTTP in the stateless era without `authenticate`. Anyone with a session's id has its state.
        """
        # A user's state MUST NOT hang on the id of a session alone (2025-11-25/client/elicitation#statefulness)
        owner = self.incoming.owner
        return owner or self.conversation.session_key

    @property
    def request_id(self) -> str | int:
        """Return the id of this request, as the client chose it."""
        return self.incoming.id

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject:
        """Send a request to the client and wait for its result: 300 seconds unless the options say otherwise.

        A method of the protocol is checked, another one passes as it is. In the stateless era the handler's run ends
        here, and it runs again from its beginning once the client has answered: do nothing twice before it.

        Raises: as a client's calls do; RequestCancelled when this handler's own request is given up.
        """
        if options:
            check_options(options, method)
        return self.conversation.ask(method, params, options, self.incoming)

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification that belongs to this request; nothing is sent once it is answered or given up."""
        self.conversation.notify(method, params, self.incoming)


FAREWELL_TIMEOUT = 0.5
"""Seconds in which a client that listens is told that the server closes."""

Handler = Callable[[Any, Any], Any]
"""A page's answering half: called with the context and the params, it makes the result."""

_REPLACED_CODES: Final = {
    "session": dict.fromkeys(STATELESS_ERRORS, InternalError.code),
    "stateless": {
        **{code: InternalError.code for code in range(-32099, -32019) if code not in STATELESS_ERRORS},
        -32002: InvalidParams.code,
    },
}
"""Codes that a handler may raise and nobody may send: they are of the other era, or reserved."""

MAX_ANNOUNCEMENTS: Final = 1_000
"""Announcements that wait for one client. From there on log messages are dropped, and updates told by the URI above."""

_OF_A_REQUEST: Final = frozenset({"notifications/progress", "notifications/message"})
"""The protocol's notifications that belong to a request; the others travel on subscriptions alone."""


class Conversation:
    """The other side of a handler's questions: a session or, in the stateless era, one request. Both share this."""

    server: Server
    terms: Negotiated
    client_info: JsonObject
    client_capabilities: JsonObject  # as the revision knows them
    log_level: str | None  # the least level of log messages that the client asked for
    source: Hashable  # whose requests and notifications count together, where a method has a rate
    session_key: str | None  # see `Context.session_key`
    task: TaskRun | None = None  # which the call may become, or has become

    def serve(self, incoming: ServedRequest) -> JsonObject:
        """Return the result of a request, as its revision has it. Raises: Refusal, or the handler's exception."""
        # 1. What the revision, the capabilities and the rates let through.
        method, terms, revision = incoming.method, self.terms, self.terms.revision
        check, project, *_ = terms.received[method]
        handler = self.server.handlers[revision.era].get(method)
        if handler is None:
            # Also a notification that came with an id, before its params are looked at.
            raise MethodNotFound(f"Method not found: {method}", {"method": method})
        if check is not None:
            check(incoming.params)
        # MUST: servers rate limit tool invocations (server/tools#security-considerations)
        # MUST: servers rate limit completion requests (server/utilities/completion#security)
        if wait := self.server.limits.take(self.source, method):
            raise RateLimited(wait)
        # 2. The handler, and what of its refusals can be said in this revision.
        try:
            result = self.run(handler, incoming)
        except UrlElicitationRequired:
            if not revision.url_elicitation_error:
                # Its code means nothing here: a client would take it for an error of the server's own.
                raise InternalError(f"The user must visit a page first, which {revision} cannot ask for") from None
            raise
        except Refusal as refusal:
            # A server MUST NOT send an error code that is reserved, or one that was given up, such as -32002 and -32042
            # (2026-07-28/basic/index#error-codes)
            if (code := _REPLACED_CODES[revision.era].get(refusal.code)) is None:
                raise
            data = None if revision.era == "session" else refusal.data
            raise Refusal(refusal.message, data, code=code) from refusal
        # 3. The result, as the revision has it; what asks for input was made for it already.
        if project is None or result.get("resultType") == "input_required":
            return result
        return project(result)

    def may_notify(self, method: str) -> bool:
        """Return whether one more notification may be sent now; those above the rate limit are dropped."""
        # SHOULD: rate limit log messages (server/utilities/logging#implementation-considerations)
        # SHOULD: rate limit progress, to prevent flooding (basic/utilities/progress#implementation-notes)
        dropped = self.server.limits.take(self.source, method) > 0
        if dropped:
            self.server.limits.note_dropped(method)
        return not dropped

    # -- what differs between the eras

    def run(self, handler: Handler, incoming: ServedRequest) -> JsonObject:
        """Return the result of a handler; questions that it asks by its result are put to the client."""
        raise NotImplementedError

    def ask(
        self, method: str, params: JsonObject | None, options: Options | None, incoming: ServedRequest
    ) -> JsonObject:
        """Return the client's answer to a question of the handler."""
        raise NotImplementedError

    def ask_all(self, asks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Return what each of the callables returns, each of which asks the client."""
        raise NotImplementedError

    def notify(self, method: str, params: JsonObject | None = None, of: ServedRequest | None = None) -> None:
        """Send a notification, which travels with the reply of the request that it belongs to."""
        raise NotImplementedError


class Session(Conversation):
    """One client's conversation with a server; made by `Server.connect`.

    Threads: `notify`, `announce`, `wait` and `close` by any thread; `admit`, `take` and `lost` belong to the peer.
    """

    def __init__(self, server: Server, transport: Transport, revisions: Sequence[Revision]) -> None:
        self.server, self._transport = server, transport
        self._revisions = [revision for revision in revisions if revision.era == "session"]
        self._stateless = server.stateless if len(self._revisions) < len(revisions) else None
        # Stands for this channel, and keeps nothing of it alive.
        self.source = self.session_key = os.urandom(16).hex()
        self.client_info: JsonObject = {}
        self.client_capabilities: JsonObject = {}
        self.log_level: str | None = None
        self.subscriptions: frozenset[str] = frozenset()  # URIs; replaced, never changed in place
        self.lifecycle = Lifecycle("server")
        self._ended = threading.Event()
        self.changing = threading.Lock()  # guards the replacement of `subscriptions`, _listening and _closing
        self._listening: ChannelSubscriptions | None = None
        self._closing = False
        self.terms = Negotiated("server", revisions[0], METHODS, server.introduction().capabilities, {})
        self.connection = Connection(
            transport, self, self.terms, timeout=server.question_timeout, cap=server.max_workers
        )
        self.announcements: Outbox[tuple[str, JsonObject | None]] = Outbox()
        # Over HTTP the thread that holds a stream of the session writes; without one, a worker.
        run_soon = getattr(transport, "run_soon", self.connection.run_soon)
        self.announcements.on_work(partial(run_soon, self.write_queued))
        interval = server.ping_interval
        self._keep_alive = None if interval is None else KeepAlive(self.connection, interval)

    def announce(self, method: str, params: JsonObject | None = None) -> None:
        """Queue a notification that belongs to no request, without blocking; one that says the same replaces it."""
        uri = (params or {}).get("uri")
        if len(self.announcements.waiting) >= MAX_ANNOUNCEMENTS:
            if method == "notifications/message":
                self.server.limits.note_dropped(method)
                return
            if uri is not None:
                uri = next((above for above in self.subscriptions if covers(above, uri)), uri)
                params = {"uri": uri}
        token = (params or {}).get("progressToken", (params or {}).get("taskId"))
        key = object() if method == "notifications/message" else (method, uri, token)
        self.announcements.put(key, (method, params))

    def write_queued(self) -> None:
        """Write what waits for one session; for a thread that may block."""

        def write(announcement: tuple[str, JsonObject | None]) -> None:
            try:
                self.notify(*announcement)
            except (McpError, OSError) as problem:
                log.debug("could not announce %s: %s", announcement[0], problem)

        self.announcements.flush(write)

    def resume(self, revision: Revision) -> None:
        """Begin in the middle: the client speaks this revision and declared nothing (HTTP without sessions)."""
        self.lifecycle.state = "open"
        self.terms = self.connection.terms = Negotiated("server", revision, METHODS, self.terms.local, {})
        self.terms.undeclared = f"no client of {revision} can declare without sessions (sessions=False)"

    def admit(self, incoming: ServedRequest) -> JsonObject | Answerer:
        """Decide on a request in the order of arrival: `initialize` and `ping` are answered at once."""
        method, params = incoming.method, incoming.params
        # Which era it is of the request itself says; to a server of the stateless era alone, each is of that.
        if self._stateless is not None and (not self._revisions or is_stateless(method, params)):
            return self._serve_alone
        if method != "initialize":
            if self.lifecycle.state != "open":
                self.lifecycle.receive(method, is_request=True)
            # MUST: respond promptly to a ping, with an empty result (basic/utilities/ping#behavior-requirements)
            return dict(answer_ping()) if method == "ping" else self.serve
        if (check := self.terms.received[method].check) is not None:
            check(params)
        if weigh_up_to(MAX_INTRODUCTION, params) > MAX_INTRODUCTION:
            raise InvalidParams("Invalid params: clientInfo and capabilities are too large")
        self.lifecycle.receive(method, is_request=True)
        agreed = negotiate(params["protocolVersion"], self._revisions)
        result = initialize_result(self.server.introduction(incoming.owner), agreed)
        self.client_info, remote = params["clientInfo"], client_capabilities(params["capabilities"], agreed)
        self.client_capabilities = remote
        # MUST: both sides use only what was negotiated, from the answer to `initialize` on (basic/lifecycle#operation)
        self.terms = self.connection.terms = Negotiated("server", agreed, METHODS, result["capabilities"], remote)
        return result

    def take(self, method: str, params: JsonObject) -> None:
        """Note a notification in the order of arrival."""
        try:
            self.lifecycle.receive(method, is_request=False)
            if (check := self.terms.received[method].check) is not None:
                check(params)
        except Refusal as refusal:
            log.debug("ignored the notification %s: %s", method, refusal)
            return
        if method == "notifications/initialized" and self._keep_alive is not None:
            self._keep_alive.start()
        elif method == "notifications/roots/list_changed" and self.server.on_roots_changed is not None:
            ctx = Context(self, ServedRequest(method, method, params, self.connection.channel))
            self.connection.run(partial(self.server.on_roots_changed, ctx))

    def lost(self, reason: McpError) -> None:
        """Note that the client is gone; its handlers end with `close()`."""
        self._ended.set()

    def _serve_alone(self, incoming: ServedRequest) -> JsonObject | None:
        """Answer a request of the stateless era; None for a subscription, whose answer comes at its end."""
        assert self._stateless is not None
        answer = self._stateless.answer(incoming, source=self.source)
        if isinstance(answer, dict):
            return answer
        with self.changing:
            self._listening = self._listening or ChannelSubscriptions(self.connection, self.server.info, self._closing)
        self._listening.carry(answer)
        return None

    def run(self, handler: Handler, incoming: ServedRequest) -> JsonObject:
        """Return the result of a handler. What it asks by a result is put to the client, and then it runs again."""
        for rounds in count():
            ctx = Context(self, incoming)
            result: JsonObject = handler(ctx, incoming.params)
            if result.get("resultType") != "input_required":
                return result
            if rounds == MAX_ROUNDS:
                break
            incoming.inputs, incoming.state = ask_now(ctx, result)
        log.error("%s asked for input in %d rounds and did not finish", incoming.method, MAX_ROUNDS)
        raise InternalError("Internal error")

    def ask(
        self, method: str, params: JsonObject | None, options: Options | None, incoming: ServedRequest
    ) -> JsonObject:
        """Send a question of a handler to the client, and wait for its answer."""
        return self.connection.request(method, params, options, incoming)

    def ask_all(self, asks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Ask several questions, one after the other."""
        return [ask() for ask in asks]

    def notify(self, method: str, params: JsonObject | None = None, of: ServedRequest | None = None) -> None:
        """Send a notification, or drop it if its rate limit is exceeded."""
        if self.may_notify(method):
            self.connection.notify(method, params, of)

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the client is gone, at most `timeout` seconds; return whether it is."""
        return self._ended.wait(timeout)

    def close(self, timeout: float = 5, drain: float = 0) -> list[str]:
        """End the conversation within `timeout` seconds, of which handlers may still answer for `drain`."""
        deadline = Deadline(timeout)
        if self._keep_alive is not None:
            self._keep_alive.stop()
        with self.changing:
            self._closing, listening = True, self._listening
        if listening is not None:
            # What this client listens to ends first, and the workers get a moment to say so.
            listening.end(min(drain or FAREWELL_TIMEOUT, timeout / 2))
        stuck = self.connection.close(deadline, "the server closed the session", drain)
        if self._keep_alive is not None:
            self._keep_alive.join(deadline)
        self.server.forget(self)
        return stuck


class StatelessAnswerer:
    """A server's answers to requests that stand alone; one for all of its clients, used by any thread."""

    def __init__(self, server: Server, revisions: Sequence[Revision]) -> None:
        self.server, self.revisions = server, {revision.name: revision for revision in revisions}
        # Replaced as one, when something was registered since: which revisions and features there are, as rules.
        self._terms: tuple[int, dict[str, Negotiated]] = (-1, {})

    def answer(
        self,
        incoming: ServedRequest,
        principal: str | None = None,
        mirrored: MirroredHeaders | None = None,
        source: Hashable = None,
    ) -> JsonObject | Subscription:
        """Return the whole result of a request; for `subscriptions/listen` the stream that its transport has to carry.

        Args:
            principal: the asking user, if known: a state sealed for one is of no use to another.
            mirrored: the headers that repeat the request, to be compared with it.
            source: its channel, say, whose rate counts while the principal is not known.

        Raises: Refusal, for the first that is wrong: a key of `_meta`, a header, the version, the method, its
            parameters, a capability that the handler needs.
        """
        method, params = incoming.method, incoming.params
        spoken = [revision.name for revision in reversed(self.server.revisions)]
        # 1. What the request says of itself.
        if method == "initialize" and not is_stateless(method, params):
            # SHOULD: a server without the session era names its versions to a client that sends `initialize`
            # (basic/versioning#backward-compatibility-with-initialization-based-versions)
            raise UnsupportedVersion(str(params.get("protocolVersion", "")), spoken)
        # A server MUST NOT take the version, the capabilities or who asks from an earlier request or from the
        # connection (basic/index#statelessness)
        envelope = read_envelope(params)
        if mirrored is not None:
            mirrored.check(method, params, envelope.version)
        # 2. The rules that follow from it, with what the server has now.
        generation, known = self._terms
        if generation != self.server.generation:
            generation, declared = self.server.generation, self.server.introduction().capabilities
            extensions = self.server.extensions
            rows = rows_with(METHODS, extensions.values()) if extensions else METHODS
            known = {
                name: Negotiated("server", revision, rows, server_capabilities(declared, revision), {})
                for name, revision in self.revisions.items()
            }
            self._terms = (generation, known)
        terms = known.get(envelope.version)
        if terms is None:
            # MUST: a version that is not served is answered with -32022
            # (basic/versioning#protocol-version-negotiation), and over HTTP with 400
            # (basic/transports/streamable-http#protocol-version-header)
            raise UnsupportedVersion(envelope.version, spoken)
        if method == "initialize":
            # SHOULD: whatever error answers `initialize` names the supported versions
            # (basic/versioning#backward-compatibility-with-initialization-based-versions)
            text = f"Method not found: initialize; this server's versions open nothing: {', '.join(spoken)}"
            raise MethodNotFound(text, {"method": method, "supported": spoken})
        # 3. The answer; a subscription's comes at its end.
        call = Call(self, terms, incoming, envelope, principal, mirrored, source)
        if method == LISTEN:
            check = terms.received[method].check
            if check is not None:
                check(params)
            if wait := self.server.limits.take(call.source, method):
                raise RateLimited(wait)
            listen = cast(SubscriptionsListenRequestParams, params)
            if self.server.extensions:
                return open_extended(self.server.subscriptions, Context(call, incoming), listen)
            return self.server.subscriptions.open(incoming, listen, terms.local)
        result = call.serve(incoming)
        if method in CACHEABLE and result.get("resultType") != "input_required":
            # MUST: complete results of discovery, the lists and `resources/read` have `ttlMs` and `cacheScope`
            # (server/utilities/caching#cacheable-results)
            result = {**self.server.cache_hints.get(method, NO_HINT), **result}
        return complete(result, self.server.info)


class Call(Conversation):
    """One request while its handler runs. What it says of its client holds for itself alone."""

    def __init__(
        self,
        owner: StatelessAnswerer,
        terms: Negotiated,
        incoming: ServedRequest,
        envelope: Envelope,
        principal: str | None,
        mirrored: MirroredHeaders | None,
        source: Hashable,
    ) -> None:
        self.server, self.terms, self._incoming = owner.server, terms, incoming
        self.client_info, self.log_level = envelope.client_info, envelope.log_level
        self.source = source if principal is None else principal
        # Without headers the request came over a channel of its client's own, such as a pipe, which has a key.
        self.session_key = cast("str | None", source) if principal is None and mirrored is None else principal
        self._declared, self._principal, self._mirrored = envelope.client_capabilities, principal, mirrored
        self._rounds: Rounds | None = None  # made when it is first needed
        self._thread = threading.get_ident()  # runs the handler
        self._over = False

    @cached_property
    def client_capabilities(self) -> JsonObject:  # type: ignore[override]
        """See `Conversation`; as declared in this request."""
        return client_capabilities(self._declared, self.terms.revision)

    def run(self, handler: Handler, incoming: ServedRequest) -> JsonObject:
        """Return the handler's result, or the questions in which its run has ended."""
        method, params = incoming.method, incoming.params
        if self._mirrored is not None and method == "tools/call":
            tool = self.server.registries["tools"].get(params["name"])
            if tool is not None:
                self._mirrored.check_arguments(tool.definition["inputSchema"], params.get("arguments") or {})
        if "inputResponses" in params or "requestState" in params:
            # What came back from an earlier round is checked first, whether or not the handler asks for it.
            rounds = self._asking()
            incoming.inputs, incoming.state = rounds.responses, rounds.state
        result: JsonObject
        try:
            result = handler(Context(self, incoming), params)
        except UrlElicitationRequired as required:
            # A server MUST NOT send -32042 in this revision: the visits that it names become questions
            # (basic/index#error-codes)
            self._asking().ask_urls(required.data["elicitations"])
            result = {}
        except BaseException as end:
            if self._rounds is None or not self._rounds.questions:
                raise
            # A question has ended the run, by InputNeeded, or whatever the handler raised when it had caught that.
            log.debug("%s asks its client first: %s", method, type(end).__name__)
            result = {}
        if self._rounds is not None or result.get("resultType") == "input_required":
            result = self._asking().outcome(result)
        self._over = True
        return result

    def run_here(self) -> None:
        """See `Conversation`: questions come from this thread alone."""
        self._thread = threading.get_ident()
        if self._rounds is not None:
            self._rounds.thread = self._thread

    def ask(
        self, method: str, params: JsonObject | None, options: Options | None, incoming: ServedRequest
    ) -> JsonObject:
        """Return the answer to a question, if it has come; else the run ends here, and the client is asked."""
        # A server MUST NOT send requests: what it asks travels in `inputRequests` of a result (basic/patterns/index#;
        # basic/patterns/mrtr#; basic/transports/stdio#receiving-messages)
        return self._asking().ask(method, params)

    def ask_all(self, asks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Ask several questions in one result."""
        return self._asking().ask_all(*asks)

    def _asking(self) -> Rounds:
        """Return what the handler may ask, and the answers that came."""
        if self._over:
            raise LocalProtocolError("the request was answered: its context can no longer ask anything")
        if self._rounds is None:
            keys, name = self.server.state_keys, self.server.info["name"]
            capabilities, revision = self.client_capabilities, self.terms.revision
            method, params = self._incoming.method, self._incoming.params
            self._rounds = Rounds(
                keys, name, self._principal, method, params, capabilities, revision, thread=self._thread
            )
        return self._rounds

    def notify(self, method: str, params: JsonObject | None = None, of: ServedRequest | None = None) -> None:
        """Send a notification that belongs to the request, unless it is one that the request did not ask for."""
        rule = self.terms.notified[method]
        # MUST: the notifications on the stream of a reply relate to its request
        # (basic/transports/streamable-http#receiving-messages)
        # A server MUST NOT send `notifications/cancelled` for anything but a subscription
        # (basic/patterns/cancellation#)
        if method in METHODS and method not in _OF_A_REQUEST:
            raise LocalProtocolError(f"{method} does not belong to a request: it is sent only on subscriptions")
        # A server MUST NOT send `notifications/message` for a request that names no `logLevel`
        # (server/utilities/logging#per-request-log-level)
        if method == "notifications/message" and self.log_level is None:
            return
        if method == "notifications/progress":
            # MUST: progress is reported with the `progressToken` of an active request
            # (basic/patterns/progress#progress-flow)
            token = token_of(self._incoming.params)
            if token is None or (params or {}).get("progressToken") != token:
                return
        if self.may_notify(method):
            if params is not None and rule.project is not None:
                params = rule.project(params)
            self._incoming.notify(messages.notification(method, params))
