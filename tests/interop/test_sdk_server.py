"""Our client in the session era, against servers made with the official SDKs, over each transport.

Those are the newest for Python, the newest 1.x for TypeScript, and one for Python that knows 2024-11-05 only. Where a
pairing says so, our client knows that revision alone, or the session era alone, for the first of these servers speaks
both eras. Everywhere else it is the client that it is by default. The stateless era is in test_stateless_servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mcp_ref import (
    Cancel,
    ErrorResponse,
    HttpStatusError,
    LocalProtocolError,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    TransportClosed,
)
from mcp_ref.client.elicitation import cancel, required_urls
from mcp_ref.client.sampling import UserRejected, reply
from mcp_ref.server.utilities.completion import prompt_ref, resource_ref
from tests.interop import programs
from tests.interop.programs import NEW_SDK, OLD_SDK, SESSION, TYPESCRIPT, Pairing
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
    Pairing(TYPESCRIPT, None, "http"),
    Pairing(TYPESCRIPT, "2025-03-26", "http"),
    Pairing(TYPESCRIPT, "2025-06-18", "http"),
    Pairing(TYPESCRIPT, None, "sse"),
    Pairing(TYPESCRIPT, "2024-11-05", "sse"),
    Pairing(OLD_SDK, None),
    Pairing(OLD_SDK, "2024-11-05"),
    Pairing(OLD_SDK, None, "sse"),
    Pairing(OLD_SDK, "2024-11-05", "sse"),
]

LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


class Session(Talk):
    """A conversation with one of them: `old` says with which."""

    pairing: Pairing
    old: bool


@pytest.fixture(scope="module", params=SESSIONS, ids=str)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    pairing: Pairing = request.param
    with programs.serving(pairing.peer, pairing.way) as target, Session(target, pairing.revisions) as session:
        session.pairing, session.old = pairing, pairing.peer == OLD_SDK
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
    assert declared["experimental"] == {"example.com/trial": {"on": True}}
    assert declared["resources"] == {"subscribe": True, "listChanged": True}
    assert declared["tools"] == declared["prompts"] == {"listChanged": True}
    assert ("completions" in declared) == (str(talk.client.revision) != "2024-11-05")


@pytest.mark.stateful
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
        assert told["revision"] == str(talk.client.revision)


# -- basic/utilities


@pytest.mark.stateful
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
    give_up = Cancel()
    talk.on_log = lambda params: give_up("no longer wanted")
    with pytest.raises(RequestCancelled):
        talk.client.call_tool("wait", cancel=give_up)
    assert talk.say("was_given_up") == "yes"


@pytest.mark.not_old  # it ends when a request is cancelled: see the last test
def test_a_call_that_takes_too_long_is_cancelled_at_the_server(talk: Session) -> None:
    with pytest.raises(RequestTimeout):
        talk.client.call_tool("wait", timeout=0.3)
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
    assert blocks[0] == {"type": "text", "text": "hello", "annotations": {"audience": ["user"], "priority": 0.5}}
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


def test_calls_of_many_threads_get_each_their_own_answer(talk: Session) -> None:
    def sums(first: int) -> list[str]:
        return [talk.say("add", {"a": first, "b": second}) for second in range(25)]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(sums, range(8)))
    assert found == [[str(first + second) for second in range(25)] for first in range(8)]


# -- server/resources


def test_resources_are_listed(talk: Session) -> None:
    listed = talk.client.list_resources()
    assert listed[0]["uri"] == "note://text"
    assert listed[0]["annotations"] == {"audience": ["assistant"], "priority": 1.0}
    assert len(listed) == (2 if talk.old else 12)


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
    assert caught.value.code == -32002
    assert caught.value.data == {"uri": "note://nowhere"}


@pytest.mark.stateful
def test_changes_of_a_resource_are_told_while_it_is_subscribed_to(talk: Session) -> None:
    updated = ("notifications/resources/updated", {"uri": "note://text"})
    talk.client.subscribe_resource("note://text")
    talk.say("touch", {"uri": "note://text"})
    assert talk.changes.get(timeout=WAIT) == updated
    talk.client.unsubscribe_resource("note://text")
    talk.say("touch", {"uri": "note://text"})
    # What the server says is taken in order: after this list has changed, nothing was told before.
    talk.say("grow")
    talk.say("grow")
    assert talk.changes.get(timeout=WAIT)[0] == "notifications/tools/list_changed"


# -- server/prompts


def test_prompts_are_listed(talk: Session) -> None:
    listed = talk.client.list_prompts()
    assert [prompt["name"] for prompt in listed[:2]] == ["greet", "talk"]
    assert listed[0]["arguments"][0] == {"name": "name", "description": "who is greeted", "required": True}


def test_a_prompt_is_written_with_its_arguments(talk: Session) -> None:
    result = talk.client.get_prompt("greet", {"name": "Ada"})
    assert result["description"] == "Greet."
    (message,) = result["messages"]
    assert message["role"] == "user" and message["content"]["text"].startswith("Greet Ada")


def test_a_prompt_can_hold_content_of_every_kind(talk: Session) -> None:
    messages = talk.client.get_prompt("talk")["messages"]
    assert [message["role"] for message in messages] == ["assistant"] * len(messages)
    assert len({message["content"]["type"] for message in messages}) == (3 if talk.old else 5)


def test_a_prompt_that_is_not_there_is_an_error(talk: Session) -> None:
    with pytest.raises(ErrorResponse) as caught:
        talk.client.get_prompt("no such prompt")
    assert caught.value.code == -32602


@pytest.mark.stateful
def test_lists_that_change_are_told_and_show_it(talk: Session) -> None:
    before = len(talk.client.list_tools())
    assert talk.say("grow") == "grown"
    changed = [talk.changes.get(timeout=WAIT)[0] for _ in range(3)]
    assert changed == [f"notifications/{page}/list_changed" for page in ("tools", "resources", "prompts")]
    assert len(talk.client.list_tools()) == before + 1
    assert talk.say("grow") == "shrunk"


# -- server/utilities


def test_arguments_of_prompts_and_templates_are_completed(talk: Session) -> None:
    names = talk.client.complete(prompt_ref("greet"), "name", "Ad")
    assert names["completion"]["values"] == ["Ada", "Adele"]
    users = talk.client.complete(resource_ref("note://user/{name}"), "name", "u")["completion"]
    assert len(users["values"]) == 100 and users["total"] == 150 and users["hasMore"] is True


def test_a_completion_knows_the_other_arguments_since_2025_06_18(talk: Session) -> None:
    found = talk.client.complete(prompt_ref("greet"), "name", "Bo", arguments={"tone": "!"})["completion"]["values"]
    known = str(talk.client.revision) in ("2025-06-18", "2025-11-25")
    assert found == ["Bob!" if known else "Bob"]


@pytest.mark.stateful
def test_log_messages_of_every_level_arrive_in_order(talk: Session) -> None:
    talk.say("shout")
    logged = [talk.logs.get(timeout=WAIT) for _ in LEVELS]
    assert [message["level"] for message in logged] == LEVELS
    assert logged[0] == {"level": "debug", "logger": "shouter", "data": {"said": "debug"}}


def test_the_level_of_log_messages_is_set(talk: Session) -> None:
    talk.client.set_log_level("warning")
    assert talk.tell("asked_levels")[-1] == "warning"


# -- client/roots


@pytest.mark.stateful
def test_roots_are_told_when_asked(talk: Session) -> None:
    assert talk.tell("folders") == [{"uri": "file:///work", "name": "Work"}, {"uri": "file:///home"}]


def test_a_change_of_the_roots_is_told(talk: Session) -> None:
    talk.client.roots_changed()
    assert talk.say("told_of_roots") == "yes"


# -- client/sampling


@pytest.mark.stateful
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
    assert talk.tell("ask") == {"action": "decline"}
    talk.answers["elicit"] = cancel()
    assert talk.tell("ask") == {"action": "cancel"}


@pytest.mark.since("2025-06-18")
@pytest.mark.streams
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
def test_a_page_is_visited_and_its_end_told(talk: Session) -> None:
    assert talk.tell("visit") == {"action": "decline"}
    drained(talk.asked)
    talk.answers["open"] = True
    assert talk.tell("visit") == {"action": "accept"}
    question = {"url": "https://example.com/sign-in", "message": "Please sign in.", "host": "example.com"}
    assert talk.asked.get(timeout=WAIT) == ("open", question)
    assert talk.changes.get(timeout=WAIT) == ("notifications/elicitation/complete", {"elicitationId": "visit-1"})


@pytest.mark.since("2025-11-25")
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


def test_a_batch_is_sent_in_2025_03_26_only(talk: Session) -> None:
    if talk.client.revision.batching:
        if talk.pairing.peer == TYPESCRIPT:
            assert talk.client.request_batch([("ping", None), ("ping", None)]) == [{}, {}]
            return
        # The other SDK has forgotten batches: it does not answer them, or refuses them.
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
