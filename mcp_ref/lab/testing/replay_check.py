"""Against: a recorded client asks a live server again, and what that answers is compared.

Not here:  the recording, and what a difference is (lab/testing/replay); the command (lab/cli/replay)

Each message goes out as soon as all answers that stood before it have come. A question of the server gets the answer
that was recorded for one of its method. Where the server makes up a value that the client brings back (a cursor, the
state of a round, a task), the recorded one becomes the live one on its way out, and the other way round before it is
compared.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple

from mcp_ref import REVISIONS, JsonObject, McpError, Refusal, Revision, Transport, TransportClosed
from mcp_ref.facts import Deadline, HttpClientTransport, InProcess, StdioClientTransport, messages, mirror
from mcp_ref.lab.testing.replay import Turn, answer_of, difference, is_message, meta_of, params_of
from mcp_ref.lab.words import PROTOCOL_VERSION

OPAQUE: Final = frozenset(("cursor", "nextCursor", "requestState", "taskId", "elicitationId"))
"""Members whose values a server makes up."""

IGNORED: Final = frozenset(("_meta", "ttlMs", "serverInfo", "lastUpdatedAt", "createdAt"))
"""Members that are not compared, beside those of `ignore`."""


_NO_MESSAGE: Final = "the server says something that is not a message"


class Compared(NamedTuple):
    """The result of a comparison: the differences, each with its event, and how many answers were compared."""

    differences: list[str]
    answers: int


def against(turns: list[Turn], target: Any, *, ignore: Collection[str] = (), timeout: float = 10) -> Compared:
    """Play the recorded client to a live server, and compare the answers.

    Args:
        turns: of a recording, from `turns_of`.
        target: a command as a list of strings, a URL, or a server in this process.
        ignore: names of members that are not compared, at any depth.
        timeout: seconds for each answer.

    Raises: TransportClosed: the server cannot be started, or reached.
    """
    opening = {turn.conn for turn in turns if turn.sent["method"] == "initialize"}
    # Each session has a connection of its own; what stands alone shares one.
    parts: dict[int | None, list[Turn]] = {}
    for turn in turns:
        parts.setdefault(turn.conn if turn.conn in opening else None, []).append(turn)
    told: list[str] = []
    count = 0
    for part in parts.values():
        transport: Transport
        if isinstance(target, str):
            transport = HttpClientTransport(target)
        else:
            transport = StdioClientTransport(target) if isinstance(target, Sequence) else InProcess(target, None)
        asking = _Asking(part, transport, IGNORED | set(ignore), timeout)
        try:
            asking.play()
        finally:
            asking.transport.close(Deadline(5))
        told, count = [*told, *asking.told], count + asking.compared
    return Compared(told, count)


class _Asked:
    """A `Pending` for one request over HTTP, whose messages all go to the same place."""

    sent = answered = False
    on_give_up: Callable[[], None] | None = None

    def take(self, deadline: Deadline | None = None) -> bool:
        return self.answered


class _Asking:
    """One connection of the recorded client."""

    def __init__(self, turns: list[Turn], transport: Transport, ignored: Collection[str], timeout: float) -> None:
        self.turns, self.transport, self._ignored, self._timeout = turns, transport, ignored, timeout
        self.told: list[str] = []
        self.compared = 0
        self._inbox: SimpleQueue[JsonObject | McpError] = SimpleQueue()
        self._asked: dict[int, _Asked] = {}
        self._waiting: dict[int, Turn] = {}  # by the live id, in the order in which they were sent
        self._became: dict[str, Any] = {}
        self._revision: Revision | None = None
        self._replies = [said for turn in turns for said in turn.said if said.reply is not None]

    def play(self) -> None:
        self.transport.start(self._receive, self._inbox.put)
        try:
            for number, turn in enumerate(self.turns, 1):
                self._await(turn.seq)
                self._send(number, turn)
            self._await(None)
        except TransportClosed as problem:
            if not self.compared and not self.told:
                raise
            self.told.append(f"the server is gone: {problem}")

    def _receive(self, text: bytes) -> None:
        try:
            message = messages.decode(text)
        except Refusal:
            message = None
        for each in message if isinstance(message, list) else [message]:
            if not is_message(each):
                each = {"method": _NO_MESSAGE}
            if "method" not in each and each.get("id") in self._asked:
                self._asked[each["id"]].answered = True
            self._inbox.put(each)

    def _send(self, number: int, turn: Turn) -> None:
        message, version = self._mapped(turn.sent), meta_of(turn.sent).get(PROTOCOL_VERSION)
        http = self.transport if isinstance(self.transport, HttpClientTransport) else None
        if http is not None:
            http.mirror = None if version is None else partial(mirror, revision_name=version)
        if not turn.asks:
            if "requestId" in params_of(message):
                # A recording may have anything for an id.
                was = {json.dumps(each.sent["id"]): live for live, each in enumerate(self.turns, 1) if each.asks}
                given_up = was.get(json.dumps(message["params"]["requestId"]), 0)
                message["params"] = {**message["params"], "requestId": given_up}
            self.transport.send(message, Deadline(self._timeout))
            if message["method"] == "notifications/initialized" and http is not None and self._revision is not None:
                http.opened(self._revision)
            return
        message["id"] = number
        if turn.answered is not None:
            self._waiting[number] = turn
        if http is None:
            self.transport.send(message, Deadline(self._timeout))
            return
        self._asked[number] = _Asked()
        # Daemon: `close` cuts what it reads, and a request without an answer lasts until then.
        threading.Thread(target=self._exchange, args=(message,), name="mcp-against", daemon=True).start()

    def _exchange(self, message: JsonObject) -> None:
        limit = Deadline(self._timeout if message["id"] in self._waiting else None)
        try:
            self.transport.exchange(message, self._asked[message["id"]], limit)
        except McpError as problem:
            self._inbox.put({"id": message["id"], "error": {"code": 0, "message": str(problem)}})

    def _await(self, before: int | None) -> None:
        """Take what comes until all is answered that was answered before that event; None: all."""
        while any(before is None or (turn.answered or 0) < before for turn in self._waiting.values()):
            try:
                message = self._inbox.get(timeout=self._timeout)
            except Empty:
                late = [self._waiting.pop(live) for live in list(self._waiting)]
                self.told += [
                    f"event {turn.seq}, {turn.sent['method']}: no answer in {self._timeout:g} s" for turn in late
                ]
                return
            if isinstance(message, McpError):
                raise message if isinstance(message, TransportClosed) else TransportClosed(str(message))
            if message.get("method") == _NO_MESSAGE:
                self.told += [] if _NO_MESSAGE in self.told else [_NO_MESSAGE]
            elif "method" in message and "id" in message:
                self._answer(message)
            elif "method" not in message and message.get("id") in self._waiting:
                self._compare(self._waiting.pop(message["id"]), message)

    def _answer(self, question: JsonObject) -> None:
        method = question["method"]
        known = next((said for said in self._replies if said.message["method"] == method), None)
        if known is None or known.reply is None:
            reply = messages.error(question["id"], Refusal("not asked in the recording", code=-32601))
        else:
            self._replies.remove(known)
            reply = {**self._mapped(known.reply), "id": question["id"]}
        self.transport.send(reply, Deadline(self._timeout))

    def _compare(self, turn: Turn, live: JsonObject) -> None:
        said = (said for each in self.turns for said in each.said if said.of is turn)
        recorded = next(each.message for each in said if "method" not in each.message)
        self.compared += 1
        self._learn(recorded, live)
        result = live.get("result")
        if turn.sent["method"] == "initialize" and isinstance(result, dict):
            self._revision = REVISIONS.get(str(result.get("protocolVersion")))
            if isinstance(self.transport, HttpClientTransport) and self._revision is not None:
                self.transport.agreed(self._revision)
        if found := difference(self._compared(answer_of(recorded)), self._compared(answer_of(live)), "answer"):
            self.told.append(f"event {turn.seq}, {turn.sent['method']}: {found}")

    # -- values that the server makes up

    def _learn(self, recorded: Any, live: Any) -> None:
        """Note what a recorded value is called now, and call it in the answer as it was recorded."""
        if isinstance(recorded, dict) and isinstance(live, dict):
            for name in recorded.keys() & live.keys():
                if name in OPAQUE and isinstance(recorded[name], str):
                    self._became[recorded[name]] = live[name]
                    live[name] = recorded[name]
                else:
                    self._learn(recorded[name], live[name])
        elif isinstance(recorded, list) and isinstance(live, list):
            for pair in zip(recorded, live, strict=False):
                self._learn(*pair)

    def _mapped(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: self._became.get(each, each) if name in OPAQUE and isinstance(each, str) else self._mapped(each)
                for name, each in value.items()
            }
        return [self._mapped(each) for each in value] if isinstance(value, list) else value

    def _compared(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._compared(each) for name, each in value.items() if name not in self._ignored}
        return [self._compared(each) for each in value] if isinstance(value, list) else value
