"""The window without a browser: who may ask it, what it tells, what a user does, and how it ends."""

from __future__ import annotations

import json
import queue
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import requests

import mcp_ref
from mcp_ref import Context, Entry, Server
from mcp_ref.lab.cli import main
from mcp_ref.lab.judge.narrate import METHODS, code_of, page_in
from mcp_ref.lab.window import window as page
from mcp_ref.lab.window.window import SANDBOX, Window
from tests.host.common import PATIENCE
from tests.host.test_apps import Held, weather
from tests.support.clock import until


def talkative(held: Held | None = None) -> Server:
    server = weather(held)

    @server.tool()
    def ask(ctx: Context) -> str:
        form = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
        return str(ctx.elicit("How old are you?", form))

    @server.tool()
    def count(ctx: Context) -> str:
        for number in range(3):
            ctx.progress(number + 1, 3, f"step {number + 1}")
        return "done"

    @server.tool()
    def poem(ctx: Context) -> str:
        said: Any = ctx.sample("Write a line.", max_tokens=30)
        return str(said["content"]["text"])

    @server.tool(task="optional")
    def slowly(ctx: Context) -> str:
        return "done at last"

    server.prompt("greet")(lambda name: f"Hello {name}")
    server.completion(prompt="greet", argument="name")(
        lambda value: [name for name in ("Ada", "Alan", "Grace") if name.startswith(value)]
    )
    return server


class Page:
    """A page without a browser: it hears the events, and acts."""

    def __init__(self, window: Window) -> None:
        self.origin, _, self.token = window.address.partition("/#")
        self.window, self.session = window, requests.Session()
        self.session.trust_env = False
        self.headers = {"Authorization": f"Bearer {self.token}"}
        self.heard: queue.Queue[tuple[str, Any]] = queue.Queue()
        self._events = self.session.get(f"{self.origin}/events", headers=self.headers, stream=True, timeout=PATIENCE)
        assert self._events.status_code == 200
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self) -> None:
        fields: dict[str, str] = {}
        # The end of the window may cut the stream.
        with suppress(requests.exceptions.ChunkedEncodingError):
            for line in self._events.iter_lines(chunk_size=None, decode_unicode=True):
                name, _, value = line.partition(": ")
                if name:
                    fields[name] = value
                elif fields:
                    self.heard.put((fields.get("event", ""), json.loads(fields.get("data", "null"))))
                    fields = {}

    def act(self, **asked: Any) -> Any:
        reply = self.session.post(f"{self.origin}/act", json=asked, headers=self.headers, timeout=PATIENCE)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def wait(self, what: str, **about: Any) -> Any:
        """Return the next event of a kind that has these members."""
        while True:
            event, data = self.heard.get(timeout=PATIENCE)
            if event == what and about.items() <= data.items():
                return data

    def open_question(self) -> Any:
        """Return the question that is open, as a page finds it that comes later."""
        found: list[Any] = []

        def is_there() -> bool:
            found[:] = self.act(do="state")["questions"]
            return bool(found)

        assert until(is_there)
        return found[0]

    def call(self, name: str, what: str = "call", **asked: Any) -> str:
        key = str(uuid.uuid4())
        assert self.act(do=what, call=key, name=name, **{"arguments": {}, "server": "weather", **asked}) == {}
        return key

    def close(self) -> None:
        self._thread.join(PATIENCE)
        self._events.close()
        self.session.close()


@contextmanager
def shown(
    server: Server | None = None, allowed: bool = True, revision: str | None = None
) -> Iterator[tuple[Window, Page]]:
    window = Window([Entry("weather", server or talkative(), revision=revision)], ["weather"] if allowed else [])
    try:
        window.start()
        opened = Page(window)
        if allowed:
            assert until(lambda: len(opened.act(do="state")["prompts"]) == 1)
        yield window, opened
    finally:
        window.close()
    opened.close()
    assert not [each for each in threading.enumerate() if each.name.startswith("mcp-window") and not left(each)]


def left(thread: threading.Thread) -> bool:
    thread.join(PATIENCE)
    return not thread.is_alive()


@pytest.fixture(autouse=True)
def an_app_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.host.apps.LEAVE", 0.02)


# -- who may ask


FOREIGN: list[tuple[dict[str, str | None], int]] = [
    ({"Authorization": None}, 401), ({"Authorization": "Bearer "}, 401), ({"Authorization": "Bearer x"}, 401),
    ({"Origin": "https://evil.example"}, 403), ({"Origin": "null"}, 403), ({"Host": "evil.example"}, 403),
    ({"Host": "localhost"}, 403),
]  # fmt: skip


