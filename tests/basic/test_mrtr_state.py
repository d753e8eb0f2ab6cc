"""Request state: what a server sealed comes back as it was, to whom it was for, in time; or not at all."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_ref.basic import mrtr as request_state
from mcp_ref.basic.mrtr import MAX_STATE, StateKeys, StateTooLarge, binding_of, digest_of
from mcp_ref.errors import InvalidParams, LocalProtocolError

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
CALL = {"name": "book", "arguments": {"city": "Zürich", "nights": 2}}


class Clock:
    """A time that the test decides."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def refused(keys: StateKeys, text: str, binding: str = "b") -> None:
    with pytest.raises(InvalidParams) as caught:
        keys.open(text, binding)
    # One error for everything that can be wrong: it tells an attacker nothing.
    assert (caught.value.message, caught.value.data, caught.value.code) == (
        "Invalid or expired requestState",
        None,
        -32602,
    )


# -- what is sealed comes back ------------------------------------------------------------------------------------


@given(OBJECTS, HALF_PAIRS)
def test_any_payload_comes_back(payload: Any, binding: str) -> None:
    assert KEYS.open(KEYS.seal(payload, binding), binding) == payload


@given(st.dictionaries(HALF_PAIRS, HALF_PAIRS))
def test_also_text_that_is_not_quite_unicode_comes_back(payload: Any) -> None:
    assert KEYS.open(KEYS.seal(payload, "b"), "b") == payload


def test_a_state_is_plain_text_for_any_carrier() -> None:
    text = KEYS.seal({"city": "Zürich\n"}, "b")
    assert text.isascii() and set(text) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.")


def test_its_payload_can_be_read_by_the_client() -> None:
    body = KEYS.seal(PAYLOAD, "b").partition(".")[0]
    assert json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))[1] == PAYLOAD


# -- and nothing else does ----------------------------------------------------------------------------------------


@given(OBJECTS, st.data())
def test_any_changed_character_is_refused(payload: Any, data: st.DataObject) -> None:
    text = KEYS.seal(payload, "b")
    place = data.draw(st.integers(0, len(text) - 1))
    other = data.draw(st.characters().filter(lambda character: character != text[place]))
    refused(KEYS, text[:place] + other + text[place + 1 :])


@given(OBJECTS, st.data())
def test_a_part_of_a_state_is_refused(payload: Any, data: st.DataObject) -> None:
    text = KEYS.seal(payload, "b")
    refused(KEYS, text[: data.draw(st.integers(0, len(text) - 1))])


@given(OBJECTS, st.data())
def test_a_state_with_something_put_in_is_refused(payload: Any, data: st.DataObject) -> None:
    text = KEYS.seal(payload, "b")
    place = data.draw(st.integers(0, len(text)))
    refused(KEYS, text[:place] + data.draw(st.text(min_size=1)) + text[place:])


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    refused(KEYS, text)


@pytest.mark.parametrize("ending", ["=", "==", "\n", " ", "-TAMPERED", "\0", "é", "\ud800", "."])
def test_another_spelling_of_the_same_bytes_is_refused(ending: str) -> None:
    text = KEYS.seal(PAYLOAD, "b")
    body, _, code = text.partition(".")
    refused(KEYS, text + ending)
    refused(KEYS, f"{body}{ending}.{code}")
    refused(KEYS, ending + text)


def test_every_last_character_of_the_code_but_one_is_refused() -> None:
    # Of its six bits only four count: a lenient decoder would take four characters for the same.
    text = KEYS.seal(PAYLOAD, "b")
    for character in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_":
        if character != text[-1]:
            refused(KEYS, text[:-1] + character)


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


@pytest.mark.parametrize("payload", [{"a": {1}}, {"a": float("nan")}, {"a": object()}])
def test_what_is_not_json_is_not_sealed(payload: Any) -> None:
    with pytest.raises(LocalProtocolError, match="JSON"):
        KEYS.seal(payload, "b")


# -- time ---------------------------------------------------------------------------------------------------------


def test_a_state_ends_with_its_time() -> None:
    clock = Clock()
    keys = StateKeys([NEW], clock=clock)
    text = keys.seal(PAYLOAD, "b")
    clock.now += 599
    assert keys.open(text, "b") == PAYLOAD
    clock.now += 1
    refused(keys, text)


def test_each_sealing_begins_its_time_again() -> None:
    clock = Clock()
    keys = StateKeys([NEW], lifetime=10, clock=clock)
    first = keys.seal(PAYLOAD, "b")
    clock.now += 9
    second = keys.seal(keys.open(first, "b"), "b")
    clock.now += 9
    refused(keys, first)
    assert keys.open(second, "b") == PAYLOAD


