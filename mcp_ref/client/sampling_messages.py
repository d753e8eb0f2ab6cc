"""Messages of sampling: how tool uses and tool results must stand in a conversation.

Spec:      client/sampling#message-content-constraints (2025-11-25 ... 2026-07-28)
Upholds:   spec_notes/client/sampling.md, the rows on the content of messages
Reads:     basic/types
Not here:  the types of messages, asking and answering (client/sampling)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcp_ref.basic.types import block_type

__all__ = ["message_problem", "of_type"]


def _blocks(message: Mapping[str, Any]) -> list[Any]:
    content = message.get("content", [])
    return content if isinstance(content, list) else [content]


def of_type(message: Mapping[str, Any], kind: str) -> list[Any]:
    """The blocks of a message that are of one type, such as "tool_use"."""
    return [block for block in _blocks(message) if block_type(block) == kind]


def message_problem(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """What is wrong with the tool uses and tool results of a conversation, such as "messages[2]: ..."; None if nothing.

    Tool uses stand in assistant messages and results in user messages; a message with results holds nothing else; each
    tool use is answered in the very next message.

    Spec: client/sampling#message-content-constraints
    """
    asked: list[str] = []
    for index, message in enumerate(messages):
        problem = _mixed(message) or _unbalanced(asked, message)
        if problem is not None:
            return f"messages[{index}]: {problem}"
        asked = [str(use.get("id")) for use in of_type(message, "tool_use")]
    return f"tool result missing at the end for {', '.join(asked)}" if asked else None


def _mixed(message: Mapping[str, Any]) -> str | None:
    """Blocks that the role may not send, or that may not stand together."""
    results = of_type(message, "tool_result")
    if results and message.get("role") != "user":
        return "a tool result belongs in a user message"
    if message.get("role") != "assistant" and of_type(message, "tool_use"):
        return "a tool use belongs in an assistant message"
    # MUST: a user message with tool results holds only those (client/sampling#tool-result-messages)
    if results and len(results) < len(_blocks(message)):
        return "tool results are mixed with other content"
    return None


def _unbalanced(asked: list[str], message: Mapping[str, Any]) -> str | None:
    """Tool uses of the message before that this one leaves open, or results of none of them."""
    answered = [str(result.get("toolUseId")) for result in of_type(message, "tool_result")]
    # MUST: each tool use is matched by a result before any other message (client/sampling#tool-use-and-result-balance)
    missing = [use for use in asked if use not in answered]
    if missing:
        return f"tool result missing for {', '.join(missing)}"
    unknown = [use for use in answered if use not in asked]
    return f"no tool use before it for the result of {', '.join(unknown)}" if unknown else None
