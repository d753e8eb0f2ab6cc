"""Servers that print between their messages: the client goes on, and sends nothing back."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from mcp_ref import Client, text
from tests.eras import discovered
from tests.support.wire import PATIENCE

PRINTS = """
import json, sys
extra, begin = 0, "\\ufeff"
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "tools/call":
        for number in range(2_500):
            print('{"level": "info", "id": %d}' % number, '[INFO] read ' + line.strip(), sep="\\n")
        result = {"content": [{"type": "text", "text": str(extra)}], "resultType": "complete"}
    elif message.get("method") == "server/discover":
        result = json.loads(sys.argv[1])
    else:
        extra += 1
        continue
    print(begin + json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    begin = ""
"""


def test_a_server_over_stdio_may_print_as_much_as_it_likes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with Client([sys.executable, "-c", PRINTS, json.dumps(discovered({"tools": {}}))], timeout=PATIENCE) as client:
        assert [client.call_tool("t")["content"] for _ in range(2)] == [[text("0")]] * 2
    assert ["ignored what the server sent" in each.message for each in caplog.records] == [True]
