"""The command line, `mcp-ref` or `python -m mcp_ref`: talk to a server, see the wire, read the rows.

Spec:      nothing of it: see the commands
Not here:  what the commands do (cli_commands); what the demonstration does (demo)

    mcp-ref call forecast city=Lisbon -- python weather.py        ask the server that this command starts
    mcp-ref tools -- http://127.0.0.1:8000/mcp                    ask the server at this URL
    mcp-ref listen weather://alerts -- http://127.0.0.1:8000/mcp  be told of changes
    mcp-ref serve weather.py --http                               be the server at that URL
    mcp-ref spec tools/call                                       what the rows say of a method
    mcp-ref narrate trace.jsonl                                   a recorded trace in words

Exit codes: 0 done; 1 the tool failed (`isError`); 2 the command line is wrong; 3 the peer answered with an error, or
broke the protocol; 4 there is no connection, or no answer in time; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

from mcp_ref import __version__
from mcp_ref.cli import shown
from mcp_ref.cli.commands import COMMANDS, CONNECTION, INTERRUPTED, OK, PROTOCOL, USAGE, UsageError
from mcp_ref.errors import ErrorResponse, McpError, MissingClientCapability, RequestTimeout, TransportClosed
from mcp_ref.revisions import REVISIONS
from mcp_ref.trace.explain import error_meaning


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code.

    Args:
        argv: the arguments without the program's name; those of this process when None.

    Raises: SystemExit where argparse ends the program: for `--help`, and with 2 for unknown options.
    Blocks: until the command is done; those that talk to a server are bounded by `--timeout` for each request.
    """
    own, target = _split(sys.argv[1:] if argv is None else list(argv))
    args = _parsed(own)
    args.target = target
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Nobody reads any more; without this the interpreter would complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (UsageError, McpError) as problem:
        return _failed(problem)
    return code


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    """What is before `--`, and the server after it."""
    if "--" not in argv:
        return argv, []
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def _parsed(argv: list[str]) -> argparse.Namespace:
    parser = _parser()
    args, left = parser.parse_known_args(argv)
    # argparse gives up on key=value words that stand after an option.
    if left and (not hasattr(args, "arguments") or any(word.startswith("-") for word in left)):
        server = "; the server stands after --" if hasattr(args, "header") and not left[0].startswith("-") else ""
        parser.error(f"unrecognized arguments: {' '.join(left)}{server}")
    if left:
        args.arguments += left
    return args


def _failed(problem: Exception) -> int:
    text = f"mcp-ref: {problem}"
    if isinstance(problem, ErrorResponse):
        text += f": {error_meaning(problem.code)}"
        if problem.code == MissingClientCapability.code and "elicitation" in json.dumps(problem.data):
            text += "; answer with --answer KEY=VALUE, or at a terminal"
        text += f"\n{json.dumps(problem.data, indent=2)}" if problem.data is not None else ""
    # What the ways to a server came to that were tried before the last (client/connecting).
    text += "".join(f"\n    {note}" for note in getattr(problem, "__notes__", ()))
    shown.note(text)
    if isinstance(problem, UsageError):
        return USAGE
    return CONNECTION if isinstance(problem, (TransportClosed, RequestTimeout)) else PROTOCOL


