"""`mcp-ref host CONFIG`: a host at a terminal, for the servers of a file, without any model.

Spec:      architecture, "Host"; server/tools#user-interaction-model
Not here:  what may pass (host/consent); the words of the command line (cli)

What the host itself says begins a line. What a server says stands behind `|`, with every control character as an
escape: it can neither move the cursor nor pass as a question.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shlex
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any, Final

from mcp_ref import Answer, Cancel, Consent, ConsentRefused, Host, JsonObject, McpError, Question, Rule, reply
from mcp_ref.facts import LineSplitter, escaped
from mcp_ref.lab.cli import render
from mcp_ref.lab.cli.commands import Exit, UsageError, arguments_of, pair
from mcp_ref.lab.cli.form import Form

MAX_EVENTS: Final = 1_000
_MAX_TYPED: Final = 1 << 20  # bytes of a line
_HAS_POLL: Final = hasattr(select, "poll")
_CHOICES: Final = {
    "y": Answer(True), "r": Answer(True, "run"), "a": Answer(True, "always"), "t": Answer(True, "always", all=True),
    "n": Answer(False),
}  # fmt: skip
_WORDS: Final = {
    "tool": "y(es), for this r(un), a(lways), n(o), d(efinition), always all t(ools) of this server as they are",
    "url": "y(es), n(o), d(etails)", "again": "y(es), n(o)",
    "skill": "y(es), for this r(un), a(lways), n(o), d(etails, every file)", "run": "y(es), n(o)",
    "sampling": "y(es), n(o), e(dit)", "answer": "y(es), n(o), e(dit)",
}  # fmt: skip
_HELP: Final = """\
/servers  /start NAME  /stop NAME  /restart NAME  /check      the servers, and how they are
/tools [WORD]  /call SERVER/TOOL [key=value...]               tools
/resources  /read SERVER URI  /attach SERVER URI  /context    resources, and what was put before the next turn
/prompts  /prompt SERVER/NAME [key=value...]  /instructions   prompts, and what servers say about themselves
/skills  /load SERVER URI                                     skills, and loading one by consent
/roots [add|remove PATH]                                      folders that servers may be told of
/rules  /allow KIND:PATTERN  /ask ...  /deny ...  /drop ...   rules; /forget PATTERN takes back what you decided
/pins  /log [SERVER]  /help  /quit"""


class Terminal:
    """The lines of a terminal, each for the last question; without one, and what nobody has asked for, for the prompt.

    Threads: any may ask. `mcp-host-input` reads; it ends with the input, or by `close`.
    """

    def __init__(self) -> None:
        # Held from the choice of a prompt until it is printed: one that comes meanwhile would stand above the text.
        self._drawing = threading.Lock()
        # Guards the four fields below, and the reads, which do not block: what is read is handed over in the same step.
        self._lock = threading.Lock()
        self._takers: list[tuple[SimpleQueue[str | None], str]] = []  # with their prompts; the last gets the next line
        self._early: deque[str] = deque()
        self._lines = LineSplitter(_MAX_TYPED, cut=True)
        self._ended = False
        self._stop, self._stopping = os.pipe()
        # Daemon: on Windows nothing ends its read but the input's end.
        self._thread = threading.Thread(target=self._run, name="mcp-host-input", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        poll: Any = None
        if sys.platform != "win32" and _HAS_POLL:
            poll = select.poll()
            for fd in (0, self._stop):
                poll.register(fd, select.POLLIN)
        while not self._ended:
            if poll is None:
                chunk = _read()
                with self._lock:
                    self._hand_over_locked(chunk)
            elif self._stop in dict(poll.poll()):
                break
            else:
                with self._lock:
                    self._take_typed_locked()
        with self._lock:
            self._hand_over_locked(b"")

    def _take_typed_locked(self) -> None:
        """Take what was typed already."""
        while _HAS_POLL and not self._ended and select.select([0], [], [], 0)[0]:
            self._hand_over_locked(_read())

    def _hand_over_locked(self, chunk: bytes) -> None:
        """Give each line to the last taker; the end of the input to all."""
        for line in self._lines.feed(chunk):
            text = line.decode("utf-8", "replace").strip()
            if self._takers:
                self._takers.pop()[0].put(text)
            else:
                self._early.append(text)
        self._ended = not chunk
        for taker, _ in self._takers if self._ended else ():
            taker.put(None)

    def line(self, prompt: str, withdrawn: Cancel | None = None) -> str:
        """Wait for a line that is typed from now on; without `withdrawn` one that was typed already will do.

        Raises: EOFError: the input has ended, or the question was withdrawn.
        """
        taker: SimpleQueue[str | None] = SimpleQueue()
        with self._lock:
            if withdrawn is not None:
                # Nobody has seen the question yet: what the terminal still holds is not its answer.
                self._take_typed_locked()
            elif self._early:
                return self._early.popleft()
            if self._ended:
                raise EOFError
            # A question stays before the prompt for commands, also one that was asked while a command ran.
            self._takers.insert(0 if withdrawn is None else len(self._takers), (taker, prompt))
        if withdrawn is not None:
            withdrawn.attach(lambda reason: taker.put(None))
        self.draw()
        try:
            text = taker.get()
        finally:
            with self._lock:
                self._takers = [each for each in self._takers if each[0] is not taker]
        if text is None:
            raise EOFError
        return text

    def draw(self, above: str = "") -> None:
        """Print the prompt whose turn it is, below a text."""
        with self._drawing:
            with self._lock:
                prompt = self._takers[-1][1] if self._takers else ""
            if above:
                render.note("\n" * bool(prompt) + above)
            print(prompt, end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the thread: its wait for the input ends by a pipe of its own."""
        os.write(self._stopping, b"!")
        self._thread.join(1)
        os.close(self._stopping)
        os.close(self._stop)


