"""The session era's opening, and what both sides agreed on there; which versions the stateless era speaks.

Spec:      basic/lifecycle (2024-11-05 ... 2025-11-25), basic/versioning and server/discover (2026-07-28), the sections
           on capabilities of every page
"""

from __future__ import annotations

from functools import partial
from typing import Any

from mcp_ref import REVISIONS, STATELESS_REVISIONS
from mcp_ref.facts import METHODS, is_meta_key
from mcp_ref.lab.judge.rules.seen import ORDER, SHAPE, Link, Role, Said, Verdict, as_list, as_object, rule
from mcp_ref.lab.words import CLIENT_CAPABILITIES, PROTOCOL_VERSION, STATELESS_ERRORS

# -- initialize ---------------------------------------------------------------------------------------------------


@rule("request", "initialize", stage=SHAPE)
def initialize_names_the_version(link: Link, said: Said) -> Verdict:
    return None if isinstance(said.params.get("protocolVersion"), str) else "protocolVersion, a string"


@rule("request", "initialize", stage=SHAPE)
def initialize_names_the_capabilities(link: Link, said: Said) -> Verdict:
    return None if isinstance(said.params.get("capabilities"), dict) else "capabilities, an object"


@rule("request", "initialize", stage=SHAPE)
def initialize_names_the_client(link: Link, said: Said) -> Verdict:
    return None if isinstance(said.params.get("clientInfo"), dict) else "clientInfo, an object"


@rule("result", "initialize", stage=SHAPE)
def initialize_is_answered_in_full(link: Link, said: Said) -> Verdict:
    for name in ("capabilities", "serverInfo"):
        if not isinstance(said.result.get(name), dict):
            return f"{name}, an object"
    return None


@rule("result", "initialize", stage=ORDER)
def initialize_comes_first(link: Link, said: Said) -> Verdict:
    # A process has one session, an HTTP client may open another one.
    begins = link.whole or not link.http
    return (link.early, "initialize before it") if link.early is not None and begins else None


@rule("request", sender="client", stage=ORDER)
def client_waits_for_the_answer(link: Link, said: Said) -> Verdict:
    waiting = link.whole and link.offered is not None and not link.introduced
    return "a ping, or nothing, until initialize is answered" if waiting and _asks(said) else None


@rule("request", sender="server", stage=ORDER)
def server_waits_for_initialized(link: Link, said: Said) -> Verdict:
    waiting = link.whole and link.introduced and not link.opened
    return "a ping, or nothing, until notifications/initialized" if waiting and _asks(said) else None


@rule("request", sender="client", stage=ORDER)
def initialized_is_sent(link: Link, said: Said) -> Verdict:
    # Over HTTP two POSTs at once may be seen in either order: what never comes is found at the end.
    if link.http or not link.whole or not link.introduced or link.opened or not _asks(said):
        return None
    return "notifications/initialized before it"


@rule("end")
def initialized_was_sent(link: Link, event: Any) -> Verdict:
    if link.http and link.unopened is not None and not link.opened and not link.scattered:
        return link.unopened, "notifications/initialized before it"
    return None


def _asks(said: Said) -> bool:
    return said.method not in ("ping", "initialize") and not said.stateless


# -- the version --------------------------------------------------------------------------------------------------


@rule("notification", stage=ORDER, name="notifications_of_the_version")
@rule("request", stage=ORDER)
def methods_of_the_version(link: Link, said: Said) -> Verdict:
    row, kind = METHODS.get(said.about), "method" if "id" in said.message else "notification"
    foreign = row is not None and said.revision is not None and not row.exists_in(said.revision)
    return f"a {kind} of {said.revision}, which has no {said.method}" if foreign else None


@rule("request", "initialize", sender="client", stage=ORDER)
def version_is_agreed_once(link: Link, said: Said) -> Verdict:
    other = link.opened and link.revision is not None and said.params.get("protocolVersion") != link.revision.name
    return f"no initialize with another version than {link.revision}, or in a process of its own" if other else None


@rule("result", stage=ORDER)
def version_is_implemented(link: Link, said: Said) -> Verdict:
    version = said.asked.meta.get(PROTOCOL_VERSION)
    if not link.shared.supported or version in link.shared.supported or not isinstance(version, str):
        return None
    return f"error -32022: {version} is not among the supportedVersions of server/discover"


@rule("error", stage=SHAPE)
def unsupported_version_lists_others(link: Link, said: Said) -> Verdict:
    if said.code != -32022 or as_list(as_object(said.error.get("data")).get("supported")):
        return None
    return "data.supported: the versions that the server speaks"


@rule("request", sender="client", stage=ORDER)
def retries_with_a_supported_version(link: Link, said: Said) -> Verdict:
    if not link.unsupported:
        return None
    version = said.meta.get(PROTOCOL_VERSION)
    if not isinstance(version, str) or version in link.unsupported:
        return None
    return f"one of {', '.join(map(str, link.unsupported))}"


@rule("error", "server/discover")
def discover_is_there(link: Link, said: Said) -> Verdict:
    spoke = said.code == -32601 and link.shared.spoke
    return "a result: the server has answered requests of this revision" if spoke else None


@rule("result", stage=ORDER)
def discover_was_there(link: Link, said: Said) -> Verdict:
    refused = link.shared.undiscovered
    return None if refused is None else (refused, "a result: the server answers requests of this revision")


@rule("error", "initialize")
def refused_initialize_names_versions(link: Link, said: Said) -> Verdict:
    only = link.shared.supported and {*link.shared.supported} <= {row.name for row in STATELESS_REVISIONS}
    if not only or any(version in str(said.error) for version in link.shared.supported):
        return None
    return f"an error that names {', '.join(link.shared.supported)}"


