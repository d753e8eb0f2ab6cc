"""Tasks, in both designs: who may ask for one, what a task says of itself, that what has ended stays so.

Spec:      basic/utilities/tasks (2025-11-25), the extension's page (2026-07-28)

What is known of a task is what its receiver has said last; an answer counts only if its request was sent afterwards,
for over HTTP an older answer may come later.
"""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial
from typing import Any

from mcp_ref import JsonObject
from mcp_ref.facts import TASKS, declares
from mcp_ref.lab.judge.rules.seen import (  # fmt: skip
    ORDER,
    OTHER,
    SHAPE,
    Exchange,
    KnownTask,
    Link,
    Said,
    Verdict,
    as_object,
    objects,
    refused,
    rule,
    rule_of_each,
)
from mcp_ref.lab.words import CLIENT_CAPABILITIES, ENDED, RELATED
from mcp_ref.recording.record import TraceEvent

_CAN = ("tools/call", "sampling/createMessage", "elicitation/create")  # requests that can become tasks
_SHOWN = ("tasks/get", "tasks/cancel")  # what is answered with the state of a task


def _support(tool: JsonObject) -> Any:
    return as_object(tool.get("execution")).get("taskSupport", "forbidden")


def _declared(link: Link, said: Said, path: str) -> bool | None:
    """Return whether the receiver of a request declares this; None if it is unknown."""
    capabilities = link.declared(OTHER[said.sender], said)
    return None if capabilities is None else declares(capabilities, path)


def _type(said: Said) -> str:
    """Return the capability of a request that can become a task."""
    return f"tasks.requests.{said.method.replace('/', '.')}"


def _known(link: Link, said: Said) -> KnownTask | None:
    """Return what was known of the task when the request was sent that a message answers."""
    known = link.tasks.get(str(said.asked.params.get("taskId")))
    return known if known is not None and known.seq < said.asked.event.seq else None


def states(said: Said) -> list[JsonObject]:
    """Return the states of tasks that a result shows."""
    if said.about in _CAN:
        return objects([said.result["task"]]) if "task" in said.result and _asked(said) else []
    if said.about == "tasks/list":
        return objects(said.result.get("tasks"))
    return [said.result] if said.about in _SHOWN else []


def _asked(said: Said) -> bool:
    return "task" in said.asked.params and said.about in _CAN


# -- who may ask for one ------------------------------------------------------------------------------------------


@rule("request", *_CAN, having="task")
def tasks_only_of_who_has_them(link: Link, said: Said) -> Verdict:
    return "no task: the receiver does not declare tasks" if _declared(link, said, "tasks") is False else None


@rule("request", *_CAN, having="task")
def tasks_only_of_requests_that_can(link: Link, said: Said) -> Verdict:
    misses = _declared(link, said, "tasks") and not _declared(link, said, _type(said))
    return f"no task: the receiver does not declare {_type(said)}" if misses else None


def _negotiated(link: Link, said: Said) -> bool:
    return said.tool is not None and bool(_declared(link, said, _type(said)))


@rule("request", "tools/call", sender="client", having="task")
def tools_that_cannot_are_not_tasks(link: Link, said: Said) -> Verdict:
    cannot = _negotiated(link, said) and _support(said.tool or {}) == "forbidden"
    return "no task: the tool does not say that it can be one" if cannot else None


@rule("request", "tools/call", sender="client")
def required_tasks_are_asked_for(link: Link, said: Said) -> Verdict:
    misses = "task" not in said.params and _negotiated(link, said) and _support(said.tool or {}) == "required"
    return "task in the params: the tool requires it" if misses else None


_CANNOT, _MUST = "tools_that_cannot_are_not_tasks", "required_tasks_are_asked_for"
refused("tasks_of_other_tools_are_32601", "tools/call", _CANNOT, "a call of this tool cannot be a task", -32601)
refused("required_tasks_are_32601", "tools/call", _MUST, "a call of this tool must be a task", -32601)


@rule("rejection", *_CAN)
def who_has_tasks_declares_them(link: Link, said: Said) -> Verdict:
    makes = "tasks_only_of_who_has_them" in said.asked.faults and "task" in said.result
    return "tasks among the capabilities of whoever makes them" if makes else None


@rule("rejection", *_CAN)
def undeclared_tasks_are_ignored(link: Link, said: Said) -> Verdict:
    broken = "tasks_only_of_requests_that_can" in said.asked.faults
    return "what the request returns without a task" if broken and "task" in said.result else None