def _read() -> bytes:
    """Return the input of the terminal; nothing: it has ended."""
    try:
        return os.read(0, 65536)
    except OSError:
        return b""  # as a terminal that was closed says it


class Console:
    """A user at a terminal: commands, and the questions of a host.

    Args:
        say: called with a line that is not a command, by a program that has a model; None: such a line is a mistake.

    `ask` is for `Consent(ask=...)`, `hear` for `Host(on_event=...)`.
    """

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self.host: Host | None = None
        self._say, self._terminal = say, Terminal()
        self._heard: deque[tuple[str, str, str]] = deque(maxlen=MAX_EVENTS)

    # -- questions

    def ask(self, question: Question) -> Answer | bool:
        """Show a question, and read the answer to it; one that is withdrawn is a no."""
        render.note("\n" + "\n".join(question.lines()))
        try:
            return self._answer(question)
        except EOFError:
            render.note(
                f"the question about {question.subject} was withdrawn" if question.withdrawn.cancelled else "no"
            )
            return False
        finally:
            self._terminal.draw()

    def _answer(self, question: Question) -> Answer | bool:
        kind = question.kind
        if kind == "form":
            form = Form({}, asking=True, read=lambda text: self._terminal.line(text, question.withdrawn))
            who: Any = SimpleNamespace(server_info={"name": question.server})
            schema = question.shown["form"]
            filled = form("an empty line leaves a field out", schema, who)
            if filled["action"] != "accept":
                raise EOFError  # a no, as everywhere
            content = filled["content"]
            defaults = {name: field["default"] for name, field in schema["properties"].items() if "default" in field}
            while True:
                # MUST: the user can review and change what goes out before it does, defaults as well
                # (client/elicitation#user-interaction-model)
                content = {**defaults, **content}
                show(json.dumps(content, indent=2, ensure_ascii=False).split("\n"))
                typed = self._choose(question, f"send this to {question.server}? y(es), n(o), e(dit)")
                if typed != "e":
                    return Answer(typed == "y", value=content)
                name, _, text = self._terminal.line("NAME=value: ", question.withdrawn).partition("=")
                content = form.changed(schema, content, name.strip(), text.strip())
        words = _WORDS.get(kind, "y(es), for this r(un), a(lways), n(o)")
        while (typed := self._choose(question, words)) == "d":
            render.note("\n".join(question.lines(whole=True)))
        if typed == "e":
            return Answer(True, value=_edited(question, self._terminal.line("instead: ", question.withdrawn)))
        return _CHOICES[typed]

    def _choose(self, question: Question, words: str) -> str:
        """Return the letter before a bracket in the words, typed alone or with what follows; anything else asks
        again.
        """
        while True:
            typed = self._terminal.line(f"{words}: ", question.withdrawn).lower()
            if typed and f"{typed[0]}({typed[1:]}" in words:
                return typed[0]

    def hear(self, server: str, what: str, said: str) -> None:
        """Keep what a server says, for /log, and show at once what changes its life or its tools."""
        self._heard.append((server, what, said))
        if what not in ("log", "stderr"):
            self._terminal.draw(f"  {escaped(server)}: {escaped(said)}")

    # -- commands

    def run(self, host: Host) -> Exit:
        """Do what is typed, until /quit, the end of the input, or Ctrl-C while nothing runs."""
        self.host = host
        render.note("/help says what can be typed")
        try:
            while True:
                line = self._terminal.line("> ")
                try:
                    if line == "/quit":
                        return Exit.OK
                    if line:
                        self._do(host, line)
                except (McpError, UsageError, OSError, ValueError) as problem:
                    render.note(escaped(str(problem)))
                except KeyboardInterrupt:
                    # SHOULD: show that a cancellation was asked for (basic/utilities/cancellation#implementation-notes)
                    render.note("asked to cancel; Ctrl-C again leaves")
        except EOFError:
            return Exit.OK
        except KeyboardInterrupt:
            return Exit.INTERRUPTED
        finally:
            self._terminal.close()

    def _do(self, host: Host, line: str) -> None:
        if not line.startswith("/"):
            if self._say is None:
                raise UsageError("this host has no model to say this to; /help says what can be typed")
            self._say(line)
            return
        command, *words = shlex.split(line)
        consent = host.consent
        match [command, *words]:
            case ["/help"]:
                print(_HELP)
            case ["/servers"]:
                show(servers_of(host))
            case ["/start" | "/stop" | "/restart", name]:
                getattr(host, command[1:])(name)
            case ["/check"]:
                show(f"{name}: {problem or 'answers'}" for name, problem in host.check().items())
            case ["/tools", *words]:
                show(tools_of(row for row in host.tools() if all(word in row.name for word in words)))
            case ["/call", name, *pairs]:
                show(render.tool_result(call(host, name, pairs)))
            case ["/resources"]:
                rows = [*host.resources(), *host.resource_templates()]
                show(f"{row.server} {row.name}  {row.definition['name']}" for row in rows)
            case ["/read", server, uri]:
                show(render.contents(host.read(server, uri)["contents"]))
            case ["/attach", server, uri]:
                show([host.attach(server, uri)["content"]["text"]])
            case ["/context"]:
                show(render.messages(host.context))
            case ["/prompts"]:
                show(tools_of(host.prompts()))
            case ["/prompt", name, *pairs]:
                show(render.messages(host.prompt(name, dict(map(pair, pairs)))["messages"]))
            case ["/instructions"]:
                show(f"{name}: {said}" for name, said in host.instructions().items())
            case ["/skills"]:
                for row in host.skills():
                    skill = row.definition
                    show([f"{row.server} {skill['uri']}  {row.state}: {skill['frontmatter']['description']}"])
            case ["/load", server, uri]:
                show([host.load_skill(server, uri)["content"]["text"]])
            case ["/roots", *change]:
                if change:
                    [verb, path] = change
                    folder = os.path.abspath(os.path.expanduser(path))
                    host.set_roots([each for each in host.roots if each != folder] + [folder] * (verb == "add"))
                show(host.roots)
            case ["/rules"]:
                show(f"{rule.decision} {rule.kind}:{rule.pattern}" for rule in consent.rules)
                show(f"decided: {key}" for key in consent.remembered())
            case ["/allow" | "/ask" | "/deny", text]:
                consent.add(rule_of(command[1:], text))
            case ["/drop", text]:
                for rule in [rule for rule in consent.rules if f"{rule.kind}:{rule.pattern}" == text]:
                    consent.remove(rule)
            case ["/forget", pattern]:
                print(f"forgot {consent.forget(pattern)} decisions")
            case ["/pins"]:
                show(f"{name}: {row.state}" for row in host.tools() if (name := row.name))
            case ["/log", *names]:
                show(f"{name} {what}: {said}" for name, what, said in list(self._heard) if name in (names or [name]))
            case _:
                raise UsageError(f"not understood: {line}; /help says what can be typed")


