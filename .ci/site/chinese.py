"""Search in Chinese, which has no spaces between words: a run of characters is found by each two of them."""

from __future__ import annotations

import re
from typing import Any

from sphinx.search import SearchLanguage

_RUNS = re.compile(r"[\u4e00-\u9fff]+|[a-zA-Z0-9_]+")


class SearchChinese(SearchLanguage):
    """Words of Latin letters as they are, Chinese ones in pairs; the page splits what is searched for alike."""

    lang, language_name = "zh", "Chinese"
    js_splitter_code = """
const splitQuery = (query) =>
  (query.match(/[\\u4e00-\\u9fff]+|[a-zA-Z0-9_]+/g) || []).flatMap((run) =>
    /[a-zA-Z0-9_]/.test(run) || run.length < 3 ? [run] : [...run].slice(1).map((last, at) => run[at] + last),
  );
"""

    def split(self, input: str) -> list[str]:
        """The terms of a text."""
        found = list[str]()
        for run in _RUNS.findall(input):
            chinese = run[0] >= "\u4e00" and len(run) > 2
            found += [run[at : at + 2] for at in range(len(run) - 1)] if chinese else [run]
        return found

    def word_filter(self, stemmed_word: str) -> bool:
        """Whether a term is kept."""
        return len(stemmed_word) > 1

    def stem(self, word: str) -> str:
        """No word has an ending here."""
        return word.lower()


def setup(app: Any) -> None:
    """Take the place of the search that wants a dictionary."""
    app.add_search_language(SearchChinese)
