"""Replay: a recorded server that answers.

Spec:      basic/index#messages; what a recording holds is sent as it was
Not here:  recording (recording/record); judging what was said (lab/judge/check); over HTTP (lab/testing/replay_http); a
           recorded client that asks (lab/testing/replay_check); the command (lab/cli/replay)

A recording becomes a list of turns: a message of the client, and what the server said to it. Progress belongs to its
token, an answer to its request; anything else to the youngest request that waits, or to the client's last message. What
HTTP has beside the messages is left aside, and batches are taken apart, so it is all one over what it was recorded.

    of a request              what becomes of it
    method and params         find the turn: among equals the first that is left; `_meta`, and what `initialize` says of
                              the client, are not compared, and what the recording hides fits anything
    id, progress token        become those of the request that is answered
    cursors, states, tasks    go out as recorded, and so come back as recorded
    asked once more           what only reads is answered as the last time; a call is not in the recording
    a question of the server  is asked where it stood; what follows waits for the answer, which is compared
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from typing import Any, Final

from mcp_ref import REVISIONS, InvalidRequest, JsonObject, McpError, Refusal, Transport
from mcp_ref.facts import Deadline, messages
from mcp_ref.lab.judge.rules.seen import POST_MESSAGE, as_object
from mcp_ref.lab.words import LOG_LEVEL, PROTOCOL_VERSION, SUBSCRIPTION_ID
from mcp_ref.recording.record import TraceEvent, read_trace

log = logging.getLogger(__name__)

READING: Final = frozenset((
    "initialize", "server/discover", "ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list",
    "resources/read", "prompts/get", "completion/complete", "logging/setLevel",
))  # fmt: skip
"""Methods that change nothing: asked once more, they are answered as the last time."""

_OPENINGS: Final = ("initialize", "server/discover")
_HIDDEN: Final = re.compile(r"\[redacted(?: \w+)?\]|\.\.\. \[\d+ characters, \w+\]")
_MAX_SHOWN: Final = 80
_MAX_MISMATCHES, _MAX_SAID = 1_000, 1_000  # how many are kept, and characters of each

MISSING: Final = object()
"""Stands for a member that one of two values lacks."""

Deliver = Callable[[JsonObject], None]


# -- comparing ----------------------------------------------------------------------------------------------------


def is_hidden(value: Any) -> bool:
    """Return whether a trace has hidden something in a value."""
    if isinstance(value, dict | list):
        return any(map(is_hidden, value.values() if isinstance(value, dict) else value))
    return isinstance(value, str) and _HIDDEN.search(value) is not None


def differences(recorded: Any, given: Any, at: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield each place where a value is not the recorded one, with what stands there in both; MISSING for nothing."""
    if isinstance(recorded, dict) and isinstance(given, dict):
        for name in recorded | given:
            yield from differences(recorded.get(name, MISSING), given.get(name, MISSING), f"{at}.{name}")
    elif isinstance(recorded, list) and isinstance(given, list) and len(recorded) == len(given):
        for n, pair in enumerate(zip(recorded, given, strict=True)):
            yield from differences(*pair, f"{at}[{n}]")
    elif not _same(recorded, given):
        yield at, recorded, given


def difference(recorded: Any, given: Any, at: str) -> str | None:
    """Return the first place where a value is not the recorded one, in words; None if they fit."""
    for where, was, now in differences(recorded, given, at):
        if was is MISSING:
            return f"{where}: {_shown(now)} here, not in the recording"
        return f"{where}: recorded {_shown(was)}, {'missing here' if now is MISSING else f'here {_shown(now)}'}"
    return None


def _same(recorded: Any, given: Any) -> bool:
    if given is not MISSING and isinstance(recorded, str) and _HIDDEN.search(recorded):
        return recorded == "[redacted]" or _hiding(recorded, given)
    # 1 and 1.0 are the same number in JSON; 1 and true are not the same value.
    return bool(recorded == given) and isinstance(recorded, bool) == isinstance(given, bool)


