"""Answers: which of the user's functions answers which request of the server.

Spec:      client/roots, client/sampling, client/elicitation; basic/lifecycle#capability-negotiation
Upholds:   the rows on capabilities and on rate limits of spec_notes/client/roots.md, spec_notes/client/sampling.md and
           spec_notes/client/elicitation.md
Reads:     the three pages' modules, basic/rate_limit
Not here:  how each is answered (the pages); who may ask (basic/terms)
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from mcp_ref.basic.methods import Answering, JsonObject
from mcp_ref.basic.patterns.reply import Incoming
from mcp_ref.basic.rate_limit import Rate, RateLimited, TokenBucket
from mcp_ref.client import elicitation, roots, sampling
from mcp_ref.errors import MethodNotFound

__all__ = ["DEFAULT_RATES", "Answers", "merged"]

Answer = Callable[[Any, Any], Any]

DEFAULT_RATES: Final[Mapping[str, Rate]] = MappingProxyType(
    {
        "sampling/createMessage": Rate(per_second=1_000, burst=10_000),
        "elicitation/create": Rate(per_second=1_000, burst=10_000),
    }
)
"""Per conversation. Generous: only a flood meets them."""


class Answers:
    """What a client was given to answer with; the capabilities that it declares follow from that.

    Threads: any.
    """

    def __init__(
        self,
        roots_source: Any,
        sample: Callable[..., Any] | None,
        elicit: Callable[..., Any] | None,
        open_url: Callable[..., Any] | None,
        rates: Mapping[str, Rate] | None,
    ) -> None:
        self._lock = threading.Lock()  # guards _buckets
        self._buckets = {method: TokenBucket(rate) for method, rate in {**DEFAULT_RATES, **(rates or {})}.items()}
        self.elicitors = elicitation.Elicitors(elicit, open_url)
        self._capabilities: JsonObject = {}
        self._answers: dict[str, Answer] = {}
        if roots_source is not None:
            self._capabilities["roots"] = roots.capability()
            self._answers["roots/list"] = lambda ctx, params: roots.roots_list(roots_source, ctx, params)
        if sample is not None:
            self._capabilities["sampling"] = sampling.capability()
            self._answers["sampling/createMessage"] = lambda ctx, p: sampling.sampling_create_message(sample, ctx, p)
        if elicit is not None or open_url is not None:
            # MUST: declare elicitation, with the modes that are supported (client/elicitation#capabilities)
            self._capabilities["elicitation"] = elicitation.capability(elicit is not None, open_url is not None)
            self._answers["elicitation/create"] = lambda ctx, p: elicitation.elicitation_create(self.elicitors, ctx, p)

    def capabilities(self) -> JsonObject:
        """The capabilities that follow from what was given."""
        return dict(self._capabilities)

    def __call__(self, ctx: Answering, incoming: Incoming) -> JsonObject:
        """The result of a request of the server. Raises Refusal, or whatever the user's function raises."""
        answer = self._answers.get(incoming.method)
        if answer is None:
            raise MethodNotFound(f"Method not found: {incoming.method}", {"method": incoming.method})
        self._spend(incoming.method)
        result: JsonObject = answer(ctx, incoming.params)
        return result

    def _spend(self, method: str) -> None:
        # SHOULD: rate limit what the server asks (client/sampling and client/elicitation #security-considerations)
        with self._lock:
            wait = self._buckets[method].take() if method in self._buckets else 0.0
        if wait:
            raise RateLimited(wait)


def merged(first: JsonObject, second: JsonObject) -> JsonObject:
    """Two sets of capabilities as one: objects that both have are merged, else the second counts."""
    both = dict(first)
    for key, value in second.items():
        mine = both.get(key)
        both[key] = merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return both
