"""URI templates: from a URI back to the values of the variables, which RFC 6570 leaves open.

Spec:      server/resources#resource-templates; RFC 6570
Upholds:   spec_notes/server/resources.md, the rows on templates and on path traversal
Not here:  which template serves a URI, and with which function (server/resources)

`UriTemplate(text).match(uri)` gives the decoded values of the variables, or None. A template can be matched as far as a
URI can mean one thing only; any other is refused when it is read:

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
from typing import Final, Literal, NamedTuple

MAX_URI_LENGTH: Final = 8192
"""A URI of more characters matches no template."""

_PIECE = re.compile(r"\{([^{}]*)\}|([^{}]+)")
_EXPRESSION = re.compile(r"([+#./;?&]?)(.+)", re.DOTALL)
_NAME_CHAR = r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})"
_VARIABLE = re.compile(rf"({_NAME_CHAR}+(?:\.{_NAME_CHAR}+)*)(:[1-9][0-9]{{0,3}}|\*)?")
_NOT_LITERAL = re.compile(r"[\x00-\x20\x7f\"<>\\^`|]|%(?![0-9A-Fa-f]{2})")
_NOT_IN_URI = re.compile(r"[\x00-\x20\x7f\"<>\\^`{|}]")
_BARE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_DRIVE = re.compile(r"[A-Za-z]:")

_IN_PATH = {"": ("", ","), "+": ("", ","), ".": (".", "."), "/": ("/", "/"), ";": (";", ";")}
"""The texts before the values of an expression in a path, and between them (RFC 6570, appendix A)."""


class _Expression(NamedTuple):
    """Such as {?x,y}."""

    operator: str
    names: list[str]


class _Slot(NamedTuple):
    """The place of one value in the path of a URI."""

    name: str
    kind: Literal["segment", "path"]


class UriTemplate:
    """A template that has been read.

    Args:
        text: such as `file:///{+path}`; the head of this module says what can be matched.

    Raises:
        ValueError: it is not a template, or a URI could mean several things by it.

    Attributes:
        variables: their names, in order.
        optional: those that a URI may leave out, of a query and of a fragment.

    Threads: any; it never changes.
    """

    def __init__(self, text: str) -> None:
        def refuse_if(condition: object, problem: str) -> None:
            if condition:
                raise ValueError(f"URI template {text!r} cannot be matched: {problem}")

        pieces = _pieces(text)
        expressions = [piece for piece in pieces if isinstance(piece, _Expression)]
        names = [name for expression in expressions for name in expression.names]
        refuse_if(len(set(names)) < len(names), "a variable occurs twice")
        self.text, self.variables = text, tuple(names)

        # 1. The end, which a URI may leave out: {?...} or {&...}, and {#...}.
        self._query: list[str] = []
        self._fragment: list[str] = []
        if pieces and isinstance(last := pieces[-1], _Expression) and last.operator == "#":
            self._fragment = last.names
            pieces.pop()
        refuse_if(len(self._fragment) > 1, "{#...} has several variables")
        begun = False
        while not begun and pieces and isinstance(last := pieces[-1], _Expression) and last.operator in ("?", "&"):
            self._query[:0] = last.names
            begun = last.operator == "?"
            pieces.pop()
        self.optional = frozenset(self._query + self._fragment)

        # Here, and in `_value`: a start that needs no template should not load it (4 ms).
        from urllib.parse import quote

        # 2. The path: texts, and between them the slots for values; so there is one text more than slots.
        self._texts: list[str] = [""]
        self._slots: list[_Slot] = []
        for piece in pieces:
            if isinstance(piece, str):
                self._texts[-1] += quote(piece, safe=":/?#[]@!$&'()*+,;=%~")
                continue
            operator = piece.operator
            refuse_if(operator not in _IN_PATH, f"something follows {{{operator}...}}")
            refuse_if(operator == "+" and len(piece.names) > 1, "{+...} has several variables")
            before, between = _IN_PATH[operator]
            for index, name in enumerate(piece.names):
                self._texts[-1] += (between if index else before) + (f"{name}=" if operator == ";" else "")
                if self._slots:
                    refuse_if(self._slots[-1].kind == "path", "another variable of the path follows {+...}")
                    refuse_if(not self._texts[-1], f"no text stands between {self._slots[-1].name} and {name}")
                self._slots.append(_Slot(name, "path" if operator == "+" else "segment"))
                self._texts.append("")

        # 3. What the query must begin with, where {&...} continues a fixed part: it is cut off the path.
        self._fixed_query: list[str] = []
        if self._query:
            self._texts[-1], sign, fixed = self._texts[-1].partition("?")
            unclear = "?" in "".join(self._texts) or begun == bool(sign)
            refuse_if(unclear, "a query begins with {?...}, or with a fixed part that {&...} continues")
            self._fixed_query = fixed.split("&") if sign else []
        refuse_if(self.optional and "#" in "".join(self._texts), "a `#` comes before a query or {#...}")

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values of the variables that the URI gives, or None if it does not fit.

        Takes time in proportion to the length of the URI, which is at most `MAX_URI_LENGTH`.
        """
        if len(uri) > MAX_URI_LENGTH or _NOT_IN_URI.search(uri):
            return None
        values: dict[str, str | None] = {}

        # 1. The fragment and the query.
        path, sign, fragment = uri.partition("#") if self._fragment else (uri, "", "")
        if sign:
            values[self._fragment[0]] = _value(fragment, "query")
        if self._query:
            path, _, query = path.partition("?")
            pairs, fixed = query.split("&") if query else [], len(self._fixed_query)
            if pairs[:fixed] != self._fixed_query:
                return None
            for pair in pairs[fixed:]:
                name, _, raw = pair.partition("=")
                if name not in self._query or name in values:
                    return None
                values[name] = _value(raw, "query")

        # 2. The path: the texts between the values are found from left to right; the last one stands at the end. No
        #    choice is taken back, so the time is linear: had a value ended later, at another occurrence of the text
        #    after it, it would hold what now belongs to the next value, which takes it just as well.
        first, last = self._texts[0], self._texts[-1]
        at, end = len(first), len(path) - (len(last) if self._slots else 0)
        if not (path.startswith(first) and path.endswith(last) and at <= end and (self._slots or at == end)):
            return None
        for slot, text in zip(self._slots, self._texts[1:], strict=True):
            # A value has at least one character.
            stop = end if slot is self._slots[-1] else path.find(text, at + 1, end)
            if stop <= at:
                return None
            values[slot.name] = _value(path[at:stop], slot.kind)
            at = stop + len(text)
        found = {name: value for name, value in values.items() if value is not None}
        return found if len(found) == len(values) else None


