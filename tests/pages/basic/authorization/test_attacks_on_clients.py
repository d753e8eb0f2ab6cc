"""Attacks on a client that gets tokens: what must be refused, and what must never be asked for then."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import SimpleNamespace
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
)
from mcp_ref.errors import McpError
from mcp_ref.kit.http.guarded_fetch import Reach, check_url, is_loopback, kind_of
from mcp_ref.pages.basic.authorization.client import open_browser
from tests.features.test_forks import in_a_child
from tests.pages.basic.authorization.world import WAIT, World, answer
from tests.support.wire import Background, at_once

Change = Callable[[World], None]


def resource(**members: Any) -> Change:
    """The protected resource metadata with these members; None: without it."""
    return lambda world: _change(world, world.resource, members)


def metadata(**members: Any) -> Change:
    return lambda world: _change(world, world.metadata, members)


def token(**members: Any) -> Change:
    return lambda world: _change(world, world.token, members)


def came_back(**members: Any) -> Change:
    return lambda world: _change(world, world.came_back, members, keep=True)


def challenge(text: str) -> Change:
    return lambda world: setattr(world, "challenge", text.replace("URL", world.issuer))


def at(path: str, *reply: Any, **headers: str) -> Change:
    return lambda world: world.at.update({path: answer(*reply, **headers)})


def raw(path: str, body: bytes, **headers: str) -> Change:
    return lambda world: world.at.update({path: (200, {"Content-Type": "application/json", **headers}, body)})


def _change(world: World, target: dict[str, Any], members: dict[str, Any], keep: bool = False) -> None:
    for name, value in members.items():
        value = value(world) if callable(value) else value
        if value is None and not keep:
            target.pop(name, None)
        else:
            target[name] = value


PRM, AS = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"
VISIT = "visit"

ATTACKS: list[tuple[str, Change, str, str]] = [
    # what, how it is done, what the error says, what is never asked for
    ("mix-up: the iss of another", came_back(iss=lambda w: w.other), "another issuer", "/token"),
    ("a promised iss is missing", came_back(iss=None), "lacks the iss", "/token"),
    ("an iss with one slash more", came_back(iss=lambda w: w.issuer + "/"), "another issuer", "/token"),
    ("an iss in another case", came_back(iss=lambda w: w.issuer.upper()), "another issuer", "/token"),
    ("two codes", came_back(code=["a", "b"]), "more than one code", "/token"),
    ("two iss", came_back(iss=lambda w: [w.issuer, w.issuer]), "more than one iss", "/token"),
    ("two states", came_back(state=["a", "b"]), "without the state", "/token"),
    ("no state", came_back(state=None), "without the state", "/token"),
    ("another state", came_back(state="x"), "without the state", "/token"),
    ("no code", came_back(code=None), "without a code", "/token"),
    ("the user refuses", came_back(error="access_denied"), "access_denied", "/token"),
    ("metadata of another issuer", metadata(issuer="https://evil.example"), "another issuer", "/register"),
    ("a resource of another origin", resource(resource="https://evil.example/mcp"), "another resource", AS),
    ("a resource at another path", resource(resource=lambda w: w.issuer + "/other"), "another resource", AS),
    ("a resource that begins alike", resource(resource=lambda w: w.url + "-evil"), "another resource", AS),
    ("a part of the path", resource(resource=lambda w: w.url[:-1]), "another resource", AS),
    ("no authorization servers", resource(authorization_servers=None), "no authorization_servers", AS),
    ("an empty list of them", resource(authorization_servers=[]), "no authorization_servers", AS),
    ("authorization servers of a wrong type", resource(authorization_servers="x"), "authorization_servers", AS),
    ("no token_type", token(token_type=None), "type .None", ""),
    ("a token of another type", token(token_type="mac"), "type mac|type 'mac'", ""),
    ("a bound token that was not asked for", token(token_type="DPoP"), "DPoP", ""),
    ("a token with a line break", token(access_token="a\r\nX: y"), "cannot be sent", ""),
    ("a token with a space", token(access_token="a b"), "cannot be sent", ""),
    ("a token outside ASCII", token(access_token="\u00e9"), "cannot be sent", ""),
    ("an empty token", token(access_token=""), "cannot be sent", ""),
    ("resource metadata fails with 500", at(PRM, {}, 500), "status 500", AS),
    ("metadata fails with 503", at(AS, {}, 503), "status 503", "/register"),
    ("too many ask for resource metadata", at(PRM, {}, 429), "status 429", AS),
    ("metadata takes too long", at(AS, {}, 408), "status 408", "/register"),
    ("an id that cannot be sent", at("/register", {"client_id": "\ud800"}, 201), "answer with JSON", VISIT),
    ("a refresh token that cannot be sent", token(refresh_token="\udfff"), "answer with JSON", ""),
    ("no PKCE in the metadata", metadata(code_challenge_methods_supported=None), "PKCE", VISIT),
    ("PKCE by plain alone", metadata(code_challenge_methods_supported=["plain"]), "S256", VISIT),
    ("no authorization endpoint", metadata(authorization_endpoint=None), "no authorization_endpoint", VISIT),
    ("no token endpoint", metadata(token_endpoint=None), "no token_endpoint", "/token"),
    ("no way to register", metadata(registration_endpoint=None), "Registered", VISIT),
    ("resource metadata redirects", at(PRM, {}, 302, Location="/x"), "redirects", AS),
    ("metadata redirects to the same origin", at(AS, {}, 307, Location=AS), "redirects", "/register"),
    ("the token endpoint redirects", at("/token", {}, 308, Location="/t"), "redirects", "/t"),
    ("registration redirects", at("/register", {}, 303, Location="/r"), "redirects", "/r"),
    ("a document of 2 MB", raw(PRM, b'"' + b"x" * 2_000_000 + b'"'), "more than 1048576 bytes", AS),
    ("100,000 levels", raw(PRM, b"[" * 100_000), "nested", AS),
    ("a list", raw(PRM, b"[]"), "answer with a JSON object", AS),
    ("NaN", raw(AS, b'{"issuer": NaN}'), "NaN", "/register"),
    ("a member twice", raw(PRM, b'{"resource": "a", "resource": "b"}'), "occurs twice", AS),
    ("HTML", raw(AS, b"<html>"), "answer with JSON", "/register"),
    ("packed with gzip, unasked", raw(AS, b"x", **{"Content-Encoding": "gzip"}), "encoded", "/register"),
    ("resource_metadata twice", challenge('Bearer resource_metadata="URL/a", resource_metadata="URL/b"'), "once", PRM),
    ("the invitation to another network", challenge('Bearer resource_metadata="https://10.0.0.1/x"'), "10.0.0.1", AS),
    ("the cloud's own address", challenge('Bearer resource_metadata="https://169.254.169.254/x"'), "169.254", AS),
    ("a token endpoint over http", metadata(token_endpoint="http://192.0.2.1/x"), "not https", "/token"),
    ("registration over http", metadata(registration_endpoint="http://192.0.2.1/x"), "not https", VISIT),
    ("a host that cannot be", metadata(token_endpoint="https://a..b/token"), "no answer .*label", "/token"),
    ("remote http", challenge('Bearer resource_metadata="http://192.0.2.1/x"'), "not https", AS),
    ("user information", challenge('Bearer resource_metadata="https://a@example.com/x"'), "user information", AS),
    (
        "registration refuses the redirect",
        at("/register", {"error": "invalid_redirect_uri"}, 400),
        "come back to",
        VISIT,
    ),
    ("registration answers without an id", at("/register", {}, 201), "client_id", VISIT),
]
for _url in ("javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "JavaScript:alert(1)", " https://a/b",
             "https://a/b\n", "vbscript:x", "my-app://x", "http://example.com/a", "https://user@example.com/a",
             'https://a/"', "https://a/`id`", "https://a\\b", "https://a/#x", "https:///x", "-x"):  # fmt: skip
    ATTACKS.append((f"the browser is sent to {_url!r}", metadata(authorization_endpoint=_url), "cannot be used", VISIT))


@pytest.mark.parametrize(("change", "says", "never"), [row[1:] for row in ATTACKS], ids=[row[0] for row in ATTACKS])
def test_refuses(world: World, change: Change, says: str, never: str) -> None:
    change(world)
    with pytest.raises(AuthorizationError, match=says):
        world.client().connect()
    assert never not in world.paths()
    assert not (never == VISIT and world.visits)
    assert not [asked for asked in world.asked if "authorization" in asked.headers]


def test_a_refused_registration_is_told_with_its_code_its_words_and_the_redirect_uri(world: World) -> None:
    said = {"error": "invalid_redirect_uri", "error_description": "ports must be 443"}
    world.at["/register"] = answer(said, 400)
    with pytest.raises(AuthorizationError) as caught:
        world.client().connect()
    (asked,) = [asked.json for asked in world.asked if asked.path == "/register"]
    assert caught.value.error == "invalid_redirect_uri"
    for words in ("invalid_redirect_uri", "ports must be 443", *asked["redirect_uris"]):
        assert words in str(caught.value)


def test_a_call_after_a_refused_registration_registers_again(world: World) -> None:
    with world.client() as client:
        world.valid, world.token["access_token"] = {"token-2"}, "token-2"
        client.target.options["auth"].grant.store._kept.clear()
        world.at["/register"] = answer({"error": "invalid_redirect_uri"}, 400)
        with pytest.raises(AuthorizationError, match="invalid_redirect_uri"):
            client.call_tool("t")
        del world.at["/register"]
        assert client.call_tool("t")["content"][0]["text"] == "token-2"


def test_an_error_of_another_issuer_is_not_shown(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    world.came_back = {"iss": world.other, "error": "MARK", "error_description": "MARK", "error_uri": "MARK"}
    with pytest.raises(AuthorizationError) as caught:
        world.client().connect()
    assert "MARK" not in str(caught.value) + caplog.text and caught.value.error is None


def test_an_iss_that_was_not_promised_must_be_right_all_the_same(world: World) -> None:
    world.metadata.pop("authorization_response_iss_parameter_supported")
    world.came_back["iss"] = world.other
    with pytest.raises(AuthorizationError, match="another issuer"):
        world.client().connect()
    world.came_back["iss"] = None
    with world.client() as client:
        assert client.call_tool("t")["content"][0]["text"] == "token-1"


@pytest.mark.parametrize("sent", [-1, 10**30, "soon", [], True, None, 1e400])
def test_a_lifetime_that_makes_no_sense_is_ignored(world: World, sent: Any) -> None:
    world.token["expires_in"] = sent if sent != 1e400 else 10**300
    with world.client() as client:
        client.call_tool("t")
    assert len(world.visits) == 1


def test_a_document_that_never_ends_is_given_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.kit.http.guarded_fetch.FETCH_TIMEOUT", 0.3)
    raw(AS, b"{", **{"Transfer-Encoding": "chunked"})(world)
    with pytest.raises(AuthorizationError, match="timed out"):
        world.client().connect()
    assert "/register" not in world.paths()


def test_parameters_in_the_query_of_the_endpoint_do_not_stand_beside_ours(world: World) -> None:
    world.metadata["authorization_endpoint"] += "?state=x&tenant=a&client_id=b&resource=c&redirect_uri=d"
    seen: list[str] = []
    auth = OAuth("tests", visit=lambda url: (seen.append(url), world.visit(url))[1])
    with world.client(auth):
        query = parse_qs(urlsplit(seen[0]).query)
    assert all(len(values) == 1 for values in query.values())
    assert query["tenant"] == ["a"] and query["resource"] == [world.url] and query["state"] != ["x"]


# -- which server gets what --------------------------------------------------------------------------------------------


def test_credentials_stay_with_the_issuer_that_gave_them(world: World) -> None:
    world.token |= {"refresh_token": "refresh-1"}
    with world.client() as client:
        client.call_tool("t")
        # The server trusts somebody else now.
        world.resource["authorization_servers"] = [world.other]
        world.token["access_token"], world.valid = "token-2", {"token-2"}
        client.call_tool("t")
    sent = b"".join(asked.body for asked in world.asked if asked.host == world.other)
    assert b"client-of-127.0.0.2" in sent
    assert b"client-of-127.0.0.1" not in sent and b"refresh-1" not in sent


def test_a_refresh_token_stays_with_its_issuer_though_the_client_has_one_id_everywhere(world: World) -> None:
    supported = {"client_id_metadata_document_supported": True}
    world.at[AS] = lambda asked: answer({**world.metadata_of(asked.host), **supported})
    world.token |= {"refresh_token": "refresh-1"}
    with world.client(OAuth("tests", document="https://client.example/about.json", visit=world.visit)) as client:
        client.call_tool("t")
        world.resource["authorization_servers"] = [world.other]
        world.token["access_token"], world.valid = "token-2", {"token-2"}
        client.call_tool("t")
    sent = [asked.form for asked in world.asked if (asked.host, asked.path) == (world.other, "/token")]
    assert [form["grant_type"] for form in sent] == ["authorization_code"] and "refresh-1" not in str(sent)


def test_credentials_registered_beforehand_are_not_offered_to_another_issuer(world: World) -> None:
    store = MemoryStore()
    auth = OAuth("tests", client=Registered("mine", "secret"), visit=world.visit, store=store)
    world.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_basic"]
    with world.client(auth):
        pass
    world.resource["authorization_servers"], world.valid = [world.other], set()
    auth = OAuth("tests", client=Registered("mine", "secret"), visit=world.visit, store=store)
    with pytest.raises(AuthorizationError, match=f"{world.issuer}.*{world.other}"):
        world.client(auth).connect()
    assert "/token" not in world.paths(world.other)
    with pytest.raises(AuthorizationError, match="trusts"):
        world.client(OAuth("tests", issuer=world.issuer, visit=world.visit)).connect()


def test_a_stored_token_of_another_issuer_is_not_used(world: World) -> None:
    store = MemoryStore()
    with world.client(OAuth("tests", visit=world.visit, store=store)) as client:
        (name,) = [name for name in store._kept if name.startswith("token ")]
        kept = store.get(name) or {}
        # Another process has been told of another authorization server meanwhile.
        store.put(name, {**kept, "access": "of-another", "issuer": world.other, "refresh": "of-another-too"})
        world.valid, world.token["access_token"] = {"token-2"}, "token-2"
        client.call_tool("t")
    assert not [asked for asked in world.asked if "of-another" in f"{asked.headers} {asked.body!r}"]
    assert len(world.visits) == 2


def test_a_token_is_of_one_url(world: World) -> None:
    with World() as second:
        second.token["access_token"], second.valid = "token-2", {"token-2"}
        auth = OAuth("tests", visit=lambda url: (second if second.issuer in url else world).visit(url))
        with world.client(auth), second.client(auth):
            pass
        assert not any("token-1" in asked.headers.get("authorization", "") for asked in second.asked)


def test_nothing_of_the_user_goes_to_the_authorization_server(world: World) -> None:
    session = requests.Session()
    session.headers["X-Secret"], session.cookies["c"] = "s", "s"
    for client in (world.client(OAuth("a", visit=world.visit)), Client(world.url, auth=OAuth("b", visit=world.visit))):
        options = {"session": session} if client.revisions[0].name == "2026-07-28" else {}
        client.target = client.target._replace(
            options={**client.target.options, **options}, headers=None if options else {"X-Secret": "s"}
        )
        with suppress(McpError), client:
            pass
    to_others = [asked for asked in world.asked if asked.path != "/mcp"]
    assert to_others and not any("x-secret" in asked.headers or "cookie" in asked.headers for asked in to_others)
    assert any("x-secret" in asked.headers for asked in world.asked)


def test_a_redirect_of_a_message_to_another_origin_takes_no_token_there(world: World) -> None:
    with world.client() as client:
        world.at["/mcp"] = answer({}, 307, Location=f"{world.other}/mcp")
        with pytest.raises(HttpStatusError, match="redirects"):
            client.call_tool("t")
    assert not world.paths(world.other)


# -- the user's patience, and the browser ------------------------------------------------------------------------------


def test_a_server_that_asks_again_and_again_gets_three_logins(world: World) -> None:
    with world.client() as client:
        for number in range(2, 9):
            world.valid, world.token["access_token"] = {f"token-{number}"}, f"token-{number}"
            if number == 4:
                break
            client.call_tool("t")
        with pytest.raises(AuthorizationError, match="again and again"):
            client.call_tool("t")
    assert len(world.visits) == 3


def test_a_token_that_is_refused_at_once_is_not_asked_for_again(world: World) -> None:
    world.valid = set()
    with pytest.raises(HttpStatusError, match="401"):
        world.client().connect()
    assert len(world.visits) == 1


def test_the_background_never_opens_a_browser(world: World) -> None:
    with world.client() as client:
        world.valid = set()
        with pytest.raises(HttpStatusError, match="401"):
            client.notify("notifications/x")
        assert len(world.visits) == 1


def test_the_listener_waits_for_the_real_answer(world: World) -> None:
    seen: list[int] = []

    def browse(url: str) -> None:
        """First everything that is not the answer, then the answer."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
        base, back = asked["redirect_uri"], world.visit(url)

        def run() -> None:
            host = {"Host": "evil.example"}
            for method, where, headers in (
                ("GET", f"{base}?code=x", {}), ("GET", f"{base}?code=x&state=y", {}), ("GET", back, host),
                ("POST", back, {}), ("GET", back.replace("/callback", "/other"), {}),
            ):  # fmt: skip
                seen.append(requests.request(method, where, headers=headers, timeout=WAIT).status_code)
            page = requests.get(back, timeout=WAIT)
            seen.append(page.status_code)
            assert "the-code" not in page.text and page.headers["Cache-Control"] == "no-store"

        threading.Thread(target=run, name="browser").start()

    with world.client(OAuth("tests", visit=browse)):
        pass
    assert seen[:5] == [400, 400, 400, 405, 404]
    for thread in threading.enumerate():
        if thread.name == "browser":
            thread.join(WAIT)
    assert seen[5:] == [200]


