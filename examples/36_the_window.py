"""Lesson 36: the window: a host with a page in the browser, and how it keeps an app away from everything else.

Era:       stateless
Revision:  2026-07-28
Page:      extensions/apps
Needs:     lessons 11 and 35

`mcp-ref window -- python server.py` shows a server in the browser: what it offers, a form for each tool, its apps, its
questions, and every message with what is wrong in it. See it first, with the server of this lesson:

    mcp-ref window -- python examples/36_the_window.py serve

Then look at how it is done. A program on your machine that a page can talk to is a door for every page you visit. So
each start has a token, which no URL carries; the page may load nothing from elsewhere; and an app has an origin of its
own, with a policy made from what its document declares. This program is the browser, and tries the doors:

    python examples/36_the_window.py
"""

import subprocess
import sys

import requests

from mcp_ref import Apps, Server

HTML = """<!doctype html><title>The weather</title><h1>waiting</h1><script>
const post = message => parent.postMessage({ jsonrpc: "2.0", ...message }, "*");
addEventListener("message", ({ data }) => {
  if (data.id === 1) post({ method: "ui/notifications/initialized" });
  if (data.method === "ui/notifications/tool-result")
    document.querySelector("h1").textContent = data.params.content[0].text;
});
const app = { appInfo: { name: "now", version: "1" }, appCapabilities: {}, protocolVersion: "2026-01-26" };
post({ id: 1, method: "ui/initialize", params: app });
</script>"""


def serve() -> None:
    apps = Apps()
    apps.html("ui://weather/now", HTML, csp={"connectDomains": ["https://weather.example"]})
    server = Server("weather", extensions=[apps])

    @server.tool(ui="ui://weather/now")
    def now(city: str) -> str:
        """The weather of a city."""
        return f"rain in {city}"

    server.run()


def look(address: str) -> None:
    """Be the browser that opens this address."""
    origin, _, token = address.partition("/#")
    with requests.Session() as browser:

        def act(headers: dict[str, str], **asked: object) -> requests.Response:
            return browser.post(f"{origin}/act", json=asked, headers=headers, timeout=60)

        page = browser.get(origin, timeout=60)
        print("the page has the token in it:", token in page.text)
        policy = dict(each.split(" ", 1) for each in page.headers["Content-Security-Policy"].split("; "))
        print("it may load:", policy["default-src"], "and talk to:", policy["connect-src"])

        own = {"Authorization": f"Bearer {token}"}
        print("without the token:", act({}, do="state").status_code)
        print("from another page:", act({**own, "Origin": "https://evil.example"}, do="state").status_code)
        print("under another name:", act({**own, "Host": "evil.example"}, do="state").status_code)

        # Everything that happens comes as an event stream; the call's result, and each message, are events of it.
        with browser.get(f"{origin}/events", headers=own, stream=True, timeout=60) as events:
            lines = (line for line in events.iter_lines(chunk_size=None, decode_unicode=True) if "data" in line)
            if not act(own, do="state").json()["tools"]:
                next(line for line in lines if '"tools":[{' in line)  # the server has started
            act(
                own, do="call", call="c1", name="36_the_window/now", server="36_the_window", arguments={"city": "Porto"}
            )
            print("the result came:", "rain in Porto" in next(line for line in lines if '"call":"c1"' in line))

        app = act(own, do="open", call="c1").json()
        print("the app is of another origin:", not app["url"].startswith(origin))
        framed = browser.get(app["url"], timeout=60).headers["Content-Security-Policy"]
        print(*(each for each in framed.split("; ") if each.startswith(("default", "connect", "frame-src"))), sep="\n")
        guessed = browser.get(app["url"][:-1], timeout=60)
        print("with a letter missing:", guessed.status_code)


if sys.argv[1:] == ["serve"]:
    serve()
else:
    command = [sys.executable, "-m", "mcp_ref", "window", "--no-browser", "--", sys.executable, __file__, "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as window:
        try:
            assert window.stdout is not None
            look(window.stdout.readline().strip())
        finally:
            window.terminate()

# Output:
#
# the page has the token in it: False
# it may load: 'none' and talk to: 'self'
# without the token: 401
# from another page: 403
# under another name: 403
# the result came: True
# the app is of another origin: True
# default-src 'none'
# connect-src https://weather.example
# frame-src 'none'
# with a letter missing: 404
