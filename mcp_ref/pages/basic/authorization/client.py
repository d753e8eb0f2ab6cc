"""Authorization, the client's half: which token goes with a request, and what a client does after a 401 or 403.

Spec:      basic/authorization#token-requirements, #error-handling, #scope-selection-strategy,
           #step-up-authorization-flow
Upholds:   spec_notes/basic/authorization.md, the rows on tokens, scopes and step-up
Not here:  where to ask for a token (discovery), as which client (registration), and how (flow, extensions, dpop)

    a request        carries the token; a token that ends within 30 seconds is refreshed first
    401              read the metadata again; refresh the token, or ask the user; send the request again
    403              if the challenge says insufficient_scope: ask the user for more scopes; send the request again
    the same again   is final

The call that needs a new token gets it, in its own thread, and its time limit stands still meanwhile. Other calls that
need the new token wait for it; calls whose token is valid go on. No lock is held during any of this.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict
from urllib.parse import urlsplit
from weakref import WeakSet

from mcp_ref.errors import AuthorizationError, RequestTimeout
from mcp_ref.kit.http.guarded_fetch import Reach, check_url, kind_of
from mcp_ref.kit.threads.deadline import Deadline
from mcp_ref.pages.basic.authorization.discovery import Discovered, discover
from mcp_ref.pages.basic.authorization.dpop import USE_NONCE, Prover
from mcp_ref.pages.basic.authorization.fetching import Fetcher, Note, shown, without_secrets
from mcp_ref.pages.basic.authorization.flow import OFFLINE, AuthorizationRequest, Token, refresh
from mcp_ref.pages.basic.authorization.metadata import Challenge, read_challenges
from mcp_ref.pages.basic.authorization.registration import Registered, checked_document, register
from mcp_ref.pages.basic.authorization.token_store import MemoryStore, TokenStore
from mcp_ref.revisions import REVISIONS, Revision
from mcp_ref.wire.messages import JsonObject

if TYPE_CHECKING:
    from mcp_ref.kit.http.http_call import HttpCall
    from mcp_ref.kit.http.http_client import HttpClient, HttpResponse
    from mcp_ref.pages.basic.authorization.loopback import Loopback

log = logging.getLogger(__name__)

MAX_VISITS: Final = 3
"""How often the user's browser may be opened for one server within `VISITS_INTERVAL`."""

VISITS_INTERVAL: Final = 600.0  # seconds

_MAX_ERROR_BODY: Final = 1 << 20  # bytes that are read of a refusal

_MAX_ASKED: Final = 1_000  # step-ups that are remembered; after that none is made


# -- for the transports ------------------------------------------------------------------------------------------------


class AuthorizedRequest(NamedTuple):
    """The authorization of one HTTP request, which may have to be sent more than once.

    Attributes:
        authorizer: knows the token.
        http, call: send everything, for this request and for what it needs before.
        method, url, plain, body: the request; `plain` is its headers without those for its authorization.
        operation: what the request does, such as "tools/call add". "" if no user waits for it.
        revisions: the revision that was agreed on, or all that may be.
        note: shows a trace what is sent to get a token.
        refused: how the request was refused so far, so that the same refusal is not answered twice.
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
        """Return the headers that authorize the request. Raises: AuthorizationError."""
        return self.authorizer.headers(self)

    def again(self, reply: HttpResponse, note: Callable[[], None]) -> bool:
        """Get another token, if one could help against this reply. True: send the request again.

        Args:
            note: called first, so that a trace shows the reply before what is sent because of it.

        Raises: AuthorizationError. HttpStatusError: the server accepts no token of ours.
        """
        challenge = _challenge_of(reply) if reply.status == 403 else None
        if reply.status != 401 and (challenge is None or challenge.parameters.get("error") != "insufficient_scope"):
            return False
        note()
        # A proof that lacked a nonce is made once more, beside whatever follows a 401.
        if USE_NONCE not in self.refused and self.authorizer.learns_nonce(self, reply):
            self.refused.add(USE_NONCE)
            return True
        once_more = reply.status == 403 or 401 not in self.refused
        self.refused.add(reply.status)
        if not once_more or not self.authorizer.renew(self, reply):
            raise reply.refusal("a message", reply.body(_MAX_ERROR_BODY))
        return True

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Keep a block from using up the time of the call."""
        deadline, began = self.call.deadline, time.monotonic()
        self.call.deadline = Deadline(None)
        try:
            yield
        finally:
            deadline.postpone(time.monotonic() - began)
            self.call.deadline = deadline
            self.http.begin(self.call)


