"""Putting the checker under tests that are about something else: what clients and servers of ours say is judged.

MCP_REF_JUDGE=1 python -m pytest tests/features
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mcp_ref import Client, Server
from mcp_ref.lab.judge.check import Checker
from mcp_ref.lab.judge.rulebook import Finding
from mcp_ref.recording import record
from mcp_ref.recording.record import Recorder, TraceEvent

# Tests that have somebody break the rules on purpose, and what is found there. A name may be the beginning of one.
ON_PURPOSE: dict[str, set[str]] = {
    # Servers that are made up to be told apart: each is wrong in one way.
    "test_eras::": {"results_have_a_type", "bodies_are_messages", "stdout_has_messages_only", "result_or_error",
                    "is_json_rpc", "unsupported_version_lists_others", "missing_capabilities_are_named",
                    "mismatches_are_400", "unknown_methods_are_404", "missing_capabilities_are_400",
                    "unsupported_versions_are_400", "error_answers_a_request", "codes_of_the_past_are_gone"},
    # A client by hand, which sends no more than the test needs.
    "test_http::test_a_client_that_does_not_read_holds_up": {"version_header_is_sent"},
    "test_operating::test_each_refusal_of_http": {
        "result_or_error", "requests_say_what_they_are", "bodies_are_messages"},
    # Servers by hand, one of which prints between its messages.
    "test_noise::": {"results_have_a_type", "result_or_error", "is_json_rpc", "bodies_are_messages",
                     "stdout_has_messages_only", "result_answers_a_request", "streams_are_not_buffered"},
    # What is refused, and has to be sent for that.
    "test_rounds::test_what_was_not_asked": {"retries_bring_the_answers"},
    "test_rounds::test_servers_that_share_keys": {"state_goes_back_as_it_came"},
    "test_skills::test_what_is_not_as_its_entry": {"skill_frontmatter_is_identical"},
    "test_tasks::test_tasks_are_listed": {"cursors_go_back_as_they_came"},
    "test_tasks::test_a_malformed_lifetime": {"schema"},
    "test_tasks::test_an_unknown_task_is_refused": {"schema"},
    "test_tasks::test_a_server_without_tasks": {"schema", "tasks_only_of_who_has_them"},
    "test_tasks::test_over_http_the_id_of_a_task_is_mirrored": {"task_header_matches"},
    # A client by hand, which uses an id again.
    "test_tasks::test_a_client_that_hangs_up_has_not_cancelled_its_task": {"initialize_is_not_cancelled"},
    # Servers that are wrong in one thing, and whom the client bears with.
    "test_tasks::test_a_tool_is_called_as_a_task_without_the_declaration": {
        "tasks_only_of_requests_that_can", "undeclared_tasks_are_ignored"},
    "test_tasks::test_a_server_that_refuses_tasks_result": {"results_wait_for_the_end"},
    "test_tasks::test_an_empty_result_of_a_cancelled_task": {"schema"},
    "test_tasks::test_what_names_a_task_by_itself": {"requests_name_their_task_once"},
    # Over HTTP the news of the end travel on another stream than the progress, and may be read first.
    "test_tasks::test_on_progress_is_told": {"progress_ends_with_the_task"},
    "test_task_losses::test_a_client_that_hangs_up_on_tasks_result": {
        "id_not_used_before", "retry_comes_before_the_end"},
    "test_task_losses::test_an_answer_that_does_not_fit": {"schema"},
    # An answer that was too long to be written has been noted, and then what is said instead.
    "test_task_losses::test_an_answer_of_a_client_that_the_server_does_not_take": {"error_answers_a_request"},
}  # fmt: skip

NOT_WATCHED = ("test_limits::test_so_many_announcements_wait",)
"""Tests that count what a recorder adds to."""


@contextmanager
def watched(patch: pytest.MonkeyPatch) -> Iterator[list[Finding]]:
    """Every client and server that begins inside is recorded, exactly, and judged; gives what is found, at the end."""
    found: list[Finding] = []
    checkers: list[Checker] = []

    def judged(trace: Any) -> Recorder:
        checker = Checker()
        checkers.append(checker)

        def feed(event: TraceEvent) -> None:
            found.extend(checker.feed(event))

        if isinstance(trace, Recorder):
            return trace
        return Recorder(feed, exact=True) if trace is _nothing else Recorder(trace, feed)

    patch.setattr(record, "recorder", judged)
    for kind in (Client, Server):
        patch.setattr(kind, "__init__", _tracing(kind.__init__))
    yield found
    for checker in checkers:
        found.extend(checker.end())


def _nothing(event: TraceEvent) -> None:
    """A sink for who wants none."""


def _tracing(init: Any) -> Any:
    @functools.wraps(init)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs["trace"] = kwargs.get("trace") or _nothing
        init(self, *args, **kwargs)

    return wrapped


def unexpected(test: str, found: list[Finding]) -> list[Finding]:
    """Return what is found and is not on purpose."""
    allowed = {rule for name, rules in ON_PURPOSE.items() if test.startswith(name) for rule in rules}
    return [finding for finding in found if finding.level != "HINT" and finding.rule not in allowed]
