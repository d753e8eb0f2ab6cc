"""The projection of what goes out: nothing of another revision on this one's wire.

Spec:      schema.ts of every revision
Upholds:   "exact in what we send": spec_notes/basic/index.md
Not here:  whether a method or a capability may be used at all (the method rows)

What happens to what only another revision has:

    a key of an object               left out
    an arm of a union, in a reply    a text block that says what was here
    an arm of a union, in a request  LocalProtocolError
    an array where one may stand     of one: that one. Of several: LocalProtocolError in a request; in a reply the texts
                                     joined where all are texts, else the first

Every loss is logged: a key at INFO, content at WARNING. A key that no revision names, and user data (a place typed
`Any` or `dict[str, Any]`), passes untouched. The input is never changed.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from mcp_ref.errors import LocalProtocolError
from mcp_ref.machinery.checking import Wrong, tester
from mcp_ref.machinery.shapes import TAGS, Array, Choice, JsonObject, Map, Object, Shape, shape_of
from mcp_ref.revisions import REVISIONS, Revision

log = logging.getLogger(__name__)

Projection = Callable[[Any], Any]
"""Returns the value itself where nothing is lost, else a changed copy."""


def projector(
    wire_type: Any, revision: Revision, *, replies: bool = False
) -> Callable[[JsonObject], JsonObject] | None:
    """The projection of an outbound object to a revision; compiled once for each type, revision and direction.

    Args:
        wire_type: a TypedDict or a union of them: the type of the params or of the result.
        replies: True for a result, in which content of another revision becomes a text block; False for the params of
            a request or a notification, in which it is an error.

    Returns:
        None where the type has nothing that the revision lacks. Else a function that returns its argument itself where
        nothing is lost, a copy without the losses otherwise, and raises `LocalProtocolError` as told above.

    Raises:
        TypeError: the type has something that the notation has not.

    Threads: any; what is returned keeps no state.
    """
    return _projector(wire_type, revision.name, replies)


@functools.cache
def _projector(wire_type: Any, revision_name: str, replies: bool) -> Projection | None:
    revision = REVISIONS[revision_name]
    return _Compiler(revision, replies).projection(shape_of(wire_type, revision))


@functools.cache
def losing(wire_type: Any, revision: Revision, *, replies: bool = False) -> frozenset[str] | None:
    """The keys at which an object may lose something; one that has none of them goes out as it is.

    With it a caller saves the projection of what is mostly sent: few calls of a tool have a key that a revision lacks.

    Returns: the empty set where `projector` returns None; None for a union, of which only the projection can tell.
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
            case Array():
                return self._array(shape)
            case Map():
                return self._map(shape)
            case Object():
                return self._object(shape)
            case Choice():
                return self._choice(shape)
        return None

    def _array(self, shape: Array) -> Projection | None:
        inner = self.projection(shape.items)
        if inner is None:
            return None

        def project(value: Any) -> Any:
            if not isinstance(value, list | tuple):
                return value
            items = [inner(item) for item in value]
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value

        return project

    def _map(self, shape: Map) -> Projection | None:
        inner = self.projection(shape.values)
        if inner is None:
            return None

        def project(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            items = {key: inner(item) for key, item in value.items()}
            return items if any(items[key] is not item for key, item in value.items()) else value

        return project

    def _object(self, shape: Object) -> Projection | None:
        absent = frozenset(shape.absent)
        inner = [(key, p) for key, field in shape.fields.items() if (p := self.projection(field.shape))]
        if not absent and not inner:
            return None

        def project(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            result = value if absent.isdisjoint(value) else self._without(shape, value)
            for key, project_field in inner:
                if key in value and (new := project_field(value[key])) is not value[key]:
                    result = dict(value) if result is value else result
                    result[key] = new
            return result

        return project

    def _without(self, shape: Object, value: JsonObject) -> JsonObject:
        for key in value.keys() & shape.absent.keys():
            log.info("%s.%s (%s) is left out: not in %s", shape.name, key, shape.absent[key], self.revision)
        return {key: item for key, item in value.items() if key not in shape.absent}

    # -- unions ---------------------------------------------------------------------------------------------------

    def _choice(self, shape: Choice) -> Projection | None:
        of_object = self._objects(shape)
        of_array = self._arrays(shape, of_object)
        if of_object is None and of_array is None:
            return None

        def project(value: Any) -> Any:
            if isinstance(value, dict):
                return value if of_object is None else of_object(value)
            if isinstance(value, list | tuple):
                return value if of_array is None else of_array(value)
            return value

        return project

    def _objects(self, shape: Choice) -> Projection | None:
        arms = _Arms.of(shape)
        inner = {id(arm): self.projection(arm) for arm in arms.here}
        if not arms.elsewhere and not any(inner.values()):
            return None
        text = next((arm for arm in arms.here if "text" in arm.tags.get("type", ())), None)
        project_text = inner[id(text)] if text else None

        def project(value: JsonObject) -> JsonObject:
            arm = arms.pick(value)
            if arm is None:
                return value
            if id(arm) in inner:
                project_arm = inner[id(arm)]
                return value if project_arm is None else project_arm(value)
            stand_in = self._stand_in(arm, value, has_text=text is not None)
            return stand_in if project_text is None else project_text(stand_in)

        return project

    def _stand_in(self, arm: Object, block: JsonObject, *, has_text: bool) -> JsonObject:
        """The text block that takes the place of content that the revision does not have."""
        what = next((str(block[tag]) for tag in TAGS if isinstance(block.get(tag), str)), arm.name)
        if not self.replies or not has_text:
            raise LocalProtocolError(f"{self.revision} has no {what} ({arm.name}) here")
        log.warning("%s is replaced by a text: not in %s", arm.name, self.revision)
        kept = {"annotations": block["annotations"]} if "annotations" in block else {}
        return {"type": "text", "text": _describe(what, block)} | kept

    def _arrays(self, shape: Choice, of_object: Projection | None) -> Projection | None:
        for arm in shape.here:
            if isinstance(arm, Array):
                return self._array(arm)
        foreign = any(isinstance(arm, Array) for arm in shape.elsewhere)
        if not foreign or not any(isinstance(arm, Object) for arm in shape.here):
            return None

        def project(value: Sequence[Any]) -> Any:
            one = self._one_of(value)
            return of_object(one) if of_object is not None and isinstance(one, dict) else one

        return project

    def _one_of(self, blocks: Sequence[Any]) -> Any:
        """What stands for an array in a revision that has only one."""
        if len(blocks) == 1:
            return blocks[0]
        if not self.replies:
            raise LocalProtocolError(f"{self.revision} has one value here, not an array of {len(blocks)}")
        if all(isinstance(block, dict) and block.get("type") == "text" for block in blocks):
            log.warning("%d text blocks are joined: %s has one here", len(blocks), self.revision)
            return {"type": "text", "text": "\n\n".join(str(block.get("text", "")) for block in blocks)}
        log.warning("the first of %d values is kept: %s has one here", len(blocks), self.revision)
        return blocks[0]


def _describe(what: str, block: JsonObject) -> str:
    if what == "resource_link":
        return f"[resource link: {block.get('name')} <{block.get('uri')}>]"
    kind = f" ({block['mimeType']})" if "mimeType" in block else ""
    name = f" {block['name']}" if "name" in block else ""
    return f"[{what}{kind}{name}: this revision of the protocol cannot carry it]"


class _Arms(NamedTuple):
    """The objects among the arms of a union, and which of them a value is."""

    here: tuple[Object, ...]
    elsewhere: tuple[Object, ...]
    tag: str | None

    @classmethod
    def of(cls, shape: Choice) -> _Arms:
        here = tuple(arm for arm in shape.here if isinstance(arm, Object))
        elsewhere = tuple(arm for arm in shape.elsewhere if isinstance(arm, Object))
        if any(isinstance(arm, Map) for arm in shape.here):
            elsewhere = ()  # what may be any object cannot be foreign
        tag = next((tag for tag in TAGS if all(tag in arm.tags for arm in here + elsewhere)), None)
        return cls(here, elsewhere, tag)

    def pick(self, value: JsonObject) -> Object | None:
        """The arm that a value is; None where it is none, or there is nothing to tell."""
        here, elsewhere = self._candidates(value, self.here), self._candidates(value, self.elsewhere)
        if len(here) + len(elsewhere) == 1:
            return (here + elsewhere)[0]
        ours, theirs = _best(value, here), _best(value, elsewhere)
        if ours is None or theirs is None:
            return ours or theirs
        # An open object fits many arms: another revision's only where it has what that one must and ours cannot.
        names = ours.fields.keys() | ours.absent.keys()
        foreign = any(field.required and key not in names for key, field in theirs.fields.items())
        return theirs if foreign else ours

    def _candidates(self, value: JsonObject, arms: tuple[Object, ...]) -> tuple[Object, ...]:
        if self.tag is None:
            return arms
        kind = value.get(self.tag)
        if kind is None:
            return tuple(arm for arm in arms if not (self.tag in arm.fields and arm.fields[self.tag].required))
        return tuple(arm for arm in arms if kind in arm.tags[self.tag])


def _best(value: JsonObject, arms: tuple[Object, ...]) -> Object | None:
    """Of the arms that the value fits the one that names most of its keys."""
    fitting = [arm for arm in arms if _fits(value, arm)]
    return max(fitting, key=lambda arm: len(value.keys() & (arm.fields.keys() | arm.absent.keys())), default=None)


def _fits(value: JsonObject, arm: Object) -> bool:
    test = _test(arm)
    try:
        test(value)
    except Wrong:
        return False
    return True


@functools.cache
def _test(arm: Object) -> Callable[[Any], None]:
    return tester(arm) or (lambda value: None)
