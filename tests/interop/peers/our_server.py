"""A server made with mcp_ref that offers every feature of both eras, for clients that others wrote.

Usage: python our_server.py [stdio | http [revision ...]]      the revisions to speak; all of both eras by default

Over HTTP it prints its URL. The event stream for clients of 2024-11-05 is at /sse, and Streamable HTTP at /mcp.
"""

from __future__ import annotations

import json
import sys
import threading
from typing import Annotated, Any, TypedDict

from mcp_ref import (
    CacheHint,
    Context,
    Refusal,
    Server,
    ToolError,
    UrlElicitationRequired,
    audio,
    image,
    input_required,
    text,
)
from mcp_ref.pages.basic.mrtr import elicitation_form, roots_listing
from mcp_ref.pages.server.prompts import assistant, user

PIXEL = bytes.fromhex("89504e470d0a1a0a")
SOUND = b"RIFF\x00\x00\x00\x00WAVE"
ICON = {"src": "https://example.com/icon.png", "mimeType": "image/png", "sizes": ["48x48"]}

server = Server(
    "ours",
    "1.2.3",
    instructions="Offers everything.",
    info={"title": "Ours", "description": "a test server", "websiteUrl": "https://example.com", "icons": [ICON]},
    experimental={"example.com/trial": {"on": True}},
    page_size=7,
    cache={"prompts/list": CacheHint(60, "public"), "resources/read": CacheHint(30)},
    **({"revisions": sys.argv[2:]} if sys.argv[2:] else {}),
)

given_up, roots_told = threading.Event(), threading.Event()
visited: set[str] = set()
grown: set[str] = set()


class Forecast(TypedDict):
    city: str
    degrees: float


# -- server/tools


@server.tool(title="Adder", annotations={"readOnlyHint": True, "idempotentHint": True}, icons=[ICON])
def add(a: int, b: Annotated[int, "the second number"] = 1) -> str:
    """Add two numbers."""
    return str(a + b)


@server.tool()
def weather(city: str) -> Forecast:
    """Say how warm it is."""
    return {"city": city, "degrees": 21.5}


@server.tool()
def everything() -> list[Any]:
    """Return a block of every kind."""
    return [
        {**text("hello"), "annotations": {"audience": ["user"], "priority": 0.5}},
        image(PIXEL, "image/png"),
        audio(SOUND, "audio/wav"),
        {"type": "resource", "resource": {"uri": "note://text", "mimeType": "text/plain", "text": "a note"}},
        {"type": "resource", "resource": {"uri": "note://blob", "mimeType": "image/png", "blob": "iVBORw0KGgo="}},
        {"type": "resource_link", "uri": "note://text", "name": "text", "mimeType": "text/plain"},
    ]


@server.tool()
def fail() -> str:
    """Fail as a tool does."""
    raise ToolError("it did not work")


@server.tool()
def crash() -> str:
    """Fail as a program does."""
    raise ZeroDivisionError("by zero")


@server.tool()
def refuse() -> str:
    """Fail as the protocol does."""
    raise Refusal("not for you", {"why": "a test"}, code=4242)


# -- basic/utilities


@server.tool()
def count(to: int, ctx: Context) -> str:
    """Count, and report progress."""
    for number in range(1, to + 1):
        ctx.progress(number, to, f"number {number}")
    return f"counted to {to}"


@server.tool()
def wait(ctx: Context) -> str:
    """Wait until the client gives the request up."""
    given_up.clear()
    ctx.log("info", "waiting")
    never = threading.Event()
    while not ctx.cancelled:
        never.wait(0.01)
    given_up.set()
    ctx.check_cancelled()
    return "not reached"


@server.tool()
def hang_up(ctx: Context) -> str:
    """Close the HTTP connection, and have the client come back for the answer."""
    ctx.progress(1, 2)
    ctx.close_stream(retry=50)
    ctx.progress(2, 2)
    return "still here"


@server.tool()
def was_given_up() -> str:
    """Say whether `wait` was given up."""
    return "yes" if given_up.wait(5) else "no"


@server.tool()
def ping_back(ctx: Context) -> str:
    """Ping the client."""
    return json.dumps(ctx.request("ping"))


@server.tool()
def whoami(ctx: Context) -> dict[str, Any]:
    """Tell the client what it said of itself."""
    return {"client": ctx.client_info, "capabilities": ctx.peer_capabilities, "meta": ctx.meta}


# -- server/utilities/logging


@server.tool()
def shout(ctx: Context) -> str:
    """Log at each level."""
    for level in ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"):
        ctx.log(level, {"said": level}, "shouter")
    return "shouted"


