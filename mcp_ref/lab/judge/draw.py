"""Drawing a trace: a sequence diagram, as Mermaid or as one SVG.

Not here:  the words of an arrow (lab/judge/narrate); what is red because it is wrong (lab/judge/check)

A solid arrow is a request, a dashed one a response, an open one a notification; red is an error, or what a finding is
about; grey is HTTP without a message. The requests of one call, and a subscription, stand in a bracket. Whoever really
answers is named where the client answers for somebody: the user, or the model. An authorization server has a lifeline
of its own, and so has an app that a host shows: the client is that host's. A trace is hostile input: whatever stands in
it becomes text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from html import escape
from typing import Any, Final, NamedTuple

from mcp_ref import JsonObject
from mcp_ref.facts import escaped
from mcp_ref.lab.judge.narrate import Narrator
from mcp_ref.lab.judge.rules.seen import as_object
from mcp_ref.recording.record import TraceEvent, as_text

MAX_ARROWS: Final = 200
"""So many arrows GitHub draws of a Mermaid diagram."""

_MAX_TEXT: Final = 60
_ANSWERED_BY: Final = {"elicitation/create": "the user", "sampling/createMessage": "the model"}
_ONLY_IN: Final = {"action": "the user", "model": "the model"}  # members by which their answers are known


class Step(NamedTuple):
    """One arrow.

    Attributes:
        kind: "request", "response", "notification", "error" or "http".
        text: at most 60 characters.
        span: the bracket that it belongs to, of a call in several rounds or of a subscription; None without one.
        answers: who answers in truth, such as "the user".
        wrong: a finding is about it.
        aside: it passes between the client and an authorization server.
    """

    event: TraceEvent
    sender: str
    kind: str
    text: str
    span: tuple[str, int] | None = None
    answers: str | None = None
    wrong: bool = False
    aside: bool = False


def steps(events: Iterable[TraceEvent], *, http: bool = False, wrong: Collection[int] = ()) -> list[Step]:
    """Return the arrows of a trace.

    Args:
        http: also what HTTP does without a message; otherwise only its refusals, and clients that hang up.
        wrong: the numbers of the events that findings are about.
    """
    narrator, found = Narrator(), list[Step]()
    for event in events:
        sender, told = narrator.told(event)
        facts, message = event.http or {}, event.message
        refuses = facts.get("status", 0) >= 400
        silent = message is None and not (http or refuses or "hangUp" in facts)
        if sender == "stderr" or event.end is not None or silent:
            continue
        # 1. What it is, and about what.
        body = as_object(message)
        kind = "http" if message is None else "response"
        if "method" in body:
            kind = "request" if "id" in body else "notification"
        # 2. What stands at it, and where it stands.
        text = _text(told.head, message, body)
        if http and "status" in facts and kind == "notification":
            text += f" (on the stream of {facts.get('method')})"
        text = escaped(text)
        text = text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
        given = as_object(body.get("params")).get("inputResponses")
        if isinstance(given, dict):
            members = {member for answer in given.values() for member in as_object(answer)}
            answers = " and ".join(who for member, who in _ONLY_IN.items() if member in members) or None
        else:
            asked = told.request if "result" in body else None
            answers = None if asked is None else _ANSWERED_BY.get(asked.method)
        # The metadata of the resource is the server's; whatever else is said about tokens goes elsewhere.
        aside = "oauth" in facts and "protected" not in str(facts.get("what"))
        kind = "error" if "error" in body or refuses or isinstance(message, str) else kind
        found.append(Step(event, sender, kind, text, told.span, answers, event.seq in wrong, aside))
    return found


def _text(head: str, message: Any, body: JsonObject) -> str:
    """Return the text at an arrow: the narrator's head without the time, and what tells one message from another."""
    if isinstance(message, str):
        return f"not a message: {message}"
    if message is None:
        return re.sub(r"( for \w+), .*", r"\1", head)
    text = re.sub(r"^(request|notification): |, after [\d.]+ m?s$", "", head)
    text = text.replace("response to", "result of").replace("error for", "error of")
    params = as_object(body.get("params"))
    text += f" {params['name']}" if isinstance(params.get("name"), str) else ""
    token = params.get("progressToken", as_object(params.get("_meta")).get("progressToken"))
    text += f", progressToken {token}" if "method" in body and token is not None else ""
    text += " (next round)" if params.keys() & {"inputResponses", "requestState"} else ""
    code, result = as_object(body.get("error")).get("code"), as_object(body.get("result"))
    kind = "isError" if result.get("isError") is True else result.get("resultType")
    text += f" ({code})" if code is not None else ""
    return text + (f" ({kind})" if isinstance(kind, str) and kind != "complete" else "")


