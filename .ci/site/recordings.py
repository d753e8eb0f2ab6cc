"""`{recorded} NAME`: the picture of a conversation that takes place in another process while Sphinx reads the pages.

Conversations take as long as all pages together. So they begin first, and a page waits for its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import Any

from docutils import nodes
from folds import markup
from sphinx.util.docutils import SphinxDirective

_PENDING: dict[str, Future[Any]] = {}


def begin(workers: ProcessPoolExecutor, name: str, run: Callable[[Any], Any], what: Any) -> None:
    """Let one take place; its name is that by which a page asks for it."""
    _PENDING[name] = workers.submit(run, what)


def result(name: str) -> Any:
    """What came of one; waits until it is over."""
    return _PENDING[name].result(timeout=200)


class Recorded(SphinxDirective):
    """See the head. After the name a title may follow, which stands above the picture if there is one."""

    required_arguments, optional_arguments, final_argument_whitespace = 1, 1, True

    def run(self) -> list[nodes.Node]:
        """Wait, and show it."""
        # They are recorded for the English pages alone.
        picture = result(self.arguments[0]) if self.config.language == "en" else ""
        title = [nodes.rubric("", *self.arguments[1:])] if self.arguments[1:] else []
        return [*title, markup(html=f'<div class="picture">{picture}</div>')] if picture else []


def setup(app: Any) -> None:
    """Register the directive."""
    app.add_directive("recorded", Recorded)
