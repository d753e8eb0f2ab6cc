"""What the rows say of a method: who sends it, in which revisions, with which parameters and result.

Spec:      schema of every revision; the page that each row names
Not here:  the command line around it (cli)

In the stateless era three of the server's requests are not messages: they stand in the result of another request, with
the same parameters, and their results in the next one.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, Final

from mcp_ref.agreement import MAY_ASK
from mcp_ref.basic.mrtr import KINDS, InputRequiredResult
from mcp_ref.machinery.publishing import json_schema
from mcp_ref.messages import JsonObject
from mcp_ref.revisions import REVISIONS, Revision
from mcp_ref.trace.narrate import METHODS, method_row, page_in

_WAYS: Final = {"client": "C > S", "server": "S > C", "both": "both"}


def method_table() -> Iterator[str]:
    """A line for each method: its name, who sends it, and a mark under each revision; then what the marks mean."""
    width = max(len(name) for name in METHODS)
    extensions = sorted({row.extension for row in METHODS.values() if row.extension is not None})
    yield f"{'':{width}}  {'':5}  " + "  ".join(REVISIONS)
    for row in METHODS.values():
        marks = "  ".join(mark(row.name, revision).ljust(10) for revision in REVISIONS.values())
        yield f"{row.name:{width}}  {_WAYS[row.sender]:5}  {marks}".rstrip()
    yield ""
    yield "result     not a message of its own, but asked for in the result of another request"
    yield f"extension  only where both sides declare the extension {', '.join(extensions)}"


def mark(name: str, revision: Revision) -> str:
    """Whether a revision has the method.

    Returns: "yes"; "result": it stands in the result of another request; "extension": only an extension has it; or "-".
    """
    row = method_row(name, revision)
    if row is not None and row.exists_in(revision):
        return "yes" if row.extension is None else "extension"
    return "result" if name in KINDS and not revision.servers_send_requests else "-"


def similar(name: str) -> list[str]:
    """The methods whose names are most like this one."""
    ending = [method for method in METHODS if method.endswith(name)]
    return ending or difflib.get_close_matches(name, METHODS, n=3)


def describe(name: str, revision: Revision | None = None) -> Iterator[str]:
    """Lines about a method, with its parameters and its result in one revision.

    Args:
        name: of a method that has a row.
        revision: whose parameters are shown; None: the newest that has the method.

    Raises: ValueError: the revision does not have the method.
    """
    rows = {each: method_row(name, each) or METHODS[name] for each in REVISIONS.values() if mark(name, each) != "-"}
    if revision is None:
        revision = list(rows)[-1]
    elif revision not in rows:
        raise ValueError(f"{name} does not exist in {revision}; it does in {', '.join(map(str, rows))}")
    row = rows[revision]
    having = [each for each in rows if rows[each] is row]
    moved = [f"{page_in(row.page, each.name)} in {each}" for each in having if page_in(row.page, each.name) != row.page]
    without = [str(each) for each in having if row.capability(each) is None]
    none = f" (none in {', '.join(without)})" if without else ""
    yield f"{row.name}: {row.about}"
    yield ""
    yield f"  {row.kind}, {_WAYS[row.sender]}"
    yield f"  page       {', '.join([row.page, *moved])}"
    yield f"  revisions  {', '.join(map(str, having))}"
    if row.extension is None:
        yield f"  needs      {'no capability' if row.needs is None else row.needs + none}"
    else:
        yield f"  needs      the extension {row.extension}, declared by both sides"
    if others := [str(each) for each in rows if each not in having]:
        yield f"  in {', '.join(others)} another method has this name: --revision shows it"
    if alone := [str(each) for each in having if mark(name, each) == "result"]:
        yield f"  in {', '.join(alone)} not a message, but asked in the result of {', '.join(MAY_ASK)}"
    if not revision.servers_send_requests and row.name in KINDS:
        row = row._replace(params=KINDS[row.name].params, result=KINDS[row.name].result)
    for title, wire_type in (("params", row.params), ("result", row.result)):
        if wire_type is not None:
            yield ""
            yield f"  {title} in {revision}" + (f": {wire_type.__name__}" if isinstance(wire_type, type) else "")
            yield from _fields(wire_type, revision, having)
    if row.name in MAY_ASK and not revision.servers_send_requests:
        yield ""
        yield "  or, where the client is asked first: InputRequiredResult"
        yield from _fields(InputRequiredResult, revision, [revision])


def _fields(wire_type: Any, revision: Revision, having: list[Revision]) -> Iterator[str]:
    """A line for each member of the type, with its history; the arms of a union one after the other."""
    arms = {each: _arms(json_schema(wire_type, each)) for each in having}
    if not any(arm.get("properties") for arm in arms[revision]):
        yield "    no members of its own"
    for number, arm in enumerate(arms[revision]):
        if number:
            yield "    or"
        for name, member in arm.get("properties", {}).items():
            must = "required" if name in arm.get("required", ()) else ""
            # Since and until when the member exists, where that is not as long as the method.
            named = [each for each in having if any(name in other.get("properties", {}) for other in arms[each])]
            spans = [f"since {named[0]}"] if named[0] is not having[0] else []
            spans += [f"until {named[-1]}"] if named[-1] is not having[-1] else []
            span = f"only in {named[0]}" if spans and len(named) == 1 else ", ".join(spans)
            yield f"    {name:18} {must:9} {_type(member)}{f'   ({span})' if span else ''}".rstrip()


def _arms(schema: JsonObject) -> list[JsonObject]:
    """The object types that a schema stands for: itself, or what its `anyOf` refers to."""
    return [schema["$defs"][_type(arm)] if "$ref" in arm else arm for arm in schema.get("anyOf", [schema])]


def _type(schema: JsonObject) -> str:
    """A schema in a few words: "array of Tool", "TextContent | ImageContent", "string (uri)"."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " | ".join(_type(arm) for arm in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return " | ".join(f'"{value}"' for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        inner = _type(schema["items"])
        return f"array of ({inner})" if " | " in inner else f"array of {inner}"
    if schema.get("type") == "object":
        values = _type(schema.get("additionalProperties") or {})
        return "object" if values == "any JSON" else f"object of {values}"
    kind = str(schema.get("type", "any JSON"))
    return f"{kind} ({schema['format']})" if "format" in schema else kind
