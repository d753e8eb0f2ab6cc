"""Authorization, the client's half: which token goes with a request, and what follows a 401 or 403.

Spec:      basic/authorization#token-requirements, #error-handling, #scope-selection-strategy,
           #step-up-authorization-flow
Upholds:   spec_notes/basic/authorization.md, the rows on tokens, scopes and step-up
Not here:  where to ask for a token (discovery), as whom (registration), and how (flow, extensions)

    a request        the token goes with it; one that ends within 30 seconds is renewed first
    401              the metadata is read again; the token is refreshed, or the user is asked; the request is sent again
    403              insufficient_scope: the user is asked for more; the request is sent again
    the same again   final

One thread renews a token, in the call that needs it; others that need it wait, and those whose token is valid go on. No
lock is held meanwhile. The time limit of a call stands still while its token is renewed.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakSet

from mcp_ref.basic.authorization.discovery import Discovered, discover
from mcp_ref.basic.authorization.dpop import USE_NONCE, Prover
from mcp_ref.basic.authorization.fetching import Fetcher, Note, shown, without_secrets
from mcp_ref.basic.authorization.flow import OFFLINE, AuthorizationRequest, Token, refresh
from mcp_ref.basic.authorization.metadata import Challenge, read_challenges
from mcp_ref.basic.authorization.registration import Registered, checked_document, register
from mcp_ref.errors import AuthorizationError, RequestTimeout
from mcp_ref.machinery.deadline import Deadline
from mcp_ref.machinery.guarded_fetch import Reach, check_url, kind_of
from mcp_ref.machinery.token_store import MemoryStore, TokenStore
from mcp_ref.messages import JsonObject
from mcp_ref.revisions import REVISIONS, Revision

if TYPE_CHECKING:
    from mcp_ref.machinery.http_call import HttpCall
    from mcp_ref.machinery.http_client import HttpClient, HttpResponse
    from mcp_ref.machinery.loopback import Loopback

log = logging.getLogger(__name__)

MAX_VISITS: Final = 3
"""Times that the user's browser is opened for one server within `VISITS_INTERVAL`."""

VISITS_INTERVAL: Final = 600.0  # seconds

_MAX_ASKED: Final = 1_000  # step-ups that are remembered


# -- for the transports ------------------------------------------------------------------------------------------------


class AuthorizedRequest(NamedTuple):
    """One HTTP request, as far as its authorization goes.

    Attributes:
        http, call: by which everything is sent. method, url, plain (its headers), body: of the request.
        operation: what it does, such as "tools/call add"; "" for what no user waits for.
        revisions: the one that was agreed on, or all that may be spoken.
        note: shows a trace what is fetched.
        refused: holds how it was refused, so that the same is not answered twice.
    """

    authorizer: Authorizer
    http: HttpClient
    call: HttpCall
    method: str
    url: str
    plain: Mapping[str, str]
    body: bytes | None
    operation: str
    revisions: Sequence[Revision]
    note: Note
    refused: set[int | str]

    def headers(self) -> dict[str, str]:
        """The headers that it has for its authorization. Raises: AuthorizationError."""
        return self.authorizer.headers(self)

    def concerns(self, reply: HttpResponse) -> bool:
        """Whether a 401 or 403 is about the token."""
        return self.authorizer.renews and (reply.status == 401 or _lacks_scope(_challenge_of(reply)))

    def renew(self, reply: HttpResponse) -> bool:
        """After such a reply: whether there is another token, so that it is sent again. Raises: AuthorizationError."""
        if USE_NONCE not in self.refused and self.authorizer.learns_nonce(self, reply):
            self.refused.add(USE_NONCE)
            return True
        if reply.status == 401:
            if 401 in self.refused:
                return False
            self.refused.add(401)
        return self.authorizer.renew(self, reply)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """What is done within uses up no time of the call."""
        deadline, began = self.call.deadline, time.monotonic()
        self.call.deadline = Deadline(None)
        try:
            yield
        finally:
            deadline.postpone(time.monotonic() - began)
            self.call.deadline = deadline
            self.http.begin(self.call)


