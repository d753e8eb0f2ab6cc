"""Lays the documents of the repository out as Sphinx reads them, beside pages that are made of data.

A document keeps its place, so that its links to others hold as they stand; README is the first page. A link to any
other file leads to a page of its source, one to a lesson or an exercise to the page that is made of it.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import course
import followed
import pictures
import recordings
import reference
import sentences
import sources

ROOT = sources.ROOT
DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [
        *ROOT.glob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "spec_notes").rglob("*.md"),
    ]
    if path.name != "README.zh.md"
)
_LINK = re.compile(r"(!?)\[((?:[^][]|\[[^]]*\])*)\]\(([^)\s#]*)(#[^)\s]*)?\)")
EVERY_PAGE = {*DOCUMENTS, "spec_notes/decisions/index.md"}
_FENCE = re.compile(r"^(```.*?^```$|~~~.*?^~~~$)", re.M | re.S)


def outside_of_code(text: str, change: Callable[[str], str]) -> str:
    """Change what stands between the fenced blocks of a document."""
    return "".join(part if number % 2 else change(part) for number, part in enumerate(_FENCE.split(text)))


def target_of(document: str, link: str) -> str:
    """The path within the repository that a link of a document means; empty for one to itself or to elsewhere."""
    if not link or re.match(r"[a-z]+:", link):
        return ""
    return posixpath.normpath(posixpath.join(posixpath.dirname(document), link))


@cache
def linked() -> frozenset[str]:
    """The files, other than documents, that some document links to."""
    found = set()
    for document in DOCUMENTS:
        for link in _LINK.finditer((ROOT / document).read_text("utf-8")):
            target = target_of(document, link[3])
            if target and (ROOT / target).is_file() and not target.endswith((".md", ".png")) and not page_for(target):
                found.add(target)
    return frozenset(found)


def page_for(file: str) -> str:
    """The document that stands for a file or a folder on the site; empty if it has only its source."""
    if lesson := re.fullmatch(r"examples/(\d\d_\w+)\.py", file):
        return f"lessons/{lesson[1]}.md"
    if exercise := re.fullmatch(r"examples/exercises/(\d\d_\w+)\.py", file):
        return f"exercises/{exercise[1]}.md"
    if (ROOT / file).is_dir():
        return next(
            (f"{file}/{name}" for name in ("README.md", "index.md") if f"{file}/{name}" in DOCUMENTS),
            f"{file}/index.md",
        )
    return {"README.md": "index.md", "README.zh.md": "index.md"}.get(file, file if file.endswith(".md") else "")


def relinked(document: str, text: str, language: str = "en") -> str:
    """A document with links to where things are on the site."""
    here = posixpath.dirname(page_for(document))

    def link(found: re.Match[str]) -> str:
        image, words, file, anchor = found.groups(default="")
        target = target_of(document, file)
        if not target:
            return found[0]
        if image:
            return f"![{words}]({posixpath.relpath(target, here or '.')})"
        page = page_for(target)
        if target == "README.zh.md":
            return f"[{words}](page:zh/index.md)"
        if (ROOT / target).is_dir() and page not in EVERY_PAGE:
            return words
        if not page:
            return f"[{words}](source:{target}{anchor})"
        if language != "en" and (page not in CHINESE or target == "README.md"):
            return f"[{words}](page:{page}{anchor})"
        return f"[{words}]({posixpath.relpath(page, here or '.')}{anchor})"

    return outside_of_code(text, lambda part: _LINK.sub(link, part))


ORPHAN = "---\norphan: true\n---\n"
"""Before a page that its list has and the sidebar does not, which would be too long."""
TREES = {
    "Begin": [
        "spec_notes/path",
        "spec_notes/questions/README",
        "spec_notes/glossary",
        "spec_notes/class90",
        "spec_notes/slides",
    ],
    "Learn": ["examples/README", "examples/exercises/README", "walks"],
    "The protocol": [
        "spec_notes/README",
        "spec_notes/methods",
        "spec_notes/revisions",
        "differences",
        "spec_notes/where",
    ],
    "Use": ["examples/guides/README", "examples/recipes/README", "names"],
    "The house": ["spec_notes/architecture", "CONTRIBUTING", "CHANGELOG"],
}
"""The parts of the first page's tree; what belongs below a page of these is in BELOW."""
BELOW = {
    "walks.md": ["walks/*"],
    "spec_notes/questions/README.md": ["spec_notes/questions/*"],
    "examples/guides/README.md": ["examples/guides/*"],
    "spec_notes/README.md": [
        "spec_notes/index", "spec_notes/basic/**", "spec_notes/client/*", "spec_notes/server/**", "spec_notes/schema",
        "spec_notes/deprecated", "spec_notes/extensions", "spec_notes/extensions/*",
    ],
    "spec_notes/architecture.md": [
        "spec_notes/walkthrough", "spec_notes/walkthrough_stateless", "spec_notes/threads", "spec_notes/limits",
        "spec_notes/scaling", "spec_notes/conformance", "spec_notes/pages", "spec_notes/decisions/index",
    ],
    "spec_notes/decisions/index.md": ["spec_notes/decisions/[0-9]*"],
}  # fmt: skip
"""What the tree has below a page, as patterns."""


