"""The server that the official conformance suite is run against: `python tests/conformance/server.py --port 8000`.

It offers what the suite's scenarios ask for, by the public API alone, and in both eras at once: one process, one URL,
the same handlers. What only one era is asked for is there in the other one too.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import threading
from typing import Annotated, Any

from mcp_ref import (
    Context,
    InvalidParams,
    RedisBus,
    Server,
    Skills,
    SqliteTasks,
    StateKeys,
    TaskRule,
    Tasks,
    ToolError,
    audio,
    image,
    text,
)
from mcp_ref.pages.basic.mrtr import elicitation_form, input_required
from mcp_ref.pages.server.prompts import user
from mcp_ref.wire.content import ContentBlock

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")

# What several processes share, where there are several.
keys, redis, tasks = (os.environ.get(f"CONFORMANCE_{what}") for what in ("KEYS", "REDIS", "TASKS"))
skills = Skills()
skills.add(
    "pdf-processing",
    {"SKILL.md": "Choose a template.\n", "templates/invoice.md": "# Invoice\n", "templates/regional/eu.md": "# EU\n"},
    description="Extract, fill, and assemble PDF documents",
)
skills.add("acme/billing/refunds", {"SKILL.md": "Refund it.\n"}, description="Process refunds as the company does")
server = Server(
    "mcp-ref-conformance",
    extensions=[skills],
    version="1.0.0",
    state_keys=None if keys is None else StateKeys.from_env("CONFORMANCE_KEYS"),
    bus=None if redis is None else RedisBus(redis),
    tasks=None if tasks is None else Tasks(store=SqliteTasks(tasks)),
)
pause = threading.Event()
"""Never set: waiting for it is how a tool takes its time."""


@server.tool("test_simple_text")
def simple_text() -> str:
    """Gives one text."""
    return "This is a simple text response for testing."


@server.tool("test_image_content")
def image_content() -> ContentBlock:
    """Gives one picture."""
    return image(PNG, "image/png")


@server.tool("test_audio_content")
def audio_content() -> ContentBlock:
    """Gives one sound."""
    return audio(WAV, "audio/wav")


@server.tool("test_embedded_resource")
def embedded_resource() -> ContentBlock:
    """Gives one embedded resource."""
    return _embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")


def _embedded(uri: str, mime_type: str, content: str) -> ContentBlock:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": content}}


@server.tool("test_multiple_content_types")
def multiple_content_types() -> list[ContentBlock]:
    """Gives a text, a picture and a resource."""
    data = json.dumps({"test": "data", "value": 123})
    return [
        text("Multiple content types test:"),
        image(PNG, "image/png"),
        _embedded("test://mixed-content-resource", "application/json", data),
    ]


@server.tool("test_error_handling")
def error_handling() -> str:
    """Fails."""
    raise ToolError("This tool intentionally returns an error for testing")


@server.tool("test_tool_with_progress")
def with_progress(ctx: Context) -> str:
    """Reports progress three times."""
    for done in (0, 50, 100):
        ctx.progress(done, 100)
        pause.wait(0.05)
    return "done"


@server.tool("test_tool_with_logging")
def with_logging(ctx: Context) -> str:
    """Logs three times."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        ctx.log("info", line)
        pause.wait(0.05)
    return "done"


@server.tool("test_sampling")
def sampling(prompt: str, ctx: Context) -> str:
    """Asks the client's model."""
    answer = ctx.sample(prompt, max_tokens=100)
    return f"LLM response: {json.dumps(answer['content'])}"


@server.tool("test_elicitation")
def elicitation(message: str, ctx: Context) -> str:
    """Asks the user for a name and an address."""
    form = {
        "username": {"type": "string", "description": "User's response"},
        "email": {"type": "string", "description": "User's email address"},
    }
    return f"User response: {json.dumps(ctx.elicit(message, form))}"


@server.tool("test_elicitation_sep1034_defaults")
def elicitation_defaults(ctx: Context) -> str:
    """Asks with a default for every kind of field."""
    form = {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    }
    return f"Elicitation completed: {json.dumps(ctx.elicit('Please check', form))}"


@server.tool("test_elicitation_sep1330_enums")
def elicitation_enums(ctx: Context) -> str:
    """Asks with every kind of choice."""
    single = ["option1", "option2", "option3"]
    titled = [{"const": f"value{n}", "title": f"{n}. Option"} for n in (1, 2, 3)]
    form = {
        "untitledSingle": {"type": "string", "enum": single},
        "titledSingle": {"type": "string", "oneOf": titled},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": single}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled}},
    }
    return f"Elicitation completed: {json.dumps(ctx.elicit('Please choose', form))}"


