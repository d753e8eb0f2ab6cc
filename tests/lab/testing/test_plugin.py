"""The pytest plugin: eight tests as users write them, and what each kind of failure says."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mcp_ref
from mcp_ref.lab.testing import plugin
from mcp_ref.recording.record import read_trace
from mcp_ref.testing import Replay
from tests.slow import slow_but

pytest_plugins = "pytester"

ROOT = Path(__file__).parent.parent.parent.parent
SHOWN = Path(__file__).parent / "shown"
WITHOUT = ("-o", "mcp_timeout=60", *(f"-pno:{name}" for name in ("mcp_ref", "cacheprovider", "timeout", "randomly")))
# A run inside this process has its modules taken out at its end; what was there before it stays.
for module in pkgutil.walk_packages(mcp_ref.__path__, "mcp_ref."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Runner:
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'unhurried'}")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    shutil.copytree(SHOWN, pytester.path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return Runner(pytester)


class Runner:
    """Runs tests beside the server `travel`, with the plugin."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.path, self._pytester = pytester.path, pytester

    def __call__(self, *arguments: str) -> pytest.RunResult:
        if "-n" in arguments:
            # `tests/unhurried` imports the package before pytest does.
            known = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
            return self._pytester.runpytest_subprocess(*WITHOUT, *known, "-p", "mcp_ref.lab.testing.plugin", *arguments)
        return self._pytester.runpytest_inprocess(*WITHOUT, *arguments, plugins=[plugin])

    def write(self, name: str, code: str) -> None:
        """Write a file of tests. It has `pytest`, `server` of travel, and BAD, HANGING: commands of servers."""
        names = f"BAD = [sys.executable, '-c', {BAD!r}]\nHANGING = [sys.executable, '-c', 'input(); input()']\n"
        head = "import sys, pytest\nfrom travel import server\nfrom mcp_ref import *\n"
        (self.path / name).write_text(f"{head}{names}{code}")

    def tests(self, code: str, *arguments: str) -> pytest.RunResult:
        self.write("test_it.py", code)
        return self("test_it.py", *arguments)

    def edit(self, name: str, old: str, new: str) -> None:
        path = self.path / name
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))


BAD = """
import sys, json
for line in sys.stdin:
    m = json.loads(line)
    if m.get("method") == "initialize":
        r = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
        r["serverInfo"] = {"name": "x", "version": "1"}
    elif m.get("method") == "tools/list":
        r = {"tools": [{"name": "get weather", "inputSchema": {"type": "object"}}]}
    elif "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""
LISTS = "def test_lists(mcp_client):\n    assert len(mcp_client.list_tools()) == 1\n"
CALLS = "def test_calls(mcp_client):\n    mcp_client.call_tool('forecast', {'city': 'Porto'})\n"


def alone(result: pytest.RunResult, *lines: str) -> None:
    """These lines are in what is said, and none of the plugin's code."""
    result.stdout.fnmatch_lines(lines)
    for other in ("plugin.py", "judged.py", "During handling", "direct cause"):
        assert other not in result.stdout.str()


# -- eight tests as users write them ------------------------------------------------------------------------------


@pytest.mark.parametrize("over", slow_but(["memory", "http"], ["memory", "http", "stdio"]))
def test_the_tests_run_as_they_stand_over_each_transport(run: Runner, over: str) -> None:
    run("-o", f"mcp_over={over}").assert_outcomes(passed=12)


def test_each_revision_is_met_over_its_own_transport(run: Runner) -> None:
    result = run("test_travel.py::test_forecast", "-v", "-o", "mcp_revisions=all", "-o", "mcp_over=http sse")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*[[]2024-11-05-sse] PASSED*", "*[[]2026-07-28-http] PASSED*"])


@pytest.mark.slow
def test_the_tests_run_under_xdist(run: Runner) -> None:
    run.write("test_it.py", f"@pytest.mark.mcp(server=BAD)\n{LISTS}")
    result = run("-n", "2", "-o", "mcp_allow=tool_names_are_plain\nanswered_forms_fit", "-o", "mcp_over=http")
    result.assert_outcomes(passed=13)
    result.stdout.fnmatch_lines(["mcp_allow: answered_forms_fit has allowed nothing in this run"])
    result.stdout.no_fnmatch_line("mcp_allow: tool_names*")