# -- the parser ---------------------------------------------------------------------------------------------------


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mcp-ref", description="The Model Context Protocol, to be seen and used.")
    parser.add_argument("--version", action="version", version=f"mcp-ref {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_asking(commands)
    _add_others(commands)
    return parser


def _add_asking(commands: Any) -> None:
    """The commands that end with `-- COMMAND ARGS...`, the server to start, or with `-- URL`."""
    common = _asking_options()

    def add(name: str, about: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = commands.add_parser(name, parents=[common], help=about, description=about)
        added.epilog = f"as in: mcp-ref {name} [options] ... -- COMMAND [ARGS...], or -- URL"
        added.set_defaults(run=COMMANDS[name])
        return added

    add("tools", "list the tools")
    call = add("call", "call a tool")
    call.add_argument("name")
    call.add_argument("arguments", nargs="*", metavar="key=value")
    call.add_argument("--json-args", metavar="JSON", help="arguments as a JSON object")
    add("resources", "list the resources and templates")
    add("read", "read a resource").add_argument("uri")
    add("prompts", "list the prompts")
    prompt = add("prompt", "get a prompt")
    prompt.add_argument("name")
    prompt.add_argument("arguments", nargs="*", metavar="key=value")
    complete = add("complete", "ask what an argument could be")
    complete.add_argument("ref", metavar="prompt:NAME|URI")
    complete.add_argument("argument")
    complete.add_argument("value")
    listen = add("listen", "be told of changes, until Ctrl-C; of all lists, where nothing is chosen")
    listen.add_argument("uri", nargs="*", help="a resource whose changes are wanted")
    for name in ("tools", "prompts", "resources"):
        listen.add_argument(f"--{name}", action="store_true", help=f"changes of the list of {name}")
    listen.add_argument("--count", type=number, metavar="N", help="end after so many changes")


def _asking_options() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="the whole result as JSON")
    common.add_argument("--revision", choices=list(REVISIONS), help="the one to speak")
    common.add_argument("--timeout", type=seconds, default=60.0, metavar="S", help="seconds for each request (60)")
    common.add_argument(
        "--header", action="append", default=[], metavar="NAME:VALUE", help="for a URL: a header of every request"
    )
    common.add_argument(
        "--answer",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a field of a form that the server shows; at a terminal you are asked for the others",
    )
    common.add_argument("--trace", metavar="FILE", help="record the traffic, as JSON Lines")
    common.add_argument("--narrate", action="store_true", help="tell the traffic on stderr")
    common.add_argument("--full", action="store_true", help="with --narrate: messages in full")
    return common


def _add_others(commands: Any) -> None:
    demo = commands.add_parser("demo", help="a whole conversation with a server, told as it happens")
    demo.add_argument("--revision", choices=list(REVISIONS))
    demo.add_argument("--full", action="store_true", help="messages in full")
    demo.add_argument("--trace", metavar="FILE", help="record the traffic, as JSON Lines")
    demo.add_argument("--http", action="store_true", help="over HTTP, and not over stdio")
    demo.set_defaults(run=COMMANDS["demo"])
    spec = commands.add_parser("spec", help="what the specification's rows say of a method, or all methods")
    spec.add_argument("method", nargs="?")
    spec.add_argument("--revision", choices=list(REVISIONS))
    spec.set_defaults(run=COMMANDS["spec"])
    serve = commands.add_parser("serve", help="run the server in a Python file, over stdio or HTTP")
    serve.add_argument("file", metavar="FILE[:OBJECT]", help='OBJECT is "server" unless given')
    serve.add_argument("--trace", metavar="FILE", help="record the traffic, as JSON Lines")
    serve.add_argument("--http", action="store_true", help="over HTTP, until Ctrl-C; prints the URL on stderr")
    serve.add_argument("--host", default="127.0.0.1", help="with --http: where to listen (127.0.0.1)")
    serve.add_argument("--port", type=port, default=8000, metavar="P", help="with --http (8000); 0 takes a free one")
    serve.add_argument("--path", default="/mcp", help="with --http: of the endpoint (/mcp)")
    serve.add_argument("--sse-path", metavar="PATH", help="with --http: also HTTP+SSE of 2024-11-05, such as /sse")
    serve.set_defaults(run=COMMANDS["serve"])
    told = commands.add_parser("narrate", help="tell a recorded trace")
    told.add_argument("file")
    told.add_argument("--full", action="store_true", help="messages in full")
    told.set_defaults(run=COMMANDS["narrate"])


def port(text: str) -> int:
    if not 0 <= (number := int(text)) < 65536:
        raise argparse.ArgumentTypeError("a number from 0 to 65535")
    return number


def number(text: str) -> int:
    if (count := int(text)) < 1:
        raise argparse.ArgumentTypeError("a number from 1 on")
    return count


def seconds(text: str) -> float:
    # argparse says "invalid seconds value" where this is no number: hence the names of these functions.
    if not 0 < (number := float(text)) < 1e9:
        raise argparse.ArgumentTypeError("a number of seconds above 0")
    return number
