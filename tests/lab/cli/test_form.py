"""A form at the terminal, for the command line and for whoever gives `terminal_form` to a client."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mcp_ref import Client, Context, Server, terminal_form
from mcp_ref.lab.cli.form import Form


@contextmanager
def typed(text: str) -> Iterator[None]:
    """Give what somebody types at standard input."""
    reading, writing = os.pipe()
    kept = os.dup(0)
    os.dup2(reading, 0)
    try:
        os.write(writing, text.encode())
        os.close(writing)
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)
        os.close(reading)


def asking() -> Server:
    server = Server("registry")

    @server.tool()
    def ask(ctx: Context) -> str:
        answer = ctx.elicit("Who?", {"name": {"type": "string"}})
        return f"{answer['action']} {answer.get('content')}"

    return server


def test_terminal_form_asks_the_user_of_a_client_and_says_which_server_asks(capfd: pytest.CaptureFixture[str]) -> None:
    with Client(asking(), elicit=terminal_form) as client, typed("ada\n"):
        assert client.call_tool("ask")["content"][0]["text"] == "accept {'name': 'ada'}"
    assert "registry asks: Who?" in capfd.readouterr().err


def test_the_end_of_the_input_is_a_cancelled_form() -> None:
    with Client(asking(), elicit=terminal_form) as client, typed(""):
        assert client.call_tool("ask")["content"][0]["text"].startswith("cancel")


def test_a_form_can_read_its_lines_elsewhere() -> None:
    with Client(asking(), elicit=Form({}, asking=True, read=lambda prompt: "yes")) as client:
        assert client.call_tool("ask")["content"][0]["text"] == "accept {'name': 'yes'}"
