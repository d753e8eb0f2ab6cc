"""What a type checker sees of `mcp_ref`: the names that `__init__.py` loads when they are first asked for."""

from mcp_ref._version import __version__
from mcp_ref.client.client import Client
from mcp_ref.client.entries import Entry
from mcp_ref.client.targets import Command, Url
from mcp_ref.errors import (
    AnswerLost,
    AuthorizationError,
    ErrorResponse,
    HttpStatusError,
    InputRefused,
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    MissingClientCapability,
    Refusal,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    SessionExpired,
    TaskCancelled,
    ToolError,
    TransportClosed,
)
from mcp_ref.host.consent import Answer, Consent, ConsentRefused, Question, Rule
from mcp_ref.host.host import Host
from mcp_ref.host.life import ServerDown
from mcp_ref.host.models import Model
from mcp_ref.kit.http.http_exchange import HttpLimits, HttpRefusal, HttpRequest
from mcp_ref.kit.threads.deadline import Cancel
from mcp_ref.kit.threads.era_cache import EraMemory
from mcp_ref.kit.threads.rates import Rate
from mcp_ref.kit.typed.shapes import JsonObject
from mcp_ref.lab.cli.form import terminal_form
from mcp_ref.lab.judge.check import Checker
from mcp_ref.lab.judge.narrate import Narrator, narrate
from mcp_ref.lab.judge.rulebook import Finding
from mcp_ref.lab.testing.authorization_server import AuthorizationServer as AuthorizationServer
from mcp_ref.pages.basic.authorization.client import OAuth
from mcp_ref.pages.basic.authorization.extensions import ClientCredentials, EnterpriseManaged, WorkloadIdentity
from mcp_ref.pages.basic.authorization.registration import Registered, client_metadata
from mcp_ref.pages.basic.authorization.resource_server import Principal, Protection
from mcp_ref.pages.basic.authorization.token_store import FileStore, MemoryStore, TokenStore
from mcp_ref.pages.basic.authorization.verifiers import Introspection, JwtVerifier
from mcp_ref.pages.basic.extensions import Extension, Listen
from mcp_ref.pages.basic.mrtr import (
    StateKeys,
    elicitation_form,
    elicitation_url,
    input_required,
    roots_listing,
    sampling,
)
from mcp_ref.pages.basic.subscriptions import Event, Listening
from mcp_ref.pages.basic.tasks import TaskRule
from mcp_ref.pages.basic.transports.streamable_http.streams import EventStore, MemoryEventStore
from mcp_ref.pages.client.elicitation import (
    UrlElicitationRequired,
    accept,
    cancel,
    decline,
    required_urls,
    url_elicitation,
)
from mcp_ref.pages.client.roots import is_within, root_path
from mcp_ref.pages.client.sampling import UserRejected, choose_model, reply
from mcp_ref.pages.extensions.skills import SKILLS, SkillMismatch, Skills
from mcp_ref.pages.server.prompts import PromptMessage, assistant, user
from mcp_ref.pages.server.resources import ResourceNotFound, contents_bytes
from mcp_ref.pages.server.utilities.caching import CacheHint, ResultCache
from mcp_ref.pages.server.utilities.completion import prompt_ref, resource_ref
from mcp_ref.recording.record import Recorder, TraceEvent, read_trace, recorder
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS, STATELESS_REVISIONS, Revision, find_revision
from mcp_ref.server.bus import Bus, LocalBus, RedisBus
from mcp_ref.server.http import HttpService
from mcp_ref.server.server import Server
from mcp_ref.server.session import Context
from mcp_ref.server.wsgi import WsgiApplication
from mcp_ref.tasks.handle import TaskHandle
from mcp_ref.tasks.running import Tasks
from mcp_ref.tasks.sqlite import SqliteTasks
from mcp_ref.tasks.store import MemoryTasks, TaskStore
from mcp_ref.wire.content import audio, data_of, image, text, text_of
from mcp_ref.wire.methods import Method, Options
from mcp_ref.wire.transport import Transport

__all__ = [
    "Answer",
    "AnswerLost",
    "AuthorizationError",
    "Bus",
    "CacheHint",
    "Cancel",
    "Checker",
    "Client",
    "ClientCredentials",
    "Command",
    "Consent",
    "ConsentRefused",
    "Context",
    "EnterpriseManaged",
    "Entry",
    "EraMemory",
    "ErrorResponse",
    "Event",
    "EventStore",
    "Extension",
    "FileStore",
    "Finding",
    "Host",
    "HttpLimits",
    "HttpRefusal",
    "HttpRequest",
    "HttpService",
    "HttpStatusError",
    "InputRefused",
    "InternalError",
    "Introspection",
    "InvalidParams",
    "InvalidRequest",
    "JsonObject",
    "JwtVerifier",
    "Listen",
    "Listening",
    "LocalBus",
    "LocalProtocolError",
    "McpError",
    "MemoryEventStore",
    "MemoryStore",
    "MemoryTasks",
    "Method",
    "MethodNotFound",
    "MissingClientCapability",
    "Model",
    "Narrator",
    "OAuth",
    "Options",
    "Principal",
    "PromptMessage",
    "Protection",
    "Question",
    "REVISIONS",
    "Rate",
    "Recorder",
    "RedisBus",
    "Refusal",
    "Registered",
    "RemoteProtocolError",
    "RequestCancelled",
    "RequestTimeout",
    "ResourceNotFound",
    "ResultCache",
    "Revision",
    "Rule",
    "SESSION_REVISIONS",
    "SKILLS",
    "STATELESS_REVISIONS",
    "Server",
    "ServerDown",
    "SessionExpired",
    "SkillMismatch",
    "Skills",
    "SqliteTasks",
    "StateKeys",
    "TaskCancelled",
    "TaskHandle",
    "TaskRule",
    "TaskStore",
    "Tasks",
    "TokenStore",
    "ToolError",
    "TraceEvent",
    "Transport",
    "TransportClosed",
    "Url",
    "UrlElicitationRequired",
    "UserRejected",
    "WorkloadIdentity",
    "WsgiApplication",
    "__version__",
    "accept",
    "assistant",
    "audio",
    "cancel",
    "choose_model",
    "client_metadata",
    "contents_bytes",
    "data_of",
    "decline",
    "elicitation_form",
    "elicitation_url",
    "find_revision",
    "image",
    "input_required",
    "is_within",
    "narrate",
    "prompt_ref",
    "read_trace",
    "recorder",
    "reply",
    "required_urls",
    "resource_ref",
    "root_path",
    "roots_listing",
    "sampling",
    "terminal_form",
    "text",
    "text_of",
    "url_elicitation",
    "user",
]
