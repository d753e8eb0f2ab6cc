"""A demonstration: a small server with a bit of everything, and a client that goes through all of it.

Spec:      every page of both eras; each step names its own
Not here:  the command line around it (cli)

    python -m mcp_ref demo              one call, told as it happens: the messages, and the lines that caused them
    python -m mcp_ref demo --all        the whole conversation
    python -m mcp_ref demo --step       scene by scene: Enter goes on
    python -m mcp_ref demo --http       the same over Streamable HTTP; over HTTP+SSE in the revision 2024-11-05
    python -m mcp_ref.lab.cli.demo          the server alone, over stdio
    python -m mcp_ref.lab.cli.demo http     the same over HTTP, until its standard input ends; prints its two URLs

The server runs in every revision, with the same handlers: where a revision or a client has no elicitation or sampling,
it does without. The steps of the client differ between the eras, as what there is to say does.
"""

from __future__ import annotations

import json
import linecache
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from mcp_ref import (
    STATELESS_REVISIONS,
    CacheHint,
    Cancel,
    Client,
    Context,
    ErrorResponse,
    JsonObject,
    RequestCancelled,
    Server,
    ToolError,
    TransportClosed,
    find_revision,
    prompt_ref,
    reply,
    text_of,
)
from mcp_ref.facts import FEATURES, StdioClientTransport
from mcp_ref.lab.judge.narrate import Narrator, page_in
from mcp_ref.recording.record import Recorder, TraceEvent

_BOOKINGS: Final = "trip://bookings"
SCENE: Final = "\n== "
"""The beginning of a scene's heading."""
_TIMEOUT: Final = 5.0  # of each request, and of the server's end
_START_TIMEOUT: Final = 60.0  # a cold disk may take its time; and nobody is to see a fall-back that means nothing


# -- the server ---------------------------------------------------------------------------------------------------


def build_server() -> Server:
    """Return a server named "trips": four tools, a resource, a template, a prompt and a completion."""
    server = Server(
        "trips",
        version="1.0",
        instructions="Ask for the forecast before you book.",
        cache={"tools/list": CacheHint(60, "public")},
    )
    bookings: list[str] = []

    @server.tool()
    def forecast(city: str, ctx: Context, days: int = 2) -> str:
        """The weather in a city, day by day."""
        ctx.log("info", f"looking at the sky over {city}", logger="weather")
        for day in range(1, days + 1):
            ctx.progress(day, days, f"day {day}")
        return f"{city}: sun for {days} days"

    @server.tool()
    def watch(city: str, ctx: Context) -> str:
        """Watch the weather until the client has seen enough, or for two seconds."""
        ctx.progress(1, message=f"watching {city}")
        end = time.monotonic() + 2
        while time.monotonic() < end:
            ctx.check_cancelled()
            time.sleep(0.01)
        return f"{city}: nothing happened"

    @server.tool()
    def book(city: str, ctx: Context) -> str:
        """Book a trip; asks for a folder, the user for a seat and the model for a line, where the client can."""
        folder, seat, line = "the desk", "any seat", "have a good trip"
        if "roots" in ctx.peer_capabilities and (roots := ctx.roots()):
            folder = roots[0].get("name") or roots[0]["uri"]
        if "elicitation" in ctx.peer_capabilities:
            answer = ctx.elicit("Window or aisle?", {"seat": {"type": "string", "enum": ["window", "aisle"]}})
            if answer["action"] != "accept":
                return "Nothing was booked."
            seat = str(answer["content"]["seat"])
        if "sampling" in ctx.peer_capabilities:
            content: Any = ctx.sample(f"One friendly line about {city}.", max_tokens=40)["content"]
            line = str(content["text"])
        # After the last question: in the stateless era all that comes before one is run again.
        bookings.append(f"{city}, {seat}: {line}")
        server.resource_updated(_BOOKINGS)
        return f"Booked: {bookings[-1]}; the ticket goes to {folder}"

    @server.tool()
    def cancel_booking(number: int) -> str:
        """Take a booking back."""
        if not 1 <= number <= len(bookings):
            raise ToolError(f"Nobody has booked under {number}.")
        bookings.pop(number - 1)
        server.resource_updated(_BOOKINGS)
        return f"Booking {number} is taken back."

    @server.resource(_BOOKINGS, mime_type="text/plain")
    def all_bookings() -> str:
        """Everything that was booked."""
        return "\n".join(bookings) or "nothing yet"

    @server.resource("trip://guide/{city}", mime_type="text/plain")
    def guide(city: str) -> str:
        """A short guide to a city."""
        return f"{city} is best seen on foot."

    @server.prompt()
    def plan_trip(city: str) -> str:
        """A prompt to plan a trip with."""
        return f"Plan three days in {city}, and look at the forecast first."

    @server.completion(argument="city", prompt="plan_trip")
    def city(value: str) -> list[str]:
        cities = ("Lisbon", "Ljubljana", "Lyon", "Oslo", "Porto")
        return [city for city in cities if city.lower().startswith(value.lower())]

    return server


