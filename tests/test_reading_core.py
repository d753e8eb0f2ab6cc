"""The reading core: every function that one complete vertical runs stands in one of 21 files, or in kit/."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

CORE = {
    "mcp_ref/__init__.py": "the public names",
    "mcp_ref/errors.py": "who is at fault",
    "mcp_ref/revisions.py": "the five revisions: a line for each rule, a column for each revision",
    "mcp_ref/wire/messages.py": "JSON-RPC, as far as MCP uses it",
    "mcp_ref/wire/types.py": "what pages share: capabilities, identities, `_meta`, spelled as on the wire",
    "mcp_ref/wire/methods.py": "what a row for a method says",
    "mcp_ref/pages/basic/lifecycle.py": "a session opens: `initialize`, as a table of states",
    "mcp_ref/pages/basic/versioning.py": "the other era: what each request says of itself, and `server/discover`",
    "mcp_ref/wire/negotiated.py": "what two sides agreed on, and what each may therefore send",
    "mcp_ref/connection/connection.py": "the requests that we sent, and who wakes their callers",
    "mcp_ref/wire/served.py": "the requests that we got, and their answers",
    "mcp_ref/pages/basic/utilities.py": "ping, cancellation, progress",
    "mcp_ref/wire/transport.py": "the contract of a transport",
    "mcp_ref/pages/basic/transports/memory.py": "the least transport",
    "mcp_ref/pages/basic/transports/stdio.py": "lines on two pipes, and how a server is ended",
    "mcp_ref/pages/server/tools.py": "a whole page: types, rows, the server's half, the client's half",
    "mcp_ref/server/server.py": "a table of contents, and what is registered",
    "mcp_ref/server/session.py": "what a handler may do, and one client's conversation, or a request that stands alone",
    "mcp_ref/client/client.py": "the other table of contents",
    "mcp_ref/client/session.py": "a client's conversation, in either era, and the user's functions that answer it",
    "mcp_ref/client/connecting.py": "a conversation is opened: in which era, and by which way",
}
"""The files, in the order of reading."""

MAX_LINES = 6_000


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28", "unpinned"])
@pytest.mark.parametrize("transport", ["memory", "stdio"])
def test_every_function_that_runs_is_in_the_core(transport: str, revision: str) -> None:
    command = [sys.executable, "-m", "tests.reading_core", transport, revision]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, done.stderr
    ran = {f"mcp_ref/{file}: {name}" for file, name in json.loads(done.stdout)}
    outside = [each for each in sorted(ran) if each.split(":")[0] not in CORE and "/kit/" not in each]
    assert not outside, "\n".join(["not in the reading core:", *outside])


def test_it_is_21_files_and_short_enough_for_two_days() -> None:
    assert len(CORE) == 21
    assert sum(len((ROOT / file).read_text("utf-8").splitlines()) for file in CORE) <= MAX_LINES
