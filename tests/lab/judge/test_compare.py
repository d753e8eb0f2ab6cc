"""Tests of what `mcp-ref diff` says of two revisions, held against the official changelogs and against what is known of
them.
"""

from __future__ import annotations

import re
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from mcp_ref.lab import cli
from mcp_ref.lab.judge.compare import FORMATS, UNSEEN, Change, compare, explained
from mcp_ref.revisions import REVISIONS, find_revision

ALL = tuple(REVISIONS)
PARTS = ["methods", "members", "rules", "error codes", "headers", "deprecated", "sentences"]
OFFICE = "it is about how the specification is made, not about what is sent"
GUIDANCE = "guidance for people and for design; no message shows it"
LOGIN = "it passes between a client and an authorization server; no table of revisions has it"


@cache
def changes(old: str, new: str) -> tuple[Change, ...]:
    return tuple(compare(old, new))


def lines(old: str, new: str) -> str:
    return "\n".join(f"{change.part}: {change}" for change in changes(old, new))


# Every item of the changelogs of four revisions: the lines of the output that show it, or why none can.
CHANGELOGS: dict[str, list[tuple[str, list[str] | str]]] = {
    "2025-03-26": [
        ("authorization framework", ["rules: authorization: none -> itself"]),
        ("Streamable HTTP", ["rules: http: sse -> streamable", "headers: new   Mcp-Session-Id"]),
        ("batching", ["rules: batching: no -> yes"]),
        ("tool annotations", ["new   Tool.annotations", "new   ToolAnnotations: a type with title, readOnlyHint"]),
        ("message of progress", ["new   ProgressNotificationParams.message"]),
        ("audio", ["new   AudioContent: a type"]),
        ("completions capability", ["new   ServerCapabilities.completions", "needs no capability -> request from the "
                                    "client; needs server.completions"]),
    ],
    "2025-06-18": [
        ("no batching", ["rules: batching: yes -> no"]),
        ("structured tool output", ["new   Tool.outputSchema", "new   CallToolResult.structuredContent"]),
        ("resource servers", ["rules: authorization: itself -> named", "metadata_names_authorization_servers: MUST"]),
        ("resource indicators", ["rules: resource_parameter: no -> yes"]),
        ("security considerations", GUIDANCE),
        ("elicitation", ["methods: new   elicitation/create: request from the server; needs client.elicitation"]),
        ("resource links", ["new   ResourceLink: a type"]),
        ("MCP-Protocol-Version", ["headers: new   MCP-Protocol-Version", "new   version_header_is_sent: MUST"]),
        ("SHOULD became MUST in Operation", [
            "only_what_was_negotiated: SHOULD: Both sides use only capabilities that were negotiated. -> MUST",
        ]),
        ("_meta on more types", ["new   Tool._meta", "new   Resource._meta", "new   Prompt._meta", "new   Root._meta",
                                 "reserved_meta_label: none -> first"]),
        ("context of completion", ["new   CompleteRequestParams.context"]),
        ("title", ["new   Tool.title", "new   Resource.title", "new   Prompt.title", "new   Implementation.title"]),
    ],
    "2025-11-25": [
        ("OpenID Connect Discovery", ["rules: openid_discovery: no -> yes"]),
        ("icons", [f"new   {each}.icons" for each in ("Tool", "Resource", "ResourceTemplate", "Prompt")]),
        ("incremental scope consent", ["new   insufficient_scope_is_403: SHOULD"]),
        ("tool names", ["sentences: new   tool_names_are_plain: SHOULD"]),
        ("ElicitResult and EnumSchema", ["ElicitResult.content: object of string | number | boolean, optional -> ",
                                         "new   TitledMultiSelectEnumSchema", "a type, named EnumSchema -> a type"]),
        ("URL mode elicitation", ["new   ElicitRequestURLParams: a type", "rules: elicitation_modes: no -> yes"]),
        ("tools in sampling", [f"new   CreateMessageRequestParams.{each}" for each in ("tools", "toolChoice")]),
        ("Client ID Metadata Documents", LOGIN),
        ("tasks", ["methods: new   tasks/get", "methods: new   tasks/result", "rules: tasks: no -> yes"]),
        ("stderr for all logging", GUIDANCE),
        ("description of Implementation", ["new   Implementation.description"]),
        ("403 for an invalid Origin", "a clarification; and traffic does not show which origins a server allows"),
        ("security best practices", GUIDANCE),
        ("input validation errors are results", ["rules: tool_input_errors_are_results: no -> yes"]),
        ("polling of streams", ["rules: priming_event: no -> yes", "new   retry_is_waited_for: MUST"]),
        ("resumption is by GET always", "a clarification: every revision with resumption has the same column"),
        ("metadata without a challenge", ["rules: metadata_probing: no -> yes"]),
        ("default values", ["new   StringSchema.default", "new   NumberSchema.default"]),
        ("JSON Schema 2020-12", "what a keyword means is the dialect's; in the types a tool's schema is any object"),
        ("standalone parameter schemas", "the schema's layout; what is sent is the same"),
        ("governance", OFFICE), ("communication", OFFICE), ("groups", OFFICE), ("tiers of SDKs", OFFICE),
    ],
    "2026-07-28": [
        ("no sessions", ["headers: gone  Mcp-Session-Id", "rules: session_header: yes -> no"]),
        ("stateless", ["methods: gone  initialize", "methods: gone  notifications/initialized",
                       "new   RequestMetaObject.io.modelcontextprotocol/protocolVersion: string, required",
                       "new   RequestMetaObject.io.modelcontextprotocol/clientInfo: Implementation, optional"]),
        ("server/discover", ["methods: new   server/discover", "new   discover_is_there: MUST"]),
        ("subscriptions/listen", ["methods: gone  resources/subscribe", "methods: gone  resources/unsubscribe",
                                  "methods: new   subscriptions/listen", "headers: gone  GET",
                                  "new   SubscriptionFilter: a type with toolsListChanged, promptsListChanged"]),
        ("ping, setLevel, roots list_changed", [
            "methods: gone  ping", "methods: gone  logging/setLevel", "gone  notifications/roots/list_changed",
            "new   RequestMetaObject.io.modelcontextprotocol/logLevel", "new   logs_only_where_asked_for: MUST"]),
        ("tasks are an extension", ["rules: tasks: yes -> no", "methods: gone  tasks/list", "gone  tasks/result",
                                    "new   tasks/update: request from the client; needs the extension"]),
        ("multi round-trip requests", ["new   InputRequiredResult: a type", "methods: roots/list: request from the "
                                       "server; needs client.roots -> asked for in a result"]),
        ("resultType", ["new   CallToolResult.resultType: string, required", "new   results_have_a_type: MUST"]),
        ("no resumption", ["rules: sse_resumption: yes -> no", "headers: gone  Last-Event-ID"]),
        ("extensions", [
            "ClientCapabilities.extensions: any JSON, optional -> object of object of any JSON, optional",
            "new   ServerCapabilities.extensions"]),
        ("trace context", ["new   trace_context_has_the_form"]),
        ("a stable order of tools", ["new   tools_keep_their_order: SHOULD"]),
        ("Mcp-Method, Mcp-Name, x-mcp-header", ["headers: new   Mcp-Method", "headers: new   Mcp-Name",
                                                "headers: new   Mcp-Param-*: an argument that x-mcp-header marks"]),
        ("ttlMs and cacheScope", [
            f"new   {each}.{member}" for member in ("ttlMs", "cacheScope") for each in
            ("ListToolsResult", "ListPromptsResult", "ListResourcesResult", "ReadResourceResult",
             "ListResourceTemplatesResult")]),
        ("resource not found", ["rules: resource_not_found: -32002 -> -32602", "error codes: gone  -32002"]),
        ("iss", LOGIN), ("application_type", LOGIN), ("credentials bound to their issuer", LOGIN),
        ("any JSON Schema, any structuredContent", ["rules: structured_content: object -> any"]),
        ("elicitation/complete", ["methods: gone  notifications/elicitation/complete",
                                  "gone  ElicitRequestURLParams.elicitationId"]),
        ("error codes", ["error codes: new   -32020", "error codes: new   -32021", "error codes: new   -32022"]),
        ("roots, sampling, logging", ["deprecated: new   roots", "deprecated: new   sampling", "new   logging: log"]),
        ("HTTP+SSE", "reclassified: it has been deprecated since 2025-03-26, whose column has it"),
        ("includeContext", "reclassified: it has been deprecated since 2025-11-25, whose column has it"),
        ("Dynamic Client Registration", ["deprecated: new   Dynamic Client Registration"]),
        ("number in schema.json", "an error in a generated file; the types always said number"),
        ("lifecycle of features", OFFICE), ("process of proposals", OFFICE),
    ],
}  # fmt: skip
ITEMS = [(new, name, shown) for new, items in CHANGELOGS.items() for name, shown in items]


