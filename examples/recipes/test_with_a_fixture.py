"""Tests of a server by pytest: a fixture gives a client that is connected to it, in this process and in each era.

Needs: pytest

    pytest examples/recipes/test_with_a_fixture.py
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_ref import Client, text_of

sys.path.insert(0, str(Path(__file__).parent.parent))
from weather import server


@pytest.fixture(params=["2025-11-25", "2026-07-28"])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with Client(server, revision=request.param, timeout=5) as connected:
        yield connected


def test_a_forecast_is_for_three_days(client: Client) -> None:
    assert text_of(client.call_tool("forecast", {"city": "Lisbon"})) == "Lisbon: sun for 3 days"


def test_a_day_is_a_number(client: Client) -> None:
    result = client.call_tool("forecast", {"city": "Lisbon", "days": "many"})
    assert result.get("isError") and "days: expected an integer" in text_of(result)


if __name__ == "__main__":
    options = ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", "-c", "/dev/null"]
    print("passed" if pytest.main([*options, __file__]) == 0 else "failed")

# Output: passed
