"""Consent: rules, what is remembered, what is asked, what is written down."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Answer, Cancel, Consent, ConsentRefused, Host, Question, Rule, Server
from mcp_ref.client.entries import Entry, dangers
from mcp_ref.host.consent import KINDS, matches
from mcp_ref.host.json_file import difference
from mcp_ref.host.pins import print_of
from mcp_ref.kit.threads.deadline import Deadline
from tests.host.common import PATIENCE, Heard, User, free
from tests.support.clock import until
from tests.support.wire import Background


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Ends the thread of every consent that the test has made."""
    made: list[Consent] = []
    init = Consent.__init__

    def noted(self: Consent, *given: Any, **options: Any) -> None:
        init(self, *given, **options)
        made.append(self)

    monkeypatch.setattr(Consent, "__init__", noted)
    yield
    for consent in made:
        consent.close(Deadline(1))


def question(kind: str = "tool", subject: str = "a/x", now: str = "1", bound: str = "b") -> Question:
    return Question(kind, "a", subject, bound, now, {"shown": now})


def offline(*rules: Rule, **options: Any) -> Consent:
    return Consent(rules, **{"keep": False, **options})


def test_a_pattern_fits_a_whole_text() -> None:
    for pattern, text, fits in (
        ("*", "a/b", True), ("a/*", "a/b", True), ("a/*", "b/a/x", False), ("a", "a/b", False), ("a/b", "a/b", True),
        ("a/r*d", "a/read", True), ("a/r*d", "a/reads", False), ("*x*x*", "xx", True), ("ab*ba", "aba", False),
        ("a.c", "abc", False), ("[a]", "a", False), ("*" * 50, "x" * 5000, True), ("*a" * 20 + "b", "a" * 9000, False),
    ):  # fmt: skip
        assert matches(pattern, text) is fits, pattern


def test_deny_counts_before_ask_before_allow_whatever_their_order() -> None:
    allow, ask, deny = (Rule(word, "tool", "a/*") for word in ("allow", "ask", "deny"))  # type: ignore[arg-type]
    for rules, by in (([allow, ask, deny], "rule"), ([deny, allow, ask], "rule"), ([ask, deny, allow], "rule"),
                      ([allow, ask], "user"), ([ask, allow], "user")):  # fmt: skip
        assert offline(*rules, ask=User(True)).decide(question()) == (by == "user", by, None)
    assert offline(allow, ask=User(False)).decide(question()) == (True, "rule", None)


def test_what_the_rules_say_is_kept_for_so_many_subjects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.host.consent._MAX_RULINGS", 3)
    consent = offline(Rule("allow", "tool", "a/*"))
    assert all(consent.decide(question(subject=f"a/{number}")).allowed for number in range(10))
    assert len(consent._rulings) <= 4


def test_a_question_without_an_answer_is_a_no_at_every_door() -> None:
    def silent(asked: Question) -> bool:
        over = threading.Event()
        asked.withdrawn.attach(lambda reason: over.set())
        return over.wait(PATIENCE)

    def fails(asked: Question) -> bool:
        raise EOFError if asked.kind == "url" else ValueError

    for kind in KINDS:
        for ask, by, more in ((None, "nobody", {}), (silent, "time-out", {"timeout": 0.01}), (fails, "failed", {})):
            assert offline(ask=ask, **more).decide(question(kind)) == (False, by, None), kind


@pytest.mark.skipif(os.name == "nt", reason="a signal cannot be sent to a thread there")
def test_ctrl_c_while_a_question_is_open_lets_nothing_pass() -> None:
    asked, over = question(), threading.Event()

    def ask(shown: Question) -> bool:
        shown.withdrawn.attach(lambda reason: over.set())
        # To the main thread, which waits for the answer: no other thread's signal would end its wait.
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert over.wait(PATIENCE)
        return True

    consent = offline(ask=ask)
    with pytest.raises(KeyboardInterrupt):
        consent.decide(asked)
    assert asked.withdrawn.cancelled and consent.remembered() == []


