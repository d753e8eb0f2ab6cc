"""Negotiated: what two peers agreed on, as one rule for each method.

Spec:      basic/lifecycle#capability-negotiation, basic/lifecycle#operation
Upholds:   spec_notes/basic/lifecycle.md, the rows on "only what was negotiated"
Not here:  how agreement is reached (basic/lifecycle); answering a request (server/session, client/session)

A revision and two sets of capabilities decide which messages may pass, and in which shape. `Negotiated` compiles that
decision the first time a method is used, and afterwards it is one look-up:

    sent["tools/call"]      -> how to shape the params that go out, how to check the result that comes back
    received["tools/call"]  -> how to check the params that came in, how to shape the result that goes out
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from mcp_ref.errors import (
    InvalidParams,
    LocalProtocolError,
    MethodNotFound,
    MissingClientCapability,
    RemoteProtocolError,
)
from mcp_ref.kit.threads.arguments import PROTOCOL_HINTS
from mcp_ref.kit.typed.checking import SchemaMismatch, check_page, checker, losing, projector
from mcp_ref.revisions import REVISIONS, Revision
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method

log = logging.getLogger(__name__)

Role = Literal["client", "server"]
Check = Callable[[Any], None]
Project = Callable[[JsonObject], JsonObject]


class MessageRule(NamedTuple):
    """The rule by which messages of one method are checked on the way in, and shaped on the way out.

    Attributes:
        check: of what comes in; None: nothing to check.
        project: of what goes out; None: it goes out as it is.
        losing: the only members at which the projection can change anything; None: anything, anywhere.
        task_check: of what comes in if the request asked to become a task; None: it cannot.
    """

    check: Check | None
    project: Project | None
    losing: frozenset[str] | None = frozenset()
    task_check: Check | None = None


class _Rules(dict[str, MessageRule]):
    """Rules by method; each is made when it is first looked up."""

    def __init__(self, make: Callable[[str], MessageRule]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, method: str) -> MessageRule:
        rule = self[method] = self._make(method)
        return rule


MAY_ASK = ("tools/call", "prompts/get", "resources/read")
"""The requests that may be answered with `input_required` (2026-07-28/basic/patterns/mrtr#supported-requests)."""


def declares(capabilities: JsonObject, path: str) -> bool:
    """Return whether a capability such as "resources.subscribe" is declared: an object, or a flag that is true."""
    value: Any = capabilities
    for member in path.split("."):
        if not isinstance(value, dict):
            return False
        value = value.get(member)
    return value is True or isinstance(value, dict)


def undeclared(revision: Revision, capability: str, problem: str) -> Exception:
    """Return the exception for a question that the client did not declare: in the stateless era, the refusal that says
    what to declare, for the client decides again with each request."""
    # A server MUST NOT ask for anything that the request's client did not declare (2026-07-28/basic/index#_meta)
    return LocalProtocolError(problem) if revision.servers_send_requests else MissingClientCapability(capability)


class Negotiated:
    """The messages that may pass between two peers, and their shapes.

    Args:
        role: the role of this side.
        revision: the revision agreed (or, while `initialize` is under way, the one asked for).
        rows: the method rows of every page, by wire name.
        local, remote: the capabilities that each side declared, already read through the revision.
        envelope: what every request that we send says in its `_meta` (basic/versioning); None: nothing.
        kinds: by method, what an extension has beside the protocol's results: their types by `resultType`, None for
            one that is not checked; under "*" for any method.

    Attributes:
        takes_requests: whether this side answers requests: in the stateless era a client does not.
        sent, notified, received: the rules, by method, of the requests and the notifications that this side sends, and
            of what it receives; to look one up raises as `sending` and `receiving` do.
        undeclared: what an error says of a capability that the other side has not.

    Threads: any; the caches hold values that are equal whoever computed them.
    """

    def __init__(
        self,
        role: Role,
        revision: Revision,
        rows: Mapping[str, Method],
        local: JsonObject,
        remote: JsonObject,
        envelope: JsonObject | None = None,
        kinds: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        self.role, self.revision = role, revision
        self.local, self.remote = local, remote
        self.envelope = dict(envelope or ())
        self._rows, self._kinds = rows, kinds or {}
        self.takes_requests = role == "server" or revision.servers_send_requests
        self.undeclared = "was not declared"
        self.sent = _Rules(partial(self.sending, "request"))
        self.notified = _Rules(partial(self.sending, "notification"))
        self.received = _Rules(self.receiving)

    def sending(self, kind: Literal["request", "notification"], name: str, *, undeclared: bool = False) -> MessageRule:
        """Return the rule for a message that this side sends; LocalProtocolError if it must not (`undeclared`: may)."""
        revision, row = self.revision, self._rows.get(name)
        if row is None:
            # No revision has the name: extensions and experiments pass as they are.
            return MessageRule(None, None)
        if row.kind != kind:
            raise LocalProtocolError(f"{name} is a {row.kind}, not a {kind}")
        if not row.exists_in(revision):
            raise LocalProtocolError(f"{name} does not exist in revision {revision}{PROTOCOL_HINTS.get(name, '')}")
        if (sender := row.sent_by(revision)) not in ("both", self.role):
            raise LocalProtocolError(f"{name} is for the {sender} to send")
        # MUST: both sides use only capabilities that were negotiated (basic/lifecycle#operation)
        missing = self._undeclared(row, self.remote)
        if missing is not None and not undeclared:
            hint = PROTOCOL_HINTS.get(missing, "")
            raise LocalProtocolError(f"{name} needs the capability {missing}, which {self.undeclared}{hint}")
        return MessageRule(
            None if row.result is None else _result_check(row, revision, self._kinds),
            projector(row.params, revision, replies=False) if row.params else None,
            losing(row.params, revision, replies=False) if row.params else frozenset(),
            # Whoever has not declared tasks answers as if none had been asked for.
            _result_check(row._replace(result=row.as_task), revision, {})
            if row.as_task and revision.tasks and "tasks" in self.remote
            else None,
        )

    def receiving(self, name: str) -> MessageRule:
        """Return the rule for a message that this side receives; MethodNotFound if the peer must not send it."""
        revision, row = self.revision, self._rows.get(name)
        if row is None or not row.exists_in(revision) or row.sent_by(revision) == self.role:
            raise MethodNotFound(f"Method not found: {name}", {"method": name})
        # SHOULD: -32601 for a request whose capability was not declared (server/utilities/completion#error-handling)
        if missing := self._undeclared(row, self.local):
            if row.kind == "request" or not missing.startswith("server."):
                raise MethodNotFound(f"Method not found: {name} (capability {missing} not declared)", {"method": name})
            # What a server tells without having declared it is told on: many servers do, and every other client
            # delivers it. It is noted here, once, for the rule is kept.
            log.info("the server sends %s, and has not declared %s", name, missing)
        return MessageRule(
            _params_check(row, revision) if row.params else None,
            projector(row.result, revision, replies=True) if row.result else None,
        )

    def _undeclared(self, row: Method, receiver: JsonObject) -> str | None:
        """Return the capability that the method needs and its side did not declare; `receiver`: the receiver's."""
        if row.extension is not None and self.role == "client" and row.extension not in receiver.get("extensions", ()):
            return f"extensions.{row.extension}"
        if (needed := row.capability(self.revision)) is None:
            return None
        side, _, path = needed.partition(".")
        declared = receiver if side == "receiver" else self.local if side == self.role else self.remote
        return None if declares(declared, path) else needed


def _params_check(row: Method, revision: Revision) -> Check:
    check = checker(row.params, revision)

    def check_params(params: Any) -> None:
        """Make a mismatch the error -32602, which names the path."""
        try:
            check(params, "params")
        except SchemaMismatch as mismatch:
            raise InvalidParams(f"Invalid params: {mismatch}", {"path": mismatch.path}) from None

    return check_params


def _result_check(row: Method, revision: Revision, further: Mapping[str, Mapping[str, Any]]) -> Check:
    name, check = row.name, checker(row.result, revision)
    kinds = {**further.get("*", {}), **further.get(name, {})}
    paginated = "nextCursor" in getattr(row.result, "__annotations__", ())

    def check_result(result: Any) -> None:
        """Make a mismatch the peer's fault; in the stateless era the result says of which kind it is."""
        # The result of `initialize` is of the revision that it names, which need not be the one that was asked for.
        spoken = REVISIONS.get(str(result.get("protocolVersion")), revision) if name == "initialize" else revision
        fits: Callable[[Any, str], Any] = check if spoken is revision else checker(row.result, spoken)
        if not revision.servers_send_requests:
            # MUST: a result without a `resultType` is complete; one of an unknown kind is invalid
            # (2026-07-28/basic/index#resulttype)
            kind = result.get("resultType", "complete")
            if isinstance(kind, str) and (kind in kinds or (kind == "input_required" and name in MAY_ASK)):
                if kinds.get(kind) is None:
                    return
                fits = checker(kinds[kind], revision)
            elif kind != "complete":
                raise RemoteProtocolError(f"the result of {name} has an unexpected kind: {kind!r}")
        try:
            check_page(fits, result, "result") if paginated else fits(result, "result")
        except SchemaMismatch as mismatch:
            raise RemoteProtocolError(f"the result of {name} does not fit revision {spoken}: {mismatch}") from None

    return check_result
