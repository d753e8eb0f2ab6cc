"""What a page shows at a click: `{fold} TITLE` with its text, by the element that needs no script for it."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective


class details(nodes.General, nodes.Element):
    """A part that can be folded away; its attributes become those of the element."""


class summary(nodes.General, nodes.TextElement):
    """The line that is always there."""


class markup(nodes.General, nodes.Element):
    """Finished HTML, in the attribute `html`. Unlike docutils' own it is not searched."""


class Fold(SphinxDirective):
    """`{fold} TITLE`: a hint, an answer, whatever should not be read at once."""

    required_arguments, final_argument_whitespace, has_content = 1, True, True

    def run(self) -> list[nodes.Node]:
        """Make the part, with what is within read as the page is."""
        made = details(classes=["fold"])
        title, _ = self.parse_inline(self.arguments[0])
        made += summary("", "", *title)
        made += self.parse_content_to_nodes()
        return [made]


def opened(self: Any, node: nodes.Element) -> None:
    """Begin either element, with its classes and the attributes that it was given."""
    given = {name: value for name, value in node.attributes.get("given", {}).items() if value != ""}
    self.body.append(self.starttag(node, type(node).__name__, "", **given))


def closed(self: Any, node: nodes.Element) -> None:
    """End either element."""
    self.body.append(f"</{type(node).__name__}>\n")


def written(self: Any, node: nodes.Element) -> None:
    """Write what is finished."""
    self.body.append(node["html"])
    raise nodes.SkipNode


def setup(app: Any) -> None:
    """Register the elements and the directive."""
    for element in (details, summary):
        app.add_node(element, html=(opened, closed))
    app.add_node(markup, html=(written, None))
    app.add_directive("fold", Fold)
