"""What the clients made with each release of the official SDK for Python share: they do what they are told on stdin.

A line of JSON comes in for each order, and one goes out for what it came to; what the server asks and tells goes out
as well, and its questions are answered by whoever drives (tests/interop/talk.py):

    in   {"id": 1, "do": "connect", "target": [URL | COMMAND, ARGUMENT ...], "mode": MODE, "able": BOOL}
         {"id": 2, "do": METHOD, "params": {...}}     {"id": 3, "do": "close"}     {"cancel": 2}
         {"answer": 1, "result": {...}}     {"answer": 1, "error": {"code": ..., "message": ...}}
    out  {"id": 2, "result": ...}     {"id": 2, "error": {...}}     {"id": 2, "failed": "..."}
         {"ask": 1, "method": METHOD, "params": {...}}     {"told": METHOD, "params": {...}}
         {"step": [PROGRESS, TOTAL, MESSAGE]}     {"listen": 2, "told": METHOD, "params": {...}}
         {"listen": 2, "ended": HOW}     {"closed": 1}
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from contextlib import AbstractAsyncContextManager
from typing import Any

import anyio

# Much of the session era is deprecated in the SDK.
warnings.simplefilter("ignore")

WAIT = 30
NAMES = {
    "ping": "send_ping",
    "tools/list": "list_tools",
    "resources/list": "list_resources",
    "resources/templates/list": "list_resource_templates",
    "resources/read": "read_resource",
    "resources/subscribe": "subscribe_resource",
    "resources/unsubscribe": "unsubscribe_resource",
    "prompts/list": "list_prompts",
    "prompts/get": "get_prompt",
    "logging/setLevel": "set_logging_level",
    "notifications/roots/list_changed": "send_roots_list_changed",
}
"""The functions of the SDK for a method; a client has functions of its own for the others."""


def wire(model: Any) -> Any:
    """Return what came, without what the SDK adds."""
    return model.model_dump(by_alias=True, mode="json", exclude_unset=True) if hasattr(model, "model_dump") else model


class Driven:
    """A client under orders. `client`: that of the SDK, while it is connected."""

    client: Any

    def __init__(self) -> None:
        self.scopes: dict[int, anyio.CancelScope] = {}
        self.questions: list[Any] = []
        self.end = anyio.Event()

    def connected(self, order: dict[str, Any]) -> AbstractAsyncContextManager[Any]:
        """Connect, and give the revision, and what the server says of itself."""
        raise NotImplementedError

    def failure(self, problem: BaseException) -> dict[str, Any]:
        """How an order failed."""
        while isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]
        return {"error": wire(problem.error)} if hasattr(problem, "error") else {"failed": repr(problem)}

    def say(self, **what: Any) -> None:
        print(json.dumps(what), flush=True)

    async def ask(self, method: str, params: Any, answer: Any, error: Any) -> Any:
        """Ask whoever drives; `answer` and `error` are the models of what comes back."""
        came = anyio.Event()
        self.questions.append([came, None])
        mine = self.questions[-1]
        self.say(ask=len(self.questions) - 1, method=method, params=wire(params))
        await came.wait()
        outcome = mine[1]
        return (
            error.model_validate(outcome["error"]) if "error" in outcome else answer.model_validate(outcome["result"])
        )

    async def drive(self) -> None:
        async with anyio.create_task_group() as group:
            while line := await anyio.to_thread.run_sync(sys.stdin.readline):
                order = json.loads(line)
                if "cancel" in order:
                    self.scopes[order["cancel"]].cancel()
                elif "answer" in order:
                    self.questions[order["answer"]][1] = order
                    self.questions[order["answer"]][0].set()
                elif order["do"] == "close":
                    self.end.set()
                else:
                    group.start_soon(self.obey, order)
            group.cancel_scope.cancel()

    async def obey(self, order: dict[str, Any]) -> None:
        number, do = order["id"], order["do"]
        with anyio.CancelScope() as self.scopes[number]:
            try:
                if do == "connect":
                    self.end = anyio.Event()
                    async with self.connected(order) as introduction:
                        self.say(id=number, result=introduction)
                        await self.end.wait()
                    self.say(closed=number)
                else:
                    with anyio.fail_after(None if do == "subscriptions/listen" else WAIT):
                        self.say(id=number, result=wire(await self.does(number, do, order.get("params") or {})))
            except Exception as problem:
                self.say(id=number, **self.failure(problem))

    async def does(self, number: int, do: str, params: dict[str, Any]) -> Any:
        if do in NAMES:
            return await getattr(self.client, NAMES[do])(**params)
        return await getattr(self, do.replace("/", "_"))(number, params)


def command(target: list[str]) -> dict[str, Any]:
    """The command of a server. The SDK passes on little of the environment."""
    return {"command": target[0], "args": target[1:], "env": dict(os.environ)}
