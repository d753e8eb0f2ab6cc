"""Small stand-ins for a Server, a Context and a Client, for the tests of the pages."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from mcp_ref.revisions import LATEST_SESSION, Revision
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options


class Ctx:
    """Marks the parameter of a handler that receives the context."""


class FakeServer:
    """Registering: keeps what is registered."""

    context_type: type = Ctx
    page_size = 100
    mask_errors = False

    def __init__(self) -> None:
        self.registries: dict[str, dict[str, Any]] = {
            feature: {} for feature in ("tools", "resources", "templates", "prompts", "completions")
        }

    def register(self, feature: str, key: str, entry: Any, *, replace: bool = False) -> None:
        if key in self.registries[feature] and not replace:
            raise ValueError(f"{key} is taken")
        self.registries[feature][key] = entry


class FakeContext(Ctx):
    """A handler's context: a request to a FakeServer, and a place where notifications end."""

    peer_capabilities: JsonObject

    def __init__(self, server: FakeServer | None = None, revision: Revision = LATEST_SESSION) -> None:
        self.server = server or FakeServer()
        self.conversation = self
        self.revision, self.terms = revision, SimpleNamespace(revision=revision)
        self.peer_capabilities = {}
        self.log_level: str | None = None
        self.changing = threading.Lock()
        self.subscriptions: frozenset[str] = frozenset()
        self.notified: list[tuple[str, JsonObject | None]] = []

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        self.notified.append((method, params))


class FakeCaller:
    """Caller: notes each request, and answers with the next of the results given, or raises it."""

    revision = LATEST_SESSION

    def __init__(self, *results: JsonObject | Exception) -> None:
        self.peer_capabilities: JsonObject = {}
        self.results = list(results)
        self.asked: list[tuple[str, JsonObject | None, Options | None]] = []

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject:
        self.asked.append((method, params, options))
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return dict(result)

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        raise AssertionError(f"{method} is not asked for")
