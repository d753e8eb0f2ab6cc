"""A trace is hostile input: one table of values, each put in every member of every kind of line, for every reader.

What a reader cannot use is refused where it is read, with its line; whatever else stands in a trace stays text: on a
terminal, in Mermaid, in SVG and in a page.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as Tree
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from mcp_ref.lab.cli import main
from mcp_ref.recording.record import TruncatedTrace, from_row, read_trace
from tests.slow import slow_but

_MARKUP = [
    "<script>alert(1)</script>", "</script><script>alert(1)</script>", "</title></svg><script>alert(1)</script>",
    "<!--", "-->", "--!>", "<!--<script>", "]]>", "<![CDATA[", "<?xml version='1.0'?>", "<!DOCTYPE x [<!ENTITY>]>",
    "&lt;script&gt;", "&#x3c;script&#x3e;", "&amp;", "&a;", "&", "<", ">", '"', "'", "`", '" onload="alert(1)',
    "' onload='alert(1)", '"/><image href="http://evil/x"/>', "javascript:alert(1)", "</style><style>*{x:y}</style>",
    "url(http://evil/x)", "<img src=x onerror=alert(1)>", "<a xlink:href='javascript:alert(1)'>", "<use href='#m1'/>",
    "<foreignObject><body/></foreignObject>", "<iframe srcdoc='x'>", "<base href='//evil'>", "{{data}}", "{{policy}}",
]  # fmt: skip
_MERMAID = [
    "%%{init: {}}%%", "a;b", "a#b", "#lt;", "end", "loop x", "Note over C,S: x", "C->>S: x", "participant E", "alt x",
    "a\nC->>S: forged", "<br/>", "$$x$$", "title x", "rect rgb(0,0,0)", "click C href 'javascript:alert(1)'",
]  # fmt: skip
_TERMINAL = [
    "\x1b[2J", "\x1b[31m", "\x1b]0;title\x07", "\x1b]8;;http://evil\x07link\x1b]8;;\x07", "\x1bP+q\x1b\\", "\x9b2J",
    "\x1b[6n", "a\rb", "a\bb", "a\r\nb", "a\vb", "a\fb", "   1  C → S  request 1: ping",
]  # fmt: skip
_WORDS = [
    "{", "}", "{0}", "{seq}", "{_meta.x}", "{a:present}", "%s", "%n", "\\", "\\u003c", "__proto__", "constructor",
    "toString", "hasOwnProperty", "null", "-1", "1e999", "", " ", "x" * 20_000, "é" * 3_000, "\u0301" * 500,
    "../../etc/passwd", "method", "initialize", "tools/call", "2025-11-25", "2026-07-28", "server", "client",
]  # fmt: skip
_CODES = [
    *range(0x20), *range(0x7F, 0xA0), 0xAD, 0x061C, *range(0x200B, 0x2010), *range(0x2028, 0x202F),
    *range(0x2060, 0x2070), 0xFEFF, *range(0xFFF9, 0x10000), 0xD800, 0xDBFF, 0xDC00, 0xDFFF, 0x1F600, 0xE0001, 0xE0041,
    0xFDD0, 0x1FFFE, 0x10FFFF, 0x3000, 0x115F, 0x3164, 0x2800, 0x0378,
]  # fmt: skip
TEXTS = [*_MARKUP, *_MERMAID, *_TERMINAL, *_WORDS, *(f"a{chr(code)}b" for code in _CODES), "\ud83d", "\udc00\ud800"]
_VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 200, 401, 999, 2**31, 2**53, 2**64, 10**18, 10**19, 10**400, -(10**400), 0.5, 1e308,
    5e-324, [], [[]], [None], ["x"], ["\ud800"], [{}], {}, {"a": []}, {"": None}, {"\ud800": "\x1b"}, {"x": 1e9},
    {"name": []}, {"name": {}}, {"type": ["<script>"]}, {"toString": 1}, {"__proto__": {}},
]  # fmt: skip
_SPELLED = [
    "NaN", "Infinity", "-Infinity", "1e999", "-1e999", "9" * 5_000, "0x1", "01", "'x'", "", "undefined", "[1,]",
    '"\\ud800\\ud800"', '"\x01"', '"\\x41"', "[" * 100_000, '{"a":' * 3_000 + "1" + "}" * 3_000,
    "[" * 300 + "]" * 300, '{"a":1,"a":[2]}', "/**/1",
]  # fmt: skip
VALUES = [*map(json.dumps, [*TEXTS, *_VALUES]), *_SPELLED]
"""As they are spelled in a line."""

_LINE = {"seq": 1, "time": "2025-11-25T09:00:00.000000Z", "thread": "t", "conn": 1, "direction": "send",
         "peer": "server", "transport": "http", "message": None}  # fmt: skip
_META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {},
         "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"}, "progressToken": 1}  # fmt: skip
_ASKED = {"k": {"method": "elicitation/create", "params": {"message": "m", "mode": "form", "requestedSchema": {}}}}
_CALL = {"name": "t", "arguments": {"a": 1}, "_meta": _META, "inputResponses": {"k": {"action": "accept"}}}
LINES: list[dict[str, Any]] = [
    {**_LINE, "message": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": _CALL},
     "http": {"exchange": 1, "method": "POST", "headers": {"mcp-method": "tools/call", "mcp-session-id": "s"}}},
    {**_LINE, "direction": "receive", "raw": "e30=",
     "message": {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", "requestState": "s", "ttlMs": 1,
                 "inputRequests": _ASKED, "content": [{"type": "text", "text": "x"}], "task": {"taskId": "x"}}},
     "http": {"exchange": 1, "status": 200, "headers": {"content-type": "text/event-stream"}, "eventId": "e",
              "event": "x", "retry": 1}},
    {**_LINE, "message": [{"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1,
                           "progress": 1, "total": 2, "message": "m"}}]},
    {**_LINE, "direction": "receive", "message": {"jsonrpc": "2.0", "id": 1, "error": {"code": -32022, "message": "m",
                                                  "data": {"requested": "r", "supported": ["s"]}}}},
    {**_LINE, "direction": "stderr", "transport": "stdio", "message": "a line"},
    {**_LINE, "direction": "receive", "transport": "stdio", "message": "not JSON"},
    {**_LINE, "http": {"exchange": 2, "hangUp": 1}},
    {**_LINE, "http": {"exchange": 1, "method": "GET", "end": "server"}},
    {**_LINE, "http": {"exchange": 3, "method": "GET", "headers": {"last-event-id": "e"}, "query": ["q"]}},
    {**_LINE, "direction": "receive", "http": {"exchange": 3, "status": 401, "headers": {"www-authenticate": "x"}}},
    {**_LINE, "http": {"exchange": 4, "method": "GET", "what": "a token", "url": "https://x", "oauth": {
        "grant_type": "g", "client_id": "c", "scope": "s", "resource": "r"}}},
    {**_LINE, "direction": "receive", "http": {"exchange": 4, "method": "GET", "what": "the protected metadata",
        "status": 200, "oauth": {"token_type": "t", "expires_in": 1, "scopes_supported": ["s"], "issuer": "i"}}},
    {**_LINE, "transport": "stdio", "end": {"eof": "client"}},
    {**_LINE, "transport": "stdio", "end": {"signal": 15}},
    {**_LINE, "direction": "receive", "transport": "stdio", "end": {"exit": 0}},
]  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a value can be put in another one, and, with "+" at the end, where as the name of a member."""
    for name, each in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, name)
        if isinstance(each, (dict, list)):
            yield from places(each, (*path, name))
    if isinstance(value, dict):
        yield (*path, "+")


