"""Our types, revision by revision, against the schemas that the specification publishes.

Both sides are brought to one spelling first: references are followed except to types that both sides have and that are
compared by themselves, descriptions are dropped, and `{"type": ["a", "b"]}` and nested `anyOf` become one sorted list.
The published type of any JSON value, which holds itself, becomes an empty schema.
"""

from __future__ import annotations

import copy
import fnmatch
import functools
import importlib
import json
import pkgutil
import typing
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import jsonschema
import pytest

import mcp_ref
from mcp_ref.errors import LocalProtocolError
from mcp_ref.kit.typed.checking import Check, SchemaMismatch, checker, projector
from mcp_ref.kit.typed.publishing import json_schema, schema_of
from mcp_ref.kit.typed.shapes import published_name, shape_of
from mcp_ref.pages.extensions import skills as skills_extension
from mcp_ref.pages.extensions import tasks as tasks_extension
from mcp_ref.pages.table import METHODS
from mcp_ref.revisions import LATEST_SESSION, REVISIONS, SESSION_REVISIONS, STATELESS_REVISIONS, Revision
from mcp_ref.wire.methods import Method
from mcp_ref.wire.types import Icons

JsonObject = dict[str, Any]

SPEC = Path(__file__).parents[4] / "shared" / "spec"
EVERY = tuple(REVISIONS.values())

ROWS = "a union of methods: the rows say who may send what"
FRAME = "the frame of a message, which basic/messages checks by hand"
BASE = "a base of published types; ours have its fields"
INLINED = "published without a name, inside the types that hold it"
ERRORS = "built and read by the class of errors.py that has its code"
EXTENSION = "published by an extension: see the last test here"
OPTIONS = "keyword arguments of a function of ours; it never goes on the wire"

DIFFERENCES = {
    # "REVISION Type/path", as a pattern: why they may differ
    "2025-11-25 *Capabilities/properties/tasks/*": "read member by member, when it is asked for (agreement.declares)",
    "2025-11-25 *Task*Request.params/properties/_meta": "published for every request but these three",
    "202[45]-* ClientCapabilities/properties/extensions": "declared for extensions whose own pages ask for it",
    "2026-07-28 */properties/inputResponses/*": "an answer is checked by what was asked (basic/patterns/mrtr)",
    "* ElicitResult/properties/content/*": "numbers in schema.ts; the generator of schema.json made integers of them",
}

NOT_PUBLISHED = {
    # our TypedDicts that no published schema names: why
    **dict.fromkeys(
        (
            "AnySchema", "Completion", "CompletionArgument", "CompletionContext", "ElicitationCapability",
            "ElicitationCompleteParams", "LabelledField", "ListChanged", "ListRootsParams", "MultiSelectField",
            "InputSchema", "Option", "RequestedSchema", "ResourcesCapability", "RootsCapability", "SamplingCapability",
            "TaskRequestParams", "TitledItems", "UntitledItems",
        ),
        INLINED,
    ),
    **dict.fromkeys(
        (
            "AppCapabilities", "AppResourceMeta", "AppToolMeta", "Csp", "DisplayModeParams", "InitializeParams",
            "MessageParams", "ModelContextParams", "OpenLinkParams", "Permissions", "SizeChangedParams",
            "DetailedTask", "DetailedTaskResult", "GetSkillResult", "ListSkillsResult", "ReadDirectoryRequestParams",
            "ReadDirectoryResult", "Skill", "SkillFrontmatter", "SkillResource", "TaskCreatedResult", "TaskState",
            "TasksNotificationParams", "UpdateTaskRequestParams",
        ),
        EXTENSION,
    ),
    **dict.fromkeys(("HttpOptions", "Options", "RunOptions", "SampleOptions"), OPTIONS),
    "ElicitUrlResult": "what a function of ours returns; it never goes on the wire",
}  # fmt: skip

OTHER_MEANING = {
    # aliases of ours that share a published name and mean something else
    "Role": Literal["client", "server"],  # of a peer; the published one is of a message, and in basic/types
    "Icons": Icons,  # the field's type; the published one is an object that has the field
}

