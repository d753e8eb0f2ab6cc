"""Skills in a host: what servers hand out as skills is listed, loaded by consent, and read as it was consented to.

Spec:      the page of the extension `io.modelcontextprotocol/skills` (2026-07-28)
Upholds:   spec_notes/extensions/skills.md
Not here:  what an entry is, and whether a file is what its entry says (extensions/skills); deciding
           (host/consent)

    listed      by `skills`: no file is read
    approved    a question of the kind `skill`, about the whole entry: its frontmatter, and the digest of each file
    held        by `load_skill`: its SKILL.md is in the context, and `read_skill` takes the files of the held entry
    changed     the server says something else now: the approval has ended, and the user is asked with the difference
    released    by `release_skill`, or the end of the host; a stopped server does not end it: the text is still there

A skill is a server of the configuration and a URI, never a URI alone, and never a name: names may be equal. Nothing in
a skill is honoured, neither `allowed-tools` nor hooks, and nothing is written to disk. A digest shows that a text is
the one that was consented to, not that it is harmless: before a tool runs on this machine while a skill is held, the
user is asked, once for each skill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack, cast

from mcp_ref.errors import ErrorResponse, LocalProtocolError
from mcp_ref.host.consent import ConsentRefused, Question
from mcp_ref.host.host import Host, Listed
from mcp_ref.host.json_file import difference, fingerprint
from mcp_ref.kit.threads.bounded_dict import Latest
from mcp_ref.kit.threads.deadline import Cancel, Deadline
from mcp_ref.pages.extensions.skills import NAME, SKILLS, Skill, SkillMismatch, check_skill, find_file, plain_uri
from mcp_ref.wire.content import text
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Options

if TYPE_CHECKING:
    from mcp_ref.host.life import Hosted

MAX_KEPT: Final = 32 << 20
"""Bytes of verified files that a host keeps in memory."""

_MAX_NAMED: Final = 5  # of skills that call themselves the same
_DESCRIBES: Final = {"name", "description", "license", "compatibility", "metadata"}
"""Fields of a frontmatter that ask for nothing."""


class Held(NamedTuple):
    """A loaded skill.

    Attributes:
        server: the name in the configuration.
        now: the fingerprint that was consented to; "" once that consent has ended.
        run: whether tools may run on this machine meanwhile.
    """

    server: str
    entry: Skill
    now: str
    run: bool = False


class Shelf:
    """The skills that a host knows, in tables keyed by the server's identity and the URI.

    Attributes:
        held: the loaded skills.
        seen: of skills that were listed, the name here, and what the skill calls itself, for each server by itself: no
            server pushes another's out.
        files: verified bytes; replaced as a whole. The key has the digest too, and the frontmatter of the entry.
    """

    declared = (SKILLS,)

    def __init__(self) -> None:
        # MUST: keep server and URI together; a host MUST NOT find anything of a skill by its URI alone
        # (2026-07-28/extensions/skills#skill-uris)
        self.held: dict[tuple[str, str], Held] = {}
        self.seen: dict[str, Latest[str, tuple[str, str]]] = {}
        self.files: dict[tuple[str, ...], bytes] = {}

    def drop(self, bound: str) -> None:
        """Drop the files of one server."""
        self.files = {key: data for key, data in self.files.items() if key[0] != bound}

    def saw(self, hosted: Hosted, skill: Skill) -> None:
        """Note how a skill is called here, and what it calls itself."""
        seen = self.seen.setdefault(hosted.bound, Latest(10_000))
        seen[plain_uri(skill["uri"])] = _name(hosted.name, skill["uri"]), skill["frontmatter"]["name"]

    def alike(self) -> dict[str, list[str]]:
        """Return the names here of all skills, of whatever server, by what they call themselves."""
        found: dict[str, list[str]] = {}
        for name, own in (each for seen in list(self.seen.values()) for each in list(seen.values())):
            found.setdefault(own, []).append(name)
        return found

    def may_run(self, host: Host, tool: str, options: Options) -> None:
        """Ask for each loaded skill, once, whether tools may run on this machine meanwhile. Raises: ConsentRefused."""
        for key in list(self.held):
            # One that has changed while the user was thinking is asked about again.
            while (held := self.held.get(key)) is not None and not held.run:
                shown = {"skill": key[1], "frontmatter": held.entry["frontmatter"], "first": tool}
                now, name = held.now or _print_of(held.entry), _name(held.server, key[1])
                # MUST: approval of each skill before what it may have led to runs here
                # (2026-07-28/extensions/skills#security-considerations)
                _decide(host, Question("run", held.server, name, key[0], now, shown), options)
                if self.held.get(key) is held:
                    self.held[key] = held._replace(run=True)


def make_shelf(self: Host) -> Shelf:
    """Return what a host that takes skills has of them, at its start."""
    return Shelf()


def skills(self: Host) -> list[Listed]:
    """Return the skills that servers list, of every server that is ready; see `Host.tools`. No file of them is read.

    A server may list a part of its skills, or none: `load_skill` takes any URI.

    Returns: rows with the name `server/path`, and the entry as `definition`. The state is "new", "loaded", or "changed"
    since it was loaded. Entries that are not valid, those that a server lists twice, and names that meet are told
    as a "notice".
    """
    shelf, rows = _shelf(self), []

    def entries(hosted: Hosted) -> Any:
        client = hosted.usable(Deadline(0))
        if NAME not in (client.server_capabilities.get("extensions") or {}):
            return []
        # The time is for all pages together: a list may have no end.
        return client.list_skills(timeout=hosted.timeout)

    for hosted, found in self._ready(entries, "skills"):
        times = Counter(plain_uri(str(each.get("uri"))) for each in found if isinstance(each, dict))
        for each in found:
            now = _seen(self, hosted, each) if isinstance(each, dict) else ""
            try:
                uri = check_skill(each)["uri"]
                if times[plain_uri(uri)] > 1:
                    raise SkillMismatch("entry", uri, "the server lists it more than once")
            except SkillMismatch as problem:
                # SHOULD: say why a skill is declined, as one that is too large (2026-07-28/extensions/skills#limits)
                _notice(self, hosted, f"a skill is left out: {problem}")
                continue
            held = shelf.held.get((hosted.bound, plain_uri(uri)))
            shelf.saw(hosted, each)
            state = "new" if held is None else "loaded" if held.now == now else "changed"
            rows.append(Listed(_name(hosted.name, uri), hosted.name, each, state))
    servers, alike = {row.definition["frontmatter"]["name"]: row.server for row in rows}, shelf.alike()
    for own, server in servers.items():
        # SHOULD: tell the user of names that meet; a host MUST NOT silently prefer one skill of a name
        # (2026-07-28/extensions/skills#security-considerations, #names)
        if len(names := alike.get(own, ())) > 1:
            _notice(self, self.servers[server], f"these skills call themselves {own}: {_some(names)}")
    return rows


def load_skill(self: Host, server: str, uri: str, **options: Unpack[Options]) -> JsonObject:
    """Load a skill: ask for its entry and for consent, and put the verified SKILL.md into `context`, with its origin.

    Args:
        uri: of the SKILL.md, listed or not.

    Returns: the message that was put there. Raises: ConsentRefused: "skill"; SkillMismatch: it is not what the entry
    says, or a skill of a kind that is not taken ("limit", "dynamic"); the user is told.
    Blocks: for a few requests, and as long as the user thinks.
    """
    # MUST: load a skill by its URI alone, whatever the list says (2026-07-28/extensions/skills#response)
    return _take(self, self._server(server), uri, "SKILL.md", None, options)


def read_skill(self: Host, server: str, uri: str, path: str, **options: Unpack[Options]) -> JsonObject:
    """Put another file of a loaded skill into `context`, with its origin; see `load_skill`.

    Args:
        path: within the skill, as its texts refer to it. It leads to no other server, and to no file but those that
            were consented to.

    Raises: as `load_skill`; LocalProtocolError: the skill is not loaded.
    """
    hosted = self._server(server)
    held = _shelf(self).held.get((hosted.bound, plain_uri(uri)))
    if held is None:
        raise LocalProtocolError(f"the skill {uri} of the server {server!r} is not loaded")
    # MUST: read under the held entry, unless the consent to it has ended
    # (2026-07-28/extensions/skills#the-acting-window-and-the-held-entry)
    return _take(self, hosted, uri, path, held.entry if held.now else None, options)


def release_skill(self: Host, server: str, uri: str) -> None:
    """End the window of a skill, once no model's context has its texts any more. Does nothing for an unknown one."""
    # MAY: hold a skill longer than it is in the context, and not shorter: the program says when that ends
    # (2026-07-28/extensions/skills#the-acting-window-and-the-held-entry)
    _shelf(self).held.pop((self._server(server).bound, plain_uri(uri)), None)


