"""Models: what a host needs of one. Which it is, and how it is reached, is the program's.

Spec:      client/sampling
Upholds:   spec_notes/architecture.md; spec_notes/client/sampling.md, the rows on the application
Not here:  what may go to a model (host/host); one over the protocol of OpenAI (examples/chat_host.py)
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from mcp_ref.pages.client.sampling import CreateMessageResult, ModelPreferences
from mcp_ref.wire.messages import JsonObject

MAX_NAME: Final = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class Model(Protocol):
    """A model, or several behind one address; what `Host(model=...)` is given.

    Attributes:
        url: where what is said goes, for the user to see; for one in this process, a word that says so.
    """

    url: str

    def choose(self, preferences: ModelPreferences | None) -> str:
        """Return the name of the model for a request: by the hints, then by the priorities (see `choose_model`)."""
        ...

    def complete(self, request: JsonObject, name: str, cancelled: Callable[[], bool]) -> CreateMessageResult:
        """Return the next message of a conversation. Both are in the shapes of `sampling/createMessage`.

        Args:
            request: messages, maxTokens, and perhaps systemPrompt, tools and so on.
            name: which model, as `choose` named it, or the user.
            cancelled: whether nobody waits for the message any more.

        Raises: anything; a server is told only that the model failed.
        """
        ...


def model_names(names: Iterable[str]) -> dict[str, str]:
    """Return names that every provider of models takes, `[a-zA-Z0-9_-]{1,64}`, with the canonical ones they stand for.

    `server/tool` becomes `server__tool`. One that had to be changed, or that meets another, ends in digits of the
    canonical name's hash; so the same tools have the same names every time.
    """

    def short(name: str, digits: int) -> str:
        clean = _NOT_IN_NAMES.sub("_", plain := name.replace("/", "__", 1))
        if clean == plain and len(clean) <= MAX_NAME and not digits:
            return clean
        ending = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[: digits or 8]
        return f"{clean[: MAX_NAME - 1 - len(ending)]}_{ending}"

    lengths = dict.fromkeys(names, 0)
    while True:
        found: dict[str, list[str]] = {}
        for name, digits in lengths.items():
            found.setdefault(short(name, digits), []).append(name)
        meeting = [name for same in found.values() if len(same) > 1 for name in same]
        if not meeting:
            return {model_name: same[0] for model_name, same in found.items()}
        # A server may have chosen a name so that it meets another's.
        lengths.update((name, lengths[name] * 2 or 8) for name in meeting)
