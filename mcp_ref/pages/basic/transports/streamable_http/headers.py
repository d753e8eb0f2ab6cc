"""Headers and statuses of Streamable HTTP: who is let in, and what headers repeat of a message.

Spec:      basic/transports#security-warning, #sending-messages-to-the-server;
           2026-07-28/basic/transports/streamable-http#request-metadata, #custom-headers-from-tool-parameters
Upholds:   spec_notes/basic/transports.md, the rows on security and on entry;
           spec_notes/basic/transports/streamable-http.md, the same and those on mirrored headers;
           spec_notes/server/tools.md, the rows on x-mcp-header
Not here:  sessions and versions (server.py), limits of the socket (kit/http/http_server)

In the stateless era a POST says in its headers what stands in its body, so that proxies can route it:

    MCP-Protocol-Version   params._meta: the version          Mcp-Name            params.name, or params.uri
    Mcp-Method             method                             Mcp-Param-<Name>    an argument marked with x-mcp-header
"""

from __future__ import annotations

import base64
import json
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from mcp_ref.errors import STATELESS_ERRORS, HeaderMismatch, LocalProtocolError
from mcp_ref.kit.http.http_exchange import TOKEN, HttpRefusal, HttpRequest
from mcp_ref.kit.threads.bounded_dict import once
from mcp_ref.kit.threads.warn_once import Complaints
from mcp_ref.wire.messages import JsonObject

if TYPE_CHECKING:
    from mcp_ref.connection.connection import Connection
    from mcp_ref.pages.basic.extensions import Extension

log = logging.getLogger(__name__)
complain = Complaints(log)

# -- guards: what a request must be before it is looked at as a message -------------------------------------------


LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})
"""The hosts under which a server on this machine is reached."""

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\s:/?#@,\[\]]+)(?::[0-9]*)?")


def check_host_and_origin(request: HttpRequest, hosts: Collection[str] | None, origins: Collection[str] | None) -> None:
    """Refuse with 403 unless the request was sent to a host of ours, and not by a page of another origin.

    A page on the web can make a name of its own point at this machine (DNS rebinding): its requests have that `Host`.

    Args:
        hosts: host names without a port, in lower case; None allows all.
        origins: origins such as "https://example.com", or host names, which stand for any scheme and port; None: all.
    """
    # SHOULD: refuse a `Host` that is not ours, against DNS rebinding (basic/transports#security-warning)
    if hosts is not None and _host_name(request.headers.get("host", "")) not in hosts:
        raise _not_allowed("Host", request.headers.get("host", ""), "hosts")
    # MUST: check the `Origin` header of every connection, and answer 403 if it is invalid
    # (basic/transports#security-warning; basic/transports/streamable-http#security-endpoint)
    origin = request.headers.get("origin")
    if origin is not None and not allows_origin(origin, origins):
        raise _not_allowed("Origin", _netloc(origin), "origins")


def allows_origin(origin: str, origins: Collection[str] | None) -> bool:
    """Return whether an origin is one of those, or its host is; see `check_host_and_origin`."""
    return origins is None or origin.lower() in origins or _host_name(_netloc(origin)) in origins


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _not_allowed(field: str, value: str, option: str) -> HttpRefusal:
    """Return the refusal, which is also logged: whoever runs the server may have left one of its own names out.

    It repeats nothing of the request but what has the form of a host.
    """
    named = f" ({_host_name(value)})" if _host_name(value) else ""
    text = f"{field} not allowed{named}; the server's option {option}=[...] says which are let in"
    complain("%s", text)
    return HttpRefusal(403, text)


def _host_name(host: str) -> str:
    """Return the name or address in `host` or `host:port`; "" if it is neither, such as one with a user before an @."""
    matched = _HOST.fullmatch(host.strip().lower())
    return "" if matched is None else matched[1]


