"""Complaints: warnings that a peer can cause, so that it cannot fill a log with them.

Contract: the first of a kind is a warning; any more are debugging, and have their number. `outcome` is the line on a
request, in which what a peer chose is quoted.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any


class Complaints:
    """Logs each kind of warning of one connection once. Threads: any; a number may then stand twice."""

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
        """Return the last complaint, cut, for whoever may have waited for what it was about; each of them once."""
        last, self._last = self._last, ""
        return last[:300]


def outcome(answer: Mapping[str, Any], method: str, named: object, who: object, seconds: float) -> str:
    """Return a line for the log on one request: how it was answered, for whom, and in what time."""
    error = answer.get("error")
    how = f"refused ({error['code']}: {error['message']!a:.200})" if error else "answered"
    whom, what = "" if who is None else f" of {str(who)!a:.100}", "" if named is None else f" {named!a:.100}"
    return f"{how}{whom} in {seconds:.3f} s: {method}{what}"
