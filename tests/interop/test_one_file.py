"""The protocol in one file, `examples/00_mcp_in_one_file.py`, against mcp_ref and the official SDKs, in both roles."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from mcp_ref import Client, ErrorResponse
from tests.interop import programs
from tests.interop.programs import BOTH_ERAS, OLD_SDK, TYPESCRIPT_2
from tests.interop.talk import Drivers, Theirs

PATH = programs.ROOT / "examples/00_mcp_in_one_file.py"
SERVER = [sys.executable, str(PATH), "serve"]
SESSION, STATELESS = "2025-11-25", "2026-07-28"

both_eras = pytest.mark.parametrize("version", [SESSION, STATELESS])


@pytest.fixture(scope="module")
def one_file() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mcp_in_one_file", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    # A server that starts slowly must not be taken for one of the session era.
    module.PROBE_TIMEOUT = 60
    return module


# -- its server


def test_our_client_takes_its_server_for_one_of_the_stateless_era() -> None:
    with Client(SERVER) as client:
        assert (str(client.revision), client.server_info["name"]) == (STATELESS, "calculator")


@both_eras
def test_our_client_lists_and_calls_its_tools(version: str) -> None:
    with Client(SERVER, revision=version) as client:
        assert [tool["name"] for tool in client.list_tools()] == ["add", "divide"]
        assert client.call_tool("add", {"a": 2})["content"] == [{"type": "text", "text": "3"}]
        assert client.call_tool("divide", {"a": 1, "b": 4})["content"] == [{"type": "text", "text": "0.25"}]
        for arguments in (
            {"a": 1, "b": 0},
            {"a": "two", "b": 1},
            {"a": True, "b": 1},
            {"a": 1},
            {"a": 1, "b": 2, "c": 3},
        ):
            assert client.call_tool("divide", arguments)["isError"] is True
        with pytest.raises(ErrorResponse) as unknown:
            client.call_tool("teleport", {})
        assert unknown.value.code == -32602


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A function that sends a line to its server and gives the answer; None sends nothing more, and gives the code."""
    with subprocess.Popen(SERVER, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        sends, answers = process.stdin, process.stdout

        def ask(message: Any) -> Any:
            line = message if isinstance(message, bytes) else json.dumps(message).encode()
            sends.write(line + b"\n")
            sends.flush()
            return json.loads(answers.readline())

        yield ask
        sends.close()
        assert process.wait(timeout=30) == 0


def asking(method: str, params: Any = None, **more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}} | more


def declaring(**keys: Any) -> dict[str, Any]:
    return {"_meta": {f"io.modelcontextprotocol/{name}": value for name, value in keys.items()}}


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"nonsense", -32700),
        (b"[" * 100_000, -32700),
        (asking("ping", jsonrpc="1.0"), -32600),
        (asking("ping", id=None), -32600),
        (asking("ping", id=True), -32600),
        ({"jsonrpc": "2.0", "id": 7, "method": "ping", "params": []}, -32600),
        (asking("tools/list"), -32600),
        (asking("tools/list", declaring(protocolVersion=STATELESS)), -32602),
        (asking("server/discover", declaring(protocolVersion="2030-01-01", clientCapabilities={})), -32022),
        (asking("prompts/list", declaring(protocolVersion=STATELESS, clientCapabilities={})), -32601),
        (asking("tools/call", declaring(protocolVersion=STATELESS, clientCapabilities={})), -32602),
    ],
    ids=lambda value: str(value)[:60],
)
def test_its_server_refuses_what_is_wrong_and_goes_on(server: Any, message: Any, code: int) -> None:
    refusal = server(message)
    assert refusal["error"]["code"] == code
    if code == -32022:
        assert refusal["error"]["data"] == {"supported": [STATELESS, SESSION], "requested": "2030-01-01"}
    assert server(asking("ping")) == {"jsonrpc": "2.0", "id": 7, "result": {}}


def test_its_server_answers_no_notification_and_no_response(server: Any) -> None:
    for silent in (
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 3, "result": {}},
    ):
        both = json.dumps(silent).encode() + b"\n" + json.dumps(asking("ping")).encode()
        assert server(both)["id"] == 7


