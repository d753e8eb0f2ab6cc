"""Results as text, for people at a terminal: lists, content blocks, messages of prompts.

Spec:      server/tools#tool-result, server/resources#resource-contents, server/prompts#data-types
Not here:  the commands that ask for the results (cli); messages as such (trace/narrate)
"""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mcp_ref.trace.narrate import escaped

Anyone = Mapping[str, Any]
_KEPT: Final = "\n\t"


def entries(rows: Iterable[Anyone], *, key: str = "name") -> Iterator[str]:
    """Two columns for what a list holds: the key of each entry with its parameters, and the first line about it."""
    table: list[tuple[str, str]] = []
    for row in rows:
        parameters = [*row.get("inputSchema", {}).get("properties", {})]
        parameters += [argument["name"] for argument in row.get("arguments", ())]
        about = str(row.get("description") or row.get("title") or row.get("name") or "").strip()
        title = f"{row[key]}({', '.join(parameters)})" if key == "name" else str(row[key])
        table.append((title, about.partition("\n")[0]))
    width = min(max((len(left) for left, _ in table), default=0), 40)
    for left, right in table:
        yield f"{left:{width}}  {right}".rstrip()


def tool_result(result: Anyone) -> Iterator[str]:
    """The content of a tool's result; its structured content where that is all there is."""
    yield from _blocks(result.get("content", ()))
    if "structuredContent" in result and not result.get("content"):
        yield as_json(result["structuredContent"])


def messages(rows: Iterable[Anyone]) -> Iterator[str]:
    """The messages of a prompt, each under its role."""
    for row in rows:
        content = row["content"]
        for line in _blocks(content if isinstance(content, list) else [content]):
            yield f"{row['role']}: {line}"


def contents(rows: Iterable[Anyone]) -> Iterator[str | bytes]:
    """The contents of a resource: text as it is, a blob as bytes."""
    for row in rows:
        try:
            yield base64.b64decode(row["blob"], validate=True) if "blob" in row else str(row.get("text", ""))
        except (binascii.Error, ValueError):
            yield f"[{row.get('uri')}: not base64]"


def _blocks(blocks: Iterable[Anyone]) -> Iterator[str]:
    for block in blocks:
        kind, inner = block["type"], block.get("resource", {})
        if kind == "text":
            yield str(block["text"])
        elif kind == "resource":
            yield str(inner["text"]) if "text" in inner else f"[resource {inner['uri']}]"
        elif kind == "resource_link":
            yield f"[link {block['uri']}: {block['name']}]"
        else:
            yield f"[{kind} {block.get('mimeType', '')}, {len(str(block.get('data', ''))) * 3 // 4} bytes]"


def as_json(value: Any) -> str:
    """JSON to be read and to be parsed: what is not printable, such as a lone surrogate, is escaped as in JSON."""
    text = json.dumps(value, ensure_ascii=not (sys.stdout.encoding or "utf-8").lower().startswith("utf"), indent=2)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def put(lines: Iterable[str | bytes]) -> None:
    """Print lines; bytes go as they are into a file or a pipe, and on a terminal only their number is told.

    Raises: BrokenPipeError: nobody reads them.
    """
    terminal, encoding = sys.stdout.isatty(), sys.stdout.encoding or "utf-8"
    for line in lines:
        if isinstance(line, str):
            # In a pipe the text is data; on a terminal its control characters would be orders.
            line = escaped(line, _KEPT) if terminal else line
            # A server may send what this encoding has not.
            print(line.encode(encoding, "backslashreplace").decode(encoding))
        elif terminal:
            print(f"[{len(line)} bytes: send the output into a file]")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(line)


def note(text: str) -> None:
    """Print text to standard error: what is not a result of the command."""
    print(escaped(text, _KEPT), file=sys.stderr)
