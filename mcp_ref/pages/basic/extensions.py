"""Extensions: what a specification of its own adds to the protocol, as a value. Nothing is loaded by name.

Spec:      basic/versioning#extension-negotiation, basic/index#resulttype (2026-07-28)
Upholds:   spec_notes/basic/versioning.md, the rows on extensions; spec_notes/extensions.md
Not here:  tasks, which are one (extensions/tasks); those of authorization (basic/authorization/extensions)

A side declares the extensions that it was given. What one brings counts only where the other side has declared it too:
a server answers -32021 to a request without the declaration, and to a client its methods are a LocalProtocolError.
Without any, the rows of a conversation are the protocol's own, and nothing here is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mcp_ref.errors import LocalProtocolError, MissingClientCapability
from mcp_ref.pages.basic.meta import is_meta_key
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method

if TYPE_CHECKING:
    from mcp_ref.pages.basic.subscriptions import Subscription, Subscriptions, SubscriptionsListenRequestParams
    from mcp_ref.server.session import Context

Kinds = Mapping[str, Mapping[str, Any]]
"""By method, the types of further kinds of results, by their `resultType`; under "*" those of any method. A type None:
it is not checked."""


class Listen(NamedTuple):
    """A field of the filter of `subscriptions/listen`, a list of strings, and the notification that it asks for.

    Attributes:
        method: of the notification; member: of its params, which names what it is about: one of those strings.
        honour: gives the part of what a client asks for that the server will tell it of.
        now: called with each string of that part, once the client knows which they are; gives the params of a first
            notification, which tells the present state, or None.
    """

    method: str
    member: str
    honour: Callable[[Any, list[str]], list[str]] = lambda ctx, asked: asked
    now: Callable[[Any, str], JsonObject | None] = lambda ctx, asked: None


class Extension(NamedTuple):
    """One extension, for `Server(extensions=[...])` and `Client(extensions=[...])`.

    Attributes:
        name: with a prefix, such as "com.example/audit".
        settings: what this side declares of it.
        rows: its methods. In the revisions that they name they replace methods of the protocol with the same name.
        result_types: by method, the types of further kinds of results, by their `resultType`; None: not checked.
        mirrored: by method, the member of `params` that HTTP repeats in `Mcp-Name`.
        listens: fields of the filter of `subscriptions/listen`.
        answers: by method, a server's function: called with the `Context` and the params, it makes the result.
        gated: whether a client that did not declare the extension is refused its methods; False: its page does not ask
            that of clients.
        in_initialize: whether its page has a client declare it in the session era as well, with `initialize`.
        ready: called with the server before it serves; raises ValueError if something is missing.
    """

    # The defaults are shared, and changed by nobody. Not a dataclass, which loads `inspect` with every server.
    name: str
    settings: JsonObject = {}
    rows: Sequence[Method] = ()
    result_types: Kinds = {}
    mirrored: Mapping[str, str] = {}
    listens: Mapping[str, Listen] = {}
    answers: Mapping[str, Callable[[Any, Any], Any]] = {}
    gated: bool = True
    in_initialize: bool = False
    ready: Callable[[Any], None] = lambda server: None

    def answering(self) -> dict[str, Callable[[Any, Any], Any]]:
        """Return its answers, each refused to a client that did not declare the extension, if it is gated."""

        def checked(answer: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
            def answer_declared(ctx: Context, params: Any) -> Any:
                # MUST: refuse what needs an extension that the client did not declare
                # (2026-07-28/basic/versioning#extension-negotiation; 2026-07-28/extensions/tasks#protocol-errors)
                ctx.require_extension(self.name)
                return answer(ctx, params)

            return answer_declared

        return {method: checked(answer) if self.gated else answer for method, answer in self.answers.items()}


def checked_extensions(extensions: Mapping[str, JsonObject] | None) -> dict[str, JsonObject]:
    """Return the extensions, their settings by name, as either side declares them.

    Raises: ValueError: a name without a prefix such as in "com.example/audit"; settings that are not an object.
    Spec: basic/versioning#extension-negotiation
    """
    for name, settings in (extensions or {}).items():
        # MUST: the name of an extension follows the rules for keys of `_meta`, with a prefix
        # (basic/versioning#extension-negotiation)
        if not is_meta_key(name) or "/" not in name or name.endswith("/"):
            raise ValueError(f"the name of an extension must have a prefix, as in com.example/audit, not {name!r}")
        if not isinstance(settings, dict):
            raise ValueError(f"the settings of the extension {name} must be an object, not {settings!r}")
    return dict(extensions or {})


def extensions_of(given: Mapping[str, JsonObject] | Sequence[Extension | Any] | None) -> dict[str, Extension]:
    """Return extensions by name, from what a client or server was given. Raises: ValueError: as
    `checked_extensions`.
    """
    if not isinstance(given, Mapping):
        named = {each.name: each for each in given or ()}
        checked_extensions({name: each.settings for name, each in named.items()})
        return named
    return {name: Extension(name, settings) for name, settings in checked_extensions(given).items()}


def rows_with(rows: Mapping[str, Method], extensions: Iterable[Extension]) -> Mapping[str, Method]:
    """Return the rows of a conversation of the stateless era: those of the protocol, and over them those of the
    extensions.
    """
    added = {row.name: row for extension in extensions for row in extension.rows}
    return {**rows, **added} if added else rows


def kinds_of(extensions: Iterable[Extension], others: Iterable[str]) -> Kinds:
    """Return the further kinds of results that are accepted.

    Args:
        others: kinds that any method may have, and that are not checked.
    """
    # MUST: accept the kinds of the protocol and of extensions that this side advertises, and no others
    # (2026-07-28/basic/index#resulttype)
    found: dict[str, dict[str, Any]] = {"*": dict.fromkeys(others)}
    for extension in extensions:
        for method, types in extension.result_types.items():
            found.setdefault(method, {}).update(types)
    return found


def open_extended(subscriptions: Subscriptions, ctx: Context, params: SubscriptionsListenRequestParams) -> Subscription:
    """Open a subscription to what the protocol and the server's extensions tell of, and tell the present state."""
    extensions, declared = ctx.server.extensions.values(), ctx.conversation.terms.local
    also = honoured(extensions, ctx, cast(JsonObject, params["notifications"]))
    subscription = subscriptions.open(ctx.incoming, params, declared, also)
    tell_now(extensions, ctx, subscription)
    return subscription


