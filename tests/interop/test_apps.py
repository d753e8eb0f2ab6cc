"""Apps with those who have them: a view by the official library, and a server by the SDK for Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import APPS, AppCall, Host
from mcp_ref.client.entries import Entry
from mcp_ref.client.targets import Command
from mcp_ref.testing import HeadlessView
from tests.host.common import PATIENCE, Heard, User, free
from tests.host.test_apps import hosting
from tests.interop import programs

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]


def test_a_view_by_the_official_library_does_everything_in_our_host() -> None:
    heard, user, opened = Heard(), User(True), list[str]()
    command = programs.typescript("ts_app.mjs", package="server")
    piped: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    options: Any = {"consent": free(ask=user), "on_event": heard, "browse": opened.append}
    with (
        hosting(shown=["inline", "fullscreen"], **options) as (host, ours),
        subprocess.Popen(command, text=True, **piped) as process,
    ):
        view = ours.view
        try:

            def post() -> None:
                while (message := view.next()) is not None:
                    process.stdin.write(json.dumps(message) + "\n")  # type: ignore[union-attr]
                    process.stdin.flush()  # type: ignore[union-attr]

            def receive() -> None:
                for line in process.stdout or ():
                    view.receive(json.loads(line))

            threads = [threading.Thread(target=each) for each in (post, receive)]
            for thread in threads:
                thread.start()
            heard.wait("weather", "log", "[info] the app ui://weather/now: done")
            view.change_context(theme="dark")
            view.close(PATIENCE, "it is over")
            threads[0].join(PATIENCE)
            process.stdin.close()  # type: ignore[union-attr]
            seen = json.loads((process.stderr.read() or "{}").splitlines()[-1])  # type: ignore[union-attr]
            threads[1].join(PATIENCE)
        finally:
            process.kill()
        assert view.size == (300, 200) and view.info["name"] == "ts app"
        assert [each["content"] for each in host.context if each["content"][0]["text"] == "Hello"]
        assert "Porto" in str(host.context)
    assert seen == {
        "host": "mcp_ref", "mode": "inline", "input": {"city": "Porto"}, "result": "rain", "called": "sun",
        "secret": -32602, "read": "a note", "fullscreen": "fullscreen", "link": {}, "message": {}, "theme": "dark",
        "teardown": {},
    }  # fmt: skip
    assert opened == ["https://example.com/"]


CLOCK = """
from mcp.server.apps import Apps, ResourceCsp, client_supports_apps
from mcp.server.mcpserver import Context, MCPServer

apps = Apps()

@apps.tool(resource_uri="ui://clock/app.html", description="The time")
def now(ctx: Context) -> str:
    return f"noon, {client_supports_apps(ctx)}"

apps.add_html_resource(
    "ui://clock/app.html", "<!doctype html><title>Clock</title>", csp=ResourceCsp(connect_domains=["https://a.example"])
)
MCPServer("clock", extensions=[apps]).run()
"""


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_our_host_shows_the_document_of_a_server_by_the_sdk(revision: str, tmp_path: Path) -> None:
    program = tmp_path / "clock.py"
    program.write_text(CLOCK)
    entry = Entry("clock", Command([sys.executable, str(program)], inherit=True), revision=revision)
    with Host([entry], consent=free(), extensions=[APPS], start_timeout=60) as host:
        result = host.call("clock/now")
        assert result["content"][0]["text"] == "noon, True"
        view = HeadlessView(host.open_app(AppCall("clock/now", {}, result)))
        view.open()
        assert view.told("ui/notifications/tool-result")["content"] == result["content"]
        assert "connect-src https://a.example;" in view.view.document.policy
        assert view.ask("tools/call", name="now")["content"][0]["text"] == "noon, True"


def test_a_client_with_the_official_library_for_hosts_finds_our_document(tmp_path: Path) -> None:
    program = tmp_path / "weather.py"
    program.write_text("from tests.host.test_apps import weather\nweather().run()\n")
    script = """
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
const require = createRequire(process.env.NODE_PATH + "/");
const bridge = await import(pathToFileURL(require.resolve("@modelcontextprotocol/ext-apps/app-bridge")));
const { Client } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");
const extensions = { "io.modelcontextprotocol/ui": { mimeTypes: [bridge.RESOURCE_MIME_TYPE] } };
const options = { capabilities: { extensions }, versionNegotiation: { mode: "auto" } };
const client = new Client({ name: "ts", version: "1" }, options);
const [command, ...args] = process.argv.slice(2);
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" }));
const tool = (await client.listTools()).tools[0];
const uri = bridge.getToolUiResourceUri(tool);
const { contents } = await client.readResource({ uri });
console.log(JSON.stringify([uri, contents[0].mimeType, contents[0].text.slice(0, 15)]));
await client.close();
"""
    file = tmp_path / "client.mjs"
    file.write_text(script)
    command = programs.typescript("ts_skills.mjs", package="client")
    command[-1] = str(file)
    done = subprocess.run(
        [*command, sys.executable, str(program)], capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, **programs.OUR_PATH},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == ["ui://weather/now", "text/html;profile=mcp-app", "<!doctype html>"]
