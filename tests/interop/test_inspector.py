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
from tests.interop.programs import Pairing

STATELESS = "2026-07-28"
SESSIONS = [
    Pairing("inspector", None),
    Pairing("inspector", "2024-11-05"),
    Pairing("inspector", None, "http"),
    Pairing("inspector", STATELESS, "http"),
]
OPENINGS = [
    *SESSIONS[:3],
    Pairing("inspector", None, "sse"),
    Pairing("inspector", "2025-03-26"),
    Pairing("inspector", "2025-06-18"),
    Pairing("inspector", "2025-11-25"),
    Pairing("inspector", "2025-03-26", "http"),
    Pairing("inspector", "2025-06-18", "http"),
    Pairing("inspector", "2024-11-05", "sse"),
]


class Inspector:
    """The command line, pointed at our server.

    Args:
        target: the server's command, or its URL alone.
        revision: the one that is agreed on.
        era: which era it asks for: "legacy", "auto" or "modern".
    """

    def __init__(self, folder: Path, target: list[str], revision: str, era: str) -> None:
        self.revision, self._era = revision, era
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
def session(request: pytest.FixtureRequest) -> Iterator[tuple[Pairing, list[str]]]:
    pairing: Pairing = request.param
    with programs.we_serve(pairing.way, *pairing.revisions) as target:
        yield pairing, target


@pytest.fixture
def inspect(session: tuple[Pairing, list[str]], tmp_path: Path) -> Inspector:
    pairing, target = session
    return Inspector(tmp_path, target, pairing.agreed, "modern" if pairing.revision == STATELESS else "legacy")


@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("pairing", OPENINGS, ids=str)
def test_the_newest_revision_of_both_is_agreed_on_in_the_era_that_it_asks_for(
    pairing: Pairing, era: str, tmp_path: Path
) -> None:
    newest = era == "auto" and pairing.revision is None and pairing.way != "sse"
    agreed = STATELESS if newest else pairing.agreed
    with programs.we_serve(pairing.way, *pairing.revisions) as target:
        told = Inspector(tmp_path, target, agreed, era)("initialize")
    assert told["protocolVersion"] == agreed
    assert (told["serverInfo"]["name"], told["instructions"]) == ("ours", "Offers everything.")


def test_tools_list_whose_schemas_are_portable(inspect: Inspector) -> None:
    names = [tool["name"] for tool in inspect("tools/list", "--strict")["tools"]]
    assert len(names) == 33 and names[:2] == ["add", "weather"]


def test_tools_call(inspect: Inspector) -> None:
    given = ("--tool-name", "add", "--tool-arg", "a=2", "b=40")
    assert inspect("tools/call", *given)["content"] == [{"type": "text", "text": "42"}]
    weather = inspect("tools/call", "--tool-name", "weather", "--tool-args-json", '{"city": "Porto"}')
    structured = None if inspect.revision == "2024-11-05" else {"city": "Porto", "degrees": 21.5}
    assert weather.get("structuredContent") == structured


def test_tools_call_with_content_of_every_kind(inspect: Inspector) -> None:
    blocks = inspect("tools/call", "--tool-name", "everything")["content"]
    assert len(blocks) == 6 and blocks[1]["type"] == "image"


def test_tools_call_with_progress_and_log_messages(inspect: Inspector) -> None:
    assert "counted to 3" in str(inspect("tools/call", "--tool-name", "count", "--tool-arg", "to=3"))
    assert "shouted" in str(inspect("tools/call", "--tool-name", "shout"))


def test_tools_call_with_metadata(inspect: Inspector) -> None:
    told = inspect("tools/call", "--tool-name", "whoami", "--metadata", "example.com/k=v")
    assert json.loads(told["content"][0]["text"])["meta"]["example.com/k"] == "v"


def test_tools_call_of_one_that_fails(inspect: Inspector) -> None:
    assert inspect.error("tools/call", "--tool-name", "fail")["code"] == "tool_is_error"
    assert "not for you" in inspect.error("tools/call", "--tool-name", "refuse")["message"]


def test_resources_list(inspect: Inspector) -> None:
    uris = [resource["uri"] for resource in inspect("resources/list")["resources"]]
    assert len(uris) == 15 and uris[:2] == ["note://text", "note://blob"]
    (template,) = inspect("resources/templates/list")["resourceTemplates"]
    assert template["uriTemplate"] == "note://user/{name}"


@pytest.mark.parametrize(
    ("uri", "key", "value"),
    [
        ("note://text", "text", "a note"),
        ("note://blob", "blob", "iVBORw0KGgo="),
        ("note://user/x", "text", "note of x"),
    ],
)
def test_resources_read(inspect: Inspector, uri: str, key: str, value: str) -> None:
    (contents,) = inspect("resources/read", "--uri", uri)["contents"]
    assert (contents["uri"], contents[key]) == (uri, value)


def test_reading_an_unknown_resource_is_an_error(inspect: Inspector) -> None:
    assert "Resource not found" in inspect.error("resources/read", "--uri", "note://nowhere")["message"]


def test_prompts_list(inspect: Inspector) -> None:
    assert [prompt["name"] for prompt in inspect("prompts/list")["prompts"]] == ["greet", "talk", "asking"]


def test_prompts_get(inspect: Inspector) -> None:
    (message,) = inspect("prompts/get", "--prompt-name", "greet", "--prompt-args", "name=Ada", "tone=warm")["messages"]
    assert message["content"]["text"] == "Greet Ada in a warm tone."
    assert len(inspect("prompts/get", "--prompt-name", "talk")["messages"]) == 7
    assert "Missing required argument" in inspect.error("prompts/get", "--prompt-name", "greet")["message"]


@pytest.mark.until("2025-11-25")
def test_logging_set_level(inspect: Inspector) -> None:
    inspect("logging/setLevel", "--log-level", "warning")


def test_many_calls_at_once(inspect: Inspector) -> None:
    load = ("--load", "--load-requests", "200", "--load-concurrency", "20")
    summary = inspect("tools/call", "--tool-name", "add", "--tool-arg", "a=1", *load)
    assert summary["requests"] == 200 and summary["errors"] == 0


@pytest.mark.slow
def test_a_guarded_server_lets_it_in_with_a_token_in_its_header(tmp_path: Path) -> None:
    server = Server("guarded")

    @server.tool()
    def whoami(ctx: Context) -> str:
        return str(ctx.principal.subject)

    def verify(token: str) -> Principal | None:
        return Principal("ada", audience=frozenset({http.url})) if token == "right" else None

    protection = Protection(verify, authorization_servers=["https://auth.example"])
    with server.serve_http(authorization=protection) as http:
        inspect = Inspector(tmp_path, [http.url], STATELESS, "modern")
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