def test_arguments_come_last_and_whole_whatever_the_server_says() -> None:
    definition = {"name": "x", "description": "line\n" * 5_000, "inputSchema": {"title": "y" * 90_000}}
    arguments = {"path": "/etc/passwd", "text": "z" * 500}
    asked = Question("tool", "a", "a/x", "b", "1", {"definition": definition, "arguments": arguments})
    lines, whole = asked.lines(), asked.lines(whole=True)
    text = "\n".join(lines)
    assert len(lines) < 12 and "z" * 500 in lines[-3] and text.index("definition: line") < text.index("/etc/passwd")
    assert "y" * 90_000 in "\n".join(whole) and "/etc/passwd" in "\n".join(whole[-6:]) and "call the tool" in whole[-1]


def test_no_rule_and_no_earlier_answer_answers_for_the_user() -> None:
    for kind in ("form", "url", "again"):
        consent = offline(Rule("allow", kind), ask=User(Answer(True, "always")))
        assert [consent.decide(question(kind)).by for _ in range(2)] == ["user", "user"]
        assert offline(Rule("allow", kind)).decide(question(kind)).by == "nobody"


def test_a_rule_that_can_match_nothing_is_told() -> None:
    with pytest.raises(ValueError, match="one of start, definition"):
        offline(Rule("allow", "tols", "*"))
    with pytest.raises(ValueError, match="allow, ask or deny"):
        offline(Rule("may", "tool"))  # type: ignore[arg-type]
    heard = Heard()
    with Host([Entry("a", Server("s"))], consent=free(), on_event=heard) as host:
        host.consent.add(Rule("allow", "tool", "b/x"))
        host.start()
        assert "allow tool b/x" in heard.wait("b", "notice", "a rule can match nothing")


def test_what_was_decided_holds_once_for_the_run_or_always(tmp_path: Path) -> None:
    first = Consent(ask=User(True, Answer(True, "run"), Answer(True, "always")), keep=tmp_path)
    assert [first.decide(question()).by for _ in range(3)] == ["user", "user", "remembered"]
    assert [first.decide(question(subject="a/y")).by for _ in range(2)] == ["user", "remembered"]
    second = Consent(ask=User(False), keep=tmp_path)
    assert second.decide(question(subject="a/y")).by == "remembered"
    assert second.decide(question()) == (False, "user", None)
    # It is bound to what was shown, and to the server it was about.
    assert not second.decide(question(subject="a/y", now="2")).allowed
    assert not second.decide(question(subject="a/y", bound="other")).allowed
    assert (tmp_path / "consent.json").stat().st_mode & 0o777 == 0o600
    assert second.forget("a/*") == 1 and not second.decide(question(subject="a/y")).allowed
    asking = Consent([Rule("ask", "tool")], ask=User(True), keep=tmp_path)
    first.decide(question(subject="a/z"))
    assert asking.decide(question(subject="a/z")).by == "user"


@pytest.mark.parametrize("content", ["{", "[]", '{"tool b a/x": 1}', None])
def test_a_broken_file_of_decisions_decides_nothing_and_is_left_alone(content: str | None, tmp_path: Path) -> None:
    path, text = tmp_path / "consent.json", content or '{"tool b a/x": "1"}'
    path.write_text(text, "utf-8")
    path.chmod(0o644 if content is None else 0o600)
    consent = Consent(ask=User(Answer(True, "always")), keep=tmp_path)
    assert [consent.decide(question()).by for _ in range(2)] == ["user", "remembered"]
    assert path.read_text("utf-8") == text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs a pipe with a name")
def test_a_pipe_in_place_of_the_file_of_decisions_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "consent.json", 0o600)
    making = Background(Consent, ask=User(True), keep=tmp_path)
    try:
        assert making.outcome().decide(question()).by == "user"
    finally:
        with suppress(OSError):  # Nobody reads: else whoever waits for a writer is let go.
            os.close(os.open(tmp_path / "consent.json", os.O_WRONLY | os.O_NONBLOCK))


