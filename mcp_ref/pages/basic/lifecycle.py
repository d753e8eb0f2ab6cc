"""Lifecycle: `initialize`, `notifications/initialized`.

Spec:      basic/lifecycle (2024-11-05 ... 2025-11-25); 2026-07-28 has no such phase
Upholds:   spec_notes/basic/lifecycle.md
Not here:  closing (each transport's `close`), timeouts (kit/threads/deadline)

The whole of the lifecycle is the table TRANSITIONS: in this state, on this event, go there. An event without a row is
refused, even where the page only says SHOULD NOT. "send" and "receive" are seen from this side. Two events are not
messages: the server's answer to our `initialize` was acceptable ("agreed"), or was an error ("refused").

    client   new --send initialize--> asked --agreed--> agreed --send initialized--> open
                                        |  --refused--> new
    server   new --receive initialize--> answered --receive initialized--> open
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, NotRequired

from mcp_ref.errors import InvalidRequest, LocalProtocolError, RemoteProtocolError
from mcp_ref.kit.typed.checking import projector
from mcp_ref.revisions import Revision
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method
from mcp_ref.wire.negotiated import Role
from mcp_ref.wire.types import (
    ClientCapabilities,
    Implementation,
    NotificationParams,
    RequestParams,
    Result,
    ServerCapabilities,
    client_capabilities,
    server_capabilities,
)


class InitializeRequestParams(RequestParams):
    """A client's introduction when it opens a session, with the revision that it would like to use."""

    protocolVersion: str
    capabilities: ClientCapabilities
    clientInfo: Implementation


class InitializeResult(Result):
    """The server's introduction, with the revision that it has chosen."""

    protocolVersion: str
    capabilities: ServerCapabilities
    serverInfo: Implementation
    instructions: NotRequired[str]


class Introduction(NamedTuple):
    """One side's introduction when a session opens."""

    info: JsonObject  # its `Implementation`: name, version, and what later revisions added
    capabilities: JsonObject  # everything it can do; what a revision does not know is left out there
    instructions: str | None = None  # a server's hints for the model
    extensions: Mapping[str, Any] = {}  # a client's, by name


# -- the table ----------------------------------------------------------------------------------------------------

State = Literal["new", "asked", "answered", "agreed", "open"]

TRANSITIONS: Final[dict[tuple[Role, State, str], State]] = {
    # -- the client's side
    ("client", "new", "send initialize"): "asked",
    # The client SHOULD NOT send requests other than pings before the server has answered `initialize`
    # (basic/lifecycle#initialization)
    ("client", "asked", "send ping"): "asked",
    ("client", "asked", "receive ping"): "asked",
    # The server may log before the session is open.
    ("client", "asked", "receive notification"): "asked",
    ("client", "asked", "agreed"): "agreed",
    ("client", "asked", "refused"): "new",
    ("client", "agreed", "send ping"): "agreed",
    ("client", "agreed", "receive ping"): "agreed",
    ("client", "agreed", "receive notification"): "agreed",
    # This row only allows it; client/session sends it, after accepting the answer.
    ("client", "agreed", "send initialized"): "open",
    ("client", "open", "send ping"): "open",
    ("client", "open", "send request"): "open",
    ("client", "open", "send notification"): "open",
    ("client", "open", "receive ping"): "open",
    ("client", "open", "receive request"): "open",
    ("client", "open", "receive notification"): "open",
    # -- the server's side
    ("server", "new", "receive ping"): "new",
    ("server", "new", "receive notification"): "new",
    # MUST: `initialize` is the first interaction (basic/lifecycle#initialization)
    ("server", "new", "receive initialize"): "answered",
    # The server SHOULD NOT send requests other than pings before `notifications/initialized`; log messages are allowed
    # (basic/lifecycle#initialization)
    ("server", "answered", "send ping"): "answered",
    ("server", "answered", "send notification"): "answered",
    ("server", "answered", "receive ping"): "answered",
    # Nothing forbids the client's requests once `initialize` is answered, even before `notifications/initialized`.
    ("server", "answered", "receive request"): "answered",
    ("server", "answered", "receive notification"): "answered",
    ("server", "answered", "receive initialized"): "open",
    ("server", "open", "send ping"): "open",
    ("server", "open", "send request"): "open",
    ("server", "open", "send notification"): "open",
    ("server", "open", "receive ping"): "open",
    ("server", "open", "receive request"): "open",
    ("server", "open", "receive notification"): "open",
}

_WORDS: Final = {
    ("initialize", True): "initialize",
    ("notifications/initialized", False): "initialized",
    ("ping", True): "ping",
}


def _word_for(method: str, is_request: bool) -> str:
    """Return the last word of an event; a notification named `initialize` is a "notification", and opens nothing."""
    return _WORDS.get((method, is_request)) or ("request" if is_request else "notification")


