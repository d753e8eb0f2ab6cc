"""What a tool's handler returned -> the `content` and `structuredContent` of a `CallToolResult`.

Spec:      server/tools#tool-result
Upholds:   the rows on results of spec_notes/server/tools.md
Reads:     server/hints (values in JSON), basic/types
Not here:  whether it fits the tool's `outputSchema`, and what the revision can carry (server/tools)

| returned | content | structuredContent |
|---|---|---|
| a whole result: a dict of its fields alone | as it is; without `content`: its `structuredContent` as text | as it is |
| anything, from a tool with an `outputSchema` | its JSON as text | its JSON |
| `None` | empty | |
| a string | one text | |
| a content block | that block | |
| a list or tuple of strings and blocks | these | |
| any other value that JSON can hold | its JSON as text | |
"""

from __future__ import annotations

import json
from typing import Any, Final

from mcp_ref.basic.types import block_type, text

__all__ = [
    "content_of",
    "error_result",
    "is_whole_result",
    "structured_result",
    "whole_result",
]

JsonObject = dict[str, Any]

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
    from mcp_ref.server.hints import to_json

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
    from mcp_ref.server.hints import to_json

    data = to_json(value)
    return [text(data if isinstance(data, str) else _json_text(data))]


def _is_block(value: Any) -> bool:
    fields = _BLOCK_FIELDS.get(block_type(value) or "")
    return fields is not None and fields <= value.keys()


def _are_blocks(value: Any) -> bool:
    return isinstance(value, list) and all(_is_block(each) for each in value)


def _json_text(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False)
