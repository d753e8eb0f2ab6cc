"""Views: the documents of servers that a host shows, and the host's end of the conversation with each.

Spec:      the page of the extension `io.modelcontextprotocol/ui`, specification/2026-01-26/apps
Upholds:   spec_notes/extensions/apps.md, the rows that bind the host
Not here:  what a server says of its documents, and their policy (pages/extensions/apps); whether something is allowed
           (host/consent); a screen: whoever has one gives `receive` what the view posts, and posts what `next` gives

    state     what it means                                       events
    loading   the document loads                                  asks, close
    greeted   `ui/initialize` was answered                        ready, close
    running   it is told of the call, and may ask                 close
    closing   it was asked to save what it has                    over
    closed    nothing goes either way

    view   ui/initialize, ui/notifications/initialized                      host
    view   ui/notifications/tool-input, then tool-result or tool-cancelled  host
    view   tools/call, resources/read: of its own server alone              host   ->   server
    view   ui/resource-teardown                                             host

A view is a stranger: every message is checked, there is a bound for each thing that it can make grow, and what it asks
for passes the same door as what a model or a server asks for.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, NotRequired, TypedDict, Unpack, cast
from urllib.parse import urlsplit

from mcp_ref._version import __version__
from mcp_ref.errors import (
    ErrorResponse,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    McpError,
    MethodNotFound,
    Refusal,
)
from mcp_ref.kit.threads.bounded import BoundedQueue, Weighed
from mcp_ref.kit.threads.deadline import Cancel, Deadline, Rate, RateLimited, RateLimits
from mcp_ref.kit.threads.workers import Workers
from mcp_ref.kit.typed.checking import SchemaMismatch, checker
from mcp_ref.kit.typed.json_text import weigh_up_to
from mcp_ref.pages.extensions.apps import NAME, VERSION, Document, document, is_for, ui_of
from mcp_ref.pages.server.resources import ReadResourceRequestParams
from mcp_ref.pages.server.tools import CallToolRequestParams
from mcp_ref.pages.server.utilities.logging import LoggingMessageNotificationParams
from mcp_ref.revisions import LATEST_SESSION
from mcp_ref.wire.content import ContentBlock, text
from mcp_ref.wire.messages import JsonObject, error, kind_of, notification, readable_id, request, response
from mcp_ref.wire.methods import Options
from mcp_ref.wire.types import Implementation

if TYPE_CHECKING:
    from mcp_ref.host.host import Host
    from mcp_ref.host.life import Hosted

log = logging.getLogger(__name__)

MAX_VIEWS: Final = 32
"""Views that a host has open at once."""
MAX_MESSAGE: Final = 4 << 20
"""Bytes of a message of a view."""
MAX_WAITING: Final = 1_000
"""Messages that wait for a view: one that does not take them is closed."""
MAX_CALLS: Final = 8
"""Requests of one view that are carried out at once; as many again may wait, and more are refused."""
RATE: Final = Rate(100, 200)
"""Messages a second that one view may post, and at once; more are refused, or dropped."""
LEAVE: Final = 2.0
"""Seconds that a view has to save what it has."""

DisplayMode = Literal["inline", "fullscreen", "pip"]
State = Literal["loading", "greeted", "running", "closing", "closed"]
NEXT: Final[Mapping[State, Mapping[str, State]]] = {
    "loading": {"asks": "greeted", "close": "closed"},
    "greeted": {"ready": "running", "close": "closed"},
    "running": {"close": "closing"},
    "closing": {"over": "closed"},
    "closed": {},
}
"""The state after an event. What has no row does not happen."""


class AppCapabilities(TypedDict):
    """The abilities of a view."""

    experimental: NotRequired[JsonObject]
    tools: NotRequired[JsonObject]
    availableDisplayModes: NotRequired[list[DisplayMode]]


class InitializeParams(TypedDict):
    """A view introduces itself."""

    appInfo: Implementation
    appCapabilities: AppCapabilities
    protocolVersion: str


class OpenLinkParams(TypedDict):
    """A page that a view wants opened."""

    url: str


class MessageParams(TypedDict):
    """Words that a view wants said in the conversation, as the user's words."""

    role: Literal["user"]
    content: ContentBlock | list[ContentBlock]


class ModelContextParams(TypedDict):
    """The things that the model is to know of a view from now on."""

    content: NotRequired[list[ContentBlock]]
    structuredContent: NotRequired[JsonObject]


class DisplayModeParams(TypedDict):
    """The mode in which a view wants to be shown."""

    mode: DisplayMode