@pytest.mark.parametrize("how", ["close", "cancel", "time"])
def test_a_wait_for_the_user_can_be_ended(world: World, how: str) -> None:
    visited, cancel = threading.Event(), Cancel()

    def visit(url: str) -> str | None:
        """The first login comes back at once, the second one never."""
        if not world.visits:
            return world.visit(url)
        visited.set()
        return None

    with world.client(OAuth("tests", visit=visit, timeout=1 if how == "time" else 60)) as client:
        world.valid = set()

        calls = [Background(client.call_tool, "t", cancel=cancel) for _ in range(1 if how == "cancel" else 3)]
        assert visited.wait(WAIT)
        if how == "close":
            client.close()
        elif how == "cancel":
            cancel()
        kind = {"close": TransportClosed, "cancel": RequestCancelled, "time": AuthorizationError}[how]
        assert [type(call.outcome()) for call in calls] == [kind] * len(calls)


def test_the_users_time_is_not_the_calls(world: World) -> None:
    slow = OAuth("tests", visit=lambda url: (time.sleep(1.1), world.visit(url))[1])
    with world.client(slow, connect_timeout=1, timeout=1) as client:
        client.call_tool("t")
        world.valid, world.token["access_token"] = {"token-2"}, "token-2"
        client.call_tool("t")


