"""basic/utilities/progress: whatever `on_progress` does comes out of its call alone, over every transport."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from mcp_ref import (
    Cancel,
    Client,
    Context,
    RequestCancelled,
    RequestTimeout,
    Server,
    TransportClosed,
)
from mcp_ref.errors import AnswerLost
from tests.features.conftest import Connect, newest, until
from tests.support.wire import PATIENCE, Background


class Slow:
    """A server with a tool that reports twice, and one that goes on until it is given up."""

    def __init__(self) -> None:
        self.server = Server("s")
        self.stopped = threading.Semaphore(0)

        @self.server.tool()
        def echo(ctx: Context, text: str) -> str:
            ctx.progress(1)
            ctx.progress(2)
            return text

        @self.server.tool()
        def slow(ctx: Context) -> str:
            ctx.progress(1)
            until(lambda: ctx.cancelled)
            self.stopped.release()
            return "too late"


@pytest.fixture
def slow() -> Slow:
    return Slow()


@pytest.fixture
def client(connect: Connect, slow: Slow) -> Client:
    return connect(slow.server)


pytestmark = newest


def said(client: Client, **options: Any) -> str:
    return str(client.call_tool("echo", {"text": "a"}, **options)["content"][0]["text"])


@pytest.mark.parametrize(
    "problem",
    [
        AnswerLost("mine"),
        RequestTimeout("mine"),
        RequestCancelled("mine"),
        KeyError("mine"),
        KeyboardInterrupt(),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_what_a_callback_raises_comes_out_of_the_call_as_it_is(client: Client, problem: BaseException) -> None:
    calls: list[Any] = []

    def raises(*report: Any) -> None:
        calls.append(report)
        raise problem

    with pytest.raises(type(problem)) as raised:
        said(client, on_progress=raises, resend=False)
    assert raised.value is problem and len(calls) == 1
    assert said(client) == "a"


def test_a_callback_may_make_calls_of_its_own(client: Client) -> None:
    seen: list[str] = []
    assert said(client, on_progress=lambda *report: seen.append(said(client))) == "a"
    assert seen == ["a", "a"]


def test_a_call_can_be_given_up_while_its_callback_runs(client: Client, slow: Slow) -> None:
    for somebody_else in (False, True):
        give_up = Cancel()

        def cancels(*report: Any, give_up: Cancel = give_up, somebody_else: bool = somebody_else) -> None:
            if somebody_else:
                Background(give_up, "enough").outcome()
            else:
                give_up("enough")

        with pytest.raises(RequestCancelled, match="enough"):
            client.call_tool("slow", {}, on_progress=cancels, cancel=give_up)
        assert slow.stopped.acquire(timeout=PATIENCE)
    assert said(client) == "a"


def test_a_client_may_be_closed_in_a_callback(client: Client) -> None:
    with pytest.raises(TransportClosed):
        client.call_tool("slow", {}, on_progress=lambda *report: client.close())