class SizeChangedParams(TypedDict):
    """The size of the document of a view, in pixels."""

    width: NotRequired[float]
    height: NotRequired[float]


class AppCall(NamedTuple):
    """A call of a tool, to be shown by `Host.open_app`: `server/tool`, its arguments, and the result if it is there."""

    name: str
    arguments: JsonObject = {}
    result: JsonObject | None = None


def open_app(
    self: Host,
    call: AppCall | tuple[Any, ...],
    *,
    context: JsonObject | None = None,
    modes: Sequence[DisplayMode] = ("inline",),
    **options: Unpack[Options],
) -> AppView:
    """Read the document that a tool names, and return a view of it, for a call of that tool.

    Args:
        call: an `AppCall`. Without a result, `finish` or `cancel` of the view tells it how the call went.
        context: members of the host's context for the view, such as `{"theme": "dark"}`.
        modes: how the view can be shown; the first is how it is shown now.

    Raises: LocalProtocolError: no such tool, it names no document, this host was made without `APPS`, or it has
        `MAX_VIEWS`; RemoteProtocolError: what the server gave is no such document; and what `Host.read` raises.
    Blocks: for one request.
    Spec: 2026-01-26/extensions/apps#behavior
    """
    call = AppCall(*call)
    if NAME not in {each.name for each in self.extensions}:
        raise LocalProtocolError("this host shows no documents: make it with extensions=[APPS]")
    hosted, tool = self.place(call.name)
    found = hosted.definition(tool, Deadline(options.get("timeout", hosted.timeout)))
    uri = None if found is None else ui_of(found[0]).get("resourceUri")
    if found is None or uri is None or not uri.startswith("ui://"):
        raise LocalProtocolError(f"{call.name!r} is not a tool that names a document")
    if len(self.views) >= MAX_VIEWS:
        raise LocalProtocolError(f"{MAX_VIEWS} views are open: close one first")
    # MUST: get the document by `resources/read`, of the same server (2026-01-26/extensions/apps#behavior)
    contents = hosted.ask("read_resource", uri, options=options, safe=True)["contents"]
    view = AppView(self, hosted, call, found[0], document(uri, contents), context or {}, modes)
    # SHOULD: log the policy; warn of other origins (2026-01-26/extensions/apps#host-behavior,
    # #security-implications-mitigations)
    log.info("%s: the policy of %s: %s", hosted.name, uri, view.document.policy)
    if reached := sorted({each for origins in view.document.origins.values() for each in cast(Any, origins)}):
        hosted.tell_once("notice", f"the app {uri} reaches {', '.join(reached)}")
    if left_out := view.document.left_out:
        hosted.tell_once("notice", f"the app {uri} asks for what is no origin, and gets it not: {', '.join(left_out)}")
    self.views.append(view)
    return view


