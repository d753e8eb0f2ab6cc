"""Multi round-trip requests: `input_required` results, `inputResponses` and `requestState`.

Spec:      basic/patterns/mrtr (2026-07-28)
Upholds:   spec_notes/basic/patterns/mrtr.md
Reads:     basic/patterns/input_requests, basic/patterns/request_state, schema
Not here:  what may be asked, and what a handler returns that asks by itself (basic/patterns/input_requests); the
           client's half (basic/patterns/input_responses); signatures (basic/patterns/request_state); running the
           handler (server/stateless)

The server does not wait for an answer. A handler that asks is ended; the result of its request is the question; and
when the client sends the request again, with the answer, the handler runs again from its beginning. Then the question
that has its answer returns it, and the next one ends the run:

    run 1   elicit -> ends                     result: elicitation-1, state: asked elicitation-1
    run 2   elicit -> answer, sample -> ends   result: sampling-2, state: asked sampling-2, answered elicitation-1
    run 3   elicit -> answer, sample -> answer, return

So what stands before a question happens once for each run: what must happen once stands after the last one. And the
same request has to ask the same questions in the same order. A question that is not the one asked before in its place
(a digest of its method and params tells) is asked anew. Only answers that a run was given are carried into the next
one, so a changed question takes the answers of all later ones with it.

An answer counts only where the sealed state says that its question was asked. Not for safety, since a client may
answer as it likes: so that an answer is never taken for one to another question. Any other key is ignored.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from mcp_ref.basic import messages
from mcp_ref.basic.methods import JsonObject
from mcp_ref.basic.patterns.input_requests import (
    KINDS,
    InputRequest,
    InputRequests,
    InputRequiredResult,
    InputResponse,
    InputResponses,
    elicitation_form,
    elicitation_url,
    input_request,
    input_required,
    missing_capability,
    roots_listing,
    sampling,
)
from mcp_ref.basic.patterns.input_responses import MOST_ROUNDS, answer_inputs, required_inputs, retry_params
from mcp_ref.basic.patterns.request_state import MOST_STATE, StateKeys, StateTooLarge, binding_of, digest_of
from mcp_ref.errors import InvalidParams, LocalProtocolError, MissingClientCapability, Refusal
from mcp_ref.revisions import Revision
from mcp_ref.schema import SchemaMismatch, checker

__all__ = [
    "MAY_ASK",
    "MOST_ROUNDS",
    "MOST_STATE",
    "InputNeeded",
    "InputRequest",
    "InputRequests",
    "InputRequiredResult",
    "InputResponse",
    "InputResponses",
    "Rounds",
    "StateKeys",
    "answer_inputs",
    "binding_of",
    "elicitation_form",
    "elicitation_url",
    "input_required",
    "required_inputs",
    "retry_params",
    "roots_listing",
    "sampling",
]

_log = logging.getLogger(__name__)

T = TypeVar("T")

MAY_ASK: Final = ("tools/call", "prompts/get", "resources/read")
"""The requests whose result may be a question."""

_VISIT: Final = "url-"
"""What the keys of `ask_urls` begin with; every other key begins with the name of a kind."""

_METHODS: Final = {kind.name: method for method, kind in KINDS.items()} | {"url": "elicitation/create"}
"""What a key was asked by, told from the word that it begins with."""


class InputNeeded(BaseException):
    """Ends a handler whose question has no answer yet. Do not catch it; what comes after it is for nobody.

    It is no `Exception`, so that a handler's own `except Exception` lets it pass. `Rounds.needed` says how the run
    ended, whatever became of this.
    """


class Rounds:
    """One request of a client that may need several rounds: its questions, and the answers that came so far.

    Args:
        keys: what seals the state.
        principal: who asks, where that is known.
        method, params: of the request.
        capabilities: what the client declared in this very request.
    Raises:
        InvalidParams: a `requestState` that is not to be trusted, `inputResponses` that are none, or an answer that
            does not fit its question; the message names the path. For methods that may not ask, both are ignored.
    Threads: the one that made it, which runs the handler.
    Spec: basic/patterns/mrtr#server-requirements-basic-workflow, #error-handling
    """

    __slots__ = (
        "_answered",
        "_bound",
        "_capabilities",
        "_count",
        "_kept",
        "_keys",
        "_method",
        "_open",
        "_prefix",
        "_responses",
        "_revision",
        "_stopped",
        "_thread",
        "_used",
    )

    def __init__(
        self,
        keys: StateKeys,
        principal: str | None,
        method: str,
        params: JsonObject,
        capabilities: JsonObject,
        revision: Revision,
    ) -> None:
        self._keys, self._method, self._capabilities, self._revision = keys, method, capabilities, revision
        self._bound = (principal, method, params)
        self._thread = threading.get_ident()
        # By key: the digest of the question and its answer; those that came, and those that this run was given.
        self._answered: dict[str, tuple[str, JsonObject]] = {}
        self._used: dict[str, tuple[str, JsonObject]] = {}
        # By key: the digest of the question and the question.
        self._open: dict[str, tuple[str, JsonObject]] = {}
        self._responses: JsonObject = {}
        self._kept: Any = None
        # Where the next question stands: the n-th one of the run, or of one of the callables of `ask_all`.
        self._prefix, self._count, self._stopped = "", 0, False
        if method in MAY_ASK:
            self._read(params)

    def _read(self, params: JsonObject) -> None:
        payload: JsonObject = {}
        if "requestState" in params:
            if not isinstance(params["requestState"], str):
                raise _invalid("params.requestState", "must be a string")
            payload = self._keys.open(params["requestState"], binding_of(*self._bound))
        if "inputResponses" in params:
            self._responses = params["inputResponses"]
            self._check(JsonObject, self._responses)
        self._kept = payload.get("state")
        self._answered = {key: (digest, answer) for key, (digest, answer) in payload.get("answered", {}).items()}
        # SHOULD: ignore what was not asked (basic/patterns/mrtr#error-handling)
        for key, digest in payload.get("asked", {}).items():
            answer = self.response(key, _METHODS[key.partition("-")[0]])
            if answer is not None:
                self._answered[key] = (digest, answer)

    # -- what a handler asks

    def ask(self, method: str, params: JsonObject | None) -> JsonObject:
        """The answer to a question; where there is none yet, the question is noted and the handler ends.

        Args: method, params: as on the wire; shaped for the revision here.
        Raises:
            InputNeeded: there is no answer yet. Once it was raised, every other question raises it too: what a handler
                asks after it caught this is not noted, for it may depend on what it did not get.
            MissingClientCapability: the client did not declare what this needs.
            LocalProtocolError: this request may not ask, or not this, or not from this thread.
        Spec: basic/patterns/mrtr#server-requirements-basic-workflow
        """
        self._check_asker(method)
        if self._stopped:
            raise InputNeeded("another question of this request has no answer yet")
        request = input_request(method, params, self._revision)
        digest = digest_of([method, request["params"]])
        self._count += 1
        key = f"{KINDS[method].name}-{self._prefix}{self._count}"
        known = self._answered.get(key)
        if known is not None and known[0] == digest:
            self._used[key] = known
            # A copy: what the handler does to it must not be there in its next run.
            answer: JsonObject = _copy(known[1])
            return answer
        if known is not None:
            _log.info("%s of %s is another question than in the round before: it is asked anew", key, self._method)
        self._put(key, digest, request)
        self._stopped = True
        raise InputNeeded("the client has to be asked first")

    def ask_all(self, *asks: Callable[[], T]) -> list[T]:
        """Call each, and ask in one result what they have no answer for yet.

        Each of them may ask several times. What one asks does not move the questions of another, so each should depend
        on its own answers alone.

        Returns: what each of them returned, in their order.
        Raises: InputNeeded, after all of them were called; else as `ask`, and whatever one of them raises, which does
            not take back what the others have asked.
        Spec: basic/patterns/mrtr#inputrequests
        """
        self._check_asker("several questions")
        if self._stopped:
            raise InputNeeded("another question of this request has no answer yet")
        self._count += 1
        outer, place, before = self._prefix, self._count, len(self._open)
        returned = []
        try:
            for number, ask in enumerate(asks, 1):
                self._prefix, self._count, self._stopped = f"{outer}{place}.{number}.", 0, False
                try:
                    returned.append(ask())
                except InputNeeded:
                    pass
        finally:
            self._prefix, self._count, self._stopped = outer, place, len(self._open) > before
        if self._stopped:
            raise InputNeeded("the client has to be asked first")
        return returned

    def ask_urls(self, elicitations: Sequence[JsonObject]) -> None:
        """Note that the user has to visit pages: what `UrlElicitationRequired` of the session era says.

        For whoever runs the handler and caught that; nothing happens where a question is open already. The user agrees
        to a visit before it takes place. So a handler that raises it again has its pages asked for again, until it is
        content, or the user declines, or the client has enough.

        Args: elicitations: `ElicitRequestURLParams`; their ids do not exist here and are left out.
        Raises:
            Refusal: -32603, the user declined or cancelled a visit that was asked for so.
            MissingClientCapability, LocalProtocolError: as for `ask`.
        Spec: client/elicitation#url-mode-elicitation-requests
        """
        self._check_asker("visits")
        if self._open:
            return
        visits = [answer["action"] for key, (_, answer) in self._answered.items() if key.startswith(_VISIT)]
        if any(action != "accept" for action in visits):
            raise Refusal("The user did not visit the page that this request requires")
        for number, params in enumerate(elicitations, 1):
            # Whether it is still the same page does not matter: an answer is never given back to the handler.
            self._put(f"{_VISIT}{number}", "", input_request("elicitation/create", dict(params), self._revision))

    def _check_asker(self, what: str) -> None:
        # MUST NOT: for any other request (basic/patterns/mrtr#supported-requests)
        if self._method not in MAY_ASK:
            raise LocalProtocolError(
                f"{self._method} cannot ask its client for {what}: in {self._revision} only the handlers of "
                f"{', '.join(MAY_ASK)} can"
            )
        if threading.get_ident() != self._thread:
            raise LocalProtocolError(f"in {self._revision} only the handler's own thread can ask its client")

    def _put(self, key: str, digest: str, request: JsonObject) -> None:
        self._check_declared(request)
        self._open[key] = (digest, request)

    def _check_declared(self, request: JsonObject) -> None:
        # MUST NOT: ask for what the client did not declare (basic/patterns/mrtr#server-requirements-basic-workflow)
        missing = missing_capability(request, self._capabilities, self._revision)
        if missing is not None:
            raise MissingClientCapability(missing)

    # -- what becomes of the run

    @property
    def needed(self) -> bool:
        """Whether the run ended in questions, whatever the handler has raised or returned after it asked."""
        return bool(self._open)

    def result(self) -> JsonObject:
        """The `InputRequiredResult` with the open questions, and with all that the next round needs.

        Raises:
            InvalidParams: the answers so far are too large to be carried on.
            LocalProtocolError: there is no open question; there are too many.
        Spec: basic/patterns/mrtr#inputrequiredresult
        """
        if not self._open:
            raise LocalProtocolError("there is no open question")
        return {
            "resultType": "input_required",
            "inputRequests": {key: request for key, (_, request) in self._open.items()},
            "requestState": self._seal(self._kept),
        }

    def _seal(self, state: Any) -> str:
        payload: JsonObject = {
            "asked": {key: digest for key, (digest, _) in self._open.items()},
            "answered": self._used,
            "state": state,
        }
        try:
            return self._keys.seal(payload, binding_of(*self._bound))
        except StateTooLarge:
            if not self._used:
                raise
            raise _invalid("params.inputResponses", "is more than this request can carry on") from None

    # -- for handlers that return an InputRequiredResult themselves

    @property
    def responses(self) -> JsonObject:
        """The `inputResponses` of this request as they came, each an object; empty where there are none.

        They come from the client: also under keys that were never asked for, and also with no state.
        """
        return self._responses

    def response(self, key: str, method: str) -> JsonObject | None:
        """One of `responses`, checked to be an answer to what that method asks; None where there is none.

        Args: method: "elicitation/create", "sampling/createMessage" or "roots/list".
        Raises: InvalidParams: it is no such answer; the message names the path.
        Spec: basic/patterns/mrtr#error-handling
        """
        answer: JsonObject | None = self._responses.get(key)
        if answer is not None:
            self._check(KINDS[method].result, {key: answer})
        return answer

    def _check(self, answers_type: Any, responses: JsonObject) -> None:
        # SHOULD: validate what the client provides (basic/patterns/mrtr#error-handling)
        try:
            checker(dict[str, answers_type], self._revision)(responses, "params.inputResponses")
        except SchemaMismatch as mismatch:
            raise _invalid(mismatch.path, mismatch.problem) from None

    @property
    def state(self) -> Any:
        """What the handler gave as `state` in the round before; None where it gave none, and in the first round."""
        return _copy(self._kept)

    def seal_result(self, result: JsonObject) -> JsonObject:
        """A handler's own `InputRequiredResult` as it goes out: its questions checked, its state sealed.

        Args: result: see `input_required`; `requestState` is any JSON but null here. Without one, and with no answer of
            `ask` to carry on, none is sent.
        Raises:
            LocalProtocolError: this request may not ask; neither questions nor a state; a question that is none; a
                state that is no JSON or too large.
            MissingClientCapability: the client did not declare what a question needs.
        Spec: basic/patterns/mrtr#inputrequiredresult
        """
        self._check_asker("input")
        requests, state = result.get("inputRequests") or {}, result.get("requestState")
        # MUST: at least one of the two (basic/patterns/mrtr#server-requirements-basic-workflow)
        if not requests and state is None:
            raise LocalProtocolError("an input_required result has inputRequests, requestState, or both")
        sealed = {key: value for key, value in result.items() if key not in ("inputRequests", "requestState")}
        if not isinstance(requests, Mapping):
            raise LocalProtocolError(f"inputRequests holds questions by string keys, not {requests!r}")
        if requests:
            sealed["inputRequests"] = {key: self._own(key, request) for key, request in requests.items()}
        if state is not None or self._used:
            sealed["requestState"] = self._seal(state)
        return sealed

    def _own(self, key: Any, request: Any) -> JsonObject:
        if not isinstance(key, str) or not isinstance(request, Mapping):
            raise LocalProtocolError(f"inputRequests holds questions by string keys, not {request!r} by {key!r}")
        checked = input_request(request.get("method"), request.get("params"), self._revision)
        self._check_declared(checked)
        return checked


def _copy(value: Any) -> Any:
    return messages.decode(messages.encode(value))


def _invalid(path: str, problem: str) -> InvalidParams:
    return InvalidParams(f"Invalid params: {path} {problem}", {"path": path})
