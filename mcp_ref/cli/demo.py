"""A demonstration: a small server with a bit of everything, and a client that goes through all of it.

Spec:      every page of both eras; each step names its own
Not here:  the command line around it (cli)

    python -m mcp_ref.cli.demo          the server, over stdio
    python -m mcp_ref.cli.demo http     the server, over HTTP, until its standard input ends; prints its two URLs
    python -m mcp_ref demo          the conversation with it, told as it happens
    python -m mcp_ref demo --http   the same over Streamable HTTP; over HTTP+SSE in the revision 2024-11-05

The server runs in every revision, with the same handlers: where a revision or a client has no elicitation or sampling,
it does without. The steps of the client differ between the eras, as what there is to say does.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from mcp_ref.basic.transports.stdio import StdioClientTransport
from mcp_ref.client.client import Client
from mcp_ref.client.sampling import reply
from mcp_ref.errors import ErrorResponse, RequestCancelled, ToolError, TransportClosed
from mcp_ref.machinery.deadline import Cancel
from mcp_ref.messages import JsonObject
from mcp_ref.revisions import STATELESS_REVISIONS, find_revision
from mcp_ref.server.context import Context
from mcp_ref.server.server import Server
from mcp_ref.server.utilities.caching import CacheHint
from mcp_ref.server.utilities.completion import prompt_ref
from mcp_ref.trace.narrate import Narrator, page_in
from mcp_ref.trace.record import Recorder, TraceEvent

_CITIES: Final = ("Lisbon", "Ljubljana", "Lyon", "Oslo", "Porto")
_BOOKINGS: Final = "trip://bookings"
_WAIT: Final = 5.0


# -- the server ---------------------------------------------------------------------------------------------------


def build_server() -> Server:
    """A server named "trips": four tools, a resource, a template, a prompt and a completion."""
    server = Server(
        "trips",
        version="1.0",
        instructions="Ask for the forecast before you book.",
        cache={"tools/list": CacheHint(60, "public")},
    )
    bookings: list[str] = []
    _add_tools(server)
    _add_bookings(server, bookings)
    _add_resources(server, bookings)
    _add_prompts(server)
    return server


def _add_tools(server: Server) -> None:
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


def _add_bookings(server: Server, bookings: list[str]) -> None:
    @server.tool()
    def book(city: str, ctx: Context) -> str:
        """Book a trip; asks for a folder, the user for a seat and the model for a line, where the client can."""
        folder, seat = _folder(ctx), _seat(ctx)
        if seat is None:
            return "Nothing was booked."
        line = _line(city, ctx)
        # After the last question: in the stateless era all that comes before one is run again.
        bookings.append(f"{city}, {seat}: {line}")
        server.resource_updated(_BOOKINGS)
        return f"Booked: {bookings[-1]}; the ticket goes to {folder}"

    @server.tool()
    def cancel_booking(number: int) -> str:
        """Take a booking back."""
        if not 1 <= number <= len(bookings):
            raise ToolError(f"There is no booking {number}.")
        bookings.pop(number - 1)
        server.resource_updated(_BOOKINGS)
        return f"Booking {number} is taken back."


def _folder(ctx: Context) -> str:
    """The folder that the client has opened to servers; its desk where it has none."""
    roots = ctx.roots() if "roots" in ctx.peer_capabilities else []
    return roots[0].get("name") or roots[0]["uri"] if roots else "the desk"


def _seat(ctx: Context) -> str | None:
    """The user's choice; "any seat" where nobody can be asked, None where the user said no."""
    if "elicitation" not in ctx.peer_capabilities:
        return "any seat"
    answer = ctx.elicit("Window or aisle?", {"seat": {"type": "string", "enum": ["window", "aisle"]}})
    return str(answer["content"]["seat"]) if answer["action"] == "accept" else None


def _line(city: str, ctx: Context) -> str:
    """A line that the client's model wrote; a plain one where it has none."""
    if "sampling" not in ctx.peer_capabilities:
        return "have a good trip"
    content: Any = ctx.sample(f"One friendly line about {city}.", max_tokens=40)["content"]
    return str(content["text"])


def _add_resources(server: Server, bookings: list[str]) -> None:
    @server.resource(_BOOKINGS, mime_type="text/plain")
    def all_bookings() -> str:
        """Everything that was booked."""
        return "\n".join(bookings) or "nothing yet"

    @server.resource("trip://guide/{city}", mime_type="text/plain")
    def guide(city: str) -> str:
        """A short guide to a city."""
        return f"{city} is best seen on foot."