def test_nobody_but_the_page_of_this_start_is_answered() -> None:
    with shown() as (_, opened):
        for headers, status in FOREIGN:
            given = {name: value for name, value in {**opened.headers, **headers}.items() if value is not None}
            act = opened.session.post(f"{opened.origin}/act", json={"do": "state"}, headers=given, timeout=PATIENCE)
            events = opened.session.get(f"{opened.origin}/events", headers=given, timeout=PATIENCE)
            assert (act.status_code, events.status_code) == (status, status), headers


def test_the_page_has_a_policy_and_neither_the_token_nor_a_name_of_another() -> None:
    with shown() as (_, opened):
        found = opened.session.get(opened.origin, timeout=PATIENCE)
        assert found.status_code == 200 and opened.token not in found.text
        policy = found.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
        assert found.headers["Cache-Control"] == "no-store"
        other = opened.session.get(opened.origin, headers={"Host": "evil.example"}, timeout=PATIENCE)
        assert other.status_code == 403
        assert opened.session.get(f"{opened.origin}/other", timeout=PATIENCE).status_code == 404


NOT_SAID = [
    b"", b"{", b"[]", b"1", b"{}", b"[" * 9999, b'{"do": "x"}', b'{"do": "call"}', b'{"do": "view", "view": "x"}',
    b'{"do": "start", "server": "x"}', b'{"do": "call", "call": "1", "server": "weather"}',
    b'{"do": "revision", "server": "weather", "revision": "x"}',
    b'{"do": "revision", "server": "x", "revision": null}',
    b'{"do": "revision", "server": "weather", "revision": 5}',
    b'{"do": "compare", "was": "x", "now": "2025-11-25"}', b'{"do": "compare", "was": [], "now": 5}',
    b'{"do": "complete", "server": "weather"}',
]  # fmt: skip


def test_what_no_page_says_is_not_understood_and_begins_nothing() -> None:
    with shown() as (window, opened):
        for body in NOT_SAID:
            reply = opened.session.post(f"{opened.origin}/act", data=body, headers=opened.headers, timeout=PATIENCE)
            assert reply.status_code == 400, body[:99]
        assert window._calls == {}
        assert opened.session.get(f"{opened.origin}/act", headers=opened.headers, timeout=PATIENCE).status_code == 405


# -- what the page sees


def test_a_page_sees_the_servers_and_what_they_offer() -> None:
    with shown() as (_, opened):
        state = opened.act(do="state")
        [server] = state["servers"]
        assert (server["name"], server["state"], server["revision"]) == ("weather", "ready", "2026-07-28")
        assert [row["name"] for row in state["tools"]][:2] == ["weather/now", "weather/refresh"]
        assert [row["name"] for row in state["prompts"]] == ["weather/greet"]
        assert {row["name"] for row in state["resources"]} >= {"note://here", "ui://weather/now"}


def test_each_message_comes_in_words_and_a_page_that_is_opened_later_hears_it_too() -> None:
    with shown() as (window, opened):
        opened.call("weather/now", arguments={"city": "Porto"})
        asked = opened.wait("traffic", method="tools/call")
        answer = opened.wait("traffic", partner=asked["seq"])
        assert asked["message"]["params"]["name"] == "now" and asked["page"] == "2026-07-28/server/tools"
        assert answer["head"].startswith("response")
        later = Page(window)
        assert later.wait("traffic", method="tools/call")["seq"] == asked["seq"]
    later.close()


def test_what_is_wrong_stands_beside_its_message() -> None:
    server = talkative()
    server.tool("t", meta={"x": 1}, output_schema={"type": "object"}, replace=True)(lambda: {"content": []})
    server.tool("wrong name !")(lambda: "x")
    with shown(server) as (_, opened):
        finding = opened.wait("finding")
        assert finding["level"] in ("SHOULD", "MUST", "HINT") and finding["says"] and finding["ids"]


# -- what a user does


