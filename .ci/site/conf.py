"""Sphinx's configuration for both languages of the site."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent.parent), str(HERE)]

import folds  # noqa: E402
import followed  # noqa: E402
import recordings  # noqa: E402
import reference  # noqa: E402
import searching  # noqa: E402
import sentences  # noqa: E402
import sources  # noqa: E402

project = html_title = "mcp_ref"
author = "mcp_ref"
extensions = ["myst_parser"]
html_theme = "furo"
html_static_path = [str(HERE / "static")]
html_css_files, html_js_files = ["site.css"], ["site.js"]
html_show_sourcelink = html_copy_source = False
html_show_sphinx = False
locale_dirs = [str(HERE / "locale")]
gettext_compact = False

# As a forge makes the anchors of headings, since the same files are read there.
myst_heading_anchors = 4
myst_url_schemes = {"http": None, "https": None, "mailto": None, **dict.fromkeys(sources.SCHEMES)}
suppress_warnings = [
    "myst.header",  # a page may begin with a heading of any level
    "misc.highlighting_failure",  # JSON with an ellipsis is shown as it is
]


def setup(app):
    """Add what the pages of this site have and others do not."""
    for part in (searching, sources, folds, recordings, sentences, followed, reference):
        part.setup(app)