BROKEN = [
    ("travel.py", "sun for", "rain for", [
        "*'Lisbon: rain for 3 days' == 'Lisbon: sun for 3 days'", "*'sun' in 'Lisbon: rain for 3 days'"]),
    ("travel.py", "    return f\"{city}: {answer", "    ctx.elicit('Why?', {})\n    return f\"{city}: {answer",
     ["the server asked what no answer was scripted for: elicit: 'Why?'"]),
    ("travel.py", "server.run()", "print('hello')", ["no connection to the MCP server: *"]),
    ("forecast.jsonl", '"city":"Lisbon"', '"city":"Porto"',
     ['not in the recording: tools/call: *params.arguments.city: recorded "Porto", here "Lisbon"']),
    ("test_travel.py", "mcp_connect(url)", "mcp_connect(server)", ["*DID NOT RAISE*"]),
]  # fmt: skip
"""Edits of the tests as they stand, or of what they test, and what the tests say then, which are nearly all."""


def test_each_fails_for_the_right_reason(run: Runner) -> None:
    for name, old, new, _ in BROKEN:
        run.edit(name, old, new)
    result = run("test_travel.py", "--deselect=test_travel.py::test_contract")
    counts = result.parseoutcomes()
    assert (counts.pop("failed") + counts.pop("errors"), counts["passed"]) == (10, 1)
    for *_, says in BROKEN:
        for line in says:
            result.stdout.fnmatch_lines_random([line])


def test_a_contract_and_a_revision_that_are_not_kept_fail_the_test(run: Runner) -> None:
    run.edit("travel.py", "days: int = 3", "days: int")
    run.edit("travel.py", '"travel", "1"', '"travel", "1", revisions="2026-07-28"')
    result = run("test_travel.py", "-k", "contract or two_clients")
    assert sum(result.parseoutcomes().get(each, 0) for each in ("failed", "errors")) == 2
    result.stdout.fnmatch_lines_random(
        ["breaking: tools/forecast input.days: is required now", "*ErrorResponse: Unsupp*"]
    )


# -- what fails a test --------------------------------------------------------------------------------------------


def test_a_finding_fails_the_test_with_its_sentence_and_the_traffic(run: Runner) -> None:
    result = run.tests(f"@pytest.mark.mcp(server=BAD)\n{LISTS}")
    result.assert_outcomes(failed=1)
    alone(
        result, "1 finding in the MCP traffic of this test", "*: SHOULD, server: The name of a tool has *",
        "*rule: *", "*unlike 'get weather'*", "*MCP traffic*", "*response to *: tools/list*",
    )  # fmt: skip


def test_a_finding_may_be_allowed_or_not_looked_for(run: Runner) -> None:
    run.tests(
        f"@pytest.mark.mcp(server=BAD, allow=['tool_names_are_plain'])\n{LISTS}"
        f"@pytest.mark.mcp(server=BAD, judge=False)\n{LISTS.replace('test_', 'test_too_')}"
        "@pytest.mark.mcp(server=BAD)\n"
        "def test_sees_it(mcp_client, mcp_traffic):\n"
        "    mcp_client.list_tools()\n"
        "    (found,) = mcp_traffic.findings\n"
        "    mcp_traffic.allow(found.rule)\n"
        "    assert mcp_traffic.findings == []\n"
        "    assert 'tools/list' in mcp_traffic.narrate()\n"
    ).assert_outcomes(passed=3)


def test_an_entry_that_allows_nothing_is_told_at_the_end(run: Runner) -> None:
    allow = "mcp_allow=tool_names_are_plain\nanswered_forms_fit"
    result = run.tests(f"@pytest.mark.mcp(server=BAD)\n{LISTS}{CALLS}", "-o", allow)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["mcp_allow: answered_forms_fit has allowed nothing in this run"])
    result.stdout.no_fnmatch_line("mcp_allow: tool_names*")


def test_a_run_without_mcp_says_nothing(run: Runner) -> None:
    result = run.tests("def test_nothing(): pass", "-o", "mcp_allow=tool_names")
    result.stdout.no_fnmatch_line("*mcp_allow*")