def _add_prompts(server: Server) -> None:
    @server.prompt()
    def plan_trip(city: str) -> str:
        """A prompt to plan a trip with."""
        return f"Plan three days in {city}, and look at the forecast first."

    @server.completion(argument="city", prompt="plan_trip")
    def city(value: str) -> list[str]:
        return [city for city in _CITIES if city.lower().startswith(value.lower())]


# -- the conversation ---------------------------------------------------------------------------------------------


class Telling:
    """A sink for a `Recorder` that prints what a narrator says, with headings between.

    A heading belongs before the messages that come after it on the wire, and those may be told later than it is set: a
    recorder calls its sinks in a thread of their own. So it waits for the first event that follows.

    Threads: `heading` by any thread; the calls come from the recorder, one at a time.
    """

    def __init__(self, narrator: Narrator, say: Callable[[str], None] = print) -> None:
        self.counts: Counter[str] = Counter()
        self._narrator, self._say = narrator, say
        self._lock = threading.Lock()  # guards _headings
        self._headings: list[tuple[int, str]] = []

    def heading(self, after: int, text: str) -> None:
        """Print the text before the first event whose number is above `after`."""
        with self._lock:
            self._headings.append((after, text))

    def __call__(self, event: TraceEvent) -> None:
        self.flush(event.seq)
        self.counts[event.direction] += event.message is not None
        self._print(self._narrator.tell(event))

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
        except BrokenPipeError:
            # Nobody reads any more; the command that prints the last line will find out.
            self._say = lambda text: None


class _Child:
    """The server as a process that the client starts."""

    closing = "Closing: the end of the server's input"

    def __init__(self, recorder: Recorder) -> None:
        command = [sys.executable, "-m", "mcp_ref.cli.demo"]
        self.target = StdioClientTransport(command, tap=recorder.tap("server", "stdio"))

    def end(self) -> int | None:
        """The exit code, once the client is closed; None where the server had not ended."""
        return self.target.exit_code