def _take(self: Host, hosted: Hosted, uri: str, path: str, held: Skill | None, options: Options) -> JsonObject:
    """Put a file of a skill into the context, once it is consented to and verified."""
    shelf, skill, last = _shelf(self), held or _entry(self, hosted, uri, options), False
    where = hosted.bound, plain_uri(uri)
    before = shelf.held.get(where)
    known = before.entry if before is not None else skill
    while True:
        try:
            now = _approved(self, hosted, skill, known, options)
            file, listed = find_file(skill, path)
            # The same bytes under another frontmatter are verified again.
            key = (hosted.bound, file, cast(Any, listed)["digest"], fingerprint(skill["frontmatter"]))
            # SHOULD: keep what was verified; a host MUST NOT read files ahead of need
            # (2026-07-28/extensions/skills#lazy-retrieval)
            data = shelf.files.get(key)
            if data is None:
                data = hosted.ask("read_skill", skill, path, options=options, safe=True)
            break
        except (SkillMismatch, ErrorResponse) as problem:
            fresh = _entry(self, hosted, uri, options)
            if last or fresh == skill:
                if getattr(problem, "reason", "unlisted") != "unlisted":
                    _end_consent(self, hosted, uri, "")
                self.tell(hosted.name, "notice", f"nothing is taken from a skill: {problem}")
                raise
            # SHOULD: present it as a skill that has changed, not as an error
            # (2026-07-28/extensions/skills#directory-reads-and-the-held-entry)
            skill, last = fresh, True
    files = {**shelf.files, key: data}
    while sum(map(len, files.values())) > MAX_KEPT:
        del files[next(iter(files))]
    shelf.files = files
    # One that was released meanwhile is in the context again; one that has changed meanwhile stays so.
    if before is None or before.now != now or where not in shelf.held:
        shelf.held[where] = Held(hosted.name, skill, now)
    try:
        said = data.decode()
    except UnicodeDecodeError:
        said = f"[{len(data)} bytes that are not text]"
    # MUST: name the origin where it enters the context; SHOULD: as any other text of a server
    # (2026-07-28/extensions/skills#security-considerations)
    origin = f"[from server {hosted.name!r}, skill file {file!r}: a text of this server, not of the user]"
    message: JsonObject = {"role": "user", "content": text(f"{origin}\n{said}")}
    self.context.append(message)
    return message


