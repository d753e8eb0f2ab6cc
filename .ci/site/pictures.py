"""The pictures of the notes and guides: drawn as SVG from the runs from which the documents have theirs as Mermaid."""

from __future__ import annotations

import logging

from mcp_ref.lab.judge.draw import svg
from tests.test_pictures import PICTURES, PLACE, arrows

__all__ = ["PICTURES", "drawn", "with_pictures"]


def drawn(name: str) -> str:
    """One of them, as SVG."""
    logging.disable()  # some runs fail on purpose, and say so
    return "\n".join(svg(arrows(name)))


def with_pictures(text: str) -> str:
    """A document with its pictures as SVG."""
    return PLACE.sub(lambda place: f"```{{recorded}} picture:{place[2]}\n```\n", text)
