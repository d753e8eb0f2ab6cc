"""The questions that everybody asks: what their pages show of the wire is what a run shows, and what they name exists.

python -m tests.test_questions --write        records the traffic again, and makes the lists of sentences again
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from mcp_ref import (
    AnswerLost,
    Cancel,
    Client,
    Command,
    Context,
    McpError,
    Principal,
    Protection,
    RequestCancelled,
    Server,
    TraceEvent,
)
from mcp_ref.lab.words import SUBSCRIPTION_ID
from tests.pages.basic.transports.streamable_http.modern import asked
from tests.support.clock import until
from tests.test_pictures import SESSION, STATELESS, question_in_a_call, question_in_rounds, told, weather
from tests.test_spec_notes import having, notes
from tests.test_where import said

ROOT = Path(__file__).parent.parent
QUESTIONS = sorted((ROOT / "spec_notes" / "questions").glob("[a-z]*.md"))
WIDTH = 260
HEADERS = (
    "mcp-protocol-version", "mcp-session-id", "mcp-method", "mcp-name", "last-event-id", "authorization",
    "www-authenticate",
)  # fmt: skip
"""The headers that are shown, unless a run says otherwise."""
_OPENING = {"protocolVersion": SESSION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
Lines = list[str]


# -- how traffic is told ------------------------------------------------------------------------------------------


def short(message: Any) -> str:
    """A message as one line, without what the question is not about: `jsonrpc`, and who the two sides are."""

    def trimmed(value: Any, key: str = "") -> Any:
        if key in ("clientInfo", "serverInfo", "capabilities") or (key == "_meta" and SUBSCRIPTION_ID not in value):
            return "…"
        if key in ("inputSchema", "requestedSchema"):
            return "…"
        if key == "_meta" and SUBSCRIPTION_ID in value:
            return {SUBSCRIPTION_ID: value[SUBSCRIPTION_ID]}
        if isinstance(value, dict):
            return {name: trimmed(each, name) for name, each in value.items() if name != "jsonrpc"}
        if isinstance(value, list):
            return [trimmed(each) for each in value]
        return "…" if key == "requestState" else value

    text = json.dumps(trimmed(message), ensure_ascii=False)
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def head(http: dict[str, Any], names: tuple[str, ...] = HEADERS) -> str:
    """What HTTP says beside a message."""
    words = [str(http.get("status") or http.get("method", ""))]
    given = http.get("headers", {})
    words += [f"{name}: {value}" for name in names for each, value in given.items() if each.lower() == name]
    # What an event asks, beside its id, is told of it again.
    words += [f"(event {http['eventId']})" for _ in "1" if "eventId" in http and "retry" not in http]
    words += [f"(retry: {http['retry']})" for _ in "1" if "retry" in http]
    words += ["the client hangs up" for _ in "1" if "hangUp" in http]
    words += ["the stream ends" for _ in "1" if "end" in http]
    text = "  ".join(words)
    text = re.sub(r"\[redacted \w+\]", "…", text)
    return re.sub(r"http://127.0.0.1:\d+", "http://HERE", text)


def lines(events: list[TraceEvent]) -> Lines:
    """The messages of a conversation, a line each; over HTTP with a line above for what HTTP says."""
    out, ended = list[str](), set[Any]()
    for event in events:
        if "hangUp" in (event.http or {}) and (event.http or {}).get("exchange") in ended:
            continue  # there is nothing left to hang up
        ended |= {(event.http or {}).get("exchange")} if "end" in (event.http or {}) else set()
        arrow, http = "C> " if event.direction == "send" else "S< ", event.http
        if http is not None and (event.message is None or "status" in http or "headers" in http):
            out.append(f"{arrow}{head(http)}")
            arrow = "   "
        if event.message is not None:
            out.append(f"{arrow}{short(event.message)}")
    return out


def posted(url: str, message: Any, **headers: str) -> Lines:
    """One POST by hand, and its answer."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    about = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json", **sent}
    answer = requests.post(url, json=message, headers=about, timeout=10)
    out = [f"C> {head({'method': 'POST', 'headers': sent})}", f"   {short(message)}"]
    out += [f"S< {head({'status': answer.status_code, 'headers': dict(answer.headers)})}"]
    return out + [f"   {short(answer.json())}" for _ in "1" if "json" in answer.headers.get("Content-Type", "")]


