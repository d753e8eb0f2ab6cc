"""The commands of the command line: each takes what was parsed and returns an exit code.

Spec:      server/tools, server/resources, server/prompts, server/utilities/completion, basic/patterns/subscriptions:
           what the commands ask
Not here:  the words and options of the command line (cli); how results look (lab/cli/render)
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from enum import IntEnum
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, cast

from mcp_ref import (
    Client,
    Command,
    ErrorResponse,
    JsonObject,
    MethodNotFound,
    Server,
    TaskHandle,
    TransportClosed,
    Url,
    find_revision,
    prompt_ref,
    resource_ref,
)
from mcp_ref.facts import SchemaRefused, checked_headers, checked_url, prepare, read_entries
from mcp_ref.lab.cli import describe, render
from mcp_ref.lab.cli.form import Form
from mcp_ref.lab.judge.narrate import METHODS, narrate, narrator_for
from mcp_ref.recording.record import Recorder, Sink, TraceEvent, bounded, events_of

_LOOK_INTERVAL: Final = 5.0  # without a change for so long, a session is asked whether it is still there
_SLOW: Final = 1.5  # seconds after which a server that starts is said to be slow
_FOLLOW_INTERVAL: Final = 0.2
_WAITING: Final = "waiting for changes; Ctrl-C ends it"


class Exit(IntEnum):
    """The exit codes of a command."""

    OK, TOOL_FAILED, USAGE, PROTOCOL, CONNECTION, REFUSED, UNJUDGED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130


class UsageError(Exception):
    """The command line asks for what cannot be done; the text says why."""


# -- the commands that ask a server: each gives the result, for `--json`, and the lines for people -----------------

Lines = Iterable[str | bytes]
Asking = Callable[[Client, argparse.Namespace], tuple[Any, Lines] | None]


def info(client: Client, args: argparse.Namespace) -> tuple[Any, Lines]:
    facts: JsonObject = {"protocolVersion": client.revision.name, "serverInfo": client.server_info}
    if client.revision.era == "stateless":
        facts["supportedVersions"] = client.discover()["supportedVersions"]
    facts |= {"capabilities": client.server_capabilities, "instructions": client.instructions}
    return facts, render.facts(facts)


def ping(client: Client, args: argparse.Namespace) -> tuple[Any, Lines]:
    began = time.monotonic()
    # The stateless era has no ping; this asks as little of a server.
    asked = "ping" if client.revision.era == "session" else "server/discover"
    client.request(asked)
    took = (time.monotonic() - began) * 1000
    return {"method": asked, "milliseconds": took}, [f"{asked} was answered after {took:.1f} ms"]


def request(client: Client, args: argparse.Namespace) -> tuple[Any, Lines]:
    try:
        params = json.loads(args.params) if args.params else None
    except ValueError as problem:
        raise UsageError(f"the params are not JSON: {problem}") from None
    if not isinstance(params, dict | None):
        raise UsageError("the params must be a JSON object")
    result = client.request(args.method, params)
    return result, [render.as_json(result)]


def _declared(client: Client, feature: str) -> bool:
    """Return whether there is anything to list; if not, that is said, and the list is empty."""
    if feature in client.server_capabilities:
        return True
    render.note(f"the server has no {feature}")
    return False


def tools(client: Client, args: argparse.Namespace) -> tuple[Any, Lines]:
    found = client.list_tools() if _declared(client, "tools") else []
    return {"tools": found}, render.entries(found)


def call(client: Client, args: argparse.Namespace) -> tuple[Any, Lines]:
    # Listed first for the types of the parameters, and so that structured content is checked against its schema.
    schemas = {tool["name"]: tool["inputSchema"] for tool in client.list_tools()}
    try:
        arguments = json.loads(args.json_args or "{}")
    except ValueError as problem:
        raise UsageError(f"--json-args: {problem}") from None
    if not isinstance(arguments, dict):
        raise UsageError("--json-args must be a JSON object")
    arguments |= arguments_of(args.arguments, schemas.get(args.name, {}))
    if args.name not in schemas:
        render.note(f"the server does not list a tool {args.name!r}{render.alike(args.name, schemas)}")
    if args.task:
        made = client.call_tool_as_task(args.name, arguments)
        render.note(f"task {made.task_id}")
        return _followed(made, args)
    with render.Progress() as progress:
        result = client.call_tool(args.name, arguments, on_progress=progress)
    return result, render.tool_result(result)


def _followed(made: TaskHandle, args: argparse.Namespace) -> tuple[Any, Lines]:
    """Return the result of a task; its states are told on stderr until then."""
    for state in made:
        render.note(f"{state['status']}{': ' + state['statusMessage'] if 'statusMessage' in state else ''}")
    result = cast(JsonObject, made.result(args.timeout))
    return result, render.tool_result(result)


def task(client: Client, args: argparse.Namespace) -> tuple[Any, Lines]:
    if args.action == "list":
        found = client.list_tasks()
        lines = [f"{each['taskId']}  {each['status']}  {each.get('statusMessage', '')}".rstrip() for each in found]
        return {"tasks": found}, lines
    if args.id is None:
        raise UsageError(f"task {args.action} needs the id of a task")
    known = client.task(args.id)
    if args.action == "result":
        return _followed(known, args)
    if args.action == "cancel":
        known.cancel()
    state = known.status()
    return state, [render.as_json(state)]


def arguments_of(words: Iterable[str], schema: JsonObject) -> JsonObject:
    """Return what `key=value` words stand for: JSON, unless it is not, or the parameter takes the text and not the
    JSON.
    """
    arguments: JsonObject = {}
    parts = {key: schema[key] for key in ("$schema", "$defs", "definitions") if key in schema}
    for name, text in map(pair, words):
        field, arguments[name] = render.properties_of(schema).get(name, {}), text
        try:
            value = json.loads(text)
        except ValueError:
            continue
        try:
            problems = prepare(parts | {"properties": {"": field}}, what=name).problems
            # Text in quotes is JSON only where anything else would be, too.
            taken = all(not problems({"": each}) for each in ([0, {}] if isinstance(value, str) else [value]))
            keeps = not taken and not problems({"": text})
        except SchemaRefused:
            keeps = render.kind_of(field).startswith("string")
        arguments[name] = text if keeps else value
    return arguments


def resources(client: Client, args: argparse.Namespace) -> tuple[Any, Lines]:
    found, templates = [], []
    try:
        if _declared(client, "resources"):
            found = client.list_resources()
            templates = client.list_resource_templates()
    except ErrorResponse as refusal:
        # Many a server without templates does not know the request.
        if refusal.code != MethodNotFound.code:
            raise
    lines = [*render.entries(found, key="uri"), *render.entries(templates, key="uriTemplate")]
    return {"resources": found, "resourceTemplates": templates}, lines


def read(client: Client, args: argparse.Namespace) -> tuple[Any, Lines]:
    result = client.read_resource(args.uri)
    return result, render.contents(result["contents"])


def prompts(client: Client, args: argparse.Namespace) -> tuple[Any, Lines]:
    found = client.list_prompts() if _declared(client, "prompts") else []
    return {"prompts": found}, render.entries(found)


def prompt(client: Client, args: argparse.Namespace) -> tuple[Any, Lines]:
    result = client.get_prompt(args.name, dict(map(pair, args.arguments)))
    return result, render.messages(result["messages"])


def complete(client: Client, args: argparse.Namespace) -> tuple[Any, Lines]:
    kind, _, name = args.ref.partition(":")
    ref = prompt_ref(name) if kind == "prompt" else resource_ref(args.ref)
    result = client.complete(ref, args.argument, args.value)
    return result, result["completion"]["values"]


def listen(client: Client, args: argparse.Namespace) -> None:
    """Print changes as they are announced, until `--count` of them have come or the server ends it."""
    wanted = {"tools": args.tools, "prompts": args.prompts, "resources": args.resources}
    if not any((*wanted.values(), *args.uri)):
        wanted = {name: name in client.server_capabilities for name in wanted}
        if not any(wanted.values()):
            raise UsageError("the server has nothing that could change")

    def tell(method: str, params: JsonObject) -> None:
        text = json.dumps({"method": method, "params": params}, ensure_ascii=True)
        render.put([text if args.json else f"{method} {params.get('uri', '')}".rstrip()])
        sys.stdout.flush()

    if client.revision.era == "stateless":
        lists = {"tools": wanted["tools"], "prompts": wanted["prompts"], "resource_list": wanted["resources"]}
        with client.listen(**lists, resources=args.uri) as events:
            # SHOULD: say what will not be told (basic/patterns/subscriptions#acknowledgment)
            if events.refused:
                render.note(f"the server does not tell of {json.dumps(events.refused)}")
            render.note(_WAITING)
            for event in islice(events, args.count):
                tell(event.method, event.params)
        return
    # In the session era changes of lists are told unasked.
    methods = {f"notifications/{name}/list_changed" for name, on in wanted.items() if on}
    for uri in args.uri:
        client.subscribe_resource(uri)
    render.note(_WAITING)
    told = 0
    while args.count is None or told < args.count:
        try:
            method, params = args.changes.get(timeout=_LOOK_INTERVAL)
        except Empty:
            # TransportClosed if nobody is there.
            client.ping()
            continue
        if method in methods or method == "notifications/resources/updated":
            tell(method, params)
            told += 1


def ask(command: Asking, args: argparse.Namespace) -> Exit:
    """Connect to the server that the command line names, run a command with that client, and show the result."""
    target = _target(args)
    args.changes = SimpleQueue()
    answers = dict(map(pair, args.answer))
    asking = sys.stdin is not None and sys.stdin.isatty()
    sinks: list[Sink] = []
    if args.narrate:
        narrator = narrator_for(sys.stderr, full=args.full)
        sinks.append(lambda event: print(narrator.tell(event), file=sys.stderr))

    def log(params: JsonObject) -> None:
        render.note(f"[{params['level']}] {params.get('logger', 'server')}: {params['data']}")

    # A word while a slow server starts: whoever waits should know for what.
    slow = threading.Timer(_SLOW, render.note, ["the server has not answered yet; still waiting ..."])
    slow.daemon, slow.name = True, "mcp-cli-slow"
    slow.start()
    try:
        with (
            recorder_of(args, *sinks) as recorder,
            Client(
                target,
                auth=_authorization(args),
                revision=args.revision,
                tasks=command is task or getattr(args, "task", False),
                timeout=args.timeout,
                connect_timeout=args.timeout,
                elicit=Form(answers, asking=asking) if answers or asking else None,
                on_log=None if args.narrate else log,
                on_change=lambda *change: args.changes.put(change),
                trace=recorder,
            ) as client,
        ):
            slow.cancel()
            answer = command(client, args)
            if answer is None:
                return Exit.OK
            result, lines = answer
            if args.json:
                lines = [render.as_json(result)]
            render.put(lines)
        return Exit.TOOL_FAILED if result.get("isError") else Exit.OK
    finally:
        slow.cancel()


def headers_of(given: list[str]) -> dict[str, str]:
    """Return the headers that --header names."""
    if any(":" not in text for text in given):
        raise UsageError("a header must be NAME:VALUE")  # the text itself is not shown: it may be a secret
    return {name.strip(): value.strip() for name, _, value in (text.partition(":") for text in given)}


def url_of(target: Sequence[str]) -> str | None:
    """Return the URL that the words after `--` are; None for a command. Raises: ValueError: it cannot be one."""
    if not target[0].lower().startswith(("http://", "https://")):
        return None
    if len(target) > 1:
        raise UsageError(f"nothing may follow the URL of a server, such as {target[1]!r}")
    return checked_url(target[0])


def _target(args: argparse.Namespace) -> Command | Url:
    """Return the server that the command line names."""
    # What belongs to one way of naming a server is refused with the others.
    about_urls = args.header or args.token_env or args.login or args.login_store
    about_commands = args.env or args.inherit
    if args.config:
        if args.target or args.header or about_commands:
            raise UsageError("with --config, the file names the server and all its options")
        try:
            servers = read_entries(args.config)
        except (OSError, ValueError) as problem:
            raise UsageError(str(problem)) from None
        name = [*servers][0] if args.server is None and len(servers) == 1 else args.server
        if name not in servers:
            raise UsageError(f"--server must be one of: {', '.join(servers) or 'none; the file is empty'}")
        entry = servers[name]
        if entry.problem is not None:
            raise UsageError(f"{args.config}: {name}: {'; '.join([entry.problem, *entry.warnings])}")
        found: Command | Url = entry.target
        return found if isinstance(found, Url) else found._replace(stderr=render.note)
    if args.server:
        raise UsageError("--server goes with --config FILE")
    if not args.target:
        raise UsageError("which server? End the line with -- and its URL, or the command that starts it")
    try:
        if url := url_of(args.target):
            if about_commands:
                raise UsageError("--env and --inherit are for servers that a command starts")
            return Url(url, checked_headers(headers_of(args.header)))
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    if about_urls:
        raise UsageError("--header, --token-env and --login are for servers at a URL")
    if "://" in args.target[0]:
        raise UsageError(f"the URL of a server must begin with http:// or https://, not {args.target[0]!r}")
    env = dict(pair(text) for text in args.env if "=" in text)
    named = [text for text in args.env if "=" not in text]
    return Command(args.target, env, stderr=render.note, inherit=args.inherit or named)


def _authorization(args: argparse.Namespace) -> Any:
    """Return the authorization that `--token-env` or `--login` asks for."""
    if args.token_env:
        if not (token := os.environ.get(args.token_env)):
            raise UsageError(f"--token-env: the environment has no {args.token_env}")
        return token
    if not (args.login or args.login_store):
        return None
    import webbrowser

    from mcp_ref import FileStore, OAuth

    def visit(url: str) -> None:
        render.note(f"to log in, visit {url}")
        webbrowser.open(url)

    try:
        return OAuth("mcp-ref", visit=visit, store=FileStore(args.login_store) if args.login_store else None)
    except OSError as problem:
        raise UsageError(f"--login-store: {problem}") from None


def pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"an argument must be key=value, not {text!r}")
    return name, value


def recorder_of(args: argparse.Namespace, *sinks: Sink) -> Recorder:
    """Return a recorder for the file of `--trace`, if any, and for other sinks."""
    if args.exact and not args.trace:
        raise UsageError("--exact goes with --trace FILE")
    if args.exact:
        render.note(f"{args.trace} will hold everything that is said, secrets too")
    try:
        return Recorder(*([args.trace] if args.trace else []), *sinks, exact=args.exact)
    except OSError as problem:
        raise UsageError(f"cannot write the trace: {problem}") from None


# -- the commands that ask nobody ---------------------------------------------------------------------------------


def spec(args: argparse.Namespace) -> Exit:
    if args.method is None:
        render.put(describe.method_table())
        return Exit.OK
    if args.method not in METHODS:
        raise UsageError(f"no method {args.method!r}{render.alike(args.method, METHODS)}; spec alone lists them all")
    try:
        render.put(describe.describe(args.method, find_revision(args.revision) if args.revision else None))
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    return Exit.OK


def recorded(file: str, *, follow: bool = False) -> Iterator[TraceEvent]:
    """Yield the events of a trace file, `-` for standard input, one by one; UsageError where it cannot be read."""
    try:
        with nullcontext(sys.stdin.buffer) if file == "-" else open(file, "rb") as lines:
            yield from events_of(
                _growing(lines) if follow else bounded(lines), "standard input" if file == "-" else file
            )
    except (OSError, ValueError) as problem:
        raise UsageError(str(problem)) from problem


def narrated(args: argparse.Namespace) -> Exit:
    for told in narrate(recorded(args.file, follow=args.follow), narrator_for(sys.stdout, full=args.full)):
        print(told, flush=args.follow)
    return Exit.OK


def _growing(file: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a file that somebody writes, each when it is whole; without end."""
    line = b""
    while True:
        for part in file:
            line += part
            if line.endswith(b"\n"):
                yield line
                line = b""
        time.sleep(_FOLLOW_INTERVAL)


