"""Results as text, for people at a terminal: lists, content blocks, messages of prompts.

Spec:      server/tools#tool-result, server/resources#resource-contents, server/prompts#data-types
Not here:  the commands that ask for the results (cli); messages as such (trace/narrate)
"""

from __future__ import annotations

import base64
import binascii
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

Anyone = Mapping[str, Any]


def escaped(text: str) -> str:
    """Text that is safe on a terminal: control characters as escapes, but line breaks and tabs as they are."""
    return "".join(char if char.isprintable() or char in "\n\t" else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "backslashreplace").decode("ascii")


def entries(rows: Iterable[Anyone], *, key: str = "name") -> Iterator[str]:
    """Two columns for what a list holds: the key of each entry with its parameters, and the first line about it."""
    table = [(_title(row, key), _first_line(row)) for row in rows]
    width = min(max((len(left) for left, _ in table), default=0), 40)
    for left, right in table:
        yield f"{left:{width}}  {right}".rstrip()


def _title(row: Anyone, key: str) -> str:
    parameters = [*row.get("inputSchema", {}).get("properties", {})]
    parameters += [argument["name"] for argument in row.get("arguments", ())]
    return str(row[key]) + (f"({', '.join(parameters)})" if key == "name" else "")


def _first_line(row: Anyone) -> str:
    text = str(row.get("description") or row.get("title") or row.get("name") or "").strip()
    return text.splitlines()[0] if text else ""


def tool_result(result: Anyone) -> Iterator[str]:
    """The content of a tool's result; its structured content where that is all there is."""
    yield from _blocks(result.get("content", ()))
    if "structuredContent" in result and not result.get("content"):
        yield json.dumps(result["structuredContent"], ensure_ascii=False, indent=2)


def messages(rows: Iterable[Anyone]) -> Iterator[str]:
    """The messages of a prompt, each under its role."""
    for row in rows:
        content = row["content"]
        for line in _blocks(content if isinstance(content, list) else [content]):
            yield f"{row['role']}: {line}"


def contents(rows: Iterable[Anyone]) -> Iterator[str | bytes]:
    """The contents of a resource: text as it is, a blob as bytes."""
    for row in rows:
        yield _blob(row) if "blob" in row else str(row.get("text", ""))


def _blob(row: Anyone) -> bytes | str:
    try:
        return base64.b64decode(row["blob"], validate=True)
    except (binascii.Error, ValueError):
        return f"[{row.get('uri')}: not base64]"


def _blocks(blocks: Iterable[Anyone]) -> Iterator[str]:
    return (_BLOCKS.get(block["type"], _media)(block) for block in blocks)


def _media(block: Anyone) -> str:
    return f"[{block['type']} {block.get('mimeType', '')}, {len(str(block.get('data', ''))) * 3 // 4} bytes]"


def _embedded(block: Anyone) -> str:
    inner = block["resource"]
    return str(inner["text"]) if "text" in inner else f"[resource {inner['uri']}]"


_BLOCKS: Final[dict[str, Callable[[Anyone], str]]] = {
    "text": lambda block: str(block["text"]),
    "resource": _embedded,
    "resource_link": lambda block: f"[link {block['uri']}: {block['name']}]",
}


def put(lines: Iterable[str | bytes]) -> None:
    """Print lines; bytes go as they are into a file or a pipe, and on a terminal only their number is told.

    Raises: BrokenPipeError: nobody reads them.
    """
    terminal = sys.stdout.isatty()
    for line in lines:
        if isinstance(line, str):
            # In a pipe the text is data; on a terminal its control characters would be orders.
            print(escaped(line) if terminal else line)
        elif terminal:
            print(f"[{len(line)} bytes: send the output into a file]")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(line)


def note(text: str) -> None:
    """Print text to standard error: what is no result of the command."""
    print(escaped(text), file=sys.stderr)
