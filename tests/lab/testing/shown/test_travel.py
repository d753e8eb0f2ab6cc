"""Eight tests of a server, as its author writes them; tests/lab/testing/test_plugin.py runs them."""

import sys

import pytest
from travel import server

from mcp_ref import HttpStatusError, text_of


def test_forecast(mcp_client):
    assert text_of(mcp_client.call_tool("forecast", {"city": "Lisbon"})) == "Lisbon: sun for 3 days"


@pytest.mark.mcp(revisions="eras", over=["memory", "http"])
def test_forecast_everywhere(mcp_client):
    assert "sun" in text_of(mcp_client.call_tool("forecast", {"city": "Lisbon"}))


@pytest.mark.mcp(revisions="eras")
def test_booking_asks_for_the_seat(mcp_client, mcp_answers):
    mcp_answers.elicit({"seat": "aisle"})
    assert text_of(mcp_client.call_tool("book", {"city": "Lisbon"})) == "Lisbon: aisle"


@pytest.mark.mcp(server=[sys.executable, "travel.py"], timeout=30)
def test_as_a_process(mcp_client):
    assert [tool["name"] for tool in mcp_client.list_tools()] == ["forecast", "book"]


def test_two_clients(mcp_connect):
    one, other = mcp_connect(), mcp_connect(revision="2025-11-25")
    assert one.list_tools() == other.list_tools()


@pytest.mark.mcp_cassette("forecast.jsonl")
def test_without_the_server(mcp_client):
    assert text_of(mcp_client.call_tool("forecast", {"city": "Lisbon"})) == "Lisbon: sun for 3 days"


def test_contract(mcp_contract):
    mcp_contract("travel")


def test_only_for_users(mcp_connect, mcp_authorization):
    url, login = mcp_authorization(server)
    with pytest.raises(HttpStatusError):
        mcp_connect(url)
    assert mcp_connect(url, auth=login()).list_tools()
