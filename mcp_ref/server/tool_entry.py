"""A tool as its server keeps it, and as its client remembers it.

Spec:      server/tools#tool, server/tools#output-schema, basic/index#json-schema-usage
Upholds:   the rows on `inputSchema` and `outputSchema` of spec_notes/server/tools.md
Reads:     server/signatures, basic/json_schema
Not here:  the messages (server/tools)
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from mcp_ref.basic import json_schema
from mcp_ref.basic.methods import JsonObject
from mcp_ref.revisions import Revision
from mcp_ref.server.tool_types import BadArguments, Tool

__all__ = ["KnownTool", "ToolEntry", "make_entry"]

logger = logging.getLogger(__name__)


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
    from mcp_ref.server.signatures import inspect_handler

    found = inspect_handler(
        function,
        context_type,
        inputs=input_schema is None,
        output=output_schema is None,
    )
    arguments: Callable[[JsonObject], dict[str, Any]] = found.arguments
    output_problems: Callable[[Any], list[str]] | None = found.output_problems if found.output_schema else None
    schemas: JsonObject = {
        "inputSchema": found.input_schema,
        "outputSchema": found.output_schema,
    }
    if input_schema is not None:
        given = _prepared(input_schema, "inputSchema", known["name"])
        arguments, schemas["inputSchema"] = (
            _by_hand(function, found.context_parameter, given),
            given.schema,
        )
    if output_schema is not None:
        promised = _prepared(output_schema, "outputSchema", known["name"])
        output_problems, schemas["outputSchema"] = promised.problems, promised.schema
    if known["description"] is None:
        known = known | {"description": found.summary}
    return ToolEntry(
        definition=cast(
            Tool,
            {key: value for key, value in (known | schemas).items() if value is not None},
        ),
        function=function,
        context_parameter=found.context_parameter,
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
    from mcp_ref.basic.transports.streamable_http.mirroring import parameters

    try:
        # MUST: the rules of x-mcp-header; clients over HTTP leave out a tool that breaks one (server/tools)
        parameters(schema)
    except ValueError as problem:
        raise json_schema.SchemaRefused(f"{what}: {problem}") from None


def _by_hand(
    function: Callable[..., Any], context: str | None, schema: json_schema.Validator
) -> Callable[[JsonObject], dict[str, Any]]:
    """The check of arguments with a schema written by hand."""
    import inspect

    parameters = inspect.signature(function).parameters
    names = [name for name in parameters if name != context]
    properties = schema.schema.get("properties", {})
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    together = names == ["arguments"] and not takes_any and "arguments" not in properties
    unknown = properties.keys() - set(names)
    if unknown and not together and not takes_any:
        raise TypeError(f"{function}: the inputSchema has {sorted(unknown)}, which the function does not take")

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
            logger.warning("%s; the results of this tool are not checked", exc)
            return None
