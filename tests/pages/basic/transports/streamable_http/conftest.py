"""What the tests of Streamable HTTP share."""

from __future__ import annotations

import pytest

from mcp_ref.kit.http import http_client
from tests.pages.basic.transports.streamable_http.replies import PATIENCE


@pytest.fixture
def an_end_is_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a connection is kept depends on how soon the end of the response before is there: on a busy machine not
    within 20 ms. And who must not wait for it shows."""
    monkeypatch.setattr(http_client, "_LINGER_TIMEOUT", PATIENCE)
