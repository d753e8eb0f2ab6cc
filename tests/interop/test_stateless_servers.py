"""Our client, as it is by default, against servers made with the newest official SDKs at 2026-07-28.

Both SDKs serve both eras on each transport, so that our client finds the stateless one by itself. What they do
otherwise than one might expect:

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
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from mcp_ref import (
    Cancel,
    Client,
    ErrorResponse,
    InputRefused,
    LocalProtocolError,
    RemoteProtocolError,
    RequestCancelled,
    RequestTimeout,
    TransportClosed,
)
from mcp_ref.client.elicitation import cancel
from mcp_ref.client.sampling import UserRejected, reply
from mcp_ref.server.utilities.completion import prompt_ref, resource_ref
from tests.interop import programs
from tests.interop.cutting import Proxy
from tests.interop.programs import BOTH_ERAS, TYPESCRIPT_2, Pairing
from tests.interop.talk import WAIT, Talk, drained

SESSIONS = [
    Pairing(BOTH_ERAS, None),
    Pairing(BOTH_ERAS, None, "http"),
    Pairing(BOTH_ERAS, None, "json"),
    Pairing(TYPESCRIPT_2, None),
    Pairing(TYPESCRIPT_2, None, "http"),
    Pairing(TYPESCRIPT_2, None, "json"),
]
VERSION = "2026-07-28"
LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LISTS = [f"notifications/{page}/list_changed" for page in ("tools", "resources", "prompts")]
UPDATED = "notifications/resources/updated"


class Stateless(Talk):
    """A conversation with one of them, whose user is called Ada."""

    pairing: Pairing

    def tidy(self) -> None:
        super().tidy()
        self.answers["elicit"] = {"name": "Ada"}

    @property
    def http(self) -> bool:
        """Whether it is over HTTP."""
        return self.pairing.way != "stdio"

    @property
    def python(self) -> bool:
        """Whether the server is the one for Python."""
        return self.pairing.peer == BOTH_ERAS


@pytest.fixture(scope="module", params=SESSIONS, ids=str)
def session(request: pytest.FixtureRequest) -> Iterator[Stateless]:
    pairing: Pairing = request.param
    with programs.serving(pairing.peer, pairing.way) as target, Stateless(target) as session:
        session.pairing, session.target = pairing, target  # type: ignore[attr-defined]
        yield session


@pytest.fixture
def talk(session: Stateless) -> Stateless:
    session.tidy()
    return session


# -- server/discover, basic/versioning


def test_the_stateless_revision_is_found_with_server_discover(talk: Stateless) -> None:
    assert str(talk.client.revision) == VERSION
    assert talk.client.server_info == {"name": "theirs", "version": "9.8.7", "title": "Theirs"}
    assert talk.client.instructions == "Offers everything."
    assert VERSION in talk.client.discover()["supportedVersions"]
    declared = talk.client.server_capabilities
    assert declared["tools"] == declared["prompts"] == {"listChanged": True}
    assert declared["resources"] == {"listChanged": True, "subscribe": True}
    assert "completions" in declared


def test_the_server_understands_what_each_request_says_of_the_client(talk: Stateless) -> None:
    told = talk.tell("whoami")
    assert told["version"] == VERSION
    assert told["meta"]["io.modelcontextprotocol/clientInfo"]["name"] == "mcp_ref"
    assert told["meta"]["io.modelcontextprotocol/clientCapabilities"] == {
        "roots": {},
        "sampling": {"tools": {}},
        "elicitation": {"form": {}, "url": {}},
    }


def test_what_the_revision_has_removed_is_not_sent(talk: Stateless) -> None:
    for call in (talk.client.ping, talk.client.roots_changed):
        with pytest.raises(LocalProtocolError, match=f"does not exist in revision {VERSION}"):
            call()


def test_a_client_that_did_not_declare_what_a_call_needs_is_told_so(talk: Stateless) -> None:
    with Client(talk.target) as bare, pytest.raises(ErrorResponse) as caught:  # type: ignore[attr-defined]
        bare.call_tool("needs")
    assert caught.value.code == -32021
    assert "sampling" in caught.value.data["requiredCapabilities"]
    assert talk.say("needs") == "it has it"


# -- server/tools, server/resources, server/prompts, server/utilities/completion


def test_lists_are_read_over_all_pages(talk: Stateless) -> None:
    names = [tool["name"] for tool in talk.client.list_tools()]
    assert names[:2] == ["add", "weather"] and len(names) == len(set(names)) > 20
    first = talk.client.list_tools_page()
    assert [tool["name"] for tool in first["tools"]] == names[:4]
    assert talk.client.list_resources()[0]["uri"] == "note://text"
    assert talk.client.list_prompts()[0]["name"] == "greet"
    assert talk.client.list_resource_templates()[0]["uriTemplate"] == "note://user/{name}"


def test_tools_are_called(talk: Stateless) -> None:
    assert talk.say("add", {"a": 2, "b": 40}) == "42"
    forecast = {"city": "Porto", "degrees": 21.5}
    assert talk.client.call_tool("weather", {"city": "Porto"})["structuredContent"] == forecast
    kinds = [block["type"] for block in talk.client.call_tool("everything")["content"]]
    assert kinds == ["text", "image", "audio", "resource", "resource", "resource_link"]
    assert talk.client.call_tool("fail")["isError"] is True


def test_structured_content_that_does_not_fit_the_output_schema_is_refused(talk: Stateless) -> None:
    with pytest.raises(RemoteProtocolError, match="wrong_weather"):
        talk.client.call_tool("wrong_weather")


def test_calls_of_many_threads_get_each_their_own_answer(talk: Stateless) -> None:
    def sums(first: int) -> list[str]:
        return [talk.say("add", {"a": first, "b": second}) for second in range(15)]

    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(sums, range(8)))
    assert found == [[str(first + second) for second in range(15)] for first in range(8)]


def test_errors_of_the_protocol_are_raised(talk: Stateless) -> None:
    with pytest.raises(ErrorResponse) as caught:
        talk.client.call_tool("refuse")
    assert (caught.value.code, caught.value.message, caught.value.data) == (4242, "not for you", {"why": "a test"})
    with pytest.raises(ErrorResponse) as caught:
        talk.client.call_tool("no such tool")
    assert caught.value.code == -32602


def test_resources_are_read_and_an_unknown_one_is_invalid_params(talk: Stateless) -> None:
    note = {"uri": "note://text", "mimeType": "text/plain", "text": "a note"}
    assert talk.client.read_resource("note://text")["contents"] == [note]
    assert talk.client.read_resource("note://blob")["contents"][0]["blob"] == "iVBORw0KGgo="
    assert talk.client.read_resource("note://user/ada")["contents"][0]["text"] == "note of ada"
    with pytest.raises(ErrorResponse) as caught:
        talk.client.read_resource("note://nowhere")
    assert (caught.value.code, caught.value.data) == (-32602, {"uri": "note://nowhere"})


def test_prompts_are_written_and_arguments_completed(talk: Stateless) -> None:
    (message,) = talk.client.get_prompt("greet", {"name": "Ada"})["messages"]
    assert message["content"]["text"].startswith("Greet Ada")
    assert talk.client.complete(prompt_ref("greet"), "name", "Ad")["completion"]["values"] == ["Ada", "Adele"]
    users = talk.client.complete(resource_ref("note://user/{name}"), "name", "u")["completion"]
    assert (len(users["values"]), users["total"], users["hasMore"]) == (100, 150, True)


# -- basic/utilities/progress, basic/patterns/cancellation, server/utilities/logging


@pytest.mark.streams
def test_progress_comes_in_order_while_the_call_waits(talk: Stateless) -> None:
    seen: list[Any] = []
    assert talk.say("count", {"to": 3}, on_progress=lambda *step: seen.append(step)) == "counted to 3"
    assert seen == [(number, 3, f"number {number}") for number in (1, 2, 3)]


@pytest.mark.streams
def test_a_call_that_is_given_up_is_cancelled_at_the_server(talk: Stateless) -> None:
    give_up = Cancel()
    talk.on_log = lambda params: give_up("no longer wanted")
    with pytest.raises(RequestCancelled):
        talk.client.call_tool("wait", cancel=give_up)
    assert talk.say("was_given_up") == "yes"


@pytest.mark.streams
def test_a_call_that_takes_too_long_is_cancelled_at_the_server(talk: Stateless) -> None:
    with pytest.raises(RequestTimeout):
        talk.client.call_tool("wait", timeout=0.3)
    assert talk.say("was_given_up") == "yes"


@pytest.mark.streams
def test_log_messages_come_from_the_level_that_the_request_names(talk: Stateless) -> None:
    talk.say("shout")
    assert [talk.logs.get(timeout=WAIT)["level"] for _ in LEVELS] == LEVELS
    talk.say("shout", log_level="error")
    assert [talk.logs.get(timeout=WAIT)["level"] for _ in LEVELS[4:]] == LEVELS[4:]
    assert talk.logs.empty()


# -- server/utilities/caching


def test_what_the_server_lets_us_keep_is_kept_until_it_says_that_it_has_changed(talk: Stateless) -> None:
    def read(**options: Any) -> str:
        return str(talk.client.read_resource("note://counted", **options)["contents"][0]["text"])

    with talk.client.listen(resources=["note://counted"]) as events:
        first = int(read(cached=False))
        assert (read(), read()) == (str(first), str(first))
        talk.say("touch", {"uri": "note://counted"})
        assert events.get(WAIT).params["uri"] == "note://counted"
        assert read() == str(first + 1)
    assert read(cached=False) == str(first + 2)


def test_the_hints_of_a_list_are_the_same_on_every_page(talk: Stateless) -> None:
    first = talk.client.list_prompts_page()
    second = talk.client.list_prompts_page(first["nextCursor"])
    for page in (first, second):
        assert (page["ttlMs"], page["cacheScope"]) == (60_000, "public")


# -- basic/patterns/subscriptions


def test_a_subscription_is_told_what_it_asked_for_and_no_more(talk: Stateless) -> None:
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


def test_two_subscriptions_at_once_are_told_each_its_own(talk: Stateless) -> None:
    with talk.client.listen(resources=["note://a"]) as one, talk.client.listen(resources=["note://b"]) as other:
        for uri in ("note://a", "note://b"):
            talk.say("touch", {"uri": uri})
        assert one.get(WAIT).params["uri"] == "note://a"
        assert other.get(WAIT).params["uri"] == "note://b"


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("peer", [BOTH_ERAS, TYPESCRIPT_2])
def test_a_subscription_that_the_server_ends_ends_gracefully(peer: str, way: str) -> None:
    with programs.serving(peer, way) as target, Stateless(target) as talk:
        with talk.client.listen(resources=["note://text"]) as events:
            talk.say("touch", {"uri": "note://text"})
            assert talk.say("let_go") == "gone"
            assert [event.params["uri"] for event in events] == ["note://text"]
            assert events.graceful


# -- basic/patterns/mrtr


def test_a_form_is_filled_in_declined_or_left(talk: Stateless) -> None:
    talk.answers["elicit"] = {"name": "Ada", "age": 36, "seat": "aisle"}
    content = {"name": "Ada", "age": 36, "seat": "aisle", "agrees": False}
    assert talk.tell("ask") == {"action": "accept", "content": content}
    kind, question = talk.asked.get(timeout=WAIT)
    assert (kind, question["message"]) == ("elicit", "Who are you?")
    talk.answers["elicit"] = None
    assert talk.tell("ask") == {"action": "decline"}
    talk.answers["elicit"] = cancel()
    assert talk.tell("ask") == {"action": "cancel"}


def test_a_page_is_visited(talk: Stateless) -> None:
    assert talk.tell("visit") == {"action": "decline"}
    talk.answers["open"] = True
    assert talk.tell("visit") == {"action": "accept"}
    question = {"url": "https://example.com/sign-in", "message": "Please sign in.", "host": "example.com"}
    assert drained(talk.asked) == [("open", question)] * 2


def test_a_model_uses_tools_while_it_is_sampled(talk: Stateless) -> None:
    use = {"type": "tool_use", "id": "use-1", "name": "lookup", "input": {"word": "tea"}}
    talk.answers["sample"] = reply([use], model="small-1")
    assert talk.tell("sample_with_tools")["stopReason"] == "toolUse"
    _, params = talk.asked.get(timeout=WAIT)
    assert params["toolChoice"] == {"mode": "auto"} and params["tools"][0]["name"] == "lookup"


def test_three_questions_one_after_the_other_are_three_rounds(talk: Stateless) -> None:
    before = talk.tell("how_often", {"what": "three"})
    told = talk.tell("three")
    assert told == {"name": "Ada", "rhyme": "Paris", "folders": ["file:///work", "file:///home"]}
    assert [kind for kind, _ in drained(talk.asked)] == ["elicit", "sample"]
    assert talk.tell("how_often", {"what": "three"}) == before + 4


def test_three_questions_at_once_are_one_round(talk: Stateless) -> None:
    before = talk.tell("how_often", {"what": "together"})
    assert talk.tell("together") == ["Ada", "Ada", 2]
    assert talk.tell("how_often", {"what": "together"}) == before + 2


def test_a_state_without_questions_has_the_client_come_back(talk: Stateless) -> None:
    words = talk.say("later").removeprefix("back with ")
    assert json.loads(words) == {"come": "back"}


def test_a_server_that_never_has_enough_is_given_up(talk: Stateless) -> None:
    with pytest.raises(RemoteProtocolError, match="asked for input 10 times"):
        talk.client.call_tool("endless")


def test_prompts_and_resources_ask_too(talk: Stateless) -> None:
    assert talk.client.get_prompt("asking")["messages"][0]["content"]["text"] == "Greet Ada."
    assert talk.client.read_resource("note://asking")["contents"][0]["text"] == "a note for Ada"
    # What depends on an answer is not kept.
    talk.answers["elicit"] = {"name": "Bob"}
    assert talk.client.read_resource("note://asking")["contents"][0]["text"] == "a note for Bob"


def test_a_handler_of_ours_that_refuses_ends_the_call_here(talk: Stateless) -> None:
    talk.answers["sample"] = UserRejected()
    with pytest.raises(InputRefused) as caught:
        talk.client.call_tool("three")
    assert isinstance(caught.value.__cause__, UserRejected)


def test_a_call_is_driven_by_hand_and_a_state_that_lies_is_refused(talk: Stateless) -> None:
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


def test_headers_repeat_what_a_call_says(talk: Stateless) -> None:
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


def test_a_call_whose_headers_are_out_of_date_is_sent_again_with_the_right_ones(talk: Stateless) -> None:
    talk.client.list_tools()
    for name in ("area", "region"):
        talk.say("move_header")
        headers = talk.tell("route", {"region": "north"})
        assert headers.get(f"mcp-param-{name}") == ("north" if talk.http else None)


def test_a_tool_whose_headers_break_the_rules_is_left_out_where_there_are_headers(talk: Stateless) -> None:
    names = [tool["name"] for tool in talk.client.list_tools()]
    assert ("broken" in names) == (not talk.http)


# -- connections that break, processes that end


@pytest.fixture(params=[BOTH_ERAS, TYPESCRIPT_2])
def proxy(request: pytest.FixtureRequest) -> Iterator[Proxy]:
    with programs.serving(request.param, "http") as url:
        assert isinstance(url, str)
        with Proxy(url) as proxy:
            yield proxy


def test_a_call_whose_connection_breaks_is_sent_again_where_that_is_asked_for(proxy: Proxy) -> None:
    with Stateless(proxy.url) as talk:
        cuts = [proxy.cut]

        def step(*_: Any) -> None:
            if cuts:
                cuts.pop()()

        assert talk.say("slow", on_progress=step, resend=True) == "went on"
        cuts.append(proxy.cut)
        with pytest.raises(TransportClosed):
            talk.say("slow", on_progress=step)


def test_a_subscription_whose_connection_breaks_is_asked_for_again(proxy: Proxy) -> None:
    reopened: Queue[None] = Queue()
    with Stateless(proxy.url) as talk:
        with talk.client.listen(resources=["note://text"], on_reopen=lambda: reopened.put(None)) as events:
            talk.say("touch", {"uri": "note://text"})
            assert events.get(WAIT).params["uri"] == "note://text"
            proxy.cut()
            with pytest.raises(RequestTimeout):
                events.get(0)
            reopened.get(timeout=WAIT)
            talk.say("touch", {"uri": "note://text"})
            assert events.get(WAIT).params["uri"] == "note://text"


@pytest.mark.parametrize("peer", [BOTH_ERAS, TYPESCRIPT_2])
def test_a_server_that_dies_is_started_again_and_asked_again(peer: str, tmp_path: Path) -> None:
    with programs.serving(peer, "stdio") as target, Stateless(target) as talk:
        mark = {"mark": str(tmp_path / "died")}
        with talk.client.listen(resources=["note://text"]) as events:
            assert talk.say("die", mark, resend=True) == "still here"
            assert talk.say("add", {"a": 1, "b": 2}) == "3"
            with ThreadPoolExecutor(1) as threads:
                told = threads.submit(events.get, WAIT)
                # It has been asked for again as soon as something comes.
                while not told.done():
                    talk.say("touch", {"uri": "note://text"})
                assert told.result().params["uri"] == "note://text"
