"""URI templates: expansion as RFC 6570 has it, and the way back, which it leaves open. Nothing on the wire.

Spec:      server/resources#resource-templates; RFC 6570
Upholds:   spec_notes/server/resources.md, the rows on templates and on path traversal
Not here:  which template serves a URI, and with which function (server/resources)

*Expansion* knows all four levels of the RFC: every operator, `{name:3}`, `{list*}`.

*Matching* knows levels 1 to 3, as far as a URI can mean one thing only:

    {x}  {x,y}  {.x}  {/x}  {;x}     one value each, not empty, without `/`, `?` and `#`
    {+x}                             not empty, may hold `/`; the last variable of the path
    {?x,y}  {&x,y}                   each may be missing, in any order; nothing but {&...} and {#...} follows
    {#x}                             may be missing; nothing follows

Between two values stands a text, and the first value ends where that text is first found: with `{a}-{b}` the values of
`1-2-3` are `1` and `2-3`. Values come percent-decoded, once.

What a URI may reach is decided here, for it comes from the other side. A value of the first row that is `.` or `..`, or
holds a slash, a backslash or a NUL, however encoded, matches nothing; nor does a value of the other rows with a `..`
segment, a leading slash, a drive letter, a backslash or a NUL. A handler that opens files should still resolve the path
it builds (links!) and look whether that is inside its directory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import quote, unquote

LONGEST_URI = 8192
"""A URI of more characters matches no template."""

Value = str | Sequence[str] | Mapping[str, str]


class _Operator(NamedTuple):
    """One row of the table in RFC 6570, appendix A."""

    first: str
    separator: str
    named: bool = False
    if_empty: str = ""
    reserved: bool = False


_OPERATORS = {
    "": _Operator("", ","),
    "+": _Operator("", ",", reserved=True),
    "#": _Operator("#", ",", reserved=True),
    ".": _Operator(".", "."),
    "/": _Operator("/", "/"),
    ";": _Operator(";", ";", named=True),
    "?": _Operator("?", "&", named=True, if_empty="="),
    "&": _Operator("&", "&", named=True, if_empty="="),
}


class _Variable(NamedTuple):
    name: str
    prefix: int | None
    explode: bool


class _Expression(NamedTuple):
    operator: str
    variables: tuple[_Variable, ...]


_PIECE = re.compile(r"\{([^{}]*)\}|([^{}]+)")
_EXPRESSION = re.compile(r"([+#./;?&]?)(.+)", re.DOTALL)
_NAME_CHAR = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_VARIABLE = re.compile(rf"({_NAME_CHAR}+(?:\.{_NAME_CHAR}+)*)(?::([1-9][0-9]{{0,3}})|(\*))?")
_NOT_LITERAL = re.compile(r"[\x00-\x20\x7f\"<>\\^`|]|%(?![0-9A-Fa-f]{2})")
_NOT_IN_URI = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}]")
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DRIVE = re.compile(r"[A-Za-z]:")
_RESERVED = ":/?#[]@!$&'()*+,;="


# -- the template, and expansion ----------------------------------------------------------------------------------


class UriTemplate:
    """A template that has been read.

    Args:
        text: such as `file:///{+path}`.

    Raises:
        ValueError: the text is no URI template.

    Threads: any; it never changes.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.pieces: tuple[str | _Expression, ...] = tuple(_read(text))
        self.variables: tuple[str, ...] = tuple(
            dict.fromkeys(v.name for piece in self.pieces if not isinstance(piece, str) for v in piece.variables)
        )

    def expand(self, values: Mapping[str, Value]) -> str:
        """The URI with the values put in, percent-encoded; a variable without one, or with an empty list, is left out.

        Raises:
            ValueError: a prefix such as `{x:3}` is asked of a list or an object.

        Spec: RFC 6570, section 3
        """
        return "".join(
            _encode(piece, reserved=True) if isinstance(piece, str) else _expand(piece, values) for piece in self.pieces
        )


def _read(text: str) -> Iterator[str | _Expression]:
    end = 0
    for match in _PIECE.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        if match[2] is None:
            yield _read_expression(match[1])
        elif _NOT_LITERAL.search(match[2]):
            raise ValueError(f"URI template {text!r}: a character in {match[2]!r} is not allowed there")
        else:
            yield match[2]
    if end != len(text):
        raise ValueError(f"URI template {text!r}: a brace at position {end} has no partner")


def _read_expression(body: str) -> _Expression:
    found = _EXPRESSION.fullmatch(body)
    if found is None:
        raise ValueError(f"URI template: {{{body}}} is not an expression of RFC 6570")
    return _Expression(found[1], tuple(_read_variable(each, body) for each in found[2].split(",")))


