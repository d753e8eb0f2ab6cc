"""Reports for continuous integration: rows and findings as JSON, JUnit, SARIF 2.1.0 or Markdown.

Not here:  judging (lab/judge/check), comparing (lab/testing/contract)

A row is one thing that was looked at, whatever came of it; a finding of the checker becomes a row by `row_of`. Every
writer takes the same rows. A run in which nothing was judged is written as an error, never as a success.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote
from xml.etree import ElementTree

from mcp_ref import __version__
from mcp_ref.lab.judge.rulebook import Finding

Verdict = Literal["pass", "fail", "warn", "note", "skip", "error"]
_PAGES: Final = "https://modelcontextprotocol.io/specification/"
_MAX_RESULTS: Final = 5000
_NOTHING: Final = "nothing was judged"
_LEVELS: Final = {"fail": "error", "error": "error", "warn": "warning", "note": "note"}
_VERDICTS: Final[dict[str, Verdict]] = {"MUST": "fail", "SHOULD": "warn", "HINT": "note", "FAULT": "error"}


class Row(NamedTuple):
    """One thing that was looked at.

    Attributes:
        name: the rule, the case or the entry of a contract.
        verdict: "pass", "fail", "warn", "note", "skip", or "error" for a fault that is not the peer's.
        says: why, in a sentence; of a skip the reason.
        ids: the sentences of the specification.
        revision: the suite that the row belongs to.
        file: the file that it speaks of, and `line` the line of it.
        seconds: how long it took.
    """

    name: str
    verdict: Verdict
    says: str
    ids: tuple[str, ...] = ()
    revision: str = ""
    file: str = ""
    line: int = 1
    seconds: float = 0.0

    @property
    def faulty(self) -> bool:
        """Return whether the peer has done something wrong."""
        return self.verdict in ("fail", "warn")


def row_of(finding: Finding, file: str = "") -> Row:
    """Return the row of a finding, in the revision of its sentence."""
    says = f"{finding.says} ({finding.blame or 'the checker'}) Expected: {finding.expected}"
    revision = finding.ids[0].partition("/")[0] if finding.ids else ""
    return Row(finding.rule, _VERDICTS[finding.level], says, finding.ids, revision, file, max(finding.seq, 1))


def report(rows: Sequence[Row], name: str, format: str) -> str:
    """Return the rows as one document in a format of `FORMATS`.

    Args:
        name: what was looked at, such as "contract" or "check".
    """
    judged = any(row.verdict != "skip" for row in rows)
    return FORMATS[format](rows if judged else [Row(name, "error", _NOTHING), *rows], name)


def _markdown(rows: Sequence[Row], name: str) -> str:
    lines = [f"**{name}**: {len(rows)} rows", "", "| | revision | where | what |", "|---|---|---|---|"]
    for row in rows:
        told = (*row[:3], row.revision)
        cells = (_clean(each).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for each in told)
        where, verdict, says, revision = (" ".join(cell.split()) for cell in cells)
        lines.append(f"| {verdict} | {revision} | {where} | {says} |")
    return "\n".join(lines) + "\n"


def _junit(rows: Sequence[Row], name: str) -> str:
    top = ElementTree.Element("testsuites")
    for revision in dict.fromkeys(row.revision for row in rows):
        mine = [row for row in rows if row.revision == revision]
        failures, errors, skipped = (str(sum(r.verdict == kind for r in mine)) for kind in ("fail", "error", "skip"))
        counts = {"tests": str(len(mine)), "failures": failures, "errors": errors, "skipped": skipped}
        seconds = f"{sum(row.seconds for row in mine):.3f}"
        suite = ElementTree.SubElement(
            top, "testsuite", {"name": f"{name} {revision}".strip(), "time": seconds} | counts
        )
        for row in mine:
            about = {"classname": name, "name": _clean(row.name), "time": f"{row.seconds:.3f}"}
            case = ElementTree.SubElement(suite, "testcase", about)
            kind = {"fail": "failure", "error": "error", "skip": "skipped"}.get(row.verdict)
            if kind:
                ElementTree.SubElement(case, kind, {"message": _clean(row.says)}).text = _clean(" ".join(row.ids))
            elif row.verdict != "pass":
                ElementTree.SubElement(case, "system-out").text = _clean(f"{row.verdict}: {row.says}")
    ElementTree.indent(top)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(top, "unicode")}\n'


def _clean(text: str) -> str:
    """Return the text without the characters that XML cannot carry, and lone surrogates, which no file can."""
    return re.sub(r"[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


def _sarif(rows: Sequence[Row], name: str) -> str:
    rules: dict[str, dict[str, Any]] = {}
    places: dict[str, int] = {}  # of a rule among all, those without a result too
    results = []
    for row in rows:
        says = _clean(row.says)
        rule = f"{name}/{_clean(row.name)}"
        about = {
            "id": rule,
            "shortDescription": {"text": says or rule},
            "help": {"text": " ".join(row.ids) or says or rule},
        }
        rules.setdefault(rule, about | {"helpUri": _PAGES + row.ids[0].rpartition(".")[0] if row.ids else _PAGES})
        place_of_rule = places.setdefault(rule, len(places))
        if row.verdict not in _LEVELS:
            continue
        # The line is left out, or an alert would be another one whenever the trace grows above it.
        same = hashlib.sha256(json.dumps([rule, row.revision, says]).encode()).hexdigest()[:32]
        place = {"artifactLocation": {"uri": quote(row.file or name)}, "region": {"startLine": row.line}}
        results.append({
            "ruleId": rule, "ruleIndex": place_of_rule, "level": _LEVELS[row.verdict],
            "message": {"text": says or rule}, "locations": [{"physicalLocation": place}],
            "partialFingerprints": {"mcpRef/v1": same},
        })  # fmt: skip
    if len(results) > _MAX_RESULTS:
        cut = f"{len(results) - _MAX_RESULTS} more results were left out"
        results[_MAX_RESULTS:] = [{"ruleId": f"{name}/cut", "level": "warning", "message": {"text": cut}}]
    driver = {"name": "mcp-ref", "version": __version__, "informationUri": _PAGES, "rules": list(rules.values())}
    run = {"tool": {"driver": driver}, "results": results}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


FORMATS: Final[dict[str, Callable[[Sequence[Row], str], str]]] = {
    "json": lambda rows, name: json.dumps({"name": name, "rows": [row._asdict() for row in rows]}, indent=1) + "\n",
    "junit": _junit, "sarif": _sarif, "markdown": _markdown,
}  # fmt: skip
"""The names of the formats, and the writer of each; as text each command tells its own."""
