"""Results as text: what people see of content that is not text."""

from __future__ import annotations

import json
import sys

import pytest

from mcp_ref.errors import RemoteProtocolError
from mcp_ref.kit.process.standard_streams import escaped
from mcp_ref.lab.cli import render
from tests.lab.cli.conftest import Terminal


def test_every_kind_of_content_has_a_line() -> None:
    result = {
        "content": [
            {"type": "text", "text": "hello"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "a:b", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "a:b", "blob": "AAAA"}},
            {"type": "resource_link", "uri": "a:c", "name": "linked"},
        ]
    }
    assert list(render.tool_result(result)) == [
        "hello",
        "[image image/png, 3 bytes]",
        "inside",
        "[resource a:b]",
        "[link a:c: linked]",
    ]


@pytest.mark.parametrize("kind", ["image", "audio"])
def test_a_picture_or_a_sound_alone_is_its_bytes(kind: str) -> None:
    block = {"type": kind, "data": "AP8=", "mimeType": "a/b"}
    assert list(render.tool_result({"content": [block]})) == [b"\x00\xff"]
    assert list(render.tool_result({"content": [block, block]})) == [f"[{kind} a/b, 3 bytes]"] * 2
    with pytest.raises(RemoteProtocolError, match="is not base64"):
        list(render.tool_result({"content": [{**block, "data": "%"}]}))


@pytest.mark.parametrize("rest", [{"properties": 5}, {"required": 5, "properties": {"a": {"type": "string"}}}])
def test_a_tool_is_shown_whatever_its_schema(rest: dict[str, object]) -> None:
    assert list(render.entries([{"name": "t", "inputSchema": {"type": "object", **rest}}]))[0] == "t"


def test_the_type_of_a_parameter_is_shown_whatever_stands_there() -> None:
    deep: dict[str, object] = {}
    for _ in range(900):
        deep = {"type": "array", "items": deep}
    odd = [5, {"enum": 5}, {"anyOf": 5}, {"anyOf": [5]}, {"type": {}}, {"type": "array", "items": 5}, deep]
    kinds = [render.kind_of(each) for each in odd]
    assert kinds == ["any", "any", "any", "any", "{}", "array of any", "array of " * 5 + "any"]


def test_structured_content_is_shown_where_there_is_no_other() -> None:
    assert list(render.tool_result({"content": [], "structuredContent": {"a": 1}})) == ['{\n  "a": 1\n}']
    assert list(render.tool_result({"content": [{"type": "text", "text": "a"}], "structuredContent": {"a": 1}})) == [
        "a"
    ]


def test_contents_are_text_or_bytes() -> None:
    rows = [{"uri": "a:b", "text": "t"}, {"uri": "a:b", "blob": "AP8="}, {"uri": "a:b", "blob": "%"}]
    assert list(render.contents(rows)) == ["t", b"\x00\xff", "[a:b: not base64]"]


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert escaped("a\x1b[2J\u202e\n\tb", "\n\t") == "a\\x1b[2J\\u202e\n\tb"


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_any_json_is_shown_as_json_without_what_a_terminal_would_obey(
    encoding: str, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", out := Terminal(encoding, terminal=terminal))
    value = {"text": "a\x1b\x7f\x85\x9b2J\u202e\u2066\ud800 é\n\t"}
    render.put([render.as_json(value)])
    assert json.loads(out.shown()) == value
    assert not any(char in out.shown() for char in "\x1b\x7f\x85\x9b\u202e\u2066\t")
    assert ("é" in out.shown()) == (encoding == "utf-8")


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_text_that_the_encoding_has_not_is_shown_escaped(
    encoding: str, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", out := Terminal(encoding, terminal=terminal))
    render.put(["a\ud800b", "é"])
    assert out.shown().splitlines() == ["a\\ud800b", "é" if encoding == "utf-8" else "\\xe9"]
