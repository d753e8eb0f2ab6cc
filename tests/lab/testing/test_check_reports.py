"""`check` for continuous integration: JUnit and SARIF, rules that are ignored, and findings that are known."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from mcp_ref.lab.cli import main
from mcp_ref.recording.record import to_row
from tests.lab.judge.talks import C, S, over_stdio

RULE = "pong_is_empty"


@pytest.fixture
def trace(tmp_path: Path) -> str:
    """A conversation in which the server breaks one rule, twice."""
    made = over_stdio("2025-11-25", C(2, "ping"), S(2, pong="a"), C(3, "ping"), S(3, pong="a"))
    file = tmp_path / "t.jsonl"
    file.write_text("".join(to_row(event._replace(time=1e9)) + "\n" for event in made), "utf-8")
    return str(file)


def cases(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, list[str]]:
    """The cases of a JUnit report, and the tags in each."""
    main(["check", "--format", "junit", *words])
    top = ElementTree.fromstring(capsys.readouterr().out)
    return {case.get("name", ""): [child.tag for child in case] for case in top.iter("testcase")}


def test_junit_has_the_rules_that_failed_were_silent_and_were_never_asked(
    trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = cases(capsys, trace)
    assert found[RULE] == ["failure"]
    assert [] in found.values() and ["skipped"] in found.values()
    assert sum(tags == ["failure"] for tags in found.values()) == 1


def test_sarif_has_equal_findings_once(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--strict", "--format", "sarif", trace]) == 3
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    (result,) = run["results"]
    assert (result["ruleId"], result["level"]) == (f"check/{RULE}", "error")
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == trace
    assert len(run["tool"]["driver"]["rules"]) > 100


@pytest.mark.parametrize("form", ["junit", "sarif"])
@pytest.mark.parametrize("strict", [[], ["--strict"]])
def test_a_trace_without_a_message_is_not_green(
    form: str, strict: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.jsonl").write_text("")
    assert main(["check", *strict, "--format", form, str(tmp_path / "t.jsonl")]) == 6
    told = capsys.readouterr().out
    assert "no message came that could be judged" in told
    assert 'errors="1"' in told or '"level": "error"' in told


def test_of_several_traces_each_is_judged_by_itself_and_equal_findings_are_one(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = str(tmp_path / "other.jsonl")
    shutil.copy(trace, other)
    assert main(["check", "--strict", trace, other]) == 3
    told = capsys.readouterr().out
    assert told.startswith(f"{trace}:5: MUST, server: ")
    assert told.count("answers:") == 1
    assert f"4 times: {RULE}, server: at {trace}:5, {trace}:7, {other}:5, {other}:7\n" in told
    assert "4 findings in 14 events of 2 traces; " in told
    main(["check", "--format", "json", trace, other])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row.get("file") for row in found] == [trace, trace, other, other, None]
    main(["check", "--format", "sarif", other, trace])
    ((result,),) = (run["results"] for run in json.loads(capsys.readouterr().out)["runs"])
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == other


def test_one_trace_of_several_without_a_message_is_named(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    assert main(["check", str(empty), trace]) == 6
    assert f"not all was judged: {empty}: no message came that could be judged\n" in capsys.readouterr().out
    assert main(["check", trace, str(tmp_path / "missing")]) == 2
    assert "missing" in capsys.readouterr().err


def test_a_rule_that_failed_in_one_revision_passes_in_another(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.jsonl"
    text = Path(trace).read_text("utf-8").replace("2025-11-25", "2025-06-18")
    other.write_text(text.replace('"pong"', '"_meta"').replace('"a"', "{}"))
    main(["check", "--format", "junit", trace, str(other)])
    suites = {suite.get("name"): suite for suite in ElementTree.fromstring(capsys.readouterr().out)}
    for revision, tags in (("2025-11-25", ["failure"]), ("2025-06-18", [])):
        (case,) = suites[f"check {revision}"].findall(f"testcase[@name='{RULE}']")
        assert [child.tag for child in case] == tags


def test_an_ignored_rule_does_not_fail_and_does_not_pass(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--strict", "--ignore", RULE, trace]) == 0
    assert capsys.readouterr().out.startswith("0 findings")
    assert cases(capsys, "--ignore", RULE, trace)[RULE] == ["skipped"]


def test_a_rule_that_does_not_exist_cannot_be_ignored(trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--ignore", "pongs", trace]) == 2
    assert "no rule is called pongs" in capsys.readouterr().err


def test_what_the_baseline_has_is_not_found_again(
    trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    baseline = str(tmp_path / "known.jsonl")
    main(["check", "--format", "json", "--report", baseline, trace])
    assert main(["check", "--strict", "--baseline", baseline, trace]) == 0
    Path(baseline).write_text("")
    assert main(["check", "--strict", "--baseline", baseline, trace]) == 3
    capsys.readouterr()


@pytest.mark.parametrize("text", ["{", "[]\n3", '{"rule": "a"}', '{"rule": "a", "expected": 1, "blame": 1, "ids": 1}'])
def test_a_baseline_that_check_has_not_written_exits_with_2(
    text: Any, trace: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "known").write_text(text)
    assert main(["check", "--baseline", str(tmp_path / "known"), trace]) == 2
    assert main(["check", "--baseline", str(tmp_path / "missing"), trace]) == 2
    assert "is not what check --format json writes" in capsys.readouterr().err
