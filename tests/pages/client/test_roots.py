"""client/roots: which roots a client sends, and what a server may take for a boundary."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import ErrorResponse
from mcp_ref.pages.client import roots
from tests.pages.client.asking import answer_to, with_the_result


def listed(source: Any) -> list[str]:
    """Return the roots as a server gets them of a client whose function returns that."""
    return [root["uri"] for root in answer_to(lambda ctx: ctx.roots(), roots=lambda: source)]


# -- the server asks


def test_a_root_of_another_scheme_is_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    others = [{"uri": "https://example.com/"}, {"uri": "sftp:///work"}]
    answer = {"roots": [*others, {"uri": "file:///work"}]}
    _, found = with_the_result(answer, lambda ctx: ctx.roots(), {"roots": {}})
    assert found == [{"uri": "file:///work"}]
    assert "2 roots" in caplog.text


def test_path_of_a_root_is_percent_decoded() -> None:
    assert roots.root_path({"uri": "file:///home/a%20b"}) == Path("/home/a b")
    assert roots.root_path({"uri": "file://localhost/srv"}) == Path("/srv")
    for uri in ("https://example.com/", "file://other/srv", "file:///a/../b", "file:///a/%2e%2e/b"):
        with pytest.raises(ValueError, match="a root"):
            roots.root_path({"uri": uri})


def test_within_a_root_means_after_links_and_dots_are_resolved(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    allowed: list[roots.Root] = [{"uri": inside.as_uri()}]
    assert roots.is_within(inside, allowed)
    assert roots.is_within(inside / "new" / "file.txt", allowed)
    assert not roots.is_within(inside / ".." / "outside", allowed)
    assert not roots.is_within(inside / "link" / "file.txt", allowed)
    assert not roots.is_within(tmp_path / "inside-too", allowed)
    # A root that is itself a link bounds what it points to.
    assert roots.is_within(outside / "file", [{"uri": (inside / "link").as_uri()}])


def test_nothing_is_within_no_roots_or_unusable_ones() -> None:
    assert not roots.is_within("/", [])
    assert not roots.is_within("/", [{"uri": "https://example.com/"}])
    assert not roots.is_within("/a\0b", [{"uri": "file:///"}])


# -- the client answers


def test_a_path_becomes_an_absolute_percent_encoded_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a b").mkdir()
    monkeypatch.chdir(tmp_path)
    for source in (["a b"], [tmp_path / "x" / ".." / "a b"], "a b"):
        assert listed(source) == [tmp_path.resolve().as_uri() + "/a%20b"]


@pytest.mark.parametrize(
    "entry",
    ["https://example.com/", "sftp:///work", "file:///a/../b", "file://host/a", "file:///a?b", "file:///a b",
     {"name": "x"}, {"uri": 3}],
)  # fmt: skip
def test_sends_only_file_uris(entry: Any, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ErrorResponse):
        listed([entry])
    assert "LocalProtocolError: a root" in caplog.text


def test_a_root_that_cannot_be_read_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert len(listed([tmp_path / "gone"])) == 1
    assert f"the root {(tmp_path / 'gone').as_uri()} cannot be read" in caplog.text