class Authorizer:
    """The authorization of the requests to one server URL, by a client that may speak these revisions, oldest first."""

    revisions: tuple[Revision, ...] = ()

    owner: str | None = None
    """Names the login that the token comes from. While it stays the same, so does the user."""

    extension: str | None = None
    """The name of the protocol extension that this is, if any."""

    def request(
        self, http: HttpClient, call: HttpCall, method: str, url: str, headers: Mapping[str, str], body: bytes | None,
        message: Any, agreed: Revision | None, note: Note,
    ) -> AuthorizedRequest:  # fmt: skip
        """Return the authorization of one request. `message` is its content, or says what a user waits for."""
        operation = message if isinstance(message, str) else _operation(message)
        revisions = self.revisions if agreed is None else (agreed,)
        return AuthorizedRequest(self, http, call, method, url, headers, body, operation, revisions, note, set())

    def headers(self, request: AuthorizedRequest) -> dict[str, str]:
        """Return the headers that authorize a request. Raises: AuthorizationError."""
        raise NotImplementedError

    def renew(self, request: AuthorizedRequest, reply: HttpResponse) -> bool:
        """Get another token after a refusal. True: send the request again. Raises: AuthorizationError."""
        return False

    def learns_nonce(self, request: AuthorizedRequest, reply: HttpResponse) -> bool:
        """Return whether the proof of a request only lacked a nonce, which is known now."""
        return False

    def await_token(self, call: HttpCall) -> None:
        """Wait for a token other than the one that the call was sent with. Raises: whatever cuts the call."""
        while True:
            call.sleep(None)


def _operation(message: Any) -> str:
    """Return what a user waits for when this message is sent. "" if it goes out in the background."""
    if isinstance(message, list):
        return next(filter(None, map(_operation, message)), "")
    if not isinstance(message, dict) or "id" not in message or message.get("method") in (None, "ping"):
        return ""
    params = message.get("params") or {}
    return f"{message['method']} {params.get('name', params.get('uri', ''))}"


def _challenge_of(reply: HttpResponse) -> Challenge | None:
    found = read_challenges(reply.headers.get("WWW-Authenticate"))
    return next((each for each in found if each.scheme in ("bearer", "dpop")), None)


def bind(auth: Any, url: str, revisions: Sequence[Revision] = tuple(REVISIONS.values())) -> Authorizer:
    """Return what the argument `auth` of a client means for a server URL.

    Raises: AuthorizationError: a token must not be sent to this URL. TypeError: `auth` is not of a known kind.
    """
    if isinstance(auth, Authorizer):
        return auth
    if not isinstance(auth, str | Grant) and not callable(auth):
        raise TypeError(f"auth must be a token, a function, or an object such as OAuth(...); not {type(auth).__name__}")
    # MUST: send tokens over https only; http is for this machine (basic/authorization#communication-security)
    try:
        check_url(url, url)
    except ValueError as problem:
        raise AuthorizationError(
            f"a token must not be sent to {shown(url)}: {problem}; if you know that it is safe there, use headers="
        ) from None
    if isinstance(auth, Grant):
        authorizer: Authorizer = auth.for_url(url)
    elif isinstance(auth, str):
        authorizer = _Bearer(lambda: auth, final=True)
    else:
        from inspect import signature

        try:
            signature(auth).bind()
            authorizer = _Bearer(auth)
        except TypeError:
            authorizer = _Prepared(auth)
    authorizer.revisions = tuple(revisions)
    return authorizer


class _Bearer(Authorizer):
    """A bearer token from the user's program. A function is called once, and once more after a 401."""

    def __init__(self, get: Callable[[], str], *, final: bool = False) -> None:
        self._get, self._final = get, final
        self._token: str | None = None

    def headers(self, request: AuthorizedRequest) -> dict[str, str]:
        token = self._token
        if token is None:
            token = self._token = self._get()
        if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token or not token:
            # The message does not show it: it may be a token all the same.
            raise ValueError(
                "this is not a token: it is empty, or contains spaces, line breaks or non-ASCII characters"
            )
        request.call.token = token
        return {"Authorization": f"Bearer {token}"}

    def renew(self, request: AuthorizedRequest, reply: HttpResponse) -> bool:
        if self._final or reply.status != 401:
            return False
        if self._token == request.call.token:
            self._token = None
        return True


