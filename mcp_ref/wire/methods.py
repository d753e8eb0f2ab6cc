"""The rows of a page's `METHODS`, and the options that every call accepts.

Spec:      schema ClientRequest, ServerRequest, ClientNotification, ServerNotification
Not here:  the rows; sending, dispatch and the checks that read them (server/server, client/client)

Each page declares its methods as rows. Dispatch, capability gates, checks of parameters and results, the `spec`
command, the support table and the narrator all read these rows: a method that is not a row does not exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, NamedTuple, Protocol, TypedDict

from mcp_ref.kit.threads.deadline import Cancel, check_seconds
from mcp_ref.revisions import Revision, find_revision
from mcp_ref.wire.messages import JsonObject

ProgressCallback = Callable[[float, float | None, str | None], None]
"""`(progress, total, message)`; total and message are None when the peer did not send them."""


class Method(NamedTuple):
    """One request or notification of the protocol: a row in the table of its page."""

    name: str  # as on the wire, such as "tools/call"
    sender: Literal["client", "server", "both"]  # who may send it
    page: str  # of the specification, without the revision: "server/tools"
    about: str  # one line, said by the narrator and the `spec` command
    params: Any = None  # the TypedDict of its parameters; None if nothing has to be checked
    result: Any = None  # the TypedDict of the result; None for a notification
    since: str = "2024-11-05"  # the first revision that has it
    until: str | None = None  # the last revision that has it; None while it still exists
    needs: str | None = None  # the capability that must be declared, such as "client.sampling", "receiver.tasks"
    needs_since: str | None = None  # the first revision in which that capability exists, if later than `since`
    servers_alone: str | None = None  # the first revision in which only a server may send it, if both could before
    as_task: Any = None  # the TypedDict of the result of a request that asked to become a task, if it can (2025-11-25)
    extension: str | None = None  # the name of the extension that has it; None: the protocol

    @property
    def kind(self) -> Literal["request", "notification"]:
        """A method without a result is a notification."""
        return "notification" if self.result is None else "request"

    def sent_by(self, revision: Revision) -> Literal["client", "server", "both"]:
        """Return the side that may send it in that revision."""
        alone = self.servers_alone is not None and revision.order >= find_revision(self.servers_alone).order
        return "server" if alone else self.sender

    def exists_in(self, revision: Revision) -> bool:
        """Return whether the revision has this method."""
        last = revision if self.until is None else find_revision(self.until)
        return find_revision(self.since).order <= revision.order <= last.order

    def capability(self, revision: Revision) -> str | None:
        """Return the capability it needs in that revision, such as "server.tools", or None."""
        if self.needs_since is not None and revision.order < find_revision(self.needs_since).order:
            return None
        return self.needs


class Options(TypedDict, total=False):
    """The options of every call that waits for an answer.

    timeout: seconds until `RequestTimeout`; None for no limit; left out: what the caller was built with. Telling a peer
        that does not read may take one second more.
    max_timeout: progress from the peer restarts `timeout`, up to this many seconds in all; left out: it does not.
    on_progress: called as `(progress, total, message)` in the calling thread; giving it asks for progress. (Of a task:
        see `call_tool_as_task`.)
    meta: entries of `_meta` for this request; the keys that the protocol sets itself are refused.
    cancel: a handle that another thread can call to give the request up.
    undeclared: True: ask although the server has not declared the capability; an old one may have it all the same.

    In the stateless era also (2026-07-28):
    log_level: the least level of the log messages to send while this request is answered; left out: the client's.
    by_hand: give back a result that asks for input as it is, instead of asking this client's handlers.
    input_responses, request_state: the answers to such a result, and its `requestState`, for the next round.
    resend: whether to send it again if its answer was lost on the way; left out: only what merely reads.
    cached: False: ask the server, even if a fresh answer is kept.
    """

    timeout: float | None
    max_timeout: float | None
    on_progress: ProgressCallback | None
    meta: JsonObject | None
    cancel: Cancel | None
    undeclared: bool
    log_level: str | None
    by_hand: bool
    input_responses: JsonObject
    request_state: str
    resend: bool
    cached: bool


_KNOWN_OPTIONS: Final = frozenset(Options.__annotations__)


def check_options(options: Options, method: str) -> None:
    """Raise TypeError for an option that no call has, and ValueError for a time limit that can never be kept."""
    if unknown := options.keys() - _KNOWN_OPTIONS:
        names = ", ".join(sorted(unknown))
        hint = "; the arguments of a tool are one dict, the second argument" if method == "tools/call" else ""
        raise TypeError(f"{method} has no option {names}; there are {', '.join(sorted(_KNOWN_OPTIONS))}{hint}")
    for name in ("timeout", "max_timeout"):
        check_seconds(name, options.get(name))


class Caller(Protocol):
    """The caller for which a page's asking half is written: a `Client`, or the `Context` of a handler in a server."""

    @property
    def revision(self) -> Revision: ...

    @property
    def peer_capabilities(self) -> JsonObject: ...

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject: ...
