"""Arguments of a user that cannot be meant: refused where they are given, with what would be right.

A checker of types finds most of these; a notebook has none.
"""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from mcp_ref.kit.threads.deadline import check_seconds

_KINDS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "a string": lambda value: isinstance(value, str),
    "a bool or a ResultCache": lambda value: isinstance(value, bool) or hasattr(value, "for_"),
    "a dict": lambda value: isinstance(value, Mapping),
    "a function": callable,
    "a whole number of at least 1": lambda value: isinstance(value, int) and value is not True and value >= 1,
    "a whole number of at least 0": lambda value: isinstance(value, int) and value is not True and value >= 0,
    "a list of strings": lambda value: isinstance(value, Iterable) and not isinstance(value, str | bytes),
}


_MODULE_HINTS: Final = {
    "FastMCP": "Server",
    "MCPServer": "Server",
    "ClientSession": "Client",
    "BaseModel": "a dataclass, or import it from pydantic",
}
_CONTEXT_HINTS: Final = {
    **{level: f'ctx.log("{level}", data)' for level in ("debug", "info", "warning", "error")},
    "report_progress": "ctx.progress(done, total)",
}
"""Names that those who come from FastMCP import, or call in a handler; and what they are here."""

PROTOCOL_HINTS: Final[Mapping[str, str]] = {
    "resources/subscribe": "; there, write client.listen(resources=[uri])",
    "tasks/list": "; 2025-11-25 alone has it: keep the ids of tasks",
    "subscriptions/listen": "; there, write client.subscribe_resource(uri) and Client(on_change=...)",
    **{f"server.{name}": f'; see declare=["{name}"]' for name in ("completions", "prompts", "resources", "tools")},
}
"""Hints that an error adds, by the method that a revision lacks, or the capability that a server did not declare."""


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


def check_command(argv: Any, env: Mapping[str, Any] | None = None) -> None:
    """Raise TypeError unless a command is a list with a string for each word, and a variable is a string or None."""
    words = argv if isinstance(argv, Sequence) and not isinstance(argv, str | bytes) else ()
    if not words or not all(isinstance(word, str | os.PathLike) for word in words):
        raise TypeError(f"a command must be a list of strings with at least the program's name, not {argv!r}")
    for name, value in (env or {}).items():
        if not isinstance(name, str) or not isinstance(value, str | None):
            # The value may be a secret.
            raise TypeError(f"the variable {name!r} in env must be a string or None, not {type(value).__name__}")


MOVED: Final = {"AuthorizationServer": "mcp_ref.testing"}
"""Names that `mcp_ref` has for one more version, and where they stand now."""


def moved_name(name: str) -> Any:
    """Return what has moved out of `mcp_ref`, with a warning; any other name is refused, with what to write for
    FastMCP's.
    """
    if name in MOVED:
        warnings.warn(f"import {name} from {MOVED[name]}", DeprecationWarning, stacklevel=3)
        return getattr(importlib.import_module(MOVED[name]), name)
    if (instead := _MODULE_HINTS.get(name)) is not None:
        # Of an AttributeError `from mcp_ref import` would keep no word.
        raise ImportError(f"mcp_ref has no {name}; write {instead} (examples/guides/coming_from_fastmcp.md)")
    raise AttributeError(f"module 'mcp_ref' has no attribute {name!r}")


def refuse_attribute(self: Any, name: str) -> Any:
    """Return the `__getattr__` of a `Context`: raise AttributeError, with what to write for what others call it."""
    if (instead := _CONTEXT_HINTS.get(name)) is not None:
        raise AttributeError(f"Context has no {name}; write {instead}")
    return self.__getattribute__(name)