def test_a_call_is_the_users_own_and_is_not_asked_about() -> None:
    with shown() as (_, opened):
        key = opened.call("weather/now", arguments={"city": "Porto"})
        told = opened.wait("result", call=key)
        assert told["result"]["content"][0]["text"] == "rain in Porto" and told["seconds"] > 0
        key = opened.call("weather/count")
        steps = [opened.wait("progress", call=key) for _ in range(3)]
        assert [(step["done"], step["total"], step["text"]) for step in steps] == [
            (number, 3, f"step {number}") for number in (1, 2, 3)
        ]
        key = opened.call("weather/greet", "prompt", arguments={"name": "Ada"})
        assert "Hello Ada" in str(opened.wait("result", call=key)["result"])
        key = opened.call("note://here", "read")
        assert opened.wait("result", call=key)["result"]["contents"][0]["text"] == "a note"


def test_what_cannot_be_done_is_one_sentence() -> None:
    with shown() as (_, opened):
        for name, what in (("weather/nothing", "call"), ("note://x", "read"), ("weather/x", "prompt")):
            told = opened.wait("result", call=opened.call(name, what))
            assert told["problem"] and "\n" not in told["problem"]


def test_a_call_is_cancelled_and_there_are_only_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_CALLS", 2)
    held = Held()
    with shown(talkative(held)) as (_, opened):
        keys = [opened.call("weather/refresh") for _ in range(2)]
        for _ in keys:
            assert held.entered.acquire(timeout=PATIENCE)
        refused = opened.act(do="call", call="x", name="weather/refresh", server="weather", arguments={})
        assert refused == {"problem": "2 calls are under way."}
        for key in keys:
            opened.act(do="cancel", call=key)
        assert {opened.wait("result")["kind"] for _ in keys} == {"RequestCancelled"}


def test_a_form_is_answered_and_a_wrong_value_is_told() -> None:
    with shown() as (_, opened):
        key = opened.call("weather/ask")
        question = opened.wait("question", kind="form")
        assert question["shown"]["message"] == "How old are you?"
        answer = {"do": "answer", "question": question["question"], "allow": True}
        assert "age" in opened.act(**answer, value={"age": "old"})["problem"]
        # A page that is loaded again asks what is open.
        assert [each["question"] for each in opened.act(do="state")["questions"]] == [question["question"]]
        assert opened.act(**answer, value={"age": 36}) == {}
        assert "'age': 36" in str(opened.wait("result", call=key)["result"])
        assert "no longer open" in opened.act(**answer, value={"age": 36})["problem"]
        key = opened.call("weather/ask")
        question = opened.wait("question", kind="form")
        opened.act(do="answer", question=question["question"], allow=False)
        assert "decline" in str(opened.wait("result", call=key)["result"])


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_the_user_answers_a_prompt_as_the_model(revision: str) -> None:
    with shown(revision=revision) as (_, opened):
        key = opened.call("weather/poem")
        question = opened.wait("question", kind="sampling")
        assert "Write a line." in str(question["shown"]["request"])
        answer = {"do": "answer", "question": question["question"]}
        assert opened.act(**answer, allow=True, value={"reply": 5}) == {"problem": "A reply is a text."}
        opened.act(**answer, allow=True, value="Rain on the river.")
        assert "Rain on the river." in str(opened.wait("result", call=key)["result"])
        key = opened.call("weather/poem")
        opened.act(do="answer", question=opened.wait("question", kind="sampling")["question"], allow=False)
        told = opened.wait("result", call=key)
        assert "Rain" not in str(told) and ("reject" in str(told) or told["result"]["isError"])


def test_a_call_that_becomes_a_task_is_followed() -> None:
    with shown() as (_, opened):
        key = opened.call("weather/slowly")
        assert "done at last" in str(opened.wait("result", call=key)["result"])


def test_a_server_is_spoken_to_in_another_revision() -> None:
    with shown() as (window, opened):
        for revision in ("2024-11-05", "2025-06-18", "2026-07-28"):
            opened.act(do="revision", server="weather", revision=revision)

            def speaks(revision: str = revision) -> bool:
                return opened.act(do="state")["servers"][0].get("revision") == revision

            assert until(speaks)
            key = opened.call("weather/now", arguments={"city": "Porto"})
            assert "rain in Porto" in str(opened.wait("result", call=key)["result"])
    old = Server("old", revisions=["2025-11-25"])
    old.prompt("greet")(lambda name: f"Hello {name}")
    with shown(old) as (window, opened):
        opened.act(do="revision", server="weather", revision="2024-11-05")
        assert until(lambda: window.host.servers["weather"].state == "failed")
        assert "2024-11-05" in opened.act(do="state")["servers"][0]["problem"]
        opened.act(do="revision", server="weather", revision=None)
        assert until(lambda: window.host.servers["weather"].state == "ready")


