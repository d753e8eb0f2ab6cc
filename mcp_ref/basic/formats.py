"""The string formats of JSON Schema that MCP's pages name, as plain functions.

Spec:      client/elicitation#requested-schema (email, uri, date, date-time); JSON Schema validation, section 7.3
Upholds:   the rows on formats of spec_notes/client/elicitation.md
Reads:     nothing
Not here:  when a format is checked (client/elicitation_schema, basic/json_schema)

Each takes a string and says whether it has the format. They take no other type: `format` says nothing about those.
"""

from __future__ import annotations

import re

__all__ = [
    "is_date",
    "is_date_time",
    "is_email",
    "is_ipv4",
    "is_ipv6",
    "is_time",
    "is_uri",
    "is_uri_reference",
    "is_uuid",
]

# Texts, which re compiles at the first use and then remembers: most programs use none of them.
_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = (
    r"(?P<hour>[01][0-9]|2[0-3]):(?P<minute>[0-5][0-9]):(?P<second>[0-5][0-9]|60)(\.[0-9]+)?"
    r"([Zz]|(?P<sign>[+-])(?P<off_hour>[01][0-9]|2[0-3]):(?P<off_minute>[0-5][0-9]))"
)
_UUID = r"[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*:"
_URI_TEXT = r"([A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_LABEL = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL = (
    rf'({_ATOM}(\.{_ATOM})*|"([\x20\x21\x23-\x5b\x5d-\x7e]|\\[\x20-\x7e])*")'
    rf"@({_LABEL}(\.{_LABEL})*|\[(?P<literal>[0-9A-Za-z:.]+)\])"
)


def is_date(value: str) -> bool:
    """A full date of RFC 3339: "2025-11-25"."""
    from datetime import date

    if not re.fullmatch(_DATE, value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True


def is_time(value: str) -> bool:
    """A full time of RFC 3339, with its offset: "10:15:00Z"; second 60 only where it is 23:59:60 in UTC."""
    match = re.fullmatch(_TIME, value)
    if match is None:
        return False
    return match["second"] != "60" or _utc_minute(match) == 23 * 60 + 59


def _utc_minute(match: re.Match[str]) -> int:
    minutes = int(match["hour"]) * 60 + int(match["minute"])
    if match["sign"] is not None:
        offset = int(match["off_hour"]) * 60 + int(match["off_minute"])
        minutes -= offset if match["sign"] == "+" else -offset
    return minutes % (24 * 60)


def is_date_time(value: str) -> bool:
    """A date and time of RFC 3339, with its offset: "2025-11-25T10:15:00Z"."""
    return value[10:11] in ("T", "t") and is_date(value[:10]) and is_time(value[11:])


def is_email(value: str) -> bool:
    """A mailbox of RFC 5321: a dotted or a quoted local part, then a host name or an address in brackets."""
    match = re.fullmatch(_EMAIL, value)
    if match is None:
        return False
    literal = match["literal"]
    return literal is None or is_ipv4(literal) or is_ipv6(literal.removeprefix("IPv6:"))


def is_uri(value: str) -> bool:
    """A URI of RFC 3986, with its scheme."""
    return re.match(_SCHEME, value) is not None and is_uri_reference(value)


def is_uri_reference(value: str) -> bool:
    """A URI, or a reference relative to one."""
    from urllib.parse import urlsplit

    if not re.fullmatch(_URI_TEXT, value) or value.count("#") > 1:
        return False
    try:
        parts = urlsplit(value)
        # reading the port checks it
        _ = parts.port
    except ValueError:
        return False
    # Brackets stand for an address in the authority alone, and a colon in a first segment would be a scheme.
    after = parts.path + parts.query + parts.fragment
    return not ("[" in after or "]" in after) and not (not parts.scheme and ":" in parts.path.split("/")[0])


def is_uuid(value: str) -> bool:
    """A UUID of RFC 4122 in its usual form, with hyphens."""
    return re.fullmatch(_UUID, value) is not None


def is_ipv4(value: str) -> bool:
    """Four numbers with dots, none with a leading zero."""
    from ipaddress import IPv4Address

    try:
        IPv4Address(value)
    except ValueError:
        return False
    return True


def is_ipv6(value: str) -> bool:
    """An address of RFC 4291, without a zone."""
    from ipaddress import IPv6Address

    try:
        IPv6Address(value)
    except ValueError:
        return False
    return "%" not in value
