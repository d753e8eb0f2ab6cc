"""The page of a trace: what is in it, that nothing in a trace gets out of its text, and how it behaves in a browser."""

from __future__ import annotations

import json
import re
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_ref.lab.cli import main
from mcp_ref.lab.judge.check import check
from mcp_ref.lab.judge.fields import MEANINGS, members
from mcp_ref.lab.judge.show import data, page
from mcp_ref.recording.record import TraceEvent, to_row
from tests.lab.judge.talks import C, N, S, full, over_stdio, stdio
from tests.support.machine import free_port
from tests.test_pictures import hostile, question_in_rounds

DRIVER, BROWSER = shutil.which("chromedriver"), shutil.which("chromium")


def made(text: str) -> Any:
    return json.loads(re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[0])


def test_every_member_that_a_type_of_the_wire_names_has_a_meaning() -> None:
    assert not members().keys() - MEANINGS.keys()
    assert members()["ttlMs"]["revisions"] == ["2026-07-28"]


def test_a_message_has_its_partner_its_members_and_what_is_wrong_with_it() -> None:
    trace = over_stdio("2025-11-25", C(1, "ping"), S(1, pong=True))
    found = data(trace, check(trace), "name")
    rows = found["rows"]
    assert (rows[3]["partner"], rows[4]["partner"]) == (4, 3)
    assert [finding["ids"] for finding in rows[4]["findings"]] == [
        ("2025-11-25/basic/utilities/ping#behavior-requirements.1",)
    ]
    assert found["members"]["protocolVersion"]["types"] == ["string"]
    assert found["members"]["protocolVersion"]["sentences"][0]["ids"]


def test_nothing_in_a_trace_gets_out_of_its_text() -> None:
    text = page(hostile(), check(hostile()), "</title><script>alert(1)</script>")
    assert text.count("<script") == 2 and text.count("</script>") == 2 and text.count("<!") == 1
    assert "default-src 'none'" in text and "unsafe" not in text and "//" not in text.split("<script")[0]
    assert made(text)["name"] == "</title><script>alert(1)</script>"


def test_the_command_writes_one_file(tmp_path: Path) -> None:
    trace, target = tmp_path / "t.jsonl", tmp_path / "page.html"
    trace.write_text("".join(to_row(event) + "\n" for event in question_in_rounds()), "utf-8")
    assert main(["show", str(trace), "-o", str(target)]) == 0
    assert made(target.read_text("utf-8"))["name"] == "t.jsonl"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_row_names_its_tool_and_says_that_it_failed() -> None:
    trace = stdio([C(1, "tools/call", name="buy", arguments={}), S(1, content=[], isError=True)])
    rows = made(page(trace, [], "t"))["rows"]
    assert [(row["name"], row["failed"]) for row in rows] == [("buy", False), ("buy", True)]


# -- in a browser -------------------------------------------------------------------------------------------------


