"""Clients made with the official SDK (mcp 2) that meet servers of each era in each way that they know.

Usage: python sdk_meet.py '{NAME: [URL | COMMAND, ARGUMENT ...], ...}'

One JSON object is printed: for each name and mode ("auto", "legacy", "2026-07-28") the version that was agreed on and
what a call said, or the code of the error.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError

warnings.simplefilter("ignore")

MODES = ("auto", "legacy", "2026-07-28")


async def meet(target: list[str], mode: str) -> Any:
    """The version that is agreed on, and what a call says."""
    command = StdioServerParameters(command=target[0], args=target[1:], env=dict(os.environ))
    try:
        with anyio.fail_after(15):
            async with Client(target[0] if len(target) == 1 else command, mode=mode) as client:
                result = await client.call_tool("add", {"a": 2, "b": 40})
                return [client.protocol_version, result.content[0].text]
    except MCPError as problem:
        return {"error": problem.code}
    except ExceptionGroup as group:
        return {"error": first(group)}


def first(problem: BaseException) -> Any:
    """The code of the error in the middle of what the SDK raises."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem.code if isinstance(problem, MCPError) else repr(problem)


async def main() -> None:
    targets: dict[str, list[str]] = json.loads(sys.argv[1])
    print(json.dumps({name: {mode: await meet(to, mode) for mode in MODES} for name, to in targets.items()}))


if __name__ == "__main__":
    anyio.run(main)
