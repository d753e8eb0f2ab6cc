"""Tools: `tools/list`, `tools/call`, `notifications/tools/list_changed`.

Spec:      server/tools (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/server/tools.md
Not here:  schemas from type hints, and JSON from a function's result (kit/typed/handlers); dispatch, rate limits, the
           checks of params and results (server/session, wire/negotiated); HTTP headers (streamable_http/headers)

One call, from its two ends:

    client   call_tool("add", {"a": 1})   ->   {"name": "add", "arguments": {"a": 1}}      ->   tools_call()   server
    client   checks structuredContent     <-   {"content": [...], "structuredContent": …}  <-   runs add(a=1)  server
"""

from __future__ import annotations

import functools
import json
import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, NotRequired, TypedDict, Unpack, cast

from mcp_ref.errors import (
    InvalidParams,
    McpError,
    Refusal,
    RemoteProtocolError,
    RequestCancelled,
    ToolError,
    TransportClosed,
)
from mcp_ref.kit.http.scopes import checked_scopes
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.kit.typed import json_schema
from mcp_ref.kit.typed.checking import SchemaMismatch, said
from mcp_ref.kit.typed.handlers import (
    F,
    Handler,
    checked_arguments,
    inspect_handler,
    json_arguments,
    json_result,
    to_json,
)
from mcp_ref.kit.typed.shapes import FromRevision, Judged, Since, Until
from mcp_ref.pages.basic.tasks import CreateTaskResult, TaskAugmented, TaskRule
from mcp_ref.pages.extensions import tool_meta
from mcp_ref.pages.server.utilities.caching import CacheableResult
from mcp_ref.pages.server.utilities.pagination import (
    PaginatedRequestParams,
    PaginatedResult,
    answer_list,
    list_page,
    walk,
)
from mcp_ref.revisions import Revision
from mcp_ref.wire.content import ContentBlock, InputSchema, OutputSchema, is_block, text
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

log = logging.getLogger(__name__)


# -- types --------------------------------------------------------------------------------------------------------


class ToolAnnotations(TypedDict):
    """Hints on what a tool does; a client must not trust those of a server that it does not trust."""

    title: NotRequired[str]
    readOnlyHint: NotRequired[bool]
    destructiveHint: NotRequired[bool]
    idempotentHint: NotRequired[bool]
    openWorldHint: NotRequired[bool]


class ToolExecution(TypedDict):
    """A tool's statement whether it may be called as a task."""

    taskSupport: NotRequired[Literal["forbidden", "optional", "required"]]


class Tool(TypedDict):
    """A tool as it is listed. `inputSchema` describes an object, and up to 2025-11-25 `outputSchema` does so, too."""

    name: str
    title: NotRequired[Annotated[str, Since("2025-06-18")]]
    description: NotRequired[str]
    icons: NotRequired[Icons]
    inputSchema: Annotated[JsonObject, Judged(InputSchema)]
    outputSchema: NotRequired[Annotated[JsonObject, Since("2025-06-18"), Judged(OutputSchema)]]
    annotations: NotRequired[Annotated[ToolAnnotations, Since("2025-03-26")]]
    execution: NotRequired[Annotated[ToolExecution, Since("2025-11-25"), Until("2025-11-25")]]
    _meta: NotRequired[Meta]


class ListToolsResult(PaginatedResult, CacheableResult):
    """One page of the tools."""

    tools: list[Tool]


class CallToolRequestParams(InputResponseRequestParams):
    """The name of a tool, its arguments, and whether the call is to become a task."""

    name: str
    arguments: NotRequired[JsonObject]
    task: NotRequired[TaskAugmented]


class CallToolResult(Result):
    """The outcome of a call. If `isError` is true the tool failed, and `content` says why."""

    content: list[ContentBlock]
    structuredContent: NotRequired[Annotated[JsonObject, Since("2025-06-18"), FromRevision("2026-07-28", Any)]]
    isError: NotRequired[bool]


# -- rows ---------------------------------------------------------------------------------------------------------

METHODS = (
    Method("tools/list", "client", "server/tools", "ask for one page of the tools", PaginatedRequestParams,
           ListToolsResult, needs="server.tools"),
    Method("tools/call", "client", "server/tools", "call a tool", CallToolRequestParams, CallToolResult,
           needs="server.tools", as_task=CreateTaskResult),
    Method("notifications/tools/list_changed", "server", "server/tools", "say that the list of tools changed",
           NotificationParams, needs="server.tools.listChanged"),
)  # fmt: skip


# -- the server's half: registering -------------------------------------------------------------------------------

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")