@rule("result", *_CAN, stage=ORDER)
def accepted_tasks_are_answered_with_a_task(link: Link, said: Said) -> Verdict:
    tool = said.asked.tool
    can = said.about != "tools/call" or (tool is not None and _support(tool) in ("optional", "required"))
    return "a CreateTaskResult" if _asked(said) and can and "task" not in said.result else None


# -- what a task says ---------------------------------------------------------------------------------------------


_of_each_state = partial(rule_of_each, "result", *_CAN, *_SHOWN, "tasks/list", within=states, stage=SHAPE)


@_of_each_state()
def task_ids_are_strings(state: JsonObject) -> str | None:
    return None if isinstance(state.get("taskId"), str) else "a taskId that is a string"


def _is_time(value: Any) -> bool:
    """Return whether a value is a time by ISO 8601, in any of its forms."""
    if not isinstance(value, str):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return re.fullmatch(r"[+-]?\d{4,6}[\dTWZ:.,+-]*", value) is not None
    return True


@_of_each_state()
def tasks_say_when_they_were_created(state: JsonObject) -> str | None:
    return None if _is_time(state.get("createdAt")) else "createdAt, by ISO 8601"


@_of_each_state()
def tasks_say_when_they_were_updated(state: JsonObject) -> str | None:
    return None if _is_time(state.get("lastUpdatedAt")) else "lastUpdatedAt, by ISO 8601"


@rule("result", "tasks/get", stage=SHAPE)
def tasks_say_how_long_they_live(link: Link, said: Said) -> Verdict:
    return None if "ttl" in said.result else "ttl, in milliseconds, or null"


@rule("result", *_CAN, having="task")
def task_ids_are_unique(link: Link, said: Said) -> Verdict:
    known = link.tasks.get(str(as_object(said.result.get("task")).get("taskId"))) if _asked(said) else None
    again = known is not None and known.receiver == said.sender and known.request not in (None, said.request)
    return "an id that no task of this receiver has had" if again else None


@rule("result", *_CAN, having="task")
def tasks_begin_as_working(link: Link, said: Said) -> Verdict:
    status = as_object(said.result.get("task")).get("status") if _asked(said) else None
    # It may ask for input already when the answer goes out.
    return f"working, not {status}" if isinstance(status, str) and status not in ("working", "input_required") else None


@rule("result", "tasks/get")
def failed_tasks_say_why(link: Link, said: Said) -> Verdict:
    misses = said.result.get("status") == "failed" and "statusMessage" not in said.result
    return "statusMessage, which says why" if misses else None


# -- what has ended stays so --------------------------------------------------------------------------------------


def _changed(before: tuple[str, ...], link: Link, said: Said) -> Verdict:
    known, status = _known(link, said), said.result.get("status")
    changed = known is not None and known.status in before and status != known.status
    return f"{known.status}, as before" if known is not None and changed else None


rule("result", "tasks/get", name="ended_tasks_stay_ended")(partial(_changed, ("completed", "failed")))
rule("result", "tasks/get", name="cancelled_tasks_stay_cancelled")(partial(_changed, ("cancelled",)))


@rule("result", "tasks/cancel", stage=ORDER)
def ended_tasks_are_not_cancelled(link: Link, said: Said) -> Verdict:
    known = _known(link, said)
    return f"error -32602: the task is {known.status}" if known is not None and known.status in ENDED else None


@rule("error", "tasks/cancel")
def cancels_of_ended_tasks_are_32602(link: Link, said: Said) -> Verdict:
    known = _known(link, said)
    ended = known is not None and known.status in ENDED and not said.refused
    return "code -32602: the task has ended" if ended and said.code != -32602 else None


@rule("result", "tasks/cancel")
def tasks_are_cancelled_before_the_answer(link: Link, said: Said) -> Verdict:
    status = said.result.get("status")
    return f"cancelled, not {status}" if isinstance(status, str) and status != "cancelled" else None


@rule("error", "tasks/result")
def completed_tasks_give_their_result(link: Link, said: Said) -> Verdict:
    known = _known(link, said)
    if known is None or known.status != "completed" or said.refused:
        return None
    # Whoever lives for a while only may be forgotten after it.
    ttl, age = known.state.get("ttl", 0), (said.event.time - known.began) * 1000
    lives = ttl is None or isinstance(ttl, int | float) and age < ttl
    return "the result of the request: the task is completed" if lives else None