@pytest.mark.parametrize(("new", "name", "shown"), ITEMS, ids=[f"{new} {name}" for new, name, _ in ITEMS])
def test_an_item_of_a_changelog_is_found_or_says_why_not(new: str, name: str, shown: list[str] | str) -> None:
    said = lines(ALL[ALL.index(new) - 1], new)
    assert shown
    if isinstance(shown, list):
        assert [each for each in shown if each not in said] == []


@pytest.mark.parametrize(("old", "new"), [*pairwise(ALL), (ALL[0], ALL[-1])])
def test_a_pair_is_compared_both_ways(old: str, new: str) -> None:
    forth, back = changes(old, new), changes(new, old)
    assert list(dict.fromkeys(change.part for change in forth)) == [
        each for each in PARTS if any(change.part == each for change in forth)
    ]
    plain = [{change[:2] for change in way if change.part != "sentences"} for way in (forth, back)]
    assert plain[0] == plain[1]
    assert all(change.was != change.now for change in (*forth, *back))


def test_a_longer_way_brings_nothing_that_no_step_brings() -> None:
    steps = {change[:2] for pair in pairwise(ALL) for change in changes(*pair) if change.part != "sentences"}
    whole = {change[:2] for change in changes(ALL[0], ALL[-1]) if change.part != "sentences"}
    # A type that is new in a step is one change, which names the members.
    types = {name for part, name in steps if part == "members"}
    assert [each for each in whole - steps if each[1].partition(".")[0] not in types] == []


