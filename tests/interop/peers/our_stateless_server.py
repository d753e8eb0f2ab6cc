"""The server of our_server, and what there is beside in the stateless era, for clients that others wrote.

Usage: python our_stateless_server.py [stdio | http [revision ...]]      the revisions to speak; all by default

Over HTTP it prints its URL.
"""

from __future__ import annotations

import sys
from typing import Any

from our_server import FORM, PIXEL, server, touch

from mcp_ref import Context, ToolError, image, input_required, text
from mcp_ref.basic.mrtr import elicitation_form, roots_listing

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}

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
def together(ctx: Context) -> dict[str, Any]:
    """Ask three things at once."""
    counted("together")
    name, city, folders = ctx.ask_all(
        lambda: ctx.elicit("Your name?", NAME), lambda: ctx.elicit("Your city?", CITY), ctx.roots
    )
    return {"name": name["content"]["name"], "city": city["content"]["city"], "folders": len(folders)}


@server.tool()
def many(to: int, ctx: Context) -> str:
    """Ask in a loop."""
    counted("many")
    return ", ".join(ctx.elicit(f"Name {number}?", NAME)["content"]["name"] for number in range(to))


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
def needs(ctx: Context) -> list[Any]:
    """Need what hardly any client has, before anything else is said."""
    ctx.require("sampling.tools")
    ctx.progress(1, 1)
    return [text("it has it"), image(PIXEL, "image/png")]


@server.tool()
def asks_form(ctx: Context) -> str:
    """Ask the user, whatever the client has declared."""
    return str(ctx.elicit("Who are you?", FORM)["action"])


# -- basic/patterns/subscriptions


@server.tool()
def touch_below(uri: str) -> str:
    """Say that what lies below a resource has changed."""
    return touch(f"{uri}/below")


@server.tool()
def let_go() -> str:
    """End every subscription."""
    assert server.stateless is not None
    for subscription in list(server.stateless.subscriptions):
        subscription.end("a test")
    return "gone"


# -- server/utilities/caching


@server.resource("note://counted", name="counted")
def counted_note() -> str:
    """How often it was read."""
    return str(counted("note://counted"))


# -- basic/transports/streamable-http#schema-extension


def schema(header: str) -> dict[str, Any]:
    """What `route` takes; the header of its region is this one."""
    where = {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}}
    return {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": header},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "fast": {"type": "boolean", "x-mcp-header": "Fast"},
            "where": where,
            "rest": {"type": "string"},
        },
        "required": ["region"],
    }


def route(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, which some headers repeat."""
    return arguments


server.tool("route", input_schema=schema("Region"))(route)


@server.tool()
def move_header(to: str) -> str:
    """Have another header repeat the region; clients that do not listen are not told."""
    server.remove_tool("route")
    server.tool("route", input_schema=schema(to))(route)
    return "moved"


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        with server.serve_http() as http:
            print(http.url, flush=True)
            http.wait()
    else:
        server.run()
