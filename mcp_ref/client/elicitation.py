"""Elicitation: `elicitation/create`, `notifications/elicitation/complete`, and the error -32042.

Spec:      client/elicitation (2025-06-18 ... 2026-07-28)
Upholds:   spec_notes/client/elicitation.md
Reads:     client/answering, client/elicitation_types, client/elicitation_form, client/elicitation_url
Not here:  showing a form or opening a browser: the user's functions do, `Client(..., elicit=..., open_url=...)`

    elicit(ctx, ...), elicit_url(ctx, ...)      in a server: ask the user by a form, or send them to a page
    complete_elicitation(ctx, id)               in a server: say that the page was finished
    url_elicitation(...)                        in a server: one entry of the error -32042
    elicitation_create(...)                     in a client: answer
    elicitation_complete(...)                   in a client: the page was finished
    required_urls, visit_required               in a client: the entries of that error; ask the user for one
    accept, decline, cancel, url_warnings       for the functions that the client's user writes

A form passes through the client, so a server MUST NOT ask for passwords, keys or tokens by one: that is what the URL
mode is for. No code can tell a secret from another string; this rule is the server author's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, Unpack, cast

from mcp_ref.basic.methods import Answering, Caller, JsonObject, Method, Options
from mcp_ref.client.answering import call
from mcp_ref.client.elicitation_form import complete_form, content_problem, downgrade, requested_schema, schema_problem
from mcp_ref.client.elicitation_types import (
    ElicitationCompleteParams,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    ElicitUrlResult,
    capability,
    check_mode,
    modes_of,
)
from mcp_ref.client.elicitation_url import (
    PendingUrls,
    UrlHandler,
    complete_elicitation,
    elicit_url,
    required_urls,
    url_elicitation,
    url_warnings,
    visit,
)
from mcp_ref.errors import InvalidParams, LocalProtocolError, RemoteProtocolError

__all__ = [
    "METHODS",
    "ElicitRequestFormParams",
    "ElicitRequestParams",
    "ElicitRequestURLParams",
    "ElicitResult",
    "ElicitUrlResult",
    "ElicitationCompleteParams",
    "Elicitors",
    "FormHandler",
    "PendingUrls",
    "UrlHandler",
    "Visiting",
    "accept",
    "cancel",
    "capability",
    "complete_elicitation",
    "decline",
    "elicit",
    "elicit_url",
    "elicitation_complete",
    "elicitation_create",
    "required_urls",
    "url_elicitation",
    "url_warnings",
    "visit_required",
]

_log = logging.getLogger(__name__)


# -- the server asks --------------------------------------------------------------------------------------------


def elicit(self: Caller, message: str, schema: Mapping[str, Any], **options: Unpack[Options]) -> ElicitResult:
    """Ask the user to fill in a form, with `elicitation/create`.

    Never ask so for a secret, and put no link into a form's texts.

    Args:
        message: why you ask, for the user.
        schema: a `requestedSchema` with `type` "object"; or its properties alone, of which those without a `default`
            are required. What the revision's forms lack is left out where a form can do without it, and logged.
    Returns: `action` "accept" with `content`, which fits the schema; or "decline" or "cancel" without.
    Raises:
        LocalProtocolError: the schema is no form (flat, fields of the page's kinds), or one that the revision cannot
            say; the client did not declare the form mode; nothing was sent.
        RemoteProtocolError: an accepted form does not fit the schema; the text names the field.
        ErrorResponse, RequestTimeout, TransportClosed: as for every request.
    Blocks: until the user has decided; bounded by `timeout`.
    Threads: the handler's own.
    Spec: client/elicitation#form-mode-elicitation-requests
    """
    check_mode(self, "form")
    form = downgrade(requested_schema(schema), self.revision)
    params: JsonObject = {"mode": "form"} if self.revision.elicitation_modes else {}
    params |= {"message": message, "requestedSchema": form}
    return _checked(self.request("elicitation/create", params, options), form)


def _checked(result: JsonObject, form: JsonObject) -> ElicitResult:
    if result["action"] != "accept":
        return cast(ElicitResult, _without_content(result))
    content = result.get("content", {})
    # SHOULD: the server validates what it gets (client/elicitation#form-mode-security)
    problem = content_problem(form, content)
    if problem is not None:
        raise RemoteProtocolError(f"the accepted form does not fit its schema: {problem}")
    return cast(ElicitResult, {**result, "content": content})


def _without_content(result: JsonObject) -> JsonObject:
    if "content" in result:
        _log.warning("ignored the content of an elicitation that was answered %r", result["action"])
    return {key: value for key, value in result.items() if key != "content"}


# -- the client answers -----------------------------------------------------------------------------------------

FormHandler = Callable[..., ElicitResult | JsonObject | None]
"""What `Client(..., elicit=...)` takes: `(message, schema) -> values`, or with `ctx` as a third parameter.

It shows the user which server asks (`ctx.server_info`), lets them fill the form in, review it and say no. It returns
the values of the fields by name, None for no, or `accept(values)`, `decline()` or `cancel()`.
"""


class Elicitors:
    """The user's functions for the two modes, and the visits under way: what answers `elicitation/create`."""

    def __init__(self, form: FormHandler | None = None, url: UrlHandler | None = None) -> None:
        self.form, self.url = form, url
        self.pending = PendingUrls()


def accept(values: Mapping[str, Any]) -> ElicitResult:
    """The answer of a user who submitted the form."""
    return {"action": "accept", "content": dict(values)}


def decline() -> ElicitResult:
    """The answer of a user who said no."""
    return {"action": "decline"}


def cancel() -> ElicitResult:
    """The answer of a user who closed the form without a choice."""
    return {"action": "cancel"}


def elicitation_create(handlers: Elicitors, ctx: Answering, params: ElicitRequestParams) -> ElicitResult:
    """Answer `elicitation/create` by the functions that the user gave as `Client(..., elicit=..., open_url=...)`.

    Fields of a form that the function left out get their defaults; one with the value None stays empty.

    Args: handlers: see `FormHandler` and `UrlHandler`.
    Raises:
        InvalidParams: a mode that this client did not declare; a form that is none; a URL that is neither `https` nor
            on this machine.
        LocalProtocolError: the function's answer does not fit the form; the dispatcher answers -32603 for this and for
            whatever else the function raises that is no `Refusal`.
    Blocks: as long as the function does.
    Spec: client/elicitation#elicitation-requests, client/elicitation#error-handling
    """
    # MUST: without `mode` it is a form (client/elicitation#elicitation-requests)
    mode = params.get("mode", "form") if ctx.revision.elicitation_modes else "form"
    handler = handlers.url if mode == "url" else handlers.form
    # MUST: -32602 for a mode that was not declared (client/elicitation#error-handling)
    if handler is None or mode not in modes_of(ctx.capabilities, ctx.revision):
        raise InvalidParams(f"params.mode: this client did not declare the elicitation mode {mode!r}")
    if mode == "url":
        return visit(cast(UrlHandler, handler), handlers.pending, ctx, cast(ElicitRequestURLParams, params))
    return _fill_in(cast(FormHandler, handler), ctx, cast(JsonObject, params))


def _fill_in(handler: FormHandler, ctx: Answering, params: JsonObject) -> ElicitResult:
    form = params["requestedSchema"]
    problem = schema_problem(form, ctx.revision)
    if problem is not None:
        raise InvalidParams(f"params.{problem}")
    answer = _answer(call(handler, ctx, params["message"], form), form)
    if answer["action"] != "accept":
        return {"action": answer["action"]}
    return cast(ElicitResult, {**answer, "content": _content(form, answer.get("content", {}))})


def _answer(returned: Any, form: JsonObject) -> JsonObject:
    """A handler's answer as a result. A form may have a field named `action`; no field has an object as its value."""
    if returned is None:
        return {"action": "decline"}
    if not isinstance(returned, dict):
        raise LocalProtocolError("an elicit handler returns the values by name, None, decline() or cancel()")
    whole = isinstance(returned.get("content"), dict) or "action" not in form["properties"]
    if whole and returned.get("action") in _ACTIONS:
        return returned
    return {"action": "accept", "content": returned}


_ACTIONS: Final = ("accept", "decline", "cancel")


def _content(form: JsonObject, values: Mapping[str, Any]) -> JsonObject:
    content = complete_form(form, values)
    extra = content.keys() - form["properties"].keys()
    # SHOULD: the client validates what it sends (client/elicitation#form-mode-security)
    problem = f"{min(extra)}: no field of the form" if extra else content_problem(form, content)
    if problem is not None:
        raise LocalProtocolError(f"the elicit handler's values do not fit the form: {problem}")
    return content


def elicitation_complete(handlers: Elicitors, ctx: Answering, params: ElicitationCompleteParams) -> bool:
    """Take note of `notifications/elicitation/complete`.

    Returns: whether a visit of that id was under way; where not, the client does nothing more about it.
    Spec: client/elicitation#completion-notifications-for-url-mode-elicitation
    """
    # MUST: ignore ids that are unknown or already completed
    return handlers.pending.complete(params["elicitationId"])


# -- the error -32042 -------------------------------------------------------------------------------------------


class Visiting(Answering, Protocol):
    """A client that can send its user to a page."""

    @property
    def elicitors(self) -> Elicitors:
        """The user's functions, and the visits under way."""
        ...


def visit_required(self: Visiting, page: ElicitRequestURLParams) -> ElicitResult:
    """Ask the user, with the client's `open_url`, to visit a page that the error -32042 requires.

    Args: page: one of `required_urls(error)`.
    Returns: `action`; "accept" means that they agreed to go there. The call may be sent again when the server has
        told that the visit ended (`on_change` hears of it), or when the user says so, for a server need not tell.
    Raises:
        LocalProtocolError: this client has no `open_url`, or that returned something else.
        RemoteProtocolError: the page has no URL that may be visited.
    Blocks: as long as `open_url` does.
    Threads: any.
    Spec: client/elicitation#url-elicitation-required-error
    """
    if self.elicitors.url is None:
        raise LocalProtocolError("this client has no open_url, and cannot visit what the server requires")
    try:
        return visit(self.elicitors.url, self.elicitors.pending, self, page)
    except InvalidParams as problem:
        raise RemoteProtocolError(f"a page that the server requires cannot be visited: {problem}") from None


METHODS = (
    Method(
        name="elicitation/create",
        kind="request",
        sender="server",
        page="client/elicitation",
        about="ask the user for something: by a form, or by a visit to a page",
        params=ElicitRequestParams,
        result=ElicitResult,
        since="2025-06-18",
        # In 2026-07-28 it is an entry of `inputRequests` and no request.
        until="2025-11-25",
        needs="client.elicitation",
    ),
    Method(
        name="notifications/elicitation/complete",
        kind="notification",
        sender="server",
        page="client/elicitation",
        about="say that the user's visit to a page has ended",
        params=ElicitationCompleteParams,
        since="2025-11-25",
        until="2025-11-25",
        needs="client.elicitation.url",
    ),
)
