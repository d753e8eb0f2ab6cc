"""The floors of the house: which folder may import which, and what is only for a particular file.

lab                 looks at it all: judge (narrates, draws, checks), testing, the command line, exercises
facts               the laboratory's door to all that is not public
__init__            the public names
host                several servers under one policy
client, server      the roles: they bind the pages' functions, and hold the conversations
recording, tasks    the file of a trace; the engine of both designs of tasks
connection          one JSON-RPC conversation
pages               the specification, a file for each page
wire                the pages' ground: messages, types, methods, the contract of a transport
kit                 threads, sockets, processes, types: nothing of MCP
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

from mcp_ref import errors, facts
from mcp_ref.lab import words
from mcp_ref.pages.basic import tasks, versioning

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mcp_ref"
MODULES = sorted(path.relative_to(PACKAGE).with_suffix("").as_posix() for path in PACKAGE.rglob("*.py"))

FLOORS = [
    {"_version"},
    {"errors", "revisions"},
    {"kit"},
    {"wire"},
    {"pages"},
    {"connection"},
    {"recording", "tasks"},
    {"client", "server"},
    {"host"},
    {"__init__"},
    {"facts"},
    {"lab"},
    {"testing", "__main__"},
]
"""From the ground up. A file imports from its own folder and from the floors below, inside its functions too."""
ROLES = {"client", "server", "host"}
WHOLE = {"guarded_fetch", "messages", "shapes", "sse"}
"""The modules of which the laboratory needs most."""


def room_of(module: str) -> str:
    return module.split("/")[0]


def floor_of(module: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if room_of(module) in rooms)


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse((PACKAGE / f"{module}.py").read_text("utf-8"))


def _imports(node: ast.AST, *, types: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """The imports of a file, those inside functions too; those under `if TYPE_CHECKING` count as types."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING" and not types:
        return
    if isinstance(node, ast.Import | ast.ImportFrom):
        yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield from _imports(child, types=types)


@cache
def leads_to(module: str, *, types: bool) -> frozenset[str]:
    """The modules of ours that a file imports. `from a import b` leads to `a/b` if that is a file, else to `a`."""
    names = {module.removesuffix("/__init__"): module for module in MODULES}
    found: set[str] = set()
    for node in _imports(tree_of(module), types=types):
        for alias in node.names:
            whole = f"{node.module}.{alias.name}" if isinstance(node, ast.ImportFrom) else alias.name
            if whole.split(".")[0] == "mcp_ref":
                name = whole.removeprefix("mcp_ref").lstrip(".").replace(".", "/")
                found.add(names.get(name) or names.get(name.rpartition("/")[0]) or "__init__")
    return frozenset(found - {module})


