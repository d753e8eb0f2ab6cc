"""Replay over HTTP: a recorded server at a URL, for any number of clients, in both eras.

Spec:      basic/transports#streamable-http; 2026-07-28/basic/transports/streamable-http
Not here:  what is answered (lab/testing/replay); the endpoint of a `Server`, which checks much more

The reply to a POST is JSON if there is nothing but the answer to say, else an event stream. What follows an answer
goes out on the stream of a GET.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, Final

from mcp_ref import HttpLimits, HttpRefusal, HttpRequest, JsonObject
from mcp_ref.facts import HttpReply, HttpServer, Latest, answering, check_host_and_origin, http_status, messages, sse
from mcp_ref.lab.testing.replay import Replay, is_message

_HERE: Final = frozenset({"localhost", "127.0.0.1"})
_MAX_SESSIONS: Final = 10_000  # the latest
_KEEP_ALIVE: Final = 1.0  # seconds after which a quiet stream finds out whether its client is still there


class ReplayService:
    """A `Replay` on Streamable HTTP, for any number of clients, until `close()`.

    Attributes:
        url: of the endpoint.

    Raises: OSError: it cannot listen there.
    """

    def __init__(self, replay: Replay, port: int = 0) -> None:
        self._player = replay.player
        self._lock = threading.Lock()  # guards the next two
        self._standing: Latest[str, SimpleQueue[JsonObject | None]] = Latest(_MAX_SESSIONS)  # what no POST brings
        self._open: set[SimpleQueue[JsonObject | None]] = set()  # what is being written
        self._http = HttpServer({"/mcp": self._answer}, "127.0.0.1", port, HttpLimits())
        self.url = f"http://127.0.0.1:{self._http.address[1]}/mcp"
        self._ended = threading.Event()
        self._http.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until `close()` was called, at most `timeout` seconds; returns whether it was."""
        return self._ended.wait(timeout)

    def close(self, timeout: float = 5) -> None:
        """End every stream and the listening. Blocks: at most `timeout` seconds."""
        self._ended.set()
        with self._lock:
            for queue in self._open:
                queue.put(None)
        self._http.close(timeout)

    def _answer(self, request: HttpRequest, reply: HttpReply) -> None:
        with answering(None, request, reply) as (request, reply):
            check_host_and_origin(request, _HERE, _HERE)
            session = request.headers.get("mcp-session-id")
            standing = self._standing.get(session or "")
            if session is not None and standing is None:
                raise HttpRefusal(404, "no such session")
            match request.method:
                case "POST":
                    self._post(messages.decode(request.body), session, standing, request, reply)
                case "GET" if standing is not None:
                    self._write(standing, lambda: False, None, request, reply)
                case "DELETE" if standing is not None:
                    self._standing.pop(session or "", None)
                    standing.put(None)
                    reply.send(200, {})
                case _:
                    raise HttpRefusal(405, "Method not allowed", headers={"Allow": "POST"})

    def _post(
        self, message: Any, session: str | None, standing: SimpleQueue[JsonObject | None] | None,
        request: HttpRequest, reply: HttpReply,
    ) -> None:  # fmt: skip
        parts = message if isinstance(message, list) else [message]
        # Anything that is not a message is answered, too, with the reason.
        sound = all(map(is_message, parts))
        asked = [each for each in parts if not is_message(each) or ("method" in each and "id" in each)]
        headers, stateless = {}, session is None
        if sound and asked and asked[0]["method"] == "initialize":
            session, stateless = secrets.token_hex(16), False
            self._standing[session] = standing = SimpleQueue()
            headers = {"Mcp-Session-Id": session}
        mine: SimpleQueue[JsonObject | None] = SimpleQueue()
        left = [messages.readable_id(each) for each in asked]

        def deliver(said: JsonObject) -> None:
            (mine if left or standing is None else standing).put(said)
            if "method" not in said:
                left.remove(said["id"])

        taken = self._player.take(message, deliver, session or object())
        for to, said in taken:
            to(said)
        if not asked:
            reply.send(202, {})
        elif not left and all("method" not in said for to, said in taken if to is deliver):
            answers = [mine.get() for _ in asked]
            code = ((answers[0] or {}).get("error") or {}).get("code", 0)
            status = 400 if not sound else http_status(code) if stateless else 200
            body = json.dumps(answers if isinstance(message, list) else answers[0]).encode()
            reply.send(status, {"Content-Type": "application/json", **headers}, body)
        else:
            self._write(mine, lambda: not left, headers, request, reply)

    def _write(
        self, queue: SimpleQueue[JsonObject | None], done: Callable[[], bool], headers: JsonObject | None,
        request: HttpRequest, reply: HttpReply,
    ) -> None:  # fmt: skip
        """Write an event stream until all is said, its client is gone, or the service ends."""
        with self._lock:
            self._open.add(queue)
        reply.open({"Content-Type": sse.CONTENT_TYPE, "Cache-Control": "no-cache", **(headers or {})})
        try:
            while not (done() and queue.empty()) and not request.gone():
                try:
                    if (message := queue.get(timeout=_KEEP_ALIVE)) is None:
                        break
                    reply.write(sse.encode_event(json.dumps(message)))
                except Empty:
                    reply.write(sse.COMMENT)
            reply.end()
        finally:
            with self._lock:
                self._open.discard(queue)
