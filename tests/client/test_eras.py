"""client/connecting: a transport that was given, a late answer to the probe, versions that a server names.

Which answers mean which era is in tests/features/test_eras.py, over HTTP as well.
"""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref import Client, ErrorResponse, McpError
from mcp_ref.errors import HttpStatusError
from mcp_ref.pages.basic.versioning import PROTOCOL_VERSION
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS
from tests.eras import MODERN, discovered
from tests.pages.basic.transports.streamable_http.scripted import ScriptedServer, content, status
from tests.support.wire import Background, connecting

SESSION = [row.name for row in SESSION_REVISIONS]
LATEST = SESSION[-1]
OPENED = {"protocolVersion": LATEST, "capabilities": {}, "serverInfo": {"name": "old", "version": "1"}}
REFUSED = {"code": -32601, "message": "Method not found"}


# -- the probe ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revisions", [[MODERN], list(REVISIONS)])
def test_the_first_request_is_discovery_in_the_newest_version(revisions: list[str]) -> None:
    with connecting(revision=revisions) as (client, wire, under_way):
        probe = wire.receive()
        assert (probe["method"], probe["params"]["_meta"][PROTOCOL_VERSION]) == ("server/discover", MODERN)
        assert wire.silent()
        wire.answer(probe["id"], discovered({"tools": {}}, "2099-01-01", MODERN, LATEST))
        assert under_way.outcome() is client
        assert (client.revision.name, client.server_capabilities) == (MODERN, {"tools": {}})
        assert client.server_info == {"name": "wire", "version": "1"}


@pytest.mark.parametrize("versions", [["2099-01-01"], [LATEST, "2099-01-01"], [""]])
def test_a_discovery_without_a_version_of_both_is_no_agreement(versions: list[str]) -> None:
    for revisions in ([MODERN], list(REVISIONS)):
        with connecting(revision=revisions) as (client, wire, under_way):
            wire.answer(wire.receive()["id"], discovered({"tools": {}}, *versions))
            if LATEST in versions and LATEST in revisions:
                # Both know the session era, and that is where they go on.
                request = wire.receive()
                assert request["method"] == "initialize" and request["params"]["protocolVersion"] == LATEST
                wire.answer(request["id"], OPENED)
                assert under_way.outcome() is client and client.revision.name == LATEST
            else:
                assert isinstance(under_way.outcome(), McpError)


@pytest.mark.parametrize("initialize", ["first", "last", "alone"])
@pytest.mark.parametrize("probed", [{"result": discovered()}, {"error": REFUSED}], ids=["discovered", "refused"])
def test_a_session_of_a_slow_server_counts_whatever_comes_of_the_probe(initialize: str, probed: Any) -> None:
    with connecting(probe_timeout=0.05) as (client, wire, under_way):
        probe, given_up, request = (wire.receive() for _ in range(3))
        # MUST: over stdio a client that gives a request up says so.
        assert (given_up["method"], given_up["params"]["requestId"]) == ("notifications/cancelled", probe["id"])
        assert request["method"] == "initialize" and request["id"] != probe["id"]
        answers: list[Any] = [{"id": request["id"], "result": OPENED}, {"id": probe["id"], **probed}]
        for answer in answers if initialize == "first" else reversed(answers[: 1 + (initialize == "last")]):
            wire.send({"jsonrpc": "2.0", **answer})
        assert under_way.outcome() is client
        assert client.revision.name == LATEST
        # Servers of both eras are known that take nothing of the other from here on.
        assert wire.receive()["method"] == "notifications/initialized"
        asking = Background(client.ping)
        asked = wire.receive()
        assert (asked["method"], asked.get("params")) == ("ping", None)
        wire.answer(asked["id"], {})
        asking.outcome()
        assert wire.silent()


@pytest.mark.parametrize(("late", "code"), [(True, -32601), (False, -32022)], ids=["answered late", "not answered"])
def test_a_slow_server_that_refuses_initialize_is_probed_once_more(late: bool, code: int) -> None:
    with connecting(probe_timeout=0.5) as (client, wire, under_way):
        probe, _, request = (wire.receive() for _ in range(3))
        if late:
            wire.answer(probe["id"], discovered())
        wire.send({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": "no"}})
        again = wire.receive()
        assert again["method"] == "server/discover" and again["id"] not in (probe["id"], request["id"])
        wire.answer(again["id"], discovered())
        assert under_way.outcome() is client
        assert client.revision.name == MODERN
        assert wire.silent()


def test_a_server_that_refuses_initialize_and_a_second_probe_is_refused_with_both_reasons() -> None:
    with connecting(probe_timeout=0.5) as (_, wire, under_way):
        _, _, request = (wire.receive() for _ in range(3))
        for request_id in (request["id"], None):
            error = {"code": -32600, "message": "first" if request_id else "second"}
            wire.send({"jsonrpc": "2.0", "id": request_id or wire.receive()["id"], "error": error})
        failed = under_way.outcome()
        assert isinstance(failed, ErrorResponse) and failed.message == "first"
        assert any("second" in note for note in failed.__notes__)


def test_a_version_of_both_that_the_server_names_is_asked_for() -> None:
    with connecting() as (client, wire, under_way):
        refusal = {"code": -32022, "message": "no", "data": {"supported": ["2099-01-01", MODERN], "requested": "x"}}
        wire.send({"jsonrpc": "2.0", "id": wire.receive()["id"], "error": refusal})
        probe = wire.receive()
        assert (probe["method"], probe["params"]["_meta"][PROTOCOL_VERSION]) == ("server/discover", MODERN)
        wire.answer(probe["id"], discovered())
        assert under_way.outcome() is client


def test_a_failure_names_what_the_ways_before_it_came_to() -> None:
    with connecting() as (_, wire, under_way):
        wire.answer(wire.receive()["id"], {**discovered(), "capabilities": []})
        wire.send({"jsonrpc": "2.0", "id": wire.receive()["id"], "error": REFUSED})
        failed = under_way.outcome()
        assert isinstance(failed, ErrorResponse) and failed.code == -32601
        assert ["result.capabilities must be an object" in note for note in failed.__notes__] == [True]


@pytest.mark.parametrize(("versions", "named"), [([], "no version"), ([f"v{n}" for n in range(100)], "v0, v1")])
def test_an_error_names_few_of_the_versions_of_a_server(versions: list[str], named: str) -> None:
    with connecting(revision=MODERN) as (_, wire, under_way):
        wire.answer(wire.receive()["id"], {**discovered(), "supportedVersions": versions})
        failed = str(under_way.outcome())
        assert failed.startswith(f"the server speaks {named}") and len(failed) < 200


def test_a_status_that_shows_no_other_era_is_raised_and_ends_no_conversation() -> None:
    opening = content({"jsonrpc": "2.0", "id": 1, "result": discovered()})
    with ScriptedServer(post=[opening, status(404), opening]) as server, Client(server.url) as client:
        before = client.session
        with pytest.raises(HttpStatusError, match="404"):
            client.request("com.example/odd")
        assert client.session is before and before.connection.closed is None
        asked = [server.request().json()["method"] for _ in range(3)]
    assert asked == ["server/discover", "com.example/odd", "server/discover"]
