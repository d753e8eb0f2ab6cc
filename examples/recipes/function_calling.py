"""A loop with a model's function calling: the tools of a server, offered to any model that speaks OpenAI's protocol.

Needs: a model at OPENAI_BASE_URL

    OPENAI_BASE_URL=http://127.0.0.1:4010/v1 python examples/recipes/function_calling.py
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import requests

from mcp_ref import Client, text_of

WEATHER = Path(__file__).parent.parent / "weather.py"


def answer(client: Client, question: str, model: str = "gpt-4o") -> str:
    tools = [
        {"type": "function", "function": {"name": tool["name"], "description": tool.get("description", ""),
                                          "parameters": tool["inputSchema"]}}
        for tool in client.list_tools()
    ]  # fmt: skip
    messages: list[dict[str, Any]] = [{"role": "user", "content": question}]
    headers = {"Authorization": f"Bearer {os.environ.get('OPENAI_API_KEY', 'none')}"}
    while True:
        asked = {"model": model, "messages": messages, "tools": tools}
        reply = requests.post(
            f"{os.environ['OPENAI_BASE_URL']}/chat/completions", json=asked, headers=headers, timeout=60
        )
        reply.raise_for_status()
        message = reply.json()["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            return str(message["content"])
        for call in message["tool_calls"]:
            # A tool that fails is a result too: the model reads why, and may try again.
            result = client.call_tool(call["function"]["name"], json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text_of(result)})


if __name__ == "__main__":
    with Client([sys.executable, str(WEATHER)]) as client:
        print(answer(client, "What is the weather in Lisbon?"))

# Output: It will be sunny.
