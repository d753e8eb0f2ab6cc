"""Programs that are like our solutions of the exercises, but for an edit: some solve the exercise too, most do not."""

from __future__ import annotations

from typing import Final, NamedTuple


class Program(NamedTuple):
    """A program that somebody could write.

    Attributes:
        edits: of our solution, the text before and after.
        goal: the number of the goal that it misses, in the script; 0: a finding is all that is printed.
        sentence: that is printed, as the program breaks it; "": none. None in place of both: it solves the exercise.
    """

    number: int
    edits: tuple[tuple[str, str], ...]
    goal: int | None
    sentence: str | None


def _right(number: int, *edits: tuple[str, str]) -> Program:
    return Program(number, edits, None, None)


def _wrong(number: int, goal: int, sentence: str, *edits: tuple[str, str]) -> Program:
    return Program(number, edits, goal, sentence)


_RESULTS: Final = "basic/index#result-responses.1"
_NOTIFICATIONS: Final = "basic/index#notifications.1"
_ARGUMENTS: Final = "server/tools#security-considerations.2"
_CURSORS: Final = "server/utilities/pagination#error-handling.1"
_ACCEPTED: Final = "basic/transports#sending-messages-to-the-server.5"
_LISTENING: Final = "basic/transports#listening-for-messages-from-the-server.3"
_ORIGINS: Final = "basic/transports#security-warning.2"
_SESSIONS: Final = "basic/transports#session-management.8"
_OF_ANOTHER: Final = "basic/patterns/mrtr#server-requirements-basic-workflow.6"
_FORGED: Final = "basic/patterns/mrtr#server-requirements-basic-workflow.8"
_NEEDS: Final = "basic/index#_meta.8"
_VERSION: Final = "basic/versioning#protocol-version-negotiation.1"
_HEADERS: Final = "basic/transports/streamable-http#server-validation.1"
_TAG: Final = "basic/index#_meta.16"
_UNASKED: Final = "basic/patterns/subscriptions#opening-a-stream.1"
_STALE: Final = "server/utilities/caching#time-to-live-ttl-field.2"
_FRESH: Final = "server/utilities/caching#time-to-live-ttl-field.4"

# Parts of our solutions, and what stands in their place.
_NEWS: Final = '    print(json.dumps({"jsonrpc": "2.0", **news}), flush=True)\n'
_SEAL: Final = "    return hmac.new(KEY, text.encode(), hashlib.sha256).hexdigest() + text\n"
_UNSEAL: Final = "    return text[64:] if hmac.compare_digest(seal(text[64:]).encode(), text.encode()) else None\n"
_CURSOR: Final = 'return {"error": {"code": -32602, "message": "Invalid params: this cursor is not from here"}}'
_WAITS: Final = "        if any(given_up[request_id].wait(0.1) for sheep in range(to)):\n            return\n"
_GET: Final = "    def do_GET(self):\n        self.answer(405)\n"
_STREAM: Final = """    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.end_headers()
        self.wfile.write(b": hello\\n\\n")
"""
_ORIGIN: Final = 'urlsplit(origin).hostname not in ("localhost", "127.0.0.1")'
_READS: Final = """rest = b""
while data := client.recv(65536):
    *lines, rest = (rest + data).split(b"\\n")
    for line in lines:
"""


def _sealed(seal: str, unseal: str) -> tuple[tuple[str, str], ...]:
    """Another way to seal a state, and to look at it when it comes back."""
    return (_SEAL, f"    return {seal}\n"), (_UNSEAL, f"    return {unseal}\n")


def _prefixed(seal: str) -> tuple[tuple[str, str], ...]:
    """Something in front of the text, with a slash between, which is made again and compared."""
    return _sealed(f'({seal}) + "/" + text', 'text.partition("/")[2] if seal(text.partition("/")[2]) == text else None')


