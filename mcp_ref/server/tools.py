"""The data types of the page Tools, and the error of arguments that do not fit.

Spec:      server/tools#data-types; schema Tool, ToolAnnotations, ToolExecution, CallToolRequest, CallToolResult
Upholds:   the rows on data types of spec_notes/server/tools.md
Not here:  what is done with them (server/tools)
"""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Callable, Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
)

from mcp_ref.basic.versioning import is_input_required
from mcp_ref.errors import InvalidParams, McpError, Refusal, RemoteProtocolError, RequestCancelled, ToolError
from mcp_ref.machinery import json_schema
from mcp_ref.machinery.handlers import BadArguments
from mcp_ref.machinery.shapes import FromRevision, Since, Until
from mcp_ref.messages import JsonObject
from mcp_ref.methods import DEFAULT, Method, Options
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
    block_type,
    text,
)

if TYPE_CHECKING:
    from mcp_ref.client.client import Client
    from mcp_ref.machinery.handlers import Handler
    from mcp_ref.server.context import Context
    from mcp_ref.server.server import Server

log = logging.getLogger(__name__)


class ToolAnnotations(TypedDict):
    """Hints on what a tool does; a client must not trust those of a server that it does not trust."""

    title: NotRequired[str]
    readOnlyHint: NotRequired[bool]
    destructiveHint: NotRequired[bool]
    idempotentHint: NotRequired[bool]
    openWorldHint: NotRequired[bool]


class ToolExecution(TypedDict):
    """Whether a tool may be called as a task."""

    taskSupport: NotRequired[Literal["forbidden", "optional", "required"]]


class Tool(TypedDict):
    """A tool as it is listed. `inputSchema` and `outputSchema` are JSON Schemas of objects (`outputSchema` since
    2026-07-28: of anything)."""

    name: str
    title: NotRequired[Annotated[str, Since("2025-06-18")]]
    description: NotRequired[str]
    icons: NotRequired[Icons]
    inputSchema: JsonObject
    outputSchema: NotRequired[Annotated[JsonObject, Since("2025-06-18")]]
    annotations: NotRequired[Annotated[ToolAnnotations, Since("2025-03-26")]]
    execution: NotRequired[Annotated[ToolExecution, Since("2025-11-25"), Until("2025-11-25")]]
    _meta: NotRequired[Meta]


class ListToolsResult(PaginatedResult, CacheableResult):
    """One page of the tools."""

    tools: list[Tool]


class CallToolRequestParams(InputResponseRequestParams):
    """Which tool is called, with which arguments. `task` is ignored here: no task capability is declared."""

    name: str
    arguments: NotRequired[JsonObject]
    task: NotRequired[Annotated[JsonObject, Since("2025-11-25"), Until("2025-11-25")]]


class CallToolResult(Result):
    """What a call came to; `isError` true: the tool failed, and `content` says why."""

    content: list[ContentBlock]
    structuredContent: NotRequired[Annotated[JsonObject, Since("2025-06-18"), FromRevision("2026-07-28", Any)]]
    isError: NotRequired[bool]


def display_name(tool: Tool) -> str:
    """The name to show to people: `title`, else `annotations.title`, else `name`."""
    return tool.get("title") or tool.get("annotations", {}).get("title") or tool["name"]


# -- tool results ----------------------------------------------------------------------------------------


_RESULT_FIELDS: Final = {
    "content",
    "structuredContent",
    "isError",
    "_meta",
    "resultType",
}

_BLOCK_FIELDS: Final = {
    "text": {"text"},
    "image": {"data", "mimeType"},
    "audio": {"data", "mimeType"},
    "resource": {"resource"},
    "resource_link": {"uri", "name"},
}


def error_result(message: str) -> JsonObject:
    """A result that says what went wrong, for the model to read and to try again."""
    return {"content": [text(message)], "isError": True}


def structured_result(value: Any) -> JsonObject:
    """The result of a tool with an `outputSchema`; raises `TypeError` for what has no form in JSON."""
    from mcp_ref.machinery.handlers import to_json

    data = to_json(value)
    # SHOULD: also as text, for clients that do not know the field (server/tools#structured-content)
    return {"content": [text(_json_text(data))], "structuredContent": data}


