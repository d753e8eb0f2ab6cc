"""Skills as the extension `io.modelcontextprotocol/skills`: `skills/list`, `skills/get`, `resources/directory/read`.

A skill is a folder with a `SKILL.md`, whose head says its name and what it is for. The methods say which skills there
are, and what files each has, with their digests; the files themselves are resources, and are read as any other:

    client   skills/list                  ->   [{uri, frontmatter, resources: [{uri, digest, size}, ...]}, ...]  server
    client   resources/read uri           ->   the file; its size and digest are those of the entry, or it is not used

Spec:      the extension's own page, specification/stable/skills (2026-07-28)
Upholds:   spec_notes/extensions/skills.md
Not here:  reading YAML (pages/extensions/frontmatter); loading a skill by consent (host/skills)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple, TypedDict, TypeVar, Unpack, cast
from urllib.parse import quote, unquote
from weakref import WeakSet

from mcp_ref.errors import InvalidParams, LocalProtocolError, McpError, RemoteProtocolError
from mcp_ref.kit.typed.checking import SchemaMismatch, checker
from mcp_ref.kit.typed.handlers import call
from mcp_ref.kit.typed.shapes import Bounds
from mcp_ref.kit.typed.uri_template import UriTemplate
from mcp_ref.pages.basic.extensions import Extension
from mcp_ref.pages.extensions.frontmatter import read_frontmatter, read_otherwise
from mcp_ref.pages.server.resources import (
    Resource,
    ResourceEntry,
    ResourceNotFound,
    ResourceRequestParams,
    contents_bytes,
)
from mcp_ref.pages.server.utilities.caching import NO_HINT, CacheableResult
from mcp_ref.pages.server.utilities.pagination import (
    PaginatedRequestParams,
    PaginatedResult,
    answer_list,
    list_page,
    walk,
)
from mcp_ref.revisions import LATEST_STATELESS
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method, Options

if TYPE_CHECKING:
    from mcp_ref.client.client import Client
    from mcp_ref.server.server import Server
    from mcp_ref.server.session import Context

NAME: Final = "io.modelcontextprotocol/skills"
MAX_FILES: Final = 512
MAX_BYTES: Final = 16 << 20
MAX_URI: Final = 2_048  # characters of the URI of a skill
"""The files and bytes that one skill may have: every host takes that much."""
_MAX_LEVELS, _MAX_SNAPSHOT = 16, 256 << 20

# -- types --------------------------------------------------------------------------------------------------------


class SkillResource(TypedDict):
    """A file of a skill: `digest` is "sha256:" and 64 hexadecimal digits in lower case, of its `size` bytes."""

    uri: str
    digest: str
    size: Annotated[int, Bounds(0)]


class SkillFrontmatter(TypedDict):
    """The members that every frontmatter has; the rest is as its author wrote it."""

    name: str
    description: str


class Skill(TypedDict):
    """The entry of one skill: the URI of its `SKILL.md`, the frontmatter of that file, and all files, or "dynamic"."""

    uri: str
    frontmatter: SkillFrontmatter
    resources: list[SkillResource] | Literal["dynamic"]


class ListSkillsResult(PaginatedResult, CacheableResult):
    """One page of the skills. `check_skill` says what an entry must be: one that is wrong hides no other."""

    skills: list[Any]


class GetSkillResult(CacheableResult):
    """The entry of one skill."""

    skill: JsonObject


class ReadDirectoryRequestParams(PaginatedRequestParams, ResourceRequestParams):
    """The URI of a directory, without a slash at the end."""


class ReadDirectoryResult(PaginatedResult, CacheableResult):
    """One page of what a directory holds; directories in it have the MIME type `inode/directory`."""

    resources: list[Resource]


# -- rows ---------------------------------------------------------------------------------------------------------

_ROW: Final[Any] = {"since": "2026-07-28", "extension": NAME}
METHODS = (
    Method("skills/list", "client", "extensions/skills", "ask for one page of the skills", PaginatedRequestParams,
           ListSkillsResult, **_ROW),
    Method("skills/get", "client", "extensions/skills", "ask for one skill", ResourceRequestParams, GetSkillResult,
           **_ROW),
    Method("resources/directory/read", "client", "extensions/skills", "ask what a directory holds",
           ReadDirectoryRequestParams, ReadDirectoryResult, **_ROW),
)  # fmt: skip

SKILLS: Final = Extension(NAME, rows=METHODS, gated=False)
"""The extension, as a client declares it; a server has a `Skills`."""

# -- the server's half --------------------------------------------------------------------------------------------

F = TypeVar("F", bound=Callable[..., Any])


class Made(NamedTuple):
    """A file that a function makes at each reading."""

    function: Callable[..., Any]
    head: bytes  # the frontmatter of its skill


Files = dict[str, bytes | Made]
"""Files by their path; an empty folder has a slash at its end."""


class _Snapshot(NamedTuple):
    """All that is served at one moment."""

    skills: dict[str, Skill]  # by URI
    files: dict[str, tuple[str, bytes | Made]]  # the path and the content, by URI
    directories: dict[str, dict[str, Resource]]  # what each holds, both by URI
    own: dict[str, Files]  # the files of each skill, by the path of its SKILL.md


class Skills:
    """The skills of a server: `Server(..., extensions=[Skills("folder")])`.

    Every folder below `folder` that has a `SKILL.md` is a skill; a skill within another is one of its own, and its
    files are the outer one's too. Files and folders whose names begin with a dot, and `__pycache__`, are left out. The
    folder is read here, once; no request touches it.

    Args:
        folder: where the skills are; None: nowhere, they come by `add` and `dynamic`.
        prefix: segments before the path of each skill, such as "acme/billing".
        base: what the URI of every skill begins with, such as "github://owner/repo/skills/".

    Raises: ValueError: it names everything that is wrong with the folder; LocalProtocolError: PyYAML is not installed.
    Threads: any. `reload`, `add` and `dynamic` put all of a new state in place at once, or none of it.
    """

    name, settings = NAME, {"directoryRead": True}

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, *, prefix: str = "", base: str = "skill://"
    ) -> None:
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#{}\s]+/)*", base):
            raise ValueError(f"the base of skills must be a URI that ends in a slash, not {base!r}")
        self._folder, self._base, self._prefix = folder, base, f"{prefix}/" if prefix else ""
        self._servers: WeakSet[Server] = WeakSet()
        self._now = _Snapshot({}, {}, {}, {})
        self._given: dict[str, Files] = {}
        self._unlisted = frozenset[str]()
        self.reload()

    def add(
        self, path: str, files: Mapping[str, str | bytes], *, description: str | None = None, listed: bool = True
    ) -> None:
        """Add a skill from Python, or put it in place of the one with that path.

        Args:
            path: of the skill, such as "billing/refunds"; the last segment is its name.
            files: by path within the skill; one is "SKILL.md".
            description: the frontmatter is written from it; None: the text has its own.
            listed: False: it is found by its URI alone.

        Raises: ValueError: as the class says.
        """
        given = {name: text.encode() if isinstance(text, str) else bytes(text) for name, text in files.items()}
        if description is not None:
            given["SKILL.md"] = _head(path, description) + given.get("SKILL.md", b"")
        self._put(path, dict(given), listed)

    def dynamic(
        self, path: str, *, description: str, files: Sequence[str] = (), listed: bool = True
    ) -> Callable[[F], F]:
        """Return a decorator: a skill whose files a function makes at each reading, called with the path in the skill,
        and with the context if it has a second parameter. Of "SKILL.md" it gives what comes below the frontmatter. Such
        a skill has no digests, so hosts may decline it.

        Args:
            files: their paths beside "SKILL.md".
        """

        def register(function: F) -> F:
            made = Made(function, _head(path, description))
            self._put(path, dict.fromkeys(("SKILL.md", *files), made), listed)
            return function

        return register

    def reload(self) -> None:
        """Read the folder again, put what it holds in place, and tell the clients what has changed.

        Raises: ValueError: something is wrong with the folder; everything stays as it was.
        """
        problems: list[str] = []
        found = {} if self._folder is None else _read_folder(os.fspath(self._folder), problems)
        self._replace(found, self._given, self._unlisted, problems)

    def for_server(self, server: Server) -> Extension:
        """Return the extension of one server, whose resources the files become."""
        self._servers.add(server)
        # MUST: a server that declares the extension declares `resources` as well: the template is there, though there
        # may be no skill (2026-07-28/extensions/skills#capability-negotiation)
        template = self._base + "{+path}"
        self._register(server, "templates", {"uriTemplate": template, "name": "skills"}, UriTemplate(template))
        for uri in self._now.skills:
            self._offer(server, uri)
        # MUST: implement `skills/list` and `skills/get`, and with `directoryRead` `resources/directory/read`
        # (2026-07-28/extensions/skills#capability-negotiation, #listing-skills, #getting-a-skill)
        answers = {METHODS[0].name: self._list, METHODS[1].name: self._get, METHODS[2].name: self._read_directory}
        return SKILLS._replace(settings=self.settings, answers=answers)

    # -- answering

    def _list(self, ctx: Context, params: PaginatedRequestParams) -> JsonObject:
        # MAY: list a part of the skills (2026-07-28/extensions/skills#listing-skills)
        listed = {uri: skill for uri, skill in self._now.skills.items() if uri not in self._unlisted}
        return answer_list(ctx, listed, params, "skills", lambda skill: skill)

    def _get(self, ctx: Context, params: ResourceRequestParams) -> JsonObject:
        # MUST: answer for every skill, listed or not; MUST: -32602 for what is not the URI of a skill
        # (2026-07-28/extensions/skills#getting-a-skill, #error-handling)
        if (skill := self._now.skills.get(uri := params["uri"])) is None:
            raise InvalidParams(f"No skill is served at {uri}", {"uri": uri})
        return {"skill": skill}

    def _read_directory(self, ctx: Context, params: ReadDirectoryRequestParams) -> JsonObject:
        uri, now = params["uri"], self._now
        # MUST: -32602 for what does not exist, or is not a directory
        # (2026-07-28/extensions/skills#reading-directories, #error-handling)
        if uri not in now.directories:
            what = "is not a directory resource" if uri in now.files else "does not exist"
            raise InvalidParams(f"{uri} {what}", {"uri": uri})
        # The type does not ask for hints, but two well-known clients refuse a result without them.
        return {**NO_HINT, **answer_list(ctx, now.directories[uri], params, "resources", lambda child: child)}

    def _read(self, ctx: Context) -> Any:
        """Read a file. What was asked for is the key, whatever the template makes of it: no path is put together."""
        uri, now = ctx.incoming.params["uri"], self._now
        if uri not in now.files:
            raise ResourceNotFound(uri)
        path, found = now.files[uri]
        content: Any = found
        if isinstance(found, Made):
            roots = [now.files[each][0].removesuffix("SKILL.md") for each in now.skills]
            root = max((each for each in roots if path.startswith(each)), key=len)
            content = call(found.function, ctx, path.removeprefix(root))
            if path == root + "SKILL.md":
                content = found.head + (content.encode() if isinstance(content, str) else content)
        content = _text_of(content)
        return {"text" if isinstance(content, str) else "blob": content, "mimeType": _mime_type(path, content)}

    # -- what is served

    def _put(self, path: str, files: Files, listed: bool) -> None:
        uri = self._uri(f"{self._prefix}{path}/SKILL.md")
        unlisted = self._unlisted - {uri} | (frozenset() if listed else {uri})
        self._replace(self._found, {**self._given, path: files}, unlisted, [])

    def _uri(self, path: str) -> str:
        return self._base + _quoted(path)

    def _replace(self, found: Files, given: dict[str, Files], unlisted: frozenset[str], problems: list[str]) -> None:
        """Put in place what the folder holds, and what was given. Raises: ValueError: then nothing has changed."""
        # What was given takes the place of what the folder holds at the same path.
        files = {path: content for path, content in found.items() if given.keys().isdisjoint(_above(path))}
        files |= {f"{root}/{name}": content for root, each in given.items() for name, content in each.items()}
        now = self._built({self._prefix + path: content for path, content in files.items()}, problems)
        before, self._now = self._now, now
        self._found, self._given, self._unlisted = found, given, unlisted
        for server in self._servers:
            for uri in before.skills.keys() - now.skills.keys():
                server.unregister("resources", uri)
            for uri, skill in now.skills.items():
                if before.skills.get(uri) != skill:
                    self._offer(server, uri)
            for uri in before.files.keys() & now.files.keys():
                if before.files[uri] != now.files[uri]:
                    server.announce_change("notifications/resources/updated", {"uri": uri})

    def _built(self, files: Files, problems: list[str]) -> _Snapshot:
        """Return what these files come to. Raises: ValueError: it names all that is wrong."""
        own: dict[str, Files] = {path: {} for path in files if path.endswith("/SKILL.md")}
        now, folded, before = _Snapshot({}, {}, {}, own), dict[str, str](), self._now
        for path, content in sorted(files.items()):
            if problem := _path_problem(path.removesuffix("/")):
                # A name need not be text.
                problems.append(f"{path.encode('utf-8', 'backslashreplace').decode()}: {problem}")
                continue
            if not path.endswith("/"):
                now.files[self._uri(path)] = path, content
                for root in _above(path):
                    own.get(f"{root}/SKILL.md", {})[path] = content
            # SHOULD: a file has the MIME type of its content; MUST: a directory has `inode/directory`
            # (2026-07-28/extensions/skills#directory-resources)
            child: Any = {"mimeType": _mime_type(path, content)}
            if isinstance(content, bytes):
                child["size"] = len(content)
            if path.endswith("/"):
                path, child = path[:-1], {"mimeType": "inode/directory"}
                now.directories.setdefault(self._uri(path), {})
            while path:
                if folded.setdefault(unicodedata.normalize("NFC", path.casefold()), path) != path:
                    problems.append(f"{path}: another name differs from it in case or form alone")
                uri, (parent, _, name) = self._uri(path), path.rpartition("/")
                if parent:
                    listed = cast(Resource, {"uri": uri, "name": name, **child})
                    now.directories.setdefault(self._uri(parent), {})[uri] = listed
                path, child = parent, {"mimeType": "inode/directory"}
        for path, mine in own.items():
            # One whose files are the same is not read again.
            known = before.skills[self._uri(path)] if before.own.get(path) == mine else None
            now.skills[self._uri(path)] = known or self._entry(path, mine, problems)
        if sum(len(content) for content in files.values() if isinstance(content, bytes)) > _MAX_SNAPSHOT:
            problems.append(f"the skills have more than {_MAX_SNAPSHOT >> 20} MiB together")
        if problems:
            raise ValueError("these skills cannot be served: " + "; ".join(sorted(set(problems))[:50]))
        return now

    def _entry(self, path: str, own: Files, problems: list[str]) -> Skill:
        """Return the entry of one skill."""
        text, resources = own[path], list[SkillResource]()
        # MUST: list every file once, with digest and size; those of skills within too
        # (2026-07-28/extensions/skills#resources)
        for each, content in {path: text, **own}.items():
            if isinstance(content, bytes):
                digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
                resources.append({"uri": self._uri(each), "digest": digest, "size": len(content)})
            elif isinstance(text, bytes):
                problems.append(f"{path}: a skill of files cannot hold the dynamic {each}")
        # A server SHOULD NOT serve a skill beyond the limits (2026-07-28/extensions/skills#limits)
        if len(own) > MAX_FILES or sum(each["size"] for each in resources) > MAX_BYTES:
            problems.append(f"{path}: a skill has at most {MAX_FILES} files and {MAX_BYTES >> 20} MiB")
        head: Any = {}
        try:
            # MUST: the entry's frontmatter is that of the `SKILL.md` (2026-07-28/extensions/skills#frontmatter)
            written = text if isinstance(text, bytes) else text.head
            head = read_frontmatter(written)
            problems.extend(f"{path}: {each}" for each in _head_problems(path, head, read_otherwise(written)))
        except ValueError as problem:
            problems.append(f"{path}: {problem}")
        # MUST: "dynamic" for content whose digests cannot be published (2026-07-28/extensions/skills#resources)
        return {
            "uri": self._uri(path),
            "frontmatter": head,
            "resources": resources if isinstance(text, bytes) else "dynamic",
        }

    def _offer(self, server: Server, uri: str) -> None:
        """Make a `SKILL.md` a resource of the server."""
        (_, content), head = self._now.files[uri], self._now.skills[uri]["frontmatter"]
        # SHOULD: name and description are those of the frontmatter, the type is `text/markdown`
        # (2026-07-28/extensions/skills#resource-metadata)
        definition = {"uri": uri, "name": head["name"], "description": head["description"], "mimeType": "text/markdown"}
        size = {"size": len(content)} if isinstance(content, bytes) else {}
        self._register(server, "resources", {**definition, **size}, None)

    def _register(self, server: Server, feature: str, definition: Any, template: UriTemplate | None) -> None:
        entry = ResourceEntry(definition, self._read, lambda values, ctx: {"ctx": ctx}, template)
        key = definition["uri"] if template is None else template.text
        server.register(feature, key, entry, replace=template is None)


_NAME: Final = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
# By the end of a name; not the machine's table, so that every machine serves the same.
_TYPES: Final = {
    "md": "text/markdown", "py": "text/x-python", "js": "text/javascript", "sh": "text/x-sh", "html": "text/html",
    "json": "application/json", "yaml": "application/yaml", "css": "text/css", "csv": "text/csv",
    "pdf": "application/pdf", "png": "image/png", "jpg": "image/jpeg", "svg": "image/svg+xml", "zip": "application/zip",
}  # fmt: skip


def _text_of(content: Any) -> Any:
    """Decode bytes as text if they are UTF-8; anything else stays as it is."""
    try:
        return content.decode() if isinstance(content, bytes) else content
    except UnicodeDecodeError:
        return content


def _mime_type(path: str, content: Any) -> str:
    plain = "application/octet-stream" if isinstance(_text_of(content), bytes) else "text/plain"
    return _TYPES.get(path.rpartition(".")[2].lower(), plain)


def _head(path: str, description: str) -> bytes:
    """Return the frontmatter of a skill that is made here. JSON is YAML, if nothing in it ends a line."""
    said = {"name": path.rpartition("/")[2], "description": description}
    lines = "".join(f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in said.items())
    odd = re.compile(r"[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
    escaped = odd.sub(lambda found: json.dumps(found[0])[1:-1], lines)
    return f"---\n{escaped}---\n".encode()


def _head_problems(path: str, head: Any, otherwise: Any) -> list[str]:
    """Return what is wrong with a frontmatter, by the Agent Skills specification."""
    name, description, metadata = head.get("name"), head.get("description"), head.get("metadata", {})
    wrong = {
        # MUST: the last segment of the path is the skill's name, and keeps to the naming rules
        # (2026-07-28/extensions/skills#resource-mapping)
        f"its name is {name!r}, not that of its folder": name != path.split("/")[-2],
        "its name must have 1 to 64 of a to z, 0 to 9, and single hyphens": not _NAME.fullmatch(str(name)),
        # MUST: the frontmatter has a name and a description (2026-07-28/extensions/skills#skill-format)
        "its description must be a text of 1 to 1024 characters": not isinstance(description, str)
        or not 1 <= len(description) <= 1024,
        "each value of its metadata must be a text: put it in quotes": not isinstance(metadata, dict)
        or not all(isinstance(value, str) for value in metadata.values()),
    }
    found = [problem for problem, so in wrong.items() if so]
    # What is served means the same to every reader, whichever YAML it takes it for.
    if not found and (keys := _differing(head, otherwise if isinstance(otherwise, dict) else {})):
        found.append(f"readers of YAML 1.1 and of 1.2 take {', '.join(keys)} differently: put the value in quotes")
    return found


# With each `add` all paths are looked at again.
_quoted: Final = lru_cache(1 << 16)(quote)


def _above(path: str) -> list[str]:
    """Return the folders that a path lies in, the outermost first."""
    return [path[:at] for at, each in enumerate(path) if each == "/"]


@lru_cache(1 << 16)
def _path_problem(path: str) -> str | None:
    segments = path.split("/")
    if any(each in ("", ".", "..") or re.search(r"[\\\0-\x1f\ud800-\udfff]", each) for each in segments):
        return "a segment of its path is empty, or has what no path may have"
    return f"more than {_MAX_LEVELS} levels" if len(segments) > _MAX_LEVELS else None


# Neither a link is opened, nor does a pipe that has taken the place of a file meanwhile hold this up.
_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_BY_DESCRIPTOR: Final = os.open in os.supports_dir_fd and os.listdir in os.supports_fd


def _read_folder(folder: str, problems: list[str]) -> Files:
    """Return the files of all skills below a folder. What a folder holds is opened from its descriptor, so that nothing
    leads out of it, whatever takes its place meanwhile; on a system without descriptors of folders (Windows), by its
    path."""
    found, room = Files(), _MAX_SNAPSHOT

    def read(place: str, of: int | None, path: str, inside: bool) -> None:
        nonlocal room
        kind = os.stat(place, dir_fd=of, follow_symlinks=False).st_mode
        if path and not inside and not stat.S_ISDIR(kind):
            return
        if stat.S_ISLNK(kind):
            raise OSError("it is a link")
        fd = os.open(place, _FLAGS, dir_fd=of) if _BY_DESCRIPTOR or not stat.S_ISDIR(kind) else None
        try:
            kind = kind if fd is None else os.fstat(fd).st_mode
            if fd is not None and inside and stat.S_ISREG(kind):
                with open(fd, "rb", closefd=False) as file:
                    found[path] = data = file.read(min(room, MAX_BYTES) + 1)
                room = max(0, room - len(data))
                return
            if not stat.S_ISDIR(kind) or path.endswith("/SKILL.md"):
                raise OSError("it is not a file")
            # What begins with a dot may be secret, such as `.env`: it is neither listed nor served.
            listed = sorted(os.listdir(place if fd is None else fd))
            names = [each for each in listed if not each.startswith(".") and each != "__pycache__"]
            inside = inside or "SKILL.md" in names
            if inside and not names:
                found[f"{path}/"] = b""
            for name in names if path.count("/") <= _MAX_LEVELS else ():
                below = f"{path}/{name}" if path else name
                try:
                    read(os.path.join(place, name) if fd is None else name, fd, below, inside)
                except OSError as problem:
                    problems.append(f"{below}: a link, not a file, or unreadable ({problem.strerror or problem})")
        finally:
            if fd is not None:
                os.close(fd)

    try:
        read(os.path.realpath(folder), None, "", False)
    except OSError as problem:
        problems.append(str(problem))
    if "SKILL.md" in found:
        problems.append("SKILL.md: it stands in the folder of skills itself; give the folder above it")
    return found


# -- the client's half --------------------------------------------------------------------------------------------


class SkillMismatch(McpError):
    """A skill, or a file of it, is not what its entry says; nothing of it may be used.

    Attributes:
        reason: "entry" (it is not valid), "unlisted" (the path is not one of its files), "size", "digest",
            "frontmatter", "dynamic" (it has no digests), "limit" (it is too large).
        uri: of the skill, or of the file.
    """

    def __init__(self, reason: str, uri: str, problem: str) -> None:
        super().__init__(f"{uri}: {problem}")
        self.reason, self.uri = reason, uri


def list_skills(self: Client, **options: Unpack[Options]) -> list[Skill]:
    """Ask for all skills with `skills/list`, page by page; entries as they came, see `check_skill`.

    The list may be empty, or hold a part of the skills: `get_skill` finds one by its URI.

    Raises: LocalProtocolError: the server did not declare the extension, or this client was not given it.
    Spec: 2026-07-28/extensions/skills#listing-skills
    """
    return walk(self, "skills/list", "skills", options)


def list_skills_page(self: Client, cursor: str | None = None, **options: Unpack[Options]) -> ListSkillsResult:
    """Ask for one page of the skills with `skills/list`, and return the whole result."""
    return cast(ListSkillsResult, list_page(self, "skills/list", cursor, options))


def get_skill(self: Client, uri: str, **options: Unpack[Options]) -> Skill:
    """Ask for one skill with `skills/get`, by the URI of its `SKILL.md`, listed or not.

    Raises: RemoteProtocolError: the answer is about another one; ErrorResponse: no such skill (-32602).
    Spec: 2026-07-28/extensions/skills#getting-a-skill
    """
    skill = self.request("skills/get", {"uri": uri}, options)["skill"]
    if skill.get("uri") != uri:
        raise RemoteProtocolError(f"asked for the skill {uri}, the server gave {skill.get('uri')!r}")
    return cast(Skill, skill)


def read_directory(self: Client, uri: str, **options: Unpack[Options]) -> list[Resource]:
    """Ask what a directory of a server holds with `resources/directory/read`, page by page.

    Args:
        uri: without a slash at the end.

    Raises: LocalProtocolError: the server did not declare `directoryRead`; ErrorResponse: no such directory.
    Spec: 2026-07-28/extensions/skills#reading-directories
    """
    # A client MUST NOT ask for a directory unless the server declared `directoryRead: true`
    # (2026-07-28/extensions/skills#capability-negotiation)
    if (self.peer_capabilities.get("extensions") or {}).get(NAME, {}).get("directoryRead") is not True:
        raise LocalProtocolError("the server did not declare directoryRead for skills")
    return walk(self, "resources/directory/read", "resources", options, {"uri": uri})


_check: Final = checker(Skill, LATEST_STATELESS)
_SAFE: Final = "!$&'()*+,;=:@"
_ESCAPED: Final = re.compile(rf"(?:%[0-9A-Fa-f]{{2}}|[^\w.~/{_SAFE}-])+", re.ASCII)


def check_skill(skill: Any) -> Skill:
    """Return the entry itself, if it is valid.

    Raises: SkillMismatch: with the reason "entry" or "limit".
    Spec: 2026-07-28/extensions/skills#skill-entries, #limits
    """
    uri = str(skill.get("uri")) if isinstance(skill, dict) else "?"

    def need(condition: object, problem: str, reason: str = "entry") -> None:
        if not condition:
            raise SkillMismatch(reason, uri, problem)

    # MUST: take skills up to the limits; MAY: decline larger ones (2026-07-28/extensions/skills#limits)
    most = f"at most {MAX_FILES} files with {MAX_BYTES} bytes are taken"
    named = skill.get("resources") if isinstance(skill, dict) else None
    count = len(named) if isinstance(named, list) else 0
    need(count <= MAX_FILES, f"{most}; it has {count} files", "limit")
    try:
        # A host MUST NOT load an entry whose `resources` are neither a list nor "dynamic"
        # (2026-07-28/extensions/skills#resources)
        _check(skill, "skill")
    except SchemaMismatch as mismatch:
        need(False, f"the entry is not valid: {mismatch}")
    need(uri.endswith("/SKILL.md") and not {".", ".."} & {*plain_uri(uri).split("/")}, "its uri is not of a SKILL.md")
    need(len(uri) <= MAX_URI, f"its uri has more than {MAX_URI} characters", "limit")
    # MUST: the last segment of the path is the skill's name (2026-07-28/extensions/skills#frontmatter)
    need(unquote(uri.split("/")[-2]) == skill["frontmatter"]["name"], "its folder has another name than the skill")
    resources: list[Any] = [] if skill["resources"] == "dynamic" else skill["resources"]
    # MUST: each file is listed once, the `SKILL.md` too, and lies within the skill's directory
    # (2026-07-28/extensions/skills#resources)
    paths = set[tuple[str, ...]]()
    for each in resources:
        need(re.fullmatch(r"sha256:[0-9a-f]{64}", each["digest"]), f"{each['uri']} has no digest of SHA-256")
        need(path := tuple(_segments(uri, each["uri"])), f"{each['uri']} does not lie within the skill")
        # Two spellings of one path are one file: which of them is read must not depend on who looks.
        need(path not in paths, f"a file is listed twice: {each['uri']}")
        paths.add(path)
    listed = skill["resources"] == "dynamic" or uri in {each["uri"] for each in resources}
    need(listed, "it does not list its SKILL.md")
    need((size := sum(each["size"] for each in resources)) <= MAX_BYTES, f"{most}; it has {size}", "limit")
    return cast(Skill, skill)


def read_skill(
    self: Client, skill: Skill, path: str = "SKILL.md", *, unverified: bool = False, **options: Unpack[Options]
) -> bytes:
    """Read a file of a skill with `resources/read`, and check that it is what the entry says.

    Args:
        skill: the entry, from `list_skills` or `get_skill`.
        path: within the skill, as a text in it refers to the file.
        unverified: True: read a "dynamic" skill as well, which has neither sizes nor digests.

    Raises: SkillMismatch: something is not what the entry says; ErrorResponse: the server has no such file.
    Spec: 2026-07-28/extensions/skills#integrity-and-verification
    """
    uri, listed = find_file(check_skill(skill), path, unverified=unverified)
    try:
        return _verified(skill, uri, listed, self.request("resources/read", {"uri": uri}, options)["contents"])
    except SkillMismatch:
        # A copy that was kept may be older than the entry.
        again: Options = {**options, "cached": False}
        return _verified(skill, uri, listed, self.request("resources/read", {"uri": uri}, again)["contents"])


def find_file(skill: Skill, path: str, *, unverified: bool = False) -> tuple[str, SkillResource | None]:
    """Return the URI of a file of a skill, and what the entry says of it. Raises: SkillMismatch: "unlisted",
    "dynamic".
    """
    uri, resources = skill["uri"], skill["resources"]
    wanted = _segments(uri, uri.removesuffix("SKILL.md") + path)
    if wanted and resources == "dynamic":
        if not unverified:
            raise SkillMismatch("dynamic", uri, "it cannot be verified: the skill is dynamic, without digests")
        return uri.removesuffix("SKILL.md") + "/".join(quote(each, safe="") for each in wanted), None
    for each in resources if wanted and not isinstance(resources, str) else ():
        if _segments(uri, each["uri"]) == wanted:
            return each["uri"], each
    # MUST: take a file that is not listed for one that fails verification
    # (2026-07-28/extensions/skills#the-acting-window-and-the-held-entry)
    raise SkillMismatch("unlisted", uri, f"{path!r} is not one of the skill's files")


def plain_uri(uri: str) -> str:
    """Return the one spelling of all URIs that mean the same, whatever they escape without need."""
    scheme, _, path = uri.partition(":")
    path = _ESCAPED.sub(lambda found: quote(unquote(found[0]), _SAFE, errors="surrogatepass"), path)
    return f"{scheme.lower()}:{path}"


def _segments(skill: str, uri: str) -> list[str]:
    """Return the path within a skill that a URI names, decoded; empty if it is not in it, or written to mislead."""
    folder, plain, found = plain_uri(skill).removesuffix("SKILL.md"), plain_uri(uri), list[str]()
    if not plain.startswith(folder) or "?" in uri or "#" in uri:
        return []
    for segment in map(unquote, plain.removeprefix(folder).split("/")):
        if segment == "" or re.search(r"[/\\\0\ufffd]", segment) or (segment == ".." and not found):
            return []
        if segment == "..":
            found.pop()
        elif segment != ".":
            found.append(segment)
    return found


def _verified(skill: Skill, uri: str, listed: SkillResource | None, contents: list[Any]) -> bytes:
    """Return the bytes that were read, if they are those that the entry speaks of."""
    if len(contents) != 1 or plain_uri(str(contents[0].get("uri"))) != plain_uri(uri):
        raise SkillMismatch("unlisted", uri, "the server gave contents that were not asked for")
    try:
        data = contents_bytes(contents[0])
    except (RemoteProtocolError, ValueError) as problem:
        raise SkillMismatch("digest", uri, f"it cannot be decoded: {problem}") from None
    # MUST: verify what is read against size and digest; a host MUST NOT use it if they differ
    # (2026-07-28/extensions/skills#verification-on-read)
    if len(data) != (listed["size"] if listed else min(len(data), MAX_BYTES)):
        raise SkillMismatch("size" if listed else "limit", uri, f"it has {len(data)} bytes, which it must not have")
    if listed and f"sha256:{hashlib.sha256(data).hexdigest()}" != listed["digest"]:
        raise SkillMismatch("digest", uri, "its digest is not that of its entry")
    if _segments(skill["uri"], uri) == ["SKILL.md"]:
        # MUST: compare the frontmatter with that of the entry, field by field
        # (2026-07-28/extensions/skills#frontmatter-verification)
        try:
            keys = _differing(read_frontmatter(data), cast(JsonObject, skill["frontmatter"]))
        except ValueError as problem:
            raise SkillMismatch("frontmatter", uri, str(problem)) from None
        if keys:
            raise SkillMismatch("frontmatter", uri, f"its frontmatter differs from the entry in {', '.join(keys)}")
    return data


def _differing(one: JsonObject, other: JsonObject) -> list[str]:
    """Return the members in which two objects of JSON differ; numbers count by value, and `true` is not a number."""

    def number(text: str) -> float:
        return int(float(text)) if float(text).is_integer() else float(text)

    def text(value: Any) -> str:
        # Readers of YAML 1.1 have keys that are not texts, such as `on` and dates: no member of JSON is equal to these.
        plain = json.dumps(value, default=repr, skipkeys=True)
        return json.dumps(json.loads(plain, parse_float=number), sort_keys=True)

    wrong = (key for key in {*one, *other} if key not in one or key not in other or text(one[key]) != text(other[key]))
    return sorted({*map(str, wrong)})
