"""Apps: what a server says of them, and what a host and an app that it shows say to each other.

Spec:      the page of the extension `io.modelcontextprotocol/ui`, specification/2026-01-26/apps

Not judged: what a browser enforces, and what a user is asked, which show in no traffic; the tool that an app calls,
for a host may know of another list of tools than this trace has.

    host      <->   view      over postMessage: `View` is what is known of one such conversation
    client    <->   server    what is said of apps, where the client has declared that it shows them
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from mcp_ref import APPS, JsonObject
from mcp_ref.lab.judge.rules.seen import (
    Link,
    Requests,
    Role,
    Said,
    Verdict,
    as_object,
    hidden,
    objects,
    rule,
)

PAGE: Final = "2026-01-26/extensions/apps"
_TYPE: Final = APPS.settings["mimeTypes"][0]
_HTML5: Final = re.compile(r"\ufeff?(?:\s|<!--.*?-->)*<!doctype\s+html\b", re.IGNORECASE | re.DOTALL)
_INPUT, _PARTIAL = "ui/notifications/tool-input", "ui/notifications/tool-input-partial"
_RESULT, _MODE = "ui/notifications/tool-result", "ui/request-display-mode"


class ViewMethod(NamedTuple):
    """A method between a host and an app: who sends it, as what, and one line about it."""

    sender: Role | None  # None: either
    kind: str
    about: str


METHODS: Final = {
    "ui/initialize": ViewMethod("view", "request", "the app says who it is, and asks what this host can do"),
    "ui/notifications/initialized": ViewMethod(
        "view", "notification", "the app is ready: only now it is told anything"
    ),
    "ui/notifications/tool-input": ViewMethod("host", "notification", "the arguments of the call, whole and once"),
    "ui/notifications/tool-input-partial": ViewMethod(
        "host", "notification", "the arguments of the call, as far as they have come"
    ),
    "ui/notifications/tool-result": ViewMethod("host", "notification", "the result of the call"),
    "ui/notifications/tool-cancelled": ViewMethod("host", "notification", "the call was given up"),
    "ui/notifications/size-changed": ViewMethod(None, "notification", "the app says how large it is"),
    "ui/notifications/host-context-changed": ViewMethod("host", "notification", "something about the host has changed"),
    "ui/open-link": ViewMethod("view", "request", "the app wants a page opened, which the user decides"),
    "ui/message": ViewMethod("view", "request", "the app wants words put into the conversation, as the user's own"),
    "ui/update-model-context": ViewMethod("view", "request", "what the model is to know of the app from now on"),
    "ui/request-display-mode": ViewMethod("view", "request", "the app wants to be shown in another way"),
    "ui/resource-teardown": ViewMethod(
        "host", "request", "the app is about to be taken down, and may save what it has"
    ),
    "tools/call": ViewMethod(None, "request", "the app calls a tool of its own server, through the host"),
    "resources/read": ViewMethod("view", "request", "the app reads a resource of its own server, through the host"),
    "notifications/message": ViewMethod("view", "notification", "a line of the app's log"),
    "ping": ViewMethod(None, "request", "is the other side there?"),
}
"""The methods between a host and an app that the page names."""


class View(Requests):
    """The knowledge of one conversation between a host and an app.

    Attributes:
        whole: it was seen from its beginning; if not, nothing is said of what came before.
        ready: the app has sent `ui/notifications/initialized`. input: it was told the arguments of the call.
        declared: the modes in which the app can be shown, as it says. offered: those of the host; each None: unknown.
        mode: how it is shown now.
    """

    http = False

    def __init__(self) -> None:
        super().__init__()
        self.whole: bool | None = None
        self.ready = self.input = False
        self.declared: list[Any] | None = None
        self.offered: list[Any] | None = None
        self.mode: Any = None

    def learn(self, said: Said) -> None:
        """Note what a message says, once it was judged."""
        if said.method and said.id is not None:
            self.note_request(said)
            return
        match said.sender, said.about:
            case "view", "ui/notifications/initialized":
                self.ready = True
            case "host", "ui/notifications/tool-input":
                self.input = True
            case "host", "ui/initialize":
                self._offer(as_object(said.result.get("hostContext")))
                self.declared = _modes(as_object(said.asked.params.get("appCapabilities")))
            case "host", "ui/request-display-mode":
                self.mode = said.result.get("mode", self.mode)
            case "host", "ui/notifications/host-context-changed":
                self._offer({"displayMode": self.mode, "availableDisplayModes": self.offered, **said.params})

    def _offer(self, context: JsonObject) -> None:
        self.offered, self.mode = _modes(context), context.get("displayMode")


def _modes(able: JsonObject) -> list[Any] | None:
    modes = able.get("availableDisplayModes")
    return modes if isinstance(modes, list) else None


# -- what a host and an app say -----------------------------------------------------------------------------------


@rule("view", sender="host")
def app_is_told_nothing_before_it_is_ready(view: View, said: Said) -> Verdict:
    own = said.method.startswith("ui/notifications/sandbox-")  # between the host's page and its sandbox
    early = said.method and not own and view.whole and not view.ready
    return "nothing but answers before the app's ui/notifications/initialized" if early else None


@rule("view", _INPUT, sender="host")
def app_gets_its_input_once(view: View, said: Said) -> Verdict:
    return "the arguments once" if said.method and view.input else None


@rule("view", _RESULT, sender="host")
def app_gets_its_input_first(view: View, said: Said) -> Verdict:
    return f"{_INPUT} before the result" if said.method and view.whole and not view.input else None


@rule("view", _PARTIAL, sender="host")
def app_gets_no_part_after_the_whole(view: View, said: Said) -> Verdict:
    return f"nothing in part after {_INPUT}" if said.method and view.input else None


@rule("view", "ui/initialize", sender="view")
def app_says_what_it_can(view: View, said: Said) -> Verdict:
    able = isinstance(said.params.get("appCapabilities"), dict)
    return None if able or not said.method else "appCapabilities: an object"


@rule("view", "ui/initialize", sender="host")
def app_is_told_its_context(view: View, said: Said) -> Verdict:
    lacks = "result" in said.message and not isinstance(said.result.get("hostContext"), dict)
    return "hostContext: an object" if lacks else None


@rule("view", _MODE, sender="view")
def app_asks_for_a_mode_that_is_offered(view: View, said: Said) -> Verdict:
    asked = said.params.get("mode")
    wrong = said.method and view.offered is not None and asked not in view.offered
    return f"one of the modes that the host offers: {', '.join(map(str, view.offered or ()))}" if wrong else None


@rule("view", _MODE, sender="host")
def app_is_told_the_mode_that_holds(view: View, said: Said) -> Verdict:
    lacks = "result" in said.message and not isinstance(said.result.get("mode"), str)
    return "mode: the one that holds now" if lacks else None


@rule("view", _MODE, sender="host")
def app_is_shown_as_it_can_be(view: View, said: Said) -> Verdict:
    mode, declared = said.result.get("mode"), view.declared
    wrong = bool(declared) and isinstance(mode, str) and mode != view.mode and mode not in (declared or ())
    return f"one of the modes that the app declares: {', '.join(map(str, declared or ()))}" if wrong else None


# -- what a client and a server say of apps -----------------------------------------------------------------------


def shows_apps(link: Link, said: Said) -> bool:
    """Return whether a message is of, or for, a client that declares apps: no other is asked anything of them."""
    return APPS.name in as_object(as_object(link.declared("client", said)).get("extensions"))


def _uri_of(tool: Any) -> Any:
    return as_object(as_object(as_object(tool).get("_meta")).get("ui")).get("resourceUri")


@rule("app", sender="client")
def client_says_which_documents_it_shows(link: Link, said: Said) -> Verdict:
    if not said.stateless and said.method != "initialize":
        return None
    types = as_object(as_object(as_object(link.declared("client", said)).get("extensions")).get(APPS.name))
    right = isinstance(named := types.get("mimeTypes"), list) and all(isinstance(each, str) for each in named)
    return None if right or not said.method else f'mimeTypes: a list, such as ["{_TYPE}"]'


@rule("app", "tools/list", sender="server")
def app_has_the_scheme_ui(link: Link, said: Said) -> Verdict:
    uris = [uri for tool in objects(said.result.get("tools")) if (uri := _uri_of(tool)) is not None]
    return None if all(str(uri).startswith("ui://") for uri in uris) else "resourceUri: a URI of the scheme ui"


def _documents(said: Said) -> list[JsonObject]:
    """Return what reading an app gave."""
    read = str(said.asked.params.get("uri")).startswith("ui://")
    return objects(said.result.get("contents")) if read else []


@rule("app", "resources/read", sender="server")
def app_has_the_type_of_apps(link: Link, said: Said) -> Verdict:
    right = all(each.get("mimeType") == _TYPE for each in _documents(said))
    return None if right else f"the mimeType {_TYPE}"


@rule("app", "resources/read", sender="server")
def app_is_an_html_document(link: Link, said: Said) -> Verdict:
    texts = [each.get("text") for each in _documents(said) if each.get("mimeType") == _TYPE]
    wrong = any(isinstance(text, str) and not hidden(text) and not _HTML5.match(text) for text in texts)
    return "a document of HTML5, which begins with <!doctype html>" if wrong else None


@rule("app", "resources/read", sender="server")
def app_of_a_tool_exists(link: Link, said: Said) -> Verdict:
    known, uri = link.known(said.asked), said.asked.params.get("uri")
    named = any(_uri_of(tool) == uri for tool in known.tools.values()) and known.changed < said.asked.event.seq
    return f"the document {uri}, which a tool names" if named and said.code in (-32002, -32602) else None


@rule("app", "tools/call", sender="server")
def tool_with_an_app_says_it_in_words(link: Link, said: Said) -> Verdict:
    empty = _uri_of(said.asked.tool) is not None and said.result.get("content") == []
    return "content that says the result without the app" if empty else None
