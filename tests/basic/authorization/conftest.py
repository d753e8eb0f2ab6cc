"""What the tests of authorization share."""

from __future__ import annotations

import pytest

from mcp_ref import deprecated


@pytest.fixture(autouse=True)
def registration_is_not_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nearly every test registers a client, and which of them would be warned depends on their order.
    monkeypatch.delitem(deprecated._unsaid, "Dynamic Client Registration", raising=False)
