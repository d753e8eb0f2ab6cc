"""A server made with the official SDK (mcp 2) that offers every feature of the session era, for our client.

Usage: python sdk_server.py [stdio | http | json | stateless | resumable | sse [PORT]]

All but stdio and sse are Streamable HTTP: with event streams, JSON alone, without sessions, and with an event store.
Over HTTP it prints its URL, and then a line for each request, such as `"DELETE /mcp HTTP/1.1" 200 OK`.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPError, UrlElicitationRequiredError
from serving import happened, run, sse_app
from starlette.applications import Starlette

# Much of the session era is deprecated in the SDK.
warnings.simplefilter("ignore")

Request = ServerRequestContext[Any]

PIXEL = "iVBORw0KGgo="
SOUND = "UklGRgAAAABXQVZF"
PAGE = 4

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
CHOICES = {
    "type": "object",
    "properties": {
        "one": {"type": "string", "oneOf": [{"const": "a", "title": "First"}, {"const": "b", "title": "Second"}]},
        "some": {"type": "array", "items": {"type": "string", "enum": ["x", "y", "z"]}, "minItems": 1, "maxItems": 2},
        "titled": {"type": "array", "items": {"anyOf": [{"const": "q", "title": "Q"}, {"const": "r", "title": "R"}]}},
        "word": {"type": "string", "default": "mellon"},
    },
    "required": ["one", "some"],
}

given_up = asyncio.Event()
going_on = asyncio.Event()
subscribed: set[str] = set()
visited: set[str] = set()
grown = False
levels: list[str] = []
roots_told = asyncio.Event()


def said(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


def said_json(value: Any) -> types.CallToolResult:
    return said(json.dumps(value))


def wire(model: Any) -> Any:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def blocks() -> list[Any]:
    """A content block of every kind."""
    return [
        types.TextContent(text="hello", annotations=types.Annotations(audience=["user"], priority=0.5)),
        types.ImageContent(data=PIXEL, mime_type="image/png"),
        types.AudioContent(data=SOUND, mime_type="audio/wav"),
        types.EmbeddedResource(resource=types.TextResourceContents(uri="note://text", text="a note")),
        types.EmbeddedResource(resource=types.BlobResourceContents(uri="note://blob", blob=PIXEL)),
        types.ResourceLink(uri="note://text", name="text", mime_type="text/plain"),
    ]


# -- server/tools

NUMBERS = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
}
FORECAST = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "number"}},
    "required": ["city", "degrees"],
}
NOTHING: dict[str, Any] = {"type": "object"}


async def add(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    return said(str(arguments["a"] + arguments["b"]))


async def weather(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    forecast = {"city": arguments.get("city", "Lisbon"), "degrees": 21.5}
    text = types.TextContent(text=json.dumps(forecast))
    return types.CallToolResult(content=[text], structured_content=forecast)


async def wrong_weather(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[], structured_content={"city": 1})


async def everything(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=blocks())


async def fail(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text="it did not work")], is_error=True)


async def refuse(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    raise MCPError(4242, "not for you", {"why": "a test"})


# -- basic/utilities


async def count(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    for number in range(1, arguments["to"] + 1):
        await request.session.report_progress(number, arguments["to"], f"number {number}")
    return said(f"counted to {arguments['to']}")


async def wait(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    given_up.clear()
    try:
        await request.session.send_log_message("info", "waiting")
        await asyncio.Event().wait()
    finally:
        given_up.set()
    return said("not reached")


async def pause(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    """Report progress before and after `go_on`; where asked to, close the event stream in between."""
    going_on.clear()
    await request.session.report_progress(1, 2)
    if arguments.get("hang_up"):
        await request.close_sse_stream()
    went_on = await happened(going_on)
    await request.session.report_progress(2, 2)
    return said("went on" if went_on else "nobody came")


async def go_on(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    going_on.set()
    return said("go on")


async def was_given_up(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    return said("yes" if await happened(given_up) else "no")


async def told_of_roots(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    return said("yes" if await happened(roots_told) else "no")


async def ping_back(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    return said_json(wire(await request.session.send_ping()))


async def whoami(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    params = request.session.client_params
    return said_json({"revision": request.protocol_version, "initialize": wire(params), "meta": request.meta})


async def shout(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        await request.session.send_log_message(level, {"said": level}, "shouter")
    return said("shouted")


async def asked_levels(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    return said_json(levels)


# -- client/sampling, client/elicitation, client/roots


def user_says(text: str) -> types.SamplingMessage:
    return types.SamplingMessage(role="user", content=types.TextContent(text=text))


async def sample(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    result = await request.session.create_message(
        [user_says("What is the capital of France?")],
        max_tokens=50,
        system_prompt="Be brief.",
        temperature=0.5,
        stop_sequences=["\n\n"],
        model_preferences=types.ModelPreferences(hints=[types.ModelHint(name="small")], speed_priority=0.9),
    )
    return said_json(wire(result))


async def sample_with_tools(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    tools = [types.Tool(name="lookup", input_schema=NOTHING)]
    question = user_says("Look up tea.")
    choice = types.ToolChoice(mode="auto")
    first = await request.session.create_message([question], max_tokens=50, tools=tools, tool_choice=choice)
    content = first.content if isinstance(first.content, list) else [first.content]
    use = next(block for block in content if block.type == "tool_use")
    found = types.ToolResultContent(
        tool_use_id=use.id, content=[types.TextContent(text=f"{use.input['word']}: a drink")]
    )
    messages = [
        question,
        types.SamplingMessage(role="assistant", content=content),
        types.SamplingMessage(role="user", content=[found]),
    ]
    second = await request.session.create_message(messages, max_tokens=50, tools=tools)
    return said_json({"first": wire(first), "second": wire(second)})


async def ask(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    form = CHOICES if arguments.get("choices") else FORM
    return said_json(wire(await request.session.elicit_form("Who are you?", form, request.request_id)))


async def visit(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    page = "https://example.com/sign-in"
    answer = await request.session.elicit_url("Please sign in.", page, "visit-1", request.request_id)
    if answer.action == "accept":
        await request.session.send_elicit_complete("visit-1")
    return said_json(wire(answer))


async def guarded(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    if "guarded" in visited:
        return said("allowed")
    visited.add("guarded")
    page = {"message": "Allow it.", "url": "https://example.com/allow", "elicitation_id": "visit-2"}
    raise UrlElicitationRequiredError([types.ElicitRequestURLParams(**page)])


async def folders(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    return said_json(wire(await request.session.list_roots())["roots"])


# -- lists that change


async def grow(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    global grown
    grown = not grown
    await request.session.send_tool_list_changed()
    await request.session.send_resource_list_changed()
    await request.session.send_prompt_list_changed()
    return said("grown" if grown else "shrunk")


async def touch(request: Request, arguments: dict[str, Any]) -> types.CallToolResult:
    if arguments["uri"] in subscribed:
        await request.session.send_resource_updated(arguments["uri"])
    return said("touched")


CALLS = {
    "add": (add, NUMBERS, None),
    "weather": (weather, NOTHING, FORECAST),
    "wrong_weather": (wrong_weather, NOTHING, FORECAST),
    "everything": (everything, NOTHING, None),
    "fail": (fail, NOTHING, None),
    "refuse": (refuse, NOTHING, None),
    "count": (count, NOTHING, None),
    "wait": (wait, NOTHING, None),
    "was_given_up": (was_given_up, NOTHING, None),
    "ping_back": (ping_back, NOTHING, None),
    "whoami": (whoami, NOTHING, None),
    "shout": (shout, NOTHING, None),
    "asked_levels": (asked_levels, NOTHING, None),
    "sample": (sample, NOTHING, None),
    "sample_with_tools": (sample_with_tools, NOTHING, None),
    "ask": (ask, NOTHING, None),
    "visit": (visit, NOTHING, None),
    "guarded": (guarded, NOTHING, None),
    "folders": (folders, NOTHING, None),
    "told_of_roots": (told_of_roots, NOTHING, None),
    "grow": (grow, NOTHING, None),
    "touch": (touch, NOTHING, None),
    "pause": (pause, NOTHING, None),
    "go_on": (go_on, NOTHING, None),
}


def tool(name: str, takes: dict[str, Any], gives: dict[str, Any] | None) -> types.Tool:
    hints = types.ToolAnnotations(read_only_hint=True) if name == "add" else None
    title = "Adder" if name == "add" else None
    return types.Tool(
        name=name, title=title, description=name, input_schema=takes, output_schema=gives, annotations=hints
    )


def page(items: list[Any], params: types.PaginatedRequestParams | None) -> tuple[list[Any], str | None]:
    """One page, and the cursor of the next."""
    start = int(params.cursor) if params is not None and params.cursor is not None else 0
    end = start + PAGE
    return items[start:end], str(end) if end < len(items) else None


async def list_tools(request: Request, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    tools = [tool(name, takes, gives) for name, (_, takes, gives) in CALLS.items()]
    if grown:
        tools.append(tool("grown", NOTHING, None))
    found, cursor = page(tools, params)
    return types.ListToolsResult(tools=found, next_cursor=cursor)


async def call_tool(request: Request, params: types.CallToolRequestParams) -> types.CallToolResult:
    if params.name not in CALLS:
        raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
    return await CALLS[params.name][0](request, params.arguments or {})


# -- server/resources

NOTE = types.Resource(
    uri="note://text",
    name="text",
    title="A note",
    mime_type="text/plain",
    size=6,
    annotations=types.Annotations(audience=["assistant"], priority=1.0),
    icons=[types.Icon(src="https://example.com/icon.png", mime_type="image/png", sizes=["48x48"])],
)


async def list_resources(request: Request, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    many = [types.Resource(uri=f"note://many/{number}", name=f"many{number}") for number in range(10)]
    extra = [types.Resource(uri="note://grown", name="grown")] if grown else []
    found, cursor = page([NOTE, types.Resource(uri="note://blob", name="blob"), *many, *extra], params)
    return types.ListResourcesResult(resources=found, next_cursor=cursor)


async def list_templates(
    request: Request, params: types.PaginatedRequestParams | None
) -> types.ListResourceTemplatesResult:
    template = types.ResourceTemplate(uri_template="note://user/{name}", name="of_user", mime_type="text/plain")
    return types.ListResourceTemplatesResult(resource_templates=[template])


async def read_resource(request: Request, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    uri = params.uri
    if uri == "note://text":
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=uri, mime_type="text/plain", text="a note")]
        )
    if uri == "note://blob":
        return types.ReadResourceResult(
            contents=[types.BlobResourceContents(uri=uri, mime_type="image/png", blob=PIXEL)]
        )
    if uri.startswith("note://user/"):
        note = f"note of {uri.removeprefix('note://user/')}"
        return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, text=note)])
    raise MCPError(-32002, "Resource not found", {"uri": uri})


async def subscribe(request: Request, params: types.SubscribeRequestParams) -> types.EmptyResult:
    subscribed.add(params.uri)
    return types.EmptyResult()


async def unsubscribe(request: Request, params: types.UnsubscribeRequestParams) -> types.EmptyResult:
    subscribed.discard(params.uri)
    return types.EmptyResult()


# -- server/prompts


async def list_prompts(request: Request, params: types.PaginatedRequestParams | None) -> types.ListPromptsResult:
    arguments = [
        types.PromptArgument(name="name", description="who is greeted", required=True),
        types.PromptArgument(name="tone"),
    ]
    prompts = [types.Prompt(name="greet", title="Greeting", arguments=arguments), types.Prompt(name="talk")]
    prompts += [types.Prompt(name=f"many{number}") for number in range(5)]
    prompts += [types.Prompt(name="grown")] if grown else []
    found, cursor = page(prompts, params)
    return types.ListPromptsResult(prompts=found, next_cursor=cursor)


async def get_prompt(request: Request, params: types.GetPromptRequestParams) -> types.GetPromptResult:
    if params.name == "talk":
        return types.GetPromptResult(
            messages=[types.PromptMessage(role="assistant", content=block) for block in blocks()]
        )
    if params.name != "greet":
        raise MCPError(types.INVALID_PARAMS, f"Unknown prompt: {params.name}")
    given = params.arguments or {}
    text = types.TextContent(text=f"Greet {given['name']} in a {given.get('tone', 'plain')} tone.")
    return types.GetPromptResult(description="Greet.", messages=[types.PromptMessage(role="user", content=text)])


# -- server/utilities


async def complete(request: Request, params: types.CompleteRequestParams) -> types.CompleteResult:
    value, others = params.argument.value, (params.context.arguments if params.context else None) or {}
    if params.ref.type == "ref/resource":
        values = [f"{value}{number}" for number in range(100)]
        return types.CompleteResult(completion=types.Completion(values=values, total=150, has_more=True))
    values = [name + others.get("tone", "") for name in ("Ada", "Adele", "Bob") if name.startswith(value)]
    return types.CompleteResult(completion=types.Completion(values=values))


async def set_level(request: Request, params: types.SetLevelRequestParams) -> types.EmptyResult:
    levels.append(params.level)
    return types.EmptyResult()


async def roots_changed(request: Request, params: types.NotificationParams | None) -> None:
    roots_told.set()


server: Server[Any] = Server(
    "theirs",
    version="9.8.7",
    title="Theirs",
    instructions="Offers everything.",
    on_list_tools=list_tools,
    on_call_tool=call_tool,
    on_list_resources=list_resources,
    on_list_resource_templates=list_templates,
    on_read_resource=read_resource,
    on_subscribe_resource=subscribe,
    on_unsubscribe_resource=unsubscribe,
    on_list_prompts=list_prompts,
    on_get_prompt=get_prompt,
    on_completion=complete,
    on_set_logging_level=set_level,
    on_roots_list_changed=roots_changed,
)


OPTIONS = server.create_initialization_options(
    NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True),
    {"example.com/trial": {"on": True}},
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
        for number, (name, message) in enumerate(self.kept[after:], after + 1):
            if name == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


def http_app(way: str) -> Starlette:
    if way == "sse":
        return sse_app(server, OPTIONS)
    store = {"event_store": Events(), "retry_interval": 50} if way == "resumable" else {}
    return server.streamable_http_app(json_response=way == "json", stateless_http=way == "stateless", **store)


if __name__ == "__main__":
    run(server, OPTIONS, http_app)
