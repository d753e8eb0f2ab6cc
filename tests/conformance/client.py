"""The client that the official conformance suite runs: `python tests/conformance/client.py URL`.

The suite names the scenario in MCP_CONFORMANCE_SCENARIO and the revision in MCP_CONFORMANCE_PROTOCOL_VERSION.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from mcp_ref import Client


def accept_defaults(message: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Accept the form as it is: every field gets its default."""
    return {}


def initialize(client: Client) -> None:
    """Connecting is all: the server declares no tools, so there is nothing to list."""


def tools_call(client: Client) -> None:
    client.list_tools()
    client.call_tool("add_numbers", {"a": 5, "b": 3})


def call_first_tool(client: Client) -> None:
    tools = client.list_tools()
    client.call_tool(tools[0]["name"])


def elicitation_defaults(client: Client) -> None:
    client.list_tools()
    client.call_tool("test_client_elicitation_defaults")


def sse_retry(client: Client) -> None:
    client.call_tool("test_reconnection")


def preserve_schema(client: Client) -> None:
    tools = {tool["name"]: tool for tool in client.list_tools()}
    schema = tools["json_schema_2020_12_tool"]["inputSchema"]
    client.call_tool("json_schema_echo", {"schema": schema})


SCENARIOS: dict[str, Callable[[Client], None]] = {
    "initialize": initialize,
    "tools_call": tools_call,
    "elicitation-sep1034-client-defaults": elicitation_defaults,
    "sse-retry": sse_retry,
    "json-schema-2020-12-preservation": preserve_schema,
}


def main(url: str) -> None:
    scenario = SCENARIOS.get(os.environ["MCP_CONFORMANCE_SCENARIO"], call_first_tool)
    with Client(url, elicit=accept_defaults) as client:
        scenario(client)


if __name__ == "__main__":
    main(sys.argv[1])
