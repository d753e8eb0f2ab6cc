"""Tools: `tools/list`, `tools/call`, `notifications/tools/list_changed`.

Spec:      server/tools (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/tools.md
Reads:     server/tool_types, server/tool_entry, server/tool_results, server/utilities/pagination
Not here:  the data types (server/tool_types); schemas and signatures (server/tool_entry); what a handler's return value
           becomes (server/tool_results); sending, dispatch, rate limits, and the checks of
           parameters and results (server/server, client/client); the HTTP headers of a call (basic/transports)
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar, Unpack, cast

from mcp_ref.basic.methods import (
    DEFAULT,
    Asking,
    Handling,
    JsonObject,
    Method,
    Options,
    Registering,
)
from mcp_ref.basic.types import Icon, NotificationParams, PaginatedRequestParams
from mcp_ref.basic.versioning import is_input_required
from mcp_ref.errors import (
    InvalidParams,
    McpError,
    Refusal,
    RemoteProtocolError,
    RequestCancelled,
    ToolError,
)
from mcp_ref.revisions import Revision
from mcp_ref.server.tool_entry import KnownTool, ToolEntry, make_entry
from mcp_ref.server.tool_results import (
    content_of,
    error_result,
    is_whole_result,
    structured_result,
    whole_result,
)
from mcp_ref.server.tool_types import (
    BadArguments,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    Tool,
    ToolAnnotations,
    ToolExecution,
    display_name,
)
from mcp_ref.server.utilities.pagination import list_page, page, walk

__all__ = [
    "METHODS",
    "CallToolRequestParams",
    "CallToolResult",
    "KnownTool",
    "ListToolsResult",
    "Tool",
    "ToolAnnotations",
    "ToolEntry",
    "ToolExecution",
    "call_tool",
    "display_name",
    "list_tools",
    "list_tools_page",
    "remove_tool",
    "tool",
    "tools_call",
    "tools_list",
]

logger = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


# -- the server's half: registering -------------------------------------------------------------------------------


def tool(
    self: Registering,
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

    The function is called with the arguments by name, converted as its type hints say (server/hints has the table), and
    with the context if a parameter is annotated with `Context`. It may return what server/tool_results lists, raise
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
            logger.warning(
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


def remove_tool(self: Registering, name: str) -> None:
    """Withdraw a tool; calls that run already are not affected. Raises `KeyError` if there is none of that name."""
    self.unregister("tools", name)


# -- the server's half: answering ---------------------------------------------------------------------------------


def tools_list(ctx: Handling, params: PaginatedRequestParams) -> ListToolsResult:
    """Answer `tools/list` with one page, in the order of registration. Raises `InvalidParams` for a bad cursor."""
    # SHOULD: the same order every time (2026-07-28/server/tools#capabilities)
    listed = [entry.listed(ctx.revision) for entry in ctx.registered("tools").values()]
    tools, cursor = page(listed, params, ctx.page_size)
    result: ListToolsResult = {"tools": tools}
    if cursor is not None:
        result["nextCursor"] = cursor
    return result


def tools_call(ctx: Handling, params: CallToolRequestParams) -> CallToolResult:
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
        logger.exception("tool %s failed", name)
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
    logger.error("tool %s: %s", entry.definition["name"], message)
    return _failed(message)


def _carried(entry: ToolEntry, structured: Any, revision: Revision) -> bool:
    return entry.output_shown(revision) and (revision.structured_content == "any" or isinstance(structured, dict))


# -- the client's half --------------------------------------------------------------------------------------------


def list_tools(self: Asking, **options: Unpack[Options]) -> list[Tool]:
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


def list_tools_page(self: Asking, cursor: str | None = None, **options: Unpack[Options]) -> ListToolsResult:
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
    self: Asking,
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


def _check_output(self: Asking, name: str, result: CallToolResult, options: Options) -> None:
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


def _learn(self: Asking, options: Options) -> None:
    """List the tools for the check of a result; a result that came is not lost because this fails."""
    try:
        list_tools(self, timeout=options.get("timeout", DEFAULT), cancel=options.get("cancel"))
    except McpError as exc:
        logger.warning(
            "a result could not be checked, because the tools could not be listed: %s",
            exc,
        )


METHODS = (
    Method(
        name="tools/list",
        kind="request",
        sender="client",
        page="server/tools",
        about="ask for one page of the tools",
        params=PaginatedRequestParams,
        result=ListToolsResult,
        needs="server.tools",
    ),
    Method(
        name="tools/call",
        kind="request",
        sender="client",
        page="server/tools",
        about="call a tool",
        params=CallToolRequestParams,
        result=CallToolResult,
        needs="server.tools",
    ),
    Method(
        name="notifications/tools/list_changed",
        kind="notification",
        sender="server",
        page="server/tools",
        about="say that the list of tools changed",
        params=NotificationParams,
        needs="server.tools.listChanged",
    ),
)
