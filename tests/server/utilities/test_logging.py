from __future__ import annotations

from typing import Any

import pytest

from mcp_ref.errors import LocalProtocolError
from mcp_ref.machinery.checking import SchemaMismatch, checker
from mcp_ref.revisions import REVISIONS
from mcp_ref.server.utilities.logging import (
    LEVELS,
    METHODS,
    SetLevelRequestParams,
    log,
    logging_set_level,
    set_log_level,
)
from tests.server.fakes import FakeCaller, FakeContext


def test_the_eight_levels_are_ordered_as_in_rfc_5424() -> None:
    assert LEVELS == ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


def test_a_message_goes_out_with_its_level_its_logger_and_any_json() -> None:
    ctx = FakeContext()
    log(ctx, "error", {"code": 7, "why": [None, True]}, "database")
    log(ctx, "info", "hello")
    assert ctx.notified == [
        ("notifications/message", {"level": "error", "data": {"code": 7, "why": [None, True]}, "logger": "database"}),
        ("notifications/message", {"level": "info", "data": "hello"}),
    ]


def test_only_messages_at_or_above_the_level_asked_for_are_sent() -> None:
    ctx = FakeContext()
    assert logging_set_level(ctx, {"level": "warning"}) == {}
    for level in LEVELS:
        log(ctx, level, level)
    sent = [params["data"] for _, params in ctx.notified if params is not None]
    assert sent == ["warning", "error", "critical", "alert", "emergency"]


def test_the_level_can_be_changed_while_the_session_lasts() -> None:
    ctx = FakeContext()
    logging_set_level(ctx, {"level": "error"})
    logging_set_level(ctx, {"level": "debug"})
    log(ctx, "debug", 1)
    assert len(ctx.notified) == 1


@pytest.mark.parametrize(("revision", "sent"), [(row, row.era == "session") for row in REVISIONS.values()])
def test_without_a_level_a_client_gets_every_message_in_the_session_era_and_none_later(
    revision: Any, sent: bool
) -> None:
    ctx = FakeContext(revision=revision)
    log(ctx, "debug", 1)
    assert bool(ctx.notified) == sent


def test_a_level_that_does_not_exist_is_the_callers_fault_on_either_side() -> None:
    ctx, caller = FakeContext(), FakeCaller()
    with pytest.raises(LocalProtocolError, match="unknown log level 'warn'"):
        log(ctx, "warn", 1)  # type: ignore[arg-type]
    with pytest.raises(LocalProtocolError, match="unknown log level 'warn'"):
        set_log_level(caller, "warn")  # type: ignore[arg-type]
    assert not ctx.notified
    assert not caller.asked


def test_a_level_that_does_not_exist_is_refused_by_the_check_of_the_params() -> None:
    with pytest.raises(SchemaMismatch):
        checker(SetLevelRequestParams, REVISIONS["2025-11-25"])({"level": "warn"})


def test_the_client_asks_with_logging_set_level() -> None:
    caller = FakeCaller({})
    set_log_level(caller, "notice", timeout=3)
    assert caller.asked == [("logging/setLevel", {"level": "notice"}, {"timeout": 3})]


def test_set_level_is_gone_in_the_stateless_era_and_the_message_is_not() -> None:
    last = REVISIONS["2026-07-28"]
    assert [row.name for row in METHODS if row.exists_in(last)] == ["notifications/message"]
