from __future__ import annotations

from collections.abc import Callable

import pytest

from mcp_ref.kit.typed import json_schema as formats

VALUES: dict[Callable[[str], bool], tuple[list[str], list[str]]] = {
    # the format: texts of it, and others
    formats.is_date: (
        ["2025-11-25", "2024-02-29"], ["20251125", "2025-02-29", "2025-13-01", "2025-11-25\n", "٢٠٢٥-11-25", ""],
    ),
    formats.is_time: (
        ["10:15:00Z", "10:15:00.123+05:30", "23:59:60Z", "15:59:60-08:00"],
        ["10:15Z", "10:15:00", "24:00:00Z", "10:60:00Z", "22:59:61Z", "10:15:00+24:00"],
    ),
    formats.is_date_time: (
        ["2025-11-25T10:15:00Z", "2025-11-25t10:15:00.5-01:00", "1998-12-31T23:59:60Z"],
        ["2025-11-25", "2025-11-25T10:15:00", "2025-11-25 10:15:00Z", "2025-02-30T10:15:00Z"],
    ),
    formats.is_email: (
        ["ada@example.com", "a.b+c@localhost", '"a b"@example.com', "a@[127.0.0.1]", "a@[IPv6:2001:db8::7]"],
        ["ada", "@b.c", "a@", ".a@b.c", "a..b@c", "a b@c", "a@-b.c", "a@[300.0.0.1]", "a@[127.0.0.01]",
         "a@[IPv6::::1]", "a@[fe80::1%eth0]"],
    ),
    formats.is_uri: (
        ["https://a.b/c?d#e", "urn:uuid:1", "mailto:a@b.c", "file:///a%20b", "ldap://[2001:db8::7]/c"],
        ["//host/a", "a", "1a:b", "https://a b/", "https://a/%zz", "http://[::1", "http://a:x/", "a:b#c#d", "a:[b]",
         "http://a/?b]", "a:b c", "a:{b}", "a:\\", ""],
    ),
    formats.is_uuid: (
        ["550e8400-e29b-41d4-a716-446655440000"],
        ["550e8400e29b41d4a716446655440000", "g50e8400-e29b-41d4-a716-446655440000", ""],
    ),
}  # fmt: skip


@pytest.mark.parametrize("check", VALUES)
def test_a_format_is_told_from_others(check: Callable[[str], bool]) -> None:
    good, bad = VALUES[check]
    assert [each for each in good if not check(each)] == []
    assert [each for each in bad if check(each)] == []
