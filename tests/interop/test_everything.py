"""Our client against npm `@modelcontextprotocol/server-everything`: what it has beside those of test_conversations."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mcp_ref import ErrorResponse
from mcp_ref.pages.client.elicitation import required_urls
from mcp_ref.pages.server.utilities.completion import prompt_ref, resource_ref
from tests.interop import programs
from tests.interop.programs import OURS, Pair
from tests.interop.talk import WAIT, Ours, drained

SESSIONS = [
    *(Pair(OURS, "everything", "stdio", revision) for revision in ("2025-06-18", None)),
    *(Pair(OURS, "everything", "http", revision) for revision in ("2025-03-26", None)),
    Pair(OURS, "everything", "sse"),
]

TEXT = "demo://resource/dynamic/text"
BLOB = "demo://resource/dynamic/blob"


@contextmanager
def serving(way: str) -> Iterator[Any]:
    """Give what our client is pointed at: the command, or the URL while it runs."""
    command = programs.node("@modelcontextprotocol/server-everything", "mcp-server-everything")
    if way == "stdio":
        yield [*command, "stdio"]
        return
    name, announced, path = {
        "http": ("streamableHttp", "MCP Streamable HTTP Server listening", "mcp"),
        "sse": ("sse", "Server is running", "sse"),
    }[way]
    port = programs.free_port()
    env, url = {"PORT": str(port)}, f"http://127.0.0.1:{port}/{path}"
    with programs.Served([*command, name], env, announced=announced, url=url):
        yield url


@pytest.fixture(scope="module", params=SESSIONS, ids=str)
def session(request: pytest.FixtureRequest) -> Iterator[tuple[Ours, Pair]]:
    pair: Pair = request.param
    with serving(pair.way) as target, Ours(target, pair.revisions) as talk:
        # It asks for the roots a while after the opening, and says so.
        assert talk.logs.get(timeout=WAIT)["data"] == "Roots updated: 2 root(s) received from client"
        yield talk, pair


@pytest.fixture
def talk(session: tuple[Ours, Pair]) -> Ours:
    session[0].tidy()
    return session[0]


def texts(result: Any) -> list[str]:
    """The texts of a result."""
    return [block["text"] for block in result["content"] if block["type"] == "text"]


def raw(result: Any) -> Any:
    """Return what the tool says that it got from us, in the JSON of its last block."""
    return json.loads(texts(result)[-1].partition(":")[2])


def test_the_revision_asked_for_is_agreed_on(session: tuple[Ours, Pair]) -> None:
    talk, pair = session
    assert str(talk.client.revision) == pair.agreed
    assert talk.client.server_info["name"] == "mcp-servers/everything"
    if talk.client.revision.batching and pair.way == "http":
        assert talk.client.request_batch([("ping", None), ("ping", None)]) == [{}, {}]


# -- tools


def test_the_tools_listed_are_those_that_fit_what_the_client_declared(talk: Ours) -> None:
    names = {tool["name"] for tool in talk.client.list_tools()}
    assert {"echo", "get-sum", "get-roots-list", "trigger-sampling-request"} <= names
    declared = talk.client.capabilities.get("elicitation")
    assert ("trigger-elicitation-request" in names) == (declared is not None)
    assert ("trigger-url-elicitation" in names) == ("url" in (declared or {}))


def test_echo_and_sum(talk: Ours) -> None:
    assert talk.say("echo", {"message": "Grüße, 世界 🌍\n\u2028"}) == "Echo: Grüße, 世界 🌍\n\u2028"
    assert talk.say("get-sum", {"a": 1.5, "b": 2}) == "The sum of 1.5 and 2 is 3.5."
    message = "0123456789" * 100_000
    assert talk.say("echo", {"message": message}) == f"Echo: {message}"


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("get-sum", {"a": "x"}, "expected number"),
        ("no-such-tool", {}, "not found"),
        ("simulate-research-query", {"topic": "tea"}, "requires task augmentation"),
    ],
)
def test_a_call_that_cannot_be_done_is_an_error_of_the_tool(talk: Ours, tool: str, arguments: Any, told: str) -> None:
    result = talk.client.call_tool(tool, arguments)
    assert result["isError"] is True and told in texts(result)[0]


def test_a_resource_made_by_a_tool_is_told_of_and_read(talk: Ours) -> None:
    given = {"name": "hello.gz", "data": "data:text/plain,hello"}
    (link,) = talk.client.call_tool("gzip-file-as-resource", given)["content"]
    assert (link["type"], link["mimeType"]) == ("resource_link", "application/gzip")
    assert talk.changes.get(timeout=WAIT).method == "notifications/resources/list_changed"
    assert link["uri"] in {resource["uri"] for resource in talk.client.list_resources()}
    (contents,) = talk.client.read_resource(link["uri"])["contents"]
    assert gzip.decompress(base64.b64decode(contents["blob"])) == b"hello"
    (embedded,) = talk.client.call_tool("gzip-file-as-resource", {**given, "outputType": "resource"})["content"]
    assert embedded["resource"]["blob"] == contents["blob"]
    assert talk.changes.get(timeout=WAIT).method == "notifications/resources/list_changed"


# -- resources


def test_changes_are_told_of_what_is_subscribed_to(talk: Ours) -> None:
    uri = f"{TEXT}/1"
    talk.client.subscribe_resource(uri)
    assert uri in talk.logs.get(timeout=WAIT)["data"]
    assert "Started" in talk.say("toggle-subscriber-updates")
    assert talk.changes.get(timeout=WAIT) == ("notifications/resources/updated", {"uri": uri})
    assert "Stopped" in talk.say("toggle-subscriber-updates")
    talk.client.unsubscribe_resource(uri)
    drained(talk.changes)
    assert "Started" in talk.say("toggle-subscriber-updates")
    assert "Stopped" in talk.say("toggle-subscriber-updates")
    assert drained(talk.changes) == []


# -- prompts and completion


def test_prompts_are_listed_and_written(talk: Ours) -> None:
    names = [prompt["name"] for prompt in talk.client.list_prompts()]
    assert names == ["simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"]
    (simple,) = talk.client.get_prompt("simple-prompt")["messages"]
    assert simple["content"]["text"] == "This is a simple prompt without arguments."
    (weather,) = talk.client.get_prompt("args-prompt", {"city": "Porto"})["messages"]
    assert weather["content"]["text"] == "What's weather in Porto?"
    with pytest.raises(ErrorResponse, match="-32602"):
        talk.client.get_prompt("args-prompt", {})
    _, embedded = talk.client.get_prompt("resource-prompt", {"resourceType": "Blob", "resourceId": "5"})["messages"]
    assert embedded["content"]["resource"]["uri"] == f"{BLOB}/5"


def test_arguments_are_completed(talk: Ours) -> None:
    def values(ref: Any, name: str, value: str, **others: Any) -> list[str]:
        return talk.client.complete(ref, name, value, **others)["completion"]["values"]

    team = prompt_ref("completable-prompt")
    assert values(team, "department", "S") == ["Sales", "Support"]
    known = str(talk.client.revision) in ("2025-06-18", "2025-11-25")
    assert values(team, "name", "", arguments={"department": "Sales"}) == (["David", "Eve", "Frank"] if known else [])
    assert values(prompt_ref("resource-prompt"), "resourceType", "T") == ["Text"]
    template = resource_ref(f"{TEXT}/{{resourceId}}")
    assert (values(template, "resourceId", "12"), values(template, "resourceId", "x")) == (["12"], [])


# -- what it asks the client


def test_roots_are_told_and_asked_for_again_when_they_change(talk: Ours) -> None:
    talk.client.set_log_level("debug")
    assert "1. Work\n   URI: file:///work\n\n2. Unnamed Root\n   URI: file:///home" in talk.say("get-roots-list")
    talk.roots = [{"uri": "file:///only", "name": "Only"}]
    talk.client.roots_changed()
    assert talk.logs.get(timeout=WAIT)["data"] == "Roots updated: 1 root(s) received from client"
    assert "Current MCP Roots (1 total):\n\n1. Only\n   URI: file:///only" in talk.say("get-roots-list")
    talk.roots = [{"uri": "file:///work", "name": "Work"}, {"uri": "file:///home"}]
    talk.client.roots_changed()
    assert talk.logs.get(timeout=WAIT)["data"] == "Roots updated: 2 root(s) received from client"


def test_a_message_is_sampled(talk: Ours) -> None:
    sampled = raw(talk.client.call_tool("trigger-sampling-request", {"prompt": "Capital?", "maxTokens": 9}))
    assert sampled["content"] == {"type": "text", "text": "Paris"}
    assert (sampled["role"], sampled["model"]) == ("assistant", "small-1")
    _, params = talk.asked.get(timeout=WAIT)
    assert params["messages"][0]["content"]["text"].endswith("context: Capital?")
    assert (params["maxTokens"], params["temperature"]) == (9, 0.7)


@pytest.mark.since("2025-06-18")
def test_a_form_with_fields_of_every_kind_is_filled_in(talk: Ours) -> None:
    given = {
        "name": "Ada",
        "check": True,
        "email": "ada@example.com",
        "homepage": "https://example.com/ada",
        "birthdate": "1815-12-10",
        "integer": 7,
        "titledMultipleSelectEnum": ["fish-2", "fish-3"],
    }
    talk.answers["elicit"] = given
    result = talk.client.call_tool("trigger-elicitation-request")
    if not talk.client.revision.elicitation_modes:
        # The form has lists to choose from, which 2025-06-18 does not have.
        assert result["isError"] is True and "-32602" in texts(result)[0]
        return
    answer = raw(result)
    defaults = {
        "firstLine": "It was a dark and stormy night.",
        "number": 3.14,
        "untitledSingleSelectEnum": "Monica",
        "untitledMultipleSelectEnum": ["Guitar"],
        "titledSingleSelectEnum": "hero-1",
        "legacyTitledEnum": "pet-1",
    }
    assert answer == {"action": "accept", "content": {**defaults, **given}}
    _, question = talk.asked.get(timeout=WAIT)
    assert len(question["schema"]["properties"]) == 13


@pytest.mark.since("2025-11-25")
def test_a_visit_that_is_required_first_is_an_error_that_names_it(talk: Ours) -> None:
    given = {"url": "https://example.com/guarded", "errorPath": True}
    with pytest.raises(ErrorResponse) as caught:
        talk.client.call_tool("trigger-url-elicitation", given)
    (page,) = required_urls(caught.value)
    assert page["url"] == "https://modelcontextprotocol.io"
    talk.answers["open"] = True
    assert talk.client.visit_required(page) == {"action": "accept"}
    assert raw(talk.client.call_tool("trigger-url-elicitation", given)) == {"action": "accept"}
