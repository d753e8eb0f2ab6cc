"""The notation and its three derivations: check, projection, JSON Schema."""

from __future__ import annotations

import copy
import logging
from typing import Annotated, Any, Literal, NotRequired, Required, TypedDict

import pytest

from mcp_ref.content import ContentBlock, ImageContent
from mcp_ref.errors import LocalProtocolError
from mcp_ref.machinery.checking import SchemaMismatch, checker
from mcp_ref.machinery.projection import losing, projector
from mcp_ref.machinery.publishing import json_schema
from mcp_ref.machinery.shapes import (
    AtMost,
    Bounds,
    Closed,
    Format,
    Former,
    FromRevision,
    RequiredIn,
    Since,
    Until,
    published_name,
    renamed,
)
from mcp_ref.revisions import REVISIONS, Revision
from mcp_ref.server.utilities.pagination import PaginatedRequestParams
from mcp_ref.types import Implementation, NotificationParams, RequestParams, Result

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
    sometimes: NotRequired[Annotated[str, RequiredIn("2024-11-05", "2025-11-25")]]
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


class Completing(TypedDict):
    ref: Annotated[PromptRef | TemplateRef, Closed()]


class TextSchema(TypedDict):
    type: Literal["string"]
    default: NotRequired[Annotated[str, Since("2025-11-25")]]


class ChoiceSchema(TypedDict):
    type: Literal["string"]
    enum: list[str]


class TitledSchema(TypedDict):
    type: Literal["string"]
    oneOf: list[JsonObject]


class Form(TypedDict):
    mode: NotRequired[Annotated[Literal["form"], Since("2025-11-25")]]
    fields: dict[str, TextSchema | ChoiceSchema | Annotated[TitledSchema, Since("2025-11-25")]]


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


def mismatch(wire_type: Any, value: Any, revision: Revision = FOURTH, root: str = "params") -> tuple[str, str]:
    with pytest.raises(SchemaMismatch) as caught:
        checker(wire_type, revision)(value, root)
    assert str(caught.value) == f"{caught.value.path} {caught.value.problem}"
    return caught.value.path, caught.value.problem


def fits(wire_type: Any, value: Any, revision: Revision = FOURTH) -> None:
    checker(wire_type, revision)(value, "params")


# -- the check ----------------------------------------------------------------------------------------------------


def test_a_value_that_fits_passes() -> None:
    fits(CallParams, {"name": "add", "arguments": {"a": 1}, "_meta": {"progressToken": 5}})


def test_a_mismatch_names_the_path_from_the_given_root() -> None:
    value = {"first": {"extra": {}}, "rest": [{}, {"extra": {}, "new": "3"}]}
    assert mismatch(Nested, value, THIRD) == ("params.rest[1].new", "must be an integer, not a string")
    assert mismatch(CallParams, {}, root="result") == ("result.name", "is required")
    assert mismatch(CallParams, [], root="result") == ("result", "must be an object, not an array")


def test_a_key_that_is_not_an_identifier_is_quoted_in_the_path() -> None:
    assert mismatch(Nested, {"first": {}, "named": {"a/b": 1}}, THIRD)[0] == 'params.named["a/b"]'


def test_a_mismatch_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="params.name is required"):
        fits(CallParams, {})


def test_unknown_keys_are_allowed_everywhere() -> None:
    fits(CallParams, {"name": "add", "other": object(), "_meta": {"com.example/x": []}})


def test_a_field_of_another_revision_is_not_checked() -> None:
    fits(Changing, {"new": "not a number", "sometimes": ""}, FIRST)
    assert mismatch(Changing, {"new": "not a number"}, THIRD)[0] == "params.new"
    fits(Changing, {"old": 5, "sometimes": ""}, FOURTH)


def test_required_is_what_the_hint_says_even_under_string_annotations() -> None:
    fits(Loose, {"name": "x"})
    assert mismatch(Loose, {"size": 1}) == ("params.name", "is required")
    assert mismatch(LooseChild, {"name": "x"}) == ("params.share", "is required")


def test_a_field_may_be_required_in_some_revisions_only() -> None:
    fits(Changing, {}, SECOND)
    assert mismatch(Changing, {}, FIRST) == ("params.sometimes", "is required")


def test_what_is_required_as_published_may_be_missing_in_what_arrives() -> None:
    assert json_schema(Hinted, FOURTH)["required"] == ["mode", "size"]
    assert "required" not in json_schema(Hinted, THIRD)
    fits(Hinted, {}, FOURTH)
    assert mismatch(Hinted, {"size": "1"}, FOURTH) == ("params.size", "must be an integer, not a string")
    assert mismatch(Hinted, {"mode": "b"}, FOURTH) == ("params.mode", 'must be "a"')


