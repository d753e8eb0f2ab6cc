"""Twenty-one small jobs, each a function on its own, with its output at the end of the file.

Needs: nothing

    python examples/recipes/small_jobs.py
"""

import json
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mcp_ref import (
    Cancel,
    Client,
    Command,
    Context,
    ErrorResponse,
    JsonObject,
    RequestCancelled,
    RequestTimeout,
    Server,
    ToolError,
    TraceEvent,
    Url,
    contents_bytes,
    data_of,
    image,
    narrate,
    prompt_ref,
    reply,
    text_of,
)

sys.path.insert(0, str(Path(__file__).parent.parent))
from weather import server as weather

WEATHER = [sys.executable, str(Path(__file__).parent.parent / "weather.py")]


def function_as_a_tool() -> str:
    """Offer a function as a tool, and call it in the same process."""
    server = Server("sums")

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    with Client(server) as client:
        return text_of(client.call_tool("add", {"a": 2, "b": 40}))


def server_of_a_command() -> str:
    """Start a server as a child process, and call it."""
    with Client(WEATHER) as client:
        return text_of(client.call_tool("forecast", {"city": "Oslo"}))


def environment_of_a_command() -> str:
    """Start a server with an environment, a folder and a place for what it says on stderr."""
    said = list[str]()
    command = Command(WEATHER, env={"TZ": "UTC"}, cwd=tempfile.gettempdir(), stderr=said.append)
    with Client(command) as client:
        return str(client.server_info["name"])


def server_on_http() -> str:
    """Serve on HTTP beside the rest of a program, and call it by its URL, with a header."""
    with weather.serve_http() as http, Client(Url(http.url, headers={"X-Team": "blue"})) as client:
        return text_of(client.call_tool("forecast", {"city": "Rome", "days": 1}))


def server_of_a_config_file() -> str:
    """Take a server from the `mcpServers` file of another program."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "mcp.json")
        path.write_text(json.dumps({"mcpServers": {"weather": {"command": WEATHER[0], "args": WEATHER[1:]}}}))
        with Client.from_config(path, "weather") as client:
            return ", ".join(tool["name"] for tool in client.list_tools())


def schema_of_a_tool() -> str:
    """See which arguments a tool takes."""
    with Client(weather) as client:
        (tool,) = client.list_tools()
        return json.dumps(tool["inputSchema"]["properties"]["days"])


def structured_result() -> str:
    """Return data, and read it as data."""
    server = Server("places")

    @server.tool()
    def find(city: str) -> dict[str, float]:
        return {"lat": 38.7, "lon": -9.1}

    with Client(server) as client:
        return str(client.call_tool("find", {"city": "Lisbon"}).get("structuredContent"))


def picture() -> str:
    """Return a picture, and save its bytes."""
    server = Server("pixels")
    server.tool("pixel")(lambda: image(b"\x89PNG", "image/png"))
    with Client(server) as client:
        (block,) = client.call_tool("pixel")["content"]
        return str(data_of(block)) if block["type"] == "image" else "something else"


def failure_that_the_model_reads() -> str:
    """Tell a tool that failed from a request that was refused."""
    server = Server("shop")

    @server.tool()
    def buy(item: str) -> str:
        raise ToolError(f"{item} is sold out")

    with Client(server) as client:
        failed = client.call_tool("buy", {"item": "bread"})
        try:
            client.call_tool("sell", {})
        except ErrorResponse as refused:
            return f"{text_of(failed)}; {refused.code}"
    raise AssertionError


def time_limit() -> str:
    """Give up a call after some time; the server is told."""
    with Client(waiting()) as client:
        try:
            return text_of(client.call_tool("wait", timeout=0.1))
        except RequestTimeout:
            return "too slow"


def waiting() -> Server:
    server = Server("patience")

    @server.tool()
    def wait(ctx: Context) -> str:
        while not ctx.cancelled:
            threading.Event().wait(0.01)
        return "given up"

    return server


def cancel_from_another_thread() -> str:
    """Cancel a call from another thread."""
    cancel = Cancel()
    with Client(waiting()) as client:
        threading.Timer(0.1, cancel, ["the user left"]).start()
        try:
            return text_of(client.call_tool("wait", cancel=cancel))
        except RequestCancelled as cancelled:
            return str(cancelled)


def progress_of_a_call() -> str:
    """Report progress, and show it."""
    server, seen = Server("steps"), list[float]()

    @server.tool()
    def work(ctx: Context) -> str:
        for step in range(3):
            ctx.progress(step + 1, total=3)
        return "done"

    with Client(server) as client:
        client.call_tool("work", on_progress=lambda progress, total, message: seen.append(progress))
    return str(seen)


def log_of_a_server() -> str:
    """Receive what a server logs."""
    server, heard = Server("talker"), list[object]()

    @server.tool()
    def talk(ctx: Context) -> str:
        ctx.log("warning", "it is late")
        return "said"

    with Client(server, revision="2025-11-25", on_log=lambda params: heard.append(params["data"])) as client:
        client.call_tool("talk")
    return str(heard)


def question_to_the_user() -> str:
    """Let a tool ask the user, and answer for the user."""
    server = Server("travel")

    @server.tool()
    def book(ctx: Context) -> str:
        answer = ctx.elicit("Which seat?", {"seat": {"type": "string"}})
        return str(answer.get("content"))

    def ask(message: str, schema: JsonObject) -> JsonObject:
        return {"seat": "aisle"}

    with Client(server, elicit=ask) as client:
        return text_of(client.call_tool("book"))


def question_to_the_model() -> str:
    """Let a tool ask the client's model, and stand in for the model."""
    server = Server("poet")

    @server.tool()
    def rhyme(ctx: Context) -> str:
        return str(ctx.sample("A rhyme for sun?", max_tokens=9)["model"])

    with Client(server, revision="2025-11-25", sample=lambda params: reply("fun", model="small")) as client:
        return text_of(client.call_tool("rhyme"))


