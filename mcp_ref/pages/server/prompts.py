"""Prompts: `prompts/list`, `prompts/get`, `notifications/prompts/list_changed`.

Spec:      server/prompts (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/prompts.md
Not here:  how strings become what a function takes (kit/typed/handlers); what stands in for a content block that a
           revision does not have (kit/typed/checking)

    @server.prompt()
    def plan_trip(city: str, days: int = 3) -> str:
        return f"Plan {days} days in {city}."

A prompt's arguments come from a user, and its text goes to a model: treat them as data, not as instructions, and give
nothing away that this user may not read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NotRequired, TypedDict, Unpack, cast

from mcp_ref.errors import InvalidParams
from mcp_ref.kit.http.scopes import checked_scopes
from mcp_ref.kit.typed.checking import checker
from mcp_ref.kit.typed.handlers import F, Handler, inspect_handler, string_arguments
from mcp_ref.kit.typed.shapes import Since
from mcp_ref.pages.server.utilities.caching import CacheableResult
from mcp_ref.pages.server.utilities.pagination import (
    PaginatedRequestParams,
    PaginatedResult,
    answer_list,
    list_page,
    walk,
)
from mcp_ref.wire.content import ContentBlock, Role, block_type, check_data, text
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method, Options
from mcp_ref.wire.types import (
    Icon,
    Icons,
    InputResponseRequestParams,
    Meta,
    NotificationParams,
    Result,
    is_input_required,
)

if TYPE_CHECKING:
    from mcp_ref.client.client import Client
    from mcp_ref.server.server import Server
    from mcp_ref.server.session import Context


# -- types --------------------------------------------------------------------------------------------------------


class PromptArgument(TypedDict):
    """An argument of a prompt; its value is always a string."""

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
    """The name of a prompt, and its arguments."""

    name: str
    arguments: NotRequired[dict[str, str]]


class PromptMessage(TypedDict):
    """One message of the user or the assistant, with one content block."""

    role: Role
    content: ContentBlock


class GetPromptResult(Result):
    """The messages of a prompt, with its arguments filled in."""

    description: NotRequired[str]
    messages: list[PromptMessage]


def user(content: str | ContentBlock) -> PromptMessage:
    """Make a message of the user."""
    return {"role": "user", "content": text(content) if isinstance(content, str) else content}


def assistant(content: str | ContentBlock) -> PromptMessage:
    """Make a message of the assistant."""
    return {"role": "assistant", "content": text(content) if isinstance(content, str) else content}


# -- rows ---------------------------------------------------------------------------------------------------------

METHODS = (
    Method("prompts/list", "client", "server/prompts", "ask for one page of the prompts", PaginatedRequestParams,
           ListPromptsResult, needs="server.prompts"),
    Method("prompts/get", "client", "server/prompts", "ask for the messages of a prompt, with its arguments put in",
           GetPromptRequestParams, GetPromptResult, needs="server.prompts"),
    Method("notifications/prompts/list_changed", "server", "server/prompts", "say that the list of prompts has changed",
           NotificationParams, needs="server.prompts.listChanged"),
)  # fmt: skip


# -- the server's half: registering -------------------------------------------------------------------------------


class PromptEntry(NamedTuple):
    """A registered prompt: how it is listed, what writes its messages, what makes keyword arguments of strings, and the
    scopes that a token must grant."""

    definition: Prompt
    function: Callable[..., Any]
    keywords: Callable[[Mapping[str, str], Any], dict[str, Any]]
    scopes: tuple[str, ...] = ()

    @property
    def argument_names(self) -> list[str]:
        return [argument["name"] for argument in self.definition.get("arguments", [])]


def prompt(
    self: Server,
    name: str | None = None,
    *,
    title: str | None = None,
    description: str | None = None,
    arguments: Sequence[PromptArgument] | None = None,
    icons: Sequence[Icon] | None = None,
    scopes: Sequence[str] = (),
    meta: JsonObject | None = None,
    replace: bool = False,
) -> Callable[[F], F]:
    """Offer a function that writes the messages of a prompt: `@server.prompt()`.

    Its parameters are the prompt's arguments: required if they have no default, read from strings as their type hints
    say (kit/typed/handlers has the table), described by `Annotated[str, "text"]` or by the `Args:` section of the
    docstring. A parameter annotated with `Context` receives the context. The function returns

        str, or a content block     one message of the user
        PromptMessage               one message; `user(...)` and `assistant(...)` make them
        a list of these             several messages
        GetPromptResult             the whole result: a dict with `messages`

    Args:
        name: the function's own by default.
        description: the first paragraph of the docstring by default.
        arguments: the arguments as they are to be listed, instead of those derived; the function must be able to take
            each of them, by a parameter or by `**arguments`, which gets strings.
        scopes: those that a token must grant to get it, where the server is served with `authorization=`.
        meta: the `_meta` of the definition.
        replace: take the place of one of that name, as a cell of a notebook does that runs again.

    Returns: a decorator that returns the function unchanged.
    Raises:
        ValueError: there is a prompt of that name.
        TypeError: no string can fill a parameter, or `arguments` and the parameters do not fit together.

    Spec: server/prompts#data-types
    """
    if callable(name):
        raise TypeError("write @server.prompt(), with the brackets")

    def register(function: F) -> F:
        handler = inspect_handler(function, self.context_type)
        keywords = string_arguments(handler)
        listed: list[PromptArgument] = list(arguments or ())
        if arguments is None:
            for parameter in handler.parameters.values():
                argument: PromptArgument = {"name": parameter.name, "required": not parameter.default}
                listed.append(argument | {"description": parameter.description} if parameter.description else argument)
        _check_callable(handler, listed)
        definition = {
            "name": name or function.__name__,
            "title": title,
            "description": description or handler.summary,
            "arguments": listed or None,
            "icons": icons and list(icons),
            "_meta": meta,
        }
        definition = {key: value for key, value in definition.items() if value is not None}
        entry = PromptEntry(cast(Prompt, definition), function, keywords, checked_scopes(scopes))
        self.register("prompts", entry.definition["name"], entry, replace=replace)
        return function

    return register


def _check_callable(handler: Handler, listed: Sequence[PromptArgument]) -> None:
    """Raise TypeError unless the function can be called with every set of arguments that the list allows."""
    name, listed_names = handler.name, {argument["name"] for argument in listed}
    always_given = {argument["name"] for argument in listed if argument.get("required")}
    if len(listed_names) < len(listed):
        raise TypeError(f"{name}: two arguments of the prompt have the same name")
    if handler.open_ended and not listed:
        raise TypeError(f"{name}: a prompt with ** needs its arguments listed: arguments=[...]")
    if (unknown := listed_names - handler.parameters.keys()) and not handler.open_ended:
        raise TypeError(f"{name} has no parameter for {', '.join(sorted(unknown))}")
    for parameter in handler.parameters.values():
        if not parameter.default and parameter.name not in always_given:
            raise TypeError(f"{name}: {parameter.name!r} may be missing, so the parameter needs a default")


def remove_prompt(self: Server, name: str) -> None:
    """Remove a prompt. Raises: KeyError: no prompt has that name."""
    self.unregister("prompts", name)


# -- the server's half: answering ---------------------------------------------------------------------------------


def prompts_list(ctx: Context, params: PaginatedRequestParams) -> ListPromptsResult:
    """Answer `prompts/list` with one page of the prompts. Raises: InvalidParams: the cursor is not valid."""
    # MUST: `prompts/list` is the same for every connection: the registry is all that counts
    # (2026-07-28/server/prompts#capabilities)
    return cast(ListPromptsResult, answer_list(ctx, "prompts", params, "prompts"))


def prompts_get(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
    """Answer `prompts/get`: check the arguments, run the function, and make messages of what it returns.

    Raises:
        InvalidParams: no prompt has that name; a required argument is missing; one cannot be read as its
            parameter's type; one is unknown (if it were ignored, a misspelt name would be a value silently left out).

    Blocks: as long as the function does.
    Spec: server/prompts#getting-a-prompt, #error-handling
    """
    entry: PromptEntry | None = ctx.server.registries["prompts"].get(params["name"])
    if entry is None:
        # SHOULD: answer -32602 to an unknown prompt (server/prompts#error-handling)
        raise InvalidParams(f"Unknown prompt: {params['name']}", {"name": params["name"]})
    given = params.get("arguments", {})
    # SHOULD: validate prompt arguments before processing (server/prompts#implementation-considerations)
    for argument in entry.definition.get("arguments", []):
        if argument.get("required") and argument["name"] not in given:
            # SHOULD: answer -32602 if a required argument of a prompt is missing (server/prompts#error-handling)
            raise InvalidParams(f"Missing required argument: {argument['name']}", {"argument": argument["name"]})
    for name in given:
        if name not in entry.argument_names:
            raise InvalidParams(f"Unknown argument: {name}", {"argument": name})
    try:
        # MUST: validate all prompt inputs (server/prompts#security)
        keywords = entry.keywords(given, ctx)
    except ValueError as problem:
        raise InvalidParams(f"Invalid params: {problem}") from None
    returned = entry.function(**keywords)
    if is_input_required(returned):
        # MAY: answer `prompts/get` with a question (2026-07-28/server/prompts#getting-a-prompt)
        return cast(GetPromptResult, returned)
    if isinstance(returned, Mapping) and "messages" in returned:
        result = cast(GetPromptResult, {**returned, "messages": [_message(each) for each in returned["messages"]]})
    else:
        several = returned if isinstance(returned, list | tuple) else [returned]
        result = {"messages": [_message(each) for each in several]}
        if "description" in entry.definition:
            result["description"] = entry.definition["description"]
    # MUST: validate all prompt outputs (server/prompts#security)
    checker(GetPromptResult, ctx.revision)(result, "result")
    for message in result["messages"]:
        # MUST: the content of a prompt is valid: base64, a MIME type, a resource with a URI and text or blob
        # (server/prompts#image-content, #audio-content, #embedded-resources)
        check_data(message["content"])
    return result


def _message(value: Any) -> PromptMessage:
    if isinstance(value, str) or block_type(value) is not None:
        return user(value)
    if isinstance(value, Mapping) and value.get("role") in ("user", "assistant"):
        content = value.get("content")
        if isinstance(content, str) or block_type(content) is not None:
            return cast(PromptMessage, {**value, "content": text(content) if isinstance(content, str) else content})
    raise TypeError(f"a prompt must return texts, content blocks or messages with one content block, not {value!r}")


# -- the client's half --------------------------------------------------------------------------------------------


def list_prompts(self: Client, **options: Unpack[Options]) -> list[Prompt]:
    """Ask for all prompts with `prompts/list`, page by page.

    Raises: RemoteProtocolError: also for pages that have no end.
    Blocks: until the last page; a number as `timeout` bounds them all together.
    Spec: server/prompts#listing-prompts
    """
    # SHOULD: a client handles pagination of large prompt lists (server/prompts#implementation-considerations)
    return walk(self, "prompts/list", "prompts", options)


def list_prompts_page(self: Client, cursor: str | None = None, **options: Unpack[Options]) -> ListPromptsResult:
    """Ask for one page of the prompts with `prompts/list`, and return the whole result.

    Args:
        cursor: the `nextCursor` of the page before; None for the first page.

    Raises: ErrorResponse: -32602 for a cursor that the server does not know.
    Spec: server/prompts#listing-prompts, server/utilities/pagination#request-format
    """
    return cast(ListPromptsResult, list_page(self, "prompts/list", cursor, options))


def get_prompt(
    self: Client, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[Options]
) -> GetPromptResult:
    """Ask for the messages of a prompt with `prompts/get`.

    Args:
        arguments: by name; values are strings only.

    Returns: the whole result: `messages`, each with `role` and one content block, and perhaps `description`.
    Raises: ErrorResponse: -32602 for an unknown prompt, or arguments that do not fit it.
    Spec: server/prompts#getting-a-prompt
    """
    params: JsonObject = {"name": name}
    if arguments is not None:
        params["arguments"] = dict(arguments)
    return cast(GetPromptResult, self.request("prompts/get", params, options))
