"""Entries: the servers in a configuration file, in the form of `mcpServers` that most programs read.

Spec:      nothing: the file is a custom of the programs, and not a part of the protocol
Not here:  connecting to them (client/client); several of them at once, and whether they may be started
           (host)

No shell sees anything of it. An entry that is wrong says all that is wrong with it, and no other entry suffers; nothing
that is said holds a value, which may be secret. What a file says about approvals is not honoured: whoever brings the
file along would approve itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, NamedTuple

from mcp_ref.client.targets import Command, Url
from mcp_ref.revisions import REVISIONS
from mcp_ref.wire.messages import JsonObject

MAX_NAME: Final = 64
MAX_ENV_FILE: Final = 1 << 20

_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}|\$\{[^}]*\}")
# A string that does not end, or a comment, is taken to its end: read again from each character it would cost a square.
_TOKENS = re.compile(r'("(?:[^"\\]|\\.)*+"?|/\*(?!.*?\*/).*)|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+"?)|,(?=\s*+[}\]])', re.DOTALL)
_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?(\w+)\s*=(.*)")
_URLS: Final = ("url", "serverUrl", "httpUrl")
_TYPES: Final = {
    "stdio": "command", "http": "url", "streamable-http": "url", "streamableHttp": "url", "sse": "url",
}  # fmt: skip
_APPROVALS: Final = ("alwaysAllow", "autoApprove", "trust")
_KNOWN: Final = {
    "command", "args", "env", "cwd", "envFile", *_URLS, "headers", "type", "disabled", "enabled", "revision",
    "timeoutMs", "startTimeoutMs", "roots", "tools", "inheritEnv", "timeout", *_APPROVALS,
}  # fmt: skip


class Entry(NamedTuple):
    """One server of a configuration.

    Attributes:
        name: its name in the file; what the server calls itself does not count.
        target: what a `Client` is pointed at; None if the entry is wrong.
        problem: all that is wrong with the entry, or None. warnings: what is ignored, or unknown.
        disabled: whether it stays in the list and is not started.
        revision: what is spoken: a revision, several, or None for all.
        timeout, start_timeout: seconds for a call, and for the start; None: whatever the program has for all.
        roots: the folders of this server alone; None: those of the program.
        allow, deny: patterns of the tools that are there at all, in which `*` stands for any text.
        given: what the file says about it, before anything was filled in.
        shown: how it is started or reached, for a person: the values of secrets are not in it.
    """

    name: str
    target: Any
    problem: str | None = None
    warnings: tuple[str, ...] = ()
    disabled: bool = False
    revision: Any = None
    timeout: float | None = None
    start_timeout: float | None = None
    roots: tuple[str, ...] | None = None
    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    given: Mapping[str, Any] | None = None
    shown: Mapping[str, Any] | None = None

    def offers(self, tool: str) -> bool:
        """Return whether a tool of that name is there at all."""
        return any(matches(each, tool) for each in self.allow) and not any(matches(each, tool) for each in self.deny)

    def for_a_client(self) -> dict[str, Any]:
        """Return the keyword arguments for a `Client` of this server."""
        limits = {"timeout": self.timeout, "connect_timeout": self.start_timeout, "revision": self.revision}
        return {"target": self.target, **{name: value for name, value in limits.items() if value is not None}}


def read_entries(source: str | os.PathLike[str] | Mapping[str, Any]) -> dict[str, Entry]:
    """Return the servers of a JSON file such as other programs have, or of a dict like it, by name:

        {"mcpServers": {"weather": {"command": "python", "args": ["weather.py"], "env": {"KEY": "${API_KEY}"}},
                        "far": {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}

    `servers` may stand for `mcpServers`; comments and commas after the last member are allowed. `${NAME}` or
    `${env:NAME}` in any text is a variable of this process's environment, `${NAME:-text}` one with a default. Relative
    paths count from this process's folder. The other members are those of examples/guides/several_servers.md.

    Raises: OSError; ValueError naming the file: it cannot be read as a whole. What is wrong with one server is that
        entry's `problem`.
    """
    where = os.fspath(source) if not isinstance(source, Mapping) else "the configuration"
    try:
        whole = source if isinstance(source, Mapping) else _parsed(Path(source).read_text("utf-8-sig"))
        [servers] = [whole[key] for key in ("mcpServers", "servers") if key in whole]
        if not isinstance(servers, Mapping):
            raise TypeError
        entries = {name: _entry(name, given) for name, given in servers.items()}
    except (TypeError, AttributeError, RecursionError) as problem:
        raise ValueError(f'{where} does not have the form {{"mcpServers": {{NAME: ...}}}}') from problem
    except ValueError as problem:
        said = str(problem) if "unpack" not in str(problem) else 'it must have either "mcpServers" or "servers"'
        raise ValueError(f"{where}: {said}") from None
    folded = [name.casefold() for name in entries]
    for name, entry in entries.items():
        if folded.count(name.casefold()) > 1:
            entries[name] = entry._replace(problem="another server's name differs only in case", target=None)
    return entries


def entry_of(source: str | os.PathLike[str], server: str) -> Entry:
    """Return one server of a file, by its name. Raises: OSError, ValueError: the file lacks it, or its entry is
    wrong.
    """
    entries = read_entries(source)
    if server not in entries:
        raise ValueError(f"{os.fspath(source)} has no server {server!r}; there are {', '.join(entries) or 'none'}")
    if entries[server].problem is not None:
        raise ValueError(f"{os.fspath(source)}: {server}: {entries[server].problem}")
    return entries[server]


def _parsed(text: str) -> Any:
    """Return JSON with comments, and with commas after the last member. ValueError: also for a member that stands
    twice.
    """

    def without_twins(pairs: list[tuple[str, Any]]) -> JsonObject:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} appears twice")
        return found

    text = _TOKENS.sub(lambda token: token[1] or " ", text)
    return json.loads(_LAST_COMMA.sub(lambda token: token[1] or "", text), object_pairs_hook=without_twins)


class _Members:
    """The members of one entry, read by their types; what is wrong with them is gathered in `wrong`."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.wrong: list[str] = []

    def text(self, value: Any, member: str, *, shown: bool = False) -> str:
        """Return a text with its variables filled in; `shown`: but for those that are secrets by their names."""
        from mcp_ref.recording.redact import is_secret

        def variable(match: re.Match[str]) -> str:
            if match[1] is None:
                self.wrong.append(f"{member} has {match[0]}, which is not a variable")
                return ""
            found = os.environ.get(match[1], os.getcwd() if match[1] == "workspaceFolder" else match[2])
            if found is None:
                self.wrong.append(f"{member} needs the variable {match[1]}, which is not set")
            return match[0] if shown and is_secret(match[1]) else found or ""

        if isinstance(value, str):
            # One that is not closed is not a variable, and would be looked for from each of its beginnings.
            before, brace, rest = value.rpartition("}")
            return _VARIABLE.sub(variable, before + brace) + rest
        self.wrong.append(f"{member} must be a string")
        return ""

    def texts(self, member: str) -> list[str]:
        value = self.given.get(member) or []
        if isinstance(value, list):
            return [self.text(each, member) for each in value]
        self.wrong.append(f"{member} must be a list of strings")
        return []

    def table(self, member: str) -> dict[str, Any]:
        value = self.given.get(member) or {}
        if isinstance(value, Mapping):
            return dict(value)
        self.wrong.append(f"{member} must be an object")
        return {}

    def values(self, member: str) -> dict[str, str]:
        return {key: self.text(value, f"{member}.{key}") for key, value in self.table(member).items()}

    def seconds(self, member: str) -> float | None:
        value = self.given.get(member)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e9):
            return None if value is None else value / 1000
        self.wrong.append(f"{member} must be a number of milliseconds above 0")
        return None

    def target(self) -> Command | Url | None:
        """Return how the server is started or reached; None if that is wrong."""
        given = self.given
        urls = [key for key in _URLS if key in given]
        wanted = "command" if "command" in given else "url"
        if len(urls) + ("command" in given) != 1:
            self.wrong.append("a server must have either a command or a url")
            return None
        if wanted != _TYPES.get(str(given.get("type", "stdio" if wanted == "command" else "http"))):
            self.wrong.append(f"type must fit what is given, and be one of {', '.join(_TYPES)}")
            return None
        if wanted == "url":
            url = self.text(given[urls[0]], urls[0])
            if not url.lower().startswith(("http://", "https://")):
                self.wrong.append(f"{urls[0]} must begin with http:// or https://")
            return Url(url, self.values("headers"))
        argv = [self.text(given["command"], "command"), *self.texts("args")]
        if " " in argv[0] and shutil.which(argv[0]) is None:
            self.wrong.append("command must be the name of a program alone; its arguments belong in args")
        env: dict[str, str | None] = {}
        if "envFile" in given:
            env.update(_variables_of(self.text(given["envFile"], "envFile"), self.wrong))
        env.update(self.values("env"))
        cwd = None if given.get("cwd") is None else self.text(given["cwd"], "cwd")
        return Command(argv, env, cwd, inherit=self.texts("inheritEnv"))

    def shown(self, target: Command | Url) -> JsonObject:
        """Return how the server is started or reached, for a person: with the variables filled in, but for secrets."""
        if isinstance(target, Url):
            return described(target, self.table("headers"))
        argv = [
            self.text(each, "args", shown=True) for each in [self.given["command"], *(self.given.get("args") or ())]
        ]
        in_file = dict.fromkeys(target.env or {}, "[in envFile]")
        return described(target._replace(argv=argv), {**in_file, **self.table("env")})


def _entry(name: str, given: Any) -> Entry:
    """Return one server of a file; whatever is wrong with it is gathered, and told at once."""
    misnamed: list[str] = []
    if not name or len(name) > MAX_NAME or "/" in name or not name.isprintable():
        misnamed.append(f"a name has 1 to {MAX_NAME} characters, none of them a slash or a control character")
    if not isinstance(given, Mapping):
        return Entry(name, None, "; ".join([*misnamed, "an entry must be an object"]))
    members = _Members(given)
    # 1. How it is started or reached.
    target = members.target()
    # 2. What belongs to it alone.
    spoken = given.get("revision")
    listed = spoken if isinstance(spoken, list) else [] if spoken is None else [spoken]
    if not all(isinstance(each, str) and each in REVISIONS for each in listed):
        members.wrong.append(f"revision must be one or several of {', '.join(REVISIONS)}")
        spoken = None
    tools, patterns = members.table("tools"), []
    for word in ("allow", "deny"):
        named = tools.get(word) or []
        patterns.append(tuple(each for each in named if isinstance(each, str)) if isinstance(named, list) else ())
        if not isinstance(named, list) or len(patterns[-1]) < len(named):
            members.wrong.append(f"tools.{word} must be a list of strings")
    roots = tuple(members.texts("roots")) if "roots" in given else None
    timeout, start_timeout = members.seconds("timeoutMs"), members.seconds("startTimeoutMs")
    for member in ("disabled", "enabled"):
        if not isinstance(given.get(member, False), bool):
            members.wrong.append(f"{member} must be true or false")
    disabled = given.get("disabled") is True or given.get("enabled") is False
    # 3. What is not honoured.
    warnings = [f"{member} is ignored: this file cannot approve anything" for member in _APPROVALS
                if member in given]  # fmt: skip
    if "timeout" in given:
        warnings.append("timeout is ignored, since programs differ in its unit: write timeoutMs")
    if unknown := sorted(set(given) - _KNOWN):
        warnings.append(f"not known here: {', '.join(unknown)}")
    problem = "; ".join(dict.fromkeys([*misnamed, *members.wrong])) or None
    shown = None if target is None or problem is not None else members.shown(target)
    return Entry(
        name, None if problem else target, problem, tuple(warnings), disabled, spoken, timeout,
        start_timeout, roots, patterns[0] or ("*",), patterns[1], dict(given), shown,
    )  # fmt: skip


def _variables_of(path: str, wrong: list[str]) -> Iterable[tuple[str, str]]:
    """Yield the variables of a file of lines `NAME=value`."""
    try:
        # A pipe or a device could keep its reader waiting for ever.
        if not Path(path).is_file() or Path(path).stat().st_size > MAX_ENV_FILE:
            raise ValueError
        lines = Path(path).read_text("utf-8-sig").splitlines()
    except (OSError, ValueError):
        wrong.append(f"envFile must be a file of at most {MAX_ENV_FILE:,} bytes of text that can be read")
        return
    for number, line in enumerate(lines, 1):
        found = _ASSIGNMENT.fullmatch(line)
        if found is not None:
            value = found[2].strip()
            quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
            yield found[1], value[1:-1] if quoted else value
        elif line.strip() and not line.lstrip().startswith("#"):
            wrong.append(f"envFile: line {number} is not NAME=value")


def described(target: Any, table: Mapping[str, Any] | None = None) -> JsonObject:
    """Return how a target is started or reached, for a person who decides whether it may be: in full, and without
    secrets.

    Args:
        table: its environment or its headers, as they were written.
    """
    from mcp_ref.recording.redact import is_secret, redact

    def without_secrets(given: Mapping[str, Any]) -> JsonObject:
        hidden = {
            name: " ".join(match[0] for match in _VARIABLE.finditer(str(value).rpartition("}")[0] + "}")) or "[hidden]"
            for name, value in given.items()
            if is_secret(name) and value != "[in envFile]"
        }
        return {**given, **hidden}

    if isinstance(target, Command):
        folder = os.path.abspath(target.cwd or os.getcwd())
        given = without_secrets((target.env or {}) if table is None else table)
        return {"command": list(map(str, target.argv)), "folder": folder, "environment": given,
                "inherits": target.inherit if isinstance(target.inherit, bool) else list(target.inherit)}  # fmt: skip
    if isinstance(target, Url):
        return {"url": redact(target.url), "headers": without_secrets(table or target.headers or {})}
    return {"server": repr(target)}


def dangers(shown: Mapping[str, Any]) -> list[str]:
    """Return warnings about the way a server is started or reached, a few words each. More may be wrong with it."""
    argv = list(shown.get("command", ()))
    if not argv:
        url = str(shown.get("url", "")).lower()
        far = url.startswith("http://") and not re.match(r"http://(localhost|127\.|\[::1\])", url)
        more = ", and so are its headers" if shown.get("headers") else ""
        return [f"the connection is not encrypted{more}"] if far else []
    program, text = os.path.basename(str(argv[0])).removesuffix(".exe"), " ".join(map(str, argv))
    packages = [each for each in argv[1:] if not each.startswith("-")]
    unpinned = bool(packages) and not re.search(r".@\d|==", packages[0])
    signs = {
        "it runs with all of your rights": True,
        "it asks for more rights than yours": re.search(r"\b(sudo|doas|su|pkexec|runas)\b", text) is not None,
        "it gives a line to a shell": program in ("sh", "bash", "zsh", "dash", "cmd", "powershell", "pwsh"),
        "it gives a line of code to an interpreter": "-c" in argv[1:] or "-e" in argv[1:],
        "it removes files": re.search(r"\brm\b|\brmdir\b|\bdel\b", text) is not None,
        "it fetches what it runs": re.search(r"\b(curl|wget|nc)\b", text) is not None,
        "the package has no version: it may be other code tomorrow": program in ("npx", "uvx", "bunx") and unpinned,
        "its environment can load other code": any(
            re.match(r"LD_|DYLD_|NODE_OPTIONS|PYTHON(PATH|STARTUP)|PERL5OPT|RUBYOPT|BASH_ENV", name)
            for name in shown.get("environment", ())
        ),
    }
    return [sign for sign, given in signs.items() if given]


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern fits a whole text; `*` stands for any, and nothing else is special."""
    return fnmatchcase(text, pattern.replace("[", "[[]").replace("?", "[?]"))
