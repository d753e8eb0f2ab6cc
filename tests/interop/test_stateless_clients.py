"""Our server with clients made with the newest official SDKs, for Python and TypeScript, at 2026-07-28.

The server is the one that it is by default, in both eras; the clients ask for the stateless era first. A client runs
through all its steps once for each session, and prints what it saw; the tests read that. What they do otherwise than
one might expect:

- The client for Python sends methods that the revision has removed, and is refused; the one for TypeScript does not
  send them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.interop import programs
from tests.interop.programs import BOTH_ERAS, TYPESCRIPT_2, Pairing

SESSIONS = [
    Pairing(BOTH_ERAS, None),
    Pairing(BOTH_ERAS, None, "http"),
    Pairing(TYPESCRIPT_2, None),
    Pairing(TYPESCRIPT_2, None, "http"),
]
VERSION = "2026-07-28"
SUPPORTED = [VERSION, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
ICONS = [{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}]
OURS = {
    "name": "ours",
    "version": "1.2.3",
    "title": "Ours",
    "description": "a test server",
    "websiteUrl": "https://example.com",
    "icons": ICONS,
}


@dataclass(frozen=True)
class Seen:
    """What one client saw: `steps` by name."""

    pairing: Pairing
    steps: dict[str, Any]

    def __getitem__(self, step: str) -> Any:
        return self.steps[step]

    @property
    def http(self) -> bool:
        """Whether it was over HTTP."""
        return self.pairing.way == "http"

    @property
    def typescript(self) -> bool:
        """Whether the client is the one for TypeScript."""
        return self.pairing.peer == TYPESCRIPT_2

    def error(self, step: str) -> tuple[int, Any]:
        """The code and the data of the error that a step ended with."""
        error = self.steps[step]["error"]
        return error["code"], error["data"]


@pytest.fixture(scope="module", params=SESSIONS, ids=str)
def session(request: pytest.FixtureRequest) -> Seen:
    pairing: Pairing = request.param
    with programs.we_serve(pairing.way, program="our_stateless_server.py") as target:
        return Seen(pairing, programs.report(programs.their_stateless_client(pairing.peer, target)))


@pytest.fixture
def seen(session: Seen) -> Seen:
    return session


def said(result: Any) -> str:
    """The text of the one block of a result."""
    (block,) = result["content"]
    return str(block["text"])


def names(pages: Any, key: str = "name") -> list[str]:
    """The names of what is listed, over all pages."""
    return [entry[key] for page in pages for entry in page]


# -- server/discover, basic/versioning


def test_nothing_fails_at_the_client(seen: Seen) -> None:
    ended_by_us = {"let_go"}  # see the top
    failed = {step: what for step, what in seen.steps.items() if isinstance(what, dict) and "failed" in what}
    assert failed.keys() <= ended_by_us, failed


def test_the_stateless_revision_is_found_with_server_discover(seen: Seen) -> None:
    version, info, capabilities, instructions = seen["introduction"]
    assert (version, info, instructions) == (VERSION, OURS, "Offers everything.")
    assert capabilities["resources"] == {"subscribe": True, "listChanged": True}
    assert capabilities["tools"] == capabilities["prompts"] == {"listChanged": True}
    assert capabilities["logging"] == capabilities["completions"] == {}
    assert capabilities["experimental"] == {"example.com/trial": {"on": True}}
    assert seen["discover"]["supportedVersions"] == SUPPORTED


def test_the_handler_knows_the_client_from_the_request_alone(seen: Seen) -> None:
    told = seen["whoami"]
    assert told["revision"] == VERSION
    assert told["client"] == {"name": "sdk", "version": "2", "title": "The SDK"}
    assert told["capabilities"] == {
        "roots": {},
        "sampling": {"tools": {}},
        "elicitation": {"form": {}, "url": {}},
    }
    assert told["meta"]["io.modelcontextprotocol/protocolVersion"] == VERSION


def test_an_unknown_version_is_refused_with_the_known_ones(seen: Seen) -> None:
    assert seen.error("unsupported") == (-32022, {"supported": SUPPORTED, "requested": "2099-01-01"})


def test_a_method_that_was_removed_is_unknown(seen: Seen) -> None:
    if seen.typescript:
        assert seen["removed"] == {"refused": "METHOD_NOT_SUPPORTED_BY_PROTOCOL_VERSION"}
    else:
        assert seen.error("removed") == (-32601, {"method": "ping"})


def test_what_a_client_did_not_declare_is_named_in_the_refusal(seen: Seen) -> None:
    needed = [{"sampling": {"tools": {}}}, {"elicitation": {}}, {"sampling": {}}, {"roots": {}}]
    refusals = [result["error"] for result in seen["without_capabilities"]]
    assert [refusal["code"] for refusal in refusals] == [-32021] * 4
    assert [refusal["data"] for refusal in refusals] == [{"requiredCapabilities": each} for each in needed]


# -- server/tools, server/resources, server/prompts, server/utilities/completion


def test_lists_are_read_in_pages_and_in_the_same_order(seen: Seen) -> None:
    assert len(seen["tools"][0]) == 7
    listed = names(seen["tools"])
    assert listed[:2] == ["add", "weather"] and len(listed) == len(set(listed))
    if seen.typescript:
        assert seen["all_tools"] == listed
    assert names(seen["resources"], "uri")[:2] == ["note://text", "note://blob"]
    assert names(seen["prompts"]) == ["greet", "talk", "asking"]
    assert names(seen["templates"], "uriTemplate") == ["note://user/{name}"]
    assert seen.error("bad_cursor")[0] == -32602


def test_tools_are_called(seen: Seen) -> None:
    assert said(seen["add"]) == "42"
    assert seen["weather"]["structuredContent"] == {"city": "Porto", "degrees": 21.5}
    kinds = [block["type"] for block in seen["everything"]["content"]]
    assert kinds == ["text", "image", "audio", "resource", "resource", "resource_link"]


def test_tools_fail_in_their_results_and_refusals_are_errors(seen: Seen) -> None:
    assert seen["fail"]["isError"] is seen["crash"]["isError"] is seen["add_wrong"]["isError"] is True
    assert said(seen["fail"]) == "it did not work"
    assert "expected an integer" in said(seen["add_wrong"])
    assert seen["refuse"]["error"] == {"code": 4242, "message": "not for you", "data": {"why": "a test"}}
    assert seen.error("unknown_tool")[0] == -32602


def test_resources_are_read(seen: Seen) -> None:
    assert seen["read_text"]["contents"] == [{"uri": "note://text", "mimeType": "text/plain", "text": "a note"}]
    assert seen["read_blob"]["contents"] == [{"uri": "note://blob", "mimeType": "image/png", "blob": "iVBORw0KGgo="}]
    assert seen["read_template"]["contents"][0]["text"] == "note of ada"


def test_a_resource_that_is_not_there_is_an_error_in_the_params(seen: Seen) -> None:
    assert seen.error("read_nothing") == (-32602, {"uri": "note://nowhere"})


def test_prompts_are_written(seen: Seen) -> None:
    (message,) = seen["greet"]["messages"]
    assert message["content"]["text"] == "Greet Ada in a warm tone."
    assert len(seen["talk"]["messages"]) == 7
    assert seen.error("greet_nobody")[0] == seen.error("unknown_prompt")[0] == -32602


def test_arguments_are_completed(seen: Seen) -> None:
    assert seen["complete_prompt"]["completion"]["values"] == ["Ada!", "Adele!"]
    users = seen["complete_template"]["completion"]
    assert (len(users["values"]), users["total"], users["hasMore"]) == (100, 150, True)


# -- basic/utilities/progress, basic/patterns/cancellation, server/utilities/logging


def test_progress_comes_in_order(seen: Seen) -> None:
    assert seen["progress"] == [[number, 3, f"number {number}"] for number in (1, 2, 3)]


def test_a_call_that_is_given_up_is_cancelled_in_the_handler(seen: Seen) -> None:
    # Over stdio with a notification; over HTTP by the end of its connection.
    assert said(seen["cancel"]) == "yes"


def test_log_messages_come_to_requests_that_want_them_from_their_level_on(seen: Seen) -> None:
    assert seen["quiet"] == []
    levels = [message["level"] for message in seen["loud"]]
    assert levels == ["error", "critical", "alert", "emergency"]
    assert seen["loud"][0] == {"level": "error", "logger": "shouter", "data": {"said": "error"}}


# -- server/utilities/caching


def test_results_say_how_long_they_may_be_kept(seen: Seen) -> None:
    assert seen["hints"] == [[0, "private"], [60_000, "public"], [30_000, "private"]]


def test_what_the_client_keeps_is_outdated_by_a_notification(seen: Seen) -> None:
    assert seen["kept"] == ["1", "1", "2", 2]


# -- basic/patterns/subscriptions


def test_a_subscription_is_told_what_it_asked_for_and_no_more(seen: Seen) -> None:
    honoured, events, grown = seen["listens"]
    flags = dict.fromkeys(("toolsListChanged", "promptsListChanged", "resourcesListChanged"), True)
    assert honoured == {**flags, "resourceSubscriptions": ["note://text"]}
    assert sorted(events[:3]) == [["PromptsListChanged"], ["ResourcesListChanged"], ["ToolsListChanged"]]
    assert events[3:] == [["ResourceUpdated", "note://text"], ["ResourceUpdated", "note://text/below"]]
    assert grown


def test_two_subscriptions_at_once_are_told_each_its_own(seen: Seen) -> None:
    assert seen["listens_twice"] == [["ResourceUpdated", "note://text"], ["ResourceUpdated", "note://blob"]]


def test_the_end_of_a_subscription_by_the_server_is_told(seen: Seen) -> None:
    assert seen["let_go"] == ("graceful" if seen.typescript else [])


# -- basic/patterns/mrtr


def test_roots_are_told(seen: Seen) -> None:
    assert said(seen["folders"]) == "Work=file:///work"


def test_a_message_is_sampled(seen: Seen) -> None:
    result, (asked,) = seen["sample"]
    assert result["content"] == {"type": "text", "text": "Paris"}
    assert (result["role"], result["model"], result["stopReason"]) == ("assistant", "small-1", "endTurn")
    assert (asked["maxTokens"], asked["systemPrompt"], asked["temperature"]) == (50, "Be brief.", 0.5)


def test_a_model_uses_tools_while_it_is_sampled(seen: Seen) -> None:
    results, (first, second) = seen["sample_with_tools"]
    assert results["first"]["stopReason"] == "toolUse"
    assert results["second"]["content"] == {"type": "text", "text": "Paris"}
    assert first["toolChoice"] == {"mode": "auto"} and first["tools"][0]["name"] == "lookup"
    (found,) = second["messages"][2]["content"]
    assert (found["type"], found["toolUseId"]) == ("tool_result", "use-1")


def test_a_form_is_filled_in_or_declined(seen: Seen) -> None:
    result, (asked,) = seen["ask"]
    assert result == {"action": "accept", "content": {"name": "Ada", "age": 36, "seat": "aisle"}}
    assert (asked["mode"], asked["message"]) == ("form", "Who are you?")
    assert asked["requestedSchema"]["properties"]["seat"]["enumNames"] == ["Window", "Aisle"]
    assert seen["ask_declined"] == {"action": "decline"}


def test_values_that_do_not_fit_the_form_do_not_reach_the_handler(seen: Seen) -> None:
    # The client for TypeScript does not check them either.
    assert "does not fit its schema" in said(seen["ask_wrong"])


def test_a_visit_that_is_required_first_is_a_question_without_an_id(seen: Seen) -> None:
    result, (asked,) = seen["visit"]
    assert said(result) == "allowed"
    assert asked == {"mode": "url", "message": "Allow it.", "url": "https://example.com/allow"}


def test_three_questions_in_one_handler_are_three_rounds(seen: Seen) -> None:
    said, asked, runs = seen["three"]
    assert said == {"name": "Ada", "rhyme": "Paris", "folders": ["file:///work"]}
    assert (asked, runs) == (2, 4)  # the roots are not a question to the user


def test_three_questions_at_once_are_one_round(seen: Seen) -> None:
    assert seen["together"] == [{"name": "Ada", "city": "Porto", "folders": 1}, 2]


def test_questions_in_a_loop_are_as_many_rounds_until_the_client_has_enough(seen: Seen) -> None:
    result, runs = seen["many"]
    assert (said(result), runs) == ("Ada, Ada, Ada, Ada", 5)
    if seen.typescript:
        assert seen["too_many"] == {"refused": "INPUT_REQUIRED_ROUNDS_EXCEEDED"}
    else:
        assert "for more than 10 rounds" in seen["too_many"]


def test_a_handler_that_returns_the_questions_itself_is_answered(seen: Seen) -> None:
    assert said(seen["by_hand"]) == "Ada in file:///work"


def test_prompts_and_resources_ask_too(seen: Seen) -> None:
    assert seen["asking_prompt"]["messages"][0]["content"]["text"] == "Greet Ada."
    assert seen["asking_note"]["contents"][0]["text"] == "a note for Ada"


def test_a_question_that_the_client_refuses_ends_the_call_there(seen: Seen) -> None:
    for step in ("sample_refused", "refused_by_user"):
        assert seen.error(step)[0] == -1


def test_a_round_without_answers_is_asked_again_and_a_state_that_lies_is_refused(seen: Seen) -> None:
    first, again, lies, elsewhere = seen["one_round"]
    (question,) = first["inputRequests"].values()
    assert (question["method"], question["params"]["message"]) == ("elicitation/create", "Your name?")
    assert again["inputRequests"] == first["inputRequests"]
    assert lies["error"] == elsewhere["error"]
    assert (lies["error"]["code"], lies["error"]["message"]) == (-32602, "Invalid or expired requestState")


# -- basic/transports/streamable-http


def test_headers_repeat_what_the_call_says(seen: Seen) -> None:
    arguments = {"region": "Açores", "count": 7, "fast": True, "where": {"zone": "a b"}, "rest": "unseen"}
    result, posts = seen["headers"]
    assert result == arguments
    if not seen.http:
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


def test_a_call_whose_headers_are_out_of_date_is_refused_and_mended_by_the_client(seen: Seen) -> None:
    result, posts = seen["moved_header"]
    assert result == {"region": "north"}
    if seen.http:
        assert [headers["status"] for headers in posts] == [400, 200]
        assert "mcp-param-region" in posts[0] and posts[1]["mcp-param-area"] == "north"
