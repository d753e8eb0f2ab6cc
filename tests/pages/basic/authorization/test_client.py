"""A client that gets tokens, where nobody is hostile: whom it asks, as whom, for what, and what it sends then."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from mcp_ref import AuthorizationError, HttpStatusError, MemoryStore, Registered, client_metadata
from mcp_ref.wire import deprecated
from tests.pages.basic.authorization.world import World, answer, told

PRM, AS = "/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"
AT_PATH, CUSTOM = f"{PRM}/mcp", "/custom"
DOCUMENT = "https://client.example/about.json"


def searched(world: World) -> list[str]:
    """The addresses at which metadata was looked for, in order."""
    return [path for path in world.paths() if "/.well-known/" in path or path == CUSTOM]


# -- discovery -------------------------------------------------------------------------------------------------------

NOT_THERE = "is not at .*/custom, where the server says it is"
PLACES = [
    # revision, whether the challenge names /custom, where nothing is, where the client looks, what it says if in vain
    ("2025-06-18", True, [], [CUSTOM, AS], ""),
    ("2026-07-28", True, [], [CUSTOM, AS], ""),
    ("2025-06-18", True, [CUSTOM], [CUSTOM, AT_PATH, AS], ""),
    ("2026-07-28", True, [CUSTOM], [CUSTOM, AT_PATH, AS], ""),
    ("2026-07-28", True, [CUSTOM, AT_PATH, PRM], [CUSTOM, AT_PATH, PRM], NOT_THERE),
    ("2025-06-18", False, [], [], "does not say by whom"),
    ("2025-11-25", False, [], [AT_PATH, AS], ""),
    ("2026-07-28", False, [], [AT_PATH, AS], ""),
    ("2025-11-25", False, [AT_PATH], [AT_PATH, PRM, AS], ""),
    ("2026-07-28", False, [AT_PATH], [AT_PATH, PRM, AS], ""),
    ("2025-06-18", True, [AS], [CUSTOM, AS], "is missing"),
]


@pytest.mark.parametrize(("revision", "named", "missing", "places", "problem"), PLACES)
def test_the_metadata_is_looked_for_where_the_challenge_says_then_at_the_well_known_places_of_the_revision(
    world: World, revision: str, named: bool, missing: list[str], places: list[str], problem: str
) -> None:
    world.challenge = f'Bearer resource_metadata="{world.issuer}{CUSTOM}"' if named else "Bearer"
    world.at = dict.fromkeys((CUSTOM, PRM), answer(world.resource)) | dict.fromkeys(missing, answer({}, 404))
    with pytest.raises(AuthorizationError, match=problem) if problem else nullcontext():
        with world.client(revision=revision):
            pass
    assert searched(world) == places


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize("tenant", ["", "/tenant"])
def test_the_forms_of_the_issuers_metadata_are_tried_in_order(world: World, revision: str, tenant: str) -> None:
    issuer = world.issuer + tenant
    places = list(dict.fromkeys([AS + tenant, OPENID + tenant, tenant + OPENID]))
    world.trust(issuer)
    world.metadata["issuer"] = world.came_back["iss"] = issuer
    world.at |= {place: answer({}, 404) for place in places[:-1]} | {places[-1]: answer(world.metadata)}
    with world.client(revision=revision):
        assert searched(world) == [AT_PATH, *places]


@pytest.mark.parametrize("published", [True, False])
def test_in_2025_03_26_the_server_is_its_own_authorization_server(world: World, published: bool) -> None:
    world.challenge = "Bearer"
    world.metadata["registration_endpoint"] += "-here"
    world.at["/register-here"] = answer({"client_id": "mine"}, 201)
    if not published:
        world.at[AS] = answer({}, 404)
        world.came_back = {"iss": None}
    visited: list[str] = []
    with world.client(world.login(visit=lambda url: visited.append(url) or world.visit(url)), revision="2025-03-26"):
        pass
    assert [urlsplit(url)._replace(query="").geturl() for url in visited] == [f"{world.issuer}/authorize"]
    assert searched(world) == [AS], "and no path of the server's URL in it"
    assert world.sent(AS)[0].headers["mcp-protocol-version"] == "2025-03-26"
    used = [path for path in world.paths() if path.startswith("/register") or path.endswith("/token")]
    assert used == ["/register-here" if published else "/register", "/token"]
    assert "resource" not in world.visits[0] and world.visits[0]["code_challenge_method"] == "S256"


def test_default_paths_are_for_a_server_without_metadata_alone(world: World) -> None:
    world.challenge, world.at[AS] = "Bearer", answer({}, 500)
    assert "status 500" in str(told(world, revision="2025-03-26"))
    assert "/register" not in world.paths()


# -- registration ----------------------------------------------------------------------------------------------------


def test_a_client_registered_beforehand_comes_before_a_document_and_that_before_registration(world: World) -> None:
    def who(**options: Any) -> str:
        with world.client(world.login(**options)):
            return world.visits[-1]["client_id"]

    world.metadata["client_id_metadata_document_supported"] = True
    assert who(client=Registered("mine"), document=DOCUMENT) == "mine"
    assert who(document=DOCUMENT) == DOCUMENT
    assert "/register" not in world.paths()
    world.metadata["client_id_metadata_document_supported"] = False
    assert who(document=DOCUMENT) == "client-of-127.0.0.1"


@pytest.mark.parametrize(
    ("given", "expected"), [({"client": Registered("mine")}, "mine"), ({"document": DOCUMENT}, DOCUMENT)]
)
def test_a_client_registered_beforehand_comes_before_a_registration_that_is_stored(
    world: World, given: Any, expected: str
) -> None:
    # The registration is for the place that the browser comes back to, so that it fits.
    usual = {"store": MemoryStore(), "redirect_uri": "https://app.example/back"}
    world.metadata["client_id_metadata_document_supported"] = True
    world.token["refresh_token"] = "refresh-1"
    with world.client(world.login(**usual)):
        world.next_token("token-2")
    with world.client(world.login(**usual, **given)) as client:
        # The refresh is by the same client.
        world.next_token("token-3")
        client.call_tool("t")
    assert world.visits[-1]["client_id"] == expected
    sent = [(form["grant_type"], form["client_id"]) for form in world.forms()[1:]]
    assert sent == [("authorization_code", expected), ("refresh_token", expected)]


def test_the_document_to_publish_names_its_own_url() -> None:
    made = client_metadata("My script", DOCUMENT)
    assert made["client_id"] == DOCUMENT and made["client_name"] == "My script"
    assert made["redirect_uris"] == ["http://127.0.0.1/callback"]


@pytest.mark.parametrize(
    ("redirect_uri", "kind"),
    [
        ("http://127.0.0.1:0/callback", "native"), ("https://localhost:8443/back", "native"),
        ("https://app.example/back", "web"), ("https://localhost.example/back?to=mcp", "web"),
    ],
)  # fmt: skip
def test_a_registration_says_what_the_program_is(world: World, redirect_uri: str, kind: str) -> None:
    def visit(url: str) -> str:
        return world.visit(url).replace("mcp?code", "mcp&code")

    with world.client(world.login(visit=visit, redirect_uri=redirect_uri)):
        pass
    (sent,) = [asked.json for asked in world.sent("/register")]
    assert sent["application_type"] == kind and sent["client_name"] == "tests"
    assert sent["grant_types"] == ["authorization_code", "refresh_token"]
    # The browser comes back to a place that was registered, with its query if it has one.
    assert sent["redirect_uris"] == [world.visits[0]["redirect_uri"]] == [world.forms()[0]["redirect_uri"]]


def test_a_registration_without_a_secret_is_that_of_a_public_client(world: World) -> None:
    world.at["/register"] = answer({"client_id": "mine", "token_endpoint_auth_method": "client_secret_basic"}, 201)
    with world.client():
        pass
    (asked,) = world.sent("/token")
    assert asked.form["client_id"] == "mine"
    assert "authorization" not in asked.headers and "client_assertion" not in asked.form


# -- the request for a token -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_resource_goes_with_both_requests_as_the_server_writes_it(world: World, revision: str) -> None:
    with world.client(revision=revision):
        assert world.visits[0]["resource"] == world.url == world.forms()[0]["resource"]
        assert not world.url.endswith("/")


def test_each_login_looks_for_the_server_again_and_has_a_verifier_of_its_own(world: World) -> None:
    with world.client() as client:
        world.next_token()
        client.call_tool("t")
    assert searched(world) == [AT_PATH, AS] * 2
    sent = [(visit["code_challenge"], visit["state"]) for visit in world.visits]
    assert len(set(sent)) == 2 and all(visit["code_challenge_method"] == "S256" for visit in world.visits)
    assert len({form["code_verifier"] for form in world.forms()}) == 2


@pytest.mark.parametrize(
    ("challenge", "metadata", "own", "asked"),
    [
        ("a b", ["b", "c"], None, "a b"), (None, ["b", "c"], None, "b c"), (None, None, None, None),
        ("a b", ["b", "c"], ["d"], "d"), ("\x1b[31mred", ["b"], None, "b"),
    ],
)  # fmt: skip
def test_scopes_come_from_the_challenge_else_from_the_metadata_else_from_nowhere(
    world: World, challenge: str | None, metadata: list[str] | None, own: list[str] | None, asked: str | None
) -> None:
    world.challenge += f', scope="{challenge}"' if challenge else ""
    world.resource |= {"scopes_supported": metadata} if metadata else {}
    with world.client(world.login(scopes=own)):
        assert world.visits[0].get("scope") == asked


@pytest.mark.parametrize("listed", [True, False])
def test_offline_access_is_asked_for_where_it_is_listed_and_not_counted_on(world: World, listed: bool) -> None:
    world.challenge += ', scope="a"'
    world.metadata |= {"scopes_supported": ["a", "offline_access"] if listed else ["a"]}
    with world.client() as client:
        assert world.visits[0]["scope"] == ("a offline_access" if listed else "a")
        assert world.visits[0].get("prompt") == ("consent" if listed else None)
        # No refresh token came; the next 401 is another login.
        world.next_token()
        client.call_tool("t")
    assert len(world.visits) == 2


# -- requests with a token -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_request_has_the_token_in_its_header_and_none_in_its_url(world: World, revision: str) -> None:
    with world.client(revision=revision) as client:
        client.call_tool("t")
        client.list_tools()
    first, *others = world.sent("/mcp")
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
    world.metadata["client_id_metadata_document_supported"] = True
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
    assert set(world.paths()) == {"/mcp"} and world.visits == []


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


@pytest.mark.parametrize("token", ["", "a b", "MARK\r\nX: y", "caf\u00e9", None])
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


@pytest.mark.parametrize("status", [200, 400, 500])
def test_an_error_of_the_token_endpoint_is_named_whatever_its_status(world: World, status: int) -> None:
    world.at["/token"] = answer({"error": "bad_verification_code", "error_description": "It has expired."}, status)
    error = told(world)
    assert error.error == "bad_verification_code"
    assert f"status {status}: bad_verification_code: It has expired." in str(error)


@pytest.mark.parametrize(
    ("status", "body", "shown"),
    [
        (502, b"<html>\n<title>Bad   gateway</title>", "with <html> <title>Bad gateway</title>"),
        (200, b'[{"access_token": "hidden", "scope": "a"}]', 'with [{"access_token": "[...]", "scope": "a"}]'),
        (200, b"access_token=hidden&token_type=bearer", "with access_token=[...]&token_type=bearer"),
        (502, b"your key is hidden0123456789abcdef", "with your key is [...]"),
        (502, b"\x1b[31m", "with \\x1b[31m"),
        (200, b"", "it did not answer with JSON"),
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
    sent = parse_qs(world.sent("/token")[0].body.decode())
    assert "with you said" in said and not any(sent[name][0] in said for name in ("code", "code_verifier"))


def test_a_slash_at_the_end_of_an_issuer_is_for_the_user_to_decide(world: World) -> None:
    world.trust(world.issuer + "/")
    said = str(told(world))
    assert "is of another issuer" in said and f"name it: issuer={world.issuer!r}" in said
    assert not world.visits
    with world.client(world.login(issuer=world.issuer)) as client:
        client.call_tool("t")
    # Another server that differs in more than that is still refused, and what was named is compared as text.
    for named, stranger in ((world.issuer, world.other), (world.issuer + "/", world.issuer)):
        world.trust(stranger)
        with pytest.raises(AuthorizationError):
            world.client(world.login(issuer=named)).connect()
