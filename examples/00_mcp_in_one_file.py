"""Lesson 0: the Model Context Protocol in one file.

Era:       both
Revision:  2025-11-25 in the session era, 2026-07-28 in the stateless era
Page:      basic/index, server/tools, basic/lifecycle, basic/versioning, server/discover, basic/transports/stdio
Needs:     Python and its standard library; nothing of this project

A *server* offers tools: functions that a model may call. A *client* lists and calls them, for the application that has
the model. Here are both, whole, for tools over stdio: every other feature of the protocol is more methods of the same
kind, and every other transport carries the same messages. Read it from top to bottom:

    1 messages   2 tools   3 the server, in two eras   4 stdio   5 the client   6 a conversation

    python examples/00_mcp_in_one_file.py

shows both in a conversation. With `serve` after it, it is the server alone, for any client; with the command of any
server after it, it is the client alone.
"""

import inspect
import json
import queue
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import IO, Any

JsonObject = dict[str, Any]
Show = Callable[[str, JsonObject], None]
PROBE_TIMEOUT = 5.0  # seconds

# == 1. Messages (basic/index#messages) ===============================================================================
#
# Everything is JSON-RPC 2.0, which has three kinds of messages. Up to 2025-11-25 either side may send each of them;
# from 2026-07-28 on only the client sends requests, and only the server sends responses:
#
#     request        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {...}}
#     response       {"jsonrpc": "2.0", "id": 7, "result": {...}}    or "error": {"code": ..., "message": ...}
#     notification   {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {...}}
#
# A request is answered by one response with its id. A notification has no id, and is never answered; nor is a response.
# `notifications/cancelled` gives a request up. Over HTTP, a client of 2026-07-28 closes the stream of its request
# instead; up to 2025-11-25 it sends the notification there, too, because a stream that breaks off cancels nothing.

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
UNSUPPORTED_VERSION = -32022
STATELESS_ERRORS = -32020, -32021, UNSUPPORTED_VERSION  # only servers of the stateless era (part 3) send them


class RpcError(Exception):
    """A request that failed: the `error` of its response."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.data = data if isinstance(data, dict) else {}
        self.error = {"code": code, "message": message} | ({} if data is None else {"data": data})


def check(message: Any) -> None:
    """Raise RpcError unless this is a message."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "A message is an object with jsonrpc: '2.0'")
    if len({"method", "result", "error"} & message.keys()) != 1:
        raise RpcError(INVALID_REQUEST, "A message has a method, a result or an error")
    if not isinstance(message.get("method", ""), str) or not isinstance(message.get("params", {}), dict):
        raise RpcError(INVALID_REQUEST, "method must be a string, and params an object")
    # MUST: the id of a request is a string or an integer, and not null (basic/index#requests)
    if "method" in message and type(message.get("id", 0)) not in (str, int):
        raise RpcError(INVALID_REQUEST, "id must be a string or an integer")


# == 2. Tools (server/tools) ==========================================================================================
#
# A tool is a function with a name, a description for the model, and a JSON Schema for its arguments.

