"""basic/index#messages, basic/messages: the text of a message, its frame, its id, and the names in `_meta`."""

from __future__ import annotations

import ast
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

LOOP: dict[str, Any] = {}
LOOP["loop"] = LOOP


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), {1, 2}, b"bytes", LOOP], ids=repr)
def test_what_is_not_json_is_not_written(value: Any) -> None:
    with pytest.raises(LocalProtocolError):
        messages.encode({"a": [value]})


@pytest.mark.parametrize(
    "data",
    ["", "{", "{} {}", "{'a': 1}", "\ufeff{}", "[" * 100_000, "9" * 5_000, "NaN", "-Infinity", '{"a": [1, 1e400]}',
     b"\xff\xfe{}", b'{"a": "\xc3"}', b"\xed\xa0\x80"],
)  # fmt: skip
def test_what_is_not_json_in_utf8_is_a_parse_error(data: str | bytes) -> None:
    with pytest.raises(ParseError) as caught:
        messages.decode(data)
    assert caught.value.code == -32700


@pytest.mark.parametrize("text", ["plain", "é", "é€😀", "\u2028 \u2029 \x85"])
def test_a_message_is_written_and_read_as_utf8(text: str) -> None:
    data = b'{"a":"' + text.encode("utf-8") + b'"}'
    assert messages.encode({"a": text}) == data
    assert messages.decode(data) == {"a": text}


@pytest.mark.parametrize(
    ("text", "written"),
    [("line\nbreak\r\n", rb"line\nbreak\r\n"), ("\x00", rb"\u0000"), ("\ud83d é", rb"\ud83d \u00e9")],
    ids=["line breaks", "no character", "half a surrogate pair"],
)
def test_what_would_break_a_line_or_is_no_utf8_is_escaped(text: str, written: bytes) -> None:
    data = messages.encode({"a": text})
    assert data == b'{"a":"' + written + b'"}'
    assert messages.decode(data) == {"a": text}


# -- the frame ----------------------------------------------------------------------------------------------------


def test_what_is_built_is_json_rpc() -> None:
    assert messages.request(1, "ping", None) == {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    assert messages.request("a", "x", {}) == {"jsonrpc": "2.0", "id": "a", "method": "x", "params": {}}
    assert messages.notification("n", None) == {"jsonrpc": "2.0", "method": "n"}
    assert "id" not in messages.notification("notifications/cancelled", {"requestId": 1})
    assert messages.response("a", {}) == {"jsonrpc": "2.0", "id": "a", "result": {}}


def test_an_error_has_an_integer_code_a_message_and_data_where_given() -> None:
    assert messages.error(1, InvalidParams("no"))["error"] == {"code": -32602, "message": "no"}
    body = messages.error(1, Refusal("no", {"a": 1}, code=7))["error"]
    assert body == {"code": 7, "message": "no", "data": {"a": 1}}


@pytest.mark.parametrize("code", ["-32602", 1.0, True])
def test_the_code_of_a_refusal_is_an_integer(code: Any) -> None:
    with pytest.raises(TypeError):
        Refusal("no", code=code)


def texts_of_errors() -> Iterator[tuple[str, str]]:
    """Where the package makes an error of JSON-RPC, and the text of it without the values that it names."""
    found = {path: path.read_text("utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    classes = [each for text in found.values() for each in re.findall(r"^ *class (\w+)\((.+)\):", text, re.M)]
    kinds, before = {"Refusal"}, 0
    while len(kinds) > before:
        before = len(kinds)
        kinds |= {name for name, bases in classes if not kinds.isdisjoint(bases.split(", "))}
    makes_one = re.compile(rf"\b({'|'.join(kinds)})\(")
    for path, text in found.items():
        for node in ast.walk(ast.parse(text)) if makes_one.search(text) else ():
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


FRAME = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.mark.parametrize(
    ("message", "error"),
    [
        *((message, InvalidRequest) for message in (1, "x", None, {"id": 1, "method": "ping"}, {"jsonrpc": "2.0"})),
        *(({**FRAME, "jsonrpc": version}, InvalidRequest) for version in ("1.0", 2.0)),
        *(({**FRAME, "method": name}, InvalidRequest) for name in (5, None)),
        *(({**FRAME, "params": params}, InvalidParams) for params in (None, [1], 0, {"_meta": None})),
    ],
)
def test_a_request_with_another_frame_is_invalid(message: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        messages.kind_of(message)


@pytest.mark.parametrize(
    "members",
    [
        {"result": {}, "error": {"code": 1, "message": "x"}},
        *({"result": result} for result in ([], None)),
        *({"error": error} for error in (None, {"code": 1}, {"message": "x"})),
        *({"error": {"code": code, "message": "x"}} for code in ("1", 1.0, True)),
        *({"result": {}, **frame} for frame in ({"id": None}, {"id": True}, {"jsonrpc": "1.0"})),
    ],
)
def test_a_response_has_one_of_result_and_error_each_of_its_form(members: Any) -> None:
    with pytest.raises(RemoteProtocolError):
        messages.kind_of({"jsonrpc": "2.0", "id": 1, **members})


@pytest.mark.parametrize("message", [{"id": None}, {}])
def test_an_error_may_be_without_an_id(message: Any) -> None:
    assert messages.kind_of({"jsonrpc": "2.0", **message, "error": {"code": -32700, "message": "x"}}) == "response"


# -- _meta --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label", ["first", "second"])
def test_the_form_of_a_meta_key(label: Any) -> None:
    for key in ("a", "a.b_c-d", "9", "", "com.example/x", "com.example/", "a-1.b2/n", "x/y.z"):
        check_meta_key(key, label)
    for key in ("-a", "a-", "1a/x", "a-/x", "a..b/x", "/x", "a/b/c", "ä", "a b", "com.example/-x", ".a"):
        with pytest.raises(LocalProtocolError, match="must be a name"):
            check_meta_key(key, label)
        check_meta_key(key, "none")


@pytest.mark.parametrize(
    ("label", "reserved", "free"),
    [
        ("first", ["modelcontextprotocol.io/x", "mcp.dev/x", "tools.mcp.com/x"], ["dev.mcp/x"]),
        ("second", ["io.modelcontextprotocol/x", "dev.mcp/x", "com.mcp.tools/x"], ["com.example.mcp/x", "mcp.dev/x"]),
    ],
)
def test_each_revision_reserves_prefixes_of_its_own(label: Any, reserved: list[str], free: list[str]) -> None:
    for key in reserved:
        with pytest.raises(LocalProtocolError, match="reserved"):
            check_meta_key(key, label)
    for key in free:
        check_meta_key(key, label)