def check_content_type(request: HttpRequest) -> None:
    """Refuse with 415 unless the body says that it is JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpRefusal(415, "Content-Type must be application/json")


_NO_WEIGHT = re.compile(r"(?:^|;)[ \t]*q=0(?:\.0*)?[ \t]*(?:;|$)", re.IGNORECASE)


def check_accept(request: HttpRequest, *needed: str) -> None:
    """Refuse with 406 unless the client accepts every media type that the page wants it to list."""
    accepts: dict[str, bool] = {}
    for part in request.headers.get("accept", "").split(","):
        kind, _, more = part.partition(";")
        accepts[kind.strip().lower()] = not (more and _NO_WEIGHT.search(more))
    for kind in needed:
        # MUST: a client lists `application/json` and `text/event-stream` in `Accept`
        # (basic/transports#sending-messages-to-the-server)
        # What has no weight is not accepted, and the narrowest range decides (RFC 9110 12.4.2, 12.5.1).
        if not accepts.get(kind, accepts.get(f"{kind.partition('/')[0]}/*", accepts.get("*/*", False))):
            raise HttpRefusal(406, f"Not acceptable: Accept must list {' and '.join(needed)}")


# -- statuses ----------------------------------------------------------------------------------------------------


def http_status(error_code: int, *, in_envelope: bool = False) -> int:
    """Return the HTTP status of a reply that is a JSON-RPC error.

    Args:
        in_envelope: it speaks of a key of `_meta` that every request must have.

    Spec: basic/transports/streamable-http#protocol-version-header, #server-validation; basic/index#_meta
    """
    # MUST: 400 for HeaderMismatch, MissingRequiredClientCapability and UnsupportedProtocolVersion, and for a key of
    # `_meta` that is missing (basic/index#_meta)
    # MUST: 404 for a method that does not exist (basic/transports/streamable-http#server-validation;
    # basic/transports/streamable-http#protocol-version-header)
    if error_code in STATELESS_ERRORS or in_envelope:
        return 400
    return 404 if error_code == -32601 else 200


# -- values -------------------------------------------------------------------------------------------------------


ANNOTATION: Final = "x-mcp-header"
PREFIX: Final = "Mcp-Param-"

NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Which member of `params` is mirrored into `Mcp-Name`."""

MAX_SAFE: Final = 2**53 - 1
"""The largest integer that every reader of JSON reads exactly."""

MAX_DEPTH: Final = 64
"""Objects within objects, below which no argument is mirrored."""

_TOKEN = re.compile(TOKEN)
_PLAIN = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
_FIELD_VALUE = re.compile(r"[\t -~]*")
_NUMBER = re.compile(r"-?[0-9]{1,400}(?:\.[0-9]{1,400})?(?:[eE][+-]?[0-9]{1,4})?")
_OPEN, _CLOSE = "=?base64?", "?="

Path = tuple[str, ...]


def encode_value(value: str | int | float) -> str:
    """Return the header value of a string, an integer or a boolean: as it is, or in base64 if that would not be safe.

    Raises: ValueError: an integer beyond 2**53 - 1, or a string that is not Unicode text (half a surrogate pair).
    Spec: basic/transports/streamable-http#value-encoding
    """
    text = value if isinstance(value, str) else _text_of(value)
    looks_encoded = text.startswith(_OPEN) and text.endswith(_CLOSE)
    # MUST: base64 for what is not plain ASCII, and for what looks like `=?base64?...?=`
    # (basic/transports/streamable-http#value-encoding)
    if _PLAIN.fullmatch(text) and not looks_encoded:
        return text
    return f"{_OPEN}{base64.b64encode(text.encode('utf-8')).decode('ascii')}{_CLOSE}"


def _text_of(value: int | float) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and not value.is_integer():
        # Not an integer, so the arguments will be refused; let that be the reason, not the header.
        return json.dumps(value)
    # MUST: an integer in a header lies between -(2**53 - 1) and 2**53 - 1, which a double holds exactly
    # (basic/transports/streamable-http#schema-extension; server/tools#x-mcp-header)
    if abs(value) > MAX_SAFE:
        raise ValueError("an integer in a header must lie within -(2**53 - 1) and 2**53 - 1")
    return str(int(value))