def test_bounds_may_be_published_and_not_checked() -> None:
    assert json_schema(Hinted, FOURTH)["properties"]["size"] == {"type": "integer", "minimum": 0, "maximum": 9}
    for size in (-1, 0, 10):
        fits(Hinted, {"size": size}, FOURTH)


def test_an_arm_without_the_tag_that_is_not_demanded_is_the_one_meant() -> None:
    fits(Hinted | Url, {}, FOURTH)
    assert mismatch(Hinted | Url, {"mode": "url"}, FOURTH) == ("params.url", "is required")


def test_a_field_may_have_another_type_from_a_revision_on() -> None:
    fits(Changing, {"kind": "c"}, SECOND)
    assert mismatch(Changing, {"kind": "c"}, THIRD) == ("params.kind", 'must be "a" or "b"')


@pytest.mark.parametrize("value", [5, 5.0, 0, -3])
def test_integers_are_integers_whatever_their_spelling(value: Any) -> None:
    fits(int, value)
    fits(float, value)


@pytest.mark.parametrize("value", [5.5, True, "5", None, [], {}])
def test_refuses_what_is_not_an_integer(value: Any) -> None:
    assert mismatch(int, value)[1].startswith("must be an integer, not ")


def test_a_boolean_is_not_a_number_nor_a_number_a_boolean() -> None:
    assert mismatch(float, True) == ("params", "must be a number, not a boolean")
    assert mismatch(bool, 1) == ("params", "must be a boolean, not an integer")
    assert mismatch(Limits, {"level": True}) == ("params.level", "must be 1 or 2")
    assert mismatch(Limits, {"token": False}) == ("params.token", "must be a string or an integer, not a boolean")


def test_bounds_are_inclusive() -> None:
    for share in (0, 1, 0.5):
        fits(LooseChild, {"name": "x", "share": share})
    assert mismatch(LooseChild, {"name": "x", "share": 1.01}) == ("params.share", "must be at most 1")
    assert mismatch(LooseChild, {"name": "x", "share": -1}) == ("params.share", "must be at least 0")


def test_an_array_may_be_limited() -> None:
    fits(Limits, {"values": ["a", "b"]}, FIRST)
    assert mismatch(Limits, {"values": ["a", "b", "c"]}, FIRST)[1] == "must hold at most 2 items, not 3"


def test_null_is_only_what_a_type_says() -> None:
    fits(Limits, {"nothing": None, "maybe": None})
    fits(Limits, {"maybe": {"any": 1}})
    assert mismatch(Limits, {"nothing": 0}) == ("params.nothing", "must be null, not an integer")
    assert mismatch(Limits, {"maybe": 1}) == ("params.maybe", "must be an object or null, not an integer")


def test_a_literal_of_an_unhashable_value_is_a_mismatch() -> None:
    assert mismatch(Changing, {"kind": []}, THIRD)[0] == "params.kind"


# -- the check of unions ------------------------------------------------------------------------------------------


def test_a_known_kind_of_content_reports_its_own_error() -> None:
    assert mismatch(ContentBlock, {"type": "image", "data": "", "mimeType": 3}) == (
        "params.mimeType",
        "must be a string, not an integer",
    )
    assert mismatch(ContentBlock, {"type": "text"}) == ("params.text", "is required")


def test_an_unknown_kind_of_content_is_kept() -> None:
    fits(ContentBlock, {"type": "hologram", "anything": 1})
    fits(ContentBlock, {"type": "audio", "of a later revision": True}, FIRST)
    fits(Message, {"content": [{"type": "hologram"}, {"type": "text", "text": ""}]}, FOURTH)


def test_content_without_a_type_is_refused() -> None:
    assert mismatch(ContentBlock, {"text": "x"}) == ("params.type", "is required")
    assert mismatch(ContentBlock, {"type": ["text"]}) == ("params.type", "must be a string, not an array")
    assert mismatch(ContentBlock, "x") == ("params", "must be an object, not a string")


def test_a_closed_union_refuses_an_unknown_kind() -> None:
    fits(Completing, {"ref": {"type": "ref/prompt", "name": "x"}})
    assert mismatch(Completing, {"ref": {"type": "ref/tool"}}) == (
        "params.ref.type",
        'must be "ref/prompt" or "ref/resource"',
    )


