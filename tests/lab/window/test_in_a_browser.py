"""The window in a real browser: what a user sees and does, and what an app can not do."""

from __future__ import annotations

import http.server
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_ref import Apps, Command, Context, Entry, Server
from mcp_ref.lab.window.window import Window
from tests.host.common import PATIENCE
from tests.interop.test_apps import CLOCK
from tests.lab.judge.test_show import Browser
from tests.lab.judge.test_show import browser as browser
from tests.lab.window.test_window import talkative
from tests.support.clock import until

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


@pytest.fixture(autouse=True)
def an_app_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_ref.host.apps.LEAVE", 0.2)


@contextmanager
def opened(browser: Browser, server: Any, *others: Entry) -> Iterator[Window]:
    window = Window([Entry("weather", server), *others], ["weather", *(each.name for each in others)])
    try:
        window.start()
        browser._post("/url", {"url": window.address})
        wait(browser, "document.querySelectorAll('.item').length")
        yield window
    finally:
        window.close()
        browser._post("/url", {"url": "about:blank"})


@contextmanager
def sized(browser: Browser, width: int) -> Iterator[None]:
    """A window of this width, in pixels."""
    metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser._post("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})
    try:
        yield
    finally:
        browser._post("/goog/cdp/execute", {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}})


def wait(browser: Browser, value: str) -> Any:
    """Wait until an expression is true in the page, and return its value."""
    return until(lambda: browser.run(f"return {value}"))


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


def message(browser: Browser, method: str) -> Any:
    """Open the first message of a method, and return what it says."""
    first = (
        "[...document.querySelectorAll('.message')].find(each => each.querySelector('.what').textContent"
        f" === {method!r})"
    )
    wait(browser, first + " !== undefined")
    browser.run(f"{first}.querySelector('button').click()")
    return wait(browser, f"{first}.querySelector('.more').innerText")


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
        assert "jsonrpc" in message(browser, "tools/call")
        choose(browser, "greet")
        submit(browser, name="Ada")
        assert "Hello Ada" in wait(browser, "document.querySelector('.result')?.innerText")


@pytest.mark.parametrize("width", [400, 800, 1280])
def test_the_page_fits_and_everything_that_can_be_used_has_a_name(browser: Browser, width: int) -> None:
    with sized(browser, width), opened(browser, talkative()):
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
            [logged] = until(lambda: [said for what, said in heard if what == "log"])
            time.sleep(1.5)  # an app that navigates away does so now, if it can: nothing tells that it could not
            title = browser.run("return document.title")
    finally:
        listener.shutdown()
        thread.join(PATIENCE)
        listener.server_close()
    found = json.loads(logged.partition("ui://weather/now: ")[2].replace("'", '"'))
    assert {name: what for name, what in found.items() if what != "stopped"} in ({}, {"cookie": "none"})
    assert listener.heard == [] and title == "MCP window"


# -- apps that do what they should not


def misbehaving(browser: Browser, script: str, *others: Entry) -> Any:
    """Open the page with an app that does this once it has started."""
    return opened(
        browser, with_app(APP.replace("function started() {}", f"async function started() {{ {script} }}")), *others
    )


