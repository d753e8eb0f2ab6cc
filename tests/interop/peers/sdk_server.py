"""A server made with the official SDK (mcp 2) that offers every feature of both eras, for our client.

Usage: python sdk_server.py [stdio | http | json | stateless | resumable | sse [PORT]]

All but stdio and sse are Streamable HTTP: with event streams, JSON alone, without sessions, and with an event store.
Over HTTP it prints its URL, and then a line for each request, such as `"DELETE /mcp HTTP/1.1" 200 OK`.

In the stateless era the SDK has no functions that ask the client: a handler returns its questions, and gets the answers
when it is called again. `requestState` is sealed by the SDK.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import mcp_types as types
import offered
from mcp.server.caching import CacheHint
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from offered import NOTHING, JsonObject, grown, message, said, said_json, text, tool, wire
from serving import error, happened, run, sse_app
from starlette.applications import Starlette

# Much of the session era is deprecated in the SDK.
warnings.simplefilter("ignore")

STATELESS = "2026-07-28"

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": 20},
        "mail": {"type": "string", "format": "email"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "agrees": {"type": "boolean", "default": False},
        "seat": {"type": "string", "enum": ["window", "aisle"], "enumNames": ["Window", "Aisle"]},
    },
    "required": ["name", "age"],
}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
SIGN_IN = {"message": "Please sign in.", "url": "https://example.com/sign-in"}


class Talk(NamedTuple):
    """A request under way, with its params as on the wire."""

    request: ServerRequestContext[Any, Any]
    params: JsonObject

    @property
    def session(self) -> Any:
        return self.request.session

    @property
    def alone(self) -> bool:
        """Whether it is of the stateless era."""
        return self.request.protocol_version == STATELESS

    async def report(self, progress: int, total: int, message: str | None = None) -> None:
        await self.session.report_progress(progress, total, message)

    def answered(self, key: str) -> Any:
        """One of the answers that came; None where it is not there."""
        return (self.params.get("inputResponses") or {}).get(key)


# -- what the session era has beside, in this SDK

going_on = asyncio.Event()
visited: set[str] = set()


@tool
async def pause(talk: Talk, arguments: JsonObject) -> JsonObject:
    """Report progress before and after `go_on`; where asked to, close the event stream in between."""
    going_on.clear()
    await talk.report(1, 2)
    if arguments.get("hang_up"):
        await talk.request.close_sse_stream()
    went_on = await happened(going_on)
    await talk.report(2, 2)
    return said("went on" if went_on else "nobody came")


@tool
async def go_on(talk: Talk, arguments: JsonObject) -> JsonObject:
    going_on.set()
    return said("go on")


@tool
async def sample_with_tools(talk: Talk, arguments: JsonObject) -> JsonObject:
    tools = [types.Tool(name="lookup", input_schema=NOTHING)]
    question = message(text("Look up tea."))
    choice = types.ToolChoice(mode="auto")
    first = await talk.session.create_message([question], max_tokens=50, tools=tools, tool_choice=choice)
    content = wire(first)["content"]
    (use,) = content if isinstance(content, list) else [content]
    found = {"type": "tool_result", "toolUseId": use["id"], "content": [text(f"{use['input']['word']}: a drink")]}
    messages = [question, message([use], "assistant"), message([found])]
    second = await talk.session.create_message(messages, max_tokens=50, tools=tools)
    return said_json({"first": wire(first), "second": wire(second)})


@tool
async def ask(talk: Talk, arguments: JsonObject) -> JsonObject:
    return said_json(wire(await talk.session.elicit_form("Who are you?", FORM, talk.request.request_id)))


@tool
async def visit(talk: Talk, arguments: JsonObject) -> JsonObject:
    request_id = talk.request.request_id
    answer = await talk.session.elicit_url(**SIGN_IN, elicitation_id="visit-1", related_request_id=request_id)
    if answer.action == "accept":
        await talk.session.send_elicit_complete("visit-1")
    return said_json(wire(answer))


@tool
async def guarded(talk: Talk, arguments: JsonObject) -> JsonObject:
    if "guarded" in visited:
        return said("allowed")
    visited.add("guarded")
    page = {"message": "Allow it.", "url": "https://example.com/allow", "elicitation_id": "visit-2"}
    raise UrlElicitationRequiredError([types.ElicitRequestURLParams(**page)])


# -- the stateless era: basic/patterns/mrtr

bus = InMemorySubscriptionBus()
listening = ListenHandler(bus)
runs: dict[str, int] = {}
header = "Region"

ROUNDS: dict[str, Callable[[Talk, JsonObject], Awaitable[JsonObject]]] = {}
"""The tools that this era alone has, or has in another way."""


def tool_of_rounds(call: Callable[[Talk, JsonObject], Awaitable[JsonObject]]) -> Any:
    ROUNDS[call.__name__.removesuffix("_in_rounds")] = call
    return call


def needed(questions: JsonObject | None = None, state: Any = None) -> JsonObject:
    """Return what a handler returns to ask."""
    asked = {"inputRequests": questions} if questions else {}
    kept = {} if state is None else {"requestState": json.dumps(state)}
    return {"resultType": "input_required", **asked, **kept}


def form(message: str, schema: JsonObject) -> JsonObject:
    return {"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}}


def model(words: str, **more: Any) -> JsonObject:
    messages = [{"role": "user", "content": text(words)}]
    return {"method": "sampling/createMessage", "params": {"messages": messages, "maxTokens": 50, **more}}


ROOTS = {"method": "roots/list"}


@tool_of_rounds
async def three(talk: Talk, arguments: JsonObject) -> JsonObject:
    """Ask the user, the model and for the folders, one after the other: what was answered is in the state."""
    runs["three"] = runs.get("three", 0) + 1
    known = json.loads(talk.params.get("requestState") or "{}") | (talk.params.get("inputResponses") or {})
    questions = {"name": form("Your name?", NAME), "rhyme": model("A rhyme"), "folders": ROOTS}
    for key, question in questions.items():
        if key not in known:
            return needed({key: question}, known)
    folders = [root["uri"] for root in known["folders"]["roots"]]
    return said_json(
        {"name": known["name"]["content"]["name"], "rhyme": known["rhyme"]["content"]["text"], "folders": folders}
    )


@tool_of_rounds
async def together(talk: Talk, arguments: JsonObject) -> JsonObject:
    """Ask three things at once."""
    runs["together"] = runs.get("together", 0) + 1
    if talk.params.get("inputResponses") is None:
        return needed({"a": form("Your name?", NAME), "b": form("Another?", NAME), "c": ROOTS})
    names = [talk.answered(key)["content"]["name"] for key in "ab"]
    return said_json([*names, len(talk.answered("c")["roots"])])


def asked_once(talk: Talk, question: JsonObject) -> JsonObject:
    """Ask one thing without a state, and return the answer."""
    answer = talk.answered("it")
    return needed({"it": question}) if answer is None else said_json(answer)


@tool_of_rounds
async def ask_in_rounds(talk: Talk, arguments: JsonObject) -> JsonObject:
    return asked_once(talk, form("Who are you?", FORM))


@tool_of_rounds
async def visit_in_rounds(talk: Talk, arguments: JsonObject) -> JsonObject:
    return asked_once(talk, {"method": "elicitation/create", "params": {"mode": "url", **SIGN_IN}})


@tool_of_rounds
async def sample_with_tools_in_rounds(talk: Talk, arguments: JsonObject) -> JsonObject:
    tools = [{"name": "lookup", "inputSchema": NOTHING}]
    return asked_once(talk, model("Look up tea.", tools=tools, toolChoice={"mode": "auto"}))


@tool_of_rounds
async def sample_in_rounds(talk: Talk, arguments: JsonObject) -> JsonObject:
    return asked_once(talk, model("What is the capital of France?", **offered.SAMPLING))


@tool_of_rounds
async def folders_in_rounds(talk: Talk, arguments: JsonObject) -> JsonObject:
    answer = talk.answered("it")
    return needed({"it": ROOTS}) if answer is None else said_json(answer["roots"])


@tool_of_rounds
async def later(talk: Talk, arguments: JsonObject) -> JsonObject:
    """Have the client come back at once, with the state alone."""
    state = talk.params.get("requestState")
    return said(f"back with {state}") if state else needed(None, {"come": "back"})


@tool_of_rounds
async def needs(talk: Talk, arguments: JsonObject) -> JsonObject:
    """Need that the client can sample with tools. The SDK checks no questions against what the client declared."""
    tools = types.SamplingCapability(tools=types.SamplingToolsCapability())
    if talk.session.check_client_capability(types.ClientCapabilities(sampling=tools)):
        return said("it has it")
    data = {"requiredCapabilities": {"sampling": {"tools": {}}}}
    raise error(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", data)


# -- the stateless era: basic/patterns/subscriptions


@tool_of_rounds
async def grow_in_rounds(talk: Talk, arguments: JsonObject) -> JsonObject:
    """What `grow` tells reaches nobody in this era."""
    grown[:] = [] if grown else ["grown"]
    for event in (ToolsListChanged(), ResourcesListChanged(), PromptsListChanged()):
        await bus.publish(event)
    return said("grown" if grown else "shrunk")


@tool_of_rounds
async def touch_in_rounds(talk: Talk, arguments: JsonObject) -> JsonObject:
    await bus.publish(ResourceUpdated(arguments["uri"]))
    return said("touched")


@tool_of_rounds
async def let_go(talk: Talk, arguments: JsonObject) -> JsonObject:
    """End every subscription."""
    listening.close()
    return said("gone")


# -- the stateless era: what else there is


@tool_of_rounds
async def whoami_in_rounds(talk: Talk, arguments: JsonObject) -> JsonObject:
    return said_json({"meta": talk.request.meta})


@tool_of_rounds
async def how_often(talk: Talk, arguments: JsonObject) -> JsonObject:
    return said_json(runs.get(arguments["what"], 0))


@tool_of_rounds
async def route(talk: Talk, arguments: JsonObject) -> JsonObject:
    """Return the headers that came, over HTTP."""
    headers = {} if talk.request.request is None else dict(talk.request.request.headers)
    return said_json({name: value for name, value in headers.items() if name.startswith("mcp-")})


@tool_of_rounds
async def move_header(talk: Talk, arguments: JsonObject) -> JsonObject:
    """Have another header repeat the region, without a word."""
    region = offered.TOOLS["route"]["inputSchema"]["properties"]["region"]
    region["x-mcp-header"] = "Area" if region["x-mcp-header"] == "Region" else "Region"
    return said("moved")


offered.TOOLS["route"] = {
    "inputSchema": {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "fast": {"type": "boolean", "x-mcp-header": "Fast"},
            "where": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
        },
    }
}


async def call_tool(talk: Talk, params: JsonObject) -> JsonObject:
    if talk.alone and params["name"] in ROUNDS:
        return await ROUNDS[params["name"]](talk, params.get("arguments") or {})
    return await offered.call_tool(talk, params)


async def list_tools(talk: Talk, params: JsonObject) -> JsonObject:
    return await offered.list_tools(talk, params, ROUNDS if talk.alone else ())


async def get_prompt(talk: Talk, params: JsonObject) -> JsonObject:
    if params["name"] != "asking":
        return await offered.get_prompt(talk, params)
    if (answer := talk.answered("who")) is None:
        return needed({"who": form("Your name?", NAME)})
    return {"messages": [{"role": "user", "content": text(f"Greet {answer['content']['name']}.")}]}


async def read_resource(talk: Talk, params: JsonObject) -> JsonObject:
    uri = params["uri"]
    runs[uri] = runs.get(uri, 0) + 1
    if uri == "note://counted":
        return {"contents": [{"uri": uri, "text": str(runs[uri])}]}
    if uri == "note://asking":
        if (answer := talk.answered("who")) is None:
            return needed({"who": form("Your name?", NAME)})
        return {"contents": [{"uri": uri, "text": f"a note for {answer['content']['name']}"}]}
    try:
        return await offered.read_resource(talk, params)
    except MCPError as problem:
        # Each era has its own code for this.
        code = types.INVALID_PARAMS if talk.alone else problem.code
        raise MCPError(code, problem.message, {"uri": uri}) from problem


# -- the server

server: Server[Any] = Server("theirs", version="9.8.7", title="Theirs", instructions="Offers everything.")


def answer(method: str, params: Any, result: Any, call: Any = None) -> None:
    """Answer a method as it is offered, or with a function of this program."""

    async def handle(request: ServerRequestContext[Any, Any], given: Any) -> Any:
        talk = Talk(request, wire(given))
        found = await (call or offered.METHODS[method])(talk, talk.params)
        # The model adds what each result of the stateless era has.
        return found if "resultType" in found else result.model_validate(found)

    server.add_request_handler(method, params, handle)


answer("tools/list", types.PaginatedRequestParams, types.ListToolsResult, list_tools)
answer("tools/call", types.CallToolRequestParams, types.CallToolResult, call_tool)
answer("resources/list", types.PaginatedRequestParams, types.ListResourcesResult)
answer("resources/templates/list", types.PaginatedRequestParams, types.ListResourceTemplatesResult)
answer("resources/read", types.ReadResourceRequestParams, types.ReadResourceResult, read_resource)
answer("resources/subscribe", types.SubscribeRequestParams, types.EmptyResult)
answer("resources/unsubscribe", types.UnsubscribeRequestParams, types.EmptyResult)
answer("prompts/list", types.PaginatedRequestParams, types.ListPromptsResult)
answer("prompts/get", types.GetPromptRequestParams, types.GetPromptResult, get_prompt)
answer("completion/complete", types.CompleteRequestParams, types.CompleteResult)
answer("logging/setLevel", types.SetLevelRequestParams, types.EmptyResult)
server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, listening)
server.cache_hints.update({"prompts/list": CacheHint(60_000, "public"), "resources/read": CacheHint(30_000)})
server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="theirs"))


async def roots_changed(request: Any, params: Any) -> None:
    offered.roots_told.set()


server.add_notification_handler("notifications/roots/list_changed", types.NotificationParams, roots_changed)

OPTIONS = server.create_initialization_options(
    NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True), offered.EXPERIMENTAL
)
# Over Streamable HTTP the SDK asks for these without arguments.
server.create_initialization_options = lambda *given: OPTIONS  # type: ignore[method-assign]


# -- transports


class Events(EventStore):
    """Every event, for as long as the program runs."""

    def __init__(self) -> None:
        self.kept: list[tuple[str, Any]] = []

    async def store_event(self, stream_id: str, message: Any) -> str:
        self.kept.append((stream_id, message))
        return str(len(self.kept))

    async def replay_events_after(self, last_event_id: str, send_callback: Any) -> str:
        after = int(last_event_id)
        stream = self.kept[after - 1][0]
        for number, (name, kept) in enumerate(self.kept[after:], after + 1):
            if name == stream and kept is not None:
                await send_callback(EventMessage(kept, str(number)))
        return stream


def http_app(way: str) -> Starlette:
    if way == "sse":
        return sse_app(server, OPTIONS)
    store = {"event_store": Events(), "retry_interval": 50} if way == "resumable" else {}
    return server.streamable_http_app(json_response=way == "json", stateless_http=way == "stateless", **store)


if __name__ == "__main__":
    run(server, OPTIONS, http_app)
