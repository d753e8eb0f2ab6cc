"""Knowledge that messages give of their connection, once they were judged: it is what the rules look up later.

Spec:      basic/lifecycle, server/discover, basic/utilities and basic/patterns, basic/utilities/tasks
Not here:  what is known (lab/judge/rules/seen), when it is told (lab/judge/check)

Only a few methods tell something that is their own.
"""

from __future__ import annotations

from contextlib import suppress

from mcp_ref import REVISIONS, JsonObject
from mcp_ref.facts import parameters
from mcp_ref.lab.judge.rules import session, skills, tasks
from mcp_ref.lab.judge.rules.seen import (
    Exchange,
    Known,
    KnownTask,
    Latest,
    Link,
    Question,
    Said,
    as_list,
    as_object,
    key,
    objects,
)
from mcp_ref.lab.words import LOG_LEVEL, SUBSCRIPTION_ID

# -- requests -----------------------------------------------------------------------------------------------------


def look_up(link: Link, said: Said) -> None:
    """Note, before a request is judged, the tool that it calls, and whether it comes too early."""
    if said.method == "tools/call":
        said.tool = link.known(said).tools.get(str(said.params.get("name")))
        if link.http and said.tool is not None:
            with suppress(ValueError):  # an annotation that breaks the rules
                said.mirrored = parameters(as_object(said.tool.get("inputSchema")))
    if said.sender == "client" and not said.stateless and said.method not in ("ping", "initialize"):
        if link.offered is None and link.early is None:
            link.early = said
        elif link.introduced and not link.opened and link.unopened is None:
            link.unopened = said


def from_request(link: Link, said: Said) -> None:
    named = (said.sender, *said.key)
    link.note_request(said)
    link.used[named] = None
    if said.exchange is not None:
        said.exchange.requests.add(said.key)
    if said.stateless:
        link.stateless = said.revision
        if LOG_LEVEL in said.meta:
            link.logging[named] = said
    match said.method:
        case "initialize" if said.sender == "client":
            link.offered = said.revision
            link.capabilities["client"] = _capabilities(said.params)
            link.introduced, link.opened, link.revision, link.session = False, False, None, Known()
            link.unopened = None
            link.used.clear()
            link.used[named] = None
        case "subscriptions/listen":
            link.subscriptions[said.key] = said
        case "elicitation/create" if isinstance(said.params.get("elicitationId"), str):
            link.elicitations[said.params["elicitationId"]] = None


def _capabilities(body: JsonObject) -> JsonObject | None:
    """Return the capabilities that a side declares. None: it does not say, which is a fault by itself."""
    declared = body.get("capabilities")
    return declared if isinstance(declared, dict) else None


# -- notifications ------------------------------------------------------------------------------------------------


def from_notification(link: Link, said: Said) -> None:
    link.notified.add(said.sender)
    match said.method:
        case "notifications/initialized":
            link.opened = True
        case "notifications/cancelled":
            named = key(said.params.get("requestId"))
            if (request := link.cancelling(said)) is not None:
                request.cancelled = True
            link.torn.pop(named, None)
            if said.sender == "server":
                link.announced[named] = None
        case "notifications/progress":
            if (request := link.progressing(said)) is not None and isinstance(said.params.get("progress"), int | float):
                request.progress = said.params["progress"]
        case "notifications/subscriptions/acknowledged":
            link.acknowledged[key(said.meta.get(SUBSCRIPTION_ID))] = None
        case "notifications/tools/list_changed" | "notifications/prompts/list_changed":
            known = link.known(said)
            known.tools, known.prompts, known.order, known.changed = Latest(), Latest(), None, said.event.seq
            known.called.clear()
        case "notifications/tasks/status" | "notifications/tasks":
            _learn_task(link, said, said.params)


# -- answers ------------------------------------------------------------------------------------------------------


def settle(link: Link, said: Said, request: Said) -> None:
    """Note that a request has its answer."""
    request.answered = True
    if request.method == "tasks/result" and not said.faults and not said.refused:
        link.results[str(request.params.get("taskId"))] = said
    link.logging.pop((request.sender, *request.key), None)
    for exchange in (said.exchange, request.exchange):
        if exchange is not None:
            exchange.requests.discard(said.key)
            exchange.answered = True


def from_error(link: Link, said: Said, request: Said) -> None:
    data = as_object(said.error.get("data"))
    link.unsupported = as_list(data.get("supported")) if said.code == -32022 else None
    link.modern = said if session.is_modern_error(said) and said.stateless else None
    if request.method == "server/discover" and said.code == -32601 and not said.faults:
        link.shared.undiscovered = said
    for each in objects(data.get("elicitations")):
        link.elicitations[str(each.get("elicitationId"))] = None


