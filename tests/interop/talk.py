"""A conversation, whoever is the client in it, with everything that the server asks and tells on record."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, Queue
from typing import Any, NamedTuple, Self

from mcp_ref import Cancel, Client, ErrorResponse, InputRefused, RequestCancelled
from mcp_ref.pages.client.sampling import UserRejected, reply
from mcp_ref.revisions import Revision, find_revision
from tests.interop import programs
from tests.interop.programs import BOTH_ERAS, OLD_SDK, OURS, TYPESCRIPT_2, Pair

JsonObject = dict[str, Any]

WAIT = 10.0
"""Seconds that a test waits for what should come at once."""

LONG = 60.0
"""Seconds for an answer of a program of others, which may have to start first."""

LOG_LEVEL = "io.modelcontextprotocol/logLevel"


class Event(NamedTuple):
    """A change that a subscription is told of."""

    method: str
    params: JsonObject


class Talk:
    """A client that declares every capability; tests set what it answers, and read what came.

    Attributes:
        pair: who talks with whom.
        revision: the one that is agreed on. introduction: the server's name and the like, capabilities, instructions.
        answers: what it says to "sample", "elicit" and "open": a value, an exception, or a function of the question.
        asked: the questions of the server, as (kind, what was asked).
        logs, changes: the notifications of the server.
        on_log: called with each log message before it is put on record.
    """

    pair: Pair
    revision: Revision
    introduction: tuple[JsonObject, JsonObject, str | None]

    def __init__(self) -> None:
        self.answers: dict[str, Any]
        self.asked: Queue[tuple[str, Any]] = Queue()
        self.logs: Queue[JsonObject] = Queue()
        self.changes: Queue[Event] = Queue()
        self.on_log: Callable[[JsonObject], Any]
        self.roots: list[JsonObject] = [{"uri": "file:///work", "name": "Work"}, {"uri": "file:///home"}]
        self.tidy()

    def tidy(self) -> None:
        """Forget what came before, and answer as at first."""
        self.on_log = lambda params: None
        self.answers = {"sample": reply("Paris", model="small-1"), "elicit": None, "open": False}
        for queue in (self.asked, self.logs, self.changes):
            drained(queue)

    def _answer(self, kind: str, question: Any) -> Any:
        self.asked.put((kind, question))
        answer = self.answers[kind]
        if isinstance(answer, BaseException):
            raise answer
        return answer(question) if callable(answer) else answer

    def _logged(self, params: JsonObject) -> None:
        self.on_log(params)
        self.logs.put(params)

    def ask(self, method: str, **params: Any) -> Any:
        """Send a request, or a notification, by the function that the client has for it."""
        raise NotImplementedError

    def call(self, name: str, arguments: JsonObject | None = None, **options: Any) -> Any:
        """Call a tool. Options: on_progress, log_level; by_hand, request_state: one round alone."""
        raise NotImplementedError

    def give_up(self, name: str) -> None:
        """Call a tool, and give the call up at its first log message."""
        raise NotImplementedError

    def listen(self, *lists: str, resources: Sequence[str] = ()) -> Any:
        """Subscribe to changes of lists and of resources."""
        raise NotImplementedError

    def another(self) -> Any:
        """Give a client that declares nothing, in a conversation of its own with the same server."""
        raise NotImplementedError

    def say(self, name: str, arguments: JsonObject | None = None, **options: Any) -> str:
        """Call a tool, and return the text of its one block."""
        result = self.call(name, arguments, **options)
        (block,) = result["content"]
        assert block["type"] == "text" and not result.get("isError"), block
        return str(block["text"])

    def tell(self, name: str, arguments: JsonObject | None = None, **options: Any) -> Any:
        """Call a tool, and return the JSON in its one block."""
        return json.loads(self.say(name, arguments, **options))

    def problem(self, name: str, arguments: JsonObject | None = None) -> str:
        """Call a tool that fails: the text of its result, or of the error of the protocol."""
        try:
            result = self.call(name, arguments)
        except (ErrorResponse, InputRefused) as error:
            return str(error)
        assert result["isError"] is True
        return str(result["content"][0]["text"])

    def at_least(self, revision: str) -> bool:
        """Whether the revision is that one or a later one."""
        return self.revision.order >= find_revision(revision).order

    def pages(self, method: str) -> list[list[JsonObject]]:
        """The pages of a list."""
        found: list[list[JsonObject]] = []
        cursor: JsonObject = {}
        while True:
            page = self.ask(method, **cursor)
            found.append(next(value for value in page.values() if isinstance(value, list)))
            if page.get("nextCursor") is None or self.pair.client == OLD_SDK:  # which has no pages
                return found
            cursor = {"cursor": page["nextCursor"]}

    def __enter__(self) -> Self:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the conversation."""
        raise NotImplementedError


