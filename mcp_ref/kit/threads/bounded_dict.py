"""Latest: a table that forgets its oldest entry, and what is made once of each object.

Contract: a table never has more entries than it was made for, whoever fills it. Threads: any; setting an entry that
another thread takes away at that moment does not fail.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Latest(OrderedDict[Key, Value]):
    """A table of the `most` entries that were set last."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        if len(self) > self._most:
            self.popitem(last=False)


def once(make: Callable[[Any], Value]) -> Callable[[Any], Value]:
    """Remember what is made of an object that nobody changes: which one it is counts, not what it equals."""
    known: Latest[int, tuple[Any, Value]] = Latest(1000)

    def get(part: Any) -> Value:
        # The object itself is kept too, so that no other one can come to have its id.
        if (found := known.get(id(part))) is None or found[0] is not part:
            found = known[id(part)] = part, make(part)
        return found[1]

    return get