# -- tokens ------------------------------------------------------------------------------------------------------------


def renewable(world: World, **answers: Any) -> None:
    """The next access token can be renewed."""
    world.token |= {"expires_in": 3600, "refresh_token": "refresh-1"}

    def tokens(asked: Any) -> Any:
        if asked.form["grant_type"] == "refresh_token":
            time.sleep(0.05)
            world.valid.add("token-2")
            return answer({"access_token": "token-2", "token_type": "Bearer", "refresh_token": "refresh-2", **answers})
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
    renewable(world, expires_in=3600)
    clients = [world.client(OAuth("tests", visit=world.visit, store=FileStore(tmp_path / "s"))) for _ in range(2)]
    with clients[0], clients[1]:
        world.valid = {"token-2"}
        at_once(*(partial(client.call_tool, "t") for client in clients))
        assert [client.call_tool("t")["content"][0]["text"] for client in clients] == ["token-2"] * 2
    assert [form["grant_type"] for form in world.forms()].count("refresh_token") == 1


def test_a_refresh_that_is_refused_leads_to_one_login(world: World) -> None:
    renewable(world)
    with world.client() as client:
        world.valid = set()
        world.at["/token"] = lambda asked: (
            answer({"error": "invalid_grant"}, 400)
            if asked.form["grant_type"] == "refresh_token"
            else answer(world.token)
        )
        world.token["access_token"], world.valid = "token-3", {"token-3"}
        client.call_tool("t")
    assert len(world.visits) == 2