def show(lines: Iterable[str | bytes]) -> None:
    """Print what comes from servers, each line behind a `|` and without control characters; of bytes their number."""
    for text in lines:
        for line in text.split("\n") if isinstance(text, str) else [f"[{len(text)} bytes]"]:
            print(f"  | {escaped(line, chr(9))}", flush=True)


def servers_of(host: Host) -> Iterator[str]:
    """Yield the servers, how they are started or reached, and what is wrong with them."""
    for name, hosted in host.servers.items():
        yield f"{name}: {hosted.state}" + (f": {hosted.problem}" if hosted.problem else "")
        about = hosted.shown
        yield f"    {shlex.join(about['command']) if 'command' in about else about.get('url', '')}"
        yield from (f"    ! {warning}" for warning in hosted.warnings)


def tools_of(rows: Iterable[Any]) -> Iterator[str]:
    """Yield entries with the names that they have here, and what has changed."""
    for row in rows:
        changed = "  (changed since you consented to it)" if row.state == "changed" else ""
        first, *rest = render.entries([{**row.definition, "name": row.name}])
        yield from (first + changed, *rest)


def call(host: Host, name: str, pairs: Sequence[str]) -> JsonObject:
    """Call a tool with arguments `key=value`, whose values are JSON unless the parameter is a string."""
    schemas = {row.name: row.definition["inputSchema"] for row in host.tools()}
    return host.call(name, arguments_of(pairs, schemas.get(name, {})))