def serve(args: argparse.Namespace) -> Exit:
    """Run the server that a Python file makes, over stdio, or over HTTP until Ctrl-C."""
    file, colon, name = args.file.rpartition(":")
    if not colon or not name.isidentifier():
        file, name = args.file, "server"
    server = getattr(_loaded(Path(file)), name, None)
    if not isinstance(server, Server):
        raise UsageError(f"{file} has no Server called {name!r}")
    with recorder_of(args) as recorder:
        server.trace = recorder if args.trace else server.trace
        if not args.http:
            server.run()
            return Exit.OK
        if not all(path.startswith("/") for path in (args.path, args.sse_path or "/")):
            raise UsageError("a path must begin with /")
        try:
            server.run("http", host=args.host, port=args.port, path=args.path, sse_path=args.sse_path)
        except ValueError as problem:
            raise UsageError(str(problem)) from None
        except OSError as problem:
            raise TransportClosed(f"cannot listen on {args.host}, port {args.port}: {problem}") from None
    return Exit.OK


def _loaded(path: Path) -> Any:
    """Return the module of a Python file, which may import its neighbours, as if it were run."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"{path} is not a Python file" if path.exists() else f"no such file: {path}")
    sys.path.insert(0, str(path.resolve().parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        traceback.print_exc()
        raise UsageError(f"{path} could not be loaded: {problem!r}") from None
    return module


def demo(args: argparse.Namespace) -> Exit:
    from mcp_ref.lab.cli.demo import SCENE, Telling, converse

    told: list[str] = []
    say = told.append if args.step else print
    telling = Telling(narrator_for(sys.stdout), say, most=sys.maxsize if args.full else 12)
    with recorder_of(args, telling) as recorder:
        code = converse(recorder, telling, args.revision, http=args.http, whole=args.all)
    telling.flush()
    # The conversation is over, so that nothing in it waits, or times out, while somebody reads.
    waiting = sys.stdin is not None and sys.stdin.isatty()
    for number, text in enumerate(told):
        if number and waiting and text.startswith(SCENE):
            render.note("-- Enter goes on --")
            waiting = bool(sys.stdin.readline())
        print(text, flush=True)
    counts = telling.counts
    print(f"\n{counts['send']} messages sent, {counts['receive']} received; the server exited with code {code}.")
    call = "call forecast city=Oslo --trace oslo.jsonl -- python -m mcp_ref.lab.cli.demo"
    print("\nTo go on:", "demo --all", call, "show oslo.jsonl -o oslo.html", sep="\n    python -m mcp_ref ")
    return Exit.OK if code == 0 else Exit.CONNECTION
