"""What a method row is, and the small Protocols that the pages are written against.

Spec:      schema ClientRequest, ServerRequest, ClientNotification, ServerNotification
Not here:  the rows; sending, dispatch and the checks that read them (server/server, client/client)

Each page declares its methods as rows. Dispatch, capability gates, checks of parameters and results, the `spec`
command, the support table and the narrator all read these rows, so a method that is not a row does not exist.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple, Protocol, TypedDict

from mcp_ref.machinery.deadline import Cancel
from mcp_ref.messages import JsonObject
from mcp_ref.revisions import REVISIONS, Revision

ProgressCallback = Callable[[float, float | None, str | None], None]
"""`(progress, total, message)`; total and message are None when the peer did not send them."""


class _Default(enum.Enum):
    DEFAULT = "default"

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT: Final = _Default.DEFAULT
"""Stands for "what the client or server was built with" where None already means "no limit"."""

Timeout = float | None | Literal[_Default.DEFAULT]


class Method(NamedTuple):
    """One request or notification of the protocol.

    Attributes:
        name: its wire name, such as "tools/call".
        kind: "request" or "notification".
        sender: who may send it.
        page: the page of the specification, without the revision: "server/tools".
        about: one line, said by the narrator and the `spec` command.
        params: the TypedDict of its parameters; None when there is nothing to check.
        result: the TypedDict of the result of a request.
        since: the first revision that has it.
        until: the last revision that has it; None: it still exists.
        needs: the capability that must be declared, such as "server.tools" or "client.roots.listChanged".
        needs_since: the first revision in which that capability exists, when later than `since`.
        servers_alone: the first revision in which only a server may still send it, where both could.
    """

    name: str
    kind: Literal["request", "notification"]
    sender: Literal["client", "server", "both"]
    page: str
    about: str
    params: Any = None
    result: Any = None
    since: str = "2024-11-05"
    until: str | None = None
    needs: str | None = None
    needs_since: str | None = None
    servers_alone: str | None = None

    def sent_by(self, revision: Revision) -> Literal["client", "server", "both"]:
        """Who may send it in that revision."""
        alone = self.servers_alone is not None and revision.order >= REVISIONS[self.servers_alone].order
        return "server" if alone else self.sender

    def exists_in(self, revision: Revision) -> bool:
        """Whether the revision has this method."""
        last = revision.order if self.until is None else REVISIONS[self.until].order
        return REVISIONS[self.since].order <= revision.order <= last

    def capability(self, revision: Revision) -> str | None:
        """The capability it needs in that revision, such as "server.tools", or None."""
        if self.needs_since is not None and revision.order < REVISIONS[self.needs_since].order:
            return None
        return self.needs


class Options(TypedDict, total=False):
    """What every call that waits for an answer accepts.

    timeout: seconds until `RequestTimeout`; None for no limit; left out: what the caller was built with.
    max_timeout: progress from the peer starts `timeout` anew, up to this many seconds in all; left out: it does not.
    on_progress: called as `(progress, total, message)` in the calling thread; giving it asks for progress.
    meta: entries of `_meta` for this request; the keys that the protocol sets itself are refused.
    cancel: a handle that another thread can call to give the request up.

    In the stateless era also (2026-07-28):
    log_level: the least level of the log messages to send while this request is answered; left out: the client's.
    by_hand: give back a result that asks for input as it is, instead of asking this client's handlers.
    input_responses, request_state: the answers to such a result, and its `requestState`, for the next round.
    resend: whether to send it again when its answer was lost on the way; left out: where that changes nothing.
    cached: False: ask the server, also where a fresh answer is kept.
    """

    timeout: Timeout
    max_timeout: float | None
    on_progress: ProgressCallback | None
    meta: JsonObject | None
    cancel: Cancel | None
    log_level: str | None
    by_hand: bool
    input_responses: JsonObject
    request_state: str
    resend: bool
    cached: bool


class Notifying(Protocol):
    """Whatever can tell the peer something: a `Client`, a `Context`, or a server's session."""

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """Send a notification; see `Client.notify`."""
        ...


class Caller(Notifying, Protocol):
    """What a page's asking half is written against: a `Client`, or the `Context` of a handler in a server."""

    @property
    def revision(self) -> Revision:
        """The revision agreed with the peer."""
        ...

    @property
    def peer_capabilities(self) -> JsonObject:
        """What the peer declared, as it came."""
        ...

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject:
        """Send a request and block until its result; see `Client.request`."""
        ...


class Asking(Caller, Protocol):
    """A `Caller` that can also keep what it learned: the definitions of tools, for the check of their output."""

    @property
    def tool_definitions(self) -> dict[str, Any]:
        """Tools by name, as last listed in this connection."""
        ...


class Handling(Protocol):
    """What a page's answering half is written against: the request being served. `Context` is one."""

    @property
    def revision(self) -> Revision: ...

    @property
    def peer_capabilities(self) -> JsonObject: ...

    @property
    def page_size(self) -> int:
        """How many entries one page of a list holds."""
        ...

    def registered(self, feature: str) -> Mapping[str, Any]:
        """The registry of "tools", "resources", "templates", "prompts" or "completions": a snapshot, never changed."""
        ...

    @property
    def log_level(self) -> str | None:
        """The least level of log messages that this peer asked for; None when it never did."""
        ...

    def set_log_level(self, level: str) -> None:
        """Remember the least level of log messages for this conversation."""
        ...

    def subscribe(self, uri: str) -> None:
        """Remember that this conversation wants to hear of changes of the URI."""
        ...

    def unsubscribe(self, uri: str) -> None:
        """Forget it again; nothing happens where it was not subscribed."""
        ...


class Answering(Protocol):
    """What a client's answers to a server are written against: the conversation in which it asked. `Client` is one."""

    @property
    def revision(self) -> Revision:
        """The revision agreed with the server."""
        ...

    @property
    def capabilities(self) -> JsonObject:
        """What this client declared itself."""
        ...

    @property
    def server_info(self) -> JsonObject:
        """The `Implementation` of the server that asks, for the user to see who it is."""
        ...


class Registering(Protocol):
    """What a page's decorators are written against. `Server` is one."""

    @property
    def context_type(self) -> type:
        """The type that marks the parameter of a handler which receives the context."""
        ...

    def register(self, feature: str, key: str, entry: Any) -> None:
        """Put an entry into a registry (replacing one of the same key is a `ValueError`) and announce the change."""
        ...

    def unregister(self, feature: str, key: str) -> None:
        """Take an entry out of a registry (`KeyError` if it is not there) and announce the change."""
        ...
