"""Words of the wire: the laboratory spells them itself, so that a slip in the pages does not slip past their judge."""

from __future__ import annotations

from typing import Final

CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
RELATED: Final = "io.modelcontextprotocol/related-task"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"

ENDED: Final = frozenset({"completed", "failed", "cancelled"})
"""The states in which a task stays."""

STATELESS_ERRORS: Final = frozenset({-32020, -32021, -32022})
"""The error codes of the stateless era."""
