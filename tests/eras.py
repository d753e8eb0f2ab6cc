"""Peers made by hand, in every revision of both eras: as tests/support/wire.py has them, and as the other era would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from mcp_ref import Client, Server
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.transports.memory import pair
from mcp_ref.pages.basic.versioning import CLIENT_CAPABILITIES, CLIENT_INFO, PROTOCOL_VERSION, SERVER_INFO
from mcp_ref.revisions import find_revision
from tests.support import wire as by_hand
from tests.support.wire import PATIENCE, Wire, connecting, opened, to_client

MODERN = "2026-07-28"


class Alone(Wire):
    """A wire whose requests each say what they are."""

    meta: dict[str, Any]

    def send(self, message: Any) -> None:
        if isinstance(message, dict) and "method" in message and "id" in message:
            params = message.get("params") or {}
            meta = params.get("_meta", {})
            if isinstance(meta, dict):
                message = {**message, "params": {**params, "_meta": {**self.meta, **meta}}}
        super().send(message)


def envelope(capabilities: Any = None, version: str = MODERN) -> dict[str, Any]:
    """Return what a request says of itself."""
    return {PROTOCOL_VERSION: version, CLIENT_INFO: by_hand.CLIENT_INFO, CLIENT_CAPABILITIES: capabilities or {}}


def hearing(client: Client, **what: Any) -> AbstractContextManager[Any]:
    """To be told of changes: unasked in the session era, by a subscription in the other."""
    return client.listen(**what) if client.revision.era == "stateless" else nullcontext()


def plain(result: Any) -> Any:
    """A result without what the stateless era puts into each."""
    meta = {key: value for key, value in (result.get("_meta") or {}).items() if key != SERVER_INFO}
    rest = {key: value for key, value in result.items() if key not in ("resultType", "ttlMs", "cacheScope", "_meta")}
    return {**rest, **({"_meta": meta} if meta else {})}


@contextmanager
def open_server(server: Server, revision: str, capabilities: Any = None) -> Iterator[Wire]:
    """A wire to a server; the test is its client. `opening` is what the server has said of itself."""
    if find_revision(revision).era == "session":
        with opened(server, revision, capabilities) as wire:
            yield wire
        return
    ours, theirs = pair()
    session = server.connect(theirs)
    alone = Alone(ours)
    alone.meta = envelope(capabilities, revision)
    try:
        alone.opening = alone.request("open", "server/discover")["result"]  # type: ignore[attr-defined]
        yield alone
    finally:
        ours.close(Deadline(PATIENCE))
        session.close(PATIENCE)


@contextmanager
def open_client(revision: str, capabilities: Any = None, **options: Any) -> Iterator[tuple[Client, Wire]]:
    """A connected client, and a wire to it; the test is its server."""
    if find_revision(revision).era == "session":
        with to_client(revision, capabilities, **options) as pair_of_them:
            yield pair_of_them
        return
    with connecting(revision=revision, **options) as (client, wire, opening):
        wire.answer(wire.receive()["id"], discovered(capabilities, revision))
        assert (outcome := opening.outcome()) is client, outcome
        yield client, wire


def discovered(capabilities: Any = None, *versions: str) -> dict[str, Any]:
    """Return what a server answers to `server/discover`."""
    return {
        "supportedVersions": list(versions or (MODERN,)),
        "capabilities": capabilities or {},
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {SERVER_INFO: by_hand.SERVER_INFO},
    }
