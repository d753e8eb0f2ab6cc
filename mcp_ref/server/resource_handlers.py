"""Registering resources: the decorator, its checks, and what becomes of a handler's return value. Nothing on the wire.

Spec:      server/resources#data-types, server/resources#security-considerations
Upholds:   spec_notes/server/resources.md, the rows on URIs and on encoding
Reads:     server/uri_template, server/string_arguments, server/resource_types
Not here:  the requests that lead to a handler (server/resources)
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from mcp_ref.basic.formats import is_uri
from mcp_ref.basic.methods import JsonObject, Registering
from mcp_ref.basic.types import Annotations, Icon
from mcp_ref.errors import Refusal
from mcp_ref.revisions import Revision
from mcp_ref.server.resource_types import Contents, ReadResourceResult, Resource, ResourceTemplate

if TYPE_CHECKING:
    from mcp_ref.server.string_arguments import StringHandler
    from mcp_ref.server.uri_template import UriMatcher

__all__ = ["ResourceEntry", "ResourceNotFound", "TemplateEntry", "read_result", "remove_resource", "resource"]

F = TypeVar("F", bound=Callable[..., Any])


class ResourceEntry(NamedTuple):
    """A resource with a URI of its own, and the handler that reads it."""

    definition: Resource
    handler: StringHandler

    @property
    def argument_names(self) -> tuple[str, ...]:
        return ()


class TemplateEntry(NamedTuple):
    """A template, what finds the values in a URI, and the handler that reads what the URI names."""

    definition: ResourceTemplate
    handler: StringHandler
    matcher: UriMatcher

    @property
    def argument_names(self) -> tuple[str, ...]:
        return self.matcher.template.variables


def resource(
    self: Registering,
    uri: str,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    mime_type: str | None = None,
    annotations: Annotations | None = None,
    size: int | None = None,
    icons: list[Icon] | None = None,
    meta: JsonObject | None = None,
) -> Callable[[F], F]:
    """Decorator: a function that reads a resource, or with `{variables}` in the URI all resources of a template.

    The function has one parameter for each variable (see `string_arguments` for their types), and perhaps one
    annotated with the context type. It returns

        str                      one text
        bytes                    one blob, which is encoded as base64 here
        dict                     one entry with `text` or `blob`; `uri` and `mimeType` are filled in where missing
        a list of these          several entries; an empty list means that there is nothing in it
        {"contents": [...]}      the whole result

    and raises `ResourceNotFound(uri)` where a URI fits the template and names nothing.

    Args:
        uri: a URI with a scheme, or a template; `server/uri_template` says which templates can be matched, and what
            their values can never be (`..`, for one).
        name: the programmatic name; the function's own by default.
        description: the first paragraph of the docstring by default.
        size: in bytes; for a fixed URI only.

    Raises:
        ValueError: it is no URI with a scheme, no template that can be matched, or registered already.
        TypeError: the parameters of the function are not the variables of the template.

    Threads: any.
    Spec: server/resources#data-types
    """

    def decorate(function: F) -> F:
        from mcp_ref.server.string_arguments import inspect_strings, summary

        common: JsonObject = {
            "name": name or function.__name__,
            "title": title,
            "description": description or summary(function),
            "mimeType": mime_type,
            "annotations": annotations,
            "size": size,
            "icons": icons,
            "_meta": meta,
        }
        given = {key: value for key, value in common.items() if value is not None}
        handler = inspect_strings(function, self.context_type)
        if "{" in uri or "}" in uri:
            self.register("templates", uri, _template_entry(uri, given, handler))
        else:
            self.register("resources", uri, _resource_entry(uri, given, handler))
        return function

    return decorate


def remove_resource(self: Registering, uri: str) -> None:
    """Take a resource or a template out again, by the text that it was registered with; `KeyError` if it is not there.

    Threads: any.
    """
    self.unregister("templates" if "{" in uri else "resources", uri)


def _resource_entry(uri: str, given: JsonObject, handler: StringHandler) -> ResourceEntry:
    # MUST: custom schemes in accordance with RFC 3986 (server/resources#custom-uri-schemes)
    if not is_uri(uri):
        raise ValueError(f"{uri!r} is not a URI with a scheme (RFC 3986)")
    _check_parameters(uri, (), frozenset(), handler)
    return ResourceEntry(cast(Resource, {"uri": uri, **given}), handler)


def _template_entry(uri: str, given: JsonObject, handler: StringHandler) -> TemplateEntry:
    from mcp_ref.server.uri_template import UriMatcher

    if not re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", uri):
        raise ValueError(f"URI template {uri!r} does not begin with a scheme (RFC 3986)")
    if "size" in given:
        raise TypeError(f"URI template {uri!r}: a template has no size")
    matcher = UriMatcher(uri)
    _check_parameters(uri, matcher.template.variables, matcher.optional, handler)
    return TemplateEntry(cast(ResourceTemplate, {"uriTemplate": uri, **given}), handler, matcher)


def _check_parameters(uri: str, variables: tuple[str, ...], optional: frozenset[str], handler: StringHandler) -> None:
    names = {parameter.name for parameter in handler.parameters}
    if handler.open_ended or names != set(variables):
        have = ", ".join(sorted(names)) or "none"
        raise TypeError(
            f"{uri!r} has the variables ({', '.join(variables) or 'none'}), its handler the parameters ({have})"
        )
    for parameter in handler.parameters:
        if parameter.name in optional and parameter.required:
            raise TypeError(f"{uri!r}: a URI may leave {parameter.name!r} out, so the parameter needs a default")


# -- what a handler returns or raises ---------------------------------------------------------------------------


class ResourceNotFound(Refusal):
    """Raised by a handler: there is no such resource. -32002, or -32602 from 2026-07-28 on; `data` names the URI.

    Args:
        uri: what was asked for.
        revision: whose code to use; a handler leaves it out, and gets the one of the request.

    Spec: server/resources#error-handling
    """

    code = -32002

    def __init__(self, uri: str, revision: Revision | None = None) -> None:
        code = None if revision is None else revision.resource_not_found
        super().__init__("Resource not found", {"uri": uri}, code=code)
        self.uri = uri


def read_result(uri: str, mime_type: str | None, returned: Any) -> ReadResourceResult:
    """The result of `resources/read` from what a handler returned; see `resource` for the forms.

    Raises: TypeError, or ValueError for a blob that is not base64: the handler is wrong, and its request fails.
    """
    if isinstance(returned, Mapping) and "contents" in returned:
        parts = _several(uri, mime_type, returned["contents"])
        return cast(ReadResourceResult, {**returned, "contents": parts})
    if isinstance(returned, list | tuple):
        return {"contents": _several(uri, mime_type, returned)}
    return {"contents": [_contents(uri, mime_type, returned)]}


def _several(uri: str, mime_type: str | None, values: Iterable[Any]) -> list[Contents]:
    return [_contents(uri, mime_type, value) for value in values]


def _contents(uri: str, mime_type: str | None, value: Any) -> Contents:
    """One entry of the result, from a text, bytes, or a dict with either."""
    if isinstance(value, str):
        value = {"text": value}
    elif isinstance(value, bytes | bytearray | memoryview):
        value = {"blob": value}
    elif not isinstance(value, Mapping):
        raise TypeError(
            f"reading {uri} gave {type(value).__name__}; a resource is str, bytes, a dict or a list of these"
        )
    if ("text" in value) == ("blob" in value):
        raise TypeError(f"reading {uri} gave contents that have not exactly one of `text` and `blob`")
    filled: JsonObject = {"uri": uri} | ({"mimeType": mime_type} if mime_type is not None else {}) | dict(value)
    if "blob" in filled:
        filled["blob"] = _base64(filled["blob"])
    return cast(Contents, filled)


def _base64(blob: Any) -> str:
    # MUST: binary data is properly encoded (server/resources#security-considerations)
    if isinstance(blob, str):
        base64.b64decode(blob, validate=True)
        return blob
    return base64.b64encode(blob).decode("ascii")
