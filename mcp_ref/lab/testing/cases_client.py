"""The cases for clients whose outcome takes a comparison; for the others lab/testing/cases.jsonl has patterns.

Not here:  what is answered (lab/testing/cases.jsonl); running the client (lab/testing/probe_client)

Each is called with what the client did, and with what it does without the case; it raises Unmet, or NotApplicable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from mcp_ref import JsonObject, Refusal
from mcp_ref.facts import decode_value
from mcp_ref.lab.testing.raw_talk import NotApplicable, expect, fits, shown


@dataclass
class Outcome:
    """The outcome of one case for a client.

    Attributes:
        said: its messages, in order. headers: of the HTTP request of each, {} over stdio.
        asked: methods of HTTP requests without a message, in order, with their headers.
        code: its exit code; None where it had to be ended.
        ended: how it ended its server over stdio: "eof", "term", both in order, or none; over HTTP when a stream ended.
        early: what it said while an answer was held back.
    """

    revision: str
    said: list[JsonObject] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    code: int | None = None
    ended: list[str] = field(default_factory=list)
    early: list[JsonObject] = field(default_factory=list)

    def first(self, pattern: Any) -> int:
        """Return the place of the first message that fits. Raises: NotApplicable."""
        for place, message in enumerate(self.said):
            if fits(message, pattern):
                return place
        raise NotApplicable(f"the client sends no {shown(pattern)}")


CURSORS: Final = ['a"b\\', "\u2603 \u00e9", "x" * 4096, ""]
"""That the case pagination/opaque gives."""


def _calls(outcome: Outcome, method: str) -> list[JsonObject]:
    return [each for each in outcome.said if each.get("method") == method] or _skip(f"the client sends no {method}")


def _skip(why: str) -> list[JsonObject]:
    raise NotApplicable(why)


def cursors_come_back(outcome: Outcome, plain: Outcome) -> None:
    asked = [(each.get("params") or {}).get("cursor") for each in _calls(outcome, "tools/list")]
    if {*asked} == {None}:
        _skip("the client asks for first pages alone")
    # It may ask for the first page as often as it likes. The last cursor is empty, and leads on like any other.
    wrong = [each for each in asked if each not in (None, *CURSORS)]
    stops = len(asked) == len(CURSORS) and asked[-1] is not None
    expect(not wrong and not stops, f"cursors: {shown([str(each)[:20] for each in asked])}")


def first_is_an_opening(outcome: Outcome, plain: Outcome) -> None:
    opening = [
        {"id": "*", "method": "initialize", "params": {"protocolVersion": "*", "capabilities": {}, "clientInfo": {}}},
        {"id": "*", "method": "server/discover"},
    ]
    expect(fits(outcome.said[0], opening), f"it begins with {shown(outcome.said[0])}")


def nothing_but_pings(outcome: Outcome, plain: Outcome) -> None:
    early = [each for each in outcome.early if not fits(each, {"method": ["ping", "notifications/cancelled"]})]
    expect(not early, f"it does not wait: {shown(early[:1])}")


def asked_again_with(state: bool) -> Callable[[Outcome, Outcome], None]:
    def look(outcome: Outcome, plain: Outcome) -> None:
        first, *again = _calls(outcome, "tools/call")
        if not again:
            raise NotApplicable("the client does not go into rounds")
        params = again[0].get("params") or {}
        expect(again[0].get("id") != first.get("id"), "it asks again with the same id")
        came = params.get("requestState")
        expect(came == "state \u2603" if state else "requestState" not in params, f"the state comes as {shown(came)}")

    return look


def has_cancelled(outcome: Outcome, plain: Outcome) -> None:
    outcome.first({"method": "notifications/cancelled"})


def input_ends_first(outcome: Outcome, plain: Outcome) -> None:
    expect(outcome.ended[:1] == ["eof"], f"first comes {outcome.ended[:1] or 'nothing'}")


def ended_by_a_signal(outcome: Outcome, plain: Outcome) -> None:
    expect(outcome.ended[:1] == ["eof"], f"first comes {outcome.ended[:1] or 'nothing'}")
    expect(outcome.code is not None, "it waits for the server for ever")
    expect("term" in outcome.ended, "it does not ask by SIGTERM")


def session_id_goes_along(outcome: Outcome, plain: Outcome) -> None:
    place = outcome.first({"method": "initialize"})
    later = outcome.headers[place + 1 :]
    expect(later, "nothing follows initialize")
    expect(all(each.get("mcp-session-id") == "!id~" for each in later), "a request lacks the id of its session")


def opens_again(outcome: Outcome, plain: Outcome) -> None:
    opened = [place for place, each in enumerate(outcome.said) if each.get("method") == "initialize"]
    expect(len(opened) > 1, "it does not open a new session")
    expect("mcp-session-id" not in outcome.headers[opened[1]], "it opens a new session with the id of the old one")


def resumes_in_time(outcome: Outcome, plain: Outcome) -> None:
    again = [headers for method, headers in outcome.asked if method == "GET" and "last-event-id" in headers]
    if not outcome.ended:
        raise NotApplicable("the client lists no tools")
    expect(again, "it does not come back for the rest")
    expect(again[0]["last-event-id"] == "1", f"Last-Event-ID: {again[0]['last-event-id']!r}")
    waited = float(again[0]["at"]) - float(outcome.ended[0])
    expect(waited >= 0.69, f"it comes back after {waited:.2f} s, and was told to wait for 0.7")


def mirrored(outcome: Outcome, plain: Outcome) -> None:
    for message, headers in zip(outcome.said, outcome.headers, strict=False):
        if message.get("method") == "tools/call" and "id" in message:
            try:
                name = decode_value(headers.get("mcp-name", ""))
            except Refusal as problem:
                name = str(problem)
            expect(headers.get("mcp-method") == "tools/call", f"Mcp-Method: {headers.get('mcp-method')!r}")
            expect(name == message["params"].get("name"), f"Mcp-Name: {headers.get('mcp-name')!r}")
            return
    raise NotApplicable("the client calls no tool")


FUNCTIONS: Final[dict[str, Callable[[Outcome, Outcome], None]]] = {
    "opening/first": first_is_an_opening, "opening/waits": nothing_but_pings, "pagination/opaque": cursors_come_back,
    "rounds/answered": asked_again_with(True), "rounds/no-state": asked_again_with(False),
    "cancel/late-answer": has_cancelled, "stdio/shutdown": input_ends_first, "stdio/stubborn-server": ended_by_a_signal,
    "http/session-id": session_id_goes_along, "http/session-gone": opens_again, "http/retry": resumes_in_time,
    "http/mirrored-headers": mirrored,
}  # fmt: skip
"""By the name of the case."""