UNMATCHED = {
    # published names (as a pattern) that no type, alias or row here stands for: why
    **dict.fromkeys(
        (
            "Annotated", "BaseMetadata", "Icons", "Notification", "PaginatedRequest", "PaginatedResult", "Request",
            "ResourceRequestParams", "TaskAugmentedRequestParams",
        ),
        BASE,
    ),
    **dict.fromkeys(
        (
            "HeaderMismatchError", "InternalError", "InvalidParamsError", "InvalidRequestError",
            "MethodNotFoundError", "MissingRequiredClientCapabilityError", "ParseError",
            "UnsupportedProtocolVersionError",
        ),
        ERRORS,
    ),
    "Client[NR]*": ROWS,
    "Server[NR]*": ROWS,
    "JSONRPC*": FRAME,
    "*ResultResponse": FRAME,
    "Error": FRAME,
    "JSON[AOV]*": "any JSON: Any, or JsonObject",
    "MetaObject": "JsonObject",
    "URLElicitationRequiredError": "built by client.elicitation.UrlElicitationRequired",
    "Cursor": "a string",
    "RelatedTaskMetadata": "a dict with the one member, in basic/tasks.related",
}  # fmt: skip


# -- the two sides ------------------------------------------------------------------------------------------------


def modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(mcp_ref.__path__, "mcp_ref."):
        if not found.name.endswith("__main__"):  # A program, which runs as it is imported.
            yield importlib.import_module(found.name)


@functools.cache
def wire_types() -> tuple[Any, ...]:
    """Every TypedDict of the package, in the module that defines it; those of authorization are other standards'."""
    return tuple(
        value
        for module in modules()
        if not module.__name__.startswith("mcp_ref.pages.basic.authorization")
        for value in vars(module).values()
        if typing.is_typeddict(value) and value.__module__ == module.__name__
    )


def rows() -> tuple[Method, ...]:
    return tuple(METHODS.values())


@functools.cache
def published(name: str) -> JsonObject:
    path = SPEC / name / "schema.json"
    if not path.exists():
        pytest.skip(f"the published schema of {name} is not at hand")
    document = json.loads(path.read_text(encoding="utf-8"))
    definitions: JsonObject = document.get("$defs") or document["definitions"]
    return {each: merged(definition, definitions) for each, definition in definitions.items()}


def merged(definition: JsonObject, definitions: JsonObject) -> JsonObject:
    """A definition that has all of several others, written out."""
    if "allOf" not in definition:
        return definition
    parts = [definitions[part["$ref"].rpartition("/")[2]] for part in definition["allOf"]]
    properties = {key: value for part in parts for key, value in part["properties"].items()}
    required = [key for part in parts for key in part.get("required", ())]
    return {"type": "object", "properties": properties, "required": required}


def ours(revision: Revision) -> dict[str, Any]:
    """Our TypedDicts by the name that they have in the revision."""
    return {published_name(wire_type, revision): wire_type for wire_type in wire_types()}


def aliases(names: set[str]) -> dict[str, Any]:
    """Our unions and enumerations of these names."""
    return {
        name: value
        for module in modules()
        for name, value in vars(module).items()
        if name in names and typing.get_origin(value) is not None and value != OTHER_MEANING.get(name)
    }


def row_of(definition: JsonObject, revision: Revision) -> Method | None:
    """The row of the method that a published request or notification is about."""
    name = definition.get("properties", {}).get("method", {}).get("const")
    return next((row for row in rows() if row.name == name and row.exists_in(revision)), None)


# -- one spelling -------------------------------------------------------------------------------------------------

ANY_JSON: dict[str, JsonObject] = {"JSONValue": {}, "JSONArray": {"type": "array"}, "JSONObject": {"type": "object"}}
"""Published types that hold one another, in the common spelling."""

KEPT = ("const", "format", "minimum", "maximum", "maxItems")


