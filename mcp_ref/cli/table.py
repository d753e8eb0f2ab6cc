"""The commands and their options, as a table, and the parser that is made from it.

Not here:  what the commands do (cli/commands, cli/host, cli/check, cli/pictures); running one (cli)

A row is a command: its name, the function that does it, one line about it, and its words and options.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from mcp_ref import __version__
from mcp_ref.cli import commands
from mcp_ref.revisions import REVISIONS

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
    """What stands in its place without a name: `word("uri", ...)`."""
    return Argument((name,), {"help": help, **more})


def flag(name: str, help: str) -> Argument:
    """An option without a value: `flag("--json", ...)`."""
    return Argument((name,), {"help": help, "action": "store_true"})


def option(names: str, metavar: str | None, help: str, **more: Any) -> Argument:
    """An option with a value: `option("-o --output", "FILE", ...)`."""
    return Argument(tuple(names.split()), {"help": help, "metavar": metavar, **more})


def options(name: str, metavar: str, help: str) -> Argument:
    """An option that may be given several times."""
    return option(name, metavar, help, action="append", default=[])


class Row(NamedTuple):
    """A command."""

    name: str
    run: Callable[..., Any]
    about: str
    arguments: tuple[Argument, ...] = ()


def later(module: str, function: str) -> Callable[[argparse.Namespace], commands.Exit]:
    """A command whose module is imported only when it runs."""

    def run(args: argparse.Namespace) -> commands.Exit:
        code: commands.Exit = getattr(import_module(f"mcp_ref.cli.{module}"), function)(args)
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
    option("--timeout", "S", "seconds for each request (60)", type=seconds, default=60.0),
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
    flag("--narrate", "tell the traffic on stderr"),
)

ASKING: Final = (
    Row("info", commands.info, "who the server is, what it speaks and can do, and its instructions"),
    Row("ping", commands.ping, "ask whether the server answers, and how fast"),
    Row("request", commands.request, "send any request, and show its result as JSON", (
        word("method", "such as tools/list, or one of an extension"),
        word("params", "its params, as a JSON object", nargs="?", metavar="JSON"),
    )),
    Row("tools", commands.tools, "list the tools"),
    Row("call", commands.call, "call a tool", (
        word("name", "of the tool"),
        word("arguments", _PAIR, nargs="*", metavar="key=value"),
        option("--json-args", "JSON", "arguments as a JSON object"),
        flag("--task", "as a task: its id and its states are told on stderr"),
    )),
    Row("task", commands.task, "look at a task, wait for its result, give it up; or list yours", (
        word("action", "what is wanted", choices=["get", "result", "cancel", "list"]),
        word("id", "of the task", nargs="?"),
    )),
    Row("resources", commands.resources, "list the resources and templates"),
    Row("read", commands.read, "read a resource", (word("uri", "of the resource"),)),
    Row("prompts", commands.prompts, "list the prompts"),
    Row("prompt", commands.prompt, "get a prompt", (
        word("name", "of the prompt"),
        word("arguments", "an argument", nargs="*", metavar="key=value"),
    )),
    Row("complete", commands.complete, "ask what an argument could be", (
        word("ref", "a prompt, or the URI template of a resource", metavar="prompt:NAME|URI"),
        word("argument", "the name of its argument"),
        word("value", "what was typed so far"),
    )),
    Row("listen", commands.listen, "be told of changes, until Ctrl-C; of all lists, if nothing is chosen", (
        word("uri", "a resource whose changes are wanted", nargs="*"),
        *(flag(f"--{name}", f"changes of the list of {name}") for name in ("tools", "prompts", "resources")),
        option("--count", "N", "end after so many changes", type=number),
    )),
)  # fmt: skip
"""The commands that end with `-- COMMAND ARGS...`, the server to start, or with `-- URL`; each has `_ASKING` too."""

OTHERS: Final = (
    Row("demo", commands.demo, "a conversation with a server, told as it happens", (
        _REVISION, *_TRACING, _FULL,
        flag("--all", "the whole conversation, and not one call alone"),
        flag("--http", "over HTTP, and not over stdio"),
    )),
    Row("spec", commands.spec, "what the specification's rows say of a method, or all methods", (
        _REVISION,
        word("method", "such as tools/call; all, if left out", nargs="?"),
    )),
    Row("serve", commands.serve, "run the server in a Python file, over stdio or HTTP", (
        *_TRACING,
        word("file", 'OBJECT is "server" unless given', metavar="FILE[:OBJECT]"),
        flag("--http", "over HTTP, until Ctrl-C; prints the URL on stderr"),
        option("--host", None, "with --http: where to listen (127.0.0.1)", default="127.0.0.1"),
        option("--port", "P", "with --http (8000); 0 takes a free one", type=port, default=8000),
        option("--path", None, "with --http: of the endpoint (/mcp)", default="/mcp"),
        option("--sse-path", "PATH", "with --http: also HTTP+SSE of 2024-11-05, such as /sse"),
    )),
    Row("host", later("host", "host"), "a host for the servers of a file: a prompt, or one call", (
        word("config", "a JSON file with mcpServers", metavar="CONFIG"),
        flag("--list", "show what would be started, and start nothing"),
        option("--call", "SERVER/TOOL", "call one tool; what no rule allows is denied"),
        word("arguments", f"with --call: {_PAIR}", nargs="*", metavar="key=value"),
        flag("--json", "with --call: the whole result as JSON"),
        *(options(f"--{decision}", "KIND:PATTERN", _RULE.format(decision)) for decision in ("allow", "ask", "deny")),
        options("--root", "PATH", "a folder that servers may be told of"),
        options("--trust", "NAME", "a server whose hints are believed"),
        option("--audit", "FILE", "append who decided what, as JSON Lines"),
        option("--trace", "FOLDER", "record the traffic of each server"),
        option("--timeout", "S", "seconds for each call (60)", type=seconds, default=60.0),
    )),
    Row("narrate", commands.narrated, "tell a recorded trace", (
        _FULL,
        _TRACE_FILE,
        flag("--follow", "go on as the file grows, until Ctrl-C"),
    )),
    Row("check", later("check", "run"),
        "which sentences of the specification a conversation breaks: recorded, or passing through here", (
        _REVISION, *_TRACING,
        _TRACE_FILE._replace(details=_TRACE_FILE.details | {"nargs": "?"}),
        option("--http", "URL", "stand between a client and the server at this URL, until Ctrl-C"),
        option("--port", "P", "with --http: where to listen (a free port)", type=port, default=0),
        option("--report", "FILE", "write the findings there, and not to standard output"),
        option("--format", None, "of the findings (text)", choices=["text", "json"], default="text"),
        option("--level", None, "what to report (should: both)", choices=["must", "should"], default="should"),
        flag("--hints", "also what time, taste or a race decides"),
        option("--role", None, "only what this side has done", choices=["client", "server"]),
        flag("--strict", "exit with 3 when something was found, with 6 when there was no message, or the revision of "
             "one is unknown; without it with 0. A trace whose last line is cut off is judged, and exits with 6"),
        flag("--coverage", "how often each sentence of the revision spoken was asked of each side"),
        flag("--list", "the rules and their sentences; nothing is judged"),
    )),
    Row("draw", later("pictures", "draw"), "a recorded conversation as a sequence diagram", (
        _TRACE_FILE,
        option("--format", None, "(mermaid)", choices=["svg", "mermaid"], default="mermaid"),
        option("--from", "N", "the first event", dest="first", type=number, default=1),
        option("--to", "N", "the last event", dest="last", type=number),
        flag("--http", "also what HTTP does without a message"),
        flag("--all", "of Mermaid, more arrows than GitHub draws"),
        _OUTPUT,
    )),
    Row("show", later("pictures", "show"), "a recorded conversation as one page, to be opened in a browser", (
        _TRACE_FILE,
        _OUTPUT,
    )),
)  # fmt: skip
"""The commands that ask nobody, or start what they need themselves."""


def parser() -> argparse.ArgumentParser:
    """What parses the words before `--`; `run` of what it gives is the function that does the command."""
    top = argparse.ArgumentParser(prog="mcp-ref", description="The Model Context Protocol, to be seen and used.")
    top.add_argument("--version", action="version", version=f"mcp-ref {__version__}")
    names = top.add_subparsers(required=True, metavar="COMMAND")
    for row in (*ASKING, *OTHERS):
        added, arguments = names.add_parser(row.name, help=row.about), row.arguments
        added.set_defaults(run=row.run)
        if row in ASKING:
            arguments = _ASKING + arguments
            added.description = row.about
            added.epilog = (
                f"as in: mcp-ref {row.name} [options] ... -- COMMAND [ARGS...], or -- URL, or with --config FILE"
            )
            added.set_defaults(run=partial(commands.ask, row.run))
        for each in arguments:
            added.add_argument(*each.names, **each.details)
    return top
