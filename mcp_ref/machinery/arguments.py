"""Arguments of a user that cannot be meant: refused where they are given, with what would be right.

A checker of types finds most of these; a notebook has none.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Never

from mcp_ref.machinery.deadline import check_seconds

_KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "a string": lambda value: isinstance(value, str),
    "a bool or a ResultCache": lambda value: isinstance(value, bool) or hasattr(value, "size"),
    "a dict": lambda value: isinstance(value, Mapping),
    "a function": callable,
    "a whole number of at least 1": lambda value: isinstance(value, int) and value is not True and value >= 1,
    "a whole number of at least 0": lambda value: isinstance(value, int) and value is not True and value >= 0,
    "a list of strings": lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes),
}


_WRITTEN_ELSEWHERE: Final[Mapping[str, Mapping[str, str]]] = {
    "Client": {
        **dict.fromkeys(("env", "cwd", "stderr"), "Client(Command(argv, env=..., cwd=..., stderr=...))"),
        **dict.fromkeys(("headers", "verify", "proxies"), 'Client(Url(url, headers=..., options={"verify": ...}))'),
        "args": "the program and its arguments as one list of strings",
        "command": "the program and its arguments as one list of strings",
        "url": "Client(url)",
        "sampling": "sample=",
        "elicitation": "elicit=",
        "revisions": "revision=, which takes one or several",
        "name": 'info={"name": ...}',
        "version": 'info={"version": ...}',
    },
    "Server": {
        **dict.fromkeys(("host", "port", "path"), 'server.run("http", host=..., port=..., path=...)'),
        **dict.fromkeys(("tools", "resources", "prompts"), "@server.tool(), @server.resource(uri), @server.prompt()"),
        **dict.fromkeys(("description", "title", "icons"), 'info={"description": ..., "title": ..., "icons": ...}'),
        "revision": "revisions=",
        "capabilities": "declare= or experimental=",
    },
    "mcp_ref": {"FastMCP": "Server", "MCPServer": "Server", "ClientSession": "Client", "BaseModel": "a dataclass"},
    "Context": {
        **{level: f'ctx.log("{level}", data)' for level in ("debug", "info", "warning", "error")},
        "report_progress": "ctx.progress(done, total)",
    },
}
"""What others give to a client or a server when they make it, import, or call in a handler; and what it is here."""

PROTOCOL_HINTS: Final[Mapping[str, str]] = {
    "resources/subscribe": "; there, write client.listen(resources=[uri])",
    "subscriptions/listen": "; there, write client.subscribe_resource(uri) and Client(on_change=...)",
    **{f"server.{name}": f'; see declare=["{name}"]' for name in ("completions", "prompts", "resources", "tools")},
}
"""What an error adds by the method that a revision lacks, or by the capability that a server has not declared."""


def check_kind(kind: str, **given: Any) -> None:
    """Raise TypeError, or ValueError for a number, unless each of those given is of that kind, or None."""
    for name, value in given.items():
        if value is not None and not _KINDS[kind](value):
            error = ValueError if isinstance(value, int) and "number" in kind else TypeError
            raise error(f"{name} must be {kind}, not {value!r}")


def check_limits(**given: object) -> None:
    """Raise TypeError or ValueError unless each is a time limit: a positive number of seconds, or None for none."""
    for name, seconds in given.items():
        check_seconds(name, seconds)


def check_known(what: str, given: Iterable[str] | None, known: Collection[str]) -> None:
    """Raise ValueError if one of the names given is not known."""
    if unknown := sorted(set(given or ()) - set(known)):
        raise ValueError(f"unknown {what} {unknown}; known: {', '.join(sorted(known))}")


def check_command(argv: Any) -> None:
    """Raise TypeError unless a command is a list with a string for each word."""
    words = argv if isinstance(argv, Sequence) and not isinstance(argv, str | bytes) else ()
    if not words or not all(isinstance(word, str | os.PathLike) for word in words):
        raise TypeError(f"a command must be a list of strings with at least the program's name, not {argv!r}")
    if len(words) == 1 and " " in str(words[0]) and not os.path.exists(words[0]):
        raise TypeError(
            f"a command must be a list with a string for each word, {str(words[0]).split()!r}, not {words!r}"
        )


def refuse_run(transport: str, options: Mapping[str, Any]) -> Never:
    """Refuse a way to run a server that there is not, or options that it does not have."""
    if transport == "stdio":
        given = ", ".join(sorted(options))
        raise ValueError(f'run() over stdio takes only max_message, not {given}; write run("http", ...)')
    hint = {"sse": '; write run("http", sse_path="/sse")', "streamable-http": '; write run("http")'}
    raise ValueError(f'run() knows "stdio" and "http", not {transport!r}{hint.get(transport, "")}')


def refuse_unknown(owner: str, others: Mapping[str, Any]) -> None:
    """Raise TypeError if there are options that the owner does not have, with what to write for the first of them."""
    for name in others:
        instead = _WRITTEN_ELSEWHERE[owner].get(name)
        hint = f"write {instead}" if instead else f"help({owner}) lists those that there are"
        raise TypeError(f"{owner} has no option {name}; {hint}")


MOVED: Final = {"AuthorizationServer": "mcp_ref.testing"}
"""Names that `mcp_ref` has for one more version, and where they stand now."""


def moved_name(name: str) -> Any:
    """What has moved out of `mcp_ref`, with a warning; any other name is refused, with what others call so."""
    if name in MOVED:
        warnings.warn(f"import {name} from {MOVED[name]}", DeprecationWarning, stacklevel=3)
        return getattr(importlib.import_module(MOVED[name]), name)
    if (instead := _WRITTEN_ELSEWHERE["mcp_ref"].get(name)) is not None:
        # Of an AttributeError `from mcp_ref import` would keep no word.
        raise ImportError(f"mcp_ref has no {name}; write {instead} (examples/guides/coming_from_fastmcp.md)")
    raise AttributeError(f"module 'mcp_ref' has no attribute {name!r}")


def refuse_attribute(self: Any, name: str) -> Any:
    """The `__getattr__` of a `Context`: raise AttributeError, with what to write for what others call it."""
    if (instead := _WRITTEN_ELSEWHERE["Context"].get(name)) is not None:
        raise AttributeError(f"Context has no {name}; write {instead}")
    return self.__getattribute__(name)


def with_a_line_each(module: Any, names: Iterable[str]) -> str:
    """The docstring of a module, and below it a line for each of its public names, all of which are loaded."""
    lines = [vars(module)["__doc__"]]
    for name in sorted(names, key=str.lower):
        value = getattr(module, name)
        # Of a value, such as REVISIONS, it would be the docstring of the type.
        own = getattr(value, "__module__", "").startswith(module.__name__)
        lines.append(f"    {name:<24}{value.__doc__.splitlines()[0] if own else 'a value'}")
    return "\n".join(lines)