@rule("retry", "initialize", sender="client")
def no_way_back_after_a_modern_error(link: Link, said: Said) -> Verdict:
    error = link.modern
    offered = [] if error is None else as_list(as_object(error.error.get("data")).get("supported"))
    known = (REVISIONS[each] for each in offered if isinstance(each, str) and each in REVISIONS)
    if error is None or any(revision.era == "session" for revision in known):
        return None
    return f"no initialize: error {error.code} comes from a server of the stateless era"


def is_modern_error(said: Said) -> bool:
    return type(said.code) is int and said.code in STATELESS_ERRORS


@rule("result", "server/discover", name="extension_names_have_a_prefix_here")
@rule("request", sender="client")
def extension_names_have_a_prefix(link: Link, said: Said) -> Verdict:
    own = said.result.get("capabilities") if "result" in said.message else said.meta.get(CLIENT_CAPABILITIES)
    for name in as_object(as_object(own).get("extensions")):
        if not is_meta_key(name) or "/" not in name or name.endswith("/"):
            return f"a name with a prefix, such as com.example/audit, not {name!r}"
    return None


# -- capabilities -------------------------------------------------------------------------------------------------


# Who answers it all the same has it, and has not declared it: that is another sentence.
@rule("result", name="only_what_was_negotiated_is_used")
@rule("error", stage=ORDER)
def only_what_was_negotiated(link: Link, said: Said) -> Verdict:
    needs = said.asked.needs
    return None if needs is None else (said.asked, f"nothing: {needs} was not declared")


@rule("notification", stage=ORDER)
def notifies_only_what_was_negotiated(link: Link, said: Said) -> Verdict:
    if said.needs is None or said.stateless:
        return None
    known = said.needs.split(".")[1] in (link.capabilities[said.sender] or {})
    return f"nothing: {said.needs} was not declared" if known else None


def lacks(link: Link, said: Said, name: str, side: Role = "server") -> bool:
    """Return whether a side has not declared a capability."""
    declared = link.declared(side, said)
    return declared is not None and name not in declared


def _declares(side: Role, name: str, link: Link, said: Said) -> Verdict:
    missing = said.asked.needs is not None and lacks(link, said, name, side)
    return f"{name} among the capabilities of the {side}, which has it" if missing else None


_RESOURCES = ("resources/list", "resources/read", "resources/templates/list", "resources/subscribe")
_DECLARED: dict[str, tuple[Role, str, tuple[str, ...]]] = {
    "tools_are_declared": ("server", "tools", ("tools/list", "tools/call")),
    "prompts_are_declared": ("server", "prompts", ("prompts/list", "prompts/get")),
    "resources_are_declared": ("server", "resources", _RESOURCES),
    "completions_are_declared": ("server", "completions", ("completion/complete",)),
    "logging_is_declared": ("server", "logging", ("logging/setLevel",)),
    "roots_are_declared": ("client", "roots", ("roots/list",)),
    "sampling_is_declared": ("client", "sampling", ("sampling/createMessage",)),
    "elicitation_is_declared": ("client", "elicitation", ("elicitation/create",)),
}
"""The capability of a side that answers a method."""
for _name, (_side, _feature_of, _methods) in _DECLARED.items():
    rule("result", *_methods, name=_name)(partial(_declares, _side, _feature_of))


def _notifies(name: str, which: str, link: Link, said: Said) -> Verdict:
    return f"{name} among the capabilities of the server{which}" if lacks(link, said, name) else None


_NOTIFIED = {
    "log_messages_are_declared": ("logging", ", which logs", "message"),
    "changing_tools_are_declared": ("tools", "", "tools/list_changed"),
    "changing_prompts_are_declared": ("prompts", "", "prompts/list_changed"),
    "changing_resources_are_declared": ("resources", "", "resources/list_changed", "resources/updated"),
}
"""The capability of a side that notifies of something."""
for _name, (_feature_of, _which, *_changes) in _NOTIFIED.items():
    rule("notification", *(f"notifications/{each}" for each in _changes), sender="server", name=_name)(
        partial(_notifies, _feature_of, _which)
    )


@rule("error", "roots/list", stage=ORDER)
def unknown_roots_are_32601(link: Link, said: Said) -> Verdict:
    misses = said.asked.needs == "client.roots" and said.code != -32601
    return "error -32601: the client has no roots" if misses else None


@rule("error", "completion/complete", stage=ORDER)
def unknown_completion_is_32601(link: Link, said: Said) -> Verdict:
    misses = said.asked.needs is not None and said.code != -32601
    return "error -32601: the server has no completions" if misses else None


def _lists(name: str, link: Link, said: Said) -> Verdict:
    declared = name in (link.declared("server", said) or {})
    return f"a list: the server has declared {name}" if declared and said.code == -32601 else None


for _feature_of in ("tools", "prompts", "resources"):
    rule("error", f"{_feature_of}/list", stage=ORDER, name=f"declared_{_feature_of}_are_listed")(
        partial(_lists, _feature_of)
    )


@rule("request", sender="client", name="elicitation_has_a_mode_here")
@rule("request", "initialize", sender="client")
def elicitation_has_a_mode(link: Link, said: Said) -> Verdict:
    stateless = said.method != "initialize"
    capabilities = said.meta.get(CLIENT_CAPABILITIES) if stateless else said.params.get("capabilities")
    declared = as_object(as_object(capabilities).get("elicitation"))
    modes = [each for each in (declared.get("form"), declared.get("url")) if isinstance(each, dict)]
    return "form, or url, or both" if declared and not modes else None