class AppView:
    """The host's end of the conversation with one document that it shows.

    Attributes:
        document: its HTML, and its policy. call: what it shows.
        state: see the module. info, capabilities: as the view has introduced itself.
        mode: how it is shown. size: the width and height that it has told last, either may be None.

    Threads: any may call anything, but one at a time `receive`; the requests of the view run in `mcp-app-n`.
    """

    def __init__(
        self,
        host: Host,
        hosted: Hosted,
        call: AppCall,
        tool: JsonObject,
        shown: Document,
        context: JsonObject,
        modes: Sequence[DisplayMode],
    ) -> None:
        self.host, self.server, self.call, self.document = host, hosted.name, call, shown
        self._hosted, self._tool, self._context = hosted, tool, {**context}
        self.modes, self.mode = list(modes), modes[0]
        self.info: JsonObject = {}
        self.capabilities: AppCapabilities = {}
        self.size: tuple[float | None, float | None] = (None, None)
        self._outcome: JsonObject | None = None  # the notification that tells how the call went
        if call.result is not None:
            self._outcome = notification("ui/notifications/tool-result", call.result)
        self._said = JsonObject()  # the message in the host's context that is this view's; empty: there is none
        self._changed = threading.Condition()  # guards state, _outcome, _under_way and _said; told of each state
        self.state: State = "loading"
        self._under_way: list[Cancel] = []  # of each request that is carried out, or waits for that
        self._rates = RateLimits({"message": RATE})
        self._out = BoundedQueue()
        self._workers = Workers(MAX_CALLS, name="mcp-app")
        # The trace of the client has this conversation, too: its transport is "postMessage", and its peer "view".
        self._tap = None if hosted.client is None else hosted.client.tap("postMessage", "view")

    # -- what goes to the view

    def next(self, timeout: float | None = None) -> JsonObject | None:
        """Return the next message for the view; None: there is none in that time, or the view is closed.

        Blocks: at most `timeout` seconds; None: until there is one, or the view is closed.
        """
        try:
            item = self._out.get(timeout=timeout)
        except Empty:
            return None
        message: JsonObject | None = self._out.unpack(item) if isinstance(item, Weighed) else item
        if message is None:
            self._out.put(None)  # for whoever asks again
        return message

    def finish(self, result: JsonObject) -> None:
        """Tell the view the result of the call. Only the first of `finish` and `cancel` counts."""
        # MUST: send the result when the tool has run (2026-01-26/extensions/apps#notifications-host-to-view)
        self._end_call("ui/notifications/tool-result", result)

    def cancel(self, reason: str) -> None:
        """Tell the view that the call was given up, and why."""
        # MUST: say that a call was cancelled, for whatever reason
        # (2026-01-26/extensions/apps#notifications-host-to-view)
        self._end_call("ui/notifications/tool-cancelled", {"reason": reason})

    def _end_call(self, method: str, params: JsonObject) -> None:
        with self._changed:
            if self._outcome is not None:
                return
            self._outcome = notification(method, params)
            # A host MUST NOT send anything but answers before the view is ready
            # (2026-01-26/extensions/apps#sandbox-proxy)
            if self.state == "running":
                self._send(self._outcome)

    def change_context(self, **changes: Any) -> None:
        """Change members of the host's context, such as `theme="dark"`, and tell the view."""
        with self._changed:
            self._context |= changes
            if self.state == "running":
                self._send(notification("ui/notifications/host-context-changed", changes))

    def _send(self, message: JsonObject) -> None:
        if self._tap is not None:
            self._tap.note("send", message)
        if not self._out.offer(message, message, MAX_WAITING):
            log.warning("%s: the app %s does not take its messages, and is closed", self.server, self.document.uri)
            self._happen("close", "over")

    # -- what the view says

    def receive(self, message: Any) -> None:
        """Take a message of the view: JSON, as it was posted. Never blocks.

        What is malformed, too much, too large, or comes in the wrong state is answered with an error if it is a
        request, and is dropped otherwise.
        """
        message_id = readable_id(message) if isinstance(message, dict) and "method" in message else None
        try:
            if wait := self._rates.take(None, "message"):
                raise RateLimited(wait)
            if weigh_up_to(MAX_MESSAGE, message) > MAX_MESSAGE:
                raise InvalidRequest(f"a message may have {MAX_MESSAGE} bytes")
            if self._tap is not None:
                self._tap.note("receive", message if isinstance(message, (dict, list)) else json.dumps(message))
            kind = kind_of(message)
            if kind == "response":
                # The only request of ours is about the end.
                if message.get("id") == _TEARDOWN:
                    self._happen("over")
                return
            self._take(kind, message, message_id)
        except (Refusal, McpError) as problem:
            if message_id is not None and self.state != "closed":
                self._send(error(message_id, _refusal(problem)))
            else:
                log.info("%s: a message of the app %s is dropped: %s", self.server, self.document.uri, problem)

    def _take(self, kind: str, message: JsonObject, message_id: Any) -> None:
        method, params = message["method"], message.get("params", {})
        row = ROWS.get(method)
        if row is None or (row.kind != kind):
            raise MethodNotFound(f"Method not found: {method[:100]}", None)
        if self.state not in row.states:
            raise InvalidRequest(f"{method} does not come while a view is {self.state}")
        try:
            row.check(params, "params")
        except SchemaMismatch as mismatch:
            raise InvalidParams(f"Invalid params: {mismatch}") from None
        if not row.waits:
            result = row.answer(self, params)
            if message_id is not None:
                self._send(response(message_id, result))
            return
        with self._changed:
            if len(self._under_way) >= 2 * MAX_CALLS:
                raise InvalidRequest(f"a view may have {2 * MAX_CALLS} requests under way")
            self._under_way.append(give_up := Cancel())
        self._workers.run(partial(self._answer, message_id, partial(row.answer, self, params, give_up), give_up))

    def _answer(self, message_id: Any, answer: Callable[[], JsonObject], give_up: Cancel) -> None:
        """Carry a request out, in a thread of its own."""
        try:
            reply = response(message_id, answer())
        except (Refusal, McpError) as problem:
            reply = error(message_id, _refusal(problem))
        except Exception:
            log.exception("a request of the app %s failed", self.document.uri)
            reply = error(message_id, Refusal("the host failed"))
        with self._changed:
            self._under_way.remove(give_up)
            if self.state != "closed":
                self._send(reply)

    # -- the life of a view

    def _initialize(self, params: InitializeParams) -> JsonObject:
        self.info, self.capabilities = cast(JsonObject, params["appInfo"]), params["appCapabilities"]
        self._happen("asks")
        # SHOULD: say in which context a view is shown
        # (2026-01-26/extensions/apps#host-context-in-mcpuiinitializeresult)
        context = {
            "toolInfo": {"tool": self._tool}, "displayMode": self.mode, "availableDisplayModes": self.modes,
            **self._context,
        }  # fmt: skip
        sandbox = {"csp": {key: each for key, each in self.document.origins.items() if each}, "permissions": {}}
        able = {"openLinks": {}, "serverTools": {}, "serverResources": {}, "logging": {}, "sandbox": sandbox}
        about = {"name": "mcp_ref", "version": __version__}
        return {"protocolVersion": VERSION, "hostInfo": about, "hostCapabilities": able, "hostContext": context}

    def _ready(self, params: JsonObject) -> JsonObject:
        """Tell a view that is ready of the call."""
        with self._changed:
            self._happen("ready")
            # MUST: send the complete arguments, once, before the result
            # (2026-01-26/extensions/apps#notifications-host-to-view)
            self._send(notification("ui/notifications/tool-input", {"arguments": self.call.arguments}))
            if self._outcome is not None:
                self._send(self._outcome)
        return {}

    def _happen(self, *events: str) -> bool:
        """Go to the state that follows each event that can happen now; whether any could."""
        with self._changed:
            found = False
            for event in events:
                state = NEXT[self.state].get(event)
                found = found or state is not None
                self.state = state or self.state
            self._changed.notify_all()
            if self.state == "closed":
                self._out.put(None)
            return found

    def close(self, timeout: float | None = None, reason: str = "the view is closed") -> None:
        """Ask the view to save what it has, wait for its answer, and end the conversation. Idempotent; any thread.

        Blocks: at most `timeout` seconds, `LEAVE` unless that is given, and a moment.
        Why each thread ends: the requests under way are given up, so that `mcp-app-n` have nothing more to do.
        """
        deadline = Deadline(LEAVE if timeout is None else timeout)
        for give_up in list(self._under_way):
            give_up(reason)
        with self._changed:
            if self._happen("close") and self.state == "closing":
                # MUST: ask a view before it is taken down; SHOULD: wait for its answer
                # (2026-01-26/extensions/apps#notifications-host-to-view)
                self._send(request(_TEARDOWN, "ui/resource-teardown", {"reason": reason}))
                self._changed.wait_for(lambda: self.state == "closed", deadline.left())
                self._happen("over")
        self._workers.close(Deadline(1.0))
        if self in self.host.views:
            self.host.views.remove(self)

    # -- what a view may ask

    def _call_tool(self, params: CallToolRequestParams, give_up: Cancel) -> JsonObject:
        name, found = params["name"], self._hosted.definition(params["name"], Deadline(self._hosted.timeout))
        # MUST: refuse a view's call of a tool that is not for apps (2026-01-26/extensions/apps#visibility)
        # A view calls tools of its own server alone.
        if found is None or not is_for(found[0], "app"):
            raise InvalidParams(f"An app may not call {name[:100]}")
        return self.host.call(
            f"{self.server}/{name}", params.get("arguments"), by=f"the app {self.document.uri}", cancel=give_up
        )

    def _read_resource(self, params: ReadResourceRequestParams, give_up: Cancel) -> JsonObject:
        found = self._hosted.ask("read_resource", params["uri"], options={"cancel": give_up}, safe=True)
        return cast(JsonObject, found)

    def _open_link(self, params: OpenLinkParams, give_up: Cancel) -> JsonObject:
        url = urlsplit(params["url"])
        if url.scheme not in ("http", "https") or not url.hostname:
            raise Refusal("Invalid URL", code=FAILED)
        said = f"the app {self.document.uri} wants it opened"
        # SHOULD: open it in the user's browser (2026-01-26/extensions/apps#requests-view-to-host)
        done = self.host.open_page(self._hosted, params["url"], said, url.hostname, give_up)
        if done["action"] != "accept":
            raise Refusal("Link opening denied by user", code=FAILED)
        return {}

    def _message(self, params: MessageParams, give_up: Cancel) -> JsonObject:
        # MAY: ask the user; SHOULD: add it to the conversation with its role
        # (2026-01-26/extensions/apps#requests-view-to-host)
        shown = {"app": self.document.uri, "message": params["content"]}
        if not self.host.decide("message", self._hosted, shown, give_up).allowed:
            raise Refusal("Message sending denied", code=FAILED)
        self.host.context.append({"role": params["role"], "content": params["content"]})
        self.host.tell(self.server, "message", f"the app {self.document.uri} has put a message into the conversation")
        return {}

    def _update_context(self, params: ModelContextParams) -> JsonObject:
        blocks = [*params.get("content", ())]
        if "structuredContent" in params:
            blocks.append(text(json.dumps(params["structuredContent"], ensure_ascii=False)))
        origin = f"[from server {self.server!r}, app {self.document.uri}: what it shows now]"
        message = {"role": "user", "content": [text(origin), *blocks]} if blocks else {}
        with self._changed:
            before, self._said = self._said, message
            # SHOULD: only the last update goes to the model (2026-01-26/extensions/apps#requests-view-to-host)
            # It may have been taken already. One step each: others add to the context meanwhile.
            with suppress(ValueError):
                self.host.context.remove(before)
            if message:
                self.host.context.append(message)
        return {}

    def _request_mode(self, params: DisplayModeParams) -> JsonObject:
        # A host MUST NOT switch to a mode that the view did not declare, if it declared any
        # (2026-01-26/extensions/apps#display-modes-requirements)
        declared = self.capabilities.get("availableDisplayModes", self.modes)
        if params["mode"] in self.modes and params["mode"] in declared:
            self.mode = params["mode"]
        # MUST: name the mode that holds now (2026-01-26/extensions/apps#display-modes-requirements)
        return {"mode": self.mode}

    def _resized(self, params: SizeChangedParams) -> JsonObject:
        # MUST: listen for the size of a view (2026-01-26/extensions/apps#container-dimensions-host-behavior)
        self.size = params.get("width", self.size[0]), params.get("height", self.size[1])
        return {}

    def _logged(self, params: LoggingMessageNotificationParams) -> JsonObject:
        self.host.hear(self._hosted, "log", {**params, "data": f"the app {self.document.uri}: {params['data']}"})
        return {}

    def __repr__(self) -> str:
        return f"<AppView {self.document.uri} of {self.server}: {self.state}>"


