"""Redaction: what is a secret by its name never gets into a trace, and nothing is changed in place."""

from __future__ import annotations

import copy
import json
import sys
from typing import is_typeddict

import pytest

import mcp_ref.pages.table  # noqa: F401  (has every page loaded)
from mcp_ref.recording.redact import REDACTED, is_secret, redact, redact_text
from tests.support.clock import grows_with_its_size

SECRETS = """
authorization Authorization cookie Set-Cookie set_cookie token access_token accessToken refresh-token client_secret
clientSecret PASSWORD api_key apikey API-Key secret sessionToken sessiontoken otp userOtp PIN cardPIN card_pin ssn
creditCardNumber cvc
"""


@pytest.mark.parametrize("name", SECRETS.split())
def test_members_with_the_name_of_a_secret_are_redacted_wherever_they_are(name: str) -> None:
    message = {"params": {"arguments": [{name: "hunter2"}, {name: {"deep": "hunter2"}}, {name: 12345}]}}
    text = json.dumps(redact(message))
    assert "hunter2" not in text and "12345" not in text and text.count(REDACTED) == 3


@pytest.mark.parametrize(
    "name", ["progressToken", "nextCursor", "maxTokens", "inputTokens", "tokens", "tokenizer", "spin", "shopping"]
)
def test_members_that_only_sound_like_secrets_are_kept(name: str) -> None:
    assert redact({"_meta": {name: 7}}) == {"_meta": {name: 7}}


def test_redaction_returns_a_copy_and_changes_nothing() -> None:
    message = {"a": [{"token": "x"}, {"list": [1, 2]}], "url": "http://u:p@h/"}
    before = copy.deepcopy(message)
    shown = redact(message)
    shown["a"][1]["list"].append(3)
    assert message == before


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pa55@example.com/x", "https://[redacted]@example.com/x"),
        ("see https://h/cb?x=1&access_token=abc&y=2#top", "see https://h/cb?x=1&access_token=[redacted]&y=2#top"),
        ("https://example.com/#token=abc", "https://example.com/#token=[redacted]"),
        ("https://example.com/?api_key=abc", "https://example.com/?api_key=[redacted]"),
        ("https://example.com/?page=2&progressToken=3", "https://example.com/?page=2&progressToken=3"),
        ("mail me@example.com", "mail me@example.com"),
    ],
)
def test_urls_lose_user_information_and_secret_parameters(url: str, shown: str) -> None:
    assert redact(url) == redact({"uri": url})["uri"] == shown


def test_json_quoted_in_text_is_redacted_as_well() -> None:
    text = json.dumps({"user": "ann", "password": 'hun"ter2', "spin": 1, "token": 99})
    shown = redact({"content": [{"type": "text", "text": text}]})["content"][0]["text"]
    assert json.loads(shown) == {"user": "ann", "password": REDACTED, "spin": 1, "token": REDACTED}
    twice = redact_text('{"text": ' + json.dumps(json.dumps({"password": "hunter2"})) + ' and then "token": "abc')
    assert "hunter2" not in twice and "abc" not in twice


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        # The value beside the name of a secret, and of something else.
        ({"argument": {"name": "api_key", "value": "abc"}}, {"argument": {"name": "api_key", "value": REDACTED}}),
        ({"argument": {"name": "city", "value": "abc"}}, {"argument": {"name": "city", "value": "abc"}}),
        # A schema keeps its property, but not the value that it suggests.
        ({"properties": {"password": {"type": "string", "default": "hunter2"}, "token": "abc"}},
         {"properties": {"password": {"type": "string", "default": REDACTED}, "token": REDACTED}}),
    ],
)  # fmt: skip
def test_a_secret_is_known_by_the_name_beside_it(message: object, shown: object) -> None:
    assert redact(message) == shown


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("Authorization: Bearer abc.def", "Authorization: Bearer [redacted]"),
        ("retry with password=abc.def now", "retry with password=[redacted] now"),
        ("API_KEY = abc.def", "API_KEY = [redacted]"),
        (
            "sessionToken=abc card-pin: 1234 userPin=1",
            "sessionToken=[redacted] card-pin: [redacted] userPin=[redacted]",
        ),
        ("maxTokens: 100, spin=2, progressToken=3", "maxTokens: 100, spin=2, progressToken=3"),
    ],
)
def test_fields_in_plain_text_are_redacted(line: str, kept: str) -> None:
    assert redact_text(line) == kept


@pytest.mark.parametrize("part", ["aaa", '"""', "://", '\\"a', "=&", "a:", "a-", "aPi", "\\\\"])
def test_long_text_without_any_secret_takes_no_longer_than_its_length(part: str) -> None:
    grows_with_its_size(lambda size: redact_text(part * size), 10_000)
    assert redact_text(part * 10_000 + '"') == part * 10_000 + '"'


def test_no_member_that_a_type_of_the_wire_names_is_taken_for_a_secret() -> None:
    pages = [module for name, module in sys.modules.items() if name.startswith("mcp_ref.")]
    types = [each for page in pages for each in vars(page).values() if is_typeddict(each)]
    # OAuth's own documents travel to authorization servers, and their `client_secret` is one.
    types = [each for each in types if not each.__module__.startswith("mcp_ref.pages.basic.authorization")]
    # What a user may choose has no place on the wire.
    types = [each for each in types if not each.__name__.endswith("Options")]
    named = {name for each in types for name in each.__annotations__}
    assert {"progressToken", "cursor", "requestId", "content"} <= named
    assert [name for name in named if is_secret(name)] == []


def test_what_a_user_typed_into_a_form_is_hidden_unless_asked_for() -> None:
    answer = {"action": "accept", "content": {"favourite": "rosebud", "tags": ["a"]}}
    for message in ({"result": answer}, {"params": {"inputResponses": {"q": answer}}}):
        assert "rosebud" not in json.dumps(redact(message))
        assert json.dumps(redact(message)).count(REDACTED) == 2
        assert redact(message, forms=True) == message
    tool_result = {"content": [{"type": "text", "text": "rosebud"}], "action": "accept"}
    assert redact(tool_result) == tool_result