def spoken(*messages: Any) -> Lines:
    """Lines by hand to a server over stdio, and what it answers before it exits."""
    command = [sys.executable, "-m", "mcp_ref", "serve", str(ROOT / "examples" / "weather.py")]
    text = "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in messages)
    done = subprocess.run(command, cwd=ROOT, input=text, capture_output=True, text=True, timeout=30, check=True)
    told = [f"C> {short(each)}" for each in messages]
    # Requests are answered side by side: here in the order in which they were made.
    found = [json.loads(line) for line in done.stdout.splitlines()]
    order = [each.get("id") for each in messages]
    return told + [f"S< {short(each)}" for each in sorted(found, key=lambda each: order.index(each["id"]))]


# -- the conversations --------------------------------------------------------------------------------------------


def opening_session() -> Lines:
    return lines(told(weather(revisions=SESSION), lambda client: client.list_tools(), None))  # type: ignore[arg-type]


def opening_stateless() -> Lines:
    return lines(told(weather(), lambda client: client.list_tools(), None))  # type: ignore[arg-type]


LATE = """
import json, sys
late = []
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "tools/call":
        late.append({"id": message["id"], "result": {"content": []}})
    who = {"name": "x", "version": "1"}
    about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": who}
    if message["method"] in ("initialize", "ping"):
        # What was called is answered first, though it was given up: the two have crossed.
        result = about if message["method"] == "initialize" else {}
        for answer in (*late, {"id": message["id"], "result": result}):
            print(json.dumps({"jsonrpc": "2.0", **answer}), flush=True)
"""


def given_up(client: Client, begun: threading.Event) -> None:
    """Call a tool, and give the call up once it has begun."""
    enough = Cancel()

    def interrupt() -> None:
        assert begun.wait(10)
        enough("no longer wanted")

    other = threading.Thread(target=interrupt)
    other.start()
    with pytest.raises(RequestCancelled):
        client.call_tool("count", cancel=enough)
    other.join()


def crossed() -> Lines:
    """A call that is given up, and answered all the same; the client goes on."""
    events, begun = list[TraceEvent](), threading.Event()

    def keep(event: TraceEvent) -> None:
        events.append(event)
        if "tools/call" in str(event.message):
            begun.set()

    def talk(client: Client) -> None:
        given_up(client, begun)
        client.ping()

    told(Command([sys.executable, "-c", LATE]), talk, SESSION, trace=keep)
    return lines([event for event in events[3:] if event.message])


def hung_up() -> Lines:
    """A call over HTTP that is given up; the server notices."""
    server, begun, noticed = Server("slow"), threading.Event(), threading.Event()

    @server.tool()
    def count(ctx: Context) -> str:
        begun.set()
        until(lambda: ctx.cancelled)
        noticed.set()
        return "too late"

    def talk(client: Client) -> None:
        given_up(client, begun)
        assert noticed.wait(10)

    with server.serve_http() as http:
        return lines(told(http.url, talk, STATELESS)[2:])


def resumed() -> Lines:
    server = Server("slow")

    @server.tool()
    def report(ctx: Context) -> str:
        ctx.close_stream(retry=10)
        return "all is well"

    with server.serve_http() as http:
        events = told(http.url, lambda client: client.call_tool("report"), SESSION)
    # The standing stream is s1; what answers the call, s2.
    begun = next(n for n, event in enumerate(events) if (event.message or {}).get("method") == "tools/call")  # type: ignore[union-attr]
    mine = [event for event in events[begun:] if (event.http or {}).get("exchange") != 3]
    return lines([event for event in mine if (event.http or {}).get("method") != "DELETE"])


