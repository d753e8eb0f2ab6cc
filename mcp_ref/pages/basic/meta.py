"""The keys of `_meta`: their form, and those that are kept for the protocol.

Spec:      basic/index#_meta
Upholds:   spec_notes/basic/index.md, the rows on the names in `_meta`
Not here:  what the protocol itself says there (wire/types, basic/versioning)
"""

from __future__ import annotations

import re
from typing import Literal

from mcp_ref.errors import LocalProtocolError

_LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_META_KEY = re.compile(rf"(?:(?P<prefix>{_LABEL}(?:\.{_LABEL})*)/)?(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")


def is_meta_key(key: str) -> bool:
    """Return whether a text has the form of a key of `_meta`: an optional prefix of dotted labels, and a name."""
    return _META_KEY.fullmatch(key) is not None


def check_meta_key(key: str, reserved_label: Literal["none", "first", "second"]) -> None:
    """Check the name of an entry that a user puts into `_meta`.

    Args:
        reserved_label: `Revision.reserved_meta_label`: which label of the prefix is kept for the protocol. With
            "first" another label must follow it (`mcp.dev/`), with "second" one precedes it (`dev.mcp/`).

    Raises: LocalProtocolError: the key does not have the form of the page, or it has a prefix that is reserved.
    Spec: basic/index#_meta
    """
    if reserved_label == "none":
        return
    # MUST: a key of `_meta` is an optional prefix of dotted labels and a name (basic/index#_meta)
    if (match := _META_KEY.fullmatch(key)) is None:
        raise LocalProtocolError(f"_meta key {key!r} must be a name, with an optional prefix of dotted labels")
    # An implementation MUST NOT assume anything about the prefixes that are the protocol's: users may set none
    # (basic/index#_meta)
    labels = (match["prefix"] or "").split(".")
    kept = labels[:-1] if reserved_label == "first" else labels[1:2]
    if not {"modelcontextprotocol", "mcp"}.isdisjoint(kept):
        raise LocalProtocolError(f"_meta key {key!r} has a prefix that is reserved for the protocol")
