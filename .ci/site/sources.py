"""The code of the repository as HTML: a page for each file that something links to, and the lines of one function."""

from __future__ import annotations

import ast
import html
import re
from concurrent.futures import Executor
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

from docutils import nodes
from pygments.lexers import BashLexer, JsonLexer, PythonLexer, TextLexer
from pygments.token import STANDARD_TYPES

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "mcp_ref"
SCHEMES = ("source", "page")
"""A link `source:FILE` leads to the page of that file, and `page:DOCUMENT` to a page of the English site."""

_SHOWN = re.compile(r"k|s|c|m|n[bfcd]|bp|ow")
"""The classes of Pygments that a theme colours; plain names need no element of their own."""
_LEXERS = {".py": PythonLexer, ".jsonl": JsonLexer, ".ipynb": JsonLexer, ".json": JsonLexer, ".sh": BashLexer}


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{file} - mcp_ref</title>
<link rel="stylesheet" href="{up}_static/pygments.css"><link rel="stylesheet" href="{up}_static/site.css"></head>
<body class="source"><script>document.body.dataset.theme = localStorage.getItem("theme") || "auto";</script>
<nav><a href="{up}index.html">mcp_ref</a></nav>
<main><h1>{file}</h1><div class="highlight code whole" tabindex="0"><pre>{body}</pre></div></main></body></html>
"""


class Place(NamedTuple):
    """Where something is defined: its first and its last line."""

    file: str
    name: str
    first: int
    last: int


def page_of(file: str) -> str:
    """The name of the page of a file."""
    return f"source/{file}"


def _lines(text: str, suffix: str) -> list[str]:
    out, line = list[str](), ""
    for kind, value in _LEXERS.get(suffix, TextLexer)(stripnl=False).get_tokens(text):
        css = STANDARD_TYPES.get(kind, "")
        for number, part in enumerate(value.split("\n")):
            if number:
                out.append(line)
                line = ""
            escaped = html.escape(part, quote=False)
            line += f'<span class="{css}">{escaped}</span>' if part.strip() and _SHOWN.match(css) else escaped
    return out


@cache
def lines_of(file: str) -> list[str]:
    """Each line of a file as HTML."""
    return _HIGHLIGHTED.get(file) or _lines((ROOT / file).read_text("utf-8"), Path(file).suffix)


_HIGHLIGHTED: dict[str, list[str]] = {}


def write(workers: Executor, site: Path) -> None:
    """Write a page for each file that may be linked to; the lines are kept for the other pages."""
    _HIGHLIGHTED.update(zip(files(), workers.map(_written, files(), repeat(site), chunksize=8), strict=True))


def _written(file: str, site: Path) -> list[str]:
    """Write the page of a file, plainly, with its code and the way back; the lines of the file."""
    out = site / f"{page_of(file)}.html"
    out.parent.mkdir(parents=True, exist_ok=True)
    up = "../" * (len(Path(page_of(file)).parts) - 1)
    lines = lines_of(file)
    body = "".join(f'<span class="line" id="L{n}" data-n="{n}">{line}\n</span>' for n, line in enumerate(lines, 1))
    out.write_text(_PAGE.format(file=file, up=up, body=body), "utf-8")
    return lines


@cache
def places(file: str) -> list[Place]:
    """Each function, class, table and attribute of a file, in order, what is around before what is within."""
    found = list[Place]()

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = child.name if isinstance(child, ast.FunctionDef | ast.ClassDef) else ""
            inside = f"{prefix}{name}." if name else prefix
            if isinstance(child, ast.Assign | ast.AnnAssign):
                name = ast.unparse(child.targets[0] if isinstance(child, ast.Assign) else child.target)
            if name:
                first = min([child.lineno, *(each.lineno for each in getattr(child, "decorator_list", ()))])
                found.append(Place(file, prefix + name, first, child.end_lineno or first))
            walk(child, inside)

    walk(ast.parse((ROOT / file).read_text("utf-8")), "")
    return found


@cache
def definitions(file: str) -> dict[str, Place]:
    """The places of a file by name; of several with one name the last, which is the one that runs."""
    return {place.name: place for place in places(file)}


def place_at(file: str, line: int) -> Place:
    """The innermost function or class that begins at a line, or has it."""
    return [place for place in places(file) if place.first <= line <= place.last][-1]


@cache
def code(place: Place, lit: frozenset[int] = frozenset(), ran: frozenset[int] = frozenset()) -> str:
    """The lines of a place as HTML, some of them lit, and others tinted because they ran."""
    if place.file in files():
        lines = lines_of(place.file)[place.first - 1 : place.last]
    else:
        # Of a test only this is shown: the rest of its file need not be read.
        text = (ROOT / place.file).read_text("utf-8").splitlines()
        lines = _lines("\n".join(text[place.first - 1 : place.last]), ".py")
    common = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
    shown = []
    for number, line in enumerate(lines, place.first):
        kinds = " ".join(name for name, where in (("lit", lit), ("ran", ran)) if number in where)
        shown.append(f'<span class="line {kinds}" data-n="{number}">{line[common:]}\n</span>')
    return f'<div class="highlight code" tabindex="0"><pre>{"".join(shown)}</pre></div>'


def way_up(app: Any, docname: str) -> str:
    """The way from a page to the top of the English site, which has everything."""
    return "../" * (docname.count("/") + (app.config.language != "en"))


def _resolve(app: Any, doctree: nodes.document, docname: str) -> None:
    """Turn the links with our schemes into links to pages of the English site, from wherever they stand."""
    for reference in doctree.findall(nodes.reference):
        scheme, _, target = reference.get("refuri", "").partition(":")
        if scheme in SCHEMES:
            path, hash, anchor = target.partition("#")
            page = page_of(path) if scheme == "source" else path.removesuffix(".md")
            reference["refuri"] = f"{way_up(app, docname)}{page}.html{hash}{anchor}"


@cache
def files() -> list[str]:
    """The files that have a page: the package's, the examples', and what a document links to."""
    import gather

    own = [path.relative_to(ROOT).as_posix() for top in ("mcp_ref", "examples") for path in (ROOT / top).rglob("*.py")]
    return sorted({*(each for each in own if "lab/exercises" not in each), *gather.linked()})


def setup(app: Any) -> None:
    """Register the pages and the links to them."""
    app.connect("doctree-resolved", _resolve)
