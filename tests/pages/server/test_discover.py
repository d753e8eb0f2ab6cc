"""server/discover: what a server says of itself to whoever asks, in both roles."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref import Server
from mcp_ref.pages.basic.versioning import SERVER_INFO
from mcp_ref.pages.server.utilities.caching import CacheHint
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS
from tests.pages.server.alone import MODERN, ask, meta
from tests.support.wire import opened, to_server

NEWEST_FIRST = list(reversed(REVISIONS))


def discovered(server: Server, **options: Any) -> Any:
    return ask(server, "server/discover", **options)


def test_a_server_that_has_nothing_says_so() -> None:
    assert discovered(Server("bare", "2")) == {
        "resultType": "complete",
        "supportedVersions": NEWEST_FIRST,
        "capabilities": {"logging": {}},
        "ttlMs": 0,
        "cacheScope": "private",
        "_meta": {SERVER_INFO: {"name": "bare", "version": "2"}},
    }


def test_every_version_that_is_spoken_is_named_the_newest_first() -> None:
    server = Server("s", revisions=["2026-07-28", "2025-03-26", "2025-11-25"])
    assert discovered(server)["supportedVersions"] == ["2026-07-28", "2025-11-25", "2025-03-26"]
    assert discovered(Server("s", revisions=[MODERN]))["supportedVersions"] == [MODERN]


def test_what_is_registered_is_declared_and_what_comes_later_too() -> None:
    server = Server("s", experimental={"x": {}}, extensions={"com.example/audit": {"level": 2}})
    always = {"logging": {}, "experimental": {"x": {}}, "extensions": {"com.example/audit": {"level": 2}}}
    server.tool("t")(lambda: "")
    assert discovered(server)["capabilities"] == {**always, "tools": {"listChanged": True}}
    server.prompt("p")(lambda: "")
    assert discovered(server)["capabilities"]["prompts"] == {"listChanged": True}


def test_who_the_server_is_stands_in_meta_alone_and_its_instructions_and_hints_beside_it() -> None:
    more: Any = {"title": "S", "websiteUrl": "https://s.example"}
    cache: Any = {"server/discover": CacheHint(3600, "public")}
    result = discovered(Server("s", "3", info=more, instructions="first list", cache=cache))
    assert result["_meta"][SERVER_INFO] == {"name": "s", "version": "3", **more}
    assert "serverInfo" not in result
    assert result["instructions"] == "first list"
    assert (result["ttlMs"], result["cacheScope"]) == (3_600_000, "public")


@pytest.mark.parametrize("revision", [row.name for row in SESSION_REVISIONS])
def test_a_server_of_the_session_era_alone_answers_no_probe_with_a_modern_error(revision: str) -> None:
    server = Server("s", revisions=[revision])
    assert server.stateless is None
    with to_server(server) as wire:
        assert wire.request(1, "server/discover", {"_meta": meta()})["error"]["code"] not in (-32020, -32021, -32022)
    with opened(server, revision) as wire:
        assert wire.request(2, "server/discover", {"_meta": meta()})["error"]["code"] == -32601
