"""Contracts: each cell of the table of changes, and never "harmless" where a value shows a break."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mcp_ref import Client, RequestTimeout, Server
from mcp_ref.lab.testing import contract
from mcp_ref.lab.testing.contract import NoContract, contract_diff, contract_of
from mcp_ref.pages.basic.transports.memory import InProcess
from tests.support.clock import grows_with_its_size

EMPTY: dict[str, Any] = {"contract": 1, "revisions": ["2026-07-28"], "capabilities": {}, "instructions": None}


def effects(old: dict[str, Any], new: dict[str, Any]) -> set[str]:
    changes = contract_diff(EMPTY | old, EMPTY | new)
    assert all(each.where and each.says for each in changes)
    return {each.effect for each in changes}


def tool(**members: Any) -> dict[str, Any]:
    return {"tools": {"t": {"inputSchema": {"type": "object"}} | members}}


def taking(schema: Any) -> dict[str, Any]:
    return tool(inputSchema={"type": "object", "properties": {"x": schema}})


def giving(schema: Any) -> dict[str, Any]:
    return tool(outputSchema={"type": "object", "properties": {"x": schema}})


def of(**words: Any) -> dict[str, Any]:
    return tool(inputSchema={"type": "object"} | words)


def out(**words: Any) -> dict[str, Any]:
    return tool(outputSchema={"type": "object"} | words)


def prompt(*arguments: Any) -> dict[str, Any]:
    return {"prompts": {"p": {"arguments": list(arguments)}}}


def ref(target: Any) -> dict[str, Any]:
    return tool(inputSchema={"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}}, "$defs": {"X": target}})


X, Y = {"x": {"type": "string"}}, {"x": {"type": "string"}, "y": {"type": "string"}}
SPOKEN = {"revisions": ["2025-06-18", "2025-11-25"]}
D7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
BESIDE = D7 | {"properties": {"x": {"$ref": "#/$defs/X", "minLength": 2}}, "$defs": {"X": {"type": "string"}}}
MOVING = {"capabilities": {"resources": {"listChanged": True}}}
FIXED: dict[str, Any] = {"capabilities": {"resources": {}}}

# What was, what is, and what that means; by the cells of the table.
CELLS: list[tuple[str, dict[str, Any], dict[str, Any], set[str]]] = [
    ("a tool is removed", {"tools": {"t": {}}}, {"tools": {}}, {"breaking"}),
    ("a template is removed", {"templates": {"a{b}": {}}}, {"templates": {}}, {"breaking"}),
    ("a prompt is removed", {"prompts": {"p": {}}}, {"prompts": {}}, {"breaking"}),
    ("a resource is removed", FIXED | {"resources": {"a:b": {}}}, FIXED, {"breaking"}),
    ("a resource of a list that changes", MOVING | {"resources": {"a:b": {}}}, MOVING, {"look"}),
    ("a tool is added", {"tools": {}}, {"tools": {"t": {}}}, {"harmless"}),
    ("order", {"tools": {"a": {}, "b": {}}}, {"tools": {"b": {}, "a": {}}}, set()),
    ("input: narrower type", taking({"type": "number"}), taking({"type": "integer"}), {"breaking"}),
    ("input: narrower enum", taking({"enum": [1, 2]}), taking({"enum": [1]}), {"breaking"}),
    ("input: enum to const", taking({"enum": [1, 2]}), taking({"const": 1}), {"breaking"}),
    ("input: bound", taking({"maximum": 3}), taking({"maximum": 2}), {"breaking"}),
    ("input: bound is new", taking({}), taking({"minLength": 2}), {"breaking"}),
    ("input: required", of(properties=X), of(properties=X, required=["x"]), {"breaking"}),
    ("input: closed", of(), of(additionalProperties=False), {"breaking"}),
    ("input: pattern", taking({}), taking({"pattern": "a"}), {"breaking"}),
    ("input: format", taking({}), taking({"format": "date"}), {"breaking"}),
    ("input: through a reference", ref({"type": "number"}), ref({"type": "integer"}), {"breaking"}),
    ("input: never", taking(True), taking(False), {"breaking"}),
    ("input: a branch is gone", taking({"anyOf": [{"type": "null"}, {"type": "string"}]}),
     taking({"anyOf": [{"type": "null"}]}), {"breaking"}),
    ("input: removed and let in", of(properties=Y), of(properties=X), {"look"}),
    ("input: removed and closed", of(properties=Y, additionalProperties=False),
     of(properties=X, additionalProperties=False), {"breaking"}),
    ("input: default", taking({"default": 1}), taking({"default": 2}), {"look"}),
    ("input: description", taking({"description": "a"}), taking({"description": "b"}), {"look"}),
    ("input: not", taking({"not": {"const": 1}}), taking({"not": {"const": 2}}), {"look"}),
    ("input: if", taking({}), taking({"if": {"const": 1}, "then": {"minimum": 0}}), {"look"}),
    ("input: oneOf", taking({"oneOf": [{"const": 1}]}), taking({"oneOf": [{"const": 2}]}), {"look"}),
    ("input: changed pattern", taking({"pattern": "a"}), taking({"pattern": "b"}), {"look"}),
    ("input: patternProperties", of(patternProperties={"^x": {}}), of(patternProperties={"^x": {}}, properties=X),
     {"look", "harmless"}),
    ("input: not a schema", taking({"type": 7}), taking({"type": "string"}), {"look"}),
    ("input: wider", taking({"type": "integer"}), taking({"type": ["integer", "string"]}), {"harmless"}),
    ("input: no enum", taking({"enum": [1]}), taking({}), {"harmless"}),
    ("input: one type as a list", taking({"type": "string"}), taking({"type": ["string"]}), set()),
    ("input: optional property", of(properties=X), of(properties=Y), {"harmless"}),
    ("input: no longer required", of(properties=X, required=["x"]), of(properties=X), {"harmless"}),
    ("input: title and examples", taking({"title": "a"}), taking({"title": "b", "examples": [1]}), {"harmless"}),
    ("output: wider type", giving({"type": "integer"}), giving({"type": "number"}), {"breaking"}),
    ("output: wider enum", giving({"enum": [1]}), giving({"enum": [1, 2]}), {"breaking"}),
    ("output: a property is gone", out(properties=Y), out(properties=X), {"breaking"}),
    ("output: gone from what is closed", out(properties=Y, additionalProperties=False),
     out(properties=X, additionalProperties=False), {"breaking"}),
    ("output: no longer required", out(required=["x"]), out(), {"breaking"}),
    ("output: the schema is removed", out(), tool(), {"breaking"}),
    ("output: undecided", giving({"not": {"const": 1}}), giving({"not": {"const": 2}}), {"look"}),
    ("output: narrower", giving({"type": "number"}), giving({"type": "integer"}), {"harmless"}),
    ("output: a property is added", out(properties=X), out(properties=Y), {"harmless"}),
    ("output: the schema is added", tool(), out(), {"harmless"}),
    ("an argument is required now", prompt({"name": "a"}), prompt({"name": "a", "required": True}), {"breaking"}),
    ("a required argument is new", prompt(), prompt({"name": "a", "required": True}), {"breaking"}),
    ("an argument is removed", prompt({"name": "a"}), prompt(), {"look"}),
    ("an optional argument is new", prompt(), prompt({"name": "a"}), {"harmless"}),
    ("an argument is no longer required", prompt({"name": "a", "required": True}), prompt({"name": "a"}), {"harmless"}),
    ("a task is required", tool(), tool(execution={"taskSupport": "required"}), {"breaking"}),
    ("a task is forbidden", tool(execution={"taskSupport": "optional"}), tool(), {"breaking"}),
    ("a task is possible", tool(), tool(execution={"taskSupport": "optional"}), {"harmless"}),
    ("description of a tool", tool(description="a"), tool(description="b"), {"look"}),
    ("annotations", tool(annotations={"readOnlyHint": True}), tool(annotations={}), {"look"}),
    ("x-mcp-header", taking({}), taking({"x-mcp-header": "X"}), {"look"}),
    ("title of a tool", tool(title="a"), tool(title="b", icons=[]), {"harmless"}),
    ("a capability is gone", {"capabilities": {"logging": {}}}, {}, {"breaking"}),
    ("a part of one is gone", MOVING, FIXED, {"breaking"}),
    ("a capability is new", {}, {"capabilities": {"logging": {}}}, {"harmless"}),
    ("a part of one is new", FIXED, MOVING, {"harmless"}),
    ("a revision is gone", SPOKEN, {"revisions": SPOKEN["revisions"][1:]}, {"breaking"}),
    ("a revision is new", {"revisions": SPOKEN["revisions"][1:]}, SPOKEN, {"harmless"}),
    ("a revision that we do not know is gone", {"revisions": ["2031-01-01"]}, {"revisions": []}, set()),
    ("a server declares what clients do", {"capabilities": {"elicitation": {}, "sampling": {}}}, {}, set()),
    ("a server declares it no longer", {}, {"capabilities": {"roots": {"listChanged": True}}}, set()),
    ("input: the type of all arguments", tool(inputSchema={"properties": X}), of(properties=X), set()),
    ("input: no longer", of(properties=X), tool(inputSchema={"properties": X}), set()),
    ("input: another type", of(), tool(inputSchema={"type": "array"}), {"breaking", "harmless"}),
    ("output: a type", tool(outputSchema={}), out(), {"harmless"}),
    ("output: no longer a type", out(), tool(outputSchema={}), {"breaking"}),
    ("the dialect has a name", of(properties=X), of(properties=X, **D7), {"harmless"}),
    ("a dialect in which it means something else", of(additionalItems=False),
     of(additionalItems=False, **D7), {"look"}),
    ("a dialect that hides what stands beside a reference", ref(Y["x"]), {"tools": {"t": {"inputSchema": BESIDE}}},
     {"look", "breaking"}),
    ("an old dialect", of(), {"tools": {"t": {"inputSchema": {"$schema": D7["$schema"].replace("7", "4")}}}}, {"look"}),
    ("instructions", {"instructions": "a"}, {"instructions": "b"}, {"look"}),
    ("experimental", {"capabilities": {"experimental": {"a": {}}}}, {"capabilities": {"experimental": {}}}, {"look"}),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "expected"), [cell[1:] for cell in CELLS], ids=[cell[0] for cell in CELLS])
def test_each_cell_of_the_table(old: dict[str, Any], new: dict[str, Any], expected: set[str]) -> None:
    assert effects(old, new) == expected
    assert effects(old, old) == effects(new, new) == set()


def test_breaking_changes_come_first() -> None:
    found = contract_diff(EMPTY | {"tools": {"z": {}}}, EMPTY | {"tools": {"a": {}}, "instructions": "b"})
    assert [each.effect for each in found] == ["breaking", "look", "harmless"]
    assert str(found[0]) == "breaking: tools/z: was removed"


def test_references_that_lead_in_a_circle_end() -> None:
    tree = {"type": "object", "properties": {"x": {"$ref": "#/$defs/X"}, "n": {"type": "number"}}}
    narrow = tree | {"properties": {"x": {"$ref": "#/$defs/X"}, "n": {"type": "integer"}}}
    assert effects(ref(tree), ref(narrow)) == {"breaking"}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ([], "it is not a contract"),
        ({}, "it is not a contract"),
        (EMPTY | {"contract": 2}, "of version 2, and this program reads version 1"),
        (EMPTY | {"capabilities": []}, "not of its kind"),
        (EMPTY | {"tools": {"t": 1}}, "not of its kind"),
        (EMPTY | {"prompts": {"p": {"arguments": [1]}}}, "the arguments of a prompt"),
        (EMPTY | {"capabilities": None}, "not of its kind"),
        (EMPTY | {"resources": [1]}, "not of its kind"),
        (EMPTY | {"capabilities": {"resources": [1]}}, "the capability resources"),
        (EMPTY | {"tools": {"t": {"execution": [1]}}}, "the execution of a tool"),
        (EMPTY | {"prompts": {"p": {"arguments": [{"name": []}]}}}, "the arguments of a prompt"),
    ],
)
def test_what_is_no_contract_is_refused(wrong: Any, why: str) -> None:
    for pair in ((wrong, EMPTY), (EMPTY, wrong)):
        with pytest.raises(NoContract, match=why):
            contract_diff(*pair)


def test_many_references_are_compared_by_one_look_at_each_or_said_to_be_undecided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def changed(places: Any, parts: Any, new_parts: Any) -> list[Any]:
        old, new = (of(properties=places, **{"$defs": each}) for each in (parts, new_parts))
        return contract_diff(EMPTY | old, EMPTY | new)

    def compared(number: int) -> None:
        many = {f"p{n}": {"not": {"$ref": f"#/$defs/d{n}"}} for n in range(number)}
        parts = {f"d{n}": {"type": "string"} for n in range(number)}
        found = changed(many, parts, parts | {"d0": {"type": "null"}})
        assert len(found) == number and {each.effect for each in found} == {"look"}

    grows_with_its_size(compared, 200)
    monkeypatch.setattr(contract, "_MAX_COMPARED", 1_000)
    large = {"type": "object", "properties": {f"q{n}": {"type": "string"} for n in range(40)}}
    refs = {f"p{n}": {"$ref": "#/$defs/d", "description": f"{n}"} for n in range(40)}
    [told] = changed(refs, {"d": large}, {"d": {**large, "title": "new"}})
    assert told.effect == "look" and "cannot be compared: more than" in told.says


def test_schemas_nested_too_deeply_are_said_to_be_undecided() -> None:
    deep: dict[str, Any] = {}
    for _ in range(400):
        deep = {"not": deep}
    assert effects(taking(deep), taking({})) == {"look"}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_server_keeps_its_own_contract(revision: str) -> None:
    server = Server("travel")

    @server.tool()
    def forecast(city: str) -> str:
        return city

    with Client(server, revision=revision) as client:
        promise = contract_of(client)
        assert revision in promise["revisions"]
        assert promise["tools"]["forecast"]["inputSchema"]["required"] == ["city"]
        assert contract_diff(promise, contract_of(client)) == []


@pytest.mark.parametrize("agreed", [None, "2025-06-18"])
def test_a_server_is_asked_for_each_revision(agreed: str | None) -> None:
    """See that what the two agree on changes with the newer server, and the older revisions are spoken still."""
    spoken = [["2025-03-26", "2025-06-18"], ["2025-03-26", "2025-06-18", "2025-11-25"], ["2025-06-18", "2026-07-28"]]
    promises = []
    for names in spoken:
        with Client(Server("travel", revisions=names), revision=agreed) as client:
            promises.append(contract_of(client))
    assert [each["revisions"] for each in promises] == spoken
    first, newer, without = promises
    assert [str(each) for each in contract_diff(first, newer)] == ["harmless: revisions/2025-11-25: is spoken now"]
    assert [each.where for each in contract_diff(first, without) if each.effect == "breaking"] == [
        "revisions/2025-03-26"
    ]


def test_a_contract_by_a_given_transport_says_nothing_of_revisions() -> None:
    server = Server("travel")
    with Client(InProcess(server, None)) as client:
        promise = contract_of(client)
    assert "revisions" not in promise
    with Client(server) as client:
        assert contract_diff(promise, contract_of(client)) == contract_diff(contract_of(client), promise) == []


def test_a_server_that_can_no_longer_be_reached_has_no_contract() -> None:
    server = Server("travel", revisions=["2025-06-18", "2025-11-25"])
    with Client(server) as client:
        client.connect_timeout = 1e-9
        with pytest.raises(RequestTimeout):
            contract_of(client)


# -- never harmless where a value shows a break

KINDS = ["string", "integer", "number", "boolean", "null", "array", "object"]
LEAF = st.fixed_dictionaries({}, optional={
    "type": st.one_of(st.sampled_from(KINDS), st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True)),
    "enum": st.lists(st.sampled_from([1, 2, "a", "b", None, True, 1.5]), min_size=1, max_size=3, unique_by=repr),
    "const": st.sampled_from([1, "a", None]),
    "minimum": st.integers(0, 3), "maximum": st.integers(0, 3),
    "minLength": st.integers(0, 2), "maxLength": st.integers(0, 2),
    "minItems": st.integers(0, 2), "uniqueItems": st.booleans(),
    "pattern": st.sampled_from(["a", "^b"]), "$ref": st.just("#/$defs/X"),
})  # fmt: skip


def _nested(inner: Any) -> Any:
    parts = st.fixed_dictionaries({}, optional={
        "properties": st.dictionaries(st.sampled_from("pq"), inner, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["^p", "q"]), inner, max_size=1),
        "required": st.lists(st.sampled_from("pq"), max_size=2, unique=True),
        "additionalProperties": st.one_of(st.booleans(), inner), "items": inner,
        "anyOf": st.lists(inner, min_size=1, max_size=2), "oneOf": st.lists(inner, min_size=1, max_size=2),
        "allOf": st.lists(inner, min_size=1, max_size=2), "not": inner,
    })  # fmt: skip
    return st.builds(lambda a, b: a | b, LEAF, parts)


SCHEMA = st.recursive(LEAF, _nested, max_leaves=5)
ROOT = st.builds(
    lambda schema, x: schema | {"$defs": {"X": x}},
    SCHEMA,
    LEAF.map(lambda x: {k: v for k, v in x.items() if k != "$ref"}),
)
SCALARS = [0, 1, 2, 3, 1.5, "", "a", "b", "ab", True, False, None]
LISTS: list[Any] = [[], ["a"], ["a", "a"], [1, "b"], [None, 1.5, 2]]
OBJECTS: list[Any] = [
    dict(zip(names, pair, strict=True))
    for names in ((), ("p",), ("q",), ("z",), ("p", "q"))
    for pair in itertools.product([1, 3, "", "b", None], repeat=len(names))
]


def _no_break_is_called_harmless(old: Any, new: Any) -> None:
    for before, after, member in ((old, new, "inputSchema"), (new, old, "outputSchema")):
        found = contract_diff(EMPTY | tool(**{member: old}), EMPTY | tool(**{member: new}))
        # That an open object names a new property is called harmless on purpose.
        if any(each.effect != "harmless" or each.says == "was added" for each in found):
            continue
        takes, must = Draft202012Validator(before), Draft202012Validator(after)
        # Arguments are an object, whatever their schema says.
        for value in [*(SCALARS + LISTS if member == "outputSchema" else ()), *OBJECTS]:
            assert not takes.is_valid(value) or must.is_valid(value), (value, found)


@pytest.mark.parametrize("pairs", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_no_break_that_a_value_shows_is_called_harmless(pairs: int) -> None:
    @settings(
        max_examples=pairs, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None
    )
    @given(
        st.one_of(
            st.tuples(ROOT, ROOT), ROOT.flatmap(lambda one: st.tuples(st.just(one), LEAF.map(lambda leaf: one | leaf)))
        )
    )
    def search(pair: tuple[Any, Any]) -> None:
        _no_break_is_called_harmless(*pair)

    search()
