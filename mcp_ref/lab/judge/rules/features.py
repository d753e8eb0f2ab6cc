"""Rules for what servers offer and clients answer, in both eras: tools, prompts, resources, completion, logging,
pagination;
roots, sampling, elicitation.

Spec:      server/tools, server/prompts, server/resources, server/utilities, client/roots, client/sampling,
           client/elicitation
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

from mcp_ref import JsonObject
from mcp_ref.facts import (
    SchemaRefused,
    content_problem,
    message_problem,
    messages,
    modes_of,
    once,
    parameters,
    prepare,
    schema_problem,
)
from mcp_ref.lab.judge.rules import session
from mcp_ref.lab.judge.rules.seen import (  # fmt: skip
    MEANING,
    ORDER,
    SHAPE,
    Link,
    Role,
    Said,
    Verdict,
    as_list,
    as_object,
    objects,
    refused,
    rule,
    rule_of_each,
    shown,
)
from mcp_ref.lab.words import LOG_LEVEL

# -- JSON Schema --------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1000)
def _schema_problem(text: bytes) -> str | None:
    """Return the problem of a schema by its dialect; None without one, or if the dialect is not known here."""
    import json

    from jsonschema import validators
    from jsonschema.exceptions import SchemaError

    schema = json.loads(text)
    dialect = str(schema.get("$schema", "https://json-schema.org/draft/2020-12/schema"))
    unknown: Any = None
    try:
        if known := validators.validator_for({"$schema": dialect}, default=unknown):
            known.check_schema(schema)
    except SchemaError as problem:
        return f"{'.'.join(map(str, problem.absolute_path)) or 'the root'}: {problem.message[:200]}"
    return None


@once
def _validator(schema: JsonObject) -> Any:
    try:
        return prepare(schema, what="a schema")
    except SchemaRefused:
        return None


def _misfit(schema: Any, value: Any) -> str | None:
    """Return how a value does not fit a schema that can be used."""
    if not isinstance(schema, dict) or (found := _validator(schema)) is None:
        return None
    _show_all(value)
    problem = next(iter(found.problems(value)), None)
    return None if problem and problem.startswith(("nested too", "needs more", "cannot be")) else problem


def _show_all(value: Any) -> None:
    """Raise Redacted if the trace hides the value, or something in it."""
    shown(value)
    for inner in value.values() if isinstance(value, dict) else as_list(value):
        _show_all(inner)


# -- tools --------------------------------------------------------------------------------------------------------


def _tools(said: Said) -> list[JsonObject]:
    return objects(said.result.get("tools"))


of_each_tool = partial(rule_of_each, "result", "tools/list", within=_tools)


@of_each_tool(stage=SHAPE)
def tools_have_an_input_schema(tool: JsonObject) -> str | None:
    has_one = isinstance(tool.get("inputSchema"), dict)
    return None if has_one else f"an object as the inputSchema of {tool.get('name')!r}"


@of_each_tool(stage=SHAPE)
def schemas_are_valid(tool: JsonObject) -> str | None:
    for name in ("inputSchema", "outputSchema"):
        if isinstance(tool.get(name), dict) and (problem := _schema_problem(messages.encode(tool[name]))):
            return f"a valid {name} of {tool.get('name')!r}; {problem}"
    return None


@of_each_tool()
def tool_names_have_128_characters_at_most(tool: JsonObject) -> str | None:
    length = len(str(tool.get("name")))
    return None if 1 <= length <= 128 else f"1 to 128 characters, not {length}"


@of_each_tool()
def tool_names_are_plain(tool: JsonObject) -> str | None:
    plain = re.fullmatch(r"[A-Za-z0-9_.-]*", name := str(tool.get("name")))
    return None if plain else f"letters, digits, _ - . and nothing else, unlike {name!r}"


@rule("result", "tools/list")
def tool_names_are_unique(link: Link, said: Said) -> Verdict:
    names = [tool.get("name") for tool in _tools(said)]
    twice = [name for name in names if names.count(name) > 1] if len(names) < 1000 else []
    return f"one tool called {twice[0]!r}" if twice else None


@rule("result", "tools/list")
def tools_keep_their_order(link: Link, said: Said) -> Verdict:
    before, now = link.known(said).order, [str(tool.get("name")) for tool in _tools(said)]
    whole = "cursor" not in said.asked.params and "nextCursor" not in said.result
    if not whole or before is None or before == now or sorted(before) != sorted(now):
        return None
    return "the tools in the order of the list before"


@rule("result", "tools/call")
def tool_inputs_are_validated(link: Link, said: Said) -> Verdict:
    tool = said.asked.tool
    if tool is None or said.result.get("isError") is True or _asks_input(said):
        return None
    problem = _misfit(tool.get("inputSchema"), said.asked.params.get("arguments", {}))
    return f"an error: the arguments do not fit the inputSchema: {problem}" if problem else None


@rule("result", "tools/call")
def structured_content_conforms(link: Link, said: Said) -> Verdict:
    tool = said.asked.tool
    if tool is None or "outputSchema" not in tool or said.result.get("isError") is True or _asks_input(said):
        return None
    if "structuredContent" not in said.result:
        return "structuredContent that fits the outputSchema"
    problem = _misfit(tool["outputSchema"], said.result["structuredContent"])
    return f"structuredContent that fits the outputSchema; {problem}" if problem else None


@rule("result", "tools/list")
def structured_content_conformed(link: Link, said: Said) -> Verdict:
    # Of a tool that was called before it was listed.
    for tool in _tools(said):
        if (before := link.known(said).called.get(str(tool.get("name")))) is not None:
            before.asked.tool = tool
            if (problem := structured_content_conforms(link, before)) is not None:
                return before, str(problem)
    return None


@rule("result", "tools/call", having="structuredContent")
def structured_content_is_also_text(link: Link, said: Said) -> Verdict:
    texts = [block for block in objects(said.result.get("content")) if block.get("type") == "text"]
    return None if texts else "the same as JSON in a text block of content"


@rule("result", "tools/call")
def embedding_servers_have_resources(link: Link, said: Said) -> Verdict:
    if not session.lacks(link, said, "resources"):
        return None
    embedded = any(block.get("type") == "resource" for block in objects(said.result.get("content")))
    return "resources among the capabilities" if embedded else None


def _asks_input(said: Said) -> bool:
    return said.result.get("resultType") in ("input_required", "task") or "task" in said.result


# -- x-mcp-header -------------------------------------------------------------------------------------------------


_ANNOTATIONS = {
    "header_annotation_is_reachable": ("chain", "only where a chain of properties leads"),
    "header_annotation_is_unique": ("given twice", "that differ in more than case"),
    "header_annotation_is_on_a_primitive": ("must be on", "on a string, an integer or a boolean"),
    "header_annotation_is_not_empty": ("not ''$", "that is not empty"),
    "header_annotation_has_no_control_characters": (r"(?<!\\)\\(?:[tnr]|x[01]|x7f)", "without control characters"),
    "header_annotation_is_a_token": ("", "that is the name of a header"),
}
"""The rules for annotations: by what they are known in the words of `parameters`, and what would be right."""


@once
def _header_problem(tool: JsonObject) -> tuple[str, str] | None:
    """Return the rule that an annotation of a tool breaks, and what would have been right."""
    try:
        parameters(as_object(tool.get("inputSchema")))
    except ValueError as problem:
        broken = next(name for name, (known, _) in _ANNOTATIONS.items() if re.search(known, str(problem)))
        return broken, f"x-mcp-header of {tool.get('name')!r} {_ANNOTATIONS[broken][1]}"
    return None


def _annotated(name: str, tool: JsonObject) -> str | None:
    broken, expected = _header_problem(tool) or ("", None)
    return expected if broken == name else None


for _name in _ANNOTATIONS:
    of_each_tool(name=_name)(partial(_annotated, _name))


@rule("request", "tools/call", sender="client")
def unusable_tools_are_not_called(link: Link, said: Said) -> Verdict:
    if not link.http or said.tool is None or not (problem := _header_problem(said.tool)):
        return None
    return f"no call: the definition breaks the rules ({problem[1]})"


# -- content and resources ----------------------------------------------------------------------------------------

_MIME = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+\s*(;.*)?")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*")


_of_each_block = partial(
    rule_of_each, "result", "prompts/get", stage=SHAPE,
    within=lambda said: objects([message.get("content") for message in objects(said.result.get("messages"))]),
)  # fmt: skip


def _data(kind: str, block: JsonObject) -> str | None:
    if block.get("type") != kind:
        return None
    if not _is_base64(block.get("data")):
        return "data in base64"
    typed = _MIME.fullmatch(str(block.get("mimeType")))
    return None if typed else f"a MIME type such as {kind}/x, not {block.get('mimeType')!r}"


def _is_base64(data: Any) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError, TypeError):
        shown(data)
        return False
    return True


_of_each_block(name="images_are_base64_with_a_type")(partial(_data, "image"))
_of_each_block(name="sounds_are_base64_with_a_type")(partial(_data, "audio"))


@_of_each_block()
def embedded_resources_have_a_uri(block: JsonObject) -> str | None:
    uri = as_object(block.get("resource")).get("uri")
    sound = block.get("type") != "resource" or isinstance(uri, str) and _URI.fullmatch(uri)
    return None if sound else f"a valid uri, not {uri!r}"


@_of_each_block()
def embedded_resources_have_text_or_blob(block: JsonObject) -> str | None:
    inner = as_object(block.get("resource"))
    sound = block.get("type") != "resource" or isinstance(inner.get("text"), str) or _is_base64(inner.get("blob"))
    return None if sound else "text, or a blob in base64"


@rule_of_each("result", "resources/read", within=lambda said: objects(said.result.get("contents")), stage=SHAPE)
def blobs_are_base64(contents: JsonObject) -> str | None:
    return "a blob in base64" if "blob" in contents and not _is_base64(contents["blob"]) else None


@rule_of_each("result", "resources/list", within=lambda said: objects(said.result.get("resources")))
def resource_uris_are_uris(entry: JsonObject) -> str | None:
    uri = str(entry.get("uri"))
    return None if _URI.fullmatch(uri) else f"a URI by RFC 3986, unlike {shown(uri)!r}"


# -- prompts, completion, logging, pagination ---------------------------------------------------------------------


@rule("result", "prompts/get")
def missing_arguments_are_refused(link: Link, said: Said) -> Verdict:
    missing = _missing_arguments(link, said)
    return f"error -32602: the argument {missing!r} is missing" if missing and not _asks_input(said) else None


@rule("error", "prompts/get")
def missing_arguments_are_32602(link: Link, said: Said) -> Verdict:
    missing = _missing_arguments(link, said)
    return f"code -32602: the argument {missing!r} is missing" if missing and said.code != -32602 else None


def _missing_arguments(link: Link, said: Said) -> str | None:
    params = {} if link.known(said).changed > said.asked.event.seq else said.asked.params
    prompt = link.known(said).prompts.get(str(params.get("name")), {})
    given = as_object(params.get("arguments"))
    required = [each.get("name") for each in objects(prompt.get("arguments")) if each.get("required") is True]
    return next((str(name) for name in required if name not in given), None)


refused("incomplete_completion_is_32602", "completion/complete", "schema", "an argument is missing")
refused("unknown_levels_are_refused", "logging/setLevel", "schema", "no such level")

_LEVELS = frozenset({"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"})


@rule("rejection")
def unknown_levels_of_requests_are_refused(link: Link, said: Said) -> Verdict:
    return "error -32602: no such level" if _unknown_level(said) and "result" in said.message else None


@rule("rejection")
def unknown_levels_of_requests_are_32602(link: Link, said: Said) -> Verdict:
    other = "error" in said.message and said.code != -32602
    return "code -32602: no such level" if _unknown_level(said) and other else None


def _unknown_level(said: Said) -> bool:
    return "schema" in said.asked.faults and said.asked.meta.get(LOG_LEVEL) not in (None, *_LEVELS)


@rule("request", sender="client", having="cursor")
def cursors_go_back_as_they_came(link: Link, said: Said) -> Verdict:
    cursor, known = said.params.get("cursor"), link.known(said).cursors
    if not isinstance(cursor, str) or (said.method, cursor) in known or _elsewhere(link, said, cursor):
        return None
    given = [each for method, each in known if method == said.method]
    if not (given if said.stateless else link.whole):
        return None
    return "a cursor that the server gave" + (f", such as {min(given)!r}" if given else "; it has given none")


@rule("request", sender="client", having="cursor")
def cursors_stay_in_their_session(link: Link, said: Said) -> Verdict:
    cursor = said.params.get("cursor")
    if said.stateless or link.scattered or not isinstance(cursor, str) or not _elsewhere(link, said, cursor):
        return None
    return "a cursor of this session"


def _elsewhere(link: Link, said: Said, cursor: str) -> bool:
    """Return whether a cursor was given in another session."""
    named = (said.method, cursor)
    return named in link.shared.cursors and named not in link.known(said).cursors


# -- roots --------------------------------------------------------------------------------------------------------


Problem: TypeAlias = Callable[[JsonObject, Link, Said], Verdict]
"""The problem of the params of a question, in the message that has them."""
Misfit: TypeAlias = Callable[[JsonObject, JsonObject, Said], Verdict]
"""How an answer does not fit the params of its question."""

ANSWERS: Final[list[tuple[str, str, Misfit]]] = []
"""Rules for a session's result that also hold for an answer within a request that is sent again."""