@rule("result", "tasks/get", stage=ORDER)
def results_wait_for_the_end(link: Link, said: Said) -> Verdict:
    early = link.results.get(str(said.asked.params.get("taskId")))
    if early is None or early.event.seq > said.asked.event.seq or said.result.get("status") in ENDED:
        return None
    return early, "no answer before the task has ended; it had not"


@rule("result", "tasks/result")
def results_stay_the_same(link: Link, said: Said) -> Verdict:
    known = link.tasks.get(str(said.asked.params.get("taskId")))
    before = None if known is None else known.result
    other = before is not None and {**before.result, "_meta": 0} != {**said.result, "_meta": 0}
    return "the result that tasks/result has given before" if other else None


@rule("result", "tasks/get")
def tasks_that_are_shown_are_listed(link: Link, said: Said) -> Verdict:
    known = _known(link, said)
    unlisted = None if known is None else known.unlisted
    if unlisted is None or said.asked.event.seq < unlisted.event.seq:
        return None
    return unlisted, f"the task {said.asked.params.get('taskId')!r}, which tasks/get shows before and after"


# -- to which task a message belongs ------------------------------------------------------------------------------


@rule("notification", "notifications/tasks/status", name="news_name_their_task_once")
@rule("result", *_SHOWN, "tasks/list", name="answers_name_their_task_once")
@rule("request", "tasks/get", "tasks/result", "tasks/cancel", "tasks/list")
def requests_name_their_task_once(link: Link, said: Said) -> Verdict:
    body = "params have" if said.method else "result has"
    return f"no {RELATED}: the {body} the id" if RELATED in said.own_meta else None


@rule("result", "tasks/result")
def results_name_their_task(link: Link, said: Said) -> Verdict:
    named, asked = as_object(said.own_meta.get(RELATED)).get("taskId"), said.asked.params.get("taskId")
    return None if named == asked else f"{RELATED} in _meta, with taskId {asked!r}"


@rule("request", "tasks/get")
def tasks_are_polled_slowly(link: Link, said: Said) -> Verdict:
    known = link.tasks.get(str(said.params.get("taskId")))
    pause = None if known is None else known.state.get("pollInterval")
    if known is None or not isinstance(pause, int | float) or known.polled is None:
        return None
    return f"{pause} ms after the answer before" if (said.event.time - known.polled) * 1000 < pause else None


# -- the extension (2026-07-28) -----------------------------------------------------------------------------------


@rule("result", stage=ORDER)
def tasks_only_for_who_declares(link: Link, said: Said) -> Verdict:
    own = as_object(said.asked.meta.get(CLIENT_CAPABILITIES))
    undeclared = said.result.get("resultType") == "task" and TASKS.name not in as_object(own.get("extensions"))
    return f'no resultType "task": the request does not declare {TASKS.name}' if undeclared and said.request else None


@rule("result", "tasks/get", "tasks/update", "tasks/cancel", stage=ORDER)
def tasks_are_shown_as_complete(link: Link, said: Said) -> Verdict:
    return 'resultType "complete"' if said.result.get("resultType") == "task" else None


_HAS = {"input_required": "inputRequests", "completed": "result", "failed": "error"}


@rule("result", "tasks/get")
def states_have_what_belongs_to_them(link: Link, said: Said) -> Verdict:
    needs = _HAS.get(str(said.result.get("status")))
    return f"a member {needs}: the status is {said.result['status']}" if needs and needs not in said.result else None


@rule("result", "tasks/cancel", stage=SHAPE, name="cancels_are_acknowledged")
@rule("result", "tasks/update", stage=SHAPE)
def updates_are_acknowledged(link: Link, said: Said) -> Verdict:
    extra = said.result.keys() - {"resultType", "_meta"}
    return f"an empty result, without {sorted(extra)[0]}" if extra else None


@rule("head", "tasks/get", "tasks/update", "tasks/cancel", stage=ORDER)
def task_header_matches(link: Link, exchange: Exchange, event: TraceEvent) -> Verdict:
    body = exchange.body
    named = None if body is None else body.params.get("taskId")
    return f"Mcp-Name: {named}" if isinstance(named, str) and exchange.header("mcp-name") != named else None
