"""The four floors: which room may import which, and what is only for a particular room.

host            several servers under one policy: above the roles, imported by the command line alone
trace, cli      looking at it: above everything, imported by nobody below but where a trace is opened
roles           the client and the server: they bind the pages' functions, and hold the conversations
the pages       the specification, a file for each page, and nothing else; the transports
machinery       threads, sockets, processes, compilation: nothing of MCP but errors and revisions
"""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mcp_ref"
MODULES = sorted(path.relative_to(PACKAGE).with_suffix("").as_posix() for path in PACKAGE.rglob("*.py"))

# What each room may import, beside itself. A name that ends in "/" is a folder. The first room that fits is a module's.
ROOMS = {
    "_version": set[str](),
    "errors": set[str](),
    "revisions": set[str](),
    "machinery/": {"errors", "revisions", "_version"},
    "trace/": {"pages", "core", "machinery/", "errors", "revisions", "table", "transports", "http"},
    "host": {"trace/", "roles", "pages", "core", "machinery/", "errors", "revisions"},
    "cli/": {"host", "top", "trace/", "pages", "core", "machinery/", "errors", "revisions", "table", "transports",
             "http", "roles", "_version"},
    "__main__": {"cli/"},
    "top": {"errors", "roles", "pages", "core", "transports", "machinery/", "_version", "revisions"},
    "core": {"errors", "revisions", "machinery/", "pages"},
    "http": {"errors", "revisions", "machinery/", "core", "transports", "pages"},
    "transports": {"errors", "revisions", "machinery/", "core"},
    "roles": {"errors", "revisions", "_version", "machinery/", "core", "pages", "table", "transports", "http"},
    "pages": {"errors", "revisions", "machinery/", "core"},
    "table": {"pages", "core"},
}  # fmt: skip
MEMBERS = {
    "top": ("__init__",),
    "core": ("messages", "types", "content", "methods", "agreement", "incoming", "peer", "callers",
             "basic/transports/transport"),
    "table": ("pages",),
    "http": ("basic/transports/streamable_http/", "basic/transports/http_sse"),
    "transports": ("basic/transports/",),
    "host": ("roles/host/",),
    "roles": ("roles/",),
    "pages": ("basic/", "server/", "client/", "extensions/", "deprecated"),
}  # fmt: skip

LAZILY = {
    # A role makes a transport, or a recorder, when it is asked to: inside the function that does it.
    ("roles", "trace/"),
    ("pages", "transports"),
    ("pages", "http"),
}


def room_of(module: str) -> str:
    for room in ROOMS:
        for name in MEMBERS.get(room, (room,)):
            if module == name or (name.endswith("/") and module.startswith(name)):
                return room
    for room, names in MEMBERS.items():
        if any(module.startswith(name) for name in names if name.endswith("/")):
            return room
    raise AssertionError(f"{module} has no room in tests/test_house.py")


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse((PACKAGE / f"{module}.py").read_text("utf-8"))


@cache
def imports_of(module: str, *, lazy: bool) -> set[str]:
    """The modules that a file imports, at its top or inside its functions; `if TYPE_CHECKING` does not count."""
    tree = tree_of(module)
    found: set[str] = set()

    def visit(node: ast.AST, inside: bool) -> None:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        if isinstance(node, ast.FunctionDef | ast.Lambda):
            inside = True
        if isinstance(node, ast.Import) and inside == lazy:
            found.update(alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module and inside == lazy:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
        for child in ast.iter_child_nodes(node):
            visit(child, inside)

    visit(tree, False)
    return found


def own_imports(module: str, *, lazy: bool) -> set[str]:
    ours = {name.removeprefix("mcp_ref.") for name in imports_of(module, lazy=lazy) if name.startswith("mcp_ref.")}
    return ({name.replace(".", "/") for name in ours} & set(MODULES)) - {module}


def outer_imports(module: str) -> set[str]:
    found = imports_of(module, lazy=False) | imports_of(module, lazy=True)
    return {name.split(".")[0] for name in found}


CODE = [module for module in MODULES if not module.endswith("/__init__") or module == "cli/__init__"]


@pytest.mark.parametrize("module", CODE)
def test_imports_follow_the_floors(module: str) -> None:
    room = room_of(module)
    allowed = ROOMS[room] | {room}
    wrong = {name for name in own_imports(module, lazy=False) if room_of(name) not in allowed}
    assert not wrong, f"{module} ({room}) must not import {sorted(wrong)}"
    lazily = allowed | {to for by, to in LAZILY if by == room}
    wrong = {name for name in own_imports(module, lazy=True) if room_of(name) not in lazily}
    assert not wrong, f"{module} ({room}) must not import {sorted(wrong)}, inside a function either"


def test_no_page_imports_a_role_for_its_types_either() -> None:
    """A page names what it may ask of a role in `callers`; so does a transport."""
    wrong = {
        f"{module}: {node.module}"
        for module in CODE
        if room_of(module) in ("pages", "transports", "http", "core", "machinery/")
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mcp_ref.roles")
    }
    assert not wrong


@pytest.mark.parametrize("module", CODE)
def test_imports_nothing_beyond_the_standard_library_requests_and_jsonschema(module: str) -> None:
    outside = outer_imports(module) - set(sys.stdlib_module_names)
    # urllib3 is what `requests` sends with, referencing what `jsonschema` resolves with: they come with them.
    allowed = {"mcp_ref", "requests", "urllib3", "jsonschema", "referencing", "jsonschema_specifications"}
    # Signatures and the bus need the extras `auth` and `redis`, and one module each does.
    extra = {"machinery/jwt": {"jwt", "cryptography"}, "machinery/bus": {"redis"}}
    assert outside <= allowed | extra.get(module, set())


@pytest.mark.parametrize("module", CODE)
def test_has_no_event_loop(module: str) -> None:
    assert not outer_imports(module) & {"asyncio", "anyio", "trio", "concurrent"}


def test_revisions_are_compared_in_one_place() -> None:
    for module in CODE:
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.Compare) and module != "revisions":
                for side in (node.left, *node.comparators):
                    constant = isinstance(side, ast.Constant) and str(side.value)
                    assert not (constant and len(constant) == 10 and constant[:3] == "202"), f"{module}:{node.lineno}"
