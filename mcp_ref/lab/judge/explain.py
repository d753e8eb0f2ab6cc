"""One message, one error or one HTTP exchange by itself, in words.

Spec:      basic/index#messages, and the page of each method; RFC 9110 for what a status means
Not here:  which messages belong together (lab/judge/narrate); what is recorded, and hidden (recording/record,
           recording/redact)

The sentences stand in tables. `{name}` is a member of what is explained, quoted, and `{ref.name}` a member of that one;
`{content:kinds}` is shown as the row of `_SHOWN` says. A sentence is left out when a member of it is missing, or is not
what the row expects; of several sentences in a tuple, the first that can be said is said. So whatever a peer sends can
be explained.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from mcp_ref import REVISIONS, JsonObject
from mcp_ref.lab.judge.rules.seen import as_object

_LONGEST: Final = 60  # characters of a text in a sentence
_Sentences = tuple[str | tuple[str, ...], ...]

# -- messages -----------------------------------------------------------------------------------------------------

_IN_PARAMS: Final[dict[str, _Sentences]] = {
    "initialize": (
        "asks for revision {protocolVersion:revision}",
        ("the client is {clientInfo:implementation} and declares {capabilities:declared}",
         "the client declares {capabilities:declared}"),
    ),
    "tools/call": (("tool {name}, arguments: {arguments:names}", "tool {name}, no arguments"),),
    "completion/complete": (
        ("how may {argument.value} go on, as {argument.name} of {ref.name}?",
         "how may {argument.value} go on, as {argument.name} of {ref.uri}?"),
    ),
    "notifications/message": (("{level} from {logger}: {data}", "{level}: {data}"),),
    "subscriptions/listen": (("to be told: {notifications:changes}", "to be told: nothing"),),
    "notifications/subscriptions/acknowledged": (("will be told: {notifications:changes}", "will be told: nothing"),),
    "sampling/createMessage": (
        "messages for the client's model: {messages:count}; at most {maxTokens} tokens back",
        "the model may use the tools {tools:entries}",
    ),
    "elicitation/create": (
        "asks the user: {message}",
        ("URL mode: to be opened only with the user's consent: {url}",
         "a form with: {requestedSchema.properties:names}"),
    ),
    "ui/initialize": (
        "the app is {appInfo:implementation}",
        "it can be shown {appCapabilities.availableDisplayModes:few}",
    ),
    "ui/notifications/tool-input": (("arguments: {arguments:names}", "no arguments"),),
    "ui/notifications/tool-result": ("content: {content:kinds}",),
    "ui/notifications/tool-cancelled": ("because {reason}",),
    "ui/notifications/size-changed": (("{width} by {height} pixels", "{height} pixels high", "{width} pixels wide"),),
    "ui/notifications/host-context-changed": ("theme: {theme}", "shown {displayMode}"),
    "ui/open-link": ("the page {url}",),
    "ui/message": ("content: {content:kinds}",),
    "ui/update-model-context": ("content: {content:kinds}",),
    "ui/request-display-mode": ("wants to be shown {mode}",),
    "ui/resource-teardown": ("because {reason}",),
}  # fmt: skip
_IN_OTHER_PARAMS: Final[_Sentences] = ("name: {name}", "uri: {uri}", "level: {level}")
_IN_ALL_PARAMS: Final[_Sentences] = (
    "{task:present}is to become a task, whose result is fetched later",
    ("task {taskId}: {status}: {statusMessage}", "task {taskId}: {status}", "about the task {taskId}"),
    "goes on with the page that cursor {cursor} stands for",
    "asks for progress, to be reported under token {_meta.progressToken}",
)

_IN_RESULTS: Final[dict[str, _Sentences]] = {
    "initialize": (
        ("asked for {asked:revision}, got {protocolVersion:revision}: the client goes on with that or disconnects",
         "agrees: revision {protocolVersion:revision}"),
        ("the server is {serverInfo:implementation} and declares {capabilities:declared}",
         "the server declares {capabilities:declared}"),
        "gives instructions for the model: {instructions}",
    ),
    "server/discover": (
        "speaks {supportedVersions:few}; nothing is agreed on, for each request names its own revision",
        "declares {capabilities:declared}",
        "gives instructions for the model: {instructions}",
    ),
    "subscriptions/listen": ("the server has ended the subscription: nothing more will be told",),
    "ui/initialize": ("the host is {hostInfo:implementation}", "the theme is {hostContext.theme}",
                      "the app is shown {hostContext.displayMode}"),
    "ui/request-display-mode": ("it is shown {mode} now",),
}  # fmt: skip
_IN_ALL_RESULTS: Final[_Sentences] = (
    "{isError:true}isError: the tool failed; that is a result for the model to read, not a protocol error",
    ("task {task.taskId}: {task.status}: {task.statusMessage}", "task {task.taskId}: {task.status}"),
    ("task {taskId}: {status}: {statusMessage}", "task {taskId}: {status}"),
    "content: {content:kinds}",
    "contents: {contents:kinds}",
    "messages: {messages:kinds}",
    "{structuredContent:present}structuredContent: the same as JSON, as the tool's outputSchema describes it",
    *(f"{each} ({{{each}:count}}): {{{each}:entries}}"
      for each in ("tools", "resources", "resourceTemplates", "prompts", "roots")),
    ("values: {completion.values:count} of {completion.total}", "values: {completion.values:count}"),
    "{completion.hasMore:true}there are more values than these",
    ("written by {model}, which stopped for {stopReason}", "written by {model}"),
    ("the user's action: {action}, with {content:names}", "the user's action: {action}"),
    "there is more: nextCursor {nextCursor:string} goes back as cursor",
    ("task {taskId} lives for {ttlMs:seconds} (ttlMs)",
     "may be kept for {ttlMs:seconds} (ttlMs){cacheScope:whose}", "may be kept for {ttlMs:seconds} (ttlMs)",
     "ttlMs {ttlMs}: to be asked for again each time"),
)  # fmt: skip

_CODES: Final[dict[int, str]] = {
    -32700: "parse error: what arrived is not JSON",
    -32600: "invalid request: not a message that is allowed here",
    -32601: "method not found: unknown in this revision, or its capability was not declared",
    -32602: "invalid params: they do not fit, or name what does not exist",
    -32603: "internal error: the receiver failed",
    -32002: "resource not found (the code of the session era)",
    -32042: "a URL elicitation has to be done first (2025-11-25 only)",
    -32020: "header mismatch: HTTP headers and body disagree, or a header is missing (from 2026-07-28)",
    -32021: "a capability is missing that the request needs and its client did not declare (from 2026-07-28)",
    -32022: "the protocol version is not supported (from 2026-07-28)",
}
_IN_ERRORS: Final[dict[Any, _Sentences]] = {
    -32022: (("asked for {data.requested}; the server speaks {data.supported:few}",
              "the server speaks {data.supported:few}"),),
    -32021: ("needed: {data.requiredCapabilities:paths}",),
}  # fmt: skip


def explain_params(method: str, params: Any) -> Iterator[str]:
    """Yield what the parameters of a request or a notification say."""
    yield from say(_IN_PARAMS.get(method, _IN_OTHER_PARAMS), params)
    yield from say(_IN_ALL_PARAMS, params)


def explain_result(method: str | None, result: Any, params: Any) -> Iterator[str]:
    """Yield what a result says; `method` and `params` of the request that it answers, None where they are not known."""
    if not isinstance(result, dict):
        return
    if method == "initialize" and (asked := as_object(params).get("protocolVersion")) != result.get("protocolVersion"):
        result = {**result, "asked": asked}
    said = [*say(_IN_RESULTS.get(method or "", ()), result), *say(_IN_ALL_RESULTS, result)]
    yield from said if said or result.keys() - {"resultType", "_meta"} else ["an empty result: done"]


def error_meaning(code: Any, method: str | None = None) -> str:
    """Return the meaning of an error code in the answer to a method, whatever the message beside it says."""
    if type(code) is not int:
        return "an error needs an integer code"
    if code == -1 and method == "sampling/createMessage":
        return "the user rejected the request"
    if code in _CODES:
        return _CODES[code]
    if -32768 <= code <= -32000:
        return "a code from the range that JSON-RPC reserves; the specification gives it no meaning"
    return "a code of the peer's own"


def explain_error(error: Any, method: str | None) -> Iterator[str]:
    """Yield what an error says: its code, its message, and the data of the codes that have data of their own."""
    code = as_object(error).get("code")
    yield f"{quoted(code)}, {error_meaning(code, method)}; it says {quoted(as_object(error).get('message'))}"
    yield from say(_IN_ERRORS.get(code, ()) if type(code) is int else (), error)


# -- HTTP (basic/transports#streamable-http) ----------------------------------------------------------------------

_PURPOSES: Final = {
    "GET": "asks for an event stream, for what belongs to no request of the client",
    "DELETE": "ends the session",
}
_STATUSES: Final = {
    202: "accepted; a notification or a response gets no answer",
    400: "the request is wrong as it was sent: its body, or its headers",
    401: "the client has to authorize first",
    403: "not allowed: the Host, the Origin or the credentials are refused",
    404: "no such path, method or session; if the session has ended, the client opens another one",
    405: "not offered; to a GET: the server has no event stream",
    406: "the client does not accept the content types that are answered here",
    413: "the body is too long",
    415: "the body is of another type than JSON",
    429: "this client has too much open",
    503: "at its limit for now",
}

_TITLES: Final[_Sentences] = (
    ("{hangUp:present}HTTP: the connection is closed",
     "HTTP: {end:ended}",
     "HTTP event {event}",
     "{eventId:present}HTTP event without a message",
     "{retry:present}HTTP event without a message",
     "HTTP status {status:status} for {method:text}",
     "HTTP status {status:status}",
     "HTTP {method:text}",
     "HTTP"),
)  # fmt: skip
_ENDED: Final = {
    "server": "the server has ended the event stream",
    "client": "the client has left the event stream",
    "broken": "the event stream broke off",
}
_IN_ENDS: Final[_Sentences] = (
    ("the client has closed its input, which asks the server to exit{eof:present}", "sends signal {signal}",
     "the server has exited with code {exit}"),
)  # fmt: skip
_IN_REQUESTS: Final[_Sentences] = (
    "gives up request {hangUp}: in this era nothing else says so, and the server stops",
    ("goes on with a stream, after event {headers.last-event-id}", "{method:purpose}"),
)
_IN_REPLIES: Final[_Sentences] = (
    "{status:meaning}",
    "says to wait {retry} ms before connecting again",
    "{event:endpoint}names the URI that messages are to be posted to",
)
_IN_HEADERS: Final[_Sentences] = (
    "event {eventId}",
    "revision {headers.mcp-protocol-version:text}",
    "session {headers.mcp-session-id:text}",
)

# -- authorization: what a client asks an authorization server, and the user (basic/authorization) ---------------------

_GRANTS: Final = {
    "authorization_code": "exchanges the code that the browser came back with for a token",
    "refresh_token": "asks for the next token with the refresh token",
    "client_credentials": "asks for a token for itself, without a user",
    "urn:ietf:params:oauth:grant-type:jwt-bearer": "asks for a token with a statement that somebody else has signed",
    "urn:ietf:params:oauth:grant-type:token-exchange": "exchanges the ID token of the user",
}
_OAUTH_TITLES: Final[_Sentences] = (
    ("HTTP status {status:status} for {what:text}", "{method:browser}", "HTTP {method:text} for {what:text}", "HTTP"),
)
_IN_OAUTH_REQUESTS: Final[_Sentences] = (
    "at {url:text}",
    "{oauth.grant_type:grant}",
    ("as the client {oauth.client_id}", "the client calls itself {oauth.client_name}"),
    "{oauth.response_type:present}the browser is to come back to {oauth.redirect_uri}",
    "the token is to be for the server {oauth.resource}",
    "asks for the scopes {oauth.scope}",
)
_IN_OAUTH_REPLIES: Final[_Sentences] = (
    "the server trusts the authorization server {oauth.authorization_servers:few}",
    "the server has the scopes {oauth.scopes_supported:few}",
    "it is the authorization server {oauth.issuer}",
    "the client is known there as {oauth.client_id}",
    ("a token of type {oauth.token_type}, which lasts {oauth.expires_in} s", "a token of type {oauth.token_type}"),
    "{oauth.token_type:present}it grants the scopes {oauth.scope}",
    "refuses: {oauth.error}",
)


def explain_exchange(http: JsonObject, about: str | None) -> tuple[str, list[str]]:
    """Return a title and sentences for what carries no message; `about`: the message that the exchange began with."""
    if "oauth" in http:
        (title,) = say(_OAUTH_TITLES, http)
        return title, list(say(_IN_OAUTH_REPLIES if "status" in http else _IN_OAUTH_REQUESTS, http))
    (title,) = say(_TITLES, http)
    if "end" in http:
        return title, []
    lines = [*say(_IN_REPLIES if "status" in http or "event" in http or "retry" in http else _IN_REQUESTS, http)]
    if "eventId" in http and "event" not in http:
        lines.append("gives the place in the stream to come back to")
    return f"{title}, {about}" if about and "status" in http and "eventId" not in http else title, lines


def explain_end(end: JsonObject) -> str:
    """Return a sentence on how a process ends."""
    return next(say(_IN_ENDS, end), "the process ends")


def explain_headers(http: JsonObject, *, beside: bool) -> Iterator[str]:
    """Yield one line with the session, the revision and the place in a stream; `beside` a message, also how that
    came.
    """
    parts = [*say((("status {status:status}", "{method:text}"),), http)] if beside else []
    parts += say(("{headers.content-type:text}",) if "status" in http else (), http)
    parts += say(_IN_HEADERS, http)
    headers = as_object(http.get("headers"))
    # Of an argument that a header repeats only the name: the body has the value, hidden where it is a secret.
    names = {name: "-".join(part.capitalize() for part in name.split("-")) for name in headers}
    repeated = [f"{names[name]} {quoted(headers[name])}" for name in names if name in ("mcp-method", "mcp-name")]
    repeated += [title for title in names.values() if title.startswith("Mcp-Param-")]
    if parts or repeated:
        yield f"HTTP: {', '.join(parts)}" + (f"; its headers repeat {', '.join(repeated)}" if repeated else "")
    if beside:
        yield from say(("HTTP: {status} says: {status:refusal}",), http)


# -- how sentences are put together -------------------------------------------------------------------------------


def say(sentences: _Sentences, about: Any) -> Iterator[str]:
    """Yield the sentences that can be said about a JSON value, in their order."""
    for each in sentences:
        for sentence in (each,) if isinstance(each, str) else each:
            try:
                said = _FORMATTER.vformat(sentence, (), about)
            except (KeyError, TypeError, ValueError, OverflowError):
                continue
            yield said
            break


class _Formatter(string.Formatter):
    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        value: Any = kwargs
        for step in field_name.split("."):
            value = value[step]
        return value, field_name

    def format_field(self, value: Any, format_spec: str) -> str:
        return _SHOWN[format_spec](value)


_FORMATTER: Final = _Formatter()


def quoted(value: Any) -> str:
    """Return a value in a sentence: strings in quotes, cut where they are long; nothing but a word for containers."""
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= _LONGEST else f'"{value[:_LONGEST]}..."'
    if isinstance(value, dict):
        return "an object"
    return "an array" if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)


def changes(wanted: Any) -> list[str]:
    """Return the changes that the filter of a subscription names."""
    wanted = as_object(wanted)
    lists = [name for name in ("tools", "prompts", "resources") if wanted.get(f"{name}ListChanged") is True]
    uris = wanted.get("resourceSubscriptions")
    return [f"changes of the list of {name}" for name in lists] + [
        f"changes of {quoted(uri)}" for uri in (uris if isinstance(uris, list) else ())
    ]


def _few(words: Iterable[Any]) -> str:
    shown = [str(word)[:_LONGEST] for word in words]
    return ", ".join(_some(shown)[:8]) + (", ..." if len(shown) > 8 else "")


def _some(value: Any) -> Any:
    """Return the value, unless it is empty."""
    if not value:
        raise ValueError
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _paths(capabilities: Any) -> str:
    """Return `{"tools": {"listChanged": true}, "logging": {}}` as "tools.listChanged, logging": two levels, as they
    have.
    """
    paths: list[str] = []
    for name, inner in as_object(capabilities).items():
        paths += [f"{name}.{key}" for key, on in as_object(inner).items() if on is not False] or [name]
    return ", ".join(_some(paths))


def _entries(entries: Any) -> str:
    """Return the names of the entries of a list; their URIs where they have no names."""
    rows = map(as_object, _list(entries))
    return _few([row.get("name", row.get("uri", "?")) for row in rows]) if entries else "nothing"


def _kinds(blocks: Any) -> str:
    """Return "text, image"; the contents of resources have no type, and say text or blob by their members."""
    rows: Iterable[JsonObject] = map(as_object, _list(blocks))
    rows = ({**row, **as_object(row.get("content"))} if "role" in row else row for row in rows)
    return _few([row.get("type", "blob" if "blob" in row else "text") for row in rows]) if blocks else "nothing"


_SHOWN: Final[dict[str, Callable[[Any], str]]] = {
    "": quoted,
    "text": str,
    "string": lambda value: quoted("" + value),
    "present": lambda value: "",
    "ended": lambda value: _ENDED[value],
    "true": lambda value: {True: ""}[value],
    "endpoint": lambda value: {"endpoint": ""}[value],
    "count": lambda value: str(len(_list(value))),
    "few": lambda value: _few(_list(value)),
    "names": lambda value: _few(_some(as_object(value))),
    "entries": _entries,
    "kinds": _kinds,
    "changes": lambda value: _few(changes(value)),
    "paths": _paths,
    "declared": lambda value: f"the capabilities {_paths(value)}" if value else "no capabilities",
    "implementation": lambda value: f"{quoted(value['name'])} {quoted(value.get('version', '?'))}",
    "revision": lambda value: value if value in REVISIONS else f"{quoted(value)} (not a known revision)",
    "seconds": lambda value: f"{_some(max(value, 0)) / 1000:g} s",
    "whose": lambda value: {"public": "; anybody may be given it", "private": ", for this user alone"}[value],
    "purpose": lambda value: _PURPOSES[value],
    "status": lambda value: f"{value} {HTTPStatus(value).phrase}" if value in set(HTTPStatus) else quoted(value),
    "meaning": lambda value: _STATUSES[value],
    "refusal": lambda value: _STATUSES[value if value >= 400 else 0],
    "browser": lambda value: {"browser": "the user is sent to the authorization server"}[value],
    "grant": lambda value: _GRANTS[value],
}
