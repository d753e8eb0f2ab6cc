"""The notation and its three derivations: check, projection, JSON Schema."""

from __future__ import annotations

import copy
import logging
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

import pytest

from mcp_ref.errors import LocalProtocolError
from mcp_ref.kit.typed.checking import SchemaMismatch, checker, losing, projector
from mcp_ref.kit.typed.publishing import json_schema
from mcp_ref.kit.typed.shapes import AtMost, Bounds, Format, Former, FromRevision, RequiredIn, Since, Until, renamed
from mcp_ref.pages.server.utilities.pagination import PaginatedRequestParams
from mcp_ref.revisions import REVISIONS, Revision
from mcp_ref.wire.content import ContentBlock, ImageContent
from mcp_ref.wire.types import Implementation, NotificationParams, RequestParams

JsonObject = dict[str, Any]

FIRST, SECOND, THIRD, FOURTH, FIFTH = REVISIONS.values()
EVERY = tuple(REVISIONS.values())


class CallParams(RequestParams):
    name: str
    arguments: NotRequired[JsonObject]


class Loose(TypedDict, total=False):
    size: int
    name: Required[str]


class LooseChild(Loose):
    share: Annotated[float, Bounds(0, 1)]


class Changing(TypedDict):
    """A field for every word of the notation."""

    old: NotRequired[Annotated[str, Until("2025-06-18")]]
    new: NotRequired[Annotated[int, Since("2025-06-18")]]
    middle: NotRequired[Annotated[bool, Since("2025-03-26"), Until("2025-06-18")]]
    sometimes: NotRequired[
        Annotated[str, RequiredIn("2024-11-05", "2024-11-05"), RequiredIn("2025-11-25", "2025-11-25")]
    ]
    kind: NotRequired[Annotated[str, FromRevision("2025-06-18", Literal["a", "b"])]]
    extra: NotRequired[JsonObject]


class Nested(TypedDict):
    first: Changing
    rest: NotRequired[list[Changing]]
    named: NotRequired[dict[str, Changing]]


class Message(TypedDict):
    content: Annotated[ContentBlock, FromRevision("2025-11-25", ContentBlock | list[ContentBlock])]


class PromptRef(TypedDict):
    type: Literal["ref/prompt"]
    name: str


class TemplateRef(TypedDict):
    type: Literal["ref/resource"]
    uri: Annotated[str, Format("uri-template")]


renamed(TemplateRef, Former("OldRef", until="2025-03-26"))


class TextSchema(TypedDict):
    type: Literal["string"]
    default: NotRequired[Annotated[str, Since("2025-11-25")]]


class ChoiceSchema(TypedDict):
    type: Literal["string"]
    enum: list[str]


class Form(TypedDict):
    mode: NotRequired[Annotated[Literal["form"], Since("2025-11-25")]]
    fields: dict[str, TextSchema | ChoiceSchema]


class Url(TypedDict):
    mode: Literal["url"]
    url: str


Question = Form | Annotated[Url, Since("2025-11-25")]


class Hinted(TypedDict):
    """Fields that are published more strictly than they are checked."""

    size: NotRequired[Annotated[int, Bounds(0, 9, checked=False), RequiredIn("2025-11-25", checked=False)]]
    mode: NotRequired[Annotated[Literal["a"], RequiredIn("2025-11-25", checked=False)]]


class Limits(TypedDict, total=False):
    values: Annotated[list[str], AtMost(2, "2026-07-28")]
    token: str | int
    nothing: None
    maybe: JsonObject | None
    level: Literal[1, 2]
    flags: list[bool]


# -- the check ----------------------------------------------------------------------------------------------------

