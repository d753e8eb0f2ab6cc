"""Testing a server or client of yours: the names that a test imports, from `lab/testing`.

Each loads its module when it is first asked for: pytest imports the plugin in every run, and most use no MCP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_ref.lab.testing import Answers as Answers
    from mcp_ref.lab.testing import AuthorizationServer as AuthorizationServer
    from mcp_ref.lab.testing import Replay as Replay
    from mcp_ref.lab.testing import Traffic as Traffic
    from mcp_ref.lab.testing import contract_diff as contract_diff
    from mcp_ref.lab.testing import contract_of as contract_of

__all__ = ["Answers", "AuthorizationServer", "Replay", "Traffic", "contract_diff", "contract_of"]


def __getattr__(name: str) -> Any:
    """Load a public name, once."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mcp_ref.lab import testing

    value = globals()[name] = getattr(testing, name)
    return value
