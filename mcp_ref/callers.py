"""Callers: what a page may ask of the role that binds its functions, and nothing more.

Spec:      architecture (the roles); each member's page is named beside it
Upholds:   the rows of the pages that name these members
Not here:  the roles themselves (roles/client, roles/server), which have much besides; what either side may ask of the
           other with a request (methods: `Caller`, of which a `Client` and a `Context` are two)

A page is written against these, and imports no role: so a role can be read, and changed, without the pages, and a page
without the roles. A test may pass anything that has the members that the page under test asks for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from mcp_ref.agreement import Terms
from mcp_ref.basic.transports.transport import Transport
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Caller
from mcp_ref.peer import Peer
from mcp_ref.revisions import Revision


class HasPeer(Protocol):
    """A conversation over a channel of its own, in either role."""

    @property
    def peer(self) -> Peer: ...


class Client(Caller, Protocol):
    """What the asking half of a page may ask of a client."""

    timeout: float | None
    log_level: str | None  # server/utilities/logging: what each request of the stateless era says
    tool_definitions: dict[str, Any]  # server/tools: the `KnownTool`s, by name

    @property
    def session(self) -> HasPeer: ...  # basic/index#batching

    @property
    def follower(self) -> Any: ...  # basic/utilities/tasks: sends `tools/call` instead, if there is one

    @property
    def answers(self) -> Any: ...  # client/elicitation: the user's functions

    @property
    def listenings(self) -> Any: ...  # basic/patterns/subscriptions: those that a close ends

    @property
    def listen(self) -> Callable[..., Any]: ...  # extensions/tasks: a handle that is told

    @property
    def answers_to(self) -> Callable[..., Any]: ...  # extensions/tasks: what the user says to a task's questions

    def notify(self, method: str, params: JsonObject | None = None) -> None: ...

    def open_stream(self, method: str, params: JsonObject | None, deadline: Deadline) -> Any: ...


class Asked(Protocol):
    """What the answering half of a client's page may ask: of a `ClientContext`."""

    @property
    def revision(self) -> Revision: ...

    @property
    def capabilities(self) -> JsonObject: ...


class Server(Protocol):
    """What a page may ask of a server: of what is registered, said of itself, and announced."""

    context_type: type
    registries: dict[str, dict[str, Any]]
    extensions: dict[str, Any]
    info: JsonObject
    mask_errors: bool
    page_size: int
    revisions: tuple[Revision, ...]
    on_roots_changed: Callable[[Any], None] | None  # client/roots
    lock: threading.Lock  # basic/patterns/mrtr: guards the two that follow
    given_keys: Any
    one_of_many: bool

    @property
    def stateless(self) -> Any: ...  # basic/transports/streamable-http: answers what stands alone

    def register(self, feature: str, key: str, entry: Any, *, replace: bool = False) -> None: ...

    def unregister(self, feature: str, key: str) -> None: ...

    def announce(self, method: str, params: JsonObject | None, wanted: Callable[[Any], bool]) -> None: ...

    def announce_change(self, method: str, params: JsonObject) -> None: ...

    def introduction(self, owner: str | None = None) -> Any: ...

    def offer_tasks(self) -> Any: ...

    def connect(self, transport: Transport, revisions: Sequence[Revision] | None = None) -> ServerSession: ...


class Connects(Protocol):
    """What takes conversations in this process: a `Server`, or a recording that answers.

    `connect` begins one and returns what ends it by `close(timeout)`.
    """

    def connect(self, transport: Transport) -> Any: ...


class ServerSession(HasPeer, Protocol):
    """A session, as the transport sees it that carries it, and the pages that keep something in it."""

    source: Any
    subscriptions: frozenset[str]  # server/resources; changed under `changing`

    @property
    def terms(self) -> Terms: ...

    @property
    def changing(self) -> Any: ...

    @property
    def lifecycle(self) -> Any: ...

    def resume(self, revision: Revision) -> None: ...

    def close(self, timeout: float = ..., drain: float = ...) -> Any: ...


class ServerConversation(Protocol):
    """The conversation to which a request belongs: a session, or a request that stands alone."""

    log_level: str | None  # server/utilities/logging

    @property
    def terms(self) -> Terms: ...


class Context(Caller, Protocol):
    """What the answering half of a page, and what a handler does, may ask of the context of a request."""

    incoming: Incoming

    @property
    def server(self) -> Server: ...

    @property
    def conversation(self) -> Any: ...

    @property
    def owner(self) -> str | None: ...

    def notify(self, method: str, params: JsonObject | None = None) -> None: ...

    def elicit(self, message: str, schema: Mapping[str, Any]) -> Mapping[str, Any]: ...

    def elicit_url(self, message: str, url: str) -> Mapping[str, Any]: ...

    def require_extension(self, name: str) -> JsonObject: ...