def plain(schema: JsonObject, definitions: JsonObject, keep: set[str]) -> JsonObject:
    """A schema in the common spelling; references to names in `keep` stay."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        if name in ANY_JSON:
            return copy.copy(ANY_JSON[name])
        return {"$ref": name} if name in keep else plain(definitions[name], definitions, keep)
    if "anyOf" in schema:
        return one_of([plain(arm, definitions, keep) for arm in schema["anyOf"]])
    if isinstance(schema.get("type"), list):
        return one_of([plain({**schema, "type": kind}, definitions, keep) for kind in schema["type"]])
    return simple(schema, definitions, keep)


def one_of(arms: list[JsonObject]) -> JsonObject:
    flat = [inner for arm in arms for inner in arm.get("anyOf", [arm])]
    found = {json.dumps(arm, sort_keys=True): arm for arm in flat}
    return {"anyOf": [found[key] for key in sorted(found)]} if len(found) > 1 else flat[0]


def simple(schema: JsonObject, definitions: JsonObject, keep: set[str]) -> JsonObject:
    out: JsonObject = {word: schema[word] for word in ("type", *KEPT) if word in schema}
    if "enum" in schema:
        out["enum"] = sorted(schema["enum"])
    if "items" in schema:
        out["items"] = plain(schema["items"], definitions, keep)
    if schema.get("properties"):
        out["properties"] = {key: plain(value, definitions, keep) for key, value in schema["properties"].items()}
    if schema.get("required"):
        out["required"] = sorted(schema["required"])
    values = schema.get("additionalProperties")
    if values and values is not True and (inner := plain(values, definitions, keep)):
        out["additionalProperties"] = inner
    return out


def differences(mine: Any, theirs: Any, path: str) -> Iterator[str]:
    """Paths at which the two differ, with what each says."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in sorted(mine.keys() | theirs.keys()):
            if key not in mine:
                yield f"{path}/{key}: only published: {json.dumps(theirs[key])}"
            elif key not in theirs:
                yield f"{path}/{key}: only ours: {json.dumps(mine[key])}"
            else:
                yield from differences(mine[key], theirs[key], f"{path}/{key}")
    elif mine != theirs:
        yield f"{path}: ours {json.dumps(mine)}, published {json.dumps(theirs)}"


