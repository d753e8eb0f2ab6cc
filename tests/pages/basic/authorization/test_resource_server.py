"""basic/authorization, a server's half: who comes in, what they may do, and what the others are told."""

from __future__ import annotations

import json
import time
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from mcp_ref import Client, Context, ErrorResponse, Refusal, Server, Url, resource_ref, text_of
from mcp_ref.pages.basic.authorization.resource_server import Principal, Protection
from tests.pages.basic.authorization.guarded import (
    ISSUER,
    RESOURCE,
    Guarded,
    Tokens,
    challenge,
    guarded,
    notes,
    principal,
    soon,
)
from tests.pages.basic.transports.streamable_http import modern
from tests.pages.basic.transports.streamable_http.modern import asked, called, listening
from tests.pages.basic.transports.streamable_http.raw import Wire, call, post, request

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
INVALID = (401, {"error": "invalid_token", "error_description": "The token is not valid here", "scope": "basic"})
MISSING = (401, {"scope": "basic"})

# -- the token ----------------------------------------------------------------------------------------------------


def test_without_a_token_the_challenge_has_no_error() -> None:
    with guarded(Tokens(ada=principal()), scopes=["basic"]) as server:
        for header in ("", "Basic YTpi", "Bearer", "bearer ", "Token ada", "Bearerada"):
            assert challenge(server.ask(called("read"), authorization=header)) == MISSING, header
        assert challenge(server.ask(called("read"))) == MISSING
        # In a query or a body it counts for nothing.
        asking = request("POST", "/mcp?access_token=ada", b"access_token=ada", content_type="application/json")
        assert challenge(server.wire.ask(asking)) == MISSING


def test_what_cannot_be_a_token_is_400() -> None:
    tokens = Tokens(ada=principal())
    with guarded(tokens) as server:
        for token in ("a b", "a,b", "ä", "a=b", "=", 'a"b'):
            status, said = challenge(server.ask(called("read"), token))
            assert (status, said["error"]) == (400, "invalid_request"), token
        twice = post(PING, authorization="Bearer ada").replace(b"accept:", b"Authorization: Bearer ada\r\naccept:")
        assert server.wire.ask(twice).status == 400
    assert tokens.asked == []


ELSEWHERE = ("https://other.example/mcp", RESOURCE[:-1], RESOURCE + "/more", RESOURCE + "/", "https://notes.example")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (None, "it is unknown"), ({"expires": 1.0}, "it has expired"),
        ({"audience": frozenset()}, "its audience is []"),
        ({"claims": {"cnf": {"jkt": "x"}}}, "it is bound to a key"),
        *(({"audience": frozenset({each})}, f"its audience is ['{each}'], and this server is {RESOURCE}")
          for each in ELSEWHERE),
    ],
    ids=str,
)  # fmt: skip
def test_a_token_that_does_not_count_is_told_as_one_that_is_unknown_and_only_the_log_says_why(
    changed: Any, reason: str, caplog: Any
) -> None:
    caplog.set_level("INFO", "mcp_ref.pages.basic.authorization")
    tokens = {} if changed is None else {"token": principal("ada", "basic", **changed)}
    with guarded(Tokens(ada=principal("ada", "basic"), **tokens), scopes=["basic"]) as server:
        assert server.ask(called("read"), "ada").status == 200
        assert caplog.messages == []
        answer = server.ask(called("read"), "token")
    (said,) = caplog.messages
    assert said.startswith("refused a token: ") and reason in said
    assert challenge(answer) == INVALID and reason not in answer.body.decode()


def test_a_token_for_this_server_lets_in() -> None:
    for audience in ([RESOURCE], ["https://other.example", RESOURCE], ["HTTPS://Notes.Example/mcp"]):
        with guarded(Tokens(ada=principal(audience=frozenset(audience), expires=soon()))) as server:
            assert server.ask(called("read"), "ada").json["result"]["content"][0]["text"] == "ada"
            assert server.ask(called("read"), authorization="bEARER   ada").status == 200