def test_one_or_an_array_is_told_apart_by_the_kind_of_value() -> None:
    bad = {"type": "text"}
    assert mismatch(Message, {"content": bad}, FOURTH)[0] == "params.content.text"
    assert mismatch(Message, {"content": [bad]}, FOURTH)[0] == "params.content[0].text"
    assert mismatch(Message, {"content": [bad]}, THIRD) == ("params.content", "must be an object, not an array")


def test_arms_without_a_tag_are_tried_in_turn() -> None:
    block = {"type": "resource", "resource": {"uri": "a:b", "blob": "AA=="}}
    fits(ContentBlock, block)
    neither = {"type": "resource", "resource": {"uri": "a:b"}}
    path, problem = mismatch(ContentBlock, neither)
    assert (path, problem) == ("params.resource", "fits no alternative: text is required; or blob is required")
    assert mismatch(ContentBlock, {"type": "resource", "resource": {}}) == ("params.resource.uri", "is required")


def test_a_missing_mode_means_the_arm_where_it_is_optional() -> None:
    fits(Question, {"fields": {"a": {"type": "string"}}})
    assert mismatch(Question, {}) == ("params.fields", "is required")
    assert mismatch(Question, {"mode": "url"}) == ("params.url", "is required")
    assert mismatch(Question, {"mode": "dream"}) == ("params.mode", 'must be "form" or "url"')
    fits(Question, {"mode": "of no meaning yet", "fields": {}}, THIRD)


# -- the check of what every message says of itself in the stateless era ----------------------------------------------

VERSION = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
INFO = "io.modelcontextprotocol/clientInfo"
LEVEL = "io.modelcontextprotocol/logLevel"


def test_a_stateless_request_says_its_version_and_its_capabilities() -> None:
    meta: JsonObject = {VERSION: "2026-07-28", CAPABILITIES: {}}
    fits(CallParams, {"name": "add", "_meta": meta}, FIFTH)
    fits(CallParams, {"name": "add", "_meta": {**meta, "progressToken": 1, "com.example/own": None}}, FIFTH)
    assert mismatch(CallParams, {"name": "add"}, FIFTH) == ("params._meta", "is required")
    for key in meta:
        rest = {other: value for other, value in meta.items() if other != key}
        assert mismatch(CallParams, {"name": "add", "_meta": rest}, FIFTH) == (f'params._meta["{key}"]', "is required")


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        (VERSION, 20260728, ""),
        (CAPABILITIES, [], ""),
        (CAPABILITIES, {"sampling": {"tools": True}}, ".sampling.tools"),
        (CAPABILITIES, {"extensions": {"com.example/x": 1}}, '.extensions["com.example/x"]'),
        (INFO, {"name": "c"}, ".version"),
        (LEVEL, "warn", ""),
    ],
)
def test_what_a_stateless_request_says_of_itself_has_its_type(key: str, value: Any, path: str) -> None:
    meta = {VERSION: "2026-07-28", CAPABILITIES: {}, key: value}
    assert mismatch(RequestParams, {"_meta": meta}, FIFTH)[0] == f'params._meta["{key}"]{path}'
    fits(RequestParams, {"_meta": meta}, FOURTH)


def test_nothing_of_that_leaves_in_the_session_era() -> None:
    meta: JsonObject = {VERSION: "2026-07-28", CAPABILITIES: {}, INFO: {"name": "c"}, LEVEL: "info", "progressToken": 1}
    for revision in EVERY[:4]:
        assert project(RequestParams, {"_meta": meta}, revision) == {"_meta": {"progressToken": 1}}
    value = {"_meta": meta}
    assert project(RequestParams, value, FIFTH) is value


def test_a_stateless_result_without_its_type_is_accepted() -> None:
    fits(Result, {}, FIFTH)
    fits(Result, {"resultType": "of a later revision", "_meta": {"com.example/own": 1}}, FIFTH)
    assert json_schema(Result, FIFTH)["required"] == ["resultType"]
    assert mismatch(Result, {"resultType": None}, FIFTH)[0] == "params.resultType"


def test_results_and_notifications_of_the_stateless_era_name_their_server_and_subscription() -> None:
    server, subscription = "io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/subscriptionId"
    fits(Result, {"_meta": {server: {"name": "s", "version": "1"}}}, FIFTH)
    assert mismatch(Result, {"_meta": {server: "s"}}, FIFTH)[0] == f'params._meta["{server}"]'
    for identifier in (1, "1"):
        fits(NotificationParams, {"_meta": {subscription: identifier}}, FIFTH)
    assert mismatch(NotificationParams, {"_meta": {subscription: None}}, FIFTH)[0] == f'params._meta["{subscription}"]'
    fits(NotificationParams, {"_meta": {subscription: None}}, FOURTH)