@pytest.mark.parametrize("lifetime", [0, -1, float("inf"), float("nan")])
def test_a_lifetime_is_a_positive_number(lifetime: float) -> None:
    with pytest.raises(ValueError, match="lifetime"):
        StateKeys(lifetime=lifetime)


# -- keys ---------------------------------------------------------------------------------------------------------


def test_a_state_of_another_key_is_refused() -> None:
    refused(KEYS, StateKeys([OLD]).seal(PAYLOAD, "b"))


def test_without_keys_each_has_a_random_one_of_its_own() -> None:
    one = StateKeys()
    text = one.seal(PAYLOAD, "b")
    assert one.open(text, "b") == PAYLOAD
    refused(StateKeys(), text)


def test_processes_that_share_keys_open_each_others_states() -> None:
    here, there = StateKeys([NEW, OLD]), StateKeys([NEW, OLD])
    assert there.open(here.seal(PAYLOAD, "b"), "b") == PAYLOAD


def test_keys_can_be_changed_while_states_are_out() -> None:
    before, during, after = StateKeys([OLD]), StateKeys([NEW, OLD]), StateKeys([NEW])
    old, new = before.seal(PAYLOAD, "b"), during.seal(PAYLOAD, "b")
    assert during.open(old, "b") == during.open(new, "b") == after.open(new, "b") == PAYLOAD
    refused(after, old)
    refused(before, new)


@pytest.mark.parametrize("keys", [[], [b""], [b"x" * 31], [NEW, b"x" * 31]])
def test_a_key_that_is_too_short_is_not_a_key(keys: list[bytes]) -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        StateKeys(keys)


@pytest.mark.parametrize("keys", [NEW, ["x" * 32], [NEW, 5]])
def test_keys_are_bytes(keys: Any) -> None:
    with pytest.raises(TypeError):
        StateKeys(keys)


def test_a_key_is_in_no_text_about_its_keys() -> None:
    assert "nnnn" not in repr(KEYS) + str(KEYS)


# -- bindings -----------------------------------------------------------------------------------------------------


@given(HALF_PAIRS, HALF_PAIRS)
def test_a_state_opens_with_its_binding_alone(binding: str, other: str) -> None:
    text = KEYS.seal(PAYLOAD, binding)
    if binding != other:
        refused(KEYS, text, other)


def test_a_binding_is_of_the_request_and_not_of_its_round() -> None:
    again = {**CALL, "requestState": "x", "inputResponses": {}, "_meta": {"progressToken": 7}}
    assert binding_of("here", "ann", "tools/call", CALL) == binding_of("here", "ann", "tools/call", again)


def test_no_arguments_are_an_empty_object() -> None:
    assert binding_of("here", None, "tools/call", {"name": "x"}) == binding_of(
        "here", None, "tools/call", {"name": "x", "arguments": {}}
    )


def test_the_order_of_arguments_does_not_count() -> None:
    turned = {"name": "book", "arguments": {"nights": 2, "city": "Zürich"}}
    assert binding_of("here", None, "tools/call", CALL) == binding_of("here", None, "tools/call", turned)


def test_every_part_of_a_request_counts() -> None:
    arguments = CALL["arguments"]
    assert isinstance(arguments, dict)
    bindings = [
        binding_of("here", "ann", "tools/call", CALL),
        binding_of("there", "ann", "tools/call", CALL),
        binding_of("here", "bob", "tools/call", CALL),
        binding_of("here", "", "tools/call", CALL),
        binding_of("here", None, "tools/call", CALL),
        binding_of("here", "ann", "prompts/get", CALL),
        binding_of("here", "ann", "tools/call", {**CALL, "name": "cancel"}),
        binding_of("here", "ann", "tools/call", {**CALL, "arguments": {**arguments, "nights": 3}}),
        binding_of("here", "ann", "tools/call", {**CALL, "arguments": {**arguments, "nights": "2"}}),
        binding_of("here", "ann", "tools/call", {**CALL, "arguments": {**arguments, "more": None}}),
        binding_of("here", "ann", "resources/read", {"uri": "book"}),
        binding_of("here", "ann", "resources/read", {"name": "book"}),
    ]
    assert len(set(bindings)) == len(bindings)


def test_arguments_that_nobody_can_follow_are_invalid() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": deep}
    with pytest.raises(InvalidParams, match=r"params\.arguments"):
        binding_of("here", None, "tools/call", {"name": "x", "arguments": deep})
    while deep:  # piece by piece: to free it all at once would recurse as well
        deep = deep.pop("a")


@given(JSON, JSON)
def test_digests_tell_values_apart(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (digest_of(one) == digest_of(other)) is same
