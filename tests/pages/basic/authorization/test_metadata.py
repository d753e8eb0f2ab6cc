"""Challenges and well-known addresses, as tables."""

from __future__ import annotations

import pytest

from mcp_ref.pages.basic.authorization.metadata import (
    MAX_SCOPES,
    Challenge,
    read_challenges,
    resource_metadata_url,
    scopes_in,
)

HEADERS = [
    # header, what is read
    (None, []),
    ("", []),
    ("Bearer", [("bearer", {})]),
    ("Bearer, Basic", [("bearer", {}), ("basic", {})]),
    ('BEARER Scope="a b"', [("bearer", {"scope": "a b"})]),
    ("Bearer error=invalid_token", [("bearer", {"error": "invalid_token"})]),
    (r'Bearer realm="a, b=\"c", scope=x', [("bearer", {"realm": 'a, b="c', "scope": "x"})]),
    ('Negotiate abc==, DPoP algs="ES256 EdDSA"', [("negotiate", {}), ("dpop", {"algs": "ES256 EdDSA"})]),
    ('Basic realm="x", Bearer scope="a"', [("basic", {"realm": "x"}), ("bearer", {"scope": "a"})]),
    ('Bearer resource_metadata="https://a/b?c=1,2"', [("bearer", {"resource_metadata": "https://a/b?c=1,2"})]),
    # What cannot be read ends the list.
    ('Bearer scope="never closed', [("bearer", {})]),
    ("\u00fcml \u0000", []),
    ('"Bearer"', []),
    ("Bearer " + "a=1, " * 100_000, [("bearer", {"a": "1"})]),
]


@pytest.mark.parametrize(("header", "expected"), HEADERS, ids=[str(header)[:40] for header, _ in HEADERS])
def test_reads_challenges(header: str | None, expected: list[tuple[str, dict[str, str]]]) -> None:
    assert [(each.scheme, each.parameters) for each in read_challenges(header)] == expected


def test_says_what_is_repeated() -> None:
    (challenge,) = read_challenges('Bearer scope="a", scope="b", resource_metadata="https://a"')
    assert (challenge.repeated, challenge.scopes) == ({"scope"}, ("a",))


def test_a_challenge_can_be_read_as_it_was_written() -> None:
    written = Challenge("bearer", {"error": "insufficient_scope", "scope": "a b", "error_description": 'no "c\\d"'})
    (read,) = read_challenges(str(written))
    assert (read.scheme, read.parameters) == (written.scheme, written.parameters)
    assert str(Challenge("dpop", {})) == "DPoP"


NO_SCOPES = [None, 7, "", " ", "a  b", 'a"b', "a\\b", "a\tb", "\u00e9", "a\n", "x" * (MAX_SCOPES + 1)]


@pytest.mark.parametrize(("text", "scopes"), [("b a b", ("b", "a")), *((text, None) for text in NO_SCOPES)])
def test_a_scope_counts_once_and_what_cannot_be_scopes_is_ignored(text: object, scopes: object) -> None:
    assert scopes_in(text) == scopes


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("https://a/mcp", "https://a/.well-known/oauth-protected-resource/mcp"),
        ("https://a:1/x/mcp?y=1", "https://a:1/.well-known/oauth-protected-resource/x/mcp?y=1"),
        ("https://a/", "https://a/.well-known/oauth-protected-resource"),
        ("https://a", "https://a/.well-known/oauth-protected-resource"),
    ],
)
def test_the_metadata_of_a_resource_stands_before_its_path(resource: str, expected: str) -> None:
    assert resource_metadata_url(resource) == expected