def _hiding(recorded: str, given: Any) -> bool:
    """Return whether a text can be one of which a trace shows parts."""
    first, *pieces, last = _HIDDEN.split(recorded)
    if not isinstance(given, str) or not given.startswith(first):
        return False
    at = len(first)
    # The first place for each piece leaves most room for the others.
    for piece in pieces:
        if (found := given.find(piece, at)) < 0:
            return False
        at = found + len(piece)
    return given.endswith(last) and len(given) - len(last) >= at


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def params_of(message: JsonObject) -> JsonObject:
    return as_object(message.get("params"))


def is_message(value: Any) -> bool:
    """Return whether a value has the members that tell a message's place in a conversation."""
    if not isinstance(value, dict) or not isinstance(value.get("method", ""), str):
        return False
    # An error may be about what had no id that could be read.
    return messages.is_id(value.get("id", 0)) or (value["id"] is None and "error" in value and "method" not in value)


def meta_of(message: JsonObject) -> JsonObject:
    return as_object(params_of(message).get("_meta"))


def _asked(message: JsonObject) -> Any:
    """Return the params of a request, without those that name the client."""
    if not isinstance(message.get("params", {}), dict):
        return message["params"]
    about = ("capabilities", "clientInfo") if message["method"] == "initialize" else ()
    return {name: value for name, value in params_of(message).items() if name not in ("_meta", *about)}


def answer_of(message: JsonObject) -> JsonObject:
    """Return the result or error of a response, without its id and its `_meta`."""
    said = {name: value for name, value in message.items() if name in ("result", "error")}
    return {name: {k: v for k, v in each.items() if k != "_meta"} if isinstance(each, dict) else each
            for name, each in said.items()}  # fmt: skip


# -- what was recorded --------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Said:
    """A message of the server, to whose turn it belongs, and what the client answered if it was a question."""

    message: JsonObject
    of: Turn
    reply: JsonObject | None = None


@dataclass(eq=False)
class Turn:
    """A message of the client, and what the server said to it, in order.

    Attributes:
        seq: of its event. answered: of that with its response; None: there was none.
        live: the request that plays it, and where its messages go; None before.
    """

    sent: JsonObject
    seq: int
    conn: int | None
    said: list[Said] = field(default_factory=list)
    answered: int | None = None
    live: tuple[JsonObject, Deliver] | None = None

    @property
    def asks(self) -> bool:
        return "id" in self.sent


def turns_of(trace: str | os.PathLike[str]) -> tuple[list[Turn], list[str]]:
    """Return the turns of a recording, and a sentence on each thing that cannot be played.

    Raises: OSError: the file cannot be read. ValueError: it is not a trace, or cut off, or has no message of a client,
        or is of a revision that is not known here.
    """
    name = os.fspath(trace)
    # What a host and an app said is not the client's, nor can a server answer it.
    events = [each for each in read_trace(trace) if each.direction != "stderr" and each.transport != POST_MESSAGE]
    # One recorder may have watched both ends: the client's counts.
    if len({each.peer == "client" for each in events}) > 1:
        events = [each for each in events if each.peer != "client"]
    turns: list[Turn] = []
    waiting: dict[tuple[Any, str], Turn] = {}
    questions: dict[tuple[Any, str], Said] = {}
    given_up: set[Turn | None] = set()
    unplayed: dict[str, list[int]] = {}
    for event, message in _messages(events, unplayed):
        key = (event.conn, json.dumps(message.get("id")))
        from_client = (event.direction == "send") == (event.peer != "client")
        if is_hidden(message):
            what = "is hidden and fits anything" if from_client else "is hidden, and goes out as it is recorded"
            unplayed.setdefault(what, []).append(event.seq)
        if from_client and "method" in message:
            turns.append(turn := Turn(message, event.seq, event.conn))
            if turn.asks:
                waiting[key] = turn
            if message["method"] == "notifications/cancelled":
                given_up.add(waiting.get((event.conn, json.dumps(params_of(message).get("requestId")))))
        elif from_client and key in questions:
            questions.pop(key).reply = message
        if from_client or not turns:
            continue
        of: Turn | None
        if "method" in message:
            of = _owner(message, turns, [each for each in waiting.values() if each not in given_up])
        elif of := waiting.pop(key, None):
            of.answered = event.seq
            result = message.get("result")
            spoken = meta_of(of.sent).get(PROTOCOL_VERSION)
            if isinstance(result, dict) and of.sent["method"] == "initialize":
                spoken = result.get("protocolVersion") or spoken
            if isinstance(result, dict) and spoken is not None and spoken not in REVISIONS:
                raise ValueError(f"{name}: event {event.seq} is of the revision {spoken!r}, which is not known here")
        else:
            continue
        # News of a subscription stood where something had happened.
        listens = of.sent["method"] == "subscriptions/listen"
        (turns[-1] if listens else of).said.append(said := Said(message, of))
        if "method" in message and "id" in message:
            questions[key] = said
    if not turns:
        raise ValueError(f"{name}: no message of a client is in it, so there is nothing to replay")
    notes = [f"{what}: event{'s' * (len(seqs) > 1)} {', '.join(map(str, seqs))}" for what, seqs in unplayed.items()]
    return turns, notes


