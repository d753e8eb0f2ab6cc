"""A client of the official SDK that gets in by OAuth: the URL of the server as argument, its results on stdout.

The browser is played: it signs in as ada, presses "allow", and brings back where it is sent.
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import mcp
import requests
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata


class Memory:
    """Where the SDK keeps its tokens and its registration."""

    tokens: Any = None
    client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


class Browser:
    """Goes where it is sent, as a user who allows everything."""

    place = ""

    async def visit(self, url: str) -> None:
        print("scope", *parse_qs(urlsplit(url).query)["scope"])
        with requests.Session() as browser:
            page = browser.get(url, timeout=10)
            (ticket,) = re.findall('name=ticket value="([^"]*)"', page.text)
            form = {"ticket": ticket, "user": "ada", "password": "pw", "answer": "allow"}
            answer = browser.post(url.partition("?")[0], data=form, allow_redirects=False, timeout=10)
        self.place = answer.headers["Location"]

    async def back(self) -> AuthorizationCodeResult:
        found = {name: values[0] for name, values in parse_qs(urlsplit(self.place).query).items()}
        return AuthorizationCodeResult(code=found["code"], state=found["state"], iss=found["iss"])


async def main(url: str) -> None:
    about = OAuthClientMetadata(
        client_name="SDK",
        redirect_uris=["http://localhost:3030/callback"],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    browser = Browser()
    auth = OAuthClientProvider(
        server_url=url,
        client_metadata=about,
        storage=Memory(),
        redirect_handler=browser.visit,
        callback_handler=browser.back,
    )
    async with (
        httpx2.AsyncClient(auth=auth, timeout=10) as http,
        streamable_http_client(url, http_client=http) as streams,
        mcp.ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        for tool in ("whoami", "write"):
            result = await session.call_tool(tool, {})
            print(tool, result.content[0].text)


asyncio.run(main(sys.argv[1]))