class Authorizer:
    """What authorizes the requests to one server URL."""

    renews = True
    """Whether a 401 is about what this knows."""

    owner: str | None = None
    """Names the authorization whose token is in use; while it is the same, so is the user."""

    extension: str | None = None
    """The extension of the protocol that this is, by its name."""

    def headers(self, request: AuthorizedRequest) -> dict[str, str]:
        """The headers that a request has for its authorization. Raises: AuthorizationError."""
        raise NotImplementedError

    def renew(self, request: AuthorizedRequest, reply: HttpResponse) -> bool:
        """Whether a request that was refused is to be sent again. Raises: AuthorizationError."""
        return False

    def learns_nonce(self, request: AuthorizedRequest, reply: HttpResponse) -> bool:
        """Whether a request was refused only because its proof lacked a nonce, and has one now."""
        return False

    def await_token(self, call: HttpCall) -> None:
        """Wait for another token than the one that the call was sent with. Raises: whatever cuts the call."""
        while True:
            call.sleep(None)


class Bound(NamedTuple):
    """The authorizer of a URL, for one client. `revisions`: those that the client may speak, oldest first."""

    authorizer: Authorizer
    revisions: tuple[Revision, ...]

    def request(
        self, http: HttpClient, call: HttpCall, method: str, url: str, headers: Mapping[str, str], body: bytes | None,
        message: Any, agreed: Revision | None, note: Note,
    ) -> AuthorizedRequest:  # fmt: skip
        """One request: `message` is what it carries, or says for what somebody waits."""
        operation = message if isinstance(message, str) else _operation(message)
        revisions = self.revisions if agreed is None else (agreed,)
        return AuthorizedRequest(
            self.authorizer, http, call, method, url, headers, body, operation, revisions, note, set()
        )


def _operation(message: Any) -> str:
    """What a user waits for; "" for what goes on in the background."""
    if isinstance(message, list):
        return next(filter(None, map(_operation, message)), "")
    if not isinstance(message, dict) or "id" not in message or message.get("method") in (None, "ping"):
        return ""
    if threading.current_thread().name == "mcp-listen":
        return ""
    params = message.get("params") or {}
    return f"{message['method']} {params.get('name', params.get('uri', ''))}"


def _challenge_of(reply: HttpResponse) -> Challenge | None:
    found = read_challenges(reply.headers.get("WWW-Authenticate"))
    return next((each for each in found if each.scheme in ("bearer", "dpop")), None)


def _lacks_scope(challenge: Challenge | None) -> bool:
    return challenge is not None and challenge.parameters.get("error") == "insufficient_scope"


def bind(auth: Any, url: str, revisions: Sequence[Revision] = tuple(REVISIONS.values())) -> Bound:
    """What the argument `auth` of a client stands for.

    Raises: AuthorizationError: a token must not go to such a URL. TypeError: this is nothing that authorizes.
    """
    if isinstance(auth, Bound):
        return auth
    # MUST: https; http is for this machine alone (basic/authorization#communication-security)
    try:
        check_url(url, url)
    except ValueError as problem:
        raise AuthorizationError(
            f"no token goes to {shown(url)}: {problem}; what is safe there, only headers= knows"
        ) from None
    if isinstance(auth, Grant):
        authorizer: Authorizer = auth.for_url(url)
    elif isinstance(auth, str):
        authorizer = _Bearer(lambda: auth, final=True)
    elif callable(auth):
        from inspect import signature

        try:
            signature(auth).bind()
            authorizer = _Bearer(auth)
        except TypeError:
            authorizer = _Prepared(auth)
    else:
        raise TypeError(
            f"auth is a token, a function, or what gets tokens, such as OAuth(...); not {type(auth).__name__}"
        )
    return Bound(authorizer, tuple(revisions))


class _Bearer(Authorizer):
    """A bearer token from elsewhere. A function is asked once, and again after a 401."""

    def __init__(self, get: Callable[[], str], *, final: bool = False) -> None:
        self._get, self._final = get, final
        self._token: str | None = None

    def headers(self, request: AuthorizedRequest) -> dict[str, str]:
        token = self._token
        if token is None:
            token = self._token = self._get()
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token or not token:
            # The token itself is not shown.
            raise ValueError("this is not a token: it is empty, or has spaces, line breaks or other than ASCII")
        request.call.token = token
        return {"Authorization": f"Bearer {token}"}

    def renew(self, request: AuthorizedRequest, reply: HttpResponse) -> bool:
        if self._final or reply.status != 401:
            return False
        if self._token == request.call.token:
            self._token = None
        return True


