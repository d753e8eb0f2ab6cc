"""Our client against npm `@modelcontextprotocol/server-everything`, in each revision, with all its features."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mcp_ref import Cancel, ErrorResponse, RequestCancelled, RequestTimeout
from mcp_ref.client.targets import Command
from mcp_ref.pages.client.elicitation import cancel, required_urls
from mcp_ref.pages.server.utilities.completion import prompt_ref, resource_ref
from tests.interop import programs
from tests.interop.programs import Pairing
from tests.interop.talk import WAIT, Talk, drained

SESSIONS = [
    Pairing("everything", None),
    Pairing("everything", "2024-11-05"),
    Pairing("everything", "2025-03-26"),
    Pairing("everything", "2025-06-18"),
    Pairing("everything", "2025-11-25"),
    Pairing("everything", None, "http"),
    Pairing("everything", "2025-03-26", "http"),
    Pairing("everything", "2025-06-18", "http"),
    Pairing("everything", None, "sse"),
    Pairing("everything", "2024-11-05", "sse"),
]
ENVIRONMENT = {"MCP_REF_TEST": "seen"}

TEXT = "demo://resource/dynamic/text"
BLOB = "demo://resource/dynamic/blob"


@contextmanager
def serving(way: str) -> Iterator[Any]:
    """Give what our client is pointed at: the command, or the URL while it runs."""
    command = programs.node("@modelcontextprotocol/server-everything", "mcp-server-everything")
    if way == "stdio":
        yield Command([*command, "stdio"], env=ENVIRONMENT)
        return
    name, announced, path = {
        "http": ("streamableHttp", "MCP Streamable HTTP Server listening", "mcp"),
        "sse": ("sse", "Server is running", "sse"),
    }[way]
    port = programs.free_port()
    env, url = {**ENVIRONMENT, "PORT": str(port)}, f"http://127.0.0.1:{port}/{path}"
    with programs.Served([*command, name], env, announced=announced, url=url):
        yield url


@pytest.fixture(scope="module", params=SESSIONS, ids=str)
def session(request: pytest.FixtureRequest) -> Iterator[tuple[Talk, Pairing]]:
    pairing: Pairing = request.param
    with serving(pairing.way) as target, Talk(target, pairing.revisions) as talk:
        # It asks for the roots a while after the opening, and says so.
        assert talk.logs.get(timeout=WAIT)["data"] == "Roots updated: 2 root(s) received from client"
        yield talk, pairing


@pytest.fixture
def talk(session: tuple[Talk, Pairing]) -> Talk:
    session[0].tidy()
    return session[0]


def texts(result: Any) -> list[str]:
    """The texts of a result."""
    return [block["text"] for block in result["content"] if block["type"] == "text"]


def raw(result: Any) -> Any:
    """Return what the tool says that it got from us, in the JSON of its last block."""
    return json.loads(texts(result)[-1].partition(":")[2])


def test_the_revision_asked_for_is_agreed_on(session: tuple[Talk, Pairing]) -> None:
    talk, pairing = session
    assert str(talk.client.revision) == pairing.agreed
    if talk.client.revision.batching and pairing.way == "http":
        assert talk.client.request_batch([("ping", None), ("ping", None)]) == [{}, {}]


def test_the_server_introduces_itself(talk: Talk) -> None:
    assert talk.client.server_info["name"] == "mcp-servers/everything"
    assert talk.client.instructions and talk.client.instructions.startswith("# Everything Server")
    assert talk.client.server_capabilities["resources"] == {"subscribe": True, "listChanged": True}


# -- tools


def test_the_tools_listed_are_those_that_fit_what_the_client_declared(talk: Talk) -> None:
    names = {tool["name"] for tool in talk.client.list_tools()}
    assert {"echo", "get-sum", "get-roots-list", "trigger-sampling-request"} <= names
    declared = talk.client.capabilities.get("elicitation")
    assert ("trigger-elicitation-request" in names) == (declared is not None)
    assert ("trigger-url-elicitation" in names) == ("url" in (declared or {}))


def test_echo_and_sum(talk: Talk) -> None:
    assert talk.say("echo", {"message": "Grüße, 世界 🌍\n\u2028"}) == "Echo: Grüße, 世界 🌍\n\u2028"
    assert talk.say("get-sum", {"a": 1.5, "b": 2}) == "The sum of 1.5 and 2 is 3.5."


def test_a_long_message_is_echoed(talk: Talk) -> None:
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
def test_a_call_that_cannot_be_done_is_an_error_of_the_tool(talk: Talk, tool: str, arguments: Any, told: str) -> None:
    result = talk.client.call_tool(tool, arguments)
    assert result["isError"] is True and told in texts(result)[0]


def test_the_environment_given_reaches_the_server(talk: Talk) -> None:
    assert talk.tell("get-env")["MCP_REF_TEST"] == "seen"


@pytest.mark.parametrize(
    ("kind", "audience", "priority"),
    [("error", ["user", "assistant"], 1), ("success", ["user"], 0.7), ("debug", ["assistant"], 0.3)],
)
def test_annotated_messages(talk: Talk, kind: str, audience: list[str], priority: float) -> None:
    blocks = talk.client.call_tool("get-annotated-message", {"messageType": kind, "includeImage": True})["content"]
    assert [block["type"] for block in blocks] == ["text", "image"]
    assert blocks[0]["annotations"] == {"audience": audience, "priority": priority}
    assert blocks[1]["annotations"] == {"audience": ["user"], "priority": 0.5}


def test_a_picture(talk: Talk) -> None:
    (picture,) = [b for b in talk.client.call_tool("get-tiny-image")["content"] if b["type"] == "image"]
    assert picture["mimeType"] == "image/png"
    assert base64.b64decode(picture["data"]).startswith(b"\x89PNG")


def test_links_to_resources_can_be_read(talk: Talk) -> None:
    links = talk.client.call_tool("get-resource-links", {"count": 4})["content"][1:]
    assert [link["type"] for link in links] == ["resource_link"] * 4
    read = [talk.client.read_resource(link["uri"])["contents"][0] for link in links]
    assert ["blob" in contents for contents in read] == [True, False, True, False]


@pytest.mark.parametrize(("kind", "uri", "field"), [("Text", TEXT, "text"), ("Blob", BLOB, "blob")])
def test_embedded_resources(talk: Talk, kind: str, uri: str, field: str) -> None:
    result = talk.client.call_tool("get-resource-reference", {"resourceType": kind, "resourceId": 7})
    (embedded,) = [block["resource"] for block in result["content"] if block["type"] == "resource"]
    assert embedded["uri"] == f"{uri}/7" and field in embedded


def test_structured_content_fits_the_schema_listed(talk: Talk) -> None:
    (tool,) = [tool for tool in talk.client.list_tools() if tool["name"] == "get-structured-content"]
    assert tool["outputSchema"]["required"] == ["temperature", "conditions", "humidity"]
    result = talk.client.call_tool("get-structured-content", {"location": "Chicago"})
    weather = {"temperature": 36, "conditions": "Light rain / drizzle", "humidity": 82}
    assert result["structuredContent"] == json.loads(texts(result)[0]) == weather


def test_a_resource_made_by_a_tool_is_told_of_and_read(talk: Talk) -> None:
    given = {"name": "hello.gz", "data": "data:text/plain,hello"}
    (link,) = talk.client.call_tool("gzip-file-as-resource", given)["content"]
    assert (link["type"], link["mimeType"]) == ("resource_link", "application/gzip")
    assert talk.changes.get(timeout=WAIT)[0] == "notifications/resources/list_changed"
    assert link["uri"] in {resource["uri"] for resource in talk.client.list_resources()}
    (contents,) = talk.client.read_resource(link["uri"])["contents"]
    assert gzip.decompress(base64.b64decode(contents["blob"])) == b"hello"
    (embedded,) = talk.client.call_tool("gzip-file-as-resource", {**given, "outputType": "resource"})["content"]
    assert embedded["resource"]["blob"] == contents["blob"]


def test_progress_of_a_long_operation(talk: Talk) -> None:
    seen: list[Any] = []
    given = {"duration": 0.4, "steps": 4}
    said = talk.say("trigger-long-running-operation", given, on_progress=lambda *step: seen.append(step[:2]))
    assert said == "Long running operation completed. Duration: 0.4 seconds, Steps: 4."
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_long_operation_is_given_up(talk: Talk) -> None:
    give_up = Cancel()
    given = {"duration": 1, "steps": 10}
    with pytest.raises(RequestCancelled):
        talk.client.call_tool(
            "trigger-long-running-operation", given, cancel=give_up, on_progress=lambda *step: give_up("enough")
        )
    assert talk.say("echo", {"message": "still here"}) == "Echo: still here"


# -- resources


def test_resources_and_templates_are_listed(talk: Talk) -> None:
    uris = {resource["uri"] for resource in talk.client.list_resources()}
    assert "demo://resource/static/document/features.md" in uris
    templates = [template["uriTemplate"] for template in talk.client.list_resource_templates()]
    assert templates == [f"{TEXT}/{{resourceId}}", f"{BLOB}/{{resourceId}}"]


def test_every_resource_listed_is_read(talk: Talk) -> None:
    for resource in talk.client.list_resources():
        (contents,) = talk.client.read_resource(resource["uri"])["contents"]
        assert contents["uri"] == resource["uri"] and (contents.get("text") or contents.get("blob"))


def test_resources_of_templates_are_read(talk: Talk) -> None:
    (text,) = talk.client.read_resource(f"{TEXT}/3")["contents"]
    assert text["text"].startswith("Resource 3: This is a plaintext resource")
    (blob,) = talk.client.read_resource(f"{BLOB}/4")["contents"]
    assert base64.b64decode(blob["blob"]).startswith(b"Resource 4: This is a base64 blob")
    with pytest.raises(ErrorResponse, match="Unknown resource"):
        talk.client.read_resource(f"{TEXT}/0")


def test_changes_are_told_of_what_is_subscribed_to(talk: Talk) -> None:
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


def test_prompts_are_listed_and_written(talk: Talk) -> None:
    names = [prompt["name"] for prompt in talk.client.list_prompts()]
    assert names == ["simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"]
    (simple,) = talk.client.get_prompt("simple-prompt")["messages"]
    assert simple["content"]["text"] == "This is a simple prompt without arguments."
    (weather,) = talk.client.get_prompt("args-prompt", {"city": "Porto"})["messages"]
    assert weather["content"]["text"] == "What's weather in Porto?"
    _, embedded = talk.client.get_prompt("resource-prompt", {"resourceType": "Blob", "resourceId": "5"})["messages"]
    assert embedded["content"]["resource"]["uri"] == f"{BLOB}/5"


def test_a_prompt_without_its_argument_is_an_error(talk: Talk) -> None:
    with pytest.raises(ErrorResponse) as caught:
        talk.client.get_prompt("args-prompt", {})
    assert caught.value.code == -32602


def test_arguments_are_completed(talk: Talk) -> None:
    def values(ref: Any, name: str, value: str, **others: Any) -> list[str]:
        return talk.client.complete(ref, name, value, **others)["completion"]["values"]

    team = prompt_ref("completable-prompt")
    assert values(team, "department", "S") == ["Sales", "Support"]
    known = str(talk.client.revision) in ("2025-06-18", "2025-11-25")
    assert values(team, "name", "", arguments={"department": "Sales"}) == (["David", "Eve", "Frank"] if known else [])
    assert values(prompt_ref("resource-prompt"), "resourceType", "T") == ["Text"]
    template = resource_ref(f"{TEXT}/{{resourceId}}")
    assert (values(template, "resourceId", "12"), values(template, "resourceId", "x")) == (["12"], [])


# -- logging


def test_log_messages_come_from_the_level_asked_for_on(talk: Talk) -> None:
    # It says "info" at each subscription.
    talk.client.set_log_level("warning")
    talk.client.subscribe_resource(f"{TEXT}/8")
    talk.client.set_log_level("info")
    talk.client.subscribe_resource(f"{TEXT}/9")
    # It may say beside that what roots it was told of, some time after the beginning.
    said = [talk.logs.get(timeout=WAIT)["data"]]
    while f"{TEXT}/9" not in said[-1]:
        said.append(talk.logs.get(timeout=WAIT)["data"])
    assert not any(f"{TEXT}/8" in each for each in said)


def test_simulated_log_messages_come(talk: Talk) -> None:
    talk.client.set_log_level("debug")
    assert "Started" in talk.say("toggle-simulated-logging")
    assert re.search("level.message", talk.logs.get(timeout=WAIT)["data"])
    assert "Stopped" in talk.say("toggle-simulated-logging")


# -- what it asks the client


def test_roots_are_told_and_asked_for_again_when_they_change(talk: Talk) -> None:
    talk.client.set_log_level("debug")
    assert "1. Work\n   URI: file:///work\n\n2. Unnamed Root\n   URI: file:///home" in talk.say("get-roots-list")
    talk.roots = [{"uri": "file:///only", "name": "Only"}]
    talk.client.roots_changed()
    assert talk.logs.get(timeout=WAIT)["data"] == "Roots updated: 1 root(s) received from client"
    assert "Current MCP Roots (1 total):\n\n1. Only\n   URI: file:///only" in talk.say("get-roots-list")
    talk.roots = [{"uri": "file:///work", "name": "Work"}, {"uri": "file:///home"}]
    talk.client.roots_changed()
    assert talk.logs.get(timeout=WAIT)["data"] == "Roots updated: 2 root(s) received from client"


def test_a_message_is_sampled(talk: Talk) -> None:
    sampled = raw(talk.client.call_tool("trigger-sampling-request", {"prompt": "Capital?", "maxTokens": 9}))
    assert sampled["content"] == {"type": "text", "text": "Paris"}
    assert (sampled["role"], sampled["model"]) == ("assistant", "small-1")
    _, params = talk.asked.get(timeout=WAIT)
    assert params["messages"][0]["content"]["text"].endswith("context: Capital?")
    assert (params["maxTokens"], params["temperature"]) == (9, 0.7)


@pytest.mark.since("2025-06-18")
def test_a_form_with_fields_of_every_kind_is_filled_in(talk: Talk) -> None:
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
def test_a_form_is_declined_or_left(talk: Talk) -> None:
    assert raw(talk.client.call_tool("trigger-elicitation-request")) == {"action": "decline"}
    talk.answers["elicit"] = cancel()
    assert raw(talk.client.call_tool("trigger-elicitation-request")) == {"action": "cancel"}


@pytest.mark.since("2025-11-25")
def test_a_page_is_visited_or_not(talk: Talk) -> None:
    given = {"url": "https://example.com/sign-in", "elicitationId": "visit-1", "message": "Sign in."}
    assert raw(talk.client.call_tool("trigger-url-elicitation", given)) == {"action": "decline"}
    talk.answers["open"] = True
    assert raw(talk.client.call_tool("trigger-url-elicitation", given)) == {"action": "accept"}
    question = {"url": "https://example.com/sign-in", "message": "Sign in.", "host": "example.com"}
    assert drained(talk.asked) == [("open", question)] * 2


@pytest.mark.since("2025-11-25")
def test_a_visit_that_is_required_first_is_an_error_that_names_it(talk: Talk) -> None:
    given = {"url": "https://example.com/guarded", "errorPath": True}
    with pytest.raises(ErrorResponse) as caught:
        talk.client.call_tool("trigger-url-elicitation", given)
    (page,) = required_urls(caught.value)
    assert page["url"] == "https://modelcontextprotocol.io"
    talk.answers["open"] = True
    assert talk.client.visit_required(page) == {"action": "accept"}
    assert raw(talk.client.call_tool("trigger-url-elicitation", given)) == {"action": "accept"}


def test_progress_keeps_a_call_alive_up_to_the_limit() -> None:
    command = programs.node("@modelcontextprotocol/server-everything", "mcp-server-everything")
    given = {"duration": 3, "steps": 12}
    options: dict[str, Any] = {"timeout": 2, "on_progress": lambda *step: None}
    with Talk([*command, "stdio"]) as talk:
        assert "completed" in talk.say("trigger-long-running-operation", given, max_timeout=30, **options)
        with pytest.raises(RequestTimeout):
            talk.client.call_tool("trigger-long-running-operation", given, **options)