@contextmanager
def cut_off() -> Iterator[str]:
    """A server of the stateless era that hangs up in the middle of its answer to a call."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None: ...

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            about = {"resultType": "complete", "supportedVersions": [STATELESS], "capabilities": {"tools": {}}}
            found = {"jsonrpc": "2.0", "id": message["id"], "result": {**about, "ttlMs": 0, "cacheScope": "private"}}
            body, kind = json.dumps(found).encode(), "application/json"
            if message["method"] == "tools/call":
                body, kind = b": on it\n\n", "text/event-stream"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        server.shutdown()


def lost() -> Lines:
    def talk(client: Client) -> None:
        with pytest.raises(AnswerLost):
            client.call_tool("book")

    with cut_off() as url:
        return lines(told(url, talk, STATELESS)[2:])


def session_gone() -> Lines:
    asked: dict[str, Any] = {"jsonrpc": "2.0", "method": "tools/list"}
    with weather().serve_http() as http:
        about = {"MCP_Protocol_Version": SESSION}
        found = posted(http.url, {**asked, "id": 7}, **about, Mcp_Session_Id="of-yesterday")
        opened, lines = opened_by_hand(http.url)
        about["Mcp_Session_Id"] = opened
        found += lines + posted(http.url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **about)
        found += posted(http.url, {**asked, "id": 9}, **about)
    return [line.replace(opened, "of-today") for line in found]


def opened_by_hand(url: str, **headers: str) -> tuple[str, Lines]:
    """A session that is opened by hand: its id, and the lines of `initialize`."""
    lines = posted(url, {"jsonrpc": "2.0", "id": 8, "method": "initialize", "params": _OPENING}, **headers)
    return next(line for line in lines if "mcp-session-id: " in line).partition("mcp-session-id: ")[2].split()[0], lines


def no_such_method() -> Lines:
    with weather().serve_http() as http:
        return posted(
            http.url, asked("tools/rename", {}), MCP_Protocol_Version=STATELESS, Mcp_Method="tools/rename"
        )  # fmt: skip


def over_http(revision: str) -> Lines:
    with weather().serve_http() as http:
        events = told(http.url, lambda client: client.call_tool("forecast", {"city": "Oslo"}), revision)
    return lines([event for event in events if (event.http or {}).get("method") == "POST"])


def wrong_calls(revision: str) -> Lines:
    def talk(client: Client) -> None:
        client.call_tool("forecast", {"city": "nowhere"})
        with pytest.raises(McpError, match="Unknown tool"):
            client.call_tool("teleport")

    return lines(
        [e for e in told(weather(), talk, revision) if "tools/call" in str(e.message) or "id" in (e.message or {})][2:]
    )


def guarded(server: Server, **grants: list[str]) -> Any:
    """A server whose tokens are the names of users, each with scopes."""

    def verify(token: str) -> Principal | None:
        known = token in grants
        return (
            Principal(token, "https://login.example", scopes=frozenset(grants[token]), audience=frozenset(place))
            if known
            else None
        )

    place = [""]
    service = server.serve_http(
        authorization=Protection(verify, authorization_servers=["https://login.example"], scopes=["read"])
    )
    place[0] = service.url
    return service


def made_up_state() -> Lines:
    with weather().serve_http() as http:
        call = {"name": "book", "arguments": {}, "inputResponses": {}, "requestState": "of-somebody-else"}
        sent = {"MCP_Protocol_Version": STATELESS, "Mcp_Method": "tools/call", "Mcp_Name": "book"}
        return posted(http.url, asked("tools/call", call), **sent)


def other_session() -> Lines:
    with guarded(weather(), ada=["read"], eve=["read"]) as http:
        ada, _ = opened_by_hand(http.url, Authorization="Bearer ada")
        sent = {"MCP_Protocol_Version": SESSION, "Mcp_Session_Id": ada, "Authorization": "Bearer eve"}
        found = posted(http.url, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}, **sent)
    return [line.replace(ada, "ADA'S") for line in found]


def rewritten() -> Lines:
    with weather().serve_http() as http:
        sent = {"MCP_Protocol_Version": STATELESS, "Mcp_Method": "tools/call", "Mcp_Name": "forecast"}
        return posted(http.url, asked("tools/call", {"name": "book", "arguments": {}}), **sent)


def streamed() -> Lines:
    with weather().serve_http() as http:
        call = lambda client: client.call_tool("forecast", {"city": "Oslo"}, on_progress=lambda *seen: None)  # noqa: E731
        events = told(http.url, call, SESSION)
    return lines([e for e in events if (e.http or {}).get("exchange") == 4])


def answered(revision: str) -> Lines:
    if revision == SESSION:
        opened = {"id": 1, "method": "initialize", "params": _OPENING}
        return spoken(
            opened, {"method": "notifications/initialized"}, {"id": "2", "method": "ping"}, {"method": "ping"}
        )
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": 9}}
    first, second = asked("tools/list", {}, "2"), asked("no/such", {}, 3)
    return spoken(first, cancelled, second)


def changes(revision: str) -> Lines:
    server, changed = weather(), threading.Event()

    def talk(client: Client) -> None:
        if revision == SESSION:
            client.subscribe_resource("weather://alerts")
            server.resource_updated("weather://alerts")
            assert changed.wait(10)
        else:
            with client.listen(resources=["weather://alerts"]) as listening:
                server.resource_updated("weather://alerts")
                listening.get(timeout=10)

    opened = 3 if revision == SESSION else 2
    return lines(told(server, talk, revision, on_change=lambda *change: changed.set())[opened:])


def refused(revision: str) -> Lines:
    server = weather()

    @server.tool(scopes=["write"])
    def note() -> str:
        return "written"

    with guarded(server, ada=["read"]) as http:
        call = {"name": "note", "arguments": {}}
        if revision == SESSION:
            session, _ = opened_by_hand(http.url, Authorization="Bearer ada")
            message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
            about = {"MCP_Protocol_Version": SESSION, "Mcp_Session_Id": session}
        else:
            message = asked("tools/call", call, 2)
            about = {"MCP_Protocol_Version": STATELESS, "Mcp_Method": "tools/call", "Mcp_Name": "note"}
        found = posted(http.url, message, **about) + posted(http.url, message, **about, Authorization="Bearer ada")
    return [re.sub(r"(?i)(mcp-session-id: )\S+", r"\1…", line) for line in found]


TRAFFIC: dict[str, Callable[[], Lines]] = {
    "opening_session": opening_session,
    "opening_stateless": opening_stateless,
    "cancelling_session": crossed,
    "cancelling_stateless": hung_up,
    "broken_session": resumed,
    "broken_stateless": lost,
    "not_found_session": session_gone,
    "not_found_stateless": no_such_method,
    "asking_session": lambda: lines(question_in_a_call()[3:]),
    "asking_stateless": lambda: lines(question_in_rounds()[2:]),
    "headers_session": lambda: over_http(SESSION),
    "headers_stateless": lambda: over_http(STATELESS),
    "failing_session": lambda: wrong_calls(SESSION),
    "failing_stateless": lambda: wrong_calls(STATELESS),
    "whose_session": other_session,
    "whose_stateless": made_up_state,
    "proxies_session": streamed,
    "proxies_stateless": rewritten,
    "answered_session": lambda: answered(SESSION),
    "answered_stateless": lambda: answered(STATELESS),
    "changes_session": lambda: changes(SESSION),
    "changes_stateless": lambda: changes(STATELESS),
    "allowed_session": lambda: refused(SESSION),
    "allowed_stateless": lambda: refused(STATELESS),
}


# -- the pages ----------------------------------------------------------------------------------------------------

PLACE = re.compile(r"<!-- (traffic|sentences): (.*?) -->\n\n.*?\n\n<!-- end -->", re.S)
"""What is made, between its mark and the end of it."""


def sentences(names: str) -> str:
    """The rows of sentences, by their ids, as a list."""
    rows = {each: (note, row) for note in notes() for row in note.rows for each in row.ids}
    found = []
    for name in names.split():
        note, row = rows[name]
        place = note.path.removeprefix("spec_notes/")
        found.append(f"- {said(row.level, row.asked)} ([{place.removesuffix('.md')}](../{place}), {having(row)})")
    return "\n".join(found)


def made(text: str) -> str:
    """A page, with what is made in it made again."""

    def again(place: re.Match[str]) -> str:
        kind, name = place.groups()
        inside = sentences(name) if kind == "sentences" else "```text\n" + "\n".join(TRAFFIC[name]()) + "\n```"
        return f"<!-- {kind}: {name} -->\n\n{inside}\n\n<!-- end -->"

    return PLACE.sub(again, text)


@pytest.mark.parametrize("page", QUESTIONS, ids=lambda page: page.stem)
def test_a_page_shows_what_passes_and_the_sentences_as_their_notes_have_them(page: Path) -> None:
    assert page.read_text("utf-8") == made(page.read_text("utf-8")), "python -m tests.test_questions --write"


@pytest.mark.parametrize("page", QUESTIONS, ids=lambda page: page.stem)
def test_a_page_has_all_its_parts(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text.splitlines()[0].startswith("# ") and text.splitlines()[0].endswith("?")
    kinds = [place[1] for place in PLACE.finditer(text)]
    assert kinds == ["traffic", "traffic", "sentences"]
    assert "\n| " in text, "no table to decide by"
    assert "\n## Ask yourself\n" in text and "<details><summary>The answer</summary>" in text
    assert f"({page.name})" in (ROOT / "spec_notes" / "questions" / "README.md").read_text("utf-8")


def test_every_conversation_has_its_page() -> None:
    shown = {
        place[2] for page in QUESTIONS for place in PLACE.finditer(page.read_text("utf-8")) if place[1] == "traffic"
    }
    assert shown == set(TRAFFIC)


def main(arguments: list[str]) -> None:
    """Write the pages again, or print a conversation."""
    if "--write" in arguments:
        for page in QUESTIONS:
            page.write_text(made(page.read_text("utf-8")), "utf-8")
    else:
        for name in arguments:
            print("\n".join(TRAFFIC[name]()))


if __name__ == "__main__":
    main(sys.argv[1:])
