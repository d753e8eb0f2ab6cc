"""The site, from what lies in the repository: `python -m pip install -e '.[site]' && python .ci/site`.

It writes build/site (English) and build/site/zh (what is in Chinese as a whole), checks every link within, and lists in
build/site-outside.txt those that lead outside. Conversations are recorded while it is made; nothing is fetched.
"""

from __future__ import annotations

import shutil
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(HERE)]

try:
    import gather
    import links
    from sphinx.cmd.build import main as sphinx
except ModuleNotFoundError as missing:
    sys.exit(f"{missing}: python -m pip install -e '.[site]'")

SITE, SOURCE = ROOT / "build" / "site", ROOT / "build" / "site-source"
OUTSIDE = ROOT / "build" / "site-outside.txt"
DOCTREES = ROOT / "build" / "site-doctrees"


def build(language: str) -> int:
    """Make one language; Sphinx's exit code."""
    source, out = SOURCE / language, SITE if language == "en" else SITE / "zh"
    shutil.rmtree(source, ignore_errors=True)
    gather.lay(source, language, SITE)
    words = ["-W", "--keep-going", "-q", "-c", str(HERE), "-D", f"language={language}"]
    return sphinx([*words, "-d", str(DOCTREES / language), str(source), str(out)])


def main() -> int:
    """Build both languages and check the links; what went wrong has been printed."""
    begun = time.monotonic()
    shutil.rmtree(SITE, ignore_errors=True)
    with ProcessPoolExecutor(1) as other:
        chinese = other.submit(build, "zh_CN")
        failed = build("en") or chinese.result()
    broken = links.broken(SITE)
    for each in broken:
        print(each)
    outside = links.external(SITE)
    OUTSIDE.write_text("".join(f"{each}\n" for each in outside), "utf-8")
    pages = sum(1 for _ in SITE.rglob("*.html"))
    took = time.monotonic() - begun
    print(
        f"{pages} pages in {took:.0f} s, {len(broken)} broken links, {len(outside)} that lead outside: {OUTSIDE.name}"
    )
    return failed or bool(broken)


if __name__ == "__main__":
    sys.exit(main())
