"""mcp_ref: the Model Context Protocol, readable and blocking: both roles, no event loop.

Spec:      the whole; each module names its page
Upholds:   spec_notes/index.md
Reads:     server/server, client/client
Not here:  everything else: this file only gathers the public names
"""

from __future__ import annotations

from mcp_ref._version import __version__
from mcp_ref.basic.deadline import Cancel
from mcp_ref.basic.patterns.input_requests import input_required
from mcp_ref.basic.patterns.listening import Event
from mcp_ref.basic.patterns.request_state import StateKeys
from mcp_ref.basic.types import audio, image, text
from mcp_ref.client.client import Client
from mcp_ref.client.result_cache import ResultCache
from mcp_ref.client.targets import Command, Url
from mcp_ref.errors import (
    AnswerLost,
    ErrorResponse,
    HttpStatusError,
    InputRefused,
    LocalProtocolError,
    McpError,
    Refusal,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    SessionExpired,
    ToolError,
    TransportClosed,
    UrlElicitationRequired,
)
from mcp_ref.server.context import Context
from mcp_ref.server.server import Server
from mcp_ref.server.utilities.caching import CacheHint

__all__ = [
    "AnswerLost",
    "CacheHint",
    "Cancel",
    "Client",
    "Command",
    "Context",
    "ErrorResponse",
    "Event",
    "HttpStatusError",
    "InputRefused",
    "LocalProtocolError",
    "McpError",
    "Refusal",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestTimeout",
    "ResultCache",
    "Server",
    "SessionExpired",
    "StateKeys",
    "ToolError",
    "TransportClosed",
    "Url",
    "UrlElicitationRequired",
    "__version__",
    "audio",
    "image",
    "input_required",
    "text",
]