def test_what_two_revisions_say_otherwise_is_told_in_parts() -> None:
    with shown() as (_, opened):
        changes = opened.act(do="compare", was="2025-11-25", now="2026-07-28")["changes"]
        assert {
            "part": "methods",
            "says": next(each["says"] for each in changes if "initialize" in each["says"]),
        } in changes
        assert opened.act(do="compare", was="2025-11-25", now="2025-11-25") == {"changes": []}


def test_an_argument_is_completed_while_it_is_typed() -> None:
    asked = {"do": "complete", "server": "weather", "prompt": "greet", "name": "name", "arguments": {}}
    with shown() as (_, opened):
        assert opened.act(**asked, value="A") == {"values": ["Ada", "Alan"]}
        assert opened.act(**asked, value="x") == {"values": []}
        told = opened.act(**{**asked, "prompt": "no such"}, value="A")
        assert told["values"] == [] and "no such" in told.get("problem", "no such")
        opened.act(do="stop", server="weather")
        assert opened.act(**asked, value="A") == {"values": []}
    bare = Server("bare")
    bare.prompt("greet")(lambda name: f"Hello {name}")
    with shown(bare) as (_, opened):
        assert opened.act(**asked, value="A") == {"values": []}


def test_each_page_of_a_method_has_its_module() -> None:
    pages = {page_in(row.page, revision) for row in METHODS.values() for revision in ("2025-11-25", "2026-07-28")}
    root = Path(mcp_ref.__file__).parent.parent
    for name in (*pages, "basic/transports", "basic/authorization", "extensions/apps"):
        code = code_of(f"2026-07-28/{name}")
        assert code is not None and root.joinpath(code).is_file(), (name, code)
    assert code_of(None) is None


def test_a_server_of_a_file_is_started_by_consent_and_can_be_stopped() -> None:
    with shown(allowed=False) as (window, opened):
        question = opened.open_question()
        assert question["kind"] == "start"
        assert window.host.servers["weather"].state == "waiting"
        opened.act(do="answer", question=question["question"], allow=True)
        assert until(lambda: window.host.servers["weather"].state == "ready")
        opened.act(do="stop", server="weather")
        assert until(lambda: window.host.servers["weather"].state == "stopped")


def test_the_end_of_the_window_answers_every_question_with_no() -> None:
    with shown(allowed=False) as (window, opened):
        assert opened.open_question()["kind"] == "start"
    assert window.host.servers["weather"].state == "stopped"


# -- apps


def test_an_app_is_opened_in_its_sandbox_and_talks_with_the_host() -> None:
    with shown() as (_, opened):
        key = opened.call("weather/now", arguments={"city": "Porto"})
        opened.wait("result", call=key)
        about = opened.act(do="open", call=key, theme="dark")
        assert about["html"].startswith("<!doctype html>") and about["uri"] == "ui://weather/now"
        assert about["url"].startswith("http://localhost:") and opened.origin not in about["url"]
        sandbox = opened.session.get(about["url"], timeout=PATIENCE)
        assert sandbox.text == SANDBOX.replace("{{page}}", opened.origin)
        policy = sandbox.headers["Content-Security-Policy"]
        assert policy == f"{about['policy']}; frame-ancestors {opened.origin}" and "frame-src 'none'" in policy

        def say(**message: Any) -> None:
            opened.act(do="view", view=about["view"], message={"jsonrpc": "2.0", **message})

        me = {"name": "x", "version": "1"}
        say(
            id=1, method="ui/initialize", params={"appInfo": me, "appCapabilities": {}, "protocolVersion": "2026-01-26"}
        )
        answer = opened.wait("view")["message"]
        assert answer["result"]["hostContext"]["theme"] == "dark"
        say(method="ui/notifications/initialized")
        assert [opened.wait("view")["message"]["method"] for _ in range(2)] == [
            "ui/notifications/tool-input", "ui/notifications/tool-result"
        ]  # fmt: skip
        say(id=2, method="tools/call", params={"name": "refresh"})
        question = opened.wait("question", kind="tool")
        assert "the app ui://weather/now asks for it" in question["head"]
        opened.act(do="answer", question=question["question"], allow=True)
        assert opened.wait("view")["message"]["result"]["content"][0]["text"] == "sun"
        say(id=3, method="tools/call", params={"name": "secret"})
        assert opened.wait("view")["message"]["error"]["code"] == -32602
        opened.act(do="view", view=about["view"], message="garbage")
        opened.act(do="close", view=about["view"])
        assert opened.wait("gone")["view"] == about["view"]
        assert opened.session.get(about["url"], timeout=PATIENCE).status_code == 404