FITS: dict[str, list[tuple[Any, Any, Revision]]] = {
    "unknown keys": [(CallParams, {"name": "add", "other": object(), "_meta": {"com.example/x": []}}, FOURTH)],
    "a field of another revision": [
        (Changing, {"new": "not a number", "sometimes": ""}, FIRST), (Changing, {"old": 5, "sometimes": ""}, FOURTH)
    ],
    "required by hint alone": [(Loose, {"name": "x"}, FOURTH)],
    "what is required as published may be missing": [(Hinted, {}, FOURTH)],
    "bounds may be published alone": [(Hinted, {"size": size}, FOURTH) for size in (-1, 0, 10)],
    "an arm without a tag that is not demanded": [(Hinted | Url, {}, FOURTH)],
    "another type from a revision on": [(Changing, {"kind": "c"}, SECOND)],
    "integers, whatever their spelling": [(kind, value, FOURTH) for kind in (int, float) for value in (5, 5.0, 0, -3)],
    "bounds are inclusive": [(LooseChild, {"name": "x", "share": share}, FOURTH) for share in (0, 1, 0.5)],
    "as many as the limit": [(Limits, {"values": ["a", "b"]}, FIRST)],
    "null where a type says so": [(Limits, {"nothing": None, "maybe": None}, FOURTH)],
    "an unknown kind of content": [
        (ContentBlock, {"type": "hologram", "anything": 1}, FOURTH),
        (ContentBlock, {"type": "audio", "of a later revision": True}, FIRST),
        (Message, {"content": [{"type": "hologram"}, {"type": "text", "text": ""}]}, FOURTH),
    ],
    "arms without a tag": [(ContentBlock, {"type": "resource", "resource": {"uri": "a:b", "blob": "AA=="}}, FOURTH)],
    "a missing mode": [(Question, {"fields": {"a": {"type": "string"}}}, FOURTH)],
    "a mode of no meaning yet": [(Question, {"mode": "of no meaning yet", "fields": {}}, THIRD)],
}  # fmt: skip


@pytest.mark.parametrize("claim", FITS)
def test_what_fits_passes(claim: str) -> None:
    for wire_type, value, revision in FITS[claim]:
        checker(wire_type, revision)(value, "params")


NESTED, IMAGE = {"first": {"extra": {}}, "rest": [{}, {"extra": {}, "new": "3"}]}, {"type": "image", "data": ""}
NEITHER = {"type": "resource", "resource": {"uri": "a:b"}}
MISFITS: list[tuple[Any, Any, Revision, str, str]] = [
    (Nested, NESTED, THIRD, "params.rest[1].new", "must be an integer, not a string"),
    (CallParams, [], FOURTH, "params", "must be an object, not an array"),
    (Nested, {"first": {}, "named": {"a/b": 1}}, THIRD, 'params.named["a/b"]', "must be an object, not an integer"),
    (LooseChild, {"name": "x"}, FOURTH, "params.share", "is required"),
    (Changing, {}, FIRST, "params.sometimes", "is required"),
    (Hinted, {"mode": "b"}, FOURTH, "params.mode", 'must be "a"'),
    (Hinted | Url, {"mode": "url"}, FOURTH, "params.url", "is required"),
    (Changing, {"kind": "c"}, THIRD, "params.kind", 'must be "a" or "b"'),
    (Changing, {"kind": []}, THIRD, "params.kind", 'must be "a" or "b"'),
    (float, True, FOURTH, "params", "must be a number, not a boolean"),
    (Limits, {"level": True}, FOURTH, "params.level", "must be 1 or 2"),
    (Limits, {"token": False}, FOURTH, "params.token", "must be a string or an integer, not a boolean"),
    (Limits, {"maybe": 1}, FOURTH, "params.maybe", "must be an object or null, not an integer"),
    (LooseChild, {"name": "x", "share": 1.01}, FOURTH, "params.share", "must be at most 1"),
    (LooseChild, {"name": "x", "share": -1}, FOURTH, "params.share", "must be at least 0"),
    (Limits, {"values": ["a", "b", "c"]}, FIRST, "params.values", "must hold at most 2 items, not 3"),
    (ContentBlock, {**IMAGE, "mimeType": 3}, FOURTH, "params.mimeType", "must be a string, not an integer"),
    (ContentBlock, {"type": "text"}, FOURTH, "params.text", "is required"),
    (ContentBlock, {"text": "x"}, FOURTH, "params.type", "is required"),
    (Message, {"content": [{"type": "text"}]}, FOURTH, "params.content[0].text", "is required"),
    (Message, {"content": [{"type": "text"}]}, THIRD, "params.content", "must be an object, not an array"),
    (ContentBlock, NEITHER, FOURTH, "params.resource", "fits no alternative: text is required; or blob is required"),
    (Question, {}, FOURTH, "params.fields", "is required"),
    (Question, {"mode": "url"}, FOURTH, "params.url", "is required"),
    (Question, {"mode": "dream"}, FOURTH, "params.mode", 'must be "form" or "url"'),
]


