"""The session era's opening, and what both sides agreed on there; which versions the stateless era speaks.

Spec:      basic/lifecycle (2024-11-05 ... 2025-11-25), basic/versioning and server/discover (2026-07-28), the sections
           on capabilities of every page
"""

from __future__ import annotations

from typing import Any

from mcp_ref.basic.meta import is_meta_key
from mcp_ref.basic.versioning import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcp_ref.errors import STATELESS_ERRORS
from mcp_ref.messages import JsonObject
from mcp_ref.revisions import REVISIONS, STATELESS_REVISIONS
from mcp_ref.trace.rules.seen import ORDER, SHAPE, Link, Said, Verdict, as_list, as_object, row_of, rule

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
    return (link.early, "initialize before it") if link.early is not None and _begins(link) else None


def _begins(link: Link) -> bool:
    """Whether `initialize` is the beginning: a process has one session, an HTTP client may open another one."""
    return link.whole or not link.http


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


def _foreign(said: Said) -> bool:
    row = row_of(said)
    return row is not None and said.revision is not None and not row.exists_in(said.revision)


@rule("request", stage=ORDER)
def methods_of_the_version(link: Link, said: Said) -> Verdict:
    return f"a method of {said.revision}, which has no {said.method}" if _foreign(said) else None


@rule("notification", stage=ORDER)
def notifications_of_the_version(link: Link, said: Said) -> Verdict:
    return f"a notification of {said.revision}, which has no {said.method}" if _foreign(said) else None


@rule("request", "initialize", sender="client", stage=ORDER)
def version_is_agreed_once(link: Link, said: Said) -> Verdict:
    other = link.opened and link.revision is not None and said.params.get("protocolVersion") != link.revision.name
    return f"no initialize with another version than {link.revision}, or in a process of its own" if other else None


@rule("result", stage=ORDER)
def version_is_implemented(link: Link, said: Said) -> Verdict:
    version = said.request.meta.get(PROTOCOL_VERSION) if said.request is not None else None
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
    spoke = _unknown(said) and link.shared.spoke
    return "a result: the server has answered requests of this revision" if spoke else None


@rule("result", stage=ORDER)
def discover_was_there(link: Link, said: Said) -> Verdict:
    refused = link.shared.undiscovered
    return None if refused is None else (refused, "a result: the server answers requests of this revision")


def _unknown(said: Said) -> bool:
    return bool(said.code == -32601)


@rule("error", "initialize")
def refused_initialize_names_versions(link: Link, said: Said) -> Verdict:
    only = link.shared.supported and {*link.shared.supported} <= {row.name for row in STATELESS_REVISIONS}
    if not only or any(version in str(said.error) for version in link.shared.supported):
        return None
    return f"an error that names {', '.join(link.shared.supported)}"


@rule("retry", "initialize", sender="client")
def no_way_back_after_a_modern_error(link: Link, said: Said) -> Verdict:
    error = link.modern
    if error is None or any(REVISIONS[each].era == "session" for each in _offers(error) if each in REVISIONS):
        return None
    return f"no initialize: error {error.code} comes from a server of the stateless era"


def _offers(error: Said) -> list[str]:
    return [each for each in as_list(as_object(error.error.get("data")).get("supported")) if isinstance(each, str)]


def is_modern_error(said: Said) -> bool:
    return type(said.code) is int and said.code in STATELESS_ERRORS


def _extensions(said: Said) -> JsonObject:
    own = said.result.get("capabilities") if "result" in said.message else said.meta.get(CLIENT_CAPABILITIES)
    return as_object(as_object(own).get("extensions"))


@rule("request", sender="client")
def extension_names_have_a_prefix(link: Link, said: Said) -> Verdict:
    return _prefixlacks(said)


@rule("result", "server/discover")
def extension_names_have_a_prefix_here(link: Link, said: Said) -> Verdict:
    return _prefixlacks(said)


def _prefixlacks(said: Said) -> Verdict:
    for name in _extensions(said):
        if not is_meta_key(name) or "/" not in name or name.endswith("/"):
            return f"a name with a prefix, such as com.example/audit, not {name!r}"
    return None


# -- capabilities -------------------------------------------------------------------------------------------------


@rule("error", stage=ORDER)
def only_what_was_negotiated(link: Link, said: Said) -> Verdict:
    request = said.request
    if request is None or request.needs is None:
        return None
    return request, f"nothing: {request.needs} was not declared"


@rule("result")
def only_what_was_negotiated_is_used(link: Link, said: Said) -> Verdict:
    # Who answers it all the same has it, and has not declared it: that is another sentence.
    return only_what_was_negotiated(link, said)


@rule("notification", stage=ORDER)
def notifies_only_what_was_negotiated(link: Link, said: Said) -> Verdict:
    if said.needs is None or said.stateless:
        return None
    feature = _feature(said.needs).partition(".")[2]
    known = feature in (link.capabilities[said.sender] or {})
    return f"nothing: {said.needs} was not declared" if known else None


