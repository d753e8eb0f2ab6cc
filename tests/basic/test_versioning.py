"""basic/versioning: what a request says of itself, what a result says of its server, and the names of extensions."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.basic.extensions import checked_extensions
from mcp_ref.basic.transports.streamable_http.headers import http_status
from mcp_ref.basic.versioning import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
    SUBSCRIPTION_ID,
    Envelope,
    complete,
    envelope,
    is_stateless,
    read_envelope,
)
from mcp_ref.errors import STATELESS_ERRORS, InvalidParams
from mcp_ref.revisions import REVISIONS, STATELESS_REVISIONS
from mcp_ref.types import is_input_required

INFO = {"name": "c", "version": "1"}
CAN: Any = {"roots": {}}
WHOLE: Any = {PROTOCOL_VERSION: "2026-07-28", CLIENT_INFO: INFO, CLIENT_CAPABILITIES: CAN}


def test_the_keys_are_spelled_as_on_the_page() -> None:
    keys = [PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES, LOG_LEVEL, SERVER_INFO, SUBSCRIPTION_ID]
    names = ["protocolVersion", "clientInfo", "clientCapabilities", "logLevel", "serverInfo", "subscriptionId"]
    assert keys == [f"io.modelcontextprotocol/{name}" for name in names]


# -- which era a message is of ------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [PROTOCOL_VERSION, CLIENT_INFO, CLIENT_CAPABILITIES])
@pytest.mark.parametrize("value", ["2026-07-28", {}, None, 5])
def test_one_key_of_the_envelope_tells_a_modern_request_whatever_it_holds(key: str, value: Any) -> None:
    assert is_stateless("tools/list", {"_meta": {key: value}})


@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen"])
@pytest.mark.parametrize("params", [{}, None, {"_meta": None}, []])
def test_a_method_that_only_this_era_has_tells_it_too(method: str, params: Any) -> None:
    assert is_stateless(method, params)


@pytest.mark.parametrize(
    "params",
    [
        {},
        None,
        [],
        "x",
        {"_meta": {}},
        {"_meta": None},
        {"_meta": []},
        {"_meta": "io.modelcontextprotocol/protocolVersion"},
        {"_meta": {"progressToken": 1}},
        {"_meta": {LOG_LEVEL: "info"}},
        {"_meta": {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}},
        {"_meta": {"protocolVersion": "2026-07-28"}},
        {"protocolVersion": "2026-07-28", "clientInfo": INFO},
    ],
)
def test_everything_else_is_of_the_session_era(params: Any) -> None:
    assert not is_stateless("tools/list", params)
    assert not is_stateless("initialize", params)


def test_what_is_not_a_method_name_is_not_modern() -> None:
    assert not is_stateless(None, {})
    assert not is_stateless(5, None)


# -- the envelope -------------------------------------------------------------------------------------------------


def test_what_a_client_writes_a_server_reads() -> None:
    written = envelope(STATELESS_REVISIONS[-1], INFO, CAN)
    assert read_envelope({"_meta": written}) == Envelope("2026-07-28", CAN, INFO, None)


def test_client_info_and_the_log_level_may_be_left_out() -> None:
    short = {PROTOCOL_VERSION: "2026-07-28", CLIENT_CAPABILITIES: {}}
    assert read_envelope({"_meta": short}) == Envelope("2026-07-28", {}, {}, None)
    assert read_envelope({"_meta": {**WHOLE, LOG_LEVEL: "info"}}).log_level == "info"


def test_the_envelope_ignores_other_keys() -> None:
    assert read_envelope({"_meta": {**WHOLE, "progressToken": 1, "com.example/x": [1]}}) == Envelope(
        "2026-07-28", CAN, INFO, None
    )


def test_the_version_is_what_the_client_says_also_one_that_nobody_knows() -> None:
    assert read_envelope({"_meta": {**WHOLE, PROTOCOL_VERSION: "1900-01-01"}}).version == "1900-01-01"


@pytest.mark.parametrize("params", [{}, {"_meta": None}, {"_meta": []}, {"_meta": "x"}, {"_meta": 1}])
def test_a_malformed_envelope_is_refused(params: Any) -> None:
    with pytest.raises(InvalidParams, match="_meta") as refusal:
        read_envelope(params)
    assert refusal.value.data == {"path": "params._meta"}


@pytest.mark.parametrize("key", [PROTOCOL_VERSION, CLIENT_CAPABILITIES])
def test_a_required_key_that_is_missing_is_named(key: str) -> None:
    with pytest.raises(InvalidParams, match="is missing") as refusal:
        read_envelope({"_meta": {name: value for name, value in WHOLE.items() if name != key}})
    assert refusal.value.data == {"path": f"params._meta['{key}']"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (PROTOCOL_VERSION, 20260728),
        (PROTOCOL_VERSION, ["2026-07-28"]),
        (CLIENT_CAPABILITIES, []),
        (CLIENT_CAPABILITIES, True),
        (CLIENT_CAPABILITIES, "roots"),
        (CLIENT_INFO, None),
        (CLIENT_INFO, "c"),
        (LOG_LEVEL, 3),
        (LOG_LEVEL, {"level": "info"}),
    ],
)
def test_a_key_of_the_wrong_type_is_named(key: str, value: Any) -> None:
    with pytest.raises(InvalidParams) as refusal:
        read_envelope({"_meta": {**WHOLE, key: value}})
    assert refusal.value.data == {"path": f"params._meta['{key}']"}


# -- results ------------------------------------------------------------------------------------------------------


def test_a_result_is_complete_unless_it_says_otherwise() -> None:
    assert complete({"a": 1}, INFO) == {"resultType": "complete", "a": 1, "_meta": {SERVER_INFO: INFO}}
    assert complete({"resultType": "input_required"}, INFO)["resultType"] == "input_required"


def test_the_server_is_named_beside_what_meta_holds_and_the_original_is_not_changed() -> None:
    result: Any = {"_meta": {"com.example/x": 1}}
    assert complete(result, INFO)["_meta"] == {"com.example/x": 1, SERVER_INFO: INFO}
    assert result == {"_meta": {"com.example/x": 1}}
    assert complete({"_meta": None}, INFO)["_meta"] == {SERVER_INFO: INFO}


@pytest.mark.parametrize(
    ("value", "asks"),
    [
        ({"resultType": "input_required"}, True),
        ({"resultType": "complete"}, False),
        ({}, False),
        ("input_required", False),
        (None, False),
    ],
)
def test_a_result_that_asks_for_input_is_told_by_its_type(value: Any, asks: bool) -> None:
    assert is_input_required(value) is asks


@pytest.mark.parametrize(
    ("code", "status"),
    [(-32020, 400), (-32021, 400), (-32022, 400), (-32601, 404), (-32602, 200), (-32603, 200), (429, 200), (7, 200)],
)
def test_the_status_of_an_error(code: int, status: int) -> None:
    assert http_status(code) == status


def test_a_missing_key_of_the_envelope_is_a_bad_request() -> None:
    assert http_status(-32602, in_envelope=True) == 400


def test_three_errors_tell_a_modern_server() -> None:
    assert sorted(STATELESS_ERRORS) == [-32022, -32021, -32020]


# -- extensions ---------------------------------------------------------------------------------------------------


def test_extensions_are_named_like_keys_of_meta_with_a_prefix() -> None:
    given = {"com.example/audit": {}, "io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}
    assert checked_extensions(given) == given
    assert checked_extensions(None) == {}


@pytest.mark.parametrize(
    "name", ["audit", "", "/audit", "com.example/", "1com/audit", "com..example/a", "a b/c", "a/-"]
)
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name of an extension"):
        checked_extensions({name: {}})


@pytest.mark.parametrize("settings", [None, True, [], "on"])
def test_the_settings_of_an_extension_are_an_object(settings: Any) -> None:
    with pytest.raises(ValueError, match="settings"):
        checked_extensions({"com.example/audit": settings})


def test_one_revision_is_stateless_and_it_is_the_newest() -> None:
    assert [row.name for row in STATELESS_REVISIONS] == ["2026-07-28"] == [list(REVISIONS)[-1]]