def _messages(events: list[TraceEvent], unplayed: dict[str, list[int]]) -> Iterator[tuple[TraceEvent, JsonObject]]:
    """Yield each message, those of a batch one by one; what is not a message is put among what cannot be played."""
    for event in events:
        http = event.http or {}
        if http.get("status", 200) >= 400 or http.get("end") == "broken":
            unplayed.setdefault("is of HTTP alone, and not replayed", []).append(event.seq)
        said = event.message if isinstance(event.message, list) else [event.message]
        for message in (each for each in said if each is not None):
            if isinstance(message, dict) and isinstance(message.get("method", ""), str):
                yield event, message
            else:
                unplayed.setdefault("is not a message, and not replayed", []).append(event.seq)


def _owner(message: JsonObject, turns: list[Turn], waiting: list[Turn]) -> Turn:
    """Return the turn that a request or notification of the server belongs to."""
    token, subscription = params_of(message).get("progressToken"), meta_of(message).get(SUBSCRIPTION_ID)
    for turn in reversed(turns):
        if token is not None and meta_of(turn.sent).get("progressToken") == token:
            return turn
        if subscription is not None and turn.sent.get("id") == subscription:
            return turn
    usual = [turn for turn in waiting if turn.sent["method"] != "subscriptions/listen"]
    return usual[-1] if usual else turns[-1]


# -- answering ----------------------------------------------------------------------------------------------------


