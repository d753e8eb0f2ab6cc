"""The host: `from mcp_ref.host import Host`, which is loaded when it is asked for."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_ref.host.host import Host as Host


def __getattr__(name: str) -> Any:
    if name != "Host":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mcp_ref.host.host import Host

    return Host