# -- client/sampling, client/elicitation, client/roots


@server.tool()
def sample(ctx: Context) -> dict[str, Any]:
    """Ask the client's model."""
    return dict(
        ctx.sample(
            [{"role": "user", "content": text("What is the capital of France?")}],
            max_tokens=50,
            system_prompt="Be brief.",
            temperature=0.5,
            stop_sequences=["\n\n"],
            model_preferences={"hints": [{"name": "small"}], "speedPriority": 0.9},
            timeout=20,
        )
    )


@server.tool()
def sample_with_tools(ctx: Context) -> dict[str, Any]:
    """Ask the client's model, which uses a tool and then answers."""
    tools = [{"name": "lookup", "inputSchema": {"type": "object", "properties": {"word": {"type": "string"}}}}]
    asked = [{"role": "user", "content": text("Look up tea.")}]
    first = ctx.sample(asked, max_tokens=50, tools=tools, tool_choice={"mode": "auto"}, timeout=20)
    content = first["content"] if isinstance(first["content"], list) else [first["content"]]
    use = next(block for block in content if block["type"] == "tool_use")
    found = {"type": "tool_result", "toolUseId": use["id"], "content": [text(f"{use['input']['word']}: a drink")]}
    talk = [*asked, {"role": "assistant", "content": content}, {"role": "user", "content": [found]}]
    return {"first": first, "second": ctx.sample(talk, max_tokens=50, tools=tools, timeout=20)}


FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "minLength": 1, "maxLength": 20},
        "mail": {"type": "string", "format": "email"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "height": {"type": "number", "minimum": 0},
        "agrees": {"type": "boolean", "default": False},
        "seat": {"type": "string", "enum": ["window", "aisle"], "enumNames": ["Window", "Aisle"]},
    },
    "required": ["name", "age", "seat"],
}


@server.tool()
def ask(ctx: Context) -> dict[str, Any]:
    """Ask the user to fill in a form."""
    return dict(ctx.elicit("Who are you?", FORM, timeout=20))


@server.tool()
def visit(ctx: Context) -> dict[str, Any]:
    """Ask the user to visit a page, and say that the visit has ended."""
    answer = ctx.elicit_url("Please sign in.", "https://example.com/sign-in", elicitation_id="visit-1", timeout=20)
    if answer["action"] == "accept" and ctx.revision.era == "session":
        ctx.complete_elicitation(answer["elicitationId"])
    return dict(answer)


@server.tool()
def guarded(ctx: Context) -> str:
    """Need a visit first, the first time."""
    if "guarded" not in visited:
        visited.add("guarded")
        page = {"mode": "url", "message": "Allow it.", "url": "https://example.com/allow", "elicitationId": "visit-2"}
        raise UrlElicitationRequired([page])
    return "allowed"


@server.tool()
def folders(ctx: Context) -> str:
    """Ask for the roots."""
    return json.dumps(ctx.roots(timeout=20))


@server.roots_changed
def roots_changed(ctx: Context) -> None:
    ctx.roots(timeout=20)
    roots_told.set()


@server.tool()
def told_of_roots() -> str:
    """Say whether the client said that its roots have changed, and named them."""
    return "yes" if roots_told.wait(5) else "no"


# -- lists that change


@server.tool()
def grow() -> str:
    """Add a tool, a resource and a prompt; the next time, take them out again."""
    if grown:
        grown.clear()
        server.remove_tool("grown")
        server.remove_resource("note://grown")
        server.remove_prompt("grown")
        return "shrunk"
    grown.add("grown")
    server.tool("grown")(lambda: "grown")
    server.resource("note://grown", name="grown")(lambda: "grown")
    server.prompt("grown")(lambda: "grown")
    return "grown"


@server.tool()
def touch(uri: str) -> str:
    """Say that a resource has changed."""
    server.resource_updated(uri)
    return "touched"


# -- server/resources


@server.resource(
    "note://text",
    name="text",
    title="A note",
    mime_type="text/plain",
    size=6,
    annotations={"audience": ["assistant"], "priority": 1.0, "lastModified": "2025-01-12T15:00:58Z"},
    icons=[ICON],
)
def note() -> str:
    """A text."""
    return "a note"


@server.resource("note://blob", name="blob", mime_type="image/png")
def blob() -> bytes:
    """Some bytes."""
    return PIXEL


@server.resource("note://user/{name}", name="of_user", title="Notes of a user", mime_type="text/plain")
def note_of(name: str) -> str:
    """The note of a user."""
    return f"note of {name}"


for number in range(10):
    server.resource(f"note://many/{number}", name=f"many{number}")(lambda: "one of many")


