"""Methods as the rows describe them: who sends each, in which revisions, with which parameters and result.

Spec:      schema of every revision; the page that each row names
Not here:  the command line around it (cli)

In the stateless era three of the server's requests are not messages: they stand in the result of another request, with
the same parameters, and their results in the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from mcp_ref import REVISIONS, Revision
from mcp_ref.facts import KINDS, MAY_ASK, InputRequiredResult, shapes
from mcp_ref.lab.judge.narrate import METHODS, method_row, page_in

_WAYS: Final = {"client": "C > S", "server": "S > C", "both": "both"}


def method_table() -> Iterator[str]:
    """Yield a line for each method: its name, who sends it, and a mark under each revision; then what the marks
    mean.
    """
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
    """Return whether a revision has the method.

    Returns: "yes"; "result": it stands in the result of another request; "extension": only an extension has it; or "-".
    """
    row = method_row(name, revision)
    if row is not None and row.exists_in(revision):
        return "yes" if row.extension is None else "extension"
    return "result" if name in KINDS and not revision.servers_send_requests else "-"


def describe(name: str, revision: Revision | None = None) -> Iterator[str]:
    """Yield lines about a method, with its parameters and its result in one revision.

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
    """Yield a line for each member of the type, with its history; the arms of a union one after the other."""
    from mcp_ref.lab.judge.compare import words  # loads the rules of the checker, which no other command needs

    whole = {each: shapes.plain_arms(shapes.shape_of(wire_type, each, judged=True)) for each in having}
    arms = {each: [arm for arm in whole[each] if isinstance(arm, shapes.Object)] for each in having}
    if not any(arm.fields for arm in arms[revision]):
        yield "    no members of its own"
    for number, arm in enumerate(arms[revision]):
        if number:
            yield "    or"
        for name, field in arm.fields.items():
            must = "required" if field.required else ""
            # Since and until when the member exists, where that is not as long as the method.
            named = [each for each in having if any(name in other.fields for other in arms[each])]
            spans = [f"since {named[0]}"] if named[0] is not having[0] else []
            spans += [f"until {named[-1]}"] if named[-1] is not having[-1] else []
            span = f"only in {named[0]}" if spans and len(named) == 1 else ", ".join(spans)
            yield f"    {name:18} {must:9} {words(field.shape)}{f'   ({span})' if span else ''}".rstrip()
