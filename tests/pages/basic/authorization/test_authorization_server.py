"""The small authorization server: registration, consent, codes, tokens, and what it must refuse."""

from __future__ import annotations

import base64
import hashlib
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from mcp_ref import HttpRefusal, TransportClosed
from mcp_ref.kit.http import guarded_fetch
from mcp_ref.lab.testing import authorization_server as page
from mcp_ref.lab.testing.authorization_server import AuthorizationServer
from mcp_ref.pages.basic.authorization.metadata import s256
from tests.pages.basic.authorization.guarded import notes
from tests.pages.basic.authorization.issuer import Issuer
from tests.pages.basic.authorization.world import present
from tests.pages.basic.transports.streamable_http.modern import called, mirrored
from tests.pages.basic.transports.streamable_http.replies import BOTH
from tests.support.clock import Clock

BACK = "http://127.0.0.1:7/callback"
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()
SCOPES = ["basic", "notes:write", "notes:list"]


class Site:
    """A server that is its own authorization server, with a browser and a client before it."""

    def __init__(self, service: Any, login: AuthorizationServer) -> None:
        self.url, self.login = service.url, login
        self.base = service.url.removesuffix("/mcp")
        self.browser = requests.Session()

    def get(self, path: str, **options: Any) -> requests.Response:
        return self.browser.get(self.base + path, allow_redirects=False, timeout=5, **options)

    def post(self, path: str, form: Any = None, **options: Any) -> requests.Response:
        """By a client, which has no cookies."""
        return requests.post(self.base + path, form, timeout=5, **options)

    def register(self, **changed: Any) -> requests.Response:
        usual = {"client_name": "A script", "redirect_uris": [BACK], "token_endpoint_auth_method": "none"}
        return self.post("/register", json={**usual, **changed})

    def client(self, **changed: Any) -> str:
        answer = self.register(**changed)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["client_id"])

    def ask(self, client: str, **changed: str | None) -> requests.Response:
        usual = {"response_type": "code", "client_id": client, "redirect_uri": BACK, "state": "st", "scope": "basic",
                 "code_challenge": CHALLENGE, "code_challenge_method": "S256", "resource": self.url}  # fmt: skip
        return self.get("/authorize", params=present({**usual, **changed}))

    def answer(
        self, asked: requests.Response, browser: requests.Session | None = None, **changed: str
    ) -> requests.Response:
        ticket = re.search('name=ticket value="([^"]*)"', asked.text)
        form = {"ticket": ticket[1] if ticket else "", "user": "ada", "password": "pw", "answer": "allow", **changed}
        return (browser or self.browser).post(f"{self.base}/authorize", data=form, allow_redirects=False, timeout=5)

    def code(self, client: str, **changed: str | None) -> str:
        return back(self.answer(self.ask(client, **changed)))["code"]

    def token(self, client: str, code: str = "", /, headers: Any = None, **changed: Any) -> requests.Response:
        usual = {"grant_type": "authorization_code", "code": code, "client_id": client, "redirect_uri": BACK,
                 "code_verifier": VERIFIER, "resource": self.url}  # fmt: skip
        return self.post("/token", present({**usual, **changed}), headers=headers)

    def tokens(self, client: str, **changed: str | None) -> Any:
        answer = self.token(client, self.code(client, **changed))
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refresh(self, client: str, token: str, **changed: Any) -> requests.Response:
        gone = {"redirect_uri": None, "code_verifier": None, "code": None}
        return self.token(client, **{**gone, "grant_type": "refresh_token", "refresh_token": token, **changed})

    def call(self, token: str, tool: str = "read") -> requests.Response:
        message = called(tool)
        headers = {"Authorization": f"Bearer {token}", "Accept": BOTH, **mirrored(message)}
        return self.post("/mcp", json=message, headers=headers)


def back(answer: requests.Response) -> dict[str, str]:
    """Return what the browser brings back to the client."""
    assert answer.status_code == 303, answer.text
    where = answer.headers["Location"]
    assert where.startswith(f"{BACK}?")
    return {name: values[0] for name, values in parse_qs(urlsplit(where).query).items()}