# -- the conversation ---------------------------------------------------------------------------------------------


class Telling:
    """A sink for a `Recorder` that prints what a narrator says and the message itself, with headings between.

    A heading belongs before the messages that come after it on the wire, and those may be told later than it is set: a
    recorder calls its sinks in a thread of their own. So it waits for the first event that follows.

    Args:
        most: how many lines a message may take; the last of them says how many more there are.

    Threads: `heading` by any thread; the calls come from the recorder, one at a time.
    """

    def __init__(self, narrator: Narrator, say: Callable[[str], None] = print, *, most: int = 12) -> None:
        self.counts: Counter[str] = Counter()
        self._narrator, self._say, self._most = narrator, say, most
        self._lock = threading.Lock()  # guards _headings
        self._headings: list[tuple[int, str]] = []

    def heading(self, after: int, text: str) -> None:
        """Print the text before the first event whose number is above `after`."""
        with self._lock:
            self._headings.append((after, text))

    def __call__(self, event: TraceEvent) -> None:
        self.flush(event.seq)
        self.counts[event.direction] += event.message is not None
        told = self._narrator.tell(event)
        if isinstance(event.message, dict):
            # The narrator ends with the message on one line; here it takes the lines that it needs, and what is short
            # and holds nothing nested stands on one.
            body = json.dumps(event.message, indent=2)
            body = re.sub(r"[{\[]\n[^{}\[\]]{1,200}[}\]]", lambda found: re.sub(r"\n *", " ", found[0]), body)
            lines, room = body.split("\n"), self._most - 1
            if len(lines) > self._most:
                lines[room:] = [f"... {len(lines) - room} more lines"]
            # Of what the client answers, `content` is another thing (client/sampling, client/elicitation).
            text = text_of(event.message.get("result", {})) if event.direction == "receive" else ""
            shown = [f"the text: {json.dumps(text)}", *lines] if text else lines
            told = f"\n{' ' * 13}".join([told.rpartition("\n")[0], *shown])
        self._print(told)

    def flush(self, before: float = float("inf")) -> None:
        """Print the headings that belong before the event of that number."""
        with self._lock:
            due = [text for after, text in self._headings if after < before]
            self._headings = [row for row in self._headings if row[0] >= before]
        for text in due:
            self._print(text)

    def _print(self, text: str) -> None:
        try:
            self._say(text)
        except OSError:
            # Nobody reads any more, or the disk is full; the command that prints the last line will find out.
            self._say = lambda text: None


class _Quoting:
    """A client whose every use in this file first becomes a heading: the line of the program that uses it."""

    def __init__(self, client: Client, quote: Callable[[str], None]) -> None:
        self._client, self._quote = client, quote

    def __getattr__(self, name: str) -> Any:
        self._quote(f"\n>>> {linecache.getline(__file__, sys._getframe(1).f_lineno).strip()}\n")
        return getattr(self._client, name)


