"""Input requests: what a server may ask within a result, and what an answer to it looks like.

Spec:      basic/patterns/mrtr#core-types, client/elicitation, client/sampling, client/roots (2026-07-28)
Upholds:   spec_notes/basic/patterns/mrtr.md, the rows on the core types
Reads:     the three pages' modules, basic/terms, schema
Not here:  the rounds in which they are asked and answered (basic/patterns/mrtr)

A question is a bare object `{"method": ..., "params": ...}`: no JSON-RPC message, and nothing that a request's `_meta`
must have. A handler mostly asks with `ctx.elicit`, `ctx.sample` and `ctx.roots`. One that returns its questions itself:

    return input_required({"name": elicitation_form("Your name?", {"name": {"type": "string"}})}, state={"step": 1})
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, NoReturn, NotRequired, TypedDict, Unpack

from mcp_ref.basic import messages
from mcp_ref.basic.methods import JsonObject, Options
from mcp_ref.basic.terms import declares
from mcp_ref.basic.types import Result
from mcp_ref.client.elicitation import elicit, elicit_url
from mcp_ref.client.elicitation_types import ElicitRequestParams, ElicitResult, modes_of
from mcp_ref.client.roots import ListRootsResult, roots
from mcp_ref.client.sampling import (
    CreateMessageRequestParams,
    CreateMessageResult,
    SampleOptions,
    SamplingMessage,
    sample,
)
from mcp_ref.errors import LocalProtocolError
from mcp_ref.revisions import STATELESS_REVISIONS, Revision
from mcp_ref.schema import SchemaMismatch, checker, projector

__all__ = [
    "KINDS",
    "CreateMessageRequest",
    "ElicitRequest",
    "InputRequest",
    "InputRequests",
    "InputRequiredResult",
    "InputResponse",
    "InputResponses",
    "Kind",
    "ListRootsRequest",
    "elicitation_form",
    "elicitation_url",
    "input_request",
    "input_required",
    "missing_capability",
    "roots_listing",
    "sampling",
]


# -- types --------------------------------------------------------------------------------------------------------


class CreateMessageRequest(TypedDict):
    """Please have your model write a message."""

    method: Literal["sampling/createMessage"]
    params: CreateMessageRequestParams


class ListRootsParams(TypedDict):
    """Nothing, unless it is about the question itself."""

    _meta: NotRequired[JsonObject]


class ListRootsRequest(TypedDict):
    """Please say which directories and files are opened to the server."""

    method: Literal["roots/list"]
    params: NotRequired[ListRootsParams]


class ElicitRequest(TypedDict):
    """Please ask the user."""

    method: Literal["elicitation/create"]
    params: ElicitRequestParams


InputRequest = CreateMessageRequest | ListRootsRequest | ElicitRequest
InputRequests = dict[str, InputRequest]
"""Questions by keys that the server chooses, each once in a result."""

InputResponse = CreateMessageResult | ListRootsResult | ElicitResult
InputResponses = dict[str, InputResponse]
"""Answers by the keys of their questions."""


class InputRequiredResult(Result):
    """The request cannot be answered yet: send it again, with `requestState` as it is and an answer to each question.

    At least one of the two is there.
    """

    inputRequests: NotRequired[InputRequests]
    requestState: NotRequired[str]


class Kind(NamedTuple):
    """One kind of question: the word that its keys begin with, and the types of what it asks and what answers it."""

    name: str
    params: Any
    result: Any


KINDS: Final[Mapping[str, Kind]] = {
    "elicitation/create": Kind("elicitation", ElicitRequestParams, ElicitResult),
    "sampling/createMessage": Kind("sampling", CreateMessageRequestParams, CreateMessageResult),
    "roots/list": Kind("roots", ListRootsParams, ListRootsResult),
}
"""By method. There is no other."""


# -- what may be asked --------------------------------------------------------------------------------------------


def input_request(method: Any, params: JsonObject | None, revision: Revision) -> JsonObject:
    """A question as it goes out: shaped for the revision, and checked.

    Raises: LocalProtocolError: a method that cannot be asked, or params that do not fit it or are no JSON.
    Spec: basic/patterns/mrtr#inputrequests
    """
    # MUST: one of these three requests (basic/patterns/mrtr#server-requirements-basic-workflow)
    kind = KINDS.get(method) if isinstance(method, str) else None
    if kind is None:
        raise LocalProtocolError(f"in {revision} a client can be asked {', '.join(KINDS)}; not {method!r}")
    # A copy, as it will look on the wire: what the handler still does to its arguments is not what was asked.
    params = messages.decode(messages.encode(params or {}))
    try:
        project = projector(kind.params, revision)
        params = project(params) if project and isinstance(params, dict) else params
        checker(kind.params, revision)(params, "params")
    except SchemaMismatch as mismatch:
        raise LocalProtocolError(f"{method} cannot be asked so in {revision}: {mismatch}") from None
    return {"method": method, "params": params}


def missing_capability(request: JsonObject, capabilities: JsonObject, revision: Revision) -> str | None:
    """What a client would have to declare to be asked this, such as "elicitation.url"; None where it did.

    Spec: basic/patterns/mrtr#server-requirements-basic-workflow, client/elicitation#capabilities,
        client/sampling#capabilities
    """
    method, params = request["method"], request["params"]
    name = KINDS[method].name
    if method == "elicitation/create":
        mode = params.get("mode", "form")
        if mode in modes_of(capabilities, revision):
            return None
        # To declare elicitation and no mode is to declare forms.
        return name if mode == "form" and name not in capabilities else f"{name}.{mode}"
    needed = f"{name}.tools" if "tools" in params or "toolChoice" in params else name
    return None if declares(capabilities, needed) else needed


# -- what a handler returns ---------------------------------------------------------------------------------------


def input_required(requests: Mapping[str, JsonObject] | None = None, *, state: Any = None) -> JsonObject:
    """What a tool, prompt or resource handler returns to ask by itself: an `InputRequiredResult`.

    The client sends the same request again, and the handler runs from its beginning: `ctx.input_responses` holds the
    answers of this round alone, by these keys, and `ctx.request_state` the state. Both may be missing, also in a later
    round, and an answer may be anything that its question allows, such as a user's "decline".

    Args:
        requests: questions by keys of your choice; see `elicitation_form`, `elicitation_url`, `sampling` and
            `roots_listing`. None: the client may come back at once.
        state: any JSON, for yourself: answers of earlier rounds, for instance. It is sealed before it goes out, so that
            nobody can change it or use it elsewhere; the client can read it.
    Raises: LocalProtocolError: neither of them.
    Spec: basic/patterns/mrtr#inputrequiredresult
    """
    # MUST: at least one of the two (basic/patterns/mrtr#server-requirements-basic-workflow)
    if not requests and state is None:
        raise LocalProtocolError("an input_required result holds questions, a state, or both")
    result: JsonObject = {"resultType": "input_required"}
    if requests:
        result["inputRequests"] = dict(requests)
    if state is not None:
        result["requestState"] = state
    return result


def elicitation_form(message: str, schema: Mapping[str, Any]) -> JsonObject:
    """The question that `ctx.elicit` asks; its answer is an `ElicitResult`. Arguments and errors are the same."""
    return _draft(elicit, message, schema)


def elicitation_url(message: str, url: str) -> JsonObject:
    """The question that `ctx.elicit_url` asks; its answer is an `ElicitResult`. Arguments and errors are the same."""
    return _draft(elicit_url, message, url)


def sampling(
    conversation: str | SamplingMessage | Sequence[SamplingMessage],
    *,
    max_tokens: int,
    **options: Unpack[SampleOptions],
) -> JsonObject:
    """The question that `ctx.sample` asks; its answer is a `CreateMessageResult`. Arguments and errors are the same."""
    return _draft(sample, conversation, max_tokens=max_tokens, **options)


def roots_listing() -> JsonObject:
    """The question that `ctx.roots` asks; its answer is a `ListRootsResult`."""
    return _draft(roots)


class _Drafted(Exception):
    """Carries what a page would have asked out of it."""

    def __init__(self, method: str, params: JsonObject | None) -> None:
        super().__init__(method)
        self.request = input_request(method, params, STATELESS_REVISIONS[-1])


class _Draft:
    """A caller that asks nobody: what the pages' own functions make of their arguments is the question."""

    revision = STATELESS_REVISIONS[-1]
    # What the client really declared is looked at when the question goes out.
    peer_capabilities: Final[JsonObject] = {
        "elicitation": {"form": {}, "url": {}},
        "sampling": {"tools": {}, "context": {}},
        "roots": {},
    }

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> NoReturn:
        raise _Drafted(method, params)

    def notify(self, method: str, params: JsonObject | None = None) -> NoReturn:
        raise _Drafted(method, params)


def _draft(ask: Callable[..., Any], *arguments: Any, **options: Any) -> JsonObject:
    try:
        ask(_Draft(), *arguments, **options)
    except _Drafted as drafted:
        return drafted.request
    raise AssertionError("a page that asks nothing")