NAMES = {
    "ping": "ping",
    "tools/list": "list_tools_page",
    "tools/all": "list_tools",
    "resources/list": "list_resources_page",
    "resources/templates/list": "list_resource_templates_page",
    "resources/read": "read_resource",
    "resources/subscribe": "subscribe_resource",
    "resources/unsubscribe": "unsubscribe_resource",
    "prompts/list": "list_prompts_page",
    "prompts/get": "get_prompt",
    "completion/complete": "complete",
    "logging/setLevel": "set_log_level",
    "notifications/roots/list_changed": "roots_changed",
}
"""The functions of our client."""


class Ours(Talk):
    """A conversation of our client.

    Args:
        revisions: those that it knows; none given: all.
    """

    def __init__(self, target: Any, revisions: Sequence[str] = (), *, timeout: float = WAIT, **options: Any) -> None:
        super().__init__()
        self._target = target
        self.client = Client(
            target,
            revision=revisions or None,
            timeout=timeout,
            roots=lambda: self.roots,
            sample=lambda params: self._answer("sample", params),
            elicit=lambda message, schema: self._answer("elicit", {"message": message, "schema": schema}),
            open_url=lambda url, message, host: self._answer("open", {"url": url, "message": message}),
            capabilities={"sampling": {"tools": {}}},
            on_log=self._logged,
            on_change=lambda method, params: self.changes.put(Event(method, params)),
            **options,
        )

    def ask(self, method: str, **params: Any) -> Any:
        if method == "completion/complete":
            params = {"ref": params["ref"], **params["argument"], **params.get("context", {})}
        return getattr(self.client, NAMES[method])(**params)

    def call(self, name: str, arguments: JsonObject | None = None, **options: Any) -> Any:
        return self.client.call_tool(name, arguments, **options)

    def give_up(self, name: str) -> None:
        give_up = Cancel()
        self.on_log = lambda params: give_up("no longer wanted")
        try:
            self.client.call_tool(name, cancel=give_up)
        except RequestCancelled:
            return
        raise AssertionError("it was not given up")

    def listen(self, *lists: str, resources: Sequence[str] = ()) -> Any:
        named = {"resources": "resource_list"}
        return self.client.listen(**{named.get(name, name): True for name in lists}, resources=resources)  # type: ignore[arg-type]

    @contextmanager
    def another(self) -> Iterator[Talk]:
        other = Ours.__new__(Ours)
        Talk.__init__(other)
        with Client(self._target) as other.client:
            yield other

    def __enter__(self) -> Self:
        self.client.connect()
        self.revision = self.client.revision
        self.introduction = (self.client.server_info, self.client.server_capabilities, self.client.instructions)  # type: ignore[assignment]
        return self

    def close(self) -> None:
        self.client.close()


class Failed(Exception):
    """A client of others failed at home: how it says so."""


