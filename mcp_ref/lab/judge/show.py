"""A trace as a page: one HTML file that needs no network, in which every message opens, and every member of it.

Not here:  the page itself, its style and its script (show.html); the words (lab/judge/narrate, lab/judge/fields)

A trace is hostile input: the data stands in a script of type application/json with every `<` escaped, and the page
makes its elements from text alone. Its Content-Security-Policy lets nothing in but its own style and script, by hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any, Final

from mcp_ref import JsonObject
from mcp_ref.lab.judge.draw import brackets, steps
from mcp_ref.lab.judge.fields import MEANINGS, members
from mcp_ref.lab.judge.narrate import Narrator
from mcp_ref.lab.judge.rulebook import Finding, sentences
from mcp_ref.lab.judge.rules.seen import as_object
from mcp_ref.recording.record import TOO_DEEP, TraceEvent, as_text

_MAX_TEXT: Final = 100_000  # characters of one message, one string or one line that are shown


def page(events: Sequence[TraceEvent], findings: Iterable[Finding], name: str) -> str:
    """Return the whole page.

    Args:
        findings: what a checker found in these events.
        name: what the page is called, such as that of the file.
    """
    template = resources.files("mcp_ref.lab.judge").joinpath("show.html").read_text("utf-8")
    text = json.dumps(data(events, findings, name), ensure_ascii=True, separators=(",", ":"))
    style, script = (re.findall(rf"<{tag}>(.*?)</{tag}>", template, re.DOTALL)[0] for tag in ("style", "script"))
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    return template.replace("{{policy}}", policy).replace("{{data}}", text.replace("<", "\\u003c"))


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def data(events: Sequence[TraceEvent], findings: Iterable[Finding], name: str) -> JsonObject:
    """Return what the page shows: rows, and what is said of members, each once."""
    narrator, found = Narrator(), dict[int, list[JsonObject]]()
    arrows = steps(events, http=True)
    drawn = {step.event.seq: step for step in arrows}
    spans = {arrows[first].span for first, _, _ in brackets(arrows)}
    for finding in findings:
        said = {"blame": finding.blame, "level": finding.level, "says": finding.says, "expected": finding.expected}
        found.setdefault(finding.seq, []).append({**said, "ids": finding.ids})
    began = events[0].time if events else 0.0
    rows: list[JsonObject] = []
    numbers, used = dict[int, int](), set[str]()
    for event in events:
        who, told = narrator.told(event)
        _collect(event.message, used)
        message, step = as_object(event.message), drawn.get(event.seq)
        row: JsonObject = {"seq": event.seq, "who": who, "kind": step.kind if step else "http"}
        row |= {"thread": event.thread[:80], "conn": event.conn, "method": str(message.get("method") or "")[:200]}
        row["id"] = json.dumps(message["id"])[:200] if "id" in message else ""
        row |= {"http": _shown(event.http)} if event.http is not None else {}
        row |= {"span": told.span if told.span in spans else None, "at": round(1000 * (event.time - began), 1),
                "head": told.head[:300], "page": told.page,
                "lines": [line[:2000] for line in told.lines], "message": _shown(event.message),
                "findings": found.get(event.seq, [])}  # fmt: skip
        params = as_object(message.get("params"))
        numbers[event.seq] = len(rows)
        if told.request is not None:
            params, row["partner"] = told.request.params, numbers[told.request.event.seq]
            rows[row["partner"]]["partner"] = len(rows)
        named = params.get("name", params.get("uri"))
        row["name"] = named[:80] if isinstance(named, str) else ""
        # A tool that failed is a result, and reads as a success to whoever looks for errors.
        row["failed"] = as_object(message.get("result")).get("isError") is True
        rows.append(row)
    about = {}
    for each in sorted(used):
        rules = [row for rule in sentences()["rules"].values() for row in rule if f"`{each}`" in row["says"]]
        about[each] = {
            "means": MEANINGS.get(each), **members().get(each, {}),
            "sentences": [{"level": row["level"], "says": row["says"], "ids": row["ids"]} for row in rules[:12]],
        }  # fmt: skip
    return {"name": name, "rows": rows, "members": about}


def _collect(value: Any, used: set[str]) -> None:
    """Collect the names of the members of a message that have a meaning; without recursion, for a stranger chose
    the depth.
    """
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            used.update(each.keys() & MEANINGS.keys())
            left.extend(each.values())
        elif isinstance(each, list):
            left.extend(each)


def _shown(message: Any) -> Any:
    """Return the message, unless it is too long or too deep for a page."""
    text = as_text(message)
    if len(text) <= _MAX_TEXT:
        return text if text == TOO_DEEP else message
    return f"{text[:_MAX_TEXT]} ... [{len(text)} characters]"