def honoured(extensions: Iterable[Extension], ctx: Context, asked: JsonObject) -> JsonObject:
    """Return the part of a filter that extensions honour. Raises: MissingClientCapability: the client did not declare
    one.
    """
    found: JsonObject = {}
    for extension in extensions:
        for name, listen in extension.listens.items():
            if not isinstance(values := asked.get(name), list):
                continue
            # MUST: -32021 if the client did not declare the extension
            # (2026-07-28/extensions/tasks#task-status-notifications, #protocol-errors)
            ctx.require_extension(extension.name)
            if told := listen.honour(ctx, [each for each in dict.fromkeys(values) if isinstance(each, str)]):
                found[name] = told
    return found


def tell_now(extensions: Iterable[Extension], ctx: Context, subscription: Subscription) -> None:
    """Send a new subscription the present state of everything that extensions report to it."""
    for name, each in sorted(subscription.also):
        listen = next(extension.listens[name] for extension in extensions if name in extension.listens)
        before: JsonObject | None = None
        # Again if it has changed meanwhile: the news of another thread must not be overtaken by what was read before.
        while (params := listen.now(ctx, each)) is not None and params != before:
            subscription.put(listen.method, params, (name, each))
            before = params


# -- what a handler asks ------------------------------------------------------------------------------------------


def extension(self: Context, name: str) -> JsonObject | None:
    """Return the client's settings for an extension that this server declares, such as "com.example/audit".

    None: the client did not declare it; then do without it, as the page asks. In the session era clients may declare it
    with `initialize`, whose capabilities are an open set.
    Raises: LocalProtocolError: this server did not declare it.
    """
    if name not in (self.server.introduction().capabilities.get("extensions") or {}):
        raise LocalProtocolError(f"this server did not declare the extension {name}")
    declared = self.peer_capabilities.get("extensions")
    settings = declared.get(name) if isinstance(declared, dict) else None
    return settings if isinstance(settings, dict) else None


def require_extension(self: Context, name: str) -> JsonObject:
    """Return the settings as `extension` gives them, or else a refusal: -32021, which says what to declare.

    In the session era the refusal is -32603.
    """
    settings = extension(self, name)
    if settings is None:
        # MUST: fall back to the core protocol, or refuse (basic/versioning#extension-negotiation)
        raise MissingClientCapability({"extensions": {name: {}}})
    return settings
