"""The conversation between a host and an app in a trace: recorded, told, drawn, judged, and never taken for another."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_ref import ErrorResponse, Host, Recorder
from mcp_ref.client.entries import Entry
from mcp_ref.host import apps as host_apps
from mcp_ref.lab.cli import main
from mcp_ref.lab.judge.check import check
from mcp_ref.lab.judge.draw import mermaid, steps, svg
from mcp_ref.lab.judge.narrate import Narrator
from mcp_ref.lab.judge.show import page
from mcp_ref.lab.testing.headless_view import HeadlessView
from mcp_ref.lab.testing.replay import turns_of
from mcp_ref.pages.extensions.apps import APPS
from mcp_ref.recording.record import TraceEvent, read_trace, to_row
from tests.host.common import PATIENCE, free
from tests.host.test_apps import NOW, weather
from tests.lab.judge.seeds import TOOL, tools, view_seeds
from tests.lab.judge.talks import C, E, H, Line, S, V, events, over_stdio, raw


def shown(*lines: Line) -> list[TraceEvent]:
    return events([{"sender": line.sender, "message": line.message, "http": None} for line in lines], "postMessage")


@pytest.fixture
def trace(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a host records that shows an app, which calls a tool and is refused another."""
    path = tmp_path / "trace.jsonl"
    with Recorder(path) as recorder:
        entry = Entry("weather", weather(), revision=getattr(request, "param", "2026-07-28"))
        with Host([entry], consent=free(), extensions=[APPS], trace=lambda name: recorder) as host:
            assert host.call("weather/now", {"city": "Porto"})["content"]
            view = HeadlessView(host.open_app(NOW), ["inline"], PATIENCE)
            view.open()
            assert view.ask("tools/call", name="refresh", arguments={})["content"]
            with pytest.raises(ErrorResponse):
                view.ask("tools/call", name="secret", arguments={})
            view.view.receive("no message")
            monkeypatch.setattr(host_apps, "LEAVE", 0.02)
            view.view.close()
    return path


@pytest.mark.parametrize("trace", ["2025-11-25", "2026-07-28"], indirect=True)
def test_a_host_records_what_an_app_says_and_nothing_is_wrong_with_it(trace: Path) -> None:
    found = list(read_trace(trace))
    lane = [each for each in found if each.transport == "postMessage"]
    assert {each.peer for each in lane} == {"view"} and len({each.conn for each in lane}) == 1
    assert lane[0].conn not in {each.conn for each in found if each.transport != "postMessage"}
    assert [each.seq for each in found] == list(range(1, len(found) + 1))
    said = [(each.direction, each.message.get("method")) for each in lane if isinstance(each.message, dict)]
    assert said[:4] == [
        ("receive", "ui/initialize"), ("send", None), ("receive", "ui/notifications/initialized"),
        ("send", "ui/notifications/tool-input"),
    ]  # fmt: skip
    assert [each.message for each in lane if isinstance(each.message, str)] == ['"no message"']
    assert not list(check(found))


def test_it_is_told_in_words_of_its_own(trace: Path) -> None:
    narrator = Narrator()
    told = "\n".join(narrator.tell(each) for each in read_trace(trace) if each.transport == "postMessage")
    for sentence in (
        "V → H  request 1: ui/initialize", "the app says who it is", "V ← H  response to 1: ui/initialize",
        "only now it is told anything", "V ← H  notification: ui/notifications/tool-input", 'arguments: city',
        "the app calls a tool of its own server", "V ← H  error for", "may save what it has",
        "2026-01-26/extensions/apps",
    ):  # fmt: skip
        assert sentence in told, (sentence, told)
    assert "only the" not in told and "not a method" not in told
    strange = shown(H("ui/open-link", 1), V("ui/resource-teardown"), V("sampling/createMessage", 2))
    told = "\n".join(map(Narrator(ascii=True).tell, strange))
    assert "only the view sends it" in told and "only the host sends it" in told and "sent as a notification" in told
    assert "not a method between a host and an app" in told and "H<" in told and "V>" in told