def decode_value(text: str) -> str:
    """Return what a header value stands for.

    Raises: ValueError: it is marked as base64, and is not exactly what encoding some UTF-8 text gives.
    Spec: basic/transports/streamable-http#value-encoding
    """
    if len(text) < len(_OPEN + _CLOSE) or not (text.startswith(_OPEN) and text.endswith(_CLOSE)):
        return text
    encoded = text[len(_OPEN) : -len(_CLOSE)]
    data = base64.b64decode(encoded, validate=True)
    # `validate` lets bits pass that mean nothing: two texts for one value.
    if base64.b64encode(data).decode("ascii") != encoded:
        raise ValueError("base64 with bits left over")
    return data.decode("utf-8")


# -- x-mcp-header -------------------------------------------------------------------------------------------------


def parameters(input_schema: JsonObject) -> dict[str, Path]:
    """Return the arguments of a tool that are mirrored: the name part of the header, and the path of the property.

    >>> parameters({"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}})
    {'Region': ('region',)}

    A property may also allow null beside its one type: the page has a rule for null, which gets no header.

    Raises: ValueError: an annotation breaks the rules of the page; says which, and where.
    Spec: basic/transports/streamable-http#schema-extension, server/tools#x-mcp-header
    """
    found: dict[str, Path] = {}
    taken: set[str] = set()
    for path, schema in _schemas(input_schema):
        if ANNOTATION not in schema:
            continue
        # MUST: `x-mcp-header` stands only at properties that a chain of `properties` reaches from the root
        # (basic/transports/streamable-http#schema-extension)
        if not path:
            raise ValueError(f"{ANNOTATION} stands where no chain of `properties` leads")
        where, name, kinds = ".".join(path), schema[ANNOTATION], schema.get("type")
        # MUST: `x-mcp-header` is a token of HTTP, so neither empty nor with control characters
        # (basic/transports/streamable-http#schema-extension)
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise ValueError(f"{ANNOTATION} of {where} must be the name of a header, not {ascii(name)[:80]}")
        one = [kind for kind in kinds if kind != "null"] if isinstance(kinds, list) else [kinds]
        # MUST: `x-mcp-header` stands on a string, an integer or a boolean, and not on a `number`
        # (basic/transports/streamable-http#schema-extension)
        if len(one) != 1 or one[0] not in ("string", "integer", "boolean"):
            raise ValueError(f"{ANNOTATION} of {where} must be on a string, an integer or a boolean")
        # MUST: `x-mcp-header` is unique without regard to case (basic/transports/streamable-http#schema-extension)
        if name.lower() in taken:
            raise ValueError(f"{ANNOTATION} {name!r} is given twice")
        taken.add(name.lower())
        found[name] = path
    return found


_DATA = ("const", "default", "enum", "example", "examples")


def _schemas(root: Any) -> Iterator[tuple[Path | None, JsonObject]]:
    """Yield every schema within a schema, with the chain of `properties` that leads there; None if none does.

    What is data, such as a `default`, is not looked into; all else may hold a schema. A list instead of calls: a
    stranger chose the depth.
    """
    found: list[tuple[Path | None, Any]] = [((), root)]
    for path, schema in found:
        if isinstance(schema, list):
            found += [(None, each) for each in schema]
        if not isinstance(schema, dict):
            continue
        yield path, schema
        reached = path is not None and len(path) < MAX_DEPTH
        for keyword, value in schema.items():
            if keyword == "properties" and isinstance(value, dict):
                found += [((*(path or ()), name) if reached else None, each) for name, each in value.items()]
            elif keyword not in _DATA:
                found.append((None, value))


