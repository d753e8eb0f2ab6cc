"""Tests of what the documents name is there: files, and members of classes; and the modules that docstrings point
to.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
GUIDES = sorted((ROOT / "examples" / "guides").glob("*.md"))
DOCUMENTS = [
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")),
    *GUIDES,
    *sorted((ROOT / "spec_notes").rglob("*.md")),
]
LISTS = [ROOT / "examples" / "README.md", ROOT / "examples" / "recipes" / "README.md"]
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s]+)\)")
FILE = re.compile(r"(?<![\w./:-])((?:[\w.-]+/)+[\w-]+\.(?:py|md|jsonl|conf|toml))(?![\w/])")
MEMBER = re.compile(r"`([A-Z]\w+)\.(\w+)")
MODULE = re.compile(
    r"[(,;] ?((?:basic|server|client|extensions|wire|connection|pages|host|tasks|recording|kit|lab)/[a-z_/]+)(?=[),;])"
)
# What is made from the code has tests of its own.
MADE = re.compile(r"<!-- ([\w ]+): begin -->.*?<!-- \1: end -->", re.DOTALL)
# Pages of the specification without a note.
OTHER_PAGES = {"basic/security_best_practices", "server/index"}
# Where a path may begin that a document shortens.
ABOVE = (".", "mcp_ref", "mcp_ref/pages", "mcp_ref/pages/basic/transports", "tests", "spec_notes", "examples")


def members() -> dict[str, set[str]]:
    """By the names of classes: whatever stands in their bodies under a name, and in those of their bases."""
    found: dict[str, set[str]] = {}
    bases: dict[str, list[str]] = {}
    for path in (ROOT / "mcp_ref").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                names = found.setdefault(node.name, set())
                for each in ast.walk(node):
                    names.add(
                        str(getattr(each, "attr", None) or getattr(each, "name", None) or getattr(each, "id", ""))
                    )
                bases[node.name] = [base.id for base in node.bases if isinstance(base, ast.Name)]
    for name, above in bases.items():
        found[name] |= {each for base in above for each in found.get(base, ())}
    return found


def headings(text: str) -> set[str]:
    """The names that a link to a heading of a document may have: small letters, and dashes for spaces."""
    found = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in found}


def test_links_lead_to_a_file_and_a_heading() -> None:
    lost = []
    documents = [*DOCUMENTS, *LISTS]
    links = ((each, link) for each in documents for link in LINK.findall(CODE.sub("", each.read_text("utf-8"))))
    for document, link in ((each, link) for each, link in links if not link.startswith("https://")):
        place, _, heading = link.partition("#")
        target = (document.parent / place).resolve() if place else document
        if not target.exists() or heading and heading not in headings(target.read_text("utf-8")):
            lost.append(f"{document}: {link}")
    assert lost == []


def test_every_guide_is_in_the_list_of_guides() -> None:
    listed = set(LINK.findall((ROOT / "examples" / "guides" / "README.md").read_text("utf-8")))
    assert {path.name for path in GUIDES} - {"README.md"} <= listed


def test_the_files_that_a_document_names_exist() -> None:
    missing = set()
    for document in DOCUMENTS:
        text = re.sub(r"^```.*?^```", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
        places = [*(ROOT / above for above in ABOVE), document.parent]
        missing |= {
            (document, name) for name in FILE.findall(text) if not any((place / name).exists() for place in places)
        }
    assert missing == set()


def test_the_members_of_classes_that_documents_name_exist() -> None:
    classes = members()
    missing = {
        f"{document.relative_to(ROOT)}: {name}.{member}"
        for document in DOCUMENTS
        if document.name != "where.md"
        for name, member in MEMBER.findall(MADE.sub("", document.read_text("utf-8")))
        if not name.isupper() and member not in classes.get(name, ())
    }
    assert missing == set()


def test_the_modules_that_docstrings_name_exist() -> None:
    """As in `Not here:  the command line around it (lab/cli/commands)`; a page of the specification has a note."""
    pages = {
        page
        for note in DOCUMENTS
        for page in re.findall(r"[\w/-]+", note.read_text("utf-8").partition("Pages:")[2][:600])
    }
    missing, pages = set(), pages | OTHER_PAGES
    for path in (ROOT / "mcp_ref").rglob("*.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        for name in MODULE.findall(docstring):
            places = [ROOT / above / name.rstrip("/") for above in ("mcp_ref", "mcp_ref/pages")]
            there = any(each.is_dir() or each.with_suffix(".py").exists() for each in places)
            if not there and name not in pages:
                missing.add(f"{path.relative_to(ROOT)}: {name}")
    assert missing == set()