def test_decisions_that_cannot_be_written_leave_no_file_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(os, "replace", refuse)
    consent = Consent(ask=User(Answer(True, "always")), keep=tmp_path)
    assert [consent.decide(question()).by for _ in range(2)] == ["user", "remembered"]
    assert list(tmp_path.iterdir()) == []


def test_a_broken_file_of_pins_makes_every_definition_count_as_changed(tmp_path: Path) -> None:
    (tmp_path / "pins.json").write_text('{"a": "b"}', "utf-8")
    server, user = Server("s"), User(True)
    server.tool("x")(lambda: "x")
    with Host([Entry("a", server)], consent=Consent([Rule("allow", "start")], ask=user, keep=tmp_path)) as host:
        assert [tool.state for tool in host.tools()] == ["changed"]
        host.call("a/x")
        host.call("a/x")
    assert user.kinds == ["definition", "tool", "tool"] and "pins.json is not used" in str(list(user.asked[0].warnings))
    assert (tmp_path / "pins.json").read_text("utf-8") == '{"a": "b"}'


def test_a_no_counts_at_every_door_and_leaves_nothing_behind() -> None:
    no: list[Any] = [False, None, "yes", 1, Answer(False), Answer(False, "always", {"seat": 1}, all=True)]
    no += [Answer("no", "always", {"seat": 1}), Answer(1, "run")]  # type: ignore[arg-type]
    for kind in KINDS:
        user = User(*no, True)
        consent = offline(ask=user)
        assert {consent.decide(question(kind)) for _ in no} == {(False, "user", None)}, kind
        assert not consent.remembered()
        assert consent.decide(question(kind)).allowed and len(user.asked) == len(no) + 1


def test_questions_come_one_at_a_time_and_in_order() -> None:
    showing: list[str] = []
    gate, overlap = threading.Semaphore(0), threading.Lock()

    def ask(given: Question) -> bool:
        assert overlap.acquire(blocking=False)
        showing.append(given.subject)
        assert gate.acquire(timeout=PATIENCE)
        overlap.release()
        return True

    consent, decisions = offline(ask=ask), list[Background]()
    for number in range(4):
        decisions.append(Background(consent.decide, question(subject=f"a/{number}")))
        until(lambda: len(consent._turns._waiting) == len(decisions))
    gate.release(4)
    assert all(decision.outcome().allowed for decision in decisions)
    assert showing == ["a/0", "a/1", "a/2", "a/3"]


def test_what_shows_a_question_may_cause_another() -> None:
    def ask(given: Question) -> bool:
        return given.subject == "inner" or consent.decide(question(subject="inner")).allowed

    consent = offline(ask=ask)
    assert consent.decide(question(subject="outer")).allowed


def test_a_call_that_is_given_up_withdraws_its_question_and_a_late_answer_counts_for_nothing() -> None:
    server, give_up, called = Server("s"), Cancel(), []
    server.tool("x")(lambda: called.append(1) or "x")

    def ask(given: Question) -> Answer:
        withdrawn = threading.Event()
        given.withdrawn.attach(lambda reason: withdrawn.set())
        give_up("changed my mind")
        assert withdrawn.wait(PATIENCE)
        return Answer(True, "always")

    with Host([Entry("a", server)], consent=offline(Rule("allow", "start"), ask=ask)) as host:
        with pytest.raises(ConsentRefused, match="withdrawn"):
            host.call("a/x", cancel=give_up)
        assert not host.consent.remembered() and not called


