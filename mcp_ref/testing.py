"""Testing a server or client of yours: the names that a test imports, from `lab/testing`.

Each loads its module when it is first asked for: pytest imports the plugin in every run, and most use no MCP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from mcp_ref.lab.testing.authorization_server import AuthorizationServer as AuthorizationServer
    from mcp_ref.lab.testing.contract import contract_diff as contract_diff
    from mcp_ref.lab.testing.contract import contract_of as contract_of
    from mcp_ref.lab.testing.headless_view import HeadlessView as HeadlessView
    from mcp_ref.lab.testing.replay import Replay as Replay
    from mcp_ref.lab.testing.verdict import Answers as Answers
    from mcp_ref.lab.testing.verdict import Traffic as Traffic

_MODULES: Final = {
    "Answers": "verdict", "AuthorizationServer": "authorization_server", "HeadlessView": "headless_view",
    "Replay": "replay", "Traffic": "verdict", "contract_diff": "contract", "contract_of": "contract",
}  # fmt: skip

__all__ = [*_MODULES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    """Load the module of a public name, once."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(f"mcp_ref.lab.testing.{_MODULES[name]}"), name)
    return value
