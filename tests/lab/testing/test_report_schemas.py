"""Reports against the schemas that others have published: SARIF 2.1.0 as OASIS has it, JUnit as Jenkins reads it.

Neither is ours to hand on, so `.ci/peers` puts both into `.ci/schemas`: that of JUnit from the source release of
pytest, whose own reports it judges, and that of SARIF from the validator of those who maintain the format.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcp_ref.lab.cli import main
from mcp_ref.lab.testing.reports import Row, report
from tests.lab.testing.test_check_reports import trace
from tests.lab.testing.test_reports import ROWS

__all__ = ["trace"]  # a fixture

REPORTS = {
    "rows": ROWS,
    "nothing": [],
    "all is well": [Row("rounds", "pass", "asked", revision="2026-07-28", seconds=0.25)],
    "too many": [Row("pages", "warn", str(number)) for number in range(23)],
}


def schema(name: str) -> str:
    """The path of a schema; a test that wants one that is not there is skipped."""
    path = Path(__file__).parents[3] / ".ci" / "schemas" / name
    if not path.exists():
        pytest.skip(f"{name} is not in .ci/schemas")
    return str(path)


def wrong_with_sarif(text: str) -> list[str]:
    published = json.loads(Path(schema("sarif-2.1.0.json")).read_text("utf-8"))
    judge: Any = jsonschema.validators.validator_for(published)
    return [each.message for each in judge(published).iter_errors(json.loads(text))]


def wrong_with_junit(text: str) -> list[str]:
    xmlschema = pytest.importorskip("xmlschema")
    return [str(each.reason) for each in xmlschema.XMLSchema(schema("junit-10.xsd")).iter_errors(text)]


WRONG = {"sarif": wrong_with_sarif, "junit": wrong_with_junit}


@pytest.mark.parametrize("rows", REPORTS.values(), ids=REPORTS)
@pytest.mark.parametrize("form", WRONG)
def test_a_report_fits_its_published_schema(form: str, rows: list[Row], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.lab.testing.reports._MAX_RESULTS", 20)
    assert WRONG[form](report(rows, "check", form)) == []


@pytest.mark.parametrize("form", WRONG)
def test_the_report_of_a_trace_fits_its_published_schema(
    form: str, trace: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["check", "--format", form, trace])
    assert WRONG[form](capsys.readouterr().out) == []


@pytest.mark.parametrize(("form", "old", "new"), [("sarif", '"2.1.0"', '"2.0.0"'), ("junit", "testcase", "tastecase")])
def test_a_report_that_does_not_fit_is_noticed(form: str, old: str, new: str) -> None:
    assert WRONG[form](report(ROWS, "check", form).replace(old, new)) != []