def test_a_verifier_that_cannot_tell_is_503_and_keeps_the_token_out_of_the_log(caplog: Any) -> None:
    def verify(token: str) -> Principal:
        raise OSError(f"no route to the authorization server, while asking for {token}")

    with guarded(verify) as server:
        answer = server.ask(called("read"), "marked-secret")
        assert (answer.status, answer.headers["retry-after"]) == (503, "5")
        assert "www-authenticate" not in answer.headers
    assert "OSError" in caplog.text and "marked-secret" not in caplog.text


def test_host_and_origin_come_before_the_token() -> None:
    tokens = Tokens(ada=principal())
    with guarded(tokens) as server:
        assert server.ask(called("read"), "ada", host="evil.example").status == 403
        assert server.ask(called("read"), "ada", origin="https://evil.example").status == 403
        assert tokens.asked == []
        assert server.ask(called("read"), "ada", host="notes.example").status == 200


def test_a_flood_without_tokens_opens_nothing_and_is_not_read() -> None:
    with guarded(Tokens()) as server:
        for body in (b"{", b"[" * 60_000, b'{"jsonrpc":"2.0","id":1,"method":"initialize"}'):
            assert server.wire.ask(request(body=body)).status == 401
        (endpoint,) = server.service._endpoints._endpoints
        assert len(endpoint.sessions._open) == 0  # type: ignore[union-attr]


# -- what is published --------------------------------------------------------------------------------------------


def test_the_metadata_says_what_was_configured_and_no_more() -> None:
    place = "/.well-known/oauth-protected-resource"
    expected = {"resource": RESOURCE, "authorization_servers": [ISSUER], "bearer_methods_supported": ["header"],
                "scopes_supported": ["basic"]}  # fmt: skip
    with guarded(Tokens(), scopes=["basic"]) as server:
        answer = server.get(f"{place}/mcp", x_forwarded_host="evil.example")
        assert (answer.status, answer.json) == (200, expected)
        assert answer.headers["access-control-allow-origin"] == "*"
        assert "set-cookie" not in answer.headers
        assert server.get(f"{place}/mcp", "OPTIONS").status == 204
        assert server.get(f"{place}/mcp", "POST").status == 405
        assert server.get(place).status == 404


def test_behind_a_front_the_metadata_is_where_the_resource_says() -> None:
    with guarded(Tokens(), resource="https://example.com/tenant/mcp") as server:
        for path in ("/tenant/mcp", "/mcp"):
            answer = server.get(f"/.well-known/oauth-protected-resource{path}")
            assert answer.json["resource"] == "https://example.com/tenant/mcp"
        said = server.ask(called("read")).headers["www-authenticate"]
        assert 'resource_metadata="https://example.com/.well-known/oauth-protected-resource/tenant/mcp"' in said


def test_on_this_machine_the_resource_is_the_url_of_the_service() -> None:
    tokens = Tokens()
    with guarded(tokens, resource=None) as server:
        tokens.tokens["ada"] = principal(audience=frozenset({server.service.url}))
        assert server.ask(called("read"), "ada").status == 200
        answer = server.get("/.well-known/oauth-protected-resource/mcp")
        assert answer.json["resource"] == server.service.url


def test_a_403_answers_the_request_that_was_read() -> None:
    response = {"jsonrpc": "2.0", "id": 5, "result": {}}
    with guarded(Tokens(ada=principal("ada")), scopes=["basic"]) as server:
        for message, found in ((called("read"), 1), (call("read", 7), 7), ([call("read")], None), (response, None)):
            answer = server.ask(message, "ada")
            assert (answer.status, answer.json.get("id"), "id" in answer.json) == (403, found, found is not None)


# -- scopes -------------------------------------------------------------------------------------------------------


def lacking(server: Guarded, message: Any, token: str = "ada", **fields: str) -> str:
    """The scopes that a 403 names."""
    status, said = challenge(server.ask(message, token, **fields))
    assert (status, said["error"]) == (403, "insufficient_scope")
    return said["scope"]