WRONG = {
    "loops": "for (;;) {}",
    "floods": "for (let n = 0; n < 20000; n++)"
              " post({ method: 'notifications/message', params: { level: 'info', data: n } });",
    "garbage": "for (const each of [null, 5, 'x', [], {}, { jsonrpc: 2 }, { id: {}, method: [] }, new Map()])"
               " parent.postMessage(each, '*');",
    "large": "post({ method: 'notifications/message', params: { level: 'info', data: 'x'.repeat(2e7) } });",
    "nested": "let deep = {}; for (let n = 0; n < 3000; n++) deep = { deep };"
              " post({ method: 'notifications/message', params: { level: 'info', data: deep } });",
    "again": "for (let n = 0; n < 50; n++) ask('ui/initialize', about);",
    "alerts": "alert('x'); confirm('y'); print();",
    "huge": "post({ method: 'ui/notifications/size-changed', params: { width: 1e9, height: 1e9 } });",
    "writes": "document.open(); document.write('<h1>gone</h1>'); document.close();",
    "asks": "for (let n = 0; n < 300; n++) ask('ui/message', { role: 'user', content: { type: 'text', text: 'x' } });",
    "steals": "ask('tools/call', { name: 'other/secret', arguments: {} });"
              " ask('resources/read', { uri: 'file:///etc/passwd' });",
    "poses": "post({ method: 'ui/notifications/sandbox-proxy-ready' });"
             " top.postMessage({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'refresh' } }, '*');",
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_whatever_an_app_does_the_page_stays_usable(browser: Browser, name: str) -> None:
    calls: list[str] = []
    other = Server("other")
    other.tool(name="secret")(lambda: calls.append("secret") or "secret")
    with misbehaving(browser, WRONG[name], Entry("other", other)):
        choose(browser, "now")
        submit(browser, city="Porto")
        wait(browser, "document.querySelector('.app iframe')")
        wait(browser, "document.querySelector('.lane-app')")
        # Whatever it asked is answered with a no, as the one dialog that is open says; then the user goes on.
        browser.run("document.querySelector('dialog[open] .other')?.click()")
        browser.run("[...document.querySelectorAll('.app button')].find(each => each.textContent === 'Close')?.click()")
        wait(browser, "!document.querySelector('.app')")
        more = "const no = document.querySelector('dialog[open] .other'); no?.click(); return !!no"
        until(lambda: not browser.run(more))
        choose(browser, "greet")
        submit(browser, name="Ada")
        assert "Hello Ada" in wait(browser, "document.querySelector('.result')?.innerText")
        assert browser.run("return document.title") == "MCP window" and calls == []


# -- servers that do what they should not


def test_two_thousand_tools_can_be_chosen_and_a_result_of_fifty_megabytes_is_cut(browser: Browser) -> None:
    server = talkative()
    server.tool(name="large")(lambda: "x" * 50_000_000)
    for number in range(2_000):
        server.tool(name=f"tool{number}")(lambda: "done")
    with opened(browser, server):
        wait(browser, "document.querySelectorAll('.item').length > 1900")
        for tool, said in (("large", "characters)"), ("tool1500", "done")):
            choose(browser, tool)
            submit(browser)
            wait(browser, f"document.querySelector('.result')?.innerText.includes({said!r})")


EVIL = "</script><img src=x onerror='document.title=1'>\u202e\u0007<b>bold</b>"


def test_texts_of_a_server_are_text_and_hide_nothing(browser: Browser) -> None:
    server = Server(EVIL, version=EVIL, instructions=EVIL)

    @server.tool(name="evil", title=EVIL, description=EVIL)
    def evil(ctx: Context, value: str = EVIL) -> str:
        ctx.log("warning", EVIL)
        ctx.progress(1, 2, EVIL)
        return EVIL

    with opened(browser, server):
        browser.run("document.querySelector('.item').click()")
        submit(browser)
        said = wait(browser, "document.querySelector('.result')?.innerText")
        assert "<b>bold</b>" in said and "\u27e8202E\u27e9" in said and "\u202e" not in said
        assert browser.run("return document.title") == "MCP window"
        whole = browser.run("return document.body.innerText")
        assert "\u202e" not in whole and "\u0007" not in whole
        assert browser.run("return document.querySelectorAll('img, main b').length") == 0


BAD = [
    "import time; time.sleep(3600)", "raise SystemExit(3)", "while True: print('x' * 1000)",
    "print('{}'); import time; time.sleep(3600)",
]  # fmt: skip


def test_a_server_that_hangs_dies_or_floods_is_a_state_beside_the_others(browser: Browser) -> None:
    bad = [
        Entry(f"bad{number}", Command([sys.executable, "-c", program]), start_timeout=2)
        for number, program in enumerate(BAD)
    ]
    with opened(browser, talkative(), *bad):
        states = "[...document.querySelectorAll('.server')].map(each => each.innerText)"
        wait(browser, f"{states}.filter(each => each.includes('failed')).length === {len(BAD)}")
        choose(browser, "greet")
        submit(browser, name="Ada")
        assert "Hello Ada" in wait(browser, "document.querySelector('.result')?.innerText")


# -- what else there is


def test_an_argument_is_completed_another_revision_spoken_and_a_prompt_answered(browser: Browser) -> None:
    with opened(browser, talkative()):
        choose(browser, "greet")
        browser.run("const input = document.querySelector('main input'); input.value = 'A';"
                    "input.dispatchEvent(new Event('input'))")  # fmt: skip
        wait(browser, "document.querySelectorAll('datalist option').length === 2")
        browser.run("const select = document.querySelector('.server select'); select.value = '2025-06-18';"
                    "select.dispatchEvent(new Event('change'))")  # fmt: skip
        wait(browser, "document.querySelector('h1')?.textContent.includes('says otherwise than')")
        assert "methods" in browser.run("return document.querySelector('main details').innerText")
        wait(
            browser,
            "document.querySelector('.server select')?.value === '2025-06-18' && document.querySelector('.dot.ready')",
        )
        choose(browser, "poem")
        submit(browser)
        assert "Write a line." in wait(browser, "document.querySelector('dialog[open]')?.innerText")
        browser.run("document.querySelector('dialog form').requestSubmit()")
        assert "must have a value" in wait(browser, "document.querySelector('dialog .error:not(:empty)')?.textContent")
        browser.run("document.querySelector('dialog textarea').value = 'Rain on the river.'")
        browser.run("document.querySelector('dialog form').requestSubmit()")
        assert "Rain on the river." in wait(browser, "document.querySelector('.result')?.innerText")
        assert "mcp_ref/pages/server/tools.py" in message(browser, "tools/call")


ROOT = Path(__file__).parent.parent.parent.parent
AXE = ROOT / "tests/lab/judge/node/node_modules/axe-core/axe.min.js"


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: bash .ci/peers")
@pytest.mark.parametrize(("width", "dark"), [(400, True), (1280, False)])
def test_axe_finds_nothing_serious(browser: Browser, width: int, dark: bool) -> None:
    look = (
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, { iframes: false }).then(found => done(found.violations"
        ".filter(each => ['serious', 'critical'].includes(each.impact))"
        ".map(each => each.id + ': ' + each.nodes[0].html)))"
    )

    def serious() -> Any:
        return browser._post("/execute/async", {"script": look, "args": []})

    with sized(browser, width), opened(browser, with_app()):
        browser.dark(dark)
        # The page would not let axe in.
        browser._post("/goog/cdp/execute", {"cmd": "Page.setBypassCSP", "params": {"enabled": True}})
        browser.run(AXE.read_text("utf-8"))
        choose(browser, "now")
        assert serious() == []
        submit(browser, city="Porto")
        wait(browser, "document.querySelector('.app iframe')")
        browser.run("document.querySelector('[data-tab=traffic]').click()")
        assert serious() == []
        choose(browser, "ask")
        submit(browser)
        wait(browser, "document.querySelector('dialog[open]')")
        assert serious() == []
        browser._post("/goog/cdp/execute", {"cmd": "Page.setBypassCSP", "params": {"enabled": False}})


def test_the_states_of_a_task_are_shown_where_one_call_is_under_way(browser: Browser) -> None:
    held, server = threading.Event(), talkative()

    @server.tool(task="optional")
    def build(ctx: Context) -> str:
        assert held.wait(PATIENCE)
        return "built"

    words = "[...document.querySelectorAll('main form p')].map(each => each.textContent).join()"
    with opened(browser, server):
        choose(browser, "build")
        submit(browser)
        wait(browser, f"{words}.includes('the task is working')")
        held.set()
        assert "built" in wait(browser, "document.querySelector('.result')?.innerText")
        assert "the task is" not in browser.run(f"return {words}")


# -- what others have written

OFFICIAL = ROOT / "tests/interop/node/node_modules/@modelcontextprotocol/ext-apps/dist/src/app-with-deps.js"
BY_THE_LIBRARY = """
const app = new App({ name: "official", version: "1" }, {});
const said = text => { document.getElementById("said").textContent = text; };
app.ontoolresult = params => said(params.content[0].text);
app.onteardown = async () => ({});
await app.connect();
document.querySelector("button").onclick = async () => {
  try { said((await app.callServerTool({ name: "refresh", arguments: {} })).content[0].text); }
  catch (problem) { said(String(problem)); }
};
"""


@pytest.mark.skipif(not OFFICIAL.exists(), reason="the official library for apps is not installed: bash .ci/peers")
def test_an_app_by_the_official_library_is_shown_and_calls_by_consent(browser: Browser) -> None:
    library = OFFICIAL.read_text("utf-8")
    exported = re.findall(r"([\w$]+) as App[,}]", library)
    script = f"{library}\nconst App = {exported[0]};\n{BY_THE_LIBRARY}" if exported else library + BY_THE_LIBRARY
    html = (
        f'<!doctype html><title>x</title><p id="said">waiting</p><button>again</button><script type="module">{script}'
    )
    with opened(browser, with_app(html + "</script>")):
        choose(browser, "now")
        submit(browser, city="Porto")
        wait(browser, "document.querySelector('.app iframe')")
        wait_in_app(browser, "rain in Porto")
        in_app(browser, "document.querySelector('button').click()")
        wait(browser, "document.querySelector('dialog[open]')")
        browser.run("document.querySelector('dialog form').requestSubmit()")
        wait_in_app(browser, "sun")
        # It says how large it is, and the frame is as large.
        assert browser.run("return document.querySelector('.app iframe').style.height") != "120px"
        assert browser.run("return document.querySelectorAll('.lane-app.wrong').length") == 0


def wait_in_app(browser: Browser, said: str) -> None:
    until(lambda: in_app(browser, "return document.getElementById('said')?.textContent") == said)


def test_the_app_of_a_server_by_the_sdk_is_shown(browser: Browser, tmp_path: Path) -> None:
    program = tmp_path / "clock.py"
    program.write_text(CLOCK, "utf-8")
    with opened(browser, Command([sys.executable, str(program)], inherit=True)):
        choose(browser, "now")
        submit(browser)
        assert "noon, True" in wait(browser, "document.querySelector('.result')?.innerText")
        assert "ui://clock/app.html" in wait(browser, "document.querySelector('.app')?.innerText")
        browser.run("[...document.querySelectorAll('.app button')].find(each => each.textContent === 'Policy').click()")
        assert "connect-src https://a.example" in wait(browser, "document.querySelector('.app pre')?.innerText")