@pytest.mark.parametrize(("wire_type", "value", "revision", "path", "problem"), MISFITS)
def test_what_does_not_fit_is_named_by_its_path(
    wire_type: Any, value: Any, revision: Revision, path: str, problem: str
) -> None:
    with pytest.raises(SchemaMismatch) as caught:
        checker(wire_type, revision)(value, "params")
    assert (caught.value.path, caught.value.problem, str(caught.value)) == (path, problem, f"{path} {problem}")


def test_what_is_published_more_strictly_than_it_is_checked() -> None:
    assert json_schema(Hinted, FOURTH)["required"] == ["mode", "size"]
    assert "required" not in json_schema(Hinted, THIRD)
    assert json_schema(Hinted, FOURTH)["properties"]["size"] == {"type": "integer", "minimum": 0, "maximum": 9}


def test_a_type_that_is_not_of_the_wire_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="is not a type of the wire"):
        checker(set, FIRST)


# -- the projection -----------------------------------------------------------------------------------------------


def project(wire_type: Any, value: Any, revision: Revision, *, replies: bool = False) -> Any:
    before = copy.deepcopy(value)
    projection = projector(wire_type, revision, replies=replies)
    result = value if projection is None else projection(value)
    assert value == before, "the input was changed"
    return result


AUDIO = {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "annotations": {"priority": 1, "lastModified": "x"}}
A, B = {"type": "text", "text": "a"}, {"type": "text", "text": "b"}
CHANGING: JsonObject = {"old": "x", "new": 1, "middle": True, "sometimes": ""}
NEW: JsonObject = {"first": {"new": 1}, "rest": [{}, {"new": 1}], "named": {"a": {"new": 1}, "b": {}}}
CHOICES = {"a": {"type": "string", "default": "x"}, "b": {"type": "string", "enum": ["x"]}}
IN_REQUESTS, IN_REPLIES, IN_BOTH = (False,), (True,), (False, True)

PROJECTED: dict[str, tuple[Any, Any, Revision, tuple[bool, ...], Any]] = {
    "a key of a later revision": (Changing, CHANGING, FIRST, IN_BOTH, {"old": "x", "sometimes": ""}),
    "a key of an earlier revision": (Changing, CHANGING, FOURTH, IN_BOTH, {"new": 1, "sometimes": ""}),
    "objects, arrays and maps": (
        Nested, NEW, FIRST, IN_BOTH, {"first": {}, "rest": [{}, {}], "named": {"a": {}, "b": {}}}
    ),
    "a link, as a text": (
        ContentBlock, LINK, FIRST, IN_REPLIES,
        {"type": "text", "text": "[resource link: a <file:///a>]", "annotations": {"priority": 1}},
    ),
    "an array of one": (Message, {"content": [A]}, THIRD, IN_BOTH, {"content": A}),
    "an array of texts": (
        Message, {"content": [A, B]}, THIRD, IN_REPLIES, {"content": {"type": "text", "text": "a\n\nb"}}
    ),
    "an array of others": (Message, {"content": [AUDIO, A, B]}, THIRD, IN_REPLIES, {"content": AUDIO}),
    "arms that share a tag": (
        Question, {"fields": CHOICES}, THIRD, IN_BOTH, {"fields": {"a": {"type": "string"}, "b": CHOICES["b"]}}
    ),
    "a mode": (Question, {"mode": "form", "fields": {}}, THIRD, IN_BOTH, {"fields": {}}),
}  # fmt: skip