def test_a_sentence_that_another_rule_decides_has_not_gone() -> None:
    gone = [change.was for change in changes("2025-11-25", "2026-07-28") if change.part == "sentences"]
    assert not [was for was in gone if "An elicitation has a `message`" in was]


def test_each_rule_says_what_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    for name in find_revision("2025-11-25")._fields[2:]:
        change = explained(Change("rules", name, "no", "yes"))
        assert re.fullmatch(rf"{name} \(\S.{{10,}}[^.]\): no -> yes", str(change)), change
    assert cli.main(["diff", "2025-11-25", "2026-07-28"]) == 0
    out = capsys.readouterr().out
    assert "\n  sse_resumption (event streams can be resumed with `Last-Event-ID`): yes -> no\n" in out
    assert explained(Change("headers", "GET", "", "x")) == Change("headers", "GET", "", "x")


def test_a_revision_does_not_differ_from_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", ALL[0], ALL[0]]) == 0
    assert capsys.readouterr().out == f"{ALL[0]} -> {ALL[0]}: 0 changes\n\n{UNSEEN}\n"


def test_an_unknown_revision_is_one_sentence_and_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diff", "2025-06-18", "2025-06-19"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"mcp-ref: unknown revision '2025-06-19'; known: {', '.join(ALL)}\n"


def test_the_page_shows_every_text_as_text() -> None:
    class Tags(HTMLParser):
        seen = set[str]()

        def handle_starttag(self, tag: str, attrs: object) -> None:
            self.seen.add(tag)

    hostile = Change("rules", "<script>", "<img src=x>", "")
    parser = Tags()
    parser.feed("\n".join(FORMATS["html"]("2025-06-18", "2025-11-25", [hostile])))
    assert parser.seen == {"html", "meta", "title", "style", "h1", "h2", "table", "tr", "th", "td", "p"}


@pytest.mark.parametrize(
    ("words", "there", "not_there"),
    [
        ("--method tools/call", ["CallToolResult.resultType (", "CallToolRequestParams.task (", "`tools/call`"],
         ["resources/subscribe", "headers"]),
        ("--page server/tools", ["ListToolsResult.ttlMs (For how many milliseconds the result may be kept)"],
         ["sampling/createMessage"]),
        # A page that moved is found by either name, and one that has no method by its sentences.
        ("--page basic/patterns/progress", ["changes"], []),
        ("--page basic/utilities/progress", ["notifications/progress"], []),
        ("--page basic/transports/streamable-http", ["sentences"], []),
        ("--page server/tools --method tools/list", ["ListToolsResult"], ["CallToolResult"]),
    ],
)  # fmt: skip
def test_the_changes_of_one_method_and_of_one_page_are_told_with_every_member_in_words(
    words: str, there: list[str], not_there: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["diff", "2025-11-25", "2026-07-28", *words.split()]) == 0
    told = capsys.readouterr().out
    assert [each for each in there if each not in told] == [each for each in not_there if each in told] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "tools/cal"], "no revision has the method tools/cal"),
        (["--page", "server/tool"], "no page is called server/tool; there are "),
        (["--page", "server/tools", "--traffic"], "--method and --page are of the tables"),
        (["--method", "ping", "--traffic"], "--method and --page are of the tables"),
    ],
)
def test_a_part_that_nobody_knows_is_one_sentence(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["diff", "2025-11-25", "2026-07-28", *words]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"mcp-ref: {said}") and captured.err.count("\n") == 1 and captured.out == ""