def compare(wire_type: Any, definition: JsonObject, name: str, revision: Revision) -> list[str]:
    """Return what differs between a type, as a judge sees it, and a published definition."""
    definitions = published(revision.name)
    keep = set(ours(revision)) & set(definitions)
    while "$ref" in definition:
        definition = definitions[definition["$ref"].rsplit("/", 1)[-1]]
    schema = schema_of(shape_of(wire_type, revision, judged=True), revision)
    own = schema.get("$defs", {})
    mine = plain(own[schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema, own, keep)
    return list(differences(mine, plain(definition, definitions, keep), f"{revision} {name}"))


def published_params(name: str, revision: Revision) -> JsonObject:
    """The params of a request or notification: its own, and those of the base that it extends.

    Before 2025-11-25 a definition spells out its own params only, and `_meta` stands in `Request` and `Notification`.
    """
    definitions = published(revision.name)
    own: JsonObject = definitions[name]["properties"].get("params", {})
    base = definitions["Request" if name.endswith("Request") else "Notification"]["properties"]["params"]
    if "$ref" in own:
        return own
    return {**base, **own, "properties": base.get("properties", {}) | own.get("properties", {})}


@functools.cache
def found_differences(revision: Revision) -> tuple[str, ...]:
    """Everything that differs in a revision: types and aliases by name, params by the method of their row."""
    definitions = published(revision.name)
    pairs = [(name, definitions[name], named) for name, named in aliases(set(definitions)).items()]
    for name, named in ours(revision).items():
        # Three requests of the session era are bare objects in the stateless era: there a type, here a row.
        if name in definitions and row_of(definitions[name], revision) is None:
            pairs.append((name, definitions[name], named))
    for name, definition in definitions.items():
        row = row_of(definition, revision)
        if row is not None and row.params is not None:
            pairs.append((f"{name}.params", published_params(name, revision), row.params))
    return tuple(line for name, definition, named in pairs for line in compare(named, definition, name, revision))


def path_of(line: str) -> str:
    return line.split(": ")[0]


# -- the comparisons ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", EVERY, ids=str)
def test_every_type_is_the_published_one_or_differs_for_a_reason(revision: Revision) -> None:
    found = [
        line
        for line in found_differences(revision)
        if not any(fnmatch.fnmatchcase(path_of(line), pattern) for pattern in DIFFERENCES)
    ]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize("revision", EVERY, ids=str)
def test_every_published_name_has_its_type_or_a_reason(revision: Revision) -> None:
    definitions = published(revision.name)
    matched = set(ours(revision)) | set(aliases(set(definitions)))
    matched |= {name for name, definition in definitions.items() if row_of(definition, revision)}
    missing = [
        name
        for name in definitions
        if name not in matched and not any(fnmatch.fnmatchcase(name, pattern) for pattern in UNMATCHED)
    ]
    assert not missing, missing


WRONG: tuple[Any, ...] = (None, True, 5.5, "x", [], {"x": 5})
"""What is put in the place of each part of an instance, one at a time."""


def instance(schema: JsonObject, definitions: JsonObject) -> Any:
    """A value that fits a schema of ours, with every property."""
    if not schema:
        return {}
    if "$ref" in schema:
        return instance(definitions[schema["$ref"].rsplit("/", 1)[-1]], definitions)
    if "anyOf" in schema:
        return instance(schema["anyOf"][-1], definitions)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if schema.get("type") == "object":
        return {key: instance(value, definitions) for key, value in schema.get("properties", {}).items()}
    if schema.get("type") == "array":
        return [instance(schema["items"], definitions)]
    return {"string": "a", "integer": 1, "number": 1, "boolean": True}.get(schema.get("type", ""))


def spoiled(value: Any, judged: bool, types: int = 2) -> Iterator[Any]:
    """The value with one part replaced or removed, as deep as so many types stand in one another: what is in them is
    spoiled by itself. Only for a judge a `type` is another string: a peer keeps that."""
    yield from WRONG
    types -= isinstance(value, dict)
    steps: Iterable[Any] = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for step in steps if types >= 0 else ():
        for part in spoiled(value[step], judged, types):
            if judged or not (step in ("type", "mode") and isinstance(part, str)):
                spoilt = copy.copy(value)
                spoilt[step] = part
                yield spoilt
        yield {key: item for key, item in value.items() if key != step} if isinstance(value, dict) else []


def is_accepted(check: Check, value: Any) -> bool:
    try:
        check(value, "value")
    except SchemaMismatch:
        return False
    return True


TOLERATED = {"resultType", "ttlMs", "cacheScope", "ttl"}
"""Required as published, while the pages say what their absence means; a task without `ttl` is an SDK's for null."""


def changed(schema: Any, change: Callable[[JsonObject], JsonObject]) -> Any:
    """A schema in which each object, the innermost first, is what the change makes of it."""
    if isinstance(schema, list):
        return [changed(inner, change) for inner in schema]
    return (
        change({key: changed(value, change) for key, value in schema.items()}) if isinstance(schema, dict) else schema
    )


def tolerant(part: JsonObject) -> JsonObject:
    """A part of a schema, less what the pages tell a client to put up with, or what peers leave out."""
    if isinstance(part.get("required"), list):
        part["required"] = [key for key in part["required"] if key not in TOLERATED]
    if "ttlMs" in part:
        part["ttlMs"].pop("minimum")
    return part


QUICK, *SLOW = ((revision, judged) for revision in EVERY for judged in (False, True))


@pytest.mark.parametrize(
    ("revision", "judged"), [QUICK, *(pytest.param(*each, marks=pytest.mark.slow) for each in SLOW)]
)
def test_the_check_refuses_what_the_schema_refuses(revision: Revision, judged: bool) -> None:
    kinds = {kind for row in rows() if row.exists_in(revision) for kind in (row.params, row.result) if kind}
    inside = {name for kind in kinds for name in json_schema(kind, revision).get("$defs", ())}
    for wire_type in kinds | {ours(revision)[name] for name in inside}:
        schema = schema_of(shape_of(wire_type, revision, judged), revision)
        schema = schema if judged else changed(schema, tolerant)
        validator, check = jsonschema.Draft202012Validator(schema), checker(wire_type, revision, judged)
        whole = instance(schema, schema.get("$defs", {}))
        for value in (whole, *spoiled(whole, judged)):
            assert is_accepted(check, value) == validator.is_valid(value), (wire_type, value)


def closed(part: JsonObject) -> JsonObject:
    """A part of a schema, with nothing allowed in an object but its properties."""
    is_schema = isinstance(part.get("properties"), dict) and part.get("type") == "object"
    return {**part, "additionalProperties": False} if is_schema else part


def without_required(part: JsonObject) -> JsonObject:
    return {key: value for key, value in part.items() if key != "required" or not isinstance(value, list)}


def projections(revision: Revision, other: Revision, those: list[Any]) -> Iterator[tuple[Any, JsonObject]]:
    """For each kind of value in these rows: its schema in `revision`, and what is sent there of one of `other`."""
    kinds = {(kind, kind is row.result) for row in those for kind in (row.params, row.result) if kind}
    for wire_type, replies in kinds:
        theirs = json_schema(wire_type, other)
        value = instance(theirs, theirs.get("$defs", {}))
        project = projector(wire_type, revision, replies=replies)
        try:
            sent = project(value) if project else value
        except LocalProtocolError:
            assert not replies
        else:
            yield changed(json_schema(wire_type, revision), closed), sent


@pytest.mark.parametrize("revision", EVERY, ids=str)
def test_a_projection_leaves_nothing_of_a_later_revision_or_the_other_era(revision: Revision) -> None:
    if revision in SESSION_REVISIONS:
        of_it = [row for row in rows() if row.exists_in(revision)]
        for schema, sent in projections(revision, LATEST_SESSION, of_it):
            jsonschema.Draft202012Validator(schema).validate(sent)
    other = LATEST_SESSION if revision in STATELESS_REVISIONS else STATELESS_REVISIONS[-1]
    both = [row for row in rows() if row.exists_in(revision) and row.exists_in(other)]
    assert len(both) >= 15
    for schema, sent in projections(revision, other, both):
        # What it lacks is added by whoever sends it: this is about what it must not have.
        jsonschema.Draft202012Validator(changed(schema, without_required)).validate(sent)


def test_every_type_is_published_somewhere_or_has_a_reason() -> None:
    names = {name for revision in EVERY for name in published(revision.name)}
    own = {wire_type.__name__ for wire_type in wire_types()} - names
    assert own == set(NOT_PUBLISHED)


def test_every_reason_is_needed() -> None:
    paths = [path_of(line) for revision in EVERY for line in found_differences(revision)]
    names = {name for revision in EVERY for name in published(revision.name)}
    idle = [pattern for pattern in DIFFERENCES if not fnmatch.filter(paths, pattern)]
    idle += [pattern for pattern in UNMATCHED if not fnmatch.filter(names, pattern)]
    assert not idle


TASKS, SKILLS = (SPEC.parent / extension / "schema.json" for extension in ("tasks", "skills"))
"""The schemas of the extensions."""

OF_EXTENSIONS = {
    # our type: the published one
    skills_extension.SkillResource: "SkillResource",
    skills_extension.Skill: "Skill",
    skills_extension.ListSkillsResult: "ListSkillsResult",
    skills_extension.GetSkillResult: "GetSkillResult",
    tasks_extension.TaskState: "Task",
    tasks_extension.TaskCreatedResult: "CreateTaskResult",
    tasks_extension.DetailedTaskResult: "GetTaskResult",
    tasks_extension.TasksNotificationParams: "TaskStatusNotificationParams",
}


@pytest.mark.skipif(not SKILLS.exists(), reason="the schemas of the extensions are not beside this checkout")
@pytest.mark.parametrize("wire_type", OF_EXTENSIONS, ids=lambda each: each.__name__)
def test_the_types_of_an_extension_have_the_fields_of_its_schema(wire_type: Any) -> None:
    place = TASKS if wire_type.__module__ == tasks_extension.__name__ else SKILLS
    document = json.loads(place.read_text("utf-8"))
    definitions = document.get("$defs") or document["definitions"]

    def fields(definition: JsonObject) -> tuple[dict[str, Any], set[str]]:
        """All that a definition may have, and what it must."""
        if "$ref" in definition:
            definition = definitions[definition["$ref"].rpartition("/")[2]]
        properties, required = dict(definition.get("properties", {})), set(definition.get("required", ()))
        for part in definition.get("allOf", ()):
            inner = fields(part)
            properties, required = {**properties, **inner[0]}, required | inner[1]
        if arms := [fields(arm) for arm in definition.get("anyOf", ())]:
            properties |= {key: value for arm, _ in arms for key, value in arm.items()}
            required |= set.intersection(*(must for _, must in arms))
        return properties, required

    theirs, must = fields(definitions[OF_EXTENSIONS[wire_type]])
    mine = json_schema(wire_type, STATELESS_REVISIONS[-1])
    assert set(mine["properties"]) == set(theirs)
    assert set(mine["required"]) - {"resultType"} == must - {"resultType"}
