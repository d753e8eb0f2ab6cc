"""A list for a reply: the endpoint's rules are tested without a socket."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

from mcp_ref import Server
from mcp_ref.kit.http.http_exchange import HttpRequest
from mcp_ref.pages.basic.transports.sse import Event, EventParser
from mcp_ref.pages.basic.transports.streamable_http.server import EndpointOptions, StreamableEndpoint
from tests.support.clock import until

PATIENCE = 20.0

BOTH = "application/json, text/event-stream"


class ListReply:
    """An `HttpReply` that remembers what it was told."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.body = b""
        self.events: list[Event] = []
        self.streaming = self.ended = self.hung_up = False
        self.broken = False
        self._parser = EventParser(1 << 30)
        self._changed = threading.Condition()

    def send(self, status: int, headers: Mapping[str, str], body: bytes = b"") -> None:
        assert self.status is None, "a reply is sent once"
        self._check()
        self.status, self.headers, self.body, self.ended = status, dict(headers), body, True

    def open(self, headers: Mapping[str, str], status: int = 200) -> None:
        assert self.status is None, "a reply is opened once"
        self._check()
        self.status, self.headers, self.streaming = status, dict(headers), True

    def write(self, data: bytes) -> None:
        assert self.streaming
        self._check()
        with self._changed:
            self.events += self._parser.feed(data)
            self._changed.notify_all()

    def end(self, patience: float | None = None) -> None:
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def hang_up(self) -> None:
        self.hung_up = True
        self.end()

    def abort(self) -> None:
        self.broken = self.hung_up = True

    def _check(self) -> None:
        if self.broken:
            raise BrokenPipeError("the client is gone")

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def messages(self) -> list[Any]:
        return [json.loads(event.data) for event in self.events if event.data]

    def wait_for(self, count: int, patience: float = PATIENCE) -> list[Any]:
        """The first so many messages of the stream."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.messages) >= count, patience), self.messages
        return self.messages


class Front:
    """An endpoint and a client's memory of its session."""

    def __init__(self, server: Server, *, tap: Any = lambda: None, **options: Any) -> None:
        self.endpoint: Any = StreamableEndpoint(server, EndpointOptions(**options), tap)
        self.address = "127.0.0.1"
        self.headers: dict[str, str] = {"host": "localhost:1", "content-type": "application/json", "accept": BOTH}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.endpoint.close(PATIENCE)

    def ask(
        self, method: str, body: Any = b"", reply: ListReply | None = None, *, at: str = "/mcp", **headers: str | None
    ) -> ListReply:
        """One HTTP request; headers given with underscores, None leaves one out."""
        reply = reply or ListReply()
        changed = {name.replace("_", "-"): value for name, value in headers.items()}
        kept = {name: value for name, value in {**self.headers, **changed}.items() if value is not None}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        gone, (path, _, query) = partial(self.is_gone, reply), at.partition("?")
        self.endpoint(HttpRequest(method, path, kept, data, gone=gone, peer=self.address, query=query), reply)
        return reply

    def is_gone(self, reply: ListReply) -> bool:
        """Whether the client has hung up: in the session era it comes back."""
        return False

    def post(self, message: Any, reply: ListReply | None = None, **headers: str | None) -> ListReply:
        return self.ask("POST", message, reply, **headers)

    def request(self, request_id: Any, method: str, params: Any = None, reply: ListReply | None = None) -> ListReply:
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        return self.post(message if params is None else {**message, "params": params}, reply)

    def notify(self, method: str, params: Any = None) -> ListReply:
        message = {"jsonrpc": "2.0", "method": method}
        return self.post(message if params is None else {**message, "params": params})

    def initialize(self, revision: str = "2025-11-25", capabilities: Any = None) -> ListReply:
        info = {"name": "front", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": capabilities or {}, "clientInfo": info}
        return self.request("open", "initialize", params)

    def open(self, revision: str = "2025-11-25", capabilities: Any = None) -> Front:
        """Hold the opening conversation."""
        reply = self.initialize(revision, capabilities)
        assert reply.status == 200, reply.body
        self.headers["mcp-session-id"] = reply.headers["Mcp-Session-Id"]
        if revision >= "2025-06-18":
            self.headers["mcp-protocol-version"] = revision
        assert self.notify("notifications/initialized").status == 202
        return self

    def listen(self, reply: ListReply | None = None, **headers: str | None) -> tuple[ListReply, threading.Thread]:
        """A GET in a thread of its own, once it has its status."""
        reply = reply or ListReply()
        options = {"reply": reply, "accept": "text/event-stream", **headers}
        thread = threading.Thread(target=self.ask, args=("GET",), kwargs=options)
        thread.start()
        until(lambda: reply.status is not None)
        return reply, thread