@contextmanager
def site(protection: Any = None, **options: Any) -> Iterator[Site]:
    usual: dict[str, Any] = {"scopes": SCOPES} | ({} if "login" in options else {"users": {"ada": "pw", "bob": "pw2"}})
    login = AuthorizationServer(**{**usual, **options})
    with notes()[0].serve_http(authorization=login.protection(**(protection or {"scopes": ["basic"]}))) as service:
        yield Site(service, login)


@pytest.fixture
def here() -> Iterator[Site]:
    with site() as made:
        yield made


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time of day, which the test moves on."""
    clock = Clock(time.time())
    monkeypatch.setattr(time, "time", clock)
    return clock


def error(answer: requests.Response) -> tuple[int, str]:
    assert answer.headers["Cache-Control"] == "no-store"
    return answer.status_code, answer.json()["error"]


def text(answer: requests.Response) -> str:
    return str(answer.json()["result"]["content"][0]["text"])


def test_the_way_to_a_token_and_on(here: Site) -> None:
    refused = here.post("/mcp", json={})
    metadata_url = re.search('resource_metadata="([^"]*)"', refused.headers["WWW-Authenticate"])
    assert refused.status_code == 401 and metadata_url is not None
    resource = requests.get(metadata_url[1], timeout=5).json()
    assert (resource["resource"], resource["authorization_servers"]) == (here.url, [here.base])
    metadata = here.get("/.well-known/oauth-authorization-server").json()
    assert metadata["issuer"] == here.base
    assert metadata["code_challenge_methods_supported"] == ["S256"]
    assert metadata["authorization_response_iss_parameter_supported"] is True
    client = here.client()
    came_back = back(here.answer(here.ask(client)))
    assert (came_back["state"], came_back["iss"]) == ("st", here.base)
    answer = here.token(client, came_back["code"])
    assert (answer.headers["Cache-Control"], answer.json()["scope"]) == ("no-store", "basic")
    tokens = answer.json()
    assert text(here.call(tokens["access_token"])) == "ada"
    assert here.call(tokens["access_token"], "add").status_code == 403
    assert here.call(tokens["refresh_token"]).status_code == 401
    newer = here.refresh(client, tokens["refresh_token"]).json()
    assert here.call(newer["access_token"]).status_code == 200
    here.post("/revoke", {"client_id": client, "token": newer["refresh_token"]})
    assert here.call(newer["access_token"]).status_code == 401


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
def test_a_client_with_a_secret_authenticates_as_it_was_registered(here: Site, method: str) -> None:
    registered = here.register(token_endpoint_auth_method=method).json()
    client, secret = registered["client_id"], registered["client_secret"]
    basic = {"Authorization": "Basic " + base64.b64encode(f"{client}:{secret}".encode()).decode()}
    ways: dict[str, dict[str, Any]] = {
        "client_secret_basic": {"headers": basic},
        "client_secret_post": {"client_secret": secret},
        "none": {},
        "wrong": {"client_secret": secret + "x"},
        "both": {"headers": basic, "client_secret": secret},
        "another": {"headers": basic, "client_id": "x"},
        "malformed": {"headers": {"Authorization": "Basic ä"}},
        "bearer": {"headers": {"Authorization": f"Bearer {secret}"}},
    }
    code = here.code(client)
    for name, way in ways.items():
        if name != method:
            assert error(here.token(client, code, **way))[1] in ("invalid_client", "invalid_request"), name
    assert here.token(client, code, **ways[method]).status_code == 200


def test_the_browser_is_sent_nowhere_that_was_not_registered(here: Site) -> None:
    client, https = here.client(), here.client(redirect_uris=["https://app.example/back"])
    for name, uri in [("unknown", BACK), (https, "https://app.example:9/back"), *((client, uri) for uri in (
        "http://127.0.0.1:7/other", "http://127.0.0.1:7/callback?x=1", "http://127.0.0.1:7/callback#f",
        "http://u@127.0.0.1:7/callback", "https://127.0.0.1:7/callback", "http://127.0.0.1.evil.example:7/callback",
        "http://localhost:7/callback", "http://127.0.0.1:7/x/../callback", "javascript:alert(1)", "",
        "http://127.0.0.1:7@evil.example/callback",
    ))]:  # fmt: skip
        answer = here.ask(name, redirect_uri=uri)
        assert (answer.status_code, "Location" in answer.headers) == (400, False), uri
        assert "is not known here" in answer.text, "the user is told"
    # On this machine the port may differ.
    assert here.ask(client, redirect_uri="http://127.0.0.1:9/callback").status_code == 200


def test_what_is_wrong_goes_back_to_the_client(here: Site) -> None:
    client = here.client()
    wrong: list[tuple[dict[str, str | None], str]] = [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"scope": "root"}, "invalid_scope"),
        ({"resource": "https://other.example/mcp"}, "invalid_target"),
    ]
    for changed, code in wrong:
        answer = back(here.ask(client, **changed))
        assert (answer["error"], answer["state"], answer["iss"]) == (code, "st", here.base), changed


def test_a_code_counts_once_and_a_second_use_ends_what_the_first_brought(here: Site) -> None:
    client = here.client()
    code = here.code(client)
    first = here.token(client, code).json()
    assert error(here.token(client, code)) == (400, "invalid_grant")
    assert here.call(first["access_token"]).status_code == 401
    assert error(here.refresh(client, first["refresh_token"])) == (400, "invalid_grant")


def test_a_code_is_of_one_client_place_verifier_and_resource(here: Site) -> None:
    client, other = here.client(), here.client()
    code = here.code(client)
    for changed in (
        {"client_id": other}, {"redirect_uri": "http://127.0.0.1:9/callback"}, {"code_verifier": "w" * 43},
        {"code_verifier": None}, {"code_verifier": VERIFIER + "\u00e9"}, {"resource": "https://other.example/mcp"},
        {"code": "x"},
    ):  # fmt: skip
        assert here.token(client, code, **changed).status_code == 400, changed
    assert here.token(client, code).status_code == 200
    for weak in ("v" * 42, "v" * 129, "\u00e9" * 43):
        asked = here.code(client, code_challenge=s256(weak))
        assert error(here.token(client, asked, code_verifier=weak)) == (400, "invalid_grant")


def test_of_tokens_codes_and_secrets_the_authorization_server_keeps_hashes_alone(here: Site) -> None:
    secret = here.register(token_endpoint_auth_method="client_secret_post").json()["client_secret"]
    client = here.client()
    code, tokens = here.code(client), here.tokens(client)
    kept = str(vars(here.login))
    assert client in kept
    assert not [each for each in (secret, code, tokens["access_token"], tokens["refresh_token"]) if each in kept]


def test_a_refresh_token_counts_once_and_a_second_use_ends_the_family(here: Site) -> None:
    client, other = here.client(), here.client()
    first = here.tokens(client, scope="basic notes:write")
    for who, changed, code in (
        (other, {}, "invalid_grant"),
        (client, {"scope": "basic notes:list"}, "invalid_scope"),
        (client, {"resource": "https://other.example/mcp"}, "invalid_target"),
    ):
        assert error(here.refresh(who, first["refresh_token"], **changed)) == (400, code)
    second = here.refresh(client, first["refresh_token"], scope="basic").json()
    assert second["scope"] == "basic"
    assert here.call(second["access_token"]).status_code == 200
    assert error(here.refresh(client, first["refresh_token"])) == (400, "invalid_grant")
    assert here.call(second["access_token"]).status_code == 401
    assert error(here.refresh(client, second["refresh_token"])) == (400, "invalid_grant")


def test_questions_codes_and_tokens_end_in_their_time(here: Site, clock: Clock) -> None:
    client = here.client()
    asked = here.ask(client)
    clock.now += 601  # ten minutes
    assert here.answer(asked).status_code == 400
    code = here.code(client)
    clock.now += 61
    assert error(here.token(client, code)) == (400, "invalid_grant")
    tokens = here.tokens(client)
    assert tokens["expires_in"] == 600
    clock.now += 590
    assert here.call(tokens["access_token"]).status_code == 200
    clock.now += 20
    assert here.call(tokens["access_token"]).status_code == 401
    tokens = here.refresh(client, tokens["refresh_token"]).json()
    assert here.call(tokens["access_token"]).status_code == 200
    clock.now += 31 * 86_400
    assert error(here.refresh(client, tokens["refresh_token"])) == (400, "invalid_grant")


def test_consent_is_given_by_the_user_who_was_asked_once(here: Site) -> None:
    client = here.client()
    asked = here.ask(client)
    csp = asked.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in csp and asked.headers["Cache-Control"] == "no-store"
    assert "HttpOnly" in asked.headers["Set-Cookie"] and "SameSite=Lax" in asked.headers["Set-Cookie"]
    # From another browser, or without a question.
    assert here.answer(asked, requests.Session()).status_code == 400
    assert here.answer(asked).status_code == 400, "the question is gone with the first answer"
    for wrong in ({"password": "x"}, {"user": "eve"}, {"user": "bob"}, {"user": "ada", "password": ""}):
        assert here.answer(here.ask(client), **wrong).status_code == 403
    assert back(here.answer(here.ask(client), answer="deny"))["error"] == "access_denied"
    assert "name=ticket" in here.ask(here.client()).text, "another client of the same name asks again"
    here.browser = requests.Session()
    assert "Location" not in here.ask(client, answer="allow", user="ada", password="pw").headers


def test_the_page_shows_the_place_and_warns_of_one_on_this_computer(here: Site) -> None:
    for uri, warned in (
        ("http://127.0.0.1:7/x", True), ("http://LOCALHOST/x", True), ("http://[::1]:7/x", True),
        ("http://127.9.9.9/x", True), ("https://localhost/x", True), ("https://app.example/x", False),
        ("https://localhost.example/x", False),
    ):  # fmt: skip
        shown = here.ask(here.client(redirect_uris=[uri]), redirect_uri=uri).text
        assert f"It is at <b>{urlsplit(uri).netloc}</b>" in shown
        assert ("a program on this computer. Go on only if you have just started it" in shown) is warned, uri


def test_what_clients_say_of_themselves_is_shown_escaped_with_the_place(here: Site) -> None:
    assert here.register(redirect_uris=["https://app.example/<script>"]).status_code == 400
    uri = "https://app.example/x"
    evil = here.client(client_name="<script>alert(1)</script>", redirect_uris=[uri, BACK])
    shown = here.ask(evil).text
    assert "<script>" not in shown and "&lt;script&gt;" in shown and "127.0.0.1:7" in shown
    assert "app.example" in here.ask(evil, redirect_uri=uri).text
    strange = here.client(client_name="half a pair: \ud800")
    assert "half a pair: ?" in here.ask(strange).text


def test_registration_refuses_redirect_uris_that_are_not_safe(here: Site) -> None:
    for uris in (["javascript:alert(1)"], ["http://app.example/x"], [], None, "https://a", [7], ["https://a#b"],
                 ["https://u@a"], ["https://a", "file:///x"]):  # fmt: skip
        assert error(here.register(redirect_uris=uris)) == (400, "invalid_redirect_uri"), uris


def test_registration_is_bounded(here: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_KEPT", 3)
    assert [here.register().status_code for _ in range(5)] == [201, 201, 201, 503, 503]
    assert here.register(client_name="x" * 1_000_000).status_code == 413
    assert here.post("/register", b"[" * 60_000).status_code == 400
    assert here.register(token_endpoint_auth_method="private_key_jwt").status_code == 400
    assert here.get("/register").status_code == 405


def test_without_a_resource_a_token_is_for_this_server(here: Site) -> None:
    """As clients of 2025-03-26 ask, which name neither a resource nor a scope."""
    client = here.client()
    answer = here.token(client, here.code(client, resource=None, scope=None), resource=None)
    assert answer.json()["scope"] == "basic"
    assert here.call(answer.json()["access_token"]).status_code == 200


def test_a_third_party_signs_the_user_in_and_may_take_it_back() -> None:
    subject, alive = "", True

    def login(request: Any) -> str:
        if not subject:
            raise HttpRefusal(302, "sign in first", headers={"Location": "https://login.example/"})
        return subject

    with site(login=login, alive=lambda subject: alive) as here:
        client = here.client()
        assert here.ask(client).headers["Location"] == "https://login.example/"
        subject = "carol"
        asked = here.ask(client)
        assert "carol" in asked.text and "password" not in asked.text
        subject = "dave"
        assert here.answer(asked).status_code == 403
        subject = "carol"
        used, unused = here.tokens(client), here.tokens(client)
        assert text(here.call(used["access_token"])) == "carol"
        code, alive = here.code(client), False
        assert here.call(used["access_token"]).status_code == 401
        # Nobody has used the other access token since, so it is here that the third party is asked.
        assert error(here.refresh(client, unused["refresh_token"])) == (400, "invalid_grant")
        assert error(here.token(client, code)) == (400, "invalid_grant")
        alive = True
        assert error(here.refresh(client, used["refresh_token"])) == (400, "invalid_grant")
        assert here.call(unused["access_token"]).status_code == 401, "it does not come back with the user"


def test_a_client_may_be_the_url_of_its_metadata() -> None:
    with Issuer() as web, site(documents=True) as here, site() as without:
        url = f"{web.url}/client.json"
        web.publish("/client.json", {"client_id": url, "client_name": "Doc", "redirect_uris": [BACK]})
        assert "Doc" in here.ask(url).text and "on this computer" in here.ask(url).text
        assert here.call(here.tokens(url)["access_token"]).status_code == 200
        assert without.ask(url).status_code == 400
        large = {"client_id": f"{web.url}/large.json", "redirect_uris": [BACK], "x": "x" * (1 << 21)}
        wrong = {"/other.json": {"client_id": url, "redirect_uris": [BACK]}, "/large.json": large, "/html": b"<html>",
                 "/": {"client_id": f"{web.url}/", "redirect_uris": [BACK]}}  # fmt: skip
        for path, document in wrong.items():
            web.publish(path, document)
        for path in (*wrong, "/none", ""):
            assert here.ask(web.url + path).status_code == 400, path
        for elsewhere in ("https://10.0.0.1/client", "http://example.com/x"):
            assert here.ask(elsewhere).status_code == 400, elsewhere
        web.status = 302
        web.publish("/keys2", {"client_id": url, "redirect_uris": [BACK]})
        assert here.ask(url).status_code == 400
        assert "/keys2" not in web.paths()
        asked = len(web.asked)
        with site(documents=lambda url: url.startswith("https://trusted.example/")) as choosy:
            assert choosy.ask(url).status_code == 400
        assert len(web.asked) == asked


@pytest.mark.parametrize(("issuer", "neighbours"), [("https://auth.example", False), ("http://127.0.0.1:7", True)])
def test_a_stranger_makes_it_fetch_nothing_of_a_private_network(
    issuer: str, neighbours: bool, monkeypatch: Any
) -> None:
    reaches: list[Any] = []

    def fetch(url: str, reach: Any) -> Any:
        reaches.append(reach)
        raise TransportClosed("nothing is fetched in this test")

    monkeypatch.setattr(guarded_fetch, "fetch", fetch)
    server = AuthorizationServer(users={}, documents=True)
    server.issuer = issuer
    assert server._client("https://client.example/about.json") is None
    (reach,) = reaches
    assert reach.admits("93.184.216.34") and reach.admits("127.0.0.1") is neighbours
    assert not any(reach.admits(address) for address in ("10.0.0.1", "192.168.0.1", "169.254.169.254", "fc00::1"))


def test_parameters_that_come_twice_or_cannot_be_read(here: Site) -> None:
    client = here.client()
    assert here.get(f"/authorize?client_id={client}&client_id={client}&redirect_uri={BACK}").status_code == 400
    assert here.post("/token", b"\xff\xfe").status_code == 400
    assert error(here.token(client, grant_type="password")) == (400, "unsupported_grant_type")
    assert error(here.token("unknown", "x")) == (401, "invalid_client")


@pytest.mark.parametrize("resource", [None, "https://public.example/tenant/mcp"])
def test_its_base_url_is_that_of_the_server_without_the_path(resource: str | None) -> None:
    with site(protection={"scopes": ["basic"], "resource": resource}) as here:
        challenge = here.post("/mcp", json={}).headers["WWW-Authenticate"]
        path = urlsplit(challenge.partition('resource_metadata="')[2].partition('"')[0]).path
        (server,) = here.get(path).json()["authorization_servers"]
        assert server == ("https://public.example" if resource else here.base)
        metadata = here.get("/.well-known/oauth-authorization-server").json()
        assert (metadata["issuer"], metadata["token_endpoint"]) == (server, f"{server}/token")


def test_mistakes_of_configuration() -> None:
    for wrong in ({}, {"users": {}, "login": lambda request: "x"}):
        with pytest.raises(ValueError):
            AuthorizationServer(**wrong)  # type: ignore[arg-type]
    with pytest.raises(KeyError):
        AuthorizationServer(users={"ada": "pw"}).sign_in("bob")