def test_all_the_scopes_of_an_operation_are_in_one_challenge() -> None:
    served, ran = notes()
    tokens = Tokens(ada=principal("ada", "basic", "notes:list"), nobody=principal("ada"))
    with guarded(tokens, served, scopes=["basic"]) as server:
        assert lacking(server, called("add")) == "basic notes:write notes:list"
        assert lacking(server, called("read"), "nobody") == "basic"
        assert ran == []
        assert server.ask(called("read"), "ada").status == 200
        # Another name is another tool, which nobody registered.
        assert server.ask(called("ADD"), "ada").json["error"]["code"] == -32602


def test_the_body_of_a_refusal_has_its_status_for_a_code() -> None:
    def verify(token: str) -> Principal:
        if token == "later":
            raise OSError("no route")
        return principal("ada", "basic")

    with guarded(verify, scopes=["basic"]) as server:
        for token, status in (("a,b", 400), (None, 401), ("ada", 403), ("later", 503)):
            answer = server.ask(called("add"), token)
            assert (answer.status, answer.json["error"]["code"]) == (status, status)


def test_nothing_of_a_batch_runs_if_one_entry_lacks_a_scope() -> None:
    served, ran = notes(revisions=["2025-03-26"])
    with guarded(Tokens(ada=principal()), served) as server:
        session = server.open("ada")
        batch = [call("read", 1), call("add", 2), {"jsonrpc": "2.0", "id": 3, "method": "prompts/get",
                 "params": {"name": "plan"}}]  # fmt: skip
        assert lacking(server, batch, mcp_session_id=session) == "notes:write notes:list prompts"
        assert ran == []


GUARDED = [
    (asked("resources/read", {"uri": "notes://secret"}), "secret"),
    (asked("resources/read", {"uri": "notes://of/ada/private"}), "private"),
    (asked("resources/read", {"uri": "notes://of/%61da/private"}), "private"),
    (asked("prompts/get", {"name": "plan"}), "prompts"),
    (asked("completion/complete", {"ref": {"type": "ref/prompt", "name": "plan"},
                                   "argument": {"name": "topic", "value": ""}}), "prompts"),
    (asked("completion/complete", {"ref": {"type": "ref/resource", "uri": "notes://of/{user}/private"},
                                   "argument": {"name": "user", "value": ""}}), "private"),
    (listening(resourceSubscriptions=["notes://secret"]), "secret"),
    (listening(resourceSubscriptions=["notes://open", "notes://of/ada/private"]), "private"),
    # From above they would be told of as well.
    (listening(resourceSubscriptions=["notes:/"]), "secret private"),
    (listening(resourceSubscriptions=["notes://of/ada"]), "private"),
]  # fmt: skip


def test_resources_and_prompts_are_guarded_on_every_way() -> None:
    served, ran = notes()
    with guarded(Tokens(ada=principal()), served) as server:
        for message, scopes in GUARDED:
            assert lacking(server, message) == scopes
        session = server.open("ada")
        message = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "notes://secret"}}
        assert lacking(server, message, mcp_session_id=session) == "secret"
    assert ran == []


def test_another_spelling_of_a_uri_is_another_resource() -> None:
    served, ran = notes()
    with guarded(Tokens(ada=principal()), served) as server:
        for uri in ("NOTES://secret", "notes://Secret", "notes://%73ecret", "notes://secret/", "notes://secret#"):
            answer = server.ask(asked("resources/read", {"uri": uri}), "ada")
            assert answer.json["error"]["code"] == -32602, uri
    assert ran == []


def test_what_cannot_be_read_needs_no_scopes_and_is_refused_later() -> None:
    with guarded(Tokens(ada=principal())) as server:
        session = server.open("ada")
        for params in (None, [], {"name": []}, {"name": None}):
            for method in ("tools/call", "resources/read", "completion/complete", "prompts/get"):
                message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                assert "error" in server.ask(message, "ada", mcp_session_id=session).json


