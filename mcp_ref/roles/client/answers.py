"""Answers: what the functions that a user gave to a client say to the server's questions.

Spec:      client/roots, client/sampling, client/elicitation
Upholds:   spec_notes/client/roots.md, spec_notes/client/sampling.md and spec_notes/client/elicitation.md, the rows on
           telling the user which server asks, and on rate limits; spec_notes/server/utilities/logging.md
Not here:  what is asked and how an answer is shaped (each page); turning what such a function raises into an error
           reply (peer); when an answer travels (roles/client/session, roles/client/rounds)

    Answers          the functions for questions, by method; the capabilities that follow from them
    ClientContext    the question that such a function answers, for one that wants to know who asks
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from mcp_ref.basic import utilities
from mcp_ref.client import elicitation, roots, sampling
from mcp_ref.errors import MethodNotFound
from mcp_ref.incoming import Incoming
from mcp_ref.machinery.latest import Latest
from mcp_ref.machinery.rates import Rate, RateLimited, RateLimits
from mcp_ref.messages import JsonObject

if TYPE_CHECKING:
    from mcp_ref.roles.client.session import Conversation

DEFAULT_RATE: Final = Rate(per_second=100, burst=2_000)
"""More than a user or a model can answer; a program that answers for them meets it in a loop without end."""
DEFAULT_RATES: Final[Mapping[str, Rate]] = MappingProxyType(
    dict.fromkeys(("sampling/createMessage", "elicitation/create"), DEFAULT_RATE)
)
"""How often a server may ask."""

MAX_PAUSE: Final = 300.0
"""Seconds for which the time limit of a call stands still while the user answers a question of the server."""


class ClientContext(utilities.HandlerContext):
    """The question of a server that a user's function answers; handed to a function that takes one argument more.

    Attributes:
        revision, capabilities: the revision in use with the server, and what this client declared in it.
        server_info: the `Implementation` of the server that asks, for the user to see who it is.

    Threads: any, while the function runs.
    """

    def __init__(self, conversation: Conversation, incoming: Incoming) -> None:
        self._peer, self.incoming = conversation.peer, incoming
        terms = conversation.peer.terms
        self.revision, self.capabilities = terms.revision, terms.local
        # MUST: let the user see which server asks (client/elicitation#user-interaction-model)
        self.server_info = conversation.server_info
        self.last_progress: float | None = None

    def on_cancel(self, callback: Callable[[str | None], None]) -> None:
        """Call `callback(reason)` when the question is given up; at once if it was already."""
        self.incoming.attach(callback)

    def notify(self, method: str, params: JsonObject | None = None) -> None:
        """See `HandlerContext`."""
        self._peer.notify(method, params, self.incoming)


class Answers:
    """What a client was given to answer with: called with a question, it gives the user's answer. Threads: any."""

    def __init__(
        self,
        source: Any,
        sample: Callable[..., Any] | None,
        elicit: Callable[..., Any] | None,
        open_url: Callable[..., Any] | None,
        rates: Mapping[str, Rate] | None,
    ) -> None:
        self._limits = RateLimits({**DEFAULT_RATES, **(rates or {})})
        self.elicitors = elicitation.Elicitors(Latest(elicitation.MAX_VISITS), elicit, open_url)
        self.capabilities: JsonObject = {}  # what the client can declare because of what it was given
        self._answers: dict[str, Callable[[Any, Any], Any]] = {}
        # MUST: a client that was given roots declares `roots`, and one with a model `sampling`
        # (client/roots#capabilities; client/sampling#capabilities)
        if source is not None:
            if isinstance(source, str | os.PathLike):
                raise TypeError(f"roots must be a list of folders, or a function that returns them, not {source!r}")
            if not callable(source):
                roots.all_roots(source)  # what can be no root is refused now, not when the server asks
            self.capabilities["roots"] = {"listChanged": True}
            self._answers["roots/list"] = partial(roots.roots_list, source)
        if sample is not None:
            self.capabilities["sampling"] = {}
            self._answers["sampling/createMessage"] = partial(sampling.sampling_create_message, sample)
        if modes := {mode: JsonObject() for mode, given in (("form", elicit), ("url", open_url)) if given is not None}:
            # MUST: a client with elicitation declares it, with at least one mode (client/elicitation#capabilities)
            self.capabilities["elicitation"] = modes
            self._answers["elicitation/create"] = partial(elicitation.elicitation_create, self.elicitors)

    def __call__(self, ctx: ClientContext, incoming: Incoming) -> JsonObject:
        """The result of a question of the server. Raises Refusal, or whatever the user's function raises."""
        method = incoming.method
        if method not in self._answers:
            raise MethodNotFound(f"Method not found: {method}", {"method": method})
        # SHOULD: a client limits how often the server may ask (client/sampling#security-considerations)
        if wait := self._limits.take(None, method):
            raise RateLimited(wait)
        result: JsonObject = self._answers[method](ctx, incoming.params)
        return result
