"""Attacks on a client that gets tokens: what must be refused, and what must never be asked for then."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from mcp_ref import (
    AuthorizationError,
    Cancel,
    Client,
    FileStore,
    HttpStatusError,
    MemoryStore,
    OAuth,
    Registered,
    RequestCancelled,
    Server,
    TransportClosed,
    Url,
)
from mcp_ref.kit.http.guarded_fetch import Reach, check_url, fetch, is_loopback, kind_of
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.authorization.client import open_browser
from tests.features.test_forks import in_a_child
from tests.pages.basic.authorization.world import WAIT, World, answer, told
from tests.support.wire import Background, at_once

Change = Callable[[World], None]


def change(which: str, **members: Any) -> Change:
    """Other values of these members of a document; a function is given the world."""
    return lambda world: getattr(world, which).update(
        {name: value(world) if callable(value) else value for name, value in members.items()}
    )


resource, metadata, token, came_back = (
    partial(change, which) for which in ("resource", "metadata", "token", "came_back")
)


def at(path: str, *reply: Any, **headers: str) -> Change:
    return lambda world: world.at.update({path: answer(*reply, **headers)})


def challenge(text: str) -> Change:
    return lambda world: setattr(world, "challenge", text.replace("URL", world.issuer))


PRM, AS = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"
VISIT = "visit"

ATTACKS: list[tuple[str, Change, str, str]] = [
    # what, how it is done, what the error says, what is never asked for
    ("mix-up: the iss of another", came_back(iss=lambda w: w.other), "another issuer", "/token"),
    ("a promised iss is missing", came_back(iss=None), "lacks the iss", "/token"),
    ("an iss with one slash more", came_back(iss=lambda w: w.issuer + "/"), "another issuer", "/token"),
    ("two codes", came_back(code=["a", "b"]), "more than one code", "/token"),
    ("two states", came_back(state=["a", "b"]), "without the state", "/token"),
    ("no state", came_back(state=None), "without the state", "/token"),
    ("another state", came_back(state="x"), "without the state", "/token"),
    ("no code", came_back(code=None), "without a code", "/token"),
    ("the user refuses", came_back(error="access_denied"), "access_denied", "/token"),
    ("metadata of another issuer", metadata(issuer="https://evil.example"), "another issuer", "/register"),
    ("a resource of another origin", resource(resource="https://evil.example/mcp"), "another resource", AS),
    ("a resource that begins alike", resource(resource=lambda w: w.url + "-evil"), "another resource", AS),
    ("a part of the path", resource(resource=lambda w: w.url[:-1]), "another resource", AS),
    ("no authorization servers", resource(authorization_servers=None), "no authorization_servers", AS),
    ("authorization servers of a wrong type", resource(authorization_servers="x"), "authorization_servers", AS),
    ("no token_type", token(token_type=None), "type .None", ""),
    ("a bound token that was not asked for", token(token_type="DPoP"), "DPoP", ""),
    ("a token with a line break", token(access_token="a\r\nX: y"), "cannot be sent", ""),
    ("an empty token", token(access_token=""), "cannot be sent", ""),
    ("resource metadata fails with 500", at(PRM, {}, 500), "status 500", AS),
    ("too many ask for resource metadata", at(PRM, {}, 429), "status 429", AS),
    ("metadata takes too long", at(AS, {}, 408), "status 408", "/register"),
    ("an id that cannot be sent", at("/register", {"client_id": "\ud800"}, 201), "answer with JSON", VISIT),
    ("no PKCE in the metadata", metadata(code_challenge_methods_supported=None), "PKCE", VISIT),
    ("PKCE by plain alone", metadata(code_challenge_methods_supported=["plain"]), "S256", VISIT),
    ("no authorization endpoint", metadata(authorization_endpoint=None), "no authorization_endpoint", VISIT),
    ("no token endpoint", metadata(token_endpoint=None), "no token_endpoint", "/token"),
    ("no way to register", metadata(registration_endpoint=None), "Registered", VISIT),
    ("metadata redirects to the same origin", at(AS, {}, 307, Location=AS), "redirects", "/register"),
    ("the token endpoint redirects", at("/token", {}, 308, Location="/t"), "redirects", "/t"),
    ("100,000 levels", at(PRM, b"[" * 100_000), "nested", AS),
    ("a list", at(PRM, []), "answer with a JSON object", AS),
    ("a member twice", at(PRM, b'{"resource": "a", "resource": "b"}'), "occurs twice", AS),
    ("HTML", at(AS, b"<html>"), "answer with JSON", "/register"),
    ("packed with gzip, unasked", at(AS, b"x", **{"Content-Encoding": "gzip"}), "encoded", "/register"),
    ("resource_metadata twice", challenge('Bearer resource_metadata="URL/a", resource_metadata="URL/b"'), "once", PRM),
    ("the invitation to another network", challenge('Bearer resource_metadata="https://10.0.0.1/x"'), "10.0.0.1", AS),
    ("a token endpoint over http", metadata(token_endpoint="http://192.0.2.1/x"), "not https", "/token"),
    ("a host that cannot be", metadata(token_endpoint="https://a..b/token"), "no answer .*label", "/token"),
    ("remote http", challenge('Bearer resource_metadata="http://192.0.2.1/x"'), "not https", AS),
    ("registration answers without an id", at("/register", {}, 201), "client_id", VISIT),
    ("the browser runs a program", metadata(authorization_endpoint="javascript:alert(1)"), "cannot be used", VISIT),
]


@pytest.mark.parametrize(("change", "says", "never"), [row[1:] for row in ATTACKS], ids=[row[0] for row in ATTACKS])
def test_refuses(world: World, change: Change, says: str, never: str) -> None:
    change(world)
    with pytest.raises(AuthorizationError, match=says):
        world.client().connect()
    assert never not in world.paths()
    assert not (never == VISIT and world.visits)
    assert not [asked for asked in world.asked if "authorization" in asked.headers]


@pytest.mark.parametrize("url", [
    "JavaScript:alert(1)", "data:text/html,x", "file:///etc/passwd", "my-app://x", "http://example.com/a", "-x",
    "https://user@example.com/a", " https://a/b", "https://a/b\n", 'https://a/"', "https://a/`id`", "https://a\\b",
    "https://a/#x", "https:///x",
])  # fmt: skip
def test_what_no_browser_is_sent_to(url: str) -> None:
    with pytest.raises(ValueError, match="it "):
        check_url(url, "http://127.0.0.1/mcp")


def test_a_refused_registration_is_told_with_its_code_its_words_and_the_redirect_uri_and_made_again(
    world: World,
) -> None:
    with world.client() as client:
        world.next_token()
        client.target.options["auth"].grant.store._kept.clear()
        world.at["/register"] = answer({"error": "invalid_redirect_uri", "error_description": "ports must be 443"}, 400)
        with pytest.raises(AuthorizationError) as caught:
            client.call_tool("t")
        assert caught.value.error == "invalid_redirect_uri"
        for words in ("invalid_redirect_uri", "ports must be 443", *world.sent("/register")[-1].json["redirect_uris"]):
            assert words in str(caught.value)
        del world.at["/register"]
        assert client.call_tool("t")["content"][0]["text"] == "token-2"


def test_an_error_of_another_issuer_is_not_shown(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    world.came_back = {"iss": world.other, "error": "MARK", "error_description": "MARK", "error_uri": "MARK"}
    error = told(world)
    assert "MARK" not in str(error) + caplog.text and error.error is None


def test_an_iss_that_was_not_promised_must_be_right_all_the_same(world: World) -> None:
    del world.metadata["authorization_response_iss_parameter_supported"]
    world.came_back["iss"] = world.other
    assert "another issuer" in str(told(world))
    world.came_back["iss"] = None
    with world.client() as client:
        assert client.call_tool("t")["content"][0]["text"] == "token-1"


@pytest.mark.parametrize("sent", [-1, 10**300, "soon", True])
def test_a_lifetime_that_makes_no_sense_is_ignored(world: World, sent: Any) -> None:
    world.token["expires_in"] = sent
    with world.client() as client:
        client.call_tool("t")
    assert len(world.visits) == 1


def test_a_document_that_never_ends_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.kit.http.guarded_fetch.FETCH_TIMEOUT", 0.3)
    at(AS, b"{", **{"Transfer-Encoding": "chunked"})(world)
    assert "timed out" in str(told(world))
    assert "/register" not in world.paths()


def test_parameters_in_the_query_of_the_endpoint_do_not_stand_beside_ours(world: World) -> None:
    world.metadata["authorization_endpoint"] += "?state=x&tenant=a&client_id=b&resource=c&redirect_uri=d"
    seen: list[str] = []
    with world.client(world.login(visit=lambda url: seen.append(url) or world.visit(url))):
        query = parse_qs(urlsplit(seen[0]).query)
    assert all(len(values) == 1 for values in query.values())
    assert query["tenant"] == ["a"] and query["resource"] == [world.url] and query["state"] != ["x"]


# -- which server gets what --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("document", [None, "https://client.example/about.json"])
def test_credentials_stay_with_the_issuer_that_gave_them(world: World, document: str | None) -> None:
    """Also where the client has one id everywhere, which is the URL of its document."""
    supported = {"client_id_metadata_document_supported": document is not None}
    world.at[AS] = lambda asked: answer({**world.metadata_of(asked.host), **supported})
    world.token["refresh_token"] = "refresh-1"
    with world.client(world.login(document=document)) as client:
        world.trust(world.other)
        world.next_token()
        client.call_tool("t")
    (sent,) = world.sent("/token", world.other)
    assert sent.form["grant_type"] == "authorization_code"
    assert sent.form["client_id"] == (document or "client-of-127.0.0.2")
    assert not [asked for asked in world.asked if asked.host == world.other and b"refresh-1" in asked.body]


def test_credentials_registered_beforehand_are_not_offered_to_another_issuer(world: World) -> None:
    mine: dict[str, Any] = {"client": Registered("mine", "secret"), "store": MemoryStore()}
    world.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    with world.client(world.login(**mine)):
        pass
    world.trust(world.other)
    world.valid = set()
    with pytest.raises(AuthorizationError, match=f"{world.issuer}.*{world.other}"):
        world.client(world.login(**mine)).connect()
    assert not world.sent("/token", world.other)
    assert "trusts" in str(told(world, world.login(issuer=world.issuer)))


def test_a_stored_token_of_another_issuer_is_not_used(world: World) -> None:
    store = MemoryStore()
    with world.client(world.login(store=store)) as client:
        (name,) = [name for name in store._kept if name.startswith("token ")]
        kept = store.get(name) or {}
        # Another process has been told of another authorization server meanwhile.
        store.put(name, {**kept, "access": "of-another", "issuer": world.other, "refresh": "of-another-too"})
        world.next_token()
        client.call_tool("t")
    assert not [asked for asked in world.asked if "of-another" in f"{asked.headers} {asked.body!r}"]
    assert len(world.visits) == 2


def test_a_token_is_of_one_url(world: World) -> None:
    with World() as second:
        second.next_token()
        auth = OAuth("tests", visit=lambda url: (second if second.issuer in url else world).visit(url))
        with world.client(auth), second.client(auth):
            pass
        assert not any("token-1" in asked.headers.get("authorization", "") for asked in second.asked)


def test_nothing_of_the_user_goes_to_the_authorization_server(world: World) -> None:
    session = requests.Session()
    session.headers["X-Secret"], session.cookies["c"] = "s", "s"
    for target in (Url(world.url, options={"session": session}), Url(world.url, headers={"X-Secret": "s"})):
        with Client(target, auth=world.login(), revision="2026-07-28"):
            pass
    to_others = [asked for asked in world.asked if asked.path != "/mcp"]
    assert to_others and not any("x-secret" in asked.headers or "cookie" in asked.headers for asked in to_others)
    assert all("x-secret" in asked.headers for asked in world.sent("/mcp"))


def test_a_redirect_of_a_message_to_another_origin_takes_no_token_there(world: World) -> None:
    with world.client() as client:
        world.at["/mcp"] = answer({}, 307, Location=f"{world.other}/mcp")
        with pytest.raises(HttpStatusError, match="redirects"):
            client.call_tool("t")
    assert not world.paths(world.other)


# -- the user's patience, and the browser ------------------------------------------------------------------------------


def test_a_server_that_asks_again_and_again_gets_three_logins(world: World) -> None:
    with world.client() as client:
        for number in (2, 3):
            world.next_token(f"token-{number}")
            client.call_tool("t")
        world.next_token("token-4")
        with pytest.raises(AuthorizationError, match="again and again"):
            client.call_tool("t")
    assert len(world.visits) == 3


def test_a_token_that_is_refused_at_once_is_not_asked_for_again_and_none_in_the_background(world: World) -> None:
    with world.client() as client:
        world.valid = set()
        with pytest.raises(HttpStatusError, match="401"):
            client.notify("notifications/x")
        assert len(world.visits) == 1
        with pytest.raises(HttpStatusError, match="401"):
            client.call_tool("t")
        assert len(world.visits) == 2


def test_the_listener_waits_for_the_real_answer(world: World) -> None:
    def browse(url: str) -> None:
        back = world.visit(url)
        answering.append(Background(answer, back, back.partition("?")[0]))

    def answer(back: str, base: str) -> list[requests.Response]:
        """First everything that is not the answer, then the answer."""
        host = {"Host": "evil.example"}
        return [
            requests.request(method, where, headers=headers, timeout=WAIT)
            for method, where, headers in (
                ("GET", f"{base}?code=x", {}), ("GET", f"{base}?code=x&state=y", {}), ("GET", back, host),
                ("POST", back, {}), ("GET", back.replace("/callback", "/other"), {}), ("GET", back, {}),
            )
        ]  # fmt: skip

    answering: list[Background] = []
    with world.client(world.login(visit=browse)):
        pages = answering[0].outcome()
    assert [page.status_code for page in pages] == [400, 400, 400, 405, 404, 200]
    assert "the-code" not in pages[-1].text and pages[-1].headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    ("how", "kind"), [("close", TransportClosed), ("cancel", RequestCancelled), ("time", AuthorizationError)]
)
def test_a_wait_for_the_user_can_be_ended(world: World, how: str, kind: type[Exception]) -> None:
    visited, cancel = threading.Event(), Cancel()

    def visit(url: str) -> str | None:
        """The first login comes back at once, the second one never."""
        if not world.visits:
            return world.visit(url)
        visited.set()
        return None

    with world.client(world.login(visit=visit, timeout=0.1 if how == "time" else 60)) as client:
        world.valid = set()
        calls = [Background(client.call_tool, "t", cancel=cancel) for _ in range(1 if how == "cancel" else 3)]
        assert visited.wait(WAIT)
        if how != "time":
            (client.close if how == "close" else cancel)()
        assert [type(call.outcome()) for call in calls] == [kind] * len(calls)


def test_the_users_time_is_not_the_calls(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real, thought = time.monotonic, 0.0

    def visit(url: str) -> str:
        nonlocal thought
        thought += 1_000
        return world.visit(url)

    monkeypatch.setattr(time, "monotonic", lambda: real() + thought)
    monkeypatch.setattr(Deadline.__init__, "__defaults__", (None, lambda: real() + thought))
    with world.client(world.login(visit=visit), connect_timeout=WAIT, timeout=WAIT) as client:
        client.call_tool("t")
        world.next_token()
        client.call_tool("t")
    assert len(world.visits) == 2


# -- tokens ------------------------------------------------------------------------------------------------------------


def renewable(world: World) -> None:
    """The next access token can be renewed."""
    world.token |= {"expires_in": 3600, "refresh_token": "refresh-1"}

    def tokens(asked: Any) -> Any:
        if asked.form["grant_type"] == "refresh_token":
            world.valid.add("token-2")
            return answer({"access_token": "token-2", "token_type": "Bearer", "refresh_token": "refresh-2"})
        return answer(world.token)

    world.at["/token"] = tokens


def test_a_token_whose_time_has_ended_is_renewed_before_the_next_call(world: World) -> None:
    renewable(world)
    with world.client() as client:
        keeper = client.target.options["auth"]
        keeper._token = keeper._token._replace(fresh_until=time.time())
        client.call_tool("t")
    assert [form["grant_type"] for form in world.forms()] == ["authorization_code", "refresh_token"]
    assert len(world.visits) == 1


def test_two_processes_with_one_store_renew_a_token_once(world: World, tmp_path: Path) -> None:
    renewable(world)
    clients = [world.client(world.login(store=FileStore(tmp_path / "s"))) for _ in range(2)]
    with clients[0], clients[1]:
        world.valid = {"token-2"}
        at_once(*(partial(client.call_tool, "t") for client in clients))
        assert [client.call_tool("t")["content"][0]["text"] for client in clients] == ["token-2"] * 2
    assert [form["grant_type"] for form in world.forms()].count("refresh_token") == 1


def test_a_refresh_that_is_refused_leads_to_one_login_and_one_that_breaks_to_another_attempt(world: World) -> None:
    renewable(world)
    with world.client() as client:
        world.valid = set()
        working, world.at["/token"] = world.at["/token"], answer({}, 500)
        with pytest.raises(AuthorizationError, match="status 500"):
            client.call_tool("t")
        world.at["/token"] = working
        client.call_tool("t")
        assert len(world.visits) == 1
        refused = answer({"error": "invalid_grant"}, 400)
        world.at["/token"] = lambda asked: refused if "refresh_token" in asked.form else answer(world.token)
        world.next_token("token-3")
        client.call_tool("t")
    assert len(world.visits) == 2


def test_a_step_up_asks_for_everything_together_and_once(world: World) -> None:
    world.challenge += ', scope="read"'
    world.needed = {"write": "write", "never": "admin"}
    numbers = iter(range(2, 9))

    def tokens(asked: Any) -> Any:
        name, scope = f"token-{next(numbers)}", world.visits[-1].get("scope", "")
        world.valid.add(name)
        world.granted[name] = scope.replace("admin", "").strip()
        return answer({"access_token": name, "token_type": "Bearer", "scope": world.granted[name]})

    world.at["/token"] = tokens
    with world.client() as client:
        client.call_tool("write")
        # Granted less than was asked for: the same refusal is final then.
        for _ in range(2):
            with pytest.raises(HttpStatusError, match="403"):
                client.call_tool("never")
        client.call_tool("write")
    assert [visit["scope"] for visit in world.visits] == ["read", "read write", "read write admin"]


@pytest.mark.parametrize(
    ("named", "own", "granted", "asked"),
    [
        # What the authorization server granted stands beside what was asked for before.
        ("read", None, "extra", ["read", "extra read write"]),
        # The refusal's scopes stand beside those of the program.
        ("", ["read"], None, ["read", "read write"]),
    ],
)
def test_a_step_up_asks_for_what_was_asked_for_before_what_was_granted_and_what_the_refusal_names(
    world: World, named: str, own: list[str] | None, granted: str | None, asked: list[str]
) -> None:
    world.challenge += f', scope="{named}"' if named else ""
    world.needed, world.granted, world.token["scope"] = {"write": "write"}, {"token-2": "write"}, granted
    with world.client(world.login(scopes=own)) as client:
        world.next_token("token-2", "token-1")
        client.call_tool("write")
    assert [visit["scope"] for visit in world.visits] == asked


def test_a_client_registers_again_for_scopes_that_its_registration_does_not_name(world: World) -> None:
    world.challenge += ', scope="read"'
    world.needed, world.granted = {"write": "write"}, {"token-2": "read write"}
    world.at["/register"] = lambda asked: answer(
        {"client_id": f"client for {asked.json['scope']}", "scope": asked.json["scope"]}, 201
    )
    with world.client() as client:
        world.next_token("token-2", "token-1")
        client.call_tool("write")
    assert [visit["client_id"] for visit in world.visits] == ["client for read", "client for read write"]


def test_a_step_up_does_not_hold_up_others(world: World) -> None:
    world.needed = {"write": "write"}
    asked, go_on = threading.Event(), threading.Event()

    def visit(url: str) -> str:
        if world.visits:
            asked.set()
            assert go_on.wait(WAIT)
            world.granted["token-1"] = "write"
        return world.visit(url)

    with world.client(world.login(visit=visit)) as client:
        write = Background(client.call_tool, "write")
        assert asked.wait(WAIT)
        client.call_tool("read")
        go_on.set()
        assert "content" in write.outcome()


def test_private_results_belong_to_the_login(world: World) -> None:
    with world.client() as client:
        client.list_tools()
        client.list_tools()
        before = len(world.sent("/mcp"))
        world.next_token()
        client.call_tool("t")
        client.list_tools()
        # The call twice, and the list again.
        assert len(world.sent("/mcp")) == before + 3


def test_no_secret_is_shown(world: World, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    world.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    known = Registered("mine", "MARK-secret")
    world.token |= {"expires_in": 3600, "refresh_token": "MARK-refresh", "id_token": "MARK-id"}
    world.next_token("MARK-token")
    world.came_back["code"] = "MARK-code"
    auth = world.login(client=known)
    with world.client(auth, trace=tmp_path / "trace") as client:
        client.list_tools()
        world.at["/token"] = lambda asked: answer({"error": "no", "error_description": f"bad {asked.form}"}, 400)
        world.valid = set()
        with pytest.raises(AuthorizationError) as caught:
            client.call_tool("t")
        secrets = ["MARK", *(world.visits[0][name] for name in ("state", "code_challenge"))]
        secrets.append(world.forms()[0]["code_verifier"])
        told = [caplog.text, str(caught.value), repr(auth), repr(known), repr(client.target.options["auth"]._token)]
        told.append((tmp_path / "trace").read_text())
        assert not [secret for secret in secrets if secret in "".join(told)]


# -- where a token may go, and what the addresses may be ---------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["example.com", "[2002:7f00:1::]", "[64:ff9b::7f00:1]", "[2001:0:4136:e378:8000:63bf:80ff:fffe]"]
)
@pytest.mark.parametrize("auth", ["token", OAuth("tests")])
def test_no_token_goes_over_http_to_another_machine_and_no_browser_comes_back_so(host: str, auth: Any) -> None:
    """Nor to an address that leads elsewhere and back."""
    assert not is_loopback(f"http://{host}/")
    with pytest.raises(AuthorizationError, match="not https"):
        Client(f"http://{host}/mcp", auth=auth)
    with pytest.raises(ValueError, match="not https"):
        OAuth("tests", redirect_uri=f"http://{host}/callback")


def test_auth_is_for_urls_and_stands_alone() -> None:
    for target in (["server"], Server("s")):
        with pytest.raises(ValueError, match="servers at a URL"):
            Client(target, auth="token")
    session = requests.Session()
    session.auth = ("a", "b")
    for options in ({"headers": {"authorization": "x"}}, {"options": {"session": session}}):
        with pytest.raises(ValueError, match="another Authorization"):
            Client(Url("https://a/mcp", **options), auth="token").connect()  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="auth must be a token"):
        Client("http://a/mcp", auth=7)


@pytest.mark.parametrize("url", ["http://a/x", "https://a", "https://a/", "https://a/../x", "https://a/x#y"])
def test_a_document_stands_at_https_with_a_path(url: str) -> None:
    with pytest.raises(ValueError, match="metadata document"):
        OAuth("tests", document=url)


REACHES = [
    # the server's own kind of address, and what it may name
    *[("global", address, True) for address in (
        "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::5db8:d822",
    )],
    *[("global", address, False) for address in (
        "10.1.2.3", "127.0.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1", "::1", "fc00::1",
        "fe80::1%eth0", "::ffff:127.0.0.1", "2002:7f00:1::", "not an address", "64:ff9b::7f00:1", "fec0::1",
    )],
    ("private", "10.1.2.3", True), ("private", "127.0.0.1", False), ("private", "169.254.169.254", False),
    ("private", "fec0::1", False),
    ("loopback", "127.0.0.2", True), ("loopback", "10.1.2.3", False), ("loopback", "169.254.169.254", False),
    ("loopback", "93.184.216.34", True),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "address", "admitted"), REACHES)
def test_which_addresses_a_server_may_name(kind: Any, address: str, admitted: bool) -> None:
    assert Reach(kind).admits(address) is admitted
    assert Reach(kind, anywhere=True).admits(address)
    # To allow private ones is to allow no others.
    assert Reach(kind, private=True).admits(address) is (admitted or kind_of(address) == "private")


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "localhost", "127.0.0.1", "[::1]"])
def test_a_remote_server_does_not_name_this_machine_however_it_writes_it(host: str, world: World) -> None:
    with pytest.raises(ValueError, match="not https"):
        check_url(f"http://{host}/x", "https://example.com")
    with pytest.raises(TransportClosed, match="may send us to|malformed|no request|label"):
        fetch(f"https://{host}:{urlsplit(world.url).port}/x", Reach("global"))
    assert world.asked == []


def test_an_address_is_looked_at_when_it_is_connected_to(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", urlsplit(world.url).port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kw: found)
    with pytest.raises(TransportClosed, match="127.0.0.1 is not an address"):
        fetch("http://rebound.example/x", Reach("global"))
    assert world.asked == []


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_the_users_browser_is_opened_or_the_error_says_what_to_give(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or len(opened) == 1)
    open_browser("https://auth.example/authorize")
    with pytest.raises(AuthorizationError, match="no browser could be opened: give OAuth"):
        open_browser("https://auth.example/authorize")
    assert opened == ["https://auth.example/authorize"] * 2


@pytest.mark.parametrize("name", ["fresh_until", "scopes", "login", "access", "more", "client_id", "scope"])
def test_an_entry_of_the_store_that_has_another_form_counts_as_absent(world: World, name: str) -> None:
    entry = "client" if name in ("client_id", "scope") else "token"
    kept: dict[str, Any] = {"store": MemoryStore(), "scopes": ["read"]}
    with world.client(world.login(**kept)):
        pass
    (key,) = [key for key in kept["store"]._kept if key.startswith(f"{entry} ")]
    kept["store"].put(key, {**kept["store"].get(key), name: [7]})
    if entry == "client":
        world.next_token()
    with world.client(world.login(**kept)) as client:
        client.call_tool("t")
    assert len(world.visits) == 2
    assert world.paths().count("/register") == (2 if entry == "client" else 1)


def test_a_port_that_somebody_took_is_replaced_and_registered_or_an_error_where_it_was_named(world: World) -> None:
    store = MemoryStore()

    def port() -> int:
        with world.client(world.login(store=store)):
            world.next_token(f"token-{len(world.visits) + 1}")
            return urlsplit(world.visits[-1]["redirect_uri"]).port or 0

    taken = port()
    with socket.create_server(("127.0.0.1", taken)):
        another = port()
        assert "cannot listen" in str(told(world, world.login(redirect_uri=f"http://127.0.0.1:{taken}/callback")))
    assert another != taken and port() == another, "the port that was registered last is taken again"
    assert world.paths().count("/register") == 2 and len(world.visits) == 3


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_is_forked_during_a_login_can_log_in_by_itself(world: World) -> None:
    asked, go_on = threading.Event(), threading.Event()
    parent = os.getpid()

    def visit(url: str) -> str:
        if os.getpid() == parent and world.visits:
            asked.set()
            assert go_on.wait(WAIT)
        return world.visit(url)

    auth = world.login(visit=visit)

    def job() -> str:
        with world.client(auth) as mine:
            return str(mine.call_tool("t")["content"][0]["text"])

    with world.client(auth) as client:
        world.next_token()
        call = Background(client.call_tool, "t")
        assert asked.wait(WAIT)
        try:
            assert in_a_child(job) == "'token-2'"
        finally:
            go_on.set()
        assert call.outcome()["content"][0]["text"] == "token-2"