SCHEMA_TYPES: dict[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def definition(function: Callable[..., Any]) -> JsonObject:
    """The tool as a client sees it, made from the function's docstring and type hints."""
    parameters = inspect.signature(function).parameters
    properties = {name: {"type": SCHEMA_TYPES[p.annotation]} for name, p in parameters.items()}
    required = [name for name, p in parameters.items() if p.default is p.empty]
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": function.__name__, "description": inspect.getdoc(function) or "", "inputSchema": schema}


def call(function: Callable[..., Any], arguments: JsonObject) -> JsonObject:
    """The result of a call, also of one that fails."""
    try:
        # MUST: validate all tool inputs (server/tools#security-considerations)
        signature = inspect.signature(function)
        signature.bind(**arguments)
        for name, value in arguments.items():
            kind = signature.parameters[name].annotation
            if type(value) is not kind and not (kind is float and type(value) is int):
                raise TypeError(f"{name} must be of type {SCHEMA_TYPES[kind]}")
        text, failed = str(function(**arguments)), False
    except Exception as problem:
        # A tool that fails is a *result*, so that the model can read what was wrong and try again. An *error* says
        # that the request itself was wrong, and goes to the application (server/tools#error-handling).
        text, failed = f"{type(problem).__name__}: {problem}", True
    return {"isError": failed, "content": [{"type": "text", "text": text}]}


# == 3. The server, in two eras =======================================================================================
#
# Up to 2025-11-25 a connection begins with a handshake, `initialize`, and both sides remember what was agreed on: the
# *session era*. From 2026-07-28 on nothing has to come first: each request says all of it again, in `params._meta`, and
# stands alone: the *stateless era*. The features are the same; which era a request belongs to can be seen from it.

SESSION, STATELESS = "2025-11-25", "2026-07-28"

VERSION = "io.modelcontextprotocol/protocolVersion"
CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"


class Server:
    """A server of both eras."""

    def __init__(self, name: str, version: str, tools: list[Callable[..., Any]]) -> None:
        self.info = {"name": name, "version": version}
        self.tools = {function.__name__: function for function in tools}
        self.opened = False

    def receive(self, line: bytes) -> JsonObject | None:
        """The response to one line of input; None if the line calls for none."""
        response: JsonObject = {"jsonrpc": "2.0"}  # without an id where none can be read; up to 2025-06-18 it is null
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as problem:
            return response | {"error": RpcError(PARSE_ERROR, f"Parse error: {problem}").error}
        if isinstance(message, dict) and type(message.get("id")) in (str, int):
            response["id"] = message["id"]
        try:
            check(message)
            if "method" not in message or "id" not in message:
                # This server asks nothing, so it expects no response. It does one thing at a time: when it reads
                # `notifications/cancelled`, it has answered the request. (Other servers stop, and send no answer.)
                return None
            method, params = message["method"], message.get("params", {})
            meta = params["_meta"] if isinstance(params.get("_meta"), dict) else {}
            if VERSION in meta or method == "server/discover":  # a method that only the stateless era has
                return response | {"result": self.stateless_result(method, params, meta)}
            return response | {"result": self.session_result(method, params)}
        except RpcError as problem:
            return response | {"error": problem.error}

    def session_result(self, method: str, params: JsonObject) -> JsonObject:
        """Answer a request of the session era (2025-11-25/basic/lifecycle)."""
        if method == "ping":
            return {}
        if method == "initialize":
            self.opened = True
            # MUST: answer with a version that the server speaks (2025-11-25/basic/lifecycle#version-negotiation)
            return {"protocolVersion": SESSION, "capabilities": {"tools": {}}, "serverInfo": self.info}
        if not self.opened:
            raise RpcError(INVALID_REQUEST, "Send initialize first")
        return self.tools_result(method, params)

    def stateless_result(self, method: str, params: JsonObject, meta: JsonObject) -> JsonObject:
        """Answer a request of the stateless era (2026-07-28/basic/index#_meta)."""
        # MUST: -32602 for a request that lacks a required key of _meta (2026-07-28/basic/index#_meta)
        if not isinstance(meta.get(VERSION), str) or not isinstance(meta.get(CLIENT_CAPABILITIES), dict):
            raise RpcError(INVALID_PARAMS, f"_meta must have {VERSION} and {CLIENT_CAPABILITIES}")
        # MUST: -32022 with the versions that are spoken (2026-07-28/basic/versioning#protocol-version-negotiation)
        if meta[VERSION] != STATELESS:
            data = {"supported": [STATELESS, SESSION], "requested": meta[VERSION]}
            raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
        if method == "server/discover":
            result = {"supportedVersions": [STATELESS, SESSION], "capabilities": {"tools": {}}}
        else:
            result = self.tools_result(method, params)
        # MUST: say how long, and for whom, a client may cache the result (2026-07-28/server/utilities/caching)
        hint = {"ttlMs": 0, "cacheScope": "private"} if method in ("server/discover", "tools/list") else {}
        # MUST: a result has a resultType (2026-07-28/basic/index#resulttype)
        return {"resultType": "complete", **result, **hint, "_meta": {SERVER_INFO: self.info}}

    def tools_result(self, method: str, params: JsonObject) -> JsonObject:
        """Answer a request about tools, in the same way in both eras (server/tools)."""
        if method == "tools/list":
            return {"tools": [definition(function) for function in self.tools.values()]}
        if method != "tools/call":
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method}")
        name, arguments = params.get("name"), params.get("arguments", {})
        if not isinstance(name, str) or not isinstance(arguments, dict):
            raise RpcError(INVALID_PARAMS, "name must be a string, and arguments an object")
        if name not in self.tools:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {name}")
        return call(self.tools[name], arguments)


