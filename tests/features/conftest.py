"""Every way from a client to a server: each transport, in each revision that it carries.

A test that asks for `connect` runs once for each way, over the same handlers:

    def test_a_tool_is_called(connect: Connect) -> None:
        server = Server("s")
        server.tool("hello")(lambda: "hello")
        client = connect(server)
        assert client.call_tool("hello")["content"] == [text("hello")]

What one era alone has is said by name, and with the reason: `@session_era("ping was removed")`, and
`@stateless_era(...)`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from mcp_ref import Client, Server, Tasks
from mcp_ref.client.targets import Url
from mcp_ref.pages.basic.transports.stdio import StdioServerTransport
from mcp_ref.recording.record import recorder
from mcp_ref.revisions import REVISIONS, Revision
from mcp_ref.server.http import HttpService
from tests.support.clock import until as until
from tests.support.wire import PATIENCE, Background


class Way(NamedTuple):
    """A transport, and a revision that it carries."""

    transport: str
    revision: Revision

    @property
    def alone(self) -> bool:
        """Whether every request stands alone: 2026-07-28."""
        return self.revision.era == "stateless"

    def __str__(self) -> str:
        return f"{self.transport}-{self.revision}"


HTTP = {"stateless": "http", "streamable": "http", "sse": "http+sse"}
WAYS = [
    *(Way("memory", revision) for revision in REVISIONS.values()),
    *(Way("stdio", revision) for revision in REVISIONS.values()),
    *(Way(HTTP[revision.http], revision) for revision in REVISIONS.values()),
]


NEWEST = list({(way.transport, way.alone): way for way in WAYS}.values())
"""Of each transport the newest revision of each era: for what takes its time, and no revision has changed."""

newest = pytest.mark.parametrize("connect", NEWEST, indirect=True, ids=str)


def session_era(why: str, ways: list[Way] = WAYS) -> pytest.MarkDecorator:
    """The test runs in the session era alone; `why` says what has become of it since."""
    assert why
    return pytest.mark.parametrize("connect", [way for way in ways if not way.alone], indirect=True, ids=str)


def stateless_era(why: str) -> pytest.MarkDecorator:
    """The test runs in the stateless era alone; `why` says what stood for it before."""
    assert why
    return pytest.mark.parametrize("connect", [way for way in WAYS if way.alone], indirect=True, ids=str)


class Connect:
    """Connects clients to servers, by one way. Whatever it opened is closed after the test.

    Attributes:
        transport: "memory", "stdio", "http" or "http+sse".
        revision: the one that is spoken.
        alone: whether it is one of the stateless era.
    """

    def __init__(self, way: Way, stack: ExitStack) -> None:
        self.transport, self.revision = way
        self.alone = way.alone
        self._stack = stack
        self._services: dict[int, HttpService] = {}

    def __call__(self, server: Server, **options: Any) -> Client:
        """A client of that server, whose session is open; calls wait 5 seconds where a test does not say."""
        target = getattr(self, "_" + self.transport.replace("+", "_"))(server, options)
        client = Client(target, **{"revision": self.revision, "timeout": PATIENCE, **options})
        self._stack.callback(client.close)
        return client.connect()

    def end(self, server: Server, timeout: float = 1) -> None:
        """End the server's side, whatever it is doing."""
        service = self._services.get(id(server))
        if service is not None:
            service.close(timeout)
        server.close(timeout)

    def close(self) -> None:
        """Close everything now."""
        self._stack.close()

    def _memory(self, server: Server, options: dict[str, Any]) -> Any:
        return server

    def _stdio(self, server: Server, options: dict[str, Any]) -> Any:
        """Two real pipes within this process. Given descriptors, one class serves at both of their ends."""
        tap = None
        if "trace" in options:
            kept = recorder(options.pop("trace"))
            self._stack.callback(kept.close)
            tap = kept.tap("server", "stdio")
        there, back = os.pipe(), os.pipe()
        server.connect(StdioServerTransport(read_fd=there[0], write_fd=back[1]))
        self._stack.callback(server.close)
        return StdioServerTransport(read_fd=back[0], write_fd=there[1], tap=tap)

    def _http(self, server: Server, options: dict[str, Any]) -> Url:
        """A server that is gone is given up after one attempt to reach it again, about a second later."""
        return Url(self._service(server).url, options={"reconnects": 1})

    def _http_sse(self, server: Server, options: dict[str, Any]) -> str:
        return str(self._service(server).sse_url)

    def _service(self, server: Server) -> HttpService:
        """Serve it by HTTP, once. An event stream whose client has hung up is noticed with the next comment on it."""
        service = self._services.get(id(server))
        if service is None:
            service = self._services[id(server)] = server.serve_http(sse_path="/sse", keep_alive=0.2)
            self._stack.callback(service.close)
        return service


@pytest.fixture(params=WAYS, ids=str)
def connect(request: pytest.FixtureRequest) -> Iterator[Connect]:
    with ExitStack() as stack:
        yield Connect(request.param, stack)


def address_of(url: str) -> tuple[str, int]:
    """Return the host and the port of a URL."""
    where = urlsplit(url)
    return where.hostname or "", where.port or 0


def alive(client: Client) -> bool:
    """Whether the server answers: a ping; without pings, its description of itself."""
    if client.revision.era == "session":
        client.ping()
        return True
    return "supportedVersions" in client.discover(cached=False)


@contextmanager
def hearing(client: Client, **what: Any) -> Iterator[None]:
    """Have the server tell `on_change` of changes: of lists it does so unasked in the session era, of resources by a
    subscription to each; in the stateless era by `listen`, and somebody has to read that."""
    if client.revision.era == "session":
        for uri in what.get("resources", ()):
            client.subscribe_resource(uri)
        yield
        for uri in what.get("resources", ()):
            client.unsubscribe_resource(uri)
        return
    with client.listen(**what) as events:
        reading = Background(list, events)
        yield
    assert isinstance(reading.outcome(), list)


@pytest.fixture(autouse=True)
def tasks_are_looked_at_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server tells who follows its tasks to ask after a twentieth of a second, unless a test says otherwise."""
    monkeypatch.setitem(Tasks.__init__.__kwdefaults__, "poll", 0.05)


counts_descriptors = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors as Linux does")


@pytest.fixture(autouse=True)
def nothing_is_found(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With MCP_REF_JUDGE=1 the checker stands under every test (tests/lab/judge/watching)."""
    from tests.lab.judge.watching import NOT_WATCHED, unexpected, watched

    name = f"{request.node.path.stem}::{request.node.name}"
    if os.environ.get("MCP_REF_JUDGE") != "1" or name.startswith(NOT_WATCHED):
        yield
        return
    with watched(monkeypatch) as found:
        yield
    left = unexpected(name, found)
    assert not left, "\n".join(map(str, left))
