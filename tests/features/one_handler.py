"""A server whose handlers ask: the same ones for every revision and every transport. Run it, and it serves stdio."""

from __future__ import annotations

import sys
from typing import Any

from mcp_ref import Context, Server
from mcp_ref.pages.server.prompts import user

FORM: Any = {"name": {"type": "string"}}


def said(message: Any) -> str:
    """The text that a model has answered."""
    return str(message["content"]["text"])


def name(ctx: Context) -> str:
    """Whom a trip is for: asked where the revision can, else taken for granted."""
    if "elicitation" not in ctx.peer_capabilities:
        return "Ada"
    answer = ctx.elicit("Your name?", FORM)
    return str(answer["content"]["name"]) if answer["action"] == "accept" else "nobody"


def build() -> Server:
    """The server. Its one thing that changes by itself: `price`, with each answer of a model that was asked for it."""
    server = Server("asking")
    price = [1]

    @server.tool()
    def plan(city: str, ctx: Context) -> str:
        [root] = ctx.roots()
        who = name(ctx)
        return f"{root['uri']}: {said(ctx.sample(f'{city} for {who}', max_tokens=10))}"

    @server.tool()
    def tour(cities: list[str], ctx: Context) -> str:
        return ", ".join(said(ctx.sample(city, max_tokens=10)) for city in cities)

    @server.tool()
    def together(ctx: Context) -> str:
        roots, who, idea = ctx.ask_all(
            lambda: [root["uri"] for root in ctx.roots()],
            lambda: name(ctx),
            lambda: said(ctx.sample("anywhere", max_tokens=10)),
        )
        return f"{roots} {who} {idea} {said(ctx.sample(f'then {idea}', max_tokens=10))}"

    @server.tool()
    def bargain(ctx: Context) -> str:
        while True:
            asked = price[0]
            answer = said(ctx.sample(f"price {asked}", max_tokens=10))
            if asked == price[0]:
                return answer

    @server.tool()
    def cautious(ctx: Context) -> str:
        try:
            return said(ctx.sample("careful", max_tokens=10))
        except Exception as problem:
            return f"failed: {problem}"

    @server.prompt()
    def brief(ctx: Context) -> list[Any]:
        return [user(f"{name(ctx)} in {said(ctx.sample('where', max_tokens=10))}")]

    @server.resource("trip://all")
    def trips(ctx: Context) -> str:
        return f"{len(ctx.roots())} {said(ctx.sample('all', max_tokens=10))}"

    def raise_price() -> None:
        price[0] = 2

    server.raise_price = raise_price  # type: ignore[attr-defined]
    return server


if __name__ == "__main__":
    sys.exit(build().run())  # type: ignore[func-returns-value]