def is_whole_result(value: Any) -> bool:
    """Whether a handler returned a `CallToolResult` itself, and not data that happens to be a dict."""
    if not isinstance(value, dict) or not value.keys() <= _RESULT_FIELDS:
        return False
    content = value.get("content")
    return "structuredContent" in value if content is None else _are_blocks(content)


def whole_result(value: JsonObject) -> JsonObject:
    """A `CallToolResult` of a handler with the fields that it may leave out; the original is not changed."""
    if "structuredContent" not in value:
        return dict(value)
    structured = structured_result(value["structuredContent"])
    return structured | value | {"structuredContent": structured["structuredContent"]}


def content_of(value: Any) -> list[Any]:
    """The blocks for a value without an `outputSchema`; raises `TypeError` for what has no form in JSON."""
    if type(value) is str:
        return [text(value)]
    if value is None:
        return []
    if _is_block(value):
        return [value]
    if isinstance(value, list | tuple) and all(isinstance(each, str) or _is_block(each) for each in value):
        return [text(each) if isinstance(each, str) else each for each in value]
    from mcp_ref.machinery.handlers import to_json

    data = to_json(value)
    return [text(data if isinstance(data, str) else _json_text(data))]


def _is_block(value: Any) -> bool:
    fields = _BLOCK_FIELDS.get(block_type(value) or "")
    return fields is not None and fields <= value.keys()


def _are_blocks(value: Any) -> bool:
    return isinstance(value, list) and all(_is_block(each) for each in value)


def _json_text(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)


# -- tool entry ------------------------------------------------------------------------------------------


class ToolEntry(NamedTuple):
    """A registered tool: how it is listed, and how it is called."""

    definition: Tool
    function: Callable[..., Any]
    context_parameter: str | None
    arguments: Callable[[JsonObject], dict[str, Any]]
    output_problems: Callable[[Any], list[str]] | None

    def output_shown(self, revision: Revision) -> bool:
        """Whether the revision can carry the `outputSchema`, and so the `structuredContent`, of this tool."""
        if revision.structured_content == "object":
            return self.definition.get("outputSchema", {"type": "object"}).get("type") == "object"
        return revision.structured_content == "any"

    def listed(self, revision: Revision) -> Tool:
        """The definition as that revision can show it."""
        if "outputSchema" not in self.definition or self.output_shown(revision):
            return self.definition
        return cast(
            Tool,
            {key: value for key, value in self.definition.items() if key != "outputSchema"},
        )


def make_entry(
    function: Callable[..., Any],
    context_type: type,
    known: JsonObject,
    input_schema: JsonObject | None,
    output_schema: JsonObject | None,
) -> ToolEntry:
    """The entry of a function, with the schemas of its hints or those given; see `server.tools.tool`."""
    from mcp_ref.machinery.handlers import inspect_handler, json_arguments, json_result

    handler = inspect_handler(function, context_type)
    schemas: JsonObject = {}
    if input_schema is None:
        schemas["inputSchema"], arguments = json_arguments(handler)
    else:
        given = _prepared(input_schema, "inputSchema", known["name"])
        schemas["inputSchema"], arguments = given.schema, _by_hand(handler, given)
    output_problems: Callable[[Any], list[str]] | None = None
    if output_schema is not None:
        promised = _prepared(output_schema, "outputSchema", known["name"])
        schemas["outputSchema"], output_problems = promised.schema, promised.problems
    elif (derived := json_result(handler)) is not None:
        schemas["outputSchema"], output_problems = derived
    if known["description"] is None:
        known = known | {"description": handler.summary}
    return ToolEntry(
        definition=cast(
            Tool,
            {key: value for key, value in (known | schemas).items() if value is not None},
        ),
        function=function,
        context_parameter=handler.context,
        arguments=arguments,
        output_problems=output_problems,
    )


def _prepared(schema: JsonObject, field: str, name: str) -> json_schema.Validator:
    what = f"the {field} of tool {name!r}"
    prepared = json_schema.prepare(schema, what=what)
    # MUST: an object, not null; arguments are an object too (server/tools#tool)
    if not isinstance(schema, dict) or (field == "inputSchema" and schema.get("type") != "object"):
        raise json_schema.SchemaRefused(
            f"{what} must be a JSON object{' with `type: object`' * (field == 'inputSchema')}"
        )
    if field == "inputSchema":
        _check_headers(schema, what)
    return prepared


