"""Shared by tests: what holds for all tests of the command line."""

from __future__ import annotations

import pytest

from mcp_ref.lab.cli import commands


@pytest.fixture(autouse=True)
def no_server_is_said_to_be_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "_SLOW", 60.0)