def test_a_broader_scope_counts_for_those_that_it_includes() -> None:
    implies = {"admin": ["notes:write"], "notes:write": ["notes:list", "basic"]}
    tokens = Tokens(ada=principal("ada", "admin"), bob=principal("bob", "notes:list"))
    with guarded(tokens, scopes=["basic"], implies=implies) as server:
        assert server.ask(called("add", note="n"), "ada").json["result"]["content"][0]["text"] == "n"
        assert lacking(server, called("add"), "bob") == "basic notes:write notes:list"


def test_a_handler_may_need_more_and_the_client_gets_the_challenge() -> None:
    served, ran = notes()
    tokens = Tokens(ada=principal("ada", "basic", "remove:a"))
    with guarded(tokens, served, scopes=["basic"]) as server:
        fields = {"mcp_session_id": server.open("ada")}
        for message, more in ((called("remove", which="b"), {}), (call("remove", which="b"), fields)):
            answer = server.ask(message, "ada", **more)
            assert challenge(answer) == (403, {"error": "insufficient_scope", "scope": "basic remove:b"})
            assert answer.json["id"] == 1
            assert answer.json["error"]["data"] == {"scopes": ["basic", "remove:b"]}
        assert ran == []
        assert server.ask(called("remove", which="a"), "ada").status == 200
        # After progress it is an error, and the stream ends well.
        late = called("remove", which="b", late=True)
        late["params"]["_meta"] |= {"progressToken": 7}
        answer = server.ask(late, "ada")
        assert (answer.status, answer.messages[-1]["error"]["data"]) == (200, {"scopes": ["basic", "remove:b"]})


def test_a_handler_that_goes_on_all_the_same_answers_with_200() -> None:
    server = Server("s")

    @server.tool()
    def either(ctx: Context) -> str:
        with suppress(Exception):
            ctx.require_scopes("more")
            return "more"
        return "less"

    with guarded(Tokens(ada=principal()), server) as service:
        answer = service.ask(called("either"), "ada")
        assert (answer.status, answer.json["result"]["content"][0]["text"]) == (200, "less")


def test_over_stdio_and_in_memory_scopes_have_no_effect() -> None:
    served, ran = notes()
    with Client(served) as client:
        client.call_tool("add", {})
        client.call_tool("remove", {"which": "a"})
        assert text_of(client.call_tool("read", {})) == "None"
    assert ran == ["add", "remove", "read"]


def test_a_handler_is_not_given_the_token(caplog: Any) -> None:
    server, seen = Server("s"), list[Any]()
    caplog.set_level(1)

    @server.tool()
    def look(ctx: Context) -> str:
        seen.extend([ctx.principal, ctx.principal.claims, ctx.meta, ctx.client_info, ctx.incoming.params, repr(ctx)])
        return "looked"

    events = list[Any]()
    server.trace = events.append
    with guarded(Tokens(**{"marked-token": principal()}), server) as service:
        assert service.ask(called("look"), "marked-token").status == 200
    assert seen and events
    assert "marked-token" not in f"{seen} {events} {caplog.text}"


# -- sessions, state, rates, streams ------------------------------------------------------------------------------


def test_a_session_goes_on_with_a_newer_token_and_for_nobody_else() -> None:
    tokens = Tokens(
        ada=principal("ada", "basic"),
        newer=principal("ada", "basic", "remove:a", expires=soon()),
        bob=principal("bob", "basic"),
        elsewhere=principal("ada", "basic", issuer="https://other.example"),
        program=principal("ada", "basic", client_id="other"),
    )
    with guarded(tokens, scopes=["basic"]) as server:
        session = server.open("newer")
        for method in ("POST", "GET", "DELETE"):
            for token, status in (("bob", 404), ("elsewhere", 404), ("program", 404), ("unknown", 401)):
                fields = {"mcp_session_id": session, "authorization": f"Bearer {token}", "last_event_id": "s1-1"}
                body = b'{"jsonrpc":"2.0","id":1,"result":{}}' if method == "POST" else b""
                fields |= {"content_type": "application/json", "accept": "application/json, text/event-stream"}
                assert server.wire.ask(request(method, body=body, **fields)).status == status
        assert server.ask(PING, mcp_session_id=session).status == 401
        for token in ("newer", "ada"):
            assert server.ask(call("read"), token, mcp_session_id=session).status == 200
        # It lends nobody its scopes.
        assert lacking(server, call("remove", which="a"), "ada", mcp_session_id=session) == "basic remove:a"
        assert server.ask(call("remove", which="a"), "newer", mcp_session_id=session).status == 200


