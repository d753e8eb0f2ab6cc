"""Host: several servers under one policy. It starts clients, decides what may pass, and keeps the servers apart.

Spec:      architecture, "Host"; index, "Security and Trust & Safety"
Upholds:   spec_notes/architecture.md
Not here:  deciding (host/consent); the life of one server (host/life); a conversation with a model
           (examples/chat_host)

    a server never sees           because
    another server's words        each has a client, a transport, a cache and handlers of its own; nothing is passed on
    the conversation              nothing but the arguments of a call goes out, and those a user or a rule has allowed
    what is not its own           environment and folder are those of its entry; roots are told by consent
    a model, or the user          but by way of the two gates of sampling, and of a form that the user fills in

A tool has the name `server/tool`, with the server's name in the configuration: what a server calls itself is a claim.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, Unpack, cast

from mcp_ref.client.client import Client, known_target
from mcp_ref.client.entries import Entry, read_entries
from mcp_ref.client.session import ClientContext
from mcp_ref.client.targets import Command, Url
from mcp_ref.errors import ErrorResponse, InternalError, LocalProtocolError, McpError
from mcp_ref.host.consent import Consent, ConsentRefused, Decision, Question
from mcp_ref.host.json_file import difference, fingerprint
from mcp_ref.host.life import Hosted
from mcp_ref.host.models import Model, model_names
from mcp_ref.host.pins import print_of
from mcp_ref.kit.threads.callbacks import CallbackThread
from mcp_ref.kit.threads.deadline import Cancel, Deadline, RateLimited
from mcp_ref.kit.threads.one_at_a_time import at_once
from mcp_ref.pages.basic.extensions import Extension
from mcp_ref.pages.client.elicitation import ElicitResult, accept, cancel, decline, required_urls, url_warnings
from mcp_ref.pages.client.roots import as_root
from mcp_ref.pages.client.sampling import CreateMessageResult, UserRejected
from mcp_ref.pages.extensions import loaded_later
from mcp_ref.recording.redact import is_secret
from mcp_ref.wire.content import text
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options

if TYPE_CHECKING:
    from mcp_ref.host.apps import AppView

log = logging.getLogger(__name__)

PING_INTERVAL: Final = 30.0


class Listed(NamedTuple):
    """Something that a server offers.

    Attributes:
        name: `server/tool`, `server/prompt` or `server/path-of-skill`; of a resource its URI, or URI template.
        server: the name in the configuration.
        definition: what the server says about it.
        state: of a tool: "new", "same", or "changed" since somebody consented to it, and blocked until they do again;
            of a skill: see `Host.skills`.
    """

    name: str
    server: str
    definition: JsonObject
    state: str = "same"


class Host:
    """Several servers under one policy.

    Args:
        config: a file in the form of `mcpServers`, a dict like it, or entries: see client/entries.
        consent: decides what may happen; None: nobody and no rule does, so that everything is denied.
        model: answers what servers ask a model; None: sampling is not declared.
        roots: folders that every server may be told of, by consent; None: roots are declared by servers with roots of
            their own alone. `set_roots` changes them.
        trusted: names of servers whose hints are believed: a tool that says it only reads is called again if the
            server died over the first call.
        timeout: seconds for a call; start_timeout: for the start of one server. The configuration may set others.
        on_event: `on_event(server, what, text)` hears of what happens: "state", "log", "stderr", "changed", "notice".
            The text may be the server's: escape it before it is shown. It runs in the thread `mcp-host-events`.
        browse: `browse(url)` opens a page that the user agreed to; None: `webbrowser.open`.
        trace: `trace(name)` gives the trace of each client, such as a path.
        skills: whether skills are taken from servers; without it nothing of them is declared, or loaded.
        tasks: whether a server may make tasks of calls (2026-07-28), which are followed to their end.
        extensions: declared to every server; with `APPS` (pages/extensions/apps) `open_app` shows documents of theirs.

    What a call raises: what the same call of a `Client` does; LocalProtocolError: no such server, or tool;
    `ServerDown`; `ConsentRefused`. Every call waits for a server that is being started within its own `timeout`, which
    does not pass while a user thinks.

    Threads: any. `servers` has every server of the configuration by name.
    """

    def __init__(
        self,
        config: str | os.PathLike[str] | Mapping[str, Any] | Iterable[Entry],
        *,
        consent: Consent | None = None,
        model: Model | None = None,
        roots: Sequence[str | os.PathLike[str]] | None = None,
        trusted: Sequence[str] = (),
        timeout: float | None = 60,
        start_timeout: float | None = 20,
        on_event: Callable[[str, str, str], None] | None = None,
        browse: Callable[[str], object] | None = None,
        trace: Callable[[str], Any] | None = None,
        skills: bool = False,
        tasks: bool = False,
        extensions: Sequence[Extension] = (),
    ) -> None:
        self.consent = consent or Consent(keep=False)
        self.model, self.trusted, self._browse = model, frozenset(trusted), browse
        self.timeout, self.start_timeout = timeout, start_timeout
        self.roots = [] if roots is None else [os.fspath(each) for each in roots]
        self._has_roots = roots is not None
        self._on_event, self._events = on_event, CallbackThread("mcp-host-events")
        self._trace, self._tasks = trace, tasks
        given = config if isinstance(config, str | os.PathLike | Mapping) else None
        entries = cast("Iterable[Entry]", config) if given is None else read_entries(given).values()
        self.servers: dict[str, Hosted] = {}
        for entry in entries:
            if entry.target is not None:
                entry = entry._replace(target=known_target(entry.target))
            self.servers[entry.name] = Hosted(self, entry)
        self.context: list[JsonObject] = []
        """Messages that `attach` has put before the next turn of a conversation; whoever takes them empties it."""
        self.shelf: Any = self._make_shelf() if skills else None
        self.extensions = [*extensions, *(self.shelf.declared if self.shelf is not None else ())]
        self.views: list[AppView] = []
        self._names: dict[str, str] = {}  # of tools, for models; replaced by `for_model`
        self._closing = False  # so that a start in another thread asks about no further server
        self._model_allowed = False  # whether anything may go to the model in this run

    # -- life

    def start(self, *names: str, wait: bool = True) -> Self:
        """Start the servers named, also those that are stopped, disabled or failed; none: all that wait to be started.

        The questions come one after the other; a server that may be started is started at once, beside the others.

        Args:
            wait: False: return when all have been asked about.

        Blocks: until every one of them is ready or has failed, at most as long as the user thinks, and then as long as
            the slowest may take to start.
        """
        if self.consent.ask is None and not self.consent.rules and not self._closing:
            log.warning(
                "no rule allows anything and nobody is there to be asked, so nothing is started; a rule that would "
                'allow it: consent=Consent([Rule("allow", "start", %r)])',
                next(iter(self.servers), "SERVER"),
            )
        chosen = [self._server(name) for name in names] or [
            each for each in self.servers.values() if each.state == "waiting"
        ]
        for rule in self.consent.rules:
            server = rule.pattern.partition("/")[0]
            if rule.kind != "model" and "*" not in server and server not in self.servers:
                self.tell(server, "notice", f"a rule can match nothing: {' '.join(rule)}")
        self._closing = False
        for hosted in chosen:
            if self._closing or hosted.entry.problem is not None or not hosted.happen("ask"):
                continue
            name, bound = hosted.name, hosted.bound
            question = Question("start", name, name, bound, bound, hosted.shown, hosted.warnings)
            if not (decision := self.consent.decide(question)).allowed:
                hosted.happen("refuse", f"not started, by {decision.by}")
            elif hosted.happen("allow"):
                hosted.begin()
        for hosted in chosen if wait else ():
            hosted.settle()
        return self

    def stop(self, name: str, timeout: float = 5) -> None:
        """Stop one server, whatever it is doing. Blocks: at most `timeout` seconds."""
        hosted, deadline = self._server(name), Deadline(timeout)
        self._close_views([view for view in self.views if view.server == name], deadline)
        hosted.stop(deadline)
        if self.shelf is not None:
            self.shelf.drop(hosted.bound)

    def restart(self, name: str) -> None:
        """Stop one server, and start it; see `start`."""
        self.stop(name)
        self.start(name)

    def check(self, timeout: float = 5) -> dict[str, str | None]:
        """Ask every server that should be running whether it answers. Returns by name what is wrong with it, or None.

        Blocks: at most `timeout` seconds, for all of them together.
        """

        def ask(hosted: Hosted) -> None:
            client = hosted.usable(Deadline(0))
            client.request("ping" if client.revision.era == "session" else "server/discover", None,
                           {"timeout": timeout, "cached": False})  # fmt: skip

        found = at_once(ask, self.servers.values(), timeout)
        return {hosted.name: str(each) if isinstance(each, Exception) else None for hosted, each in found}

    def close(self, timeout: float = 5) -> None:
        """Stop every server, in parallel. Idempotent; any thread may call it.

        Blocks: at most `timeout` seconds, and a moment.
        Why each thread ends: open questions are withdrawn first; then each view is closed (`AppView.close`), and each
        server is stopped (`Hosted.stop`), in threads `mcp-at-once` that end with that; `mcp-host-ask` and
        `mcp-host-events` find a sentinel.
        """
        deadline, self._closing = Deadline(timeout), True
        self.consent.close(Deadline(0))
        self._close_views(self.views, deadline)
        at_once(lambda hosted: hosted.stop(deadline), self.servers.values(), timeout)
        if self.shelf is not None:
            self.shelf.held, self.shelf.files = {}, {}
        self.consent.close(deadline)
        self._events.close(deadline)

    @staticmethod
    def _close_views(views: Sequence[AppView], deadline: Deadline) -> None:
        """Close views, which have half of the time to save what they have."""
        left = deadline.left()
        if views:
            at_once(lambda view: view.close(None if left is None or left > 4 else left / 2), views, left)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # -- what there is

    def tools(self) -> list[Listed]:
        """Return the tools of every server that is ready, in the order of the configuration and of the servers.

        A server whose list fails has a `problem`, and the others' tools are there. Blocks: until the lists are there.
        """

        def tools_of(hosted: Hosted) -> dict[str, Any]:
            client = hosted.usable(Deadline(0))
            # In the session era a server tells of changes; else the client knows how long a list is good for.
            if client.revision.era == "stateless" and "tools" in client.server_capabilities:
                client.list_tools()
            return dict(hosted.tools(Deadline(hosted.timeout)))

        return [
            Listed(name, hosted.name, known.tool, self.consent.pins.state(hosted.bound, name, now))
            for hosted, found in self._ready(tools_of, "tools")
            for name, now, known in self.compare(hosted, found)
            if hosted.entry.offers(known.tool["name"]) and self.consent.ruling("definition", name) != "deny"
        ]

    def compare(self, hosted: Hosted, tools: Mapping[str, Any]) -> list[tuple[str, str, Any]]:
        """Tell of tools that are no longer what somebody consented to, each change once; called after each listing.

        Returns: for each tool its name here, its fingerprint, and what the client knows of it.
        """
        rows = [(f"{hosted.name}/{name}", hosted.print_of(each.tool), each) for name, each in tools.items()]
        prints = {name: now for name, now, _ in rows}
        for name in self.consent.pins.pinned(hosted.bound):
            now = prints.get(name, "gone")
            changed = "/" in name and self.consent.pins.state(hosted.bound, name, now) == "changed"
            if changed:
                said = f"{name} is gone" if now == "gone" else f"{name} has changed"
                hosted.tell_once("changed", said, [name, now])
        return rows

    def resources(self) -> list[Listed]:
        """Return the resources of every server that is ready; see `tools`."""
        return self._listed("resources", "list_resources", "uri")

    def resource_templates(self) -> list[Listed]:
        """Return the resource templates of every server that is ready; see `tools`."""
        return self._listed("resources", "list_resource_templates", "uriTemplate")

    def prompts(self) -> list[Listed]:
        """Return the prompts of every server that is ready; see `tools`."""
        return self._listed("prompts", "list_prompts", "name")

    def instructions(self) -> dict[str, str]:
        """Return what the servers say about themselves for a model, by name: of those whose words somebody consented
        to.

        Blocks: as long as the user thinks about words that are new or changed.
        """
        words = {name: each.client.instructions for name, each in self.servers.items() if each.client is not None}
        return {name: said for name, said in words.items() if said and self._approved(self.servers[name], name, said)}

    # -- using it

    def call(
        self, name: str, arguments: JsonObject | None = None, *, by: str = "model", **options: Unpack[Options]
    ) -> JsonObject:
        """Call a tool, `server/tool`, if that is allowed; see `Client.call_tool`.

        Args:
            by: who asks for it, which is shown and written down. "user": it is the user's own act, and is allowed
                unless a rule denies it, or its definition has changed.

        It is called again, if the server died over it, only with `resend=True`, or where a trusted server says that it
        does no harm.
        """
        began = time.monotonic()
        hosted, tool = self.place(name)
        found = hosted.definition(tool, Deadline(options.get("timeout", hosted.timeout)))
        if found is None:
            raise LocalProtocolError(f"no tool is called {name!r}")
        # What is shown is what is sent, whatever its caller, or a question's answer, does to the arguments meanwhile.
        arguments = deepcopy(arguments or {})
        question = self._consented(hosted, tool, found, arguments, options.get("cancel"), by)
        # MUST: hints of a tool count for nothing unless its server is trusted (server/tools#tool)
        if "resend" not in options:
            hints = found[0].get("annotations") or {}
            harmless = hints.get("readOnlyHint") is True or hints.get("idempotentHint") is True
            options["resend"] = harmless and hosted.name in self.trusted
        outcome = "ok"
        try:
            try:
                result: JsonObject = hosted.ask("call_tool", tool, arguments, options=options, safe=options["resend"])
            except ErrorResponse as refusal:
                if not self._visited(hosted, refusal, question, options.get("cancel")):
                    raise
                # While the user was away the server may have put another tool behind the name.
                if hosted.definition(tool, Deadline(hosted.timeout)) != found:
                    raise ConsentRefused("tool", name, "the definition changed meanwhile") from None
                result = hosted.ask("call_tool", tool, arguments, options=options, safe=options["resend"])
            outcome = "isError" if result.get("isError") else "ok"
            return result
        except BaseException as problem:
            outcome = type(problem).__name__
            raise
        finally:
            self.consent.note(question, outcome, began, arguments)

    def _visited(self, hosted: Hosted, refusal: ErrorResponse, call: Question, cancel: Cancel | None) -> bool:
        """Return whether the user has visited every page that an error -32042 requires, and wants the call sent
        again.
        """
        pages, client = required_urls(refusal), hosted.client
        if not pages or client is None or self.consent.ask is None or self.consent.ruling("url", hosted.name) == "deny":
            return False
        if not all(client.visit_required(page)["action"] == "accept" for page in pages):
            return False
        # SHOULD: the user can go on by hand, for a server need not tell that the visit ended
        # (2025-11-25/client/elicitation#completion-notifications-for-url-mode-elicitation)
        shown = {"visited": [page["url"] for page in pages], call.subject: call.shown["arguments"]}
        question = Question("again", hosted.name, hosted.name, hosted.bound, fingerprint(shown), shown)
        (cancel or Cancel()).attach(question.withdrawn)
        return self.consent.decide(question).allowed

    def _consented(
        self, hosted: Hosted, tool: str, found: tuple[Any, str], arguments: JsonObject, cancel: Cancel | None, by: str
    ) -> Question:
        """Return the question whether a tool may be called, which was answered with yes. Raises: ConsentRefused."""
        name, pins, (definition, now) = f"{hosted.name}/{tool}", self.consent.pins, found
        # 1. May it be used as it is defined now? What is new is shown with the first question about a call.
        state = pins.state(hosted.bound, name, now)
        if state == "changed" or (state == "new" and self.consent.ruling("definition", name) in ("ask", "deny")):
            if not self._approved(hosted, name, definition, again=True):
                raise ConsentRefused("definition", name, "user" if self.consent.ask else "nobody")
            state = "same"
        # 2. May it run here? Texts of servers may be what tells the model to call it.
        if self.shelf is not None and not isinstance(hosted.entry.target, Url):
            self.shelf.may_run(self, name, {"cancel": cancel})
        # 3. May it be called?
        # SHOULD: a human can always deny a call of a tool (server/tools#user-interaction-model)
        about = {"definition": definition, "arguments": arguments}
        question = Question("tool", hosted.name, name, hosted.bound, now, about, origin=by)
        question.alike = lambda: self.compare(hosted, hosted.tools(Deadline(hosted.timeout)))
        if cancel is not None:
            cancel.attach(question.withdrawn)
        decision = self.consent.decide(question)
        if decision.by == "user" and hosted.definition(tool, Deadline(hosted.timeout)) != found:
            # While the user was thinking the server has put another tool behind the name.
            decision = Decision(False, "the definition changed meanwhile")
        if not decision.allowed:
            raise ConsentRefused("tool", name, decision.by)
        if state == "new":
            pins.pin(hosted.bound, name, now, definition)
        return question

    def read(self, server: str, uri: str, **options: Unpack[Options]) -> JsonObject:
        """Read a resource; see `Client.read_resource`."""
        return cast(JsonObject, self._server(server).ask("read_resource", uri, options=options, safe=True))

    def prompt(self, name: str, arguments: Mapping[str, str] | None = None, **options: Unpack[Options]) -> JsonObject:
        """Get a prompt, `server/prompt`; see `Client.get_prompt`."""
        hosted, prompt = self.place(name)
        return cast(JsonObject, hosted.ask("get_prompt", prompt, arguments, options=options, safe=True))

    def attach(self, server: str, uri: str, **options: Unpack[Options]) -> JsonObject:
        """Read a resource, and put it into `context` as a message that names its origin. Returns the message."""
        contents = self.read(server, uri, **options)["contents"]
        said = "\n".join(str(each.get("text", f"[{each.get('mimeType', 'bytes')}]")) for each in contents)
        message: JsonObject = {"role": "user", "content": text(f"[from server {server!r}, resource {uri}]\n{said}")}
        self.context.append(message)
        return message

    skills, load_skill, read_skill, release_skill, _make_shelf = loaded_later(
        "host.skills", "skills", "load_skill", "read_skill", "release_skill", "make_shelf"
    )

    (open_app,) = loaded_later("host.apps", "open_app")

    # -- models

    def for_model(self) -> list[JsonObject]:
        """Return the tools as a model gets them: under names that every provider takes, which `call_for_model` knows.

        A tool that a rule denies is not among them; one whose definition has changed is, once somebody has consented to
        the change.
        """
        from mcp_ref.pages.extensions.apps import is_for

        # A host MUST NOT show the model a tool that is not for it (2026-01-26/extensions/apps#visibility)
        rows = [row for row in self.tools() if is_for(row.definition, "model")]
        rows = [row for row in rows if self.consent.ruling("tool", row.name) != "deny"]
        changed = [row for row in rows if row.state == "changed"]
        for row in changed:
            if not self._approved(self.servers[row.server], row.name, row.definition):
                rows.remove(row)
        self._names = model_names([row.name for row in rows])
        by_name = {name: model_name for model_name, name in self._names.items()}
        return [{"name": by_name[row.name], **{key: row.definition[key] for key in ("description", "inputSchema")
                if key in row.definition}} for row in rows]  # fmt: skip

    def call_for_model(self, name: str, arguments: JsonObject, **options: Unpack[Options]) -> JsonObject:
        """Call a tool by the name that a model knows; what goes wrong is a result, for the model to read."""
        try:
            if name not in self._names:
                raise LocalProtocolError(f"no tool is called {name!r}")
            return self.call(self._names[name], arguments, **options)
        except McpError as problem:
            return {"content": [text(str(problem))], "isError": True}

    def complete(
        self, request: JsonObject, name: str | None = None, cancelled: Callable[[], bool] = lambda: False
    ) -> CreateMessageResult:
        """Return the model's next message. Before the first of a run somebody has to consent that anything goes to the
        model.

        Args:
            request: in the shape of `sampling/createMessage`. name: which model; None: the model's own choice.
        """
        if self.model is None:
            raise LocalProtocolError("this host has no model")
        url, name = self.model.url, name or self.model.choose(request.get("modelPreferences"))
        if not self._model_allowed:
            goes = "your messages, what you attach, the definitions and results of tools, and prompts that you allow"
            now = fingerprint(url)
            question = Question("model", "", url, now, now, {"url": url, "model": name, "what goes there": goes})
            if not (decision := self.consent.decide(question)).allowed:
                raise ConsentRefused("model", url, decision.by)
            self._model_allowed = True
        return self.model.complete(request, name, cancelled)

    # -- roots

    def set_roots(self, roots: Sequence[str | os.PathLike[str]]) -> None:
        """Change the folders that servers without roots of their own may be told of; those that ask are told again."""
        self.roots = [os.fspath(each) for each in roots]
        for hosted in self.servers.values():
            client = hosted.client
            if client and hosted.entry.roots is None and "listChanged" in client.capabilities.get("roots", {}):
                # One that is just dying asks again when it is back.
                with suppress(McpError):
                    client.roots_changed()

    # -- what servers ask

    def client_for(self, hosted: Hosted) -> Client:
        """Make the client of one server: it declares what no rule denies, and its answers know which server asks."""
        name, entry = hosted.name, hosted.entry

        def given(kind: str, function: Any, wanted: bool) -> Any:
            return partial(function, hosted) if wanted and self.consent.ruling(kind, name) != "deny" else None

        target, asking = entry.target, self.consent.ask is not None
        if isinstance(target, Command) and target.stderr == "capture":
            target = target._replace(stderr=partial(self.hear, hosted, "stderr"))
        sample = given("sampling", self._sample, self.model is not None)
        client = Client(
            target,
            revision=entry.revision,
            timeout=hosted.timeout,
            connect_timeout=hosted.start_timeout,
            ping_interval=PING_INTERVAL,
            capabilities={"sampling": {"tools": {}}} if sample else None,
            sample=sample,
            elicit=given("form", self._fill_in, asking),
            open_url=given("url", self.open_page, asking),
            roots=given("roots", self._tell_roots, self._has_roots or entry.roots is not None),
            on_log=partial(self.hear, hosted, "log"),
            on_close=lambda reason: hosted.lost(client, str(reason)),
            extensions=self.extensions,
            tasks=self._tasks,
            trace=self._trace and self._trace(name),
        )
        return client

    def _sample(self, hosted: Hosted, params: JsonObject, ctx: ClientContext) -> CreateMessageResult:
        """Answer a server's prompt by the model, through two gates."""
        assert self.model is not None
        # `includeContext` is answered as "none": no server is told of the conversation, or of another server.
        prompt = {key: value for key, value in params.items() if key not in ("includeContext", "_meta", "task")}
        shown = {"model": self.model.choose(prompt.get("modelPreferences")), "request": prompt}
        # SHOULD: a human can see the prompt, edit it, and deny it (client/sampling#user-interaction-model)
        decision = self.decide("sampling", hosted, shown, ctx)
        if not decision.allowed:
            raise UserRejected()
        asked = {**shown, **(decision.value or {})}
        try:
            answer = self.complete(asked["request"], asked["model"], lambda: ctx.cancelled)
        except Exception as problem:
            self.tell(hosted.name, "notice", f"the model did not answer its prompt: {problem}")
            # What a model, or a provider, says about its failure is not the server's business.
            raise InternalError("The model did not answer") from None
        # SHOULD: a human can see the answer before the server does (client/sampling#user-interaction-model)
        decision = self.decide("answer", hosted, {"answer": answer}, ctx)
        if not decision.allowed:
            raise UserRejected()
        return cast(CreateMessageResult, decision.value or answer)

    def _fill_in(self, hosted: Hosted, message: str, schema: JsonObject, ctx: ClientContext) -> ElicitResult:
        """Answer a form by the values that the user has filled in."""
        secrets = [name for name in schema["properties"] if is_secret(name)]
        warnings = [f"a form must not ask for secrets: {', '.join(secrets)}"] if secrets else []
        decision = self.decide("form", hosted, {"message": message, "form": schema}, ctx, warnings)
        if decision.allowed:
            return accept(decision.value or {})
        return decline() if decision.by == "user" else cancel()

    def open_page(
        self, hosted: Hosted, url: str, message: str, host: str, ctx: ClientContext | Client | Cancel
    ) -> ElicitResult:
        """Open a page that the user agreed to."""
        shown = {"message": message, "url": url, "host": host}
        decision = self.decide("url", hosted, shown, ctx, url_warnings(url))
        if not decision.allowed:
            return decline() if decision.by == "user" else cancel()
        import webbrowser

        (self._browse or webbrowser.open)(url)
        return accept({})

    def _tell_roots(self, hosted: Hosted, ctx: ClientContext) -> list[Any]:
        """Return the folders that a server is told of: its own, or the host's; none without consent."""
        own = hosted.entry.roots
        folders = [as_root(os.path.expanduser(each)) for each in (self.roots if own is None else own)]
        # SHOULD: ask the user before roots are told (client/roots#implementation-guidelines)
        return folders if folders and self.decide("roots", hosted, {"folders": folders}, ctx).allowed else []

    # -- deciding

    def decide(
        self,
        kind: str,
        hosted: Hosted,
        shown: JsonObject,
        ctx: ClientContext | Client | Cancel,
        warnings: Iterable[str] = (),
    ) -> Decision:
        """Decide what a server, or a view of one, asks for; one that asks too often is refused, and the end of its
        question ends ours.
        """
        if wait := hosted.rates.take(None, kind):
            hosted.tell_once("notice", f"it asks too often ({kind}), and is refused without a question")
            raise RateLimited(wait)
        question = Question(kind, hosted.name, hosted.name, hosted.bound, fingerprint(shown), shown, warnings)
        if isinstance(ctx, ClientContext):  # else it is the client, which visits what a refused call requires
            ctx.on_cancel(question.withdrawn)
        elif isinstance(ctx, Cancel):
            ctx.attach(question.withdrawn)
        return self.consent.decide(question)

    def _approved(self, hosted: Hosted, subject: str, definition: Any, *, again: bool = False) -> bool:
        """Return whether a definition may be used: somebody consented to it before, or does so now.

        Args:
            again: ask also if it was refused in this run.
        """
        pins, now = self.consent.pins, print_of(definition)
        refused = fingerprint(["refused", subject, now])
        if pins.state(hosted.bound, subject, now) == "same":
            return True
        if refused in hosted.told and not again:
            return False
        before = pins.before(hosted.bound, subject)
        shown = {"definition": definition} if before is None else {"difference": difference(before, definition)}
        warnings = [pins.broken] if pins.broken else []
        question = Question("definition", hosted.name, subject, hosted.bound, now, shown, warnings)
        if not self.consent.decide(question).allowed:
            hosted.told[refused] = None
            return False
        pins.pin(hosted.bound, subject, now, definition)
        return True

    # -- parts

    def _server(self, name: str) -> Hosted:
        if name not in self.servers:
            raise LocalProtocolError(f"no server is called {name!r}; there are {', '.join(self.servers) or 'none'}")
        return self.servers[name]

    def place(self, name: str) -> tuple[Hosted, str]:
        """Return the server in `server/tool`, and its own name for the tool."""
        server, slash, own = name.partition("/")
        if not slash:
            raise LocalProtocolError(f"a name must have the form SERVER/NAME, not {name!r}")
        return self._server(server), own

    def _ready(self, job: Callable[[Hosted], Any], what: str) -> list[tuple[Hosted, Any]]:
        """Run a job for every server that is ready, and return what each gives; a failure is its `problem`."""
        ready = [each for each in self.servers.values() if each.state == "ready"]
        rows = []
        for hosted, found in at_once(job, ready, None):
            if isinstance(found, Exception):
                hosted.problem = f"{what}: {found}"
                self.tell(hosted.name, "notice", hosted.problem)
            else:
                rows.append((hosted, found))
        return rows

    def _listed(self, capability: str, method: str, key: str) -> list[Listed]:
        def entries(hosted: Hosted) -> list[Any]:
            client = hosted.usable(Deadline(0))
            return getattr(client, method)() if capability in client.server_capabilities else []

        return [
            Listed(f"{hosted.name}/{each['name']}" if key == "name" else str(each[key]), hosted.name, each)
            for hosted, found in self._ready(entries, method)
            for each in found
        ]

    def hear(self, hosted: Hosted, what: str, said: str | JsonObject) -> None:
        """Pass on what a server says beside its answers, if it does not say too much."""
        if hosted.rates.take(None, what):
            hosted.rates.note_dropped(what)
        else:
            text = said if isinstance(said, str) else f"[{said.get('level')}] {said.get('data')}"
            self.tell(hosted.name, what, text)

    def tell(self, server: str, what: str, said: str) -> None:
        if self._on_event is not None:
            self._events.put(partial(self._on_event, server, what, said), what, said)
        else:
            log.info("%s: %s: %s", server, what, said)
