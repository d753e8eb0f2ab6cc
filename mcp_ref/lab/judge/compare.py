"""The differences between two revisions, by the tables that the code itself reads.

Spec:      the changelog page of each revision
Not here:  the tables: methods (each page), members (the types), rules (revisions), sentences
           (lab/judge/sentences.json); the command `diff` (lab/cli/diff)

What the tables do not hold cannot be seen; `UNSEEN` says so at the end of every form.
"""

from __future__ import annotations

import html
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

from mcp_ref import REVISIONS, Revision, find_revision
from mcp_ref.facts import FEATURES, KINDS, InputRequiredResult, shapes
from mcp_ref.lab.judge.explain import error_meaning
from mcp_ref.lab.judge.narrate import METHODS, method_row, page_in
from mcp_ref.lab.judge.rulebook import sentences
from mcp_ref.lab.words import STATELESS_ERRORS

UNSEEN: Final = (
    "`receiver` is whoever gets a request. Rules are columns of mcp_ref/revisions.py. Each sentence stands under the "
    "name of the rule by which `mcp-ref check` decides it; it is gone if the checker has none in its place. Not seen "
    "here: guidance, what is asked of people, and sentences that no traffic breaks."
)


class Change(NamedTuple):
    """One thing that two revisions say differently; an empty text stands for what one of them does not have.

    Of traffic (lab/testing/align) also what they say alike.
    """

    part: str  # "methods", "members", "rules", "error codes", "headers", "deprecated" or "sentences"; or a call
    name: str
    was: str
    now: str

    def __str__(self) -> str:
        if self.was == self.now:
            return f"same  {self.name}"
        if self.was and self.now:
            return f"{self.name}: {self.was} -> {self.now}"
        return f"new   {self.name}: {self.now}" if self.now else f"gone  {self.name}: {self.was}"


def compare(old: str | Revision, new: str | Revision) -> list[Change]:
    """Return everything in which one revision differs from another, part by part.

    Raises: ValueError: no such revision; it names those that exist.
    """
    before, after = find_revision(old), find_revision(new)
    changes = []
    for part, table in _TABLES.items():
        was, now = table(before), table(after)
        # The order of the newer table, after what is gone from the older one.
        names = [name for name in was if name not in now] + list(now)
        changes += [Change(part, name, was.get(name, ""), now.get(name, "")) for name in names]
    changes = [change for change in changes if change.was != change.now]
    return [*_without_repetition(changes), *_sentences(before, after)]


def explained(change: Change) -> Change:
    """Return the change of a rule with what the rule means, which stands as a comment at its column; any other as it
    is.
    """
    if change.part != "rules":
        return change
    about = re.search(rf"((?:\n +#.*)*)\n    {change.name}: .*?((?:  # .*)?)\n", inspect.getsource(Revision))
    means = re.findall("# (.*)", "".join(about.groups()) if about else "")
    return change._replace(name=f"{change.name} ({' '.join(means)})")


def of_part(old: str, new: str, changes: Iterable[Change], method: str | None, page: str | None) -> list[Change]:
    """Return the changes of one method, or of one page such as "server/tools": what its messages can hold, and its
    sentences.

    Raises: ValueError: no revision has such a method, or page.
    """
    revisions = find_revision(old), find_revision(new)
    rows = [row for row in METHODS.values() if method in (None, row.name) and page in (None, *_pages(row))]
    said = {says: places for each in revisions for says, (_, places) in _decided(each).items()}
    pages = {place.partition("#")[0] for places in said.values() for place in places}
    if method is not None and method not in METHODS:
        raise ValueError(f"no revision has the method {method}")
    if page is not None and not rows and page not in pages:
        raise ValueError(f"no page is called {page}; there are {', '.join(sorted(pages))}")
    types = dict[Any, None]()
    for row in rows:
        for hint in filter(None, (row.params, row.result, row.as_task)):
            _collect(hint, types)
    names = {row.name for row in rows} | {each.__name__ for each in types}

    def belongs(change: Change) -> bool:
        if change.part != "sentences":
            return change.part in ("methods", "members") and change.name.partition(".")[0] in names
        places = {place.partition("#")[0] for says in change[2:] for place in said.get(says, ())}
        named = method is None or any(f"`{method}`" in says for says in change[2:])
        return named and page in (None, *places)

    return [change for change in changes if belongs(change)]


def _pages(row: Any) -> set[str]:
    return {page_in(row.page, revision) for revision in REVISIONS}


# -- the tables, in one revision ----------------------------------------------------------------------------------


def _methods(revision: Revision) -> dict[str, str]:
    """Return how each method is sent, and what it needs."""
    found = {}
    for name in METHODS:
        row = method_row(name, revision)
        if row is None or not row.exists_in(revision):
            if name in KINDS and not revision.servers_send_requests:
                found[name] = f"asked for in a result; needs client.{KINDS[name].name}"
            continue
        ways = {"client": "from the client", "server": "from the server", "both": "from either side"}
        needs = f"the extension {row.extension}" if row.extension else row.capability(revision) or "no capability"
        found[name] = f"{row.kind} {ways[row.sent_by(revision)]}; needs {needs}"
    return found


