"""`mcp_ref`: every public name loads, loads lazily, and is the one that a type checker sees."""

from __future__ import annotations

import ast
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import mcp_ref
from mcp_ref import facts, testing

ROOT = Path(__file__).parent.parent


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=30, check=True
    )
    return done.stdout.strip()


def test_every_name_loads() -> None:
    for name in mcp_ref.__all__:
        assert getattr(mcp_ref, name) is not None
        assert name in dir(mcp_ref)


def test_a_name_that_has_moved_says_where_it_is() -> None:
    with pytest.warns(DeprecationWarning, match="^import AuthorizationServer from mcp_ref.testing$") as said:
        from mcp_ref import AuthorizationServer
    from mcp_ref.testing import AuthorizationServer as moved

    assert AuthorizationServer is moved
    assert {each.filename for each in said} == {__file__}
    assert "AuthorizationServer" not in mcp_ref.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(mcp_ref, "Clients")


def imported_for_types(module: ModuleType) -> dict[str, str]:
    tree = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module).removeprefix("mcp_ref.") for node in imports for alias in node.names}


def test_a_type_checker_sees_the_same_names_in_the_same_modules() -> None:
    moved = {"AuthorizationServer": "lab.testing.authorization_server"}
    assert imported_for_types(mcp_ref) == {**mcp_ref._MODULES, **moved}
    assert imported_for_types(facts) == {
        name: module.removesuffix(f".{name}") for name, module in facts._MODULES.items()
    }
    assert imported_for_types(testing) == {name: f"lab.testing.{file}" for name, file in testing._MODULES.items()}


@pytest.mark.parametrize("module", [facts, testing])
def test_a_module_of_names_has_each_and_no_other(module: ModuleType) -> None:
    assert all(getattr(module, name) is not None for name in module.__all__)
    assert not hasattr(module, "Clients")


def test_importing_the_package_loads_neither_role() -> None:
    loaded = run("import mcp_ref, sys; print([m for m in sys.modules if m.startswith('mcp_ref.')])")
    assert loaded == "['mcp_ref._version']"


def test_help_has_every_name() -> None:
    said = pydoc.plain(pydoc.render_doc(mcp_ref))
    assert not [name for name in mcp_ref._MODULES if not re.search(rf"\b{name}\b", said)]
    assert "A client of one server." in said


@pytest.mark.parametrize("role", [mcp_ref.Client, mcp_ref.Server])
def test_help_of_a_role_says_what_a_program_calls(role: type) -> None:
    said = str(role.__doc__).split("What a program calls:")[1].split("The other members")[0]
    named = set(re.findall(r"\w+", said))
    internal = {name for name in vars(role) if not name.startswith("_")} - named
    assert internal <= {
        "announce_change", "answers_to", "cache", "capabilities", "close_recorder", "completion_values",
        "connection_for_stream", "context_type",
        "forget", "introduction", "offer_tasks", "open_recorder", "peer_capabilities", "register",
        "session", "take_over", "tap", "tell_change", "unregister", *(name for name in internal if "_page" in name),
    }  # fmt: skip


def test_a_server_loads_no_client_and_a_client_no_http() -> None:
    for name, absent in (
        (
            "Server",
            ("mcp_ref.client.client", "mcp_ref.lab", "mcp_ref.recording", "requests", "jsonschema", "http.server"),
        ),
        (
            "Client",
            ("mcp_ref.server.server", "mcp_ref.lab", "mcp_ref.recording", "requests", "jsonschema", "http.server"),
        ),
    ):
        assert (
            run(f"from mcp_ref import {name}; import sys; print([m for m in {absent!r} if m in sys.modules])") == "[]"
        )


@pytest.mark.parametrize(
    ("name", "here"), [("FastMCP", "Server"), ("BaseModel", "a dataclass, or import it from pydantic")]
)
def test_what_others_call_a_name_is_told_where_it_is_imported(name: str, here: str) -> None:
    with pytest.raises(ImportError, match=f"mcp_ref has no {name}; write {here} "):
        exec(f"from mcp_ref import {name}")


def test_what_is_loaded_later_has_the_signature_of_its_module() -> None:
    code = (
        "import inspect, sys, mcp_ref; from mcp_ref import Client, Host; "
        "print('mcp_ref.host.skills' in sys.modules, 'mcp_ref.pages.extensions.skills' in sys.modules, "
        "*inspect.signature(Host.load_skill).parameters, *inspect.signature(Client.get_skill).parameters, "
        "Host.load_skill.__doc__.split()[0], Client('http://x').get_skill.__self__.__class__.__name__)"
    )
    assert run(code) == "False False self server uri options self uri options Load Client"