def brackets(drawn: list[Step]) -> Iterator[tuple[int, int, str]]:
    """Yield the first and the last arrow of each bracket, and its title; a request and its result alone have none."""
    places: dict[tuple[str, int], list[int]] = {}
    for number, step in enumerate(drawn):
        if step.span is not None:
            places.setdefault(step.span, []).append(number)
    for (method, _), numbers in places.items():
        rounds = sum(drawn[number].kind == "request" for number in numbers)
        if method == "subscriptions/listen" and len(numbers) > 1:
            yield numbers[0], numbers[-1], "a subscription"
        elif rounds > 1:
            yield numbers[0], numbers[-1], f"one call in {rounds} rounds"


# -- Mermaid ------------------------------------------------------------------------------------------------------

_ARROWS: Final = {"request": "->>", "response": "-->>", "notification": "-)", "error": "--x", "http": "-->"}


_THIRD: Final = "Authorization server"
_OF_APPS: Final = ("view", "host")


def mermaid(drawn: list[Step], *, all: bool = False) -> Iterator[str]:
    """Yield the lines of a Mermaid diagram; after `MAX_ARROWS`, unless all are wanted, a note says how many are left
    out.
    """
    shown = drawn if all else drawn[:MAX_ARROWS]
    spans = sorted((each for each in brackets(shown)), key=lambda each: (each[0], -each[1]))
    nested = [a for a in spans if not any(b[0] < a[0] <= b[1] < a[1] for b in spans)]
    yield "sequenceDiagram"
    if any(step.sender in _OF_APPS for step in shown):
        yield "    participant V as App"
    yield from ("    participant C as Client", "    participant S as Server")
    if any(step.aside for step in shown):
        yield f"    participant A as {_THIRD}"
    for number, step in enumerate(shown):
        for _, _, title in (each for each in nested if each[0] == number):
            yield "    rect rgba(128, 128, 128, 0.15)"
            yield f"    Note over C,S: {title}"
        other = "V" if step.sender in _OF_APPS else "A" if step.aside else "S"
        here, there = ("C", other) if step.sender in ("client", "host") else (other, "C")
        arrow = "--x" if step.wrong else _ARROWS[step.kind]
        if step.answers is not None:
            yield f"    Note left of C: {step.answers} answers"
        # `#`, `;` and whatever else means something to Mermaid goes as entity codes.
        plain = (each if each.isalnum() or each in " .,:/_-()[]…'" else f"#{ord(each)};" for each in step.text)
        yield f"    {here}{arrow}{there}: {''.join(plain)}" + (" [wrong]" if step.wrong else "")
        yield from ("    end" for each in nested if each[1] == number)
    if len(shown) < len(drawn):
        yield f"    Note over C,S: {len(drawn) - len(shown)} more are left out"


# -- SVG ----------------------------------------------------------------------------------------------------------