def test_a_check_is_compiled_once() -> None:
    assert checker(CallParams, FIRST) is checker(CallParams, FIRST)
    assert checker(CallParams, FIRST) is not checker(CallParams, SECOND)


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


def test_a_key_of_another_revision_is_left_out() -> None:
    value = {"old": "x", "new": 1, "middle": True, "sometimes": ""}
    assert project(Changing, value, FIRST) == {"old": "x", "sometimes": ""}
    assert project(Changing, value, THIRD) == value
    assert project(Changing, value, FOURTH) == {"new": 1, "sometimes": ""}


def test_a_loss_is_logged_with_type_key_and_revision(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="mcp_ref.machinery.projection"):
        project(Changing, {"new": 1}, FIRST)
    (record,) = caplog.records
    assert record.name == "mcp_ref.machinery.projection"
    assert record.getMessage() == "Changing.new (since 2025-06-18) is left out: not in 2024-11-05"


def test_nested_objects_arrays_and_maps_are_projected() -> None:
    value = {"first": {"new": 1}, "rest": [{}, {"new": 1}], "named": {"a": {"new": 1}, "b": {}}}
    assert project(Nested, value, FIRST) == {"first": {}, "rest": [{}, {}], "named": {"a": {}, "b": {}}}


def test_what_no_revision_names_passes_untouched() -> None:
    value = {"com.example/own": {"new": 1}, "sometimes": ""}
    assert project(Changing, value, FIRST) is value


def test_user_data_passes_untouched() -> None:
    value = {"extra": {"new": 1, "middle": [{"new": 1}]}}
    assert project(Changing, value, FIRST) is value


def test_nothing_lost_gives_back_the_same_object() -> None:
    value = {"first": {"old": "x"}, "rest": [{}], "named": {"a": {}}}
    assert project(Nested, value, FIRST) is value


def test_there_is_no_projection_where_nothing_can_be_lost() -> None:
    for revision in EVERY:
        assert projector(Loose, revision) is None
        assert projector(NotificationParams, revision) is None
    assert projector(PaginatedRequestParams, FIRST) is not None
    assert projector(Implementation, FIRST) is not None
    assert projector(Implementation, FOURTH) is None


def test_the_keys_at_which_something_may_be_lost_are_known_beforehand() -> None:
    assert losing(Loose, FIRST) == frozenset()
    assert losing(Changing, FIRST) == {"new", "middle"}
    assert losing(Nested, FIRST) == {"first", "rest", "named"}
    assert losing(CallParams, FOURTH) == {"_meta"}
    assert losing(Question, FIRST) is None


def test_a_projection_is_compiled_once() -> None:
    assert projector(Nested, FIRST) is projector(Nested, FIRST)
    assert projector(Message, FIRST, replies=True) is not projector(Message, FIRST)