def test_principals_are_equal_by_issuer_subject_and_client() -> None:
    ada, newer = principal("ada", "a", expires=1.0), principal("ada", "b", claims={"email": "secret@example"})
    assert (ada, hash(ada), str(ada)) == (newer, hash(newer), str(newer))
    others = [principal("bob"), principal(issuer="x"), principal(client_id="x"), Principal("a", "b, c"),
              Principal("a, b", "c")]  # fmt: skip
    assert len({str(each) for each in (ada, *others)}) == 6 and ada not in others
    assert "secret" not in repr(newer)


def test_rates_are_those_of_the_principal_in_whatever_session() -> None:
    from mcp_ref import Rate

    served, _ = notes(rates={"tools/call": Rate(0.001, 2)})
    tokens = Tokens(ada=principal(), newer=principal(expires=soon()), bob=principal("bob"))
    with guarded(tokens, served) as server:
        first = server.ask(call("read"), "ada", mcp_session_id=server.open("ada")).json
        second = server.ask(call("read"), "newer", mcp_session_id=server.open("newer")).json
        third = server.ask(called("read"), "ada").json
        bob = server.ask(called("read"), "bob").json
        assert ["result" in each for each in (first, second, third, bob)] == [True, True, False, True]


def test_standing_streams_end_with_their_token() -> None:
    served, _ = notes()
    tokens = Tokens(ada=principal(expires=soon(0.6)), later=principal(expires=soon()))
    with guarded(tokens, served) as server, Wire(server.service._http.address) as other:
        session = server.open("ada")
        fields = {"authorization": "Bearer ada", "accept": "text/event-stream"}
        server.wire.send(request("GET", mcp_session_id=session, **fields))
        other.send(modern.post(listening(resourceSubscriptions=["notes://open"]), authorization="Bearer ada"))
        server.wire.head(), other.head()
        told = other.rest()
        assert b"acknowledged" in told and b'"result"' not in told
        assert tokens.tokens["ada"].expires is not None and time.time() >= tokens.tokens["ada"].expires
        served.resource_updated("notes://open")
        assert b"updated" not in server.wire.rest()
        with Wire(server.service._http.address) as again:
            fields = {"mcp_session_id": session, "authorization": "Bearer later"}
            assert again.ask(post(call("read"), **fields)).status == 200


# -- the older transport ------------------------------------------------------------------------------------------


def test_the_event_stream_of_2024_is_guarded_in_its_own_name() -> None:
    served, ran = notes()
    ours = "https://notes.example/sse"
    audience = frozenset({ours})
    tokens = Tokens(mcp=principal("ada", "basic"), ada=principal("ada", "basic", audience=audience),
                    bob=principal("bob", "basic", audience=audience), narrow=principal(audience=audience))  # fmt: skip
    with guarded(tokens, served, scopes=["basic"], sse_path="/sse") as server:
        assert server.get("/.well-known/oauth-protected-resource/sse").json["resource"] == ours
        for fields, status, said in (
            ({}, 401, "oauth-protected-resource/sse"),
            ({"authorization": "Bearer mcp"}, 401, "invalid_token"),
            ({"authorization": "Bearer narrow"}, 403, 'error="insufficient_scope", scope="basic"'),
        ):
            answer = server.get("/sse", accept="text/event-stream", **fields)
            assert answer.status == status and said in answer.headers["www-authenticate"]
        target = Url(server.service.sse_url or "", headers={"Authorization": "Bearer ada"})
        with Client(target, revision="2024-11-05") as client:
            assert text_of(client.call_tool("read", {})) == "ada"
            with pytest.raises(Exception, match="403"):
                client.call_tool("add", {})
            with pytest.raises(ErrorResponse, match="Insufficient scope"):
                client.call_tool("remove", {"which": "a"})
            session = next(iter(server.service._endpoints._endpoints[-1]._open))  # type: ignore[union-attr]
            for token, status in (("bob", 404), ("unknown", 401)):
                fields = {"authorization": f"Bearer {token}", "content_type": "application/json"}
                asking = request("POST", f"/messages?session={session}", json.dumps(PING).encode(), **fields)
                assert server.wire.ask(asking).status == status
        assert ran == ["read"]