def members_of(revision: Revision) -> dict[str, str]:
    """Return each type that a message of the revision can hold, and each of its members, by today's names."""
    found: dict[str, str] = {}
    for wire_type in _wire_types(revision):
        name, shape = wire_type.__name__, shapes.shape_of(wire_type, revision, judged=True)
        named = shapes.published_name(wire_type, revision)
        found[name] = "a type" if named == name else f"a type, named {named}"
        if isinstance(shape, shapes.Object):
            for member, field in shape.fields.items():
                found[f"{name}.{member}"] = f"{words(field.shape)}, {'required' if field.required else 'optional'}"
    return found


def _wire_types(revision: Revision) -> list[Any]:
    """Return the types of the revision's methods, and those that they mention there."""
    rows = [row for name in METHODS if (row := method_row(name, revision)) is not None and row.exists_in(revision)]
    todo: list[Any] = [each for row in rows for each in (row.params, row.result, revision.tasks and row.as_task)]
    if not revision.servers_send_requests:
        todo += [each for kind in KINDS.values() for each in (kind.params, kind.result)] + [InputRequiredResult]
    candidates, here = dict[Any, None](), set[str]()
    for hint in todo:
        if hint:
            _collect(hint, candidates)
            _look(shapes.shape_of(hint, revision, judged=True), here)
    return [each for each in candidates if shapes.published_name(each, revision) in here]


def _collect(hint: Any, found: dict[Any, None]) -> None:
    """Collect every TypedDict that a hint mentions, whatever the revision."""
    peeled = shapes.peel(hint)
    inner = [note.type for note in peeled.notes if isinstance(note, shapes.FromRevision | shapes.Judged)]
    if typing.is_typeddict(peeled.bare):
        if peeled.bare not in found:
            found[peeled.bare] = None
            inner += typing.get_type_hints(peeled.bare, include_extras=True).values()
    elif typing.get_origin(peeled.bare) is not typing.Literal:
        inner += typing.get_args(peeled.bare)
    for each in inner:
        _collect(each, found)


def _look(shape: Any, here: set[str]) -> None:
    """Collect the names of the objects that a shape holds."""
    inner: Sequence[Any] = ()
    if isinstance(shape, shapes.Object) and shape.name not in here:
        here.add(shape.name)
        inner = [field.shape for field in shape.fields.values()]
    elif isinstance(shape, (shapes.Array, shapes.Map)):
        inner = [shape.each]
    elif isinstance(shape, shapes.Choice):
        inner = shape.here
    for each in inner:
        _look(each, here)


def words(shape: Any) -> str:
    """Return a shape in a few words, with its bounds: "array of Tool", "number from 0 to 1"."""
    if isinstance(shape, shapes.Scalar):
        low, high = shape.bounds.minimum, shape.bounds.maximum
        bounds = (f" from {low:g}" if low is not None else "") + (f" to {high:g}" if high is not None else "")
        return shape.kind + bounds + (f" ({shape.format})" if shape.format else "")
    if isinstance(shape, shapes.Enumeration):
        return " | ".join(f'"{value}"' for value in shape.values)
    if isinstance(shape, shapes.Array):
        most = f" of at most {shape.at_most.items}" if shape.at_most else " of"
        each = words(shape.each)
        return f"array{most} ({each})" if " | " in each else f"array{most} {each}"
    if isinstance(shape, shapes.Map):
        return f"object of {words(shape.each)}"
    if isinstance(shape, shapes.Choice):
        return " | ".join(dict.fromkeys(map(words, shape.here)))
    return "any JSON" if isinstance(shape, shapes.Anything) else str(shape.name)


def _rules(revision: Revision) -> dict[str, str]:
    """Return the columns of revisions.py, in words."""
    said = {True: "yes", False: "no"}
    rows = list(revision._asdict().items())[2:]  # without its name and place
    return {name: said[value] if isinstance(value, bool) else str(value) for name, value in rows}


def _codes(revision: Revision) -> dict[str, str]:
    """Return the error codes that the revision defines beside those of JSON-RPC."""
    codes = [revision.resource_not_found] if revision.resource_not_found == -32002 else []
    codes += [-32042] if revision.url_elicitation_error else []
    codes += sorted(STATELESS_ERRORS, reverse=True) if revision.era == "stateless" else []
    return {str(code): error_meaning(code) for code in codes}


def _headers(revision: Revision) -> dict[str, str]:
    """Return the headers of HTTP that are MCP's, and what a client may send to the endpoint."""
    stateless = revision.http == "stateless"
    rows = {
        "MCP-Protocol-Version": (revision.version_header, "the revision that is spoken"),
        "Mcp-Session-Id": (revision.session_header, "the session"),
        "Last-Event-ID": (revision.sse_resumption, "where an event stream goes on"),
        "Mcp-Method": (stateless, "the method of the body"),
        "Mcp-Name": (stateless, "the tool, prompt or resource that the body names"),
        "Mcp-Param-*": (stateless, "an argument that x-mcp-header marks"),
        "GET": (not stateless, "opens an event stream"),
        "DELETE": (revision.session_header, "ends the session"),
    }
    return {name: says for name, (there, says) in rows.items() if there}


