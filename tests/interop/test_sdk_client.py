"""Our server with clients made with the official SDKs, in each revision over each transport.

Where a pairing says so, our server knows that revision alone, or the session era alone. Everywhere else it is the
server that it is by default, in both eras, and the client is one that knows the session era only, or asks for the
stateless era first (2026-07-28).

A client runs through all its steps once for each session, and prints what it saw; the tests read that. The client for
Python sends methods that the stateless era has removed, and is refused; the one for TypeScript does not send them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pytest

from mcp_ref.revisions import Revision, find_revision
from tests.interop import programs
from tests.interop.programs import BOTH_ERAS, NEW_SDK, OLD_SDK, SESSION, TYPESCRIPT, TYPESCRIPT_2, Pairing

SESSIONS = [
    Pairing(BOTH_ERAS, SESSION),
    Pairing(NEW_SDK, None),
    Pairing(NEW_SDK, "2024-11-05"),
    Pairing(NEW_SDK, "2025-03-26"),
    Pairing(NEW_SDK, "2025-06-18"),
    Pairing(NEW_SDK, "2025-11-25"),
    Pairing(BOTH_ERAS, SESSION, "http"),
    Pairing(NEW_SDK, None, "http"),
    Pairing(NEW_SDK, "2025-03-26", "http"),
    Pairing(NEW_SDK, "2025-06-18", "http"),
    Pairing(NEW_SDK, None, "sse"),
    Pairing(TYPESCRIPT, None, "http"),
    Pairing(TYPESCRIPT, "2025-03-26", "http"),
    Pairing(TYPESCRIPT, "2025-06-18", "http"),
    Pairing(TYPESCRIPT, None, "sse"),
    Pairing(OLD_SDK, None),
    Pairing(OLD_SDK, "2024-11-05"),
    Pairing(OLD_SDK, None, "sse"),
    Pairing(OLD_SDK, "2024-11-05", "sse"),
    Pairing(BOTH_ERAS, None),
    Pairing(BOTH_ERAS, None, "http"),
    Pairing(TYPESCRIPT_2, None),
    Pairing(TYPESCRIPT_2, None, "http"),
]
VERSION = "2026-07-28"
SUPPORTED = [VERSION, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]

session_era = pytest.mark.until("2025-11-25")
stateless_era = pytest.mark.since(VERSION)
ICONS = [{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}]
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]


@dataclass(frozen=True)
class Seen:
    """The things that one client saw: `steps` by name."""

    pairing: Pairing
    steps: dict[str, Any]

    def __getitem__(self, step: str) -> Any:
        return self.steps[step]

    @property
    def old(self) -> bool:
        """Whether the client is made with the old SDK."""
        return self.pairing.peer == OLD_SDK

    @property
    def typescript(self) -> bool:
        """Whether the client is the newest one for TypeScript."""
        return self.pairing.peer == TYPESCRIPT_2

    @property
    def revision(self) -> Revision:
        return find_revision(self.pairing.agreed)

    @property
    def alone(self) -> bool:
        """Whether every request stands alone."""
        return self.revision.era == "stateless"

    def at_least(self, name: str) -> bool:
        """Whether the revision is that one or a later one."""
        return self.revision.order >= find_revision(name).order

    def error(self, step: str) -> tuple[int, Any]:
        """The code and the data of the error that a step ended with."""
        error = self.steps[step]["error"]
        return error["code"], error["data"]


@pytest.fixture(scope="module", params=SESSIONS, ids=str)
def session(request: pytest.FixtureRequest) -> Seen:
    pairing: Pairing = request.param
    client = programs.their_stateless_client if pairing.agreed == VERSION else programs.their_client
    with programs.we_serve(pairing.way, *pairing.revisions) as target:
        return Seen(pairing, programs.report(client(pairing.peer, target)))


@pytest.fixture
def seen(session: Seen) -> Seen:
    return session


def says(result: Any, text: str) -> bool:
    return bool(result["content"] == [{"type": "text", "text": text}])


def said(result: Any) -> str:
    """The text of the one block of a result."""
    (block,) = result["content"]
    return str(block["text"])


def failed(result: Any) -> str:
    """The text of a result that is an error."""
    assert result["isError"] is True
    return str(result["content"][0]["text"])


# -- basic/lifecycle


def test_nothing_fails_at_the_client(seen: Seen) -> None:
    assert {step: what for step, what in seen.steps.items() if isinstance(what, dict) and "failed" in what} == {}


def test_the_newest_revision_of_both_is_agreed_on(seen: Seen) -> None:
    assert seen["introduction"][0] == str(seen.revision)
    assert seen["whoami"]["revision"] == str(seen.revision)
    assert not seen.alone or seen["discover"]["supportedVersions"] == SUPPORTED


def test_the_server_introduces_itself_as_the_revision_knows_it(seen: Seen) -> None:
    _, info, capabilities, instructions = seen["introduction"]
    expected: dict[str, Any] = {"name": "ours", "version": "1.2.3"}
    if seen.at_least("2025-06-18"):
        expected["title"] = "Ours"
    if seen.at_least("2025-11-25"):
        expected |= {"description": "a test server", "websiteUrl": "https://example.com", "icons": ICONS}
    assert info == expected
    assert instructions == "Offers everything."
    assert ("completions" in capabilities) == seen.at_least("2025-03-26")
    assert capabilities["resources"] == {"subscribe": True, "listChanged": True}
    assert capabilities["tools"] == capabilities["prompts"] == {"listChanged": True}
    assert capabilities["experimental"] == {"example.com/trial": {"on": True}}


@session_era
def test_the_handler_knows_the_client(seen: Seen) -> None:
    told = seen["whoami"]
    assert told["client"]["name"] == ("old sdk" if seen.old else "sdk")
    assert told["capabilities"]["roots"] == {"listChanged": True}
    # The client declares for the newest revision, before it knows which one is agreed on.
    assert ("elicitation" in told["capabilities"]) == seen.at_least("2025-06-18")
    assert told["capabilities"]["sampling"] == ({"tools": {}} if seen.at_least("2025-11-25") else {})


# -- basic/utilities


@session_era
def test_ping_is_answered_in_both_directions(seen: Seen) -> None:
    assert seen["ping"] == {}
    assert says(seen["ping_back"], "{}")


def test_progress_comes_in_order(seen: Seen) -> None:
    words = [f"number {number}" if seen.at_least("2025-03-26") else None for number in (1, 2, 3)]
    assert seen["progress"] == [[number, 3, words[number - 1]] for number in (1, 2, 3)]


@pytest.mark.not_old
@session_era
def test_an_answer_is_fetched_when_our_server_has_closed_the_stream(seen: Seen) -> None:
    assert seen["hang_up"][0] == [[1, 2, None], [2, 2, None]]
    assert says(seen["hang_up"][1], "still here")


def test_a_call_that_is_given_up_is_cancelled_in_the_handler(seen: Seen) -> None:
    assert says(seen["cancel"], "yes")


# -- server/tools


def test_tools_are_listed_in_pages_as_the_revision_knows_them(seen: Seen) -> None:
    assert len(seen["tools"][0]) == 7
    names = [tool["name"] for page in seen["tools"] for tool in page]
    assert len(names) == len(set(names)) and len(names) == (7 if seen.old else 33)
    assert not seen.typescript or seen["all_tools"] == names
    add, weather = seen["tools"][0][:2]
    assert add["description"] == "Add two numbers."
    assert add["inputSchema"]["properties"]["b"] == {
        "type": "integer",
        "description": "the second number",
        "default": 1,
    }
    assert ("annotations" in add) == seen.at_least("2025-03-26")
    assert ("title" in add, "outputSchema" in weather) == (seen.at_least("2025-06-18"),) * 2
    assert ("icons" in add) == seen.at_least("2025-11-25")


@pytest.mark.not_old  # it cannot send a cursor
def test_an_unknown_cursor_is_refused(seen: Seen) -> None:
    assert seen["bad_cursor"]["error"]["code"] == -32602


def test_a_tool_is_called_with_arguments(seen: Seen) -> None:
    assert says(seen["add"], "42")


def test_arguments_that_do_not_fit_are_a_result_since_2025_11_25(seen: Seen) -> None:
    if seen.at_least("2025-11-25"):
        assert "expected an integer" in failed(seen["add_wrong"])
    else:
        assert seen["add_wrong"]["error"]["code"] == -32602


def test_structured_content_arrives_where_the_revision_has_it(seen: Seen) -> None:
    structured = {"city": "Porto", "degrees": 21.5} if seen.at_least("2025-06-18") else None
    assert seen["weather"].get("structuredContent") == structured
    assert says(seen["weather"], '{"city": "Porto", "degrees": 21.5}')


def test_content_that_the_revision_lacks_arrives_as_text(seen: Seen) -> None:
    kinds = [block["type"] for block in seen["everything"]["content"]]
    audio = "audio" if seen.at_least("2025-03-26") else "text"
    link = "resource_link" if seen.at_least("2025-06-18") else "text"
    assert kinds == ["text", "image", audio, "resource", "resource", link]
    assert seen["everything"]["content"][0]["annotations"] == {"audience": ["user"], "priority": 0.5}


def test_a_tool_that_fails_gives_a_result(seen: Seen) -> None:
    assert failed(seen["fail"]) == "it did not work"
    assert "by zero" in failed(seen["crash"])


def test_a_refusal_is_an_error_of_the_protocol(seen: Seen) -> None:
    assert seen["refuse"]["error"] == {"code": 4242, "message": "not for you", "data": {"why": "a test"}}
    assert seen["unknown_tool"]["error"]["code"] == -32602


# -- server/resources


def test_resources_and_templates_are_listed_as_the_revision_knows_them(seen: Seen) -> None:
    note = seen["resources"][0][0]
    assert (note["uri"], note["name"], note["mimeType"], note["size"]) == ("note://text", "text", "text/plain", 6)
    assert ("lastModified" in note["annotations"]) == ("title" in note) == seen.at_least("2025-06-18")
    assert ("icons" in note) == seen.at_least("2025-11-25")
    assert sum(map(len, seen["resources"])) == (7 if seen.old else 15)
    assert [page[0]["uriTemplate"] for page in seen["templates"]] == ["note://user/{name}"]


def test_resources_are_read(seen: Seen) -> None:
    assert seen["read_text"]["contents"] == [{"uri": "note://text", "mimeType": "text/plain", "text": "a note"}]
    assert seen["read_blob"]["contents"] == [{"uri": "note://blob", "mimeType": "image/png", "blob": "iVBORw0KGgo="}]
    assert seen["read_template"]["contents"][0]["text"] == "note of ada"
    assert seen.error("read_nothing") == (seen.revision.resource_not_found, {"uri": "note://nowhere"})


@session_era
def test_changes_of_a_resource_are_told_while_it_is_subscribed_to(seen: Seen) -> None:
    assert seen["updates"] == ["notifications/resources/updated"]


@session_era
def test_lists_that_change_are_told_and_show_it(seen: Seen) -> None:
    told = [f"notifications/{page}/list_changed" for page in ("tools", "resources", "prompts")]
    assert seen["list_changes"] == [told, True, False]


# -- server/prompts


def test_prompts_are_listed_as_the_revision_knows_them(seen: Seen) -> None:
    ((greet, talk, asking),) = seen["prompts"]
    assert [each["name"] for each in (greet, talk, asking)] == ["greet", "talk", "asking"]
    assert greet["arguments"][0] == {"name": "name", "description": "who is greeted", "required": True}
    assert ("title" in greet) == seen.at_least("2025-06-18")


def test_prompts_are_written(seen: Seen) -> None:
    (message,) = seen["greet"]["messages"]
    assert message == {"role": "user", "content": {"type": "text", "text": "Greet Ada in a warm tone."}}
    assert [message["role"] for message in seen["talk"]["messages"]] == ["user", *["assistant"] * 6]
    kinds = [message["content"]["type"] for message in seen["talk"]["messages"][1:]]
    assert kinds == [block["type"] for block in seen["everything"]["content"]]


def test_prompts_that_cannot_be_written_are_errors(seen: Seen) -> None:
    assert seen["greet_nobody"]["error"]["code"] == -32602
    assert seen["unknown_prompt"]["error"]["code"] == -32602


# -- server/utilities


def test_arguments_of_prompts_and_templates_are_completed(seen: Seen) -> None:
    # The newest SDK sends the other arguments in every revision; what is sent is used.
    tone = "" if seen.old else "!"
    names = seen["complete_prompt"]["completion"]
    assert names == {"values": [f"Ada{tone}", f"Adele{tone}"], "total": 2, "hasMore": False}
    users = seen["complete_template"]["completion"]
    assert (len(users["values"]), users["total"], users["hasMore"]) == (100, 150, True)


@session_era
def test_log_messages_arrive_from_the_level_asked_for_on(seen: Seen) -> None:
    assert [message["level"] for message in seen["all_levels"]] == LEVELS
    assert seen["all_levels"][0] == {"level": "debug", "logger": "shouter", "data": {"said": "debug"}}
    assert seen["from_error_on"] == LEVELS[4:]


# -- client/roots, client/sampling, client/elicitation


def test_roots_are_told_and_their_changes(seen: Seen) -> None:
    assert says(seen["folders"], "Work=file:///work")
    if seen.alone:
        return
    changed = {"level": "notice", "logger": "roots", "data": {"roots": ["file:///work"]}}
    assert seen["roots_changed"] == changed


def test_a_message_is_sampled(seen: Seen) -> None:
    result, (asked,) = seen["sample"]
    assert result["content"] == {"type": "text", "text": "Paris"}
    assert (result["role"], result["model"], result["stopReason"]) == ("assistant", "small-1", "endTurn")
    assert (asked["maxTokens"], asked["systemPrompt"], asked["temperature"]) == (50, "Be brief.", 0.5)
    assert asked["stopSequences"] == ["\n\n"]
    assert asked["modelPreferences"] == {"hints": [{"name": "small"}], "speedPriority": 0.9}
    if seen.alone:
        # A question that the client refuses ends the call there.
        assert seen.error("sample_refused")[0] == seen.error("refused_by_user")[0] == -1
    else:
        assert "User rejected sampling request" in failed(seen["sample_refused"])


@pytest.mark.since("2025-11-25")
def test_a_model_uses_tools_while_it_is_sampled(seen: Seen) -> None:
    results, (first, second) = seen["sample_with_tools"]
    assert results["first"]["stopReason"] == "toolUse"
    assert results["second"]["content"] == {"type": "text", "text": "Paris"}
    assert first["toolChoice"] == {"mode": "auto"} and first["tools"][0]["name"] == "lookup"
    (found,) = second["messages"][2]["content"]
    assert (found["type"], found["toolUseId"], found["content"][0]["text"]) == ("tool_result", "use-1", "tea: a drink")


@pytest.mark.since("2025-06-18")
def test_a_form_is_filled_in(seen: Seen) -> None:
    result, (asked,) = seen["ask"]
    assert result == {"action": "accept", "content": {"name": "Ada", "age": 36, "seat": "aisle"}}
    assert asked["message"] == "Who are you?"
    assert asked["requestedSchema"]["properties"]["seat"]["enumNames"] == ["Window", "Aisle"]
    assert ("mode" in asked) == seen.at_least("2025-11-25")
    assert seen["ask_declined"] == {"action": "decline"}


@pytest.mark.since("2025-06-18")
def test_values_that_do_not_fit_the_form_do_not_reach_the_handler(seen: Seen) -> None:
    assert "does not fit its schema" in failed(seen["ask_wrong"])


@pytest.mark.since("2025-11-25")
@session_era
def test_a_page_is_visited_and_its_end_told(seen: Seen) -> None:
    result, (asked,), told = seen["visit"]
    assert result == {"action": "accept", "elicitationId": "visit-1"}
    assert (asked["mode"], asked["url"], asked["elicitationId"]) == ("url", "https://example.com/sign-in", "visit-1")
    assert told == ["notifications/elicitation/complete"]


@pytest.mark.since("2025-11-25")
@session_era
def test_a_visit_that_is_required_first_is_an_error_that_names_it(seen: Seen) -> None:
    assert seen["guarded"]["error"]["code"] == -32042
    (page,) = seen["guarded"]["error"]["data"]["elicitations"]
    assert (page["mode"], page["elicitationId"]) == ("url", "visit-2")
    assert says(seen["guarded_again"], "allowed")


@pytest.mark.until("2025-03-26")
def test_a_handler_that_asks_what_the_revision_lacks_is_told_so(seen: Seen) -> None:
    assert "does not exist in revision" in failed(seen["ask"][0])


@pytest.mark.not_old
@pytest.mark.until("2025-06-18")
def test_a_handler_that_offers_tools_before_2025_11_25_is_told_so(seen: Seen) -> None:
    assert f"sampling has no tools in {seen.revision}" in failed(seen["sample_with_tools"][0])


# -- server/discover, basic/versioning


@stateless_era
def test_the_handler_knows_the_client_from_the_request_alone(seen: Seen) -> None:
    told = seen["whoami"]
    assert told["client"] == {"name": "sdk", "version": "2", "title": "The SDK"}
    assert told["capabilities"] == {
        "roots": {},
        "sampling": {"tools": {}},
        "elicitation": {"form": {}, "url": {}},
    }
    assert told["meta"]["io.modelcontextprotocol/protocolVersion"] == VERSION


@stateless_era
def test_an_unknown_version_is_refused_with_the_known_ones(seen: Seen) -> None:
    assert seen.error("unsupported") == (-32022, {"supported": SUPPORTED, "requested": "2099-01-01"})


@stateless_era
def test_a_method_that_was_removed_is_unknown(seen: Seen) -> None:
    if seen.typescript:
        assert seen["removed"] == {"refused": "METHOD_NOT_SUPPORTED_BY_PROTOCOL_VERSION"}
    else:
        assert seen.error("removed") == (-32601, {"method": "ping"})


@stateless_era
def test_what_a_client_did_not_declare_is_named_in_the_refusal(seen: Seen) -> None:
    needed = [{"sampling": {"tools": {}}}, {"elicitation": {}}, {"sampling": {}}, {"roots": {}}]
    refusals = [result["error"] for result in seen["without_capabilities"]]
    assert [refusal["code"] for refusal in refusals] == [-32021] * 4
    assert [refusal["data"] for refusal in refusals] == [{"requiredCapabilities": each} for each in needed]


# -- server/utilities, basic/patterns/subscriptions


@stateless_era
def test_log_messages_come_to_requests_that_want_them_from_their_level_on(seen: Seen) -> None:
    assert seen["quiet"] == []
    levels = [message["level"] for message in seen["loud"]]
    assert levels == ["error", "critical", "alert", "emergency"]
    assert seen["loud"][0] == {"level": "error", "logger": "shouter", "data": {"said": "error"}}


@stateless_era
def test_results_say_how_long_they_may_be_kept(seen: Seen) -> None:
    assert seen["hints"] == [[0, "private"], [60_000, "public"], [30_000, "private"]]


@stateless_era
def test_what_the_client_keeps_is_outdated_by_a_notification(seen: Seen) -> None:
    assert seen["kept"] == ["1", "1", "2", 2]


@stateless_era
def test_a_subscription_is_told_what_it_asked_for_and_no_more(seen: Seen) -> None:
    honoured, events, grown = seen["listens"]
    flags = dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True)
    assert honoured == {**flags, "resourceSubscriptions": ["note://text"]}
    assert sorted(events[:3]) == [["PromptsListChanged"], ["ResourcesListChanged"], ["ToolsListChanged"]]
    assert events[3:] == [["ResourceUpdated", "note://text"], ["ResourceUpdated", "note://text/below"]]
    assert grown


@stateless_era
def test_two_subscriptions_at_once_are_told_each_its_own(seen: Seen) -> None:
    assert seen["listens_twice"] == [["ResourceUpdated", "note://text"], ["ResourceUpdated", "note://blob"]]


@stateless_era
def test_the_end_of_a_subscription_by_the_server_is_told(seen: Seen) -> None:
    assert seen["let_go"] == ("graceful" if seen.typescript else [])


# -- basic/patterns/mrtr


@stateless_era
def test_a_visit_that_is_required_first_is_a_question_without_an_id(seen: Seen) -> None:
    result, (asked,) = seen["visit"]
    assert said(result) == "allowed"
    assert asked == {"mode": "url", "message": "Allow it.", "url": "https://example.com/allow"}


@stateless_era
def test_three_questions_in_one_handler_are_three_rounds(seen: Seen) -> None:
    said, asked, runs = seen["three"]
    assert said == {"name": "Ada", "rhyme": "Paris", "folders": ["file:///work"]}
    assert (asked, runs) == (2, 4)  # the roots are not a question to the user


@stateless_era
def test_three_questions_at_once_are_one_round(seen: Seen) -> None:
    assert seen["together"] == [{"name": "Ada", "city": "Porto", "folders": 1}, 2]


@stateless_era
def test_questions_in_a_loop_are_as_many_rounds_until_the_client_has_enough(seen: Seen) -> None:
    result, runs = seen["many"]
    assert (said(result), runs) == ("Ada, Ada, Ada, Ada", 5)
    if seen.typescript:
        assert seen["too_many"] == {"refused": "INPUT_REQUIRED_ROUNDS_EXCEEDED"}
    else:
        assert "for more than 10 rounds" in seen["too_many"]


@stateless_era
def test_a_handler_that_returns_the_questions_itself_is_answered(seen: Seen) -> None:
    assert said(seen["by_hand"]) == "Ada in file:///work"


@stateless_era
def test_prompts_and_resources_ask_too(seen: Seen) -> None:
    assert seen["asking_prompt"]["messages"][0]["content"]["text"] == "Greet Ada."
    assert seen["asking_note"]["contents"][0]["text"] == "a note for Ada"


@stateless_era
def test_a_round_without_answers_is_asked_again_and_a_state_that_lies_is_refused(seen: Seen) -> None:
    first, again, lies, elsewhere = seen["one_round"]
    (question,) = first["inputRequests"].values()
    assert (question["method"], question["params"]["message"]) == ("elicitation/create", "Your name?")
    assert again["inputRequests"] == first["inputRequests"]
    assert lies["error"] == elsewhere["error"]
    assert (lies["error"]["code"], lies["error"]["message"]) == (-32602, "Invalid or expired requestState")


# -- basic/transports/streamable-http


@stateless_era
def test_headers_repeat_what_the_call_says(seen: Seen) -> None:
    arguments = {"region": "Açores", "count": 7, "fast": True, "where": {"zone": "a b"}, "rest": "unseen"}
    result, posts = seen["headers"]
    assert result == arguments
    if seen.pairing.way != "http":
        assert posts == []
        return
    (headers,) = posts
    assert headers == {
        "mcp-protocol-version": VERSION,
        "mcp-method": "tools/call",
        "mcp-name": "route",
        "mcp-param-region": "=?base64?QcOnb3Jlcw==?=",
        "mcp-param-count": "7",
        "mcp-param-fast": "true",
        "mcp-param-zone": "a b",
        "status": 200,
    }


@stateless_era
def test_a_call_whose_headers_are_out_of_date_is_refused_and_mended_by_the_client(seen: Seen) -> None:
    result, posts = seen["moved_header"]
    assert result == {"region": "north"}
    if seen.pairing.way == "http":
        assert [headers["status"] for headers in posts] == [400, 200]
        assert "mcp-param-region" in posts[0] and posts[1]["mcp-param-area"] == "north"


# -- shutdown


@session_era
def test_a_session_over_http_is_over_when_the_client_ends_it(seen: Seen) -> None:
    assert seen.steps.get("ended") == ([200, 404] if seen.pairing.way == "http" else None)


def test_our_server_ends_when_its_client_goes() -> None:
    told = programs.report([sys.executable, str(programs.PEERS / "leaver.py"), *programs.our_server()])
    assert told["code"] == 0
    assert told["seconds"] < 15
