"""Guards: what an HTTP request must be before it is looked at as a message.

Spec:      basic/transports#security-warning, #sending-messages-to-the-server, #listening-for-messages-from-the-server
Upholds:   spec_notes/basic/transports.md, the rows on security and on entry;
           spec_notes/basic/transports/streamable-http.md, the same
Not here:  sessions and versions (endpoint.py), limits of the socket (server.py)
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final
from urllib.parse import urlsplit

from mcp_ref.errors import HeaderMismatch, LocalProtocolError
from mcp_ref.machinery.http_server import HttpRefusal, HttpRequest
from mcp_ref.messages import JsonObject

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The hosts under which a server on this machine is reached."""


def check_host(request: HttpRequest, allowed: Collection[str] | None) -> None:
    """403 unless the `Host` is one of ours: a page on the web can make a name of its own point at this machine.

    Args:
        allowed: host names without a port, in lower case; None allows all.
    """
    if allowed is not None and _without_port(request.headers.get("host", "")) not in allowed:
        raise HttpRefusal(403, "Host not allowed")


def check_origin(request: HttpRequest, allowed: Collection[str] | None) -> None:
    """403 when a browser says that a page of another origin asks.

    Args:
        allowed: origins such as "https://example.com", or host names, which stand for any scheme and port; None: all.
    """
    # MUST: validate the Origin header on all incoming connections (basic/transports#security-warning)
    origin = request.headers.get("origin")
    if origin is None or allowed is None:
        return
    try:
        host = (urlsplit(origin).netloc or "").lower()
    except ValueError:
        host = ""
    if origin.lower() not in allowed and _without_port(host) not in allowed:
        raise HttpRefusal(403, "Origin not allowed")


def _without_port(host: str) -> str:
    """The name or address in `host` or `host:port`; "" where it is neither, such as one with a user before an @."""
    matched = _HOST.fullmatch(host.strip().lower())
    return "" if matched is None else matched[1]


_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@,\[\]]+)(?::[0-9]*)?")


def check_content_type(request: HttpRequest) -> None:
    """415 unless the body says that it is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpRefusal(415, "Content-Type must be application/json")


def check_accept(request: HttpRequest, *needed: str) -> None:
    """406 unless the client accepts every media type that the page wants it to list."""
    ranges = {part.partition(";")[0].strip().lower() for part in request.headers.get("accept", "").split(",")}
    for kind in needed:
        # MUST: list application/json and text/event-stream (basic/transports#sending-messages-to-the-server)
        if not ranges & {kind, kind.partition("/")[0] + "/*", "*/*"}:
            raise HttpRefusal(406, f"Not acceptable: Accept must list {' and '.join(needed)}")


# -- mirroring -------------------------------------------------------------------------------------------


ANNOTATION: Final = "x-mcp-header"
PREFIX: Final = "Mcp-Param-"

NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Which member of `params` is mirrored into `Mcp-Name`."""

SAFE: Final = 2**53 - 1
"""The largest integer that every reader of JSON reads exactly."""