@once
def mirrored_by(input_schema: JsonObject) -> dict[str, Path]:
    """Return the `parameters` of a schema; none of one that breaks the rules, for no client should call that tool."""
    try:
        return parameters(input_schema)
    except ValueError:
        return {}


def _mirrored(input_schema: JsonObject, arguments: Any) -> Iterator[tuple[str, Any]]:
    """Yield each header that a call of a tool may have, with the argument that it repeats."""
    for part, path in mirrored_by(input_schema).items():
        value = arguments
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        yield PREFIX + part, value


# -- the client writes --------------------------------------------------------------------------------------------


def named(method: str, extensions: Iterable[Extension]) -> str | None:
    """Return which member of `params` an extension has mirrored into `Mcp-Name`."""
    return next((each.mirrored[method] for each in extensions if method in each.mirrored), None)


def mirror(
    message: JsonObject,
    revision_name: str,
    input_schema: JsonObject | None = None,
    extensions: Collection[Extension] = (),
) -> dict[str, str]:
    """Return the headers of the POST of a request or notification.

    Args:
        input_schema: that of the tool which is called, as the server listed it; None if it is not known, or no tool is
            called. Annotations that break the rules of the page are not followed.
        extensions: those of the client.

    Raises: LocalProtocolError: something cannot be written into a header, such as an integer beyond 2**53 - 1.
    Spec: basic/transports/streamable-http#client-behavior
    """
    method, params = message["method"], message.get("params") or {}
    if not method or not _PLAIN.fullmatch(method):
        raise LocalProtocolError(f"the method {method!r} cannot be written into the header Mcp-Method")
    # MUST: `MCP-Protocol-Version` and `Mcp-Method` go with every POST, and `Mcp-Name` with what has a name
    # (basic/transports/streamable-http#protocol-version-header, #standard-request-headers, #client-behavior)
    headers = {"MCP-Protocol-Version": revision_name, "Mcp-Method": method}
    member = NAMED.get(method) or (named(method, extensions) if extensions else None)
    name = None if member is None else params.get(member)
    values: list[tuple[str, Any]] = [("Mcp-Name", name)] if isinstance(name, str) else []
    if method == "tools/call" and input_schema is not None:
        # MUST: each argument that the schema marks goes into its header, unless it is missing or null
        # (basic/transports/streamable-http#server-behavior-for-custom-headers, #client-behavior)
        arguments = _mirrored(input_schema, params.get("arguments"))
        values += [(header, value) for header, value in arguments if isinstance(value, str | int | float)]
    for header, value in values:
        try:
            # MUST: a value is encoded as a header can hold it (basic/transports/streamable-http#client-behavior)
            headers[header] = encode_value(value)
        except ValueError as problem:
            raise LocalProtocolError(f"{header}: {problem}") from None
    return headers


class RequestHeaders:
    """The headers of a client's requests to one server; it remembers what the listed tools mark for them.

    Threads: any.
    """

    def __init__(self, connection: Connection, extensions: Iterable[Extension]) -> None:
        self._connection, self._extensions = connection, tuple(extensions)
        self._schemas: dict[str, JsonObject] = {}  # by the name of the tool; replaced, never changed in place

    def mirror(self, message: JsonObject) -> Mapping[str, str]:
        """Return the headers that repeat what a message says."""
        name = (message.get("params") or {}).get("name") if message["method"] == "tools/call" else None
        # MUST: a client that supports `x-mcp-header` repeats the arguments so marked in headers
        # (basic/transports/streamable-http#custom-headers-from-tool-parameters)
        schema = self._schemas.get(name) if isinstance(name, str) else None
        return mirror(message, self._connection.terms.revision.name, schema, self._extensions)

    def usable(self, result: JsonObject) -> JsonObject:
        """Return the result of `tools/list`, with the tools whose calls can be sent."""
        tools = []
        for tool in result["tools"]:
            try:
                parameters(tool["inputSchema"])
                tools.append(tool)
            except ValueError as problem:
                # MUST: leave a tool whose x-mcp-header is invalid out of the result of tools/list; SHOULD: log the tool
                # and the reason (basic/transports/streamable-http#schema-extension)
                log.warning("left out the tool %r, whose x-mcp-header breaks the rules: %s", tool["name"], problem)
        self._schemas = {**self._schemas, **{tool["name"]: tool["inputSchema"] for tool in tools}}
        return {**result, "tools": tools}


