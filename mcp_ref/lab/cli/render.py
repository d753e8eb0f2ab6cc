"""Results as text, for people at a terminal: lists, content blocks, messages of prompts.

Spec:      server/tools#tool-result, server/resources#resource-contents, server/prompts#data-types
Not here:  the commands that ask for the results (cli); messages as such (lab/judge/narrate)
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from mcp_ref import data_of
from mcp_ref.facts import escaped

Anyone = Mapping[str, Any]
_KEPT: Final = "\n\t"


def entries(rows: Iterable[Anyone], *, key: str = "name") -> Iterator[str]:
    """Yield what a list holds: each entry, what it says of itself, and its parameters with their types."""
    for row in rows:
        title = row.get("title") or (row.get("name") if key != "name" else None)
        yield f"{row[key]}{f'  ({title})' if title else ''}"
        yield from _wrapped(str(row.get("description") or ""), "    ")
        schema = row.get("inputSchema", {})
        required = schema.get("required")
        for name, field in properties_of(schema).items():
            field = field if isinstance(field, Mapping) else {}
            default = f", default {json.dumps(field['default'], ensure_ascii=False)}" if "default" in field else ""
            need = "required" if isinstance(required, list) and name in required else f"optional{default}"
            yield from _wrapped(_about(f"{name}: {kind_of(field)}, {need}", field), "    - ", "      ")
        for argument in row.get("arguments", ()):
            need = "required" if argument.get("required") else "optional"
            yield from _wrapped(_about(f"{argument['name']}: {need}", argument), "    - ", "      ")


def _about(head: str, row: Anyone) -> str:
    return f"{head}. {row['description']}" if row.get("description") else head


def _wrapped(text: str, indent: str, further: str | None = None) -> Iterator[str]:
    """Yield text within the width of the terminal, its paragraphs kept; no lines for an empty text."""
    width = max(shutil.get_terminal_size((100, 24)).columns, 40)
    for paragraph in text.strip().splitlines():
        yield from textwrap.wrap(
            paragraph, width, initial_indent=indent, subsequent_indent=indent if further is None else further,
            break_long_words=False, break_on_hyphens=False,
        ) or [""]  # fmt: skip


def properties_of(schema: Anyone) -> Anyone:
    """Return the schemas of an object's members; none where a server has written something else."""
    found = schema.get("properties")
    return found if isinstance(found, Mapping) else {}


def kind_of(schema: Any, levels: int = 5) -> str:
    """Return the type that a schema asks for, in a few words, whatever a server has written for one."""
    if not isinstance(schema, Mapping) or not levels:
        return "any"
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if isinstance(values, list):
        return " | ".join(json.dumps(value, ensure_ascii=False) for value in values)
    arms = schema.get("anyOf") or schema.get("oneOf")
    if isinstance(arms, list):
        return " | ".join(kind_of(arm, levels - 1) for arm in arms)
    kind = schema.get("type", "any")
    if kind == "array" and "items" in schema:
        return f"array of {kind_of(schema['items'], levels - 1)}"
    named = f" ({schema['format']})" if "format" in schema else ""
    return (" | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)) + named


def facts(about: Anyone) -> Iterator[str]:
    """Return who a server is, and what it can do."""
    who = about["serverInfo"]
    yield f"{who.get('name', 'a server without a name')} {who.get('version', '')}".rstrip()
    for member in ("title", "description", "websiteUrl"):
        if who.get(member):
            yield from _wrapped(str(who[member]), "    ")
    spoken = [about["protocolVersion"], *about.get("supportedVersions", ())]
    yield f"speaks: {', '.join(map(str, dict.fromkeys(spoken)))}"
    can = [f"{name} ({', '.join(value)})" if value else name for name, value in about["capabilities"].items()]
    yield f"can: {', '.join(can) or 'nothing'}"
    if about["instructions"]:
        yield "instructions:"
        yield from _wrapped(str(about["instructions"]), "    ")


class Progress:
    """Shows the progress of a call on stderr: at a terminal a bar that grows, else the last report in one line.

    Threads: one.
    """

    def __init__(self) -> None:
        self._terminal, self._last = sys.stderr.isatty(), ""

    def __enter__(self) -> Progress:
        return self

    def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        done = f"{progress:g}{'' if total is None else f' of {total:g}'} {message or ''}".rstrip()
        if self._terminal:
            filled = round(20 * min(max(progress / total, 0), 1)) if total else 0
            bar = f"[{'#' * filled}{'.' * (20 - filled)}] " if total else ""
            line = escaped(bar + done)[: shutil.get_terminal_size().columns - 1]
            print(f"\r{line:{len(self._last)}}", end="", file=sys.stderr, flush=True)
            done = line
        self._last = done

    def __exit__(self, *_: object) -> None:
        if self._terminal and self._last:
            print(file=sys.stderr)
        elif self._last:
            note(f"progress: {self._last}")


def tool_result(result: Anyone) -> Iterator[str | bytes]:
    """Yield the content of a tool's result, a picture or sound alone as bytes; its structured content where that is
    all.
    """
    match result.get("content", ()):
        case [{"type": "image" | "audio"} as block]:
            yield data_of(block)
        case blocks:
            yield from _blocks(blocks)
    if "structuredContent" in result and not result.get("content"):
        yield as_json(result["structuredContent"])


def messages(rows: Iterable[Anyone]) -> Iterator[str]:
    """Yield the messages of a prompt, each under its role."""
    for row in rows:
        content = row["content"]
        for line in _blocks(content if isinstance(content, list) else [content]):
            yield f"{row['role']}: {line}"


def contents(rows: Iterable[Anyone]) -> Iterator[str | bytes]:
    """Yield the contents of a resource: text as it is, a blob as bytes."""
    for row in rows:
        try:
            yield base64.b64decode(row["blob"], validate=True) if "blob" in row else str(row.get("text", ""))
        except (binascii.Error, ValueError):
            yield f"[{row.get('uri')}: not base64]"


def _blocks(blocks: Iterable[Anyone]) -> Iterator[str]:
    for block in blocks:
        match block["type"]:
            case "text":
                yield str(block["text"])
            case "resource":
                inner = block.get("resource", {})
                yield str(inner["text"]) if "text" in inner else f"[resource {inner['uri']}]"
            case "resource_link":
                yield f"[link {block['uri']}: {block['name']}]"
            case kind:
                yield f"[{kind} {block.get('mimeType', '')}, {len(str(block.get('data', ''))) * 3 // 4} bytes]"


def alike(word: str, known: Iterable[str]) -> str:
    """Return the hint for an unknown name: the known name that is most like it, if there is one."""
    from difflib import get_close_matches

    return "".join(f"; did you mean {each}?" for each in get_close_matches(word, known, 1))


def as_json(value: Any) -> str:
    """Return JSON to be read and to be parsed: what is not printable, such as a lone surrogate, is escaped as in
    JSON.
    """
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


def note(text: str, *, failed: bool = False) -> None:
    """Print text to standard error: what is not a result of the command; in red where something failed."""
    text = escaped(text, _KEPT)
    if failed and sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        text = f"\x1b[31m{text}\x1b[0m"
    encoding = sys.stderr.encoding or "utf-8"
    # Perhaps nobody is there to read it; that is not a reason to fail.
    with suppress(OSError):
        print(text.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)
