"""A form at a terminal: what a user answers to the questions of a server, by `--answer` or line by line.

Spec:      client/elicitation#form-mode-elicitation-requests, #security-considerations
Not here:  the command line around it (lab/cli/commands)
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from mcp_ref import JsonObject, accept, cancel, decline
from mcp_ref.facts import content_problem, escaped
from mcp_ref.lab.cli import render

_WORDS: Final = {"yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


class Form:
    """Answers the forms of a server; what `Client(elicit=...)` is given.

    Args:
        given: values by the names of fields, as text.
        asking: whether somebody is there to be asked for the rest; else a form that needs more is declined.
        read: what shows a prompt and returns a line, or raises EOFError; None: standard input is read.

    Threads: any.
    """

    def __init__(self, given: Mapping[str, str], *, asking: bool, read: Callable[[str], str] | None = None) -> None:
        self._given, self._asking, self._read = given, asking, read

    def __call__(self, message: str, schema: JsonObject, ctx: Any) -> Any:
        """Return the user's answer to the server that `ctx` names. Blocks until a line was read for each field."""
        # MUST: make clear which server asks (client/elicitation#user-interaction-model)
        render.note(f"{ctx.server_info.get('name', 'the server')} asks: {message}")
        required = schema.get("required", [])
        content: JsonObject = {}
        for name, field in schema.get("properties", {}).items():
            try:
                value = self._value(name, field, name in required)
            except EOFError:
                return cancel()
            if value is not None:
                content[name] = value
            elif name in required and "default" not in field:
                render.note(f"not answered: {name} is missing; give --answer {name}=...")
                return decline()
        return accept(content)

    def changed(self, schema: JsonObject, content: JsonObject, name: str, text: str) -> JsonObject:
        """Return the content with another value for one field, or without it if the text is empty; a mistake is
        shown.
        """
        field = schema.get("properties", {}).get(name)
        if field is None or (not text and name in schema.get("required", [])):
            render.note(f"{escaped(name)} must have a value" if field else f"the form has no field {escaped(name)}")
            return content
        value = Form({name: text}, asking=False)._value(name, field, False)
        problem = None if value is None else content_problem({"properties": {name: field}}, {name: value})
        if problem is not None:
            render.note(problem)
            return content
        return {key: kept for key, kept in {**content, name: value}.items() if kept is not None}

    def _value(self, name: str, field: JsonObject, required: bool) -> Any:
        """Return the value of a field; None if it has none."""
        text = self._given.get(name)
        while True:
            if text is None and self._asking:
                text = self._ask(name, field, required)
            if not text:
                return None
            value: Any = text
            match field.get("type"):
                case "array":
                    value = [part.strip() for part in text.split(",")]
                case "boolean":
                    value = _WORDS.get(text.lower(), text)
                case "integer" | "number":
                    with suppress(ValueError):
                        value = json.loads(text)
            problem = content_problem({"properties": {name: field}}, {name: value})
            if problem is None or not self._asking:
                return value
            render.note(problem)
            text = None

    def _ask(self, name: str, field: JsonObject, required: bool) -> str:
        """Return a line from the terminal; EOFError at its end. Not by `input`, which holds a lock that an exit would
        need.
        """
        inner = field.get("items", field)
        choices = inner.get("enum") or [
            option.get("const") for option in inner.get("oneOf") or inner.get("anyOf") or ()
        ]
        choices = ["yes", "no"] if field.get("type") == "boolean" else choices
        left_out = f"(empty: {field['default']})" if "default" in field else "" if required else "(may stay empty)"
        about = [str(field.get("title", name)), f"[{', '.join(map(str, choices))}]" if choices else "", left_out]
        prompt = f"{escaped(' '.join(filter(None, about)))}:"
        if self._read is not None:
            return self._read(f"{prompt} ")
        render.note(prompt)
        line = os.read(0, 65536)
        if not line:
            raise EOFError
        return line.decode("utf-8", "replace").strip()


terminal_form = Form({}, asking=True)
"""For `Client(elicit=terminal_form)`: asks the user at this terminal, and says which server asks."""
