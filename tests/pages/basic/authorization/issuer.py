"""An authorization server in miniature: metadata, keys, introspection; claims for its tokens."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

from tests.pages.basic.authorization.guarded import RESOURCE
from tests.pages.basic.authorization.world import Answer, Asked, Site, answer, present


def encoded(part: Any) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer(Site):
    """An issuer whose publications can be changed, with the status of them all; `active` has tokens by their text."""

    def __init__(self) -> None:
        super().__init__()
        (self.url,) = self.origins
        self.status = 200
        self.active: dict[str, Any] = {}
        self.publish("/.well-known/oauth-authorization-server", {"issuer": self.url, "jwks_uri": f"{self.url}/keys"})
        self.at["/introspect"] = self._introspect

    def publish(self, path: str, document: Any) -> None:
        self.at[path] = lambda asked: answer(document, self.status, Location=f"{self.url}/keys2")

    def _introspect(self, asked: Asked) -> Answer:
        expected = "Basic " + base64.b64encode(b"server:p%3As").decode()
        known = asked.headers.get("authorization") == expected
        return answer(self.active.get(asked.form["token"], {"active": False}), self.status if known else 401)

    def claims(self, **changed: Any) -> dict[str, Any]:
        now = int(time.time())
        usual = {"iss": self.url, "sub": "ada", "client_id": "script", "aud": RESOURCE, "exp": now + 60, "iat": now}
        return present({**usual, "scope": "a b", **changed})