def converse(recorder: Recorder, telling: Telling, revision: str | None, *, http: bool, whole: bool) -> int | None:
    """Start the server, go through every step with it, and end it.

    Args:
        recorder: has `telling` among its sinks. Everything is told once it is closed, except headings without messages,
            which `telling.flush()` prints then.
        revision: the one to speak; None: the newest.
        http: let the server listen on HTTP instead of speaking over stdio.
        whole: go through every step; otherwise through the beginning, one call and the end.

    Returns: the exit code of the server; None if it had not ended.
    Blocks: about a second; each request at most 5.
    Raises: McpError where a step fails; the server is ended then too.
    """
    spoken = find_revision(revision or STATELESS_REVISIONS[-1])
    command = [sys.executable, "-m", "mcp_ref.lab.cli.demo"]
    target: Any
    if not http:
        process, target = None, StdioClientTransport(command, inherit=True, tap=recorder.tap("server", "stdio"))
    else:
        process = subprocess.Popen([*command, "http"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        url, _, sse_url = process.stdout.readline().strip().partition(" ")
        if not url:
            raise TransportClosed(f"the server did not begin to listen, and ended with code {_ended(process)}")
        target = sse_url if spoken.http == "sse" else url
    updated = threading.Event()

    def changed(method: str, params: JsonObject) -> None:
        if method == "notifications/resources/updated":
            updated.set()

    def heading(title: str, pages: str) -> None:
        named = ", ".join(page_in(page, spoken.name) for page in pages.split(", "))
        telling.heading(recorder.seq, f"{SCENE}{title}  ({named})")

    real = Client(
        target,
        revision=revision,
        timeout=_TIMEOUT,
        connect_timeout=_START_TIMEOUT,
        probe_timeout=_START_TIMEOUT,
        trace=recorder if http else None,
        roots=[{"uri": Path.cwd().as_uri(), "name": "Tickets"}],
        elicit=lambda message, schema: {"seat": "window"},
        sample=lambda params: reply("Pack light, walk far.", model="a-poet"),
        on_change=changed,
    )
    client = _Quoting(real, lambda line: telling.heading(recorder.seq, line))
    try:
        _talk(client, updated, heading, stateless=spoken.era == "stateless", whole=whole)
        page = "basic/transports/stdio#shutdown" if spoken.era == "stateless" else "basic/lifecycle#shutdown"
        how = "the client tells the server, or hangs up" if http else "the end of the server's input"
        heading(f"Closing: {how}", page)
        client.close()
    finally:
        real.close()
        code: int | None = target.exit_code if process is None else _ended(process)
    if old := [name for name in ("roots", "sampling", "logging") if FEATURES[name].since <= spoken.name]:
        telling.heading(recorder.seq, f"\nDeprecated in {spoken.name}, and to be seen here: {', '.join(old)}.")
    return code


def _talk(client: Any, updated: threading.Event, heading: Callable[..., None], *, stateless: bool, whole: bool) -> None:
    """Take every step between the client's beginning and its end; those up to the first call alone unless `whole`."""
    if stateless:
        heading("Discovery: nothing is opened", "server/discover, basic/versioning")
    else:
        heading("Opening a session", "basic/lifecycle, basic/utilities/ping")
    client.connect()
    if not whole:
        heading("One call", "server/tools")
        client.call_tool("forecast", {"city": "Lisbon"})
        return
    if not stateless:
        client.ping()
        heading("How much to log", "server/utilities/logging")
        client.set_log_level("info")

    heading("Tools, with progress and log messages", "server/tools, basic/utilities/progress")
    level, lisbon = "info" if stateless else None, {"city": "Lisbon"}
    client.list_tools()
    client.call_tool("forecast", lisbon, on_progress=lambda *seen: None, log_level=level)

    heading("A tool that fails, and a request that is refused", "server/tools#error-handling")
    client.call_tool("cancel_booking", {"number": 42})
    try:
        client.call_tool("teleport", {})
    except ErrorResponse:
        pass

    heading("Resources", "server/resources")
    client.list_resources()
    client.list_resource_templates()
    client.read_resource("trip://guide/Lisbon")

    if stateless:
        heading("The server asks: one call in several rounds", "basic/patterns/mrtr")
        client.call_tool("book", lisbon)
        heading("Listening for changes", "basic/patterns/subscriptions")
        with client.listen(tools=True, resources=[_BOOKINGS], timeout=_TIMEOUT) as events:
            client.call_tool("cancel_booking", {"number": 1})
            events.get(timeout=_TIMEOUT)
        client.read_resource(_BOOKINGS)
    else:
        heading("The server asks", "client/roots, client/elicitation, client/sampling")
        client.subscribe_resource(_BOOKINGS)
        client.call_tool("book", lisbon)
        updated.wait(timeout=_TIMEOUT)
        client.read_resource(_BOOKINGS)
        client.unsubscribe_resource(_BOOKINGS)

    heading("Prompts", "server/prompts, server/utilities/completion")
    client.list_prompts()
    client.complete(prompt_ref("plan_trip"), "city", "L")
    client.get_prompt("plan_trip", {"city": "Lisbon"})

    heading("Giving a call up", "basic/utilities/cancellation")
    enough, oslo = Cancel(), {"city": "Oslo"}
    try:
        client.call_tool("watch", oslo, cancel=enough, on_progress=lambda *seen: enough("seen enough"))
    except RequestCancelled:
        # Shows that the conversation goes on, and that the server is done with the call.
        client.read_resource("trip://guide/Oslo")


def _ended(process: subprocess.Popen[str]) -> int | None:
    """Return the exit code of a server that listens, once its standard input was closed."""
    try:
        process.communicate(timeout=_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    return process.returncode


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        with build_server().serve_http(sse_path="/sse") as service:
            print(service.url, service.sse_url, flush=True)
            try:
                sys.stdin.read()
            except KeyboardInterrupt:
                pass
    else:
        build_server().run()
