"""basic/versioning#compatibility-matrix and the two binding pages, from end to end: who meets whom, and how it is found
out of which era a server is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from mcp_ref import Client, ErrorResponse, RemoteProtocolError, RequestTimeout, TransportClosed, text
from mcp_ref.client.connecting import server_key
from mcp_ref.client.targets import Command, Url
from mcp_ref.errors import HttpStatusError
from mcp_ref.kit.threads.era_cache import ERAS, EraMemory
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS
from tests.eras import discovered
from tests.features.era_server import build
from tests.pages.basic.transports.streamable_http.scripted import (
    ScriptedServer,
    content,
    result,
    status,
    then,
)
from tests.slow import slow_but
from tests.support.wire import PATIENCE, Wire, connecting

MODERN, LEGACY = ["2026-07-28"], [revision.name for revision in SESSION_REVISIONS]
BOTH = [*LEGACY, *MODERN]
NEW, OLD = "2026-07-28", "2025-11-25"


def dialling(target: Any, revisions: Any = BOTH, **options: Any) -> Client:
    return Client(target, revision=revisions, **{"timeout": PATIENCE, **options})


def spoken(client: Client) -> tuple[str, Any]:
    """The revision that a client speaks, and what its call comes to."""
    return str(client.revision), client.call_tool("hello")["content"]


def works(revision: str) -> tuple[str, Any]:
    return revision, [text(revision)]


# -- the matrix ---------------------------------------------------------------------------------------------------

MATRIX = {
    ("modern", "modern"): NEW,
    ("modern", "dual"): NEW,
    ("modern", "legacy"): "fails: the server opens with initialize",
    ("dual", "modern"): NEW,
    ("dual", "dual"): NEW,
    ("dual", "legacy"): OLD,
    ("legacy", "modern"): "fails: the refusal names 2026-07-28",
    ("legacy", "dual"): OLD,
    ("legacy", "legacy"): OLD,
}
ERA = {"modern": MODERN, "dual": BOTH, "legacy": LEGACY}


@contextmanager
def served(transport: str, revisions: list[str]) -> Iterator[Any]:
    """A server as another process, or on HTTP; gives what a client is pointed at."""
    if transport == "stdio":
        yield Command([sys.executable, "-m", "tests.features.era_server", *revisions])
        return
    with build(revisions).serve_http() as service:
        yield service.url


# Over stdio each of them starts a process.
QUICK = [*((*cell, "http") for cell in MATRIX), ("dual", "legacy", "stdio"), ("legacy", "dual", "stdio")]
CELLS = slow_but(QUICK, [(*cell, way) for way in ("http", "stdio") for cell in MATRIX])


@pytest.mark.parametrize("cell", CELLS, ids="-".join)
def test_every_cell_of_the_compatibility_matrix(cell: tuple[str, str, str]) -> None:
    client, server, transport = cell
    expected = MATRIX[client, server]
    with served(transport, ERA[server]) as target:
        if expected in BOTH:
            with dialling(target, ERA[client]) as connected:
                assert spoken(connected) == works(expected)
        elif client == "modern":
            with pytest.raises(RemoteProtocolError, match="it expects initialize"):
                dialling(target, MODERN).connect()
        else:
            with pytest.raises(ErrorResponse, match=NEW) as refused:
                dialling(target, LEGACY).connect()
            assert refused.value.data["supported"] == MODERN


# -- probing, over stdio and the like -------------------------------------------------------------------------------


def error(code: int, data: Any = None) -> dict[str, Any]:
    body = {"code": code, "message": "no", **({} if data is None else {"data": data})}
    return {"jsonrpc": "2.0", "id": "ID", "error": body}


def unsupported(*versions: str) -> dict[str, Any]:
    return error(-32022, {"supported": list(versions), "requested": NEW})


OF_THE_SESSION_ERA: dict[str, Any] = {
    "unknown method": error(-32601),
    "a code of its own": error(1),
    "names older versions alone": unsupported("2025-11-25", "2025-06-18"),
    "a result of something else": {"jsonrpc": "2.0", "id": "ID", "result": {"tools": []}},
    "a result of another type": {"jsonrpc": "2.0", "id": "ID", "result": [1]},
    # These are not answers: time has to pass.
    "silence": None,
    "no JSON-RPC": {"id": "ID"},
    "a word": "what?",
}


def answer_to(wire: Wire, said: Any) -> None:
    """Answer the request that comes, the probe."""
    probe = wire.receive()
    assert probe["method"] == "server/discover"
    if said is not None:
        wire.send({**said, "id": probe["id"]} if isinstance(said, dict) else said)


"""What is not an answer: time has to pass."""


@pytest.mark.parametrize("how", OF_THE_SESSION_ERA)
def test_a_server_over_stdio_is_of_the_session_era(how: str) -> None:
    silent = how in ("silence", "no JSON-RPC", "a word")
    with connecting(revision=BOTH, probe_timeout=0.1 if silent else PATIENCE) as (client, wire, opening):
        answer_to(wire, OF_THE_SESSION_ERA[how])
        if silent:
            # A client that waits no longer says so.
            assert wire.receive()["method"] == "notifications/cancelled"
        asked = wire.receive()
        assert (asked["method"], asked["params"]["protocolVersion"]) == ("initialize", OLD)
        wire.answer(asked["id"], OPENED)
        assert wire.receive()["method"] == "notifications/initialized"
        assert opening.outcome() is client and client.revision.name == OLD


@pytest.mark.parametrize(
    "answer",
    [error(-32021, {"requiredCapabilities": {"roots": {}}}), unsupported("2027-01-01"), unsupported()],
    ids=["-32021", "later versions alone", "no versions"],
)
def test_a_server_over_stdio_with_a_modern_error_is_not_opened_with_initialize(answer: Any) -> None:
    with connecting(revision=BOTH) as (_, wire, opening):
        answer_to(wire, answer)
        refused = opening.outcome()
        assert isinstance(refused, ErrorResponse) and refused.code == answer["error"]["code"]
        assert not isinstance(wire.receive(), dict), "nothing more is said, and the connection ends"


def test_a_client_of_the_stateless_era_alone_finds_no_comfort_in_silence() -> None:
    with connecting(revision=MODERN, connect_timeout=0.2) as (_, wire, opening):
        answer_to(wire, None)
        assert isinstance(opening.outcome(), RequestTimeout)
        assert wire.receive()["method"] == "notifications/cancelled"


def test_a_server_that_is_not_there_is_neither() -> None:
    with build(BOTH).serve_http() as service:
        left = Url(service.url)
    for gone, told in ((Command(["/nowhere/to/be/found", uuid4().hex]), "/nowhere"), (left, "refused")):
        with pytest.raises(TransportClosed, match=told):
            dialling(gone).connect()
        assert ERAS.get(server_key(gone)) is None


# -- probing, over HTTP -------------------------------------------------------------------------------------------


OPENED = {"protocolVersion": OLD, "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}


def opened(request_id: int = 1) -> bytes:
    return content(result(request_id, **OPENED), "Mcp-Session-Id: s")


def body(code: int, request_id: Any = 1, data: Any = None) -> dict[str, Any]:
    return {**error(code, data), "id": request_id}


def without_id(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "id"}


BY_HTTP_OF_THE_SESSION_ERA: dict[str, bytes] = {
    **{f"{code} without a body": status(code) for code in (400, 404, 499)},
    "400 with an error without id": content(without_id(body(-32600)), code=400),
    "400 with an error of the session era": content(body(-32600), code=400),
    "400 with half an object": status(400, "Content-Type: application/json", body=b'{"jsonrpc": '),
    "404 with an unknown method": content(body(-32601), code=404),
    "400 that names older versions alone": content(body(-32022, data={"supported": [OLD]}), code=400),
    "200 with -32601": content(body(-32601)),
    "200 with a result of nothing": content(result(1)),
    "200 with a page": status(200, "Content-Type: text/html", body=b"<html>"),
}


@pytest.mark.parametrize("how", BY_HTTP_OF_THE_SESSION_ERA)
def test_a_server_on_http_is_of_the_session_era(how: str) -> None:
    with ScriptedServer(post=[BY_HTTP_OF_THE_SESSION_ERA[how], opened(), status(202)]) as server:
        with dialling(server.url) as client:
            assert client.revision.name == OLD
        asked = [server.request("POST").json()["method"] for _ in range(3)]
    assert asked == ["server/discover", "initialize", "notifications/initialized"]


@pytest.mark.parametrize(
    "answer",
    [
        content(body(-32021, data={"requiredCapabilities": {}}), code=400),
        content(body(-32022, data={"supported": ["2027-01-01"]}), code=400),
        content(body(-32020)),
    ],
    ids=["-32021", "later versions alone", "-32020 with 200"],
)
def test_a_server_on_http_with_a_modern_error_is_not_opened_with_initialize(answer: bytes) -> None:
    with ScriptedServer(post=answer) as server:
        with pytest.raises(ErrorResponse) as refused:
            dialling(server.url).connect()
        assert -32022 <= refused.value.code <= -32020
        server.request("POST")
        assert server.asked.empty()


NOTHING = [
    *((code, answered) for code in (401, 408, 500) for answered in (None, without_id(body(-32600)))),
    (403, body(-32600)),
]


@pytest.mark.parametrize(("code", "answered"), NOTHING)
def test_what_says_nothing_of_the_server_is_raised(code: int, answered: Any) -> None:
    with ScriptedServer(post=status(code) if answered is None else content(answered, code=code)) as server:
        with pytest.raises(HttpStatusError) as refused:
            dialling(server.url).connect()
        assert refused.value.status == code
        server.request("POST")
        assert server.asked.empty()
        assert ERAS.get(server_key(Url(server.url))) is None


REFUSED = content(body(-32022, data={"supported": [NEW]}), code=400)


@pytest.mark.parametrize(
    ("answers", "spoken", "last"),
    [
        ([opened(), status(202)], OLD, "notifications/initialized"),
        # It was only slow: it refuses initialize, and is probed again.
        ([REFUSED, content({**result(1), "result": discovered({}, NEW)})], NEW, "server/discover"),
    ],
    ids=["of the session era", "only slow"],
)
def test_a_server_on_http_that_is_silent_is_asked_initialize_after_half_of_the_time(
    answers: Any, spoken: str, last: str
) -> None:
    with ScriptedServer(post=[then(wait=True), *answers]) as server:
        with dialling(server.url, connect_timeout=2) as client:
            assert client.revision.name == spoken
        asked = [server.request("POST").json()["method"] for _ in range(3)]
    assert asked == ["server/discover", "initialize", last]


def test_a_server_on_http_that_stays_silent_is_a_time_out_and_nothing_is_known_of_it() -> None:
    with ScriptedServer(post=then(wait=True)) as server:
        with pytest.raises(RequestTimeout, match="connect_timeout=0.4"):
            dialling(server.url, connect_timeout=0.4).connect()
        assert ERAS.get(server_key(Url(server.url))) is None


# -- a version of both --------------------------------------------------------------------------------------------


def test_a_refusal_in_mid_conversation_that_names_no_other_version_is_raised() -> None:
    refusal = content(body(-32022, 2, {"supported": ["2027-01-01"]}), code=400)
    found = content({**result(1), "result": discovered({"tools": {}}, NEW)})
    with ScriptedServer(post=[found, refusal]) as server, dialling(server.url) as client:
        with pytest.raises(ErrorResponse) as refused:
            client.call_tool("hello")
        assert refused.value.code == -32022


# -- what is remembered -------------------------------------------------------------------------------------------


def test_what_is_remembered_is_bounded_and_the_oldest_goes_first() -> None:
    memory = EraMemory()
    for number in range(1001):
        memory.put(number, "session")
    assert (memory.get(0), memory.get(1), memory.get(1000)) == (None, "session", "session")
    memory.put(1, None)
    memory.put(1, None)
    assert memory.get(1) is None
    memory.put(None, "stateless")
    assert memory.get(None) is None


def test_a_server_is_remembered_by_its_origin_and_path_or_by_how_it_is_started() -> None:
    assert server_key(Url("http://A.example/mcp")) == server_key(Url("http://a.example/mcp?x=1"))
    assert server_key(Url("http://a.example/mcp")) != server_key(Url("http://a.example/other"))
    assert server_key(Command(["server", "-v"])) == server_key(Command(("server", "-v")))
    assert server_key(Command(["server", "-v"])) != server_key(Command(["server"]))


@pytest.mark.parametrize("before", [BOTH, MODERN, LEGACY], ids=["dual", "modern", "legacy"])
@pytest.mark.parametrize("after", [BOTH, MODERN, LEGACY], ids=["dual", "modern", "legacy"])
def test_what_is_remembered_of_a_url_is_corrected_when_it_proves_wrong(before: list[str], after: list[str]) -> None:
    with build(before).serve_http() as service:
        url, port = service.url, urlsplit(service.url).port or 0
        with dialling(url) as client:
            assert spoken(client) == works(before[-1])
    assert ERAS.get(server_key(Url(url))) == REVISIONS[before[-1]].era
    with build(after).serve_http(port=port):
        with dialling(url) as client:
            # A server of both eras that is remembered as an older one is spoken with as such.
            assert spoken(client) == works(OLD if before is LEGACY and after is BOTH else after[-1])
            assert ERAS.get(server_key(Url(url))) == client.revision.era


def test_what_is_remembered_of_a_command_is_corrected_too(tmp_path: Any) -> None:
    said, does = SimpleQueue[str](), tmp_path / "revisions"
    program = (
        "import sys, pathlib; from tests.features.era_server import build;"
        "build(pathlib.Path(sys.argv[1]).read_text().split()).run()"
    )
    command = Command([sys.executable, "-c", program, str(does)], stderr=said.put)
    for revisions in (LEGACY, MODERN):
        does.write_text(" ".join(revisions))
        with dialling(command) as client:
            assert spoken(client) == works(revisions[-1])


def test_a_client_finds_the_era_out_again_when_an_older_server_takes_over() -> None:
    reopened = SimpleQueue[Any]()
    service = build(BOTH).serve_http()
    port = urlsplit(service.url).port or 0
    with dialling(service.url, on_reopen=lambda: reopened.put(True)) as client:
        assert spoken(client) == works(NEW)
        service.close()
        with build(LEGACY).serve_http(port=port):
            assert client.call_tool("hello")["content"] == [text(OLD)]
            assert reopened.get(timeout=PATIENCE)
            assert client.revision.name == OLD
            assert ERAS.get(server_key(Url(service.url))) == "session"


# -- both at once -------------------------------------------------------------------------------------------------