def tree(entries: list[str], caption: str = "") -> str:
    """A tree that the sidebar shows and the page does not."""
    head = f":caption: {caption}\n" if caption else ""
    return f"\n```{{toctree}}\n:hidden:\n{head}\n" + "\n".join(f"/{each}" for each in entries) + "\n```\n"


def matching(pages: Iterable[str], patterns: list[str]) -> list[str]:
    """The pages that patterns mean, in their order, each once."""
    names = sorted(page.removesuffix(".md") for page in pages)
    return list(dict.fromkeys(name for pattern in patterns for name in fnmatch.filter(names, pattern)))


def lay(source: Path, language: str, site: Path) -> None:
    """Write everything that Sphinx reads for a language."""
    pages = english(site) if language == "en" else chinese()
    for name, text in pages.items():
        out = source / name
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, "utf-8")
    for picture in (ROOT / "examples").rglob("*.png"):
        out = source / picture.relative_to(ROOT)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_bytes(picture.read_bytes())


def english(site: Path) -> dict[str, str]:
    """Each page of the English site by its name; the pages of files are written at once."""
    pages = {
        "spec_notes/decisions/index.md": "# Decisions\n\nDecisions that concern the whole, one page each.\n",
        **{f"exercises/{path.stem}.md": ORPHAN + course.exercise(path, chinese=False) for path in course.EXERCISES},
    }
    workers = ProcessPoolExecutor()
    sources.write(workers, site)
    for name in pictures.PICTURES:
        recordings.begin(workers, f"picture:{name}", pictures.drawn, name)
    for path in course.LESSONS:
        recordings.begin(workers, f"lesson:{path.stem}", course.picture_of, path)
    for walk in followed.WALKS:
        recordings.begin(workers, f"walk:{followed.name_of(walk)}", followed.record, walk)
    workers.shutdown(wait=False)
    pages |= {
        f"lessons/{path.stem}.md": ORPHAN + course.lesson(path, "../examples/README.md") for path in course.LESSONS
    }
    pages |= {page_for(each): relinked(each, prepared(each)) for each in DOCUMENTS}
    pages |= {"names.md": reference.names(), "differences.md": reference.differences()}
    pages["walks.md"] = followed.index()
    pages |= {f"walks/{followed.name_of(walk)}.md": followed.page(walk) for walk in followed.WALKS}
    pages["index.md"] += "".join(tree(entries, caption) for caption, entries in TREES.items())
    for page, entries in BELOW.items():
        pages[page] += tree([each for each in matching(pages, entries) if f"{each}.md" != page])
    return pages


def prepared(document: str) -> str:
    """A document with its pictures; the tables of a note, and the sentences of a question, with their code."""
    text = pictures.with_pictures((ROOT / document).read_text("utf-8"))
    if (ROOT / document).with_suffix(".jsonl").exists():
        text = "---\nhide-toc: true\n---\n" + sentences.with_directives(document, text)
    return question(text) if "/questions/" in document else text


def question(text: str) -> str:
    """The page of a question: its sentences with their code, its answer at a click."""

    def rows(found: re.Match[str]) -> str:
        return "```{sentences}\n" + "\n".join(found[1].split()) + "\n```\n"

    text = re.sub(r"<!-- sentences: (.*?) -->.*?<!-- end -->\n", rows, text, flags=re.S)
    return re.sub(
        r"<details><summary>(.*?)</summary>\n\n(.*?)\n\n</details>", r"```{fold} \1\n\2\n```", text, flags=re.S
    )


TRANSLATED = ["spec_notes/path.md", *(each for each in DOCUMENTS if each.startswith("spec_notes/questions/"))]
"""The documents that the catalogues under locale translate, each as a whole."""
CHINESE = {
    "index.md",
    "exercises.md",
    "lessons.md",
    *TRANSLATED,
    *(f"lessons/{path.stem}.md" for path in course.LESSONS),
    *(f"exercises/{path.stem}.md" for path in course.EXERCISES),
}
"""The pages of the Chinese site."""


def chinese() -> dict[str, str]:
    """Each page of the Chinese site by its name: what is in Chinese as a whole. The other pages are English."""
    exercises = {f"exercises/{path.stem}.md": course.exercise(path, chinese=True) for path in course.EXERCISES}
    first = relinked("README.zh.md", (ROOT / "README.zh.md").read_text("utf-8"), "zh_CN")
    pages = {
        "index.md": first + tree(["spec_notes/path", "spec_notes/questions/README", "lessons", "exercises"]),
        "lessons.md": course.LESSONS_IN_CHINESE + tree([f"lessons/{path.stem}" for path in course.LESSONS]),
        "exercises.md": course.EXERCISES_IN_CHINESE
        + course.listed_in_chinese()
        + tree([each.removesuffix(".md") for each in exercises]),
        **exercises,
    }
    for path in course.LESSONS:
        pages[f"lessons/{path.stem}.md"] = relinked(
            f"lessons/{path.stem}.md", course.lesson(path, "../lessons.md"), "zh_CN"
        )
    for document in TRANSLATED:
        pages[document] = relinked(document, prepared(document), "zh_CN")
    questions = [each.removesuffix(".md") for each in TRANSLATED if "/questions/" in each and "README" not in each]
    pages["spec_notes/questions/README.md"] += tree(questions)
    return pages
