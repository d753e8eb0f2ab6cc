"""Facts: the one door by which the laboratory comes to what is not public: tables, rules, and parts to build from.

Not here:  the public names (`mcp_ref`), and the trace (`recording`), which the laboratory imports beside this

At most 60 names, each of which loads its module when it is first asked for: a command that needs no HTTP loads none.
Four are whole modules, of which the laboratory needs most: shapes, messages, event streams, and the policy for URLs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    # fmt: off
    # isort: off
    from mcp_ref.client.entries import read_entries as read_entries
    from mcp_ref.client.targets import shown_target as shown_target
    from mcp_ref.kit.http import guarded_fetch as guarded_fetch
    from mcp_ref.kit.http.http_call import HttpCall as HttpCall
    from mcp_ref.kit.http.http_client import FinalResponse as FinalResponse, HttpClient as HttpClient
    from mcp_ref.kit.http.http_exchange import HttpReply as HttpReply
    from mcp_ref.kit.http.http_server import HttpServer as HttpServer
    from mcp_ref.kit.http.scopes import checked_scopes as checked_scopes
    from mcp_ref.kit.process.child import found_on_path as found_on_path
    from mcp_ref.kit.process.pipes import LineSplitter as LineSplitter
    from mcp_ref.kit.process.private_files import (
        open_plain as open_plain, read_private as read_private, replace as replace,
    )
    from mcp_ref.kit.process.running import end_as_by_ctrl_c as end_as_by_ctrl_c, end_by_sigterm as end_by_sigterm
    from mcp_ref.kit.process.standard_streams import escaped as escaped
    from mcp_ref.kit.threads.bounded_dict import Latest as Latest, once as once
    from mcp_ref.kit.threads.deadline import Deadline as Deadline
    from mcp_ref.kit.typed.checking import SchemaMismatch as SchemaMismatch, checker as checker
    from mcp_ref.kit.typed.json_schema import SchemaRefused as SchemaRefused, prepare as prepare
    from mcp_ref.kit.typed import shapes as shapes
    from mcp_ref.pages.basic.authorization.resource_server import canonical as canonical, send_document as send_document
    from mcp_ref.pages.basic.meta import is_meta_key as is_meta_key
    from mcp_ref.pages.basic.mrtr import InputRequiredResult as InputRequiredResult, KINDS as KINDS
    from mcp_ref.pages.basic.transports.memory import InProcess as InProcess
    from mcp_ref.pages.basic.transports import sse as sse
    from mcp_ref.pages.basic.transports.stdio import (
        StdioClientTransport as StdioClientTransport, StdioServerTransport as StdioServerTransport,
    )
    from mcp_ref.pages.basic.transports.streamable_http.client import (
        HttpClientTransport as HttpClientTransport, checked_headers as checked_headers, checked_url as checked_url,
    )
    from mcp_ref.pages.basic.transports.streamable_http.headers import (
        NAMED as NAMED, check_host_and_origin as check_host_and_origin, decode_value as decode_value,
        http_status as http_status, mirror as mirror, parameters as parameters,
    )
    from mcp_ref.pages.basic.transports.streamable_http.server import answering as answering
    from mcp_ref.pages.basic.versioning import is_stateless as is_stateless, read_envelope as read_envelope
    from mcp_ref.pages.client.elicitation import (
        content_problem as content_problem, modes_of as modes_of, schema_problem as schema_problem,
    )
    from mcp_ref.pages.client.sampling import message_problem as message_problem
    from mcp_ref.pages.extensions.frontmatter import read_frontmatter as read_frontmatter
    from mcp_ref.pages.extensions.skills import plain_uri as plain_uri
    from mcp_ref.pages.extensions.tasks import TASKS as TASKS
    from mcp_ref.pages.server.utilities.caching import CACHEABLE as CACHEABLE
    from mcp_ref.pages.table import METHODS as METHODS
    from mcp_ref.wire.deprecated import FEATURES as FEATURES
    from mcp_ref.wire import messages as messages
    from mcp_ref.wire.negotiated import MAY_ASK as MAY_ASK, declares as declares
    from mcp_ref.wire.transport import is_transport as is_transport
    # isort: on
    # fmt: on

_PLACES: Final = {
    "client.entries": "read_entries",
    "client.targets": "shown_target",
    "kit.http.guarded_fetch": "guarded_fetch",
    "kit.http.http_call": "HttpCall",
    "kit.http.http_client": "FinalResponse HttpClient",
    "kit.http.http_exchange": "HttpReply",
    "kit.http.http_server": "HttpServer",
    "kit.http.scopes": "checked_scopes",
    "kit.process.child": "found_on_path",
    "kit.process.pipes": "LineSplitter",
    "kit.process.private_files": "open_plain read_private replace",
    "kit.process.running": "end_as_by_ctrl_c end_by_sigterm",
    "kit.process.standard_streams": "escaped",
    "kit.threads.bounded_dict": "Latest once",
    "kit.threads.deadline": "Deadline",
    "kit.typed.checking": "SchemaMismatch checker",
    "kit.typed.json_schema": "SchemaRefused prepare",
    "kit.typed.shapes": "shapes",
    "pages.basic.authorization.resource_server": "canonical send_document",
    "pages.basic.meta": "is_meta_key",
    "pages.basic.mrtr": "InputRequiredResult KINDS",
    "pages.basic.transports.memory": "InProcess",
    "pages.basic.transports.sse": "sse",
    "pages.basic.transports.stdio": "StdioClientTransport StdioServerTransport",
    "pages.basic.transports.streamable_http.client": "HttpClientTransport checked_headers checked_url",
    "pages.basic.transports.streamable_http.headers": (
        "NAMED check_host_and_origin decode_value http_status mirror parameters"
    ),
    "pages.basic.transports.streamable_http.server": "answering",
    "pages.basic.versioning": "is_stateless read_envelope",
    "pages.client.elicitation": "content_problem modes_of schema_problem",
    "pages.client.sampling": "message_problem",
    "pages.extensions.frontmatter": "read_frontmatter",
    "pages.extensions.skills": "plain_uri",
    "pages.extensions.tasks": "TASKS",
    "pages.server.utilities.caching": "CACHEABLE",
    "pages.table": "METHODS",
    "wire.deprecated": "FEATURES",
    "wire.messages": "messages",
    "wire.negotiated": "MAY_ASK declares",
    "wire.transport": "is_transport",
}
"""The names of each module; a module that has its own name is given whole."""

_MODULES: Final = {name: module for module, names in _PLACES.items() for name in names.split()}

__all__ = [*_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


if not TYPE_CHECKING:  # a name that is not there is an error for a type checker, too

    def __getattr__(name: str) -> Any:
        """Load the module of a name, once."""
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module = import_module(f"mcp_ref.{_MODULES[name]}")
        value = globals()[name] = module if module.__name__.endswith(f".{name}") else getattr(module, name)
        return value
