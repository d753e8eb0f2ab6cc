"""Servers are kept apart: no word of one reaches another, and nothing passes a door that is shut."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import mcp_ref.host
from mcp_ref import Answer, Consent, Context, Host, McpError, Rule, Server, reply
from mcp_ref.client.entries import Entry
from tests.host.common import FREE
from tests.slow import examples

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
NAMES = ("a", "b", "c", "d")
REVISIONS = dict(zip(NAMES, ("2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"), strict=True))
CANARY = re.compile(r"canary-([abcd])-\d+")


class Words:
    """Words of one server, each said once."""

    def __init__(self, name: str) -> None:
        self.name, self._number = name, count()

    def __call__(self) -> str:
        return f"canary-{self.name}-{next(self._number)}"


def recording(word: Words) -> Server:
    """A server that puts a word of its own into whatever it says."""
    made = Server(word(), instructions=word())

    @made.tool(description=word())
    def say(text: str, ctx: Context) -> str:
        ctx.log("warning", word())
        return f"{word()} {text}"

    @made.tool(description=word())
    def fail() -> str:
        raise ValueError(word())

    @made.tool(description=word())
    def sample(ctx: Context) -> str:
        return str(ctx.sample(word(), max_tokens=5, system_prompt=word(), include_context="allServers")["content"])

    @made.tool(description=word())
    def form(ctx: Context) -> str:
        return str(ctx.elicit(word(), {"x": {"type": "string", "title": word()}}))

    @made.tool(description=word())
    def page(ctx: Context) -> str:
        return str(ctx.elicit_url(word(), f"https://{word()}.example/")["action"])

    @made.tool(description=word())
    def roots(ctx: Context) -> str:
        return f"{word()} {ctx.roots()}"

    made.resource("note://one", description=word())(lambda: word())
    made.prompt("ask", description=word())(lambda: word())
    return made


class Echo:
    """A model that answers with all that it was asked."""

    url = "memory:"

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def choose(self, preferences: Any) -> str:
        return "echo"

    def complete(self, request: Any, name: str, cancelled: Any) -> Any:
        self.asked.append(request)
        return reply(f"answer to {json.dumps(request)}", model=name)


class Told:
    """The messages sent to each server; the traces of a host."""

    def __init__(self) -> None:
        self.messages: dict[str, list[Any]] = {name: [] for name in NAMES}

    def __call__(self, name: str) -> Callable[[Any], None]:
        def note(event: Any) -> None:
            if event.direction == "send" and event.message is not None:
                self.messages[name].append(event.message)

        return note

    def answers(self, name: str) -> list[Any]:
        """Return what the server's questions were answered with, in either era."""
        found = [message["result"] for message in self.messages[name] if "result" in message]
        for message in self.messages[name]:
            found += (message.get("params") or {}).get("inputResponses", {}).values()
        return found


OPERATIONS: dict[str, Callable[[Host, str], Any]] = {
    "call": lambda host, name: host.call(f"{name}/say", {"text": "hello"}),
    "call by model": lambda host, name: [host.for_model(), host.call_for_model(f"{name}__say", {"text": ""})],
    "fail": lambda host, name: host.call(f"{name}/fail"),
    "sample": lambda host, name: host.call(f"{name}/sample"),
    "form": lambda host, name: host.call(f"{name}/form"),
    "page": lambda host, name: host.call(f"{name}/page"),
    "roots": lambda host, name: host.call(f"{name}/roots"),
    "change roots": lambda host, name: host.set_roots([f"/tmp/{name}"]),
    "read": lambda host, name: host.read(name, "note://one"),
    "attach": lambda host, name: host.attach(name, "note://one"),
    "prompt": lambda host, name: host.context.extend(host.prompt(f"{name}/ask")["messages"]),
    # A turn of a conversation that has all that was attached, and every tool.
    "chat": lambda host, name: host.complete({"messages": host.context, "tools": host.for_model(), "maxTokens": 9}),
    "lists": lambda host, name: [host.tools(), host.resources(), host.prompts(), host.instructions()],
    "restart": lambda host, name: host.restart(name),
    "check": lambda host, name: host.check(),
}  # fmt: skip


def started(told: Told, consent: Consent, model: Any = None, opened: list[str] | None = None) -> Host:
    own = {"a": ("/tmp/a",)}
    entries = [Entry(n, recording(Words(n)), revision=REVISIONS[n], roots=own.get(n)) for n in NAMES]
    browse = (opened if opened is not None else []).append
    return Host(entries, consent=consent, model=model or Echo(), roots=["/tmp"], trace=told, browse=browse)


def yes(question: Any) -> Answer:
    return Answer(True, value={"x": "typed"} if question.kind == "form" else None)


STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(OPERATIONS)), st.sampled_from(NAMES), st.sampled_from(NAMES), st.booleans()),
    min_size=3, max_size=12,
)  # fmt: skip


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(STEPS)
def test_no_word_of_a_server_reaches_another_unless_the_user_put_it_there(steps: Any) -> None:
    told = Told()
    passed: dict[str, set[str]] = {name: set() for name in NAMES}
    with started(told, Consent(FREE, ask=yes, keep=False)) as host:
        heard: dict[str, str] = {}
        for operation, name, other, by_the_user in steps:
            with suppress(McpError):
                if by_the_user and other in heard:
                    # The user themselves hands a word on; a flood of questions may be refused.
                    passed[name].add(heard[other])
                    host.call(f"{name}/say", {"text": heard[other]})
                result = OPERATIONS[operation](host, name)
                found = CANARY.search(json.dumps(result, default=str))
                if operation == "call" and found:
                    heard[name] = found[0]
    for name in NAMES:
        assert told.messages[name]
        words = {match[0] for match in CANARY.finditer(json.dumps(told.messages[name], default=str))}
        strange = {word for word in words if f"canary-{name}-" not in word} - passed[name]
        assert not strange, f"{name} was told {strange} in {steps}"


def test_every_operation_reaches_every_server_that_it_is_meant_for() -> None:
    """The canaries sing: else silence would mean nothing."""
    told, model, opened = Told(), Echo(), list[str]()
    with started(told, Consent(FREE, ask=yes, keep=False), model, opened) as host:
        for operation, run in OPERATIONS.items():
            for name in NAMES:
                try:
                    run(host, name)
                except McpError as problem:
                    assert operation in ("form", "page", "sample"), (operation, name, problem)
    for name in NAMES:
        said = {message.get("method") for message in told.messages[name]}
        assert {"tools/call", "resources/read", "prompts/get", "tools/list"} <= said
        assert f"canary-{name}-" in json.dumps(model.asked)
        assert any("roots" in answer for answer in told.answers(name))
        assert any("answer to" in json.dumps(answer) for answer in told.answers(name))
    # What was typed into a form is hidden in a trace.
    assert any("x" in (answer.get("content") or ()) for answer in told.answers("b"))
    assert {url[8:16] for url in opened} == {"canary-c", "canary-d"}


DOORS = ("start", "definition", "tool", "model", "sampling", "answer", "form", "url", "roots")


@pytest.mark.parametrize("denied", DOORS)
def test_nothing_passes_a_door_that_is_shut(denied: Any) -> None:
    told, model, opened = Told(), Echo(), list[str]()
    with started(told, Consent([*FREE, Rule("deny", denied)], ask=yes, keep=False), model, opened) as host:
        for run in OPERATIONS.values():
            for name in NAMES:
                with suppress(McpError):
                    run(host, name)
        assert denied != "definition" or host.instructions() == {}
    sent = [message for name in NAMES for message in told.messages[name]]
    answers = [answer for name in NAMES for answer in told.answers(name)]
    calls = [message for message in sent if message.get("method") == "tools/call"]
    answered = [answer for answer in answers if "answer to" in json.dumps(answer)]
    sampled = [request for request in model.asked if "systemPrompt" in request and "canary" in json.dumps(request)]
    passed = {
        "start": sent,
        "definition": calls,
        "tool": calls,
        "model": [*model.asked, *answered],
        "sampling": [*sampled, *answered],
        "answer": answered,
        "form": [answer for answer in answers if answer.get("action") == "accept" and answer.get("content")],
        "url": opened,
        "roots": [message for message in sent if "file:///tmp" in json.dumps(message)],
    }
    assert passed[denied] == []


def test_every_place_that_lets_something_pass_stands_behind_the_door() -> None:
    """Which functions of the host start a client, call a tool, or reach a model; and that each asks first."""
    passing = {"connect": set[str](), "call_tool": set[str](), "complete": set[str](), "accept": set[str]()}
    asks: set[str] = set()
    for path in Path(mcp_ref.host.__file__).parent.glob("*.py"):
        for function in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            inner = list(ast.walk(function))
            called = [each.func for each in inner if isinstance(each, ast.Call)]
            names = {each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in called}
            names |= {each.value for each in inner if isinstance(each, ast.Constant) and isinstance(each.value, str)}
            asks |= {function.name} if names & {"decide", "_ask", "_consented"} else set()
            for what in passing.keys() & names:
                passing[what].add(function.name)
    # `_open` is begun by `start` after its question, and again by a death; `_sample` goes through `complete`.
    assert passing == {"connect": {"_open"}, "call_tool": {"call"}, "complete": {"complete", "_sample"},
                       "accept": {"_fill_in", "_open_link", "open_page", "_visited"}}  # fmt: skip
    assert asks >= {"start", "call", "_visited", "_consented", "complete", "_sample", "_fill_in", "open_page",
                    "_tell_roots", "_message"}  # fmt: skip
