"""A chat at a terminal, with the servers of a file, over any endpoint that speaks OpenAI's protocol.

    python examples/chat_host.py mcp.json --url http://127.0.0.1:8080/v1 --model small:0.1:0.9:0.3 [--key MY_KEY]

A model may have three numbers from 0 to 1: what it costs, how fast and how clever it is. The key is read from the
variable named, at each use. A line that begins with / is a command of `mcp-ref host`; anything else goes to the model.
"""

import argparse
import json
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import requests

from mcp_ref import Consent, Host, McpError, choose_model, reply
from mcp_ref.lab.cli.host import Console, rule_of, show

MAX_ROUNDS, MAX_ANSWER = 10, 16 << 20
STOPPED = {"stop": "endTurn", "length": "maxTokens", "tool_calls": "toolUse"}


class ModelFailed(McpError):
    """The model did not answer; the text says why, and holds no key."""


class Choice(NamedTuple):
    """A model, what it costs, how fast and how clever it is, each from 0 to 1."""

    name: str
    cost: float = 0.5
    speed: float = 0.5
    intelligence: float = 0.5


class OpenAIModel:
    """The model for `Host(model=...)`: `POST {url}/chat/completions`."""

    def __init__(self, url: str, choices: list[Choice], key: str | None = None, timeout: float = 120) -> None:
        self.url, self.choices, self.key, self.timeout = url.rstrip("/"), choices, key, timeout
        self._http = requests.Session()
        self._http.trust_env = False  # neither proxies nor passwords come from elsewhere

    def choose(self, preferences: Any) -> str:
        """By the hints in their order, then by the priorities, then the first."""
        wanted: Any = preferences or {}

        def fit(choice: Choice) -> float:
            cheap, fast, clever = (
                float(wanted.get(f"{each}Priority") or 0) for each in ("cost", "speed", "intelligence")
            )
            return cheap * (1 - choice.cost) + fast * choice.speed + clever * choice.intelligence

        return choose_model(wanted, [each.name for each in self.choices]) or max(self.choices, key=fit).name

    def complete(self, request: Any, name: str, cancelled: Callable[[], bool]) -> Any:
        """The next message, in the shape of sampling. Raises: ModelFailed."""
        body: dict[str, Any] = {"model": name, "messages": to_wire(request), "max_tokens": request["maxTokens"]}
        for ours, theirs in (("temperature", "temperature"), ("stopSequences", "stop")):
            if ours in request:
                body[theirs] = request[ours]
        if request.get("tools"):
            fields = {"name": "name", "description": "description", "inputSchema": "parameters"}
            body["tools"] = [{"type": "function", "function": {fields[key]: tool[key] for key in fields if key in tool}}
                             for tool in request["tools"]]  # fmt: skip
            body["tool_choice"] = request.get("toolChoice", {}).get("mode", "auto")
        headers = {"Authorization": f"Bearer {os.environ.get(self.key, '')}"} if self.key else {}
        try:
            with self._http.post(f"{self.url}/chat/completions", json=body, headers=headers, timeout=self.timeout,
                                 allow_redirects=False, stream=True) as response:  # fmt: skip
                text = response.raw.read(MAX_ANSWER + 1, decode_content=True)
                if response.status_code != 200 or len(text) > MAX_ANSWER:
                    wait = response.headers.get("Retry-After")
                    raise ModelFailed(f"HTTP {response.status_code}" + (f", try again in {wait} s" if wait else ""))
            return from_wire(json.loads(text), name, {tool["name"] for tool in request.get("tools", ())})
        except (requests.RequestException, OSError) as problem:
            raise ModelFailed(f"{type(problem).__name__} at {self.url}") from None
        except (ValueError, KeyError, TypeError, IndexError, AttributeError) as problem:
            raise ModelFailed(f"what it said cannot be read: {type(problem).__name__}") from None


