"""The traffic of a program in two revisions side by side: call by call, and in each call message by message.

Not here:  running the program, and the command (lab/cli/diff); the forms in which it is told, and what the tables of
           the revisions say (lab/judge/compare)

A call is a request of the client with all that belongs to it: what answers it, its further rounds, progress, and what
the server asks or tells meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import takewhile
from typing import Any, Final

from mcp_ref.facts import escaped
from mcp_ref.lab.judge.compare import Change
from mcp_ref.lab.testing.replay import MISSING, Turn, differences, params_of
from mcp_ref.lab.testing.replay_check import OPAQUE
from mcp_ref.lab.words import SUBSCRIPTION_ID
from mcp_ref.recording.record import as_text

NOT_COMPARED: Final = (
    "Not compared: ids, and other values that a side makes up; when messages came; what HTTP has beside them."
)
_MADE_UP: Final = tuple(
    f".{name}" for name in (*OPAQUE, "id", "progressToken", "requestId", SUBSCRIPTION_ID, "createdAt", "lastUpdatedAt")
)
_MOST: Final = 200  # characters of a value

Named = list[tuple[str, Any]]
"""The things that are aligned: calls, each with its messages; or messages."""


def align(old: list[Turn], new: list[Turn]) -> list[Change]:
    """Return each message of both, as a change whose part is the call; `was` and `now` are equal where nothing
    differs.
    """
    changes = []
    for number, (name, *calls) in enumerate(_paired(_calls(old), _calls(new)), 1):
        for what, was, now in _paired(*([] if each is MISSING else each for each in calls)):
            for path, *texts in list(_differences(was, now)) or [("", "the same", "the same")]:
                cells = f"{number}. {name}", f"{what} {path}".rstrip(), *texts
                changes.append(Change(*map(escaped, cells)))
    return changes


def _paired(old: Named, new: Named) -> Iterator[tuple[str, Any, Any]]:
    """Yield what has the same name in both, in order, and what one of them has alone."""
    names = [name for name, _ in old], [name for name, _ in new]
    for kind, start, end, first, last in SequenceMatcher(None, *names, autojunk=False).get_opcodes():
        if kind == "equal":
            yield from ((*was, now) for was, (_, now) in zip(old[start:end], new[first:last], strict=True))
        else:
            yield from ((name, was, MISSING) for name, was in old[start:end])
            yield from ((name, MISSING, now) for name, now in new[first:last])


def _calls(turns: list[Turn]) -> Named:
    calls: Named = []
    of: dict[str, Named] = {}  # by what is called, for further rounds; by the id, for what gives it up
    for turn in turns:
        method, params = turn.sent["method"], params_of(turn.sent)
        name = f"{method} {params.get('name') or params.get('uri') or ''}".rstrip()
        again = " again" if params.keys() & {"inputResponses", "requestState"} else ""
        if turn.asks:
            messages = of.get(name) if again else None
        else:
            messages = of.get(json.dumps(params.get("requestId")), calls[-1][1] if calls else None)
        if messages is None:
            calls.append((name, messages := []))
        if turn.asks:
            of[name] = of[json.dumps(turn.sent["id"])] = messages
        messages.append((f"client: {method}{again}", turn.sent))
        for said in turn.said:
            result = said.message.get("result")
            # A result that asks has another name than the last one, which is what a session has, too.
            asks = isinstance(result, dict) and result.get("resultType") == "input_required"
            answer = f"{'questions' if asks else 'answer'} to {said.of.sent['method']}"
            messages.append((f"server: {said.message.get('method', answer)}", said.message))
            if said.reply is not None:
                messages.append((f"client: answer to {said.message['method']}", said.reply))
    return calls


def _differences(was: Any, now: Any) -> Iterator[tuple[str, str, str]]:
    """Return where two messages differ: the members, and both texts; an empty one for what is missing."""
    for path, *values in differences(was, now, ""):
        if path.endswith(_MADE_UP) and MISSING not in values:
            continue
        texts = ["" if each is MISSING else as_text(each) for each in values]
        # Of long texts, from shortly before the place where they part.
        alike = len([*takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False))])
        start = max(alike - _MOST // 4, 0) if max(map(len, texts)) > _MOST else 0
        old, new = ("..." * (start > 0) + each[start : start + _MOST] for each in texts)
        yield path.lstrip("."), old, new
