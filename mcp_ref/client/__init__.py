"""The client: `from mcp_ref.client import Client`, which is loaded when it is asked for."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_ref.client.client import Client as Client


def __getattr__(name: str) -> Any:
    if name != "Client":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from mcp_ref.client.client import Client

    return Client
