"""Completion: `completion/complete`, suggestions for the arguments of prompts and resource templates.

Spec:      server/utilities/completion (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/utilities/completion.md
Not here:  the prompts and templates themselves (server/prompts, server/resources); the limit on requests per second
           (server/session)

    @server.completion(prompt="plan_trip", argument="city")
    def cities(value: str, arguments: dict[str, str]) -> list[str]: ...

Suggestions tell what exists. A function that knows of things which not every client may see takes the context as well,
and looks at who asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict, Unpack, cast

from mcp_ref.errors import InvalidParams
from mcp_ref.kit.typed.handlers import F, inspect_handler
from mcp_ref.kit.typed.shapes import AtMost, Closed, Format, Former, Since, renamed
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method, Options
from mcp_ref.wire.types import RequestParams, Result

if TYPE_CHECKING:
    from mcp_ref.client.client import Client
    from mcp_ref.server.server import Server
    from mcp_ref.server.session import Context

MAX_VALUES = 100
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
    """The argument that is being typed, and the text so far."""

    name: str
    value: str


class CompletionContext(TypedDict):
    """The arguments that have a value already."""

    arguments: NotRequired[dict[str, str]]


class CompleteRequestParams(RequestParams):
    """The argument of a prompt or a template to complete."""

    ref: Annotated[PromptReference | ResourceTemplateReference, Closed()]
    argument: CompletionArgument
    context: NotRequired[Annotated[CompletionContext, Since("2025-06-18")]]


class Completion(TypedDict):
    """Suggestions, the best first; `total` also counts those not sent, and `hasMore` says that there are such."""

    values: Annotated[list[str], AtMost(MAX_VALUES, published_since="2026-07-28")]
    total: NotRequired[int]
    hasMore: NotRequired[bool]


class CompleteResult(Result):
    """The answer to `completion/complete`."""

    completion: Completion


def prompt_ref(name: str) -> PromptReference:
    """Return the reference to a prompt."""
    return {"type": "ref/prompt", "name": name}


def resource_ref(uri: str) -> ResourceTemplateReference:
    """Return the reference to a resource template (its text, with the braces) or to a resource (its URI)."""
    return {"type": "ref/resource", "uri": uri}


# -- rows ---------------------------------------------------------------------------------------------------------

METHODS = (
    Method("completion/complete", "client", "server/utilities/completion",
           "ask what an argument of a prompt or a template could be", CompleteRequestParams, CompleteResult,
           needs="server.completions", needs_since="2025-03-26"),
)  # fmt: skip


# -- the server's half --------------------------------------------------------------------------------------------


class CompletionEntry(NamedTuple):
    """A function that suggests, and the names of its parameters: for the value, the other arguments, the context."""

    function: Callable[..., Any]
    value: str
    arguments: str | None
    context: str | None


def completion(
    self: Server, *, argument: str, prompt: str | None = None, resource: str | None = None
) -> Callable[[F], F]:
    """Offer a function that suggests values for one argument: `@server.completion(prompt="p", argument="a")`.

    The function is called as `f(value)`, or as `f(value, arguments)` if it has a second parameter: the text so far, and
    the values of the other arguments that the client knows (empty before 2025-06-18). A parameter annotated with
    `Context` receives the context. It returns strings, the best first, in any iterable; more than 100 are cut off, and
    the client is told. To say how many there are, it returns a `Completion` dict.

    Args:
        argument: the name of the prompt's argument or of the template's variable.
        prompt: the name of a prompt.
        resource: the text of a resource template.

    Returns: a decorator that returns the function unchanged.
    Raises:
        TypeError: not exactly one of `prompt` and `resource`, or the function has other parameters than described, or
            annotations that cannot be evaluated.
        ValueError: that argument has a function already.

    Spec: server/utilities/completion#requesting-completions
    """
    if (prompt is None) == (resource is None):
        raise TypeError("a completion is either for a prompt or for a resource: give one of prompt= and resource=")
    key = _key(prompt_ref(prompt) if prompt is not None else resource_ref(str(resource)), argument)

    def register(function: F) -> F:
        handler = inspect_handler(function, self.context_type, may_yield=True)
        names = list(handler.parameters)
        if handler.unnamed or handler.open_ended or len(names) not in (1, 2):
            wanted = "(value) or (value, arguments), and perhaps the context"
            raise TypeError(f"{handler.name}: a completion must take {wanted}")
        entry = CompletionEntry(function, names[0], names[1] if len(names) == 2 else None, handler.context)
        self.register("completions", key, entry)
        return function

    return register


def completion_values(
    self: Server, values: Iterable[str], *, argument: str, prompt: str | None = None, resource: str | None = None
) -> None:
    """Suggest from a fixed list the values that begin with the text so far, ignoring case; the rest as `completion`."""
    fixed = tuple(values)

    def matching(value: str) -> list[str]:
        # SHOULD: match suggestions loosely if appropriate: a beginning, in any case
        # (server/utilities/completion#implementation-considerations)
        return [each for each in fixed if each.casefold().startswith(value.casefold())]

    completion(self, argument=argument, prompt=prompt, resource=resource)(matching)


def _key(reference: PromptReference | ResourceTemplateReference, argument: str) -> str:
    """Return the key of a function in its registry; no name and no template contains a NUL."""
    owner = reference["name"] if reference["type"] == "ref/prompt" else reference["uri"]
    return "\0".join((reference["type"], owner, argument))


def completion_complete(ctx: Context, params: CompleteRequestParams) -> CompleteResult:
    """Answer `completion/complete` with the suggestions of the function for that argument, or with none.

    Raises: InvalidParams: the prompt, template or resource does not exist, or does not have the argument.
    Blocks: as long as the function does.
    Spec: server/utilities/completion#error-handling
    """
    # 1. The prompt or template must exist, and have the argument.
    #    MUST: validate all completion inputs (server/utilities/completion#security)
    reference, argument = params["ref"], params["argument"]
    names: Sequence[str]
    if reference["type"] == "ref/prompt":
        prompt = ctx.server.registries["prompts"].get(reference["name"])
        if prompt is None:
            # SHOULD: answer -32602 to a completion for an unknown prompt (server/utilities/completion#error-handling)
            raise InvalidParams(f"Unknown prompt: {reference['name']}", {"name": reference["name"]})
        names = prompt.argument_names
    else:
        uri = reference["uri"]
        resource = ctx.server.registries["templates"].get(uri) or ctx.server.registries["resources"].get(uri)
        if resource is None:
            raise InvalidParams(f"Unknown resource: {uri}", {"uri": uri})
        names = resource.argument_names
    if argument["name"] not in names:
        raise InvalidParams(f"Unknown argument: {argument['name']}", {"argument": argument["name"]})

    # 2. Ask the function, if there is one.
    #    MUST: control access to sensitive suggestions: the function gets the context, and sees who asks
    #    (server/utilities/completion#security)
    entry: CompletionEntry | None = ctx.server.registries["completions"].get(_key(reference, argument["name"]))
    if entry is None:
        return {"completion": {"values": [], "total": 0, "hasMore": False}}
    keywords: JsonObject = {entry.value: argument["value"]}
    if entry.arguments is not None:
        keywords[entry.arguments] = params.get("context", {}).get("arguments", {})
    if entry.context is not None:
        keywords[entry.context] = ctx
    answer = entry.function(**keywords)

    # 3. At most 100 values, and whether that is all.
    #    SHOULD: the best suggestions come first: the order is the function's
    #    (server/utilities/completion#implementation-considerations)
    given: JsonObject = dict(answer) if isinstance(answer, Mapping) else {"values": answer}
    values = given["values"]
    # One more than may be sent tells whether there are more, even if the iterable never ends.
    taken = [] if isinstance(values, str) else list(islice(values, MAX_VALUES + 1))
    if isinstance(values, str) or not all(isinstance(each, str) for each in taken):
        raise TypeError(f"a completion must return strings, not {answer!r}")
    if isinstance(values, Sized):
        given.setdefault("total", len(values))
    elif len(taken) <= MAX_VALUES:
        given.setdefault("total", len(taken))
    # A server MUST NOT answer a `completion/complete` with more than 100 values (schema CompleteResult)
    given["values"] = taken[:MAX_VALUES]
    if len(taken) > MAX_VALUES:
        given["hasMore"] = True
    given.setdefault("hasMore", given.get("total", 0) > len(given["values"]))
    return {"completion": cast(Completion, given)}


# -- the client's half --------------------------------------------------------------------------------------------


def complete(
    self: Client,
    ref: PromptReference | ResourceTemplateReference,
    name: str,
    value: str,
    *,
    arguments: Mapping[str, str] | None = None,
    **options: Unpack[Options],
) -> CompleteResult:
    """Ask what an argument could be with `completion/complete`.

    Args:
        ref: `prompt_ref(name)` or `resource_ref(template)`.
        name: the argument.
        value: the text so far; may be empty.
        arguments: the values of other arguments, as far as they are known; left out before 2025-06-18, which does not
            have them.

    Returns: the whole result: `["completion"]["values"]` holds at most 100 suggestions, the best first.
    Raises:
        LocalProtocolError: also if the server did not declare `completions` (from 2025-03-26 on).
        ErrorResponse: -32602 for an unknown prompt, template or argument; -32601 before 2025-03-26 from a server
            without completion; 429 for too many requests.

    Spec: server/utilities/completion#requesting-completions
    """
    params: JsonObject = {"ref": ref, "argument": {"name": name, "value": value}}
    if arguments is not None:
        params["context"] = {"arguments": dict(arguments)}
    return cast(CompleteResult, self.request("completion/complete", params, options))