def test_a_refresh_that_breaks_keeps_the_refresh_token(world: World) -> None:
    renewable(world)
    with world.client() as client:
        world.valid = set()
        working, world.at["/token"] = world.at["/token"], answer({}, 500)
        with pytest.raises(AuthorizationError, match="status 500"):
            client.call_tool("t")
        world.at["/token"] = working
        client.call_tool("t")
    assert len(world.visits) == 1


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
        assert world.visits[-1]["scope"] == "read"
        client.call_tool("write")
        assert world.visits[-1]["scope"] == "read write"
        # Granted less than was asked for: the same refusal is final then.
        for _ in range(2):
            with pytest.raises(HttpStatusError, match="403"):
                client.call_tool("never")
        client.call_tool("write")
    assert [visit["scope"] for visit in world.visits] == ["read", "read write", "read write admin"]


def test_a_second_login_asks_for_what_was_granted_and_what_was_asked_for_before(world: World) -> None:
    world.challenge += ', scope="read"'
    world.needed, world.granted = {"write": "write"}, {"token-1": "extra", "token-2": "write"}
    # The authorization server grants something else than it was asked for.
    world.token["scope"] = "extra"
    with world.client() as client:
        world.token["access_token"] = "token-2"
        world.valid |= {"token-2"}
        client.call_tool("write")
    assert [set(visit["scope"].split()) for visit in world.visits] == [{"read"}, {"extra", "read", "write"}]