class _Prepared(Authorizer):
    """A callable of a prepared request, such as one of `requests.auth`: it may set headers."""

    renews = False

    def __init__(self, auth: Callable[[Any], Any]) -> None:
        self._auth = auth

    def headers(self, request: AuthorizedRequest) -> dict[str, str]:
        import requests

        sent = {**request.http.headers, **request.plain}
        prepared = requests.Request(request.method, request.url, sent, data=request.body).prepare()
        before = dict(prepared.headers)
        prepared = self._auth(prepared) or prepared
        return {name: str(value) for name, value in prepared.headers.items() if before.get(name) != value}


# -- one token for all threads -----------------------------------------------------------------------------------------


class Grant:
    """A way to get tokens: what `OAuth` and the extensions have in common.

    Attributes:
        name: tells it from others in a store. store: where tokens are kept.
        scopes: what is asked for, in place of what the server names; or None.
        issuer: the only authorization server that will do, or None.
        asks_user: whether it takes the user. steps_up: whether it can ask for more scopes.
        allow_private: whether a server may name addresses in networks that it is not in itself.
        extension: of the protocol that this is, by its name; None: the protocol itself has it, or the name is not
            settled.
        prover: makes the proofs that go with the tokens (DPoP), or None: they are bearer tokens.
    """

    asks_user = steps_up = False
    extension: str | None = None
    prover: Prover | None = None

    def __init__(
        self,
        name: str,
        *,
        store: TokenStore | None = None,
        scopes: Sequence[str] | None = None,
        issuer: str | None = None,
        allow_private: bool = False,
    ) -> None:
        self.name, self.store, self.issuer, self.allow_private = name, store or MemoryStore(), issuer, allow_private
        self.scopes = None if scopes is None else tuple(scopes)
        self._keepers: dict[str, TokenKeeper] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def kind(self) -> str:
        """Of the tokens, as `token_type` names it."""
        return "Bearer" if self.prover is None else "DPoP"

    def for_url(self, url: str) -> TokenKeeper:
        """What keeps the token of one server URL, for all clients and threads."""
        # MUST NOT: send a server a token that was issued for another (basic/authorization#token-handling)
        return self._keepers.setdefault(url, TokenKeeper(self, url))

    def preferred(self) -> list[str]:
        """The issuers to choose among those that a server trusts."""
        return [self.issuer] if self.issuer else []

    def client(self, found: Discovered) -> Registered | None:
        """Who this client is for an authorization server, if it is known there already."""
        return None

    def obtain(self, job: Job) -> Token:
        """A new token. Raises: AuthorizationError."""
        raise NotImplementedError


class Job(NamedTuple):
    """One renewal. `scopes`: what is asked for, or None."""

    request: AuthorizedRequest
    fetcher: Fetcher
    found: Discovered
    keeper: TokenKeeper
    scopes: tuple[str, ...] | None


class _Renewal:
    """A renewal under way: who waits for it, and how it ended."""

    def __init__(self) -> None:
        self.process, self.over = os.getpid(), False
        self.waiting: list[HttpCall] = []
        self.error: AuthorizationError | None = None