# == 4. A transport: stdio (basic/transports/stdio) ===================================================================
#
# The client starts the server as a process. Each message is one line of UTF-8 on the server's standard input or
# output; standard error is for people. When its input ends, the server exits.


def write_message(pipe: IO[bytes], message: JsonObject) -> None:
    # A message MUST NOT contain a line break; JSON text writes them as \n (basic/transports/stdio)
    pipe.write(json.dumps(message).encode() + b"\n")
    pipe.flush()


def serve(server: Server) -> None:
    output = sys.stdout.buffer
    # A server MUST NOT write to stdout what is no message; what a tool prints goes to stderr (basic/transports/stdio)
    sys.stdout = sys.stderr
    for line in sys.stdin.buffer:
        if (response := server.receive(line)) is not None:
            write_message(output, response)


# == 5. The client ====================================================================================================


class Client(AbstractContextManager["Client"]):
    """A client of the server that a command starts. It tries the stateless era first, unless it is told not to."""

    info = {"name": "one-file", "version": "1"}

    def __init__(self, command: list[str], version: str = STATELESS, show: Show = lambda *message: None) -> None:
        self.version, self.show, self.last_id = version, show, 0
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin and self.process.stdout
        self.input = self.process.stdin
        # A pipe cannot be read with a time limit, but a queue can: so a thread reads the pipe into a queue.
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.reader = threading.Thread(target=self.read, args=[self.process.stdout], daemon=True)
        self.reader.start()
        try:
            self.open()
        except BaseException:
            self.__exit__()
            raise

    def read(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                self.lines.put(line)
        self.lines.put(b"")

    def send(self, message: JsonObject) -> None:
        self.show("C>", message)
        write_message(self.input, message)

    def open(self) -> None:
        """Find out which era the server is of; if it is the session era, open a session (2026-07-28/basic/versioning).

        In the stateless era there is nothing to open: a client may ask `server/discover`, but need not.
        """
        if self.version == STATELESS:
            # SHOULD: if the server answers with an error, or not at all, go on with `initialize`. If only servers of
            # the stateless era send this error, use a version that it names instead
            # (2026-07-28/basic/transports/stdio#backward-compatibility); this client speaks only one other version.
            try:
                if STATELESS in self.request("server/discover", timeout=PROBE_TIMEOUT)["supportedVersions"]:
                    return
            except RpcError as problem:
                if problem.error["code"] in STATELESS_ERRORS and SESSION not in problem.data.get("supported", []):
                    raise
            except TimeoutError:
                pass
        self.version = SESSION
        hello = {"protocolVersion": SESSION, "capabilities": {}, "clientInfo": self.info}
        spoken = self.request("initialize", hello)["protocolVersion"]
        if spoken != SESSION:
            # SHOULD: disconnect (2025-11-25/basic/lifecycle#version-negotiation)
            raise ConnectionError(f"the server speaks {spoken}")
        # MUST: say that operation begins (2025-11-25/basic/lifecycle#initialization)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def request(self, method: str, params: JsonObject | None = None, timeout: float = 30) -> JsonObject:
        """Send a request, and wait for its result; RpcError, TimeoutError or ConnectionError if none comes."""
        # MUST: every request says its version and what its client can do (2026-07-28/basic/index#_meta)
        meta = {VERSION: STATELESS, CLIENT_INFO: self.info, CLIENT_CAPABILITIES: {}}
        params = {**(params or {}), **({"_meta": meta} if self.version == STATELESS else {})}
        # A client MUST NOT use an id twice (basic/index#requests)
        self.last_id += 1
        self.send({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})
        end = time.monotonic() + timeout
        while True:
            try:
                line = self.lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                # MUST (before 2026-07-28 SHOULD): tell the server (basic/transports/stdio#cancellation); a client
                # MUST NOT cancel `initialize` (2025-11-25/basic/utilities/cancellation)
                if method != "initialize":
                    which = {"requestId": self.last_id, "reason": "timed out"}
                    self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": which})
                raise TimeoutError(f"no answer to {method} within {timeout:g} s") from None
            if not line:
                raise ConnectionError("the server has closed its output")
            check(message := json.loads(line))
            self.show("S<", message)
            if "method" in message and "id" in message:
                # A server of the session era may ask, too. A ping must be answered (basic/utilities/ping).
                refusal = {"error": {"code": METHOD_NOT_FOUND, "message": "Method not found"}}
                outcome = {"result": {}} if message["method"] == "ping" else refusal
                self.send({"jsonrpc": "2.0", "id": message["id"], **outcome})
            elif "error" in message and message.get("id") == self.last_id:
                raise RpcError(**message["error"])
            elif "result" in message and message.get("id") == self.last_id:
                result: JsonObject = message["result"]
                if result.get("resultType", "complete") != "complete":
                    # The server wants to ask the user or the model first, though this client declared neither.
                    raise RpcError(INVALID_REQUEST, f"cannot handle a result of type {result['resultType']}")
                return result
            # Any other message is a notification, or the answer to a request that has timed out.

    def list_tools(self) -> list[JsonObject]:
        """All tools, page by page (server/utilities/pagination)."""
        page = self.request("tools/list")
        tools: list[JsonObject] = page["tools"]
        while "nextCursor" in page:
            page = self.request("tools/list", {"cursor": page["nextCursor"]})
            tools += page["tools"]
        return tools

    def call_tool(self, name: str, arguments: JsonObject) -> JsonObject:
        """The result of a call; `isError` in it says whether the tool failed."""
        return self.request("tools/call", {"name": name, "arguments": arguments})

    def __exit__(self, *exception: object) -> None:
        # SHOULD: close its input; if it does not exit, terminate it; then kill it (basic/transports/stdio#shutdown)
        for end in (self.input.close, self.process.terminate, self.process.kill):
            end()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=2)
                break
        self.reader.join(timeout=2)  # it ends at the end of the server's output


