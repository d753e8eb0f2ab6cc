"""What our side says with the official SDKs: each conversation over each transport, in each revision, in both roles.

A column is a pair: our client and a server made with an SDK, or a client made with an SDK and our server. The servers
offer the same (peers/our_server.py, peers/offered.py, peers/ts_stateless_server.mjs), and the tests drive whichever
client it is (talk.py). Those are the newest SDKs for Python and for TypeScript, version 1 of the latter, and one for
Python that knows 2024-11-05 only. What they do otherwise than one might expect:

- Asked with `server/discover` the servers name 2026-07-28 alone, also where they speak the older revisions too.
- Where they answer in JSON alone, what a handler tells meanwhile is dropped, and the one for Python does not notice
  that a client has gone.
- The server for Python says what a client lacks (-32021) where its handler does; the one for TypeScript checks each
  question.
- The server for Python looks up a tool's headers in its list; the one for TypeScript only where the tool is registered
  with it (`registerTool`).
- Over stdio both end a subscription with its result, without the `notifications/cancelled` that the page on
  cancellation asks for; and the one for TypeScript ends them only when it is closed as a whole.
- Below their high-level servers they check no arguments, and the old one makes results of all errors of tools.
- The old SDK has no pages, and its server ends when a request is cancelled; the newest has forgotten batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mcp_ref import ErrorResponse, HttpStatusError, LocalProtocolError, RemoteProtocolError, RequestTimeout
from mcp_ref.pages.client.elicitation import cancel, required_urls
from mcp_ref.pages.client.sampling import UserRejected, reply
from mcp_ref.pages.server.utilities.completion import prompt_ref, resource_ref
from tests.interop.programs import BOTH_ERAS, NEW_SDK, OLD_SDK, OURS, SESSION, TYPESCRIPT, TYPESCRIPT_2, Pair
from tests.interop.talk import WAIT, Drivers, Event, Failed, Ours, Talk, drained, talking

PAIRS = [
    *(Pair(NEW_SDK, OURS, "stdio", revision) for revision in ("2024-11-05", "2025-03-26", "2025-06-18", None)),
    *(Pair(NEW_SDK, OURS, "http", revision) for revision in ("2025-03-26", "2025-06-18", None)),
    *(Pair(TYPESCRIPT, OURS, "http", revision) for revision in ("2025-03-26", "2025-06-18", None)),
    *(Pair(peer, OURS, "sse") for peer in (NEW_SDK, TYPESCRIPT, OLD_SDK)),
    Pair(OLD_SDK, OURS),
    *(Pair(peer, OURS, way) for peer in (BOTH_ERAS, TYPESCRIPT_2) for way in ("stdio", "http")),
    *(Pair(OURS, NEW_SDK, "stdio", each) for each in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")),
    *(Pair(OURS, NEW_SDK, "http", revision) for revision in ("2025-03-26", "2025-06-18", SESSION)),
    *(Pair(OURS, NEW_SDK, way, SESSION) for way in ("json", "stateless", "sse")),
    *(Pair(OURS, OLD_SDK, way) for way in ("stdio", "sse")),
    *(Pair(OURS, peer, way) for peer in (BOTH_ERAS, TYPESCRIPT_2) for way in ("stdio", "http", "json")),
]
VERSION = "2026-07-28"

LISTS = [f"notifications/{page}/list_changed" for page in ("tools", "resources", "prompts")]
UPDATED = "notifications/resources/updated"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
ICONS = [{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}]

session_era = pytest.mark.until("2025-11-25")
stateless_era = pytest.mark.since(VERSION)


@pytest.fixture(scope="module", params=PAIRS, ids=str)
def session(request: pytest.FixtureRequest, drivers: Drivers) -> Iterator[Talk]:
    with talking(request.param, drivers) as talk:
        yield talk


@pytest.fixture
def talk(session: Talk) -> Talk:
    session.tidy()
    return session


def alone(talk: Talk) -> bool:
    """Whether every request stands alone."""
    return talk.revision.era == "stateless"


def refused(talk: Talk, method: str, **params: Any) -> tuple[int, Any]:
    """The code and the data of the error that a request ends with."""
    with pytest.raises(ErrorResponse) as caught:
        talk.ask(method, **params)
    return caught.value.code, caught.value.data


def named(talk: Talk, what: str) -> list[str]:
    """The names in a list, over all its pages."""
    return [str(each["name"]) for page in talk.pages(f"{what}/list") for each in page]


def read(talk: Talk, uri: str) -> Any:
    (contents,) = talk.ask("resources/read", uri=uri)["contents"]
    return contents


def toggled(talk: Talk) -> list[str]:
    """Have the lists change, and return what is told of it."""
    talk.say("grow")
    return [talk.changes.get(timeout=WAIT).method for _ in LISTS]


def completed(talk: Talk, ref: Any, value: str, **more: Any) -> Any:
    argument = {"name": "name", "value": value}
    return talk.ask("completion/complete", ref=ref, argument=argument, **more)["completion"]


# -- basic/lifecycle, server/discover


def test_the_newest_revision_of_both_is_agreed_on(talk: Talk) -> None:
    assert str(talk.revision) == talk.pair.agreed


def test_the_server_introduces_itself(talk: Talk) -> None:
    info, declared, instructions = talk.introduction
    assert info["name"] == ("ours" if talk.pair.server == OURS else "theirs")
    assert instructions == "Offers everything."
    assert ("completions" in declared) == talk.at_least("2025-03-26")
    assert declared["resources"] == {"subscribe": True, "listChanged": True}
    assert declared["tools"] == declared["prompts"] == {"listChanged": True}
    # The SDK for Python does not say it in the stateless era.
    assert talk.pair.server == BOTH_ERAS or declared["experimental"] == {"example.com/trial": {"on": True}}


@pytest.mark.our_server
def test_what_a_revision_does_not_have_is_left_out(talk: Talk) -> None:
    info, _, _ = talk.introduction
    (add, weather, *_), *_ = talk.pages("tools/list")
    note, greet = talk.pages("resources/list")[0][0], talk.pages("prompts/list")[0][0]
    assert ("annotations" in add) == talk.at_least("2025-03-26")
    titled = [each.get("title") for each in (info, add, note, greet)]
    assert titled == (["Ours", "Adder", "A note", "Greeting"] if talk.at_least("2025-06-18") else [None] * 4)
    assert ("outputSchema" in weather) == ("lastModified" in note["annotations"]) == talk.at_least("2025-06-18")
    icons = [each.get("icons") for each in (info, add, note, greet)]
    assert icons == [ICONS if talk.at_least("2025-11-25") else None] * 4
    assert (info.get("description"), info.get("websiteUrl")) == (
        ("a test server", "https://example.com") if talk.at_least("2025-11-25") else (None, None)
    )


@pytest.mark.stateful
def test_the_server_knows_the_client(talk: Talk) -> None:
    told = talk.tell("whoami")
    name = "mcp_ref" if talk.pair.client == OURS else "sdk"
    if alone(talk):
        meta = {name.removeprefix("io.modelcontextprotocol/"): value for name, value in told["meta"].items()}
        assert (meta["protocolVersion"], meta["clientInfo"]["name"]) == (VERSION, name)
        capabilities = told.get("capabilities", meta["clientCapabilities"])
        assert capabilities == {"roots": {}, "sampling": {"tools": {}}, "elicitation": {"form": {}, "url": {}}}
        return
    capabilities = told["capabilities"]
    assert told["client"]["name"] == name
    assert capabilities["roots"] == {"listChanged": True}
    if OLD_SDK not in talk.pair:
        # A client that knows several revisions declares for the newest, before it knows which one is agreed on.
        assert ("elicitation" in capabilities) == talk.at_least("2025-06-18")
        assert capabilities["sampling"] == ({"tools": {}} if talk.at_least("2025-11-25") else {})


# -- basic/utilities


@pytest.mark.stateful
@session_era
def test_ping_is_answered_in_both_directions(talk: Talk) -> None:
    talk.ask("ping")
    assert talk.tell("ping_back") == {}


@pytest.mark.streams
def test_progress_comes_in_order_while_the_call_waits(talk: Talk) -> None:
    seen: list[Any] = []
    assert talk.say("count", {"to": 3}, on_progress=lambda *step: seen.append(step)) == "counted to 3"
    assert [step[:2] for step in seen] == [(number, 3) for number in (1, 2, 3)]
    said = talk.at_least("2025-03-26") or (talk.pair.client == OURS and talk.pair.server != OLD_SDK)
    assert seen[0][2] == ("number 1" if said else None)


@pytest.mark.not_old
@pytest.mark.our_server
@session_era
def test_an_answer_is_fetched_when_our_server_has_closed_the_stream(talk: Talk) -> None:
    seen: list[Any] = []
    assert talk.say("hang_up", on_progress=lambda *step: seen.append(step[:2])) == "still here"
    assert seen == [(1, 2), (2, 2)]


@pytest.mark.stateful
def test_a_call_that_is_given_up_is_cancelled_at_the_server(talk: Talk) -> None:
    if talk.pair.server == OLD_SDK or (alone(talk) and talk.pair.way == "json"):
        pytest.skip("the server ends, or does not notice")
    talk.give_up("wait")
    assert talk.say("was_given_up") == "yes"


# -- server/tools


def test_tools_are_listed_over_all_pages(talk: Talk) -> None:
    names = named(talk, "tools")
    assert names[0] == "add" and len(names) == len(set(names))
    assert talk.pair.client == OLD_SDK or {"everything", "touch"} <= set(names)
    if OLD_SDK not in talk.pair:
        assert len(talk.pages("tools/list")[0]) == (7 if talk.pair.server == OURS else 4)


@pytest.mark.not_old
@pytest.mark.our_server
def test_an_unknown_cursor_is_refused(talk: Talk) -> None:
    assert refused(talk, "tools/list", cursor="no such page")[0] == -32602


def test_a_tool_is_called_with_arguments(talk: Talk) -> None:
    assert talk.say("add", {"a": 2, "b": 40}) == "42"


@pytest.mark.our_server
def test_arguments_that_do_not_fit_are_a_result_since_2025_11_25(talk: Talk) -> None:
    found = "expected an integer" if talk.at_least("2025-11-25") else "(-32602)"
    assert found in talk.problem("add", {"a": "two"})


def test_structured_content_arrives_where_the_revision_has_it(talk: Talk) -> None:
    structured = {"city": "Porto", "degrees": 21.5}
    result = talk.call("weather", {"city": "Porto"})
    if talk.pair.server == OURS:
        assert result.get("structuredContent") == (structured if talk.at_least("2025-06-18") else None)
    assert OLD_SDK in talk.pair or talk.pair.server == OURS or result["structuredContent"] == structured
    assert result["content"][0]["text"] in ('{"city": "Porto", "degrees": 21.5}', '{"city":"Porto","degrees":21.5}')


@pytest.mark.our_client
@pytest.mark.since("2025-06-18")
def test_structured_content_that_does_not_fit_the_output_schema_is_refused(talk: Talk) -> None:
    with pytest.raises(RemoteProtocolError, match="wrong_weather"):
        talk.call("wrong_weather")


def test_content_of_every_kind_arrives(talk: Talk) -> None:
    blocks = talk.call("everything")["content"]
    kinds = ["text", "image", "audio", "resource", "resource", "resource_link"]
    if talk.pair.server == OLD_SDK:
        kinds = ["text", "image", "resource", "resource"]
    elif talk.pair.server == OURS:
        # What the revision lacks arrives as text.
        since = {"audio": "2025-03-26", "resource_link": "2025-06-18"}
        kinds = [kind if talk.at_least(since.get(kind, "2024-11-05")) else "text" for kind in kinds]
    assert [block["type"] for block in blocks] == kinds
    hints = {} if talk.pair.server == TYPESCRIPT_2 else {"annotations": {"audience": ["user"], "priority": 0.5}}
    assert blocks[0] == {"type": "text", "text": "hello", **hints}
    texts = [block["resource"] for block in blocks if block["type"] == "resource"]
    assert texts[0]["text"] == "a note" and texts[1]["blob"] == "iVBORw0KGgo="


def test_a_tool_that_fails_gives_a_result(talk: Talk) -> None:
    assert talk.problem("fail") == "it did not work"
    assert talk.pair.server != OURS or "by zero" in talk.problem("crash")


def test_a_refusal_is_an_error_of_the_protocol(talk: Talk) -> None:
    if talk.pair.server == OLD_SDK:
        pytest.skip("it makes results of all errors of tools")
    with pytest.raises(ErrorResponse) as caught:
        talk.call("refuse")
    assert (caught.value.code, caught.value.message, caught.value.data) == (4242, "not for you", {"why": "a test"})
    assert "(-32602)" in talk.problem("no such tool")


# -- server/resources


def test_resources_and_templates_are_listed(talk: Talk) -> None:
    listed = [each for page in talk.pages("resources/list") for each in page]
    note = listed[0]
    assert (note["uri"], note["name"]) == ("note://text", "text")
    if talk.pair.server != TYPESCRIPT_2:
        assert note["annotations"]["audience"] == ["assistant"] and note["annotations"]["priority"] == 1.0
        assert note["mimeType"] == "text/plain" and note.get("size") in (6, None)
    uris = [each["uri"] for each in listed]
    assert len(uris) == len(set(uris)) and "note://blob" in uris
    ((template,),) = talk.pages("resources/templates/list")
    assert (template["uriTemplate"], template["name"]) == ("note://user/{name}", "of_user")


def test_resources_are_read(talk: Talk) -> None:
    assert read(talk, "note://text") == {"uri": "note://text", "mimeType": "text/plain", "text": "a note"}
    assert read(talk, "note://blob") == {"uri": "note://blob", "mimeType": "image/png", "blob": "iVBORw0KGgo="}
    assert read(talk, "note://user/ada")["text"] == "note of ada"
    gone = talk.revision.resource_not_found, {"uri": "note://nowhere"}
    assert refused(talk, "resources/read", uri="note://nowhere") == gone


@pytest.mark.stateful
@session_era
def test_changes_of_a_resource_are_told_while_it_is_subscribed_to(talk: Talk) -> None:
    talk.ask("resources/subscribe", uri="note://text")
    for uri in ("note://blob", "note://text"):
        talk.say("touch", {"uri": uri})
    assert talk.changes.get(timeout=WAIT) == (UPDATED, {"uri": "note://text"})
    talk.ask("resources/unsubscribe", uri="note://text")
    talk.say("touch", {"uri": "note://text"})
    # What the server says is taken in order: before these lists have changed, nothing was told.
    assert [toggled(talk), toggled(talk)] == [LISTS, LISTS]


@pytest.mark.stateful
@session_era
def test_lists_that_change_are_told_and_show_it(talk: Talk) -> None:
    for grown in (True, False):
        assert toggled(talk) == LISTS
        assert ("grown" in named(talk, "prompts")) == grown


# -- server/prompts


def test_prompts_are_listed_and_written(talk: Talk) -> None:
    listed = [each for page in talk.pages("prompts/list") for each in page]
    assert listed[0]["name"] == "greet"
    assert listed[0]["arguments"][0] == {"name": "name", "description": "who is greeted", "required": True}
    (message,) = talk.ask("prompts/get", name="greet", arguments={"name": "Ada", "tone": "warm"})["messages"]
    assert message["role"] == "user" and message["content"]["text"].startswith("Greet Ada")
    assert refused(talk, "prompts/get", name="no such prompt", arguments={})[0] == -32602
    if talk.pair.server == OURS:
        assert refused(talk, "prompts/get", name="greet", arguments={})[0] == -32602


def test_a_prompt_can_hold_content_of_every_kind(talk: Talk) -> None:
    if talk.pair.server == TYPESCRIPT_2:
        pytest.skip("it has none that does")
    messages = talk.ask("prompts/get", name="talk", arguments={})["messages"][1 if talk.pair.server == OURS else 0 :]
    assert {message["role"] for message in messages} == {"assistant"}
    kinds = [block["type"] for block in talk.call("everything")["content"]]
    assert [message["content"]["type"] for message in messages] == kinds


# -- server/utilities


def test_arguments_of_prompts_and_templates_are_completed(talk: Talk) -> None:
    assert completed(talk, prompt_ref("greet"), "Ad")["values"] == ["Ada", "Adele"]
    users = completed(talk, resource_ref("note://user/{name}"), "u")
    assert (len(users["values"]), users["total"], users["hasMore"]) == (100, 150, True)


@pytest.mark.not_old
def test_a_completion_knows_the_other_arguments(talk: Talk) -> None:
    if talk.pair.server == TYPESCRIPT_2:
        pytest.skip("it does not look at them")
    found = completed(talk, prompt_ref("greet"), "Bo", context={"arguments": {"tone": "!"}})["values"]
    # The revisions have them since 2025-06-18. The SDKs send them in every one, and our server uses what is sent.
    assert found == ["Bob!" if talk.at_least("2025-06-18") or talk.pair.server == OURS else "Bob"]


@pytest.mark.stateful
@session_era
def test_log_messages_arrive_in_order_from_the_level_asked_for_on(talk: Talk) -> None:
    talk.say("shout")
    logged = [talk.logs.get(timeout=WAIT) for _ in LEVELS]
    assert [message["level"] for message in logged] == LEVELS
    assert logged[0] == {"level": "debug", "logger": "shouter", "data": {"said": "debug"}}
    talk.ask("logging/setLevel", level="error")
    if talk.pair.server == OURS:
        talk.say("shout")
        assert [talk.logs.get(timeout=WAIT)["level"] for _ in LEVELS[4:]] == LEVELS[4:]
    else:
        assert talk.tell("asked_levels")[-1] == "error"
    talk.ask("logging/setLevel", level="debug")


@stateless_era
@pytest.mark.streams
def test_log_messages_come_from_the_level_that_the_request_names(talk: Talk) -> None:
    for level in ("debug", "error"):
        talk.say("shout", log_level=level)
        wanted = LEVELS[LEVELS.index(level) :]
        assert [talk.logs.get(timeout=WAIT)["level"] for _ in wanted] == wanted
    assert talk.logs.empty()


@stateless_era
def test_what_the_server_lets_a_client_keep_is_kept_until_it_says_that_it_has_changed(talk: Talk) -> None:
    with talk.listen(resources=["note://counted"]) as events:
        first = int(read(talk, "note://counted")["text"])
        assert read(talk, "note://counted")["text"] == str(first)
        talk.say("touch", {"uri": "note://counted"})
        assert events.get(WAIT).params["uri"] == "note://counted"
        assert read(talk, "note://counted")["text"] == str(first + 1)
    assert talk.tell("how_often", {"what": "note://counted"}) == first + 1


@stateless_era
def test_results_say_how_long_they_may_be_kept(talk: Talk) -> None:
    first = talk.ask("prompts/list")
    pages = [first, talk.ask("prompts/list", cursor=first["nextCursor"])] if "nextCursor" in first else [first]
    assert {(page["ttlMs"], page["cacheScope"]) for page in pages} == {(60_000, "public")}
    assert talk.ask("resources/read", uri="note://blob")["ttlMs"] == 30_000


# -- client/roots


@pytest.mark.stateful
def test_roots_are_told_and_their_changes(talk: Talk) -> None:
    assert talk.tell("folders") == [{"uri": "file:///work", "name": "Work"}, {"uri": "file:///home"}]
    if not alone(talk):
        talk.ask("notifications/roots/list_changed")
        assert talk.say("told_of_roots") == "yes"


# -- client/sampling


@pytest.mark.stateful
def test_a_message_is_sampled(talk: Talk) -> None:
    result = talk.tell("sample")
    assert result["content"] == {"type": "text", "text": "Paris"}
    assert (result["role"], result["model"], result["stopReason"]) == ("assistant", "small-1", "endTurn")
    _, params = talk.asked.get(timeout=WAIT)
    content = params["messages"][0]["content"]
    assert (content[0] if isinstance(content, list) else content)["text"] == "What is the capital of France?"
    assert (params["maxTokens"], params["systemPrompt"], params["temperature"]) == (50, "Be brief.", 0.5)
    assert params["stopSequences"] == ["\n\n"]
    assert params["modelPreferences"] == {"hints": [{"name": "small"}], "speedPriority": 0.9}
    # A user who refuses to is an error, or a result that is one.
    talk.answers["sample"] = UserRejected()
    assert "User rejected sampling request" in talk.problem("sample")


@pytest.mark.since("2025-11-25")
@pytest.mark.stateful
def test_a_model_uses_tools_while_it_is_sampled(talk: Talk) -> None:
    use = {"type": "tool_use", "id": "use-1", "name": "lookup", "input": {"word": "tea"}}

    def answer(params: dict[str, Any]) -> Any:
        if len(params["messages"]) == 1:
            return reply([use], model="small-1")
        content = params["messages"][-1]["content"]
        return reply((content[0] if isinstance(content, list) else content)["content"][0]["text"], model="small-1")

    talk.answers["sample"] = answer
    told = talk.tell("sample_with_tools")
    asked = [params for _, params in drained(talk.asked)]
    assert asked[0]["toolChoice"] == {"mode": "auto"} and asked[0]["tools"][0]["name"] == "lookup"
    assert told.get("first", told)["stopReason"] == "toolUse"
    if "second" in told:
        assert told["second"]["content"] == {"type": "text", "text": "tea: a drink"}
        assert [message["role"] for message in asked[1]["messages"]] == ["user", "assistant", "user"]


@pytest.mark.not_old
@pytest.mark.until("2025-06-18")
def test_what_the_revision_lacks_is_not_asked_or_is_refused(talk: Talk) -> None:
    if talk.pair.server == OURS:
        assert f"sampling has no tools in {talk.revision}" in talk.problem("sample_with_tools")
        assert talk.at_least("2025-06-18") or "does not exist in revision" in talk.problem("ask")
    else:
        tools = ["visit", "sample_with_tools"] + ["ask"] * (not talk.at_least("2025-06-18"))
        assert {talk.problem(tool).rpartition("(")[2] for tool in tools} <= {"-32601)", "-32602)"}
    assert talk.asked.empty()


# -- client/elicitation


@pytest.mark.since("2025-06-18")
@pytest.mark.streams
def test_a_form_is_filled_in_or_declined_or_left(talk: Talk) -> None:
    content = {"name": "Ada", "age": 36, "seat": "aisle"}
    talk.answers["elicit"] = content
    told = talk.tell("ask")
    # Our client adds what the form gives if nobody says otherwise.
    added = {"agrees": False} if talk.pair.client == OURS else {}
    assert told == {"action": "accept", "content": {**content, **added}}
    kind, question = talk.asked.get(timeout=WAIT)
    assert (kind, question["message"]) == ("elicit", "Who are you?")
    assert question["schema"]["properties"]["seat"]["enumNames"] == ["Window", "Aisle"]
    talk.answers["elicit"] = None
    assert talk.tell("ask") == {"action": "decline"}
    talk.answers["elicit"] = cancel()
    assert talk.tell("ask") == {"action": "cancel"}


@pytest.mark.since("2025-06-18")
@pytest.mark.our_server
def test_values_that_do_not_fit_the_form_do_not_reach_the_handler(talk: Talk) -> None:
    talk.answers["elicit"] = {"name": "", "age": 200, "seat": "roof"}
    assert "does not fit its schema" in talk.problem("ask")


@pytest.mark.since("2025-11-25")
@pytest.mark.streams
def test_a_page_is_visited_and_its_end_told(talk: Talk) -> None:
    assert talk.tell("visit")["action"] == "decline"
    talk.answers["open"] = True
    assert talk.tell("visit")["action"] == "accept"
    question = {"url": "https://example.com/sign-in", "message": "Please sign in."}
    assert drained(talk.asked) == [("open", question)] * 2
    if not alone(talk):
        told = talk.changes.get(timeout=WAIT)
        assert told == ("notifications/elicitation/complete", {"elicitationId": "visit-1"})


@pytest.mark.since("2025-11-25")
@session_era
def test_a_visit_that_is_required_first_is_an_error_that_names_it(talk: Talk) -> None:
    with pytest.raises(ErrorResponse) as caught:
        talk.call("guarded")
    (page,) = required_urls(caught.value)
    assert (page["url"], page["elicitationId"]) == ("https://example.com/allow", "visit-2")
    if isinstance(talk, Ours):
        talk.answers["open"] = True
        assert talk.client.visit_required(page) == {"action": "accept"}
        assert talk.asked.get(timeout=WAIT)[1]["url"] == "https://example.com/allow"
    assert talk.say("guarded") == "allowed"


@stateless_era
@pytest.mark.our_server
def test_a_visit_that_is_required_first_is_a_question_without_an_id(talk: Talk) -> None:
    talk.answers["open"] = True
    assert talk.say("guarded") == "allowed"
    assert talk.asked.get(timeout=WAIT) == ("open", {"url": "https://example.com/allow", "message": "Allow it."})


# -- basic/patterns/mrtr


@stateless_era
def test_what_a_client_did_not_declare_is_named_in_the_refusal(talk: Talk) -> None:
    needed = {"needs": "sampling"}
    if talk.pair.server == OURS:
        needed |= {"ask": "elicitation", "sample": "sampling", "folders": "roots"}
    with talk.another() as bare:
        for tool, capability in needed.items():
            with pytest.raises(ErrorResponse) as caught:
                bare.call(tool)
            assert caught.value.code == -32021 and capability in caught.value.data["requiredCapabilities"]
    assert talk.say("needs") == "it has it"


@stateless_era
def test_three_questions_one_after_the_other_are_three_rounds(talk: Talk) -> None:
    talk.answers["elicit"] = {"name": "Ada"}
    before = talk.tell("how_often", {"what": "three"})
    told = talk.tell("three")
    assert told == {"name": "Ada", "rhyme": "Paris", "folders": ["file:///work", "file:///home"]}
    assert [kind for kind, _ in drained(talk.asked)] == ["elicit", "sample"]
    assert talk.tell("how_often", {"what": "three"}) == before + 4


@stateless_era
def test_three_questions_at_once_are_one_round(talk: Talk) -> None:
    talk.answers["elicit"] = {"name": "Ada"}
    before = talk.tell("how_often", {"what": "together"})
    assert talk.tell("together") == ["Ada", "Ada", 2]
    assert talk.tell("how_often", {"what": "together"}) == before + 2


@stateless_era
def test_a_handler_returns_its_questions_or_a_state_itself(talk: Talk) -> None:
    talk.answers["elicit"] = {"name": "Ada"}
    if talk.pair.server == OURS:
        assert talk.say("by_hand") == "Ada in file:///work"
    else:
        assert talk.say("later").replace(" ", "") == 'backwith{"come":"back"}'


@stateless_era
def test_prompts_and_resources_ask_too(talk: Talk) -> None:
    # What depends on an answer is not kept, but by the SDK for TypeScript.
    for name in ("Ada",) if talk.pair.client == TYPESCRIPT_2 else ("Ada", "Bob"):
        talk.answers["elicit"] = {"name": name}
        (message,) = talk.ask("prompts/get", name="asking", arguments={})["messages"]
        assert message["content"]["text"] == f"Greet {name}."
        assert read(talk, "note://asking")["text"] == f"a note for {name}"


@stateless_era
def test_a_round_without_answers_is_asked_again_and_a_state_that_lies_is_refused(talk: Talk) -> None:
    first = talk.call("three", by_hand=True)
    (question,) = first["inputRequests"].values()
    assert (question["method"], question["params"]["message"]) == ("elicitation/create", "Your name?")
    again = talk.call("three", by_hand=True, request_state=first["requestState"])
    assert again["inputRequests"] == first["inputRequests"]
    lies = [("three", first["requestState"][:-4] + "AAAA")]
    if talk.pair.server == OURS:
        lies.append(("together", first["requestState"]))
    for name, state in lies:
        with pytest.raises(ErrorResponse) as caught:
            talk.call(name, by_hand=True, request_state=state)
        assert (caught.value.code, caught.value.message) == (-32602, "Invalid or expired requestState")


@stateless_era
@pytest.mark.our_client
def test_a_call_is_driven_by_hand(talk: Any) -> None:
    talk.answers["elicit"] = {"name": "Ada"}
    result = talk.call("three", by_hand=True)
    rounds = 0
    while result.get("resultType") == "input_required":
        rounds += 1
        given = {"input_responses": talk.client.answers_to(result), "request_state": result["requestState"]}
        result = talk.call("three", by_hand=True, **given)
    assert rounds == 3 and "Paris" in result["content"][0]["text"]


# -- basic/patterns/subscriptions


@stateless_era
def test_a_subscription_is_told_what_it_asked_for_and_no_more(talk: Talk) -> None:
    with talk.listen("tools", "prompts", "resources", resources=["note://text"]) as events:
        assert events.refused == {}
        for said in ("grown", "shrunk"):
            assert talk.say("grow") == said
            assert sorted(events.get(WAIT).method for _ in LISTS) == sorted(LISTS)
            assert ("grown" in named(talk, "tools")) == (said == "grown")
        for uri in ("note://blob", "note://text", "note://text/below"):
            talk.say("touch", {"uri": uri})
        assert updated(events) == "note://text"
        if talk.pair.server == OURS:
            assert updated(events) == "note://text/below"
    assert talk.say("add", {"a": 1, "b": 2}) == "3"


def updated(events: Any) -> str:
    """The resource that a subscription is told of next."""
    event: Event = events.get(WAIT)
    assert event.method == UPDATED
    return str(event.params["uri"])


@stateless_era
def test_two_subscriptions_at_once_are_told_each_its_own(talk: Talk) -> None:
    with talk.listen(resources=["note://text"]) as one, talk.listen(resources=["note://blob"]) as other:
        for uri in ("note://text", "note://blob"):
            talk.say("touch", {"uri": uri})
        if talk.pair.client == TYPESCRIPT_2:  # which does not say to which of them an event belongs
            assert {updated(one), updated(one)} == {"note://text", "note://blob"}
        else:
            assert (updated(one), updated(other)) == ("note://text", "note://blob")


# -- basic/transports/streamable-http


@stateless_era
def test_headers_repeat_what_a_call_says(talk: Talk) -> None:
    talk.ask("tools/all")
    arguments = {"region": "Açores", "count": 7, "fast": True, "where": {"zone": "a b"}}
    headers = {
        "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call",
        "mcp-name": "route",
        "mcp-param-region": "=?base64?QcOnb3Jlcw==?=",
        "mcp-param-count": "7",
        "mcp-param-fast": "true",
        "mcp-param-zone": "a b",
    }
    # Theirs return the headers. Ours returns the arguments; over HTTP it has compared them with the headers.
    theirs = headers if talk.pair.way != "stdio" else {}
    assert talk.tell("route", arguments) == (arguments if talk.pair.server == OURS else theirs)


@stateless_era
def test_a_call_whose_headers_are_out_of_date_is_sent_again_with_the_right_ones(talk: Talk) -> None:
    talk.ask("tools/all")
    for name in ("area", "region"):
        talk.say("move_header")
        told = talk.tell("route", {"region": "north"})
        if talk.pair.server == OURS:
            assert told == {"region": "north"}
        else:
            assert told.get(f"mcp-param-{name}") == ("north" if talk.pair.way != "stdio" else None)


# -- what the revision forbids


@pytest.mark.our_client
@session_era
def test_a_batch_is_sent_in_2025_03_26_only(talk: Any) -> None:
    if talk.revision.batching:
        with pytest.raises(RequestTimeout if talk.pair.way == "stdio" else HttpStatusError):
            talk.client.request_batch([("ping", None)], {"timeout": 0.3})
        talk.client.ping()
    else:
        with pytest.raises(LocalProtocolError):
            talk.client.request_batch([("ping", None)])


@stateless_era
def test_a_method_that_was_removed_is_refused_at_home_or_there(talk: Talk) -> None:
    with pytest.raises(
        (ErrorResponse, LocalProtocolError, Failed), match="METHOD_NOT_SUPPORTED|-32601|does not exist in revision"
    ):
        talk.ask("ping")


# -- the end, which a server may not survive


@stateless_era
def test_a_subscription_that_the_server_ends_ends_gracefully(talk: Talk) -> None:
    with talk.listen(resources=["note://text"]) as events:
        talk.say("touch", {"uri": "note://text"})
        assert talk.say("let_go") == "gone"
        assert [event.params["uri"] for event in events] == ["note://text"]
        assert events.graceful