class TokenKeeper(Authorizer):
    """The token for one server URL. Threads: any."""

    def __init__(self, grant: Grant, url: str) -> None:
        self.grant, self.url, self._name = grant, url, f"token {grant.name} {url}"
        self._lock = threading.Lock()  # guards the fields below; held for assignments alone
        self._token: Token | None = None
        self._loaded = False
        self._renewal: _Renewal | None = None
        self._found: Discovered | None = None
        self._reach = Reach()
        self._requested: tuple[str, ...] = ()  # scopes that were asked for in this login
        self._asked: set[tuple[str, frozenset[str]]] = set()  # operations, and the scopes that were asked for them
        self._visits: deque[float] = deque()
        self._standing: WeakSet[HttpCall] = WeakSet()  # calls that wait for another token
        self.port = 0  # on which the browser came back last

    @property
    def owner(self) -> str | None:  # type: ignore[override]
        """See `Authorizer`."""
        token = self._token
        return None if token is None else token.login

    @property
    def extension(self) -> str | None:  # type: ignore[override]
        """See `Authorizer`."""
        return self.grant.extension

    def headers(self, request: AuthorizedRequest) -> dict[str, str]:
        """See `Authorizer`."""
        if not self._loaded:
            kept = Token.kept(self.grant.store.get(self._name), self.grant.kind)
            with self._lock:
                if not self._loaded:
                    self._token, self._loaded = kept, True
        token = self._token
        if token is not None and token.stale and token.refresh and self._found is not None:
            # Where the token comes from is known only if there was a challenge; before, the request finds out.
            request.call.token = token
            self._renew(request, None, None)
            token = self._token
        request.call.token = token
        # MUST: on every request, also within a session (basic/authorization#token-requirements)
        if token is None:
            return {}
        prover = self.grant.prover
        return token.headers() | (prover.headers(request.method, request.url, token.access) if prover else {})

    def learns_nonce(self, request: AuthorizedRequest, reply: HttpResponse) -> bool:
        """See `Authorizer`."""
        prover = self.grant.prover
        if prover is None or reply.status != 401:
            return False
        errors = {each.parameters.get("error") for each in read_challenges(reply.headers.get("WWW-Authenticate"))}
        return USE_NONCE in errors and prover.learn_nonce(request.url, reply.headers)

    def renew(self, request: AuthorizedRequest, reply: HttpResponse) -> bool:
        """See `Authorizer`."""
        challenge, more = _challenge_of(reply), None
        if reply.status == 403:
            # SHOULD: act on insufficient_scope by asking for more, for a user who waits
            # (basic/authorization#step-up-authorization-flow)
            if challenge is None or not self.grant.steps_up or not request.operation:
                return False
            more = challenge.scopes or ()
        if (address := reply.address) is not None:
            self._reach = Reach(kind_of(address), self.grant.allow_private)
        return self._renew(request, challenge or Challenge("bearer", {}), more)

    def await_token(self, call: HttpCall) -> None:
        """See `Authorizer`."""
        with self._lock:
            self._standing.add(call)
        while self._token is call.token:
            call.sleep(None)

    # -- renewing

    def _renew(self, request: AuthorizedRequest, challenge: Challenge | None, more: tuple[str, ...] | None) -> bool:
        """Have another token than the one that was used; False if there is none without a user.

        One thread does the work. What it fails with, those who wait for it raise too, unless only its call was ended.

        Args:
            more: the scopes that a 403 has named; None for a 401, or a token that ends soon.
        """
        used = request.call.token
        assert used is None or isinstance(used, Token)
        with request.aside():
            while True:
                with self._lock:
                    if self._token is not used:
                        return True
                    under_way = self._renewal
                    if under_way is None or under_way.process != os.getpid():
                        mine = self._renewal = _Renewal()
                        break
                    under_way.waiting.append(request.call)
                while not under_way.over:
                    request.call.sleep(None)
                if under_way.error is not None:
                    raise AuthorizationError(str(under_way.error), under_way.error.error) from under_way.error
            try:
                token = self._next_token(request, used, challenge, more)
                if token is None:
                    return False
                with self._lock:
                    self._token = token
                return True
            except AuthorizationError as problem:
                mine.error = problem
                raise
            finally:
                with self._lock:
                    self._renewal = None
                    standing = list(self._standing)
                mine.over = True
                for call in (*mine.waiting, *standing):
                    call.wake()

    def _next_token(
        self, request: AuthorizedRequest, used: Token | None, challenge: Challenge | None, more: tuple[str, ...] | None
    ) -> Token | None:
        grant, store = self.grant, self.grant.store
        fetcher = Fetcher(request.http, request.call, self._reach, request.note)
        # 1. Whom to ask: found again after each refusal, since the server may trust somebody else by now.
        found = self._found
        if found is None or challenge is not None:
            known = grant.preferred() or ([used.issuer] if used is not None else [])
            found = discover(fetcher, self.url, challenge, request.revisions, known)
            if grant.issuer is not None and found.issuer != grant.issuer:
                raise AuthorizationError(f"{shown(self.url)} trusts {shown(found.issuer)}, not {shown(grant.issuer)}")
            self._found = found
        client = grant.client(found)
        # 2. Without the user: what another process has got meanwhile, or the refresh token.
        if more is None:
            with store.lock(self._name, request.call.sleep):
                kept = Token.kept(store.get(self._name), grant.kind)
                if kept is not None and (kept.issuer, kept.resource) == (found.issuer, found.resource):
                    if (used is None or kept.access != used.access) and not kept.stale:
                        return kept
                    used = kept
                fits = used is not None and (used.issuer, used.resource) == (found.issuer, found.resource)
                if used is not None and fits and used.refresh and client and client.client_id == used.client_id:
                    try:
                        token = refresh(fetcher, found, client, used, grant.prover)
                        # Stored before it is used: the refresh token before may be worth nothing now.
                        store.put(self._name, token._asdict())
                        return token
                    except AuthorizationError as refused:
                        log.info("the token was not refreshed: %s", refused)
                        if refused.error not in ("invalid_grant", "invalid_client"):
                            raise
        # 3. A new token, for which it may take the user.
        if grant.asks_user and not request.operation:
            return None
        scopes = self._scopes(found, challenge, used, more)
        if more is not None:
            # SHOULD: limit retries, and remember what was asked for (basic/authorization#step-up-authorization-flow)
            asking = (request.operation, frozenset(scopes or ()))
            with self._lock:
                if asking in self._asked or len(self._asked) >= _MAX_ASKED:
                    return None
                self._asked.add(asking)
        token = grant.obtain(Job(request, fetcher, found, self, scopes))
        self._requested = scopes or ()
        store.put(self._name, token._asdict())
        return token

    def _scopes(
        self, found: Discovered, challenge: Challenge | None, used: Token | None, more: tuple[str, ...] | None
    ) -> tuple[str, ...] | None:
        """What is asked for."""
        # SHOULD: the scopes of the challenge, otherwise all of scopes_supported, otherwise none
        # (basic/authorization#scope-selection-strategy)
        named = challenge.scopes if challenge is not None else None
        wanted = self.grant.scopes if self.grant.scopes is not None else named if named is not None else found.scopes
        before: tuple[str, ...] = ()
        if used is not None and used.issuer == found.issuer:
            # SHOULD: together with those that were granted before (basic/authorization#scope-selection-strategy)
            before = (*(used.scopes or ()), *self._requested)
        scopes = tuple(dict.fromkeys((*before, *(wanted or ()), *(more or ()))))
        # MAY: offline_access if the authorization server lists it (basic/authorization#refresh-tokens)
        if scopes and self.grant.asks_user and OFFLINE in found.metadata.get("scopes_supported", ()):
            scopes = tuple(dict.fromkeys((*scopes, OFFLINE)))
        return scopes or None

    # -- for the grants

    def count_visit(self) -> None:
        """Note that the user's browser is about to be opened. Raises: AuthorizationError: that was too often."""
        now = time.monotonic()
        with self._lock:
            while self._visits and now - self._visits[0] > VISITS_INTERVAL:
                self._visits.popleft()
            if len(self._visits) >= MAX_VISITS:
                raise AuthorizationError(
                    f"{shown(self.url)} asks for a login again and again: {MAX_VISITS} times in {VISITS_INTERVAL:g} s"
                )
            self._visits.append(now)

    def forget(self) -> None:
        """Forget the token, in memory and in the store."""
        with self._lock:
            self._token, self._loaded = None, True
        self.grant.store.put(self._name, None)