def _deprecated(revision: Revision) -> dict[str, str]:
    """Return the features that the revision calls deprecated, with what to do instead."""
    rows = FEATURES.items()
    return {name: row.instead for name, row in rows if REVISIONS[row.since].order <= revision.order}


_TABLES: Final[dict[str, Callable[[Revision], dict[str, str]]]] = {
    "methods": _methods,
    "members": members_of,
    "rules": _rules,
    "error codes": _codes,
    "headers": _headers,
    "deprecated": _deprecated,
}


def _without_repetition(changes: list[Change]) -> Iterator[Change]:
    """Yield the changes; a type that is new or gone is one, which names its members."""
    whole = {change.name for change in changes if "." not in change.name and not (change.was and change.now)}
    for change in changes:
        name, dot, _ = change.name.partition(".")
        if change.part != "members" or not (dot and name in whole):
            own = [each.name[len(name) + 1 :] for each in changes if each.name.startswith(f"{name}.")]
            if change.part == "members" and change.name in whole and own:
                holds = f"a type with {', '.join(own)}"
                change = change._replace(was=change.was and holds, now=change.now and holds)
            yield change


def _sentences(before: Revision, after: Revision) -> Iterator[Change]:
    """Yield the sentences that traffic can break: new, gone, of another level, or said otherwise."""
    was, now = _decided(before), _decided(after)
    left = {says: row for says, row in now.items() if says not in was}
    for says, (rule, places) in was.items():
        if says not in now:
            # What a rule says otherwise, or what stands in the same place now, is what became of it.
            same = [each for each in left if left[each][0] == rule] + [each for each in left if left[each][1] & places]
            found = next(iter(same), "")
            left.pop(found, None)
            yield Change("sentences", rule, says, found)
    yield from (Change("sentences", rule, "", says) for says, (rule, _) in left.items())


def _decided(revision: Revision) -> dict[str, tuple[str, set[str]]]:
    """Return the sentences that a revision has: each with a rule that decides it, and its places, page and heading."""
    found: dict[str, tuple[str, set[str]]] = {}
    for rule, rows in sentences()["rules"].items():
        for row in rows:
            places = {each.partition("/")[2] for each in row["ids"] if each.startswith(f"{revision}/")}
            if places and row["level"] != "HINT":
                found.setdefault(f"{row['level']}: {row['says']}", (rule, set()))[1].update(places)
    return found


# -- told ---------------------------------------------------------------------------------------------------------


def as_text(old: str, new: str, changes: Sequence[Change], unseen: str = UNSEEN) -> Iterator[str]:
    """Yield lines for a terminal: a heading for each part, and a line for each change."""
    yield f"{old} -> {new}: {sum(change.was != change.now for change in changes)} changes"
    for part, rows in groupby(changes, lambda change: change.part):
        yield f"\n{part}"
        yield from (f"  {row}" for row in rows)
    yield f"\n{unseen}"


def as_markdown(old: str, new: str, changes: Sequence[Change], unseen: str = UNSEEN) -> Iterator[str]:
    """Yield a table for each part."""
    yield f"# {old} to {new}"
    for part, rows in groupby(changes, lambda change: change.part):
        title = part[0].upper() + part[1:].replace("<", "&lt;")
        yield f"\n## {title}\n\n| | {old} | {new} |\n|---|---|---|"
        for row in rows:
            # Neither a cell more, nor a tag.
            cells = ((each or "-").replace("|", "\\|").replace("<", "&lt;") for each in row[1:])
            yield "| `{}` | {} | {} |".format(*cells)
    yield f"\n{unseen}"


def as_html(old: str, new: str, changes: Sequence[Change], unseen: str = UNSEEN) -> Iterator[str]:
    """Yield a page of its own, with nothing to fetch."""
    yield f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{old} to {new}</title>'
    yield "<style>:root{color-scheme:light dark}body{font-family:sans-serif}td{vertical-align:top}"
    yield ".same{opacity:.6}</style>"
    yield f"<h1>{old} to {new}</h1>"
    for part, rows in groupby(changes, lambda change: change.part):
        yield f"<h2>{html.escape(part[0].upper() + part[1:])}</h2>\n<table><tr><th><th>{old}<th>{new}"
        for row in rows:
            marked = "<tr class=same><td>" if row.was == row.now else "<tr><td>"
            yield marked + "<td>".join(html.escape(cell or "-") for cell in row[1:])
        yield "</table>"
    yield f"<p>{unseen}</p>\n</html>"


FORMATS: Final[dict[str, Callable[..., Iterator[str]]]] = {
    "text": as_text,
    "markdown": as_markdown,
    "html": as_html,
}
