"""mcp_ref: the Model Context Protocol, readable and blocking: both roles, no event loop.

Spec:      the whole; each module names its page
Upholds:   spec_notes/index.md
Not here:  everything else: this file only gathers the public names
"""

from __future__ import annotations

from mcp_ref._version import __version__
from mcp_ref.basic.mrtr import StateKeys, input_required
from mcp_ref.basic.subscriptions import Event
from mcp_ref.client.client import Client
from mcp_ref.client.config import Command, Url
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
from mcp_ref.machinery.deadline import Cancel
from mcp_ref.server.context import Context
from mcp_ref.server.server import Server
from mcp_ref.server.utilities.caching import CacheHint, ResultCache
from mcp_ref.types import audio, image, text

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