def to_wire(request: Any) -> list[Any]:
    """The messages of a conversation; what this wire cannot carry is an error, and not dropped."""
    wire = [{"role": "system", "content": request["systemPrompt"]}] if request.get("systemPrompt") else []
    for message in request["messages"]:
        parts, calls = [], []
        for block in message["content"] if isinstance(message["content"], list) else [message["content"]]:
            kind, data = block["type"], block.get("data")
            if kind == "text":
                parts.append({"type": "text", "text": block["text"]})
            elif kind == "image":
                parts.append({"type": "image_url", "image_url": {"url": f"data:{block['mimeType']};base64,{data}"}})
            elif kind == "audio":
                format = block["mimeType"].partition("/")[2]
                parts.append({"type": "input_audio", "input_audio": {"data": data, "format": format}})
            elif kind == "tool_use":
                called = {"name": block["name"], "arguments": json.dumps(block["input"])}
                calls.append({"id": block["id"], "type": "function", "function": called})
            elif kind == "tool_result":
                said = "\n".join(each.get("text", f"[{each['type']}]") for each in block["content"])
                said = f"[failed] {said}" if block.get("isError") else said
                wire.append({"role": "tool", "tool_call_id": block["toolUseId"], "content": said})
            else:
                raise ModelFailed(f"this wire carries no {kind}")
        if parts or calls:
            wire.append({"role": message["role"], "content": parts, **({"tool_calls": calls} if calls else {})})
    return wire


def from_wire(answer: Any, name: str, offered: set[str]) -> Any:
    """The message in an answer. Raises: ModelFailed, and what an answer of another shape raises."""
    choice = answer["choices"][0]
    blocks: list[Any] = (
        [{"type": "text", "text": choice["message"]["content"]}] if choice["message"].get("content") else []
    )
    for call in choice["message"].get("tool_calls") or ():
        given = json.loads(call["function"]["arguments"] or "{}")
        if call["function"]["name"] not in offered or not isinstance(given, dict):
            raise ModelFailed(f"it wants the tool {call['function']['name']!r}, which was not offered so")
        blocks.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": given})
    if choice["finish_reason"] not in STOPPED:
        raise ModelFailed(f"it stopped for {choice['finish_reason']}")
    content = blocks if len(blocks) != 1 or blocks[0]["type"] != "text" else blocks[0]
    return reply(content, model=str(answer.get("model", name)), stop_reason=STOPPED[choice["finish_reason"]])


class Chat:
    """A conversation. What a tool gave is in it under the server's name; nothing else goes to a model."""

    def __init__(self, host: Host) -> None:
        self.host, self.messages = host, list[Any]()

    def say(self, text: str) -> None:
        """One turn: at most `MAX_ROUNDS` rounds of tools. A turn that fails, or is cancelled, is forgotten."""
        host, before = self.host, list(self.messages)
        self.messages += [*host.context, {"role": "user", "content": {"type": "text", "text": text}}]
        try:
            told = "\n".join(f"[server {name} says of itself] {said}" for name, said in host.instructions().items())
            for _ in range(MAX_ROUNDS):
                request = {
                    "messages": self.messages,
                    "systemPrompt": told,
                    "tools": host.for_model(),
                    "maxTokens": 2048,
                }
                answer = host.complete(request)
                self.messages.append({"role": "assistant", "content": answer["content"]})
                blocks: Any = answer["content"] if isinstance(answer["content"], list) else [answer["content"]]
                show(block["text"] for block in blocks if block["type"] == "text")
                uses = [block for block in blocks if block["type"] == "tool_use"]
                if not uses:
                    host.context.clear()
                    return
                show(f"calls {use['name']} {json.dumps(use['input'], ensure_ascii=False)}" for use in uses)
                results = [(use, host.call_for_model(use["name"], use["input"])) for use in uses]
                self.messages.append({"role": "user", "content": [
                    {"type": "tool_result", "toolUseId": use["id"], "content": result["content"],
                     "isError": result.get("isError", False)} for use, result in results]})  # fmt: skip
            raise ModelFailed(f"it wanted tools {MAX_ROUNDS} times, and said nothing")
        except BaseException:
            self.messages = before
            raise


def main() -> None:
    """Read the command line, and chat."""
    parser = argparse.ArgumentParser(description="A chat at a terminal, with the servers of a file.")
    parser.add_argument("config")
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", action="append", required=True, metavar="NAME[:COST:SPEED:INTELLIGENCE]")
    parser.add_argument("--key", metavar="VARIABLE")
    for word in ("allow", "ask", "deny", "root"):
        parser.add_argument(f"--{word}", action="append", default=[])
    args = parser.parse_args()
    choices = [Choice(name, *map(float, numbers)) for name, *numbers in (each.split(":") for each in args.model)]
    console = Console(lambda text: chat.say(text))
    rules = [rule_of(word, text) for word in ("allow", "ask", "deny") for text in getattr(args, word)]
    model, consent = OpenAIModel(args.url, choices, args.key), Consent(rules, ask=console.ask)
    host = Host(args.config, consent=consent, model=model, roots=args.root, on_event=console.hear)
    chat = Chat(host)
    try:
        console.run(host.start(wait=False))
    finally:
        host.close()


if __name__ == "__main__":
    main()