class _Listening:
    """The server as a process that listens, which no client starts or ends."""

    closing = "Closing: the client tells the server, or hangs up"

    def __init__(self, revision: str | None) -> None:
        command = [sys.executable, "-m", "mcp_ref.cli.demo", "http"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        url, _, sse_url = self._process.stdout.readline().strip().partition(" ")
        if not url:
            raise TransportClosed(f"the server did not begin to listen, and ended with code {self.end()}")
        is_sse = revision is not None and find_revision(revision).http == "sse"
        self.target = sse_url if is_sse else url

    def end(self) -> int | None:
        """Close its standard input, and wait for its exit code."""
        try:
            self._process.communicate(timeout=_WAIT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        return self._process.returncode


class _Guide:
    """The client's side: what it answers, and what it waits for."""

    def __init__(self, target: Any, revision: str | None, trace: Recorder | None) -> None:
        self.updated = threading.Event()
        self.revision = find_revision(revision or STATELESS_REVISIONS[-1])
        self.stateless = self.revision.era == "stateless"
        self.ending = "basic/transports/stdio#shutdown" if self.stateless else "basic/lifecycle#shutdown"
        self.client = Client(
            target,
            revision=revision,
            timeout=_WAIT,
            trace=trace,
            roots=[{"uri": Path.cwd().as_uri(), "name": "Tickets"}],
            elicit=lambda message, schema: {"seat": "window"},
            sample=lambda params: reply("Pack light, walk far.", model="a-poet"),
            on_change=self._changed,
        )

    def _changed(self, method: str, params: JsonObject) -> None:
        if method == "notifications/resources/updated":
            self.updated.set()

    def pages(self, pages: str) -> str:
        """The pages of a step, as the revision has them."""
        return ", ".join(page_in(page, self.revision.name) for page in pages.split(", "))

    # -- steps of the session era

    def opening(self) -> None:
        self.client.connect()
        self.client.ping()

    def logging(self) -> None:
        self.client.set_log_level("info")

    def questions(self) -> None:
        self.client.subscribe_resource(_BOOKINGS)
        self.client.call_tool("book", {"city": "Lisbon"})
        self.updated.wait(timeout=_WAIT)
        self.client.read_resource(_BOOKINGS)
        self.client.unsubscribe_resource(_BOOKINGS)

    # -- steps of the stateless era

    def discovery(self) -> None:
        self.client.connect()

    def rounds(self) -> None:
        self.client.call_tool("book", {"city": "Lisbon"})

    def listening(self) -> None:
        with self.client.listen(tools=True, resources=[_BOOKINGS], timeout=_WAIT) as events:
            self.client.call_tool("cancel_booking", {"number": 1})
            events.get(timeout=_WAIT)
        self.client.read_resource(_BOOKINGS)

    # -- steps of both

    def tools(self) -> None:
        level = "info" if self.stateless else None
        self.client.list_tools()
        self.client.call_tool("forecast", {"city": "Lisbon"}, on_progress=lambda *seen: None, log_level=level)

    def failures(self) -> None:
        self.client.call_tool("cancel_booking", {"number": 42})
        try:
            self.client.call_tool("teleport", {})
        except ErrorResponse:
            return

    def resources(self) -> None:
        self.client.list_resources()
        self.client.list_resource_templates()
        self.client.read_resource("trip://guide/Lisbon")

    def prompts(self) -> None:
        self.client.list_prompts()
        self.client.complete(prompt_ref("plan_trip"), "city", "L")
        self.client.get_prompt("plan_trip", {"city": "Lisbon"})

    def cancelling(self) -> None:
        enough, city = Cancel(), {"city": "Oslo"}
        try:
            self.client.call_tool("watch", city, cancel=enough, on_progress=lambda *seen: enough("seen enough"))
        except RequestCancelled:
            # Shows that the conversation goes on, and that the server is done with the call.
            self.client.read_resource("trip://guide/Oslo")

    def closing(self) -> None:
        self.client.close()


_Steps = tuple[tuple[str, str, Callable[[_Guide], None]], ...]

_TOOLS: Final[_Steps] = (
    ("Tools, with progress and log messages", "server/tools, basic/utilities/progress", _Guide.tools),
    ("A tool that fails, and a request that is refused", "server/tools#error-handling", _Guide.failures),
    ("Resources", "server/resources", _Guide.resources),
)
_REST: Final[_Steps] = (
    ("Prompts", "server/prompts, server/utilities/completion", _Guide.prompts),
    ("Giving a call up", "basic/utilities/cancellation", _Guide.cancelling),
)
_SESSION: Final[_Steps] = (
    ("Opening a session", "basic/lifecycle, basic/utilities/ping", _Guide.opening),
    ("How much to log", "server/utilities/logging", _Guide.logging),
    *_TOOLS,
    ("The server asks", "client/roots, client/elicitation, client/sampling", _Guide.questions),
    *_REST,
)
_STATELESS: Final[_Steps] = (
    ("Discovery: nothing is opened", "server/discover, basic/versioning", _Guide.discovery),
    *_TOOLS,
    ("The server asks: one call in several rounds", "basic/patterns/mrtr", _Guide.rounds),
    ("Listening for changes", "basic/patterns/subscriptions", _Guide.listening),
    *_REST,
)


def converse(recorder: Recorder, telling: Telling, revision: str | None = None, *, http: bool = False) -> int | None:
    """Start the server, go through every step with it, and end it.

    Args:
        recorder: has `telling` among its sinks. All is told once it is closed, but for headings without messages, which
            `telling.flush()` prints then.
        revision: the one to speak; None: the newest.
        http: have the server listen, and not speak over stdio.

    Returns: the exit code of the server; None where it had not ended.
    Blocks: about a second; each request at most 5.
    Raises: McpError where a step fails; the server is ended then too.
    """
    server = _Listening(revision) if http else _Child(recorder)
    guide = _Guide(server.target, revision, recorder if http else None)
    try:
        steps = _STATELESS if guide.stateless else _SESSION
        for title, pages, step in (*steps, (server.closing, guide.ending, _Guide.closing)):
            telling.heading(recorder.seq, f"\n== {title}  ({guide.pages(pages)})\n")
            step(guide)
    finally:
        guide.client.close()
        exit_code = server.end()
    return exit_code


def _listen() -> None:
    with build_server().serve_http(sse_path="/sse") as service:
        print(service.url, service.sse_url, flush=True)
        try:
            sys.stdin.read()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        _listen()
    else:
        build_server().run()
