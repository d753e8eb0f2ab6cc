"""Frontmatter: the YAML between two lines of `---` at the head of a text, as a JSON object.

The contract: the values are those of the core schema of YAML 1.2, the only ones on which implementations agree: `no` is
a text, `2026-01-01` is a text, `010` is ten. What means something else to a reader of YAML 1.1, what JSON cannot hold
(a number without end, a key that is not text), anchors, aliases, tags and repeated keys are a ValueError with the line.
So are more than 16 KiB, and more than 32 levels: no text makes this slow. PyYAML is loaded at the first use.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

from mcp_ref.errors import LocalProtocolError

MAX_FRONTMATTER: Final = 16 * 1024
"""Bytes of one frontmatter."""
MAX_LEVELS: Final = 32

_FENCED = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n(.*?)(?<=\n)---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
# The core schema: tag, what the plain scalar looks like, and with which characters it may begin.
_CORE = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
     list("-+.0123456789")),
)  # fmt: skip


def read_frontmatter(text: bytes) -> dict[str, Any]:
    """Return the frontmatter of a text, which begins with it.

    Raises: ValueError: it has none, or one that is not as the module says; LocalProtocolError: PyYAML is not there.
    """
    # One byte more than may be, and the two lines around it, tell what is too long from what never ends.
    found = _FENCED.match(text[: MAX_FRONTMATTER + 16])
    if found is None or len(found[1]) > MAX_FRONTMATTER:
        long = "" if len(text) <= MAX_FRONTMATTER else f" within {MAX_FRONTMATTER // 1024} KiB"
        raise ValueError(f"it does not begin with YAML frontmatter between two lines of ---{long}")
    read, yaml = _reader()
    try:
        value = read(found[1].decode("utf-8"))
    except yaml.MarkedYAMLError as problem:
        at = problem.problem_mark or problem.context_mark
        line = "" if at is None else f" in line {at.line + 2}"
        raise ValueError(f"its frontmatter is not YAML that everybody reads alike{line}: {problem.problem}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as problem:
        raise ValueError(f"its frontmatter is not YAML that everybody reads alike: {problem}") from None
    if not isinstance(value, dict):
        raise ValueError("its frontmatter is not an object of YAML")
    return value


def read_otherwise(text: bytes) -> Any:
    """Return the same frontmatter as a reader of YAML 1.1 takes it; None where such a reader fails."""
    found = _FENCED.match(text)
    _, yaml = _reader()
    try:
        return yaml.safe_load(found[1].decode("utf-8")) if found is not None else None
    except (yaml.YAMLError, ValueError, OverflowError):
        return None


@cache
def _reader() -> tuple[Any, Any]:
    """Return what reads YAML as this module says, and the package `yaml`."""
    try:
        import yaml
    except ImportError:
        raise LocalProtocolError("reading a SKILL.md needs PyYAML: pip install 'mcp-ref[skills]'") from None

    class Core(yaml.SafeLoader):  # type: ignore[misc]
        yaml_implicit_resolvers: dict[str, list[Any]] = {}
        levels = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()
            tagged = getattr(event, "tag", None) is not None
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None or tagged:
                raise yaml.MarkedYAMLError(None, None, "it has an alias, an anchor or a tag", event.start_mark)
            if self.levels >= MAX_LEVELS:
                raise yaml.MarkedYAMLError(None, None, f"more than {MAX_LEVELS} levels", event.start_mark)
            self.levels += 1
            try:
                return super().compose_node(parent, index)
            finally:
                self.levels -= 1

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = set()
            for key, _ in node.value:
                if key.tag != "tag:yaml.org,2002:str":
                    raise yaml.MarkedYAMLError(None, None, "a key that is not a text: quote it", key.start_mark)
                if key.value in keys:
                    raise yaml.MarkedYAMLError(None, None, f"the key {key.value!r} occurs twice", key.start_mark)
                keys.add(key.value)
            return super().construct_mapping(node, deep)

        def construct_number(self, node: Any) -> Any:
            text: str = node.value.lower()
            if node.tag.endswith("int"):
                value: float = int(text, 0 if text[:2] in ("0o", "0x") else 10)
            else:
                value = float(text if text[-1].isdigit() or text[-1] == "." else "inf")
            # Beyond 2**53 some readers of JSON round.
            if not abs(value) <= 2**53:
                raise yaml.MarkedYAMLError(None, None, f"JSON has no number {text}: quote it", node.start_mark)
            return value

    for name, looks, begins in _CORE:
        Core.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(rf"(?:{looks})\Z"), begins)
    for name in ("int", "float"):
        Core.add_constructor(f"tag:yaml.org,2002:{name}", Core.construct_number)
    return (lambda text: yaml.load(text, Core)), yaml