class Browser:
    """A headless Chromium by its driver, as far as these tests need it."""

    def __init__(self, port: int) -> None:
        import requests

        self._http, self._url = requests.Session(), f"http://127.0.0.1:{port}/session"
        self._http.trust_env = False
        options = "--headless=new --no-sandbox --disable-gpu --window-size=1200,800 --disable-dev-shm-usage"
        chrome = {"binary": BROWSER, "args": options.split()}
        logs = {"performance": "ALL"}
        wanted = {"goog:chromeOptions": chrome, "goog:loggingPrefs": logs, "timeouts": {"script": 110_000}}
        self._url += "/" + self._post("", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def _post(self, path: str, body: Any) -> Any:
        answer = self._http.post(self._url + path, json=body, timeout=120).json()["value"]
        assert not (isinstance(answer, dict) and "error" in answer), answer
        return answer

    def open(self, path: Path, fragment: str = "") -> None:
        self._post("/url", {"url": path.as_uri() + fragment})
        until = time.monotonic() + 30
        while not self.run("return document.documentElement.dataset.ready") and time.monotonic() < until:
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        return self._post("/execute/sync", {"script": script, "args": []})

    def press(self, *keys: str) -> None:
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._post("/actions", {"actions": [{"type": "key", "id": "k", "actions": actions}]})

    def requests(self) -> list[str]:
        rows = [json.loads(row["message"])["message"] for row in self._post("/se/log", {"type": "performance"})]
        return [row["params"]["request"]["url"] for row in rows if row["method"] == "Network.requestWillBeSent"]

    def dark(self, on: bool) -> None:
        feature = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        command = {"cmd": "Emulation.setEmulatedMedia", "params": {"features": [feature]}}
        self._post("/goog/cdp/execute", command)

    def screenshot(self) -> str:
        return str(self._http.get(self._url + "/screenshot", timeout=60).json()["value"])

    def close(self) -> None:
        self._http.delete(self._url, timeout=30)
        self._http.close()


@contextmanager
def driven() -> Iterator[Browser]:
    """A browser, and its driver; only where both are installed."""
    assert DRIVER is not None
    port = free_port()
    with subprocess.Popen([DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        until = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert time.monotonic() < until
                time.sleep(0.05)
        with closing(Browser(port)) as found:
            yield found
        driver.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if DRIVER is None or BROWSER is None:
        pytest.skip("chromium and chromium-driver are not installed")
    with driven() as found:
        yield found


def many(count: int) -> list[TraceEvent]:
    lines = []
    for number in range(count // 4):
        call = C(number, "tools/call", name="t", arguments={"n": number}, _meta={"progressToken": number})
        lines += [call, N("notifications/progress", progressToken=number, progress=1),
                  N("notifications/message", level="info", data=f"needle {number}"),
                  S(number, content=[{"type": "text", "text": "x" * 50}])]  # fmt: skip
    return stdio(full("2025-11-25", lines, {}))


@pytest.mark.slow
def test_opens_ten_thousand_messages_within_a_second_and_filters_them_within_a_tenth(
    browser: Browser, tmp_path: Path
) -> None:
    target = tmp_path / "many.html"
    target.write_text(page(many(10_000), [], "many"), "utf-8")
    ready, filtered = [], []
    for _ in range(3):
        browser.open(target)
        ready.append(float(browser.run("return document.documentElement.dataset.ready")))
        assert browser.run("return document.getElementById('count').textContent") == "10000 of 10000"
        took = browser.run(
            "const f = document.getElementById('filter'), t = performance.now();"
            "f.value = 'needle kind:notification'; f.dispatchEvent(new Event('input')); return performance.now() - t"
        )
        filtered.append(took)
        assert browser.run("return document.getElementById('count').textContent") == "2500 of 10000"
    # The marks are 1 s and 100 ms; a machine that is busy has several times as much.
    print(f"ready after {min(ready):.0f} ms, filtered in {min(filtered):.0f} ms")
    assert min(ready) < 5000 and min(filtered) < 500
    # Rows that are out of sight are not made.
    assert browser.run("return document.querySelectorAll('.row').length") < 100


@pytest.mark.slow
def test_the_keyboard_reaches_everything_and_no_request_leaves(browser: Browser, tmp_path: Path) -> None:
    target, trace = tmp_path / "page.html", question_in_rounds()
    target.write_text(page(trace, check(trace), "rounds"), "utf-8")
    browser.requests()
    browser.open(target)
    browser.press("j", "j")
    assert browser.run("return document.querySelector('h2').textContent").startswith("3. request")
    assert browser.run("return location.hash") == "#m3"
    browser.press("p")
    assert browser.run("return document.querySelector('h2').textContent").startswith("4. response")
    browser.press("a")
    opened = browser.run("return [...document.querySelectorAll('.note strong')].map(e => e.textContent)")
    assert MEANINGS["inputRequests"] in opened and MEANINGS["requestState"] in opened
    links = browser.run("return [...document.querySelectorAll('.ids a')].map(e => e.href)")
    mrtr = "https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/mrtr"
    assert f"{mrtr}#client-requirements-basic-workflow" in links
    browser.press("\ue007")
    assert browser.run("return document.activeElement.id") == "one"
    browser.press("\ue00c", "/")
    assert browser.run("return document.activeElement.id") == "filter"
    browser.press("i", "d", ":", "3")
    assert browser.run("return document.getElementById('count').textContent") == "2 of 6"
    assert "f=id%3A3" in browser.run("return location.hash")
    # A link leads back to the message, and to the filter.
    browser.open(target, "#m5&f=who:client")
    assert browser.run("return document.querySelector('h2').textContent").startswith("5. ")
    assert browser.run("return document.getElementById('filter').value") == "who:client"
    # Everything that can be used has a name.
    assert browser.run(
        "return [...document.querySelectorAll('button, input, [tabindex]')]"
        ".filter(e => !(e.textContent || e.ariaLabel || e.getAttribute('aria-label'))).length"
    ) == 0  # fmt: skip
    assert [url for url in browser.requests() if not url.startswith("file:")] == []


@pytest.mark.slow
def test_hostile_text_is_shown_as_text_in_light_and_dark(browser: Browser, tmp_path: Path) -> None:
    target = tmp_path / "hostile.html"
    target.write_text(page(hostile(), check(hostile()), "hostile"), "utf-8")
    browser.open(target)
    browser.press(*["j"] * len(hostile()))
    assert browser.run("return document.querySelectorAll('script').length") == 2
    assert browser.run("return document.querySelectorAll('main script, header script').length") == 0
    browser.dark(False)
    light = browser.screenshot()
    browser.dark(True)
    dark = browser.screenshot()
    assert light != dark
    shades = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert shades == "rgb(21, 23, 26)"


@pytest.mark.slow
def test_the_sequence_diagram_stands_beside_the_list(browser: Browser, tmp_path: Path) -> None:
    target, trace = tmp_path / "page.html", question_in_rounds()
    target.write_text(page(trace, [], "rounds"), "utf-8")
    browser.open(target)
    arrows = browser.run(
        "return [...document.querySelectorAll('.row')].map(row => [row.classList.contains('client'),"
        " getComputedStyle(row.querySelector('.lane'), '::after').content,"
        " getComputedStyle(row.querySelector('.lane i')).borderTopStyle])"
    )
    assert arrows == [[True, '"▸"', "solid"], [False, '"◂"', "dashed"]] * 3


@pytest.mark.slow
def test_a_narrow_page_has_the_message_below_the_list_and_counts_its_findings(browser: Browser, tmp_path: Path) -> None:
    target = tmp_path / "narrow.html"
    target.write_text(page(hostile(), found := list(check(hostile())), "narrow"), "utf-8")
    metrics = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser._post("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})
    try:
        browser.open(target)
        places = browser.run(
            "return ['list', 'one'].map(id => document.getElementById(id).getBoundingClientRect())"
            ".map(box => [box.left, box.top, box.bottom, box.width])"
        )
        assert browser.run("return document.documentElement.scrollWidth") <= 400
        said = browser.run("return document.getElementById('found').textContent")
    finally:
        browser._post("/goog/cdp/execute", {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}})
    (left, _, bottom, width), (under, top, _, wide) = places
    assert left == under == 0 and top >= bottom and width == wide == 400
    assert said.startswith(f"{len(found)} finding" if found else "no findings")