def _pieces(text: str) -> list[str | _Expression]:
    """Return the texts and expressions of a template."""
    pieces: list[str | _Expression] = []
    end = 0
    for match in _PIECE.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        body, literal = match.groups()
        if literal is not None:
            if _NOT_LITERAL.search(literal):
                raise ValueError(f"URI template {text!r}: a character in {literal!r} is not allowed there")
            pieces.append(literal)
            continue
        expression = _EXPRESSION.fullmatch(body)
        if expression is None:
            raise ValueError(f"URI template {text!r}: {{{body}}} is not an expression of RFC 6570")
        names = []
        for variable in expression[2].split(","):
            found = _VARIABLE.fullmatch(variable)
            if found is None:
                raise ValueError(f"URI template {text!r}: {variable!r} in {{{body}}} is not a variable")
            if found[2] is not None:
                raise ValueError(f"URI template {text!r} cannot be matched: {found[1]} has `*` or `:`")
            names.append(found[1])
        pieces.append(_Expression(expression[1], names))
    if end != len(text):
        raise ValueError(f"URI template {text!r}: a brace at position {end} has no partner")
    return pieces


def _value(raw: str, kind: Literal["segment", "path", "query"]) -> str | None:
    """Return the decoded value, or None if it is refused."""
    if "#" in raw or ("?" in raw and kind != "query") or _BARE_PERCENT.search(raw):
        return None
    from urllib.parse import unquote

    try:
        value = unquote(raw, errors="strict")
    except UnicodeDecodeError:
        return None
    # MUST: sanitize file paths: no value leads out of its directory (server/resources#security-considerations)
    if "\0" in value or "\\" in value:
        return None
    if kind == "segment":
        return None if "/" in value or value in (".", "..") else value
    return None if value.startswith("/") or _DRIVE.match(value) or ".." in value.split("/") else value


def covers(subscribed: str, updated: str) -> bool:
    """Return whether a subscription to one URI covers a change of another: the same, or one below it in its path.

    Spec: schema ResourceUpdatedNotification
    """
    if updated == subscribed:
        return True
    if "?" in subscribed or "#" in subscribed:
        return False
    return updated.startswith(subscribed if subscribed.endswith("/") else subscribed + "/")