class ToolEntry(NamedTuple):
    """A registered tool."""

    definition: Tool  # how it is listed
    function: Callable[..., Any]  # what a call runs
    context_parameter: str | None  # the parameter that receives the context, if there is one
    arguments: Callable[[JsonObject], dict[str, Any]]  # turns JSON into keyword arguments, or raises SchemaMismatch
    output_problems: Callable[[Any], list[str]] | None  # says how a value breaks the `outputSchema`, if there is one
    scopes: tuple[str, ...] = ()  # the scopes that a token must grant
    task: TaskRule | None = None  # how a call of it becomes a task; None: never

    def structured_in(self, revision: Revision) -> bool:
        """Return whether the revision can carry the `outputSchema`, and so the `structuredContent`, of this tool."""
        if revision.structured_content == "object":
            return self.definition.get("outputSchema", {"type": "object"}).get("type") == "object"
        return revision.structured_content == "any"

    def listed_in(self, revision: Revision) -> Tool:
        """Return the definition as that revision can show it."""
        listed = self.definition.copy()
        if not self.structured_in(revision):
            listed.pop("outputSchema", None)
        return listed


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
    scopes: Sequence[str] = (),
    task: Literal["forbidden", "optional", "required"] | TaskRule = "forbidden",
    ui: str | None = None,
    visibility: Sequence[Literal["model", "app"]] | None = None,
    meta: JsonObject | None = None,
    replace: bool = False,
) -> Callable[[F], F]:
    """Offer a function as a tool: `@server.tool()`.

    The function is called with the arguments by name, converted as its type hints say, and with the context if a
    parameter is annotated with `Context`. What it returns becomes the result of the call as `tools_call` shows. It may
    raise `ToolError` to fail, or a `Refusal` to answer with a protocol error. Any other exception fails the call as
    well: its text is sent, its traceback is only logged.

    Hints are scalars, `Any`, `Literal`, enums, lists, tuples, sets, dicts by `str`, unions, dataclasses, `TypedDict`s,
    models of pydantic, dates, times, `UUID`, `Path`, and `Annotated[T, "text", Ge(1)]`; kit/typed/handlers has a table.

    The `outputSchema` follows from the return annotation; none is made for `str`, `None`, `Any`, content blocks, lists
    of these and `CallToolResult`. 2025-06-18 and 2025-11-25 can only carry objects: for any other `outputSchema` they
    show neither the schema nor `structuredContent`, only the text.

    Args:
        name: on the wire; by default the function's. One that is not 1 to 128 of `A-Z a-z 0-9 _ - .` is only logged.
        description: for the model; the first paragraph of the docstring by default.
        annotations: hints such as `{"readOnlyHint": True}`.
        input_schema: a JSON Schema written by hand, shown as it is. The arguments are checked with it and passed by
            name, unconverted; or as one dict to a function whose only parameter beside the context is `arguments`,
            unless the schema has a property of that name.
        output_schema: a JSON Schema written by hand; what the function returns is checked with it.
        scopes: those that a token must grant to call it, if the server is served with `authorization=`.
        task: whether a call may, or must, become a task if the client can follow one; see basic/tasks.
        ui: the URI of the document in which a host may show what a call gives; see `Apps`. The text is for all others.
        visibility: who may call it, the model or such a document; both by default.
        meta: the `_meta` of the definition.
        replace: take the place of a tool of that name, as when a cell of a notebook runs again.

    Raises:
        TypeError: a type hint that has no JSON Schema, a parameter that cannot be given by name, an `async` function.
        SchemaRefused: a schema written by hand that cannot be used. ValueError: there is a tool of that name.

    Spec: server/tools#tool, server/tools#tool-names, basic/index#json-schema-usage
    """
    if callable(name):
        raise TypeError("write @server.tool(), with the brackets")

    def register(function: F) -> F:
        known_as = name if name is not None else getattr(function, "__name__", None)
        if known_as is None:
            raise TypeError(f'{function!r} has no name of its own: write @server.tool("name")')
        # SHOULD: a tool name has 1 to 128 letters, digits, "_", "-" and "."; others are logged
        # (server/tools#tool-names)
        # A tool name SHOULD NOT have spaces, commas or other special characters (server/tools#tool-names)
        if not _NAME.fullmatch(known_as):
            log.warning("the tool name %r may not work everywhere: it is not 1 to 128 of A-Z a-z 0-9 _ - .", known_as)
        handler = inspect_handler(function, self.context_type)
        if input_schema is None:
            shown_input, arguments = json_arguments(handler)
        else:
            shown_input, arguments = _input_by_hand(input_schema, known_as, handler)
        if output_schema is None:
            shown_output, output_problems = json_result(handler) or (None, None)
        else:
            what = f"the outputSchema of tool {known_as!r}"
            prepared = json_schema.prepare(output_schema, what=what)
            if not isinstance(output_schema, dict):
                raise json_schema.SchemaRefused(f"{what} must be a JSON object")
            shown_output, output_problems = prepared.schema, prepared.problems
        rule = None if task == "forbidden" else self.offer_tasks().rule(task)
        definition = {
            "name": known_as,
            "title": title,
            "description": handler.summary if description is None else description,
            "annotations": annotations,
            "icons": icons and list(icons),
            "inputSchema": shown_input,
            "outputSchema": shown_output,
            "execution": rule and {"taskSupport": rule.support},
            "_meta": meta if (ui, visibility) == (None, None) else tool_meta(self, known_as, ui, visibility, meta),
        }
        definition = {key: value for key, value in definition.items() if value is not None}
        shown = cast(Tool, definition)
        entry = ToolEntry(shown, function, handler.context, arguments, output_problems, checked_scopes(scopes), rule)
        self.register("tools", known_as, entry, replace=replace)
        return function

    return register


