"""Request state: what a server tells itself through a client, as the `requestState` of a result.

Spec:      basic/patterns/mrtr#server-requirements-basic-workflow, #security-considerations (2026-07-28)
Upholds:   spec_notes/basic/patterns/mrtr.md, the rows on the integrity of requestState
Reads:     basic/messages, errors.py
Not here:  what is told (basic/patterns/mrtr)

    requestState  =  base64url(JSON [when it expires, payload])  "."  base64url(HMAC-SHA256(binding, the text before))

It is signed and not encrypted: whoever has it can read the payload, and nobody without a key can make or change one.
The code covers the text and not the bytes that it stands for, so there is one spelling of each state and no other.
"""

from __future__ import annotations

import base64
import json
import logging
import math
import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from mcp_ref.basic import messages
from mcp_ref.errors import InvalidParams, LocalProtocolError, ParseError

__all__ = ["MOST_STATE", "StateKeys", "StateTooLarge", "binding_of", "digest_of"]

JsonObject = dict[str, Any]

_log = logging.getLogger(__name__)

MOST_STATE: Final = 4 * 1024 * 1024
"""Characters of a state. It holds the answers of earlier rounds, and travels with every one."""

_LEAST_KEY: Final = 32
_PURPOSE: Final = b"mcp_ref requestState 1\0"
"""Nothing that these keys may sign elsewhere, and no other form of the payload, passes for a state."""

_canonical: Final = json.JSONEncoder(ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":")).encode


class StateTooLarge(LocalProtocolError):
    """More than a `requestState` may hold."""


class StateKeys:
    """The keys that seal what a server sends through its clients.

    Args:
        keys: each at least 32 random bytes; the first one seals, all of them open, so that a new key is put first and
            an old one dropped a lifetime later. Processes that answer for each other need the same. None: a random key
            that nobody else has, and that ends with this object.
        lifetime: seconds from sealing until a state is refused: the time that a user has for the answers of one round.
        clock: the time in seconds, the same for all processes that share keys.

    A state can be presented several times while it lives. What must happen once is the server's to remember.

    Raises: ValueError: no key, a key that is too short, a lifetime that is no positive number; TypeError: a key that is
        no bytes.
    Threads: any.
    Spec: basic/patterns/mrtr#server-requirements-basic-workflow
    """

    __slots__ = ("_clock", "_keys", "_lifetime")

    def __init__(
        self, keys: Sequence[bytes] | None = None, lifetime: float = 600, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._keys = (os.urandom(_LEAST_KEY),) if keys is None else tuple(keys)
        self._lifetime, self._clock = lifetime, clock
        if not all(isinstance(key, bytes) for key in self._keys):
            raise TypeError("keys are a list of bytes")
        if not self._keys or min(map(len, self._keys)) < _LEAST_KEY:
            raise ValueError(f"a key has at least {_LEAST_KEY} bytes, and there is at least one")
        if not (math.isfinite(lifetime) and lifetime > 0):
            raise ValueError("a lifetime is a positive number of seconds")

    def seal(self, payload: JsonObject, binding: str) -> str:
        """A text that `open` takes back for `lifetime` seconds, with the same binding only.

        Whoever gets it can read the payload: put no secret into it.

        Raises: LocalProtocolError: the payload is not JSON; StateTooLarge: it makes more than `MOST_STATE` characters.
        """
        # SHOULD: a short expiry (basic/patterns/mrtr#server-requirements-basic-workflow)
        content: list[Any] = [math.ceil(self._clock() + self._lifetime), payload]
        body = _text(messages.encode(content))
        sealed = f"{body}.{_code(self._keys[0], binding, body)}"
        if len(sealed) > MOST_STATE:
            raise StateTooLarge(f"a requestState of {len(sealed)} characters; at most {MOST_STATE} are sent")
        return sealed

    def open(self, text: str, binding: str) -> JsonObject:
        """The payload of a text that `seal` gave.

        Raises: InvalidParams: it was sealed with none of these keys or for another binding, it was changed, or its time
            has passed. The text is the same for all of them, so that nobody learns which; the log says it.
        """
        problem = "it is too long"
        if len(text) <= MOST_STATE:
            body, _, code = text.rpartition(".")
            problem = "it was not sealed here for this request"
            if text.isascii() and self._is_ours(body, code, binding):
                problem = "its time has passed"
                expires, payload = _content(body)
                if self._clock() < expires:
                    return payload
        # MUST: reject state that fails verification (basic/patterns/mrtr#server-requirements-basic-workflow)
        _log.info("refused a requestState: %s", problem)
        raise _refused()

    def _is_ours(self, body: str, code: str, binding: str) -> bool:
        import hmac

        # All of them, in constant time: the duration tells nothing about a key.
        matching = [hmac.compare_digest(_code(key, binding, body), code) for key in self._keys]
        return any(matching)


def _refused() -> InvalidParams:
    return InvalidParams("Invalid or expired requestState")


def _code(key: bytes, binding: str, body: str) -> str:
    import hmac

    # No NUL is in a body, so where the binding ends is never in doubt.
    signed = _PURPOSE + binding.encode("utf-8", "surrogatepass") + b"\0" + body.encode("ascii")
    return _text(hmac.digest(key, signed, "sha256"))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _content(body: str) -> tuple[float, JsonObject]:
    try:
        expires, payload = messages.decode(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ParseError, ValueError):
        # Signed, and yet not to be read: nested more deeply than can be decoded where we are, say.
        raise _refused() from None
    return expires, payload


# -- digests ------------------------------------------------------------------------------------------------------


def binding_of(principal: str | None, method: str, params: JsonObject) -> str:
    """What a state is bound to: who asks, and what for. The same for every round of one request.

    Args:
        principal: who asks, where that is known.
        params: of the request; its `name` or `uri` and its `arguments` count, no arguments being an empty object.

    Raises: InvalidParams: the arguments are nested too deeply.
    Spec: basic/patterns/mrtr#server-requirements-basic-workflow
    """
    # SHOULD: the principal, the method, and a digest of the salient parameters
    try:
        return digest_of([principal, method, params.get("name"), params.get("uri"), params.get("arguments") or {}])
    except LocalProtocolError as problem:
        raise InvalidParams(f"Invalid params: params.arguments: {problem}", {"path": "params.arguments"}) from None


def digest_of(value: Any) -> str:
    """A SHA-256 digest of a JSON value as 43 characters; the order of an object's members does not count.

    Raises: LocalProtocolError: the value is not JSON.
    """
    import hashlib

    try:
        return _text(hashlib.sha256(_canonical(value).encode("ascii")).digest())
    except (TypeError, ValueError, RecursionError) as problem:
        raise LocalProtocolError(f"this has no form in JSON: {problem}") from None