def _read_variable(text: str, body: str) -> _Variable:
    found = _VARIABLE.fullmatch(text)
    if found is None:
        raise ValueError(f"URI template: {text!r} in {{{body}}} is not a variable")
    return _Variable(found[1], int(found[2]) if found[2] else None, found[3] is not None)


def _encode(text: str, *, reserved: bool) -> str:
    if not reserved:
        return quote(text, safe="~")
    return _BARE_PERCENT.sub("%25", quote(text, safe=_RESERVED + "%~"))


def _expand(expression: _Expression, values: Mapping[str, Value]) -> str:
    operator = _OPERATORS[expression.operator]
    parts = [part for each in expression.variables for part in _parts(each, operator, values.get(each.name))]
    return operator.first + operator.separator.join(parts) if parts else ""


def _parts(variable: _Variable, operator: _Operator, value: Value | None) -> list[str]:
    """What one variable adds to its expression: nothing, one part, or with `*` one for each item."""
    if value is None or (not isinstance(value, str) and not value):
        return []
    if isinstance(value, str):
        return [_named(variable.name, _encode(value[: variable.prefix], reserved=operator.reserved), operator)]
    if variable.prefix is not None:
        raise ValueError(f"{{{variable.name}:{variable.prefix}}} cannot take the beginning of a list or an object")
    if isinstance(value, Mapping):
        pairs = [tuple(_encode(each, reserved=operator.reserved) for each in pair) for pair in value.items()]
        if variable.explode:
            return [_named(key, item, operator) if operator.named else f"{key}={item}" for key, item in pairs]
        items = [each for pair in pairs for each in pair]
    else:
        items = [_encode(item, reserved=operator.reserved) for item in value]
        if variable.explode:
            return [_named(variable.name, item, operator) for item in items]
    return [_named(variable.name, ",".join(items), operator)]


def _named(name: str, encoded: str, operator: _Operator) -> str:
    if not operator.named:
        return encoded
    return f"{name}={encoded}" if encoded else name + operator.if_empty


# -- matching -----------------------------------------------------------------------------------------------------


class _Slot(NamedTuple):
    """The place of one value in the path of a URI; a wide one may hold `/`."""

    name: str
    wide: bool


class _Unclear(ValueError):
    """Why a template cannot be matched."""


class UriMatcher:
    """The way back from a URI to the values of a template.

    Args:
        text: the template; the head of this module says what can be matched.

    Raises:
        ValueError: it is no template, or a URI could mean several things by it.

    Attributes:
        template: the template that was read.
        optional: the variables that a URI may leave out, those of a query and of a fragment.

    Threads: any; it never changes.
    """

    def __init__(self, text: str) -> None:
        self.template = UriTemplate(text)
        try:
            pieces, self._query, self._fragment = _tail(list(self.template.pieces))
            parts = [part for piece in pieces for part in _path_parts(piece)]
            self._literals, self._slots = _alternate(parts)
            self._fixed_query = _fixed_query(self.template, self._literals) if self._query else []
            self._check()
        except _Unclear as problem:
            raise ValueError(f"URI template {text!r} cannot be matched: {problem}") from None
        self.optional = frozenset(self._query + self._fragment)

    def _check(self) -> None:
        names = [slot.name for slot in self._slots] + self._query + self._fragment
        if len(set(names)) < len(names):
            raise _Unclear("a variable occurs twice")
        if any(slot.wide for slot in self._slots[:-1]):
            raise _Unclear("another variable of the path follows {+...}")
        if (self._query or self._fragment) and "#" in "".join(self._literals):
            raise _Unclear("a `#` comes before a query or {#...}")

    def match(self, uri: str) -> dict[str, str] | None:
        """The decoded values of the variables that the URI gives, or None where it does not fit.

        Takes time in proportion to the length of the URI, which is at most `LONGEST_URI`.
        """
        if len(uri) > LONGEST_URI or _NOT_IN_URI.search(uri):
            return None
        rest, sign, fragment = uri.partition("#") if self._fragment else (uri, "", "")
        found = [(self._fragment[0], _free(fragment))] if sign else []
        if self._query:
            rest, _, query = rest.partition("?")
            found += self._match_query(query)
        found += self._match_path(rest)
        values = {name: value for name, value in found if value is not None}
        # A name that came twice, or a value that was refused, is missing here.
        return values if len(values) == len(found) else None

    def _match_path(self, path: str) -> list[tuple[str, str | None]]:
        """Find the texts between the values from left to right; the last one stands at the end.

        No choice is taken back, so the time is linear: had a value ended later, at another occurrence of the text
        after it, it would hold what now belongs to the next value, which takes it just as well.
        """
        first, *middle, last = [*self._literals, ""] if not self._slots else self._literals
        end = len(path) - len(last)
        if not (path.startswith(first) and path.endswith(last) and len(first) <= end):
            return _NO_MATCH
        at, found = len(first), list[tuple[str, str | None]]()
        for slot, literal in zip(self._slots, [*middle, None], strict=False):
            # A value has at least one character.
            stop = end if literal is None else path.find(literal, at + 1, end)
            found.append((slot.name, (_wide if slot.wide else _narrow)(path[at:stop]) if stop > at else None))
            at = stop + len(literal or "")
        return found if self._slots or at == end else _NO_MATCH

    def _match_query(self, query: str) -> list[tuple[str, str | None]]:
        fixed, pairs = len(self._fixed_query), query.split("&") if query else []
        if pairs[:fixed] != self._fixed_query:
            return _NO_MATCH
        split = [pair.partition("=") for pair in pairs[fixed:]]
        return [(name, _free(raw) if name in self._query else None) for name, _, raw in split]