def test_a_step_up_asks_for_what_the_refusal_names_beside_scopes_of_the_programs_own(world: World) -> None:
    world.needed, world.granted = {"write": "write"}, {"token-1": "read", "token-2": "read write"}
    with world.client(OAuth("tests", visit=world.visit, scopes=["read"])) as client:
        world.token["access_token"] = "token-2"
        world.valid |= {"token-2"}
        client.call_tool("write")
    assert [visit["scope"] for visit in world.visits] == ["read", "read write"]


def test_a_client_registers_again_for_scopes_that_its_registration_does_not_name(world: World) -> None:
    world.challenge += ', scope="read"'
    world.needed, world.granted = {"write": "write"}, {"token-1": "read", "token-2": "read write"}
    registered: list[str] = []

    def register(asked: Any) -> Any:
        registered.append(asked.json["scope"])
        return answer({"client_id": f"client-{len(registered)}", "scope": registered[-1]}, 201)

    world.at["/register"] = register
    with world.client() as client:
        world.token["access_token"] = "token-2"
        world.valid |= {"token-2"}
        client.call_tool("write")
    assert registered == ["read", "read write"]
    assert [visit["client_id"] for visit in world.visits] == ["client-1", "client-2"]


def test_a_step_up_does_not_hold_up_others(world: World) -> None:
    world.challenge += ', scope="read"'
    world.needed, world.granted = {"write": "write"}, {"token-1": "read"}
    with world.client() as client:
        asked, go_on = threading.Event(), threading.Event()
        usual = world.visit
        keeper = client.target.options["auth"]

        def visit(url: str) -> str:
            asked.set()
            assert go_on.wait(WAIT)
            world.granted["token-1"] = "read write"
            return usual(url)

        keeper.grant._visit = visit
        write = Background(client.call_tool, "write")
        assert asked.wait(WAIT)
        client.call_tool("read")
        go_on.set()
        assert "content" in write.outcome()