def _feature(needs: str) -> str:
    return ".".join(needs.split(".")[:2])


def _declares(said: Said, name: str, side: str) -> Verdict:
    needs = said.needs if said.request is None else said.request.needs
    if needs is None or needs.partition(".")[0] != side or needs.split(".")[1] != name:
        return None
    return f"{name} among the capabilities of the {side}, which has it"


def lacks(link: Link, said: Said, name: str) -> bool:
    """Whether the server has not declared a capability."""
    declared = link.declared("server", said)
    return declared is not None and name not in declared


@rule("result", "tools/list", "tools/call")
def tools_are_declared(link: Link, said: Said) -> Verdict:
    return _declares(said, "tools", "server")


@rule("result", "prompts/list", "prompts/get")
def prompts_are_declared(link: Link, said: Said) -> Verdict:
    return _declares(said, "prompts", "server")


@rule("result", "resources/list", "resources/read", "resources/templates/list", "resources/subscribe")
def resources_are_declared(link: Link, said: Said) -> Verdict:
    return _declares(said, "resources", "server") if lacks(link, said, "resources") else None


@rule("result", "completion/complete")
def completions_are_declared(link: Link, said: Said) -> Verdict:
    return _declares(said, "completions", "server")


@rule("result", "logging/setLevel")
def logging_is_declared(link: Link, said: Said) -> Verdict:
    return _declares(said, "logging", "server")


@rule("notification", "notifications/message", sender="server")
def log_messages_are_declared(link: Link, said: Said) -> Verdict:
    return "logging among the capabilities of the server, which logs" if lacks(link, said, "logging") else None


@rule("notification", "notifications/tools/list_changed", sender="server")
def changing_tools_are_declared(link: Link, said: Said) -> Verdict:
    return "tools among the capabilities of the server" if lacks(link, said, "tools") else None


@rule("notification", "notifications/prompts/list_changed", sender="server")
def changing_prompts_are_declared(link: Link, said: Said) -> Verdict:
    return "prompts among the capabilities of the server" if lacks(link, said, "prompts") else None


@rule("notification", "notifications/resources/list_changed", "notifications/resources/updated", sender="server")
def changing_resources_are_declared(link: Link, said: Said) -> Verdict:
    return "resources among the capabilities of the server" if lacks(link, said, "resources") else None


@rule("result", "roots/list")
def roots_are_declared(link: Link, said: Said) -> Verdict:
    return _declares(said, "roots", "client")


@rule("result", "sampling/createMessage")
def sampling_is_declared(link: Link, said: Said) -> Verdict:
    return _declares(said, "sampling", "client")


@rule("result", "elicitation/create")
def elicitation_is_declared(link: Link, said: Said) -> Verdict:
    return _declares(said, "elicitation", "client")


@rule("error", "roots/list", stage=ORDER)
def unknown_roots_are_32601(link: Link, said: Said) -> Verdict:
    request = said.request
    if request is None or request.needs != "client.roots" or "error" not in said.message:
        return None
    return None if said.code == -32601 else "error -32601: the client has no roots"


@rule("error", "completion/complete", stage=ORDER)
def unknown_completion_is_32601(link: Link, said: Said) -> Verdict:
    request = said.request
    if request is None or request.needs is None or "error" not in said.message:
        return None
    return None if said.code == -32601 else "error -32601: the server has no completions"


def _lists(link: Link, said: Said, name: str) -> Verdict:
    declared = name in (link.declared("server", said) or {})
    return f"a list: the server has declared {name}" if declared and _unknown(said) else None


@rule("error", "tools/list", stage=ORDER)
def declared_tools_are_listed(link: Link, said: Said) -> Verdict:
    return _lists(link, said, "tools")


@rule("error", "prompts/list", stage=ORDER)
def declared_prompts_are_listed(link: Link, said: Said) -> Verdict:
    return _lists(link, said, "prompts")


@rule("error", "resources/list", stage=ORDER)
def declared_resources_are_listed(link: Link, said: Said) -> Verdict:
    return _lists(link, said, "resources")


@rule("request", "initialize", sender="client")
def elicitation_has_a_mode(link: Link, said: Said) -> Verdict:
    return _mode(said.params.get("capabilities"))


@rule("request", sender="client")
def elicitation_has_a_mode_here(link: Link, said: Said) -> Verdict:
    return _mode(said.meta.get(CLIENT_CAPABILITIES))


def _mode(capabilities: Any) -> Verdict:
    declared = as_object(as_object(capabilities).get("elicitation"))
    modes = [each for each in (declared.get("form"), declared.get("url")) if isinstance(each, dict)]
    return "form, or url, or both" if declared and not modes else None