def outer_imports(module: str) -> set[str]:
    nodes = list(_imports(tree_of(module), types=False))
    whole = [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    whole += [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    return {name.split(".")[0] for name in whole}


def test_imports_lead_down() -> None:
    """Those inside functions too. The public names load their module when they are asked for, by its name."""
    arrows = ((module, name) for module in MODULES for name in leads_to(module, types=False))
    assert not [each for each in arrows if len({*map(room_of, each)}) > 1 and floor_of(each[1]) >= floor_of(each[0])]


def test_the_laboratory_imports_public_names_the_recording_and_facts() -> None:
    doors = {"lab", "__init__", "recording", "facts"}
    arrows = ((module, name) for module in MODULES if room_of(module) == "lab" for name in leads_to(module, types=True))
    assert not [each for each in arrows if room_of(each[1]) not in doors]


def test_facts_are_few_and_used_by_the_laboratory_alone() -> None:
    used = {
        alias.name
        for module in MODULES
        for node in _imports(tree_of(module), types=True)
        if isinstance(node, ast.ImportFrom) and node.module == "mcp_ref.facts" and room_of(module) == "lab"
        for alias in node.names
    }
    assert used == {*facts.__all__} and len(used) <= 60
    assert {name for name in used if isinstance(getattr(facts, name), ModuleType)} == WHOLE
    below = [module for module in MODULES if floor_of(module) < floor_of("facts")]
    assert not [module for module in below if {"facts", "lab"} & set(map(room_of, leads_to(module, types=False)))]


def test_the_laboratory_spells_words_as_the_pages_do() -> None:
    spelled = {name: value for name, value in vars(words).items() if name.isupper()}
    for page in (versioning, tasks, errors):
        spelled = {name: value for name, value in spelled.items() if getattr(page, name, None) != value}
    assert not spelled


def test_the_ground_of_the_pages_names_no_role_for_its_types_either() -> None:
    """A page does, under TYPE_CHECKING: its `self` is a `Client`, its `ctx` a `Context`."""
    ground = (module for module in MODULES if floor_of(module) < floor_of("pages"))
    assert not [module for module in ground if ROLES & set(map(room_of, leads_to(module, types=True)))]


def circles(*, types: bool) -> list[set[str]]:
    """The groups of files that lead back to themselves by imports, those inside functions too."""
    reached: dict[str, set[str]] = {}
    for module in MODULES:
        seen, left = set[str](), [module]
        while left:
            # The public names name everything for their types.
            new = leads_to(left.pop(), types=types) - seen - {"__init__"}
            seen |= new
            left += new
        reached[module] = seen
    found_circles = {frozenset(b for b in reached[a] if a in reached[b]) for a in MODULES if a in reached[a]}
    return sorted((set(circle) for circle in found_circles), key=sorted)


def test_no_files_import_each_other_in_a_circle_at_run_time() -> None:
    assert circles(types=False) == []


def test_types_make_one_circle_of_roles_and_pages_and_others_within_a_folder() -> None:
    """A page names the role that binds it, and the role the page."""
    wide = [circle for circle in circles(types=True) if len({Path(module).parent for module in circle}) > 1]
    assert len(wide) <= 1
    assert {room_of(module) for circle in wide for module in circle} <= {*ROLES, "pages", "connection", "tasks", "wire"}


def test_imports_nothing_beyond_the_standard_library_requests_and_jsonschema() -> None:
    # urllib3 is what `requests` sends with, referencing what `jsonschema` resolves with: they come with them.
    allowed = {"mcp_ref", "requests", "urllib3", "jsonschema", "referencing", "jsonschema_specifications"}
    # Signatures, the bus and skills need the extras `auth`, `redis` and `skills`, and one module each does. The plugin
    # is loaded by pytest alone.
    extra = {
        "pages/basic/authorization/jwt": {"jwt", "cryptography"},
        "server/bus": {"redis"},
        "pages/extensions/frontmatter": {"yaml"},
        "lab/testing/plugin": {"pytest"},
    }
    outside = {module: outer_imports(module) - set(sys.stdlib_module_names) - allowed for module in MODULES}
    assert {module: names for module, names in outside.items() if names} == extra


def test_has_no_event_loop() -> None:
    assert not [module for module in MODULES if outer_imports(module) & {"asyncio", "anyio", "trio", "concurrent"}]


def test_revisions_are_compared_in_one_place() -> None:
    for module in MODULES:
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.Compare) and module != "revisions":
                for side in (node.left, *node.comparators):
                    constant = isinstance(side, ast.Constant) and str(side.value)
                    assert not (constant and len(constant) == 10 and constant[:3] == "202"), f"{module}:{node.lineno}"


NO_VERB = re.compile(
    r"(?i:an?|all|any|as|both|called|each|every|for|how|its?|nobody|none|nothing|of|on|one|raises|returns|somebody|such|"
    r"that|the|this|those|to|true|what|when|whether|which|who|without|with|yes)\b"
)


def test_a_docstring_of_a_function_begins_with_a_verb_and_none_with_what() -> None:
    for module in MODULES:
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (said := ast.get_docstring(node)):
                noun = isinstance(node, ast.ClassDef) or "property" in map(ast.unparse, node.decorator_list)
                # What a tool of the demonstration says goes to clients, as it stands.
                shown = module == "lab/cli/demo" and node.col_offset
                wrong = said.startswith("What") if noun or shown else NO_VERB.match(said)
                assert not wrong, f"{module}:{node.lineno}: {said[:60]}"