_NO_MATCH: list[tuple[str, str | None]] = [("", None)]


def _tail(pieces: list[str | _Expression]) -> tuple[list[str | _Expression], list[str], list[str]]:
    """The pieces of the path, the names of the query, and those of the fragment (one or none)."""
    fragment = list(_names(pieces.pop())) if _operator(pieces, -1) == "#" else []
    if len(fragment) > 1:
        raise _Unclear("{#...} has several variables")
    query: list[str] = []
    while (operator := _operator(pieces, -1)) in ("?", "&"):
        query[:0] = _names(pieces.pop())
        if operator == "?":
            break
    return pieces, query, fragment


def _operator(pieces: Sequence[str | _Expression], index: int) -> str | None:
    piece = pieces[index] if pieces else ""
    return None if isinstance(piece, str) else piece.operator


def _names(piece: str | _Expression) -> list[str]:
    variables = () if isinstance(piece, str) else piece.variables
    if any(variable.explode or variable.prefix is not None for variable in variables):
        raise _Unclear("a variable has `*` or `:`")
    return [variable.name for variable in variables]


def _path_parts(piece: str | _Expression) -> Iterator[str | _Slot]:
    if isinstance(piece, str):
        yield _encode(piece, reserved=True)
        return
    if piece.operator in ("?", "&", "#"):
        raise _Unclear(f"something follows {{{piece.operator}...}}")
    names, row = _names(piece), _OPERATORS[piece.operator]
    if len(names) > 1 and row.reserved:
        raise _Unclear("{+...} has several variables")
    for index, name in enumerate(names):
        yield (row.separator if index else row.first) + (f"{name}=" if row.named else "")
        yield _Slot(name, wide=row.reserved)


def _alternate(parts: list[str | _Slot]) -> tuple[list[str], list[_Slot]]:
    """The literals and the slots between them: always one literal more, the first and the last perhaps empty."""
    literals, slots = [""], list[_Slot]()
    for part in parts:
        if isinstance(part, str):
            literals[-1] += part
            continue
        if slots and not literals[-1]:
            raise _Unclear(f"no text stands between {slots[-1].name} and {part.name}")
        slots.append(part)
        literals.append("")
    return literals, slots


def _fixed_query(template: UriTemplate, literals: list[str]) -> list[str]:
    """Cut `?key=value` off the path where `{&...}` continues it: the pairs with which the query must begin."""
    begins = any(_operator(template.pieces, index) == "?" for index in range(len(template.pieces)))
    literals[-1], sign, query = literals[-1].partition("?")
    if "?" in "".join(literals) or begins == bool(sign):
        raise _Unclear("a query begins with {?...}, or with a fixed part that {&...} continues")
    return query.split("&") if sign else []


def _decoded(raw: str) -> str | None:
    if _BARE_PERCENT.search(raw):
        return None
    try:
        value = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return None
    return None if "\0" in value or "\\" in value else value


def _narrow(raw: str) -> str | None:
    """A value of one segment, or None if it is refused."""
    value = None if "?" in raw or "#" in raw else _decoded(raw)
    # MUST: sanitize file paths to prevent directory traversal (server/resources#security-considerations)
    return None if not value or "/" in value or value in (".", "..") else value


def _free(raw: str) -> str | None:
    """A value of a query or a fragment, or None if it is refused."""
    value = None if "#" in raw else _decoded(raw)
    if value is None or value.startswith("/") or _DRIVE.match(value) or ".." in value.split("/"):
        return None
    return value


def _wide(raw: str) -> str | None:
    """A value of several segments, or None if it is refused."""
    return None if not raw or "?" in raw else _free(raw)
