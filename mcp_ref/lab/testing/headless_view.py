"""HeadlessView: the view's half of the conversation of an App, in Python: for tests of a server, or of a host.

    with Host(config, extensions=[APPS], consent=consent) as host:
        view = HeadlessView(host.open_app(AppCall("weather/now", {"city": "Porto"}, result)))
        view.open()
        assert view.told("ui/notifications/tool-result")["content"] == result["content"]

Spec:      the page of the extension `io.modelcontextprotocol/ui`, specification/2026-01-26/apps
Upholds:   spec_notes/extensions/apps.md, the rows that bind a view
Not here:  the host's half (host/apps); HTML, and what a browser does with it
"""

from __future__ import annotations

import time
from itertools import count
from typing import Any, Final

from mcp_ref import AppView, ErrorResponse, RequestTimeout

JsonObject = dict[str, Any]

VERSION: Final = "2026-01-26"
_PATIENCE: Final = 20.0


class HeadlessView:
    """A view without a document. It says what a test has it say, right or wrong.

    Args:
        view: the host's end.
        modes: the display modes that it declares; None: it declares none.
        patience: seconds for which each call waits; it raises RequestTimeout then.

    Attributes:
        host: the result of `ui/initialize`. heard: the notifications and requests of the host, in order.

    Threads: one.
    """

    def __init__(self, view: AppView, modes: list[str] | None = None, patience: float = _PATIENCE) -> None:
        self.view, self.patience, self._ids = view, patience, count(1)
        self._modes = {} if modes is None else {"availableDisplayModes": modes}
        self.host: JsonObject = {}
        self.heard: list[JsonObject] = []
        self._answers: dict[Any, JsonObject] = {}

    def open(self) -> JsonObject:
        """Introduce itself, and say that it is ready. Returns the context that the host has told."""
        # MUST: say what a view can do, and every mode that it can be shown in
        # (2026-01-26/extensions/apps#app-capabilities-in-uiinitialize, #display-modes-requirements)
        about = {"name": "headless", "version": "1"}
        self.host = self.ask("ui/initialize", appInfo=about, appCapabilities=self._modes, protocolVersion=VERSION)
        self.say("ui/notifications/initialized")
        context: JsonObject = self.host["hostContext"]
        return context

    def ask(self, method: str, **params: Any) -> JsonObject:
        """Send a request, and return its result. Raises: ErrorResponse."""
        number = next(self._ids)
        self.view.receive({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        answer = self.answer(number)
        if "error" in answer:
            error = answer["error"]
            raise ErrorResponse(error["code"], error["message"], error.get("data"))
        result: JsonObject = answer["result"]
        return result

    def say(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.view.receive({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, number: Any) -> JsonObject:
        """Return the answer to a request, as it came."""
        until = time.monotonic() + self.patience
        while number not in self._answers:
            self._take(until, f"the answer to request {number}")
        return self._answers.pop(number)

    def told(self, method: str) -> JsonObject:
        """Return the params of the next message of that method; others stay in `heard`."""
        params: JsonObject = self._next(method).get("params", {})
        return params

    def save(self) -> str:
        """Wait for the host to announce the end, agree, and return its reason."""
        asked = self._next("ui/resource-teardown")
        self.view.receive({"jsonrpc": "2.0", "id": asked["id"], "result": {}})
        return str(asked["params"]["reason"])

    def _next(self, method: str) -> JsonObject:
        until = time.monotonic() + self.patience
        while (found := next((each for each in self.heard if each["method"] == method), None)) is None:
            self._take(until, method)
        self.heard.remove(found)
        return found

    def _take(self, until: float, what: str) -> None:
        message = self.view.next(max(0.0, until - time.monotonic()))
        if message is None:
            raise RequestTimeout(f"the host did not send {what}")
        if "method" in message:
            self.heard.append(message)
        else:
            self._answers[message["id"]] = message
