"""Complaints: warnings that a peer can cause, so that it cannot fill a log with them.

Contract: the first of a kind is a warning; any more are debugging, and have their number.
"""

from __future__ import annotations

import logging


class Complaints:
    """What one connection complains of. Threads: any; a number may then stand twice."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._counts: dict[str, int] = {}
        self._last = ""

    def __call__(self, text: str, *args: object) -> None:
        """Log it; `text`, before the arguments are put in, is its kind."""
        self._last = text % args
        count = self._counts[text] = self._counts.get(text, 0) + 1
        if count == 1:
            self._log.warning(text, *args)
        else:
            self._log.debug(f"{text} (number %d)", *args, count)

    def take_last(self) -> str:
        """The last complaint, cut, for whoever may have waited for what it was about; each of them once."""
        last, self._last = self._last, ""
        return last[:300]
