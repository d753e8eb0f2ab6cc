"""The projection of what goes out: nothing of another revision on this one's wire.

Spec:      schema.ts of every revision
Upholds:   "exact in what we send": spec_notes/basic/index.md
Not here:  whether a method or a capability may be used at all (the method rows)

What happens to what only another revision has:

    a key of an object               left out
    an arm of a union, in a reply    a text block that says what was here
    an arm of a union, in a request  LocalProtocolError
    an array where one may stand     of one: that one. Of several: LocalProtocolError in a request; in a reply the texts
                                     joined if all are texts, else the first

Every loss is logged: a key at INFO, content at WARNING. A key that no revision names, and user data (a place typed
`Any` or `dict[str, Any]`), passes untouched. The input is never changed.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, NamedTuple

from mcp_ref.errors import LocalProtocolError
from mcp_ref.kit.typed.shapes import TAGS, Array, Choice, JsonObject, Map, Object, Shape, shape_of
from mcp_ref.revisions import Revision

log = logging.getLogger(__name__)

Projection = Callable[[Any], Any]
"""Returns the value itself if nothing is lost, else a changed copy."""


@functools.cache
def projector(
    wire_type: Any, revision: Revision, *, replies: bool = False
) -> Callable[[JsonObject], JsonObject] | None:
    """The projection of an outbound object to a revision; compiled once for each type, revision and direction.

    Args:
        wire_type: a TypedDict or a union of them: the type of the params or of the result.
        replies: True for a result, in which content of another revision becomes a text block; False for the params of
            a request or a notification, in which it is an error.

    Returns:
        None if the type has nothing that the revision lacks. Else a function that returns its argument itself if
        nothing is lost, a copy without the losses otherwise, and raises `LocalProtocolError` as told above.

    Raises:
        TypeError: the type has something that the notation does not know.

    Threads: any; what is returned keeps no state.
    """
    return _Compiler(revision, replies).projection(shape_of(wire_type, revision))


@functools.cache
def losing(wire_type: Any, revision: Revision, *, replies: bool = False) -> frozenset[str] | None:
    """The keys at which an object may lose something; one that has none of them goes out as it is.

    With it a caller saves the projection of what is mostly sent: few calls of a tool have a key that a revision lacks.

    Returns: the empty set if `projector` returns None; None for a union, of which only the projection can tell.
    Raises: TypeError: as for `projector`.
    Threads: any.
    """
    shape, compiler = shape_of(wire_type, revision), _Compiler(revision, replies)
    if compiler.projection(shape) is None:
        return frozenset()
    if not isinstance(shape, Object):
        return None
    return frozenset(shape.absent) | {key for key, field in shape.fields.items() if compiler.projection(field.shape)}


class _Compiler(NamedTuple):
    """One function per shape that can lose something; None for the others."""

    revision: Revision
    replies: bool

    def projection(self, shape: Shape) -> Projection | None:
        match shape:
            case Array() | Map():
                return self._container(shape)
            case Object():
                return self._object(shape)
            case Choice():
                return self._choice(shape)
        return None

    def _container(self, shape: Array | Map) -> Projection | None:
        """The projection of an array, or of an object whose keys are data."""
        inner, kind = self.projection(shape.each), dict if isinstance(shape, Map) else (list, tuple)
        if inner is None:
            return None

        def project(value: Any) -> Any:
            if not isinstance(value, kind):
                return value
            old = value.values() if isinstance(value, dict) else value
            new = [inner(item) for item in old]
            if all(map(is_, new, old)):
                return value
            return dict(zip(value, new, strict=True)) if isinstance(value, dict) else new

        return project

    def _object(self, shape: Object) -> Projection | None:
        absent = frozenset(shape.absent)
        inner = [(key, p) for key, field in shape.fields.items() if (p := self.projection(field.shape))]
        if not absent and not inner:
            return None

        def project(value: Any) -> Any:
            """Leave out of an object what its revision does not have; the object given is not changed."""
            if not isinstance(value, dict):
                return value
            result = value
            if not absent.isdisjoint(value):
                for key in value.keys() & absent:
                    log.info("%s.%s (%s) is left out: not in %s", shape.name, key, shape.absent[key], self.revision)
                result = {key: item for key, item in value.items() if key not in absent}
            for key, project_field in inner:
                if key in value and (new := project_field(value[key])) is not value[key]:
                    result = dict(value) if result is value else result
                    result[key] = new
            return result

        return project

    # -- unions ---------------------------------------------------------------------------------------------------

    def _choice(self, shape: Choice) -> Projection | None:
        of_object = self._object_of_choice(shape)
        array = next((arm for arm in shape.here if isinstance(arm, Array)), None)
        of_array = self.projection(array) if array else None
        if array is None and of_object and any(isinstance(arm, Array) for arm in shape.elsewhere):
            of_array = self._only_one
        if of_array is None:
            return of_object

        def project(value: Any) -> Any:
            if isinstance(value, list | tuple):
                value = of_array(value)
            return value if of_object is None else of_object(value)

        return project

    def _only_one(self, blocks: Sequence[Any]) -> Any:
        """Return what stands for an array in a revision that has only one."""
        if len(blocks) == 1:
            return blocks[0]
        if not self.replies:
            raise LocalProtocolError(f"{self.revision} has one value here, not an array of {len(blocks)}")
        if all(isinstance(block, dict) and block.get("type") == "text" for block in blocks):
            log.warning("%d text blocks are joined: %s has one here", len(blocks), self.revision)
            return {"type": "text", "text": "\n\n".join(str(block.get("text", "")) for block in blocks)}
        log.warning("the first of %d values is kept: %s has one here", len(blocks), self.revision)
        return blocks[0]

    def _object_of_choice(self, shape: Choice) -> Projection | None:
        here = [arm for arm in shape.here if isinstance(arm, Object)]
        elsewhere = [arm for arm in shape.elsewhere if isinstance(arm, Object)]
        if any(isinstance(arm, Map) for arm in shape.here):
            elsewhere = []  # What may be any object cannot be foreign.
        inner = {arm: self.projection(arm) for arm in here}
        if not elsewhere and not any(inner.values()):
            return None
        tag = next((tag for tag in TAGS if all(tag in arm.tags for arm in here + elsewhere)), "")
        text = next((arm for arm in here if "text" in arm.tags.get("type", ())), None)

        def project(block: Any) -> Any:
            if not isinstance(block, dict):
                return block
            arm = next((arm for arm in here + elsewhere if _is_meant(arm, block, tag)), None)
            if arm is not None and arm not in inner:
                # Content that the revision does not have: a text block takes its place.
                what = next((str(block[tag]) for tag in TAGS if isinstance(block.get(tag), str)), arm.name)
                if not self.replies or text is None:
                    raise LocalProtocolError(f"{self.revision} has no {what} ({arm.name}) here")
                log.warning("%s is replaced by a text: not in %s", arm.name, self.revision)
                kept = {"annotations": block["annotations"]} if "annotations" in block else {}
                arm, block = text, {"type": "text", "text": _describe(what, block)} | kept
            project_arm = inner[arm] if arm is not None else None
            return block if project_arm is None else project_arm(block)

        return project


def _describe(what: str, block: JsonObject) -> str:
    if what == "resource_link":
        return f"[resource link: {block.get('name')} <{block.get('uri')}>]"
    kind = f" ({block['mimeType']})" if "mimeType" in block else ""
    name = f" {block['name']}" if "name" in block else ""
    return f"[{what}{kind}{name}: this revision of the protocol cannot carry it]"


def _is_meant(arm: Object, value: JsonObject, tag: str) -> bool:
    """Return whether an object is meant for an arm of a union: by the tag, else by the keys that the arm requires."""
    if tag in value:
        return value[tag] in arm.tags[tag]
    return all(key in value for key, field in arm.fields.items() if field.required)