@pytest.mark.parametrize("claim", PROJECTED)
def test_what_a_revision_does_not_have_is_left_out(claim: str) -> None:
    wire_type, value, revision, both, expected = PROJECTED[claim]
    for replies in both:
        assert project(wire_type, value, revision, replies=replies) == expected


UNTOUCHED: list[tuple[Any, Any, Revision]] = [
    (Changing, CHANGING, THIRD),
    (Changing, {"com.example/own": {"new": 1}, "sometimes": ""}, FIRST),
    (Changing, {"extra": {"new": 1, "middle": [{"new": 1}]}}, FIRST),
    (Nested, {"first": {"old": "x"}, "rest": [{}], "named": {"a": {}}}, FIRST),
    (ContentBlock, AUDIO, SECOND),
    (ContentBlock, {"type": "hologram", "_meta": {}}, FIRST),
    (Message, {"content": [A]}, FOURTH),
    (Question, {"fields": CHOICES}, FOURTH),
]


@pytest.mark.parametrize(("wire_type", "value", "revision"), UNTOUCHED)
def test_where_nothing_is_lost_the_same_object_comes_back(wire_type: Any, value: Any, revision: Revision) -> None:
    assert project(wire_type, value, revision) is value


VISIT = {"mode": "url", "url": "https://example.com"}
FOREIGN: list[tuple[Any, Any, Revision, tuple[bool, ...], str]] = [
    (ContentBlock, AUDIO, FIRST, IN_REQUESTS, "2024-11-05 has no audio"),
    (Message, {"content": []}, THIRD, IN_REQUESTS, "has one value here"),
    (Message, {"content": [A, A]}, THIRD, IN_REQUESTS, "has one value here"),
    (Question, VISIT, THIRD, IN_BOTH, "2025-06-18 has no url"),
]


@pytest.mark.parametrize(("wire_type", "value", "revision", "both", "problem"), FOREIGN)
def test_what_nothing_can_stand_for_is_an_error(
    wire_type: Any, value: Any, revision: Revision, both: tuple[bool, ...], problem: str
) -> None:
    for replies in both:
        with pytest.raises(LocalProtocolError, match=problem):
            project(wire_type, value, revision, replies=replies)


def test_a_loss_is_logged_with_type_key_and_revision(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="mcp_ref.kit.typed.checking"):
        project(Changing, {"new": 1}, FIRST)
    (record,) = caplog.records
    assert record.name == "mcp_ref.kit.typed.checking"
    assert record.getMessage() == "Changing.new (since 2025-06-18) is left out: not in 2024-11-05"


def test_there_is_no_projection_where_nothing_can_be_lost_and_the_keys_where_it_may_be_are_known() -> None:
    for revision in EVERY:
        assert projector(Loose, revision) is None
        assert projector(NotificationParams, revision) is None
    assert projector(PaginatedRequestParams, FIRST) is not None
    assert projector(Implementation, FIRST) is not None and projector(Implementation, FOURTH) is None
    assert losing(Loose, FIRST) == frozenset()
    assert losing(Changing, FIRST) == {"new", "middle"}
    assert losing(Nested, FIRST) == {"first", "rest", "named"}
    assert losing(CallParams, FOURTH) == {"_meta"}
    assert losing(Question, FIRST) is None


def test_foreign_content_becomes_a_text_in_a_reply_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    block = project(ContentBlock, AUDIO, FIRST, replies=True)
    assert block["type"] == "text" and "audio/wav" in block["text"]
    assert project(Message, {"content": [AUDIO, A]}, FIRST, replies=True)["content"]["type"] == "text"
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


# -- JSON Schema --------------------------------------------------------------------------------------------------


def test_a_schema_is_the_callers_own() -> None:
    json_schema(ImageContent, FIRST)["properties"].clear()
    assert json_schema(ImageContent, FIRST)["properties"]


def test_two_types_of_one_name_cannot_be_published_together() -> None:
    class Twin(TypedDict):
        x: int

    Twin.__name__ = "PromptRef"
    with pytest.raises(TypeError, match="two types are called PromptRef"):
        json_schema(PromptRef | Twin, FIRST)
