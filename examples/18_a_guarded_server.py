"""Lesson 18: a guarded server, and how a program gets in.

Era:       both
Revision:  2025-03-26 to 2026-07-28
Page:      basic/authorization
Needs:     lesson 11

A server on HTTP can ask for an access token. Nothing is agreed on beforehand: from the refusal a client learns who
gives tokens, from that authorization server what it can do, and the user says in a browser whether the program may.
Here each step is made by hand, with a browser that presses the button by itself; and at the end all of them again, by
`OAuth`, which is how a program does it.

    python examples/18_a_guarded_server.py
"""

import base64
import hashlib
import re
import secrets
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests

from mcp_ref import Client, Context, HttpStatusError, OAuth, Registered, Server, Url
from mcp_ref.testing import AuthorizationServer

server = Server("diary")


@server.tool()
def whoami(ctx: Context) -> str:
    """Who may read this diary."""
    return f"{ctx.principal.subject}, by {', '.join(sorted(ctx.principal.scopes))}"


@server.tool(scopes=["diary:write"])
def note(text: str) -> str:
    """Write something down."""
    return f"written: {text}"


# A small authorization server for lessons. In production there is a real one, and Protection names it.
login = AuthorizationServer(users={"ada": "lovelace"}, scopes=["diary:read", "diary:write"])


def browse(url: str) -> str:
    """Return what a user does, who signs in and allows it; returns where the browser is sent back to."""
    with requests.Session() as browser:
        page = browser.get(url, timeout=10)
        print("the page says:", re.sub(r"\s*<[^>]*>\s*", " ", page.text).split("Authorization ")[1].strip()[:71])
        ticket = re.findall('name=ticket value="([^"]*)"', page.text)[0]
        form = {"ticket": ticket, "user": "ada", "password": "lovelace", "answer": "allow"}
        return browser.post(page.url.partition("?")[0], form, allow_redirects=False, timeout=10).headers["Location"]


with server.serve_http(authorization=login.protection(scopes=["diary:read"])) as http:
    here = http.url.removesuffix("/mcp")
    # 1. Without a token: 401, and where to read on.
    refusal = requests.post(http.url, json={}, timeout=10)
    challenge = refusal.headers["WWW-Authenticate"]
    print(refusal.status_code, challenge.replace(here, "HERE"))
    # 2. What is this server, and who gives tokens for it? And what can they do?
    metadata_url = re.findall('resource_metadata="([^"]*)"', challenge)[0]
    resource = requests.get(metadata_url, timeout=10).json()
    issuer = resource["authorization_servers"][0]
    metadata = requests.get(f"{issuer}/.well-known/oauth-authorization-server", timeout=10).json()
    print(
        "tokens for",
        resource["resource"].replace(here, "HERE"),
        "by PKCE with",
        *metadata["code_challenge_methods_supported"],
    )
    # 3. The program says what it is.
    back = "http://127.0.0.1:8765/callback"
    about = {"client_name": "Lesson 18", "redirect_uris": [back], "token_endpoint_auth_method": "none"}
    registered = requests.post(metadata["registration_endpoint"], json=about, timeout=10).json()
    # 4. The user is asked, in a browser. Only whoever has the verifier can use the code that comes back (PKCE).
    verifier, state = secrets.token_urlsafe(32), secrets.token_urlsafe(16)
    digest = hashlib.sha256(verifier.encode()).digest()
    question = {
        "response_type": "code",
        "client_id": registered["client_id"],
        "redirect_uri": back,
        "state": state,
        "scope": "diary:read",
        "resource": resource["resource"],
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
    }
    visited = requests.Request("GET", metadata["authorization_endpoint"], params=question).prepare().url or ""
    came_back = browse(visited)
    answer = {name: values[0] for name, values in parse_qs(urlsplit(came_back).query).items()}
    # 5. Is it the answer to this question, and of this authorization server?
    print("the browser brings", *answer, "-", answer["state"] == state and answer["iss"] == issuer)
    # 6. The code, and the verifier, for a token.
    exchange = {
        "grant_type": "authorization_code",
        "code": answer["code"],
        "code_verifier": verifier,
        "redirect_uri": back,
        "client_id": registered["client_id"],
        "resource": resource["resource"],
    }
    token: Any = requests.post(metadata["token_endpoint"], data=exchange, timeout=10).json()
    print({name: token[name] for name in ("token_type", "expires_in", "scope")})
    # 7. With the token in every request the server lets the program in, as far as its scopes go.
    with Client(Url(http.url, headers={"Authorization": f"Bearer {token['access_token']}"})) as client:
        result: Any = client.call_tool("whoami", {})
        print(result["content"][0]["text"])
        try:
            client.call_tool("note", {"text": "hello"})
        except HttpStatusError as refused:
            print(refused.status, str(refused.challenge).partition(", resource_metadata")[0])
    # 8. All of this in one argument. `visit` is for this lesson: without it the user's own browser is opened, and with
    #    no `client` the program registers itself. What a tool needs beside is asked for when it is called.
    auth = OAuth("Lesson 18", client=Registered(registered["client_id"]), redirect_uri=back, visit=browse)
    with Client(http.url, auth=auth) as client:
        result = client.call_tool("note", {"text": "hello"})
        print(result["content"][0]["text"])

# Output:
#
# 401 Bearer scope="diary:read", resource_metadata="HERE/.well-known/oauth-protected-resource/mcp"
# tokens for HERE/mcp by PKCE with S256
# the page says: Lesson 18  wants to use this server for you, and will get: diary:read.
# the browser brings code state iss - True
# {'token_type': 'Bearer', 'expires_in': 600, 'scope': 'diary:read'}
# ada, by diary:read
# 403 Bearer error="insufficient_scope", scope="diary:read diary:write"
# the page says: Lesson 18  wants to use this server for you, and will get: diary:read.
# the page says: Lesson 18  wants to use this server for you, and will get: diary:read d
# written: hello
