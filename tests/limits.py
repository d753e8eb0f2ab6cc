"""The limits that a user can meet, as spec_notes/limits.md has them: values from the code, and the tests of each.

A row names where its value stands in the code, so that the table cannot say another one. Each limit has a test that
goes up to it and one beyond, often the same test. `tests/test_limits_table.py` holds the rows against the code: what
looks like a limit there, and is in no row, is in `NOT_MET` with a reason.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any, NamedTuple


class Limit(NamedTuple):
    """One limit.

    Attributes:
        what: is limited, and in which unit.
        source: where the value stands: `module:NAME`, `module:Class.field` or `module:function(parameter)`.
        option: what changes it; empty: nothing but the source.
        beyond: what comes of one more.
        tests: that show it, at the limit and beyond.
    """

    what: str
    source: str
    option: str
    beyond: str
    tests: tuple[str, ...]

    @property
    def value(self) -> Any:
        module, _, name = self.source.partition(":")
        found: Any = importlib.import_module(f"mcp_ref.{module}")
        if name.endswith(")"):
            function, _, parameter = name.removesuffix(")").partition("(")
            return inspect.signature(getattr(found, function)).parameters[parameter].default
        for part in name.split("."):
            found = getattr(found, part)
        return found

    @property
    def shown(self) -> str:
        value = self.value
        if "bytes" in self.what and value >= 1 << 20:
            return f"{value >> 20} MiB"
        if "bytes" in self.what and value % 1024 == 0:
            return f"{value >> 10} KiB"
        return f"{value:,.12g}{' s' if 'seconds' in self.what else ''}"


_LIMITS, _HTTP = "tests/features/test_limits.py::", "tests/pages/basic/transports/streamable_http/"
_SERVER, _JSON = "kit.http.http_exchange:HttpLimits.", "kit.typed.json_schema:"
_ENDPOINT = "pages.basic.transports.streamable_http.server:EndpointOptions."
_SUBSCRIPTIONS = "tests/pages/basic/test_subscriptions.py::"
_AUTH = "tests/pages/basic/authorization/"
_APPS = "tests/host/test_apps.py::"
_SKILLS = "tests/features/test_skills.py::"

_HEADS = "tests/kit/http/test_http_heads.py::test_a_head_that_is_too_long_is_431"
_BODIES = f"{_LIMITS}test_bodies_under_way_share_a_budget"
_CONNECTIONS = "tests/kit/http/test_http_server.py::test_there_are_so_many_connections"
_SESSIONS = f"{_LIMITS}test_one_session_too_many_takes_the_place_of_the_longest_idle"
_FLOOD = "tests/features/test_listening.py::test_over_http_a_flood_is_refused_by_its_status"
_RATES = "tests/server/test_server.py::test_a_flood_meets_the_rates_that_nobody_set_and_heavy_use_does_not"
_QUESTIONS = "tests/pages/client/test_elicitation_form.py::test_a_flood_of_questions_is_refused_without_any_setting"
_TASKS = "tests/features/test_tasks.py::test_one_task_more_than_the_most_is_refused_and_expired_ones_are_forgotten"
_KEPT = "tests/tasks/test_store.py::"
_HOSTED = "tests/features/test_tasks.py::test_a_client_hosts_so_many_tasks_of_a_server_and_so_many_bytes"
_SCHEMA = "tests/kit/typed/test_json_schema.py::test_depth_parts_and_text_are_bounded"
_EXACT = f"{_LIMITS}test_a_schema_of_just_the_limit_is_used"
_MANY = f"{_LIMITS}test_2000_connections_are_held_and_one_more_is_refused"

MET: dict[str, list[Limit]] = {
    "Messages, either side": [
        Limit("bytes of a line over stdio, or of a reply over HTTP", "wire.transport:MAX_MESSAGE",
              "`max_message` of `run`, `Command`, `Url(options=)`",
              "the connection over stdio ends; the call over HTTP raises `RemoteProtocolError`",
              (f"{_LIMITS}test_a_client_over_http_takes_so_many_bytes",
               f"{_LIMITS}test_a_client_over_stdio_takes_lines_of_so_many_bytes")),
        Limit("values in one message", "kit.typed.json_text:MAX_VALUES", "", "`-32700`, before they are made",
              (f"{_LIMITS}test_a_message_of_too_many_values_is_refused_before_they_are_made",
               f"{_LIMITS}test_60_megabytes_of_brackets_take_no_memory")),
        Limit("requests of one peer that wait for an answer", "connection.connection:MAX_IN_FLIGHT", "", "`-32603`",
              ("tests/connection/test_connection.py::test_a_flood_of_requests_is_refused_and_those_before_it_are_answered",)),
        Limit("bytes of those of one peer whose handlers run or wait", "connection.connection:MAX_IN_FLIGHT_SIZE", "",
              "`-32603`",
              (f"{_LIMITS}test_requests_whose_handlers_wait_have_so_many_bytes",)),
        Limit("messages of a batch", "pages.basic.batching:MAX_BATCH", "", "`-32600`, before any of them is looked at",
              ("tests/connection/test_connection.py::test_a_batch_has_so_many_messages",)),
        Limit("notifications that wait for one slow callback of progress", "connection.connection:MAX_UNREAD", "",
              "dropped, and logged",
              ("tests/pages/basic/utilities/test_progress.py::test_a_flood_of_reports_to_a_slow_callback_stays_bounded",)),
        Limit("notifications that wait for other slow callbacks", "kit.threads.callbacks:MAX_WAITING", "",
              "dropped, and logged",
              ("tests/recording/test_record.py::test_what_callables_are_too_slow_for_is_lost_with_a_warning",)),
        Limit("bytes that wait for one slow callback of either kind", "kit.threads.bounded:MAX_WAITING_SIZE", "",
              "dropped, and logged",
              (f"{_LIMITS}test_log_messages_for_a_slow_callback_have_so_many_bytes",
               f"{_LIMITS}test_reports_of_progress_for_a_slow_callback_have_so_many_bytes")),
        Limit("clients and methods whose rates are remembered", "kit.threads.deadline:MAX_BUCKETS",
              "", "the quietest is forgotten",
              ("tests/server/test_stateless.py::test_the_rates_of_clients_that_went_away_are_forgotten",)),
        Limit("calls, completions, log messages, reports of progress, or requests for tasks of one client at once",
              "server.server:DEFAULT_RATE.burst", "`rates`", "429; messages and reports are dropped", (_RATES,)),
        Limit("those in a second, after that", "server.server:DEFAULT_RATE.per_second", "`rates`",
              "429; messages and reports are dropped", (_RATES,)),
        Limit("times that a server may sample, or ask the user, at once", "client.session:DEFAULT_RATE.burst",
              "`rates`", "429", (_QUESTIONS,)),
        Limit("those in a second, after that", "client.session:DEFAULT_RATE.per_second", "`rates`", "429",
              (_QUESTIONS,)),
    ],
    "A server on HTTP": [
        Limit("bytes of a request's body", f"{_SERVER}max_message", "`max_message`", "413",
              (f"{_LIMITS}test_a_message_over_http_has_at_most_4_mib_unless_said_otherwise",)),
        Limit("bytes of all bodies above 64 KiB that are under way", f"{_SERVER}bodies", "`limits`", "503",
              (_BODIES,)),
        Limit("bytes of those of one address", f"{_SERVER}bodies_per_client", "`limits`", "429", (_BODIES,)),
        Limit("bytes of a request's head", "kit.http.http_server:MAX_HEAD", "", "431", (_HEADS,)),
        Limit("bytes of the extensions and trailers of a body in chunks", "kit.http.chunked:MAX_SKIPPED", "", "400",
              ("tests/kit/http/test_chunked.py::test_malformed_chunks_are_400_and_nothing_after_them_is_read",)),
        Limit("connections", f"{_SERVER}connections", "`limits`", "503", (_CONNECTIONS, _MANY)),
        Limit("connections of one address", f"{_SERVER}connections_per_client", "`limits`", "429",
              (_CONNECTIONS, _MANY)),
        Limit("seconds for the head of a request, then for its body, then for the next request", f"{_SERVER}read",
              "`limits`", "the connection is closed",
              ("tests/kit/http/test_http_server.py::test_who_dribbles_is_given_up_in_all",
               "tests/kit/http/test_http_server.py::test_an_idle_connection_is_closed")),
        Limit("seconds in which a client takes a piece of an answer", f"{_SERVER}write", "`limits`",
              "the connection is closed", ("tests/kit/http/test_http_server.py::test_who_does_not_read_is_given_up",)),
        Limit("sessions", f"{_ENDPOINT}max_sessions", "`max_sessions`",
              "the longest idle one of the same principal makes room; 503 without one",
              (_SESSIONS, f"{_LIMITS}test_sessions_that_are_in_use_make_no_room")),
        Limit("sessions of one address", f"{_ENDPOINT}max_sessions_per_client", "`max_sessions_per_client`",
              "the same, and 429", (_SESSIONS, f"{_HTTP}test_endpoint.py::test_there_may_be_so_many_sessions")),
        Limit("bytes of the params of `initialize`, 100 for each value in them",
              "pages.basic.lifecycle:MAX_INTRODUCTION", "",
              "`-32602`", (f"{_LIMITS}test_an_introduction_has_so_many_bytes",)),
        Limit("bytes of those of all sessions, and half of it for one address",
              "pages.basic.transports.streamable_http.server:MAX_INTRODUCTIONS", "",
              "the longest idle session of the same principal makes room; 503 or 429 without one",
              (f"{_LIMITS}test_sessions_with_the_largest_introductions_stay_within_one_bound",)),
        Limit("seconds for which a session may be unused", f"{_ENDPOINT}idle", "`idle`",
              "it ends: 404, and the client opens another",
              ("tests/features/test_http.py::test_a_session_that_nobody_uses_ends_and_its_client_opens_another",)),
        Limit("connections that carry streams of one session", f"{_ENDPOINT}max_streams_per_session",
              "`max_streams_per_session`", "429", (f"{_HTTP}test_endpoint.py::test_there_may_be_so_many_streams",)),
        Limit("streams of one session that can be resumed",
              "pages.basic.transports.streamable_http.streams:MAX_STREAMS", "",
              "the oldest is forgotten: 400",
              (f"{_HTTP}test_streams.py::test_streams_that_nobody_reads_are_forgotten_the_oldest_first",)),
        Limit("bytes of events of all sessions in memory",
              "pages.basic.transports.streamable_http.streams:MemoryEventStore(size)",
              "`event_store`", "the oldest are forgotten: 400",
              (f"{_LIMITS}test_the_events_of_all_sessions_share_one_bound",)),
        Limit("messages that wait for one session to open a stream, or to read",
              "pages.basic.transports.streamable_http.streams:MAX_WAITING", "", "`TransportClosed` for who sends",
              (f"{_HTTP}test_streams.py::test_so_much_can_wait_and_no_more",)),
        Limit("subscriptions of 2026-07-28", f"{_ENDPOINT}max_subscriptions", "`max_subscriptions`", "503", (_FLOOD,)),
        Limit("subscriptions of 2026-07-28 of one address", f"{_ENDPOINT}max_subscriptions_per_client",
              "`max_subscriptions_per_client`", "429", (_FLOOD,)),
    ],
    "What one client makes a server keep": [
        Limit("handlers of one client at once", "server.server:Server(max_workers)", "`max_workers`",
              "the others wait",
              ("tests/kit/threads/test_workers.py::test_no_more_jobs_run_than_the_cap_allows",)),
        Limit("seconds that a handler's question waits", "server.server:Server(question_timeout)",
              "`question_timeout`",
              "`RequestTimeout` for the handler",
              ("tests/kit/threads/test_deadline.py::test_a_servers_question_has_a_timeout",)),
        Limit("entries on a page of a list", "server.server:Server(page_size)", "`page_size`", "another page",
              ("tests/pages/server/utilities/test_pagination.py::test_every_list_is_walked_whatever_the_size_of_its_pages",)),
        Limit("announcements that wait for one session", "server.session:MAX_ANNOUNCEMENTS", "",
              "log messages are dropped; a change below a URI is told as one of that URI",
              (f"{_LIMITS}test_so_many_announcements_wait_for_a_client_that_does_not_listen",)),
        Limit("URIs that one session is subscribed to", "pages.server.resources:MAX_SUBSCRIPTIONS", "", "`-32602`",
              ("tests/pages/server/test_resources.py::test_a_session_has_so_many_subscriptions_and_no_more",)),
        Limit("characters of these URIs", "pages.server.resources:MAX_SUBSCRIBED", "", "`-32602`",
              ("tests/pages/server/test_resources.py::test_a_session_has_so_many_subscriptions_and_no_more",)),
        Limit("subscriptions of 2026-07-28 of all clients", "pages.basic.subscriptions:MAX_OPEN", "", "`-32603`",
              ("tests/features/test_listening.py::test_of_too_many_subscriptions_those_on_top_are_refused",)),
        Limit("characters in all their filters", "pages.basic.subscriptions:MAX_LISTENED", "", "`-32603`",
              ("tests/features/test_listening.py::test_the_filters_of_all_subscriptions_have_so_many_characters",)),
        Limit("URIs in the filter of one", "pages.basic.subscriptions:MAX_URIS", "", "`-32602`",
              ("tests/features/test_listening.py::test_a_filter_that_is_too_long_is_refused",)),
        Limit("changes that wait for one", "pages.basic.subscriptions:MAX_PENDING", "",
              "a change is told as one of the URI that was asked for",
              (f"{_SUBSCRIPTIONS}test_what_waits_for_a_client_is_bounded_and_no_change_is_lost",)),
        Limit("bytes of a `requestState`", "pages.basic.mrtr:MAX_STATE", "", "`-32602`, and an error for the handler",
              ("tests/pages/basic/test_mrtr_state.py::test_a_huge_state_is_refused_before_it_is_looked_at",
               "tests/pages/basic/test_mrtr_state.py::test_a_payload_that_would_be_refused_is_not_sealed",
               "tests/pages/basic/test_mrtr.py::test_answers_that_are_too_large_to_carry_are_the_clients_fault")),
        Limit("tasks of one owner that have not ended", "tasks.running:Tasks(most)", "`Tasks(most=)`", "`-32603`",
              (_TASKS,)),
        Limit("requests that wait for the end of one task", "tasks.running:MAX_CARRIERS", "", "`-32603`",
              ("tests/tasks/test_running.py::test_so_many_wait_for_one_task_and_one_more_is_refused",)),
        Limit("seconds that a task may live", "tasks.running:Tasks(longest)", "`Tasks(longest=)`",
              "it lives so long", (_TASKS,)),
        Limit("bytes that are kept of the tasks of one owner, with those that have ended",
              "tasks.running:Tasks(size_per_owner)", "`Tasks(size_per_owner=)`",
              "what ended first is forgotten; `-32603` if nothing has ended",
              (f"{_KEPT}test_so_many_bytes_of_one_owner_are_kept_and_one_more_is_refused",
               f"{_KEPT}test_what_has_ended_makes_room_for_its_owner_first_and_refuses_nobody")),
        Limit("bytes that are kept of all tasks", "tasks.running:Tasks(size)", "`Tasks(size=)`", "the same",
              (f"{_KEPT}test_so_many_bytes_of_all_owners_are_kept_and_one_more_is_refused",)),
        Limit("tasks that run at once; of one owner as many as are left to others", "tasks.running:Tasks(running)",
              "`Tasks(running=)`", "the others wait",
              (f"{_KEPT}test_one_owner_does_not_hold_up_the_tasks_of_another",)),
        Limit("announcements that wait for a `RedisBus`", "server.bus:MAX_WAITING", "",
              "all that is kept at clients counts as changed",
              ("tests/server/test_bus.py::test_nobody_waits_for_a_redis_that_does_not_answer",)),
        Limit("completion values in one answer", "pages.server.utilities.completion:MAX_VALUES", "",
              "the rest is told as `hasMore`",
              ("tests/pages/server/utilities/test_completion.py::test_at_most_100_values_go_out_and_the_rest_is_told",)),
        Limit("characters of a URI that matches a template", "kit.typed.uri_template:MAX_URI_LENGTH", "",
              "it matches none: resource not found",
              ("tests/kit/typed/test_uri_template.py::test_a_uri_of_more_characters_than_the_bound_matches_nothing",)),
    ],
    "What a server makes a client do": [
        Limit("seconds for a call", "client.client:Client(timeout)", "`timeout`, of the client or a call",
              "`RequestTimeout`; the server is told",
              ("tests/features/test_utilities.py::"
               "test_a_call_that_takes_too_long_is_given_up_and_the_server_is_told",)),
        Limit("seconds to connect", "client.client:Client(connect_timeout)", "`connect_timeout`",
              "`RequestTimeout`",
              ("tests/test_faults.py::test_the_opening_is_bounded_to_its_last_message",)),
        Limit("seconds that the time of a call stands still while the user answers", "client.input_rounds:MAX_PAUSE",
              "",
              "its time goes on", ("tests/kit/threads/test_deadline.py::test_a_pause_counts_up_to_its_limit",)),
        Limit("rounds of questions of one call, and of one task of 2026-07-28", "pages.basic.mrtr:MAX_ROUNDS", "",
              "`RemoteProtocolError`",
              ("tests/client/test_stateless.py::test_questions_without_end_are_given_up",
               "tests/features/test_tasks.py::test_a_task_may_ask_in_so_many_rounds")),
        Limit("questions that are tasks of the client at once", "client.tasks:MAX_HOSTED", "", "`-32603`",
              (_HOSTED,)),
        Limit("bytes that are kept of such tasks, with those that have ended", "client.tasks:MAX_KEPT", "",
              "what ended first is forgotten; `-32603` if nothing has ended", (_HOSTED,)),
        Limit("times that a lost request is sent again, if that does no harm", "client.reconnect:MAX_RESENDS",
              "`resend` of a call", "`TransportClosed`",
              ("tests/features/test_losses.py::test_a_call_is_sent_again_at_most_twice",)),
        Limit("pages of a list", "pages.server.utilities.pagination:MAX_PAGES", "", "`RemoteProtocolError`",
              ("tests/pages/server/utilities/test_pagination.py::test_a_list_without_end_is_given_up",)),
        Limit("bytes of a list", "pages.server.utilities.pagination:MAX_LIST_SIZE", "", "`RemoteProtocolError`",
              ("tests/pages/server/utilities/test_pagination.py::test_a_list_without_end_is_given_up",)),
        Limit("servers whose era is remembered", "kit.threads.era_cache:MAX_SERVERS_REMEMBERED", "",
              "the oldest is asked again",
              ("tests/features/test_eras.py::test_what_is_remembered_is_bounded_and_the_oldest_goes_first",)),
    ],
    "Skills": [
        Limit("files of a skill", "pages.extensions.skills:MAX_FILES", "", "not served; declined by clients and hosts",
              (f"{_SKILLS}test_what_is_wrong_with_a_folder_is_named_at_the_start",
               f"{_SKILLS}test_entries_up_to_the_limits_are_valid")),
        Limit("bytes of a skill", "pages.extensions.skills:MAX_BYTES", "", "not served; declined by clients and hosts",
              (f"{_SKILLS}test_what_is_wrong_with_a_folder_is_named_at_the_start",
               "tests/host/test_skills.py::test_a_skill_at_the_limit_is_loaded")),
        Limit("characters of the URI of a skill", "pages.extensions.skills:MAX_URI", "",
              "declined by clients and hosts",
              (f"{_SKILLS}test_an_entry_that_is_not_valid_is_refused",
               f"{_SKILLS}test_entries_up_to_the_limits_are_valid")),
        Limit("bytes of a frontmatter", "pages.extensions.frontmatter:MAX_FRONTMATTER", "", "refused",
              ("tests/pages/extensions/test_frontmatter.py::test_size_and_depth_have_bounds",)),
        Limit("levels of a frontmatter", "pages.extensions.frontmatter:MAX_LEVELS", "", "refused",
              ("tests/pages/extensions/test_frontmatter.py::test_size_and_depth_have_bounds",)),
        Limit("bytes of verified files that a host keeps", "host.skills:MAX_KEPT", "", "the oldest is read again",
              ("tests/host/test_skills.py::test_so_many_bytes_are_kept_and_the_oldest_go_first",)),
    ],
    "Apps": [
        Limit("bytes of a document", "pages.extensions.apps:MAX_HTML", "", "not shown",
              ("tests/pages/extensions/test_apps.py::test_what_is_no_document_is_not_shown",)),
        Limit("views of a host", "host.apps:MAX_VIEWS", "", "one more is a LocalProtocolError",
              (f"{_APPS}test_a_host_has_so_many_views",)),
        Limit("bytes of a message of a view", "host.apps:MAX_MESSAGE", "", "-32600, or dropped",
              (f"{_APPS}test_a_request_that_is_wrong_gets_an_error",)),
        Limit("messages that wait for a view", "host.apps:MAX_WAITING", "", "the view is closed",
              (f"{_APPS}test_a_view_that_takes_nothing_is_closed",)),
        Limit("requests of a view that are carried out at once", "host.apps:MAX_CALLS", "",
              "as many again wait; then -32600", (f"{_APPS}test_a_view_has_so_many_requests_under_way",)),
        Limit("calls of a window at once", "lab.window.window:MAX_CALLS", "", "one more is told so",
              ("tests/lab/window/test_window.py::test_a_call_is_cancelled_and_there_are_only_so_many",)),
        Limit("events that a window tells a page that is opened later", "lab.window.window:MAX_KEPT", "",
              "the oldest are not told",
              ("tests/lab/window/test_window.py::test_so_much_is_told_to_a_page_that_is_opened_later",)),
        Limit("bytes of the events of a window that are kept, and that wait for a page", "lab.window.window:MAX_BYTES",
              "", "the oldest are not told; its stream ends",
              ("tests/lab/window/test_window.py::test_what_is_kept_and_what_waits_is_bounded_in_bytes_too",)),
        Limit("apps of a window that are open at once", "lab.window.window:MAX_APPS", "", "the oldest is closed",
              ("tests/lab/window/test_window.py::test_of_many_apps_the_oldest_makes_room",)),
        Limit("events that wait for a page of a window", "lab.window.window:MAX_WAITING", "", "its stream ends",
              ("tests/lab/window/test_window.py::test_a_page_that_does_not_read_is_let_go_and_the_window_goes_on",)),
        Limit("characters of a message that a window shows", "lab.window.window:MAX_SHOWN", "", "cut",
              ("tests/lab/window/test_window.py::test_a_message_that_is_too_long_is_cut",)),
    ],
    "JSON Schemas of tools": [
        Limit("levels of a schema", f"{_JSON}MAX_DEPTH", "", "refused: the tool cannot be registered, or checked",
              (_SCHEMA,)),
        Limit("objects and arrays in a schema", f"{_JSON}MAX_PARTS", "", "refused", (_EXACT,)),
        Limit("bytes of a schema", f"{_JSON}MAX_TEXT", "", "refused", (_EXACT,)),
        Limit("characters of a `pattern`", f"{_JSON}MAX_PATTERN", "", "refused",
              (_EXACT,)),
        Limit("steps of one check", f"{_JSON}MAX_WORK", "", "the value does not fit",
              ("tests/kit/typed/test_json_schema.py::"
               "test_a_check_ends_by_its_deadline_and_by_the_work_that_it_may_do",)),
        Limit("problems that are told of a value", f"{_JSON}MAX_PROBLEMS", "", "the check ends",
              ("tests/kit/typed/test_json_schema.py::test_problems_are_bounded_in_number_and_length",)),
    ],
    "Authorization": [
        Limit("characters of a token that is a JWT", "pages.basic.authorization.jwt:MAX_TOKEN", "", "401",
              (f"{_LIMITS}test_a_token_has_so_many_characters",)),
        Limit("bytes of an Authorization header", "pages.basic.authorization.metadata:MAX_HEADER", "", "400",
              (f"{_LIMITS}test_an_authorization_header_has_so_many_bytes",)),
        Limit("characters of the scopes of a challenge", "pages.basic.authorization.metadata:MAX_SCOPES", "",
              "they are not believed", (f"{_AUTH}test_metadata.py::test_a_challenge_can_be_read_as_it_was_written",)),
        Limit("tokens that a verifier remembers", "pages.basic.authorization.verifiers:MAX_KNOWN", "",
              "the oldest is verified again", (f"{_AUTH}test_verifiers.py::test_what_is_remembered_is_bounded",)),
        Limit("proofs that are remembered, so that none counts twice", "pages.basic.authorization.dpop:MAX_PROOFS", "",
              "the oldest is forgotten",
              (f"{_AUTH}test_dpop.py::test_the_proofs_that_are_remembered_are_bounded",)),
        Limit("clients that an `AuthorizationServer` registers", "lab.testing.authorization_server:MAX_KEPT",
              "", "503", (f"{_AUTH}test_authorization_server.py::test_registration_is_bounded",)),
        Limit("bytes of a document that is fetched, such as metadata", "kit.http.guarded_fetch:MAX_DOCUMENT", "",
              "`AuthorizationError`", (f"{_LIMITS}test_a_document_has_so_many_bytes",)),
        Limit("seconds for such a document", "kit.http.guarded_fetch:FETCH_TIMEOUT", "", "`AuthorizationError`",
              (f"{_AUTH}test_attacks_on_clients.py::test_a_document_that_never_ends_is_given_up",)),
        Limit("logins for one server within ten minutes", "pages.basic.authorization.client:MAX_VISITS", "",
              "`AuthorizationError`",
              (f"{_AUTH}test_attacks_on_clients.py::test_a_server_that_asks_again_and_again_gets_three_logins",)),
    ],
}  # fmt: skip

NOT_MET: dict[str, str] = {
    "MAX_BODY": "a form of the server for lessons and tests",
    "MAX_ENV_FILE": "a file that the user of a host names",
    "MAX_DEPTH": "of a schema in headers; the one of schemas is above",
    "MAX_ENDED": "how much one request does of what is due",
    "MAX_LIFETIME": "how far a number is believed",
    "MAX_NAME": "a name that the user of a host chooses",
    "MAX_LEFT_OUT": "how much a client overlooks in a list",
    "MAX_LINES": "what an exercise may say",
    "MAX_OUTPUT": "what an exercise may write",
    "MAX_PAUSE": "of a wait for a task; the one of a call is above",
    "MAX_RESTARTS": "how often a host starts a server again",
    "MAX_SAFE": "the specification's",
    "MAX_SHOWN": "characters in an error text",
    "MAX_TOLD": "how many ids of a filter are honoured, which the answer says",
    "MAX_LISTED": "how many tasks a client asks for",
    "MAX_TRIES": "processes that may die of one task",
    "MAX_RESULT": "that of a message, which is above, with room for what stands around a result of a task",
    "MAX_TTL": "how far a number is believed",
    "MAX_URGENT": "threads above the cap",
    "MAX_VISITS": "which visits are remembered; the one of logins is above",
    "probe_timeout": "when a second question is asked",
}
"""By its name, what looks like a limit in the code but is not one that a user meets, with the reason."""


def table() -> str:
    """The table of spec_notes/limits.md."""
    lines = ["| limit | default | option | beyond it |\n", "| --- | --- | --- | --- |\n"]
    for heading, rows in MET.items():
        lines.append(f"| **{heading}** | | | |\n")
        lines += [f"| {row.what} | {row.shown} | {row.option} | {row.beyond} |\n" for row in rows]
    return "".join(lines)