def _input_by_hand(
    schema: JsonObject, name: str, handler: Handler
) -> tuple[JsonObject, Callable[[JsonObject], dict[str, Any]]]:
    """Return an `inputSchema` written by hand, and the check of arguments with it; see `tool`."""
    from mcp_ref.pages.basic.transports.streamable_http.headers import parameters as marked_with_headers

    what = f"the inputSchema of tool {name!r}"
    prepared = json_schema.prepare(schema, what=what)
    # MUST: inputSchema is a JSON Schema object, not null; arguments are an object, too (server/tools#tool)
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise json_schema.SchemaRefused(f"{what} must be a JSON object with `type: object`")
    try:
        # MUST: x-mcp-header is a unique token, at a string, integer or boolean (2026-07-28/server/tools#x-mcp-header)
        marked_with_headers(schema)
    except ValueError as problem:
        raise json_schema.SchemaRefused(f"{what}: {problem}") from None
    return prepared.schema, checked_arguments(handler, prepared)


def remove_tool(self: Server, name: str) -> None:
    """Remove a tool; calls that are under way are not affected. Raises: KeyError: no tool has that name."""
    self.unregister("tools", name)


# -- the server's half: answering ---------------------------------------------------------------------------------


def tools_list(ctx: Context, params: PaginatedRequestParams) -> ListToolsResult:
    """Answer `tools/list` with one page of the tools. Raises: InvalidParams: the cursor is not valid."""
    # SHOULD: `tools/list` has the same order every time, that of registration (2026-07-28/server/tools#capabilities)
    # MUST: `tools/list` is the same for every connection: it depends on the registry alone
    # (2026-07-28/server/tools#capabilities)
    revision = ctx.revision
    return cast(ListToolsResult, answer_list(ctx, "tools", params, "tools", lambda entry: entry.listed_in(revision)))


