"""A client that gets tokens, where nobody is hostile: whom it asks, as whom, for what, and what it sends then."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from mcp_ref import AuthorizationError, HttpStatusError, MemoryStore, OAuth, Registered, client_metadata
from mcp_ref.wire import deprecated
from tests.pages.basic.authorization.world import World, answer

PRM, AS, OPENID = (
    "/.well-known/oauth-protected-resource",
    "/.well-known/oauth-authorization-server",
    "/.well-known/openid-configuration",
)
DOCUMENT = "https://client.example/about.json"


def searched(world: World) -> list[str]:
    """The addresses at which metadata was looked for, in order."""
    return [path for path in world.paths() if "/.well-known/" in path or path == "/custom"]


# -- discovery -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_the_address_in_the_challenge_comes_first(world: World, revision: str) -> None:
    world.challenge = f'Bearer resource_metadata="{world.issuer}/custom"'
    world.at["/custom"] = answer(world.resource)
    with world.client(revision=revision):
        assert searched(world) == ["/custom", AS]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("place", ["path", "root"])
def test_without_an_address_the_well_known_ones_are_tried_path_first(world: World, revision: str, place: str) -> None:
    world.challenge = "Bearer"
    if place == "root":
        world.at |= {f"{PRM}/mcp": answer({}, 404), PRM: answer(world.resource)}
    with world.client(revision=revision):
        assert searched(world) == [f"{PRM}/mcp", *([PRM] if place == "root" else []), AS]


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_after_an_address_in_the_challenge_that_is_404_the_well_known_ones_are_tried(
    world: World, revision: str
) -> None:
    world.challenge = f'Bearer resource_metadata="{world.issuer}/custom"'
    world.at["/custom"] = answer({}, 404)
    with world.client(revision=revision):
        assert searched(world) == ["/custom", f"{PRM}/mcp", AS]
    world.at |= {f"{PRM}/mcp": answer({}, 404), PRM: answer({}, 404)}
    with pytest.raises(AuthorizationError, match="is not at .*/custom, where the server says it is"):
        world.client(revision=revision).connect()


def test_2025_06_18_knows_the_address_in_the_challenge_alone(world: World) -> None:
    world.challenge = "Bearer"
    with pytest.raises(AuthorizationError, match="does not say by whom"):
        world.client(revision="2025-06-18").connect()
    assert searched(world) == []


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("tenant", ["", "/tenant"])
def test_the_forms_of_the_issuers_metadata_are_tried_in_order(world: World, revision: str, tenant: str) -> None:
    issuer = world.issuer + tenant
    places = list(dict.fromkeys([AS + tenant, OPENID + tenant, tenant + OPENID]))
    world.resource["authorization_servers"] = [issuer]
    world.metadata |= {"issuer": issuer}
    world.at |= {place: answer({}, 404) for place in places[:-1]} | {places[-1]: answer(world.metadata)}
    world.came_back = {"iss": issuer}
    with world.client(revision=revision):
        assert searched(world) == [f"{PRM}/mcp", *places]


def test_2025_06_18_knows_the_metadata_of_rfc_8414_alone(world: World) -> None:
    world.at[AS] = answer({}, 404)
    with pytest.raises(AuthorizationError, match="is missing"):
        world.client(revision="2025-06-18").connect()
    assert OPENID not in searched(world)


@pytest.mark.parametrize("published", [True, False])
def test_in_2025_03_26_the_server_is_its_own_authorization_server(world: World, published: bool) -> None:
    world.challenge = "Bearer"
    world.metadata["registration_endpoint"] += "-here"
    world.at["/register-here"] = answer({"client_id": "mine"}, 201)
    if not published:
        world.at[AS] = answer({}, 404)
        world.came_back = {"iss": None}
    visited: list[str] = []
    auth = OAuth("tests", visit=lambda url: (visited.append(url), world.visit(url))[1])
    with world.client(auth, revision="2025-03-26"):
        pass
    assert [urlsplit(url)._replace(query="").geturl() for url in visited] == [f"{world.issuer}/authorize"]
    assert [path for path in world.paths() if path.endswith("/token")] == ["/token"]
    assert searched(world) == [AS], "and no path of the server's URL in it"
    (asked,) = [asked for asked in world.asked if asked.path == AS]
    assert asked.headers["mcp-protocol-version"] == "2025-03-26"
    assert [path for path in world.paths() if path.startswith("/register")] == [
        "/register-here" if published else "/register"
    ]
    assert "resource" not in world.visits[0] and world.visits[0]["code_challenge_method"] == "S256"


@pytest.mark.parametrize("status", [408, 429, 500])
def test_default_paths_are_for_a_server_without_metadata_alone(world: World, status: int) -> None:
    world.challenge, world.at[AS] = "Bearer", answer({}, status)
    with pytest.raises(AuthorizationError, match=f"status {status}"):
        world.client(revision="2025-03-26").connect()
    assert "/register" not in world.paths()


def test_the_authorization_server_is_found_again_after_each_401(world: World) -> None:
    with world.client() as client:
        world.valid, world.token["access_token"] = {"token-2"}, "token-2"
        client.call_tool("t")
    assert searched(world) == [f"{PRM}/mcp", AS] * 2


# -- registration ----------------------------------------------------------------------------------------------------


def test_a_client_registered_beforehand_comes_before_a_document_and_that_before_registration(world: World) -> None:
    def who(**options: Any) -> str:
        world.visits.clear()
        with world.client(OAuth("tests", visit=world.visit, **options)):
            return world.visits[-1]["client_id"]

    world.metadata["client_id_metadata_document_supported"] = True
    assert who(client=Registered("mine"), document=DOCUMENT) == "mine"
    assert who(document=DOCUMENT) == DOCUMENT
    assert "/register" not in world.paths()
    world.metadata["client_id_metadata_document_supported"] = False
    assert who(document=DOCUMENT) == "client-of-127.0.0.1"


def test_a_client_registered_beforehand_comes_before_a_registration_that_is_stored(world: World) -> None:
    # The registration is for the place that the browser comes back to, so that it fits.
    usual: dict[str, Any] = {"visit": world.visit, "store": MemoryStore(), "redirect_uri": "https://app.example/back"}
    world.metadata["client_id_metadata_document_supported"] = True
    world.token |= {"refresh_token": "refresh-1"}
    with world.client(OAuth("tests", **usual)):
        pass
    for number, (options, expected) in enumerate(
        [({"client": Registered("mine")}, "mine"), ({"document": DOCUMENT}, DOCUMENT)]
    ):
        world.valid, world.token["access_token"] = {f"new-{number}"}, f"new-{number}"
        with world.client(OAuth("tests", **usual, **options)) as client:
            assert (world.visits[-1]["client_id"], world.forms()[-1]["client_id"]) == (expected, expected)
            # The refresh is by the same client.
            world.valid, world.token["access_token"] = {f"newer-{number}"}, f"newer-{number}"
            client.call_tool("t")
        assert (world.forms()[-1]["grant_type"], world.forms()[-1]["client_id"]) == ("refresh_token", expected)


def test_the_document_to_publish_names_its_own_url() -> None:
    made = client_metadata("My script", DOCUMENT)
    assert made["client_id"] == DOCUMENT and made["client_name"] == "My script"
    assert made["redirect_uris"] == ["http://127.0.0.1/callback"]


@pytest.mark.parametrize(
    ("redirect_uri", "kind"),
    [
        *[("http://127.0.0.1:0/callback", "native"), ("http://localhost:0/callback", "native")],
        *[("https://localhost:8443/back", "native"), ("https://127.0.0.1/back", "native")],
        *[("https://app.example/back", "web"), ("https://localhost.example/back", "web")],
    ],
)
def test_a_registration_says_what_the_program_is(world: World, redirect_uri: str, kind: str) -> None:
    auth = OAuth("tests", visit=world.visit, redirect_uri=redirect_uri)
    with world.client(auth):
        pass
    (sent,) = [json.loads(asked.body) for asked in world.asked if asked.path == "/register"]
    assert sent["application_type"] == kind and sent["client_name"] == "tests"
    assert sent["grant_types"] == ["authorization_code", "refresh_token"]
    # The browser comes back to a place that was registered.
    assert sent["redirect_uris"] == [world.visits[0]["redirect_uri"]]


@pytest.mark.parametrize("method", ["private_key_jwt", "client_secret_basic", "tls_client_auth"])
def test_a_registration_without_a_secret_is_that_of_a_public_client(world: World, method: str) -> None:
    world.at["/register"] = answer({"client_id": "mine", "token_endpoint_auth_method": method}, 201)
    with world.client():
        pass
    (asked,) = [asked for asked in world.asked if asked.path == "/token"]
    assert asked.form["client_id"] == "mine"
    assert "authorization" not in asked.headers and "client_assertion" not in asked.form


def test_a_redirect_uri_may_have_a_query(world: World) -> None:
    def visit(url: str) -> str:
        return world.visit(url).replace("?code", "&code")

    with world.client(OAuth("tests", visit=visit, redirect_uri="https://app.example/back?to=mcp")):
        pass
    assert world.forms()[0]["redirect_uri"] == "https://app.example/back?to=mcp"


# -- the request for a token -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_resource_goes_with_both_requests_as_the_server_writes_it(world: World, revision: str) -> None:
    with world.client(revision=revision):
        assert world.visits[0]["resource"] == world.url == world.forms()[0]["resource"]
        assert not world.url.endswith("/")


def test_every_code_has_a_verifier_of_its_own(world: World) -> None:
    with world.client() as client:
        world.valid, world.token["access_token"] = {"token-2"}, "token-2"
        client.call_tool("t")
    sent = [(visit["code_challenge"], visit["state"]) for visit in world.visits]
    assert len(set(sent)) == 2 and all(visit["code_challenge_method"] == "S256" for visit in world.visits)
    assert len({form["code_verifier"] for form in world.forms()}) == 2


@pytest.mark.parametrize(
    ("in_the_challenge", "in_the_metadata", "own", "asked"),
    [
        ("a b", ["b", "c"], None, "a b"),
        (None, ["b", "c"], None, "b c"),
        (None, None, None, None),
        ("a b", ["b", "c"], ["d"], "d"),
    ],
)
def test_scopes_come_from_the_challenge_else_from_the_metadata_else_from_nowhere(
    world: World,
    in_the_challenge: str | None,
    in_the_metadata: list[str] | None,
    own: list[str] | None,
    asked: str | None,
) -> None:
    world.challenge += f', scope="{in_the_challenge}"' if in_the_challenge else ""
    world.resource |= {"scopes_supported": in_the_metadata} if in_the_metadata else {}
    with world.client(OAuth("tests", visit=world.visit, scopes=own)):
        assert world.visits[0].get("scope") == asked


@pytest.mark.parametrize("listed", [True, False])
def test_offline_access_is_asked_for_where_it_is_listed_and_not_counted_on(world: World, listed: bool) -> None:
    world.challenge += ', scope="a"'
    world.metadata |= {"scopes_supported": ["a", "offline_access"] if listed else ["a"]}
    with world.client() as client:
        assert world.visits[0]["scope"] == ("a offline_access" if listed else "a")
        assert world.visits[0].get("prompt") == ("consent" if listed else None)
        # No refresh token came; the next 401 is another login.
        world.valid, world.token["access_token"] = {"token-2"}, "token-2"
        client.call_tool("t")
    assert len(world.visits) == 2


# -- requests with a token -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", "2026-07-28"])
def test_every_request_has_the_token_in_its_header_and_none_in_its_url(world: World, revision: str) -> None:
    with world.client(revision=revision) as client:
        client.call_tool("t")
        client.list_tools()
    sent = [asked for asked in world.asked if asked.path == "/mcp"]
    first, *others = sent
    assert "authorization" not in first.headers and len(others) >= 3
    assert all(asked.headers["authorization"] == "Bearer token-1" for asked in others)
    assert {"POST"} < {asked.method for asked in others} or revision == "2026-07-28"
    assert all("token-1" not in asked.url for asked in world.asked)


def test_dynamic_registration_is_warned_of_where_it_is_deprecated_and_something_replaces_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deprecated, "_unsaid", dict(deprecated.FEATURES))
    with world.client(revision="2025-11-25"):
        pass
    with world.client():
        pass  # An authorization server that takes no documents leaves no other way.
    world.metadata = world.metadata_of(world.issuer) | {"client_id_metadata_document_supported": True}
    with pytest.warns(DeprecationWarning, match="Client ID Metadata Documents") as warned, world.client():
        pass
    assert [warning.filename for warning in warned] == [__file__], "the line is that of whoever opened the client"


# -- tokens and headers of the program's own ---------------------------------------------------------------------------


def test_a_token_of_the_programs_own_is_sent_as_it_is_and_a_refusal_is_final(world: World) -> None:
    with world.client("token-1") as client:
        client.call_tool("t")
        world.valid = {"token-2"}
        with pytest.raises(HttpStatusError, match="401"):
            client.call_tool("t")
    assert world.visits == [] and searched(world) == [] and "/token" not in world.paths()


def test_a_function_is_asked_for_a_token_once_and_again_after_a_401(world: World) -> None:
    given = iter(["token-1", "token-2", "token-3"])
    with world.client(lambda: next(given)) as client:
        client.call_tool("t")
        client.call_tool("t")
        world.valid = {"token-2"}
        assert client.call_tool("t")["content"][0]["text"] == "token-2"
        # Once more for one request, and then it is final.
        world.valid = set()
        with pytest.raises(HttpStatusError, match="401"):
            client.call_tool("t")
    assert list(given) == []


@pytest.mark.parametrize("token", ["", "a b", "MARK\r\nX: y", "caf\u00e9", None, 7])
def test_what_cannot_be_a_token_is_not_sent_and_not_shown(world: World, token: Any) -> None:
    with pytest.raises(ValueError, match="not a token") as caught:
        world.client(lambda: token).connect()
    assert "MARK" not in str(caught.value) and world.asked == []


def test_a_callable_of_a_prepared_request_sets_headers_of_each_request(world: World) -> None:
    seen: list[str] = []

    class Signed(requests.auth.AuthBase):
        def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
            assert request.url == world.url and request.headers["Content-Type"] == "application/json"
            seen.append(json.loads(request.body or b"")["method"])
            request.headers["Authorization"] = "Bearer token-1"
            request.headers["X-Signature"] = "s"
            return request

    with world.client(Signed()) as client:
        client.call_tool("t")
        world.valid = set()
        with pytest.raises(HttpStatusError, match="401"):
            client.call_tool("t")
    assert seen == ["server/discover", "tools/call", "tools/call"]
    assert all(asked.headers["x-signature"] == "s" for asked in world.asked)


# -- refusals in other clothes -----------------------------------------------------------------------------------------


def told(world: World) -> AuthorizationError:
    with pytest.raises(AuthorizationError) as caught:
        world.client().connect()
    return caught.value


@pytest.mark.parametrize("status", [200, 400, 401, 500])
def test_an_error_of_the_token_endpoint_is_named_whatever_its_status(world: World, status: int) -> None:
    world.at["/token"] = answer({"error": "bad_verification_code", "error_description": "It has expired."}, status)
    error = told(world)
    assert error.error == "bad_verification_code"
    assert f"status {status}: bad_verification_code: It has expired." in str(error)


@pytest.mark.parametrize("status", [200, 502])
@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (b"<html>\n<title>Bad   gateway</title>", "with <html> <title>Bad gateway</title>"),
        (b'[{"access_token": "hidden", "scope": "a"}]', 'with [{"access_token": "[...]", "scope": "a"}]'),
        (b"access_token=hidden&token_type=bearer", "with access_token=[...]&token_type=bearer"),
        (b"your key is hidden0123456789abcdef", "with your key is [...]"),
        (b"\x1b[31m", "with \\x1b[31m"),
        (b"", "it did not answer with JSON"),
    ],
)
def test_what_is_no_answer_of_the_token_endpoint_is_shown_without_secrets(
    world: World, status: int, body: bytes, shown: str
) -> None:
    world.at["/token"] = status, {"Content-Type": "text/plain"}, body
    said = str(told(world))
    assert f"status {status}" in said and shown in said and "hidden" not in said and "\x1b" not in said


def test_an_answer_that_repeats_the_secrets_of_the_request_is_shown_without_them(world: World) -> None:
    world.at["/token"] = lambda asked: (200, {}, b"you said " + asked.body)
    said = str(told(world))
    sent = parse_qs(next(asked.body.decode() for asked in world.asked if asked.path == "/token"))
    assert "with you said" in said and not any(sent[name][0] in said for name in ("code", "code_verifier"))


def test_a_slash_at_the_end_of_an_issuer_is_for_the_user_to_decide(world: World) -> None:
    world.resource["authorization_servers"] = [world.issuer + "/"]
    said = str(told(world))
    assert "is of another issuer" in said and f"name it: issuer={world.issuer!r}" in said
    assert not world.visits
    with world.client(OAuth("tests", visit=world.visit, issuer=world.issuer)) as client:
        client.call_tool("t")
    # Another server that differs in more than that is still refused, and what was named is compared as text.
    for named, stranger in ((world.issuer, world.other), (world.issuer + "/", world.issuer)):
        world.resource["authorization_servers"] = [stranger]
        with pytest.raises(AuthorizationError):
            world.client(OAuth("tests", visit=world.visit, issuer=named)).connect()
