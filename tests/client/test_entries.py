"""Configuration files: what is read, and what is said of one that is wrong."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Host
from mcp_ref.client.entries import MAX_ENV_FILE, Entry, dangers, entry_of, read_entries
from mcp_ref.client.targets import Command, Url


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "swordfish")
    monkeypatch.setenv("PLACE", "here")
    monkeypatch.delenv("MISS", raising=False)


def one(given: Any) -> Entry:
    return read_entries({"mcpServers": {"a": given}})["a"]


def test_reads_comments_trailing_commas_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    text = """\ufeff{ // a comment with a " in it
      "servers": { /* and
        another */
        "far": {"type": "http", "url": "https://x/mcp//not a comment", "headers": {"A": "Bearer ${TOKEN}"},},
        "show": {"command": "python", "args": ["-c", "/* kept */, ]"], "env": {"KEY": "${MISS:-text}"}, "cwd": "/",},
      },
    }"""
    path.write_text(text, "utf-8")
    found = read_entries(path)
    assert found["far"].target == Url("https://x/mcp//not a comment", {"A": "Bearer swordfish"})
    assert found["show"].target == Command(["python", "-c", "/* kept */, ]"], {"KEY": "text"}, "/", inherit=[])
    assert entry_of(path, "show") == found["show"]


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "1", '{"mcpServers": 1}', "{}", '{"mcpServers": {}, "servers": {}}', "[" * 100_000,
     '{"mcpServers": {"a": {}, "a": {}}}'],
)  # fmt: skip
def test_a_file_that_cannot_be_read_as_a_whole_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(text, "utf-8")
    with pytest.raises(ValueError, match="wrong.json"):
        read_entries(path)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (1, "an entry must be an object"),
        ({}, "a command or a url"),
        ({"command": "x", "url": "https://x"}, "must have either a command or a url"),
        ({"command": "x", "type": "http"}, "type must fit"),
        ({"url": "https://x", "type": []}, "type must fit"),
        ({"command": 1}, "command must be a string"),
        ({"command": "python server.py"}, "its arguments belong in args"),
        ({"command": "x", "args": "y"}, "args must be a list"),
        ({"command": "x", "args": [1]}, "args must be a string"),
        ({"command": "x", "env": ["B"]}, "env must be an object"),
        ({"command": "x", "env": {"B": "secret ${MISS}"}}, "env.B needs the variable MISS, which is not set"),
        ({"command": "x", "args": ["${input:key}"]}, "args has ${input:key}, which is not a variable"),
        ({"command": "x", "envFile": "/no/such/file"}, "envFile must be a file of at most"),
        ({"command": "x", "timeoutMs": "soon"}, "timeoutMs must be a number"),
        ({"command": "x", "startTimeoutMs": True}, "startTimeoutMs must be a number"),
        ({"command": "x", "revision": "2020-01-01"}, "revision must be one"),
        ({"command": "x", "tools": {"allow": "all"}}, "tools.allow must be a list"),
        ({"command": "x", "disabled": "secret"}, "disabled must be true or false"),
        ({"serverUrl": "ftp://secret"}, "serverUrl must begin with http:// or https://"),
    ],
)
def test_a_wrong_entry_disables_itself_alone_and_says_no_value(given: Any, problem: str) -> None:
    found = read_entries({"servers": {"wrong": given, "right": {"command": "x"}}})
    assert problem in str(found["wrong"].problem) and "secret" not in str(found["wrong"].problem)
    assert found["wrong"].target is None
    assert found["right"].problem is None and found["right"].target == Command(["x"], {}, inherit=[])


def test_all_that_is_wrong_with_an_entry_is_said_at_once() -> None:
    wrong = {"command": "x", "args": [1], "env": {"A": "${MISS}"}, "timeoutMs": 0}
    problem = str(read_entries({"servers": {"wrong": wrong}})["wrong"].problem)
    assert problem.count(";") == 2 and "; env.A needs the variable MISS" in problem


def test_a_name_is_short_and_plain_and_differs_from_others_in_more_than_case() -> None:
    for name in ("", "a/b", "a\nb", "a\u202eb", "x" * 65):
        assert "a name has" in str(read_entries({"servers": {name: {"command": "x"}}})[name].problem)
    found = read_entries({"servers": {"Files": {"command": "x"}, "files": {"command": "y"}, "z": {"command": "z"}}})
    assert [entry.problem is None for entry in found.values()] == [False, False, True]


def test_approvals_of_the_file_and_unknown_members_are_warnings() -> None:
    found = one({"command": "x", "alwaysAllow": ["*"], "trust": True, "timeout": 3, "gallery": True})
    assert found.problem is None and found.allow == ("*",)
    assert [warning.split()[0] for warning in found.warnings] == ["alwaysAllow", "trust", "timeout", "not"]


def test_reads_what_belongs_to_one_server() -> None:
    waits = {"timeoutMs": 1500, "startTimeoutMs": 200}
    tools = {"allow": ["read_*"], "deny": ["write_*"]}
    given = {"command": "x", "revision": ["2025-11-25"], "disabled": True, **waits, "tools": tools, "inheritEnv": ["X"]}
    found = one({**given, "roots": ["/${env:PLACE}"]})
    assert found[4:11] == (True, ["2025-11-25"], 1.5, 0.2, ("/here",), ("read_*",), ("write_*",))
    assert found.target.inherit == ["X"]


def test_a_server_that_is_switched_off_either_way_is_disabled() -> None:
    off: list[Any] = [{"disabled": True}, {"enabled": False}, {"enabled": True, "disabled": True}]
    on: list[Any] = [{}, {"disabled": False}, {"enabled": True}]
    for given in (*off, *on):
        found = one({"command": "x", **given})
        assert (found.disabled, found.problem, found.warnings) == (given in off, None, ())


def test_the_scheme_of_a_url_may_be_written_in_any_case() -> None:
    assert one({"url": "HTTPS://example.com/mcp"}).target == Url("HTTPS://example.com/mcp", {})
    assert "it" not in dangers({"url": "HTTPS://x"}) and not dangers({"url": "HTTP://LOCALHOST:1/mcp"})
    assert dangers({"url": "HTTP://far.example"}) == ["the connection is not encrypted"]


def test_an_env_file_comes_before_env(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text("# comment\nexport A = 'a b'\n\nB=b=b\nC=\"c\"\n", "utf-8")
    found = one({"command": "x", "envFile": str(path), "env": {"C": "d"}})
    assert found.target.env == {"A": "a b", "B": "b=b", "C": "d"}
    path.write_text("nonsense", "utf-8")
    assert "line 1 is not NAME=value" in str(one({"command": "x", "envFile": str(path)}).problem)


def test_an_env_file_that_would_keep_its_reader_waiting_is_refused(tmp_path: Path) -> None:
    pipe, large, small = (tmp_path / name for name in ("pipe", "large", "small"))
    os.mkfifo(pipe)
    large.write_bytes(b"A=" + b"x" * MAX_ENV_FILE)
    small.write_bytes(b"A=" + b"x" * (MAX_ENV_FILE - 2))
    for path in (pipe, large, "/dev/zero"):
        assert "envFile must be a file of at most" in str(one({"command": "x", "envFile": str(path)}).problem)
    assert one({"command": "x", "envFile": str(small)}).problem is None


def test_what_is_shown_has_the_whole_command_and_no_secret(tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text("LATER_KEY=tuna\nDB_PASSWORD=herring", "utf-8")
    env = {"API_KEY": "${TOKEN}", "PLACE": "${PLACE}", "OLD_TOKEN": "swordfish", "NODE_OPTIONS": "--require evil"}
    found = one({"command": "x", "args": ["${PLACE}", "${TOKEN}", "y" * 300], "env": env, "envFile": str(path)})
    assert found.target.argv == ["x", "here", "swordfish", "y" * 300]
    assert found.shown is not None
    assert found.shown["command"] == ["x", "here", "${TOKEN}", "y" * 300] and found.shown["folder"] == os.getcwd()
    shown = json.dumps(found.shown)
    assert "swordfish" not in shown and "herring" not in shown and "--require evil" in shown
    headers = {"Authorization": "Bearer swordfish"}
    shown = json.dumps(one({"url": "https://me:swordfish@x/mcp?token=swordfish&a=b", "headers": headers}).shown)
    assert "swordfish" not in shown and "a=b" in shown


@pytest.mark.parametrize(
    "given",
    [
        {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/tmp"]},
        {"command": "uvx", "args": ["mcp-server-git", "--repository", "path/to/git/repo"], "alwaysAllow": []},
        {"command": "docker", "args": ["run", "-i", "--rm", "mcp/memory"], "env": {"MEMORY": "1"}, "disabled": False},
        {"type": "stdio", "command": "npx", "args": ["-y", "server"], "envFile": "${PLACE:-x}", "dev": {"watch": "x"}},
        {"serverUrl": "https://example.com/sse"},
        {"httpUrl": "https://example.com/mcp", "headers": {"X": "y"}, "timeout": 30_000},
        {"type": "sse", "url": "https://example.com/sse"},
        {"type": "streamableHttp", "url": "https://example.com/mcp"},
    ],
)
def test_reads_what_the_documents_of_servers_print(
    given: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").write_text("A=b", "utf-8")
    assert one(given).problem is None


@pytest.mark.parametrize("given", [{}, [], [[]], [{}], 5, "x", "", None, True, {"a": {}}, {"allow": 5}, "\0"])
def test_no_value_of_a_member_spoils_another_entry_or_the_host(given: Any) -> None:
    members = ("command", "url", "args", "env", "cwd", "envFile", "headers", "type", "disabled", "enabled", "revision",
               "timeoutMs", "startTimeoutMs", "roots", "tools", "inheritEnv", "timeout", "trust", "else")  # fmt: skip
    wrong = {f"{kind}-{each}": {kind: "https://x", each: given} for kind in ("command", "url") for each in members}
    wrong["command-huge"] = {"command": "x", "timeoutMs": 10**400}
    with_all = Host({"servers": {**wrong, "right": {"command": "x"}}}, on_event=lambda *told: None)
    assert with_all.servers["right"].problem is None and with_all.servers["right"].state == "waiting"
    with_all.close()


MUCH = 30_000


@pytest.mark.parametrize(
    "text",
    ['"' + '\\"' * MUCH, '"\\"' * MUCH + "\\", "/*" * MUCH, "/**/" * MUCH + "/*", "," + " " * MUCH, ', "' * MUCH],
    ids=["string", "strings", "comment", "comments", "comma", "commas"],
)
def test_a_text_that_does_not_end_is_refused_at_once(text: str, tmp_path: Path) -> None:
    """The square of this length would take minutes."""
    path = tmp_path / "mcp.json"
    for before in ("", '{"servers": {}} '):
        path.write_text(before + text, "utf-8")
        began = time.process_time()
        with pytest.raises(ValueError, match="mcp.json"):
            read_entries(path)
        assert time.process_time() - began < 5


@pytest.mark.parametrize("text", ["${a:-" * MUCH, "}" + "${" * MUCH, "$" * MUCH])
def test_variables_that_are_not_closed_are_text_and_take_no_time(text: str, tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text(f"A=a{' ' * MUCH}b\n{' ' * MUCH}\n", "utf-8")
    began = time.process_time()
    found = one({"command": "x", "args": [text], "env": {"API_TOKEN": text}, "envFile": str(path)})
    assert time.process_time() - began < 5
    assert found.target.argv == ["x", text] and text[:100] not in str(found.shown["environment"])  # type: ignore[index]
