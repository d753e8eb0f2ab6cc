"""The four floors: which room may import which, and what is only for a particular room.

host            several servers under one policy: above the roles, imported by the command line alone
testing         what tests are made of: above everything but the command line, which imports it when a command runs
trace, cli      looking at it: above everything, imported by nobody below but where a trace is opened
roles           the client and the server: they bind the pages' functions, and hold the conversations
the pages       the specification, a file for each page, and nothing else; the transports
machinery       threads, sockets, processes, compilation: nothing of MCP but errors and revisions
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
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
    "testing/": {"trace/", "roles", "pages", "core", "machinery/", "errors", "revisions", "_version", "table",
                 "transports", "http"},
    # A command that is a module of its own, which is imported when it runs.
    "commands": {"cli/", "testing/", "trace/", "roles", "pages", "core", "machinery/", "errors", "revisions", "table",
                 "transports", "http"},
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
    "commands": ("cli/probe", "cli/replay", "cli/contracts"),
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
    # A command of the command line, when it runs.
    ("cli/", "testing/"),
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


def circles(*, types: bool) -> list[set[str]]:
    """The groups of files that lead back to themselves by imports, those inside functions too."""
    # `a/__init__` is imported as `a`. A `from a import b` leads to `a/b` if that is a file, else to `a`.
    names = {module.removesuffix("/__init__"): module for module in MODULES}
    leads: dict[str, set[str]] = {}
    for module in MODULES:
        found: set[str] = set()
        for node in _imports(tree_of(module), types=types):
            for alias in node.names:
                whole = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
                name = whole.removeprefix("mcp_ref.").replace(".", "/")
                if whole.startswith("mcp_ref."):
                    found.add(names.get(name) or names.get(name.rpartition("/")[0]) or "__init__")
        leads[module] = found - {module}
    reached: dict[str, set[str]] = {}
    for module in MODULES:
        seen, left = set[str](), [module]
        while left:
            new = leads[left.pop()] - seen
            seen |= new
            left += new
        reached[module] = seen
    found_circles = {frozenset(b for b in reached[a] if a in reached[b]) for a in MODULES if a in reached[a]}
    return sorted((set(circle) for circle in found_circles), key=sorted)


def _imports(node: ast.AST, *, types: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" and not types:
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, types=types)


def test_no_files_import_each_other_in_a_circle_at_run_time() -> None:
    assert circles(types=False) == []


def test_types_make_circles_only_within_a_folder_and_through_no_page() -> None:
    for circle in circles(types=True):
        assert len({Path(module).parent for module in circle}) == 1, sorted(circle)
        assert not {module for module in circle if room_of(module) == "pages"}, sorted(circle)


@pytest.mark.parametrize("module", CODE)
def test_imports_nothing_beyond_the_standard_library_requests_and_jsonschema(module: str) -> None:
    outside = outer_imports(module) - set(sys.stdlib_module_names)
    # urllib3 is what `requests` sends with, referencing what `jsonschema` resolves with: they come with them.
    allowed = {"mcp_ref", "requests", "urllib3", "jsonschema", "referencing", "jsonschema_specifications"}
    # Signatures, the bus and skills need the extras `auth`, `redis` and `skills`, and one module each does. The plugin
    # is loaded by pytest alone.
    extra = {
        "machinery/jwt": {"jwt", "cryptography"},
        "machinery/bus": {"redis"},
        "machinery/frontmatter": {"yaml"},
        "testing/plugin": {"pytest"},
    }
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
