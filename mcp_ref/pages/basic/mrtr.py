"""Multi round-trip requests: `input_required` results, `inputResponses` and `requestState`.

The server does not wait for an answer. A handler that asks is ended; the result of its request is the question; and
when the client sends the request again, with the answer, the handler runs again from its beginning. Then the question
that has its answer returns it, and the next one ends the run:

    run 1   elicit -> ends                     result: elicitation-1, state: asked elicitation-1
    run 2   elicit -> answer, sample -> ends   result: sampling-2, state: asked sampling-2, answered elicitation-1
    run 3   elicit -> answer, sample -> answer, return

So what stands before a question happens once for each run: what must happen once stands after the last one. And the
same request has to ask the same questions in the same order. A question that is not the one asked before in its place
(a digest of its method and params tells) is asked again. Only answers that a run was given are carried into the next
one, so a changed question takes the answers of all later ones with it.

An answer counts only where the sealed state says that its question was asked. Not for safety, since a client may
answer as it likes: so that an answer is never taken for one to another question. Any other key is ignored.

Spec:      basic/patterns/mrtr, with #security-considerations (2026-07-28)
Upholds:   spec_notes/basic/patterns/mrtr.md
Not here:  running the handler (server/session; in the session era also for results that ask); the
           client's functions (client/session), and its rounds (client/session)
"""

from __future__ import annotations

import base64
import functools
import json
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NotRequired, Self, TypedDict, TypeVar, Unpack, cast

from mcp_ref.errors import (
    InputRefused,
    InvalidParams,
    LocalProtocolError,
    MissingClientCapability,
    ParseError,
    Refusal,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    TransportClosed,
)
from mcp_ref.kit.typed.checking import SchemaMismatch, checker, projector
from mcp_ref.pages.client.elicitation import (
    ElicitRequestParams,
    ElicitResult,
    downgrade,
    elicit_request,
    modes_of,
    url_elicitation,
)
from mcp_ref.pages.client.roots import ListRootsResult
from mcp_ref.pages.client.sampling import (
    CreateMessageRequestParams,
    CreateMessageResult,
    SampleOptions,
    SamplingMessage,
    sample_request,
)
from mcp_ref.revisions import LATEST_STATELESS, Revision
from mcp_ref.wire import messages
from mcp_ref.wire.deprecated import warn_deprecated
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.negotiated import MAY_ASK, declares, undeclared
from mcp_ref.wire.types import Result, is_input_required

if TYPE_CHECKING:
    from mcp_ref.server.server import Server
    from mcp_ref.server.session import Context

log = logging.getLogger(__name__)

T = TypeVar("T")

MAX_STATE: Final = 4 * 1024 * 1024
"""Characters of a state. It holds the answers of earlier rounds, and travels with every one."""

MAX_ROUNDS: Final = 10
"""How often one request may ask for input before its questions are taken for endless."""

_MIN_KEY: Final = 32  # bytes of a key that seals states
_canonical: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")).encode

# -- types --------------------------------------------------------------------------------------------------------


class CreateMessageRequest(TypedDict):
    """Please have your model write a message."""

    method: Literal["sampling/createMessage"]
    params: CreateMessageRequestParams


class ListRootsParams(TypedDict):
    """Empty, but for a `_meta` about the question itself."""

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
"""By method. No others exist."""

_VISIT: Final = "url"  # what the keys of `ask_urls` begin with; every other key begins with the name of a kind
_METHODS: Final = {kind.name: method for method, kind in KINDS.items()} | {_VISIT: "elicitation/create"}

# -- the server's half: the state ---------------------------------------------------------------------------------


class StateTooLarge(LocalProtocolError):
    """More than a `requestState` may hold."""


