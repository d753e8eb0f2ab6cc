"""Whether what the pages of a built site link to is there, file and anchor; and that they load nothing from outside."""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors that it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.loads, self.anchors = list[str](), list[str](), {"", "top"}
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note one element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(given["href"])
        elif "src" in given:
            self.loads.append(given["src"])


def broken(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere, and for each thing that is loaded from outside."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    return [
        f"{path.relative_to(site.resolve())}: {wrong}"
        for path, page in pages.items()
        for wrong in _of(path, page, pages)
    ]


def _of(path: Path, page: Page, pages: dict[Path, Page]) -> Iterator[str]:
    for link in page.links + page.loads:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            if link in page.loads and parts.scheme != "data":
                yield f"loads {link}"
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if target.is_dir():
            target /= "index.html"
        if not target.exists():
            yield f"no such page: {link}"
        elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
            yield f"no such anchor: {link}"
