"""Our server under npm `@modelcontextprotocol/inspector --cli`, with every method that it can call."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Context, Principal, Protection, Server
from tests.interop import programs
from tests.interop.programs import OURS, Pair

STATELESS = "2026-07-28"
SESSIONS = [Pair("inspector", OURS), Pair("inspector", OURS, "http", STATELESS)]
OPENINGS = [Pair("inspector", OURS), Pair("inspector", OURS, "http"), Pair("inspector", OURS, "sse")]


class Inspector:
    """The command line, pointed at our server.

    Args:
        target: the server's command, or its URL alone.
        era: which era it asks for: "legacy", "auto" or "modern".
    """

    def __init__(self, folder: Path, target: list[str], era: str) -> None:
        self._era = era
        self._argv = programs.node("@modelcontextprotocol/inspector", "mcp-inspector")
        self._config = folder / "config.json"
        # It keeps files of its own in the home directory.
        self._env = {**os.environ, "HOME": str(folder)}
        server: dict[str, Any] = {"command": target[0], "args": target[1:], "env": programs.OUR_PATH}
        if target[0].startswith("http://"):
            server = {"type": "sse" if target[0].endswith("/sse") else "streamable-http", "url": target[0]}
        self._config.write_text(json.dumps({"mcpServers": {"ours": server}}))

    def __call__(self, method: str, *options: str) -> Any:
        """The result of one method."""
        done = self._run(method, *options)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)["result"]

    def error(self, method: str, *options: str) -> Any:
        """The error that one method ends with."""
        done = self._run(method, *options)
        assert done.returncode != 0, done.stdout + done.stderr
        return json.loads(done.stderr)["error"]

    def _run(self, method: str, *options: str) -> subprocess.CompletedProcess[str]:
        target = ["--cli", "--config", str(self._config), "--server", "ours", "--format", "json", "--quiet"]
        argv = [*self._argv, *target, "--protocol-era", self._era, "--method", method, *options]
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=self._env, timeout=50)


@pytest.fixture(scope="module", params=SESSIONS, ids=str)
def session(request: pytest.FixtureRequest) -> Iterator[tuple[Pair, list[str]]]:
    pair: Pair = request.param
    with programs.serving(pair) as target:
        yield pair, target


@pytest.fixture
def inspect(session: tuple[Pair, list[str]], tmp_path: Path) -> Inspector:
    pair, target = session
    return Inspector(tmp_path, target, "modern" if pair.revision == STATELESS else "legacy")


@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("pair", OPENINGS, ids=str)
def test_the_newest_revision_of_both_is_agreed_on_in_the_era_that_it_asks_for(
    pair: Pair, era: str, tmp_path: Path
) -> None:
    with programs.serving(pair) as target:
        told = Inspector(tmp_path, target, era)("initialize")
    newest = era == "auto" and pair.way != "sse"
    assert told["protocolVersion"] == (STATELESS if newest else pair.agreed)
    assert (told["serverInfo"]["name"], told["instructions"]) == ("ours", "Offers everything.")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("tools/list --strict", '"add"'),  # that the schemas are portable
        ("tools/list", '"move_header"'),  # from the last page
        ("tools/call --tool-name add --tool-arg a=2 b=40", '"text": "42"'),
        ("tools/call --tool-name everything", '"type": "image"'),
        ("tools/call --tool-name weather --tool-arg city=Porto", '"structuredContent": {"city": "Porto"'),
        ("tools/call --tool-name whoami --metadata example.com/k=v", r"\"example.com/k\": \"v\""),
        ("resources/list", '"note://text"'),
        ("resources/templates/list", '"note://user/{name}"'),
        ("resources/read --uri note://text", '"text": "a note"'),
        ("resources/read --uri note://blob", '"blob": "iVBORw0KGgo="'),
        ("prompts/list", '"asking"'),
        ("prompts/get --prompt-name greet --prompt-args name=Ada tone=warm", "Greet Ada in a warm tone."),
    ],
)
def test_a_method_has_its_result(inspect: Inspector, command: str, told: str) -> None:
    assert told in json.dumps(inspect(*command.split()))


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("tools/call --tool-name fail", "tool_is_error"),
        ("tools/call --tool-name refuse", "not for you"),
        ("resources/read --uri note://nowhere", "Resource not found"),
        ("prompts/get --prompt-name greet", "Missing required argument"),
    ],
)
def test_a_method_that_fails_says_why(inspect: Inspector, command: str, told: str) -> None:
    assert told in json.dumps(inspect.error(*command.split()))


@pytest.mark.until("2025-11-25")
def test_logging_set_level_has_an_empty_result(inspect: Inspector) -> None:
    assert inspect("logging/setLevel", "--log-level", "warning") == {}


def test_many_calls_at_once(inspect: Inspector) -> None:
    load = ("--load", "--load-requests", "200", "--load-concurrency", "20")
    summary = inspect("tools/call", "--tool-name", "add", "--tool-arg", "a=1", *load)
    assert summary["requests"] == 200 and summary["errors"] == 0


def test_a_guarded_server_lets_it_in_with_a_token_in_its_header(tmp_path: Path) -> None:
    server = Server("guarded")

    @server.tool()
    def whoami(ctx: Context) -> str:
        return str(ctx.principal.subject)

    def verify(token: str) -> Principal | None:
        return Principal("ada", audience=frozenset({http.url})) if token == "right" else None

    protection = Protection(verify, authorization_servers=["https://auth.example"])
    with server.serve_http(authorization=protection) as http:
        inspect = Inspector(tmp_path, [http.url], "modern")
        config = json.loads(inspect._config.read_text())
        for token, status in (("right", 200), ("wrong", 401)):
            config["mcpServers"]["ours"]["headers"] = {"Authorization": f"Bearer {token}"}
            inspect._config.write_text(json.dumps(config))
            if status == 200:
                told = inspect("tools/call", "--tool-name", "whoami")
                assert told["content"] == [{"type": "text", "text": "ada"}]
            else:
                done = inspect._run("tools/call", "--tool-name", "whoami")
                # It reads the challenge, and would open a browser.
                assert done.returncode != 0 and json.loads(done.stderr)["error"]["code"] == "auth_required"
