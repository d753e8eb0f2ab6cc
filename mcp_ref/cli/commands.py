"""The commands of the command line: each takes what was parsed and returns an exit code.

Spec:      server/tools, server/resources, server/prompts, server/utilities/completion, basic/patterns/subscriptions:
           what the commands ask
Not here:  the words and options of the command line (cli); how results look (shown)
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from mcp_ref.basic.transports.streamable_http.client import checked_headers, checked_url
from mcp_ref.cli import describe, shown
from mcp_ref.cli.form import Form
from mcp_ref.client.client import Client
from mcp_ref.client.config import Command, Url
from mcp_ref.errors import ErrorResponse, MethodNotFound, TransportClosed
from mcp_ref.messages import JsonObject
from mcp_ref.pages import method_row
from mcp_ref.revisions import find_revision
from mcp_ref.server.server import Server
from mcp_ref.server.utilities.completion import prompt_ref, resource_ref
from mcp_ref.trace.narrate import narrate, narrator_for
from mcp_ref.trace.record import Recorder, Sink, read_trace

if TYPE_CHECKING:
    from mcp_ref.server.hosting import HttpService

OK, TOOL_FAILED, USAGE, PROTOCOL, CONNECTION, INTERRUPTED = 0, 1, 2, 3, 4, 130

_CONNECTING: Final = 10.0
_LOOK: Final = 5.0  # seconds without a change after which a session is looked at


class UsageError(Exception):
    """The command line asks for what cannot be done; the text says why."""


# -- the commands that ask a server -------------------------------------------------------------------------------


def _tools(client: Client, args: argparse.Namespace) -> int:
    tools = client.list_tools()
    return _show(args, {"tools": tools}, shown.entries(tools))


def _call(client: Client, args: argparse.Namespace) -> int:
    # Listed first for the types of the parameters, and so that structured content is checked against its schema.
    schemas = {tool["name"]: tool["inputSchema"] for tool in client.list_tools()}
    properties = schemas.get(args.name, {}).get("properties", {})
    result = client.call_tool(args.name, _arguments(args, properties), on_progress=_progress)
    _show(args, result, shown.tool_result(result))
    return TOOL_FAILED if result.get("isError") else OK


def _resources(client: Client, args: argparse.Namespace) -> int:
    resources, templates = client.list_resources(), _templates(client)
    lines = [*shown.entries(resources, key="uri"), *shown.entries(templates, key="uriTemplate")]
    return _show(args, {"resources": resources, "resourceTemplates": templates}, lines)


def _templates(client: Client) -> Sequence[Any]:
    """The templates; none where the server does not know the request, as many a server without any does not."""
    try:
        return client.list_resource_templates()
    except ErrorResponse as refusal:
        if refusal.code != MethodNotFound.code:
            raise
        return []


def _read(client: Client, args: argparse.Namespace) -> int:
    result = client.read_resource(args.uri)
    return _show(args, result, shown.contents(result["contents"]))


def _prompts(client: Client, args: argparse.Namespace) -> int:
    prompts = client.list_prompts()
    return _show(args, {"prompts": prompts}, shown.entries(prompts))


def _prompt(client: Client, args: argparse.Namespace) -> int:
    result = client.get_prompt(args.name, dict(_pair(text) for text in args.arguments))
    return _show(args, result, shown.messages(result["messages"]))


def _complete(client: Client, args: argparse.Namespace) -> int:
    kind, _, name = args.ref.partition(":")
    ref = prompt_ref(name) if kind == "prompt" else resource_ref(args.ref)
    result = client.complete(ref, args.argument, args.value)
    return _show(args, result, result["completion"]["values"])


def _listen(client: Client, args: argparse.Namespace) -> int:
    """Tell of changes, in the way of the era, until there were enough, or the server ends it."""
    declared, wanted = client.server_capabilities, {"tools": args.tools, "prompts": args.prompts}
    wanted["resource_list"] = args.resources
    if not any((*wanted.values(), *args.uri)):
        wanted = {
            "tools": "tools" in declared,
            "prompts": "prompts" in declared,
            "resource_list": "resources" in declared,
        }
        if not any(wanted.values()):
            raise UsageError("the server has nothing that could change")
    if client.revision.era == "session":
        return _subscribed(client, args, {f"notifications/{_LISTS[name]}" for name, on in wanted.items() if on})
    with client.listen(**wanted, resources=args.uri) as events:
        # SHOULD: say what is not told (basic/patterns/subscriptions#acknowledgment)
        if events.refused:
            shown.note(f"the server does not tell of {json.dumps(events.refused)}")
        shown.note(_WAITING)
        for event in islice(events, args.count):
            _tell(args, event.method, event.params)
    return OK


_WAITING: Final = "waiting for changes; Ctrl-C ends it"

_LISTS: Final = {
    "tools": "tools/list_changed",
    "prompts": "prompts/list_changed",
    "resource_list": "resources/list_changed",
}


def _subscribed(client: Client, args: argparse.Namespace, methods: set[str]) -> int:
    """The same in the session era, where lists are told of unasked."""
    for uri in args.uri:
        client.subscribe_resource(uri)
    shown.note(_WAITING)
    told = 0
    while args.count is None or told < args.count:
        try:
            method, params = args.changes.get(timeout=_LOOK)
        except Empty:
            # Is somebody there? TransportClosed where not.
            client.ping()
            continue
        if method in methods or method == "notifications/resources/updated":
            _tell(args, method, params)
            told += 1
    return OK


def _tell(args: argparse.Namespace, method: str, params: JsonObject) -> None:
    if args.json:
        shown.put([json.dumps({"method": method, "params": params}, ensure_ascii=True)])
    else:
        shown.put([f"{method} {params.get('uri', '')}".rstrip()])
    sys.stdout.flush()


def _with_client(command: Callable[[Client, argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """The command in a session of its own with the server that the command line names."""

    def run(args: argparse.Namespace) -> int:
        target = _target(args)
        args.changes = SimpleQueue()
        answers = dict(_pair(text) for text in args.answer)
        asking = sys.stdin is not None and sys.stdin.isatty()
        with ExitStack() as stack:
            recorder = stack.enter_context(_recorder(args))
            client = Client(
                target,
                revision=args.revision,
                timeout=args.timeout,
                connect_timeout=min(args.timeout, _CONNECTING),
                elicit=Form(answers, asking=asking) if answers or asking else None,
                on_log=None if args.narrate else _log,
                on_change=lambda *change: args.changes.put(change),
                trace=recorder,
            )
            return command(stack.enter_context(client), args)

    return run


def _target(args: argparse.Namespace) -> Command | Url:
    if not args.target:
        raise UsageError("which server? End the line with -- and its URL, or the command that starts it")
    if not args.target[0].lower().startswith(("http://", "https://")):
        if args.header:
            raise UsageError("--header is for servers at a URL")
        if "://" in args.target[0]:
            raise UsageError(f"the URL of a server begins with http:// or https://, unlike {args.target[0]!r}")
        return Command(args.target, stderr=shown.note)
    if len(args.target) > 1:
        raise UsageError(f"nothing follows the URL of a server, unlike {args.target[1]!r}")
    try:
        return Url(checked_url(args.target[0]), checked_headers(dict(_header(text) for text in args.header)))
    except ValueError as problem:
        raise UsageError(str(problem)) from None


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon:
        # The text itself is not shown: it may be a secret.
        raise UsageError("a header is NAME:VALUE")
    return name.strip(), value.strip()


def _recorder(args: argparse.Namespace) -> Recorder:
    if not args.narrate:
        return _writing(_file(args))
    narrator = narrator_for(sys.stderr, full=args.full)
    return _writing(_file(args), lambda event: print(narrator.tell(event), file=sys.stderr))


def _file(args: argparse.Namespace) -> list[Sink]:
    return [args.trace] if args.trace else []


def _writing(sinks: list[Sink], *more: Sink) -> Recorder:
    try:
        return Recorder(*sinks, *more)
    except OSError as problem:
        raise UsageError(f"cannot write the trace: {problem}") from None


def _arguments(args: argparse.Namespace, properties: JsonObject) -> JsonObject:
    """The arguments of a tool: `--json-args`, and over it each `key=value` as the property's type says."""
    try:
        arguments = json.loads(args.json_args or "{}")
    except ValueError as problem:
        raise UsageError(f"--json-args: {problem}") from None
    if not isinstance(arguments, dict):
        raise UsageError("--json-args is a JSON object")
    pairs = [_pair(text) for text in args.arguments]
    return arguments | {name: _typed(value, properties.get(name)) for name, value in pairs}


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UsageError(f"an argument is key=value, not {text!r}")
    return name, value


