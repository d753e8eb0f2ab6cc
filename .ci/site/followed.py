"""`{followed} FILE`: a call, followed through both programs, function by function, with the messages as they pass.

The file is what `python -m tests.walk WHAT HOW REVISION FILE` has written, when the site was made.
"""

from __future__ import annotations

import ast
import html
import json
import subprocess
import sys
from functools import cache
from typing import Any

import recordings
import sources
from docutils import nodes
from folds import details, markup, summary
from sentences import parsed, shown
from sphinx.util.docutils import SphinxDirective

from tests.test_walkthrough import first_sentence
from tests.walk import SETTLING, WALKS

ROOT = sources.ROOT
RECORDED = ROOT / "build" / "site-walks"
TITLES = {
    "call": "A call of a tool",
    "elicit": "A tool that asks the user",
    "subscribe": "A subscription, and a change",
}
TRANSPORTS = {"stdio": "stdio", "http": "Streamable HTTP"}


def name_of(walk: tuple[str, str, str]) -> str:
    """The name of the page of a walk."""
    return "_".join(walk)


def record(walk: tuple[str, str, str]) -> None:
    """Let the conversation take place, traced."""
    RECORDED.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "tests.walk", *walk, str(RECORDED / f"{name_of(walk)}.json")]
    subprocess.run(command, cwd=ROOT, check=True, timeout=100)


def title(walk: tuple[str, str, str]) -> str:
    """Its heading."""
    what, how, revision = walk
    return f"{TITLES[what]}, over {TRANSPORTS[how]} in {revision}"


def page(walk: tuple[str, str, str]) -> str:
    """The page of a walk, as Markdown."""
    return f"---\nhide-toc: true\n---\n# {title(walk)}\n\n```{{followed}} {name_of(walk)}\n```\n"


def index() -> str:
    """The page that lists them, as Markdown."""
    listed = "\n".join(f"- [{title(walk)}](walks/{name_of(walk)}.md)" for walk in WALKS)
    return (
        "# A call, followed\n\nEach page follows one thing that a client does through both programs: the messages as "
        "they pass, and between them the functions that run, in the order of their first call, with the lines that "
        "ran, what each was given and what it returned. They were recorded when this site was made. Arrow keys step "
        f"from one to the next.\n\n{listed}\n"
    )


@cache
def says(file: str) -> dict[int, str]:
    """The first sentence of each docstring of a file, by the line of its function; `__init__` has that of its class."""
    found = dict[int, str]()

    def walk(node: ast.AST, holder: str) -> None:
        for child in ast.iter_child_nodes(node):
            own = holder
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = isinstance(node, ast.FunctionDef) or child.name == "__init__"
                own = ast.get_docstring(child) or (holder if inner else "")
                found[min([child.lineno, *(each.lineno for each in child.decorator_list)])] = first_sentence(own)
            walk(child, own)

    walk(ast.parse((ROOT / file).read_text("utf-8")), "")
    return found


def steps_of(walk: dict[str, Any]) -> list[dict[str, Any]]:
    """Messages, and functions at their first call, by time; what a function ran later is added to its step."""
    steps: list[dict[str, Any]] = list(walk["messages"])
    for side in ("client", "server"):
        # A comprehension belongs to the function that holds it, and has its name.
        first: dict[tuple[str, str], dict[str, Any]] = {}
        by_number = {call["n"]: call for call in walk[side]}
        for call in walk[side]:
            if not walk["begun"] <= call["time"] <= walk["ended"] + SETTLING:
                continue
            step = first.get((call["file"], call["name"]))
            if step is None:
                step = first[call["file"], call["name"]] = {**call, "side": side, "times": 0, "stack": []}
                above = by_number.get(call["parent"])
                while above is not None:
                    step["stack"].insert(0, above["name"])
                    above = by_number.get(above["parent"])
            step["times"] += call["first"] == step["first"]
            step["lines"] = sorted({*step["lines"], *call["lines"]})
        steps += first.values()
    return sorted(steps, key=lambda step: float(step["time"]))


def is_main(step: dict[str, Any]) -> bool:
    """Whether a first reading stops here: at what the protocol is about, and not at a helper."""
    return "message" in step or not (step["file"].startswith("kit/") or step["name"].split(".")[-1].startswith("_"))


@cache
def recorded_steps(name: str) -> list[dict[str, Any]]:
    """The steps of a walk; waits until it has been recorded."""
    recordings.result(f"walk:{name}")
    return steps_of(json.loads((RECORDED / f"{name}.json").read_text("utf-8")))


@cache
def at_work() -> dict[tuple[str, int], tuple[str, int]]:
    """For each function of a walk, by its file and line, the first page that shows it at work, and the step there."""
    found: dict[tuple[str, int], tuple[str, int]] = {}
    for walk in WALKS:
        for number, step in enumerate(recorded_steps(name_of(walk)), 1):
            if "file" in step:
                found.setdefault((f"mcp_ref/{step['file']}", step["first"]), (name_of(walk), number))
    return found


class Followed(SphinxDirective):
    """See the head."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Make a part for each step."""
        listed = recorded_steps(self.arguments[0])
        functions = [step for step in listed if "message" not in step]
        lead = (
            f"{len(functions)} functions in {len({step['file'] for step in functions})} files, on both sides, "
            f"{sum(map(is_main, functions))} of them on the main path; and {len(listed) - len(functions)} messages. "
            "What the client does stands on the left, what the server does on the right."
        )
        return [nodes.paragraph("", lead), *(self.part(number, step) for number, step in enumerate(listed, 1))]

    def part(self, number: int, step: dict[str, Any]) -> nodes.Node:
        """One step: a message, or a function."""
        side = step.get("sender") or step["side"]
        path = "main path|all functions" if is_main(step) else "all functions"
        kinds = ["row", "wide", side, *(["message"] if "message" in step else [])]
        made = details(ids=[f"step-{number}"], classes=kinds, given={"name": "step", "data-path": path})
        beside = nodes.container(classes=["beside"])
        if "message" in step:
            arrow = "→ " if side == "client" else "← "
            made += summary("", "", nodes.Text(f"{arrow}{step['head'].partition(', after')[0]}"))
            beside += nodes.bullet_list("", *(nodes.list_item("", nodes.paragraph("", line)) for line in step["lines"]))
            text = json.dumps(step["message"], indent=2, ensure_ascii=False)
            beside += nodes.literal_block(text, text, language="json")
        else:
            file = f"mcp_ref/{step['file']}"
            line = summary("", "", nodes.literal(step["name"], step["name"]), nodes.Text(" "))
            line += parsed(says(file).get(step["first"], ""))
            made += line
            beside += markup(html=self.facts(step))
            beside += shown(
                sources.place_at(file, step["first"]), set(), self.env.docname, self.env.app, set(step["lines"])
            )
        made += beside
        return made

    def facts(self, step: dict[str, Any]) -> str:
        """What the function was called by, was given and gave, as HTML."""
        stack = " › ".join(step["stack"]) or "the program, or a thread that begins here"
        rows = [("called by", stack), ("thread", step["thread"]), *step["given"], ("returned", step["gave"])]
        rows += [("called", f"{step['times']} times")] if step["times"] > 1 else []
        cells = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>" for name, value in rows if value
        )
        return f'<table class="facts">{cells}</table>'


def setup(app: Any) -> None:
    """Register the directive."""
    app.add_directive("followed", Followed)