# -- the user's browser ------------------------------------------------------------------------------------------------


def open_browser(url: str) -> None:
    """Open the user's browser. Raises: AuthorizationError: there is none."""
    import webbrowser

    if not webbrowser.open(url):
        raise AuthorizationError("no browser could be opened: give OAuth(visit=print), or a function of yours")


class OAuth(Grant):
    """Authorization in the user's browser: the authorization code flow, with everything that leads to it.

    >>> with Client("https://mcp.example.com/mcp", auth=OAuth("My script")) as client:
    ...     client.call_tool("report", {})

    The browser is opened when the server first asks, and only for a call of the user's. One object may serve any number
    of clients and servers; each server URL has a token of its own.

    Args:
        name: of this client, as the user is shown it.
        client: what was registered beforehand. document: the URL of a client id metadata document (`client_metadata`
            makes it). Without both, or where the document is not supported, the client registers itself.
        scopes: what to ask for, in place of what the server names.
        redirect_uri: where the browser comes back to; port 0 takes a free one. With https, `visit` must return.
        visit: is given the URL that the user must visit; None: `open_browser`. It may return the URL that the browser
            came back to; otherwise a listener on the redirect URI waits for it.
        store: keeps tokens and registrations; None: memory. `FileStore` keeps them for the next start.
        issuer: the only authorization server that will do.
        timeout: seconds that the user has.
        dpop: whether tokens must be bound to a key that is kept in `store`, so that they are of no use to others. An
            extension in draft, which needs the extra `auth`.
        allow_private: whether a server may name addresses in private networks that it is not in itself.

    Raises: ValueError: the document's URL, or the redirect URI, is not one.
    Spec: basic/authorization
    """

    asks_user = steps_up = True

    def __init__(
        self,
        name: str,
        *,
        client: Registered | None = None,
        document: str | None = None,
        scopes: Sequence[str] | None = None,
        redirect_uri: str = "http://127.0.0.1:0/callback",
        visit: Callable[[str], str | None] | None = None,
        store: TokenStore | None = None,
        issuer: str | None = None,
        timeout: float = 300,
        dpop: bool = False,
        allow_private: bool = False,
    ) -> None:
        super().__init__(name, store=store, scopes=scopes, issuer=issuer, allow_private=allow_private)
        if dpop:
            from mcp_ref.machinery.jwt import new_key

            pem = (self.store.get(f"key {name}") or {}).get("pem") or new_key()
            self.store.put(f"key {name}", {"pem": pem})
            self.prover = Prover(pem)
        self._given, self._document = client, None if document is None else checked_document(document)
        # MUST: redirect URIs are https, or on this machine (basic/authorization#communication-security)
        check_url(redirect_uri, redirect_uri)
        self._redirect, self._visit, self._timeout = urlsplit(redirect_uri), visit or open_browser, timeout

    def preferred(self) -> list[str]:
        """See `Grant`."""
        given = self._given
        bound = (given.issuer or self._bound(given)) if given is not None else None
        return super().preferred() or ([bound] if bound else [])

    def _bound(self, given: Registered) -> str | None:
        issuer = (self.store.get(f"issuer of {given.client_id}") or {}).get("issuer")
        return issuer if isinstance(issuer, str) else None

    def client(self, found: Discovered) -> Registered | None:
        """See `Grant`. Raises: AuthorizationError: it was registered with somebody else."""
        if (given := self._given) is not None:
            # MUST NOT: use credentials at another authorization server than the one that gave them; SHOULD: an error
            # if those given beforehand no longer fit
            # (basic/authorization/client-registration#authorization-server-binding)
            bound = given.issuer or self._bound(given)
            if bound is not None and bound != found.issuer:
                raise AuthorizationError(
                    f"the client {given.client_id!a} is registered with {shown(bound)}, and the server now trusts"
                    f" {shown(found.issuer)}"
                )
            if bound is None:
                self.store.put(f"issuer of {given.client_id}", {"issuer": found.issuer})
            return given
        # SHOULD: a document if its support is advertised, then dynamic registration
        # (basic/authorization#client-registration-approaches)
        if self._document is not None and found.metadata.get("client_id_metadata_document_supported"):
            return Registered(self._document, method="none")
        record = self._registration(found.issuer)
        return None if record is None else _registered(record)

    def obtain(self, job: Job) -> Token:
        """See `Grant`: the user visits the authorization server, and comes back with a code."""
        found, listener, wanted = job.found, None, set(job.scopes or ())
        try:
            while True:
                known = self.client(found)
                record = self._registration(found.issuer) if known and self._is_dynamic(known) else None
                # 1. Where the browser comes back to. A port that was registered is taken again if it is free.
                if self._redirect.scheme == "http" and listener is None:
                    listener = self._listen(job.keeper, record)
                redirect_uri = self._redirect_uri(listener)
                # 2. As whom. A registration is for one redirect URI, and at some authorization servers for the scopes
                #    that it names.
                fits = known is not None
                if record is not None:
                    named = record.get("scope")
                    fits = record.get("redirect_uri") == redirect_uri and (not named or wanted <= set(named.split()))
                if known is None or not fits:
                    record = register(job.fetcher, found, self.name, redirect_uri, job.scopes)
                    record["redirect_uri"] = redirect_uri
                    self.store.put(self._key(found.issuer), record)
                    known, fresh = _registered(record), True
                else:
                    fresh = record is None
                # 3. The user.
                asking = AuthorizationRequest(found, known, redirect_uri, job.scopes, self.prover)
                job.keeper.count_visit()
                query = self._visited(job, asking, redirect_uri, listener)
                # 4. The token.
                try:
                    return asking.redeem(job.fetcher, asking.code(query))
                except AuthorizationError as refused:
                    if fresh or refused.error != "invalid_client":
                        raise
                    log.info("the registration is no longer known: registering again")
                    self.store.put(self._key(found.issuer), None)
        finally:
            if listener is not None:
                listener.close()

    def _visited(self, job: Job, asking: AuthorizationRequest, redirect_uri: str, listener: Loopback | None) -> str:
        """The query with which the browser came back."""
        if job.request.note is not None:
            about = {"method": "browser", "url": shown(asking.url), "oauth": without_secrets(asking.said)}
            job.request.note("send", about)
        came_back = self._visit(asking.url)
        if came_back is not None:
            where, _, query = came_back.partition("?")
            if where != redirect_uri:
                raise AuthorizationError("the browser came back to another address than the one that it was given")
            return query.partition("#")[0]
        if listener is None:
            raise AuthorizationError("without a listener, visit= must return the URL that the browser came back to")
        call = job.request.call.begin_inner(Deadline(None))
        try:
            return listener.wait(call, self._timeout, asking.is_answer)
        except RequestTimeout as problem:
            raise AuthorizationError(f"the user did not finish the login: {problem}") from None
        finally:
            job.request.call.inner = None

    def _listen(self, keeper: TokenKeeper, record: JsonObject | None) -> Loopback:
        from mcp_ref.machinery.loopback import Loopback

        host = "[::1]" if self._redirect.hostname == "::1" else self._redirect.hostname or ""
        wanted = self._redirect.port
        registered = urlsplit(str((record or {}).get("redirect_uri", ""))).port
        try:
            return Loopback(wanted or keeper.port or registered or 0, self._redirect.path, host)
        except OSError as problem:
            if wanted:
                raise AuthorizationError(f"cannot listen on {self._redirect.netloc}: {problem}") from None
            # Somebody has taken it: another port, and another registration.
            return Loopback(0, self._redirect.path, host)

    def _redirect_uri(self, listener: Loopback | None) -> str:
        if listener is None:
            return self._redirect.geturl()
        host = self._redirect.netloc.rpartition(":")[0] if self._redirect.port is not None else self._redirect.netloc
        return self._redirect._replace(netloc=f"{host}:{listener.port}").geturl()

    def _key(self, issuer: str) -> str:
        # MUST: keep credentials by the issuer that gave them
        # (basic/authorization/client-registration#authorization-server-binding)
        return f"client {self.name} {issuer} {self._redirect.geturl()}"

    def _registration(self, issuer: str) -> JsonObject | None:
        record = self.store.get(self._key(issuer))
        return record if record is not None and isinstance(record.get("client_id"), str) else None

    def _is_dynamic(self, known: Registered) -> bool:
        return self._given is None and known.client_id != self._document

    def forget(self, url: str) -> None:
        """Forget the token of a server URL, here and in the store; the next call asks the user again."""
        self.for_url(url).forget()


def _registered(record: JsonObject) -> Registered:
    method = record.get("token_endpoint_auth_method")
    return Registered(record["client_id"], record.get("client_secret"), method=method)
