"""mcp_ref: the Model Context Protocol, readable and blocking: both roles, no event loop.

Spec:      the whole; each module names its page
Upholds:   spec_notes/index.md
Not here:  everything else: this file only gathers the public names

A program imports what it needs from here: `from mcp_ref import Client`. Each name loads its module when it is first
asked for, so that a server loads no client, and nobody loads what they do not use. For type checkers the same stands in
`__init__.pyi`. `help(mcp_ref.Client)`, and so on, tells more than the line below.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Final

from mcp_ref._version import __version__ as __version__

_PLACES: Final = {
    "client.client": "Client",
    "client.entries": "Entry",
    "client.targets": "Command Url",
    "errors": (
        "AnswerLost AuthorizationError ErrorResponse HttpStatusError InputRefused InternalError InvalidParams "
        "InvalidRequest LocalProtocolError McpError MethodNotFound MissingClientCapability Refusal "
        "RemoteProtocolError RequestCancelled RequestTimeout SessionExpired TaskCancelled ToolError TransportClosed"
    ),
    "host.consent": "Answer Consent ConsentRefused Question Rule",
    "host.host": "Host",
    "host.life": "ServerDown",
    "host.models": "Model",
    "kit.http.http_exchange": "HttpLimits HttpRefusal HttpRequest",
    "kit.threads.deadline": "Cancel",
    "kit.threads.era_cache": "EraMemory",
    "kit.threads.rates": "Rate",
    "kit.typed.shapes": "JsonObject",
    "lab.cli.form": "terminal_form",
    "lab.judge.check": "Checker",
    "lab.judge.narrate": "Narrator narrate",
    "lab.judge.rulebook": "Finding",
    "pages.basic.authorization.client": "OAuth",
    "pages.basic.authorization.extensions": "ClientCredentials EnterpriseManaged WorkloadIdentity",
    "pages.basic.authorization.registration": "Registered client_metadata",
    "pages.basic.authorization.resource_server": "Principal Protection",
    "pages.basic.authorization.token_store": "FileStore MemoryStore TokenStore",
    "pages.basic.authorization.verifiers": "Introspection JwtVerifier",
    "pages.basic.extensions": "Extension Listen",
    "pages.basic.mrtr": "StateKeys elicitation_form elicitation_url input_required roots_listing sampling",
    "pages.basic.subscriptions": "Event Listening",
    "pages.basic.tasks": "TaskRule",
    "pages.basic.transports.streamable_http.streams": "EventStore MemoryEventStore",
    "pages.client.elicitation": "UrlElicitationRequired accept cancel decline required_urls url_elicitation",
    "pages.client.roots": "is_within root_path",
    "pages.client.sampling": "UserRejected choose_model reply",
    "pages.extensions.skills": "SKILLS SkillMismatch Skills",
    "pages.server.prompts": "PromptMessage assistant user",
    "pages.server.resources": "ResourceNotFound contents_bytes",
    "pages.server.utilities.caching": "CacheHint ResultCache",
    "pages.server.utilities.completion": "prompt_ref resource_ref",
    "recording.record": "Recorder TraceEvent read_trace recorder",
    "revisions": "REVISIONS Revision SESSION_REVISIONS STATELESS_REVISIONS find_revision",
    "server.bus": "Bus LocalBus RedisBus",
    "server.http": "HttpService",
    "server.server": "Server",
    "server.session": "Context",
    "server.wsgi": "WsgiApplication",
    "tasks.handle": "TaskHandle",
    "tasks.running": "Tasks",
    "tasks.sqlite": "SqliteTasks",
    "tasks.store": "MemoryTasks TaskStore",
    "wire.content": "audio data_of image text text_of",
    "wire.methods": "Method Options",
    "wire.transport": "Transport",
}
"""The public names of each module."""

_MODULES: Final = {name: module for module, names in _PLACES.items() for name in names.split()}

__all__ = ["__version__", *_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Load the module of a public name, once."""
    if name not in _MODULES:
        from mcp_ref.kit.threads.arguments import moved_name

        return moved_name(name)
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


class _Package(ModuleType):
    """This module; its docstring ends with a line for each public name, all of which it loads."""

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        from mcp_ref.kit.threads.arguments import with_a_line_each

        return with_a_line_each(self, _MODULES)


sys.modules[__name__].__class__ = _Package
