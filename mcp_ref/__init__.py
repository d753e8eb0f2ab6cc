"""mcp_ref: the Model Context Protocol, readable and blocking: both roles, no event loop.

Spec:      the whole; each module names its page
Upholds:   spec_notes/index.md
Not here:  everything else: this file only gathers the public names

A program imports what it needs from here: `from mcp_ref import Client`. Each name loads its module when it is first
asked for, so that a server loads no client, and nobody loads what they do not use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcp_ref._version import __version__ as __version__

if TYPE_CHECKING:
    from mcp_ref.basic.authorization.authorization_server import AuthorizationServer as AuthorizationServer
    from mcp_ref.basic.authorization.resource_server import Principal as Principal
    from mcp_ref.basic.authorization.resource_server import Protection as Protection
    from mcp_ref.basic.authorization.verifiers import Introspection as Introspection
    from mcp_ref.basic.authorization.verifiers import JwtVerifier as JwtVerifier
    from mcp_ref.basic.mrtr import (
        StateKeys as StateKeys,
    )
    from mcp_ref.basic.mrtr import (
        elicitation_form as elicitation_form,
    )
    from mcp_ref.basic.mrtr import (
        elicitation_url as elicitation_url,
    )
    from mcp_ref.basic.mrtr import (
        input_required as input_required,
    )
    from mcp_ref.basic.mrtr import (
        roots_listing as roots_listing,
    )
    from mcp_ref.basic.mrtr import (
        sampling as sampling,
    )
    from mcp_ref.basic.subscriptions import Event as Event
    from mcp_ref.basic.subscriptions import Listening as Listening
    from mcp_ref.client.client import Client as Client
    from mcp_ref.client.config import Command as Command
    from mcp_ref.client.config import Url as Url
    from mcp_ref.client.connecting import EraMemory as EraMemory
    from mcp_ref.client.elicitation import (
        accept as accept,
    )
    from mcp_ref.client.elicitation import (
        cancel as cancel,
    )
    from mcp_ref.client.elicitation import (
        decline as decline,
    )
    from mcp_ref.client.elicitation import (
        required_urls as required_urls,
    )
    from mcp_ref.client.elicitation import (
        url_elicitation as url_elicitation,
    )
    from mcp_ref.client.roots import is_within as is_within
    from mcp_ref.client.roots import root_path as root_path
    from mcp_ref.client.sampling import UserRejected as UserRejected
    from mcp_ref.client.sampling import choose_model as choose_model
    from mcp_ref.client.sampling import reply as reply
    from mcp_ref.errors import (
        AnswerLost as AnswerLost,
    )
    from mcp_ref.errors import (
        AuthorizationError as AuthorizationError,
    )
    from mcp_ref.errors import (
        ErrorResponse as ErrorResponse,
    )
    from mcp_ref.errors import (
        HttpStatusError as HttpStatusError,
    )
    from mcp_ref.errors import (
        InputRefused as InputRefused,
    )
    from mcp_ref.errors import (
        InternalError as InternalError,
    )
    from mcp_ref.errors import (
        InvalidParams as InvalidParams,
    )
    from mcp_ref.errors import (
        InvalidRequest as InvalidRequest,
    )
    from mcp_ref.errors import (
        LocalProtocolError as LocalProtocolError,
    )
    from mcp_ref.errors import (
        McpError as McpError,
    )
    from mcp_ref.errors import (
        MethodNotFound as MethodNotFound,
    )
    from mcp_ref.errors import (
        MissingClientCapability as MissingClientCapability,
    )
    from mcp_ref.errors import (
        Refusal as Refusal,
    )
    from mcp_ref.errors import (
        RemoteProtocolError as RemoteProtocolError,
    )
    from mcp_ref.errors import (
        RequestCancelled as RequestCancelled,
    )
    from mcp_ref.errors import (
        RequestTimeout as RequestTimeout,
    )
    from mcp_ref.errors import (
        SessionExpired as SessionExpired,
    )
    from mcp_ref.errors import (
        ToolError as ToolError,
    )
    from mcp_ref.errors import (
        TransportClosed as TransportClosed,
    )
    from mcp_ref.errors import (
        UrlElicitationRequired as UrlElicitationRequired,
    )
    from mcp_ref.machinery.deadline import Cancel as Cancel
    from mcp_ref.machinery.http_server import (
        HttpLimits as HttpLimits,
    )
    from mcp_ref.machinery.http_server import (
        HttpRefusal as HttpRefusal,
    )
    from mcp_ref.machinery.http_server import (
        HttpRequest as HttpRequest,
    )
    from mcp_ref.machinery.rates import Rate as Rate
    from mcp_ref.machinery.shapes import JsonObject as JsonObject
    from mcp_ref.revisions import (
        REVISIONS as REVISIONS,
    )
    from mcp_ref.revisions import (
        SESSION_REVISIONS as SESSION_REVISIONS,
    )
    from mcp_ref.revisions import (
        STATELESS_REVISIONS as STATELESS_REVISIONS,
    )
    from mcp_ref.revisions import (
        Revision as Revision,
    )
    from mcp_ref.revisions import (
        find_revision as find_revision,
    )
    from mcp_ref.server.context import Context as Context
    from mcp_ref.server.hosting import HttpService as HttpService
    from mcp_ref.server.prompts import PromptMessage as PromptMessage
    from mcp_ref.server.prompts import assistant as assistant
    from mcp_ref.server.prompts import user as user
    from mcp_ref.server.resources import ResourceNotFound as ResourceNotFound
    from mcp_ref.server.resources import contents_bytes as contents_bytes
    from mcp_ref.server.server import Server as Server
    from mcp_ref.server.utilities.caching import CacheHint as CacheHint
    from mcp_ref.server.utilities.caching import ResultCache as ResultCache
    from mcp_ref.server.utilities.completion import prompt_ref as prompt_ref
    from mcp_ref.server.utilities.completion import resource_ref as resource_ref
    from mcp_ref.trace.narrate import Narrator as Narrator
    from mcp_ref.trace.narrate import narrate as narrate
    from mcp_ref.trace.record import (
        Recorder as Recorder,
    )
    from mcp_ref.trace.record import (
        TraceEvent as TraceEvent,
    )
    from mcp_ref.trace.record import (
        read_trace as read_trace,
    )
    from mcp_ref.trace.record import (
        recorder as recorder,
    )
    from mcp_ref.types import audio as audio
    from mcp_ref.types import data_of as data_of
    from mcp_ref.types import image as image
    from mcp_ref.types import text as text
    from mcp_ref.types import text_of as text_of

_PLACES: Final = {
    "basic.authorization.authorization_server": "AuthorizationServer",
    "basic.authorization.resource_server": "Principal Protection",
    "basic.authorization.verifiers": "Introspection JwtVerifier",
    "basic.mrtr": "StateKeys elicitation_form elicitation_url input_required roots_listing sampling",
    "basic.subscriptions": "Event Listening",
    "client.client": "Client",
    "client.config": "Command Url",
    "client.connecting": "EraMemory",
    "client.elicitation": "accept cancel decline required_urls url_elicitation",
    "client.roots": "is_within root_path",
    "client.sampling": "UserRejected choose_model reply",
    "errors": (
        "AnswerLost AuthorizationError ErrorResponse HttpStatusError InputRefused InternalError InvalidParams "
        "InvalidRequest LocalProtocolError McpError MethodNotFound MissingClientCapability Refusal "
        "RemoteProtocolError RequestCancelled RequestTimeout SessionExpired ToolError TransportClosed "
        "UrlElicitationRequired"
    ),
    "machinery.deadline": "Cancel",
    "machinery.http_server": "HttpLimits HttpRefusal HttpRequest",
    "machinery.rates": "Rate",
    "machinery.shapes": "JsonObject",
    "revisions": "REVISIONS Revision SESSION_REVISIONS STATELESS_REVISIONS find_revision",
    "server.context": "Context",
    "server.hosting": "HttpService",
    "server.prompts": "PromptMessage assistant user",
    "server.resources": "ResourceNotFound contents_bytes",
    "server.server": "Server",
    "server.utilities.caching": "CacheHint ResultCache",
    "server.utilities.completion": "prompt_ref resource_ref",
    "trace.narrate": "Narrator narrate",
    "trace.record": "Recorder TraceEvent read_trace recorder",
    "types": "audio data_of image text text_of",
}
"""The public names of each module."""

_MODULES: Final = {name: module for module, names in _PLACES.items() for name in names.split()}

__all__ = ["__version__", *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Load the module of a public name, once."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
