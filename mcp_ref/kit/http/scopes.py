"""Scopes of OAuth, as the names of what a token grants.

Not here:  which operation needs which, and who checks it (basic/authorization)
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def checked_scopes(scopes: Sequence[str]) -> tuple[str, ...]:
    """Return scopes of OAuth, each once. Raises: ValueError: one that cannot be one (RFC 6749, 3.3). TypeError: a
    string.
    """
    if isinstance(scopes, str):
        raise TypeError(f"scopes must be a list, not the string {scopes!r}")
    for scope in scopes:
        if not re.fullmatch(r"[\x21\x23-\x5b\x5d-\x7e]+", scope):
            raise ValueError(f"{scope!r} cannot be a scope")
        # A server SHOULD NOT put `offline_access` into a challenge or `scopes_supported`
        # (basic/authorization#refresh-tokens)
        if scope == "offline_access":
            raise ValueError("offline_access is between a client and the authorization server: no operation needs it")
    return tuple(dict.fromkeys(scopes))
