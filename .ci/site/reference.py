"""Pages to look things up: every public name with its docstring, and what differs between two revisions."""

from __future__ import annotations

import html
import inspect
import re
import sys
from itertools import combinations, groupby
from pathlib import Path
from typing import Any

import sources
from docutils import nodes
from folds import markup
from sentences import parsed
from sphinx.util.docutils import SphinxDirective

import mcp_ref
import mcp_ref.testing
from mcp_ref import REVISIONS
from mcp_ref.lab.judge.compare import compare, explained

MODULES = {"mcp_ref": mcp_ref, "mcp_ref.testing": mcp_ref.testing}


def names() -> str:
    """The page of every public name, as Markdown."""
    parts = ["# Every public name", "Of each the docstring, and a link to its source; of a class also its members."]
    for place, module in MODULES.items():
        parts.append(f"## {place}")
        for name in sorted(module.__all__, key=str.lower):
            parts += [f"### {name}", f"```{{docstring}} {place} {name}\n```"]
    return "\n\n".join(parts) + "\n"


class Docstring(SphinxDirective):
    """`{docstring} MODULE NAME`: what it says of itself, as it is written, and what each public member says."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Make the parts."""
        value = getattr(MODULES[self.arguments[0]], self.arguments[1])
        found = self.of(self.arguments[1], value)
        if inspect.isclass(value):
            members = {name: getattr(value, name, None) for name in dir(value) if not name.startswith("_")}
            for name, member in sorted(members.items(), key=lambda each: _line_of(each[1])):
                member = member.fget if isinstance(member, property) else member
                if str(getattr(member, "__module__", "")).startswith("mcp_ref") and inspect.isroutine(member):
                    found.append(nodes.container("", *self.of(name, member), classes=["member"]))
        return found

    def of(self, name: str, value: Any) -> list[nodes.Node]:
        """Its signature with a link to its source, and the paragraphs of its docstring."""
        try:
            signature = f"{name}{inspect.signature(value)}" if callable(value) else name
            # An annotation that is kept as text stands in quotes.
            signature = re.sub(r"(: |-> )'([^']*)'", r"\1\2", signature)
        except ValueError:
            signature = name
        line: list[nodes.Node] = [nodes.literal(signature, signature, classes=["signature"])]
        place = _place(value)
        if place is not None:
            uri = f"source:{place.file}#L{place.first}"
            line += [nodes.Text(" "), nodes.reference("", "source", refuri=uri)]
        own = inspect.getdoc(value) if callable(value) else ""
        # A block with lines that stand further in is a list, such as that of the arguments.
        blocks = [each if "\n " in each else " ".join(each.split()) for each in (own or "").split("\n\n")]
        return [
            nodes.paragraph("", "", *line),
            *(nodes.paragraph("", "", *parsed(e), classes=["docstring"]) for e in blocks),
        ]


def _place(value: Any) -> sources.Place | None:
    """Where a class or function of the package is written; None for anything else."""
    value = inspect.unwrap(value) if callable(value) else value
    file = Path(getattr(sys.modules.get(getattr(value, "__module__", "")), "__file__", None) or "")
    if not file.is_relative_to(sources.PACKAGE):
        return None
    return sources.definitions(file.relative_to(sources.ROOT).as_posix()).get(getattr(value, "__qualname__", ""))


def _line_of(value: Any) -> tuple[str, int]:
    place = _place(getattr(value, "fget", value))
    return (place.file, place.first) if place else ("", 0)


def differences() -> str:
    """The page of what differs between each two revisions, as Markdown; two menus choose."""
    return (
        "# What differs between two revisions\n\nBy the tables that the code itself reads, as `mcp-ref diff` shows "
        "them: what tables do not hold is not here.\n\n```{differences}\n```\n"
    )


class Differences(SphinxDirective):
    """`{differences}`: a part for each two revisions."""

    def run(self) -> list[nodes.Node]:
        """Make all of them; the page shows one, and without a script all."""
        return [markup(html=_part(old, new)) for old, new in combinations(REVISIONS, 2)]


def _part(old: str, new: str) -> str:
    out = [f'<section data-pair="{old} {new}"><h2>{old} and {new}</h2>']
    for kind, changes in groupby(map(explained, compare(old, new)), key=lambda change: change.part):
        listed = "".join(f"<li>{_told(str(change))}</li>" for change in changes)
        out.append(f"<h3>{kind.capitalize()}</h3><ul>{listed}</ul>")
    return "".join([*out, "</section>"])


def _told(text: str) -> str:
    """Our words as HTML; what stands in backquotes is code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", html.escape(text, quote=False))


def setup(app: Any) -> None:
    """Register the directive."""
    app.add_directive("docstring", Docstring)
    app.add_directive("differences", Differences)
