"""The server: `from mcp_ref.server import Server`, which is loaded when it is asked for."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_ref.server.server import Server as Server


def __getattr__(name: str) -> Any:
    if name != "Server":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mcp_ref.server.server import Server

    return Server