class _Prepared(Authorizer):
    """A callable that is given each prepared request, such as those of `requests.auth`. It may set headers."""

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


class GrantOptions(TypedDict, total=False):
    """The options of every grant; see `Grant`."""

    scopes: Sequence[str] | None
    issuer: str | None
    allow_private: bool


class Grant:
    """A way to get tokens: what `OAuth` and the extensions have in common.

    Attributes:
        name: distinguishes its entries in the store. store: where tokens are kept.
        scopes: what to ask for, whatever the server names; None: what the server names.
        issuer: the only authorization server that is accepted, or None.
        asks_user: whether it needs the user. steps_up: whether it can ask for more scopes.
        allow_private: whether a server may name addresses in private networks that it is not in itself.
        extension: the name of the protocol extension that it is. None: it belongs to the protocol itself, or the name
            of the extension is not settled.
        prover: makes the proofs that go with the tokens (DPoP). None: they are bearer tokens.
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
        """Return the kind of its tokens, as `token_type` names it."""
        return "Bearer" if self.prover is None else "DPoP"

    def for_url(self, url: str) -> TokenKeeper:
        """Return the keeper of the token for one server URL. All clients and threads share it."""
        # A client MUST NOT send a server a token that was issued for another one (basic/authorization#token-handling)
        return self._keepers.setdefault(url, TokenKeeper(self, url))

    def preferred(self) -> list[str]:
        """Return issuers to prefer if a server trusts several."""
        return [self.issuer] if self.issuer else []

    def client(self, found: Discovered) -> Registered | None:
        """Return the identity of this client at an authorization server. None: it is not known there yet."""
        return None

    def obtain(self, job: Job) -> Token:
        """Get a new token. Raises: AuthorizationError."""
        raise NotImplementedError


class Job(NamedTuple):
    """Everything that a grant needs to get a token. `scopes`: what to ask for, or None."""

    request: AuthorizedRequest
    fetcher: Fetcher
    found: Discovered
    keeper: TokenKeeper
    scopes: tuple[str, ...] | None


class _Renewal:
    """A renewal in progress: which calls wait for it, and how it ended."""

    def __init__(self) -> None:
        self.process, self.over = os.getpid(), False
        self.waiting: list[HttpCall] = []
        self.error: AuthorizationError | None = None


class TokenKeeper(Authorizer):
    """Keeps the token for one server URL, and renews it. Threads: any."""

    def __init__(self, grant: Grant, url: str) -> None:
        self.grant, self.url, self._name = grant, url, f"token {grant.name} {url}"
        self.extension = grant.extension
        self._lock = threading.Lock()  # guards the fields below; held for assignments only
        self._token: Token | None = None
        self._loaded = False
        self._renewal: _Renewal | None = None
        self._found: Discovered | None = None
        self._reach = Reach()
        self._requested: tuple[str, ...] = ()  # the scopes that the last login asked for
        self._asked: set[tuple[str, frozenset[str]]] = set()  # step-ups: the operation, and the scopes asked for
        self._visits: deque[float] = deque()
        self._standing: WeakSet[HttpCall] = WeakSet()  # calls in `await_token`

    @property
    def owner(self) -> str | None:  # type: ignore[override]
        """See `Authorizer`."""
        token = self._token
        return None if token is None else token.login

    def headers(self, request: AuthorizedRequest) -> dict[str, str]:
        """See `Authorizer`."""
        if not self._loaded:
            kept = Token.kept(self.grant.store.get(self._name), self.grant.kind)
            with self._lock:
                if not self._loaded:
                    self._token, self._loaded = kept, True
        token = self._token
        if token is not None and token.stale and token.refresh and self._found is not None:
            # Only a challenge tells where tokens come from. Without one so far, send the request and see.
            request.call.token = token
            self._renew(request, None, None)
            token = self._token
        request.call.token = token
        # MUST: include authorization in every request, also within a session (basic/authorization#token-requirements)
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
            # SHOULD: answer insufficient_scope by asking for a token with more scopes, if a user waits for the call
            # (basic/authorization#step-up-authorization-flow)
            if challenge is None or not self.grant.steps_up or not request.operation:
                return False
            more = challenge.scopes or ()
        if (address := reply.address) is not None:
            self._reach = Reach(kind_of(address), private=self.grant.allow_private)
        return self._renew(request, challenge or Challenge("bearer", {}), more)

    def await_token(self, call: HttpCall) -> None:
        """See `Authorizer`."""
        with self._lock:
            self._standing.add(call)
        while self._token is call.token:
            call.sleep(None)

    # -- renewing

    def _renew(self, request: AuthorizedRequest, challenge: Challenge | None, more: tuple[str, ...] | None) -> bool:
        """Get another token than the one that was used. False: that would need a user, and none waits.

        One thread does the work. If it fails, those who wait for it raise the same error. If only its own call was
        ended, the next of them starts again.

        Args:
            more: the scopes that a 403 names; None after a 401, or before a token ends.
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
        """Get the next token: from the store, by a refresh, or by the grant. None: it takes a user who is not there."""
        grant, store = self.grant, self.grant.store
        fetcher = Fetcher(request.http, request.call, self._reach, request.note)
        # 1. Find the authorization server: again after each refusal, since the server may trust another one by now.
        found = self._found
        if found is None or challenge is not None:
            known = grant.preferred() or ([used.issuer] if used is not None else [])
            found = discover(fetcher, self.url, challenge, request.revisions, known)
            if grant.issuer is not None and found.issuer != grant.issuer:
                raise AuthorizationError(f"{shown(self.url)} trusts {shown(found.issuer)}, not {shown(grant.issuer)}")
            self._found = found
        client = grant.client(found)
        # 2. Without the user: take the token that another process has stored meanwhile, or refresh ours. A refresh
        #    cannot grant more scopes, so it is not tried after a 403.
        if more is None:
            with store.lock(self._name, request.call.sleep):
                kept = Token.kept(store.get(self._name), grant.kind)
                if kept is not None and kept.belongs(found):
                    if (used is None or kept.access != used.access) and not kept.stale:
                        return kept
                    used = kept
                if token := self._refreshed(fetcher, found, client, used):
                    # It is stored before it is used: the old refresh token may be worthless now (rotation).
                    store.put(self._name, token._asdict())
                    return token
        # 3. Get a new token, which may need the user.
        if grant.asks_user and not request.operation:
            return None
        scopes = self._scopes(found, challenge, used, more)
        if more is not None:
            # SHOULD: limit retries and keep track of step-ups, to avoid asking again for what did not help
            # (basic/authorization#step-up-authorization-flow)
            asking = (request.operation, frozenset(scopes or ()))
            with self._lock:
                if asking in self._asked or len(self._asked) >= _MAX_ASKED:
                    return None
                self._asked.add(asking)
        token = grant.obtain(Job(request, fetcher, found, self, scopes))
        self._requested = scopes or ()
        store.put(self._name, token._asdict())
        return token

    def _refreshed(
        self, fetcher: Fetcher, found: Discovered, client: Registered | None, used: Token | None
    ) -> Token | None:
        """Return a token, refreshed where and by whom it was issued. None: it cannot be, or not any more."""
        if used is None or not used.refresh or not used.belongs(found):
            return None
        if client is None or client.client_id != used.client_id:
            return None
        try:
            return refresh(fetcher, found, client, used, self.grant.prover)
        except AuthorizationError as refused:
            log.info("could not refresh the token: %s", refused)
            if refused.error not in ("invalid_grant", "invalid_client"):
                raise
        return None

    def _scopes(
        self, found: Discovered, challenge: Challenge | None, used: Token | None, more: tuple[str, ...] | None
    ) -> tuple[str, ...] | None:
        """Return the scopes to ask for; None: the request names none."""
        # SHOULD: ask for the scopes of the challenge; without those for all of `scopes_supported`; else for none
        # (basic/authorization#scope-selection-strategy)
        named = challenge.scopes if challenge is not None else None
        wanted = self.grant.scopes if self.grant.scopes is not None else named if named is not None else found.scopes
        before: tuple[str, ...] = ()
        if used is not None and used.issuer == found.issuer:
            # SHOULD: include the scopes that were granted before (basic/authorization#scope-selection-strategy)
            before = (*(used.scopes or ()), *self._requested)
        scopes = tuple(dict.fromkeys((*before, *(wanted or ()), *(more or ()))))
        # MAY: add `offline_access` if the authorization server lists it (basic/authorization#refresh-tokens)
        if scopes and self.grant.asks_user and OFFLINE in found.metadata.get("scopes_supported", ()):
            scopes = tuple(dict.fromkeys((*scopes, OFFLINE)))
        return scopes or None

    # -- what the grants use

    def count_visit(self) -> None:
        """Note that the user's browser is about to be opened. Raises: AuthorizationError: too often."""
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
    """Open the user's browser, without a shell. Raises: AuthorizationError: no browser was found."""
    import webbrowser

    if not webbrowser.open(url):
        raise AuthorizationError("no browser could be opened: give OAuth(visit=print), or a function of yours")