def test_private_results_belong_to_the_login(world: World) -> None:
    with world.client() as client:
        client.list_tools()
        client.list_tools()
        before = world.paths().count("/mcp")
        world.valid, world.token["access_token"] = {"token-2"}, "token-2"
        client.call_tool("t")
        client.list_tools()
        # The call twice, and the list again.
        assert world.paths().count("/mcp") == before + 3


def test_no_secret_is_shown(world: World, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    caplog.set_level(logging.DEBUG)
    renewable(world)
    world.metadata["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    known = Registered("mine", "MARK-secret")
    world.token |= {"access_token": "MARK-token", "refresh_token": "MARK-refresh", "id_token": "MARK-id"}
    world.valid = {"MARK-token"}
    world.came_back["code"] = "MARK-code"
    auth = OAuth("tests", client=known, visit=world.visit)
    with world.client(auth, trace=tmp_path / "trace") as client:
        client.list_tools()
        world.at["/token"] = lambda asked: answer({"error": "no", "error_description": f"bad {asked.form}"}, 400)
        world.valid = set()
        with pytest.raises(AuthorizationError) as caught:
            client.call_tool("t")
        keeper = client.target.options["auth"]
        secrets = ["MARK", *(world.visits[0][name] for name in ("state", "code_challenge"))]
        secrets.append(world.forms()[0]["code_verifier"])
        told = [caplog.text, str(caught.value), repr(auth), repr(known), repr(keeper._token)]
        told.append((tmp_path / "trace").read_text())
        assert not [secret for secret in secrets if secret in "".join(told)]


# -- where a token may go, and what the addresses may be ---------------------------------------------------------------


@pytest.mark.parametrize("auth", ["token", OAuth("tests")])
def test_no_token_goes_over_http_to_another_machine_and_no_browser_comes_back_so(auth: Any) -> None:
    with pytest.raises(AuthorizationError, match="not https"):
        Client("http://example.com/mcp", auth=auth)
    with pytest.raises(ValueError, match="not https"):
        OAuth("tests", redirect_uri="http://192.0.2.1/callback")


def test_auth_is_for_urls_and_stands_alone() -> None:
    from mcp_ref import Url

    for target in (["server"], Server("s")):
        with pytest.raises(ValueError, match="servers at a URL"):
            Client(target, auth="token")
    session = requests.Session()
    session.auth = ("a", "b")
    for options in ({"headers": {"authorization": "x"}}, {"options": {"session": session}}):
        with pytest.raises(ValueError, match="another Authorization"):
            Client(Url("https://a/mcp", **options), auth="token").connect()  # type: ignore[arg-type]
    for url in ("https://a/mcp", "http://a/mcp"):
        with pytest.raises(TypeError, match="auth must be a token"):
            Client(url, auth=7)


@pytest.mark.parametrize("url", ["http://a/x", "https://a", "https://a/", "https://a/../x", "https://a/x#y", "a"])
def test_a_document_stands_at_https_with_a_path(url: str) -> None:
    with pytest.raises(ValueError, match="metadata document"):
        OAuth("tests", document=url)


REACHES = [
    # the server's own kind of address, and what it may name
    ("global", "93.184.216.34", True),
    ("global", "2606:2800:220:1:248:1893:25c8:1946", True),
    *[("global", address, False) for address in (
        "10.1.2.3", "172.16.0.1", "192.168.1.1", "127.0.0.1", "169.254.169.254", "0.0.0.0", "100.64.0.1", "224.0.0.1",
        "::1", "::", "fc00::1", "fe80::1", "fe80::1%eth0", "::ffff:127.0.0.1", "2002:7f00:1::", "not an address",
        "64:ff9b::7f00:1", "64:ff9b::a00:1", "fec0::1",
    )],
    ("global", "64:ff9b::5db8:d822", True), ("private", "fec0::1", False),
    ("private", "10.1.2.3", True), ("private", "127.0.0.1", False), ("private", "169.254.169.254", False),
    ("loopback", "127.0.0.2", True), ("loopback", "::1", True), ("loopback", "10.1.2.3", False),
    ("loopback", "169.254.169.254", False), ("loopback", "93.184.216.34", True),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "address", "admitted"), REACHES)
def test_which_addresses_a_server_may_name(kind: Any, address: str, admitted: bool) -> None:
    assert Reach(kind).admits(address) is admitted
    assert Reach(kind, anywhere=True).admits(address)


@pytest.mark.parametrize("host", ["2002:7f00:1::", "64:ff9b::7f00:1", "2001:0:4136:e378:8000:63bf:80ff:fffe"])
def test_http_is_not_for_an_address_that_leads_elsewhere_and_back(host: str) -> None:
    assert kind_of(host) == "other" and not is_loopback(f"http://[{host}]/")
    with pytest.raises(AuthorizationError, match="not https"):
        Client(f"http://[{host}]/mcp", auth="token")


@pytest.mark.parametrize("kind", ["global", "private", "loopback", "other"])
def test_allow_private_is_for_private_networks_alone(kind: Any) -> None:
    reach = Reach(kind, private=True)
    assert reach.admits("10.1.2.3") and reach.admits("fc00::1") and reach.admits("93.184.216.34")
    assert reach.admits("127.0.0.1") is (kind == "loopback")
    assert not reach.admits("169.254.169.254") and not reach.admits("0.0.0.0")


@pytest.mark.parametrize("host", ["2130706433", "0x7f.1", "0177.0.0.1", "127.1", "localhost", "127.0.0.1", "[::1]"])
def test_a_remote_server_does_not_name_this_machine_however_it_writes_it(host: str, world: World) -> None:
    from mcp_ref.kit.http.guarded_fetch import fetch

    with pytest.raises(ValueError, match="not https"):
        check_url(f"http://{host}/x", "https://example.com")
    port = urlsplit(world.url).port
    with pytest.raises(TransportClosed, match="may send us to|malformed|no request|label"):
        fetch(f"https://{host}:{port}/x", Reach("global"))
    assert world.asked == []


def test_an_address_is_looked_at_when_it_is_connected_to(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from mcp_ref.kit.http.guarded_fetch import fetch

    port = urlsplit(world.url).port
    found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **kw: found)
    with pytest.raises(TransportClosed, match="127.0.0.1 is not an address"):
        fetch("http://rebound.example/x", Reach("global"))
    assert world.asked == []


# -- the rest ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", ["a=$(id)", "a=%60id%60&b='x'", "a=1&b=2;c"])
def test_no_shell_is_started_for_the_browser(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess
    import webbrowser

    started: list[Any] = []

    def start(command: Any, shell: bool = False, **options: Any) -> Any:
        started.append((command, shell))
        return SimpleNamespace(poll=lambda: None)

    monkeypatch.setattr(subprocess, "Popen", start)
    monkeypatch.setattr(webbrowser, "_tryorder", ["tests"])
    monkeypatch.setitem(webbrowser._browsers, "tests", [None, webbrowser.BackgroundBrowser("/bin/browser")])  # type: ignore[attr-defined]
    open_browser(f"https://auth.example/authorize?{query}")
    assert started == [(["/bin/browser", f"https://auth.example/authorize?{query}"], False)]


@pytest.mark.parametrize(
    ("entry", "changed"),
    [
        *[("token", {"fresh_until": "soon"}), ("token", {"scopes": [7]}), ("token", {"scopes": 7})],
        *[("token", {"refresh": 7}), ("token", {"login": {}}), ("token", {"access": 7}), ("token", {"more": 7})],
        *[("client", {"client_id": 7}), ("client", {"client_secret": 7}), ("client", {"scope": [7]})],
        *[("client", {"redirect_uri": 7}), ("client", {"token_endpoint_auth_method": []})],
    ],
    ids=str,
)
def test_an_entry_of_the_store_that_has_another_form_counts_as_absent(world: World, entry: str, changed: Any) -> None:
    store = MemoryStore()
    auth = OAuth("tests", visit=world.visit, store=store, scopes=["read"])
    with world.client(auth):
        pass
    (name,) = [name for name in store._kept if name.startswith(f"{entry} ")]
    store.put(name, {**(store.get(name) or {}), **changed})
    if entry == "client":
        world.valid, world.token["access_token"] = {"token-2"}, "token-2"
    with world.client(OAuth("tests", visit=world.visit, store=store, scopes=["read"])) as client:
        client.call_tool("t")
    assert len(world.visits) == 2
    assert world.paths().count("/register") == (2 if entry == "client" else 1)


def test_a_port_that_somebody_took_is_replaced_and_registered(world: World, tmp_path: Path) -> None:
    def client() -> Client:
        return world.client(OAuth("tests", visit=world.visit, store=FileStore(tmp_path / "store")))

    with client():
        pass
    taken = urlsplit(world.visits[0]["redirect_uri"]).port
    world.valid, world.token["access_token"] = {"token-2"}, "token-2"
    with socket.create_server(("127.0.0.1", taken)), client():
        pass
    world.valid, world.token["access_token"] = {"token-3"}, "token-3"
    with client():
        pass
    ports = [urlsplit(visit["redirect_uri"]).port for visit in world.visits]
    assert ports[1] != taken and ports[2] == ports[1], "the port that was registered last is taken again"
    assert world.paths().count("/register") == 2


def test_a_redirect_uri_of_a_port_that_is_taken_is_an_error(world: World) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        uri = f"http://127.0.0.1:{taken.getsockname()[1]}/callback"
        with pytest.raises(AuthorizationError, match="cannot listen"):
            world.client(OAuth("tests", visit=world.visit, redirect_uri=uri)).connect()
    assert world.visits == []


def test_a_process_that_dies_between_a_rotation_and_its_storing_leads_to_one_login(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rotated = 0

    def tokens(asked: Any) -> Any:
        nonlocal rotated
        if asked.form["grant_type"] == "authorization_code":
            return answer(world.token)
        rotated += 1
        return answer({"error": "invalid_grant"} if rotated > 1 else world.token, 400 if rotated > 1 else 200)

    world.token |= {"refresh_token": "refresh-1"}
    world.at["/token"] = tokens
    store = FileStore(tmp_path / "store")
    with world.client(OAuth("tests", visit=world.visit, store=store)) as client:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            world.valid, world.token["access_token"] = {"token-2"}, "token-2"
            patch.setattr(FileStore, "put", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
            client.call_tool("t")
    world.token["access_token"], world.valid = "token-3", {"token-3"}
    with world.client(OAuth("tests", visit=world.visit, store=FileStore(tmp_path / "store"))) as client:
        client.call_tool("t")
    assert len(world.visits) == 2 and rotated == 2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_is_forked_during_a_login_can_log_in_by_itself(world: World) -> None:
    asked, go_on = threading.Event(), threading.Event()
    parent = os.getpid()

    def visit(url: str) -> str:
        if os.getpid() == parent:
            asked.set()
            assert go_on.wait(WAIT)
        return world.visit(url)

    auth = OAuth("tests", visit=visit)
    go_on.set()
    with world.client(auth) as client:
        go_on.clear()
        thread = threading.Thread(target=client.call_tool, args=("t",))
        world.valid, world.token["access_token"] = {"token-2"}, "token-2"
        asked.clear()
        thread.start()
        assert asked.wait(WAIT)

        def job() -> str:
            with world.client(auth) as mine:
                return str(mine.call_tool("t")["content"][0]["text"])

        try:
            assert in_a_child(job) == "'token-2'"
        finally:
            go_on.set()
            thread.join(WAIT)
        assert not thread.is_alive() and client.call_tool("t")["content"][0]["text"] == "token-2"


@pytest.mark.parametrize(
    "scope", [" ".join(f"s{n}" for n in range(2_000)), 'a\\"b', "a\x07b", "\x1b[31mred", "caf\u00e9"]
)
def test_a_challenge_with_scopes_that_cannot_be_is_one_without(world: World, scope: str) -> None:
    world.challenge += f', scope="{scope}"'
    world.resource["scopes_supported"] = ["read"]
    with world.client():
        assert world.visits[0]["scope"] == "read"
