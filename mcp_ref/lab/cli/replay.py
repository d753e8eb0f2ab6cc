"""The command `replay`: a recorded server that answers, or a recorded client that asks a live server again.

Not here:  what is answered (lab/testing/replay, lab/testing/replay_http); what is compared (lab/testing/replay_check)

Exit codes are those of the command line; 3 also where something was asked that is not in the recording, or where
`--against` finds a difference.
"""

from __future__ import annotations

import argparse

from mcp_ref import TransportClosed
from mcp_ref.facts import StdioServerTransport, end_by_sigterm, escaped
from mcp_ref.lab.cli import render
from mcp_ref.lab.cli.commands import Exit, UsageError, url_of


def run(args: argparse.Namespace) -> Exit:
    """Serve as the server of a trace, or play its client to a server."""
    if args.against != bool(args.target):
        raise UsageError("--against needs -- and the command of a server, or its URL")
    if args.http and args.against:
        raise UsageError("--http is for a server that is replayed; a URL to play against comes after --")
    try:
        if not args.against:
            return _serve(args)
        from mcp_ref.lab.testing.replay import turns_of
        from mcp_ref.lab.testing.replay_check import against

        turns, notes = turns_of(args.file)
        _tell(notes)
        target = url_of(args.target) or args.target
        differences, answers = against(turns, target, ignore=args.ignore, timeout=args.timeout)
        render.put(escaped(each) for each in differences)
        render.put([f"{len(differences)} difference{'s' * (len(differences) != 1)} in {answers} answers"])
        return Exit.PROTOCOL if differences else Exit.OK
    except RecursionError:
        raise UsageError(f"{args.file}: a message is nested too deeply to be replayed") from None
    except (OSError, ValueError) as problem:
        if isinstance(problem, TransportClosed):
            raise
        raise UsageError(str(problem)) from None


def _serve(args: argparse.Namespace) -> Exit:
    from mcp_ref.lab.testing.replay import Replay
    from mcp_ref.lab.testing.replay_http import ReplayService

    replay = Replay(args.file, strict=args.strict)
    _tell(replay.notes)
    with end_by_sigterm() as interrupted:
        if args.http:
            service = ReplayService(replay, args.port)
            render.note(f"listening on {service.url}; Ctrl-C ends it")
            interrupted(service.wait)
            service.close()
        else:
            session = replay.connect(StdioServerTransport())
            interrupted(session.wait)
            session.close(1)
    for each in replay.mismatches:
        render.note(f"not in the recording: {escaped(each)}", failed=True)
    if replay.unused:
        render.note(f"not asked for: {escaped(', '.join(replay.unused))}")
    return Exit.PROTOCOL if replay.mismatches else Exit.OK


def _tell(notes: list[str]) -> None:
    for each in notes:
        render.note(f"of the recording, what {each}")