class Player:
    """Takes the messages of clients, and gives those of the recorded server. No I/O and no thread is in it.

    Args:
        strict: requests come in the recorded order, or they are not in the recording.

    Threads: any.
    """

    def __init__(self, turns: list[Turn], *, strict: bool = False) -> None:
        self.turns, self.strict = turns, strict
        self.mismatches: list[str] = []
        self._lock = threading.Lock()  # guards the list above, `live` of each turn, and the next one
        # By the conversation and the id of a question: what is to be said after its answer, and the question.
        self._rest: dict[tuple[Any, str], tuple[list[Said], Said]] = {}

    def take(self, message: Any, deliver: Deliver, talk: Any = None) -> list[tuple[Deliver, JsonObject]]:
        """Return the server's messages in answer to a message, or to a batch, and where each goes.

        Args:
            deliver: where those go that belong to this message.
            talk: whatever tells conversations apart; the answer to a question comes in that of the question.
        """
        with self._lock:
            parts = message if isinstance(message, list) else [message]
            return [each for part in parts for each in self._take_locked(part, deliver, talk)]

    def _take_locked(self, message: Any, deliver: Deliver, talk: Any) -> list[tuple[Deliver, JsonObject]]:
        if not is_message(message):
            return [(deliver, messages.error(messages.readable_id(message), InvalidRequest("Invalid request")))]
        if "method" not in message:
            rest, question = self._rest.pop((talk, json.dumps(message.get("id"))), (None, None))
            if rest is None or question is None or question.reply is None:
                return []
            if found := difference(answer_of(question.reply), answer_of(message), "answer"):
                self._miss_locked(f"the answer to {question.message['method']}: {found}")
            return self._play_locked(rest, talk)
        method = message["method"]
        left = [turn for turn in self.turns if turn.live is None and turn.asks == ("id" in message)]
        fits = [turn for turn in left if self._fits(turn, message)]
        if "id" not in message:
            fits = fits or [turn for turn in left if turn.sent["method"] == method]
        elif self.strict:
            fits = [turn for turn in fits if turn is left[0]]
        if fits:
            fits[0].live = message, deliver
            return self._play_locked(list(fits[0].said), talk)
        if "id" not in message:
            return []
        again = [turn for turn in self.turns if turn.live is not None and turn.asks and self._fits(turn, message)]
        if again and method in READING and not self.strict:
            answers = [each for each in again[-1].said if "method" not in each.message]
            return [(deliver, {**each.message, "id": message["id"]}) for each in answers[-1:]]
        return [(deliver, self._unrecorded_locked(message, left, again))]

    @staticmethod
    def _fits(turn: Turn, message: JsonObject) -> bool:
        same = turn.sent["method"] == message["method"]
        return same and difference(_asked(turn.sent), _asked(message), "") is None

    def _play_locked(self, rest: list[Said], talk: Any) -> list[tuple[Deliver, JsonObject]]:
        """Return the messages up to the next question; those after it wait for its answer, if there was one."""
        out: list[tuple[Deliver, JsonObject]] = []
        while rest:
            said = rest.pop(0)
            if said.of.live is None:
                continue
            request, deliver = said.of.live
            message = _rewritten(said, request)
            if message is None:
                continue
            if "method" in message and "id" in message and said.reply is not None:
                while (key := (talk, json.dumps(message["id"]))) in self._rest:
                    message = {**message, "id": f"{message['id']}-again"}
                self._rest[key] = rest, said
                return [*out, (deliver, message)]
            out.append((deliver, message))
        return out

    def _miss_locked(self, said: str) -> None:
        # The first ones tell what went wrong; a peer may go on for ever.
        if len(self.mismatches) < _MAX_MISMATCHES:
            self.mismatches.append(said[:_MAX_SAID])

    def _unrecorded_locked(self, message: JsonObject, left: list[Turn], again: list[Turn]) -> JsonObject:
        """Return the answer to a request that was not recorded, with what comes nearest to it."""
        method, asks = message["method"], [turn for turn in self.turns if turn.asks]
        same = [turn for turn in asks if turn.sent["method"] == method]
        if method == "ping":
            return messages.response(message["id"], {})
        if not same and method in _OPENINGS:
            # Of the other era: a client of both goes on with the one that was recorded.
            return messages.error(message["id"], Refusal("Method not found", code=-32601))
        if self.strict and left:
            why = f"event {left[0].seq}, {left[0].sent['method']}, comes first"
        elif again:
            times = f"recorded {len(again)} time{'s' * (len(again) > 1)}"
            why = f"{times}, and asked once more; the last is event {again[-1].seq}"
        elif same:
            asked = _asked(message)
            places = {turn: sum(1 for _ in differences(_asked(turn.sent), asked, "")) for turn in same}
            nearest = min(same, key=lambda turn: (places[turn], turn.live is not None))
            why = f"the nearest is event {nearest.seq}: {difference(_asked(nearest.sent), asked, 'params')}"
        else:
            why = f"the recording has {', '.join(sorted({turn.sent['method'] for turn in asks})) or 'no request'}"
        self._miss_locked(f"{method}: {why}")
        return messages.error(message["id"], Refusal(f"not in the recording: {method}: {why}"))


