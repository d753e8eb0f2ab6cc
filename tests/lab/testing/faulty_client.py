"""A client that is wrong in one thing, for each case of the probe: `faulty_client.py CASE TARGET...`.

It is raw, over stdio or HTTP, in both eras: it opens, lists the tools page by page and calls the last one. With a CASE
of "-" it is wrong in nothing. It is a program of the standard library alone, which starts at once.
"""

from __future__ import annotations

import base64
import json
import os
import select
import signal
import subprocess
import sys
import urllib.error
import urllib.request

FAULT, TARGET = sys.argv[1], sys.argv[2:]
SCHEMA = "io.modelcontextprotocol/"
INFO = {"name": "faulty", "version": "1"}
LATEST, SESSION = "2026-07-28", "2025-11-25"
DECLARED = {
    "roots/file-uris": {"roots": {}},
    "elicitation/answer-fits": {"elicitation": {}},
    "sampling/mixed-results": {"sampling": {"tools": {}}},
}.get(FAULT, {})


def hang():
    signal.pause()


class Late(Exception):
    """The server does not answer."""


def wrong(*cases):
    return FAULT in cases


class Pipe:
    """A server as a process."""

    def __init__(self):
        self.child = subprocess.Popen(TARGET, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self.left = b""

    def send(self, message, client):
        try:
            self.child.stdin.write(json.dumps(message).encode() + b"\n")
            self.child.stdin.flush()
        except OSError:
            hang() if wrong("stdio/server-dies") else sys.exit(1)

    def receive(self, client):
        while True:
            line = self.line()
            if not line:
                hang() if wrong("stdio/server-dies") else sys.exit(1)
            if len(line) > 1 << 20 and wrong("frames/large"):
                sys.exit(1)
            try:
                return json.loads(line)
            except ValueError:
                if wrong("frames/noise"):
                    hang()

    def line(self):
        came = [self.left]
        while b"\n" not in came[-1]:
            if not select.select([self.child.stdout], [], [], None if wrong("opening/slow", "rounds/endless") else 3)[
                0
            ]:
                raise Late
            came.append(os.read(self.child.stdout.fileno(), 1 << 16))
            if not came[-1]:
                break
        line, ended, self.left = b"".join(came).partition(b"\n")
        return line + ended

    def close(self):
        if wrong("stdio/shutdown"):
            self.child.terminate()
            self.child.wait()
            return
        self.child.stdin.close()
        try:
            self.child.wait(None if wrong("stdio/stubborn-server") else 1)
        except subprocess.TimeoutExpired:
            self.child.terminate()
            try:
                self.child.wait(1)
            except subprocess.TimeoutExpired:
                self.child.kill()


class Post:
    """A server at a URL."""

    def __init__(self):
        self.session, self.inbox = None, []

    def request(self, method, body, headers):
        narrow = method == "POST" and wrong("http/accept")
        own = {"Accept": "application/json" if narrow else "application/json, text/event-stream"}
        own |= {"Content-Type": "application/json"} if body else {}
        if self.session and not wrong("http/session-id"):
            own["Mcp-Session-Id"] = self.session
        asked = urllib.request.Request(TARGET[0], body, {**own, **headers}, method=method)
        try:
            with urllib.request.urlopen(asked, timeout=5) as reply:
                self.session = reply.headers.get("Mcp-Session-Id", self.session)
                return reply.status, reply.headers.get("Content-Type", ""), reply.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, "", refusal.read().decode()

    def send(self, message, client):
        headers = {}
        version = client.revision
        if version and not wrong("http/version-header"):
            headers["MCP-Protocol-Version"] = version
        if version == LATEST and "method" in message:
            headers["Mcp-Method"] = message["method"]
            name = message.get("params", {}).get("name")
            if name and not wrong("http/mirrored-headers"):
                coded = f"=?base64?{base64.b64encode(name.encode()).decode()}?="
                headers["Mcp-Name"] = name if name.isascii() else coded
        status, kind, text = self.request("POST", json.dumps(message).encode(), headers)
        if status == 404 and self.session and "id" in message and not wrong("http/session-gone"):
            self.session = client.revision = None
            client.initialize()
            return self.send(message, client)
        if status >= 400 and "id" in message:
            client.status = status
            try:
                self.inbox.append({**json.loads(text), "id": message["id"]})
            except ValueError:
                self.inbox.append({"id": message["id"], "error": {"code": -status, "message": "HTTP"}})
        elif kind.startswith("text/event-stream"):
            if text.startswith(":") and wrong("http/json-and-stream"):
                sys.exit(1)
            self.events(text, headers)
        elif text:
            self.inbox.append(json.loads(text))

    def events(self, text, headers):
        last, retry, came = None, 0, False
        for line in text.splitlines():
            name, _, value = line.partition(": ")
            if name == "id":
                last = value
            elif name == "retry":
                retry = int(value)
            elif name == "data" and value:
                came = True
                self.inbox.append(json.loads(value))
        if last and not came:
            if wrong("http/retry"):
                sys.exit(1)
            signal.setitimer(signal.ITIMER_REAL, max(retry / 1000, 0.01))
            signal.sigwait([signal.SIGALRM])
            _, _, text = self.request("GET", None, {**headers, "Last-Event-ID": last})
            self.events(text, headers)

    def receive(self, client):
        return self.inbox.pop(0) if self.inbox else sys.exit(1)

    def close(self):
        if self.session:
            self.request("DELETE", None, {"MCP-Protocol-Version": SESSION})


class Client:
    def __init__(self):
        self.link = Post() if TARGET[0].startswith("http") else Pipe()
        self.revision, self.status, self.next, self.asked, self.cancelled = None, 0, 0, set(), None

    def notify(self, method, **params):
        self.link.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}, self)

    def ask(self, method, params=None, wait=True):
        self.next += 1
        id = 2 if method == "tools/call" and wrong("ids/unused") else self.next
        self.asked.add(id)
        params = dict(params or {})
        if self.revision == LATEST:
            params["_meta"] = {
                SCHEMA + "protocolVersion": LATEST,
                SCHEMA + "clientCapabilities": {"elicitation": {}},
                SCHEMA + "clientInfo": INFO,
            }
        self.link.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, self)
        return self.answer(id) if wait else None

    def answer(self, id):
        while True:
            message = self.link.receive(self)
            if isinstance(message, list) and wrong("frames/batch"):
                sys.exit(1)
            for each in message if isinstance(message, list) else [message]:
                if "method" in each:
                    self.served(each)
                elif each.get("id") == id or (wrong("ids/answer-with-other-type") and str(each.get("id")) == str(id)):
                    return each
                elif each.get("id") == self.cancelled and wrong("cancel/late-answer"):
                    hang()
                elif each.get("id") == "nobody" and wrong("ids/answer-nobody-asked"):
                    sys.exit(1)

    def served(self, message):
        method, reply = message["method"], {"jsonrpc": "2.0", "id": message.get("id", "none")}
        if "id" not in message:
            ends = {
                "elicitation/unknown-completion": "notifications/elicitation/complete",
                "cancel/servers-request": "notifications/cancelled", "progress/unknown-token": "notifications/progress",
                "tools/changed": "notifications/tools/list_changed",
            }  # fmt: skip
            if ends.get(FAULT) == method:
                sys.exit(1)
            if method == "notifications/no-such-thing" and wrong("frames/unknown-notification"):
                self.link.send({**reply, "error": {"code": -32601, "message": "no"}}, self)
            return
        results = {
            ("capabilities/undeclared-elicitation", "elicitation/create"): {"action": "accept", "content": {}},
            ("capabilities/undeclared-roots", "roots/list"): {"roots": []},
            ("elicitation/answer-fits", "elicitation/create"): {"action": "maybe"},
            ("sampling/mixed-results", "sampling/createMessage"): {
                "role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"},
        }  # fmt: skip
        if method == "ping" and not wrong("ping/answered"):
            reply["result"] = {}
        elif (FAULT, method) in results:
            reply["result"] = results[FAULT, method]
        else:
            other = method == "no/such/method" and wrong("frames/unknown-request")
            reply["error"] = {"code": -32600 if other else -32601, "message": "no"}
        self.link.send(reply, self)

    def open(self):
        if wrong("opening/first"):
            self.ask("prompts/list")
        self.revision = LATEST
        answer = self.ask("server/discover")
        if "result" in answer:
            return
        data = answer["error"].get("data") or {}
        modern = answer["error"]["code"] == -32022
        if modern and wrong("opening/unsupported-version"):
            return
        if modern and not wrong("http/400-that-is-modern") and "2026-07-28" in data.get("supported", []):
            sys.exit(1)
        if wrong("opening/discover-refused"):
            sys.exit(1)
        self.revision = None
        self.initialize()

    def initialize(self):
        about = {"protocolVersion": SESSION, "capabilities": DECLARED, "clientInfo": INFO}
        early = wrong("opening/waits")
        answer = self.ask("initialize", about, wait=not early)
        if early:
            self.ask("prompts/list", wait=False)
            answer = self.answer(self.next - 1)
        agreed = answer.get("result", {}).get("protocolVersion")
        known = agreed in ("2024-11-05", "2025-03-26", "2025-06-18", SESSION)
        if not known and not wrong("opening/version-offered-back"):
            sys.exit(1)
        if agreed == "2024-11-05" and wrong("opening/older-version"):
            hang()
        self.revision = agreed
        if not wrong("opening/initialized"):
            self.notify("notifications/initialized")
        if wrong("http/get-405") and self.link.request("GET", None, {"Accept": "text/event-stream"})[0] == 405:
            sys.exit(1)

    def tools(self):
        found, params = [], {}
        while True:
            answer = self.ask("tools/list", params)
            if "error" in answer:
                hang() if wrong("frames/error-without-data") else sys.exit(1)
            result = answer["result"]
            kind = result.get("resultType", "complete")
            if (kind != "complete" and not wrong("results/unknown-type")) or (
                wrong("results/no-type") and "resultType" not in result and self.revision == LATEST
            ):
                sys.exit(1)
            if "more" in result and wrong("results/unknown-members"):
                sys.exit(1)
            if len(json.dumps(result)) > 1 << 20 and wrong("frames/large"):
                sys.exit(1)
            found += result["tools"]
            cursor = result.get("nextCursor")
            if cursor is None and wrong("pagination/end") and not params:
                cursor = "more"
            if cursor is None or (cursor == "" and wrong("pagination/opaque")):
                return found
            params = {"cursor": cursor}

    def call(self, name):
        params, rounds = {"name": name, "arguments": {}}, 0
        while rounds < 5 or wrong("rounds/endless"):
            try:
                result = self.ask("tools/call", params).get("result", {})
            except Late:
                if not wrong("cancel/never-answered"):
                    self.cancelled = self.next
                    self.notify("notifications/cancelled", requestId=self.cancelled)
                self.ask("tools/list")
                return
            if result.get("resultType") != "input_required":
                return
            rounds += 1
            params["inputResponses"] = {"a": {"action": "decline"}}
            params.pop("requestState", None)
            if "requestState" in result:
                params["requestState"] = "other" if wrong("rounds/answered") else result["requestState"]
            elif wrong("rounds/no-state"):
                params["requestState"] = "mine"


def usable(tool):
    members = tool["inputSchema"].get("properties", {}).values()
    return not any(" " in str(each.get("x-mcp-header", "")) for each in members)


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
client = Client()
try:
    client.open()
    tools = client.tools()
    for tool in tools if wrong("http/bad-annotation") else [each for each in tools if usable(each)][:1]:
        client.call(tool["name"])
except Late:
    sys.exit(1)
client.link.close()
