"""Which era and revision our server and theirs, our client and theirs come to.

Each side knows both eras, or one of them alone. What is done once they have met is in the other files.

Servers made with the SDK for Python speak both eras on every transport, and cannot be told not to; those made with the
newest one for TypeScript can. A server of the session era over HTTP is therefore one of version 1 of that SDK.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, ErrorResponse, McpError, RemoteProtocolError, RequestTimeout
from mcp_ref.revisions import SESSION_REVISIONS, STATELESS_REVISIONS
from tests.interop import programs
from tests.interop.programs import BOTH_ERAS, NEW_SDK, OLD_SDK, OURS, TYPESCRIPT, TYPESCRIPT_2, Pair, Served
from tests.interop.talk import Driver, Drivers, Failed, Theirs

VERSION, OLDER = "2026-07-28", "2025-11-25"
ERAS: dict[str, tuple[str, ...]] = {
    "both": (),
    "session": tuple(map(str, SESSION_REVISIONS)),
    "stateless": tuple(map(str, STATELESS_REVISIONS)),
}

# -- their clients, our servers

# What they make of a server that is not of the era that they insist on.
REFUSED = {
    (BOTH_ERAS, "legacy", "stdio"): -32022,
    (BOTH_ERAS, "legacy", "http"): -32022,
    (BOTH_ERAS, VERSION, "stdio"): -32600,
    (BOTH_ERAS, VERSION, "http"): -32603,  # of its own, for a status that does not mean success
    (TYPESCRIPT_2, "legacy", "stdio"): -32022,
    (TYPESCRIPT_2, "legacy", "http"): "CLIENT_HTTP_NOT_IMPLEMENTED",  # so it calls a status of 400 here
    (TYPESCRIPT_2, VERSION, "stdio"): "ERA_NEGOTIATION_FAILED",
    (TYPESCRIPT_2, VERSION, "http"): "ERA_NEGOTIATION_FAILED",
}


def met(driver: Driver, target: list[str], mode: str) -> Any:
    """What a client of theirs comes to: the version and what a call says, or the error."""
    try:
        with Theirs(driver, target, mode) as talk:
            return [str(talk.revision), talk.say("add", {"a": 2, "b": 40})]
    except ErrorResponse as problem:
        return problem.code
    except Failed as problem:
        return str(problem)


@pytest.mark.parametrize("way", ["stdio", "http"])
@pytest.mark.parametrize("peer", [BOTH_ERAS, TYPESCRIPT_2])
def test_their_client_and_our_server_come_to_the_newest_of_both(peer: str, way: str, drivers: Drivers) -> None:
    for revisions in ERAS.values():
        server = set(revisions) or {OLDER, VERSION}
        with programs.serving(Pair(peer, OURS, way), *revisions) as target:
            for mode, client in {"auto": {OLDER, VERSION}, "legacy": {OLDER}, VERSION: {VERSION}}.items():
                agreed = max(client & server, default=None)
                expected = REFUSED[peer, mode, way] if agreed is None else [agreed, "42"]
                assert met(drivers.of(peer), target, mode) == expected, (revisions, mode)


# -- our client, their servers


def typescript(era: str, way: str, port: int = 0) -> list[str]:
    """The command of a server that is made with the newest SDK for TypeScript, and knows that era alone, or both."""
    return programs.typescript("ts_stateless_server.mjs", way, str(port), era, package="server")


THEIRS = [
    ("mcp 2", "stdio", partial(programs.their_server, NEW_SDK), {OLDER, VERSION}),
    ("mcp 2", "http", partial(programs.their_server, NEW_SDK, "http"), {OLDER, VERSION}),
    ("mcp 1.8.1", "stdio", partial(programs.their_server, OLD_SDK), {"2024-11-05"}),
    ("typescript 2, both", "stdio", partial(typescript, "both", "stdio"), {OLDER, VERSION}),
    ("typescript 2, both", "http", partial(typescript, "both", "http"), {OLDER, VERSION}),
    ("typescript 2, stateless", "stdio", partial(typescript, "stateless", "stdio"), {VERSION}),
    ("typescript 2, stateless", "http", partial(typescript, "stateless", "http"), {VERSION}),
    ("typescript 2, session", "stdio", partial(typescript, "session", "stdio"), {OLDER}),
    ("typescript 1", "http", partial(programs.their_server, TYPESCRIPT, "http"), {OLDER}),
]
"""Their servers: a name, the transport, what makes the command, and the versions that matter here."""


@pytest.fixture(scope="module", params=THEIRS, ids=lambda row: f"{row[0]}, {row[1]}")
def theirs(request: pytest.FixtureRequest) -> Iterator[tuple[Any, set[str]]]:
    _, way, command, versions = request.param
    if way == "stdio":
        yield command(), versions
        return
    with Served(command()) as running:
        yield running.url, versions


def meet(target: Any, revisions: Sequence[str] = (), **limits: float) -> list[str]:
    """The version that is agreed on, and what a call says."""
    with Client(target, revision=revisions or None, **limits) as client:  # type: ignore[arg-type]
        return [str(client.revision), client.call_tool("add", {"a": 2, "b": 40})["content"][0]["text"]]


@pytest.mark.parametrize("era", ERAS)
def test_our_client_and_their_server_come_to_the_newest_of_both(theirs: tuple[Any, set[str]], era: str) -> None:
    target, versions = theirs
    agreed = max(versions & (set(ERAS[era]) or {"2024-11-05", OLDER, VERSION}), default=None)
    # The oldest does not answer `server/discover` at all.
    limits = {"probe_timeout": 1.0} if versions == {"2024-11-05"} else {}
    if agreed is not None:
        assert meet(target, ERAS[era], **limits) == [agreed, "42"]
        return
    if limits:
        limits["connect_timeout"] = 2
    with pytest.raises((ErrorResponse, RemoteProtocolError, RequestTimeout)) as caught:
        meet(target, ERAS[era], **limits)
    if era == "session":
        assert _names_the_version(caught.value)


def _names_the_version(problem: McpError) -> bool:
    """Whether a refusal of `initialize` says which version the server speaks."""
    return isinstance(problem, ErrorResponse) and problem.code == -32022 and problem.data["supported"] == [VERSION]


@pytest.mark.parametrize("peer", [row for row in THEIRS if row[1] == "stdio"], ids=lambda row: row[0])
def test_a_server_is_met_however_long_it_starts(peer: Any, tmp_path: Path) -> None:
    _, _, command, versions = peer
    log = tmp_path / "log"
    slowly = ["sh", "-c", f"echo started >> {log}; sleep 2; exec {shlex.join(command())}"]
    # It finds both first messages: one that opens a session then is met in it, and one that refuses in the other era.
    opened = {OLDER} if peer[0] == "typescript 2, both" else versions
    # Far more time to connect than it takes: a busy machine is allowed for.
    assert meet(slowly, probe_timeout=0.5, connect_timeout=60) == [max(opened), "42"]
    # The probe stops the oldest, and it is started again.
    assert log.read_text().count("started") == (2 if versions == {"2024-11-05"} else 1)