class Lifecycle:
    """The state of one side of a session.

    Threads: any, of which only one at a time changes the state. A step that changes nothing writes nothing, either: it
    could undo the step of another thread.
    """

    def __init__(self, role: Role) -> None:
        self._role: Role = role
        self.state: State = "new"

    def send(self, method: str, *, is_request: bool) -> None:
        """Note that this side is about to send the method; LocalProtocolError if the table has no row for it."""
        if not self.step("send " + _word_for(method, is_request)):
            raise LocalProtocolError(f"{method} must not be sent while the session is {self.state!r}")

    def receive(self, method: str, *, is_request: bool) -> None:
        """Note that the method arrived; InvalidRequest, also for a notification, if the table has no row for it."""
        if not self.step("receive " + _word_for(method, is_request)):
            # MUST: refuse a request before `initialize`: the opening is the first interaction
            # (basic/lifecycle#initialization)
            raise InvalidRequest(f"Invalid request: {method} is not allowed while the session is {self.state!r}")

    def step(self, event: str) -> bool:
        """Go where the table says; return False, and stay, if it has no row for the event."""
        before = self.state
        after = TRANSITIONS.get((self._role, before, event))
        if after is not None and after != before:
            self.state = after
        return after is not None


def negotiate(requested: str, supported: Sequence[Revision]) -> Revision:
    """Return the revision that a server answers with; `supported`: at least one, from oldest to newest."""
    # MUST: the server responds with the same `protocolVersion` if it supports it (basic/lifecycle#version-negotiation)
    # MUST: a server without the `protocolVersion` asked for responds with another, which SHOULD be the latest that it
    # supports (basic/lifecycle#version-negotiation)
    return next((revision for revision in supported if revision.name == requested), supported[-1])


MAX_INTRODUCTION: Final = 64 * 1024
"""Bytes that the params of `initialize` may take: a server keeps `clientInfo` and `capabilities` with the session."""


def declared_in(introduction: Introduction, revision: Revision) -> JsonObject:
    """Return what a client declares in the session era: of its extensions those alone whose pages ask for it there."""
    extensions = {name: each.settings for name, each in introduction.extensions.items() if each.in_initialize}
    declared = {name: each for name, each in introduction.capabilities.items() if name != "extensions"}
    return client_capabilities({**declared, **({"extensions": extensions} if extensions else {})}, revision)


def initialize_params(introduction: Introduction, asked: Revision) -> JsonObject:
    """Return the params of `initialize`, in the shape that they have in the revision that is asked for."""
    # MUST: the client sends a `protocolVersion` that it supports, which SHOULD be its latest
    # (basic/lifecycle#version-negotiation)
    # MUST: the client opens with `initialize`: its version, its capabilities, its name (basic/lifecycle#initialization)
    return {
        "protocolVersion": asked.name,
        "capabilities": declared_in(introduction, asked),
        "clientInfo": introduction.info,
    }


def initialize_result(introduction: Introduction, agreed: Revision) -> JsonObject:
    """Return the result of `initialize`, in the shape that it has in the revision agreed on."""
    # MUST: the server answers `initialize` with its capabilities, its name and version (basic/lifecycle#initialization)
    result: JsonObject = {
        "protocolVersion": agreed.name,
        "capabilities": server_capabilities(introduction.capabilities, agreed),
        "serverInfo": introduction.info,
    }
    if introduction.instructions is not None:
        result["instructions"] = introduction.instructions
    project = projector(InitializeResult, agreed, replies=True)
    return project(result) if project else result


def accept_answer(result: JsonObject, supported: Iterable[Revision]) -> Revision:
    """Return the revision in the server's answer; RemoteProtocolError if we do not speak it."""
    for revision in supported:
        if revision.name == result["protocolVersion"]:
            return revision
    ours = ", ".join(revision.name for revision in supported)
    # SHOULD: a client that does not support the version in the response disconnects; the schema says MUST
    # (basic/lifecycle#version-negotiation)
    raise RemoteProtocolError(f"the server speaks {result['protocolVersion']!r}, and this client {ours}")


def offered_instead(data: Any, supported: Iterable[Revision]) -> Revision | None:
    """Return the newest revision of both sides, from `data.supported` of an error; None if the error names none.

    The page says that a server answers with another version; its example shows an error. Servers of both kinds exist.
    """
    offered = data.get("supported") if isinstance(data, dict) else None
    if not isinstance(offered, list):
        return None
    both = [revision for revision in supported if revision.name in offered]
    return max(both, key=lambda revision: revision.order, default=None)


METHODS = (
    Method("initialize", "client", "basic/lifecycle",
           "open a session: propose a revision, and say who we are and what we can do", InitializeRequestParams,
           InitializeResult, until="2025-11-25"),
    Method("notifications/initialized", "client", "basic/lifecycle",
           "the client has read the answer; the session is open", NotificationParams, until="2025-11-25"),
)  # fmt: skip