# Old clients ask for their revision, are offered another one, and leave.
@pytest.mark.parametrize("peer", [BOTH_ERAS, TYPESCRIPT_2])
def test_clients_of_the_sdks_call_its_tools_in_both_eras(peer: str, drivers: Drivers) -> None:
    for mode, agreed in (("auto", STATELESS), ("legacy", SESSION)):
        with Theirs(drivers.of(peer), SERVER, mode) as talk:
            assert (str(talk.revision), talk.say("add", {"a": 2, "b": 40})) == (agreed, "42")


# -- its client


def called(one_file: ModuleType, command: list[str], version: str) -> tuple[str, str]:
    with one_file.Client(command, version) as client:
        assert "add" in {tool["name"] for tool in client.list_tools()}
        with pytest.raises(one_file.RpcError, match="ool"):
            client.call_tool("no such tool", {})
        return client.version, client.call_tool("add", {"a": 2, "b": 40})["content"][0]["text"]


@pytest.mark.parametrize(
    ("known", "asked", "spoken"),
    [([], SESSION, SESSION), ([], STATELESS, STATELESS), ([SESSION], STATELESS, SESSION)],
)
def test_its_client_calls_the_tools_of_our_server_in_the_era_that_it_finds(
    one_file: ModuleType, known: list[str], asked: str, spoken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(programs.ROOT))
    assert called(one_file, programs.our_server(*known), asked) == (spoken, "42")


def old_server(error: Any) -> list[str]:
    """The command of a server that answers `initialize`, and anything else with this error; None: with nothing."""
    script = """
import json, sys
for line in sys.stdin:
    message, error = json.loads(line), json.loads(sys.argv[1])
    result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    outcome = {"result": result} if message["method"] == "initialize" else {"error": error} if error else None
    if "id" in message and outcome:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome}), flush=True)
"""
    return [sys.executable, "-c", script, json.dumps(error)]


OLDER, NEWER = {"supported": [STATELESS, SESSION]}, {"supported": ["2027-01-01"]}


@pytest.mark.parametrize(
    ("code", "data", "goes_back"),
    [
        (-32601, None, True),
        (-32602, {"supported": []}, True),
        (-32022, OLDER, True),
        (-32022, NEWER, False),
        (-32021, {"requiredCapabilities": {"sampling": {}}}, False),
        (-32020, None, False),
    ],
)
def test_its_client_takes_no_error_of_the_stateless_era_for_one_of_the_session_era(
    one_file: ModuleType, code: int, data: Any, goes_back: bool
) -> None:
    error = {"code": code, "message": "no"} | ({} if data is None else {"data": data})
    sent: list[str] = []
    command, note = old_server(error), lambda way, message: sent.append(message.get("method"))
    if goes_back:
        with one_file.Client(command, STATELESS, note) as client:
            assert client.version == SESSION
    else:
        with pytest.raises(one_file.RpcError, match=str(code)):
            one_file.Client(command, STATELESS, note)
    assert ("initialize" in sent) == goes_back


def test_its_client_leaves_a_server_that_speaks_neither_revision(
    one_file: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(programs.ROOT))
    with pytest.raises(ConnectionError, match="2024-11-05"):
        one_file.Client(programs.our_server("2024-11-05"))


def test_its_client_says_when_a_server_is_gone(one_file: ModuleType) -> None:
    with pytest.raises(ConnectionError, match="closed its output"):
        one_file.Client([sys.executable, "-c", "input()"])


def test_its_client_gives_a_request_up_that_takes_too_long(one_file: ModuleType) -> None:
    sent: list[Any] = []
    with one_file.Client(old_server(None), SESSION, lambda way, message: sent.append(message)) as client:
        with pytest.raises(TimeoutError, match="no answer to tools/list"):
            client.request("tools/list", timeout=0.05)
    assert sent[-1]["method"] == "notifications/cancelled"
    assert sent[-1]["params"]["requestId"] == sent[-2]["id"]


@pytest.mark.parametrize(("peer", "version"), [(BOTH_ERAS, STATELESS), (BOTH_ERAS, SESSION), (TYPESCRIPT_2, STATELESS)])
def test_its_client_calls_the_tools_of_servers_of_the_sdks(one_file: ModuleType, peer: str, version: str) -> None:
    assert called(one_file, programs.their_server(peer), version) == (version, "42")


def test_its_client_is_refused_by_an_sdk_that_is_too_old(one_file: ModuleType) -> None:
    with pytest.raises((ConnectionError, one_file.RpcError)):
        one_file.Client(programs.their_server(OLD_SDK), SESSION)
