"""The client that the official conformance suite runs: `python tests/conformance/client.py URL`.

The suite names the scenario in MCP_CONFORMANCE_SCENARIO. Which revision is spoken, and so which era, the client finds
out by itself. What a scenario wants to have said beside stands in MCP_CONFORMANCE_CONTEXT.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import requests

from mcp_ref import (
    SKILLS,
    Client,
    ClientCredentials,
    EnterpriseManaged,
    McpError,
    OAuth,
    Registered,
    SkillMismatch,
    WorkloadIdentity,
)
from mcp_ref.pages.client.sampling import reply


def accept(message: str, schema: dict[str, Any]) -> dict[str, Any]:
    """Accept the form: every field gets its default, and what has none and can be confirmed is confirmed."""
    fields = schema["properties"].items()
    return {name: True for name, field in fields if field["type"] == "boolean" and "default" not in field}


def answer(params: dict[str, Any]) -> Any:
    """Answer as a model would."""
    return reply("Paris", model="none")


def call_first_tool(client: Client) -> None:
    tools = client.list_tools()
    client.call_tool(tools[0]["name"])


def preserve_schema(client: Client) -> None:
    tools = {tool["name"]: tool for tool in client.list_tools()}
    schema = tools["json_schema_2020_12_tool"]["inputSchema"]
    client.call_tool("json_schema_echo", {"schema": schema})


def request_state(client: Client) -> None:
    client.list_tools()
    for name in ("echo_state", "unrelated", "no_state", "no_result_type"):
        client.call_tool(f"test_mrtr_{name}")


def standard_headers(client: Client) -> None:
    for tool in client.list_tools():
        client.call_tool(tool["name"], {})
    for resource in client.list_resources():
        client.read_resource(resource["uri"])
    for prompt in client.list_prompts():
        client.get_prompt(prompt["name"])


def custom_headers(client: Client) -> None:
    client.list_tools()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        client.call_tool(call["name"], call["arguments"])


def invalid_tool_headers(client: Client) -> None:
    for tool in client.list_tools():
        client.call_tool(tool["name"], {"region": "us-west1"})


def read_skills(client: Client) -> None:
    """Read every file of every skill, as far as all is what it should be."""
    for skill in client.list_skills():
        try:
            for each in skill["resources"]:
                client.read_skill(skill, each["uri"].removeprefix(skill["uri"].removesuffix("SKILL.md")))
        except SkillMismatch as mismatch:
            print(mismatch.reason, mismatch, file=sys.stderr)


def call(name: str, **arguments: Any) -> Callable[[Client], object]:
    """What a client does that calls one tool."""
    return lambda client: (client.list_tools(), client.call_tool(name, arguments))


SCENARIOS: dict[str, Callable[[Client], object]] = {
    "initialize": lambda client: None,  # the server declares no tools, so there is nothing to list
    "tools_call": call("add_numbers", a=5, b=3),
    "elicitation-sep1034-client-defaults": call("test_client_elicitation_defaults"),
    "sse-retry": lambda client: client.call_tool("test_reconnection"),
    "json-schema-2020-12-preservation": preserve_schema,
    "json-schema-ref-no-deref": lambda client: client.list_tools(),
    "request-metadata": lambda client: client.discover(cached=False),  # the server declares nothing
    "sep-2322-client-request-state": request_state,
    "http-standard-headers": standard_headers,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": invalid_tool_headers,
    "sep-2640-client-no-prefetch": lambda client: client.list_skills(),
    **{f"sep-2640-client-verify-{what}": read_skills for what in ("digest", "size", "frontmatter")},
}


def visit(url: str) -> str:
    """The user's browser: the authorization server of the suite consents at once, and sends it back."""
    return requests.get(url, allow_redirects=False, timeout=10).headers["Location"]


def authorization(scenario: str) -> Any:
    """Return what the client of a scenario authorizes its requests with."""
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    if scenario.startswith("auth/client-credentials"):
        key = given.get("private_key_pem")
        return ClientCredentials(Registered(given["client_id"], given.get("client_secret"), key=key))
    if scenario == "auth/enterprise-managed-authorization":
        return EnterpriseManaged(
            Registered(given["client_id"], given["client_secret"]),
            idp=Registered(given["idp_client_id"], issuer=given["idp_issuer"]),
            token_endpoint=given["idp_token_endpoint"],
            id_token=given["idp_id_token"],
        )
    if scenario == "auth/wif-jwt-bearer":
        return WorkloadIdentity(given["valid_jwt"])
    known = None
    if "client_id" in given:
        known = Registered(given["client_id"], given.get("client_secret"), issuer=given.get("issuer"))
    document = "https://conformance-test.local/client-metadata.json"
    bound = scenario.startswith("auth/dpop")
    return OAuth("conformance", client=known, document=document, visit=visit, dpop=bound)


def main(url: str, **options: Any) -> None:
    name = os.environ["MCP_CONFORMANCE_SCENARIO"]
    scenario = SCENARIOS.get(name, call_first_tool)
    auth = authorization(name) if name.startswith("auth/") else None
    with Client(url, auth=auth, elicit=accept, sample=answer, roots=["."], extensions=[SKILLS], **options) as client:
        scenario(client)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except McpError as problem:
        print(problem, file=sys.stderr)
        sys.exit(1)
