"""Shared by tests: what the servers made with each release of the official SDK for Python offer in the session era, as
the wire has it.

A handler gets a `Talk`, and the params as a dict; it returns its result as a dict. Each release has a program that
hands the requests on (sdk_server, old_sdk_server).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol

from serving import error, happened, types

JsonObject = dict[str, Any]

PIXEL = "iVBORw0KGgo="
SOUND = "UklGRgAAAABXQVZF"
PAGE = 4
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
EXPERIMENTAL = {"example.com/trial": {"on": True}}


class Talk(Protocol):
    """A request under way: the SDK's session, and how to report progress."""

    session: Any

    async def report(self, progress: int, total: int, message: str | None = None) -> None: ...


given_up = asyncio.Event()
roots_told = asyncio.Event()
subscribed: set[str] = set()
levels: list[str] = []
grown: list[str] = []
"""The name of what there is more of; empty: nothing."""


def wire(model: Any) -> Any:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def text(words: str, **more: Any) -> JsonObject:
    return {"type": "text", "text": words, **more}


def said(words: str) -> JsonObject:
    return {"content": [text(words)]}


def said_json(value: Any) -> JsonObject:
    return said(json.dumps(value))


BLOCKS: list[JsonObject] = [
    text("hello", annotations={"audience": ["user"], "priority": 0.5}),
    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    {"type": "audio", "data": SOUND, "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "note://text", "text": "a note"}},
    {"type": "resource", "resource": {"uri": "note://blob", "blob": PIXEL}},
    {"type": "resource_link", "uri": "note://text", "name": "text", "mimeType": "text/plain"},
]
"""A content block of every kind."""


# -- server/tools

RESULTS = {
    "everything": {"content": BLOCKS},
    "wrong_weather": {"content": [], "structuredContent": {"city": 1}},
    "fail": {**said("it did not work"), "isError": True},
}
"""Of the tools that always return the same."""

NUMBER = {"type": "integer"}
NOTHING: JsonObject = {"type": "object"}
FORECAST = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "number"}},
    "required": ["city", "degrees"],
}
TOOLS: dict[str, JsonObject] = {
    "add": {
        "title": "Adder",
        "inputSchema": {"type": "object", "properties": {"a": NUMBER, "b": NUMBER}, "required": ["a", "b"]},
        "annotations": {"readOnlyHint": True},
    },
    "weather": {"outputSchema": FORECAST},
    "wrong_weather": {"outputSchema": FORECAST},
}
"""What the list says of some tools, beside their names."""

Call = Callable[[Talk, JsonObject], Awaitable[JsonObject]]
CALLS: dict[str, Call] = {}


def tool(call: Call) -> Call:
    """Offer a function as a tool of its name."""
    CALLS[call.__name__] = call
    return call


@tool
async def add(talk: Talk, arguments: JsonObject) -> JsonObject:
    return said(str(arguments["a"] + arguments["b"]))


@tool
async def weather(talk: Talk, arguments: JsonObject) -> JsonObject:
    forecast = {"city": arguments.get("city", "Lisbon"), "degrees": 21.5}
    return {**said_json(forecast), "structuredContent": forecast}


@tool
async def refuse(talk: Talk, arguments: JsonObject) -> JsonObject:
    raise error(4242, "not for you", {"why": "a test"})


# -- basic/utilities


@tool
async def count(talk: Talk, arguments: JsonObject) -> JsonObject:
    for number in range(1, arguments["to"] + 1):
        await talk.report(number, arguments["to"], f"number {number}")
    return said(f"counted to {arguments['to']}")


@tool
async def wait(talk: Talk, arguments: JsonObject) -> JsonObject:
    given_up.clear()
    try:
        await talk.session.send_log_message("info", "waiting")
        await asyncio.Event().wait()
    finally:
        given_up.set()
    return said("not reached")


@tool
async def was_given_up(talk: Talk, arguments: JsonObject) -> JsonObject:
    return said("yes" if await happened(given_up) else "no")


@tool
async def told_of_roots(talk: Talk, arguments: JsonObject) -> JsonObject:
    return said("yes" if await happened(roots_told) else "no")


@tool
async def ping_back(talk: Talk, arguments: JsonObject) -> JsonObject:
    return said_json(wire(await talk.session.send_ping()))


@tool
async def whoami(talk: Talk, arguments: JsonObject) -> JsonObject:
    told = wire(talk.session.client_params)
    return said_json({"client": told["clientInfo"], "capabilities": told["capabilities"]})


@tool
async def shout(talk: Talk, arguments: JsonObject) -> JsonObject:
    for level in LEVELS:
        await talk.session.send_log_message(level, {"said": level}, "shouter")
    return said("shouted")


@tool
async def asked_levels(talk: Talk, arguments: JsonObject) -> JsonObject:
    return said_json(levels)


# -- client/sampling, client/roots


SAMPLING: JsonObject = {
    "systemPrompt": "Be brief.",
    "temperature": 0.5,
    "stopSequences": ["\n\n"],
    "modelPreferences": {"hints": [{"name": "small"}], "speedPriority": 0.9},
}
"""How the model is asked, as the wire has it."""


def message(content: Any, role: str = "user") -> Any:
    return types.SamplingMessage.model_validate({"role": role, "content": content})


@tool
async def sample(talk: Talk, arguments: JsonObject) -> JsonObject:
    result = await talk.session.create_message(
        [message(text("What is the capital of France?"))],
        max_tokens=50,
        system_prompt=SAMPLING["systemPrompt"],
        temperature=SAMPLING["temperature"],
        stop_sequences=SAMPLING["stopSequences"],
        model_preferences=types.ModelPreferences.model_validate(SAMPLING["modelPreferences"]),
    )
    return said_json(wire(result))