def test_an_app_that_cannot_be_opened_is_one_sentence() -> None:
    with shown() as (_, opened):
        key = opened.call("weather/refresh")
        opened.wait("result", call=key)
        assert "names a document" in opened.act(do="open", call=key)["problem"]
        assert "no longer kept" in opened.act(do="open", call="x")["problem"]


def test_a_sandbox_is_for_its_own_name_alone() -> None:
    with shown() as (_, opened):
        key = opened.call("weather/now", arguments={"city": "Porto"})
        opened.wait("result", call=key)
        url = opened.act(do="open", call=key)["url"]
        for wrong in (url + "x", url.rsplit("/", 1)[0] + "/"):
            assert opened.session.get(wrong, timeout=PATIENCE).status_code == 404
        assert opened.session.get(url, headers={"Host": opened.origin[7:]}, timeout=PATIENCE).status_code == 404
        assert opened.session.post(url, timeout=PATIENCE).status_code == 404


# -- bounds


def test_a_page_that_does_not_read_is_let_go_and_the_window_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_WAITING", 10)
    with shown() as (window, _):
        waiting = page._Lines()
        window._pages.append(waiting)
        for number in range(20):
            window.tell("heard", {"said": str(number)})
        assert waiting not in window._pages
        lines = [waiting.get() for _ in range(11)]
        assert lines[-1] is None


def test_so_much_is_told_to_a_page_that_is_opened_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_KEPT", 3)
    window = Window([], [])
    try:
        window.start()
        for number in range(5):
            window.tell("heard", {"said": str(number)})
        later = Page(window)
        assert [later.wait("heard")["said"] for _ in range(3)] == ["2", "3", "4"]
    finally:
        window.close()
    later.close()


def test_what_is_kept_and_what_waits_is_bounded_in_bytes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_BYTES", 5_000)
    window = Window([], [])
    try:
        waiting = page._Lines()
        window._pages.append(waiting)
        for number in range(20):
            window.tell("heard", {"said": "x" * 1_000, "number": number})
        assert len(window._told) == 4 and window._size == sum(len(line) for _, line in window._told) <= 5_000
        assert waiting not in window._pages and 5 <= waiting.qsize() <= 7
    finally:
        window.close()


def test_of_many_apps_the_oldest_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_APPS", 2)
    with shown() as (window, opened):
        keys = [opened.call("weather/now", arguments={"city": str(number)}) for number in range(3)]
        # The three run side by side, and end in any order.
        assert {opened.wait("result")["call"] for _ in keys} == set(keys)
        assert sum("problem" in opened.act(do="open", call=key) for key in keys) == 1
        views = [opened.act(do="open", call=keys[-1])["view"] for _ in range(3)]
        assert opened.wait("gone")["view"] not in views[1:]
        assert [*window._views] == views[1:]


def test_a_message_that_is_too_long_is_cut() -> None:
    assert page.shown("x" * (page.MAX_SHOWN + 1)).endswith(f"({page.MAX_SHOWN + 3} characters)")
    assert page.shown({"a": 1}) == {"a": 1}


# -- the command


def test_the_command_prints_its_address_and_ends_by_a_signal_with_its_server(tmp_path: Path) -> None:
    program, gone = tmp_path / "server.py", tmp_path / "gone"
    program.write_text(
        f"from mcp_ref import Server\ntry:\n    Server('s').run()\nfinally:\n    open({str(gone)!r}, 'w').close()\n"
    )
    command = [sys.executable, "-m", "mcp_ref", "window", "--no-browser", "--", sys.executable, str(program)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        address = (process.stdout.readline() if process.stdout else "").strip()
        origin, _, token = address.partition("/#")
        headers = {"Authorization": f"Bearer {token}"}

        def ready() -> bool:
            reply = requests.post(f"{origin}/act", json={"do": "state"}, headers=headers, timeout=PATIENCE)
            return bool(reply.json()["servers"][0]["state"] == "ready")

        assert until(ready)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
        assert (process.returncode, err) == (0, "")
    assert until(gone.exists)


@pytest.mark.parametrize(("words", "said"), [([], "Write it after --"), (["--config", "nowhere.json"], "nowhere.json")])
def test_a_wrong_command_line_is_one_sentence(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["window", "--no-browser", *words]) == 2
    told = capsys.readouterr()
    assert said in told.err and told.err.count("\n") == 1 and told.out == ""
