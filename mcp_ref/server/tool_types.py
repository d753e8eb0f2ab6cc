"""The data types of the page Tools, and the error of arguments that do not fit.

Spec:      server/tools#data-types; schema Tool, ToolAnnotations, ToolExecution, CallToolRequest, CallToolResult
Upholds:   the rows on data types of spec_notes/server/tools.md
Reads:     basic/types, schema.py (the notation)
Not here:  what is done with them (server/tools)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from mcp_ref.basic.methods import JsonObject
from mcp_ref.basic.types import ContentBlock, Icons, InputResponseRequestParams, Meta, Result
from mcp_ref.schema import FromRevision, Since, Until
from mcp_ref.server.utilities.caching import CacheableResult
from mcp_ref.server.utilities.pagination import PaginatedResult

__all__ = [
    "BadArguments",
    "CallToolRequestParams",
    "CallToolResult",
    "ListToolsResult",
    "Tool",
    "ToolAnnotations",
    "ToolExecution",
    "display_name",
]


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


class BadArguments(ValueError):
    """Arguments that do not fit; `problems` has one "path: problem" for each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


def display_name(tool: Tool) -> str:
    """The name to show to people: `title`, else `annotations.title`, else `name`."""
    return tool.get("title") or tool.get("annotations", {}).get("title") or tool["name"]
