"""Rules for every message: text, frame, id, `_meta`; cancellation, progress and ping, in both eras.

Spec:      basic/index, basic/messages (2024-11-05), basic/utilities and basic/patterns, basic/transports/stdio
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from mcp_ref.facts import is_meta_key, messages
from mcp_ref.lab.judge.rules.seen import FRAME, ORDER, OTHER, SHAPE, Link, Role, Said, Verdict, as_object, key, rule
from mcp_ref.lab.words import ENDED
from mcp_ref.recording.record import TraceEvent

# -- text ---------------------------------------------------------------------------------------------------------


@rule("text", stage=FRAME)
def utf8(link: Link, sender: Role, event: TraceEvent) -> Verdict:
    try:
        _bytes(event).decode("utf-8")
    except UnicodeDecodeError as problem:
        return f"UTF-8; byte {problem.start} is not"
    return None


@rule("text", stage=ORDER)
def no_newline_in_a_message(link: Link, sender: Role, event: TraceEvent) -> Verdict:
    return "the whole message on one line" if "\n" in str(event.message).strip() else None


@rule("text", sender="server", stage=SHAPE)
def stdout_has_messages_only(link: Link, sender: Role, event: TraceEvent) -> Verdict:
    return "a JSON-RPC message, on one line; whatever else a server has to say belongs on stderr"


@rule("text", sender="client", stage=SHAPE)
def stdin_has_messages_only(link: Link, sender: Role, event: TraceEvent) -> Verdict:
    return "a JSON-RPC message, on one line"


@rule("text", stage=SHAPE)
def bodies_are_messages(link: Link, sender: Role, event: TraceEvent) -> Verdict:
    return "a JSON-RPC message"


@rule("raw", stage=FRAME)
def question_keys_unique(link: Link, said: Said) -> Verdict:
    twice: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> Any:
        made = dict(pairs)
        names = [name for name, _ in pairs]
        made[""] = [name for name in made if names.count(name) > 1]
        return made

    try:
        value = json.loads(_bytes(said.event), object_pairs_hook=note)
    except (ValueError, RecursionError):
        return None
    twice = as_object(as_object(as_object(value).get("result")).get("inputRequests")).get("", [])
    return f"each key of inputRequests once, and not {twice[0]!r} twice" if twice else None


def _bytes(event: TraceEvent) -> bytes:
    return base64.b64decode(event.raw) if event.raw is not None else str(event.message).encode("utf-8", "replace")


# -- the frame ----------------------------------------------------------------------------------------------------


@rule("frame", stage=FRAME)
def id_is_not_null(link: Link, said: Said) -> Verdict:
    wrong = {"method", "id"} <= said.message.keys() and said.id is None and not _notifies(said)
    return "an id that is a string or an integer; no id at all makes it a notification" if wrong else None


@rule("frame", stage=FRAME)
def request_id_is_string_or_integer(link: Link, said: Said) -> Verdict:
    wrong = {"method", "id"} <= said.message.keys() and said.id is not None and not messages.is_id(said.id)
    return "an id that is a string or an integer" if wrong else None


@rule("frame", stage=FRAME)
def notification_has_no_id(link: Link, said: Said) -> Verdict:
    return "no member id" if "id" in said.message and _notifies(said) else None


@rule("frame", stage=FRAME)
def result_or_error(link: Link, said: Said) -> Verdict:
    neither = "id" in said.message and not {"method", "result", "error"} & said.message.keys()
    return "a member result, or a member error" if neither else None


@rule("frame", stage=FRAME)
def not_result_and_error(link: Link, said: Said) -> Verdict:
    return "one of result and error" if {"result", "error"} <= said.message.keys() and not said.method else None


@rule("frame", stage=FRAME)
def error_code_is_integer(link: Link, said: Said) -> Verdict:
    wrong = "method" not in said.message and "code" in said.error and type(said.code) is not int
    return "an integer" if wrong else None


@rule("frame", stage=FRAME)
def error_has_code_and_message(link: Link, said: Said) -> Verdict:
    fails = "error" in said.message and not said.message.keys() & {"method", "result"}
    sound = "code" in said.error and isinstance(said.error.get("message"), str)
    return "an object with an integer code and a string message" if fails and not sound else None


@rule("frame", stage=FRAME)
def is_json_rpc(link: Link, said: Said) -> Verdict:
    message = said.message
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc: "2.0"'
    if "method" in message:
        if not isinstance(message["method"], str):
            return "a method that is a string"
        if not isinstance(message.get("params", {}), dict):
            return "params that are an object"
        return None if isinstance(said.params.get("_meta", {}), dict) else "params._meta that is an object"
    if "result" in message and "error" in message:
        return "one of result and error"
    if not ("result" in message or "error" in message):
        return "a method, a result or an error"
    if "result" in message and not isinstance(message["result"], dict):
        return "a result that is an object"
    error = message.get("error", {"code": 0, "message": ""})
    if not isinstance(error, dict) or type(error.get("code")) is not int or not isinstance(error.get("message"), str):
        return "an error with an integer code and a string message"
    if not messages.is_id(said.id) and not ("error" in message and said.id is None):
        return "the id of the request"
    return None


def _notifies(said: Said) -> bool:
    return said.method.startswith("notifications/")


@rule("batch", sender="client", stage=FRAME)
def initialize_stands_alone(link: Link, sender: Role, event: TraceEvent) -> Verdict:
    batch = event.message if isinstance(event.message, list) else []
    begins = any(as_object(each).get("method") == "initialize" for each in batch)
    return "initialize by itself" if begins else None


@rule("batch", stage=ORDER)
def batches_only_where_they_exist(link: Link, sender: Role, event: TraceEvent) -> Verdict:
    return None if link.revision is None or link.revision.batching or link.http else "one message, not an array"


@rule("batch", stage=FRAME)
def batches_are_not_empty(link: Link, sender: Role, event: TraceEvent) -> Verdict:
    return None if event.message else "one message or more in the array"


@rule("error")
def batches_are_received(link: Link, said: Said) -> Verdict:
    posted = said.exchange
    if posted is not None and (posted.faults or posted.status not in (200, 400)):
        return None
    batch = any(each.exchange is posted and isinstance(each.event.message, list) for each in _waiting(link, said))
    return "a response to each request of the batch" if batch and _has_read_all(link, said) else None


# -- ids ----------------------------------------------------------------------------------------------------------


@rule("request", stage=ORDER)
def id_not_used_before(link: Link, said: Said) -> Verdict:
    if link.http and said.method == "initialize":
        return None  # a session begins, and its ids with it
    return "an id that no request before it has had" if (said.sender, *said.key) in link.used else None


@rule("request", sender="client", stage=ORDER)
def id_not_in_flight(link: Link, said: Said) -> Verdict:
    before = link.asked.get((said.sender, *said.key))
    if before is None or before.answered or before.cancelled:
        return None
    return f"another id: the request {said.id!r} ({before.method}) has no answer yet"


_MISPLACED = {"the_response_ends_the_stream", "messages_go_on_one_stream", "no_responses_on_the_standing_stream"}


@rule("error", stage=ORDER, name="error_answers_a_request")
@rule("result", stage=ORDER)
def result_answers_a_request(link: Link, said: Said) -> Verdict:
    if said.id is None and "error" in said.message:
        return None
    request = link.answering(said)
    # What is misplaced was found with its event.
    if request is not None and request.answered and not (said.exchange and said.exchange.faults & _MISPLACED):
        return f"one response to the request {said.id!r}"
    if request is not None or not link.whole:
        return None
    waiting = [str(each.id) for each in _waiting(link, said)]
    return f"the id of a request that waits for it: {', '.join(waiting[:5]) or 'none does'}"


@rule("error")
def notifications_are_not_answered(link: Link, said: Said) -> Verdict:
    # With requests still open, the error may as well be the answer to one of them.
    told = OTHER[said.sender] in link.notified and not _waiting(link, said)
    return "no response to a notification" if told and _has_read_all(link, said) else None


def _waiting(link: Link, said: Said) -> list[Said]:
    """Return the requests that a response may answer."""
    return [each for each in link.asked.values()
            if each.sender != said.sender and not each.answered and not each.cancelled]  # fmt: skip


def _has_read_all(link: Link, said: Said) -> bool:
    """Return whether an error has no id though the id of everything that its sender was sent could be read."""
    return said.id is None and link.whole and OTHER[said.sender] not in link.garbled


# -- _meta --------------------------------------------------------------------------------------------------------

_LABEL = re.compile(r"[A-Za-z]([A-Za-z0-9-]*[A-Za-z0-9])?")


def _meta(said: Said) -> list[str]:
    return [name for name in said.own_meta if not is_meta_key(name)]


@rule("meta")
def meta_prefix_is_dotted(link: Link, said: Said) -> Verdict:
    for name in _meta(said):
        prefix, slash, rest = name.partition("/")
        if slash and ("" in prefix.split(".") or "/" in rest):
            return f"labels with single dots between them, one slash, a name; not {name!r}"
    return None


@rule("meta")
def meta_labels_have_the_form(link: Link, said: Said) -> Verdict:
    for name in _meta(said):
        prefix, slash, rest = name.partition("/")
        labels = prefix.split(".") if slash and "/" not in rest else []
        wrong = [label for label in labels if not _LABEL.fullmatch(label)]
        if wrong and "" not in labels:
            return f"a label that begins with a letter, ends with a letter or digit, not {wrong[0]!r}"
    return None


@rule("meta")
def meta_names_have_the_form(link: Link, said: Said) -> Verdict:
    for name in _meta(said):
        rest = name.rpartition("/")[2]
        if not is_meta_key(rest):
            return f"a name that begins and ends with a letter or digit, not {rest!r}"
    return None


_TOKEN = r"\s*[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*"
_ENTRY = rf"{_TOKEN}=[^,;\s\"\\]*\s*(;[^,]*)?"
_TRACE = {
    "traceparent": re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"),
    "tracestate": re.compile(r"(\s*([a-z0-9][a-z0-9_\-*/@]*=[ -~]*)?\s*(,|$))*"),
    "baggage": re.compile(rf"{_ENTRY}(,{_ENTRY})*"),
}


@rule("meta")
def trace_context_has_the_form(link: Link, said: Said) -> Verdict:
    meta = said.own_meta
    for name, form in _TRACE.items():
        value = meta.get(name, "" if name == "tracestate" else meta)
        if value is not meta and not (isinstance(value, str) and len(value) < 9000 and form.fullmatch(value)):
            return f"{name} as the W3C defines it"
    return None


# -- cancellation -------------------------------------------------------------------------------------------------


@rule("notification", "notifications/cancelled")
def cancels_its_own_request(link: Link, said: Said) -> Verdict:
    if (said.stateless and said.sender == "server") or "requestId" not in said.params or not link.whole:
        return None
    if link.scattered or (link.http and (said.stateless or link.viewpoint == "server")):
        # The request may come by another connection, and later: who writes it, and gives it up at once, was as quick.
        return None
    return None if link.cancelling(said) else f"the id of a request that the {said.sender} has sent"


@rule("notification", "notifications/cancelled", sender="client")
def initialize_is_not_cancelled(link: Link, said: Said) -> Verdict:
    request = link.cancelling(said)
    return "nothing: initialize is not cancelled" if request is not None and request.method == "initialize" else None


@rule("notification", "notifications/cancelled")
def tasks_are_cancelled_as_tasks(link: Link, said: Said) -> Verdict:
    request = link.cancelling(said)
    return "tasks/cancel, for the request made a task" if request is not None and "task" in request.params else None


@rule("notification", "notifications/cancelled", sender="server")
def server_cancels_subscriptions_only(link: Link, said: Said) -> Verdict:
    named = key(said.params.get("requestId"))
    request = link.asked.get(("client", *named))
    if request is None and not link.whole or "requestId" not in said.params:
        return None
    listens = request is not None and request.method == "subscriptions/listen"
    return None if listens else "the id of subscriptions/listen"


# -- progress -----------------------------------------------------------------------------------------------------


@rule("request", stage=SHAPE)
def progress_token_is_string_or_integer(link: Link, said: Said) -> Verdict:
    return None if messages.is_id(said.meta.get("progressToken", 0)) else "a string or an integer"


@rule("request")
def progress_token_unique(link: Link, said: Said) -> Verdict:
    if not messages.is_id(said.meta.get("progressToken")):
        return None
    before = link.tokens.get((said.sender, *key(said.meta["progressToken"])))
    if before is not None and not before.answered and not before.cancelled:
        return f"another token: request {before.id!r} still has this one"
    return None


@rule("notification", "notifications/progress", stage=ORDER)
def progress_token_was_given(link: Link, said: Said) -> Verdict:
    if "progressToken" not in said.params or not link.whole or link.progressing(said) is not None:
        return None
    return "the progressToken of a request"


@rule("notification", "notifications/progress", stage=ORDER)
def progress_ends_with_the_request(link: Link, said: Said) -> Verdict:
    request = link.progressing(said)
    if request is None or not request.answered or request.task is not None:
        return None
    # Over HTTP only what comes on one stream comes in order.
    same = not link.http or (said.exchange is not None and said.exchange is request.exchange)
    return f"nothing: request {request.id!r} was answered before" if same else None


@rule("notification", "notifications/progress", stage=ORDER)
def progress_ends_with_the_task(link: Link, said: Said) -> Verdict:
    request = link.progressing(said)
    known = None if request is None or request.task is None else link.tasks.get(request.task)
    return f"nothing: the task is {known.status}" if known is not None and known.status in ENDED else None


@rule("notification", "notifications/progress")
def progress_grows(link: Link, said: Said) -> Verdict:
    request, now = link.progressing(said), said.params.get("progress")
    if request is None or request.progress is None or not isinstance(now, int | float):
        return None
    return None if now > request.progress else f"more than {request.progress}"


# -- ping ---------------------------------------------------------------------------------------------------------


@rule("result", "ping", stage=SHAPE)
def pong_is_empty(link: Link, said: Said) -> Verdict:
    return "an empty result" if said.result.keys() - {"_meta"} else None


@rule("error", "ping")
def ping_is_answered(link: Link, said: Said) -> Verdict:
    return None if said.refused else "an empty result"
