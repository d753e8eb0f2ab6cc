"""HTTP: methods, statuses, headers, event streams, sessions; the headers that repeat a message; the end of a process.

Spec:      basic/transports (2024-11-05 ... 2025-11-25), basic/transports/streamable-http and stdio (2026-07-28)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from mcp_ref import REVISIONS
from mcp_ref.facts import NAMED, decode_value, messages
from mcp_ref.lab.judge.rules.seen import FRAME, ORDER, Exchange, Link, Said, Verdict, as_object, rule, shown
from mcp_ref.lab.words import PROTOCOL_VERSION
from mcp_ref.recording.record import TraceEvent

_CLOCKS = 50.0  # milliseconds by which a wait may look shorter than it was

# -- requests -----------------------------------------------------------------------------------------------------


@rule("head", stage=FRAME)
def messages_are_posted(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    return "POST" if event.message is not None and exchange.method != "POST" else None


@rule("head", stage=FRAME)
def post_has_a_message_or_a_batch(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    batch = event.message
    if not isinstance(batch, list):
        return None
    responses = ["method" not in as_object(each) for each in batch]
    if not batch or any(responses) and not all(responses):
        return "an array of requests and notifications, or of responses"
    return None


@rule("head", stage=FRAME)
def post_has_one_message(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    return "one message, not an array" if isinstance(event.message, list) else None


def _accepts(exchange: Exchange, *kinds: str) -> bool:
    accepted = {part.partition(";")[0].strip().lower() for part in exchange.headers.get("accept", "").split(",")}
    return all(accepted & {kind, kind.partition("/")[0] + "/*", "*/*"} for kind in kinds)


@rule("head")
def post_accepts_json_and_streams(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    if exchange.method != "POST" or event.message is None:
        return None
    fits = _accepts(exchange, "application/json", "text/event-stream")
    return None if fits else "Accept: application/json, text/event-stream"


@rule("head")
def get_accepts_streams(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    misses = exchange.method == "GET" and not _accepts(exchange, "text/event-stream")
    return "Accept: text/event-stream" if misses else None


@rule("head")
def session_id_is_sent(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    if link.session_id is None or not link.introduced or _initializes(event):
        return None
    return "Mcp-Session-Id as the server gave it" if exchange.header("mcp-session-id") is None else None


@rule("head")
def new_session_after_404(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    named = exchange.header("mcp-session-id")
    again = link.gone is not None and named == link.gone and exchange.method == "POST"
    return "initialize, without a session id: this session was answered with 404" if again else None


@rule("reply")
def sessions_that_ended_are_404(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    over = exchange.header("mcp-session-id") == link.over[0] and exchange.seq > link.over[1]
    return "404: this session has ended" if over and exchange.status in (200, 202, 400) else None


@rule("head")
def version_header_is_sent(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    if link.revision is None or _initializes(event):
        return None
    return f"MCP-Protocol-Version: {link.revision}" if exchange.header("mcp-protocol-version") is None else None


@rule("head")
def version_header_is_the_one_agreed(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    sent = exchange.header("mcp-protocol-version")
    if link.revision is None or sent in (None, link.revision.name) or _initializes(event):
        return None
    return f"MCP-Protocol-Version: {link.revision}" if link.session_id == exchange.header("mcp-session-id") else None


def _initializes(event: TraceEvent) -> bool:
    return as_object(event.message).get("method") == "initialize"


# -- headers that repeat the message ------------------------------------------------------------------------------


def _body(exchange: Exchange) -> Said | None:
    body = exchange.body
    return body if exchange.method == "POST" and body is not None and body.sender == "client" and body.method else None


@rule("head", stage=ORDER)
def post_names_the_version(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    body = _body(exchange)
    if body is None or exchange.header("mcp-protocol-version") is not None:
        return None
    return f"MCP-Protocol-Version: {body.meta.get(PROTOCOL_VERSION, body.revision)}"


@rule("head", stage=ORDER)
def version_header_matches(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    body, sent = _body(exchange), exchange.header("mcp-protocol-version")
    said = None if body is None else body.meta.get(PROTOCOL_VERSION)
    return f"MCP-Protocol-Version: {said}, as in _meta" if said is not None and sent not in (None, said) else None


@rule("head", stage=ORDER)
def method_header_matches(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    body = _body(exchange)
    return None if body is None or exchange.header("mcp-method") == body.method else f"Mcp-Method: {body.method}"


@rule("head", stage=ORDER)
def name_header_matches(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    body, sent = _body(exchange), exchange.header("mcp-name")
    if body is None or body.method not in NAMED or not isinstance(name := body.params.get(NAMED[body.method]), str):
        return None
    shown(sent)
    if sent is not None and (_unsafe(sent) or _decoded(sent) is None):
        return None
    return None if sent is not None and _decoded(sent) == name else f"Mcp-Name for {name!r}"


@rule("head", stage=ORDER)
def name_header_is_encoded(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    sent = exchange.header("mcp-name")
    return None if sent is None or not _unsafe(shown(sent)) else "=?base64?...?= for what is not plain ASCII"


def _unsafe(value: str) -> bool:
    """Return whether a header holds what it cannot hold safely."""
    return value != value.strip() or not all(" " <= char <= "~" for char in value)


def _decoded(value: str) -> str | None:
    try:
        return decode_value(value)
    except ValueError:
        return None


def _mirrored(link: Link, exchange: Exchange) -> Iterator[tuple[str, Any, bool, str | None]]:
    """Yield each argument that a header repeats: the header's name, the value, whether it is there, what was sent."""
    body = exchange.body
    for part, path in body.mirrored.items() if body is not None else ():
        value: Any = body.params.get("arguments") if body is not None else None
        there = True
        for name in path:
            there = isinstance(value, dict) and name in value
            value = value[name] if there else None
        sent = exchange.header(f"mcp-param-{part.lower()}")
        shown(sent)
        yield f"Mcp-Param-{part}", value, there, sent


