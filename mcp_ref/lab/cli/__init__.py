"""The command line, `mcp-ref` or `python -m mcp_ref`: talk to a server, see the wire, read the rows.

Not here:  the commands and their options (lab/cli/table); what they do (lab/cli/commands, lab/cli/host, lab/cli/check,
           lab/cli/contracts, lab/cli/pictures); the conversation that `demo` shows (lab/cli/demo)

Exit codes: 0 done; 1 the tool failed (`isError`); 2 the command line is wrong; 3 the peer answered with an error, or
broke the protocol, or `contract` found what breaks clients; 4 no connection, or no answer in time; 5 consent was
refused; 6 `check` could not judge all; 130 Ctrl-C, SIGTERM, SIGHUP.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

from mcp_ref import ErrorResponse, McpError, MissingClientCapability, RequestTimeout, TransportClosed
from mcp_ref.facts import end_as_by_ctrl_c
from mcp_ref.lab.cli import render, table
from mcp_ref.lab.cli.commands import Exit, UsageError
from mcp_ref.lab.judge.explain import error_meaning


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    Args:
        argv: the arguments without the program's name; those of this process when None.

    Raises: SystemExit where argparse ends the program: for `--help`, and with 2 for unknown options.
    Blocks: until the command is done; those that talk to a server are bounded by `--timeout` for each request.
    """
    argv = sys.argv[1:] if argv is None else list(argv)
    try:
        # A program may be started without them (`>&-`).
        sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
        # The server stands after `--`.
        at = argv.index("--") if "--" in argv else len(argv)
        parser = table.parser()
        known = [row.name for rows in table.GROUPS.values() for row in rows]
        if argv and argv[0] not in known and not argv[0].startswith("-"):
            parser.error(f"no command is called {argv[0]!r}{render.alike(argv[0], known) or '; --help lists them'}")
        args, left = parser.parse_known_args(argv[:at])
        args.target = argv[at + 1 :]
        if len(args.target) == 1 and " " in args.target[0] and not os.path.exists(args.target[0]):
            raise UsageError(f"write the command after -- without quotes: -- {args.target[0]}")
        # argparse gives up on key=value words that stand after an option.
        if left and (not hasattr(args, "arguments") or any(word.startswith("-") for word in left)):
            server = "; the server comes after --" if hasattr(args, "header") and not left[0].startswith("-") else ""
            parser.error(f"unrecognized arguments: {' '.join(left)}{server}")
        if left:
            args.arguments += left
        with end_as_by_ctrl_c():
            code: Exit = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return Exit.INTERRUPTED
    except OSError as problem:
        if isinstance(problem, McpError):
            return _failed(problem)
        # Nobody reads any more, or the disk is full; without this the interpreter would complain when it flushes at
        # its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(problem, BrokenPipeError):
            return Exit.OK
        return _failed(UsageError(f"the output cannot be written: {problem}"))
    except (UsageError, McpError) as problem:
        return _failed(problem)
    return code


def _failed(problem: Exception) -> Exit:
    """Say on stderr what went wrong; returns the exit code for it."""
    text = f"mcp-ref: {problem}"
    if isinstance(problem, ErrorResponse):
        text += f": {error_meaning(problem.code)}"
        if problem.code == MissingClientCapability.code and "elicitation" in json.dumps(problem.data):
            text += "; answer with --answer KEY=VALUE, or at a terminal"
        text += f"\n{json.dumps(problem.data, indent=2)}" if problem.data is not None else ""
    # How earlier ways to the server failed, before the last one was tried (client/connecting).
    text += "".join(f"\n    {note}" for note in getattr(problem, "__notes__", ()))
    render.note(text, failed=True)
    if isinstance(problem, UsageError):
        return Exit.USAGE
    return Exit.CONNECTION if isinstance(problem, (TransportClosed, RequestTimeout)) else Exit.PROTOCOL
