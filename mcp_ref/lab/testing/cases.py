"""The cases for servers that loop, wait or compare; the others are transcripts in lab/testing/cases.jsonl.

Not here:  what a case is about, and what it needs (lab/testing/cases.jsonl); running it (lab/testing/probe)

Each is called with a `Talk` that has begun, unless the case needs a fresh one, and raises Unmet.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from mcp_ref import REVISIONS, JsonObject
from mcp_ref.facts import Deadline, mirror
from mcp_ref.lab.testing.raw_talk import NotApplicable, Silent, Talk, expect, fits, shown
from mcp_ref.lab.words import CLIENT_CAPABILITIES, PROTOCOL_VERSION

LISTS: Final = {"tools": "tools/list", "resources": "resources/list", "prompts": "prompts/list"}


def _declared(talk: Talk) -> list[str]:
    return [name for name in LISTS if name in talk.capabilities] or _skip("the server lists nothing")


def _skip(why: str) -> Any:
    raise NotApplicable(why)


def _callable(talk: Talk) -> Iterator[JsonObject]:
    """Yield the tools that may be called."""
    found = False
    for tool in talk.entries("tools"):
        own_word = (tool.get("annotations") or {}).get("readOnlyHint") is True
        if own_word if talk.options.calls == "*" else fnmatchcase(str(tool.get("name")), talk.options.calls):
            found = True
            yield tool
    if not found:
        _skip("no tool may be called")


def _plain(tool: JsonObject) -> JsonObject | None:
    """Return params of a call whose arguments fit, where that is easy to say."""
    schema = tool.get("inputSchema") or {}
    easy = {"string": "x", "integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}
    arguments = {}
    for name in schema.get("required") or ():
        member = (schema.get("properties") or {}).get(name) or {}
        if "enum" in member:
            arguments[name] = member["enum"][0]
        elif member.get("type") in easy:
            arguments[name] = easy[member["type"]]
        else:
            return None
    return {"name": tool.get("name"), "arguments": arguments}


def _calls(talk: Talk) -> Iterator[JsonObject]:
    """Yield params of a call of each tool that may be called, and has arguments that are easy to say."""
    yield from filter(None, map(_plain, _callable(talk)))


def _called(talk: Talk, params: JsonObject) -> JsonObject:
    """Return the answer to a call. Raises: NotApplicable: the tool takes its time."""
    try:
        return talk.ask("tools/call", params)
    except Silent:
        raise NotApplicable(f"{params['name']} takes longer than {talk.timeout:g} s") from None


# -- ids and frames


def many_at_once(talk: Talk) -> None:
    ids = {f"many-{number}" for number in range(200)}
    for id in ids:
        talk.send(talk.request(talk.harmless, {}, id))
    left, deadline = {*ids}, Deadline(talk.timeout)
    while left:
        answer = talk.read(deadline)
        id = str(answer.get("id")) if isinstance(answer, dict) and "method" not in answer else ""
        if id in ids:
            expect(id in left, f"{id} is answered twice")
            left.discard(id)


def pieces(talk: Talk) -> None:
    one, two = (json.dumps(talk.request(talk.harmless, {}, id)).encode() for id in ("pieces-1", "pieces-2"))
    talk.link.transport.piece(one[:26])
    talk.link.transport.piece(one[26:] + b"\n" + two + b"\r\n", one, two)
    talk.answer("pieces-1")
    talk.answer("pieces-2")


# -- what is declared, and pages


def lists(talk: Talk) -> None:
    for name in _declared(talk):
        talk.result(LISTS[name])


def listed(talk: Talk) -> None:
    for name in _declared(talk):
        talk.ask(LISTS[name])


def walk(talk: Talk) -> None:
    for name in _declared(talk):
        cursors: list[str] = []
        params: JsonObject = {}
        if "error" in talk.ask(LISTS[name]):
            continue  # which is for the case about declared capabilities
        while isinstance(cursor := talk.result(LISTS[name], params).get("nextCursor"), str):
            expect(cursor not in cursors, f"{LISTS[name]} gives the cursor {cursor!r} twice")
            expect(len(cursors) < 100, f"{LISTS[name]} has more than a hundred pages")
            cursors.append(cursor)
            params = {"cursor": cursor}
        expect(talk.entries(name) == talk.entries(name), f"{LISTS[name]} gives other entries the second time")


def tools_twice(talk: Talk) -> None:
    first, second = ([each.get("name") for each in talk.entries("tools")] for _ in range(2))
    expect(first == second, "the order is another one the second time")


# -- calls and reads


def wrong_arguments(talk: Talk) -> None:
    for tool in _callable(talk):
        schema = tool.get("inputSchema") or {}
        strings = [k for k, v in (schema.get("properties") or {}).items() if isinstance(v, dict) and v.get("type")]
        wrong: list[JsonObject] = [{}] if schema.get("required") else []
        wrong += [{name: {"no": "such"}} for name in strings if schema["properties"][name]["type"] != "object"][:1]
        for arguments in wrong:
            answer = _called(talk, {"name": tool["name"], "arguments": arguments})
            pattern = [{"result": {"isError": True}}, {"error": {"code": -32602}}]
            expect(fits(answer, pattern), f"{tool['name']} with {shown(arguments)}: {shown(answer)}")


def token_kinds(talk: Talk) -> None:
    for params in _calls(talk):
        for token in (0, "t"):
            talk.heard.clear()
            _called(talk, {**params, "_meta": {"progressToken": token}})
            progress = [each for each in talk.heard if fits(each, {"method": "notifications/progress"})]
            tokens = [(each.get("params") or {}).get("progressToken") for each in progress]
            expect(all(each is token or each == token for each in tokens), f"progress for {shown(tokens)}")


def no_questions(talk: Talk) -> None:
    for params in _calls(talk):
        answer = _called(talk, params)
        expect(not fits(answer, {"result": {"inputRequests": "*"}}), f"{params['name']} asks: {shown(answer)}")


def forged_state(talk: Talk) -> None:
    for params in _calls(talk):
        first = _called(talk, params)
        forged = _called(talk, {**params, "requestState": talk.options.unknown, "inputResponses": {}})
        again = first.get("result") == forged.get("result")
        expect("error" in forged or again, f"{params['name']} takes a state of our making: {shown(forged)}")


def calls_of_a_file(talk: Talk) -> None:
    talk.entries("tools")  # so that the checker knows the schemas
    for call in talk.options.call:
        talk.result("tools/call", {"name": call["name"], "arguments": call.get("arguments") or {}})


def cancelled_call(talk: Talk) -> None:
    params = {"name": talk.options.slow, "arguments": {}}
    if talk.over == "http":
        _skip("over HTTP a request is given up by its connection")
    talk.send(talk.request("tools/call", params, "slow"))
    talk.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})
    expect(not [each for each in talk.goes_on() if fits(each, {"id": "slow"})], "it is answered all the same")


def read_all(talk: Talk) -> None:
    for resource in talk.entries("resources")[:20]:
        result = talk.result("resources/read", {"uri": resource.get("uri")})
        expect(fits(result, {"contents": {"$has": {"uri": "*"}}}), f"{resource.get('uri')}: {shown(result)}")


def escape(talk: Talk) -> None:
    files = [str(each.get("uri")) for each in talk.entries("resources") if str(each.get("uri")).startswith("file:")]
    if not files:
        _skip("the server lists no file")
    folder = files[0].rpartition("/")[0]
    for way in ("../" * 12, "%2e%2e/" * 12, "..%2f" * 12):
        answer = talk.ask("resources/read", {"uri": f"{folder}/{way}etc/passwd"})
        expect("error" in answer, f"{way}etc/passwd is read: {shown(answer)}")


def missing_argument(talk: Talk) -> None:
    for prompt in talk.entries("prompts"):
        if any(each.get("required") for each in prompt.get("arguments") or ()):
            talk.refused("prompts/get", {"name": prompt["name"]}, -32602)
            return
    _skip("no prompt requires an argument")


def at_most_a_hundred(talk: Talk) -> None:
    for prompt in talk.entries("prompts"):
        for argument in prompt.get("arguments") or ():
            ref = {"type": "ref/prompt", "name": prompt["name"]}
            asked = {"ref": ref, "argument": {"name": argument["name"], "value": ""}}
            values = (talk.result("completion/complete", asked).get("completion") or {}).get("values")
            expect(isinstance(values, list) and len(values) <= 100, f"values: {shown(values)}")


# -- the stateless era


def no_envelope(talk: Talk) -> None:
    whole: JsonObject = {PROTOCOL_VERSION: talk.revision, CLIENT_CAPABILITIES: {}}
    cut = [{key: value for key, value in whole.items() if key != name} for name in whole]
    method = LISTS[_declared(talk)[0]]
    for meta in [*cut, {**whole, CLIENT_CAPABILITIES: 7}, {**whole, PROTOCOL_VERSION: 7}]:
        # Over HTTP the header names a version that the body does not.
        codes = [-32020, -32022] if talk.over == "http" and meta.get(PROTOCOL_VERSION) != talk.revision else []
        talk.refused(method, {"_meta": {}}, -32602, *codes, meta=meta)
        expect(talk.over == "stdio" or talk.link.status == 400, f"HTTP {talk.link.status} to {shown(meta)}")


def listen(talk: Talk) -> list[Any]:
    """Return what came after the subscription was cancelled."""
    asked = talk.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "listen")
    if talk.over == "stdio":
        talk.send(asked)
    else:
        talk.link.write(json.dumps(asked).encode(), mirror(asked, talk.revision), events=1)
    first = talk.read(Deadline(talk.limit))
    if fits(first, {"error": {"code": -32601}}):
        _skip("the server has no subscriptions")
    expect(fits(first, {"method": "notifications/subscriptions/acknowledged"}), f"first comes {shown(first)}")
    if talk.over == "http":
        return []
    talk.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "listen"}})
    return talk.goes_on()


def listen_cancelled(talk: Talk) -> None:
    heard = [each for each in listen(talk) if "toolsListChanged" not in json.dumps(each)]
    expect(not [each for each in heard if "listen" in json.dumps(each) and "method" in each], "it goes on telling")


# -- stdio


def end_of_input(talk: Talk) -> None:
    _ended(talk.close())


def end_in_a_line(talk: Talk) -> None:
    half = b'{"jsonrpc": "2.0", "id": 1, "me'
    talk.link.transport.piece(half, half)
    _ended(talk.close())


def _ended(code: int | None) -> None:
    expect(code is not None, "it has to be ended by a signal")
    expect(code == 0, f"it exits with {code}")


# -- HTTP


def session_ids(talk: Talk) -> None:
    ids = [talk.link.session]
    for _ in range(19):
        other = talk.another()
        try:
            other.open()
            ids.append(other.link.session)
        finally:
            other.close()
    expect(all(isinstance(id, str) and id and all("!" <= c <= "~" for c in id) for id in ids), f"ids: {shown(ids)}")
    expect(len({*ids}) == len(ids), "two sessions have one id")
    base = 10 if all(map(str.isdigit, ids)) else 16
    numbers = [int(id, base) for id in ids if set(id) <= set("0123456789abcdefABCDEF")]
    steps = {later - earlier for earlier, later in zip(numbers, numbers[1:], strict=False)}
    expect(len(steps) > 1 or len(numbers) < len(ids), f"the ids are counted up: {shown(ids[:3])}")


def ended_session(talk: Talk) -> None:
    session = talk.link.session
    talk.link.write(None, talk.version, "DELETE")
    if talk.link.status == 405:
        _skip("the server lets no client end a session")
    talk.send(talk.request("ping", {}, "gone"), {"Mcp-Session-Id": session})
    talk.ended, talk.link.session = True, None
    expect(talk.link.status == 404, f"HTTP {talk.link.status}")


def resume(talk: Talk) -> None:
    version = talk.version
    talk.allowed.append({"id": "resume"})  # it may be on the stream that is resumed
    request = json.dumps(talk.request(talk.harmless, {}, "resume")).encode()
    events = talk.link.write(request, version, events=1)
    if not events or events[0].id is None:
        _skip("the server gives no ids to its events")
    talk.ask(talk.harmless, id="of another stream")
    again = talk.link.write(None, {**version, "Last-Event-ID": events[0].id}, "GET", events=2)
    expect(not [each for each in again if "of another stream" in each.data], "it replays what another stream had")


def header_mismatch(talk: Talk) -> None:
    request = talk.request(
        "tools/call" if "tools" in talk.capabilities else "prompts/get", {"name": talk.options.unknown}, "h"
    )
    version = next(iter(REVISIONS))
    for headers in (
        {"Mcp-Method": "prompts/list"}, {"Mcp-Method": None}, {"Mcp-Name": "other"}, {"Mcp-Name": None},
        {"MCP-Protocol-Version": version}, {"MCP-Protocol-Version": None},
    ):  # fmt: skip
        talk.send(request, headers)
        expect(talk.link.status == 400, f"HTTP {talk.link.status} to {shown(headers)}")
        answer = talk.read(Deadline(0))
        codes = [-32020] if headers != {"MCP-Protocol-Version": None} else [-32020, -32602, -32600, -32022]
        expect(fits(answer, {"error": {"code": codes}}), f"{shown(headers)}: {shown(answer)}")


def header_encoded(talk: Talk) -> None:
    name = f"=?base64?{base64.b64encode(talk.options.unknown.encode()).decode()}?="
    params = {"name": talk.options.unknown, "arguments": {}}
    plain = talk.ask("tools/call", params, id="h")
    coded = talk.ask("tools/call", params, id="h", headers={"Mcp-Name": name})
    expect(plain == coded, f"in plain {shown(plain)}, in base64 {shown(coded)}")


def stream_headers(talk: Talk) -> None:
    talk.ask(talk.harmless, id="s")
    if not talk.link.headers.get("content-type", "").startswith("text/event-stream"):
        _skip("the server answers without a stream")
    expect(talk.link.headers.get("x-accel-buffering") == "no", "the stream is without X-Accel-Buffering: no")


def endpoint_first(talk: Talk) -> None:
    events = talk.link.write(None, {"Accept": "text/event-stream", "Content-Type": None}, "GET", events=1)
    if not events:
        _skip("the server does not speak HTTP+SSE")
    expect(events[0].event == "endpoint", f"first comes an event of the type {events[0].event!r}")


def unauthorized(talk: Talk) -> None:
    for headers in ({"Authorization": None}, {"Authorization": f"Bearer {talk.options.unknown}"}):
        talk.send(talk.request("ping", {}, "a"), headers)
        if talk.link.status != 401 and "Authorization" not in talk.options.headers:
            _skip("the server is not guarded")
        expect(talk.link.status == 401, f"HTTP {talk.link.status} to {shown(headers)}")
        expect("www-authenticate" in talk.link.headers, "401 without WWW-Authenticate")


FUNCTIONS: Final[dict[str, Callable[[Talk], object]]] = {
    "ids/many-at-once": many_at_once, "frames/pieces": pieces, "capabilities/declared": lists,
    "pagination/walk": walk, "tools/list-twice": tools_twice,
    "tools/definitions": listed, "stateless/results-complete": listed, "stateless/caching-hints": listed,
    "tools/wrong-arguments": wrong_arguments, "progress/token-kinds": token_kinds,
    "stateless/no-questions-undeclared": no_questions, "stateless/forged-state": forged_state,
    "tools/structured": calls_of_a_file, "cancel/call": cancelled_call, "resources/read-all": read_all,
    "resources/escape": escape, "prompts/missing-argument": missing_argument,
    "completion/at-most-100": at_most_a_hundred, "stateless/no-envelope": no_envelope,
    "stateless/listen": listen, "stateless/listen-cancelled": listen_cancelled, "stdio/end-of-input": end_of_input,
    "stdio/end-in-a-line": end_in_a_line, "http/session-id": session_ids,
    "http/ended-session": ended_session, "http/resume": resume, "http/header-mismatch": header_mismatch,
    "http/header-encoded": header_encoded, "http/stream-headers": stream_headers, "sse/endpoint": endpoint_first,
    "auth/unauthorized": unauthorized,
}  # fmt: skip
"""By the name of the case."""
