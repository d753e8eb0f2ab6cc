"""A program: a sixth revision of the protocol, with one new member, is added as CONTRIBUTING.md says, and all follows.

It stands in a process of its own, for the table of revisions is read once, when the other modules are imported.
"""

from __future__ import annotations

import sys
from typing import Annotated, Any, NotRequired

from mcp_ref import revisions

SIXTH, FIFTH = "2027-03-01", revisions.LATEST_STATELESS
NEW = FIFTH._replace(name=SIXTH, order=FIFTH.order + 1)
assert "mcp_ref.kit.typed.shapes" not in sys.modules, "the table must be changed before it is read"
revisions.REVISIONS[SIXTH] = NEW
revisions.STATELESS_REVISIONS += (NEW,)  # type: ignore[misc]
revisions.LATEST_STATELESS = NEW  # type: ignore[misc]

from mcp_ref.kit.typed.shapes import RequiredIn, Since  # noqa: E402
from mcp_ref.pages.server import tools  # noqa: E402

tools.Tool.__annotations__["colour"] = NotRequired[Annotated[str, Since(SIXTH), RequiredIn(SIXTH)]]

from mcp_ref import Client, Context, Recorder, Server, Tasks  # noqa: E402
from mcp_ref.kit.typed.checking import SchemaMismatch, checker, projector  # noqa: E402
from mcp_ref.kit.typed.shapes import Object, shape_of  # noqa: E402
from mcp_ref.lab.judge.check import Checker  # noqa: E402
from mcp_ref.lab.judge.rulebook import sentence_of, sentences  # noqa: E402
from mcp_ref.lab.testing.probe import Probe, cases, judge  # noqa: E402
from mcp_ref.lab.testing.raw_talk import Options  # noqa: E402
from mcp_ref.pages.table import METHODS  # noqa: E402

TOOL = {"name": "t", "inputSchema": {"type": "object"}, "colour": "red"}


def required(revision: revisions.Revision) -> set[str]:
    """Every member that a type of a row requires."""
    types = {kind for row in METHODS.values() if row.exists_in(revision) for kind in (row.params, row.result) if kind}
    shapes = [shape for kind in [*types, tools.Tool] if isinstance(shape := shape_of(kind, revision), Object)]
    return {f"{shape.name}.{key}" for shape in shapes for key, field in shape.fields.items() if field.required}


def types_follow() -> None:
    assert required(NEW) - required(FIFTH) == {"Tool.colour"} and len(required(FIFTH)) > 39
    assert required(FIFTH) < required(NEW)
    whole = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", "tools": [TOOL]}
    project = projector(tools.ListToolsResult, FIFTH, replies=True)
    assert project is not None and "colour" not in project(whole)["tools"][0]
    checker(tools.ListToolsResult, NEW)(whole)
    for revision, fails in ((NEW, True), (FIFTH, False)):
        try:
            checker(tools.ListToolsResult, revision)({**whole, "tools": [{**TOOL, "colour": 5}]})
        except SchemaMismatch as problem:
            assert fails and "colour" in str(problem)
        else:
            assert not fails


def rules_follow() -> None:
    there = {
        revision: {name for name in sentences()["rules"] if sentence_of(name, revision, "", False) is not None}
        for revision in (SIXTH, FIFTH.name)
    }
    assert there[SIXTH] == there[FIFTH.name] and len(there[SIXTH]) > 150
    assert all(SIXTH in case.sentences for case in cases("server") if FIFTH.name in case.sentences)


def server_with_everything() -> Server:
    server = Server("sixth", tasks=Tasks())

    @server.tool(annotations={"readOnlyHint": True})
    def order(ctx: Context) -> str:
        """Ask which seat."""
        return f"seat {ctx.elicit('Seat?', {'seat': {'type': 'string'}})['content']['seat']}"

    @server.tool(task="required")
    def slow(ctx: Context) -> str:
        """Ask for a name, within a task."""
        return f"for {ctx.elicit('Name?', {'seat': {'type': 'string'}})['content']['seat']}"

    for entry in server.registries["tools"].values():
        entry.definition["colour"] = "red"
    return server


def conversations_follow(server: Server) -> None:
    events: list[Any] = []
    with Recorder(events.append) as recorder:
        client = Client(server, elicit=lambda message, schema: {"seat": "aisle"}, tasks=True, trace=recorder)
        with client:
            assert str(client.revision) == SIXTH
            listed = client.list_tools()
            assert "seat aisle" in str(client.call_tool("order", {}))
            assert "for aisle" in str(client.call_tool_as_task("slow").result())
    checker = Checker(whole=True)
    found = [finding for event in events for finding in checker.feed(event)] + checker.end()
    assert [(tool["name"], tool["colour"]) for tool in listed] == [("order", "red"), ("slow", "red")]  # type: ignore[typeddict-item]
    assert [str(each) for each in found if each.level != "HINT"] == []
    assert checker.spoken[SIXTH] > 5 and any(sentence.startswith(SIXTH) for _, sentence, _ in checker.applied)


def probe_follows(server: Server) -> None:
    """A server of the revision passes; one that lacks the new member is found, by the sentence of that revision."""
    for right in (True, False):
        if not right:
            del server.registries["tools"]["order"].definition["colour"]
        events: list[Any] = []
        with Recorder(events.append, exact=True) as recorder, server.serve_http(port=0) as service:
            probe = Probe(service.url, Options(only=("stateless", "tools", "frames/unknown-method")), recorder)
            assert probe.find() == [SIXTH, revisions.LATEST_SESSION.name]
            rows = [row for revision in probe.find((SIXTH,)) for row in probe.run(revision)]
            probe.close()
        judged = judge(rows, events, probe.marks, "server", [SIXTH], probe.chosen)
        assert sum(row.verdict == "pass" for row in judged) > 12, judged
        failed = [(row.name, row.ids) for row in judged if row.verdict not in ("pass", "skip")]
        assert failed == ([] if right else [("schema", (f"{SIXTH}/schema#ListToolsResult",))]), failed


if __name__ == "__main__":
    types_follow()
    rules_follow()
    conversations_follow(server_with_everything())
    probe_follows(server_with_everything())
    print("all follows")