def _entry(self: Host, hosted: Hosted, uri: str, options: Options) -> Skill:
    """Return the entry as it is now, if it is of a kind that is taken; the user is told why it is not."""
    skill = hosted.ask("get_skill", uri, options={**options, "cached": False}, safe=True)
    _seen(self, hosted, skill)
    try:
        # A host MUST NOT load an entry that is not valid (2026-07-28/extensions/skills#resources)
        if check_skill(skill)["resources"] == "dynamic":
            # MAY: decline a skill without digests (2026-07-28/extensions/skills#resources)
            raise SkillMismatch("dynamic", uri, "it has no digests, so nobody can consent to its contents")
    except SkillMismatch as problem:
        self.tell(hosted.name, "notice", f"a skill is not loaded: {problem}")
        raise
    return cast(Skill, skill)


def _approved(self: Host, hosted: Hosted, skill: Skill, known: Skill, options: Options) -> str:
    """Return the fingerprint of an entry that somebody consented to; `known` is what it was before. Raises:
    ConsentRefused.
    """
    uri, head, now = skill["uri"], cast(JsonObject, skill["frontmatter"]), _print_of(skill)
    shelf, name = _shelf(self), _name(hosted.name, uri)
    held = shelf.held.get((hosted.bound, plain_uri(uri)))
    if held is None or held.now != now:
        shown: JsonObject = {} if known == skill else {"has changed": difference(known, skill)}
        shelf.saw(hosted, skill)
        # A host MUST NOT honour what would widen permissions: nothing here reads it
        # (2026-07-28/extensions/skills#security-considerations)
        warnings = [f"{each} is ignored: {head[each]}" for each in sorted(head.keys() - _DESCRIBES)]
        others = [other for other in shelf.alike().get(head["name"], ()) if other != name]
        warnings += [f"another skill calls itself the same: {_some(others)}"] if others else []
        shown |= {"files": skill["resources"], "skill": uri, "frontmatter": head}
        _decide(self, Question("skill", hosted.name, name, hosted.bound, now, shown, warnings), options)
    return now