def _check_headers(schema: JsonObject, what: str) -> None:
    from mcp_ref.basic.transports.streamable_http.headers import parameters

    try:
        # MUST: the rules of x-mcp-header; clients over HTTP leave out a tool that breaks one (server/tools)
        parameters(schema)
    except ValueError as problem:
        raise json_schema.SchemaRefused(f"{what}: {problem}") from None


def _by_hand(handler: Handler, schema: json_schema.Validator) -> Callable[[JsonObject], dict[str, Any]]:
    """The check of arguments with a schema written by hand."""
    properties = schema.schema.get("properties", {})
    together = list(handler.parameters) == ["arguments"] and not handler.open_ended and "arguments" not in properties
    unknown = properties.keys() - handler.parameters.keys()
    if unknown and not together and not handler.open_ended:
        raise TypeError(f"{handler.name}: the inputSchema has {sorted(unknown)}, which the function does not take")

    def arguments(given: JsonObject) -> dict[str, Any]:
        problems = schema.problems(given)
        if problems:
            raise BadArguments(problems)
        return {"arguments": given} if together else dict(given)

    return arguments


class KnownTool:
    """A tool as the server listed it, and what checks its output.

    Attributes:
        tool: the definition, as it came.
    """

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    @functools.cached_property
    def output(self) -> json_schema.Validator | None:
        """Made when the first result needs it; None without an `outputSchema`, or with one that cannot be used."""
        if "outputSchema" not in self.tool:
            return None
        try:
            # MUST: validate schemas by their dialect (basic/index#implementation-requirements)
            return json_schema.prepare(
                self.tool["outputSchema"],
                what=f"the outputSchema of tool {self.tool['name']!r}",
            )
        except json_schema.SchemaRefused as exc:
            log.warning("%s; the results of this tool are not checked", exc)
            return None


# -- tools -----------------------------------------------------------------------------------------------


F = TypeVar("F", bound=Callable[..., Any])

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


# -- the server's half: registering -------------------------------------------------------------------------------


def tool(
    self: Server,
    name: str | None = None,
    *,
    title: str | None = None,
    description: str | None = None,
    annotations: ToolAnnotations | None = None,
    icons: Sequence[Icon] | None = None,
    input_schema: JsonObject | None = None,
    output_schema: JsonObject | None = None,
    meta: JsonObject | None = None,
) -> Callable[[F], F]:
    """Offer a function as a tool: `@server.tool()`.

    The function is called with the arguments by name, converted as its type hints say (machinery/handlers has the
    table), and with the context if a parameter is annotated with `Context`. It may return what the page lists, raise
    `ToolError` to fail, or a `Refusal` to answer with a protocol error. Any other exception fails the call as well: its
    text is sent, its traceback is only logged.

    The `outputSchema` follows from the return annotation: a dataclass, a `TypedDict` or a `dict[str, T]` is an object;
    a list, a number and so on are what they are. There is none for `str`, `None`, `Any`, content blocks and
    `CallToolResult`. 2025-06-18 and 2025-11-25 can only carry objects: for a tool with any other `outputSchema` they
    show neither the schema nor `structuredContent`, only the text.

    Args:
        name: the name on the wire; the function's own by default. 1 to 128 of `A-Z a-z 0-9 _ - .`: others are logged.
        description: for the model; the first paragraph of the docstring by default.
        annotations: hints such as `{"readOnlyHint": True}`.
        input_schema: a JSON Schema written by hand, shown as it is. The arguments are checked with it and passed by
            name, unconverted; or as one dict to a function whose only parameter beside the context is `arguments`,
            unless the schema has a property of that name.
        output_schema: a JSON Schema written by hand; what the function returns is checked with it.
        meta: the `_meta` of the definition.

    Returns:
        A decorator that returns the function unchanged.

    Raises:
        TypeError: a type hint that has no JSON Schema, a parameter that cannot be given by name, an `async` function.
        SchemaRefused: a schema written by hand that cannot be used, such as one of an unknown dialect.
        ValueError: there is a tool of that name.

    Threads: any.
    Spec: server/tools#tool, server/tools#tool-names, basic/index#json-schema-usage
    """
    if callable(name):
        raise TypeError("write @server.tool(), with the brackets")
    extra = {
        "title": title,
        "annotations": annotations,
        "icons": icons and list(icons),
        "_meta": meta,
    }

    def register(function: F) -> F:
        called = name if name is not None else getattr(function, "__name__", None)
        if called is None:
            raise TypeError(f'{function!r} has no name of its own: write @server.tool("name")')
        if not _NAME.fullmatch(called):
            log.warning(
                "the tool name %r is not 1 to 128 of A-Z a-z 0-9 _ - . and may not work everywhere",
                called,
            )
        known = {"name": called, "description": description} | extra
        self.register(
            "tools",
            called,
            make_entry(function, self.context_type, known, input_schema, output_schema),
        )
        return function

    return register


