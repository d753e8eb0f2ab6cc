"""Request state: what a server sealed comes back as it was, to whom it was for, in time; or not at all."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mcp_ref.errors import InvalidParams
from mcp_ref.pages.basic import mrtr as request_state
from mcp_ref.pages.basic.mrtr import MAX_STATE, StateKeys, StateTooLarge, binding_of, digest_of
from tests.slow import examples
from tests.support.clock import Clock

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
OBJECTS = st.dictionaries(st.text(), JSON, max_size=5)
HALF_PAIRS = st.text(st.characters(categories=["L", "Cs"]))

OLD, NEW = b"o" * 32, b"n" * 32
KEYS = StateKeys([NEW])
PAYLOAD = {"step": 2}
CALL: Any = {"name": "book", "arguments": {"city": "Zürich", "nights": 2}}


def refused(keys: StateKeys, text: str, binding: str = "b") -> None:
    with pytest.raises(InvalidParams) as caught:
        keys.open(text, binding)
    # One error for everything that can be wrong: it tells an attacker nothing.
    said = (caught.value.message, caught.value.data, caught.value.code)
    assert said == ("Invalid or expired requestState", None, -32602)


# -- what is sealed comes back ------------------------------------------------------------------------------------


@settings(max_examples=examples(60))
@given(OBJECTS | st.dictionaries(HALF_PAIRS, HALF_PAIRS), HALF_PAIRS)
@example({"": "\ud800\udc00"}, "b")
def test_any_payload_comes_back_from_plain_text_and_to_its_binding_alone(payload: Any, binding: str) -> None:
    text = KEYS.seal(payload, binding)
    # JSON joins two halves that belong together.
    assert KEYS.open(text, binding) == json.loads(json.dumps(payload))
    assert re.fullmatch(r"[\w.-]+", text, re.ASCII), "it is plain text for any carrier"
    refused(KEYS, text, binding + "x")


def test_its_payload_can_be_read_by_the_client() -> None:
    body = KEYS.seal(PAYLOAD, "b").partition(".")[0]
    assert json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))[1] == PAYLOAD


# -- and nothing else does ----------------------------------------------------------------------------------------


@settings(max_examples=examples(60))
@given(OBJECTS, st.data())
def test_any_changed_character_is_refused(payload: Any, data: st.DataObject) -> None:
    text = KEYS.seal(payload, "b")
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda character: character != text[place]))
    refused(KEYS, text[:place] + other + text[place + 1 :])


@pytest.mark.parametrize("text", ["", ".", "a.b", "\ud800", "null", "x" * 100])
def test_any_other_text_is_refused(text: str) -> None:
    refused(KEYS, text)


def test_what_stands_before_the_code_of_another_state_is_refused() -> None:
    one, other = KEYS.seal({"step": 1}, "b"), KEYS.seal({"step": 2}, "b")
    refused(KEYS, one.partition(".")[0] + "." + other.partition(".")[2])


def test_a_huge_state_is_refused_before_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def code(key: bytes, binding: str, body: str) -> str:
        looked.append(body)
        return ""

    monkeypatch.setattr(request_state, "_code", code)
    refused(KEYS, "A" * (MAX_STATE + 1))
    assert not looked


@pytest.mark.parametrize("body", ["", "A", "AAAA", "W10"])
def test_what_is_signed_and_cannot_be_read_is_refused(body: str) -> None:
    refused(KEYS, f"{body}.{request_state._code(NEW, 'b', body)}")


def test_a_payload_that_would_be_refused_is_not_sealed() -> None:
    with pytest.raises(StateTooLarge):
        KEYS.seal({"text": "x" * MAX_STATE}, "b")


# -- time ---------------------------------------------------------------------------------------------------------


def test_a_state_ends_with_its_time() -> None:
    clock = Clock(1000000.0)
    keys = StateKeys([NEW], clock=clock)
    text = keys.seal(PAYLOAD, "b")
    clock.now += 599
    assert keys.open(text, "b") == PAYLOAD
    clock.now += 1
    refused(keys, text)


# -- keys ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem", "says"),
    [
        *[({"keys": keys}, ValueError, "32 bytes") for keys in ([], [NEW, b"x" * 31])],
        *[({"keys": keys}, TypeError, "list of bytes") for keys in (NEW, [NEW, 5])],
        *[({"lifetime": each}, ValueError, "lifetime") for each in (0, float("inf"))],
    ],
)
def test_short_keys_other_keys_than_bytes_and_no_lifetime_are_refused(
    options: Any, problem: type[Exception], says: str
) -> None:
    with pytest.raises(problem, match=says) as refused:
        StateKeys(**options)
    assert "nnnn" not in f"{refused.value!r} {KEYS!r} {KEYS}", "a key is in no text about its keys"


# -- bindings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (CALL, {**CALL, "requestState": "x", "inputResponses": {}, "_meta": {"progressToken": 7}}),
        (CALL, {"name": "book", "arguments": {"nights": 2, "city": "Zürich"}}),
        ({"name": "x"}, {"name": "x", "arguments": {}}),
    ],
    ids=["another round", "another order", "no arguments"],
)
def test_a_binding_is_of_what_is_asked_and_not_of_how_it_is_written(one: Any, other: Any) -> None:
    assert binding_of("here", "ann", "tools/call", one) == binding_of("here", "ann", "tools/call", other)


def test_every_part_of_a_request_counts() -> None:
    arguments = CALL["arguments"]
    changes: Any = ({"nights": 3}, {"nights": "2"}, {"more": None})
    bindings = [
        binding_of("there", "ann", "tools/call", CALL),
        *(binding_of("here", who, "tools/call", CALL) for who in ("ann", "bob", "", None)),
        binding_of("here", "ann", "prompts/get", CALL),
        binding_of("here", "ann", "tools/call", {**CALL, "name": "cancel"}),
        *(binding_of("here", "ann", "tools/call", {**CALL, "arguments": {**arguments, **each}}) for each in changes),
        *(binding_of("here", "ann", "resources/read", {key: "book"}) for key in ("uri", "name")),
    ]
    assert len(set(bindings)) == len(bindings)


def test_arguments_that_nobody_can_follow_are_invalid() -> None:
    deep: Any = {}
    for _ in range(10_000):
        deep = {"a": deep}
    with pytest.raises(InvalidParams, match=r"params\.arguments"):
        binding_of("here", None, "tools/call", {"name": "x", "arguments": deep})
    while deep:  # piece by piece: to free it all at once would recurse as well
        deep = deep.pop("a")


@given(JSON, JSON)
def test_digests_tell_values_apart(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (digest_of(one) == digest_of(other)) is same
