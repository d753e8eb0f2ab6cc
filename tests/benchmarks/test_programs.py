"""The benchmarks run; what they measure is not judged here, because a busy machine would."""

from __future__ import annotations

import sys

import pytest

if not sys.platform.startswith("linux"):
    pytest.skip("the CPU that a server uses is read from /proc", allow_module_level=True)

from tests.benchmarks import http, stdio

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(autouse=True)
def sdk() -> None:
    """Looked for by these tests alone: to import it takes a second in each process that collects them."""
    pytest.importorskip("mcp.server.mcpserver", reason="the official SDK, mcp 2, is not installed")


def test_the_stdio_benchmark_prints_a_table_of_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    rows = stdio.main(["--calls", "40", "--rounds", "1", "--starts", "1"])
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == len(rows) + 1
    assert [line.split("  ")[0] for line in shown[1:]] == [row.figure for row in rows]


def test_the_http_benchmark_prints_a_table_of_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    rows = http.main(["--calls", "64", "--rounds", "1", "--sessions", "20"])
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == len(rows) + 1
    assert all(line.startswith(row.figure) for line, row in zip(shown[1:], rows, strict=True))
