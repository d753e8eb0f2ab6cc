"""Whether what the pages of a built site link to is there, file and anchor; and that they load nothing from outside."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LINK = re.compile(r'<a\b[^>]*? href="([^"]*)"')
_LOADED = re.compile(
    r'<(?:script|img|iframe|source)\b[^>]*? src="([^"]*)"|<link\b(?=[^>]*stylesheet)[^>]*? href="([^"]*)"'
)
_ANCHOR = re.compile(r' (?:id|name)="([^"]*)"')


class Page:
    """What a page links to, what it loads, and the anchors that it has.

    It is looked for by patterns: parsing forty megabytes would take as long as making them.
    """

    def __init__(self, path: Path) -> None:
        text = path.read_text("utf-8")
        self.links = set(map(html.unescape, _LINK.findall(text)))
        self.loads = {html.unescape(a or b) for a, b in _LOADED.findall(text)}
        self.anchors = {"", "top", *map(html.unescape, _ANCHOR.findall(text))}


def broken(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere, and for each thing that is loaded from outside."""
    site = site.resolve()
    pages = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    found = ((path, wrong) for path, page in pages.items() for wrong in _of(path, page, pages))
    return [f"{path.relative_to(site)}: {wrong}" for path, wrong in found]


def external(site: Path) -> list[str]:
    """Return every address outside that some page links to, in order."""
    found = {link for path in site.rglob("*.html") for link in Page(path).links}
    return sorted(link for link in found if urlsplit(link).scheme in ("http", "https"))


def _of(path: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    for link in sorted(page.links | page.loads):
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            if link in page.loads and parts.scheme != "data":
                yield f"loads {link}"
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target /= "index.html"
        if target not in pages and not target.exists():
            yield f"no such page: {link}"
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
            yield f"no such anchor: {link}"