# -- the server compares ------------------------------------------------------------------------------------------


class MirroredHeaders:
    """The headers that repeat parts of a request. The server checks them in the order that the page asks.

    Args:
        headers: names in lower case.
        repeated: those that came more than once.
        extensions: those of the server.

    Spec: basic/transports/streamable-http#server-validation
    """

    __slots__ = ("_extensions", "_headers", "_repeated")

    def __init__(
        self, headers: Mapping[str, str], repeated: Collection[str] = (), extensions: Collection[Extension] = ()
    ) -> None:
        self._headers, self._repeated, self._extensions = headers, repeated, extensions

    def check(self, method: str, params: JsonObject, version: str) -> None:
        """Check the headers that every request has. Raises HeaderMismatch."""
        # MUST: reject a request whose header differs from its body, or is missing, with `400` and -32020
        # (basic/transports/streamable-http#server-validation)
        self._compare("MCP-Protocol-Version", version)
        self._compare("Mcp-Method", method)
        if method in NAMED:
            name = params.get(NAMED[method])
            self._compare("Mcp-Name", name if isinstance(name, str) else None, encoded=True)
        elif self._extensions and "mcp-name" in self._headers and (member := named(method, self._extensions)):
            # Clients exist that leave out the header of an extension; the body says it all.
            name = params.get(member)
            self._compare("Mcp-Name", name if isinstance(name, str) else None, encoded=True)

    def check_arguments(self, input_schema: JsonObject, arguments: JsonObject) -> None:
        """Check those that a tool's `inputSchema` asks for. Raises HeaderMismatch."""
        for header, value in _mirrored(input_schema, arguments):
            self._compare(header, _text_of(value) if isinstance(value, bool) else value, encoded=True)

    def _compare(self, header: str, value: Any, *, encoded: bool = False) -> None:
        """Check one header: a text must be in it, a number too; anything else cannot be, and must have none."""
        # MUST: the names of headers are compared without regard to case
        # (basic/transports/streamable-http#case-sensitivity)
        name = header.lower()
        found = self._headers.get(name)
        is_text = isinstance(value, str)
        is_number = not is_text and isinstance(value, int | float)
        if found is None:
            if is_text or is_number:
                raise HeaderMismatch(f"Header mismatch: {header} is missing")
            return
        # Two readers would take one of them each.
        if name in self._repeated:
            raise HeaderMismatch(f"Header mismatch: {header} is given twice")
        # MUST: reject a header with invalid characters
        # (basic/transports/streamable-http#server-behavior-for-custom-headers)
        if not _FIELD_VALUE.fullmatch(found):
            raise HeaderMismatch(f"Header mismatch: {header} has characters that a header must not have")
        text = found.strip(" \t")
        if encoded:
            try:
                # MUST: decode base64 before comparing (basic/transports/streamable-http#value-encoding)
                text = decode_value(text)
            except ValueError:
                raise HeaderMismatch(f"Header mismatch: {header} is not the base64 of UTF-8 text") from None
        same = text == value
        if is_number:
            # SHOULD: compare integers as numbers: 42.0 is 42 (basic/transports/streamable-http#server-validation)
            same = abs(value) <= MAX_SAFE and _NUMBER.fullmatch(text) is not None
            same = same and value == (float(text) if isinstance(value, float) else Decimal(text))
        if not same:
            raise HeaderMismatch(f"Header mismatch: {header} does not match the body")