_BETWEEN, _ROW, _TOP, _LEFT = 460, 28, 60, 200
_STYLE: Final = (
    "svg{font:12px ui-monospace,monospace;color:#222;background:#fff}text{fill:currentColor}"
    ".s{opacity:.65;font-size:10px}"
    ".l{stroke:currentColor;opacity:.4}.request{stroke:#1565c0}.response{stroke:#2e7d32;stroke-dasharray:6 3}"
    ".notification{stroke:#6a1b9a}.error{stroke:#c62828;stroke-dasharray:6 3}.http{stroke:#888}.wrong{stroke:#c62828;"
    "stroke-width:2.5}.b{fill:none;stroke:currentColor;opacity:.5}"
    "@media(prefers-color-scheme:dark){svg{color:#ddd;background:#111}.request{stroke:#64b5f6}.response{stroke:#81c784}"
    ".notification{stroke:#ce93d8}.error,.wrong{stroke:#ef9a9a}}"
)


def svg(drawn: list[Step]) -> Iterator[str]:
    """Yield the lines of one SVG, which has no script and names no other file; a message stands in the title of its
    arrow.
    """
    bottom, app = _TOP + _ROW * len(drawn), _LEFT if any(step.sender in _OF_APPS for step in drawn) else None
    left = _LEFT if app is None else app + _BETWEEN
    right = left + _BETWEEN
    third = right + _LEFT if any(step.aside for step in drawn) else None
    width = _LEFT + (right if third is None else third)
    began = drawn[0].event.time if drawn else 0.0
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {bottom + 10}" role="img"'
        f' aria-label="{len(drawn)} messages, drawn as arrows between client and server">'
        f"<style>{_STYLE}</style><defs>"
        '<marker id="full" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
        '<path d="M0 0L9 4L0 8z" fill="context-stroke" stroke="none"/></marker>'
        '<marker id="open" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
        '<path d="M0 0L9 4L0 8" fill="none" stroke="context-stroke"/></marker></defs>'
    )
    lifelines = ((app, "App"), (left, "Client"), (right, "Server"), (third, _THIRD))
    for x, name in ((x, name) for x, name in lifelines if x is not None):
        yield f'<text x="{x}" y="24" text-anchor="middle">{name}</text>'
        yield f'<line class="l" x1="{x}" x2="{x}" y1="34" y2="{bottom}"/>'
    for depth, (first, last, title) in enumerate(sorted(brackets(drawn))):
        top, end, x = _TOP + _ROW * first - 16, _TOP + _ROW * last + 6, left - 12 - 8 * (depth % 4)
        yield f'<g><path class="b" d="M{x + 6} {top}H{x}V{end}H{x + 6}"/>'
        yield f'<text class="s" x="{x - 4}" y="{top + 30}" text-anchor="end">{escape(title)}</text></g>'
    for number, step in enumerate(drawn):
        y = _TOP + _ROW * number
        beside = third if third is not None and step.aside else right
        middle, other = (left + right) // 2, beside
        if app is not None and step.sender in _OF_APPS:
            middle, other = (app + left) // 2, app
        here, there = (left, other) if step.sender in ("client", "host") else (other, left)
        head = "open" if step.kind in ("notification", "http") else "full"
        event, facts = step.event, step.event.http or {}
        place = escaped(f"{facts['exchange']} " if "exchange" in facts else "")
        title = as_text(event.http if event.message is None else event.message, indent=1)[:4000]
        yield (
            f'<g id="m{event.seq}"><title>{escape(escaped(title, chr(10)))}</title>'
            f'<line class="{"wrong" if step.wrong else step.kind}" x1="{here}" x2="{there}" y1="{y}" y2="{y}" '
            f'marker-end="url(#{head})"/>'
            f'<text x="{middle}" y="{y - 5}" text-anchor="middle">{escape(step.text)}</text>'
            f'<text class="s" x="4" y="{y}">{event.seq} {1000 * (event.time - began):.1f} ms'
            f"{'' if step.answers is None else ', ' + escape(step.answers)}</text>"
            f'<text class="s" x="{beside + 10}" y="{y}">{escape(place + escaped(event.thread))}</text></g>'
        )
    yield "</svg>"