def questions(said: Said) -> list[JsonObject]:
    """Return the requests for input of a result."""
    return objects(list(as_object(said.result.get("inputRequests")).values()))


def asked(name: str, method: str, problem: Problem, stage: int = MEANING) -> None:
    """Declare a rule for a question within a result."""

    def ask(link: Link, said: Said) -> Verdict:
        given = (as_object(each.get("params")) for each in questions(said) if each.get("method") == method)
        return next((found for params in given if (found := problem(params, link, said))), None)

    rule("asking", stage=stage, name=name)(ask)


def question(method: str, name: str, *, sender: Role | None = None, stage: int = MEANING) -> Callable[[Problem], None]:
    """Declare a rule for a session's request and, under a name of its own, for the same question within a result."""

    def declare(problem: Problem) -> None:
        def ask(link: Link, said: Said) -> Verdict:
            return problem(said.params, link, said)

        rule("request", method, sender=sender, stage=stage, name=problem.__name__)(ask)
        asked(name, method, problem, stage)

    return declare


def _answer(method: str, answered: str) -> Callable[[Misfit], None]:
    def declare(misfit: Misfit) -> None:
        def ask(link: Link, said: Said) -> Verdict:
            return misfit(said.asked.params, said.result, said)

        rule("result", method, name=misfit.__name__)(ask)
        ANSWERS.append((answered, method, misfit))

    return declare


