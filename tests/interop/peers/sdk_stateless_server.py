"""The server of sdk_server, and what there is beside in the stateless era, for our client.

Usage: python sdk_stateless_server.py [stdio | http | json [PORT]]

The SDK serves both eras on each of these ways. In the stateless era it has no functions that ask the client: a handler
returns its questions, and gets the answers when it is called again. `requestState` is sealed by the SDK.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import mcp_types as types
import sdk_server
from mcp.server.caching import CacheHint
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ToolsListChanged,
)
from mcp.shared.exceptions import MCPError
from sdk_server import CALLS, FORM, NOTHING, Request, http_app, said, said_json, server, user_says, wire
from serving import run

Params = types.CallToolRequestParams | types.GetPromptRequestParams | types.ReadResourceRequestParams

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

bus = InMemorySubscriptionBus()
listening = ListenHandler(bus)
runs: dict[str, int] = {}
header = "Region"


# -- basic/patterns/mrtr


def needed(questions: Mapping[str, Any] | None = None, state: Any = None) -> types.InputRequiredResult:
    """What a handler returns to ask."""
    return types.InputRequiredResult(
        input_requests=dict(questions) if questions else None,
        request_state=None if state is None else json.dumps(state),
    )


def form(message: str, schema: dict[str, Any]) -> types.ElicitRequest:
    return types.ElicitRequest(params=types.ElicitRequestFormParams(message=message, requested_schema=schema))


def answered(params: Params, key: str) -> Any:
    """One of the answers, as on the wire; None where it is not there."""
    answer = (params.input_responses or {}).get(key)
    return None if answer is None else wire(answer)


async def three(request: Request, params: Params) -> Any:
    """Ask the user, the model and for the folders, one after the other: what was answered is in the state."""
    runs["three"] = runs.get("three", 0) + 1
    known = json.loads(params.request_state) if params.request_state else {}
    for key in ("name", "rhyme", "folders"):
        if (answer := answered(params, key)) is not None:
            known[key] = answer
    if "name" not in known:
        return needed({"name": form("Your name?", NAME)}, known)
    if "rhyme" not in known:
        rhyme = types.CreateMessageRequestParams(messages=[user_says("A rhyme")], max_tokens=20)
        return needed({"rhyme": types.CreateMessageRequest(params=rhyme)}, known)
    if "folders" not in known:
        return needed({"folders": types.ListRootsRequest()}, known)
    folders = [root["uri"] for root in known["folders"]["roots"]]
    return said_json(
        {"name": known["name"]["content"]["name"], "rhyme": known["rhyme"]["content"]["text"], "folders": folders}
    )


async def together(request: Request, params: Params) -> Any:
    """Ask three things at once."""
    runs["together"] = runs.get("together", 0) + 1
    if params.input_responses is None:
        questions = {"a": form("Your name?", NAME), "b": form("Another?", NAME), "c": types.ListRootsRequest()}
        return needed(questions)
    names = [answered(params, key)["content"]["name"] for key in "ab"]
    return said_json([*names, len(answered(params, "c")["roots"])])


async def ask(request: Request, params: Params) -> Any:
    """Ask the user for a form; without a state."""
    answer = answered(params, "form")
    return needed({"form": form("Who are you?", FORM)}) if answer is None else said_json(answer)


async def visit(request: Request, params: Params) -> Any:
    """Ask the user to visit a page."""
    page = types.ElicitRequestURLParams(message="Please sign in.", url="https://example.com/sign-in")
    answer = answered(params, "page")
    return needed({"page": types.ElicitRequest(params=page)}) if answer is None else said_json(answer)


async def sample_with_tools(request: Request, params: Params) -> Any:
    """Ask the model, which uses a tool."""
    tools = [types.Tool(name="lookup", input_schema=NOTHING)]
    asking = types.CreateMessageRequestParams(
        messages=[user_says("Look up tea.")], max_tokens=50, tools=tools, tool_choice=types.ToolChoice(mode="auto")
    )
    answer = answered(params, "model")
    return needed({"model": types.CreateMessageRequest(params=asking)}) if answer is None else said_json(answer)


async def later(request: Request, params: Params) -> Any:
    """Have the client come back at once, with the state alone."""
    return said(f"back with {params.request_state}") if params.request_state else needed(None, {"come": "back"})


async def needs(request: Request, params: Params) -> Any:
    """Need that the client can sample with tools. The SDK checks no questions against what the client declared."""
    tools = types.SamplingCapability(tools=types.SamplingToolsCapability())
    if request.session.check_client_capability(types.ClientCapabilities(sampling=tools)):
        return said("it has it")
    data = {"requiredCapabilities": {"sampling": {"tools": {}}}}
    raise MCPError(types.MISSING_REQUIRED_CLIENT_CAPABILITY, "Missing required client capability", data)


# -- basic/patterns/subscriptions


async def grow(request: Request, params: Params) -> Any:
    """As in sdk_server; what is said there reaches nobody in this era."""
    sdk_server.grown = not sdk_server.grown
    for event in (ToolsListChanged(), ResourcesListChanged(), PromptsListChanged()):
        await bus.publish(event)
    return said("grown" if sdk_server.grown else "shrunk")


async def touch(request: Request, params: Params) -> Any:
    assert isinstance(params, types.CallToolRequestParams) and params.arguments is not None
    await bus.publish(ResourceUpdated(params.arguments["uri"]))
    return said("touched")


async def let_go(request: Request, params: Params) -> Any:
    """End every subscription."""
    listening.close()
    return said("gone")


# -- what else there is


async def whoami(request: Request, params: Params) -> Any:
    return said_json({"version": request.protocol_version, "meta": request.meta})


async def how_often(request: Request, params: Params) -> Any:
    assert isinstance(params, types.CallToolRequestParams) and params.arguments is not None
    return said_json(runs.get(params.arguments["what"], 0))


async def route(request: Request, params: Params) -> Any:
    """Return the headers that came, over HTTP."""
    headers = {} if request.request is None else dict(request.request.headers)
    return said_json({name: value for name, value in headers.items() if name.startswith("mcp-")})


async def move_header(request: Request, params: Params) -> Any:
    """Have another header repeat the region, without a word."""
    global header
    header = "Area" if header == "Region" else "Region"
    return said("moved")


ROUNDS = {
    function.__name__: function
    for function in (
        *(three, together, ask, visit, sample_with_tools, later, needs),
        *(grow, touch, let_go, whoami, how_often, route, move_header),
    )
}
for name in ROUNDS:
    CALLS.setdefault(name, (None, NOTHING, None))  # type: ignore[arg-type]


def routed(header: str) -> dict[str, Any]:
    zone = {"type": "string", "x-mcp-header": "Zone"}
    return {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": header},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "fast": {"type": "boolean", "x-mcp-header": "Fast"},
            "where": {"type": "object", "properties": {"zone": zone}},
        },
    }


async def list_tools(request: Request, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    CALLS["route"] = (CALLS["route"][0], routed(header), None)
    return await sdk_server.list_tools(request, params)


async def call_tool(request: Request, params: types.CallToolRequestParams) -> Any:
    if params.name in ROUNDS:
        return await ROUNDS[params.name](request, params)
    return await sdk_server.call_tool(request, params)


async def get_prompt(request: Request, params: types.GetPromptRequestParams) -> Any:
    if params.name != "asking":
        return await sdk_server.get_prompt(request, params)
    answer = answered(params, "who")
    if answer is None:
        return needed({"who": form("Your name?", NAME)})
    text = types.TextContent(text=f"Greet {answer['content']['name']}.")
    return types.GetPromptResult(messages=[types.PromptMessage(role="user", content=text)])


async def read_resource(request: Request, params: types.ReadResourceRequestParams) -> Any:
    runs[params.uri] = runs.get(params.uri, 0) + 1
    if params.uri == "note://counted":
        contents = [types.TextResourceContents(uri=params.uri, text=str(runs[params.uri]))]
        return types.ReadResourceResult(contents=contents)
    if params.uri == "note://asking":
        answer = answered(params, "who")
        if answer is None:
            return needed({"who": form("Your name?", NAME)})
        note = f"a note for {answer['content']['name']}"
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=note)])
    try:
        return await sdk_server.read_resource(request, params)
    except MCPError as problem:
        # The code that the revision has for this.
        raise MCPError(types.INVALID_PARAMS, problem.message, {"uri": params.uri}) from problem


server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
server.add_request_handler("tools/call", types.CallToolRequestParams, call_tool)
server.add_request_handler("prompts/get", types.GetPromptRequestParams, get_prompt)
server.add_request_handler("resources/read", types.ReadResourceRequestParams, read_resource)
server.add_request_handler("subscriptions/listen", types.SubscriptionsListenRequestParams, listening)
server.cache_hints.update({"prompts/list": CacheHint(60_000, "public"), "resources/read": CacheHint(30_000)})
server.middleware.append(RequestStateBoundary(RequestStateSecurity.ephemeral(), default_audience="theirs"))


if __name__ == "__main__":
    run(server, sdk_server.OPTIONS, http_app)
