"""`mcp-ref` with a server that wants a token: `--token-env`, `--login`, `--login-store`."""

from __future__ import annotations

import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from mcp_ref.lab.cli import main
from tests.pages.basic.authorization.world import WAIT, World, answer

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with World() as world:
        threads: list[threading.Thread] = []

        def browse(url: str) -> None:
            threads.append(threading.Thread(target=lambda: requests.get(world.visit(url), timeout=WAIT)))
            threads[-1].start()

        monkeypatch.setattr("webbrowser.open", browse)
        yield world
        for thread in threads:
            thread.join(WAIT)


def call(world: World, *options: str) -> int:
    return main(["call", "t", "--revision", "2026-07-28", *options, "--", world.url])


def test_a_token_comes_from_the_environment(world: World, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "token-1")
    assert call(world, "--token-env", "MY_TOKEN") == 0
    assert world.visits == []
    # A token that is refused is final.
    monkeypatch.setenv("MY_TOKEN", "MARK")
    assert call(world, "--token-env", "MY_TOKEN", "--narrate") != 0
    said = capsys.readouterr()
    assert "401" in said.err and "MARK" not in said.err + said.out
    monkeypatch.setenv("MY_TOKEN", "")
    assert call(world, "--token-env", "MY_TOKEN") == 2
    assert "the environment has no MY_TOKEN" in capsys.readouterr().err


def test_a_login_says_where_and_is_over_with_the_command(world: World, capsys: Captured) -> None:
    assert call(world, "--login") == 0
    said = capsys.readouterr()
    assert "token-1" in said.out, "the tool tells the token, so that this test sees it"
    assert f"to log in, visit {world.issuer}/authorize?" in said.err
    assert call(world, "--login") == 0
    assert len(world.visits) == 2


def test_a_login_that_is_stored_serves_the_next_command(world: World, tmp_path: Path, capsys: Captured) -> None:
    for _ in range(2):
        assert call(world, "--login-store", str(tmp_path / "store")) == 0
    assert len(world.visits) == 1 and world.visits[0]["redirect_uri"].startswith("http://127.0.0.1:")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "store").iterdir()} == {0o600}
    (tmp_path / "open").mkdir(mode=0o755)
    assert call(world, "--login-store", str(tmp_path / "open")) == 2
    assert "0700" in capsys.readouterr().err


def test_no_escapes_of_a_server_reach_the_terminal(world: World, capsys: Captured) -> None:
    world.metadata |= {"issuer": f"{world.issuer}/\x1b[31m"}
    assert call(world, "--login") != 0
    world.metadata["issuer"] = world.issuer
    world.at["/register"] = answer({"error": "\x1b[2J", "error_description": "\x1b]0;title\x07\u202eevil"}, 400)
    assert call(world, "--login", "--narrate") != 0
    said = capsys.readouterr()
    assert "refused with HTTP status 400" in said.err and "another issuer" in said.err
    assert not {"\x1b", "\x07", "\u202e"} & set(said.out + said.err)


def test_a_login_is_told_step_by_step_and_without_secrets(world: World, capsys: Captured) -> None:
    world.challenge += ', scope="read"'
    world.token |= {"access_token": "MARK-token", "refresh_token": "MARK-refresh", "id_token": "MARK-id"}
    world.token |= {"expires_in": 600, "scope": "read"}
    world.valid, world.came_back = {"MARK-token"}, {"code": "MARK-code"}
    assert main(["tools", "--login", "--narrate", "--full", "--", world.url]) == 0
    said = capsys.readouterr()
    assert "MARK" not in said.err + said.out
    assert world.forms()[0]["code_verifier"] not in said.err
    told = [line.strip() for line in said.err.splitlines()]
    positions = [told.index(sentence) for sentence in (
        "the client has to authorize first",
        f"at {world.issuer}/.well-known/oauth-protected-resource/mcp",
        f"the server trusts the authorization server {world.issuer}",
        f"at {world.issuer}/.well-known/oauth-authorization-server",
        f'it is the authorization server "{world.issuer}"',
        'the client calls itself "mcp-ref"',
        'the client is known there as "client-of-127.0.0.1"',
        f"at {world.issuer}/authorize",
        "exchanges the code that the browser came back with for a token",
        'a token of type "Bearer", which lasts 600 s',
        'it grants the scopes "read"',
        'tools (0): nothing',
    )]  # fmt: skip
    assert positions == sorted(positions)
    assert "200 says" not in said.err
