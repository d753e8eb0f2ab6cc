"""Contracts: what a server promises its clients, as a file, and what a change of it breaks.

Spec:      server/tools, server/resources, server/prompts, basic/lifecycle: what a client relies on
Not here:  the command (lab/cli/contracts); reports of changes (lab/testing/reports)

    with Client("weather.py") as client:
        changes = contract_diff(json.load(open("weather.json")), contract_of(client))

An input schema breaks clients when it takes less than before, an output schema when it allows more. Two schemas are
compared keyword by keyword: each keyword takes a set of values and a schema takes what all of them take, so a schema
whose keywords only widen is itself wider. What stands in one keyword but depends on another (`properties` and
`additionalProperties`, `enum` and `const`) is compared together, and what cannot be decided is said to be so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from mcp_ref import (
    REVISIONS,
    AuthorizationError,
    Client,
    ErrorResponse,
    JsonObject,
    McpError,
    MethodNotFound,
    RequestTimeout,
    TransportClosed,
)
from mcp_ref.facts import SchemaRefused, is_transport, prepare, replace

VERSION: Final = 1
Effect = Literal["breaking", "look", "harmless"]
_EFFECTS: Final = ("breaking", "look", "harmless")
_MAX_SAID: Final = 160  # characters of a value in a reason

_MAX_COMPARED: Final = 100_000  # parts of a schema

# Each list: the capability that has it, the method of the client, and the member that names an entry.
_LISTS: Final = {
    "tools": ("tools", "list_tools", "name"),
    "resources": ("resources", "list_resources", "uri"),
    "templates": ("resources", "list_resource_templates", "uriTemplate"),
    "prompts": ("prompts", "list_prompts", "name"),
}
_LEFT_OUT: Final = ("_meta", "size", "lastModified")
_OF_CLIENTS: Final = {"elicitation", "roots", "sampling"}  # capabilities that some servers declare, to no effect


class Change(NamedTuple):
    """One difference between two contracts.

    Attributes:
        effect: "breaking", "harmless", or "look" for what a person must decide.
        where: such as "tools/forecast input.city".
        says: the reason.
    """

    effect: Effect
    where: str
    says: str

    def __str__(self) -> str:
        return f"{self.effect}: {self.where}: {self.says}"


class NoContract(ValueError):
    """A file does not hold a contract that this version can read; the text says why."""


def contract_of(client: Client) -> JsonObject:
    """Return what the server of a connected client promises: its lists, all pages, capabilities, instructions and
    revisions.

    A server of the session era tells only the revision that was agreed on, so it is asked for each of the others in a
    conversation of its own; where the client was given a transport, the contract says nothing of revisions.

    Returns: an object for `write_contract`, without `_meta`, cache hints and the server's version.

    Raises: what `Client.connect` and the lists raise.
    Blocks: until each list has come; the client's time limits bound each request, and each of the conversations.
    Spec: server/tools#listing-tools, and its like.
    """
    capabilities = client.server_capabilities
    promise = {
        "contract": VERSION, "name": client.server_info.get("name"),
        "capabilities": capabilities, "instructions": client.instructions,
    }  # fmt: skip
    if not is_transport(client.target):
        promise["revisions"] = [name for name in REVISIONS if _speaks(client, name)]
    for kind, (capability, method, key) in _LISTS.items():
        if capability not in capabilities:
            continue
        try:
            entries = getattr(client, method)()
        except ErrorResponse as refusal:
            # Many a server without templates does not know the request.
            if refusal.code != MethodNotFound.code or kind != "templates":
                raise
            entries = []
        promise[kind] = {
            each[key]: {name: value for name, value in each.items() if name not in (*_LEFT_OUT, key)}
            for each in entries
        }  # fmt: skip
    return promise


def _speaks(client: Client, name: str) -> bool:
    """Return whether the server agrees on a revision where that is the only one it is asked for."""
    agreed = client.revision
    limits: JsonObject = {"timeout": client.timeout, "connect_timeout": client.connect_timeout}
    try:
        if name != agreed.name:
            Client(client.target, revision=name, trace=client._recorder, **limits).connect().close()
    except McpError as problem:
        # Whoever does not know the first message of another era, or transport, may end, or say nothing.
        alike = REVISIONS[name].http == agreed.http
        if alike and isinstance(problem, AuthorizationError | TransportClosed | RequestTimeout):
            raise
        return False
    return True


def contract_diff(old: JsonObject, new: JsonObject) -> list[Change]:
    """Return what a client of the old contract meets with the new one: breaking changes first, then looks, then
    harmless ones.

    Raises: NoContract where one of the two is not a contract of this version.
    """
    for each in (old, new):
        check_contract(each)
    try:
        return sorted(_changes(old, new), key=lambda change: (_EFFECTS.index(change.effect), change.where))
    except RecursionError:
        raise NoContract("a contract is nested too deeply to be compared") from None


def write_contract(path: Path, contract: JsonObject) -> None:
    """Write a contract in one step, so that a reader never sees half of one. Raises: OSError."""
    replace(path, [json.dumps(contract, indent=1, sort_keys=True) + "\n"], 0o666)


def check_contract(value: Any) -> None:
    """Raise NoContract unless the value is a contract of this version, with members of the right kinds."""
    if not isinstance(value, dict) or "contract" not in value:
        raise NoContract("it is not a contract")
    if value["contract"] != VERSION:
        raise NoContract(f"it is a contract of version {value['contract']!r}, and this program reads version {VERSION}")
    lists = [value.get(kind, {}) for kind in _LISTS]
    spoken = value.get("revisions", [])
    whole = isinstance(value.get("capabilities"), dict) and isinstance(spoken, list)
    whole = whole and all(isinstance(each, str) for each in spoken)
    if not whole or not all(isinstance(each, dict) and _are_objects(each.values()) for each in lists):
        raise NoContract("a member of the contract is missing, or is not of its kind")
    tools = value.get("tools", {}).values()
    parts = [value["capabilities"].get("resources") or {}, *(each.get("execution") or {} for each in tools)]
    if not _are_objects(parts):
        raise NoContract("the capability resources, or the execution of a tool, is not an object")
    for prompt in value.get("prompts", {}).values():
        arguments = prompt.get("arguments", [])
        if not isinstance(arguments, list) or not all(
            isinstance(a, dict) and type(a.get("name")) is str for a in arguments
        ):
            raise NoContract("the arguments of a prompt are not a list of named objects")


def _are_objects(values: Any) -> bool:
    return all(isinstance(each, dict) for each in values)


# -- the server and its entries


def _changes(old: JsonObject, new: JsonObject) -> Iterator[Change]:
    if "revisions" in old.keys() & new.keys():
        # What this version does not know it cannot have asked for.
        for name in sorted(({*old["revisions"]} ^ {*new["revisions"]}) & REVISIONS.keys()):
            gone, at = name in old["revisions"], f"revisions/{name}"
            yield Change("breaking", at, "is no longer spoken") if gone else Change("harmless", at, "is spoken now")
    yield from _flags(old["capabilities"], new["capabilities"], "capabilities")
    if old.get("instructions") != new.get("instructions"):
        yield Change("look", "instructions", "changed, and the model reads them")
    for kind in _LISTS:
        a, b = old.get(kind, {}), new.get(kind, {})
        # A client was told that this list changes.
        moving = kind == "resources" and (old["capabilities"].get("resources") or {}).get("listChanged")
        for name in sorted(a.keys() - b.keys()):
            yield Change("look" if moving else "breaking", f"{kind}/{name}", "was removed")
        for name in sorted(b.keys() - a.keys()):
            yield Change("harmless", f"{kind}/{name}", "was added")
        for name in sorted(a.keys() & b.keys()):
            yield from _entry(a[name], b[name], f"{kind}/{name}")


def _flags(old: Any, new: Any, at: str) -> Iterator[Change]:
    if at == "capabilities.experimental":
        if old != new:
            yield Change("look", at, "changed, and what it means is not specified")
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted((old.keys() | new.keys()) - _OF_CLIENTS):
            yield from _flags(old.get(name), new.get(name), f"{at}.{name}")
        return
    was, now = (each is not None and each is not False for each in (old, new))
    if was and not now:
        yield Change("breaking", at, "is no longer declared")
    elif now and not was:
        yield Change("harmless", at, "is declared now")
    elif old != new and (old or new):
        yield Change("look", at, f"{_said(old)} became {_said(new)}")


def _entry(old: JsonObject, new: JsonObject, at: str) -> Iterator[Change]:
    # Arguments are an object, whether a schema says so or not.
    takes = (side.get("inputSchema") for side in (old, new))
    a, b = ({"type": "object", **each} if isinstance(each, dict) and "$ref" not in each else each for each in takes)
    yield from _schema(a, b, f"{at} input", given=False)
    yield from _schema(old.get("outputSchema"), new.get("outputSchema"), f"{at} output", given=True)
    a, b = ({each["name"]: each for each in side.get("arguments", ())} for side in (old, new))
    yield from (Change("look", f"{at} {name}", "the argument was removed") for name in sorted(a.keys() - b.keys()))
    yield from (_argument(a.get(name), b[name], f"{at} {name}") for name in sorted(b) if a.get(name) != b[name])
    was, now = ((side.get("execution") or {}).get("taskSupport", "forbidden") for side in (old, new))
    if was != now:
        effect: Effect = "harmless" if now == "optional" else "breaking"
        yield Change(effect, at, f"as a task it was {was} and is {now} now")
    known = {"inputSchema", "outputSchema", "arguments", "execution"}
    for word in sorted((old.keys() | new.keys()) - known):
        if old.get(word) != new.get(word):
            yield Change("harmless" if word in ("title", "icons") else "look", at, f"{word} changed")


def _argument(old: JsonObject | None, new: JsonObject, at: str) -> Change:
    was, now = bool((old or {}).get("required")), bool(new.get("required"))
    if was != now:
        return Change("breaking" if now else "harmless", at, f"is {'' if now else 'not '}required now")
    if old is None:
        return Change("harmless", at, "an optional argument was added")
    return Change("look", at, "the description of the argument changed")


# -- JSON Schema: what the change of a keyword does to the set of values

_KINDS: Final[dict[str, tuple[Effect, Effect]]] = {
    # What each kind of change means for what clients send, and for what they are given.
    "narrower": ("breaking", "harmless"),
    "wider": ("harmless", "breaking"),
    "gone": ("look", "breaking"),
    "lost": ("breaking", "breaking"),
    "text": ("look", "harmless"),
    "name": ("harmless", "harmless"),
    "other": ("look", "look"),
}
_NAMES: Final = {"title", "examples", "$comment", "deprecated", "readOnly", "writeOnly"}
_LOWER: Final = {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"}
_UPPER: Final = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"}
_TYPES: Final = {"null", "boolean", "integer", "number", "string", "array", "object"}
_DIFFERS: Final = re.compile(
    r'draft-0[46]|"(\w+Contains|(prefix|additional)Items|(dependen|unevaluated|\$(?!schema|defs))\w+|id)":|"items": \['
)
"""Signs in the text of a schema that it may mean something else in another dialect."""
Found = Iterator[tuple[str, str, str]]


def _schema(old: Any, new: Any, at: str, *, given: bool) -> Iterator[Change]:
    if old == new:
        return
    if old is None or new is None:
        yield Change(
            "harmless" if old is None else "breaking", at, f"the schema was {'added' if old is None else 'removed'}"
        )
        return
    try:
        for each in (old, new):
            prepare(each, what="the schema")
        found = list(Comparison(old, new).of(old, new, at))
    except (SchemaRefused, LookupError) as problem:
        yield Change("look", at, f"cannot be compared: {problem}"[:_MAX_SAID])
        return
    yield from (Change(_KINDS[kind][given], where, says) for kind, where, says in found)


class Comparison:
    """Two valid schemas. Each pair of parts is compared once, so references that lead in circles end."""

    def __init__(self, old: Any, new: Any) -> None:
        self._old, self._new = old, new
        self._seen: set[tuple[str, str]] = set()
        self._count = 0

    def of(self, old: Any, new: Any, at: str) -> Found:
        """Yield tuples (kind, where, what) for what the new part takes, beside the old one."""
        # Many references to one large part are as many comparisons of its parts.
        self._count += 1
        if self._count > _MAX_COMPARED:
            raise SchemaRefused(f"more than {_MAX_COMPARED} parts")
        pair = _text(old), _text(new)
        if pair in self._seen or (pair[0] == pair[1] and "$ref" not in pair[0]):
            return
        self._seen.add(pair)
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        if old is False or new is False:
            if old is not new:
                yield (
                    "wider" if old is False else "narrower",
                    at,
                    f"{'some' if old is False else 'no'} value is taken now",
                )
            return
        old, new = ({} if each is True else each for each in (old, new))
        for word in sorted((old.keys() | new.keys()) - {"$defs", "definitions", "const", "enum", "properties"}):
            yield from self._keyword(word, old.get(word), new.get(word), at)
        yield from _sets(_values(old), _values(new), at, "values")
        yield from self._properties(old, new, at)

    def _keyword(self, word: str, a: Any, b: Any, at: str) -> Iterable[tuple[str, str, str]]:
        if word in ("items", "propertyNames", "additionalProperties") and not isinstance(a, list) | isinstance(b, list):
            where = f"{at}[]" if word == "items" else f"{at}[{word}]"
            return self.of(True if a is None else a, True if b is None else b, where)
        if word in ("anyOf", "allOf"):
            return self._branches(word, a, b, at)
        if word == "type":
            return _sets(_types(a), _types(b), at, "type")
        if word == "required":
            was, now = set(a or ()), set(b or ())
            found = [("narrower", f"{at}.{name}", "is required now") for name in sorted(now - was)]
            return found + [("wider", f"{at}.{name}", "is no longer required") for name in sorted(was - now)]
        if _text(a) == _text(b):
            # The same text may mean something else where it refers to what has changed.
            undecided = ("other", at, f"{word} refers to what changed, which cannot be decided")
            return [undecided] if "$ref" in _text(a) else []
        kind, became = "other", f"{word} {_said(a)} became {_said(b)}"
        renamed = word == "$schema" and not _DIFFERS.search(_text([self._old, self._new]))
        if renamed or word in _NAMES or word == "description":
            return [("text" if word == "description" else "name", at, f"{word} changed")]
        if word == "default":
            kind = "text"
        if word in _LOWER | _UPPER:
            kind = "narrower" if b is not None and (a is None or (b > a if word in _LOWER else b < a)) else "wider"
        if word == "uniqueItems":
            kind = "narrower" if b else "wider" if a else "name"
        if word in ("pattern", "format", "multipleOf") and (a is None or b is None):
            kind = "narrower" if a is None else "wider"
        return [(kind, at, f"{word} changed, which cannot be decided" if kind == "other" else became)]

    def _branches(self, word: str, a: Any, b: Any, at: str) -> Found:
        """Yield branches in pairs: those that read the same, and of the others, if there are equally many, each in
        turn.
        """
        more = "wider" if word == "anyOf" else "narrower"
        less = "narrower" if word == "anyOf" else "wider"
        if a is None or b is None:  # no `anyOf` takes everything
            yield "narrower" if a is None else "wider", at, f"{word} was {'added' if a is None else 'removed'}"
            return
        olds, news = ({_text(each): each for each in side} for side in (a, b))
        for text in olds.keys() & news.keys():
            yield from self.of(olds[text], news[text], f"{at}[{word}]")
        gone, come = ([x[t] for t in sorted(x.keys() - y.keys())] for x, y in ((olds, news), (news, olds)))
        if len(gone) == len(come):
            for x, y in zip(gone, come, strict=True):
                yield from self.of(x, y, f"{at}[{word}]")
            return
        yield from ((less, at, f"{word}: {_said(each)} is gone") for each in gone)
        yield from ((more, at, f"{word}: {_said(each)} is new") for each in come)

    def _properties(self, old: JsonObject, new: JsonObject, at: str) -> Found:
        a, b = old.get("properties", {}), new.get("properties", {})
        rest, rest_now = old.get("additionalProperties", True), new.get("additionalProperties", True)
        if a.keys() != b.keys() and "patternProperties" in old.keys() | new.keys():
            yield "other", at, "properties changed beside patternProperties, which cannot be decided"
        for name in sorted(a.keys() & b.keys()):
            yield from self.of(a[name], b[name], f"{at}.{name}")
        for name in sorted(a.keys() - b.keys()):
            yield "lost" if rest_now is False else "gone", f"{at}.{name}", "was removed"
            yield from self.of(a[name], rest_now, f"{at}.{name}") if isinstance(rest_now, dict) else ()
        for name in sorted(b.keys() - a.keys()):
            if isinstance(rest, dict) and rest:
                yield from self.of(rest, b[name], f"{at}.{name}")
            else:
                # That an open object now describes an optional property narrows it to the letter, but no client sends
                # what nobody named.
                yield "wider" if rest is False else "name", f"{at}.{name}", "was added"


def _sets(old: set[str] | None, new: set[str] | None, at: str, what: str) -> Found:
    """Yield, of `enum` or `type`, what is gone and what is new; None takes everything."""
    if old is None or new is None:
        if old is not new:
            kind = "wider" if new is None else "narrower"
            yield kind, at, f"{what}: {'anything' if new is None else ', '.join(sorted(new))[:_MAX_SAID]}"
        return
    for kind, difference, says in (("narrower", old - new, "gone"), ("wider", new - old, "new")):
        if difference:
            yield kind, at, f"{what}: {says}: {', '.join(sorted(difference))[:_MAX_SAID]}"


def _types(value: Any) -> set[str]:
    found = set(_TYPES) if value is None else {value} if isinstance(value, str) else set(value)
    return found | {"integer"} if "number" in found else found


def _values(schema: JsonObject) -> set[str] | None:
    """Return the one set that `enum` and `const` are."""
    sets = [[schema["const"]]] if "const" in schema else []
    sets += [schema["enum"]] if "enum" in schema else []
    return set.intersection(*({_text(value) for value in each} for each in sets)) if sets else None


def _resolved(schema: Any, root: Any) -> Any:
    """Return a schema whose `$ref` leads to a place in the same document, with that place instead."""
    for _ in range(20):
        ref = schema.get("$ref") if isinstance(schema, dict) else None
        if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
            break
        found = root
        for part in ref.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            found = found[int(part)] if isinstance(found, list) else found[part]
        beside = {word: value for word, value in schema.items() if word != "$ref"}
        if not beside or isinstance(found, bool):
            schema = found if not beside else {**beside, "allOf": [*beside.get("allOf", ()), found]}
        elif beside.keys() & found.keys() - _NAMES - {"description", "default"}:
            schema = {**beside, "allOf": [*beside.get("allOf", ()), found]}
        else:
            schema = {**found, **beside}
    return schema


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _said(value: Any) -> str:
    return "nothing" if value is None else _text(value)[:_MAX_SAID]
