"""A stand-in for a Client, for the tests of what it does page after page."""

from __future__ import annotations

from mcp_ref.revisions import LATEST_SESSION
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options


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
