"""The picture of the window in README.md: `python -m tests.lab.window.picture` makes it again, with Chromium."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.lab.judge.test_show import Browser, driven
from tests.lab.window.test_in_a_browser import choose, submit, wait

ROOT = Path(__file__).parent.parent.parent.parent
LESSON = ROOT / "examples" / "36_the_window.py"
PICTURE = ROOT / "examples" / "guides" / "window.png"


def take(browser: Browser, folder: Path) -> bytes:
    """Return the window, in which a tool was called and its app is shown."""
    metrics = {"width": 1120, "height": 560, "deviceScaleFactor": 1, "mobile": False}
    browser._post("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics})
    browser.dark(False)
    server = folder / "weather.py"
    server.write_text(LESSON.read_text("utf-8"), "utf-8")
    command = [sys.executable, "-m", "mcp_ref", "window", "--no-browser", "--", sys.executable, str(server), "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as window:
        try:
            assert window.stdout is not None
            browser._post("/url", {"url": window.stdout.readline().strip()})
            wait(browser, "document.querySelectorAll('.item').length")
            choose(browser, "now")
            submit(browser, city="Porto")
            wait(browser, "document.querySelector('.app iframe')")
            wait(browser, "document.querySelectorAll('.lane-app').length >= 5")
            found = browser._post("/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": {}})
        finally:
            window.terminate()
    return base64.b64decode(found["data"])


if __name__ == "__main__":
    with driven() as opened, TemporaryDirectory() as place:
        PICTURE.write_bytes(take(opened, Path(place)))