class OAuth(Grant):
    """Authorization by the user, in a browser: the authorization code flow, with everything that leads to it.

    >>> with Client("https://mcp.example.com/mcp", auth=OAuth("My script")) as client:
    ...     client.call_tool("report", {})

    The browser is opened when the server first asks for a token, and only while a user waits for a call. One object may
    serve any number of clients and servers; each server URL has a token of its own.

    Args:
        name: what the user is told about this client.
        client: its identity, if it was registered beforehand. document: the URL of its client id metadata document,
            which `client_metadata` makes. Without either, or if the authorization server does not support documents,
            the client registers itself.
        scopes: what to ask for, whatever the server names.
        redirect_uri: where the browser comes back to; port 0 means a free port. With https, `visit` must return.
        visit: is given the URL that the user must visit; None: `open_browser`. It may return the URL that the browser
            came back to. Otherwise a listener at the redirect URI waits for it.
        store: keeps tokens and registrations; None: in memory. A `FileStore` keeps them for the next start.
        issuer: the only authorization server that is accepted, as its own metadata writes it; a server may name it with
            another slash at its end.
        timeout: seconds that the user has to log in.
        dpop: whether tokens must be bound to a key, which is kept in `store`, so that nobody else can use them. A
            draft; it needs the extra `auth`.
        allow_private: whether a server may name addresses in private networks that it is not in itself.

    Raises: ValueError: `document` or `redirect_uri` is not a usable URL. ImportError: `dpop` without the extra.
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
            from mcp_ref.pages.basic.authorization.jwt import new_key

            pem = (self.store.get(f"key {name}") or {}).get("pem")
            if not isinstance(pem, str):
                pem = new_key()
                self.store.put(f"key {name}", {"pem": pem})
            self.prover = Prover(pem)
        self._given, self._document = client, None if document is None else checked_document(document)
        # MUST: use redirect URIs that are https, or on this machine (basic/authorization#communication-security)
        check_url(redirect_uri, redirect_uri)
        self._redirect, self._visit, self._timeout = urlsplit(redirect_uri), visit or open_browser, timeout

    def preferred(self) -> list[str]:
        """See `Grant`."""
        bound = None if self._given is None else self._bound(self._given)
        return super().preferred() or ([bound] if bound else [])

    def _bound(self, given: Registered) -> str | None:
        """Return the authorization server that knows a client which was registered beforehand; None: nobody has said
        yet.
        """
        kept = given.issuer or (self.store.get(f"issuer of {given.client_id}") or {}).get("issuer")
        return kept if isinstance(kept, str) else None

    def client(self, found: Discovered) -> Registered | None:
        """See `Grant`. Raises: AuthorizationError: it was registered with another authorization server."""
        record = self._registration(found.issuer)
        return self._fixed(found) or (_registered(record) if record else None)

    def _fixed(self, found: Discovered) -> Registered | None:
        """Return the identity that needs no registration; None: this client has to register itself."""
        if (given := self._given) is not None:
            # A client MUST NOT use credentials at another authorization server than the one that issued them; SHOULD:
            # report an error if credentials that were registered beforehand no longer fit
            # (basic/authorization/client-registration#authorization-server-binding)
            bound = self._bound(given)
            if bound is not None and bound != found.issuer:
                raise AuthorizationError(
                    f"the client {given.client_id!a} is registered with {shown(bound)}, and the server now trusts"
                    f" {shown(found.issuer)}"
                )
            if bound is None:
                self.store.put(f"issuer of {given.client_id}", {"issuer": found.issuer})
            return given
        # SHOULD: use a metadata document if its support is advertised, else register dynamically
        # (basic/authorization#client-registration-approaches)
        if self._document is not None and found.metadata.get("client_id_metadata_document_supported"):
            return Registered(self._document, method="none")
        return None

    def obtain(self, job: Job) -> Token:
        """See `Grant`. The user visits the authorization server, and the browser comes back with a code."""
        found, listener = job.found, None
        fixed, record = self._fixed(found), self._registration(found.issuer)
        try:
            # 1. Where does the browser come back to? The port that was registered is used again if it is free.
            place = self._redirect
            if place.scheme == "http":
                listener = self._listen({} if fixed else record)
                host = place.netloc if place.port is None else place.netloc.rpartition(":")[0]
                place = place._replace(netloc=f"{host}:{listener.port}")
            redirect_uri = place.geturl()
            # 2. Who is this client? A registration is for one redirect URI, and at some authorization servers only for
            #    the scopes that it names.
            lacks = "scope" in record and not set(job.scopes or ()) <= set(record["scope"].split())
            if lacks or record.get("redirect_uri") != redirect_uri:
                record = {}
            while True:
                is_new = fixed is None and not record
                if is_new:
                    record = register(job.fetcher, found, self.name, redirect_uri, job.scopes)
                    record["redirect_uri"] = redirect_uri
                    self.store.put(self._key(found.issuer), record)
                # 3. Send the user there.
                asking = AuthorizationRequest(
                    found, fixed or _registered(record), redirect_uri, job.scopes, self.prover
                )
                job.keeper.count_visit()
                query = self._visited(job, asking, redirect_uri, listener)
                # 4. Exchange the code for a token.
                try:
                    return asking.redeem(job.fetcher, asking.code(query))
                except AuthorizationError as refused:
                    if fixed or is_new or refused.error != "invalid_client":
                        raise
                    log.info("the authorization server no longer knows this client: registering again")
                    self.store.put(self._key(found.issuer), None)
                    record = {}
        finally:
            if listener is not None:
                listener.close()

    def _visited(self, job: Job, asking: AuthorizationRequest, redirect_uri: str, listener: Loopback | None) -> str:
        """Send the user to the authorization server; the query with which the browser comes back."""
        if job.request.note is not None:
            about = {"method": "browser", "url": shown(asking.url), "oauth": without_secrets(asking.said)}
            job.request.note("send", about)
        came_back = self._visit(asking.url)
        if came_back is not None:
            where, _, query = came_back.partition("?")
            if where != redirect_uri.partition("?")[0]:
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

    def _listen(self, record: JsonObject) -> Loopback:
        from mcp_ref.pages.basic.authorization.loopback import Loopback

        host = "[::1]" if self._redirect.hostname == "::1" else self._redirect.hostname or ""
        wanted = self._redirect.port
        registered = urlsplit(record.get("redirect_uri", "")).port
        try:
            return Loopback(wanted or registered or 0, self._redirect.path, host)
        except OSError as problem:
            if wanted:
                raise AuthorizationError(f"cannot listen on {self._redirect.netloc}: {problem}") from None
            # Another program has the port. Take another one, and register again.
            return Loopback(0, self._redirect.path, host)

    def _key(self, issuer: str) -> str:
        # MUST: associate credentials with the issuer that gave them
        # (basic/authorization/client-registration#authorization-server-binding)
        return f"client {self.name} {issuer} {self._redirect.geturl()}"

    def _registration(self, issuer: str) -> JsonObject:
        """Return what the authorization server answered when this client registered there; empty: it has not."""
        record = self.store.get(self._key(issuer)) or {}
        return record if "client_id" in record and all(isinstance(each, str) for each in record.values()) else {}

    def forget(self, url: str) -> None:
        """Forget the token for a server URL, in memory and in the store. The next call asks the user again."""
        self.for_url(url).forget()


def _registered(record: JsonObject) -> Registered:
    method = record.get("token_endpoint_auth_method")
    return Registered(record["client_id"], record.get("client_secret"), method=method)