@_answer("roots/list", "answered_roots_are_files")
def roots_are_file_uris(params: JsonObject, result: JsonObject, said: Said) -> Verdict:
    for root in objects(result.get("roots")):
        if not str(root.get("uri")).startswith("file://"):
            return f"a file:// URI, not {root.get('uri')!r}"
    return None


# -- sampling -----------------------------------------------------------------------------------------------------


@question("sampling/createMessage", "asked_results_alone", sender="server")
def tool_results_stand_alone(params: JsonObject, link: Link, said: Said) -> Verdict:
    problem = message_problem(objects(params.get("messages")))
    return "tool results and nothing else in that message" if problem and "mixed" in problem else None


@question("sampling/createMessage", "asked_uses_have_results", sender="server")
def tool_uses_have_results(params: JsonObject, link: Link, said: Said) -> Verdict:
    problem = message_problem(objects(params.get("messages")))
    return f"a result for each tool use, in the next message; {problem}" if problem and "mixed" not in problem else None


_SAMPLING, _MIXED = "sampling/createMessage", "tool results are mixed with other content"
refused("missing_results_are_32602", _SAMPLING, "tool_uses_have_results", "a tool result is missing")
refused("mixed_results_are_32602", _SAMPLING, "tool_results_stand_alone", _MIXED)


