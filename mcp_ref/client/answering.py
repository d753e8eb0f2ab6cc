"""How a client hands a server's question to the function that its user gave.

Spec:      client/roots, client/sampling, client/elicitation
Upholds:   the rows of their notes on telling the user which server asks
Reads:     basic/methods
Not here:  turning what such a function raises into an error reply (basic/patterns/request_response)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcp_ref.basic.methods import Answering

__all__ = ["call"]


def call(function: Callable[..., Any], ctx: Answering, *arguments: Any) -> Any:
    """Call a user's function with the arguments, and with `ctx` last where it requires one argument more.

    `ctx` says which server asks (`ctx.server_info`) and by which revision. A parameter with a default is left alone.

    Returns: whatever the function returns.
    Raises: whatever the function raises.
    """
    if _required(function) > len(arguments):
        return function(*arguments, ctx)
    return function(*arguments)


def _required(function: Callable[..., Any]) -> int:
    """How many positional arguments the function cannot do without; 0 where Python cannot say."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 0
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is each.empty for each in parameters)
