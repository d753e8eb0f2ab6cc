"""Hints, shown on request only: what time, taste or a race decides, so that it may be right where it looks wrong.

Spec:      the sections on security of the pages, cancellation, basic/index#_meta
"""

from __future__ import annotations

from mcp_ref import JsonObject
from mcp_ref.lab.judge.rules.features import of_each_tool, question
from mcp_ref.lab.judge.rules.seen import OTHER, Exchange, Link, Said, Verdict, as_object, rule, shown
from mcp_ref.lab.words import CLIENT_INFO
from mcp_ref.recording.record import TraceEvent
from mcp_ref.recording.redact import is_secret


@rule("request", sender="client")
def clients_name_themselves(link: Link, said: Said) -> Verdict:
    return None if CLIENT_INFO in said.meta else f"{CLIENT_INFO} in _meta"


@rule("result")
def cancelled_requests_get_no_result(link: Link, said: Said) -> Verdict:
    given_up = said.asked.cancelled and said.about not in ("subscriptions/listen", "initialize")
    return "nothing: the request was cancelled before" if given_up else None


@question("elicitation/create", "asked_forms_ask_for_no_secrets", sender="server")
def forms_ask_for_no_secrets(params: JsonObject, link: Link, said: Said) -> Verdict:
    fields = as_object(as_object(params.get("requestedSchema")).get("properties"))
    secret = next((name for name in fields if is_secret(name)), None)
    return None if secret is None else f"no {secret!r} in a form: a secret belongs on a page of yours (URL mode)"


@of_each_tool()
def secrets_are_not_mirrored(tool: JsonObject) -> str | None:
    fields = as_object(as_object(tool.get("inputSchema")).get("properties"))
    secret = next((name for name in fields if "x-mcp-header" in as_object(fields[name]) and is_secret(name)), None)
    return secret and f"no x-mcp-header at {secret!r} of {tool.get('name')!r}: headers are seen on the way"


@rule("end")
def requests_are_answered(link: Link, event: TraceEvent) -> Verdict:
    waiting = [each for each in link.asked.values() if not (each.answered or each.cancelled or each.faults)]
    request = next((each for each in waiting if each.method != "subscriptions/listen"), None)
    if link.lost or request is None:
        return None
    missing = Said(OTHER[request.sender], request.message, request.event, None)
    missing.belongs(None, request.revision)
    return missing, f"a response to the request {request.id!r}, before the end of the trace"


@rule("reply")
def session_ids_cannot_be_guessed(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    given = exchange.answers.get("mcp-session-id")
    if given is None or len(shown(given)) >= 16 and not given.isdigit():
        return None
    return "an id that is long and random, such as a UUID"
