"""The site, as `python .ci/site` has built it, in a real browser; and the check of its links."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.lab.judge.test_show import Browser
from tests.lab.judge.test_show import browser as browser
from tests.lab.window.test_in_a_browser import AXE
from tests.support.clock import until

ROOT = Path(__file__).parent.parent
SITE = ROOT / "build" / "site"
NOTE, WALK, QUESTION = (
    "spec_notes/server/tools.html",
    "walks/call_http_2025-11-25.html",
    "spec_notes/questions/opening.html",
)
PAGES = ["index.html", NOTE, WALK, QUESTION, "differences.html", "names.html", "zh/index.html"]
WIDTHS = (1280, 400)

built = pytest.mark.skipif(not SITE.exists(), reason="no site: pip install -e '.[site]' && python .ci/site")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@contextmanager
def opened(browser: Browser, page: str, width: int = 1280, dark: bool = False) -> Iterator[None]:
    """A page at a width; whatever it did, it loaded nothing from outside."""
    size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    browser.requests()
    browser._post("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": size})
    browser.dark(dark)
    browser._post("/url", {"url": SITE.as_uri() + "/" + page})
    until(lambda: browser.run("return document.readyState") == "complete")
    try:
        yield
        assert [each for each in browser.requests() if not each.startswith(("file:", "data:"))] == []
    finally:
        browser._post("/goog/cdp/execute", {"cmd": "Emulation.clearDeviceMetricsOverride", "params": {}})


def click(browser: Browser, css: str) -> None:
    script = "document.querySelector(arguments[0]).scrollIntoView({ block: 'center', behavior: 'instant' })"
    browser._post("/execute/sync", {"script": script, "args": [css]})
    found = browser._post("/element", {"using": "css selector", "value": css})
    browser._post(f"/element/{next(iter(found.values()))}/click", {})


def shown(browser: Browser) -> Any:
    """How many rows are shown."""
    return browser.run("return [...document.querySelectorAll('details.row')].filter(row => !row.hidden).length")


@built
@pytest.mark.parametrize(
    ("place", "words"), [("", "Mcp-Session-Id"), ("", "-32022"), ("", "会话"), ("zh/", "会话"), ("zh/", "被取消的请求")]
)
def test_the_search_finds_words_of_the_wire_and_chinese_ones(browser: Browser, place: str, words: str) -> None:
    with opened(browser, f"{place}search.html?q={words}"):
        look = "return [...document.querySelectorAll('#search-results li a')].map(each => each.href)"
        pages = until(lambda: browser.run(look))
        found = [SITE / page.removeprefix(SITE.as_uri() + "/").partition("?")[0].partition("#")[0] for page in pages]
        assert any(words in page.read_text("utf-8") for page in found)


@built
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", WIDTHS)
def test_a_sentence_has_its_code_and_its_test_beside_it_by_mouse_and_keyboard(
    browser: Browser, width: int, dark: bool
) -> None:
    look = """
const row = document.querySelector('details.row[open]'), box = row.querySelector('.beside').getBoundingClientRect();
return [row.querySelectorAll('.lit').length, row.textContent.includes('Shown by'), row.textContent.includes('test_'),
        box.width > 200 && box.right <= innerWidth, document.querySelectorAll('details.row[open]').length]"""
    with opened(browser, NOTE, width, dark):
        click(browser, "details.row:has(.lit) > summary")
        lit, head, test, fits, open_rows = browser.run(look)
        assert lit >= 1 and head and test and fits and open_rows == 1
        first = browser.run("return document.querySelector('details.row[open]').id")
        browser.press("\ue015")  # the arrow down
        assert browser.run("return document.querySelector('details.row[open]').id") != first
        browser.press("\ue013")  # the arrow up
        assert browser.run("return document.querySelector('details.row[open]').id") == first
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


@built
def test_sentences_are_filtered_by_keyword_revision_and_word(browser: Browser) -> None:
    with opened(browser, NOTE):
        everything = shown(browser)
        press = "[...document.querySelectorAll('.filter button')].find(each => each.textContent === '{}').click()"
        browser.run(press.format("MUST"))
        musts = shown(browser)
        browser.run(press.format("2024-11-05"))
        early = shown(browser)
        browser.run(
            "const field = document.querySelector('.filter input'); field.value = 'no such word';"
            "field.dispatchEvent(new Event('input'))"
        )
        assert everything > musts > early > shown(browser) == 0


@built
def test_a_link_to_a_sentence_opens_it(browser: Browser) -> None:
    with opened(browser, f"{NOTE}#server-tools.capabilities.1"):
        assert browser.run("return document.querySelector('details.row[open]').id") == "server-tools.capabilities.1"


@built
@pytest.mark.parametrize("width", WIDTHS)
def test_a_call_is_followed_step_by_step_on_the_main_path_or_everywhere(browser: Browser, width: int) -> None:
    with opened(browser, WALK, width):
        main = shown(browser)
        click(browser, "details.row > summary")
        browser.press("\ue015", "\ue015")
        row = "const row = document.querySelector('details.row[open]');"
        text, lines = browser.run(f"{row} return [row.textContent, row.querySelectorAll('.ran').length]")
        assert lines and "called by" in text and "call_tool" in text
        sides = browser.run(
            "return ['client', 'server', 'message'].map(side => document.querySelectorAll(`details.${side}`).length)"
        )
        assert all(sides)
        click(browser, ".filter button:nth-of-type(2)")
        assert shown(browser) > main
        assert browser.run("return document.documentElement.scrollWidth <= innerWidth")


@built
def test_two_menus_choose_what_is_compared(browser: Browser) -> None:
    parts = "[...document.querySelectorAll('[data-pair]')].filter(part => !part.hidden)"
    look = f"return {parts}.map(part => part.dataset.pair)"
    choose = """const [from, to] = document.querySelectorAll('.menus select');