def test_a_question_without_an_answer_and_an_answer_without_a_question_fail_the_test(run: Runner) -> None:
    result = run.tests(
        "def test_asks(mcp_client, mcp_answers):\n"
        "    mcp_client.call_tool('book', {'city': 'Lisbon'})\n"
        "    assert False\n"
        "def test_asks_not(mcp_client, mcp_answers):\n"
        "    mcp_answers.sample('Paris')"
    )
    result.assert_outcomes(failed=2)
    alone(
        result, "the server asked what no answer was scripted for: elicit: 'Where do you want to sit?'",
        "scripted, and never asked for: sample: 'Paris'",
    )  # fmt: skip


def test_answers_are_functions_and_remember_what_was_asked(run: Runner) -> None:
    run.tests(
        "asking = Server('asking', '1')\n"
        "@asking.tool()\n"
        "def ask(ctx: Context) -> str:\n"
        "    root = ctx.roots()[0]['uri']\n"
        "    return root + ctx.sample('Where?', max_tokens=9)['content']['text']\n"
        "@pytest.mark.mcp(server=asking, revisions='2025-11-25')\n"
        "def test_asks(mcp_client, mcp_answers, tmp_path):\n"
        "    mcp_answers.roots = [tmp_path]\n"
        "    mcp_answers.sample(lambda params: 'Paris')\n"
        "    assert text_of(mcp_client.call_tool('ask')) == tmp_path.as_uri() + 'Paris'\n"
        "    assert [kind for kind, *_ in mcp_answers.asked] == ['roots', 'sample']\n"
        # Only with answers a client says that it can be asked.
        "def test_none(mcp_client): assert mcp_client.capabilities == {}\n"
        "def test_some(mcp_client, mcp_answers):\n"
        "    assert mcp_client.capabilities.keys() == {'elicitation', 'roots', 'sampling'}\n"
    ).assert_outcomes(passed=3)


# -- cassettes, recordings and contracts --------------------------------------------------------------------------


def test_a_missing_cassette_names_the_option_that_records_it(run: Runner) -> None:
    result = run.tests(f"@pytest.mark.mcp_cassette('porto.jsonl')\n{CALLS}")
    alone(result, "no cassette *porto.jsonl; --mcp-record=once records it")


def test_a_cassette_is_kept_once_and_written_anew_with_all(run: Runner) -> None:
    code, cassette = f"@pytest.mark.mcp_cassette('porto.jsonl')\n{CALLS}", run.path / "porto.jsonl"
    run.tests(code, "--mcp-record=once").assert_outcomes(passed=1)
    written = cassette.read_bytes()
    run.tests(code, "--mcp-record=once").assert_outcomes(passed=1)
    assert cassette.read_bytes() == written
    run.tests(f"{code}    assert False\n", "--mcp-record=all").assert_outcomes(failed=1)
    assert cassette.read_bytes() == written
    run.tests(code, "--mcp-record=all").assert_outcomes(passed=1)
    assert cassette.read_bytes() != written
    assert sorted(run.path.glob("porto*")) == [cassette]
    run.tests(code, "-o", "mcp_server=").assert_outcomes(passed=1)


def test_a_cassette_holds_forms_and_no_secrets(run: Runner) -> None:
    run.tests(
        "@server.tool()\n"
        "def enter(password: str, ctx: Context) -> str:\n"
        "    return ctx.elicit('Where?', {'seat': {'type': 'string'}})['content']['seat']\n"
        "@pytest.mark.mcp_cassette('enter.jsonl')\n"
        "def test_enter(mcp_client, mcp_answers):\n"
        "    mcp_answers.elicit({'seat': 'aisle'})\n"
        "    assert text_of(mcp_client.call_tool('enter', {'password': 'hidden'})) == 'aisle'\n",
        "--mcp-record=all",
    )
    text = (run.path / "enter.jsonl").read_text()
    assert "aisle" in text
    assert '"password":"hidden"' not in text
    run("test_it.py").assert_outcomes(passed=1)


