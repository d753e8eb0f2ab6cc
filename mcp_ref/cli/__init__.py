"""The command line, `mcp-ref` or `python -m mcp_ref`: talk to a server, see the wire, read the rows.

Not here:  what the commands do (cli/commands); the conversation that `demo` shows (cli/demo)

    mcp-ref info -- python weather.py                             who the server is that this command starts
    mcp-ref call forecast city=Lisbon -- python weather.py        ask it
    mcp-ref call convert --task -- http://127.0.0.1:8000/mcp      as a task; and task get, result, cancel, list
    mcp-ref tools -- http://127.0.0.1:8000/mcp                    ask the server at this URL
    mcp-ref listen weather://alerts -- http://127.0.0.1:8000/mcp  be told of changes
    mcp-ref serve weather.py --http                               be the server at that URL
    mcp-ref spec tools/call                                       what the rows say of a method
    mcp-ref narrate trace.jsonl                                   a recorded trace in words
    mcp-ref check trace.jsonl                                     the sentences of the specification that it breaks
    mcp-ref draw trace.jsonl                                      a sequence diagram of it
    mcp-ref show trace.jsonl -o trace.html                        a page on which every message opens
    mcp-ref check -- python weather.py                            the same, between any client and this server
    mcp-ref host mcp.json                                         several servers, with your consent

Exit codes: 0 done; 1 the tool failed (`isError`); 2 the command line is wrong; 3 the peer answered with an error, or
broke the protocol; 4 no connection, or no answer in time; 5 consent was refused; 130 Ctrl-C.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mcp_ref import __version__
from mcp_ref.cli import commands, shown
from mcp_ref.cli.commands import Exit, UsageError
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
    argv = sys.argv[1:] if argv is None else list(argv)
    # A program may be started without them (`>&-`).
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    # The server stands after `--`.
    at = argv.index("--") if "--" in argv else len(argv)
    parser = _parser()
    args, left = parser.parse_known_args(argv[:at])
    args.target = argv[at + 1 :]
    # argparse gives up on key=value words that stand after an option.
    if left and (not hasattr(args, "arguments") or any(word.startswith("-") for word in left)):
        server = "; the server stands after --" if hasattr(args, "header") and not left[0].startswith("-") else ""
        parser.error(f"unrecognized arguments: {' '.join(left)}{server}")
    if left:
        args.arguments += left
    try:
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
    shown.note(text, failed=True)
    if isinstance(problem, UsageError):
        return Exit.USAGE
    return Exit.CONNECTION if isinstance(problem, (TransportClosed, RequestTimeout)) else Exit.PROTOCOL


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mcp-ref", description="The Model Context Protocol, to be seen and used.")
    parser.add_argument("--version", action="version", version=f"mcp-ref {__version__}")
    names = parser.add_subparsers(required=True, metavar="COMMAND")

    # Options that several commands have.
    revision, tracing, full = (argparse.ArgumentParser(add_help=False) for _ in range(3))
    revision.add_argument("--revision", choices=list(REVISIONS), help="the revision to speak, or to show")
    tracing.add_argument("--trace", metavar="FILE", help="record the traffic, as JSON Lines")
    tracing.add_argument("--exact", action="store_true", help="with --trace: hide nothing, not even secrets")
    full.add_argument("--full", action="store_true", help="messages in full")
    asks = argparse.ArgumentParser(add_help=False, parents=[revision, tracing, full])
    option = asks.add_argument
    option("--json", action="store_true", help="the whole result as JSON")
    option("--timeout", type=seconds, default=60.0, metavar="S", help="seconds for each request (60)")
    option("--header", action="append", default=[], metavar="NAME:VALUE", help="for a URL: a header of every request")
    option("--token-env", metavar="NAME", help="for a URL: the environment variable that holds a bearer token")
    option("--login", action="store_true", help="for a URL: log in with the browser, if the server asks for it")
    option("--login-store", metavar="FOLDER", help="log in likewise, and keep the login in a folder of your own")
    option("--env", action="append", default=[], metavar="NAME[=VALUE]", help="for a command: a variable that it gets")
    option("--inherit", action="store_true", help="for a command: it gets the whole environment")
    form = "a field of a form that the server shows; at a terminal you are asked for the others"
    option("--answer", action="append", default=[], metavar="KEY=VALUE", help=form)
    option("--config", metavar="FILE", help="instead of -- and a server: a JSON file with mcpServers")
    option("--server", metavar="NAME", help="with --config: which of its servers, if it has several")
    option("--narrate", action="store_true", help="tell the traffic on stderr")

    # The commands that end with `-- COMMAND ARGS...`, the server to start, or with `-- URL`.
    def asking(name: str, command: commands.Asking, about: str) -> Callable[..., Any]:
        added = names.add_parser(name, parents=[asks], help=about, description=about)
        added.epilog = f"as in: mcp-ref {name} [options] ... -- COMMAND [ARGS...], or -- URL, or with --config FILE"
        added.set_defaults(run=partial(commands.ask, command))
        return added.add_argument

    asking("info", commands.info, "who the server is, what it speaks and can do, and its instructions")
    asking("ping", commands.ping, "ask whether the server answers, and how fast")
    request = asking("request", commands.request, "send any request, and show its result as JSON")
    request("method", help="such as tools/list, or one of an extension")
    request("params", nargs="?", metavar="JSON", help="its params, as a JSON object")
    asking("tools", commands.tools, "list the tools")
    call = asking("call", commands.call, "call a tool")
    call("name", help="of the tool")
    call("arguments", nargs="*", metavar="key=value", help="an argument; the value as JSON, or a text")
    call("--json-args", metavar="JSON", help="arguments as a JSON object")
    call("--task", action="store_true", help="as a task: its id and its states are told on stderr")
    task = asking("task", commands.task, "look at a task, wait for its result, give it up; or list yours")
    task("action", choices=["get", "result", "cancel", "list"], help="what is wanted")
    task("id", nargs="?", help="of the task")
    asking("resources", commands.resources, "list the resources and templates")
    asking("read", commands.read, "read a resource")("uri", help="of the resource")
    asking("prompts", commands.prompts, "list the prompts")
    prompt = asking("prompt", commands.prompt, "get a prompt")
    prompt("name", help="of the prompt")
    prompt("arguments", nargs="*", metavar="key=value", help="an argument")
    complete = asking("complete", commands.complete, "ask what an argument could be")
    complete("ref", metavar="prompt:NAME|URI", help="a prompt, or the URI template of a resource")
    complete("argument", help="the name of its argument")
    complete("value", help="what was typed so far")
    listen = asking("listen", commands.listen, "be told of changes, until Ctrl-C; of all lists, if nothing is chosen")
    listen("uri", nargs="*", help="a resource whose changes are wanted")
    for name in ("tools", "prompts", "resources"):
        listen(f"--{name}", action="store_true", help=f"changes of the list of {name}")
    listen("--count", type=number, metavar="N", help="end after so many changes")

    # The others.
    def other(name: str, run: Any, about: str, *parents: argparse.ArgumentParser) -> Callable[..., Any]:
        added = names.add_parser(name, parents=parents, help=about)
        added.set_defaults(run=run)
        return added.add_argument

    demo = other(
        "demo", commands.demo, "a whole conversation with a server, told as it happens", revision, tracing, full
    )
    demo("--http", action="store_true", help="over HTTP, and not over stdio")
    spec = "what the specification's rows say of a method, or all methods"
    other("spec", commands.spec, spec, revision)("method", nargs="?", help="such as tools/call; all, if left out")
    serve = other("serve", commands.serve, "run the server in a Python file, over stdio or HTTP", tracing)
    serve("file", metavar="FILE[:OBJECT]", help='OBJECT is "server" unless given')
    serve("--http", action="store_true", help="over HTTP, until Ctrl-C; prints the URL on stderr")
    serve("--host", default="127.0.0.1", help="with --http: where to listen (127.0.0.1)")
    serve("--port", type=port, default=8000, metavar="P", help="with --http (8000); 0 takes a free one")
    serve("--path", default="/mcp", help="with --http: of the endpoint (/mcp)")
    serve("--sse-path", metavar="PATH", help="with --http: also HTTP+SSE of 2024-11-05, such as /sse")
    host = other("host", hosting, "a host for the servers of a file: a prompt, or one call")
    host("config", metavar="CONFIG", help="a JSON file with mcpServers")
    host("--list", action="store_true", help="show what would be started, and start nothing")
    host("--call", metavar="SERVER/TOOL", help="call one tool; what no rule allows is denied")
    host("arguments", nargs="*", metavar="key=value", help="with --call: an argument; the value as JSON, or a text")
    host("--json", action="store_true", help="with --call: the whole result as JSON")
    for word in ("allow", "ask", "deny"):
        kinds = f"a rule: {word} what fits, such as tool:files/read_*; --deny before --ask before --allow"
        host(f"--{word}", action="append", default=[], metavar="KIND:PATTERN", help=kinds)
    host("--root", action="append", default=[], metavar="PATH", help="a folder that servers may be told of")
    host("--trust", action="append", default=[], metavar="NAME", help="a server whose hints are believed")
    host("--audit", metavar="FILE", help="append who decided what, as JSON Lines")
    host("--trace", metavar="FOLDER", help="record the traffic of each server")
    host("--timeout", type=seconds, default=60.0, metavar="S", help="seconds for each call (60)")
    narrate = other("narrate", commands.narrated, "tell a recorded trace", full)
    narrate("file", help="the trace; - for standard input")
    narrate("--follow", action="store_true", help="go on as the file grows, until Ctrl-C")
    about = "which sentences of the specification a conversation breaks: recorded, or passing through here"
    check = other("check", _check, about, revision, tracing)
    check("file", nargs="?", help="the trace; - for standard input")
    check("--http", metavar="URL", help="stand between a client and the server at this URL, until Ctrl-C")
    check("--port", type=port, default=0, metavar="P", help="with --http: where to listen (a free port)")
    check("--report", metavar="FILE", help="write the findings there, and not to standard output")
    check("--format", choices=["text", "json"], default="text", help="of the findings (text)")
    check("--level", choices=["must", "should"], default="should", help="what to report (should: both)")
    check("--hints", action="store_true", help="also what time, taste or a race decides")
    check("--role", choices=["client", "server"], help="only what this side has done")
    check("--strict", action="store_true", help="exit with 3 when something was found")
    check("--coverage", action="store_true", help="how often each rule was asked")
    check("--list", action="store_true", help="the rules and their sentences; nothing is judged")
    draw = other("draw", partial(_pictured, "draw"), "a recorded conversation as a sequence diagram")
    draw("file", help="the trace; - for standard input")
    draw("--format", choices=["svg", "mermaid"], default="mermaid", help="(mermaid)")
    draw("--from", dest="first", type=number, default=1, metavar="N", help="the first event")
    draw("--to", dest="last", type=number, metavar="N", help="the last event")
    draw("--http", action="store_true", help="also what HTTP does without a message")
    draw("--all", action="store_true", help="of Mermaid, more arrows than GitHub draws")
    draw("-o", "--output", metavar="FILE", help="where to write (standard output)")
    show = other("show", partial(_pictured, "show"), "a recorded conversation as one page, to be opened in a browser")
    show("file", help="the trace; - for standard input")
    show("-o", "--output", metavar="FILE", help="where to write (standard output)")
    return parser


def hosting(args: argparse.Namespace) -> Exit:
    """`host`, whose module only this command needs."""
    from mcp_ref.cli.host import host

    return host(args)


def _pictured(what: str, args: argparse.Namespace) -> Exit:
    from mcp_ref.cli import pictures

    return pictures.draw(args) if what == "draw" else pictures.show(args)


def _check(args: argparse.Namespace) -> Exit:
    from mcp_ref.cli import check

    return check.run(args)


# argparse says "invalid seconds value" where this is not a number: hence the names of these functions.


def port(text: str) -> int:
    if not 0 <= (number := int(text)) < 65536:
        raise argparse.ArgumentTypeError("a number from 0 to 65535")
    return number


def number(text: str) -> int:
    if (count := int(text)) < 1:
        raise argparse.ArgumentTypeError("a number from 1 on")
    return count


def seconds(text: str) -> float:
    if not 0 < (number := float(text)) < 1e9:
        raise argparse.ArgumentTypeError("a number of seconds above 0")
    return number
