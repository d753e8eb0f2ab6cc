"""basic/index#messages, basic/messages: the text of a message, its frame, its id, and the names in `_meta`."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mcp_ref
from mcp_ref.errors import InvalidParams, InvalidRequest, LocalProtocolError, ParseError, Refusal, RemoteProtocolError
from mcp_ref.pages.basic.meta import check_meta_key
from mcp_ref.wire import messages

PACKAGE = Path(mcp_ref.__file__).parent

# -- text <-> JSON ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", '{"a": [1, 1e400]}'])
def test_numbers_that_are_not_json_are_not_read(text: str) -> None:
    with pytest.raises(ParseError):
        messages.decode(text)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), {1, 2}, b"bytes", object()])
def test_what_is_not_json_is_not_written(value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        messages.encode({"a": [value]})


def test_a_value_that_contains_itself_is_not_written() -> None:
    loop: dict[str, Any] = {}
    loop["loop"] = loop
    with pytest.raises(LocalProtocolError):
        messages.encode(loop)


@pytest.mark.parametrize(
    "text", ["", "{", "{} {}", "{'a': 1}", "\ufeff{}", '{"a": 1,}', "[" * 100_000, "9" * 5_000, "\x00"]
)
def test_what_is_not_json_is_a_parse_error(text: str) -> None:
    with pytest.raises(ParseError) as caught:
        messages.decode(text)
    assert caught.value.code == -32700


@pytest.mark.parametrize("data", [b"\xff\xfe{}", b'{"a": "\xc3"}', b"\xed\xa0\x80"])
def test_what_is_not_utf8_is_a_parse_error(data: bytes) -> None:
    with pytest.raises(ParseError):
        messages.decode(data)


@pytest.mark.parametrize("text", ["plain", "é", "€", "😀", "é€😀"])
def test_a_message_is_written_and_read_as_utf8(text: str) -> None:
    data = b'{"a":"' + text.encode("utf-8") + b'"}'
    assert messages.encode({"a": text}) == data
    assert messages.decode(data) == {"a": text}


@pytest.mark.parametrize("text", ["\u2028 \u2029 \x85", "line\nbreak\r\n", "\x00", "\U0001f600", "é"])
def test_no_character_of_a_string_breaks_the_line(text: str) -> None:
    data = messages.encode({"a": text})
    assert b"\n" not in data
    assert b"\r" not in data
    assert messages.decode(data) == {"a": text}


def test_half_a_surrogate_pair_travels_as_an_escape() -> None:
    data = messages.encode({"a": "\ud83d é"})
    assert data == b'{"a":"\\ud83d \\u00e9"}'
    assert messages.decode(data) == {"a": "\ud83d é"}


# -- the frame ----------------------------------------------------------------------------------------------------


def test_what_is_built_is_json_rpc() -> None:
    assert messages.request(1, "ping", None) == {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert messages.request("a", "x", {}) == {"jsonrpc": "2.0", "id": "a", "method": "x", "params": {}}
    assert messages.notification("n", None) == {"jsonrpc": "2.0", "method": "n"}
    assert "id" not in messages.notification("notifications/cancelled", {"requestId": 1})
    assert messages.response("a", {}) == {"jsonrpc": "2.0", "id": "a", "result": {}}


def test_an_error_has_an_integer_code_a_message_and_data_where_given() -> None:
    assert messages.error(1, InvalidParams("no")) == {
        "jsonrpc": "2.0",
        "id": 1,
        "error": {"code": -32602, "message": "no"},
    }
    body = messages.error(1, Refusal("no", {"a": 1}, code=7))["error"]
    assert body == {"code": 7, "message": "no", "data": {"a": 1}}


@pytest.mark.parametrize("code", ["-32602", 1.0, True])
def test_the_code_of_a_refusal_is_an_integer(code: Any) -> None:
    with pytest.raises(TypeError):
        Refusal("no", code=code)


def texts_of_errors() -> Iterator[tuple[str, str]]:
    """Where the package makes an error of JSON-RPC, and the text of it without the values that it names."""
    found = [(path, ast.parse(path.read_text("utf-8"))) for path in sorted(PACKAGE.rglob("*.py"))]
    classes = [node for _, tree in found for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    kinds, before = {"Refusal"}, 0
    while len(kinds) > before:
        before = len(kinds)
        kinds |= {each.name for each in classes if kinds & {ast.unparse(base) for base in each.bases}}
    for path, tree in found:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in kinds and node.args:
                parts = [part for part in ast.walk(node.args[0]) if isinstance(part, ast.Constant)]
                yield f"{path.name}:{node.lineno}", " ".join(str(part.value) for part in parts)


def test_the_text_of_every_error_of_ours_is_one_short_sentence() -> None:
    texts = list(texts_of_errors())
    assert len(texts) > 100
    assert [each for each in texts if not is_one_sentence(each[1])] == []
    assert is_one_sentence("params.name is missing: it has no default (a text)")
    assert not any(map(is_one_sentence, ("It is missing. Add it", "Why? It is missing", "it\nis missing", "x" * 200)))


def is_one_sentence(text: str) -> bool:
    return len(text) <= 150 and re.search(r"[.!?]\s+[A-Z]|\n", text) is None


def test_an_error_without_a_readable_id_says_null_or_leaves_it_out() -> None:
    assert messages.error(None, ParseError("no"))["id"] is None
    assert "id" not in messages.error(None, ParseError("no"), id_optional=True)


def test_ids_that_are_equal_in_python_are_different_keys() -> None:
    assert len({messages.id_key(value) for value in (1, True, 1.0, "1")}) == 4  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "method": "ping"},
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"jsonrpc": 2.0, "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "id": 1, "method": 5},
        {"jsonrpc": "2.0", "id": 1, "method": None},
    ],
)
def test_a_request_with_another_frame_is_invalid(message: Any) -> None:
    with pytest.raises(InvalidRequest):
        messages.kind_of(message)


@pytest.mark.parametrize("params", [None, [], [1], "x", 0, False, {"_meta": []}, {"_meta": None}])
def test_params_and_their_meta_are_objects(params: Any) -> None:
    with pytest.raises(InvalidParams):
        messages.kind_of({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": params})


@pytest.mark.parametrize("message", [1, "x", None, True, {}, {"id": 1}, {"jsonrpc": "2.0", "params": {}}])
def test_what_is_neither_request_nor_response_is_invalid(message: Any) -> None:
    with pytest.raises(InvalidRequest):
        messages.kind_of(message)


@pytest.mark.parametrize(
    "members",
    [
        {"result": {}, "error": {"code": 1, "message": "x"}},
        {"result": []},
        {"result": None},
        {"error": None},
        {"error": {"code": "1", "message": "x"}},
        {"error": {"code": 1.0, "message": "x"}},
        {"error": {"code": True, "message": "x"}},
        {"error": {"code": 1}},
        {"error": {"message": "x"}},
        {"result": {}, "id": None},
        {"result": {}, "id": True},
        {"result": {}, "jsonrpc": "1.0"},
    ],
)
def test_a_response_has_one_of_result_and_error_each_of_its_form(members: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        messages.kind_of({"jsonrpc": "2.0", "id": 1, **members})


@pytest.mark.parametrize("message", [{"id": None}, {}])
def test_an_error_may_be_without_an_id(message: Any) -> None:
    assert messages.kind_of({"jsonrpc": "2.0", **message, "error": {"code": -32700, "message": "x"}}) == "response"


# -- _meta --------------------------------------------------------------------------------------------------------

FORMS = ["a", "a.b_c-d", "9", "", "com.example/x", "com.example/", "a-1.b2/n", "x/y.z"]
NO_FORMS = ["-a", "a-", "1a/x", "a-/x", "a..b/x", "/x", "a/b/c", "ä", "a b", "com.example/-x", ".a"]


@pytest.mark.parametrize("key", FORMS)
@pytest.mark.parametrize("label", ["first", "second"])
def test_the_form_of_a_meta_key(key: str, label: Any) -> None:
    check_meta_key(key, label)


@pytest.mark.parametrize("key", NO_FORMS)
@pytest.mark.parametrize("label", ["first", "second"])
def test_another_form_of_a_meta_key_is_refused(key: str, label: Any) -> None:
    with pytest.raises(LocalProtocolError):
        check_meta_key(key, label)


@pytest.mark.parametrize(
    ("key", "label"),
    [
        ("modelcontextprotocol.io/x", "first"),
        ("mcp.dev/x", "first"),
        ("api.modelcontextprotocol.org/x", "first"),
        ("tools.mcp.com/x", "first"),
        ("io.modelcontextprotocol/x", "second"),
        ("dev.mcp/x", "second"),
        ("com.mcp.tools/x", "second"),
    ],
)
def test_the_prefixes_of_the_protocol_are_reserved(key: str, label: Any) -> None:
    with pytest.raises(LocalProtocolError, match="reserved"):
        check_meta_key(key, label)


@pytest.mark.parametrize(
    ("key", "label"), [("com.example.mcp/x", "second"), ("mcp.dev/x", "second"), ("dev.mcp/x", "first")]
)
def test_what_another_revision_reserves_is_free(key: str, label: Any) -> None:
    check_meta_key(key, label)


def test_before_2025_06_18_the_pages_say_nothing_of_meta_keys() -> None:
    check_meta_key("-any thing-", "none")


def test_the_text_of_a_message_is_compact() -> None:
    assert messages.encode({"a": [1, 2]}) == b'{"a":[1,2]}'
    assert json.loads(messages.encode([{"a": 1}])) == [{"a": 1}]