def put(line: dict[str, Any], path: tuple[Any, ...], value: str) -> str:
    """The line with the value, as it is spelled, in one place."""
    made: Any = json.loads(json.dumps(line))
    place = made
    for name in path[:-1]:
        place = place[name]
    if path[-1] == "+":
        place["HERE"] = 1
        return json.dumps(made).replace('"HERE"', value if value.startswith('"') else '"x"')
    place[path[-1]] = "HERE"
    return json.dumps(made).replace('"HERE"', value)


PLACES = list({path: (line, path) for line in LINES for path in places(line)}.values())


@pytest.mark.parametrize("step", slow_but([128], [128, 8]))
def test_what_no_reader_can_use_is_refused_with_its_line_and_the_rest_is_text(
    step: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, before = tmp_path / "t.jsonl", [json.dumps(line) for line in LINES]
    accepted = dict[str, None]()
    for number, (made, path) in enumerate(PLACES):
        for line in (put(made, path, value) for value in VALUES[number % step :: step]):
            try:
                from_row(line.encode("utf-8", "surrogatepass"))
            except ValueError as problem:
                assert "\n" not in str(problem) and len(str(problem)) < 30_000
            else:
                accepted[line] = None
    assert len(accepted) > 7_000 / step
    numbers, todo = count(1), list(accepted)
    for start in range(0, len(todo), 2_000):
        part = enumerate(todo[start : start + 2_000])
        rows = [line for number, each in part for line in (each, before[number % len(before)])]
        file.write_text("".join(re.sub(r'^\{"seq": 1,', f'{{"seq": {next(numbers)},', row) + "\n" for row in rows))
        check_readers(str(file), capsys)


def check_readers(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = dict[str, str]()
    for command in ("narrate", "check --hints --coverage", "draw --all --http", "draw --format svg --http", "show"):
        assert main([*command.split(), file]) == 0
        told[command] = capsys.readouterr().out
    for command in ("narrate", "check --hints --coverage", "draw --all --http"):
        assert told[command].replace("\n", "").isprintable()
    assert "a fault of mcp_ref" not in told["check --hints --coverage"]
    for line in told["draw --all --http"].splitlines()[1:]:
        assert re.fullmatch(
            r"    (participant [CSA] as [\w ]+|rect rgba\(128, 128, 128, 0\.15\)|end|Note (over C,S|left of C): .*"
            r"|[CSA](->>|-->>|-\)|--x|-->)[CSA]: ([^;#%<>&\"`{}$\\]|#\d+;)*)", line
        ), line  # fmt: skip
    # ElementTree refuses what is not XML, such as a character that XML has not.
    picture = Tree.fromstring(told["draw --format svg --http"])
    allowed = {"svg", "style", "defs", "marker", "path", "text", "line", "g", "title"}
    assert {each.tag.rpartition("}")[2] for each in picture.iter()} <= allowed
    assert not [name for each in picture.iter() for name in each.attrib if name.startswith("on") or "href" in name]
    page = told["show"]
    assert page.count("<script") == 2 and page.count("</script>") == 2 and page.count("<!") == 1
    (held,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert held.isascii() and "<" not in held and json.loads(held)["rows"]


@pytest.mark.parametrize(
    ("member", "value"),
    [("http.exchange", "<script>"), ("http.exchange", [1]), ("http.exchange", True), ("http.status", "200"),
     ("http.status", 10**19), ("http.method", {}), ("http.method", None), ("http.headers", []), ("http.headers.x", 1),
     ("http.eventId", 1), ("http.retry", 0.5), ("http.event", []), ("http.hangUp", []), ("http.end", {}),
     ("http.query", "access_token"), ("http.query", [[]]), ("http.what", 1), ("http.url", []), ("http.oauth", []),
     ("end.eof", []), ("end.signal", "9"), ("end.exit", 1.5), ("raw", "x"), ("raw", "\ud800"), ("raw", {}),
     ("http", 7), ("seq", 10**19), ("seq", 1.0), ("conn", "1"), ("thread", []), ("peer", None), ("time", 5)],
)  # fmt: skip
def test_a_member_of_another_type_is_refused_with_its_line(member: str, value: Any, tmp_path: Path) -> None:
    line: dict[str, Any] = {**_LINE, "http": {"exchange": 1, "headers": {}}, "end": {}}
    *path, name = member.split(".")
    place = line
    for each in path:
        place = place[each]
    place[name] = value
    (file := tmp_path / "t.jsonl").write_text(f"{json.dumps(LINES[0])}\n{json.dumps(line)}\n", "utf-8")
    with pytest.raises(ValueError, match=rf"t\.jsonl:2: .*{(path or [name])[-1]}"):
        list(read_trace(file))
    place[name] = {"seq": 2, "thread": "t", "peer": "p", "time": _LINE["time"]}.get(name)
    if place[name] is None:
        del place[name]
    assert from_row(json.dumps(line)).transport == "http"


@pytest.mark.parametrize("command", ["narrate", "check", "draw", "draw --format svg", "show"])
def test_a_line_that_cannot_be_read_is_one_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (LINES[0], {**LINES[0], "seq": "\ud800\n"})
    (file := tmp_path / "t.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    assert main([*command.split(), str(file)]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert "t.jsonl:2: " in said and "seq" in said


def test_a_line_without_its_end_is_told_from_one_that_is_wrong(tmp_path: Path) -> None:
    file, line = tmp_path / "t.jsonl", json.dumps(LINES[0])
    for text, kind in ((line[:-9], TruncatedTrace), (line[:-9] + "\n", ValueError)):
        file.write_text(f"{line}\n{text}", "utf-8")
        with pytest.raises(ValueError, match=r"t\.jsonl:2: ") as caught:
            list(read_trace(file))
        assert caught.type is kind
    file.write_text(f"{line}\n{line}", "utf-8")
    assert len(list(read_trace(file))) == 2