def test_what_was_decided_is_written_down_without_contents_and_secrets(tmp_path: Path) -> None:
    path, server = tmp_path / "audit.jsonl", Server("s")
    server.tool("x")(lambda token, place: "the content")
    with Host([Entry("a", server)], consent=free(audit=path)) as host:
        host.call("a/x", {"token": "swordfish", "place": "here"})
        host.consent.add(Rule("deny", "tool", "a/x"))
        with pytest.raises(ConsentRefused):
            host.call("a/x", {"token": "swordfish", "place": "here"})
    text = path.read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert [(row["kind"], row.get("decision"), row.get("by"), row.get("outcome")) for row in rows] == [
        ("start", "allow", "rule", None), ("tool", "allow", "rule", None), ("tool", None, None, "ok"),
        ("tool", "deny", "rule", None),
    ]  # fmt: skip
    assert rows[2]["arguments"] == {"token": "[redacted]", "place": "here"} and rows[2]["milliseconds"] > 0
    assert "swordfish" not in text and "the content" not in text
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_question_shows_all_of_it_and_cannot_move_the_cursor() -> None:
    said = "\x1b[2J\u202eallow?\r\n? yes" + "x" * 5000
    lines = Question("form", "a", "a", "b", "1", {"message": said}, ["odd\n"]).lines()
    assert lines[0] == "a: answer this form of the server a?" and lines[-1] == "  ! odd\\n"
    assert all(line.startswith("  | ") and line.isprintable() for line in lines[1:-1])
    assert "x" * 5000 in "".join(lines)


def test_what_stands_out_in_a_command_is_pointed_out() -> None:
    for command, sign in (
        (["sudo", "x"], "more rights"), (["bash", "-c", "x"], "a shell"), (["python", "-c", "x"], "a line of code"),
        (["x", "rm -rf /"], "removes files"), (["sh", "-c", "curl x | sh"], "fetches"),
        (["npx", "-y", "@scope/server"], "no version"), (["uvx", "server"], "no version"),
    ):  # fmt: skip
        assert any(sign in found for found in dangers({"command": command})), command
    for plain in (["npx", "-y", "@scope/server@1.2.3"], ["uvx", "server==1.0"]):
        assert dangers({"command": plain}) == ["it runs with all of your rights"]
    assert any("load other code" in each for each in dangers({"command": ["x"], "environment": {"LD_PRELOAD": "x"}}))
    assert dangers({"url": "http://far.example", "headers": {"a": "b"}})[0].endswith("so are its headers")
    assert not dangers({"url": "http://localhost:1/mcp"}) and not dangers({"url": "https://x"})


def test_a_start_is_bound_to_the_command_and_to_what_stands_behind_its_names(tmp_path: Path) -> None:
    def asked(**given: Any) -> bool:
        user = User(Answer(True, "always"))
        config = {"servers": {"a": {"command": "/no/such/program", **given}}}
        with Host(config, consent=Consent(ask=user, keep=tmp_path), start_timeout=30):
            return user.kinds == ["start"]

    assert asked(env={"X": "1"}) and not asked(env={"X": "1"})
    for changed in ({"env": {"X": "2"}}, {"args": ["y"]}, {"cwd": "/"}, {"env": {"X": "1"}, "inheritEnv": ["HOME"]}):
        assert asked(**changed), changed


def test_the_whole_command_is_shown_before_a_server_is_started_and_no_means_no() -> None:
    user = User(False)
    entry = {"command": "python", "args": ["-c", "x" * 300], "env": {"API_TOKEN": "swordfish"}}
    with Host({"servers": {"a": entry}}, consent=offline(ask=user)) as host:
        assert host.servers["a"].state == "stopped" and host.servers["a"].client is None
    shown = "\n".join(user.asked[0].lines())
    assert "x" * 300 in shown and "API_TOKEN" in shown and os.getcwd() in shown and "swordfish" not in shown


def test_fingerprints_leave_out_what_is_only_for_the_eye() -> None:
    tool = {"name": "x", "description": "y", "inputSchema": {"a": 1, "b": 2}}
    same = {"inputSchema": {"b": 2, "a": 1}, "description": "y", "name": "x", "_meta": {"z": 1}, "icons": [1]}
    assert print_of(tool) == print_of(same) != print_of({**tool, "description": "y "})
    assert difference({"a": "old"}, {"a": "new"})[1:] == [" {", '-  "a": "old"', '+  "a": "new"', " }"]
    assert len(difference([1] * 3000, [2])) > 3000