def samples_with_tools(params: JsonObject, declared: JsonObject | None) -> bool:
    """Return whether a question has tools for a client that has not declared them."""
    has_tools = bool(params.keys() & {"tools", "toolChoice"})
    return has_tools and declared is not None and "tools" not in as_object(declared.get("sampling"))


@rule("error", "sampling/createMessage", stage=ORDER)
def tools_only_for_clients_that_take_them(link: Link, said: Said) -> Verdict:
    undeclared = samples_with_tools(said.asked.params, link.declared("client", said))
    return (said.asked, "no tools: the client has not declared sampling.tools") if undeclared else None


@rule("result", "sampling/createMessage", stage=ORDER)
def sampling_tools_are_declared(link: Link, said: Said) -> Verdict:
    undeclared = samples_with_tools(said.asked.params, link.declared("client", said))
    return "sampling.tools among the capabilities of the client, which takes them" if undeclared else None


@question("sampling/createMessage", "asked_context_is_declared", sender="server")
def context_only_where_declared(params: JsonObject, link: Link, said: Said) -> Verdict:
    declared = link.declared("client", said)
    if declared is None or params.get("includeContext", "none") == "none":
        return None
    if "context" in as_object(declared.get("sampling")):
        return None
    return "no includeContext: the client has not declared sampling.context"


@_answer("sampling/createMessage", "answered_with_required_tools")
def required_tools_are_used(params: JsonObject, result: JsonObject, said: Said) -> Verdict:
    return _choice_problem(params, result, "required")


@_answer("sampling/createMessage", "answered_without_forbidden_tools")
def forbidden_tools_are_not_used(params: JsonObject, result: JsonObject, said: Said) -> Verdict:
    return _choice_problem(params, result, "none")


