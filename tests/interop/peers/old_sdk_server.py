"""A server made with an old official SDK (mcp 1.8.1, 2024-11-05 only) that offers every feature, for our client.

It has no pages: this SDK looks for the cursor outside of `params`.

Usage: python old_sdk_server.py [stdio | sse [PORT]]      over HTTP it prints its URL
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import mcp.types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.shared.exceptions import McpError
from serving import happened, run, sse_app

PIXEL = "iVBORw0KGgo="

server: Server[Any] = Server("theirs", version="1.8.1", instructions="Offers everything.")
given_up = asyncio.Event()
subscribed: set[str] = set()
levels: list[str] = []
roots_told = asyncio.Event()
grown = False


def said(text: str) -> list[Any]:
    return [types.TextContent(type="text", text=text)]


def wire(model: Any) -> Any:
    return model.model_dump(by_alias=True, mode="json", exclude_none=True)


def blocks() -> list[Any]:
    """A content block of every kind."""
    embedded = types.EmbeddedResource
    hints = types.Annotations(audience=["user"], priority=0.5)
    return [
        types.TextContent(type="text", text="hello", annotations=hints),
        types.ImageContent(type="image", data=PIXEL, mimeType="image/png"),
        embedded(type="resource", resource=types.TextResourceContents(uri="note://text", text="a note")),
        embedded(type="resource", resource=types.BlobResourceContents(uri="note://blob", blob=PIXEL)),
    ]


def error(code: int, message: str, data: Any = None) -> McpError:
    return McpError(types.ErrorData(code=code, message=message, data=data))


# -- tools


async def add(arguments: dict[str, Any]) -> list[Any]:
    return said(str(arguments["a"] + arguments["b"]))


async def everything(arguments: dict[str, Any]) -> list[Any]:
    return blocks()


async def fail(arguments: dict[str, Any]) -> list[Any]:
    raise RuntimeError("it did not work")


async def count(arguments: dict[str, Any]) -> list[Any]:
    context = server.request_context
    token = context.meta.progressToken if context.meta is not None else None
    for number in range(1, arguments["to"] + 1):
        if token is not None:
            await context.session.send_progress_notification(token, number, arguments["to"])
    return said(f"counted to {arguments['to']}")


async def wait(arguments: dict[str, Any]) -> list[Any]:
    given_up.clear()
    try:
        await server.request_context.session.send_log_message("info", "waiting")
        await asyncio.Event().wait()
    finally:
        given_up.set()
    return said("not reached")


async def was_given_up(arguments: dict[str, Any]) -> list[Any]:
    return said("yes" if await happened(given_up) else "no")


async def told_of_roots(arguments: dict[str, Any]) -> list[Any]:
    return said("yes" if await happened(roots_told) else "no")


async def ping_back(arguments: dict[str, Any]) -> list[Any]:
    return said(json.dumps(wire(await server.request_context.session.send_ping())))


async def whoami(arguments: dict[str, Any]) -> list[Any]:
    return said(json.dumps(wire(server.request_context.session.client_params)))


async def shout(arguments: dict[str, Any]) -> list[Any]:
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        await server.request_context.session.send_log_message(level, {"said": level}, "shouter")
    return said("shouted")


async def asked_levels(arguments: dict[str, Any]) -> list[Any]:
    return said(json.dumps(levels))


async def sample(arguments: dict[str, Any]) -> list[Any]:
    question = types.TextContent(type="text", text="What is the capital of France?")
    result = await server.request_context.session.create_message(
        [types.SamplingMessage(role="user", content=question)],
        max_tokens=50,
        system_prompt="Be brief.",
        include_context="thisServer",
        temperature=0.5,
        stop_sequences=["\n\n"],
        model_preferences=types.ModelPreferences(hints=[types.ModelHint(name="small")], speedPriority=0.9),
    )
    return said(json.dumps(wire(result)))


async def folders(arguments: dict[str, Any]) -> list[Any]:
    return said(json.dumps(wire(await server.request_context.session.list_roots())["roots"]))


async def grow(arguments: dict[str, Any]) -> list[Any]:
    global grown
    grown = not grown
    session = server.request_context.session
    await session.send_tool_list_changed()
    await session.send_resource_list_changed()
    await session.send_prompt_list_changed()
    return said("grown" if grown else "shrunk")


async def touch(arguments: dict[str, Any]) -> list[Any]:
    if arguments["uri"] in subscribed:
        await server.request_context.session.send_resource_updated(arguments["uri"])
    return said("touched")


CALLS: dict[str, Callable[[dict[str, Any]], Awaitable[list[Any]]]] = {
    call.__name__: call
    for call in (
        *(add, everything, fail, count, wait, was_given_up, told_of_roots, ping_back, whoami, shout, asked_levels),
        *(sample, folders, grow, touch),
    )
}


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> list[Any]:
    if name not in CALLS:
        raise ValueError(f"Unknown tool: {name}")
    return await CALLS[name](arguments)


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    names = [*CALLS, *(["grown"] if grown else [])]
    return [types.Tool(name=name, description=name, inputSchema={"type": "object"}) for name in names]


# -- resources


@server.list_resources()
async def list_resources() -> list[types.Resource]:
    hints = types.Annotations(audience=["assistant"], priority=1.0)
    note = types.Resource(uri="note://text", name="text", mimeType="text/plain", size=6, annotations=hints)
    return [note, types.Resource(uri="note://blob", name="blob")]


async def read_resource(request: types.ReadResourceRequest) -> types.ServerResult:
    uri = str(request.params.uri)
    contents: Any
    if uri == "note://text":
        contents = types.TextResourceContents(uri=uri, mimeType="text/plain", text="a note")
    elif uri == "note://blob":
        contents = types.BlobResourceContents(uri=uri, mimeType="image/png", blob=PIXEL)
    elif uri.startswith("note://user/"):
        contents = types.TextResourceContents(uri=uri, text=f"note of {uri.removeprefix('note://user/')}")
    else:
        raise error(-32002, "Resource not found", {"uri": uri})
    return types.ServerResult(types.ReadResourceResult(contents=[contents]))


@server.list_resource_templates()
async def list_templates() -> list[types.ResourceTemplate]:
    return [types.ResourceTemplate(uriTemplate="note://user/{name}", name="of_user", mimeType="text/plain")]


@server.subscribe_resource()
async def subscribe(uri: Any) -> None:
    subscribed.add(str(uri))


@server.unsubscribe_resource()
async def unsubscribe(uri: Any) -> None:
    subscribed.discard(str(uri))


# -- prompts, completion, logging, roots


@server.list_prompts()
async def list_prompts() -> list[types.Prompt]:
    arguments = [types.PromptArgument(name="name", description="who is greeted", required=True)]
    return [types.Prompt(name="greet", arguments=arguments), types.Prompt(name="talk")]


@server.get_prompt()
async def get_prompt(name: str, arguments: dict[str, str] | None) -> types.GetPromptResult:
    if name == "talk":
        messages = [types.PromptMessage(role="assistant", content=block) for block in blocks()]
        return types.GetPromptResult(messages=messages)
    if name != "greet":
        raise error(types.INVALID_PARAMS, f"Unknown prompt: {name}")
    text = types.TextContent(type="text", text=f"Greet {(arguments or {})['name']}.")
    return types.GetPromptResult(description="Greet.", messages=[types.PromptMessage(role="user", content=text)])


@server.completion()
async def complete(ref: Any, argument: types.CompletionArgument) -> types.Completion:
    if isinstance(ref, types.ResourceReference):
        values = [f"{argument.value}{number}" for number in range(100)]
        return types.Completion(values=values, total=150, hasMore=True)
    return types.Completion(values=[name for name in ("Ada", "Adele", "Bob") if name.startswith(argument.value)])


@server.set_logging_level()
async def set_level(level: types.LoggingLevel) -> None:
    levels.append(level)


async def roots_changed(notification: types.RootsListChangedNotification) -> None:
    roots_told.set()


server.request_handlers[types.ReadResourceRequest] = read_resource
server.notification_handlers[types.RootsListChangedNotification] = roots_changed


OPTIONS = server.create_initialization_options(
    NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True),
    {"example.com/trial": {"on": True}},
)
# This SDK answers subscriptions and never says so.
OPTIONS.capabilities.resources.subscribe = True


if __name__ == "__main__":
    run(server, OPTIONS, lambda way: sse_app(server, OPTIONS))
