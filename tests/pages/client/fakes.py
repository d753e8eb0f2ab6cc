"""The two ends of a conversation, as the pages of the client see them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mcp_ref.revisions import REVISIONS, Revision
from mcp_ref.wire.methods import Options

JsonObject = dict[str, Any]

FORMS_ONLY = REVISIONS["2025-06-18"]
LATEST = REVISIONS["2025-11-25"]


@dataclass
class FakeServer:
    """The side that asks: remembers what was sent, and answers with what it was given."""

    answer: Any = None
    peer_capabilities: JsonObject = field(default_factory=dict)
    revision: Revision = LATEST
    sent: list[tuple[str, JsonObject | None]] = field(default_factory=list)

    def request(self, method: str, params: JsonObject | None = None, options: Options | None = None) -> JsonObject:
        self.sent.append((method, params))
        result: JsonObject = self.answer
        return result

    @property
    def params(self) -> JsonObject:
        """The parameters of the only request."""
        [(_, params)] = self.sent
        assert params is not None
        return params


@dataclass
class FakeClient:
    """The side that answers."""

    capabilities: JsonObject = field(default_factory=dict)
    revision: Revision = LATEST
    server_info: JsonObject = field(default_factory=lambda: {"name": "asker", "version": "1"})
