"""deprecated: what the newest revision deprecates works, and says so once, on the line of whoever uses it."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mcp_ref import Context, Server
from mcp_ref.pages.basic.mrtr import elicitation_form, roots_listing
from mcp_ref.revisions import REVISIONS, SESSION_REVISIONS
from mcp_ref.wire import deprecated
from mcp_ref.wire.deprecated import FEATURES
from tests.pages.server.alone import Reply, call, meta
from tests.support.wire import opened

INCLUDE = 'includeContext "thisServer" or "allServers"'
NEWEST = REVISIONS["2026-07-28"]
CAN: Any = {"roots": {}, "sampling": {"context": {}}, "elicitation": {}}
ROOTS: Any = {"roots": [{"uri": "file:///a"}]}

USES: dict[str, Callable[[Context], Any]] = {
    "roots": lambda ctx: ctx.roots(),
    "sampling": lambda ctx: ctx.sample("hi", max_tokens=1),
    "logging": lambda ctx: ctx.log("info", "x"),
}


@pytest.fixture(autouse=True)
def nothing_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deprecated, "_unsaid", dict(FEATURES))


@pytest.fixture
def heard() -> Iterator[list[warnings.WarningMessage]]:
    """Every warning, whatever the configuration of the tests ignores."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def using(use: Callable[[Context], Any]) -> Server:
    server = Server("s")

    @server.tool()
    def t(ctx: Context) -> str:
        use(ctx)
        return ""

    return server


@pytest.mark.parametrize("feature", USES)
def test_the_first_use_is_a_warning_that_says_what_to_do_instead_and_it_works(feature: str, heard: Any) -> None:
    reply, server = Reply(), using(USES[feature])
    for _ in range(3):
        result = call(server, "t", envelope=meta(CAN, level="debug"), reply=reply)
    call(using(USES[feature]), "t", envelope=meta(CAN))
    (warning,) = heard
    assert warning.category is DeprecationWarning
    assert str(warning.message).startswith("deprecated in MCP since 2026-07-28: ")
    assert feature in str(warning.message) and FEATURES[feature].instead in str(warning.message)
    # It stands on the line of the handler.
    assert (warning.filename, warning.lineno) == (__file__, inspect.getsourcelines(USES[feature])[1])
    # Deprecated is not removed.
    assert (result["resultType"] == "input_required") is (feature != "logging")
    assert reply.methods() == (["notifications/message"] * 3 if feature == "logging" else [])


def test_also_where_this_package_is_called_from_further_down(heard: Any) -> None:
    roots_listing()
    assert heard[0].filename == __file__
    assert "roots" in str(heard[0].message)


@pytest.mark.parametrize(
    ("use", "said"),
    [
        (lambda ctx: ctx.sample("hi", max_tokens=1, include_context="thisServer"), ["sampling", INCLUDE]),
        (lambda ctx: ctx.sample("hi", max_tokens=1, include_context="none"), ["sampling"]),
        (lambda ctx: ctx.elicit("?", {"a": {"type": "string"}}), []),
        (lambda ctx: ctx.progress(1), []),
    ],
    ids=["context of servers", "no context", "elicitation", "progress"],
)
def test_context_of_servers_is_deprecated_beside_sampling_and_nothing_else_is(use: Any, said: Any, heard: Any) -> None:
    call(using(use), "t", envelope=meta(CAN, progressToken=1))
    elicitation_form("?", {"a": {"type": "string"}})
    assert [str(warning.message).partition(": ")[2].partition(";")[0] for warning in heard] == said
    assert {warning.filename for warning in heard} <= {__file__}


@pytest.mark.parametrize("revision", [row.name for row in SESSION_REVISIONS])
def test_in_the_session_era_nothing_is_said(revision: str, heard: Any) -> None:
    server = Server("s")

    @server.tool()
    def t(ctx: Context) -> str:
        ctx.log("info", "x")
        return str(len(ctx.roots()))

    with opened(server, revision, CAN) as wire:
        wire.call(1, "t")
        assert wire.receive()["method"] == "notifications/message"
        wire.answer(wire.receive()["id"], ROOTS)
        assert wire.receive()["result"]["content"][0]["text"] == "1"
        # Log messages outside a handler are of that era.
        server.log("info", "x")
    assert heard == []


def test_where_warnings_are_errors_only_the_first_use_fails() -> None:
    server = using(USES["logging"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert call(server, "t")["isError"] is True
        assert call(server, "t").get("isError") is None


def test_the_table_is_the_registry_of_the_page() -> None:
    assert {feature: row.since for feature, row in FEATURES.items()} == {
        "roots": "2026-07-28",
        "sampling": "2026-07-28",
        "logging": "2026-07-28",
        "Dynamic Client Registration": "2026-07-28",
        INCLUDE: "2025-11-25",
        "HTTP+SSE": "2025-03-26",
    }