def test_a_cassette_of_two_tests_is_not_recorded(run: Runner) -> None:
    code = f"pytestmark = pytest.mark.mcp_cassette('porto.jsonl')\n{CALLS}{LISTS}"
    result = run.tests(code, "--mcp-record=once")
    result.stderr.fnmatch_lines(["ERROR: --mcp-record: more than one test would write *porto.jsonl"])
    assert not (run.path / "porto.jsonl").exists()


def test_a_cassette_that_is_cut_off_is_told(run: Runner) -> None:
    cassette = run.path / "forecast.jsonl"
    cassette.write_text(cassette.read_text()[:-20])
    alone(run("test_travel.py::test_without_the_server"), "the recording cannot be replayed: *forecast.jsonl:*")


def test_a_recorded_server_answers_the_program_under_test(run: Runner) -> None:
    run.tests(
        "def test_each(mcp_replay, mcp_connect):\n"
        "    for target in (lambda replay: replay, lambda replay: replay.url, lambda replay: replay.command):\n"
        "        client = mcp_connect(target(mcp_replay('forecast.jsonl')))\n"
        "        assert 'sun' in text_of(client.call_tool('forecast', {'city': 'Lisbon'}))\n"
    ).assert_outcomes(passed=1)


def test_what_the_program_asks_and_was_not_recorded_fails_the_test(run: Runner) -> None:
    result = run.tests(
        "def test_it(mcp_replay):\n"
        "    with Client(mcp_replay('forecast.jsonl').url) as client:\n"
        "        with pytest.raises(ErrorResponse): client.call_tool('forecast', {'city': 'Porto'})\n"
    )
    alone(result, 'not in the recording: tools/call: *recorded "Lisbon", here "Porto"')


def test_a_missing_contract_names_the_option_that_writes_it(run: Runner) -> None:
    code = "def test_it(mcp_contract): assert mcp_contract('trips') == []"
    alone(run.tests(code), "no contract *contracts/trips.json; --mcp-update writes it")
    run.tests(code, "--mcp-update").assert_outcomes(passed=1)
    assert (run.path / "contracts" / "trips.json").read_text() == (SHOWN / "contracts" / "travel.json").read_text()


def test_what_is_no_contract_is_told(run: Runner) -> None:
    (run.path / "contracts" / "travel.json").write_text("{}")
    alone(run("test_travel.py::test_contract"), "*travel.json: it is not a contract")


# -- the login ----------------------------------------------------------------------------------------------------


def test_a_login_can_be_revoked_and_can_expire(run: Runner) -> None:
    run.tests(
        "def test_it(mcp_connect, mcp_authorization):\n"
        "    url, login = mcp_authorization(server, ['trips'])\n"
        "    client = mcp_connect(url, auth=login())\n"
        "    login.expire()\n"
        "    assert client.list_tools()\n"
        "    tokens = [token.grant for token in login.server._tokens.values()]\n"
        "    login.revoke()\n"
        "    assert all(grant.revoked for grant in tokens)\n"
    ).assert_outcomes(passed=1)


# -- what is left behind ------------------------------------------------------------------------------------------


