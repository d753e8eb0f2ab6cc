"""What HTTP has beside a message, in words: the request, the status, the event of a stream.

Spec:      basic/transports#streamable-http; basic/transports/streamable-http#request-metadata (2026-07-28);
           RFC 9110 for what a status means
Not here:  what is noted (basic/transports/streamable_http), and hidden (trace/redact)

Each function takes the `http` of an event as it came, which may be anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any, Final

from mcp_ref.messages import JsonObject
from mcp_ref.revisions import REVISIONS

_METHODS: Final = {
    "GET": "asks for an event stream, for what belongs to no request of the client",
    "DELETE": "ends the session",
}
_STATUSES: Final = {
    202: "accepted, and not answered here",
    400: "refused as it stands: what the body or the headers say is wrong",
    401: "the client has to authorize first",
    403: "not allowed: the Host, the Origin or the credentials are refused",
    404: "nothing here by that name: where the request named a session, it is over, and another has to be opened",
    405: "not offered: to a GET, that there is no event stream",
    406: "the client does not accept what is answered here",
    413: "the body is too long",
    415: "the body is of another type than JSON",
    429: "this client has too much open",
    503: "there is no room for more now",
}


def title(http: JsonObject) -> str:
    """A few words for what carries no message."""
    if "hangUp" in http:
        return "HTTP: the connection is closed"
    if "event" in http:
        return f"HTTP event {quoted(http['event'])}"
    if "eventId" in http or "retry" in http:
        return "HTTP event without a message"
    if "status" in http:
        return f"HTTP status {_status(http['status'])}" + (f" for {http['method']}" if "method" in http else "")
    return f"HTTP {http.get('method')}"


def failed(http: JsonObject) -> bool:
    """Whether the status refuses."""
    return isinstance(http.get("status"), int) and http["status"] >= 400


def explain_exchange(http: JsonObject) -> Iterator[str]:
    """What it is for, where there is no message that says so."""
    status = http.get("status")
    if "hangUp" in http:
        yield f"gives up request {quoted(http['hangUp'])}: in this era nothing else says so, and the server stops"
    if status is None and "last-event-id" in _headers(http):
        yield f"goes on with a stream, after event {quoted(_headers(http)['last-event-id'])}"
    elif status is None and http.get("method") in _METHODS:
        yield _METHODS[http["method"]]
    elif isinstance(status, int) and status in _STATUSES:
        yield _STATUSES[status]
    if http.get("event") == "endpoint":
        yield "names the URI that messages are to be posted to"
    if "eventId" in http and "event" not in http:
        yield "gives the place in the stream to come back to"
    if "retry" in http:
        yield f"says to wait {quoted(http['retry'])} ms before connecting again"


def explain_headers(http: JsonObject, *, beside: bool = True) -> Iterator[str]:
    """One line, or none: the session, the revision, the place in a stream; `beside` a message, how it came.

    Another one for a status that says something of the error beside it.
    """
    headers = _headers(http)
    status = http.get("status")
    parts = [str(http.get("method", "")) if status is None else f"status {_status(status)}"] if beside else []
    parts += [str(headers["content-type"])] if status is not None and "content-type" in headers else []
    parts += [f"event {quoted(http['eventId'])}"] if "eventId" in http else []
    parts += [f"revision {headers['mcp-protocol-version']}"] if "mcp-protocol-version" in headers else []
    parts += [f"session {headers['mcp-session-id']}"] if "mcp-session-id" in headers else []
    repeated = [_repeated(name, value) for name, value in headers.items() if str(name).startswith(_REPEATING)]
    if any(parts) or repeated:
        again = f"; its headers repeat {', '.join(repeated)}" if repeated else ""
        yield f"HTTP: {', '.join(filter(None, parts))}{again}"
    if beside and isinstance(status, int) and status in _BESIDE:
        yield f"HTTP: {status} says: {_BESIDE[status]}"


_REPEATING: Final = ("mcp-method", "mcp-name", "mcp-param-")
_BESIDE: Final = {
    400: "the request is wrong as it was sent",
    404: "there is no such method, or no such session",
}


def _repeated(name: str, value: Any) -> str:
    """A header that repeats a member of the body; of an argument only its name."""
    name = "-".join(part.capitalize() for part in name.split("-"))
    return name if name.startswith("Mcp-Param-") else f"{name} {quoted(value)}"


def _status(status: Any) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return quoted(status)


def _headers(http: JsonObject) -> JsonObject:
    headers = http.get("headers")
    return headers if isinstance(headers, dict) else {}


# -- explain ---------------------------------------------------------------------------------------------


Sentences = Iterator[str]

_SHOWN: Final = 60

CODES: Final[dict[int, str]] = {
    -32700: "parse error: what arrived is not JSON",
    -32600: "invalid request: not a message that is allowed here",
    -32601: "method not found: unknown in this revision, or its capability was not declared",
    -32602: "invalid params: the parameters do not fit",
    -32603: "internal error: the receiver failed",
    -32002: "resource not found (the code of the session era)",
    -32042: "a URL elicitation has to be done first (2025-11-25 only)",
    -32020: "header mismatch: HTTP headers and body disagree, or a header is missing (from 2026-07-28)",
    -32021: "a capability is missing that the request needs and its client did not declare (from 2026-07-28)",
    -32022: "the protocol version is not supported (from 2026-07-28)",
    -1: "the user said no",
}


def error_meaning(code: Any) -> str:
    """What an error code means, whatever the message beside it says."""
    if type(code) is not int:
        return "an error needs an integer code"
    if code in CODES:
        return CODES[code]
    if -32768 <= code <= -32000:
        return "a code from the range that JSON-RPC reserves; the specification gives it no meaning"
    return "a code of the peer's own"


def explain_error(error: Any) -> Sentences:
    """What an error says: its code, its message, and the data of those codes that have data of their own."""
    body = _object(error)
    code, data = body.get("code"), _object(body.get("data"))
    yield f"{quoted(code)}, {error_meaning(code)}; it says {quoted(body.get('message'))}"
    if code == -32022 and isinstance(data.get("supported"), list):
        asked = f"asked for {quoted(data['requested'])}; " if "requested" in data else ""
        yield f"{asked}the server speaks {_few([str(name)[:_SHOWN] for name in data['supported']])}"
    elif code == -32021 and "requiredCapabilities" in data:
        yield f"needed: {', '.join(_capabilities(_object(data['requiredCapabilities']), ''))}"


def quoted(value: Any) -> str:
    """A value in a sentence: strings in quotes, cut where they are long; nothing but a word for containers."""
    if isinstance(value, str):
        return f'"{value}"' if len(value) <= _SHOWN else f'"{value[:_SHOWN]}..."'
    if isinstance(value, dict):
        return "an object"
    return "an array" if isinstance(value, list) else str(value).lower() if isinstance(value, bool) else str(value)


def explain_params(method: str, params: Any) -> Sentences:
    """What the parameters of a request or a notification say."""
    if not isinstance(params, dict):
        return
    yield from _PARAMS.get(method, _subject)(params)
    if "cursor" in params:
        yield f"goes on with the page that cursor {quoted(params['cursor'])} stands for"
    meta = _object(params.get("_meta"))
    if "progressToken" in meta:
        yield f"asks for progress, to be reported under token {quoted(meta['progressToken'])}"


def explain_result(method: str | None, result: Any, params: Any) -> Sentences:
    """What a result says; `method` and `params` of the request that it answers, None where they are not known."""
    result = _object(result)
    yield from _RESULTS.get(method or "", _contents)(result, _object(params))
    if result.get("nextCursor") is not None:
        yield f"there is more: nextCursor {quoted(result['nextCursor'])} goes back as cursor"
    if "ttlMs" in result or "cacheScope" in result:
        yield _hint(result)


def _hint(result: JsonObject) -> str:
    """How long a result may be kept, and by whom (2026-07-28/server/utilities/caching)."""
    milliseconds, scope = result.get("ttlMs"), result.get("cacheScope")
    whose = {"public": "; anybody may be given it", "private": ", for this user alone"}.get(str(scope), "")
    if not isinstance(milliseconds, (int, float)) or milliseconds <= 0:
        return f"ttlMs {quoted(milliseconds)}: to be asked for anew each time"
    return f"may be kept for {milliseconds / 1000:g} s (ttlMs){whose}"


# -- lifecycle ----------------------------------------------------------------------------------------------------


def _initialize(params: JsonObject) -> Sentences:
    yield f"asks for revision {_revision(params.get('protocolVersion'))}"
    yield f"the client is {implementation(params.get('clientInfo'))} and declares {declared(params)}"


def _initialized(result: JsonObject, params: JsonObject) -> Sentences:
    asked, got = params.get("protocolVersion"), result.get("protocolVersion")
    if asked == got:
        yield f"agrees: revision {_revision(got)}"
    else:
        yield f"asked for {_revision(asked)}, got {_revision(got)}: the client goes on with that one or disconnects"
    yield f"the server is {implementation(result.get('serverInfo'))} and declares {declared(result)}"
    if "instructions" in result:
        yield f"gives instructions for the model: {quoted(result['instructions'])}"


def _revision(name: Any) -> str:
    return str(name) if isinstance(name, str) and name in REVISIONS else f"{quoted(name)} (none that is known)"


def implementation(value: Any) -> str:
    about = _object(value)
    return f"{quoted(about.get('name', 'nobody'))} {quoted(about.get('version', '?'))}"


def declared(holder: JsonObject) -> str:
    paths = list(_capabilities(_object(holder.get("capabilities")), ""))
    return f"the capabilities {', '.join(paths)}" if paths else "no capabilities"


def _capabilities(value: JsonObject, prefix: str) -> Iterator[str]:
    """`{"tools": {"listChanged": true}, "logging": {}}` as "tools.listChanged", "logging"; two levels, as they have."""
    for name, inner in value.items():
        members = [f"{prefix}{name}.{key}" for key, on in _object(inner).items() if on is not False]
        yield from members or [f"{prefix}{name}"]


def _discovered(result: JsonObject, params: JsonObject) -> Sentences:
    versions = result.get("supportedVersions")
    names = [str(name)[:_SHOWN] for name in versions] if isinstance(versions, list) else []
    yield f"speaks {_few(names) or 'nothing'}; nothing is agreed on: each request says its own"
    yield f"declares {declared(result)}"
    if "instructions" in result:
        yield f"gives instructions for the model: {quoted(result['instructions'])}"


# -- subscriptions (2026-07-28) -----------------------------------------------------------------------------------


def listened(params: Any) -> Iterator[str]:
    """What a filter asks to be told of, or grants, in words."""
    wanted = _object(_object(params).get("notifications"))
    for flag, words in _CHANGES.items():
        if wanted.get(flag) is True:
            yield words
    uris = wanted.get("resourceSubscriptions")
    yield from (f"changes of {quoted(uri)}" for uri in uris or ()) if isinstance(uris, list) else ()


_CHANGES: Final = {
    "toolsListChanged": "changes of the list of tools",
    "promptsListChanged": "changes of the list of prompts",
    "resourcesListChanged": "changes of the list of resources",
}


def _listen(params: JsonObject) -> Sentences:
    yield f"to be told: {_few([*listened(params)]) or 'nothing'}"


def _acknowledged(params: JsonObject) -> Sentences:
    yield f"will be told: {_few([*listened(params)]) or 'nothing'}"


def _ended(result: JsonObject, params: JsonObject) -> Sentences:
    yield "the server has ended the subscription; nothing more is told"


# -- features: parameters -----------------------------------------------------------------------------------------


def _subject(params: JsonObject) -> Sentences:
    """Whatever has one member that names what it is about."""
    for member in ("name", "uri", "level"):
        if member in params:
            yield f"{member}: {quoted(params[member])}"


def _call(params: JsonObject) -> Sentences:
    given = _object(params.get("arguments"))
    yield f"tool {quoted(params.get('name'))}, " + (f"arguments: {_names(given)}" if given else "no arguments")


def _complete(params: JsonObject) -> Sentences:
    ref, argument = _object(params.get("ref")), _object(params.get("argument"))
    what = quoted(ref.get("name", ref.get("uri")))
    yield f"how may {quoted(argument.get('value'))} go on, as {quoted(argument.get('name'))} of {what}?"


def _log(params: JsonObject) -> Sentences:
    logger = f" from {quoted(params['logger'])}" if "logger" in params else ""
    yield f"{quoted(params.get('level'))}{logger}: {quoted(params.get('data'))}"


def _sample(params: JsonObject) -> Sentences:
    count = _length(params.get("messages"))
    yield f"{_number(count, 'message')} for the client's model, at most {quoted(params.get('maxTokens'))} tokens back"
    if params.get("tools"):
        yield f"the model may use the tools {_named(params['tools'])}"


def _elicit(params: JsonObject) -> Sentences:
    yield f"asks the user: {quoted(params.get('message'))}"
    if "url" in params:
        yield f"URL mode: to be opened only with the user's consent: {quoted(params['url'])}"
    else:
        yield f"a form with: {_names(_object(params.get('requestedSchema')).get('properties'))}"


# -- features: results --------------------------------------------------------------------------------------------


def _contents(result: JsonObject, params: JsonObject) -> Sentences:
    """Whatever holds content: results of tools, contents of resources, messages of prompts."""
    if not result.keys() - {"resultType", "_meta"}:
        yield "an empty result: done"
    if result.get("isError") is True:
        yield "isError: the tool failed; that is a result for the model to read, not a protocol error"
    for member in ("content", "contents", "messages"):
        if isinstance(result.get(member), list):
            yield f"{member}: {_kinds(result[member])}"
    if "structuredContent" in result:
        yield "structuredContent: the same as JSON, fit for the tool's outputSchema"


def _list_of(member: str) -> Callable[[JsonObject, JsonObject], Sentences]:
    def explain(result: JsonObject, params: JsonObject) -> Sentences:
        entries = result.get(member)
        yield f"{member} ({_length(entries)}): {_named(entries)}"

    return explain


def _completed(result: JsonObject, params: JsonObject) -> Sentences:
    completion = _object(result.get("completion"))
    total = f" of {quoted(completion['total'])}" if "total" in completion else ""
    more = ", and there are more" if completion.get("hasMore") is True else ""
    yield f"{_number(_length(completion.get('values')), 'value')}{total}{more}"


def _sampled(result: JsonObject, params: JsonObject) -> Sentences:
    yield f"written by {quoted(result.get('model'))}, which stopped for {quoted(result.get('stopReason', 'no reason'))}"


def _elicited(result: JsonObject, params: JsonObject) -> Sentences:
    given = _object(result.get("content"))
    yield f"the user's action: {quoted(result.get('action'))}" + (f", with {_names(given)}" if given else "")


_PARAMS: Final[dict[str, Callable[[JsonObject], Sentences]]] = {
    "initialize": _initialize,
    "subscriptions/listen": _listen,
    "notifications/subscriptions/acknowledged": _acknowledged,
    "tools/call": _call,
    "completion/complete": _complete,
    "notifications/message": _log,
    "sampling/createMessage": _sample,
    "elicitation/create": _elicit,
}

_RESULTS: Final[dict[str, Callable[[JsonObject, JsonObject], Sentences]]] = {
    "initialize": _initialized,
    "server/discover": _discovered,
    "subscriptions/listen": _ended,
    "tools/list": _list_of("tools"),
    "resources/list": _list_of("resources"),
    "resources/templates/list": _list_of("resourceTemplates"),
    "prompts/list": _list_of("prompts"),
    "roots/list": _list_of("roots"),
    "completion/complete": _completed,
    "sampling/createMessage": _sampled,
    "elicitation/create": _elicited,
}


# -- words --------------------------------------------------------------------------------------------------------


def _object(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _few(words: list[str]) -> str:
    return ", ".join(words[:8]) + (", ..." if len(words) > 8 else "")


def _names(value: Any) -> str:
    return _few([str(name)[:_SHOWN] for name in _object(value)]) or "nothing"


def _named(entries: Any) -> str:
    """The names of the entries of a list; their URIs where they have no names."""
    rows = [_object(entry) for entry in entries] if isinstance(entries, list) else []
    return _few([str(row.get("name", row.get("uri", "?")))[:_SHOWN] for row in rows]) or "nothing"


def _kinds(blocks: list[Any]) -> str:
    """ "text, text, image"; the contents of resources have no type, and say text or blob by their members."""
    rows = [_object(block) for block in blocks]
    rows = [{**row, **_object(row.get("content"))} if "role" in row else row for row in rows]
    return _few([str(row.get("type", "blob" if "blob" in row else "text"))[:_SHOWN] for row in rows]) or "nothing"