AUDIO = {"type": "audio", "data": "AA==", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///a", "name": "a", "annotations": {"priority": 1, "lastModified": "x"}}


def test_foreign_content_becomes_a_text_in_a_reply(caplog: pytest.LogCaptureFixture) -> None:
    block = project(ContentBlock, AUDIO, FIRST, replies=True)
    assert block["type"] == "text"
    assert "audio/wav" in block["text"]
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_resource_link_becomes_a_text_with_its_name_and_uri() -> None:
    block = project(ContentBlock, LINK, FIRST, replies=True)
    assert block == {"type": "text", "text": "[resource link: a <file:///a>]", "annotations": {"priority": 1}}


def test_foreign_content_is_an_error_in_a_request() -> None:
    with pytest.raises(LocalProtocolError, match="2024-11-05 has no audio"):
        project(ContentBlock, AUDIO, FIRST)


def test_foreign_content_passes_where_it_exists() -> None:
    for revision in EVERY[1:]:
        assert project(ContentBlock, AUDIO, revision) is AUDIO


def test_unknown_content_passes_untouched() -> None:
    block = {"type": "hologram", "_meta": {}}
    assert project(ContentBlock, block, FIRST) is block


def test_an_array_of_one_becomes_that_one() -> None:
    text = {"type": "text", "text": "a"}
    for replies in (False, True):
        assert project(Message, {"content": [text]}, THIRD, replies=replies) == {"content": text}
    value = {"content": [text]}
    assert project(Message, value, FOURTH) is value


def test_an_array_of_several_is_an_error_in_a_request() -> None:
    for blocks in ([], [{"type": "text", "text": "a"}] * 2):
        with pytest.raises(LocalProtocolError, match="has one value here"):
            project(Message, {"content": blocks}, THIRD)


def test_an_array_of_several_is_joined_or_cut_in_a_reply(caplog: pytest.LogCaptureFixture) -> None:
    texts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert project(Message, {"content": texts}, THIRD, replies=True)["content"] == {"type": "text", "text": "a\n\nb"}
    assert project(Message, {"content": [AUDIO, *texts]}, THIRD, replies=True)["content"] == AUDIO
    assert project(Message, {"content": [AUDIO, *texts]}, FIRST, replies=True)["content"]["type"] == "text"
    assert all(record.levelno == logging.WARNING for record in caplog.records)


def test_a_foreign_arm_without_a_text_to_stand_in_is_an_error() -> None:
    for replies in (False, True):
        with pytest.raises(LocalProtocolError, match="2025-06-18 has no url"):
            project(Question, {"mode": "url", "url": "https://example.com"}, THIRD, replies=replies)


def test_arms_that_share_a_tag_are_told_apart_by_their_keys() -> None:
    value = {"fields": {"a": {"type": "string", "default": "x"}, "b": {"type": "string", "enum": ["x"]}}}
    assert project(Question, value, THIRD) == {
        "fields": {"a": {"type": "string"}, "b": {"type": "string", "enum": ["x"]}}
    }
    titled = {"fields": {"a": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]}}}
    assert project(Question, titled, FOURTH) is titled
    with pytest.raises(LocalProtocolError, match="TitledSchema"):
        project(Question, titled, THIRD)


def test_the_mode_is_left_out_where_it_does_not_exist() -> None:
    assert project(Question, {"mode": "form", "fields": {}}, THIRD) == {"fields": {}}


# -- JSON Schema --------------------------------------------------------------------------------------------------


def test_the_schema_of_a_type() -> None:
    assert json_schema(LooseChild, FIRST) == {
        "type": "object",
        "properties": {
            "size": {"type": "integer"},
            "name": {"type": "string"},
            "share": {"type": "number", "minimum": 0, "maximum": 1},
        },
        "required": ["name", "share"],
    }


def test_a_schema_shows_the_fields_of_its_revision() -> None:
    assert list(json_schema(Changing, FIRST)["properties"]) == ["old", "sometimes", "kind", "extra"]
    assert json_schema(Changing, FIRST)["required"] == ["sometimes"]
    assert "required" not in json_schema(Changing, SECOND)
    assert json_schema(Changing, FOURTH)["properties"]["kind"] == {"type": "string", "enum": ["a", "b"]}


def test_nested_types_are_references_under_their_published_name() -> None:
    first, later = json_schema(Completing, SECOND), json_schema(Completing, THIRD)
    assert first["properties"]["ref"] == {"anyOf": [{"$ref": "#/$defs/PromptRef"}, {"$ref": "#/$defs/OldRef"}]}
    assert sorted(later["$defs"]) == ["PromptRef", "TemplateRef"]
    assert later["$defs"]["TemplateRef"]["properties"]["uri"] == {"type": "string", "format": "uri-template"}
    assert later["$defs"]["PromptRef"]["properties"]["type"] == {"type": "string", "const": "ref/prompt"}
    assert published_name(TemplateRef, FIRST) == "OldRef"


def test_an_arm_is_published_where_it_exists() -> None:
    assert len(json_schema(ContentBlock, FIRST)["anyOf"]) == 3
    assert len(json_schema(ContentBlock, SECOND)["anyOf"]) == 4
    assert len(json_schema(ContentBlock, THIRD)["anyOf"]) == 5


def test_a_limit_is_published_from_its_revision_on() -> None:
    assert "maxItems" not in json_schema(Limits, FOURTH)["properties"]["values"]
    assert json_schema(Limits, FIFTH)["properties"]["values"]["maxItems"] == 2


def test_a_schema_is_the_callers_own() -> None:
    json_schema(ImageContent, FIRST)["properties"].clear()
    assert json_schema(ImageContent, FIRST)["properties"]


def test_two_types_of_one_name_cannot_be_published_together() -> None:
    class Twin(TypedDict):
        x: int

    Twin.__name__ = "PromptRef"
    with pytest.raises(TypeError, match="two types are called PromptRef"):
        json_schema(PromptRef | Twin, FIRST)