def from_result(link: Link, said: Said, request: Said) -> None:
    result = said.result
    link.unsupported = link.modern = None
    if request.stateless:
        link.shared.spoke, link.shared.undiscovered = True, None
    match request.method:
        case "initialize":
            agreed = REVISIONS.get(str(result.get("protocolVersion")))
            link.revision = agreed if agreed is not None and agreed.era == "session" else None
            link.capabilities["server"] = _capabilities(result)
            link.introduced, link.early = True, None
        case "server/discover":
            link.known(request).capabilities = _capabilities(result)
            spoken = as_list(result.get("supportedVersions"))
            link.shared.supported = [each for each in spoken if isinstance(each, str)]
        case "tools/list" | "prompts/list" if link.known(request).changed > request.event.seq:
            pass  # it may be the list of before
        case "tools/list":
            known, tools = link.known(request), objects(result.get("tools"))
            known.tools.update((str(tool.get("name")), tool) for tool in tools)
            for tool in tools:
                known.called.pop(str(tool.get("name")), None)
            whole = "cursor" not in request.params and "nextCursor" not in result
            known.order = [str(tool.get("name")) for tool in tools] if whole else None
        case "tools/call" if request.tool is None and link.known(request).changed <= request.event.seq:
            link.known(request).called[str(request.params.get("name"))] = said
        case "skills/list" | "skills/get" | "resources/read":
            skills.learn(link, said)
        case "prompts/list":
            link.known(request).prompts.update((str(each.get("name")), each) for each in objects(result.get("prompts")))
        case "subscriptions/listen" if not request.cancelled and request.key not in link.announced:
            link.torn[request.key] = said
        case "tasks/result":
            if (task := link.tasks.get(str(request.params.get("taskId")))) is not None:
                task.result = said
        case "tasks/list" if not request.params.get("cursor") and "nextCursor" not in result:
            listed = {str(shown.get("taskId")) for shown in tasks.states(said)}
            for name, task in link.tasks.items():
                early = task.polled is None or task.polled > request.event.time or task.receiver != said.sender
                task.unlisted = None if name in listed or early else said
    if isinstance(cursor := result.get("nextCursor"), str):
        link.known(request).cursors[request.method, cursor] = None
        link.shared.cursors[request.method, cursor] = None
        if isinstance(result.get("cacheScope"), str):
            link.shared.scopes[request.method, cursor] = result["cacheScope"]
    if result.get("resultType") == "input_required":
        state = result.get("requestState")
        asked = Question(request, state if isinstance(state, str) else None, as_object(result.get("inputRequests")))
        link.shared.questions.append(asked)
        if asked.state is not None:
            link.shared.states[asked.state] = asked
    for shown in tasks.states(said):
        _learn_task(link, said, shown)


def _learn_task(link: Link, said: Said, state: JsonObject) -> None:
    """Learn what the receiver of a task says of it, in an answer or unasked."""
    name, status, request = state.get("taskId"), state.get("status"), said.request
    if said.faults or not isinstance(name, str) or not isinstance(status, str):
        return
    known = link.tasks.get(name)
    if known is None:
        known = link.tasks[name] = KnownTask(said.sender, said.event.time)
    if request is not None and "task" in said.result:
        # News of it may have come before.
        known.request, request.task = request, name
    if request is None or request.event.seq >= known.seq:
        known.status, known.state, known.seq = status, state, said.event.seq
    if said.about == "tasks/get":
        known.polled = said.event.time


# -- HTTP ---------------------------------------------------------------------------------------------------------


def from_reply(link: Link, exchange: Exchange) -> None:
    """Learn what the head of a reply says of the session, and of its request."""
    status, sent = exchange.status or 0, exchange.header("mcp-session-id")
    given = exchange.answers.get("mcp-session-id")
    if exchange.body is not None and exchange.body.method == "initialize" and status == 200:
        link.session_id = given
        link.gone, link.over = None, ("", 0)
    elif status == 404 and sent is not None and sent == link.session_id:
        busy = [one for one in link.asked.values() if not (one.sender == "server" or one.answered or one.cancelled)]
        # What was sent at the same time may still come.
        link.gone = sent if len(busy) <= 1 else None
    if sent is not None and (status == 404 or exchange.method == "DELETE" and 200 <= status < 300):
        link.over = sent, link.seq
    if status:
        link.authorized = "authorization" in exchange.headers and status < 400


def refused(link: Link, exchange: Exchange) -> None:
    """Forget the requests of a body that HTTP has refused or redirected: they may come again, with the same ids."""
    for named in exchange.requests:
        link.used.pop(("client", *named), None)
        if (request := link.asked.get(("client", *named))) is not None:
            request.cancelled = True
