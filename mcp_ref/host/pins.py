"""Pins: the definitions that somebody consented to. One that changes afterwards is found, and blocked.

Spec:      architecture, "Host"; server/tools#security-considerations
Upholds:   spec_notes/architecture.md
Not here:  when definitions are compared, and what becomes of one that changed (host/host); the file
           (host/json_file)

They show what a server says, and not what it does: one that keeps its words and changes its deeds is not found. A file
of pins that cannot be trusted makes every definition count as changed, until somebody looks at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from mcp_ref.host.json_file import KeptObject, fingerprint

_NOT_SAID: Final = ("_meta", "icons")


def print_of(definition: Any) -> str:
    """Return the fingerprint of a definition, or of a text; what no model reads is left out."""
    if isinstance(definition, Mapping):
        definition = {key: value for key, value in definition.items() if key not in _NOT_SAID}
    return fingerprint(definition)


class Pins:
    """The definitions that somebody consented to, by what tells the server from others, and the name here.

    Attributes:
        broken: why the file is not used, or None.

    Threads: any.
    """

    def __init__(self, path: Path | None) -> None:
        self._kept = KeptObject(path, dict)
        self.broken = self._kept.broken

    def state(self, bound: str, name: str, now: str) -> str:
        """Return "same", "new" or "changed": how a definition of that fingerprint compares with the pinned one."""
        pin = self._kept.values.get(f"{bound[:16]} {name}")
        if pin is None:
            return "changed" if self.broken else "new"
        return "same" if pin.get("fingerprint") == now else "changed"

    def before(self, bound: str, name: str) -> Any:
        """Return the definition that was consented to, or None."""
        return self._kept.values.get(f"{bound[:16]} {name}", {}).get("definition")

    def pin(self, bound: str, name: str, now: str, definition: Any) -> None:
        """Note that somebody consented to a definition."""
        self._kept.put(f"{bound[:16]} {name}", {"fingerprint": now, "definition": definition})

    def pinned(self, bound: str) -> list[str]:
        """Return the names of what was consented to of one server."""
        return [key[17:] for key in self._kept.values if key.startswith(f"{bound[:16]} ")]