@server.tool("test_reconnection")
def reconnection(ctx: Context) -> str:
    """Closes its stream before the result, which the client then fetches."""
    ctx.close_stream(retry=500)
    pause.wait(0.1)
    return "Reconnected"


SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.tool("json_schema_2020_12_tool", input_schema=SCHEMA)
def json_schema(arguments: dict[str, Any]) -> str:
    """Has a schema that uses much of 2020-12."""
    return json.dumps(arguments)


@server.resource("test://static-text", name="Static text", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@server.resource("test://static-binary", name="Static picture", mime_type="image/png")
def static_binary() -> bytes:
    """A picture."""
    return PNG


@server.resource("test://watched-resource", name="Watched", mime_type="text/plain")
def watched() -> str:
    """A resource to subscribe to."""
    return "Watched resource content"


@server.resource("test://template/{id}/data", name="Template", mime_type="application/json")
def template(id: str) -> str:
    """A resource for every id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.prompt("test_simple_prompt")
def simple_prompt() -> str:
    """One message."""
    return "This is a simple prompt for testing."


@server.prompt("test_prompt_with_arguments")
def prompt_with_arguments(arg1: Annotated[str, "the first"], arg2: Annotated[str, "the second"]) -> str:
    """A message with two arguments in it."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion(prompt="test_prompt_with_arguments", argument="arg1")
def complete_arg1(value: str) -> list[str]:
    return [word for word in ("test1", "test2", "other") if word.startswith(value)]


@server.prompt("test_prompt_with_embedded_resource")
def prompt_with_resource(resourceUri: str) -> list[Any]:
    """A resource and a request."""
    return [
        user(_embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
        user("Please process the embedded resource above."),
    ]


@server.prompt("test_prompt_with_image")
def prompt_with_image() -> list[Any]:
    """A picture and a request."""
    return [user(image(PNG, "image/png")), user("Please analyze the image above.")]


# -- what only the scenarios of the stateless era ask for ---------------------------------------------------------


@server.tool("test_missing_capability")
def missing_capability(ctx: Context) -> str:
    """Needs a client that can sample."""
    ctx.require("sampling")
    return "The client can sample."


@server.tool("test_streaming_elicitation")
def streaming_elicitation(ctx: Context) -> str:
    """Asks in the middle of its work."""
    ctx.progress(1, 2)
    return f"Answer: {json.dumps(ctx.elicit('Please say something', {'word': {'type': 'string'}}))}"


@server.tool("test_logging_tool")
def logs_once(ctx: Context) -> str:
    """Logs once, to those who asked for it."""
    ctx.log("info", "test_logging_tool was called")
    return "done"


@server.tool("test_trigger_tool_change")
def trigger_tool_change() -> str:
    """Changes the list of tools, and changes it back."""
    server.tool("test_short_lived")(simple_text)
    server.remove_tool("test_short_lived")
    return "The list of tools has changed."


@server.tool("test_trigger_prompt_change")
def trigger_prompt_change() -> str:
    """Changes the list of prompts, and changes it back."""
    server.prompt("test_short_lived")(simple_prompt)
    server.remove_prompt("test_short_lived")
    return "The list of prompts has changed."


@server.tool("test_input_required_result_elicitation")
def asks_by_its_result(ctx: Context) -> Any:
    """Asks for a name, under a key that its caller knows beforehand."""
    answer = ctx.input_responses.get("user_name", {})
    name = (answer.get("content") or {}).get("name")
    if not isinstance(name, str):
        return input_required({"user_name": elicitation_form("What is your name?", {"name": {"type": "string"}})})
    return f"Hello, {name}!"


@server.tool("test_input_required_result_sampling")
def asks_the_model(ctx: Context) -> str:
    """Asks the client's model for a capital."""
    return f"The model says: {json.dumps(ctx.sample('What is the capital of France?', max_tokens=100)['content'])}"


@server.tool("test_input_required_result_list_roots")
def asks_for_roots(ctx: Context) -> str:
    """Asks for the client's folders."""
    return f"Roots: {json.dumps(ctx.roots())}"


@server.tool("test_input_required_result_request_state")
def keeps_a_state(ctx: Context) -> Any:
    """Asks by its result, and finds a state of its own when the answer comes."""
    if ctx.request_state != {"asked": True} or not ctx.input_responses:
        return input_required(
            {"confirm": elicitation_form("Please confirm", {"ok": {"type": "boolean"}})}, state={"asked": True}
        )
    return "state-ok"


@server.tool("test_input_required_result_multiple_inputs")
def asks_together(ctx: Context) -> str:
    """Asks three different things at once."""
    name, greeting, folders = ctx.ask_all(
        lambda: ctx.elicit("What is your name?", {"name": {"type": "string"}}),
        lambda: ctx.sample("Generate a greeting", max_tokens=50),
        ctx.roots,
    )
    return json.dumps([name, greeting["content"], folders])


@server.tool("test_input_required_result_multi_round")
def asks_in_turn(ctx: Context) -> str:
    """Asks one thing after the other."""
    name = ctx.elicit("Step 1: What is your name?", {"name": {"type": "string"}})
    colour = ctx.elicit("Step 2: What is your favorite color?", {"color": {"type": "string"}})
    return json.dumps([name, colour])


@server.tool("test_input_required_result_tampered_state")
def seals_its_state(ctx: Context) -> str:
    """Asks for a confirmation; what comes back is believed only if its seal is whole."""
    return f"Confirmed: {json.dumps(ctx.elicit('Please confirm', {'ok': {'type': 'boolean'}}))}"


@server.tool("test_input_required_result_capabilities")
def asks_what_can_be_asked(ctx: Context) -> str:
    """Asks for whatever this client can answer."""
    asks: list[Any] = []
    if "elicitation" in ctx.peer_capabilities:
        asks.append(lambda: ctx.elicit("What is your name?", {"name": {"type": "string"}}))
    if "sampling" in ctx.peer_capabilities:
        asks.append(lambda: ctx.sample("Generate a greeting", max_tokens=50))
    return json.dumps(ctx.ask_all(*asks))


REGION: dict[str, Any] = {
    "type": "object",
    "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
}


@server.tool("test_x_mcp_header", input_schema=REGION)
def in_a_region(arguments: dict[str, Any]) -> str:
    """Has an argument that HTTP repeats in a header."""
    return f"region: {arguments.get('region')}"


@server.prompt("test_input_required_result_prompt")
def prompt_that_asks(ctx: Context) -> str:
    """A message that needs to be told something first."""
    answer = ctx.elicit("What context should the prompt use?", {"context": {"type": "string"}})
    return f"Use this context: {json.dumps(answer)}"


application = server.wsgi()
"""The same under a WSGI server: `gunicorn tests.conformance.server:application`."""

# -- tasks ---------------------------------------------------------------------------------------------------------


@server.tool("greet")
def greet(name: str) -> str:
    """Is never a task."""
    return f"Hello, {name}!"


@server.tool("slow_compute", task="optional")
def slow_compute(ctx: Context, seconds: float = 1, label: str = "") -> str:
    """Takes its time, a little at a time."""
    for _ in range(int(seconds * 20)):
        ctx.check_cancelled()
        pause.wait(0.05)
    return f"Computed {label} in {seconds} s"


@server.tool("failing_job", task="required")
def failing_job() -> str:
    """Fails after a second."""
    pause.wait(1)
    raise ToolError("This job fails on purpose")


@server.tool("protocol_error_job", task="required")
def protocol_error_job() -> str:
    """Is refused after a moment."""
    pause.wait(0.2)
    raise InvalidParams("This job is refused on purpose")


@server.tool("confirm_delete", task="required")
def confirm_delete(filename: str, ctx: Context) -> str:
    """Asks before it deletes, in the task."""
    answer = ctx.elicit(f"Delete {filename}?", {"confirm": {"type": "boolean"}})
    return f"{'Deleted' if (answer.get('content') or {}).get('confirm') else 'Kept'} {filename}"


@server.tool("multi_input", task="required")
def multi_input(ctx: Context) -> str:
    """Asks two things at once, in the task."""
    form = {"name": {"type": "string"}, "confirm": {"type": "boolean", "default": False}}
    first, second = ctx.ask_all(lambda: ctx.elicit("First?", form), lambda: ctx.elicit("Second?", form))
    return json.dumps([first, second])


@server.tool("test_tool_with_task", task=TaskRule("required", after=None))
def asks_and_becomes_a_task(ctx: Context) -> Any:
    """Asks in a round, and becomes a task when it has the answer."""
    name = (ctx.input_responses.get("user_name", {}).get("content") or {}).get("name")
    if not isinstance(name, str):
        return input_required({"user_name": elicitation_form("What is your name?", {"name": {"type": "string"}})})
    ctx.become_task("greeting")
    pause.wait(0.2)
    return f"Hello, {name}!"


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--port", type=int, required=True)
    with server.serve_http(port=options.parse_args().port) as service:
        print(service.url, flush=True)
        try:
            service.wait()
        except KeyboardInterrupt:
            pass