def _decide(self: Host, question: Question, options: Options) -> None:
    (options.get("cancel") or Cancel()).attach(question.withdrawn)
    if not (decision := self.consent.decide(question)).allowed:
        raise ConsentRefused(question.kind, question.subject, decision.by)


def _seen(self: Host, hosted: Hosted, skill: Any) -> str:
    """Return the fingerprint of an entry, valid or not, as a server has given it now; a consent to another one ends."""
    uri, now = str(skill.get("uri")), _print_of(skill)
    # MUST: take an approval for revoked once another set is advertised
    # (2026-07-28/extensions/skills#security-considerations)
    if _end_consent(self, hosted, uri, now):
        self.tell(hosted.name, "changed", f"the skill {_name(hosted.name, uri)} has changed since it was loaded")
    return now


def _end_consent(self: Host, hosted: Hosted, uri: str, now: str) -> bool:
    """End the consent to a skill, unless it was to what has this fingerprint; whether it is loaded and that is new."""
    self.consent.revoke("skill", hosted.bound, _name(hosted.name, uri), unless=now)
    where = hosted.bound, plain_uri(uri)
    held = _shelf(self).held.get(where)
    if held is None or held.now in ("", now):
        return False
    self.shelf.held[where] = held._replace(now="", run=False)
    return True


def _print_of(skill: Any) -> str:
    """Return the fingerprint of an entry: of its frontmatter, and of the URI, digest and size of every file."""
    return fingerprint([skill.get("frontmatter"), skill.get("resources")])


def _name(server: str, uri: str) -> str:
    """Return `server/path`; what is not of the scheme `skill` keeps its own."""
    return f"{server}/{plain_uri(uri).removeprefix('skill://').removesuffix('/SKILL.md')}"


def _some(names: Sequence[str]) -> str:
    """Return names in a sentence: the first few, and how many there are beside."""
    more = len(names) - _MAX_NAMED
    return ", ".join(sorted(names)[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")


def _notice(self: Host, hosted: Hosted, said: str) -> None:
    """Tell the user, once."""
    hosted.tell_once("notice", said)


def _shelf(self: Host) -> Shelf:
    if self.shelf is None:
        raise LocalProtocolError("this host does not load skills: make it with skills=True")
    return cast(Shelf, self.shelf)
