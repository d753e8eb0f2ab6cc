"""Our client against servers made with the official SDKs, over each transport, in each revision.

Those are the newest for Python and for TypeScript, and one for Python that knows 2024-11-05 only; the newest 1.x for
TypeScript is in test_everything. Where a pairing says so, our client knows that revision alone, or the session era
alone; everywhere else it is the client that it is by default, and finds the stateless era of the newest ones by itself.
What they do there otherwise than one might expect:

- Asked with `server/discover` they name 2026-07-28 alone, also where they speak the older revisions too.
- Where they answer in JSON alone, what a handler tells meanwhile is dropped, and the one for Python does not notice
  that a client has gone.
- The server for Python says what a client lacks (-32021) where its handler does; the one for TypeScript checks each
  question.
- The server for Python looks up a tool's headers in its list; the one for TypeScript only where the tool is registered
  with it (`registerTool`).
- Over stdio both end a subscription with its result, without the `notifications/cancelled` that the page on
  cancellation asks for; and the one for TypeScript ends them only when it is closed as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_ref import (
    Cancel,
    Client,
    ErrorResponse,
    HttpStatusError,
    LocalProtocolError,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    TransportClosed,
)
from mcp_ref.pages.client.elicitation import cancel, required_urls
from mcp_ref.pages.client.sampling import UserRejected, reply
from mcp_ref.pages.server.utilities.completion import prompt_ref, resource_ref
from tests.interop import programs
from tests.interop.programs import BOTH_ERAS, NEW_SDK, OLD_SDK, SESSION, TYPESCRIPT_2, Pairing
from tests.interop.talk import WAIT, Talk, drained

SESSIONS = [
    Pairing(NEW_SDK, SESSION),
    Pairing(NEW_SDK, "2024-11-05"),
    Pairing(NEW_SDK, "2025-03-26"),
    Pairing(NEW_SDK, "2025-06-18"),
    Pairing(NEW_SDK, "2025-11-25"),
    Pairing(NEW_SDK, SESSION, "http"),
    Pairing(NEW_SDK, "2025-03-26", "http"),
    Pairing(NEW_SDK, "2025-06-18", "http"),
    Pairing(NEW_SDK, SESSION, "json"),
    Pairing(NEW_SDK, SESSION, "stateless"),
    Pairing(NEW_SDK, None, "sse"),
    Pairing(NEW_SDK, "2024-11-05", "sse"),
    Pairing(OLD_SDK, None),
    Pairing(OLD_SDK, "2024-11-05"),
    Pairing(OLD_SDK, None, "sse"),
    Pairing(OLD_SDK, "2024-11-05", "sse"),
    *(Pairing(peer, None, way) for peer in (BOTH_ERAS, TYPESCRIPT_2) for way in ("stdio", "http", "json")),
]
VERSION = "2026-07-28"

LISTS = [f"notifications/{page}/list_changed" for page in ("tools", "resources", "prompts")]
UPDATED = "notifications/resources/updated"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


session_era = pytest.mark.until("2025-11-25")
stateless_era = pytest.mark.since(VERSION)


class Session(Talk):
    """A conversation with one of them, whose user is called Ada where every request stands alone."""

    pairing: Pairing
    target: Any

    def __init__(self, pairing: Pairing, target: Any) -> None:
        self.pairing, self.target = pairing, target
        super().__init__(target, pairing.revisions)

    def tidy(self) -> None:
        super().tidy()
        if self.alone:
            self.answers["elicit"] = {"name": "Ada"}

    @property
    def old(self) -> bool:
        """Whether the server is made with the old SDK."""
        return self.pairing.peer == OLD_SDK

    @property
    def alone(self) -> bool:
        """Whether every request stands alone."""
        return self.pairing.agreed == VERSION

    @property
    def http(self) -> bool:
        """Whether it is over HTTP."""
        return self.pairing.way != "stdio"


@pytest.fixture(scope="module", params=SESSIONS, ids=str)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    pairing: Pairing = request.param
    with programs.serving(pairing.peer, pairing.way) as target, Session(pairing, target) as session:
        yield session


@pytest.fixture
def talk(session: Session) -> Session:
    session.tidy()
    return session


# -- basic/lifecycle


def test_the_newest_revision_of_both_is_agreed_on_or_the_one_asked_for(talk: Session) -> None:
    assert str(talk.client.revision) == talk.pairing.agreed


def test_the_server_introduces_itself(talk: Session) -> None:
    assert talk.client.server_info["name"] == "theirs"
    assert talk.client.instructions == "Offers everything."
    declared = talk.client.server_capabilities
    assert talk.alone or declared["experimental"] == {"example.com/trial": {"on": True}}
    assert declared["resources"] == {"subscribe": True, "listChanged": True}
    assert declared["tools"] == declared["prompts"] == {"listChanged": True}
    assert ("completions" in declared) == (str(talk.client.revision) != "2024-11-05")
    if talk.alone:
        assert talk.client.server_info == {"name": "theirs", "version": "9.8.7", "title": "Theirs"}
        assert VERSION in talk.client.discover()["supportedVersions"]


@pytest.mark.stateful
@session_era
def test_the_server_understands_the_introduction_of_the_client(talk: Session) -> None:
    told = talk.tell("whoami")
    initialize = told if talk.old else told["initialize"]
    capabilities = initialize["capabilities"]
    # The old SDK is asked for the newest of all, and answers with the one that it has.
    asked = "2025-11-25" if talk.old and talk.pairing == (OLD_SDK, None, "stdio") else talk.pairing.agreed
    assert initialize["protocolVersion"] == asked
    assert initialize["clientInfo"]["name"] == "mcp_ref"
    assert capabilities["roots"] == {"listChanged": True}
    assert capabilities["sampling"] == ({"tools": {}} if asked == "2025-11-25" else {})
    if not talk.old:
        forms = {"2025-06-18": {}, "2025-11-25": {"form": {}, "url": {}}}
        assert capabilities.get("elicitation") == forms.get(asked)
        assert told["version"] == str(talk.client.revision)


# -- basic/utilities


@pytest.mark.stateful
@session_era
def test_ping_is_answered_in_both_directions(talk: Session) -> None:
    talk.client.ping()
    assert talk.tell("ping_back") == {}


@pytest.mark.streams
def test_progress_comes_in_order_while_the_call_waits(talk: Session) -> None:
    seen: list[Any] = []
    assert talk.say("count", {"to": 5}, on_progress=lambda *step: seen.append(step)) == "counted to 5"
    assert [step[:2] for step in seen] == [(number, 5) for number in range(1, 6)]
    if not talk.old:
        assert seen[0][2] == "number 1"


def test_a_call_without_a_callback_asks_for_no_progress(talk: Session) -> None:
    assert talk.say("count", {"to": 2}) == "counted to 2"


@pytest.mark.not_old  # it ends when a request is cancelled: see the last test
@pytest.mark.stateful
def test_a_call_that_is_given_up_is_cancelled_at_the_server(talk: Session) -> None:
    if talk.alone and talk.pairing.way == "json":
        pytest.skip("its server does not notice")
    give_up = Cancel()
    talk.on_log = lambda params: give_up("no longer wanted")
    with pytest.raises(RequestCancelled):
        talk.client.call_tool("wait", cancel=give_up)
    assert talk.say("was_given_up") == "yes"


# -- server/tools


def test_tools_are_listed_over_all_pages(talk: Session) -> None:
    names = [tool["name"] for tool in talk.client.list_tools()]
    assert names[0] == "add"
    assert len(names) == len(set(names))
    assert {"everything", "touch"} <= set(names)


@pytest.mark.not_old  # it cannot read a cursor
def test_a_page_has_a_cursor_to_the_next(talk: Session) -> None:
    first = talk.client.list_tools_page()
    second = talk.client.list_tools_page(first["nextCursor"])
    assert [len(first["tools"]), len(second["tools"])] == [4, 4]
    assert first["tools"][0] != second["tools"][0]


def test_a_tool_is_called_with_arguments(talk: Session) -> None:
    assert talk.say("add", {"a": 2, "b": 40}) == "42"


def test_content_of_every_kind_arrives(talk: Session) -> None:
    blocks = talk.client.call_tool("everything")["content"]
    hints = {} if talk.pairing.peer == TYPESCRIPT_2 else {"annotations": {"audience": ["user"], "priority": 0.5}}
    assert blocks[0] == {"type": "text", "text": "hello", **hints}
    kinds = [block["type"] for block in blocks]
    if talk.old:
        assert kinds == ["text", "image", "resource", "resource"]
    else:
        assert kinds == ["text", "image", "audio", "resource", "resource", "resource_link"]
    texts = [block["resource"] for block in blocks if block["type"] == "resource"]
    assert texts[0]["text"] == "a note" and texts[1]["blob"] == "iVBORw0KGgo="


@pytest.mark.not_old  # it has none
def test_structured_content_arrives(talk: Session) -> None:
    result = talk.client.call_tool("weather", {"city": "Porto"})
    assert result["structuredContent"] == {"city": "Porto", "degrees": 21.5}


@pytest.mark.since("2025-06-18")
def test_structured_content_that_does_not_fit_the_output_schema_is_refused(talk: Session) -> None:
    with pytest.raises(RemoteProtocolError, match="wrong_weather"):
        talk.client.call_tool("wrong_weather")


def test_a_tool_that_fails_gives_a_result(talk: Session) -> None:
    result = talk.client.call_tool("fail")
    assert result["isError"] is True
    assert result["content"] == [{"type": "text", "text": "it did not work"}]


@pytest.mark.not_old  # it makes results of all errors of tools
def test_an_error_of_the_protocol_is_raised(talk: Session) -> None:
    with pytest.raises(ErrorResponse) as caught:
        talk.client.call_tool("refuse")
    assert (caught.value.code, caught.value.message, caught.value.data) == (4242, "not for you", {"why": "a test"})
    with pytest.raises(ErrorResponse) as caught:
        talk.client.call_tool("no such tool")
    assert caught.value.code == -32602


# -- server/resources


@session_era
def test_resources_are_listed(talk: Session) -> None:
    listed = talk.client.list_resources()
    assert listed[0]["uri"] == "note://text"
    assert listed[0]["annotations"] == {"audience": ["assistant"], "priority": 1.0}
    assert len(listed) == 12


def test_templates_are_listed(talk: Session) -> None:
    (template,) = talk.client.list_resource_templates()
    assert template == {"uriTemplate": "note://user/{name}", "name": "of_user", "mimeType": "text/plain"}


def test_resources_are_read(talk: Session) -> None:
    note = {"uri": "note://text", "mimeType": "text/plain", "text": "a note"}
    blob = {"uri": "note://blob", "mimeType": "image/png", "blob": "iVBORw0KGgo="}
    assert talk.client.read_resource("note://text")["contents"] == [note]
    assert talk.client.read_resource("note://blob")["contents"] == [blob]
    assert talk.client.read_resource("note://user/ada")["contents"][0]["text"] == "note of ada"


def test_a_resource_that_is_not_there_is_an_error(talk: Session) -> None:
    with pytest.raises(ErrorResponse) as caught:
        talk.client.read_resource("note://nowhere")
    assert caught.value.code == talk.client.revision.resource_not_found
    assert caught.value.data == {"uri": "note://nowhere"}


@pytest.mark.stateful
@session_era
def test_changes_of_a_resource_are_told_while_it_is_subscribed_to(talk: Session) -> None:
    talk.client.subscribe_resource("note://text")
    talk.say("touch", {"uri": "note://text"})
    assert talk.changes.get(timeout=WAIT) == (UPDATED, {"uri": "note://text"})
    talk.client.unsubscribe_resource("note://text")
    talk.say("touch", {"uri": "note://text"})
    # What the server says is taken in order: after this list has changed, nothing was told before.
    talk.say("grow")
    talk.say("grow")
    assert talk.changes.get(timeout=WAIT)[0] == "notifications/tools/list_changed"


# -- server/prompts


@session_era
def test_prompts_are_listed(talk: Session) -> None:
    listed = talk.client.list_prompts()
    assert [prompt["name"] for prompt in listed[:2]] == ["greet", "talk"]
    assert listed[0]["arguments"][0] == {"name": "name", "description": "who is greeted", "required": True}


def test_a_prompt_is_written_with_its_arguments(talk: Session) -> None:
    result = talk.client.get_prompt("greet", {"name": "Ada"})
    assert result["description"] == "Greet."
    (message,) = result["messages"]
    assert message["role"] == "user" and message["content"]["text"].startswith("Greet Ada")


@session_era
def test_a_prompt_can_hold_content_of_every_kind(talk: Session) -> None:
    messages = talk.client.get_prompt("talk")["messages"]
    assert [message["role"] for message in messages] == ["assistant"] * len(messages)
    assert len({message["content"]["type"] for message in messages}) == (3 if talk.old else 5)


def test_a_prompt_that_is_not_there_is_an_error(talk: Session) -> None:
    with pytest.raises(ErrorResponse) as caught:
        talk.client.get_prompt("no such prompt")
    assert caught.value.code == -32602


@pytest.mark.stateful
@session_era
def test_lists_that_change_are_told_and_show_it(talk: Session) -> None:
    before = len(talk.client.list_tools())
    assert talk.say("grow") == "grown"
    assert [talk.changes.get(timeout=WAIT)[0] for _ in LISTS] == LISTS
    assert len(talk.client.list_tools()) == before + 1
    assert talk.say("grow") == "shrunk"


# -- server/utilities


def test_arguments_of_prompts_and_templates_are_completed(talk: Session) -> None:
    names = talk.client.complete(prompt_ref("greet"), "name", "Ad")
    assert names["completion"]["values"] == ["Ada", "Adele"]
    users = talk.client.complete(resource_ref("note://user/{name}"), "name", "u")["completion"]
    assert len(users["values"]) == 100 and users["total"] == 150 and users["hasMore"] is True


@session_era
def test_a_completion_knows_the_other_arguments_since_2025_06_18(talk: Session) -> None:
    found = talk.client.complete(prompt_ref("greet"), "name", "Bo", arguments={"tone": "!"})["completion"]["values"]
    known = str(talk.client.revision) in ("2025-06-18", "2025-11-25")
    assert found == ["Bob!" if known else "Bob"]


@pytest.mark.stateful
@session_era
def test_log_messages_of_every_level_arrive_in_order(talk: Session) -> None:
    talk.say("shout")
    logged = [talk.logs.get(timeout=WAIT) for _ in LEVELS]
    assert [message["level"] for message in logged] == LEVELS
    assert logged[0] == {"level": "debug", "logger": "shouter", "data": {"said": "debug"}}


@session_era
def test_the_level_of_log_messages_is_set(talk: Session) -> None:
    talk.client.set_log_level("warning")
    assert talk.tell("asked_levels")[-1] == "warning"


# -- client/roots


@pytest.mark.stateful
@session_era
def test_roots_are_told_when_asked(talk: Session) -> None:
    assert talk.tell("folders") == [{"uri": "file:///work", "name": "Work"}, {"uri": "file:///home"}]


@session_era
def test_a_change_of_the_roots_is_told(talk: Session) -> None:
    talk.client.roots_changed()
    assert talk.say("told_of_roots") == "yes"


# -- client/sampling


@pytest.mark.stateful
@session_era
def test_a_message_is_sampled(talk: Session) -> None:
    result = talk.tell("sample")
    assert result["content"] == {"type": "text", "text": "Paris"}
    assert (result["role"], result["model"], result["stopReason"]) == ("assistant", "small-1", "endTurn")
    kind, params = talk.asked.get(timeout=WAIT)
    assert kind == "sample"
    assert params["messages"][0]["content"]["text"] == "What is the capital of France?"
    assert (params["maxTokens"], params["systemPrompt"], params["temperature"]) == (50, "Be brief.", 0.5)
    assert params["stopSequences"] == ["\n\n"]
    assert params["modelPreferences"] == {"hints": [{"name": "small"}], "speedPriority": 0.9}


@pytest.mark.stateful
@session_era
def test_a_user_who_refuses_to_sample_is_an_error_at_the_server(talk: Session) -> None:
    talk.answers["sample"] = UserRejected()
    if talk.old:
        assert "User rejected sampling request" in talk.client.call_tool("sample")["content"][0]["text"]
        return
    with pytest.raises(ErrorResponse) as caught:
        talk.client.call_tool("sample")
    assert caught.value.code == -1


@pytest.mark.since("2025-11-25")
@pytest.mark.stateful
@session_era
def test_a_model_uses_tools_while_it_is_sampled(talk: Session) -> None:
    use = {"type": "tool_use", "id": "use-1", "name": "lookup", "input": {"word": "tea"}}

    def answer(params: dict[str, Any]) -> Any:
        if len(params["messages"]) == 1:
            return reply([use], model="small-1")
        return reply(params["messages"][-1]["content"][0]["content"][0]["text"], model="small-1")

    talk.answers["sample"] = answer
    result = talk.tell("sample_with_tools")
    assert result["first"]["stopReason"] == "toolUse"
    assert result["second"]["content"] == {"type": "text", "text": "tea: a drink"}
    (_, first), (_, second) = drained(talk.asked)
    assert first["toolChoice"] == {"mode": "auto"} and first["tools"][0]["name"] == "lookup"
    assert [message["role"] for message in second["messages"]] == ["user", "assistant", "user"]


# -- client/elicitation


@pytest.mark.since("2025-06-18")
@pytest.mark.streams
def test_a_form_is_filled_in(talk: Session) -> None:
    talk.answers["elicit"] = {"name": "Ada", "age": 36, "seat": "aisle"}
    content = {"name": "Ada", "age": 36, "seat": "aisle", "agrees": False}
    assert talk.tell("ask") == {"action": "accept", "content": content}
    kind, question = talk.asked.get(timeout=WAIT)
    assert (kind, question["message"]) == ("elicit", "Who are you?")
    assert question["schema"]["required"] == ["name", "age"]


@pytest.mark.since("2025-06-18")
@pytest.mark.streams
def test_a_form_is_declined_or_left(talk: Session) -> None:
    talk.answers["elicit"] = None
    assert talk.tell("ask") == {"action": "decline"}
    talk.answers["elicit"] = cancel()
    assert talk.tell("ask") == {"action": "cancel"}


@pytest.mark.since("2025-06-18")
@pytest.mark.streams
@session_era
def test_a_form_has_choices_since_2025_11_25(talk: Session) -> None:
    talk.answers["elicit"] = {"one": "b", "some": ["x", "z"], "titled": ["q"]}
    if not talk.client.revision.elicitation_modes:
        with pytest.raises(ErrorResponse) as caught:
            talk.client.call_tool("ask", {"choices": True})
        assert caught.value.code == -32602
        return
    content = {"one": "b", "some": ["x", "z"], "titled": ["q"], "word": "mellon"}
    assert talk.tell("ask", {"choices": True}) == {"action": "accept", "content": content}


@pytest.mark.since("2025-11-25")
@pytest.mark.streams
@session_era
def test_a_page_is_visited_and_its_end_told(talk: Session) -> None:
    assert talk.tell("visit") == {"action": "decline"}
    drained(talk.asked)
    talk.answers["open"] = True
    assert talk.tell("visit") == {"action": "accept"}
    question = {"url": "https://example.com/sign-in", "message": "Please sign in.", "host": "example.com"}
    assert talk.asked.get(timeout=WAIT) == ("open", question)
    assert talk.changes.get(timeout=WAIT) == ("notifications/elicitation/complete", {"elicitationId": "visit-1"})


@pytest.mark.since("2025-11-25")
@session_era
def test_a_visit_that_is_required_first_is_an_error_that_names_it(talk: Session) -> None:
    with pytest.raises(ErrorResponse) as caught:
        talk.client.call_tool("guarded")
    (page,) = required_urls(caught.value)
    assert (page["url"], page["elicitationId"]) == ("https://example.com/allow", "visit-2")
    talk.answers["open"] = True
    assert talk.client.visit_required(page) == {"action": "accept"}
    assert talk.asked.get(timeout=WAIT)[1]["url"] == "https://example.com/allow"
    assert talk.say("guarded") == "allowed"


# -- what the revision forbids, and what a server may not survive


@session_era
def test_a_batch_is_sent_in_2025_03_26_only(talk: Session) -> None:
    if talk.client.revision.batching:
        # The SDK has forgotten batches: it does not answer them, or refuses them.
        with pytest.raises(RequestTimeout if talk.pairing.way == "stdio" else HttpStatusError):
            talk.client.request_batch([("ping", None)], {"timeout": 0.3})
        talk.client.ping()
    else:
        with pytest.raises(LocalProtocolError):
            talk.client.request_batch([("ping", None)])


@pytest.mark.not_old
@pytest.mark.until("2025-03-26")
def test_a_question_that_the_revision_lacks_is_refused(talk: Session) -> None:
    with pytest.raises(ErrorResponse) as caught:
        talk.client.call_tool("ask")
    assert caught.value.code == -32601


@pytest.mark.not_old
@pytest.mark.until("2025-06-18")
def test_a_question_of_a_kind_that_the_revision_lacks_is_refused(talk: Session) -> None:
    for tool in ("visit", "sample_with_tools"):
        with pytest.raises(ErrorResponse) as caught:
            talk.client.call_tool(tool)
        assert caught.value.code in (-32601, -32602)
    assert talk.asked.empty()


def test_a_server_that_a_cancellation_ends_is_told_of() -> None:
    give_up = Cancel()
    with Talk([*programs.old_sdk(), str(programs.PEERS / "old_sdk_server.py")]) as talk:
        talk.on_log = lambda params: give_up("no longer wanted")
        with pytest.raises(RequestCancelled):
            talk.client.call_tool("wait", cancel=give_up)
        with pytest.raises(TransportClosed, match="exited with code 1"):
            talk.client.call_tool("was_given_up")


# -- server/discover, basic/versioning


@stateless_era
def test_the_server_understands_what_each_request_says_of_the_client(talk: Session) -> None:
    told = talk.tell("whoami")
    assert told["version"] == VERSION
    assert told["meta"]["io.modelcontextprotocol/clientInfo"]["name"] == "mcp_ref"
    assert told["meta"]["io.modelcontextprotocol/clientCapabilities"] == {
        "roots": {},
        "sampling": {"tools": {}},
        "elicitation": {"form": {}, "url": {}},
    }


@stateless_era
def test_a_client_that_did_not_declare_what_a_call_needs_is_told_so(talk: Session) -> None:
    with Client(talk.target) as bare, pytest.raises(ErrorResponse) as caught:
        bare.call_tool("needs")
    assert caught.value.code == -32021
    assert "sampling" in caught.value.data["requiredCapabilities"]
    assert talk.say("needs") == "it has it"


# -- server/utilities, in the stateless era


@stateless_era
@pytest.mark.streams
def test_log_messages_come_from_the_level_that_the_request_names(talk: Session) -> None:
    talk.say("shout")
    assert [talk.logs.get(timeout=WAIT)["level"] for _ in LEVELS] == LEVELS
    talk.say("shout", log_level="error")
    assert [talk.logs.get(timeout=WAIT)["level"] for _ in LEVELS[4:]] == LEVELS[4:]
    assert talk.logs.empty()


@stateless_era
def test_what_the_server_lets_us_keep_is_kept_until_it_says_that_it_has_changed(talk: Session) -> None:
    def read(**options: Any) -> str:
        return str(talk.client.read_resource("note://counted", **options)["contents"][0]["text"])

    with talk.client.listen(resources=["note://counted"]) as events:
        first = int(read(cached=False))
        assert (read(), read()) == (str(first), str(first))
        talk.say("touch", {"uri": "note://counted"})
        assert events.get(WAIT).params["uri"] == "note://counted"
        assert read() == str(first + 1)
    assert read(cached=False) == str(first + 2)


@stateless_era
def test_the_hints_of_a_list_are_the_same_on_every_page(talk: Session) -> None:
    first = talk.client.list_prompts_page()
    second = talk.client.list_prompts_page(first["nextCursor"])
    for page in (first, second):
        assert (page["ttlMs"], page["cacheScope"]) == (60_000, "public")


# -- basic/patterns/subscriptions


@stateless_era
def test_a_subscription_is_told_what_it_asked_for_and_no_more(talk: Session) -> None:
    with talk.client.listen(tools=True, prompts=True, resource_list=True, resources=["note://text"]) as events:
        assert events.refused == {}
        before = len(talk.client.list_tools())
        assert talk.say("grow") == "grown"
        assert [events.get(WAIT).method for _ in LISTS] == LISTS
        assert len(talk.client.list_tools()) == before + 1
        talk.say("touch", {"uri": "note://blob"})
        talk.say("touch", {"uri": "note://text"})
        event = events.get(WAIT)
        assert (event.method, event.params["uri"]) == (UPDATED, "note://text")
        talk.say("grow")
        assert [events.get(WAIT).method for _ in LISTS] == LISTS
    assert talk.say("add", {"a": 1, "b": 2}) == "3"


@stateless_era
def test_two_subscriptions_at_once_are_told_each_its_own(talk: Session) -> None:
    with talk.client.listen(resources=["note://a"]) as one, talk.client.listen(resources=["note://b"]) as other:
        for uri in ("note://a", "note://b"):
            talk.say("touch", {"uri": uri})
        assert one.get(WAIT).params["uri"] == "note://a"
        assert other.get(WAIT).params["uri"] == "note://b"


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("peer", [BOTH_ERAS, TYPESCRIPT_2])
def test_a_subscription_that_the_server_ends_ends_gracefully(peer: str, way: str) -> None:
    with programs.serving(peer, way) as target, Session(Pairing(peer, None, way), target) as talk:
        with talk.client.listen(resources=["note://text"]) as events:
            talk.say("touch", {"uri": "note://text"})
            assert talk.say("let_go") == "gone"
            assert [event.params["uri"] for event in events] == ["note://text"]
            assert events.graceful


# -- basic/patterns/mrtr


@stateless_era
def test_a_page_is_visited(talk: Session) -> None:
    assert talk.tell("visit") == {"action": "decline"}
    talk.answers["open"] = True
    assert talk.tell("visit") == {"action": "accept"}
    question = {"url": "https://example.com/sign-in", "message": "Please sign in.", "host": "example.com"}
    assert drained(talk.asked) == [("open", question)] * 2


@stateless_era
def test_a_model_that_uses_tools_is_asked_in_a_round(talk: Session) -> None:
    use = {"type": "tool_use", "id": "use-1", "name": "lookup", "input": {"word": "tea"}}
    talk.answers["sample"] = reply([use], model="small-1")
    assert talk.tell("sample_with_tools")["stopReason"] == "toolUse"
    _, params = talk.asked.get(timeout=WAIT)
    assert params["toolChoice"] == {"mode": "auto"} and params["tools"][0]["name"] == "lookup"


@stateless_era
def test_three_questions_one_after_the_other_are_three_rounds(talk: Session) -> None:
    before = talk.tell("how_often", {"what": "three"})
    told = talk.tell("three")
    assert told == {"name": "Ada", "rhyme": "Paris", "folders": ["file:///work", "file:///home"]}
    assert [kind for kind, _ in drained(talk.asked)] == ["elicit", "sample"]
    assert talk.tell("how_often", {"what": "three"}) == before + 4


@stateless_era
def test_three_questions_at_once_are_one_round(talk: Session) -> None:
    before = talk.tell("how_often", {"what": "together"})
    assert talk.tell("together") == ["Ada", "Ada", 2]
    assert talk.tell("how_often", {"what": "together"}) == before + 2


@stateless_era
def test_a_state_without_questions_has_the_client_come_back(talk: Session) -> None:
    words = talk.say("later").removeprefix("back with ")
    assert json.loads(words) == {"come": "back"}


@stateless_era
def test_prompts_and_resources_ask_too(talk: Session) -> None:
    assert talk.client.get_prompt("asking")["messages"][0]["content"]["text"] == "Greet Ada."
    assert talk.client.read_resource("note://asking")["contents"][0]["text"] == "a note for Ada"
    # What depends on an answer is not kept.
    talk.answers["elicit"] = {"name": "Bob"}
    assert talk.client.read_resource("note://asking")["contents"][0]["text"] == "a note for Bob"


@stateless_era
def test_a_call_is_driven_by_hand_and_a_state_that_lies_is_refused(talk: Session) -> None:
    result: Any = talk.client.call_tool("three", by_hand=True)
    first = result["requestState"]
    rounds = 0
    while result.get("resultType") == "input_required":
        rounds += 1
        given = {"input_responses": talk.client.answers_to(result), "request_state": result["requestState"]}
        result = talk.client.call_tool("three", by_hand=True, **given)
    assert rounds == 3
    assert json.loads(result["content"][0]["text"])["rhyme"] == "Paris"
    with pytest.raises(ErrorResponse) as caught:
        talk.client.call_tool("three", by_hand=True, request_state=f"{first[:-4]}AAAA")
    assert (caught.value.code, caught.value.message) == (-32602, "Invalid or expired requestState")


# -- basic/transports/streamable-http


@stateless_era
def test_headers_repeat_what_a_call_says(talk: Session) -> None:
    talk.client.list_tools()
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
    assert talk.tell("route", arguments) == (headers if talk.http else {})


@stateless_era
def test_a_call_whose_headers_are_out_of_date_is_sent_again_with_the_right_ones(talk: Session) -> None:
    talk.client.list_tools()
    for name in ("area", "region"):
        talk.say("move_header")
        headers = talk.tell("route", {"region": "north"})
        assert headers.get(f"mcp-param-{name}") == ("north" if talk.http else None)
