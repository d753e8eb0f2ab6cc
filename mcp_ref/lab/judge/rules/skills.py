"""Skills: what a server says of them, and who may ask for directories.

Spec:      the page of the extension `io.modelcontextprotocol/skills` (2026-07-28)

Not judged: what a host does with a skill, which shows in no traffic; reading ahead, or after a mismatch, for a user may
browse. Bytes without the digest of the entry are a fault only if the same digest is said again afterwards: else the
skill may have changed in between.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from functools import partial
from typing import Any, cast
from urllib.parse import unquote

from mcp_ref import SKILLS, JsonObject, LocalProtocolError, RemoteProtocolError, contents_bytes
from mcp_ref.facts import plain_uri, read_frontmatter
from mcp_ref.lab.judge.rules.seen import (  # fmt: skip
    ORDER,
    KnownFile,
    Link,
    Said,
    Verdict,
    as_list,
    as_object,
    hidden,
    objects,
    rule,
    rule_of_each,
)

_MAX_FILES, _MAX_BYTES = 512, 16 << 20  # of one skill
_SHOWN = ("skills/list", "skills/get")
_DIRECTORY = "resources/directory/read"


def _settings(link: Link, said: Said) -> Any:
    """Return the settings that the server has declared; None if it does not declare skills, or that is unknown."""
    return as_object(as_object(link.declared("server", said)).get("extensions")).get(SKILLS.name)


def _entries(said: Said) -> list[JsonObject]:
    return objects(said.result.get("skills") if said.about == "skills/list" else [said.result.get("skill")])


def _files(entry: JsonObject) -> list[JsonObject]:
    return objects(entry.get("resources"))


def _within(entry: JsonObject, file: JsonObject) -> bool:
    folder, uri = plain_uri(str(entry.get("uri"))).removesuffix("SKILL.md"), plain_uri(str(file.get("uri")))
    return uri.startswith(folder) and ".." not in unquote(uri[len(folder) :]).replace("\\", "/").split("/")


# -- who declares, and answers ------------------------------------------------------------------------------------


@rule("result", "server/discover")
def skills_declare_resources(link: Link, said: Said) -> Verdict:
    declared = as_object(said.result.get("capabilities"))
    lacks = SKILLS.name in as_object(declared.get("extensions")) and "resources" not in declared
    return "resources among the capabilities, beside skills" if lacks else None


@rule("request", _DIRECTORY, sender="client")
def directory_read_only_where_declared(link: Link, said: Said) -> Verdict:
    known = link.declared("server", said) is not None
    declared = as_object(_settings(link, said)).get("directoryRead") is True
    return "no such request: the server does not declare directoryRead" if known and not declared else None


@rule("error", _DIRECTORY, name="directories_are_answered")
@rule("error", *_SHOWN)
def skills_are_answered(link: Link, said: Said) -> Verdict:
    declared = _settings(link, said)
    owed = declared is not None if said.about in _SHOWN else as_object(declared).get("directoryRead") is True
    return "an answer: the server declares that it has one" if owed and said.code == -32601 else None


@rule("result", _DIRECTORY, stage=ORDER, name="unknown_directory_is_invalid_params")
@rule("result", "skills/get", stage=ORDER)
def unknown_skill_is_invalid_params(link: Link, said: Said) -> Verdict:
    skill = str(said.asked.params.get("uri")).endswith("/SKILL.md")
    unknown = said.request and skill != (said.about == "skills/get")
    return "error -32602: no such skill or directory" if unknown else None


@rule("result", "skills/get")
def skill_is_the_one_asked_for(link: Link, said: Said) -> Verdict:
    asked = said.asked.params.get("uri")
    return None if all(entry.get("uri") == asked for entry in _entries(said)) else f"the skill {asked}"


# -- what an entry says -------------------------------------------------------------------------------------------


_of_each_entry = partial(rule_of_each, "result", *_SHOWN, within=_entries)


@_of_each_entry()
def skill_has_resources(entry: JsonObject) -> str | None:
    named = entry.get("resources")
    return None if isinstance(named, list) or named == "dynamic" else 'resources: an array, or "dynamic"'


@_of_each_entry()
def skill_lists_itself_once(entry: JsonObject) -> str | None:
    uris = [str(file.get("uri")) for file in _files(entry)]
    wrong = str(entry.get("uri")) not in uris or max(Counter(map(plain_uri, uris)).values()) > 1
    listed = isinstance(entry.get("resources"), list)
    return f"every file of {entry.get('uri')} once, and the SKILL.md among them" if listed and wrong else None


@_of_each_entry()
def skill_files_lie_within(entry: JsonObject) -> str | None:
    within = all(_within(entry, file) for file in _files(entry))
    return None if within else "files within the directory of the skill"


@_of_each_entry()
def skill_files_have_size_and_digest(entry: JsonObject) -> str | None:
    for file in _files(entry):
        size, digest = file.get("size"), str(file.get("digest"))
        if type(size) is not int or size < 0 or not re.fullmatch("sha256:[0-9a-f]{64}", digest):
            return f"a size, and a digest sha256:..., of {file.get('uri')}"
    return None


@_of_each_entry()
def skill_uri_ends_in_its_name(entry: JsonObject) -> str | None:
    end = f"/{as_object(entry.get('frontmatter')).get('name')}/SKILL.md"
    return None if unquote(str(entry.get("uri"))).endswith(end) else f"a uri that ends in {end}"


@_of_each_entry()
def skill_within_limits(entry: JsonObject) -> str | None:
    sizes = [size for file in _files(entry) if type(size := file.get("size")) is int]
    within = len(as_list(entry.get("resources"))) <= _MAX_FILES and sum(sizes) <= _MAX_BYTES
    return None if within else f"at most {_MAX_FILES} files with {_MAX_BYTES} bytes in a skill"


@rule("result", "skills/list")
def skill_names_are_unique(link: Link, said: Said) -> Verdict:
    names = Counter(str(as_object(entry.get("frontmatter")).get("name")) for entry in _entries(said))
    twice = [name for name, times in names.items() if times > 1]
    return f"one skill of the name {twice[0]}" if twice else None


# -- what is read -------------------------------------------------------------------------------------------------


def _digest(said: Said) -> str | None:
    """Return the digest of the bytes of a file that was read; None if they cannot be told."""
    contents = objects(said.result.get("contents"))
    if len(contents) != 1 or hidden(contents[0].get("text")) or hidden(contents[0].get("blob")):
        return None
    try:
        return f"sha256:{hashlib.sha256(contents_bytes(cast(Any, contents[0]))).hexdigest()}"
    except (RemoteProtocolError, ValueError):
        return None


def learn(link: Link, said: Said) -> None:
    """Note what an entry says of its files, and a read that gave other bytes."""
    files = link.known(said.asked).skills
    if said.about == "resources/read":
        known = files.get(plain_uri(str(said.asked.params.get("uri"))))
        if known is not None and said.asked.event.seq > known.seq and _digest(said) not in (None, known.digest):
            known.other = said
        return
    for entry in _entries(said):
        for file in _files(entry):
            uri, digest = plain_uri(str(file.get("uri"))), str(file.get("digest"))
            before = files.get(uri)
            if before is None or before.digest != digest or before.seq > said.asked.event.seq:
                head = entry.get("frontmatter") if uri == plain_uri(str(entry.get("uri"))) else None
                files[uri] = KnownFile(digest, head, said.event.seq)


@rule("result", *_SHOWN)
def skill_bytes_match(link: Link, said: Said) -> Verdict:
    for file in (file for entry in _entries(said) for file in _files(entry)):
        known = link.known(said.asked).skills.get(plain_uri(str(file.get("uri"))))
        if known is not None and known.other is not None and known.digest == file.get("digest"):
            read, known.other = known.other, None
            if read.event.seq < said.asked.event.seq:
                return read, f"bytes with the digest {known.digest}, which was said before and after"
    return None


@rule("result", "resources/read")
def skill_frontmatter_is_identical(link: Link, said: Said) -> Verdict:
    known = link.known(said.asked).skills.get(plain_uri(str(said.asked.params.get("uri"))))
    if known is None or known.frontmatter is None or _digest(said) != known.digest:
        return None
    try:
        head = read_frontmatter(contents_bytes(said.result["contents"][0]))
    except (ValueError, LocalProtocolError):
        return None
    return None if head == known.frontmatter else "a text whose frontmatter is that of its entry"
