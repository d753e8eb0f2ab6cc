"""basic/versioning: what a request says of itself, what a result says of its server, and the names of extensions."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.errors import InvalidParams
from mcp_ref.pages.basic.extensions import checked_extensions
from mcp_ref.pages.basic.versioning import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    SUBSCRIPTION_ID,
    Envelope,
    complete,
    envelope,
    read_envelope,
)
from mcp_ref.revisions import STATELESS_REVISIONS
from mcp_ref.wire.types import is_input_required

INFO = {"name": "c", "version": "1"}
CAN: Any = {"roots": {}}
WHOLE: Any = {PROTOCOL_VERSION: "2026-07-28", CLIENT_INFO: INFO, CLIENT_CAPABILITIES: CAN}


def test_the_keys_are_spelled_as_on_the_page() -> None:
    keys = [PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL, SERVER_INFO, SUBSCRIPTION_ID]
    names = ["protocolVersion", "clientInfo", "clientCapabilities", "logLevel", "serverInfo", "subscriptionId"]
    assert keys == [f"io.modelcontextprotocol/{name}" for name in names]


# -- the envelope -------------------------------------------------------------------------------------------------


def test_what_a_client_writes_a_server_reads() -> None:
    written = envelope(STATELESS_REVISIONS[-1], INFO, CAN)
    assert read_envelope({"_meta": written}) == Envelope("2026-07-28", CAN, INFO, None)


MISSING: Any = object()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *((key, MISSING) for key in (PROTOCOL_VERSION, CLIENT_CAPABILITIES)),
        (PROTOCOL_VERSION, 20260728),
        *((CLIENT_CAPABILITIES, value) for value in ([], "roots")),
        (CLIENT_INFO, None),
        (LOG_LEVEL, 3),
    ],
)
def test_a_required_key_that_is_missing_or_any_of_the_wrong_type_is_named(key: str, value: Any) -> None:
    about = {name: each for name, each in {**WHOLE, key: value}.items() if each is not MISSING}
    with pytest.raises(InvalidParams, match="is missing" if value is MISSING else None) as refusal:
        read_envelope({"_meta": about})
    assert refusal.value.data == {"path": f"params._meta['{key}']"}


# -- results ------------------------------------------------------------------------------------------------------


def test_a_result_is_complete_unless_it_says_otherwise() -> None:
    assert complete({"a": 1}, INFO) == {"resultType": "complete", "a": 1, "_meta": {SERVER_INFO: INFO}}
    asks = complete({"resultType": "input_required"}, INFO)
    assert asks["resultType"] == "input_required" and is_input_required(asks)
    assert not any(map(is_input_required, ({"resultType": "complete"}, {}, "input_required", None)))


# -- extensions ---------------------------------------------------------------------------------------------------


def test_extensions_are_named_like_keys_of_meta_with_a_prefix() -> None:
    given = {"com.example/audit": {}, "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}
    assert checked_extensions(given) == given
    assert checked_extensions(None) == {}


@pytest.mark.parametrize(
    "name", ["audit", "", "/audit", "com.example/", "1com/audit", "com.example..a/audit", "a b/c", "a/-"]
)
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name of an extension"):
        checked_extensions({name: {}})
    with pytest.raises(ValueError, match="settings"):
        checked_extensions({"com.example/audit": name})