def test_a_thread_that_is_left_fails_the_teardown(run: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.lab.testing.verdict.GRACE", 0.1)
    result = run.tests(
        "import threading\n"
        "left = []\n"
        "def test_leaves(mcp_connect): left.append(Client(server).connect())\n"
        "def test_ends(): left.pop().close()\n"
    )
    result.assert_outcomes(passed=2, errors=1)
    alone(result, "*ERROR at teardown of test_leaves*", "threads are left: mcp-*")


def test_a_server_that_does_not_end_by_itself_is_warned_of_unless_it_is_allowed(run: Runner) -> None:
    rule, code = "server_exits_with_its_input", BAD + "import threading\nthreading.Event().wait()\n"
    stays = f"STAYS = Command([sys.executable, '-c', {code!r}], grace=0.2)\n@pytest.mark.mcp(server=STAYS, judge=False"
    result = run.tests(f"{stays})\n{LISTS}", "-W", "default::pytest.PytestWarning")
    result.assert_outcomes(passed=1, warnings=1)
    alone(result, f"*{rule}: the server had to be ended by signal 15")
    result = run.tests(f"{stays}, allow=[{rule!r}])\n{LISTS}")
    result.assert_outcomes(passed=1)
    result = run.tests(f"{stays})\n{LISTS}", "-o", f"mcp_allow={rule}")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*has allowed nothing*")


def test_what_is_allowed_must_exist(run: Runner) -> None:
    names = ("tool_names", "2025-11-25/server/tools#no-such.1")
    says = [f"allow: '{name}' names neither a rule nor a sentence; mcp-ref check --list shows them" for name in names]
    result = run.tests(
        f"@pytest.mark.mcp(server=BAD, allow=[{names[0]!r}])\n{LISTS}"
        f"@pytest.mark.mcp(server=BAD, allow=[{names[1]!r}])\n{LISTS.replace('test_', 'test_too_')}"
        "def test_itself(mcp_traffic):\n"
        f"    with pytest.raises(ValueError, match='neither a rule'): mcp_traffic.allow({names[0]!r})\n"
        "    mcp_traffic.allow('tool_names_are_plain')\n"
    )
    result.assert_outcomes(errors=2, passed=1)
    alone(result, *says)
    result = run.tests(f"@pytest.mark.mcp(server=BAD)\n{LISTS}", "-o", f"mcp_allow={names[0]}")
    result.assert_outcomes(errors=1)
    alone(result, says[0])


# -- what is refused ----------------------------------------------------------------------------------------------


WRONG = [
    ("mcp('travel')", "the marker mcp takes server=, revisions=, over=, allow=, judge=, timeout=, unlike 'travel'"),
    ("mcp(revision='all')", "the marker mcp takes *, unlike revision"),
    ("mcp(revisions=['2025'])", "the marker mcp, or the ini file, names '2025'; there are 2024-11-05, *, eras, *"),
    ("mcp(over='tcp')", "the marker mcp, or the ini file, names 'tcp'; there are memory, http, sse, stdio"),
    ("mcp(revisions=['2025-11-25'], over='sse')", "none of 2025-11-25 is spoken over sse"),
    ("mcp_cassette()", "the marker mcp_cassette takes the path of a recording, beside the test"),
    ("mcp(server='travel:nobody')", "no MCP server: travel:nobody is not there: *"),
    ("mcp(server='http://127.0.0.1:1/mcp', over='stdio')",
     "the server http://127.0.0.1:1/mcp cannot be met over stdio"),
    ("mcp(server=Server('x', '1'), over='stdio')",
     "the server <Server *> cannot be met over stdio; name it as module:object"),
    ("mcp(server='no-such-program')", "no connection to the MCP server: *no-such-program*"),
    ("mcp(server=HANGING, timeout=0.5)", "no connection to the MCP server: *"),
    ("mcp(server=[sys.executable, '-c', 'print(1); print(2)'])", "no connection to the MCP server: *"),
    ("mcp(server='http://127.0.0.1:1/mcp')", "no connection to the MCP server: *"),
]  # fmt: skip


def test_a_marker_or_a_target_that_is_wrong_gets_one_sentence(run: Runner) -> None:
    names = [f"test_wrong_{number:02}.py" for number in range(len(WRONG))]
    for name, (marker, _) in zip(names, WRONG, strict=True):
        run.write(name, f"@pytest.mark.{marker}\n{LISTS}")
    result = run("--continue-on-collection-errors", *names)
    result.assert_outcomes(errors=len(WRONG))
    alone(result, *(says for _, says in WRONG))


def test_a_server_of_a_session_goes_on_and_its_threads_with_it(run: Runner) -> None:
    run.tests(
        "@pytest.fixture(scope='session')\n"
        "def mcp_server():\n"
        "    with server.serve_http() as http:\n"
        "        yield http.url\n"
        "@pytest.mark.mcp(revisions='eras')\n"
        "@pytest.mark.parametrize('number', range(2))\n"
        "def test_book(mcp_client, mcp_answers, number):\n"
        "    mcp_answers.elicit({'seat': 'aisle'})\n"
        "    assert text_of(mcp_client.call_tool('book', {'city': 'Lisbon'})) == 'Lisbon: aisle'\n"
    ).assert_outcomes(passed=4)


def test_without_a_server_the_ways_to_name_one_are_told(run: Runner) -> None:
    alone(run.tests(LISTS, "-o", "mcp_server="), "no MCP server: give --mcp-server, mcp_server in the ini file, *")


def test_a_server_is_named_by_an_option_and_met_as_a_process_too(run: Runner) -> None:
    named = ("-o", "mcp_server=", "--mcp-server", "travel:server", "-o", "mcp_over=stdio")
    run.tests(CALLS, *named).assert_outcomes(passed=1)


# -- traces, and what a run pays ----------------------------------------------------------------------------------


@pytest.mark.parametrize("exact", [False, True])
def test_a_trace_of_a_test_that_fails_is_written(run: Runner, exact: bool) -> None:
    code = (
        f"{CALLS}"
        "    mcp_client.call_tool('forecast', {'city': 'Lisbon', 'password': 'hidden'})\n"
        "    assert False\n"
        f"{CALLS.replace('_calls', '_others')}"
    )
    run.tests(code, "--mcp-traces=traces", *["--mcp-exact"] * exact).assert_outcomes(failed=1, passed=1)
    (trace,) = (run.path / "traces").iterdir()
    assert re.fullmatch(r"test_it\.py-test_calls-[0-9a-f]{8}\.jsonl", trace.name)
    asked = [
        each.message["params"]
        for each in read_trace(trace)
        if isinstance(each.message, dict) and "method" in each.message
    ]
    assert asked[-1]["arguments"]["password"] == ("hidden" if exact else "[redacted]")
    assert Replay(trace).mismatches == []


def test_each_test_that_fails_has_its_own_trace_however_it_is_called(run: Runner) -> None:
    ids = ["a b", "a/b", "a-b", "x" * 1_000, "é" * 200]
    code = f"@pytest.mark.parametrize('n', range({len(ids)}), ids={ids!r})\n"
    code += "def test_calls(n, mcp_client):\n    mcp_client.list_tools()\n    assert False\n"
    run.tests(code, "--mcp-traces=traces").assert_outcomes(failed=len(ids))
    assert len(list((run.path / "traces").iterdir())) == len(ids)


def test_a_trace_that_cannot_be_written_is_told_below_the_failure(run: Runner) -> None:
    (run.path / "traces").write_text("no folder")
    code = f"{CALLS}    mcp_client.list_tools()\n    assert False\n"
    result = run.tests(code, "--mcp-traces=traces")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["the trace cannot be written: *traces*"])