def rule_of(decision: str, text: str) -> Rule:
    """Return a rule as it is typed: `KIND:PATTERN`, or a kind alone."""
    kind, _, pattern = text.partition(":")
    return Rule(decision, kind, pattern or "*")  # type: ignore[arg-type]


def _edited(question: Question, text: str) -> JsonObject:
    """Return a prompt with another last message, or an answer with another text."""
    about = question.shown
    if question.kind == "answer":
        return dict(reply(text, model=about["answer"]["model"]))
    *before, last = about["request"]["messages"]
    messages = [*before, {**last, "content": {"type": "text", "text": text}}]
    return {**about, "request": {**about["request"], "messages": messages}}


def host(args: argparse.Namespace) -> Exit:
    """Run the command `host`: a console, one call, or a list of what would be started."""
    asking = sys.stdin is not None and sys.stdin.isatty() and not args.call and not args.list
    console = Console() if asking or not (args.call or args.list) else None
    try:
        consent = Consent(
            [rule_of(word, text) for word in ("deny", "ask", "allow") for text in getattr(args, word)],
            ask=console.ask if console is not None and asking else None,
            audit=args.audit,
        )

        def traced(name: str) -> Path:
            Path(args.trace).mkdir(parents=True, exist_ok=True)
            return Path(args.trace) / f"{name}.jsonl"

        hear = console.hear if console is not None else lambda server, what, said: None
        roots = [os.path.abspath(os.path.expanduser(each)) for each in args.root]
        made = Host(args.config, consent=consent, roots=roots, trusted=args.trust, timeout=args.timeout,
                    on_event=hear, trace=traced if args.trace else None, skills=True)  # fmt: skip
    except (OSError, ValueError) as problem:
        raise UsageError(str(problem)) from None
    if args.list:
        show(servers_of(made))
        return Exit.OK
    try:
        if console is not None:
            made.start(wait=False)
            return console.run(made)
        return _call(made, args)
    finally:
        made.close()


def _call(made: Host, args: argparse.Namespace) -> Exit:
    """Make one call, for scripts: its server alone is started, and what no rule allows is denied."""
    server = args.call.partition("/")[0]
    if server not in made.servers:
        raise UsageError(f"a tool is SERVER/TOOL, with one of the servers {', '.join(made.servers) or 'none'}")
    made.start(server)
    if made.servers[server].state == "stopped":
        render.note(f"consent was refused: --allow start:{server}", failed=True)
        return Exit.REFUSED
    try:
        result = call(made, args.call, args.arguments)
    except ConsentRefused as refused:
        render.note(f"{refused}; --allow {refused.kind}:{refused.subject}", failed=True)
        return Exit.REFUSED
    render.put([render.as_json(result)] if args.json else render.tool_result(result))
    return Exit.TOOL_FAILED if result.get("isError") else Exit.OK
