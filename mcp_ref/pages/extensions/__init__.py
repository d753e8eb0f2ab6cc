"""The pages of extensions. Nothing of one is loaded before a program asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any, Final

OF_SKILLS: Final = (
    "pages.extensions.skills",
    "list_skills",
    "list_skills_page",
    "get_skill",
    "read_skill",
    "read_directory",
)
"""The methods by which a client asks for skills."""


class Later:
    """A function for a class's body, of a module that is loaded when somebody looks for the function."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __get__(self, instance: Any, owner: type) -> Any:
        function = getattr(import_module(f"mcp_ref.{self.module}"), self.name)
        return function if instance is None else function.__get__(instance)


def tool_meta(*given: Any) -> Any:
    """Return the `_meta` of a tool that has a user interface; see `pages.extensions.apps.tool_meta`."""
    from mcp_ref.pages.extensions import apps

    return apps.tool_meta(*given)


def property_later(module: str, name: str) -> Any:
    """Return a property for a class's body; see `Later`."""
    return property(lambda self: getattr(import_module(f"mcp_ref.{module}"), name)(self))


def loaded_later(module: str, *names: str) -> Iterator[Any]:
    """Return the functions for a class's body; see `Later`."""
    return (Later(module, name) for name in names)
