"""The pages of extensions. Nothing of one is loaded before a program asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any, Final

OF_SKILLS: Final = ("extensions.skills", "list_skills", "list_skills_page", "get_skill", "read_skill", "read_directory")
"""What a client can ask of skills."""


def loaded_later(module: str, *names: str) -> Iterator[Callable[..., Any]]:
    """Functions for a class's body, each of a module that is loaded at the first call."""
    for name in names:
        # The names that a client has are those of the page.
        def call(self: Any, *args: Any, name: str = name, **options: Any) -> Any:
            return getattr(import_module(f"mcp_ref.{module}"), name)(self, *args, **options)

        call.__name__, call.__doc__ = name, f"See `mcp_ref.{module}.{name}`."
        yield call
