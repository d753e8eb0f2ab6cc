"""The commands and their options, as a table, and the parser that is made from it.

Not here:  what the commands do (lab/cli/commands, lab/cli/host, lab/cli/check, lab/cli/contracts, lab/cli/replay,
           lab/cli/pictures); running one (cli)

A row is a command: its name, the function that does it, one line about it, an example, and its words and options.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from mcp_ref import REVISIONS, __version__
from mcp_ref.lab.cli import commands

# -- kinds of values: argparse says "invalid seconds value" where this is not a number, hence the names


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


# -- what a row is made of


class Argument(NamedTuple):
    """A word or an option, as argparse takes it."""

    names: tuple[str, ...]
    details: dict[str, Any]


def word(name: str, help: str, **more: Any) -> Argument:
    """Return a positional argument: `word("uri", ...)`."""
    return Argument((name,), {"help": help, **more})


def flag(name: str, help: str) -> Argument:
    """Return an option without a value: `flag("--json", ...)`."""
    return Argument((name,), {"help": help, "action": "store_true"})


def option(names: str, metavar: str | None, help: str, **more: Any) -> Argument:
    """Return an option with a value: `option("-o --output", "FILE", ...)`."""
    return Argument(tuple(names.split()), {"help": help, "metavar": metavar, **more})


def options(name: str, metavar: str, help: str) -> Argument:
    """Return an option that may be given several times."""
    return option(name, metavar, help, action="append", default=[])


class Row(NamedTuple):
    """A command."""

    name: str
    run: Callable[..., Any]
    about: str
    example: str  # what comes after the name
    arguments: tuple[Argument, ...] = ()
    server: bool = False  # whether it asks the server after `--`

    def shown(self) -> str:
        """Return the example, as it is typed."""
        server = "-- python weather.py" if self.server and "--" not in self.example.split() else ""
        return " ".join(["mcp-ref", self.name, *self.example.split(), *server.split()])


def later(module: str, function: str) -> Callable[[argparse.Namespace], commands.Exit]:
    """Return a command whose module is imported only when it runs."""

    def run(args: argparse.Namespace) -> commands.Exit:
        code: commands.Exit = getattr(import_module(f"mcp_ref.lab.cli.{module}"), function)(args)
        return code

    return run


# -- the table

_REVISION = option("--revision", None, "the revision to speak, or to show", choices=list(REVISIONS))
_TRACING = (
    option("--trace", "FILE", "record the traffic, as JSON Lines"),
    flag("--exact", "with --trace: hide nothing, not even secrets"),
)
_FULL = flag("--full", "messages in full")
_PAIR = "an argument; the value as JSON, or a text"
_TRACE_FILE = word("file", "the trace; - for standard input")
_OUTPUT = option("-o --output", "FILE", "where to write (standard output)")
_RULE: Final = "a rule: {} what fits, such as tool:files/read_*; --deny before --ask before --allow"

_ASKING: Final = (
    _REVISION,
    *_TRACING,
    _FULL,
    flag("--json", "the whole result as JSON"),
    option("--timeout", "S", "seconds for opening, and for each request (60)", type=seconds, default=60.0),
    options("--header", "NAME:VALUE", "for a URL: a header of every request"),
    option("--token-env", "NAME", "for a URL: the environment variable that holds a bearer token"),
    flag("--login", "for a URL: log in with the browser, if the server asks for it"),
    option("--login-store", "FOLDER", "log in likewise, and keep the login in a folder of your own"),
    options("--env", "NAME[=VALUE]", "for a command: a variable that it gets"),
    flag("--inherit", "for a command: it gets the whole environment"),
    options(
        "--answer", "KEY=VALUE", "a field of a form that the server shows; at a terminal you are asked for the others"
    ),
    option("--config", "FILE", "instead of -- and a server: a JSON file with mcpServers"),
    option("--server", "NAME", "with --config: which of its servers, if it has several"),
    flag("--narrate", "explain the traffic on stderr"),
)


def _asking(name: str, run: Callable[..., Any], about: str, *arguments: Argument, example: str = "") -> Row:
    """Return a command that asks a server."""
    return Row(name, partial(commands.ask, run), about, example, _ASKING + arguments, server=True)


GROUPS: Final = {
    "try": (
        Row("demo", commands.demo, "a conversation with a server, explained message by message", "--http", (
            _REVISION, *_TRACING, _FULL,
            flag("--all", "the whole conversation, and not one call alone"),
            flag("--http", "over HTTP, and not over stdio"),
            flag("--step", "stop after each scene until Enter, at a terminal; the conversation is over by then"),
        )),
        Row("spec", commands.spec, "what the specification says of a method, or all methods", "tools/call", (
            _REVISION,
            word("method", "such as tools/call; all, if left out", nargs="?"),
        )),
        Row("diff", later("diff", "run"), "what changed between two revisions", "2025-11-25 2026-07-28", (
            word("old", "a revision", metavar="OLD"),
            word("new", "another one", metavar="NEW"),
            option("--traffic", "FILE.py", "in what this program says and hears, call by call; without FILE.py, in the "
                   "demo. It is run once for each revision as python FILE.py REVISION TRACE: to speak that revision, "
                   "and to record at that path, as by Client(target, revision=sys.argv[1], trace=sys.argv[2])",
                   nargs="?", const=""),
            option("--timeout", "S", "with --traffic: seconds for each run (60)", type=seconds, default=60.0),
            option("--method", "NAME", "of this method alone, such as tools/call, each member with what it means"),
            option("--page", "PATH", "of this page alone, such as server/tools, likewise"),
            option("--format", None, "(text)", choices=["text", "markdown", "html"], default="text"),
        )),
        Row("learn", later("learn", "run"), "exercises: mend the one fault of a program, and check it", "3", (
            word("number", "of the exercise; all are listed, if left out; alone it puts the program into this folder",
                 nargs="?", type=int),
            flag("--check", "mark the program in this folder"),
            flag("--watch", "likewise, and again at each save, until Ctrl-C; without a number one exercise after the "
                 "other, from the first that is not solved"),
            flag("--hint", "the next of two hints"),
            flag("--solution", "ours, once the exercise is solved"),
            flag("--give-up", "with --solution: also before"),
            flag("--again", "start over: the program as it was, and yours beside it under another name"),
        )),
        Row("serve", commands.serve, "run the server in a Python file, over stdio or HTTP", "weather.py --http", (
            *_TRACING,
            word("file", 'OBJECT is "server" unless given', metavar="FILE[:OBJECT]"),
            flag("--http", "over HTTP, until Ctrl-C; prints the URL on stderr"),
            option("--host", None, "with --http: where to listen (127.0.0.1)", default="127.0.0.1"),
            option("--port", "P", "with --http (8000); 0 takes a free one", type=port, default=8000),
            option("--path", None, "with --http: the path of the endpoint (/mcp)", default="/mcp"),
            option("--sse-path", "PATH", "with --http: also HTTP+SSE of 2024-11-05, such as /sse"),
        )),
    ),
    "call": (
        _asking("info", commands.info, "who the server is, what it speaks and can do, and its instructions"),
        _asking("ping", commands.ping, "ask whether the server answers, and how fast"),
        _asking("tools", commands.tools, "list the tools"),
        _asking("call", commands.call, "call a tool",
            word("name", "of the tool"),
            word("arguments", _PAIR, nargs="*", metavar="key=value"),
            option("--json-args", "JSON", "arguments as a JSON object"),
            flag("--task", "as a task: its id and its states go to stderr"),
            example="forecast city=Lisbon",
        ),
        _asking("task", commands.task, "look at a task, wait for its result, give it up; or list yours",
            word("action", "what is wanted; 2025-11-25 alone has a list", choices=["get", "result", "cancel", "list"]),
            word("id", "of the task", nargs="?"),
            example="list --revision 2025-11-25 -- https://example.com/mcp",
        ),
        _asking("resources", commands.resources, "list the resources and templates"),
        _asking("read", commands.read, "read a resource", word("uri", "of the resource"), example="weather://stations"),
        _asking("prompts", commands.prompts, "list the prompts"),
        _asking("prompt", commands.prompt, "get a prompt",
            word("name", "of the prompt"),
            word("arguments", "an argument", nargs="*", metavar="key=value"),
            example="compare one=Lisbon other=Oslo",
        ),
        _asking("complete", commands.complete, "ask what an argument could be",
            word("ref", "a prompt, or the URI template of a resource", metavar="prompt:NAME|URI"),
            word("argument", "the name of its argument"),
            word("value", "what was typed so far"),
            example="prompt:compare one Li",
        ),
        _asking("request", commands.request, "send any request, and show its result as JSON",
            word("method", "such as tools/list, or one of an extension"),
            word("params", "its params, as a JSON object", nargs="?", metavar="JSON"),
            example="tools/list",
        ),
        Row("host", later("host", "host"), "a host for the servers of a file: a prompt, or one call", "mcp.json", (
            word("config", "a JSON file with mcpServers", metavar="CONFIG"),
            flag("--list", "show what would be started, and start nothing"),
            option("--call", "SERVER/TOOL", "call one tool; what no rule allows is denied"),
            word("arguments", f"with --call: {_PAIR}", nargs="*", metavar="key=value"),
            flag("--json", "with --call: the whole result as JSON"),
            *(options(f"--{each}", "KIND:PATTERN", _RULE.format(each)) for each in ("allow", "ask", "deny")),
            options("--root", "PATH", "a folder that servers may be told of"),
            options("--trust", "NAME", "a server whose hints are believed"),
            option("--audit", "FILE", "append who decided what, as JSON Lines"),
            option("--trace", "FOLDER", "record the traffic of each server"),
            option("--timeout", "S", "seconds for each call (60)", type=seconds, default=60.0),
        )),
        Row("window", later("window", "window"), "see servers, their apps and the traffic in the browser", "", (
            option("--config", "FILE", "beside, or instead of, -- and a server: a JSON file with mcpServers"),
            option("--port", "N", "of the page; 0 takes a free one (0)", type=port, default=0),
            flag("--no-browser", "print the address, and open nothing"),
        ), server=True),
    ),
    "watch": (
        _asking("listen", commands.listen, "be told of changes, until Ctrl-C; of all lists, if nothing is chosen",
            word("uri", "a resource whose changes are wanted", nargs="*"),
            *(flag(f"--{name}", f"changes of the list of {name}") for name in ("tools", "prompts", "resources")),
            option("--count", "N", "end after so many changes", type=number),
            example="weather://alerts",
        ),
        Row("narrate", commands.narrated, "explain a recorded trace", "trace.jsonl", (
            _FULL,
            _TRACE_FILE,
            flag("--follow", "go on as the file grows, until Ctrl-C"),
        )),
        Row("draw", later("pictures", "draw"), "a recorded conversation as a sequence diagram", "trace.jsonl", (
            _TRACE_FILE,
            option("--format", None, "(mermaid)", choices=["svg", "mermaid"], default="mermaid"),
            option("--from", "N", "the first event", dest="first", type=number, default=1),
            option("--to", "N", "the last event", dest="last", type=number),
            flag("--http", "also what HTTP does without a message"),
            flag("--all", "with Mermaid: more arrows than GitHub draws"),
            _OUTPUT,
        )),
        Row("show", later("pictures", "show"), "a recorded conversation as one page, to be opened in a browser",
            "trace.jsonl -o trace.html", (_TRACE_FILE, _OUTPUT)),
    ),
    "judge": (
        Row("check", later("check", "run"),
            "which sentences of the specification a conversation breaks: recorded, or passing through here",
            "trace.jsonl", (
            _REVISION, *_TRACING,
            word("files", "traces, each by itself; - for standard input", nargs="*", metavar="TRACE"),
            option("--http", "URL", "stand between a client and the server at this URL, until Ctrl-C"),
            option("--port", "P", "with --http: where to listen (a free port)", type=port, default=0),
            option("--report", "FILE", "write the findings there, and not to standard output"),
            option("--format", None, "of the findings (text)", choices=["text", "json", "junit", "sarif"],
                   default="text"),
            options("--ignore", "RULE", "leave out what this rule finds"),
            option("--baseline", "FILE", "leave out what an earlier --format json, in this file, has found"),
            option("--level", None, "what to report (should: both)", choices=["must", "should"], default="should"),
            flag("--hints", "also what time, taste or a race decides"),
            option("--role", None, "only what this side has done; an app, and its host",
                   choices=["client", "server", "view", "host"]),
            flag("--strict", "exit with 3 when something was found, with 6 when the revision of a message is unknown; "
                 "without it with 0. A trace without a message, and one whose last line is cut off, exits with 6"),
            flag("--coverage", "how often each sentence of the revisions spoken was asked of each side, and how many "
                 "were"),
            flag("--list", "the rules and their sentences; nothing is judged"),
        )),
        Row("probe", later("probe", "run"), "drive a server through its duties, and say which it does",
            "-- python weather.py", (
            word("url", "of a server, which may also come after --", nargs="?", metavar="URL"),
            option("--revision", None, "the revision to speak; all of them; or the newest of each era (left out)",
                   choices=[*REVISIONS, "all"]),
            options("--only", "WORD", "a case, a group of them, a page or a sentence of the specification"),
            flag("--list", "the cases; nothing is asked"),
            flag("--client", "the command after -- is a client, and {target} in it its server"),
            flag("--http", "with --client: {target} is a URL, and not a command"),
            option("--patience", "S", "with --client: seconds that it may take to give up where nobody answers; else "
                   "that is not asked", type=seconds, default=0.0),
            option("--timeout", "S", "seconds for each answer (5); six times as long for the first of a process",
                   type=seconds, default=5.0),
            flag("--strict", "exit with 3 also when a SHOULD is broken"),
            option("--expect", "FILE", "known failures, a line each: CASE REVISION REASON; one that passes fails"),
            option("--allow-calls", "PATTERN", "call tools of such names; without a pattern those that call themselves "
                   "read-only", nargs="?", const="*"),
            flag("--allow-reads", "read listed resources"),
            option("--slow-tool", "NAME", "a tool that takes long, to be called and cancelled"),
            option("--call", "FILE", 'calls to make: a line each, {"name": ..., "arguments": {...}}'),
            flag("--heavy", "send what is large to a server on another machine too"),
            option("--seed", "N", "of the names that nothing has", type=int),
            options("--header", "NAME:VALUE", "for a URL: a header of every request"),
            flag("--inherit", "for a command: it gets the whole environment"),
            option("--trace", "FILE", "record the traffic, as it is"),
            option("--format", None, "of the report (text)",
                   choices=["text", "json", "junit", "sarif", "markdown"], default="text"),
            option("--report", "FILE", "write the report there, and not to standard output"),
        )),
        Row("replay", later("replay", "run"), "a recorded server that answers, or a recorded client that asks again",
            "trace.jsonl --http", (
            word("file", "the trace", metavar="TRACE"),
            flag("--http", "on HTTP, until Ctrl-C; prints the URL on stderr"),
            option("--port", "P", "with --http: where to listen (a free port)", type=port, default=0),
            flag("--strict", "as a server: requests come in the recorded order"),
            flag("--against", "play the recorded client to the server after --, and compare the answers; 3 if they "
                 "differ"),
            options("--ignore", "MEMBER", "with --against: a member that is not compared, wherever it stands"),
            option("--timeout", "S", "with --against: seconds for each answer (10)", type=seconds, default=10.0),
        )),
        Row("contract", later("contracts", "run"),
            "what a server promises, as a file; and what a change of it breaks", "save weather.json", _ASKING + (
            word("action", "save a contract, or compare two", choices=["save", "diff"]),
            word("file", "of the contract"),
            word("other", "with diff: another contract, instead of -- and a server", nargs="?"),
            flag("--strict", "with diff: a change that needs a look fails, too"),
            option("--format", None, "of what diff finds (text)",
                   choices=["text", "json", "junit", "sarif", "markdown"], default="text"),
        ), server=True),
    ),
}  # fmt: skip
"""The commands by their use. An example of one that asks a server goes on with `-- python weather.py`, or its own."""

_SERVER: Final = "-- COMMAND [ARGS...]"
_EPILOG: Final = "A server comes after --: the command that starts it, or its URL. Options: mcp-ref COMMAND --help."


def parser() -> argparse.ArgumentParser:
    """Return the parser of the words before `--`; `run` of its result is the function of the command."""
    plain = argparse.RawDescriptionHelpFormatter
    usage = "mcp-ref [-h] [--version] COMMAND ..."
    lines = ["The Model Context Protocol, to be seen and used."]
    for use, rows in GROUPS.items():
        lines += ["", f"{use}:"]
        for row in rows:
            lines += [f"  {row.name:<10} {row.about}", f"  {'':<10}   {row.shown()}"]
    top = argparse.ArgumentParser("mcp-ref", usage, "\n".join(lines), _EPILOG, formatter_class=plain)
    top.add_argument("--version", action="version", version=f"mcp-ref {__version__}")
    names = top.add_subparsers(prog="mcp-ref", required=True, metavar="COMMAND", help=argparse.SUPPRESS)
    for row in itertools.chain(*GROUPS.values()):
        epilog = f"example: {row.shown()}"
        added = names.add_parser(row.name, description=row.about, epilog=epilog, formatter_class=plain)
        for each in row.arguments:
            added.add_argument(*each.names, **each.details)
        added.set_defaults(run=row.run)
        words = added.format_usage().removeprefix("usage: ").rstrip()
        if row.server:
            added.usage = f"{words} {_SERVER}"
            added.epilog = f"{epilog}\nor with a URL after --, or without -- and with --config FILE"
        else:
            added.usage = {
                # What comes right after --traffic is its file.
                "diff": words.removesuffix("OLD NEW").rstrip().replace("diff", "diff OLD NEW", 1),
                "check": f"{words}\n       mcp-ref check [options] {_SERVER}",
                "replay": f"{words}\n       mcp-ref replay [options] TRACE --against {_SERVER}, or a URL",
            }.get(row.name)
    return top