class StateKeys:
    """The keys that seal what a server tells itself through its clients, as the `requestState` of a result.

        requestState  =  base64url(JSON [when it expires, payload])  "."
                         base64url(HMAC-SHA256(key, binding and the text before))

    It is signed and not encrypted: whoever has it can read the payload, and nobody without a key can make or change
    one. The code covers the text and not the bytes that it stands for, so there is one spelling of each state.

    Args:
        keys: each at least 32 random bytes; the first one seals, all of them open, so that a new key is put first and
            an old one dropped a lifetime later. Processes that answer for each other need the same; see `from_file` and
            `from_env`. Or a function that gives them. None: a random key that nobody else has, and that ends with this
            object.
        lifetime: seconds from sealing until a state is refused: the time that a user has for the answers of one round.
        clock: the time in seconds, the same for all processes that share keys.

    A state can be presented several times while it lives. What must happen once is the server's to remember.

    Raises: ValueError: no key, a key that is too short, a lifetime that is not a positive number; TypeError: a key that
        is not bytes.
    Threads: any.
    Spec: basic/patterns/mrtr#server-requirements-basic-workflow
    """

    def __init__(
        self,
        keys: Sequence[bytes] | Callable[[], Sequence[bytes]] | None = None,
        lifetime: float = 600,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        now = keys() if callable(keys) else (os.urandom(_MIN_KEY),) if keys is None else tuple(keys)
        self._keys = keys if callable(keys) else lambda: now
        self._lifetime, self._clock = lifetime, clock
        if not all(isinstance(key, bytes) for key in now):
            raise TypeError("keys must be a list of bytes")
        if not now or min(map(len, now)) < _MIN_KEY:
            raise ValueError(f"there must be at least one key, and each must have at least {_MIN_KEY} bytes")
        if not (math.isfinite(lifetime) and lifetime > 0):
            raise ValueError("a lifetime must be a positive number of seconds")

    @classmethod
    def from_file(cls, path: str | os.PathLike[str], lifetime: float = 600) -> Self:
        """Return the keys in a file, one a line, the newest first, each as `openssl rand -base64 32` writes it.

        The file is looked at each time, so that a key that is put into it counts at once, in every process that reads
        it. Replace it by renaming. Raises: OSError, ValueError: it cannot be read, or a key in it is not one.
        """
        from mcp_ref.kit.process.keys import KeyFile

        return cls(KeyFile(path), lifetime)

    @classmethod
    def from_env(cls, name: str, lifetime: float = 600) -> Self:
        """Return the keys in an environment variable, with spaces between, the newest first; see `from_file`.

        Raises: ValueError: it is not set, or a key in it is not one.
        """
        from mcp_ref.kit.process.keys import keys_in

        return cls(keys_in(os.environ.get(name, ""), f"the environment variable {name}"), lifetime)

    def seal(self, payload: JsonObject, binding: str) -> str:
        """Return a text that `open` takes back for `lifetime` seconds, with the same binding only.

        Whoever gets it can read the payload: put no secret into it.

        Raises: LocalProtocolError: the payload is not JSON; StateTooLarge: it makes more than `MAX_STATE` characters.
        """
        # MUST: what one request leaves for another travels with the client, in `requestState`
        # (basic/index#statelessness)
        # SHOULD: the state of a `requestState` has a short expiry
        # (basic/patterns/mrtr#server-requirements-basic-workflow)
        content: list[Any] = [math.ceil(self._clock() + self._lifetime), payload]
        body = _base64(messages.encode(content))
        sealed = f"{body}.{_code(self._keys()[0], binding, body)}"
        if len(sealed) > MAX_STATE:
            raise StateTooLarge(f"a requestState of {len(sealed)} characters; at most {MAX_STATE} are sent")
        return sealed

    def open(self, text: str, binding: str) -> JsonObject:
        """Return the payload of a text that `seal` gave.

        Raises: InvalidParams: it was sealed with none of these keys or for another binding, it was changed, or its time
            has passed. The text is the same for all of them, so that nobody learns which; the log says it.
        """
        import hmac

        body, _, code = text.rpartition(".")
        # MUST: verify a `requestState`, and reject one that fails
        # (basic/patterns/mrtr#server-requirements-basic-workflow). All of the keys, in constant time: the duration
        # tells nothing about a key.
        if len(text) > MAX_STATE:
            problem = "it is too long"
        elif not text.isascii() or not sum(hmac.compare_digest(_code(k, binding, body), code) for k in self._keys()):
            problem = "it was not sealed for this request with a key of this process"
        else:
            try:
                expires, payload = messages.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
                if self._clock() < expires:
                    return dict(payload)
                problem = "its time has passed"
            except (ParseError, ValueError):
                # Signed, and yet unreadable: nested more deeply than can be decoded where we are, for instance.
                problem = "it cannot be read"
        log.info("refused a requestState: %s", problem)
        raise InvalidParams("Invalid or expired requestState")


def _code(key: bytes, binding: str, body: str) -> str:
    import hmac

    # What is signed begins with its purpose, so that nothing which these keys may sign elsewhere, and no other form of
    # the payload, passes for a state. No NUL is in a body, so where the binding ends is never in doubt.
    signed = b"mcp_ref requestState 1\0" + binding.encode("utf-8", "surrogatepass") + b"\0" + body.encode("ascii")
    return _base64(hmac.digest(key, signed, "sha256"))


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def binding_of(server: str, principal: str | None, method: str, params: JsonObject) -> str:
    """Return what a state is bound to: who is asked, who asks, and what for. The same for every round of one request.

    Args:
        server: its name, and neither its version, process nor URL: a new release goes on with the old one's rounds.
        principal: who asks, where that is known.
        params: of the request; its `name` or `uri` and its `arguments` count, no arguments being an empty object.

    Raises: InvalidParams: the arguments are nested too deeply.
    Spec: basic/patterns/mrtr#server-requirements-basic-workflow
    """
    # SHOULD: bind a `requestState` to the principal, the method and a digest of the salient parameters
    # (basic/patterns/mrtr#server-requirements-basic-workflow)
    # MUST: bind what is stored of an elicitation to the user who was asked (client/elicitation#statefulness;
    # client/elicitation#security-considerations)
    try:
        return digest_of(
            [server, principal, method, params.get("name"), params.get("uri"), params.get("arguments") or {}]
        )
    except LocalProtocolError as problem:
        raise InvalidParams(f"Invalid params: params.arguments: {problem}", {"path": "params.arguments"}) from None


def digest_of(value: Any) -> str:
    """Return a SHA-256 digest of a JSON value as 43 characters; the order of an object's members does not count.

    Raises: LocalProtocolError: the value is not JSON.
    """
    import hashlib

    try:
        return _base64(hashlib.sha256(_canonical(value).encode("ascii")).digest())
    except (TypeError, ValueError, RecursionError) as problem:
        raise LocalProtocolError(f"this cannot be written as JSON: {problem}") from None


def state_keys(self: Server) -> StateKeys:
    """Return what seals each `requestState`; if none was given, a key of this process, made when it is first needed."""
    with self.lock:
        if self.given_keys is None and self.one_of_many:
            raise LocalProtocolError("several processes serve and cannot read each other's questions: give state_keys=")
        keys: StateKeys = self.given_keys or StateKeys()
        self.given_keys = keys
        return keys


# -- the server's half: questions ---------------------------------------------------------------------------------


def input_request(method: Any, params: JsonObject | None, revision: Revision) -> JsonObject:
    """Shape a question for the revision, and check it.

    Raises: LocalProtocolError: a method that cannot be asked, or params that do not fit it or are not JSON.
    Spec: basic/patterns/mrtr#inputrequests
    """
    # MUST: each of `inputRequests` is one of `elicitation/create`, `sampling/createMessage` and `roots/list`
    # (basic/patterns/mrtr#server-requirements-basic-workflow)
    if not isinstance(method, str) or method not in KINDS:
        raise LocalProtocolError(f"in {revision} a client can be asked {', '.join(KINDS)}; not {method!r}")
    # A copy, as it will look on the wire: what the handler still does to its arguments is not what was asked.
    params = _copy(params or {})
    project, check = _shaping(method, revision)
    try:
        params = project(params) if project and isinstance(params, dict) else params
        check(params, "params")
    except SchemaMismatch as mismatch:
        raise LocalProtocolError(f"{method} cannot be asked like this in {revision}: {mismatch}") from None
    return {"method": method, "params": params}


@functools.cache
def _shaping(method: str, revision: Revision) -> tuple[Any, Any]:
    """Return the projection of the params of a question of that method, and their check."""
    return projector(KINDS[method].params, revision), checker(KINDS[method].params, revision)


def missing_capability(request: JsonObject, capabilities: JsonObject, revision: Revision) -> str | None:
    """Return what a client would have to declare to be asked this, such as "elicitation.url"; None where it did.

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


def ask_now(ctx: Context, result: JsonObject) -> tuple[JsonObject, Any]:
    """Ask what a handler's result asks for, by requests of the session era. Returns the answers and the state.

    Blocks and raises: as the questions do; LocalProtocolError for one whose capability the client did not declare.
    """
    answers: JsonObject = {}
    for key, question in (result.get("inputRequests") or {}).items():
        method, params = question["method"], question.get("params") or {}
        asked = {"method": method, "params": params}
        if (missing := missing_capability(asked, ctx.peer_capabilities, ctx.revision)) is not None:
            raise undeclared(ctx.revision, missing, f"the client did not declare {missing}")
        if method != "elicitation/create":
            answers[key] = ctx.request(method, params)
        elif params.get("mode") == "url":
            answers[key] = dict(ctx.elicit_url(params["message"], params["url"]))
        else:
            answers[key] = dict(ctx.elicit(params["message"], params["requestedSchema"]))
    # The state as it would come back from a client: a copy, of what JSON can say.
    return answers, _copy({"state": result.get("requestState")})["state"]


def ask_all(self: Context, *asks: Callable[[], Any]) -> list[Any]:
    """Ask several things at once, and get what each returns: `ctx.ask_all(lambda: ctx.elicit(...), ctx.roots)`.

    In the stateless era the client gets all the questions in one result; in the session era they are asked one after
    the other.
    """
    answers: list[Any] = self.conversation.ask_all(asks)
    return answers


def input_responses(self: Context) -> JsonObject:
    """Return the answers that came, by the keys of an `input_required` result that the handler returned itself."""
    return self.incoming.inputs


def input_response(self: Context, key: str, method: str = "elicitation/create") -> JsonObject | None:
    """Return one of these answers; None if it has not come. Raises: InvalidParams: it does not answer what `method`
    asks.
    """
    return _checked_answer(self.incoming.inputs, key, method, self.revision)


def request_state(self: Context) -> Any:
    """Return the `state` that the handler gave to `input_required` in the round before; None in the first."""
    return self.incoming.state


def input_required(requests: Mapping[str, JsonObject] | None = None, *, state: Any = None) -> JsonObject:
    """Return what a tool, prompt or resource handler returns to ask by itself: an `InputRequiredResult`.

    >>> return input_required({"name": elicitation_form("Your name?", {"name": {"type": "string"}})}, state={"step": 1})

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
    # MUST: an `InputRequiredResult` has at least one of `inputRequests` and `requestState`
    # (basic/patterns/mrtr#server-requirements-basic-workflow)
    if not requests and state is None:
        raise LocalProtocolError("an input_required result must have inputRequests, requestState, or both")
    result: JsonObject = {"resultType": "input_required"}
    if requests:
        result["inputRequests"] = dict(requests)
    if state is not None:
        result["requestState"] = state
    return result


def elicitation_form(message: str, schema: Mapping[str, Any]) -> JsonObject:
    """Return the question that `ctx.elicit` asks; its answer is an `ElicitResult`. Arguments and errors are the
    same.
    """
    return input_request(*elicit_request(message, schema, LATEST_STATELESS), LATEST_STATELESS)


def elicitation_url(message: str, url: str) -> JsonObject:
    """Return the question that `ctx.elicit_url` asks; its answer is an `ElicitResult`. Arguments and errors are the
    same.
    """
    return input_request("elicitation/create", cast(JsonObject, url_elicitation(message, url)), LATEST_STATELESS)


def sampling(
    conversation: str | SamplingMessage | Sequence[SamplingMessage],
    *,
    max_tokens: int,
    **options: Unpack[SampleOptions],
) -> JsonObject:
    """Return the question that `ctx.sample` asks; its answer is a `CreateMessageResult`. Arguments and errors are the
    same.
    """
    # What the client really declared is looked at when the question goes out.
    able: JsonObject = {"sampling": {"tools": {}, "context": {}}}
    asked = sample_request(LATEST_STATELESS, able, conversation, max_tokens=max_tokens, **options)
    return input_request(*asked, LATEST_STATELESS)


def roots_listing() -> JsonObject:
    """Return the question that `ctx.roots` asks; its answer is a `ListRootsResult`."""
    warn_deprecated("roots", LATEST_STATELESS)
    return input_request("roots/list", None, LATEST_STATELESS)


# -- the server's half: one round ---------------------------------------------------------------------------------


class InputNeeded(BaseException):
    """Ends a handler whose question is still unanswered. Do not catch it: whatever the handler does next is discarded.

    It is not an `Exception`, so a handler's own `except Exception` lets it pass. `Rounds.questions` says how the run
    ended, whatever became of this.
    """


class Rounds:
    """One request of a client that may need several rounds: its questions, and the answers that came so far.

    Args:
        keys: what seals the state. server: the name of the server.
        principal: who asks, where that is known.
        method, params: of the request.
        capabilities: what the client declared in this very request.
        thread: the identifier of the one that runs the handler; None: this one.

    Attributes:
        responses: the `inputResponses` of this request as they came, each an object; empty if it has none. They
            come from the client: also under keys that were never asked for, and also with no state.
        state: what the handler gave as `state` in the round before; None where it gave none, and in the first round.
        thread: which may ask.
        questions: by key, those that have no answer, each with its digest. The run ended in them, if there are any,
            whatever the handler has raised or returned after it asked.

    Raises:
        InvalidParams: a `requestState` that is not to be trusted, `inputResponses` of another type, or an answer that
            does not fit its question; the message names the path. For methods that may not ask, both are ignored.
    Threads: the one that runs the handler.
    Spec: basic/patterns/mrtr#server-requirements-basic-workflow, #error-handling
    """

    def __init__(
        self,
        keys: StateKeys,
        server: str,
        principal: str | None,
        method: str,
        params: JsonObject,
        capabilities: JsonObject,
        revision: Revision,
        thread: int | None = None,
    ) -> None:
        self._keys, self._method, self._capabilities, self._revision = keys, method, capabilities, revision
        self._bound = (server, principal, method, params)
        self.thread = threading.get_ident() if thread is None else thread
        # By key, the digest of the question and its answer: those that came, and those that this run was given.
        self._answered: dict[str, tuple[str, JsonObject]] = {}
        self._used: dict[str, tuple[str, JsonObject]] = {}
        self.questions: dict[str, tuple[str, JsonObject]] = {}
        # Where the next question stands: the n-th one of the run, or of one of the callables of `ask_all`.
        self._prefix, self._count, self._stopped = "", 0, False
        self.responses: JsonObject = {}
        self.state: Any = None
        self._kept: Any = None
        if method not in MAY_ASK:
            return
        payload: JsonObject = {}
        if "requestState" in params:
            if not isinstance(params["requestState"], str):
                raise _invalid("params.requestState", "must be a string")
            payload = keys.open(params["requestState"], binding_of(*self._bound))
            self._kept = payload.get("state")
            self.state = _copy(self._kept)
        if "inputResponses" in params:
            self.responses = params["inputResponses"]
            _check_answers(JsonObject, self.responses, revision)
        self._answered = {key: (digest, answer) for key, (digest, answer) in payload.get("answered", {}).items()}
        # SHOULD: ignore `inputResponses` that were not asked for (basic/patterns/mrtr#error-handling)
        for key, digest in payload.get("asked", {}).items():
            answer = _checked_answer(self.responses, key, _METHODS[key.partition("-")[0]], revision)
            if answer is not None:
                self._answered[key] = (digest, answer)

    # -- what a handler asks

    def ask(self, method: str, params: JsonObject | None) -> JsonObject:
        """Return the answer to a question; until it has come, the question is noted and the handler ends.

        Args: method, params: as on the wire; shaped for the revision here.
        Raises:
            InputNeeded: the answer has not come yet. Once it was raised, every other question raises it too: what a
                handler asks after it caught this is not noted, for it may depend on what it did not get.
            MissingClientCapability: the client did not declare what this needs.
            LocalProtocolError: this request may not ask, or not this, or not from this thread.
        Spec: basic/patterns/mrtr#server-requirements-basic-workflow
        """
        self._check_asker(method)
        request = input_request(method, params, self._revision)
        digest = digest_of([method, request["params"]])
        # MUST: each of `inputRequests` has a key of its own (basic/patterns/mrtr#server-requirements-basic-workflow)
        self._count += 1
        key = f"{KINDS[method].name}-{self._prefix}{self._count}"
        known = self._answered.get(key)
        if known is not None and known[0] == digest:
            self._used[key] = known
            # A copy: what the handler does to it must not be there in its next run.
            answer: JsonObject = _copy(known[1])
            return answer
        if known is not None:
            log.warning("%s of %s differs from the question in the round before: it is asked again", key, self._method)
        self._check_declared(request)
        # SHOULD: ask again for an answer that is missing from `inputResponses` (basic/patterns/mrtr#error-handling)
        self.questions[key] = (digest, request)
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
        self._count += 1
        outer, place, before = self._prefix, self._count, len(self.questions)
        returned = []
        try:
            for number, ask in enumerate(asks, 1):
                self._prefix, self._count, self._stopped = f"{outer}{place}.{number}.", 0, False
                try:
                    returned.append(ask())
                except InputNeeded:
                    pass
        finally:
            self._prefix, self._count, self._stopped = outer, place, len(self.questions) > before
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
        if self.questions:
            return
        self._check_asker("visits")
        visits = [answer["action"] for key, (_, answer) in self._answered.items() if key.startswith(_VISIT)]
        if any(action != "accept" for action in visits):
            raise Refusal("The user did not visit the page that this request requires")
        for number, params in enumerate(elicitations, 1):
            request = input_request("elicitation/create", dict(params), self._revision)
            self._check_declared(request)
            # Whether it is still the same page does not matter: an answer is never given back to the handler.
            self.questions[f"{_VISIT}-{number}"] = ("", request)

    def _check_asker(self, what: str) -> None:
        # A server MUST NOT send an `InputRequiredResult` for any request but `tools/call`, `prompts/get` and
        # `resources/read` (basic/patterns/mrtr#supported-requests)
        if self._method not in MAY_ASK:
            raise LocalProtocolError(
                f"{self._method} cannot ask its client for {what}: in {self._revision} only the handlers of "
                f"{', '.join(MAY_ASK)} can"
            )
        if threading.get_ident() != self.thread:
            raise LocalProtocolError(f"in {self._revision} only the handler's own thread can ask its client")
        if self._stopped:
            raise InputNeeded("another question of this request is still unanswered")

    def _check_declared(self, request: JsonObject) -> None:
        # A server MUST NOT put questions into `inputRequests` that the client did not declare in this request's
        # `clientCapabilities` (basic/patterns/mrtr#server-requirements-basic-workflow)
        missing = missing_capability(request, self._capabilities, self._revision)
        if missing is not None:
            raise MissingClientCapability(missing)

    # -- what becomes of the run

    def outcome(self, result: JsonObject) -> JsonObject:
        """Return what goes out: an `InputRequiredResult` where questions are open, and else the handler's result.

        Args:
            result: what the handler returned, nothing of which counts where questions are open. If it asks by itself
                (see `input_required`) its questions are checked and its state is sealed; without a state, and with no
                answer of `ask` to carry on, none is sent.
        Raises:
            InvalidParams: the answers so far are too large to be carried on.
            LocalProtocolError: a result that asks by itself, for a request that may not; with neither questions nor a
                state; with a question of another form; with a state that is not JSON or too large.
            MissingClientCapability: the client did not declare what a question needs.
        Spec: basic/patterns/mrtr#inputrequiredresult
        """
        if self.questions:
            questions = {key: request for key, (_, request) in self.questions.items()}
            return input_required(questions, state=self._seal(self._kept))
        if not is_input_required(result):
            return result
        self._check_asker("input")
        requests, state = result.get("inputRequests") or {}, result.get("requestState")
        if not isinstance(requests, Mapping) or not all(
            isinstance(key, str) and isinstance(request, Mapping) for key, request in requests.items()
        ):
            raise LocalProtocolError(f"inputRequests must map string keys to questions, not {requests!r}")
        asked = {}
        for key, request in requests.items():
            asked[key] = input_request(request.get("method"), request.get("params"), self._revision)
            if "requestedSchema" in (params := asked[key]["params"]):
                params["requestedSchema"] = downgrade(params["requestedSchema"], self._revision)
            self._check_declared(asked[key])
        rest = {key: value for key, value in result.items() if key not in ("inputRequests", "requestState")}
        sealed = self._seal(state) if state is not None or (asked and self._used) else None
        return {**rest, **input_required(asked, state=sealed)}

    def _seal(self, state: Any) -> str:
        asked = {key: digest for key, (digest, _) in self.questions.items()}
        payload: JsonObject = {"asked": asked, "answered": self._used, "state": state}
        try:
            return self._keys.seal(payload, binding_of(*self._bound))
        except StateTooLarge:
            if not self._used:
                raise
            raise _invalid("params.inputResponses", "is more than this request can carry") from None


def _checked_answer(responses: JsonObject, key: str, method: str, revision: Revision) -> JsonObject | None:
    """Return one of the answers, checked to be one to what that method asks; None if it has not come."""
    answer: JsonObject | None = responses.get(key)
    if answer is not None:
        _check_answers(KINDS[method].result, {key: answer}, revision)
    return answer


def _check_answers(answers_type: Any, responses: JsonObject, revision: Revision) -> None:
    # SHOULD: validate what the client provides in `inputResponses` (basic/patterns/mrtr#error-handling)
    try:
        checker(dict[str, answers_type], revision)(responses, "params.inputResponses")
    except SchemaMismatch as mismatch:
        raise _invalid(mismatch.path, mismatch.problem) from None


def _copy(value: Any) -> Any:
    return messages.decode(messages.encode(value))


def _invalid(path: str, problem: str) -> InvalidParams:
    return InvalidParams(f"Invalid params: {path} {problem}", {"path": path})


# -- the client's half --------------------------------------------------------------------------------------------


def answer_inputs(
    result: JsonObject, answer: Callable[[str, JsonObject], JsonObject], revision: Revision = LATEST_STATELESS
) -> JsonObject:
    """Answer the questions of an `input_required` result one after the other, in their order.

    Args:
        answer: called with a method and its params (`{}` where the server sent none); returns a result.

    Returns: the `inputResponses` of the next round: each answer as a bare object under the key of its question; empty
        where the server asked nothing: then simply send the request again.
    Raises:
        RemoteProtocolError: the result has neither questions nor a state, one of them is of the wrong type, or a
            question is unknown to the revision; nobody was asked anything.
        InputRefused: `answer` raised: nothing is to be sent again. `__cause__` is what it raised; RequestCancelled,
            RequestTimeout and TransportClosed pass as they are.
    Blocks: as long as `answer` does.
    Threads: any; `answer` is called in this one.
    Spec: basic/patterns/mrtr#inputrequiredresult, #client-requirements-basic-workflow
    """
    # 1. What the server asks for, looked at as a whole before anybody is asked.
    if "inputRequests" not in result and "requestState" not in result:
        raise RemoteProtocolError("the server's input_required result has neither inputRequests nor requestState")
    try:
        checker(InputRequiredResult, revision)(result, "result")
    except SchemaMismatch as mismatch:
        raise RemoteProtocolError(f"the server's input_required result does not fit {revision}: {mismatch}") from None
    # 2. The answers.
    # MUST: construct the response to each of `inputRequests` before the retry
    # (basic/patterns/mrtr#client-requirements-basic-workflow)
    responses: JsonObject = {}
    for key, request in result.get("inputRequests", {}).items():
        method = request["method"]
        try:
            given = answer(method, request.get("params", {}))
        except (RequestCancelled, RequestTimeout, TransportClosed):
            raise
        except Exception as problem:
            why = str(problem) or type(problem).__name__
            raise InputRefused(f"the server needs {method} first, and it was refused here: {why}") from problem
        project = projector(KINDS[method].result, revision, replies=True)
        responses[key] = project(given) if project else given
    return responses


def retry_params(params: JsonObject | None, result: JsonObject, responses: JsonObject) -> JsonObject:
    """Return the params of the next round: those of the request, with the answers and the state of the result before.

    What an earlier round added is dropped. The state is echoed as it is, and only if there is one.

    Spec: basic/patterns/mrtr#client-requirements-basic-workflow
    """
    again = {key: value for key, value in (params or {}).items() if key not in ("inputResponses", "requestState")}
    if responses:
        again["inputResponses"] = responses
    # MUST: echo the exact `requestState` of the result; a client MUST NOT send a `requestState` if the result had none
    # (basic/patterns/mrtr#client-requirements-basic-workflow)
    if "requestState" in result:
        again["requestState"] = result["requestState"]
    return again
