"""Prompts: `prompts/list`, `prompts/get`, `notifications/prompts/list_changed`.

Spec:      server/prompts (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/prompts.md
Not here:  what stands in for a content block that a revision does not have (schema: projection)

    @server.prompt()
    def plan_trip(city: str, days: int = 3) -> str:
        return f"Plan {days} days in {city}."

A prompt's arguments come from a user, and its text goes to a model: treat them as data, not as instructions, and give
nothing away that this user may not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NotRequired, TypedDict, TypeVar, Unpack, cast

from mcp_ref.basic.versioning import is_input_required
from mcp_ref.errors import InvalidParams
from mcp_ref.machinery.checking import checker
from mcp_ref.machinery.shapes import Since
from mcp_ref.messages import JsonObject
from mcp_ref.methods import Caller, Method, Options
from mcp_ref.revisions import Revision
from mcp_ref.server.utilities.caching import CacheableResult
from mcp_ref.server.utilities.pagination import PaginatedResult, answer_list, list_page, walk
from mcp_ref.types import (
    ContentBlock,
    Icon,
    Icons,
    InputResponseRequestParams,
    Meta,
    NotificationParams,
    PaginatedRequestParams,
    Result,
    Role,
    block_type,
    check_data,
    text,
)

if TYPE_CHECKING:
    from mcp_ref.machinery.handlers import Handler
    from mcp_ref.server.context import Context
    from mcp_ref.server.server import Server

# -- types --------------------------------------------------------------------------------------------------------


class PromptArgument(TypedDict):
    """What a prompt can be told; its value is always a string."""

    name: str
    title: NotRequired[Annotated[str, Since("2025-06-18")]]
    description: NotRequired[str]
    required: NotRequired[bool]


class Prompt(TypedDict):
    """A prompt that a user may choose."""

    name: str
    title: NotRequired[Annotated[str, Since("2025-06-18")]]
    description: NotRequired[str]
    arguments: NotRequired[list[PromptArgument]]
    icons: NotRequired[Icons]
    _meta: NotRequired[Meta]


class ListPromptsResult(PaginatedResult, CacheableResult):
    """One page of the prompts."""

    prompts: list[Prompt]


class GetPromptRequestParams(InputResponseRequestParams):
    """Which prompt, and with what."""

    name: str
    arguments: NotRequired[dict[str, str]]


class PromptMessage(TypedDict):
    """One message, said by one of the two, of one content block."""

    role: Role
    content: ContentBlock


class GetPromptResult(Result):
    """The prompt with its arguments put in."""

    description: NotRequired[str]
    messages: list[PromptMessage]


def user(content: str | ContentBlock) -> PromptMessage:
    """A message of the user."""
    return {"role": "user", "content": text(content) if isinstance(content, str) else content}


def assistant(content: str | ContentBlock) -> PromptMessage:
    """A message of the assistant."""
    return {"role": "assistant", "content": text(content) if isinstance(content, str) else content}


# -- registering --------------------------------------------------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])


class PromptEntry(NamedTuple):
    """A prompt, and the handler that writes its messages."""

    definition: Prompt
    function: Callable[..., Any]
    keywords: Callable[[Mapping[str, str], Any], dict[str, Any]]
    required: tuple[str, ...]

    @property
    def argument_names(self) -> tuple[str, ...]:
        return tuple(argument["name"] for argument in self.definition.get("arguments", []))


def prompt(
    self: Server,
    name: str | None = None,
    *,
    title: str | None = None,
    description: str | None = None,
    arguments: list[PromptArgument] | None = None,
    icons: list[Icon] | None = None,
    meta: JsonObject | None = None,
) -> Callable[[F], F]:
    """Decorator: a function that writes the messages of a prompt.

    Its parameters are the prompt's arguments: required where they have no default, read from strings as
    `string_arguments` says, described by `Annotated[str, "text"]` or by the `Args:` section of the docstring. One
    annotated with the context type receives the context. The function returns

        str, or a content block     one message of the user
        PromptMessage               one message; `user(...)` and `assistant(...)` make them
        a list of these             several messages
        GetPromptResult             the whole result: a dict with `messages`

    Args:
        name: the function's own by default.
        description: the first paragraph of the docstring by default.
        arguments: the arguments as they are to be listed, in place of those derived; the function must be able to
            take each, by a parameter or by `**arguments`, which gets strings.

    Raises:
        ValueError: the name is taken.
        TypeError: a parameter that no string can fill, or `arguments` and parameters that do not fit together.

    Threads: any.
    Spec: server/prompts#data-types
    """

    def decorate(function: F) -> F:
        from mcp_ref.machinery.handlers import inspect_handler, string_arguments

        handler = inspect_handler(function, self.context_type)
        keywords = string_arguments(handler)
        listed = _derived(handler) if arguments is None else arguments
        _check_arguments(listed, handler)
        given: JsonObject = {
            "name": name or function.__name__,
            "title": title,
            "description": description or handler.summary,
            "arguments": listed or None,
            "icons": icons,
            "_meta": meta,
        }
        definition = cast(Prompt, {key: value for key, value in given.items() if value is not None})
        required = tuple(argument["name"] for argument in listed if argument.get("required"))
        self.register("prompts", definition["name"], PromptEntry(definition, function, keywords, required))
        return function

    return decorate


def remove_prompt(self: Server, name: str) -> None:
    """Take a prompt out again; `KeyError` if there is none of that name.

    Threads: any.
    """
    self.unregister("prompts", name)


def _derived(handler: Handler) -> list[PromptArgument]:
    listed: list[PromptArgument] = []
    for parameter in handler.parameters.values():
        argument: PromptArgument = {"name": parameter.name, "required": not parameter.default}
        if parameter.description:
            argument["description"] = parameter.description
        listed.append(argument)
    return listed


def _check_arguments(listed: list[PromptArgument], handler: Handler) -> None:
    """Whether the function can be called with every set of arguments that the list allows."""
    name = handler.name
    may_be_missing = {argument["name"] for argument in listed if not argument.get("required")}
    listed_names = {argument["name"] for argument in listed}
    if len(listed_names) < len(listed):
        raise TypeError(f"{name}: two arguments of the prompt have the same name")
    if handler.open_ended and not listed:
        raise TypeError(f"{name}: a prompt with ** needs its arguments listed: arguments=[...]")
    if (unknown := listed_names - handler.parameters.keys()) and not handler.open_ended:
        raise TypeError(f"{name} has no parameter for {', '.join(sorted(unknown))}")
    for parameter in handler.parameters.values():
        if not parameter.default and (parameter.name in may_be_missing or parameter.name not in listed_names):
            raise TypeError(f"{name}: {parameter.name!r} may be missing, so the parameter needs a default")


# -- the server's half --------------------------------------------------------------------------------------------


def prompts_list(ctx: Context, params: PaginatedRequestParams) -> ListPromptsResult:
    """Answer `prompts/list` with one page of the prompts, in order of registration.

    Raises: InvalidParams for a cursor that is not valid.
    Threads: a worker.
    Spec: server/prompts#listing-prompts
    """
    return cast(ListPromptsResult, answer_list(ctx, "prompts", params, "prompts"))


def prompts_get(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    """Answer `prompts/get` by calling the prompt's handler.

    Raises:
        InvalidParams: no prompt of that name; a required argument is missing; one cannot be read as its parameter's
            type; one is unknown (refused, for a misspelt name would otherwise be a value silently left out).

    Blocks: as long as the handler does.
    Threads: a worker.
    Spec: server/prompts#getting-a-prompt, #error-handling
    """
    entry: PromptEntry | None = ctx.registered("prompts").get(params["name"])
    if entry is None:
        raise InvalidParams(f"Unknown prompt: {params['name']}", {"name": params["name"]})
    arguments = params.get("arguments", {})
    # SHOULD: validate prompt arguments before processing (server/prompts#implementation-considerations)
    _check_given(entry, arguments)
    try:
        keywords = entry.keywords(arguments, ctx)
    except ValueError as problem:
        raise InvalidParams(f"Invalid params: {problem}") from None
    returned = entry.function(**keywords)
    if is_input_required(returned):
        return cast(GetPromptResult, returned)
    return _checked(_result(entry, returned), ctx.revision)


def _check_given(entry: PromptEntry, arguments: Mapping[str, str]) -> None:
    for name in entry.required:
        if name not in arguments:
            raise InvalidParams(f"Missing required argument: {name}", {"argument": name})
    for name in arguments:
        if name not in entry.argument_names:
            raise InvalidParams(f"Unknown argument: {name}", {"argument": name})


def _result(entry: PromptEntry, returned: Any) -> GetPromptResult:
    if isinstance(returned, Mapping) and "messages" in returned:
        return cast(GetPromptResult, {**returned, "messages": [_message(each) for each in returned["messages"]]})
    several = returned if isinstance(returned, list | tuple) else [returned]
    result: GetPromptResult = {"messages": [_message(each) for each in several]}
    if "description" in entry.definition:
        result["description"] = entry.definition["description"]
    return result


def _checked(result: GetPromptResult, revision: Revision) -> GetPromptResult:
    """The result itself; raises ValueError for blocks that lack something, or whose data is not what it must be."""
    # MUST: validate all prompt outputs (server/prompts#security)
    checker(GetPromptResult, revision)(result, "result")
    for message in result["messages"]:
        check_data(message["content"])
    return result


def _message(value: Any) -> PromptMessage:
    if isinstance(value, str) or block_type(value) is not None:
        return user(value)
    if isinstance(value, Mapping) and value.get("role") in ("user", "assistant"):
        content = value.get("content")
        if isinstance(content, str) or block_type(content) is not None:
            return cast(PromptMessage, {**value, "content": text(content) if isinstance(content, str) else content})
    raise TypeError(f"a prompt returns texts, content blocks and messages of one content block, not {value!r}")


# -- the client's half --------------------------------------------------------------------------------------------


def list_prompts(self: Caller, **options: Unpack[Options]) -> list[Prompt]:
    """Ask with `prompts/list` for all prompts, page by page.

    Raises:
        LocalProtocolError: the server did not declare `prompts`.
        ErrorResponse, RequestTimeout, TransportClosed, RemoteProtocolError: as for every request; the last also for a
            list without end.
    Blocks: until the last page; a number as `timeout` bounds the whole.
    Threads: any.
    Spec: server/prompts#listing-prompts
    """
    return walk(self, "prompts/list", "prompts", options)


def list_prompts_page(self: Caller, cursor: str | None = None, **options: Unpack[Options]) -> ListPromptsResult:
    """Ask with `prompts/list` for one page, and return the whole result.

    Args:
        cursor: the `nextCursor` of the page before; None: the first page.

    Raises, Blocks, Threads: as for every request; -32602 for a cursor that the server does not know.
    Spec: server/utilities/pagination#request-format
    """
    return cast(ListPromptsResult, list_page(self, "prompts/list", cursor, options))


def get_prompt(
    self: Caller, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[Options]
) -> GetPromptResult:
    """Ask with `prompts/get` for the messages of a prompt.

    Args:
        arguments: by name; values are strings only.

    Returns:
        The whole result: `messages`, each with `role` and one content block, and perhaps `description`.

    Raises:
        LocalProtocolError: the server did not declare `prompts`.
        ErrorResponse: -32602 for an unknown prompt, or arguments that do not fit it.
        RequestTimeout, TransportClosed, RemoteProtocolError: as for every request.

    Blocks: until the answer, bounded by `timeout`.
    Threads: any.
    Spec: server/prompts#getting-a-prompt
    """
    params: JsonObject = {"name": name}
    if arguments is not None:
        params["arguments"] = dict(arguments)
    return cast(GetPromptResult, self.request("prompts/get", params, options))


METHODS = (
    Method("prompts/list", "client", "server/prompts", "ask for one page of the prompts", PaginatedRequestParams,
           ListPromptsResult, needs="server.prompts"),
    Method("prompts/get", "client", "server/prompts", "ask for the messages of a prompt, with its arguments put in",
           GetPromptRequestParams, GetPromptResult, needs="server.prompts"),
    Method("notifications/prompts/list_changed", "server", "server/prompts", "say that the list of prompts has changed",
           NotificationParams, needs="server.prompts.listChanged"),
)  # fmt: skip