# Of each exercise at least three that do not solve it, and two that do.
PROGRAMS: Final = [
    _right(1, ('print("the till is open", file=sys.stderr)', 'sys.stderr.write("the till is open\\n")')),
    _right(1,
        ('print("the till is open", file=sys.stderr)',
         'import logging\nlogging.basicConfig(level="INFO")\nlogging.info("the till is open")')),
    _wrong(1, 1, "basic/index#messages.1",
        ('print("the till is open", file=sys.stderr)', 'print(json.dumps({"log": "the till is open"}))')),
    _wrong(1, 4, "", ('print("the till is open", file=sys.stderr)', "pass"),
        ('print("adding up", len(prices), "prices", file=sys.stderr)', "pass")),
    _wrong(1, 4, "basic/transports#stdio.4", (', "prices", file=sys.stderr', ', "prices"')),
    _right(2, ('key = message["id"]', 'key = message.get("id")')),
    _right(2, ('key = message["id"]\n', "key = json.loads(json.dumps(message))\n"), ('"id": key', '"id": key["id"]')),
    _wrong(2, 1, _RESULTS,
        ('key = message["id"]', 'key = int(message["id"]) if str(message["id"]).isdigit() else message["id"]')),
    _wrong(2, 1, _RESULTS, ('key = message["id"]', "key = 0")),
    _wrong(2, 2, "basic/index#error-responses.1", ('"id": key', '"id": key if result is not None else str(key)')),
    _right(3, ('if "id" not in message:', 'if message.get("id") is None:')),
    _right(3, ('if "id" not in message:', "if not message.keys() & {'id'}:")),
    _wrong(3, 2, _NOTIFICATIONS,
        ('if "id" not in message:', 'if message["method"] == "notifications/initialized":'),
        ('"id": message["id"]', '"id": message.get("id")')),
    _wrong(3, 2, _NOTIFICATIONS,
        ('if "id" not in message:', 'if message["method"].startswith("notifications/"):'),
        ('"id": message["id"]', '"id": message.get("id")')),
    _wrong(3, 3, "",
        ('if "id" not in message:', 'if "id" not in message or message["method"].startswith("notifications/"):')),
    _wrong(3, 3, "", ('if "id" not in message:', 'if not message.get("id"):')),
    _right(4,
        ("            try:\n",
         "            if isinstance(params, list):\n                outcome = "
         '{"error": {"code": -32600, "message": "params"}}\n            else:\n             try:\n'),
        ('                outcome = {"result"', '                 outcome = {"result"'),
        ("            except", "             except"),
        ('                outcome = {"error": {"code": -32602, "message": f"I',
         '                 outcome = {"error": {"code": -32602, "message": f"I')),
    _right(4, ("except Exception as problem", "except (TypeError, KeyError, AttributeError) as problem")),
    _wrong(4, 2, "", ('outcome = {"error": {"code": -32601, "message": "Method not found"}}', "continue")),
    _wrong(4, 2, "", ('{"code": -32601, "message"', '{"code": 0, "message"')),
    _wrong(4, 3, "", ("-32602", "0")),
    _wrong(4, 3, "", ("-32602", "-32601")),
    _wrong(4, 3, "", ("except Exception", "except KeyError")),
    _right(5, ("max(KNOWN)", "KNOWN[-1]")),
    _right(5, ("asked if asked in KNOWN else max(KNOWN)", '{each: each for each in KNOWN}.get(asked, "2025-11-25")')),
    _wrong(5, 2, "basic/lifecycle#version-negotiation.4", ("asked if asked in KNOWN else max(KNOWN)", "asked")),
    _wrong(5, 2, "basic/lifecycle#version-negotiation.5", ("max(KNOWN)", "min(KNOWN)")),
    _wrong(5, 1, "basic/lifecycle#version-negotiation.3", ("asked in KNOWN else", 'asked == "2025-06-18" else')),
    _right(6, ('"info", "data": "180 degrees"', '"info", "logger": "oven", "data": {"degrees": 180}')),
    _right(6,
        ('"capabilities": {"logging": {}, "tools": {}}',
         '"capabilities": {"tools": {"listChanged": False}, "logging": {}}')),
    _wrong(6, 2, "", ('"logging": {}, ', ""), (_NEWS, "")),
    _wrong(6, 2, "", (_NEWS, "")),
    _wrong(6, 0, "server/utilities/logging#capabilities.1", ('"logging": {}', '"experimental": {"logging": {}}')),
    _wrong(6, 3, "", ('case "ping" | "logging/setLevel"', 'case "ping"')),
    _right(7, (', "isError": False', "")),
    _right(7, ("    if b == 0:\n", "    try:\n        a / b\n    except ZeroDivisionError:\n")),
    _wrong(7, 4, "",
        ('{"error": {"code": -32602, "message": f"no tool is called {name}"}}',
         '{"result": {"content": [{"type": "text", "text": "none"}], "isError": True}}')),
    _wrong(7, 4, "", ("-32602", "-32601")),
    _wrong(7, 3, "", ('"isError": True', '"isError": False')),
    _wrong(7, 4, "", ('if name != "divide"', 'if name != "divide" and not (a or b)')),
    _right(8, ("type(given.get(name)) is not kind]", "not isinstance(given.get(name), kind) or given[name] is True]")),
    _right(8,
        ('"code": -32602, "message": f"does not fit the schema: {wrong}"',
         '"code": -32602, "message": "Invalid params", "data": wrong')),
    _wrong(8, 3, _ARGUMENTS, ("if type(given.get(name)) is not kind]", "if name not in given]")),
    _wrong(8, 3, _ARGUMENTS, ("type(given.get(name)) is not kind]", "not isinstance(given.get(name), kind)]")),
    _wrong(8, 4, "", ('if wrong and session["version"] == "2025-06-18"', "if False")),
    _wrong(8, 3, "", ('if wrong and session["version"] == "2025-06-18"', "if wrong")),
    _right(9, ("    given_out = {f", "    given_out.update({f"),
        ("range(2, len(TOOLS), 2)}", "range(2, len(TOOLS), 2)})"),
        ("def tools_list", "given_out = {}\n\n\ndef tools_list"),
        ('    page = {"tools"', '    key = __import__("uuid").uuid4().hex\n    page = {"tools"'),
        ('page["nextCursor"] = f"from-{start + 2}"', 'page["nextCursor"] = key\n        given_out[key] = start + 2')),
    _right(9, ('f"from-{start}": start for', 'f"page {start // 2 + 1}": start for'),
        ('f"from-{start + 2}"', 'f"page {start // 2 + 2}"')),
    _right(9, ('f"from-{start}": start for', "__import__('base64').b64encode(b'%d' % start).decode(): start for"),
        ('f"from-{start + 2}"', "__import__('base64').b64encode(b'%d' % (start + 2)).decode()")),
    _wrong(9, 3, _CURSORS, (_CURSOR, 'return {"result": {"tools": []}}')),
    _wrong(9, 3, _CURSORS, ("range(2, len(TOOLS), 2)", "range(1, len(TOOLS))")),
    _wrong(9, 3, _CURSORS, ("-32602", "-32603")),
    _wrong(9, 10, "server/utilities/pagination#implementation-guidelines.2",
        ("def tools_list", "LAST = []\n\n\ndef tools_list"),
        ('params["cursor"] not in given_out', 'params["cursor"] not in LAST[-1:]'),
        ('= f"from-{start + 2}"', '= f"from-{start + 2}"\n        LAST.append(page["nextCursor"])')),
    _right(10, ('ask(1, "initialize"', 'ask("one", "initialize"')),
    _right(10, ('send(method="notifications/initialized")', 'send(method="notifications/initialized", params={})')),
    _wrong(10, 2, "", ('send(method="notifications/initialized")', 'send(method="initialized")')),
    _wrong(10, 2, "basic/index#notifications.2",
        ('send(method="notifications/initialized")', 'send(id=7, method="notifications/initialized")')),
    _wrong(10, 1, "", ('ask(1, "initialize"', 'send(method="notifications/initialized")\nask(1, "initialize"')),
    _right(11, ('send(id=f"for {city}"', "send(id=CITIES.index(city)"),
        ("results[f'for {city}']", "results[CITIES.index(city)]")),
    _right(11, ("for city in CITIES:\n    print", "for city in reversed(CITIES):\n    print"),
        ("for city in CITIES:\n    send", "for city in reversed(CITIES):\n    send")),
    _wrong(11, 2, "", ('results = {message["id"]: message["result"] for message in (response(), response())}\n', ""),
        ("for city in CITIES:\n    print(", "for city in ():\n    print("),
        ('"arguments": {"city": city}})',
         "\"arguments\": {\"city\": city}})\n    print(f\"{city}: {response()['result']['content'][0]['text']}\")")),
    *(
        _wrong(11, 3, "",
            ('{message["id"]: message["result"] for message in (response(), response())}',
             f'dict(zip(["for Lisbon", "for Oslo"]{order}, (response()["result"], response()["result"])))'))
        for order in ("", "[::-1]")
    ),
    _right(12, ('"progress": step, "total": 3', '"progress": step / 3, "message": "grinding"')),
    _right(12,
        ('range(1, 4) if "progressToken" in meta else ()',
         'range(1, 4) if meta.get("progressToken") is not None else ()')),
    _wrong(12, 2, "", ('if "progressToken" in meta else ()', "if False else ()")),
    _wrong(12, 3, "", ('if "progressToken" in meta else ()', 'if meta.get("progressToken") else ()')),
    _wrong(12, 3, "basic/utilities/progress#behavior-requirements.2",
        ('meta["progressToken"],', 'str(meta["progressToken"]),')),
    _wrong(12, 0, "basic/utilities/progress#progress-flow.8", ('"progress": step', '"progress": 1')),
    _right(13,
        (_WAITS,
         "        for sheep in range(to):\n"
         "            if given_up[request_id].wait(0.1):\n                return None\n")),
    _right(13,
        ("given_up[request_id].wait(0.1)", "given_up[request_id].wait(0.05) or given_up[request_id].wait(0.05)")),
    _wrong(13, 4, "", ('given_up[params["requestId"]].set()', "pass")),
    _wrong(13, 4, "",
        (_WAITS,
         "        for sheep in range(to):\n            __import__('time').sleep(0.1)\n"
         "    if given_up[request_id].is_set():\n        return\n")),
    _wrong(13, 4, "basic/utilities/cancellation#behavior-requirements.9",
        ("            return\n",
         '            return send(id=request_id, result={"content": [], "isError": True})\n')),
    _wrong(13, 3, "", (' and params["requestId"] in given_up', "")),
    _right(14, ('if "roots" not in client["capabilities"]:', 'if client["capabilities"].get("roots") is None:')),
    _right(14,
        ('return {"content": [{"type": "text", "text": "this client shows no folders"}], "isError": True}',
         'raise LookupError("this client shows no folders")'),
        ('        send(id=message["id"], result=ANSWERS[message["method"]](message.get("params", {})))\n',
         "        try:\n"
         '            send(id=message["id"], result=ANSWERS[message["method"]](message.get("params", {})))\n'
         "        except LookupError as problem:\n"
         '            send(id=message["id"], error={"code": -32603, "message": str(problem)})\n')),
    _wrong(14, 3, "", ('if "roots" not in client["capabilities"]:', "if True:")),
    _wrong(14, 3, "", ('if "roots" not in client["capabilities"]:', 'if not client["capabilities"].get("roots"):')),
    _wrong(14, 2, "", (', "isError": True', "")),
    _right(15, (_GET, _STREAM)),
    _right(15, (_GET, _STREAM + "        self.wfile.flush()\n        import time\n        time.sleep(60)\n"),
        ("HTTPServer((", "__import__('http.server').server.ThreadingHTTPServer((")),
    _right(15, ("        self.answer(200, {", '        self.answer(404 if "error" in outcome else 200, {')),
    _right(15,
        ('        self.answer(200, {"jsonrpc": "2.0", "id": message["id"], **outcome})\n',
         '        self.send_response(200)\n        self.send_header("Content-Type", "text/event-stream")\n'
         "        self.end_headers()\n"
         '        text = json.dumps({"jsonrpc": "2.0", "id": message["id"], **outcome})\n'
         '        self.wfile.write(b"data:\\nid: 0\\n\\ndata: " + text.encode() + b"\\n\\n")\n')),
    _wrong(15, 0, _ACCEPTED, ("self.answer(202)", "self.answer(202, {})")),
    _wrong(15, 2, _ACCEPTED, ("self.answer(202)", "self.answer(200)")),
    _wrong(15, 6, _LISTENING, ("self.answer(405)", "self.answer(404)")),
    _wrong(15, 6, _LISTENING, ("self.answer(405)", 'self.answer(200, {"status": "open"})')),
    _right(16, (_ORIGIN, "not __import__('re').fullmatch(r'http://(localhost|127[.]0[.]0[.]1)(:[0-9]+)?', origin)")),
    _right(16, (_ORIGIN, 'origin.removeprefix("http://").partition(":")[0] not in ("localhost", "127.0.0.1")')),
    _wrong(16, 4, _ORIGINS, (_ORIGIN, 'not origin.startswith(("http://localhost", "http://127.0.0.1"))')),
    _wrong(16, 4, _ORIGINS, (_ORIGIN, 'not (urlsplit(origin).hostname or "").endswith(("localhost", "127.0.0.1"))')),
    _wrong(16, 4, _ORIGINS, (_ORIGIN, '"localhost" not in origin and "127.0.0.1" not in origin')),
    _wrong(16, 4, _ORIGINS, ("self.answer(403)", "self.answer(400)")),
    _wrong(16, 2, "", ('("localhost", "127.0.0.1")', '("localhost",)')),
    _right(17, ("            session.clear()\n            connect()\n", "            session.clear() or connect()\n")),
    _right(17, ("        if problem.code == 404:\n", "        if problem.code == 404 and session:\n")),
    _wrong(17, 3, _SESSIONS, ("            session.clear()\n", "")),
    _wrong(17, 2, "", ("if problem.code == 404", "if True")),
    _wrong(17, 3, _SESSIONS, ("if problem.code == 404", "if problem.code == 400")),
    _right(18,
        (' | ({"Mcp-Name": params["name"]} if "name" in params else {})',
         ' | {f"Mcp-{k}": v for k, v in params.items() if k == "name"}')),
    _right(18, ('HEADERS | {"Mcp-Method": method}', 'dict(HEADERS, **{"Mcp-Method": method})')),
    _wrong(18, 1, "basic/transports/streamable-http#sending-messages.4",
        ('HEADERS | {"Mcp-Method": method} | ({"Mcp-Name": params["name"]} if "name" in params else {})', "HEADERS")),
    _wrong(18, 1, "basic/transports/streamable-http#client-behavior.3",
        (' | ({"Mcp-Name": params["name"]} if "name" in params else {})', "")),
    _wrong(18, 1, "basic/index#_meta.7", ('"params": {"_meta": META, **params}', '"params": params')),
    _right(19, *_sealed("GIVEN.setdefault(secrets.token_hex(), text) and [*GIVEN][-1]", "GIVEN.get(text)"),
        ("KEY = secrets.token_bytes()\n", "GIVEN = {}\n")),
    _right(19,
        ("KEY = secrets.token_bytes()",
         'import os\nif not os.path.exists("key"):\n    open("key", "wb").write(secrets.token_bytes())\n'
         'KEY = open("key", "rb").read()')),
    _wrong(19, 3, _FORGED,
        *_sealed("__import__('base64').b64encode(text.encode()).decode()",
                 "__import__('base64').b64decode(text).decode()")),
    _wrong(19, 8, _OF_ANOTHER, *_prefixed("hashlib.sha256(text.encode()).hexdigest()")),
    _wrong(19, 3, _FORGED, *_prefixed("'sealed by us'")),
    _wrong(19, 3, _FORGED, *_prefixed("KEY.hex()")),
    _wrong(19, 3, _FORGED, *_prefixed("hmac.new(KEY, text[-3:].encode(), hashlib.sha256).hexdigest()")),
    _wrong(19, 8, _OF_ANOTHER, *_sealed("text", "text if text.endswith(' for 100') else None")),
    _wrong(19, 8, _OF_ANOTHER, ("secrets.token_bytes()", 'b"our secret"')),
    _right(20, (_READS, "for line in client.makefile('rb'):\n    if True:\n")),
    _right(20,
        ('*lines, rest = (rest + data).split(b"\\n")',
         "lines = (rest + data).splitlines(keepends=True)\n"
         '    rest = b"" if lines[-1].endswith(b"\\n") else lines.pop()')),
    _wrong(20, 2, "", ('rest = b""', 'rest = ""'),
        ('(rest + data).split(b"\\n")', '(rest + data.decode()).split("\\n")')),
    _wrong(20, 2, "", ('rest = b""', 'rest = ""'),
        ('(rest + data).split(b"\\n")', '(rest + data.decode(errors="replace")).split("\\n")')),
    _wrong(20, 2, "", ("json.loads(line)", r'json.loads(line.decode().replace("\u2028", " ").replace("\x85", " "))')),
    _right(21, ("if NEEDED - ", "if not NEEDED.issubset("), (".keys():", ".keys()):")),
    _right(21, ("Invalid params: _meta must", "Invalid params: the _meta must")),
    _wrong(21, 2, _NEEDS, ("-32602", "-32600")),
    _wrong(21, 2, _NEEDS, ("if NEEDED - ", "if NEEDED.isdisjoint("), (".keys():", ".keys()):")),
    _wrong(21, 2, _NEEDS, ('"io.modelcontextprotocol/protocolVersion", ', "")),
    _wrong(21, 3, _NEEDS, (', "io.modelcontextprotocol/clientCapabilities"', "")),
    _wrong(21, 2, _NEEDS, ("if NEEDED - ", 'if message["method"] != "tools/call" and NEEDED - ')),
    _wrong(21, 2, _NEEDS,
        ("def answer(message):\n",
         'SAID = set()\n\n\ndef answer(message):\n    SAID.update(message["params"]["_meta"])\n'),
        ('message.get("params", {}).get("_meta", {}).keys()', "SAID")),
    _wrong(21, 1, "", ("if NEEDED - ", 'if {*NEEDED, "io.modelcontextprotocol/logLevel"} - ')),
    _wrong(21, 2, "",
        ('return {"error": {"code": -32602', 'raise SystemExit\n        return {"error": {"code": -32602')),
    _right(22, ("version not in SUPPORTED", 'version != "2026-07-28"')),
    _right(22, ('"Unsupported protocol version"', '"This is another version"')),
    _wrong(22, 2, _VERSION, ("-32022", "-32602")),
    _wrong(22, 2, _VERSION, (', "data": data', "")),
    _wrong(22, 2, _VERSION, ('"supported": SUPPORTED', '"supportedVersions": SUPPORTED')),
    _wrong(22, 2, _VERSION, ('"supported": SUPPORTED', '"supported": SUPPORTED[0]')),
    _wrong(22, 2, _VERSION, (', "requested": version', "")),
    _wrong(22, 2, _VERSION, ('"requested": version', '"requested": SUPPORTED[0]')),
    _wrong(22, 2, _VERSION, ("version not in SUPPORTED", "version < SUPPORTED[0]")),
    _wrong(22, 2, _VERSION, ("version not in SUPPORTED", "version not in str(SUPPORTED)")),
    _right(23, ("Header mismatch: ", "The header is another: ")),
    _right(23, ('"Mcp-Method": message["method"]', '"mcp-method": message["method"]')),
    _wrong(23, 7, _HEADERS, (', "Mcp-Name": params["name"]', "")),
    _wrong(23, 5, _HEADERS, ('"Mcp-Method": message["method"], ', "")),
    _wrong(23, 4, "basic/transports/streamable-http#protocol-version-header.3",
        ('"MCP-Protocol-Version": params["_meta"][SAYS], ', "")),
    _wrong(23, 5, _HEADERS, ("headers[name] != value", "headers.get(name, value) != value")),
    _wrong(23, 7, _HEADERS, ("headers[name] != value", "not (headers[name] or '').startswith(value)")),
    _wrong(23, 7, _HEADERS, ("-32020", "-32600")),
    _wrong(23, 7, _HEADERS, ("status, outcome = 400,", "status, outcome = 200,")),
    _right(24, ('if "toolsListChanged" in honoured:', 'if honoured.get("toolsListChanged"):')),
    _right(24,
        ("for request_id, honoured in listeners.items():", "for request_id, honoured in list(listeners.items()):")),
    _wrong(24, 1, _TAG, (', **tag(message["id"])', "")),
    _wrong(24, 2, _TAG, (", params=tag(request_id)", "")),
    _wrong(24, 2, _TAG, ("params=tag(request_id)", 'params=tag(message["id"])')),
    _wrong(24, 3, _UNASKED, ('if "toolsListChanged" in honoured:', "if True:")),
    _wrong(24, 4, _UNASKED, ('        listeners.pop(message["params"]["requestId"], None)\n', "        pass\n")),
    _wrong(24, 1, "", ("        honoured = {", "        continue\n        honoured = {")),
    _wrong(24, 2, "",
        ('say(method="notifications/tools/list_changed"', 'print(end="") or (lambda **it: None)(method="x"')),
    _right(25, ('max(result.get("ttlMs", 0), 0) / 1000', 'max(result.get("ttlMs") or 0, 0) * 0.001')),
    _right(25, ("kept = result, time.monotonic() + max(", "kept = result, time.monotonic() + max(0, ")),
    _wrong(25, 1, _STALE, ("kept is None or time.monotonic() >= kept[1]", "kept is None")),
    _wrong(25, 2, _FRESH, ("kept is None or time.monotonic() >= kept[1]", "True")),
    _wrong(25, 2, _FRESH, ('max(result.get("ttlMs", 0), 0) / 1000', 'max(result.get("ttl", 0), 0) / 1000')),
    _wrong(25, 1, _STALE, ('max(result.get("ttlMs", 0), 0) / 1000', '(result.get("ttlMs", 0) or 60_000) / 1000')),
    _wrong(25, 1, _STALE, ('result.get("ttlMs", 0)', "60_000")),
    _wrong(25, 2, "", ("name=names[-1]", "name=names[0]")),
]  # fmt: skip

SPOKEN: Final = """import json, sys
_dumps = json.dumps
def _said(value, **options):
    if not (isinstance(value, dict) and "jsonrpc" in value):
        return _dumps(value, **options)
    {says}
json.dumps = _said
"""
"""In front of a program: how it says its messages, whatever they are."""
AS_WELL: Final = (
    "return _dumps(value, sort_keys=True)",
    'return _dumps(value, separators=(",", ":"))',
    'print("said", file=sys.stderr); return _dumps(value)',
)
"""Ways of speaking that are as good, for each exercise."""
BADLY: Final = (
    'return _dumps({**value, "jsonrpc": "1.0"})',
    'return _dumps({name: value[name] for name in value if name != "jsonrpc"})',
    'return _dumps({name: [each] if name == "id" else each for name, each in value.items()})',
    'return _dumps({name: [] if name in ("params", "result", "error") else value[name] for name in value})',
    "return _dumps({name.upper(): each for name, each in value.items()})",
    "return _dumps([value])",
    "return _dumps(value)[:-1]",
)
"""Ways of speaking with which no exercise is solved."""
