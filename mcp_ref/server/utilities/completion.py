"""Completion: `completion/complete`, suggestions for the arguments of prompts and resource templates.

Spec:      server/utilities/completion (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/utilities/completion.md
Not here:  the prompts and templates themselves (server/prompts, server/resources); the limit on requests per second
           (server/session)

    @server.completion(prompt="plan_trip", argument="city")
    def cities(value: str, arguments: dict[str, str]) -> list[str]: ...

A handler sees what other clients must not see? Then it takes the context as well, and looks who asks: suggestions tell
what exists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from itertools import islice
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    Protocol,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)

from mcp_ref.errors import InvalidParams
from mcp_ref.machinery.shapes import AtMost, Closed, Format, Former, Since, renamed
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Caller, Method, Options
from mcp_ref.types import RequestParams, Result

if TYPE_CHECKING:
    from mcp_ref.server.context import Context
    from mcp_ref.server.server import Server

MOST_VALUES = 100
"""How many suggestions one result may hold."""


# -- types --------------------------------------------------------------------------------------------------------


class PromptReference(TypedDict):
    """A prompt by its name."""

    type: Literal["ref/prompt"]
    name: str
    title: NotRequired[Annotated[str, Since("2025-06-18")]]


class ResourceTemplateReference(TypedDict):
    """A resource template by its text, or a resource by its URI."""

    type: Literal["ref/resource"]
    uri: Annotated[str, Format("uri-template")]


renamed(ResourceTemplateReference, Former("ResourceReference", until="2025-03-26"))


class CompletionArgument(TypedDict):
    """The argument that is being typed, and what is there so far."""

    name: str
    value: str


class CompletionContext(TypedDict):
    """What is known beside it: the arguments that have a value already."""

    arguments: NotRequired[dict[str, str]]


class CompleteRequestParams(RequestParams):
    """What is completed: an argument of a prompt or a template."""

    ref: Annotated[PromptReference | ResourceTemplateReference, Closed()]
    argument: CompletionArgument
    context: NotRequired[Annotated[CompletionContext, Since("2025-06-18")]]


class Completion(TypedDict):
    """Suggestions, the best first; `total` counts those not sent too, and `hasMore` says that there are such."""

    values: Annotated[list[str], AtMost(MOST_VALUES, published_since="2026-07-28")]
    total: NotRequired[int]
    hasMore: NotRequired[bool]


class CompleteResult(Result):
    """The answer to `completion/complete`."""

    completion: Completion


def prompt_ref(name: str) -> PromptReference:
    """The reference to a prompt."""
    return {"type": "ref/prompt", "name": name}


def resource_ref(uri: str) -> ResourceTemplateReference:
    """The reference to a resource template (its text, with the braces) or to a resource (its URI)."""
    return {"type": "ref/resource", "uri": uri}


# -- registering --------------------------------------------------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])


class CompletionEntry(NamedTuple):
    """A handler, and the names of its parameters: for the value, for the other arguments, for the context."""

    function: Callable[..., Any]
    value: str
    arguments: str | None
    context: str | None

    def keywords(self, value: str, arguments: Mapping[str, str], ctx: Any) -> JsonObject:
        """The keyword arguments for a call."""
        given: JsonObject = {self.value: value}
        if self.arguments is not None:
            given[self.arguments] = arguments
        if self.context is not None:
            given[self.context] = ctx
        return given


def completion(
    self: Server, *, argument: str, prompt: str | None = None, resource: str | None = None
) -> Callable[[F], F]:
    """Decorator: a function that suggests values for one argument, asked with `completion/complete`.

    The function is called as `handler(value)`, or `handler(value, arguments)` if it has a second parameter: what was
    typed so far, and the values of the other arguments that the client knows (empty before 2025-06-18). A parameter
    annotated with the context type receives the context. It returns strings, the best first, in any iterable; more
    than 100 are cut off, and the client is told. To say how many there are, it returns a `Completion` dict.

    Args:
        argument: the name of the prompt's argument or of the template's variable.
        prompt: the name of a prompt.
        resource: the text of a resource template.

    Raises:
        TypeError: not exactly one of `prompt` and `resource`, or the function has other parameters than described, or
            annotations that cannot be evaluated.
        ValueError: that argument has a handler already.

    Threads: any.
    Spec: server/utilities/completion#requesting-completions
    """
    key = _key(_reference(prompt, resource), argument)

    def decorate(function: F) -> F:
        self.register("completions", key, _inspect(function, self.context_type))
        return function

    return decorate


def completion_values(
    self: Server, values: Iterable[str], *, argument: str, prompt: str | None = None, resource: str | None = None
) -> None:
    """Suggest from a fixed list: those values that begin with what was typed, in any case.

    Args and Raises: as for `completion`.
    """
    fixed = tuple(values)

    def matching(value: str) -> list[str]:
        return [each for each in fixed if each.casefold().startswith(value.casefold())]

    completion(self, argument=argument, prompt=prompt, resource=resource)(matching)


def _reference(prompt: str | None, resource: str | None) -> PromptReference | ResourceTemplateReference:
    if prompt is not None and resource is None:
        return prompt_ref(prompt)
    if resource is not None and prompt is None:
        return resource_ref(resource)
    raise TypeError("a completion is either for a prompt or for a resource: give one of prompt= and resource=")


def _key(reference: PromptReference | ResourceTemplateReference, argument: str) -> str:
    """The place of a handler in its registry; a NUL is in no name and no template."""
    owner = reference["name"] if reference["type"] == "ref/prompt" else reference["uri"]
    return "\0".join((reference["type"], owner, argument))


def _inspect(function: Callable[..., Any], context_type: type) -> CompletionEntry:
    from mcp_ref.machinery.handlers import inspect_handler

    handler = inspect_handler(function, context_type, may_yield=True)
    names = list(handler.parameters)
    if handler.unnamed or handler.open_ended or len(names) not in (1, 2):
        raise TypeError(f"{handler.name}: a completion takes (value) or (value, arguments), and perhaps the context")
    return CompletionEntry(function, names[0], names[1] if len(names) == 2 else None, handler.context)


# -- the server's half --------------------------------------------------------------------------------------------


class HasArguments(Protocol):
    """What a prompt's and a template's entry have in common."""

    @property
    def argument_names(self) -> tuple[str, ...]: ...


def completion_complete(ctx: Context, params: CompleteRequestParams) -> CompleteResult:
    """Answer `completion/complete` with the suggestions of the handler for that argument, or with none.

    Raises:
        InvalidParams: no such prompt, template or resource, or it has no such argument.

    Blocks: as long as the handler does.
    Threads: a worker.
    Spec: server/utilities/completion#error-handling
    """
    reference, argument = params["ref"], params["argument"]
    # MUST: validate all completion inputs (server/utilities/completion#security)
    if argument["name"] not in _arguments_of(ctx, reference):
        raise InvalidParams(f"Unknown argument: {argument['name']}", {"argument": argument["name"]})
    entry: CompletionEntry | None = ctx.registered("completions").get(_key(reference, argument["name"]))
    if entry is None:
        return {"completion": {"values": [], "total": 0, "hasMore": False}}
    known = params.get("context", {}).get("arguments", {})
    return {"completion": _completion(entry.function(**entry.keywords(argument["value"], known, ctx)))}


def _arguments_of(ctx: Context, reference: PromptReference | ResourceTemplateReference) -> tuple[str, ...]:
    if reference["type"] == "ref/prompt":
        prompt: HasArguments | None = ctx.registered("prompts").get(reference["name"])
        if prompt is None:
            raise InvalidParams(f"Unknown prompt: {reference['name']}", {"name": reference["name"]})
        return prompt.argument_names
    template: HasArguments | None = ctx.registered("templates").get(reference["uri"])
    if template is not None:
        return template.argument_names
    if reference["uri"] in ctx.registered("resources"):
        return ()
    raise InvalidParams(f"Unknown resource: {reference['uri']}", {"uri": reference["uri"]})


def _completion(answer: Any) -> Completion:
    """What a handler returned, as it goes on the wire: at most 100 values, and whether that is all."""
    given: JsonObject = dict(answer) if isinstance(answer, Mapping) else {"values": answer}
    values = given["values"]
    # One more than may be sent tells whether there are more, also of what never ends.
    taken = [] if isinstance(values, str) else list(islice(values, MOST_VALUES + 1))
    if isinstance(values, str) or not all(isinstance(each, str) for each in taken):
        raise TypeError(f"a completion returns strings, not {answer!r}")
    if isinstance(values, Sized):
        given.setdefault("total", len(values))
    elif len(taken) <= MOST_VALUES:
        given.setdefault("total", len(taken))
    # MUST NOT: more than 100 items (schema CompleteResult)
    given["values"] = taken[:MOST_VALUES]
    if len(taken) > MOST_VALUES:
        given["hasMore"] = True
    given.setdefault("hasMore", given.get("total", 0) > len(given["values"]))
    return cast(Completion, given)


# -- the client's half --------------------------------------------------------------------------------------------


def complete(
    self: Caller,
    ref: PromptReference | ResourceTemplateReference,
    name: str,
    value: str,
    *,
    arguments: Mapping[str, str] | None = None,
    **options: Unpack[Options],
) -> CompleteResult:
    """Ask with `completion/complete` what an argument could be.

    Args:
        ref: `prompt_ref(name)` or `resource_ref(template)`.
        name: the argument.
        value: what was typed so far; may be empty.
        arguments: the values of other arguments, as far as they are known; left out before 2025-06-18, which does not
            have them.

    Returns:
        The whole result: `["completion"]["values"]` holds at most 100 suggestions, the best first.

    Raises:
        LocalProtocolError: the server did not declare `completions` (from 2025-03-26 on).
        ErrorResponse: -32602 for an unknown prompt, template or argument; -32601 before 2025-03-26 from a server
            without completion; 429 for too many requests.
        RequestTimeout, TransportClosed, RemoteProtocolError: as for every request.

    Blocks: until the answer, bounded by `timeout`.
    Threads: any.
    Spec: server/utilities/completion#requesting-completions
    """
    params: JsonObject = {"ref": ref, "argument": {"name": name, "value": value}}
    if arguments is not None:
        params["context"] = {"arguments": dict(arguments)}
    return cast(CompleteResult, self.request("completion/complete", params, options))


METHODS = (
    Method("completion/complete", "client", "server/utilities/completion",
           "ask what an argument of a prompt or a template could be", CompleteRequestParams, CompleteResult,
           needs="server.completions", needs_since="2025-03-26"),
)  # fmt: skip