def _typed(text: str, schema: Any) -> Any:
    """Text from the command line as JSON, unless the parameter is a string or it is none."""
    if isinstance(schema, dict) and schema.get("type") == "string":
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text


# -- the commands that ask nobody ---------------------------------------------------------------------------------


def _spec(args: argparse.Namespace) -> int:
    if args.method is None:
        return _lines(describe.method_table())
    row = method_row(args.method)
    if row is None:
        like = describe.similar(args.method)
        raise UsageError(f"no method {args.method!r}" + (f"; did you mean {', '.join(like)}?" if like else ""))
    try:
        return _lines(describe.describe(row, find_revision(args.revision) if args.revision else None))
    except ValueError as problem:
        raise UsageError(str(problem)) from None


def _narrate(args: argparse.Namespace) -> int:
    try:
        for told in narrate(read_trace(args.file), narrator_for(sys.stdout, full=args.full)):
            print(told)
    except BrokenPipeError:
        raise
    except (OSError, ValueError) as problem:
        raise UsageError(str(problem)) from None
    return OK


def _serve(args: argparse.Namespace) -> int:
    path, colon, name = args.file.rpartition(":")
    if not colon or not name.isidentifier():
        path, name = args.file, "server"
    server = getattr(_module(Path(path)), name, None)
    if not isinstance(server, Server):
        raise UsageError(f"{path} has no Server called {name!r}")
    with _writing(_file(args)) as recorder:
        server.trace = recorder if args.trace else server.trace
        if args.http:
            _serve_http(server, args)
        else:
            server.run()
    return OK