# == 6. A conversation ================================================================================================


def add(a: int, b: int = 1) -> int:
    """The sum of two numbers."""
    return a + b


def divide(a: float, b: float) -> float:
    """One number divided by another."""
    return a / b


def show(direction: str, message: JsonObject) -> None:
    print(textwrap.shorten(f"{direction} {json.dumps(message)}", 118, placeholder=" ..."))


def main() -> None:
    if sys.argv[1:] == ["serve"]:
        serve(Server("calculator", "1.0", [add, divide]))
    elif sys.argv[1:]:
        with Client(sys.argv[1:], show=show) as client:
            print(*(tool["name"] for tool in client.list_tools()))
    else:
        for version in (SESSION, STATELESS):
            print(f"\n== {version}\n")
            with Client([sys.executable, __file__, "serve"], version, show) as client:
                client.list_tools()
                client.call_tool("divide", {"a": 1, "b": 0})


if __name__ == "__main__":
    main()

# Output:
#
#
# == 2025-11-25
#
# C> {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": ...
# S< {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, ...
# C> {"jsonrpc": "2.0", "method": "notifications/initialized"}
# C> {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}}
# S< {"jsonrpc": "2.0", "id": 2, "result": {"tools": [{"name": "add", "description": "The sum of two numbers.", ...
# C> {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "divide", "arguments": {"a": 1, "b": 0}}}
# S< {"jsonrpc": "2.0", "id": 3, "result": {"isError": true, "content": [{"type": "text", "text": ...
#
# == 2026-07-28
#
# C> {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": ...
# S< {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "supportedVersions": ["2026-07-28", ...
# C> {"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {"_meta": ...
# S< {"jsonrpc": "2.0", "id": 2, "result": {"resultType": "complete", "tools": [{"name": "add", "description": "The ...
# C> {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "divide", "arguments": {"a": 1, "b": 0}, ...
# S< {"jsonrpc": "2.0", "id": 3, "result": {"resultType": "complete", "isError": true, "content": [{"type": "text", ...