# -- server/prompts


@server.prompt(title="Greeting", icons=[ICON])
def greet(name: Annotated[str, "who is greeted"], tone: str = "plain") -> str:
    """Greet somebody."""
    return f"Greet {name} in a {tone} tone."


@server.prompt()
def talk() -> list[Any]:
    """A conversation with a block of every kind."""
    return [user("Look at this."), *(assistant(block) for block in everything())]


# -- server/utilities/completion


@server.completion(prompt="greet", argument="name")
def names(value: str, arguments: dict[str, str]) -> list[str]:
    tone = arguments.get("tone", "")
    return [name + tone for name in ("Ada", "Adele", "Bob") if name.lower().startswith(value.lower())]


@server.completion(resource="note://user/{name}", argument="name")
def users(value: str) -> list[str]:
    return [f"{value}{number}" for number in range(150)]


# == the stateless era: what handlers ask is asked in rounds there, and whoever listens is told

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

runs: dict[str, int] = {}


def counted(name: str) -> int:
    """How often something ran, this time included."""
    runs[name] = runs.get(name, 0) + 1
    return runs[name]


# -- basic/patterns/mrtr


@server.tool()
def three(ctx: Context) -> dict[str, Any]:
    """Ask three things one after the other: the user, the model, and the folders."""
    counted("three")
    name = ctx.elicit("Your name?", NAME)
    try:
        said = ctx.sample(f"A rhyme on {name['content']['name']}", max_tokens=20)
    except Exception as problem:  # a handler that catches too much must not catch the end of a round
        raise ToolError(f"swallowed {problem}") from problem
    folders = [root["uri"] for root in ctx.roots()]
    return {"name": name["content"]["name"], "rhyme": said["content"]["text"], "folders": folders}


@server.tool()
def together(ctx: Context) -> str:
    """Ask three things at once."""
    counted("together")
    one, other, folders = ctx.ask_all(
        lambda: ctx.elicit("Your name?", NAME), lambda: ctx.elicit("Another?", NAME), ctx.roots
    )
    return json.dumps([one["content"]["name"], other["content"]["name"], len(folders)])


@server.tool()
def by_hand(ctx: Context) -> Any:
    """Ask twice without help: the handler returns the results that ask."""
    if ctx.request_state is None:
        return input_required({"who": elicitation_form("Your name?", NAME)}, state={"step": 1})
    if ctx.request_state["step"] == 1:
        name = (ctx.input_response("who") or {})["content"]["name"]
        return input_required({"where": roots_listing()}, state={"step": 2, "name": name})
    folders = (ctx.input_response("where", "roots/list") or {})["roots"]
    return f"{ctx.request_state['name']} in {folders[0]['uri']}"


@server.tool()
def how_often(what: str) -> str:
    """Say how often a handler ran."""
    return str(runs.get(what, 0))


@server.prompt()
def asking(ctx: Context) -> str:
    """A prompt that asks the user first."""
    return f"Greet {ctx.elicit('Your name?', NAME)['content']['name']}."


@server.resource("note://asking", name="asking")
def asking_note(ctx: Context) -> str:
    """A resource that asks the user first."""
    return f"a note for {ctx.elicit('Your name?', NAME)['content']['name']}"


@server.tool()
def needs(ctx: Context) -> str:
    """Need what hardly any client has."""
    ctx.require("sampling.tools")
    return "it has it"


# -- basic/patterns/subscriptions


@server.tool()
def let_go() -> str:
    """End every subscription."""
    assert server.stateless is not None
    for subscription in list(server.subscriptions):
        subscription.end("a test")
    return "gone"


# -- server/utilities/caching


@server.resource("note://counted", name="counted")
def counted_note() -> str:
    """How often it was read."""
    return str(counted("note://counted"))


# -- basic/transports/streamable-http#schema-extension

region = {"type": "string", "x-mcp-header": "Region"}
ROUTE = {
    "type": "object",
    "properties": {
        "region": region,
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "fast": {"type": "boolean", "x-mcp-header": "Fast"},
        "where": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
    },
    "required": ["region"],
}


@server.tool(input_schema=ROUTE)
def route(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, which some headers repeat."""
    return arguments


@server.tool()
def move_header() -> str:
    """Have another header repeat the region; clients that do not listen are not told."""
    region["x-mcp-header"] = "Area" if region["x-mcp-header"] == "Region" else "Region"
    server.remove_tool("route")
    server.tool("route", input_schema=ROUTE)(route)
    return "moved"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        with server.serve_http(sse_path="/sse") as http:
            print(http.url, flush=True)
            http.wait()
    else:
        server.run()
