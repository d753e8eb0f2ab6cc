"""Results as text: what people see of content that is no text."""

from __future__ import annotations

from mcp_ref.cli import shown
from mcp_ref.trace.narrate import escaped


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
    assert list(shown.tool_result(result)) == [
        "hello",
        "[image image/png, 3 bytes]",
        "inside",
        "[resource a:b]",
        "[link a:c: linked]",
    ]


def test_structured_content_is_shown_where_there_is_no_other() -> None:
    assert list(shown.tool_result({"content": [], "structuredContent": {"a": 1}})) == ['{\n  "a": 1\n}']
    assert list(shown.tool_result({"content": [{"type": "text", "text": "a"}], "structuredContent": {"a": 1}})) == ["a"]


def test_contents_are_text_or_bytes() -> None:
    rows = [{"uri": "a:b", "text": "t"}, {"uri": "a:b", "blob": "AP8="}, {"uri": "a:b", "blob": "%"}]
    assert list(shown.contents(rows)) == ["t", b"\x00\xff", "[a:b: not base64]"]


def test_control_characters_do_not_reach_a_terminal() -> None:
    assert escaped("a\x1b[2J\u202e\n\tb", "\n\t") == "a\\x1b[2J\\u202e\n\tb"