def remove_tool(self: Server, name: str) -> None:
    """Withdraw a tool; calls that run already are not affected. Raises `KeyError` if there is none of that name."""
    self.unregister("tools", name)


# -- the server's half: answering ---------------------------------------------------------------------------------


def tools_list(ctx: Context, params: PaginatedRequestParams) -> ListToolsResult:
    """Answer `tools/list` with one page, in the order of registration. Raises `InvalidParams` for a bad cursor."""
    # SHOULD: the same order every time (2026-07-28/server/tools#capabilities)
    result = answer_list(ctx, "tools", params, "tools", lambda entry: entry.listed(ctx.revision))
    return cast(ListToolsResult, result)


def tools_call(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    """Answer `tools/call`: check the arguments, run the handler, and make a result of what it returned or raised.

    Raises:
        InvalidParams: there is no such tool; up to 2025-06-18 also: the arguments do not fit its `inputSchema`.
        Refusal: what the handler raised of that kind.
        RequestCancelled: the handler gave up because the request was cancelled.

    Spec: server/tools#error-handling
    """
    name = params["name"]
    entry: ToolEntry | None = ctx.registered("tools").get(name)
    if entry is None:
        raise InvalidParams(f"Unknown tool: {name}")
    try:
        # MUST: validate all tool inputs (server/tools#security-considerations)
        arguments = entry.arguments(params.get("arguments") or {})
    except BadArguments as exc:
        return _bad_arguments(ctx.revision, f"Invalid arguments for tool {name}: {exc}")
    if entry.context_parameter is not None:
        arguments[entry.context_parameter] = ctx
    try:
        return _result(entry, entry.function(**arguments), ctx.revision)
    except (Refusal, RequestCancelled):
        raise
    except ToolError as exc:
        return _failed(str(exc))
    except Exception as exc:
        # An ErrorResponse of another server ends here too: only a Refusal is an answer of this one.
        log.exception("tool %s failed", name)
        return _failed(f"Error executing tool {name}: {str(exc) or type(exc).__name__}")


def _failed(message: str) -> CallToolResult:
    return cast(CallToolResult, error_result(message))


def _bad_arguments(revision: Revision, message: str) -> CallToolResult:
    if not revision.tool_input_errors_are_results:
        raise InvalidParams(message)
    return _failed(message)


def _result(entry: ToolEntry, value: Any, revision: Revision) -> CallToolResult:
    """The result for what a handler returned; raises `TypeError` for what has no form in JSON."""
    if is_input_required(value):
        return cast(CallToolResult, value)
    if is_whole_result(value):
        result = whole_result(value)
    elif entry.output_problems is None:
        return {"content": content_of(value)}
    else:
        result = structured_result(value)
    if not result.get("isError"):
        problems = _output_problems(entry.output_problems, result)
        if problems:
            return _unfit(entry, problems)
    if "structuredContent" in result and not _carried(entry, result["structuredContent"], revision):
        del result["structuredContent"]
    return cast(CallToolResult, result)


def _output_problems(check: Callable[[Any], list[str]] | None, result: JsonObject) -> list[str]:
    # MUST: structured results that conform to the outputSchema (server/tools#output-schema)
    if check is None:
        return []
    if "structuredContent" not in result:
        return ["there is no structuredContent"]
    return check(result["structuredContent"])


def _unfit(entry: ToolEntry, problems: Sequence[str]) -> CallToolResult:
    message = f"the tool's output does not fit its outputSchema: {'; '.join(problems)}"
    log.error("tool %s: %s", entry.definition["name"], message)
    return _failed(message)


def _carried(entry: ToolEntry, structured: Any, revision: Revision) -> bool:
    return entry.output_shown(revision) and (revision.structured_content == "any" or isinstance(structured, dict))


# -- the client's half --------------------------------------------------------------------------------------------


def list_tools(self: Client, **options: Unpack[Options]) -> list[Tool]:
    """Ask for all tools: `tools/list`, page by page.

    What comes is remembered until the server says that its list changed, for the check of results in `call_tool()`.

    Returns:
        The tools as the server described them, in its order.

    Raises:
        LocalProtocolError: the server did not declare tools; nothing was sent.
        RemoteProtocolError: a page is malformed, or the pages have no end.
        ErrorResponse, RequestTimeout, RequestCancelled, TransportClosed.

    Blocks: until the last page, bounded by `timeout` for all of them.
    Threads: any.
    Spec: server/tools#listing-tools
    """
    # A client puts a new dict in its place when the list changes: a walk that the change overtook fills the old one.
    known = self.tool_definitions
    tools = walk(self, "tools/list", "tools", options)
    fresh = {tool["name"]: KnownTool(tool) for tool in tools}
    known.update(fresh)
    for name in known.keys() - fresh.keys():
        known.pop(name, None)
    return tools


def list_tools_page(self: Client, cursor: str | None = None, **options: Unpack[Options]) -> ListToolsResult:
    """Ask for one page of the tools: `tools/list`. Remembers nothing; otherwise as `list_tools()`.

    Args:
        cursor: the `nextCursor` of the page before; None for the first.

    Returns:
        The whole result: `tools`, and `nextCursor` unless this was the last page.

    Blocks: until the answer, bounded by `timeout`.
    Threads: any.
    Spec: server/tools#listing-tools, server/utilities/pagination
    """
    return cast(ListToolsResult, list_page(self, "tools/list", cursor, options))


def call_tool(
    self: Client,
    name: str,
    arguments: JsonObject | None = None,
    **options: Unpack[Options],
) -> CallToolResult:
    """Call a tool: `tools/call`.

    A result that is not an error is checked against the tool's `outputSchema`, where the tools were listed before.
    Where they were not, and the result has `structuredContent`, they are listed now: once, until the list changes.
    A schema that cannot be used (of an unknown dialect, referring to the network, too deep) is logged, and not applied.

    Args:
        arguments: a JSON object; None sends none.

    Returns:
        The whole result. A tool that failed is a result too: its `isError` is true.

    Raises:
        LocalProtocolError: the server did not declare tools; nothing was sent.
        RemoteProtocolError: the result is malformed, or does not fit the tool's `outputSchema`.
        ErrorResponse: there is no such tool, or, up to 2025-06-18, the arguments do not fit.
        RequestTimeout, RequestCancelled, TransportClosed.

    Blocks: until the answer, bounded by `timeout`; the listing mentioned above has the same bound anew.
    Threads: any.
    Spec: server/tools#calling-tools, server/tools#output-schema
    """
    params: JsonObject = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    result = cast(CallToolResult, self.request("tools/call", params, options))
    if self.revision.structured_content != "none" and not result.get("isError"):
        _check_output(self, name, result, options)
    return result


def _check_output(self: Client, name: str, result: CallToolResult, options: Options) -> None:
    # SHOULD: clients validate structured results (server/tools#output-schema)
    if "content" not in result:
        # Not the end of the call: it asks for input first.
        return
    if "structuredContent" in result and not self.tool_definitions:
        _learn(self, options)
    known = self.tool_definitions.get(name)
    if known is None or known.output is None:
        return
    if "structuredContent" not in result:
        raise RemoteProtocolError(f"the tool {name!r} has an outputSchema, and its result no structuredContent")
    problems = known.output.problems(result["structuredContent"])
    if problems:
        raise RemoteProtocolError(f"the result of tool {name!r} does not fit its outputSchema: {'; '.join(problems)}")


def _learn(self: Client, options: Options) -> None:
    """List the tools for the check of a result; a result that came is not lost because this fails."""
    try:
        list_tools(self, timeout=options.get("timeout", DEFAULT), cancel=options.get("cancel"))
    except McpError as exc:
        log.warning(
            "a result could not be checked, because the tools could not be listed: %s",
            exc,
        )


METHODS = (
    Method("tools/list", "client", "server/tools", "ask for one page of the tools", PaginatedRequestParams,
           ListToolsResult, needs="server.tools"),
    Method("tools/call", "client", "server/tools", "call a tool", CallToolRequestParams, CallToolResult,
           needs="server.tools"),
    Method("notifications/tools/list_changed", "server", "server/tools", "say that the list of tools changed",
           NotificationParams, needs="server.tools.listChanged"),
)  # fmt: skip