MOST_DEPTH: Final = 64
"""Objects within objects, below which no argument is mirrored."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PLAIN = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_FIELD_VALUE = re.compile(r"[\t -~]*")
_NUMBER = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?")
_OPEN, _CLOSE = "=?base64?", "?="

Path = tuple[str, ...]


# -- values -------------------------------------------------------------------------------------------------------


def encode_value(value: str | int | float) -> str:
    """The header value of a string, an integer or a boolean: as it is, or in base64 where that would not be safe.

    Raises: ValueError: an integer beyond 2**53 - 1, or a string that is not Unicode text (half a surrogate pair).
    Spec: basic/transports/streamable-http#value-encoding
    """
    text = value if isinstance(value, str) else _text_of(value)
    looks_encoded = text.startswith(_OPEN) and text.endswith(_CLOSE)
    # MUST: base64 for what is not plain ASCII, and for what looks like it (streamable-http#value-encoding)
    if _PLAIN.fullmatch(text) and not looks_encoded:
        return text
    return f"{_OPEN}{base64.b64encode(text.encode('utf-8')).decode('ascii')}{_CLOSE}"


def _text_of(value: int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not value.is_integer():
        # No `integer`, so the arguments will be refused; the header is not to be what they are refused for.
        return json.dumps(value)
    # MUST: integers that a double holds exactly (streamable-http#schema-extension)
    if abs(value) > SAFE:
        raise ValueError("an integer in a header must lie within -(2**53 - 1) and 2**53 - 1")
    return str(int(value))


def decode_value(text: str) -> str:
    """What a header value stands for.

    Raises: ValueError: it is marked as base64, and is not exactly what encoding some UTF-8 text gives.
    Spec: basic/transports/streamable-http#value-encoding
    """
    if len(text) < len(_OPEN + _CLOSE) or not (text.startswith(_OPEN) and text.endswith(_CLOSE)):
        return text
    encoded = text[len(_OPEN) : -len(_CLOSE)]
    data = base64.b64decode(encoded, validate=True)
    # `validate` lets bits pass that mean nothing: two texts for one value.
    if base64.b64encode(data).decode("ascii") != encoded:
        raise ValueError("not the base64 of anything")
    return data.decode("utf-8")


# -- x-mcp-header -------------------------------------------------------------------------------------------------


def parameters(input_schema: JsonObject) -> dict[str, Path]:
    """The arguments of a tool that are mirrored: the name part of the header, and the path of the property.

    >>> parameters({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
    {'Region': ('region',)}

    A property may also allow null beside its one type: for null the page has a rule, and no header.

    Raises: ValueError: an annotation breaks the rules of the page; says which, and where.
    Spec: basic/transports/streamable-http#schema-extension, server/tools#x-mcp-header
    """
    found: dict[str, Path] = {}
    taken: set[str] = set()
    for path, schema in _schemas(input_schema):
        if ANNOTATION in schema:
            name = _name_of(path, schema)
            # MUST: unique without regard to case (streamable-http#schema-extension)
            if name.lower() in taken:
                raise ValueError(f"{ANNOTATION} {name!r} is given twice")
            taken.add(name.lower())
            found[name] = path or ()
    return found


def _name_of(path: Path | None, schema: JsonObject) -> str:
    # MUST: reachable by `properties` alone (streamable-http#schema-extension)
    if not path:
        raise ValueError(f"{ANNOTATION} stands where no chain of `properties` leads")
    where, name, kinds = ".".join(path), schema[ANNOTATION], schema.get("type")
    # MUST: a token, so neither empty nor with control characters (streamable-http#schema-extension)
    if not isinstance(name, str) or not _TOKEN.fullmatch(name):
        raise ValueError(f"{ANNOTATION} of {where} is no name of a header: {ascii(name)[:80]}")
    one = [kind for kind in kinds if kind != "null"] if isinstance(kinds, list) else [kinds]
    # MUST: a string, an integer or a boolean, and no `number` (streamable-http#schema-extension)
    if len(one) != 1 or one[0] not in ("string", "integer", "boolean"):
        raise ValueError(f"{ANNOTATION} of {where} is on something that is no string, integer or boolean")
    return name


_ONE = ("items", "additionalItems", "contains", "unevaluatedItems", "additionalProperties", "propertyNames",
        "unevaluatedProperties", "not", "if", "then", "else", "contentSchema")  # fmt: skip
_LISTS = ("items", "allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("patternProperties", "dependentSchemas", "dependencies", "$defs", "definitions")


def _schemas(root: Any) -> Iterator[tuple[Path | None, JsonObject]]:
    """Every schema within a schema, with the chain of `properties` that leads there; None where none does.

    What is data, such as a `default`, is not looked into. A list instead of calls: a stranger chose the depth.
    """
    found: list[tuple[Path | None, Any]] = [((), root)]
    for path, schema in found:
        if isinstance(schema, dict):
            yield path, schema
            on_the_way = path is not None and len(path) < MOST_DEPTH
            for name, inner in _members(schema, "properties"):
                found.append(((*(path or ()), name) if on_the_way else None, inner))
            found += [(None, inner) for keyword in _MAPS for _, inner in _members(schema, keyword)]
            found += [(None, schema[keyword]) for keyword in _ONE if keyword in schema]
            for keyword in _LISTS:
                listed = schema.get(keyword)
                found += [(None, inner) for inner in listed] if isinstance(listed, list) else []


def _members(schema: JsonObject, keyword: str) -> list[tuple[str, Any]]:
    value = schema.get(keyword)
    return list(value.items()) if isinstance(value, dict) else []


_known: dict[int, tuple[JsonObject, dict[str, Path]]] = {}


def _mirrored(input_schema: JsonObject) -> dict[str, Path]:
    """`parameters` of a schema that is used again and again; nothing of a tool that no client should call."""
    known = _known.get(id(input_schema))
    if known is None or known[0] is not input_schema:
        try:
            known = input_schema, parameters(input_schema)
        except ValueError:
            known = input_schema, {}
        if len(_known) >= 1_000:
            _known.clear()
        # With the schema itself, so that no other one can come to have its id.
        _known[id(input_schema)] = known
    return known[1]


def _at(arguments: Any, path: Path) -> Any:
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


# -- the client writes --------------------------------------------------------------------------------------------


def mirror(message: JsonObject, revision_name: str, input_schema: JsonObject | None = None) -> dict[str, str]:
    """The headers of the POST of a request or notification.

    Args:
        input_schema: that of the tool which is called, as the server listed it; None where it is not known, or no tool
            is called. Annotations that break the rules of the page are not followed.

    Raises: LocalProtocolError: something cannot be written into a header, such as an integer beyond 2**53 - 1.
    Spec: basic/transports/streamable-http#client-behavior
    """
    method, params = message["method"], message.get("params") or {}
    if not method or not _PLAIN.fullmatch(method):
        raise LocalProtocolError(f"the method {method!r} cannot be written into the header Mcp-Method")
    # MUST: on every POST (streamable-http#protocol-version-header, #standard-request-headers)
    headers = {"MCP-Protocol-Version": revision_name, "Mcp-Method": method}
    name = params.get(NAMED[method]) if method in NAMED else None
    if isinstance(name, str):
        headers["Mcp-Name"] = _written("Mcp-Name", name)
    if method == "tools/call" and input_schema is not None:
        for part, path in _mirrored(input_schema).items():
            value = _at(params.get("arguments"), path)
            # MUST: no header where there is no value, or null (streamable-http#server-behavior-for-custom-headers)
            if isinstance(value, str | int | float):
                headers[PREFIX + part] = _written(PREFIX + part, value)
    return headers


def _written(header: str, value: str | int | float) -> str:
    try:
        return encode_value(value)
    except ValueError as problem:
        raise LocalProtocolError(f"{header}: {problem}") from None


# -- the server compares ------------------------------------------------------------------------------------------


class MirroredHeaders:
    """What the headers of one request repeat of it; see `basic/versioning.Mirrored`.

    Args:
        headers: names in lower case.
        repeated: those that came more than once.

    Spec: basic/transports/streamable-http#server-validation
    """

    __slots__ = ("_headers", "_repeated")

    def __init__(self, headers: Mapping[str, str], repeated: Collection[str] = ()) -> None:
        self._headers, self._repeated = headers, repeated

    def check(self, method: str, params: JsonObject, version: str) -> None:
        """The headers that every request has. Raises HeaderMismatch."""
        # MUST: reject where header and body differ, or a required header is missing (streamable-http#server-validation)
        self._same("MCP-Protocol-Version", version)
        self._same("Mcp-Method", method)
        source = NAMED.get(method)
        if source is not None:
            self._same_text("Mcp-Name", params.get(source))

    def check_arguments(self, input_schema: JsonObject, arguments: JsonObject) -> None:
        """Those that a tool's `inputSchema` asks for. Raises HeaderMismatch."""
        for part, path in _mirrored(input_schema).items():
            value = _at(arguments, path)
            if isinstance(value, int | float) and not isinstance(value, bool):
                self._same_number(PREFIX + part, value)
            else:
                self._same_text(PREFIX + part, _text_of(value) if isinstance(value, bool) else value)

    def _same(self, header: str, value: str) -> None:
        found = self._value(header)
        if found is None:
            raise HeaderMismatch(f"Header mismatch: {header} is missing")
        if found != value:
            raise _mismatch(header)

    def _same_text(self, header: str, value: Any) -> None:
        """As `_same`, for what may be encoded; what is no text cannot be in a header."""
        found = self._decoded(header)
        if not isinstance(value, str):
            if found is not None:
                # It would send the request where its body does not say.
                raise _mismatch(header)
        elif found is None:
            raise HeaderMismatch(f"Header mismatch: {header} is missing")
        elif found != value:
            raise _mismatch(header)

    def _same_number(self, header: str, value: int | float) -> None:
        found = self._decoded(header)
        if found is None:
            raise HeaderMismatch(f"Header mismatch: {header} is missing")
        # SHOULD: 42.0 is 42 (streamable-http#server-validation); MUST: exactly a double (#schema-extension)
        if abs(value) > SAFE or not _NUMBER.fullmatch(found):
            raise _mismatch(header)
        if value != (float(found) if isinstance(value, float) else Decimal(found)):
            raise _mismatch(header)

    def _decoded(self, header: str) -> str | None:
        found = self._value(header)
        try:
            # MUST: decode before comparing (streamable-http#value-encoding)
            return None if found is None else decode_value(found)
        except ValueError:
            raise HeaderMismatch(f"Header mismatch: {header} is not the base64 of UTF-8 text") from None

    def _value(self, header: str) -> str | None:
        name = header.lower()
        found = self._headers.get(name)
        if found is None:
            return None
        # Two readers would take one of them each.
        if name in self._repeated:
            raise HeaderMismatch(f"Header mismatch: {header} is given twice")
        # MUST: reject invalid characters (streamable-http#server-behavior-for-custom-headers)
        if not _FIELD_VALUE.fullmatch(found):
            raise HeaderMismatch(f"Header mismatch: {header} has characters that a header must not have")
        return found.strip(" \t")


def _mismatch(header: str) -> HeaderMismatch:
    return HeaderMismatch(f"Header mismatch: {header} does not say what the body says")
