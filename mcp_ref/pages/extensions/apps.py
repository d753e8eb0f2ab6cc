"""Apps as the extension `io.modelcontextprotocol/ui`: user interfaces that a server hands out, and a host shows.

A tool names a resource of the scheme `ui`, which is an HTML document. A host that declares the extension shows what a
call of the tool gave in that document, in a frame that reaches only what the resource declares; any other host has the
text of the result:

    client   tools/list           ->  {name, inputSchema, _meta: {ui: {resourceUri, visibility}}}, ...          server
    client   resources/read uri   ->  {uri, mimeType, text, _meta: {ui: {csp, permissions, prefersBorder}}}     server

Spec:      the extension's own page, specification/2026-01-26/apps
Upholds:   spec_notes/extensions/apps.md
Not here:  the conversation of a host with a document that it shows (host/apps)
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NotRequired, TypedDict, cast
from weakref import WeakSet

from mcp_ref.errors import RemoteProtocolError
from mcp_ref.kit.typed.checking import SchemaMismatch, checker
from mcp_ref.kit.typed.handlers import call
from mcp_ref.pages.basic.extensions import Extension
from mcp_ref.pages.server.resources import ResourceEntry, contents_bytes
from mcp_ref.revisions import LATEST_STATELESS
from mcp_ref.wire.messages import JsonObject

if TYPE_CHECKING:
    from mcp_ref.server.server import Server
    from mcp_ref.server.session import Context

NAME: Final = "io.modelcontextprotocol/ui"
VERSION: Final = "2026-01-26"
"""Of the page, as a host and a view say it to each other."""
MIME_TYPE: Final = "text/html;profile=mcp-app"
MAX_HTML: Final = 8 << 20
"""Bytes that a document may have."""

# -- types --------------------------------------------------------------------------------------------------------


class Csp(TypedDict):
    """The origins that a document needs, such as "https://cdn.example.com" or "https://*.example.com"."""

    connectDomains: NotRequired[list[str]]
    resourceDomains: NotRequired[list[str]]
    frameDomains: NotRequired[list[str]]
    baseUriDomains: NotRequired[list[str]]


class Permissions(TypedDict):
    """The permissions that a document asks of the browser; each is an empty object."""

    camera: NotRequired[JsonObject]
    microphone: NotRequired[JsonObject]
    geolocation: NotRequired[JsonObject]
    clipboardWrite: NotRequired[JsonObject]


class AppResourceMeta(TypedDict):
    """`_meta.ui` of the contents of a resource."""

    csp: NotRequired[Csp]
    permissions: NotRequired[Permissions]
    domain: NotRequired[str]
    prefersBorder: NotRequired[bool]


class AppToolMeta(TypedDict):
    """`_meta.ui` of a tool."""

    resourceUri: NotRequired[str]
    visibility: NotRequired[list[Literal["model", "app"]]]


APPS: Final = Extension(NAME, {"mimeTypes": [MIME_TYPE]}, in_initialize=True)
"""The extension, as a client declares it whose host shows documents; a server has `Apps`."""

# -- the server's half --------------------------------------------------------------------------------------------

_ORIGIN: Final = re.compile(r"(?:https?|wss?)://(?:\*\.)?[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*(?::\d{1,5})?/?")
_DOCUMENT: Final = re.compile(r"\ufeff?\s*(?:<!--.*?-->\s*)*<!doctype\s+html\b", re.IGNORECASE | re.DOTALL)
_PERMISSIONS: Final = tuple(Permissions.__annotations__)


class Apps:
    """The user interfaces of a server: `Server(..., extensions=[apps := Apps()])`.

    >>> apps.html("ui://weather/now", Path("now.html"))
    >>> @server.tool(ui="ui://weather/now")
    ... def weather(city: str) -> str: ...

    Threads: any.
    """

    name, settings = NAME, JsonObject()

    def __init__(self) -> None:
        self._servers: WeakSet[Server] = WeakSet()
        self._entries: dict[str, ResourceEntry] = {}

    def html(
        self,
        uri: str,
        source: str | os.PathLike[str] | Callable[..., str],
        *,
        name: str | None = None,
        description: str | None = None,
        csp: Csp | None = None,
        permissions: Sequence[str] = (),
        prefers_border: bool | None = None,
        domain: str | None = None,
        listed: bool = True,
    ) -> None:
        """Offer a document, or put it in place of the one with that URI.

        Args:
            source: the HTML; or a path, which is read each time the document is; or a function that makes it, called
                with the context if it has a parameter.
            name: in the list of resources; the URI without its scheme by default.
            csp: the origins that the document reaches; without it, none.
            permissions: what it asks of the browser, such as "camera"; it must get on without.
            prefers_border: whether it wants a border; None: the host decides.
            domain: the origin that it wants; each host documents the form of its own.
            listed: False: it is left out of `resources/list`, and found by the tools that name it.

        Raises: ValueError: the scheme is not `ui`, the text not an HTML5 document, an origin not one; OSError: the file
            cannot be read.
        """
        # MUST: the URI of a document has the scheme `ui` (2026-01-26/extensions/apps#ui-resource-format)
        if not re.fullmatch(r"ui://[^\s{}]+", uri):
            raise ValueError(f"the URI of an app must begin with ui://, not {uri!r}")
        if wrong := {*permissions} - {*_PERMISSIONS}:
            raise ValueError(f"{uri}: a permission is one of {', '.join(_PERMISSIONS)}, not {', '.join(sorted(wrong))}")
        for key, origins in (csp or {}).items():
            if key not in Csp.__annotations__ or not isinstance(origins, list):
                raise ValueError(f"{uri}: csp has lists, named {', '.join(Csp.__annotations__)}, not {key}={origins!r}")
            for each in origins:
                if not is_origin(each):
                    raise ValueError(f"{uri}: an origin is as https://example.com, not {each!r}")
        about = {
            "csp": csp,
            "permissions": {each: JsonObject() for each in permissions},
            "domain": domain,
            "prefersBorder": prefers_border,
        }
        about = {key: value for key, value in about.items() if value not in (None, {})}

        def read(ctx: Context | None) -> JsonObject:
            if callable(source):
                text = call(source, ctx)
            else:
                text = source if isinstance(source, str) else Path(source).read_text("utf-8")
            # MUST: the content is a valid HTML5 document (2026-01-26/extensions/apps#content-requirements)
            if not isinstance(text, str) or not _DOCUMENT.match(text):
                raise ValueError(f"{uri} must be an HTML5 document, which begins with <!doctype html>")
            return {"text": text, **({"_meta": {"ui": about}} if about else {})}

        if not callable(source):
            read(None)
        # MUST: the type of a document is `text/html;profile=mcp-app` (2026-01-26/extensions/apps#content-requirements)
        definition = {"uri": uri, "name": name or uri.removeprefix("ui://"), "mimeType": MIME_TYPE}
        definition |= {"description": description} if description else {}
        # MAY: leave documents out of the list of resources (2026-01-26/extensions/apps#behavior)
        entry = ResourceEntry(
            cast(Any, definition), read, lambda values, ctx: {"ctx": ctx}, template=None, listed=listed
        )
        self._entries[uri] = entry
        for server in self._servers:
            server.register("resources", uri, entry, replace=True)

    def for_server(self, server: Server) -> Extension:
        """Return the extension of one server, whose resources the documents become."""
        self._servers.add(server)
        for uri, entry in self._entries.items():
            server.register("resources", uri, entry, replace=True)
        return Extension(NAME, self.settings, ready=check_tools)


def tool_meta(
    server: Server, tool: str, ui: str | None, visibility: Sequence[str] | None, meta: JsonObject | None
) -> JsonObject:
    """Return the `_meta` of a tool's definition with what it says of its user interface.

    Raises: ValueError: the server has no `Apps`, the scheme is not `ui`, or the visibility is not of "model" and "app".
    """
    if NAME not in server.extensions:
        raise ValueError(f"tool {tool!r} has a user interface: make the server with extensions=[Apps()]")
    if ui is not None and not ui.startswith("ui://"):
        raise ValueError(f"tool {tool!r}: the URI of an app must begin with ui://, not {ui!r}")
    words = {*visibility} if visibility is not None and not isinstance(visibility, str) else set[str]()
    if visibility is not None and (not words or words - {"model", "app"}):
        raise ValueError(f'tool {tool!r}: the visibility is a list of "model" and "app", not {visibility!r}')
    about = {"resourceUri": ui, "visibility": visibility and list(visibility)}
    return {**(meta or {}), "ui": {key: value for key, value in about.items() if value is not None}}


def check_tools(server: Server) -> None:
    """Check, before a server serves, that the document of every tool exists. Raises: ValueError: it names the tool."""
    for name, entry in server.registries["tools"].items():
        uri = ui_of(entry.definition).get("resourceUri")
        # MUST: the resource that a tool names exists on the server (2026-01-26/extensions/apps#behavior)
        if uri is not None and uri not in server.registries["resources"]:
            raise ValueError(f"tool {name!r} names {uri}, which is not there: add it with apps.html({uri!r}, ...)")


def renders_apps(self: Context) -> bool:
    """Return whether this client shows the documents of tools: `ctx.renders_apps`, in both eras.

    Raises: LocalProtocolError: this server has no `Apps`.
    Spec: 2026-01-26/extensions/apps#clientserver-capability-negotiation
    """
    # SHOULD: look at what the client declared (2026-01-26/extensions/apps#clientserver-capability-negotiation)
    types = (self.extension(NAME) or {}).get("mimeTypes")
    return isinstance(types, list) and MIME_TYPE in types


# -- the host's half ----------------------------------------------------------------------------------------------

_check_tool: Final = checker(AppToolMeta, LATEST_STATELESS)
_check_resource: Final = checker(AppResourceMeta, LATEST_STATELESS)


def ui_of(definition: Mapping[str, Any]) -> AppToolMeta:
    """Return what a tool says of its user interface; nothing, if it says nothing that the page allows."""
    about = (definition.get("_meta") or {}).get("ui")
    try:
        _check_tool(about, "ui")
    except SchemaMismatch:
        return {}
    return cast(AppToolMeta, about)


def is_for(definition: Mapping[str, Any], who: Literal["model", "app"]) -> bool:
    """Return whether a tool is for the model, or for documents. One whose visibility is not valid is for the model."""
    about = (definition.get("_meta") or {}).get("ui")
    if isinstance(about, Mapping) and "visibility" in about:
        return who in (ui_of(definition).get("visibility") or ("model",))
    return True


class Document(NamedTuple):
    """A document that was read.

    Attributes:
        html: the text. policy: its Content-Security-Policy.
        origins: those that the policy lets it reach, as they were declared; left_out: declared, and not allowed.
    """

    uri: str
    html: str
    policy: str
    meta: AppResourceMeta
    origins: Csp
    left_out: list[str]


def document(uri: str, contents: Sequence[Any]) -> Document:
    """Return the document that `resources/read` gave. Raises: RemoteProtocolError: it is none."""
    only: Any = contents[0] if len(contents) == 1 else {}
    # MUST: the type of a document is `text/html;profile=mcp-app` (2026-01-26/extensions/apps#content-requirements)
    if only.get("uri") != uri or only.get("mimeType") != MIME_TYPE:
        raise RemoteProtocolError(f"reading {uri} did not give one document of the type {MIME_TYPE}")
    try:
        data = contents_bytes(only)
        html = data.decode()
        meta = (only.get("_meta") or {}).get("ui", {})
        _check_resource(meta, "_meta.ui")
    except ValueError as problem:
        raise RemoteProtocolError(f"{uri} cannot be shown: {problem}") from None
    if len(data) > MAX_HTML:
        raise RemoteProtocolError(f"{uri} has {len(data)} bytes; a document may have {MAX_HTML}")
    declared = meta.get("csp", {})
    origins = {key: [each for each in declared.get(key, ()) if is_origin(each)] for key in Csp.__annotations__}
    left_out = [each for key in Csp.__annotations__ for each in declared.get(key, ()) if not is_origin(each)]
    return Document(uri, html, policy(cast(Csp, origins)), meta, cast(Csp, origins), left_out)


def policy(csp: Csp) -> str:
    """Return the Content-Security-Policy of a document that reaches these origins, and nothing else."""
    # MUST: make the policy from the origins declared; without any, the restrictive one of the page; a host MUST NOT
    # allow others (2026-01-26/extensions/apps#host-behavior, #security-implications-mitigations)
    resources, own = csp.get("resourceDomains", []), ["'self'"]
    sources = {
        "default-src": ["'none'"],
        "script-src": [*own, "'unsafe-inline'", *resources],
        "style-src": [*own, "'unsafe-inline'", *resources],
        "img-src": [*own, "data:", *resources],
        "font-src": [*own, *resources],
        "media-src": [*own, "data:", *resources],
        "connect-src": csp.get("connectDomains") or ["'none'"],
        "frame-src": csp.get("frameDomains") or ["'none'"],
        "base-uri": csp.get("baseUriDomains") or own,
        # MAY: restrict further (2026-01-26/extensions/apps#host-behavior)
        "object-src": ["'none'"],
        "form-action": ["'none'"],
    }
    return "; ".join(f"{name} {' '.join(each)}" for name, each in sources.items())


def is_origin(text: Any) -> bool:
    """Return whether a text is an origin, and cannot be more than one source of a policy."""
    return isinstance(text, str) and _ORIGIN.fullmatch(text) is not None
