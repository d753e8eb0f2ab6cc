"""JSON as text: exactly what JSON allows, on one line, and at most as many values as a message can need.

The contract: `decode` raises ValueError for `NaN`, an infinity, a number that is too large and whatever else is not
JSON, and RecursionError where it is nested too deeply. `check_count`, which costs a look through the text, raises
ValueError for more than `MAX_VALUES` values; a text of up to so many characters needs none. `encode` writes no line
break and raises TypeError, ValueError or RecursionError for what is not JSON; `encode_ascii` does the same with escapes
for whatever is not ASCII. `weigh` says how much of a bound in bytes a value takes, `weigh_text` does from its text.
"""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Final, NoReturn

MAX_VALUES: Final = 1_000_000
"""Brackets and commas that a text may have outside of its strings: each is a value, of up to 240 bytes in memory."""

_STRING: Final = re.compile('"[^"]*"')  # once escapes are taken out


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits} is too large for a number")
    return number


decode = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite).decode
encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
encode_ascii = json.JSONEncoder(ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode


def check_count(text: str) -> None:
    """Raise ValueError if the text would make more than `MAX_VALUES` values.

    They are counted before they are made: three bytes of text may be 70 in memory. The first count takes the commas and
    brackets within strings for values; only if it is too high does a second one leave the strings out.
    """
    if _values(text) > MAX_VALUES:
        rest, strings = _without_strings(text)
        if strings in (0, 2 * MAX_VALUES) or _values(rest) > MAX_VALUES:
            raise ValueError(f"more than {MAX_VALUES:,} values in one message")


def weigh(value: object) -> int:
    """Return the bytes that a value takes: its text, as wide as its widest character, and 100 for each value in it.

    What nests too deeply to be weighed is heavier than anything.
    """
    try:
        text = encode(value)
    except RecursionError:
        return sys.maxsize
    return sys.getsizeof(text) + 100 * _values(_without_strings(text)[0])


def weigh_text(data: bytes) -> int:
    """Return the bytes that the value of a JSON text takes, at most: commas and brackets in its strings count, too."""
    values = data.count(b"[") + data.count(b"{") + data.count(b",")
    return len(data) * (1 if data.isascii() else 4) + 100 * values


def weigh_up_to(most: int, value: object) -> int:
    """Return the weight of a value; of one that is heavier than `most`, or nested too deeply, `most + 1`."""
    return min(weigh(value), most + 1)


def _without_strings(text: str) -> tuple[str, int]:
    return _STRING.subn("", text.replace("\\\\", "").replace('\\"', ""), 2 * MAX_VALUES)


def _values(text: str) -> int:
    return text.count("[") + text.count("{") + text.count(",")