def test_it_is_drawn_beside_the_client(trace: Path) -> None:
    drawn = steps(read_trace(trace), http=True)
    lines = list(mermaid(drawn))
    assert lines[1:4] == ["    participant V as App", "    participant C as Client", "    participant S as Server"]
    assert any("V->>C: request 1: ui/initialize" in each for each in lines)
    assert any("C-)V: ui/notifications/tool-input" in each for each in lines)
    picture = "".join(svg(drawn))
    assert picture.index(">App</text>") < picture.index(">Client</text>") < picture.index(">Server</text>")
    without = steps([each for each in read_trace(trace) if each.transport != "postMessage"], http=True)
    assert ">App</text>" not in "".join(svg(without)) and "participant V" not in "".join(mermaid(without))
    assert '"who":"view"' in page(list(read_trace(trace)), [], "x")


def test_it_is_not_replayed(trace: Path) -> None:
    played, _ = turns_of(trace)
    methods = [turn.sent["method"] for turn in played]
    assert methods.count("tools/call") == 2 and not [each for each in methods if each.startswith("ui/")]


def test_the_command_says_what_was_asked_of_the_app_and_of_its_host(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "--coverage", str(trace)]) == 0
    told = capsys.readouterr().out
    assert "0 findings" in told
    assert " client  server    view    host\n" in told
    assert any(
        line.split()[:6] == ["0", "0", "1", "0", "2026-01-26/extensions/apps#app-capabilities-in-uiinitialize.1",
                             "app_says_what_it_can"]
        for line in told.splitlines()
    )  # fmt: skip


def test_a_side_of_the_conversation_can_be_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace.jsonl"
    seed = next(each for each in view_seeds() if each.rule == "app_says_what_it_can")
    path.write_text("".join(to_row(each) + "\n" for each in shown(*seed.broken)), "utf-8")
    assert main(["check", "--strict", "--role", "host", str(path)]) == 0
    capsys.readouterr()
    assert main(["check", "--strict", "--role", "view", "--format", "json", str(path)]) == 3
    found = json.loads(capsys.readouterr().out.splitlines()[0])
    assert found["blame"] == "view" and found["says"] == "`ui/initialize` carries `appCapabilities`."


def test_who_shows_no_apps_may_be_told_anything() -> None:
    elsewhere = {**TOOL, "_meta": {"ui": {"resourceUri": "https://a.example/b"}}}
    read = [C(2, "resources/read", uri="ui://a/b"), S(2, contents=[{"uri": "ui://a/b", "text": "x"}])]
    lost = [C(3, "resources/read", uri="ui://a/b"), E(3, -32602)]
    for revision in ("2025-11-25", "2026-07-28"):
        assert not list(check(over_stdio(revision, *tools(elsewhere), *read, *lost)))


@pytest.mark.parametrize("message", [None, [], [{}], "x", {"id": 1}, {"method": 5}, {"result": {}, "id": []}])
def test_whatever_an_app_says_is_told_and_judged(message: object) -> None:
    made = shown(raw("view", message), raw("host", message))
    assert all(Narrator().tell(each) for each in made) and not [each for each in check(made) if each.blame is None]
    assert "".join(svg(steps(made)))


def test_what_is_too_large_or_too_often_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[TraceEvent] = []
    monkeypatch.setattr(host_apps, "MAX_MESSAGE", 1_000)
    with Recorder(heard.append) as recorder:
        entry = Entry("weather", weather())
        with Host([entry], consent=free(), extensions=[APPS], trace=lambda name: recorder) as host:
            view = host.open_app(NOW)
            view.receive({"jsonrpc": "2.0", "method": "x" * 2_000})
            for _ in range(300):
                view.receive({"jsonrpc": "2.0", "method": "y"})
    assert "x" * 2_000 not in str(heard) and "y" in str(heard)
    assert 0 < len([each for each in heard if each.transport == "postMessage"]) < 300