FAILED: Final = -32000
"""What a view asked for was not done."""
_TEARDOWN: Final = "teardown"


class Row(NamedTuple):
    """A method of a view.

    Attributes:
        kind: "request" or "notification". check: of its params. states: in which it may come.
        answer: carries it out. waits: for the server, or for the user; such a request has a thread.
    """

    kind: str
    check: Callable[[Any, str], object]
    answer: Callable[..., JsonObject]
    states: Sequence[State] = ("running",)
    waits: bool = False


def _checks(params: Any) -> Callable[[Any, str], object]:
    return checker(params, LATEST_SESSION)


ROWS: Final = {
    "ui/initialize": Row("request", _checks(InitializeParams), AppView._initialize, ("loading",)),
    "ui/notifications/initialized": Row("notification", _checks(JsonObject), AppView._ready, ("greeted",)),
    "ping": Row("request", _checks(JsonObject), lambda view, params: {}, ("greeted", "running", "closing")),
    "tools/call": Row("request", _checks(CallToolRequestParams), AppView._call_tool, waits=True),
    "resources/read": Row("request", _checks(ReadResourceRequestParams), AppView._read_resource, waits=True),
    "ui/open-link": Row("request", _checks(OpenLinkParams), AppView._open_link, waits=True),
    "ui/message": Row("request", _checks(MessageParams), AppView._message, waits=True),
    "ui/update-model-context": Row("request", _checks(ModelContextParams), AppView._update_context),
    "ui/request-display-mode": Row("request", _checks(DisplayModeParams), AppView._request_mode),
    "ui/notifications/size-changed": Row("notification", _checks(SizeChangedParams), AppView._resized),
    "notifications/message": Row("notification", _checks(LoggingMessageNotificationParams), AppView._logged),
}
"""What a view may say. Everything else is -32601, or dropped."""


def _refusal(problem: Refusal | McpError) -> Refusal:
    """Return the error that a view gets: the server's own, or one sentence of the host."""
    if isinstance(problem, Refusal):
        return problem
    if isinstance(problem, ErrorResponse):
        return Refusal(problem.message, problem.data, code=problem.code)
    return Refusal(str(problem), code=FAILED)
