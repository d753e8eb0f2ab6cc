"""The command `contract`: what a server promises, as a file, and what a change of it breaks.

Not here:  what a contract holds, and comparing two (lab/testing/contract); the forms of a report (lab/testing/reports)

Exit codes: 0 nothing breaks; 2 the command line or a file is wrong; 3 something breaks, with `--strict` also a look; 4
the server cannot be reached, or does not speak the protocol.
"""

from __future__ import annotations

import argparse
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from mcp_ref import REVISIONS, JsonObject, McpError, Refusal
from mcp_ref.facts import escaped, messages
from mcp_ref.lab.cli import render
from mcp_ref.lab.cli.commands import Exit, UsageError, ask
from mcp_ref.lab.testing.contract import check_contract, contract_diff, contract_of, write_contract
from mcp_ref.lab.testing.reports import Row, report


def run(args: argparse.Namespace) -> Exit:
    """Save the contract of a server, or compare one with a file or a server."""
    if args.action == "save" and args.other:
        raise UsageError("contract save needs FILE, and -- and a server")
    if bool(args.other) == bool(args.target or args.config):
        raise UsageError("contract diff needs FILE, and either a second file or -- and a server")
    old = _read(args.file) if args.action == "diff" else None
    try:
        new = _read(args.other) if args.other else _asked(args, old)
    except McpError as problem:
        render.note(f"mcp-ref: cannot make a contract: {problem}", failed=True)
        return Exit.CONNECTION
    if old is not None:
        return _compare(args, old, new)
    try:
        write_contract(Path(args.file), new)
    except OSError as problem:
        raise UsageError(f"cannot write the contract: {problem}") from None
    return Exit.OK


def _asked(args: argparse.Namespace, old: JsonObject | None) -> JsonObject:
    """Return the contract of the server that the command line names.

    Unless --revision names one, it is taken in a revision that the old one knows, if it can be: in others a server
    declares other things.
    """
    found: list[JsonObject] = []
    known, named = [*(REVISIONS.keys() & (old or {}).get("revisions", ()))], args.revision
    for args.revision in [known] * bool(known and not named) + [named]:
        with suppress(McpError) if args.revision is known else nullcontext():
            ask(lambda client, _: found.append(contract_of(client)), args)
            break
    return found[0]


def _read(path: str) -> Any:
    try:
        contract = messages.decode(Path(path).read_bytes())
        check_contract(contract)
    except OSError as problem:
        raise UsageError(str(problem)) from None
    except (ValueError, Refusal) as problem:  # also NoContract
        raise UsageError(f"{path} cannot be read as a contract: {problem}") from None
    return contract


def _compare(args: argparse.Namespace, old: JsonObject, new: JsonObject) -> Exit:
    try:
        changes = contract_diff(old, new)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    look = "fail" if args.strict else "warn"
    verdicts: Any = {"breaking": "fail", "look": look, "harmless": "note"}
    if args.format == "text":
        counts = {kind: sum(each.effect == kind for each in changes) for kind in verdicts}
        render.put([*(escaped(str(each)) for each in changes), ", ".join(f"{n} {kind}" for kind, n in counts.items())])
    else:
        name = str(new.get("name") or "the server")
        rows = [
            Row(each.where, verdicts[each.effect], f"{each.effect}: {each.says}", file=args.file) for each in changes
        ]
        render.put([report(rows or [Row(name, "pass", "keeps its contract")], "contract", args.format).rstrip("\n")])
    return Exit.PROTOCOL if any(verdicts[each.effect] == "fail" for each in changes) else Exit.OK