class Driver:
    """A program with a client of others, which does what it is told (peers/driven.py says how)."""

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self._process = subprocess.Popen(
            programs.their_client(peer), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, encoding="utf-8", env=programs.environment(),
        )  # fmt: skip
        self._writing = threading.Lock()
        self._replies: list[Queue[JsonObject]] = []
        self.talk: Theirs | None = None
        self.closed: Queue[None] = Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def order(self, do: str, **more: Any) -> tuple[int, Queue[JsonObject]]:
        """Give an order: its number, and where the reply to it comes."""
        reply: Queue[JsonObject] = Queue()
        with self._writing:
            self._replies.append(reply)
            number = len(self._replies) - 1
        self.write(id=number, do=do, **more)
        return number, reply

    def write(self, **what: Any) -> None:
        assert self._process.stdin is not None
        with self._writing:
            self._process.stdin.write(json.dumps(what) + "\n")
            self._process.stdin.flush()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            said = json.loads(line)
            if "id" in said:
                self._replies[said["id"]].put(said)
            elif "closed" in said:
                self.closed.put(None)
            elif self.talk is not None:
                self.talk.hear(said)

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                pass


class Theirs(Talk):
    """A conversation of a client of others.

    Args:
        target: the command of a server, or its URL alone.
        mode: "auto", "legacy" or a version; None: as the peer is.
        able: whether it declares all that it can.
    """

    def __init__(self, driver: Driver, target: list[str], mode: str | None = None, able: bool = True) -> None:
        super().__init__()
        self._driver, self._target, self._able = driver, target, able
        self._mode = mode or ("auto" if driver.peer in (BOTH_ERAS, TYPESCRIPT_2) else "legacy")
        self._on_progress: Callable[..., Any] | None = None
        self._listening: dict[int, Subscribed] = {}
        self.came: list[Any] = []

    def hear(self, said: JsonObject) -> None:
        """Take what the program says of its own accord, in the thread that reads."""
        if "ask" in said:
            self._driver.write(answer=said["ask"], **self._reply(said["method"], said.get("params")))
        elif "step" in said:
            if self._on_progress is not None:
                self._on_progress(*said["step"])
        elif "listen" in said:
            self._listening[said["listen"]].hear(said)
        elif said["told"] == "notifications/message":
            self._logged(said["params"])
        else:
            event = Event(said["told"], said.get("params") or {})
            self.changes.put(event)
            if self._driver.peer == TYPESCRIPT_2:
                # The SDK does not say to which subscription an event belongs.
                for listening in self._listening.values():
                    listening.take(event)

    def _reply(self, method: str, question: Any) -> JsonObject:
        if method == "roots/list":
            return {"result": {"roots": self.roots}}
        try:
            if method == "sampling/createMessage":
                return {"result": self._answer("sample", question)}
            if question.get("mode") == "url":
                page = {"url": question["url"], "message": question["message"]}
                return {"result": {"action": "accept" if self._answer("open", page) else "decline"}}
            form = {"message": question["message"], "schema": question["requestedSchema"]}
            content = self._answer("elicit", form)
        except UserRejected as refusal:
            return {"error": {"code": refusal.code, "message": str(refusal)}}
        if content is None:
            return {"result": {"action": "decline"}}
        return {"result": content if "action" in content else {"action": "accept", "content": content}}

    def _do(self, do: str, **more: Any) -> Any:
        return self._outcome(self._driver.order(do, **more)[1])

    def _outcome(self, replies: Queue[JsonObject]) -> Any:
        said = replies.get(timeout=LONG)
        self.came.append({name: value for name, value in said.items() if name != "id"})
        if "error" in said:
            raise ErrorResponse.of(said["error"])
        if "failed" in said:
            raise Failed(said["failed"])
        return said["result"]

    def ask(self, method: str, **params: Any) -> Any:
        if method == "tools/all" and self._driver.peer != TYPESCRIPT_2:
            return self.pages("tools/list")
        return self._do(method, params=params)

    def call(self, name: str, arguments: JsonObject | None = None, **options: Any) -> Any:
        return self._outcome(self._called(name, arguments, **options)[1])

    def _called(
        self,
        name: str,
        arguments: JsonObject | None = None,
        on_progress: Callable[..., Any] | None = None,
        log_level: str | None = None,
        by_hand: bool = False,
        request_state: str | None = None,
    ) -> tuple[int, Queue[JsonObject]]:
        params: JsonObject = {"name": name, "arguments": arguments or {}}
        self._on_progress = on_progress
        params |= {} if on_progress is None else {"progress": True}
        params |= {} if log_level is None else {"_meta": {LOG_LEVEL: log_level}}
        params |= {"by_hand": True} if by_hand else {}
        params |= {} if request_state is None else {"requestState": request_state}
        return self._driver.order("tools/call", params=params)

    def give_up(self, name: str) -> None:
        logged = threading.Event()
        self.on_log = lambda params: logged.set()
        number, _ = self._called(name, log_level="info" if self.revision.era == "stateless" else None)
        assert logged.wait(LONG)
        self._driver.write(cancel=number)

    @contextmanager
    def listen(self, *lists: str, resources: Sequence[str] = ()) -> Iterator[Subscribed]:
        asked: JsonObject = {f"{name}ListChanged": True for name in lists}
        asked |= {"resourceSubscriptions": list(resources)} if resources else {}
        events = Subscribed()
        number, replies = self._driver.order("subscriptions/listen", params=asked)
        self._listening[number] = events
        honoured = self._outcome(replies)
        events.refused = {name: value for name, value in asked.items() if honoured.get(name) != value}
        yield events
        if not events.over.is_set():
            self._driver.write(cancel=number)
            assert events.over.wait(LONG)
        del self._listening[number]

    @contextmanager
    def another(self) -> Iterator[Talk]:
        driver = Driver(self._driver.peer)
        try:
            with Theirs(driver, self._target, self._mode, able=False) as other:
                yield other
        finally:
            driver.stop()

    def __enter__(self) -> Self:
        self._driver.talk = self
        told = self._do("connect", target=self._target, mode=self._mode, able=self._able)
        self.revision, self.introduction = find_revision(told[0]), (told[1], told[2], told[3])
        return self

    def close(self) -> None:
        self._driver.order("close")
        self._driver.closed.get(timeout=LONG)
        self._driver.talk = None


