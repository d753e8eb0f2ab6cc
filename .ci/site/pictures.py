"""The pictures of the notes and guides: drawn as SVG from the runs from which the documents have theirs as Mermaid."""

from __future__ import annotations

import logging

from mcp_ref.lab.judge.check import check
from mcp_ref.lab.judge.draw import steps, svg
from tests.test_pictures import PICTURES, PLACE


def drawn(name: str) -> str:
    """One of them, as SVG."""
    logging.disable()  # some runs fail on purpose, and say so
    run, http = PICTURES[name]
    events = run()
    wrong = {finding.seq for finding in check(events) if finding.blame}
    return "\n".join(svg(steps(events, http=http, wrong=wrong)))


def with_pictures(text: str, made: dict[str, str]) -> str:
    """A document with its pictures as SVG."""
    return PLACE.sub(lambda place: raw(f'<div class="picture">{made[place[2]]}</div>'), text)


def raw(html: str) -> str:
    """HTML within Markdown, which takes no empty line for its end."""
    return "```{raw} html\n" + "\n".join(filter(None, html.splitlines())) + "\n```\n"
