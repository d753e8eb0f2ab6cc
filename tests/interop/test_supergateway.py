"""supergateway between our client and a server: it shows a server over stdio on HTTP, and one on HTTP over stdio.

It speaks the session era alone, and in its second direction its one connection is spoiled by the probe.
"""

from __future__ import annotations

import shlex

import pytest

from mcp_ref import Client
from tests.conftest import PROBE_TIMEOUT
from tests.interop import programs
from tests.interop.programs import NEW_SDK, OLD_SDK, OURS, Pair, Served

pytestmark = pytest.mark.timeout(300)


def gateway(*arguments: str) -> list[str]:
    return [*programs.node("supergateway", "supergateway"), *arguments]


OVER_HTTP = {
    "sse": (["--outputTransport", "sse"], "/sse", "2024-11-05"),
    "http without sessions": (["--outputTransport", "streamableHttp"], "/mcp", "2026-07-28"),
    "http with sessions": (["--outputTransport", "streamableHttp", "--stateful"], "/mcp", "2026-07-28"),
}


def call(client: Client) -> str:
    return client.call_tool("add", {"a": 2, "b": 40})["content"][0]["text"]  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("way", "era"), [*((way, "ours") for way in OVER_HTTP), ("sse", "old"), ("http with sessions", "old")]
)
def test_a_server_over_stdio_is_reached_on_http_and_sse(way: str, era: str) -> None:
    """An old one over Streamable HTTP as well, which is younger than the revision that it answers."""
    more, path, expected = OVER_HTTP[way]
    program = programs.our_server() if era == "ours" else programs.their_server(OLD_SDK)
    port = programs.free_port()
    command = gateway("--stdio", shlex.join(program), "--port", str(port), *more)
    with Served(command, announced="[supergateway] Listening", url=f"http://127.0.0.1:{port}{path}") as running:
        with Client(running.url, connect_timeout=30) as client:
            assert (str(client.revision), call(client)) == (expected if era == "ours" else "2024-11-05", "42")


@pytest.mark.parametrize(("way", "flag"), [("http", "--streamableHttp"), ("sse", "--sse")])
def test_a_server_on_http_is_reached_over_stdio_though_the_probe_spoils_the_first_connection(
    way: str, flag: str
) -> None:
    with programs.serving(Pair(NEW_SDK, OURS, way)) as (url,):
        with Client(gateway(flag, url), probe_timeout=PROBE_TIMEOUT, connect_timeout=30) as client:
            assert str(client.revision) == {"http": "2025-11-25", "sse": "2024-11-05"}[way]
            assert call(client) == "42"
