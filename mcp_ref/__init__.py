"""mcp_ref: the Model Context Protocol, readable and blocking: both roles, no event loop.

Spec:      the whole; each module names its page
Reads:     server/server, client/client
Not here:  everything else: this file only gathers the public names
"""

from __future__ import annotations

from mcp_ref._version import __version__
from mcp_ref.basic.deadline import Cancel
from mcp_ref.basic.types import audio, image, text
from mcp_ref.client.client import Client
from mcp_ref.client.targets import Command, Url
from mcp_ref.errors import (
    ErrorResponse,
    HttpStatusError,
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

__all__ = [
    "Cancel",
    "Client",
    "Command",
    "Context",
    "ErrorResponse",
    "HttpStatusError",
    "LocalProtocolError",
    "McpError",
    "Refusal",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestTimeout",
    "Server",
    "SessionExpired",
    "ToolError",
    "TransportClosed",
    "Url",
    "UrlElicitationRequired",
    "__version__",
    "audio",
    "image",
    "text",
]