class Subscribed:
    """The events of a subscription of a client of others, to its end."""

    def __init__(self) -> None:
        self.refused: JsonObject = {}
        self.over = threading.Event()
        self.graceful = False
        self._events: Queue[Event | None] = Queue()

    def hear(self, said: JsonObject) -> None:
        if "ended" not in said:
            self.take(Event(said["told"], said["params"]))
            return
        self.graceful = said["ended"] == "graceful"
        self._events.put(None)
        self.over.set()

    def take(self, event: Event) -> None:
        self._events.put(event)

    def get(self, timeout: float) -> Event:
        event = self._events.get(timeout=timeout)
        assert event is not None
        return event

    def __iter__(self) -> Iterator[Event]:
        while (event := self._events.get(timeout=WAIT)) is not None:
            yield event


def drained(queue: Queue[Any]) -> list[Any]:
    """Return what is in a queue now."""
    found = []
    while True:
        try:
            found.append(queue.get_nowait())
        except Empty:
            return found


class Drivers:
    """The programs with clients of others, each started once and used for one conversation after the other."""

    def __init__(self) -> None:
        self._started: dict[str, Driver] = {}

    def of(self, peer: str) -> Driver:
        # With the other mode it is the same program.
        name = programs.NEW_SDK if peer == BOTH_ERAS else peer
        if name not in self._started:
            self._started[name] = Driver(name)
        self._started[name].peer = peer
        return self._started[name]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for driver in self._started.values():
            driver.stop()


@contextmanager
def talking(pair: Pair, drivers: Drivers) -> Iterator[Talk]:
    """A conversation of a pair, one of whom is ours, or of two others."""
    with programs.serving(pair) as target:
        talk: Talk
        if pair.client == OURS:
            talk = Ours(target[0] if target[0].startswith("http") else target, pair.revisions)
        else:
            talk = Theirs(drivers.of(pair.client), target)
        talk.pair = pair
        with talk:
            yield talk