def _choice_problem(params: JsonObject, result: JsonObject, mode: str) -> Verdict:
    used = any(each.get("type") == "tool_use" for each in _content(result))
    if as_object(params.get("toolChoice")).get("mode") != mode or used == (mode == "required"):
        return None
    if mode == "none":
        return "no tool_use: toolChoice says none"
    before = [each for message in objects(params.get("messages")) for each in _content(message)]
    done = any(each.get("type") == "tool_use" for each in before)
    return None if done else "a tool_use: toolChoice says required"


def _content(message: JsonObject) -> list[JsonObject]:
    content = message.get("content")
    return objects(content if isinstance(content, list) else [content])


# -- elicitation --------------------------------------------------------------------------------------------------


@question("elicitation/create", "asked_with_a_message", stage=SHAPE)
def elicitation_has_a_message(params: JsonObject, link: Link, said: Said) -> Verdict:
    return None if isinstance(params.get("message"), str) else "message, a string"


@question("elicitation/create", "asked_forms_are_complete", stage=SHAPE)
def form_elicitation_is_complete(params: JsonObject, link: Link, said: Said) -> Verdict:
    if params.get("mode", "form") == "url":
        return None
    if params.get("mode", "form") != "form":
        return 'mode "form", or none'
    return None if isinstance(params.get("requestedSchema"), dict) else "requestedSchema, an object"


@question("elicitation/create", "asked_urls_are_complete", stage=SHAPE)
def url_elicitation_is_complete(params: JsonObject, link: Link, said: Said) -> Verdict:
    for name in ("url",) if said.stateless else ("url", "elicitationId"):
        if params.get("mode") == "url" and not isinstance(params.get(name), str):
            return f"{name}, a string"
    return None


@question("elicitation/create", "asked_urls_are_valid", stage=SHAPE)
def elicitation_url_is_valid(params: JsonObject, link: Link, said: Said) -> Verdict:
    url = params.get("url")
    if params.get("mode") != "url" or not isinstance(url, str):
        return None
    try:
        valid = bool(urlsplit(url).scheme) and _URI.fullmatch(url) is not None
    except ValueError:
        valid = False
    return None if valid else f"a valid URL, not {shown(url)[:80]!r}"


@question("elicitation/create", "asked_mode_is_supported", sender="server")
def elicitation_mode_is_supported(params: JsonObject, link: Link, said: Said) -> Verdict:
    declared = link.declared("client", said)
    if said.revision is None or declared is None or "elicitation" not in declared:
        return None
    modes, mode = modes_of(declared, said.revision), params.get("mode", "form")
    return None if mode in modes else f"mode {' or '.join(sorted(modes))}: that is what the client has declared"


_UNDECLARED = "the client has not declared this mode"
refused("undeclared_modes_are_32602", "elicitation/create", "elicitation_mode_is_supported", _UNDECLARED)


@_answer("elicitation/create", "answered_forms_fit")
def answers_fit_the_form(params: JsonObject, result: JsonObject, said: Said) -> Verdict:
    schema, content = params.get("requestedSchema"), result.get("content")
    if result.get("action") != "accept" or not isinstance(schema, dict) or said.revision is None:
        return None
    if schema_problem(schema, said.revision):
        return None
    _show_all(content)
    if not isinstance(content, dict):
        return "content that fits the requestedSchema"
    problem = content_problem(schema, content)
    return f"content that fits the requestedSchema; {problem}" if problem else None


@rule("notification", "notifications/elicitation/complete", sender="server")
def elicitation_was_begun(link: Link, said: Said) -> Verdict:
    named = said.params.get("elicitationId")
    if not link.whole or not isinstance(named, str) or named in link.elicitations:
        return None
    return "the elicitationId of an elicitation"


def _required(said: Said) -> list[JsonObject]:
    """Return the elicitations that an error asks for first."""
    return objects(as_object(said.error.get("data")).get("elicitations")) if said.code == -32042 else []


@rule("error")
def required_elicitations_are_listed(link: Link, said: Said) -> Verdict:
    none = said.code == -32042 and not _required(said)
    return "data.elicitations, a list with an elicitation at least" if none else None


@rule_of_each("error", within=_required)
def required_elicitations_are_urls(required: JsonObject) -> str | None:
    sound = required.get("mode") == "url" and isinstance(required.get("elicitationId"), str)
    return None if sound else 'elicitations of mode "url", each with an elicitationId'
