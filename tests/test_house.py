"""The house: which room may import which, and which rooms know nothing of threads, sockets and processes.

The arrows are those of the package's map in README.md. Imports inside functions count too, except where a module asks
for a transport or a recorder at the moment of its use.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "mcp_ref"
MODULES = sorted(path.relative_to(PACKAGE).with_suffix("").as_posix() for path in PACKAGE.rglob("*.py"))

LEAVES = ("errors", "revisions", "_version", "schema/", "basic/deadline", "basic/messages", "basic/methods",
          "basic/types", "basic/capabilities", "basic/deprecated", "basic/terms", "basic/rate_limit", "basic/formats",
          "basic/json_schema", "basic/versioning", "basic/transports/streamable_http/mirroring")  # fmt: skip
PAGES = ("basic/lifecycle", "basic/utilities/", "server/discover", "server/prompts", "server/resource", "server/tool",
         "server/uri_template", "server/signatures", "server/hints", "server/shapes", "server/string_arguments",
         "server/utilities/", "client/roots", "client/sampling", "client/elicitation",
         "client/answering")  # fmt: skip
HTTP = ("basic/transports/streamable_http/", "basic/transports/http_sse")
TRANSPORTS = ("basic/transports/",)
PEER = ("basic/patterns/",)
SESSIONS = (
    "server/choices",
    "server/context",
    "server/session",
    "server/stateless",
    "client/context",
    "client/answers",
    "client/events",
    "client/result_cache",
    "client/setup",
    "client/session",
    "client/stateless",
    "methods",
)
ROLES = ("server/server", "server/hosting", "client/client", "client/targets", "__init__")
ABOVE = ("cli", "__main__", "demo", "describe", "form", "shown", "trace/")

LAYERS = {"leaves": LEAVES, "pages": PAGES, "http": HTTP, "transports": TRANSPORTS, "peer": PEER, "sessions": SESSIONS,
          "roles": ROLES, "above": ABOVE}  # fmt: skip

MAY_IMPORT = {
    "leaves": {"leaves"},
    "pages": {"leaves", "pages"},
    "transports": {"leaves", "transports"},
    # The endpoint hands messages to a peer and has them answered in its own thread.
    "http": {"leaves", "transports", "http", "peer"},
    # The one page that the peer reads is cancellation: what it sends when a call is given up.
    "peer": {"leaves", "transports", "peer", "pages"},
    "sessions": {"leaves", "pages", "transports", "peer", "sessions"},
    "roles": {"leaves", "pages", "transports", "http", "peer", "sessions", "roles", "above"},
    "above": {"leaves", "pages", "transports", "http", "peer", "sessions", "roles", "above"},
}

WITHOUT_IO = {"socket", "threading", "queue", "subprocess", "http", "requests", "select", "selectors", "asyncio"}


def layer_of(module: str) -> str:
    if module.endswith("__init__") and module != "__init__":
        module = module.removesuffix("__init__") + "/"
        if module.startswith("schema"):
            return "leaves"
        return "package"
    for layer, names in LAYERS.items():
        if any(module == name or (module.startswith(name) and name != "__init__") for name in names):
            return layer
    return "unknown"


def imports_of(module: str) -> set[str]:
    """The modules that a file imports, by their names; those under `if TYPE_CHECKING` do not count."""
    tree = ast.parse((PACKAGE / f"{module}.py").read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def own_imports(module: str) -> set[str]:
    names = {
        name.removeprefix("mcp_ref.").replace(".", "/") for name in imports_of(module) if name.startswith("mcp_ref.")
    }
    return names & set(MODULES)


@pytest.mark.parametrize("module", MODULES)
def test_every_module_has_its_place_in_the_house(module: str) -> None:
    assert layer_of(module) != "unknown", f"{module} is in no layer of tests/test_house.py"


@pytest.mark.parametrize("module", [m for m in MODULES if layer_of(m) not in ("package", "unknown")])
def test_imports_follow_the_arrows(module: str) -> None:
    allowed = MAY_IMPORT[layer_of(module)]
    wrong = {name for name in own_imports(module) if layer_of(name) not in allowed | {"package"}}
    assert not wrong, f"{module} ({layer_of(module)}) must not import {sorted(wrong)}"


@pytest.mark.parametrize("module", [m for m in MODULES if layer_of(m) in ("leaves", "pages")])
def test_the_core_is_without_io(module: str) -> None:
    assert not {name.split(".")[0] for name in imports_of(module)} & WITHOUT_IO


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_imported_beyond_the_standard_library_requests_and_jsonschema(module: str) -> None:
    import sys

    outside = {name.split(".")[0] for name in imports_of(module)} - set(sys.stdlib_module_names)
    # urllib3 is what `requests` sends with, referencing what `jsonschema` resolves with: they come with them.
    assert outside <= {"mcp_ref", "requests", "urllib3", "jsonschema", "referencing", "jsonschema_specifications"}


@pytest.mark.parametrize("module", MODULES)
def test_no_event_loop_anywhere(module: str) -> None:
    assert not {name.split(".")[0] for name in imports_of(module)} & {"asyncio", "anyio", "trio", "concurrent"}


def test_revisions_are_compared_in_one_place() -> None:
    names = {path.name for path in (ROOT / "mcp_ref").iterdir()}
    assert "revisions.py" in names
    for module in MODULES:
        tree = ast.parse((PACKAGE / f"{module}.py").read_text("utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and module != "revisions":
                for side in (node.left, *node.comparators):
                    constant = isinstance(side, ast.Constant) and str(side.value)
                    assert not (constant and len(constant) == 10 and constant[:3] == "202"), f"{module}:{node.lineno}"
