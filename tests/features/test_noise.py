"""Servers that print between their messages: the client goes on, and sends nothing back."""

from __future__ import annotations

import json
import logging
import sys
import textwrap

import pytest

from mcp_ref import Client, text
from tests.eras import discovered
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
    with Client([sys.executable, "-c", PRINTS, answer, "2500"], timeout=PATIENCE) as client:
        assert str(client.revision) == ("2026-07-28" if modern else "2025-11-25")
        assert [client.call_tool("t")["content"] for _ in range(2)] == [[text("0")]] * 2
    assert ["ignored what the server sent" in each.message for each in caplog.records] == [True]
