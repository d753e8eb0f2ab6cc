"""Lesson 19: scopes, and asking for more of them when they are needed.

Era:       both
Revision:  2025-11-25, 2026-07-28
Page:      basic/authorization
Needs:     lesson 18

A token grants scopes. A program should ask for few of them, and for more when an operation needs more: the server says
in its refusal which (403, `insufficient_scope`), the client asks the user, and sends the request again. This is a
step-up. A call that nobody allows ends in an error, and leaves the token as it was.

    python examples/19_scopes_and_step_up.py
"""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests

from mcp_ref import AuthorizationError, Client, Context, OAuth, Server
from mcp_ref.testing import AuthorizationServer

server = Server("diary")
pages = {"monday": "rain", "tuesday": "sun"}


@server.tool()
def read(day: str, ctx: Context) -> str:
    """Every request needs diary:read, so this does."""
    return pages[day]


# A tool, a resource or a prompt can need more scopes than the server as a whole.
@server.tool(scopes=["diary:write"])
def write(day: str, text: str) -> str:
    """Write something down."""
    pages[day] = text
    return f"{day}: {text}"


@server.tool()
def remove(day: str, ctx: Context) -> str:
    """What depends on the arguments is asked for in the handler."""
    if day == "monday":
        ctx.require_scopes("diary:admin")
    return f"removed: {pages.pop(day)}"


login = AuthorizationServer(users={"ada": "lovelace"}, scopes=["diary:read", "diary:write", "diary:admin"])
protection = login.protection(
    scopes=["diary:read"],
    # A broader scope counts for those that it includes: who may do everything need not be asked for the rest.
    implies={"diary:admin": ["diary:write"], "diary:write": ["diary:read"]},
)
allowed = True


def browse(url: str) -> str:
    """The user reads what the program asks for, and allows it or not."""
    print(
        "  the user is asked for", parse_qs(urlsplit(url).query)["scope"][0], "and", "allows" if allowed else "refuses"
    )
    with requests.Session() as browser:
        page = browser.get(url, timeout=10)
        ticket = re.findall('name=ticket value="([^"]*)"', page.text)[0]
        answer = "allow" if allowed else "deny"
        form = {"ticket": ticket, "user": "ada", "password": "lovelace", "answer": answer}
        return browser.post(page.url.partition("?")[0], form, allow_redirects=False, timeout=10).headers["Location"]


def call(client: Client, name: str, **arguments: str) -> None:
    """Call a tool, and print what came of it."""
    print(name, *arguments.values())
    try:
        result: Any = client.call_tool(name, arguments)
        print("  the server says:", result["content"][0]["text"])
    except AuthorizationError as problem:
        print("  not allowed:", problem.error)


# The program registers itself here. 2026-07-28 would rather have it publish a document (OAuth(document=...)).
with (
    server.serve_http(authorization=protection) as http,
    Client(http.url, auth=OAuth("Lesson 19", visit=browse), revision="2025-11-25") as client,
):
    # 1. Opening the connection took a login for what every request needs. That is enough here.
    call(client, "read", day="monday")
    # 2. More is needed: one step up, and the call is sent again. What was granted before is asked for again with it.
    call(client, "write", day="monday", text="snow")
    # 3. The next call goes on with the same token.
    call(client, "write", day="tuesday", text="fog")
    # 4. The arguments decide: one page needs nothing more, the other one does, and the user does not want it.
    call(client, "remove", day="tuesday")
    allowed = False
    call(client, "remove", day="monday")
    # 5. The token that there was goes on.
    call(client, "read", day="monday")

# Output:
#
#   the user is asked for diary:read and allows
# read monday
#   the server says: rain
# write monday snow
#   the user is asked for diary:read diary:write and allows
#   the server says: monday: snow
# write tuesday fog
#   the server says: tuesday: fog
# remove tuesday
#   the server says: removed: fog
# remove monday
#   the user is asked for diary:read diary:write diary:admin and refuses
#   not allowed: access_denied
# read monday
#   the server says: snow