@tool
async def folders(talk: Talk, arguments: JsonObject) -> JsonObject:
    return said_json(wire(await talk.session.list_roots())["roots"])


# -- lists that change


@tool
async def grow(talk: Talk, arguments: JsonObject) -> JsonObject:
    grown[:] = [] if grown else ["grown"]
    await talk.session.send_tool_list_changed()
    await talk.session.send_resource_list_changed()
    await talk.session.send_prompt_list_changed()
    return said("grown" if grown else "shrunk")


@tool
async def touch(talk: Talk, arguments: JsonObject) -> JsonObject:
    if arguments["uri"] in subscribed:
        await talk.session.send_resource_updated(arguments["uri"])
    return said("touched")


# -- the methods

METHODS: dict[str, Call] = {}


def answers(method: str) -> Callable[[Call], Call]:
    """Offer a function as what answers a method."""
    return lambda call: METHODS.setdefault(method, call)


def page(key: str, items: list[JsonObject], params: JsonObject) -> JsonObject:
    """One page, and the cursor of the next."""
    start = int(params.get("cursor", 0))
    following = {"nextCursor": str(start + PAGE)} if start + PAGE < len(items) else {}
    return {key: items[start : start + PAGE], **following}


@answers("tools/list")
async def list_tools(talk: Talk, params: JsonObject, more: Iterable[str] = ()) -> JsonObject:
    names = dict.fromkeys([*CALLS, *RESULTS, *more, *grown])
    listed = [{"name": name, "description": name, "inputSchema": NOTHING, **TOOLS.get(name, {})} for name in names]
    return page("tools", listed, params)


@answers("tools/call")
async def call_tool(talk: Talk, params: JsonObject) -> JsonObject:
    name = params["name"]
    if name not in CALLS and name not in RESULTS:
        raise error(-32602, f"Unknown tool: {name}")
    return RESULTS[name] if name in RESULTS else await CALLS[name](talk, params.get("arguments") or {})


NOTE = {
    "uri": "note://text",
    "name": "text",
    "title": "A note",
    "mimeType": "text/plain",
    "size": 6,
    "annotations": {"audience": ["assistant"], "priority": 1.0},
    "icons": [{"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}],
}


@answers("resources/list")
async def list_resources(talk: Talk, params: JsonObject) -> JsonObject:
    names = ["blob", *(f"many{number}" for number in range(10)), *grown]
    return page("resources", [NOTE, *({"uri": f"note://{name}", "name": name} for name in names)], params)


@answers("resources/templates/list")
async def list_templates(talk: Talk, params: JsonObject) -> JsonObject:
    template = {"uriTemplate": "note://user/{name}", "name": "of_user", "mimeType": "text/plain"}
    return {"resourceTemplates": [template]}


@answers("resources/read")
async def read_resource(talk: Talk, params: JsonObject) -> JsonObject:
    uri = str(params["uri"])
    contents: JsonObject
    if uri == "note://text":
        contents = {"mimeType": "text/plain", "text": "a note"}
    elif uri == "note://blob":
        contents = {"mimeType": "image/png", "blob": PIXEL}
    elif uri.startswith("note://user/"):
        contents = {"text": f"note of {uri.removeprefix('note://user/')}"}
    else:
        raise error(-32002, "Resource not found", {"uri": uri})
    return {"contents": [{"uri": uri, **contents}]}


@answers("resources/subscribe")
async def subscribe(talk: Talk, params: JsonObject) -> JsonObject:
    subscribed.add(str(params["uri"]))
    return {}


@answers("resources/unsubscribe")
async def unsubscribe(talk: Talk, params: JsonObject) -> JsonObject:
    subscribed.discard(str(params["uri"]))
    return {}


@answers("prompts/list")
async def list_prompts(talk: Talk, params: JsonObject) -> JsonObject:
    arguments = [{"name": "name", "description": "who is greeted", "required": True}, {"name": "tone"}]
    names = ["talk", *(f"many{number}" for number in range(5)), *grown]
    greet = {"name": "greet", "title": "Greeting", "arguments": arguments}
    return page("prompts", [greet, *({"name": name} for name in names)], params)


@answers("prompts/get")
async def get_prompt(talk: Talk, params: JsonObject) -> JsonObject:
    if params["name"] == "talk":
        return {"messages": [{"role": "assistant", "content": block} for block in BLOCKS]}
    if params["name"] != "greet":
        raise error(-32602, f"Unknown prompt: {params['name']}")
    given = params.get("arguments") or {}
    words = f"Greet {given['name']} in a {given.get('tone', 'plain')} tone."
    return {"description": "Greet.", "messages": [{"role": "user", "content": text(words)}]}


@answers("completion/complete")
async def complete(talk: Talk, params: JsonObject) -> JsonObject:
    value, others = params["argument"]["value"], (params.get("context") or {}).get("arguments") or {}
    if params["ref"]["type"] == "ref/resource":
        values = [f"{value}{number}" for number in range(100)]
        return {"completion": {"values": values, "total": 150, "hasMore": True}}
    names = [name + others.get("tone", "") for name in ("Ada", "Adele", "Bob") if name.startswith(value)]
    return {"completion": {"values": names}}


@answers("logging/setLevel")
async def set_level(talk: Talk, params: JsonObject) -> JsonObject:
    levels.append(params["level"])
    return {}
