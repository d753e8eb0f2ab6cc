"""The window in a real browser: what a user sees and does, and what an app can not do."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mcp_ref import Apps, Entry, Server
from mcp_ref.lab.window.window import Window
from tests.host.common import PATIENCE
from tests.lab.judge.test_show import Browser
from tests.lab.judge.test_show import browser as browser
from tests.lab.window.test_window import talkative

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

APP = """<!doctype html><title>x</title><p id="said">waiting</p><button>again</button><script>
let number = 0;
const waiting = {};
const post = message => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
const ask = (method, params) => new Promise(done => {
  waiting[++number] = done;
  post({ id: number, method, params });
});
const said = text => { document.getElementById("said").textContent = text; };
addEventListener("message", event => {
  const message = event.data;
  if (message.method === "ui/notifications/tool-result") said(message.params.content[0].text);
  if (message.method === "ui/resource-teardown") post({ id: message.id, result: {} });
  if (!message.method) waiting[message.id](message);
});
const about = { appInfo: { name: "x", version: "1" }, appCapabilities: {}, protocolVersion: "2026-01-26" };
ask("ui/initialize", about).then(() => {
  post({ method: "ui/notifications/initialized" });
  post({ method: "ui/notifications/size-changed", params: { height: 321 } });
  started();
});
function started() {}
document.querySelector("button").onclick = async () => {
  const answer = await ask("tools/call", { name: "refresh", arguments: {} });
  said(answer.result ? answer.result.content[0].text : answer.error.message);
};
</script>"""


@contextmanager
def opened(browser: Browser, server: Server) -> Iterator[Window]:
    window = Window([Entry("weather", server)], ["weather"])
    try:
        window.start()
        browser._post("/url", {"url": window.address})
        wait(browser, "document.querySelectorAll('.item').length")
        yield window
    finally:
        window.close()
        browser._post("/url", {"url": "about:blank"})


def wait(browser: Browser, value: str) -> Any:
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if found := browser.run(f"return {value}"):
            return found
    raise AssertionError(f"{value}: {browser.run('return document.body.innerText')}")


def choose(browser: Browser, name: str) -> None:
    browser.run(f"[...document.querySelectorAll('.item')].find(each => each.textContent.startsWith({name!r})).click()")


def submit(browser: Browser, **values: str) -> None:
    for label, value in values.items():
        browser.run(
            "const labels = [...document.querySelectorAll('main label')];"
            f"const label = labels.find(each => each.textContent.startsWith({label!r}));"
            f"document.getElementById(label.htmlFor).value = {value!r}"
        )
    browser.run("document.querySelector('main form').requestSubmit()")


def in_app(browser: Browser, script: str) -> Any:
    """Run a script in the document of the app."""
    browser._post("/frame", {"id": None})
    for _ in range(2):
        [frame] = browser._post("/elements", {"using": "css selector", "value": "iframe"})
        browser._post("/frame", {"id": frame})
    try:
        return browser.run(script)
    finally:
        browser._post("/frame", {"id": None})


def with_app(html: str = APP, **about: Any) -> Server:
    server, apps = talkative(), Apps()
    apps.html("ui://weather/now", html, **about)
    server.extend(apps)
    return server


def test_a_tool_is_called_its_app_is_shown_and_calls_by_consent(browser: Browser) -> None:
    with opened(browser, with_app()):
        assert browser.run("return location.href").endswith("/")  # the token is gone from the address
        choose(browser, "now")
        submit(browser)
        assert "must have a value" in wait(browser, "document.querySelector('main .error')?.textContent")
        submit(browser, city="Porto")
        assert "rain in Porto" in wait(browser, "document.querySelector('.result')?.innerText")
        wait(browser, "document.querySelector('.app iframe')?.style.height === '321px'")
        assert in_app(browser, "return document.getElementById('said').textContent") == "rain in Porto"
        in_app(browser, "document.querySelector('button').click()")
        asked = wait(browser, "document.querySelector('dialog[open]')?.innerText")
        assert "the app ui://weather/now asks for it" in asked and "With exactly these arguments" in asked
        # A no is where the keyboard is.
        assert browser.run("return document.activeElement.textContent") == "No"
        browser.press("\ue007")
        wait(browser, "!document.querySelector('dialog[open]')")
        assert "refused" in in_app(browser, "return document.getElementById('said').textContent")
        in_app(browser, "document.querySelector('button').click()")
        wait(browser, "document.querySelector('dialog[open]')")
        browser.run("document.querySelector('dialog form').requestSubmit()")
        wait(browser, "!document.querySelector('dialog[open]')")
        lanes = wait(browser, "[...document.querySelectorAll('.lane-app .what')].map(each => each.textContent)")
        assert "ui/notifications/tool-input" in lanes and "tools/call" in lanes
        browser.run("[...document.querySelectorAll('.app button')].find(each => each.textContent === 'Close').click()")
        wait(browser, "!document.querySelector('.app')")


def test_a_form_of_a_server_progress_and_the_traffic(browser: Browser) -> None:
    with opened(browser, talkative()):
        choose(browser, "ask")
        submit(browser)
        assert "weather asks you: How old are you?" in wait(
            browser, "document.querySelector('dialog[open]')?.innerText"
        )
        browser.run("document.querySelector('dialog input').value = 'old'")
        browser.run("document.querySelector('dialog form').requestSubmit()")
        assert "a whole number" in wait(browser, "document.querySelector('dialog .error:not(:empty)')?.textContent")
        browser.run("document.querySelector('dialog input').value = '36'")
        browser.run("document.querySelector('dialog form').requestSubmit()")
        assert "36" in wait(browser, "document.querySelector('.result')?.innerText")
        browser.run("[...document.querySelectorAll('.message button')].at(-1).click()")
        assert "jsonrpc" in wait(browser, "[...document.querySelectorAll('.more')].at(-1).innerText")
        choose(browser, "greet")
        submit(browser, name="Ada")
        assert "Hello Ada" in wait(browser, "document.querySelector('.result')?.innerText")


@pytest.mark.parametrize("width", [400, 800, 1280])
def test_the_page_fits_and_everything_that_can_be_used_has_a_name(browser: Browser, width: int) -> None:
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser._post("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})
    try:
        with opened(browser, talkative()):
            choose(browser, "now")
            for dark in (False, True):
                browser.dark(dark)
                assert browser.run("return document.documentElement.scrollWidth") <= width
            names = "each.textContent || each.ariaLabel || each.labels?.length || each.getAttribute('aria-label')"
            nameless = f"[...document.querySelectorAll('button, input, select, textarea')].filter(each => !({names}))"
            assert browser.run(f"return {nameless}.map(each => each.outerHTML)") == []
            if width == 400:
                assert browser.run("return document.body.dataset.tab") == "call"
                browser.run("document.querySelector('[data-tab=traffic]').click()")
                assert browser.run("return getComputedStyle(document.querySelector('main')).display") == "none"
    finally:
        browser._post("/goog/cdp/execute", {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}})


def test_a_thousand_messages_a_second_are_shown_and_the_oldest_are_counted(browser: Browser) -> None:
    with opened(browser, talkative()) as window:
        for number in range(6_000):
            window.tell("traffic", {"lane": "x", "seq": number, "at": 0.0, "who": "server", "head": "h", "lines": [],
                                    "page": None, "failed": False, "method": "notifications/message",
                                    "message": {"n": number}, "partner": None})  # fmt: skip
        assert "before" in wait(
            browser, "/[0-9]+ and [0-9]+ before/.exec(document.getElementById('count').textContent)?.[0]"
        )
        assert browser.run("return document.querySelectorAll('.message').length") <= 2_000
        began = time.monotonic()
        choose(browser, "now")
        assert browser.run("return document.querySelector('h1').textContent") == "now"
        assert time.monotonic() - began < 5


class Listener(http.server.ThreadingHTTPServer):
    """Hears whatever an app sends out."""

    def __init__(self) -> None:
        heard = self.heard = list[str]()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                heard.append(self.path)
                self.send_response(204)
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *_: object) -> None: ...

        super().__init__(("127.0.0.1", 0), Handler)
        self.origin = f"http://127.0.0.1:{self.server_port}"


HOSTILE = """
async function started() {
  const found = {}, out = "{{out}}", page = "{{page}}";
  const attempt = async (name, what) => {
    try { found[name] = await what() ?? "done"; } catch (problem) { found[name] = "stopped"; }
  };
  const loaded = (node, source) => new Promise((done, failed) => {
    node.onload = node.onopen = done;
    node.onerror = failed;
    if (source) { node.src = source; document.body.append(node); }
  });
  await attempt("parent", () => parent.document.title);
  await attempt("top", () => top.document.title);
  await attempt("address", () => String(top.location.href));
  await attempt("navigate top", () => { top.location.href = out + "/top"; });
  await attempt("fetch", () => fetch(out + "/fetch", { mode: "no-cors" }));
  await attempt("act", () => fetch(page + "/act", { method: "POST", body: "{}", mode: "no-cors" }));
  await attempt("socket", () => loaded(new WebSocket(out.replace("http", "ws"))));
  await attempt("image", () => loaded(new Image(), out + "/image"));
  await attempt("script", () => loaded(document.createElement("script"), out + "/script"));
  await attempt("cookie", () => { document.cookie = "a=b"; return document.cookie || "none"; });
  await attempt("storage", () => { localStorage.a = "b"; });
  await attempt("eval", () => eval("1 + 1"));
  await attempt("open", () => { if (!open(out + "/open")) throw 0; });
  const form = document.createElement("form");
  form.action = out + "/form";
  document.body.append(form);
  form.submit();
  const frame = document.createElement("iframe");
  frame.src = out + "/frame";
  document.body.append(frame);
  navigator.sendBeacon(out + "/beacon", "x");
  await new Promise(done => setTimeout(done, 500));
  post({ method: "notifications/message", params: { level: "info", data: found } });
  setTimeout(() => { location.href = out + "/self"; }, 500);
}
"""


def test_an_app_reaches_nothing_but_the_host(browser: Browser) -> None:
    heard: list[tuple[str, str]] = []
    listener = Listener()
    thread = threading.Thread(target=listener.serve_forever, args=(0.05,))
    thread.start()
    try:
        holder: dict[str, str] = {}
        server = talkative()
        apps = Apps()

        def html() -> str:
            script = HOSTILE.replace("{{out}}", listener.origin).replace("{{page}}", holder["origin"])
            return APP.replace("function started() {}", script)

        apps.html("ui://weather/now", html)
        server.extend(apps)
        with opened(browser, server) as window:
            holder["origin"] = window.address.partition("/#")[0]
            window.host._on_event = lambda name, what, said: heard.append((what, said))
            choose(browser, "now")
            submit(browser, city="Porto")
            until = time.monotonic() + PATIENCE
            while not (logs := [said for what, said in heard if what == "log"]) and time.monotonic() < until:
                time.sleep(0.05)
            time.sleep(1.5)  # an app that navigates away does so now, if it can: nothing tells that it could not
            title = browser.run("return document.title")
    finally:
        listener.shutdown()
        thread.join(PATIENCE)
        listener.server_close()
    found = json.loads(logs[0].partition("ui://weather/now: ")[2].replace("'", '"'))
    assert {name: what for name, what in found.items() if what != "stopped"} in ({}, {"cookie": "none"})
    assert listener.heard == [] and title == "MCP window"
