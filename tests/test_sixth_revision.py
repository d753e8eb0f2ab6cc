"""A revision is added as CONTRIBUTING.md says: types, projection, checks, rules, probe, rounds and tasks follow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import pytest

from mcp_ref.kit.typed.checking import checker
from mcp_ref.kit.typed.shapes import FromRevision, RequiredIn, Since, Until, shape_of
from mcp_ref.revisions import LATEST_STATELESS


def test_everything_follows_a_sixth_revision_with_one_new_member() -> None:
    command = [sys.executable, "-W", "error", "-m", "tests.sixth_revision"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stdout) == (0, "all follows\n"), done.stderr


@pytest.mark.parametrize(
    "note", [Since("2099-01-01"), Until("2099-01-01"), FromRevision("2099-01-01", int), RequiredIn("2099-01-01")]
)
def test_a_note_with_a_revision_that_does_not_exist_is_told_with_those_that_do(note: object) -> None:
    Odd: Any = TypedDict("Odd", {"odd": NotRequired[Annotated[str, note]]})  # type: ignore
    with pytest.raises(ValueError, match="unknown revision '2099-01-01'; known: 2024-11-05, .*2026-07-28"):
        checker(Odd, LATEST_STATELESS)


def test_a_member_is_required_from_a_revision_on_until_another_says_otherwise() -> None:
    from mcp_ref.pages.basic.utilities import CancelledNotificationParams
    from mcp_ref.revisions import REVISIONS

    shapes = {name: shape_of(CancelledNotificationParams, revision) for name, revision in REVISIONS.items()}
    required = [name for name, shape in shapes.items() if shape.fields["requestId"].required]  # type: ignore[union-attr]
    assert required == ["2024-11-05", "2025-03-26", "2025-06-18", "2026-07-28"]