def _serve_http(server: Server, args: argparse.Namespace) -> None:
    """Listen until Ctrl-C. Handlers that do not end then are left behind with the process."""
    service = _listening(server, args)
    try:
        for url in filter(None, (service.url, service.sse_url)):
            shown.note(f"listening on {url}")
        service.wait()
    except KeyboardInterrupt:
        pass
    finally:
        service.close(1)


def _listening(server: Server, args: argparse.Namespace) -> HttpService:
    if not all(path.startswith("/") for path in (args.path, args.sse_path or "/")):
        raise UsageError("a path begins with /")
    try:
        return server.serve_http(args.host, args.port, path=args.path, sse_path=args.sse_path)
    except ValueError as problem:
        raise UsageError(str(problem)) from None
    except OSError as problem:
        raise TransportClosed(f"cannot listen on {args.host}, port {args.port}: {problem}") from None


def _module(path: Path) -> Any:
    """The module of a Python file, which may import its neighbours, as if it were run."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise UsageError(f"{path} is no Python file")
    sys.path.insert(0, str(path.resolve().parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        traceback.print_exc()
        raise UsageError(f"{path} could not be loaded: {problem!r}") from None
    return module


def _demo(args: argparse.Namespace) -> int:
    from mcp_ref.cli import demo

    telling = demo.Telling(narrator_for(sys.stdout, full=args.full))
    with _writing(_file(args), telling) as recorder:
        exit_code = demo.converse(recorder, telling, args.revision, http=args.http)
    telling.flush()
    counts = telling.counts
    print(f"\n{counts['send']} messages sent, {counts['receive']} received; the server exited with code {exit_code}.")
    return OK if exit_code == 0 else CONNECTION


# -- output -------------------------------------------------------------------------------------------------------


def _show(args: argparse.Namespace, result: Any, lines: Iterable[str | bytes]) -> int:
    if args.json:
        ascii_only = (sys.stdout.encoding or "utf-8").lower().replace("-", "") != "utf8"
        print(json.dumps(result, indent=2, ensure_ascii=ascii_only))
        return OK
    return _lines(lines)


def _lines(lines: Iterable[str | bytes]) -> int:
    shown.put(lines)
    return OK


def _log(params: JsonObject) -> None:
    shown.note(f"[{params['level']}] {params.get('logger', 'server')}: {params['data']}")


def _progress(progress: float, total: float | None, message: str | None) -> None:
    if sys.stderr.isatty():
        shown.note(f"{progress:g}{'' if total is None else f' of {total:g}'} {message or ''}".rstrip())


# -- what the parser is told --------------------------------------------------------------------------------------

COMMANDS: Final[dict[str, Callable[[argparse.Namespace], int]]] = {
    "tools": _with_client(_tools),
    "call": _with_client(_call),
    "resources": _with_client(_resources),
    "read": _with_client(_read),
    "prompts": _with_client(_prompts),
    "prompt": _with_client(_prompt),
    "complete": _with_client(_complete),
    "listen": _with_client(_listen),
    "demo": _demo,
    "spec": _spec,
    "serve": _serve,
    "narrate": _narrate,
}
