"""mcp_ref: the Model Context Protocol, readable and blocking: both roles, no event loop.

Spec:      the whole; each module names its page
Upholds:   spec_notes/index.md
Not here:  everything else: this file only gathers the public names

A program imports what it needs from here: `from mcp_ref import Client`. Each name loads its module when it is first
asked for, so that a server loads no client, and nobody loads what they do not use. For type checkers the same stands in
`__init__.pyi`. `help(mcp_ref.Client)` and `help(mcp_ref.Server)` name what a program calls.
"""

from __future__ import annotations

from typing import Any, Final

from mcp_ref._version import __version__ as __version__

_PLACES: Final = {
    "basic.authorization.client": "OAuth",
    "basic.authorization.extensions": "ClientCredentials EnterpriseManaged WorkloadIdentity",
    "basic.authorization.registration": "Registered client_metadata",
    "basic.authorization.resource_server": "Principal Protection",
    "basic.authorization.verifiers": "Introspection JwtVerifier",
    "basic.extensions": "Extension Listen",
    "basic.mrtr": "StateKeys elicitation_form elicitation_url input_required roots_listing sampling",
    "basic.subscriptions": "Event Listening",
    "basic.tasks": "TaskRule",
    "basic.transports.streamable_http.streams": "EventStore MemoryEventStore",
    "basic.transports.transport": "Transport",
    "cli.form": "terminal_form",
    "client.elicitation": "UrlElicitationRequired accept cancel decline required_urls url_elicitation",
    "client.roots": "is_within root_path",
    "client.sampling": "UserRejected choose_model reply",
    "content": "audio data_of image text text_of",
    "errors": (
        "AnswerLost AuthorizationError ErrorResponse HttpStatusError InputRefused InternalError InvalidParams "
        "InvalidRequest LocalProtocolError McpError MethodNotFound MissingClientCapability Refusal "
        "RemoteProtocolError RequestCancelled RequestTimeout SessionExpired TaskCancelled ToolError TransportClosed"
    ),
    "extensions.skills": "SKILLS SkillMismatch Skills",
    "machinery.bus": "Bus LocalBus RedisBus",
    "machinery.deadline": "Cancel",
    "machinery.http_exchange": "HttpLimits HttpRefusal HttpRequest",
    "machinery.rates": "Rate",
    "machinery.remembered": "EraMemory",
    "machinery.shapes": "JsonObject",
    "machinery.task_sqlite": "SqliteTasks",
    "machinery.task_store": "MemoryTasks TaskStore",
    "machinery.tasking": "Tasks",
    "machinery.token_store": "FileStore MemoryStore TokenStore",
    "methods": "Method Options",
    "revisions": "REVISIONS Revision SESSION_REVISIONS STATELESS_REVISIONS find_revision",
    "roles.client.client": "Client",
    "roles.client.config": "Command Url",
    "roles.client.entries": "Entry",
    "roles.client.following": "TaskHandle",
    "roles.host.consent": "Answer Consent ConsentRefused Question Rule",
    "roles.host.host": "Host",
    "roles.host.life": "ServerDown",
    "roles.host.models": "Model",
    "roles.server.context": "Context",
    "roles.server.hosting": "HttpService",
    "roles.server.server": "Server",
    "roles.server.wsgi": "WsgiApplication",
    "server.prompts": "PromptMessage assistant user",
    "server.resources": "ResourceNotFound contents_bytes",
    "server.utilities.caching": "CacheHint ResultCache",
    "server.utilities.completion": "prompt_ref resource_ref",
    "trace.check": "Checker",
    "trace.narrate": "Narrator narrate",
    "trace.record": "Recorder TraceEvent read_trace recorder",
    "trace.rulebook": "Finding",
}
"""The public names of each module."""

_MODULES: Final = {name: module for module, names in _PLACES.items() for name in names.split()}

__all__ = ["__version__", *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Load the module of a public name, once."""
    if name not in _MODULES:
        from mcp_ref.machinery.arguments import unknown_name

        raise unknown_name(name)
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
