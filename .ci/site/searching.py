"""The words of the search: error codes, which Sphinx takes for numbers, and Chinese, which has no spaces between words.

An error code is one word. Of a run of Chinese characters each two that stand together are one. What is searched for is
split on the page as the pages were.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.search import SearchLanguage
from sphinx.search.en import SearchEnglish
from sphinx.util import logging

_RUNS = re.compile(r"(?<!\w)-32\d{3}(?!\d)|[\u4e00-\u9fff]+|[^\W\u4e00-\u9fff]+")
_SPLIT = """
function splitQuery(query) {
  const runs = query.match(/-32\\d{3}|[\\u4e00-\\u9fff]+|(?:(?![\\u4e00-\\u9fff])[\\p{L}\\p{N}_])+/gu) || [];
  return runs.flatMap((run) => {
    if (run.startsWith("-")) return ["code" + run.slice(1)];
    if (run < "\\u4e00" || run.length < 3) return [run];
    return [...run].slice(1).map((last, at) => run[at] + last);
  });
}
"""


def _terms(text: str) -> list[str]:
    found = list[str]()
    for run in _RUNS.findall(text):
        if run.startswith("-"):
            found.append(f"code{run[1:]}")
        elif run < "\u4e00" or len(run) < 3:
            found.append(run)
        else:
            found += [run[at : at + 2] for at in range(len(run) - 1)]
    return found


class English(SearchEnglish):
    """English, with error codes as words."""

    js_splitter_code = _SPLIT

    def split(self, input: str) -> list[str]:
        """The terms of a text."""
        return _terms(input)


class Chinese(SearchLanguage):
    """Chinese, without a dictionary."""

    lang, language_name, js_splitter_code = "zh", "Chinese", _SPLIT

    def split(self, input: str) -> list[str]:
        """The terms of a text."""
        return _terms(input)

    def word_filter(self, stemmed_word: str) -> bool:
        """Whether a term is kept."""
        return len(stemmed_word) > 1

    def stem(self, word: str) -> str:
        """No word has an ending here."""
        return word.lower()


def _whole(app: Any, doctree: Any, docname: str) -> None:
    """Warn of a page of which a part is not translated: its English has changed, and its catalogue has not."""
    progress = doctree.get("translation_progress", {})
    left = progress.get("total", 0) - progress.get("translated", 0)
    if app.config.language != "en" and docname.startswith(("spec_notes/", "lessons/")) and left:
        logging.getLogger(__name__).warning("%d parts of this page are not in Chinese", left, location=docname)


def setup(app: Any) -> None:
    """Take the place of the two searches; and see to it that a Chinese page is Chinese as a whole."""
    app.add_search_language(English)
    app.add_search_language(Chinese)
    app.connect("doctree-resolved", _whole)
