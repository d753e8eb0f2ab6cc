"""mcp_ref: the Model Context Protocol, readable and blocking: both roles, no event loop.

Spec:      the whole; each module names its page
Upholds:   spec_notes/index.md
Not here:  everything else: this file only gathers the public names

A program imports what it needs from here: `from mcp_ref import Client`. Each name loads its module when it is first
asked for, so that a server loads no client, and nobody loads what they do not use. Type checkers see the
same names in the first block below. `help(mcp_ref.Client)`, and so on, says how each is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcp_ref._version import __version__ as __version__

if TYPE_CHECKING:
    # fmt: off
    # isort: off
    from mcp_ref.client.client import Client as Client
    from mcp_ref.client.entries import Entry as Entry
    from mcp_ref.client.targets import Command as Command, Url as Url
    from mcp_ref.errors import (
        AnswerLost as AnswerLost, AuthorizationError as AuthorizationError, ErrorResponse as ErrorResponse,
        HttpStatusError as HttpStatusError, InputRefused as InputRefused, InternalError as InternalError,
        InvalidParams as InvalidParams, InvalidRequest as InvalidRequest, LocalProtocolError as LocalProtocolError,
        McpError as McpError, MethodNotFound as MethodNotFound, MissingClientCapability as MissingClientCapability,
        Refusal as Refusal, RemoteProtocolError as RemoteProtocolError, RequestCancelled as RequestCancelled,
        RequestTimeout as RequestTimeout, SessionExpired as SessionExpired, TaskCancelled as TaskCancelled,
        ToolError as ToolError, TransportClosed as TransportClosed,
    )
    from mcp_ref.host.apps import AppCall as AppCall, AppView as AppView
    from mcp_ref.host.consent import (
        Answer as Answer, Consent as Consent, ConsentRefused as ConsentRefused, Question as Question, Rule as Rule,
    )
    from mcp_ref.host.host import Host as Host
    from mcp_ref.host.life import ServerDown as ServerDown
    from mcp_ref.host.models import Model as Model
    from mcp_ref.kit.http.http_exchange import (
        HttpLimits as HttpLimits, HttpRefusal as HttpRefusal, HttpRequest as HttpRequest,
    )
    from mcp_ref.kit.threads.deadline import Cancel as Cancel, Rate as Rate
    from mcp_ref.kit.threads.era_cache import EraMemory as EraMemory
    from mcp_ref.kit.typed.shapes import JsonObject as JsonObject
    from mcp_ref.lab.cli.form import terminal_form as terminal_form
    from mcp_ref.lab.judge.check import Checker as Checker
    from mcp_ref.lab.judge.narrate import Narrator as Narrator, narrate as narrate
    from mcp_ref.lab.judge.rulebook import Finding as Finding
    from mcp_ref.lab.testing.authorization_server import AuthorizationServer as AuthorizationServer
    from mcp_ref.pages.basic.authorization.client import OAuth as OAuth
    from mcp_ref.pages.basic.authorization.extensions import (
        ClientCredentials as ClientCredentials, EnterpriseManaged as EnterpriseManaged,
        WorkloadIdentity as WorkloadIdentity,
    )
    from mcp_ref.pages.basic.authorization.registration import (
        Registered as Registered, client_metadata as client_metadata,
    )
    from mcp_ref.pages.basic.authorization.resource_server import Principal as Principal, Protection as Protection
    from mcp_ref.pages.basic.authorization.token_store import (
        FileStore as FileStore, MemoryStore as MemoryStore, TokenStore as TokenStore,
    )
    from mcp_ref.pages.basic.authorization.verifiers import Introspection as Introspection, JwtVerifier as JwtVerifier
    from mcp_ref.pages.basic.extensions import Extension as Extension, Listen as Listen
    from mcp_ref.pages.basic.mrtr import (
        StateKeys as StateKeys, elicitation_form as elicitation_form, elicitation_url as elicitation_url,
        input_required as input_required, roots_listing as roots_listing, sampling as sampling,
    )
    from mcp_ref.pages.basic.subscriptions import Event as Event, Listening as Listening
    from mcp_ref.pages.basic.tasks import TaskRule as TaskRule
    from mcp_ref.pages.basic.transports.streamable_http.streams import (
        EventStore as EventStore, MemoryEventStore as MemoryEventStore,
    )
    from mcp_ref.pages.client.elicitation import (
        UrlElicitationRequired as UrlElicitationRequired, accept as accept, cancel as cancel, decline as decline,
        required_urls as required_urls, url_elicitation as url_elicitation,
    )
    from mcp_ref.pages.client.roots import is_within as is_within, root_path as root_path
    from mcp_ref.pages.client.sampling import UserRejected as UserRejected, choose_model as choose_model, reply as reply
    from mcp_ref.pages.extensions.apps import APPS as APPS, Apps as Apps
    from mcp_ref.pages.extensions.skills import SKILLS as SKILLS, SkillMismatch as SkillMismatch, Skills as Skills
    from mcp_ref.pages.server.prompts import PromptMessage as PromptMessage, assistant as assistant, user as user
    from mcp_ref.pages.server.resources import ResourceNotFound as ResourceNotFound, contents_bytes as contents_bytes
    from mcp_ref.pages.server.utilities.caching import CacheHint as CacheHint, ResultCache as ResultCache
    from mcp_ref.pages.server.utilities.completion import prompt_ref as prompt_ref, resource_ref as resource_ref
    from mcp_ref.recording.record import (
        Recorder as Recorder, TraceEvent as TraceEvent, read_trace as read_trace, recorder as recorder,
    )
    from mcp_ref.revisions import (
        REVISIONS as REVISIONS, Revision as Revision, SESSION_REVISIONS as SESSION_REVISIONS,
        STATELESS_REVISIONS as STATELESS_REVISIONS, find_revision as find_revision,
    )
    from mcp_ref.server.bus import Bus as Bus, LocalBus as LocalBus, RedisBus as RedisBus
    from mcp_ref.server.http import HttpService as HttpService
    from mcp_ref.server.server import Server as Server
    from mcp_ref.server.session import Context as Context
    from mcp_ref.server.wsgi import WsgiApplication as WsgiApplication
    from mcp_ref.tasks.handle import TaskHandle as TaskHandle
    from mcp_ref.tasks.running import Tasks as Tasks
    from mcp_ref.tasks.sqlite import SqliteTasks as SqliteTasks
    from mcp_ref.tasks.store import MemoryTasks as MemoryTasks, TaskStore as TaskStore
    from mcp_ref.wire.content import (
        audio as audio, data_of as data_of, image as image, text as text, text_of as text_of,
    )
    from mcp_ref.wire.methods import Method as Method, Options as Options
    from mcp_ref.wire.transport import Transport as Transport
    # isort: on
    # fmt: on

_PLACES: Final = {
    "client.client": "Client",
    "client.entries": "Entry",
    "client.targets": "Command Url",
    "errors": (
        "AnswerLost AuthorizationError ErrorResponse HttpStatusError InputRefused InternalError InvalidParams "
        "InvalidRequest LocalProtocolError McpError MethodNotFound MissingClientCapability Refusal "
        "RemoteProtocolError RequestCancelled RequestTimeout SessionExpired TaskCancelled ToolError TransportClosed"
    ),
    "host.apps": "AppCall AppView",
    "host.consent": "Answer Consent ConsentRefused Question Rule",
    "host.host": "Host",
    "host.life": "ServerDown",
    "host.models": "Model",
    "kit.http.http_exchange": "HttpLimits HttpRefusal HttpRequest",
    "kit.threads.deadline": "Cancel Rate",
    "kit.threads.era_cache": "EraMemory",
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
    "pages.extensions.apps": "APPS Apps",
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


if not TYPE_CHECKING:  # a name that is not there is an error for a type checker, too

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
