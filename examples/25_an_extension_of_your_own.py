"""Lesson 25: an extension of your own, as a value.

Era:       stateless
Revision:  2026-07-28
Page:      basic/versioning
Needs:     lessons 10 and 13

An extension adds to the protocol what it does not have, by a name with a prefix. Both sides declare it; what it brings
counts only where the other side has declared it too. Here it is one method, as a row: who may send it, and the types of
its params and its result, by which both sides check what comes. Nothing is loaded by name: the value is given to
`extensions=`.

    python examples/25_an_extension_of_your_own.py
"""

from typing import TypedDict

from mcp_ref import Client, Context, ErrorResponse, Extension, LocalProtocolError, Method, Server


class EchoParams(TypedDict):
    """The text to be said again."""

    text: str


class EchoResult(TypedDict):
    """The text that was said, and how often before."""

    text: str
    count: int


NAME = "com.example/echo"
ROW = Method("example/echo", "client", "com.example/echo", "have a text said again", EchoParams, EchoResult,
             since="2026-07-28", extension=NAME)  # fmt: skip
ECHO = Extension(NAME, {"longest": 20}, rows=[ROW])

said: list[str] = []


def echo(ctx: Context, params: EchoParams) -> EchoResult:
    said.append(params["text"])
    return {"text": params["text"], "count": len(said)}


server = Server("echo", extensions=[ECHO._replace(answers={"example/echo": echo})])

with Client(server, extensions=[ECHO]) as client:
    print("declared:", client.server_capabilities["extensions"])
    print(client.request("example/echo", {"text": "hello"})["count"])
    try:
        client.request("example/echo", {"text": 7})
    except ErrorResponse as refusal:
        print("refused:", refusal.message)

# A client that does not declare it is refused, and told what it lacks.
with Client(server) as client:
    try:
        client.request("example/echo", {"text": "hello"})
    except ErrorResponse as refusal:
        print(refusal.code, refusal.data)

# And to a server that does not declare it nothing is sent.
with Client(Server("plain"), extensions=[ECHO]) as client:
    try:
        client.request("example/echo", {"text": "hello"})
    except LocalProtocolError as problem:
        print(problem)

# Output:
#
# declared: {'com.example/echo': {'longest': 20}}
# 1
# refused: Invalid params: params.text must be a string, not an integer
# -32021 {'requiredCapabilities': {'extensions': {'com.example/echo': {}}}}
# example/echo needs the capability extensions.com.example/echo, which was not declared