def _rewritten(said: Said, request: JsonObject) -> JsonObject | None:
    """Return a message as it answers the live request; None if that did not ask for it."""
    if "method" not in said.message:
        message = {**said.message, "id": request["id"]}
        if SUBSCRIPTION_ID in ((message.get("result") or {}).get("_meta") or {}):
            result = message["result"]
            message["result"] = {**result, "_meta": {**result["_meta"], SUBSCRIPTION_ID: request["id"]}}
        return message
    params, was, now = params_of(said.message), meta_of(said.of.sent), meta_of(request)
    if said.message["method"] == "notifications/message" and LOG_LEVEL in was and LOG_LEVEL not in now:
        return None
    if "progressToken" in params and params["progressToken"] == was.get("progressToken"):
        if "progressToken" not in now:
            return None
        params = {**params, "progressToken": now["progressToken"]}
    if SUBSCRIPTION_ID in meta_of(said.message):
        params = {**params, "_meta": {**params["_meta"], SUBSCRIPTION_ID: request["id"]}}
    return {**said.message, "params": params} if params else said.message


# -- as the target of a client, and as a server -------------------------------------------------------------------


class Replay:
    """A recorded server: `Client(Replay("trace.jsonl"))`. Every client goes on where the recording is left.

    Args:
        trace: the file.
        strict: requests come in the recorded order.

    Attributes:
        notes: what of the recording cannot be played, and why, with its events; also in the log.
        mismatches: what was asked, or answered, and is not in the recording: the nearest, and the first difference.
        sessions: the conversations that go on.

    Raises: OSError: the file cannot be read. ValueError: it is not a trace, or cut off, or has no message of a client,
        or is of a revision that is not known here.
    Threads: any; each conversation has one, `mcp-replay`.
    """

    def __init__(self, trace: str | os.PathLike[str], *, strict: bool = False) -> None:
        turns, self.notes = turns_of(trace)
        self.player, self._name = Player(turns, strict=strict), os.fspath(trace)
        self.mismatches = self.player.mismatches
        self.sessions: tuple[ReplaySession, ...] = ()
        for note in self.notes:
            log.warning("%s: what %s", trace, note)

    @property
    def unused(self) -> list[str]:
        """The recorded requests that nobody has made, such as "event 8: tools/call"."""
        left = [turn for turn in self.player.turns if turn.asks and turn.live is None]
        return [f"event {turn.seq}: {turn.sent['method']}" for turn in left]

    def connect(self, transport: Transport) -> ReplaySession:
        """Begin a conversation over a transport, as a `Server` does. Raises: TransportClosed: nobody is there."""
        session = ReplaySession(self.player, transport)
        transport.start(session.inbox.put, lambda reason: session.inbox.put(None))
        self.sessions = (*(each for each in self.sessions if not each.wait(0)), session)
        return session

    def __repr__(self) -> str:
        return f"<Replay of {self._name}: {len(self.player.turns)} turns>"


class ReplaySession:
    """A conversation of a `Replay`. Its thread ends when the transport is lost, which `close` brings about."""

    def __init__(self, player: Player, transport: Transport) -> None:
        self._player, self._transport = player, transport
        self.inbox: SimpleQueue[bytes | None] = SimpleQueue()
        # Daemon: a client that is never closed must not hold up the end of the program.
        self._thread = threading.Thread(target=self._answer, name="mcp-replay", daemon=True)
        self._thread.start()

    def _answer(self) -> None:
        deliver = partial(self._transport.send, deadline=Deadline(None))
        while (text := self.inbox.get()) is not None:
            try:
                taken = self._player.take(messages.decode(text), deliver, self)
            except Refusal as refusal:
                taken = [(deliver, messages.error(None, refusal))]
            with suppress(McpError):  # the other side is gone, which it will be told
                for to, message in taken:
                    to(message)

    def wait(self, timeout: float | None = None) -> bool:
        """Block until the conversation has ended; returns whether it has."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def close(self, timeout: float = 5) -> None:
        """End it. Blocks: at most `timeout` seconds."""
        deadline = Deadline(timeout)
        self._transport.close(deadline)
        self.inbox.put(None)
        self._thread.join(deadline.left())
