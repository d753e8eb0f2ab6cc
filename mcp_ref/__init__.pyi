"""What a type checker sees of `mcp_ref`: the names that `__init__.py` loads when they are first asked for."""

from mcp_ref._version import __version__
from mcp_ref.basic.authorization.client import OAuth
from mcp_ref.basic.authorization.extensions import ClientCredentials, EnterpriseManaged, WorkloadIdentity
from mcp_ref.basic.authorization.registration import Registered, client_metadata
from mcp_ref.basic.authorization.resource_server import Principal, Protection
from mcp_ref.basic.authorization.verifiers import Introspection, JwtVerifier
from mcp_ref.basic.extensions import Extension, Listen
from mcp_ref.basic.mrtr import StateKeys, elicitation_form, elicitation_url, input_required, roots_listing, sampling
from mcp_ref.basic.subscriptions import Event, Listening
from mcp_ref.basic.tasks import TaskRule
from mcp_ref.basic.transports.streamable_http.streams import EventStore, MemoryEventStore
from mcp_ref.basic.transports.transport import Transport
from mcp_ref.cli.form import terminal_form
from mcp_ref.client.elicitation import UrlElicitationRequired, accept, cancel, decline, required_urls, url_elicitation
from mcp_ref.client.roots import is_within, root_path
from mcp_ref.client.sampling import UserRejected, choose_model, reply
from mcp_ref.content import audio, data_of, image, text, text_of
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
from mcp_ref.extensions.skills import SKILLS, SkillMismatch, Skills
from mcp_ref.machinery.bus import Bus, LocalBus, RedisBus
from mcp_ref.machinery.deadline import Cancel
from mcp_ref.machinery.http_exchange import HttpLimits, HttpRefusal, HttpRequest
from mcp_ref.machinery.rates import Rate
from mcp_ref.machinery.remembered import EraMemory
from mcp_ref.machinery.shapes import JsonObject
from mcp_ref.machinery.task_sqlite import SqliteTasks
from mcp_ref.machinery.task_store import MemoryTasks, TaskStore
from mcp_ref.machinery.tasking import Tasks
from mcp_ref.machinery.token_store import FileStore, MemoryStore, TokenStore
from mcp_ref.methods import Method, Options
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS, STATELESS_REVISIONS, Revision, find_revision
from mcp_ref.roles.client.client import Client
from mcp_ref.roles.client.config import Command, Url
from mcp_ref.roles.client.entries import Entry
from mcp_ref.roles.client.following import TaskHandle
from mcp_ref.roles.host.consent import Answer, Consent, ConsentRefused, Question, Rule
from mcp_ref.roles.host.host import Host
from mcp_ref.roles.host.life import ServerDown
from mcp_ref.roles.host.models import Model
from mcp_ref.roles.server.context import Context
from mcp_ref.roles.server.hosting import HttpService
from mcp_ref.roles.server.server import Server
from mcp_ref.roles.server.wsgi import WsgiApplication
from mcp_ref.server.prompts import PromptMessage, assistant, user
from mcp_ref.server.resources import ResourceNotFound, contents_bytes
from mcp_ref.server.utilities.caching import CacheHint, ResultCache
from mcp_ref.server.utilities.completion import prompt_ref, resource_ref
from mcp_ref.trace.check import Checker
from mcp_ref.trace.narrate import Narrator, narrate
from mcp_ref.trace.record import Recorder, TraceEvent, read_trace, recorder
from mcp_ref.trace.rulebook import Finding

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