def test_a_run_without_mcp_pays_less_than_five_milliseconds() -> None:
    program = (
        "import json, sys, time, pytest\n"
        "before, start = set(sys.modules), time.process_time()\n"
        "import mcp_ref.lab.testing.plugin\n"
        "print(json.dumps([time.process_time() - start, sorted(m for m in set(sys.modules) - before if 'mcp' in m)]))\n"
    )

    def seconds() -> float:
        done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True)
        taken, loaded = json.loads(done.stdout)
        inner = ["", "._version", ".lab", ".lab.testing", ".lab.testing.plugin"]
        assert loaded == [f"mcp_ref{each}" for each in inner]
        return float(taken)

    # The first run may compile, and how long it takes says how busy the machine is as well: one in time is enough.
    assert any(seconds() < 0.005 for _ in range(10))


def test_a_traceback_has_no_frames_of_ours_where_the_error_says_all(run: Runner) -> None:
    code = """
def test_asked():
    with Client(server) as client:
        client.call_tool("no such tool")
def test_refused():
    Client("http://127.0.0.1:1/mcp", timeout=3).connect()
def test_wrong():
    Client(server, timeout="soon")
"""
    told = run.tests(code, "--tb=short", "-p", "no:cacheprovider")
    told.assert_outcomes(failed=3)
    shown = str(told.stdout).partition("test_wrong ___")
    assert "test_it.py:" in shown[0] and "client.py:" not in shown[0] and "Unknown tool: no such tool" in shown[0]
    # A mistake of the caller, or of ours, shows the way to it; and so does --full-trace.
    assert "mcp_ref" in shown[2] and "client.py:" in shown[2]
    assert "client.py:" in str(run.tests(code, "--full-trace", "-k", "asked").stdout)