_Mirrored = Callable[[Any, bool, str | None], bool]  # of a value, whether it is there, and its header


def _mirroring(expected: str, wrong: _Mirrored, link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    found = (name for name, value, there, sent in _mirrored(link, exchange) if wrong(value, there, sent))
    return next((expected.format(name) for name in found), None)


def _mismatch(value: Any, there: bool, sent: str | None) -> bool:
    if sent is None or _unsafe(sent) or value is None or not _safe(value) or value == sent or _fits(value, sent):
        return False
    return not re.match(r"=\?base64\?", sent, re.I) or sent.startswith("=?base64?")


_MIRRORS: dict[str, tuple[str, _Mirrored]] = {
    "arguments_are_mirrored": (
        "{}, since the tool's inputSchema asks for it",
        lambda value, there, sent: isinstance(value, str | int | float) and sent is None and _safe(value),
    ),
    "null_is_not_mirrored": (
        "no {}: the argument is null", lambda value, there, sent: there and value is None and sent is not None
    ),
    "missing_arguments_are_not_mirrored": (
        "no {}: the call has no such argument", lambda value, there, sent: not there and sent is not None
    ),
    "mirrored_integers_are_safe": (
        "an integer within -(2**53 - 1) and 2**53 - 1 for {}",
        lambda value, there, sent: sent is not None and not _safe(value),
    ),
    "mirrored_values_are_encoded": (
        "=?base64?...?= in {}, for what is not plain ASCII",
        lambda value, there, sent: sent is not None and _unsafe(sent),
    ),
    "what_looks_encoded_is_encoded": (
        "=?base64?...?= in {}, around a value that looks like it",
        lambda value, there, sent: value == sent is not None and bool(re.fullmatch(r"=\?base64\?.*\?=", sent)),
    ),
    "base64_marker_is_lower_case": (
        "=?base64? in {}, in lower case",
        lambda value, there, sent: sent not in (None, value)
        and bool(re.match(r"=\?(?!base64)(?i:base64)\?", str(sent))),
    ),
    "mirrored_values_match": ("{} as it stands in the arguments", _mismatch),
}  # fmt: skip
for _name, _row in _MIRRORS.items():
    rule("head", "tools/call", name=_name)(partial(_mirroring, *_row))


def _safe(value: Any) -> bool:
    return not isinstance(value, int | float) or abs(value) <= 2**53 - 1


def _fits(value: Any, sent: str) -> bool:
    text = _decoded(sent)
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        try:
            return text is not None and bool(float(text) == value)
        except ValueError:
            return False
    return bool(text == value)


_MISMATCHES = {
    "other_versions_are_a_mismatch": {"version_header_matches"},
    "other_headers_are_a_mismatch": {"method_header_matches", "name_header_matches", "post_names_the_version"},
    "missing_arguments_are_a_mismatch": {"arguments_are_mirrored"},
    "other_arguments_are_a_mismatch": {"mirrored_values_match"},
    "invalid_characters_are_a_mismatch": {"mirrored_values_are_encoded", "base64_marker_is_lower_case"},
}
"""The rules for whose breach a request is refused as a mismatch."""


def _is_a_mismatch(rules: set[str], link: Link, said: Said) -> Verdict:
    broken = said.asked.faults & rules
    refused = said.code == -32020 and _status(said) == 400
    return "400, and error -32020 (HeaderMismatch)" if broken and not refused else None


for _name, _rules in _MISMATCHES.items():
    rule("rejection", name=_name)(partial(_is_a_mismatch, _rules))


def _wrongly_refused(link: Link, said: Said) -> list[tuple[Any, str]] | None:
    """Return the headers of a request that was refused as a mismatch, though they match; None if it was not."""
    request, exchange = said.asked, said.asked.exchange
    if said.code != -32020 or exchange is None or request.faults or exchange.faults:
        return None
    if request.method == "tools/call" and request.tool is None:
        return None
    values = [(value, sent) for _, value, _, sent in _mirrored(link, exchange) if sent is not None]
    name = exchange.header("mcp-name")
    return values + ([(request.params.get(NAMED[request.method]), name)] if name and request.method in NAMED else [])


@rule("error")
def encoded_names_are_decoded(link: Link, said: Said) -> Verdict:
    values = _wrongly_refused(link, said)
    return "a result: the value was encoded" if values and any(s.startswith("=?base64?") for _, s in values) else None


@rule("error")
def integers_are_compared_as_numbers(link: Link, said: Said) -> Verdict:
    values = _wrongly_refused(link, said) or ()
    other = any(isinstance(value, int | float) and sent != str(value).lower() for value, sent in values)
    return "a result: the numbers are equal" if other else None


# -- replies ------------------------------------------------------------------------------------------------------


@rule("reply")
def accepted_is_202(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    body = exchange.body
    carried = body is not None and exchange.method == "POST" and not exchange.requests and not exchange.answered
    if not carried or (body and body.faults) or exchange.status is None or not 200 <= exchange.status < 300:
        return None
    return None if exchange.status == 202 and event.message is None else "202, without a body"


@rule("reply")
def requests_are_answered_with_json_or_a_stream(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    if not exchange.requests or exchange.status is None or not 200 <= exchange.status < 300:
        return None
    kind = exchange.answers.get("content-type", "").partition(";")[0].strip().lower()
    return None if kind in ("application/json", "text/event-stream") else "application/json or text/event-stream"


@rule("reply")
def get_is_answered_with_a_stream_or_405(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    if exchange.method != "GET" or exchange.status is None or not 200 <= exchange.status < 300 or exchange.streams:
        return None
    return "text/event-stream, or 405"


@rule("reply")
def session_id_is_visible_ascii(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    given = exchange.answers.get("mcp-session-id")
    return None if given is None or re.fullmatch(r"[!-~]+", shown(given)) else "visible ASCII"


@rule("rebuff")
def unknown_version_headers_are_refused(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    sent = exchange.header("mcp-protocol-version")
    unknown = sent is not None and sent not in REVISIONS and exchange.status is not None and exchange.status < 300
    return "400" if unknown else None


@rule("reply")
def streams_are_not_buffered(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    return "X-Accel-Buffering: no" if exchange.streams and exchange.answers.get("x-accel-buffering") != "no" else None


def _status(said: Said) -> int | None:
    return None if said.exchange is None else said.exchange.status


@rule("rejection")
def incomplete_requests_are_400(link: Link, said: Said) -> Verdict:
    broken = "requests_say_what_they_are" in said.asked.faults
    return "400" if broken and said.code == -32602 and _status(said) not in (None, 400) else None


def _is_400(code: int, streamed: bool, link: Link, said: Said) -> Verdict:
    """Judge the status of an error. streamed: it also counts on an event stream, which has begun with 200."""
    wrong = said.code == code and _status(said) not in (None, 400) and (streamed or not _streamed(said))
    return "400" if wrong else None


rule("error", name="missing_capabilities_are_400")(partial(_is_400, -32021, False))
rule("error", name="unsupported_versions_are_400")(partial(_is_400, -32022, True))
rule("error", name="mismatches_are_400")(partial(_is_400, -32020, True))


@rule("error")
def unknown_methods_are_404(link: Link, said: Said) -> Verdict:
    unknown = said.code == -32601 and not _streamed(said) and said.request
    return "404" if unknown and _status(said) not in (None, 404) else None


def _streamed(said: Said) -> bool:
    return said.exchange is not None and said.exchange.streams


# -- event streams ------------------------------------------------------------------------------------------------


@rule("event")
def first_event_names_the_endpoint(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    # Any transport may be meant until a client posts, or the event comes after all.
    meant = exchange.method == "GET" and (link.sse or link.offered is None)
    late = as_object(event.http).get("event") == "endpoint" and exchange.events > 0
    first = event.message is not None and exchange.events == 0 and not exchange.primed
    return "an event of type endpoint, with the URI to post to" if meant and (first or late) else None


@rule("event")
def streams_are_primed(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    first = exchange.method == "POST" and exchange.events == 0 and event.message is not None and not exchange.primed
    # A server without event ids cannot: nothing of it can be resumed.
    first = first and bool(link.event_ids or "eventId" in as_object(event.http))
    # Nor does it to who names a revision without these events, or none: its client may not know them.
    first = first and not exchange.faults and exchange.header("mcp-protocol-version") in (None, str(link.revision))
    return "an event with an id and empty data before it" if first else None


@rule("event", stage=ORDER)
def no_responses_on_the_standing_stream(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    answers = isinstance(event.message, dict) and "method" not in event.message
    alone = exchange.method == "GET" and exchange.header("last-event-id") is None
    return "the response on the stream of its request" if answers and alone else None


@rule("event")
def messages_go_on_one_stream(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    message = as_object(event.message)
    # Two notifications may well be equal: only what has an id is one message.
    if "id" not in message or exchange.header("last-event-id") is not None:
        return None
    before = link.delivered.get(messages.encode(message))
    return None if before in (None, exchange.number) else "each message on one stream"


@rule("event")
def event_ids_are_unique(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    named = as_object(event.http).get("eventId")
    before = link.event_ids.get(str(named)) if named is not None else None
    again = exchange.header("last-event-id") is not None or before == (exchange.number, event.message)
    # An event without an id is recorded with the one before it, which is still in force.
    if before is None or again or named == exchange.last_event:
        return None
    return f"an id of its own: {named!r} was that of another event"


@rule("event")
def streams_replay_their_own(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    named, after = as_object(event.http).get("eventId"), exchange.header("last-event-id")
    first, again = link.event_ids.get(str(after)), link.event_ids.get(str(named))
    if first is None or again is None or first[0] == again[0] or again[1] is None:
        return None
    return f"messages of the stream that {after!r} belongs to"


@rule("event")
def the_response_ends_the_stream(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    over = exchange.method == "POST" and exchange.answered and not exchange.requests and event.message is not None
    return "nothing after the response" if over else None


def _is_cut(link: Link, exchange: Exchange) -> bool:
    """Return whether the server has ended the stream of a POST before a response that the client still waits for."""
    asked = [link.asked.get(("client", *each)) for each in exchange.requests]
    waits = any(request is not None and not request.cancelled for request in asked)
    return waits and exchange.method == "POST" and exchange.streams and exchange.closed == "server"


@rule("closed")
def streams_end_with_the_response(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    return "the response before the end of the stream" if _is_cut(link, exchange) else None


@rule("closed")
def retry_comes_before_the_end(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    return "an event with retry" if exchange.retry is None and _is_cut(link, exchange) else None


@rule("head")
def retry_is_waited_for(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    named = link.event_ids.get(str(exchange.header("last-event-id")))
    cut = None if named is None else link.exchanges.get(named[0])
    if cut is None or not isinstance(cut.retry, int) or cut.ended is None or cut.closed == "client":
        return None
    waited = (exchange.time - cut.ended) * 1000
    return f"a wait of {cut.retry} ms, not {waited:.0f}" if waited < cut.retry - _CLOCKS else None


@rule("closed")
def subscriptions_end_with_a_result(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    listens = exchange.body is not None and exchange.body.method == "subscriptions/listen"
    return "a result for subscriptions/listen" if listens and _is_cut(link, exchange) else None


# -- processes ----------------------------------------------------------------------------------------------------


@rule("exit")
def input_is_closed_before_signals(link: Link, event: TraceEvent) -> Verdict:
    return None if link.closed else "the end of its input first"
