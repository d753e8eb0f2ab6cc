"""Servers that print between their messages: the client goes on, and sends nothing back."""

from __future__ import annotations

import json
import logging
import sys
import textwrap
from typing import Any

import pytest

from mcp_ref import Client, text
from tests.eras import discovered
from tests.pages.basic.transports.streamable_http.scripted import ScriptedServer, chunk, content, result, status, stream
from tests.support.wire import PATIENCE

PRINTS = textwrap.dedent(
    """
    import json, sys
    discovered, extra, lines = json.loads(sys.argv[1]), 0, int(sys.argv[2])
    initialized = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "s", "version": "1"}}
    begin = "\\ufeff"
    for line in sys.stdin:
        message = json.loads(line)
        method = message.get("method")
        if method == "tools/call":
            for number in range(lines):
                print('{"level": "info", "id": %d}' % number, '[INFO] read ' + line.strip(), sep="\\n")
            result = {"content": [{"type": "text", "text": str(extra)}], "resultType": "complete"}
        elif method == "server/discover":
            result = discovered
        elif method == "initialize":
            result = initialized
        else:
            extra += method != "notifications/initialized"
            continue
        said = {"result": result} if result else {"error": {"code": -32601, "message": "unknown"}}
        print(begin + json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)
        begin = ""
    """
)


@pytest.mark.parametrize("modern", [True, False])
def test_a_server_over_stdio_may_print_as_much_as_it_likes(modern: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    answer = json.dumps(discovered({"tools": {}}) if modern else None)
    with Client([sys.executable, "-c", PRINTS, answer, "25000"], timeout=PATIENCE) as client:
        assert str(client.revision) == ("2026-07-28" if modern else "2025-11-25")
        assert [client.call_tool("t")["content"] for _ in range(2)] == [[text("0")]] * 2
    assert ["ignored what the server sent" in each.message for each in caplog.records] == [True]


@pytest.mark.parametrize("modern", [True, False])
def test_over_http_nothing_is_posted_back(modern: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    noise = b"".join(b"data: " + each + b"\n\n" for each in (b'{"level": "info"}', b"[INFO] started", b"[5]", b"{"))

    def streamed(number: int) -> bytes:
        answer = json.dumps({"jsonrpc": "2.0", "id": number, "result": {"content": [], "resultType": "complete"}})
        return stream(chunk(noise + f"data: {answer}\n\n".encode()))

    initialized = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "s", "version": "1"},
    }
    first: list[Any] = (
        [content(result(**discovered({"tools": {}})))] if modern else [content(result(**initialized)), status(202)]
    )
    with ScriptedServer(post=[*first, streamed(2)]) as server:
        with Client(server.url, revision="2026-07-28" if modern else "2025-11-25", timeout=PATIENCE) as client:
            assert client.call_tool("t")["content"] == []
        posted = [each.json()["method"] for each in asked(server) if each.method == "POST"]
    assert posted == (["server/discover"] if modern else ["initialize", "notifications/initialized"]) + ["tools/call"]
    assert [each.message.partition(":")[0] for each in caplog.records] == ["ignored what the server sent"]


def asked(server: ScriptedServer) -> list[Any]:
    """Return what the server was asked so far."""
    return [server.asked.get() for _ in range(server.asked.qsize())]