def tools_call(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
    """Answer `tools/call`: check the arguments, run the function, and make a result of what it returns or raises.

    | the function | the result |
    |---|---|
    | returns a dict that has only members of `CallToolResult` | that result; without `content`, its data as text |
    | returns anything, and the tool has an `outputSchema` | `structuredContent`, and the same as text, or its blocks |
    | returns `None`, a text, a block, or several of these | that `content` |
    | returns any other value that JSON can hold | its JSON as text |
    | raises ToolError | `isError`, with its text |
    | raises anything else that is not below | `isError`, with its text unless `Server(mask_errors=True)` |
    | raises a Refusal, or RequestCancelled | none: the client gets a JSON-RPC error, or no answer at all |

    Raises: InvalidParams (-32602): the tool does not exist; up to 2025-06-18 also: the arguments do not fit its
        `inputSchema`. From 2025-11-25 on such arguments are a result with `isError`.
    Spec: server/tools#calling-tools, server/tools#error-handling
    """
    name = params["name"]
    entry: ToolEntry | None = ctx.server.registries["tools"].get(name)
    if entry is None:
        # SHOULD: tell tool names apart by case: this is a plain look-up (server/tools#tool-names)
        raise InvalidParams(f"Unknown tool: {name}")
    try:
        # MUST: validate all tool inputs (server/tools#security-considerations)
        arguments = entry.arguments(params.get("arguments") or {})
    except SchemaMismatch as mismatch:
        wrong = f"Invalid arguments for tool {name}: {'; '.join(mismatch.problems)}"
        if ctx.revision.tool_input_errors_are_results:
            return _failed(wrong)
        raise InvalidParams(wrong) from None
    if entry.context_parameter is not None:
        arguments[entry.context_parameter] = ctx
    try:
        return _result_of(entry, entry.function(**arguments), ctx)
    except (Refusal, RequestCancelled):
        raise
    except ToolError as failure:
        # SHOULD: errors of a tool are results, so that the model can see them (server/tools#error-handling)
        return _failed(str(failure))
    except (Exception, SystemExit) as failure:
        if isinstance(failure, SystemExit) and os.getpid() != ctx.server.process:
            raise  # The function has forked, and its child must end, and not answer.
        # An ErrorResponse that the function got from another server comes here, too: only a Refusal is for our client.
        # MUST: sanitize tool outputs: the traceback stays here (server/tools#security-considerations)
        # If the connection broke while the function used it, no traceback is needed: the function is not at fault.
        log.error("tool %s failed: %s", name, failure, exc_info=not isinstance(failure, TransportClosed))
        why = "" if ctx.server.mask_errors else f": {said(failure)}"
        return _failed(f"Error executing tool {name}{why}")


def _failed(message: str) -> CallToolResult:
    return {"content": [text(message)], "isError": True}


def _result_of(entry: ToolEntry, value: Any, ctx: Context) -> CallToolResult:
    """Make a result of a function's value; see `tools_call`. Raises: TypeError: JSON cannot hold it."""
    if isinstance(value, str) and entry.output_problems is None:
        return {"content": [{"type": "text", "text": value}]}
    is_result = isinstance(value, dict) and _is_result(value)
    several = value if isinstance(value, list | tuple) else [value]
    as_blocks = all(isinstance(each, str) or is_block(each) for each in several)
    content: Any = [{"type": "text", "text": each} if isinstance(each, str) else each for each in several]
    if not is_result and entry.output_problems is None:
        if value is None:
            return {"content": []}
        # MAY: a tool returns links to resources, and embedded resources
        # (server/tools#resource-links, #embedded-resources)
        if as_blocks:
            return {"content": content}
        data = to_json(value)
        return {"content": [text(data if isinstance(data, str) else json.dumps(data, ensure_ascii=False))]}
    if is_result and is_input_required(value):
        # MAY: answer `tools/call` with a question (2026-07-28/server/tools#input-required-tool-results)
        return cast(CallToolResult, value)
    result: JsonObject = dict(value) if is_result else {"structuredContent": value}
    if "structuredContent" in result:
        data = result["structuredContent"] = to_json(result["structuredContent"])
        # What a `-> list` holds may also be blocks, such as pictures, which are to be seen.
        as_blocks &= entry.definition.get("outputSchema") == {"type": "array"}
        if not (as_blocks and any(map(is_block, several))):
            # SHOULD: repeat structuredContent as JSON in a text block (server/tools#structured-content)
            content = [text(json.dumps(data, ensure_ascii=False))]
        result = {"content": content, **result}
    if entry.output_problems is not None and not result.get("isError"):
        # MUST: give structured results that conform to the outputSchema (server/tools#output-schema)
        problems = entry.output_problems(data) if "structuredContent" in result else ["structuredContent is missing"]
        if problems:
            message = "the tool's output does not fit its outputSchema"
            log.error("tool %s: %s: %s", entry.definition["name"], message, "; ".join(problems))
            return _failed(message if ctx.server.mask_errors else f"{message}: {'; '.join(problems)}")
    if "structuredContent" in result:
        # A revision that cannot carry it gets the text alone.
        may_be_anything = ctx.revision.structured_content == "any"
        if not (entry.structured_in(ctx.revision) and (may_be_anything or isinstance(data, dict))):
            del result["structuredContent"]
    return cast(CallToolResult, result)


def _is_result(value: JsonObject) -> bool:
    """Return whether a dict is a result, or one that asks for input, and not the tool's own data."""
    if is_input_required(value):
        return True
    if not value.keys() <= {"content", "structuredContent", "isError", "_meta", "resultType"}:
        return False
    if "content" in value:
        return isinstance(value["content"], list) and all(is_block(each) for each in value["content"])
    return "structuredContent" in value


# -- the client's half --------------------------------------------------------------------------------------------

_CHECK_TIMEOUT: Final = 1.0  # seconds that the check of a result has at least, even if the call took all its time


class KnownTool:
    """A tool as the server listed it, and the check of its output."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    @functools.cached_property
    def output(self) -> json_schema.Validator | None:
        """Prepared when the first result needs it; None if there is no `outputSchema`, or one that cannot be used."""
        if "outputSchema" not in self.tool:
            return None
        try:
            # MUST: a client checks results by the dialect of their schema (basic/index#implementation-requirements)
            what = f"the outputSchema of tool {self.tool['name']!r}"
            return json_schema.prepare(self.tool["outputSchema"], what=what)
        except json_schema.SchemaRefused as problem:
            # MUST: a client handles a schema of an unsupported dialect gracefully
            # (basic/index#implementation-requirements)
            log.warning("%s; the results of this tool are not checked", problem)
            return None


def list_tools(self: Client, **options: Unpack[Options]) -> list[Tool]:
    """Ask for all tools with `tools/list`, page by page.

    They are remembered until the server says that its list has changed, so that `call_tool` can check results.

    Returns: the tools as the server described them, in its order; `timeout` bounds all pages together.
    Raises: RemoteProtocolError: also if the pages never end.
    Spec: server/tools#listing-tools
    """
    # When the list changes, the client replaces this dict: a listing that began before then fills the old one.
    known = self.tool_definitions
    tools: list[Tool] = walk(self, "tools/list", "tools", options)
    fresh = {tool["name"]: KnownTool(tool) for tool in tools}
    known.update(fresh)
    for name in known.keys() - fresh.keys():
        known.pop(name, None)
    return tools


def list_tools_page(self: Client, cursor: str | None = None, **options: Unpack[Options]) -> ListToolsResult:
    """Ask for one page of the tools with `tools/list`; it is not remembered.

    Args: cursor: the `nextCursor` of the page before; None for the first page.
    Returns: the whole result: `tools`, and `nextCursor` unless this is the last page.
    """
    return cast(ListToolsResult, list_page(self, "tools/list", cursor, options))


def call_tool(
    self: Client, name: str, arguments: JsonObject | None = None, **options: Unpack[Options]
) -> CallToolResult:
    """Call a tool with `tools/call`.

    A result is checked against the tool's `outputSchema`. For a result with `structuredContent` the tools are listed
    if they were not before: once, until the list changes. A schema that cannot be used is logged and not applied.

    Args:
        arguments: a JSON object; None sends none.

    Returns: the whole result. A tool that failed is a result, too: its `isError` is true.
    Raises: RemoteProtocolError: also for a result that does not fit the tool's `outputSchema`. ErrorResponse: -32602:
        the tool does not exist, or, up to 2025-06-18, the arguments do not fit.
    Blocks: the listing and the check have at least a second, whatever is left of the time limit.
    Spec: server/tools#calling-tools, server/tools#output-schema
    """
    params: JsonObject = {"name": name} if arguments is None else {"name": name, "arguments": arguments}
    began = time.monotonic()
    # A client of tasks has a follower: if the call becomes a task, it waits for the task's result.
    request = self.request if self.follower is None else self.follower.request
    result = cast(CallToolResult, request("tools/call", params, options))
    known: KnownTool | None = self.tool_definitions.get(name)
    if "structuredContent" in result or (known is not None and "outputSchema" in known.tool):
        check_output(self, name, result, options, began)
    return result


def check_output(self: Client, name: str, result: CallToolResult, options: Options, began: float) -> None:
    """Check a result by the `outputSchema` of its tool; see `call_tool`."""
    # Without `content` the result is not the end of the call: it asks for input first.
    if self.revision.structured_content == "none" or result.get("isError") or "content" not in result:
        return
    timeout = options.get("timeout", self.timeout)
    # What is left of the call's time, but at least a second: progress and questions may have prolonged the call.
    deadline = Deadline(timeout and max(began + timeout - time.monotonic(), min(timeout, _CHECK_TIMEOUT)))
    if "structuredContent" in result and not self.tool_definitions:
        try:
            list_tools(self, timeout=deadline.check("listing the tools"), cancel=options.get("cancel"))
        except McpError as problem:
            # The result has arrived, and is not thrown away because of this.
            log.warning("a result could not be checked, because the tools could not be listed: %s", problem)
    known: KnownTool | None = self.tool_definitions.get(name)
    if known is None or known.output is None:
        return
    # SHOULD: validate structured results against the outputSchema (server/tools#output-schema)
    if "structuredContent" not in result:
        raise RemoteProtocolError(f"the tool {name!r} has an outputSchema, but its result has no structuredContent")
    if problems := known.output.problems(result["structuredContent"], deadline):
        raise RemoteProtocolError(f"the result of tool {name!r} does not fit its outputSchema: {'; '.join(problems)}")
