"""Reports: the essential parts of JUnit and SARIF 2.1.0, and text that no format can carry as it is."""

from __future__ import annotations

import json
from typing import Any
from xml.etree import ElementTree

import pytest

from mcp_ref.lab.judge.rulebook import Finding
from mcp_ref.lab.testing.reports import FORMATS, Row, report, row_of

ROWS = [
    Row("tool_names", "fail", "a name", ("2025-11-25/server/tools#tool-names.3",), "2025-11-25", "a b.jsonl", 7),
    Row("pages", "warn", "a page", revision="2025-11-25"),
    Row("rounds", "pass", "asked 3 times", revision="2026-07-28"),
    Row("tasks", "skip", "never asked", revision="2026-07-28"),
    Row("crash", "error", "\x00 | <b> \ud800 ]]> & \n\uffff", revision="2026-07-28"),
    Row("pings", "note", "late", revision="2026-07-28"),
]


def sarif(rows: list[Row]) -> Any:
    """The one run of a SARIF document. What the schema of 2.1.0 requires is shown by test_report_schemas."""
    document = json.loads(report(rows, "check", "sarif"))
    (run,) = document["runs"]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert len({*ids}) == len(ids)
    assert all(ids[result["ruleIndex"]] == result["ruleId"] for result in run["results"] if "ruleIndex" in result)
    return run


def test_sarif_has_a_result_for_each_row_that_does_not_pass() -> None:
    run = sarif(ROWS)
    assert [each["level"] for each in run["results"]] == ["error", "warning", "error", "note"]
    assert len(run["tool"]["driver"]["rules"]) == len(ROWS)
    page = run["tool"]["driver"]["rules"][0]["helpUri"]
    assert page == "https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-names"


def test_sarif_declares_the_rules_of_a_run_without_results() -> None:
    run = sarif([Row("rounds", "pass", "asked")])
    assert run["results"] == []
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["check/rounds"]


def test_a_fingerprint_does_not_depend_on_the_line() -> None:
    one, other = (sarif([ROWS[0]._replace(line=line)])["results"][0]["partialFingerprints"] for line in (7, 8))
    assert one == other
    assert one != sarif([ROWS[0]._replace(revision="2026-07-28")])["results"][0]["partialFingerprints"]


def test_sarif_says_how_many_results_were_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.lab.testing.reports._MAX_RESULTS", 20)
    results = sarif([Row("pages", "warn", str(number)) for number in range(23)])["results"]
    assert len(results) == 21
    assert results[-1]["message"]["text"] == "3 more results were left out"


def test_junit_has_a_suite_for_each_revision() -> None:
    top = ElementTree.fromstring(report(ROWS, "check", "junit"))
    assert top.tag == "testsuites"
    counts = [[suite.get(each) for each in ("tests", "failures", "errors", "skipped")] for suite in top]
    assert counts == [["2", "1", "0", "0"], ["4", "0", "1", "1"]]
    assert [suite.get("name") for suite in top] == ["check 2025-11-25", "check 2026-07-28"]
    cases = {case.get("name"): [child.tag for child in case] for case in top.iter("testcase")}
    assert cases == {
        "tool_names": ["failure"], "pages": ["system-out"], "rounds": [], "tasks": ["skipped"], "crash": ["error"],
        "pings": ["system-out"],
    }  # fmt: skip


@pytest.mark.parametrize("form", FORMATS)
def test_nothing_judged_is_never_green(form: str) -> None:
    for rows in ([], [ROWS[3]]):
        told = report(rows, "check", form)
        assert "nothing was judged" in told
        assert "error" in told


@pytest.mark.parametrize("form", FORMATS)
def test_every_format_can_be_written_to_a_file(form: str) -> None:
    assert report(ROWS, "check", form).encode()


def test_a_cell_of_markdown_stays_a_cell() -> None:
    line = report([ROWS[4]], "check", "markdown").splitlines()[-1]
    assert line == "| error | 2026-07-28 | crash | ? \\| &lt;b> ? ]]> & ? |"


@pytest.mark.parametrize(
    ("level", "verdict"), [("MUST", "fail"), ("SHOULD", "warn"), ("HINT", "note"), ("FAULT", "error")]
)
def test_the_level_of_a_finding_gives_its_verdict(level: str, verdict: str) -> None:
    ids = ("2025-11-25/server/tools#tool-names.3",)
    row = row_of(Finding(0, None, "server", level, "tool_names", ids, "So it is.", "a name", None), "a.jsonl")
    assert (row.verdict, row.revision, row.file, row.line) == (verdict, "2025-11-25", "a.jsonl", 1)
    assert "server" in row.says