# -- mistakes -----------------------------------------------------------------------------------------------------


def test_mistakes_of_configuration_are_told_before_anything_is_served() -> None:
    def protection(**changed: Any) -> Protection:
        return Protection(Tokens(), **{"authorization_servers": [ISSUER], **changed})

    for name, value in (
        ("authorization_servers", []), ("authorization_servers", ISSUER),
        ("authorization_servers", ["http://auth.example"]), ("resource", "http://notes.example/mcp"),
        ("resource", "https://notes.example/mcp#part"), ("resource", "notes"), ("scopes", ["a b"]),
        ("scopes", ["offline_access"]), ("implies", {"a": ["b"], "b": ["a"]}), ("implies", {"a": ["a"]}),
    ):  # fmt: skip
        with pytest.raises(ValueError):
            protection(**{name: value})
    with pytest.raises(TypeError):
        protection(scopes="basic")
    with pytest.raises(ValueError, match="resource="):
        Server("s").serve_http("0.0.0.0", authorization=protection())
    with pytest.raises(ValueError, match="authenticate="):
        Server("s").serve_http(authorization=protection(), authenticate=lambda request: None)
    with pytest.raises(ValueError, match="stdio"):
        Server("s").run("stdio", authorization=protection())
    with pytest.raises(TypeError):
        Server("s").tool(scopes="write")(lambda: None)


def test_scopes_without_protection_are_refused_over_http() -> None:
    served, _ = notes()
    with pytest.raises(ValueError, match="authorization="):
        served.serve_http()
    bare = Server("s")
    with bare.serve_http(), pytest.raises(ValueError, match="authorization="):
        bare.tool("late", scopes=["a"])(lambda: None)
    with guarded(Tokens(ada=principal()), bare) as server:
        bare.tool("late", scopes=["a"])(lambda: None)
        assert lacking(server, called("late")) == "a"


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
def test_who_asks_decides_what_is_read_and_suggested_and_not_what_it_says_of_itself(revision: str) -> None:
    server = Server("s")

    @server.resource("notes://{name}")
    def note(name: str, ctx: Context) -> str:
        if name == "scoped":
            ctx.require_scopes("any")
        if ctx.principal != "ada":
            raise Refusal("Not yours", code=403)
        return name

    @server.completion(resource="notes://{name}", argument="name")
    def names(value: str, ctx: Context) -> list[str]:
        return ["secret"] if ctx.principal == "ada" else []

    ref = resource_ref("notes://{name}")
    with server.serve_http(authenticate=lambda request: request.headers["x-user"]) as http:
        for user, named, values in (("ada", "bob", ["secret"]), ("bob", "ada", [])):
            with Client(Url(http.url, headers={"X-User": user}), revision=revision, info={"name": named}) as client:
                with nullcontext() if user == "ada" else pytest.raises(ErrorResponse, match="Not yours"):
                    assert client.read_resource("notes://a")["contents"] == [{"uri": "notes://a", "text": "a"}]
                assert client.complete(ref, "name", "")["completion"]["values"] == values
                # There are no scopes here that it could have.
                with pytest.raises(ErrorResponse):
                    client.read_resource("notes://scoped")