[from.value, to.value] = arguments; from.dispatchEvent(new Event('change', { bubbles: true }))"""
    with opened(browser, "differences.html"):
        assert browser.run(look) == ["2025-11-25 2026-07-28"]
        browser._post("/execute/sync", {"script": choose, "args": ["2025-06-18", "2024-11-05"]})
        assert browser.run(look) == ["2024-11-05 2025-06-18"]
        browser._post("/execute/sync", {"script": choose, "args": ["2025-06-18", "2025-06-18"]})
        assert browser.run(look) == []


@built
def test_the_slides_fill_the_screen_and_turn_by_keys(browser: Browser) -> None:
    look = "return document.querySelector('section.now > h2')?.firstChild.textContent"
    with opened(browser, "spec_notes/slides.html"):
        click(browser, "button.present")
        until(lambda: browser.run("return !!document.fullscreenElement"))
        assert until(lambda: browser.run(look)) == "Who talks to whom"
        browser.press("\ue014")  # the arrow right
        assert browser.run(look) == "Two eras"
        browser.press("\ue010")  # End
        assert browser.run(look) == "Where next"
        browser.run("document.exitFullscreen()")


@built
@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: bash .ci/peers")
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_nothing_serious(browser: Browser, page: str, width: int, dark: bool) -> None:
    look = (
        "const done = arguments[arguments.length - 1];"
        "axe.run(document.querySelector('article'), {resultTypes: ['violations'], selectors: false})"
        ".then(found => done(found.violations"
        ".filter(each => ['serious', 'critical'].includes(each.impact))"
        ".map(each => each.id + ': ' + each.nodes[0].html)))"
    )
    with opened(browser, page, width, dark):
        browser.run("const row = document.querySelector('details.row'); if (row) row.open = true")
        browser.run(AXE.read_text("utf-8"))
        assert browser._post("/execute/async", {"script": look, "args": []}) == []


@built
def test_without_a_script_everything_can_be_read() -> None:
    text = (SITE / WALK).read_text("utf-8")
    assert "<details" in text and 'class="line ran"' in text and "tools/call" in text
    assert "data-pair" in (SITE / "differences.html").read_text("utf-8")


def test_the_check_of_links_finds_what_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / ".ci" / "site"), *sys.path])
    import links

    (tmp_path / "b.html").write_text('<h1 id="here">x</h1>', "utf-8")
    (tmp_path / "a.html").write_text(
        '<a class="x" href="b.html#here">1</a><a href="b.html#gone">2</a><a href="c.html">3</a><a href="#top">4</a>'
        '<a href="https://example.com/">5</a><script src="https://example.com/x.js"></script>',
        "utf-8",
    )
    assert links.broken(tmp_path) == [
        "a.html: no such anchor: b.html#gone",
        "a.html: no such page: c.html",
        "a.html: loads https://example.com/x.js",
    ]
    assert links.external(tmp_path) == ["https://example.com/"]


def test_a_page_that_is_not_whole_in_chinese_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("sphinx", reason="needs the extra site")
    monkeypatch.setattr(sys, "path", [str(ROOT / ".ci" / "site"), *sys.path])
    import searching

    chinese = SimpleNamespace(config=SimpleNamespace(language="zh_CN"))
    whole = {"translation_progress": {"total": 3, "translated": 3}}
    part = {"translation_progress": {"total": 3, "translated": 2}}
    searching._whole(chinese, whole, "spec_notes/path")
    assert not caplog.records
    searching._whole(chinese, part, "spec_notes/path")
    assert "1 parts of this page are not in Chinese" in caplog.text