def resource_with_bytes() -> str:
    """Offer a file as a resource, and read its bytes."""
    server = Server("files")
    server.resource("file:///logo.png", mime_type="image/png")(lambda: b"\x89PNG")
    with Client(server) as client:
        return str(contents_bytes(client.read_resource("file:///logo.png")["contents"][0]))


def prompt_with_completion() -> str:
    """Offer a prompt, complete its argument, and get it."""
    server = Server("prompts")

    @server.prompt()
    def greet(name: str) -> str:
        return f"Greet {name}."

    @server.completion(prompt="greet", argument="name")
    def names(value: str) -> list[str]:
        return [name for name in ("Ada", "Bob") if name.startswith(value)]

    with Client(server) as client:
        (name,) = client.complete(prompt_ref("greet"), "name", "A")["completion"]["values"]
        return str(client.get_prompt("greet", {"name": name})["messages"][0]["content"])


def calls_of_many_threads() -> str:
    """Share one client among threads."""
    with Client(weather) as client, ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda days: client.call_tool("forecast", {"city": "Oslo", "days": days}), range(50))
        return str(len({text_of(result) for result in results}))


def change_of_a_resource() -> str:
    """Notice that a resource has changed."""
    server = Server("notes")
    server.resource("note://monday")(lambda: "buy bread")
    with Client(server) as client, client.listen(resources=["note://monday"]) as events:
        server.resource_updated("note://monday")
        return str(events.get(timeout=5).params["uri"])


def record_of_a_conversation() -> str:
    """Record a conversation, and explain it in words."""
    events = list[TraceEvent]()
    with Client(weather, revision="2025-11-25", trace=events.append) as client:
        client.ping()
    return next(iter(narrate(events))).partition("  [")[0].strip()


def any_request() -> str:
    """Send any request, also one that only this server knows."""
    with Client(weather, revision="2025-06-18") as client:
        try:
            return str(client.request("weather/nobody-knows", {"x": 1}))
        except ErrorResponse as refused:
            return f"{client.revision}: {refused}"


JOBS = [each for each in list(globals().values()) if getattr(each, "__module__", "") == __name__ and each.__doc__]

if __name__ == "__main__":
    for job in JOBS:
        print(f"{job.__name__}: {job()}")

# Output:
#
# function_as_a_tool: 42
# server_of_a_command: Oslo: sun for 3 days
# environment_of_a_command: weather
# server_on_http: Rome: sun for 1 days
# server_of_a_config_file: forecast
# schema_of_a_tool: {"type": "integer", "default": 3}
# structured_result: {'lat': 38.7, 'lon': -9.1}
# picture: b'\x89PNG'
# failure_that_the_model_reads: bread is sold out; -32602
# time_limit: too slow
# cancel_from_another_thread: the user left
# progress_of_a_call: [1, 2, 3]
# log_of_a_server: ['it is late']
# question_to_the_user: {'seat': 'aisle'}
# question_to_the_model: small
# resource_with_bytes: b'\x89PNG'
# prompt_with_completion: {'type': 'text', 'text': 'Greet Ada.'}
# calls_of_many_threads: 50
# change_of_a_resource: note://monday
# record_of_a_conversation: 1  C → S  request 1: initialize
# any_request: 2025-06-18: Method not found: weather/nobody-knows (-32601)
