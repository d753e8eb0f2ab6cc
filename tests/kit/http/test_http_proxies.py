"""The HTTP client through a proxy that opens tunnels (CONNECT), to a server on TLS."""

from __future__ import annotations

import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from mcp_ref import Client, HttpStatusError, TransportClosed
from mcp_ref.client.targets import Url
from mcp_ref.kit.http.guarded_fetch import Reach, fetch
from tests.pages.basic.transports.collector import WAIT
from tests.pages.basic.transports.streamable_http.scripted import ScriptedServer, content, result, status
from tests.support.relay import Relay

OPENED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a self-signed certificate of 127.0.0.1 and its key."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("no openssl command to make a certificate with")
    both = tmp_path_factory.mktemp("tls") / "both.pem"
    made = subprocess.run(
        [openssl, "req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        + ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", both, "-out", f"{both}.crt"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    if made.returncode:
        pytest.skip(f"this openssl makes no such certificate: {made.stderr[-200:]}")
    both.write_text(both.read_text() + Path(f"{both}.crt").read_text())
    return both


class TlsServer(ScriptedServer):
    def __init__(self, certificate: Path, **answers: Any) -> None:
        super().__init__(**answers)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        # The first read of a connection does the handshake, in that connection's own thread.
        self._listening = context.wrap_socket(self._listening, server_side=True, do_handshake_on_connect=False)
        self.url = self.url.replace("http:", "https:")


class Proxy(Relay):
    """Opens a tunnel for each CONNECT. `refuse`, if given, answers a connection instead, and then it is closed."""

    def __init__(self, refuse: Callable[[socket.socket], None] | None = None) -> None:
        self._refuse = refuse
        self.tunnels: list[str] = []
        super().__init__()
        self.proxies = {"https": self.url}

    def reach(self, near: socket.socket) -> socket.socket | None:
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            # One byte at a time: what comes after the head belongs to the tunnel.
            if not (byte := near.recv(1)):
                return None
            head += byte
        method, target, _ = head.decode().split(" ", 2)
        assert method == "CONNECT"
        self.tunnels.append(target)
        if self._refuse is not None:
            self._refuse(near)
            near.shutdown(socket.SHUT_RDWR)
            return None
        host, _, port = target.rpartition(":")
        far = socket.create_connection((host, int(port)), WAIT)
        far.settimeout(None)
        near.sendall(OPENED)
        return far


@pytest.fixture(params=["options", "session"])
def client_through(request: pytest.FixtureRequest) -> Iterator[Callable[[str, Proxy, Any], Client]]:
    """A client that goes through a proxy, told so in either of the two ways."""
    sessions = []

    def make(url: str, proxy: Proxy, verify: Any) -> Client:
        if request.param == "options":
            target = Url(url, options={"proxies": proxy.proxies, "verify": verify})
            return Client(target, revision="2025-11-25", timeout=WAIT)
        session = requests.Session()
        session.proxies, session.verify = dict(proxy.proxies), verify
        sessions.append(session)
        return Client(url, session=session, revision="2025-11-25", timeout=WAIT)

    yield make
    for session in sessions:
        session.close()


Through = Callable[[str, Proxy, Any], Client]


def test_calls_share_a_tunnel_to_a_server_on_tls_and_a_broken_one_is_replaced(
    certificate: Path, client_through: Through
) -> None:
    info = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    answers = [content(result(1, **info)), status(202), *(content(result(number)) for number in (2, 3, 4))]
    with TlsServer(certificate, post=answers) as server, Proxy() as proxy:
        with client_through(server.url, proxy, str(certificate)) as client:
            client.ping()
            client.ping()
            # One for the calls, and one at most for the GET beside them.
            assert (before := len(proxy.tunnels)) == server.connections <= 2
            proxy.cut()
            client.ping()
            assert len(proxy.tunnels) > before
        posts = [asked for asked in (server.request() for _ in range(server.asked.qsize())) if asked.method == "POST"]
    assert [asked.json()["method"] for asked in posts] == ["initialize", "notifications/initialized", *["ping"] * 3]
    assert set(proxy.tunnels) == {server.url.removeprefix("https://").removesuffix("/mcp")}


def test_the_certificate_is_verified_through_a_tunnel(certificate: Path, client_through: Through) -> None:
    with TlsServer(certificate) as server, Proxy() as proxy:
        with pytest.raises(TransportClosed, match="certificate verify failed"):
            client_through(server.url, proxy, True).connect()


def test_the_certificate_of_whoever_gives_out_tokens_is_verified(certificate: Path) -> None:
    with TlsServer(certificate) as server:
        with pytest.raises(TransportClosed, match="certificate verify failed"):
            fetch(server.url, Reach("loopback"), method="POST", body=b"client_secret=s")
        assert server.asked.empty()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", "Tunnel connection failed: 407"),
        (b"", "no answer"),
        (OPENED, "no answer"),
        (OPENED + b"this is not TLS", "no answer"),
    ],
)
def test_a_proxy_that_opens_no_tunnel_raises_transport_closed(said: bytes, told: str, client_through: Through) -> None:
    with Proxy(lambda sock: sock.sendall(said)) as proxy:
        with pytest.raises(TransportClosed, match=told):
            client_through("https://127.0.0.1:1/mcp", proxy, True).connect()


def test_a_proxy_that_is_not_there_is_named_and_its_password_is_not(client_through: Through) -> None:
    with Proxy() as proxy:
        address = proxy.proxies["https"]
    proxy.proxies["https"] = address.replace("http://", "http://user:secret@")
    with pytest.raises(
        TransportClosed, match=f"no answer from https://127.0.0.1:1/mcp through the proxy {address}"
    ) as e:
        client_through("https://127.0.0.1:1/mcp", proxy, True).connect()
    assert "secret" not in str(e.value)


def test_a_proxy_that_refuses_is_told_as_a_proxy() -> None:
    with ScriptedServer(post=[status(407)]) as proxy:
        target = Url("http://192.0.2.1/mcp", options={"proxies": {"http": proxy.url.removesuffix("/mcp")}})
        with pytest.raises(HttpStatusError, match="^a proxy refused .* with HTTP status 407"):
            Client(target, revision="2025-11-25", timeout=WAIT).connect()
