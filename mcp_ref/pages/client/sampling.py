"""Sampling: `sampling/createMessage`, with which a server asks for a message of the client's model.

Spec:      client/sampling (2024-11-05 ... 2026-07-28)
Upholds:   spec_notes/client/sampling.md; of spec_notes/schema.md the rows on sampling
Not here:  carrying the question: a request of its own in the session era, an entry of `inputRequests` in the stateless
           one (basic/mrtr); how often a server may ask (client/session)

    sample(ctx, ...)              in a server: ask
    sampling_create_message(...)  in a client: answer, with the function given as `Client(..., sample=...)`
    reply, choose_model           for that function
    message_problem               both sides: how tool uses and tool results must stand in a conversation
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict, Unpack, cast

from mcp_ref.errors import InvalidParams, LocalProtocolError, Refusal
from mcp_ref.kit.typed.handlers import call
from mcp_ref.kit.typed.shapes import Bounds, FromRevision, Since, Until
from mcp_ref.pages.basic.tasks import CreateTaskResult, TaskAugmented
from mcp_ref.pages.server.tools import Tool
from mcp_ref.revisions import Revision
from mcp_ref.wire.content import AudioContent, ContentBlock, ImageContent, Role, TextContent, block_type, text
from mcp_ref.wire.deprecated import warn_deprecated
from mcp_ref.wire.messages import JsonObject
from mcp_ref.wire.methods import Method, Options
from mcp_ref.wire.negotiated import undeclared
from mcp_ref.wire.types import RequestMetaObject

if TYPE_CHECKING:
    from mcp_ref.client.session import ClientContext
    from mcp_ref.server.session import Context

log = logging.getLogger(__name__)


# -- types ------------------------------------------------------------------------------------------------------------


class ToolUseContent(TypedDict):
    """The model wants a tool called; `id` is matched by the `toolUseId` of the result."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: JsonObject
    _meta: NotRequired[JsonObject]


class ToolResultContent(TypedDict):
    """A tool's result, for the model to read."""

    type: Literal["tool_result"]
    toolUseId: str
    content: list[ContentBlock]
    structuredContent: NotRequired[Annotated[JsonObject, FromRevision("2026-07-28", Any)]]
    isError: NotRequired[bool]
    _meta: NotRequired[JsonObject]


SamplingMessageContentBlock = (
    TextContent
    | ImageContent
    | Annotated[AudioContent, Since("2025-03-26")]
    | Annotated[ToolUseContent, Since("2025-11-25")]
    | Annotated[ToolResultContent, Since("2025-11-25")]
)
"""The parts of a message to or from a model."""

SamplingContent = Annotated[
    SamplingMessageContentBlock,
    FromRevision("2025-11-25", SamplingMessageContentBlock | list[SamplingMessageContentBlock]),
]


class SamplingMessage(TypedDict):
    """One message of the conversation; `content` is one block, or from 2025-11-25 a list of them as well."""

    role: Role
    content: SamplingContent
    _meta: NotRequired[Annotated[JsonObject, Since("2025-11-25")]]


class ModelHint(TypedDict):
    """A part of a model's name."""

    name: NotRequired[str]


class ModelPreferences(TypedDict):
    """The kind of model that the server would like; each priority runs from 0 (not important) to 1."""

    hints: NotRequired[list[ModelHint]]
    costPriority: NotRequired[Annotated[float, Bounds(0, 1)]]
    speedPriority: NotRequired[Annotated[float, Bounds(0, 1)]]
    intelligencePriority: NotRequired[Annotated[float, Bounds(0, 1)]]


class ToolChoice(TypedDict):
    """A rule for the model: it may ("auto", the default), must ("required") or must not ("none") use tools."""

    mode: NotRequired[Literal["auto", "required", "none"]]


class CreateMessageRequestParams(TypedDict):
    """The question to the model. It has no `_meta` of a request where it is an entry of `inputRequests`."""

    messages: list[SamplingMessage]
    modelPreferences: NotRequired[ModelPreferences]
    systemPrompt: NotRequired[str]
    includeContext: NotRequired[Literal["none", "thisServer", "allServers"]]
    temperature: NotRequired[float]
    maxTokens: int
    stopSequences: NotRequired[list[str]]
    metadata: NotRequired[JsonObject]
    tools: NotRequired[Annotated[list[Tool], Since("2025-11-25")]]
    toolChoice: NotRequired[Annotated[ToolChoice, Since("2025-11-25")]]
    task: NotRequired[TaskAugmented]
    _meta: NotRequired[Annotated[RequestMetaObject, Until("2025-11-25")]]


class CreateMessageResult(TypedDict):
    """The message of the model. `stopReason` is open: "endTurn", "stopSequence", "maxTokens", "toolUse" are known."""

    role: Role
    content: SamplingContent
    model: str
    stopReason: NotRequired[str]
    _meta: NotRequired[JsonObject]


class SampleOptions(Options, total=False):
    """The options of `sample` beside the messages, each named in snake case as its field is on the wire.

    system_prompt: a system prompt; the client may change it or leave it out.
    model_preferences: hints and priorities; the client chooses.
    temperature, stop_sequences, metadata: passed on to the model's provider.
    tools, tool_choice: what the model may call; the client must have declared `sampling.tools`.
    include_context: "none", "thisServer" or "allServers"; the latter two only if it declared `sampling.context`.
    """

    system_prompt: str
    model_preferences: ModelPreferences
    temperature: float
    stop_sequences: list[str]
    tools: list[Tool]
    tool_choice: ToolChoice
    include_context: Literal["none", "thisServer", "allServers"]
    metadata: JsonObject


METHODS = (
    Method("sampling/createMessage", "server", "client/sampling", "ask for a message of the client's model",
           CreateMessageRequestParams, CreateMessageResult, until="2025-11-25", needs="client.sampling",
           as_task=CreateTaskResult),
)  # fmt: skip

# -- both sides -------------------------------------------------------------------------------------------------------


def of_type(message: Mapping[str, Any], kind: str) -> list[Any]:
    """Return the blocks of a message that are of one type, such as "tool_use"; `content` is one block, or a list of
    them.
    """
    content = message.get("content", [])
    return [block for block in (content if isinstance(content, list) else [content]) if block_type(block) == kind]


def message_problem(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what is wrong with the tool uses and tool results of a conversation, such as "messages[2]: ..."; None
    if nothing.

    Tool uses stand in assistant messages and results in user messages; a message with results holds nothing else; each
    tool use is answered in the very next message.

    Spec: client/sampling#message-content-constraints
    """
    asked: list[str] = []
    for index, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        uses, results = of_type(message, "tool_use"), of_type(message, "tool_result")
        answered = [str(result.get("toolUseId")) for result in results]
        missing = [use for use in asked if use not in answered]
        unknown = [use for use in answered if use not in asked]
        rules = (
            (results and role != "user", "a tool result belongs in a user message"),
            (uses and role != "assistant", "a tool use belongs in an assistant message"),
            # MUST: a user message with tool results holds nothing else (client/sampling#tool-result-messages)
            (
                results and isinstance(content, list) and len(content) > len(results),
                "tool results are mixed with other content",
            ),
            # MUST: each tool use is matched by a tool result before any other message
            # (client/sampling#tool-use-and-result-balance)
            (missing, f"tool result missing for {', '.join(missing)}"),
            (unknown, f"no tool use before it for the result of {', '.join(unknown)}"),
        )
        for broken, problem in rules:
            if broken:
                return f"messages[{index}]: {problem}"
        asked = [str(use.get("id")) for use in uses]
    return f"tool result missing at the end for {', '.join(asked)}" if asked else None


# -- the server's half ------------------------------------------------------------------------------------------------


def sample(
    self: Context,
    messages: str | SamplingMessage | Sequence[SamplingMessage],
    *,
    max_tokens: int,
    **options: Unpack[SampleOptions],
) -> CreateMessageResult:
    """Ask the client for a message of its model with `sampling/createMessage`.

    Args:
        messages: the conversation so far; one message, or a string for one user message of that text.
        max_tokens: how many tokens to sample at most.
        options: see `SampleOptions`, and `Options` for the waiting.
    Returns: the message: `role`, `content`, `model` and perhaps `stopReason`. With tools, `content` may be a list.
    Raises:
        LocalProtocolError: the client did not declare `sampling` (for tools: `sampling.tools`), the revision has no
            such content, or tool uses and results do not pair; nothing was sent.
        ErrorResponse: the user refused (code -1), or the client could not.
    Blocks: until the client answers, which may take a person's time; bounded by `timeout`.
    Threads: the handler's own.
    Spec: client/sampling#creating-messages
    """
    method, params = sample_request(self.revision, self.peer_capabilities, messages, max_tokens=max_tokens, **options)
    return cast(CreateMessageResult, self.request(method, params, waiting(options)))


def sample_request(
    revision: Revision,
    capabilities: JsonObject,
    messages: str | SamplingMessage | Sequence[SamplingMessage],
    *,
    max_tokens: int,
    **options: Unpack[SampleOptions],
) -> tuple[str, JsonObject]:
    """Return the method and the params with which `sample` asks a client of these capabilities; errors are the same."""
    warn_deprecated("sampling", revision)
    # 1. The conversation.
    if isinstance(messages, str):
        messages = {"role": "user", "content": text(messages)}
    conversation = [messages] if isinstance(messages, dict) else list(messages)
    if not all(isinstance(message, dict) for message in conversation):
        raise LocalProtocolError("a message must be a dict with `role` and `content`")
    # MUST: a server answers each use of a tool, in a message of results alone (client/sampling#security-considerations)
    if (problem := message_problem(conversation)) is not None:
        raise LocalProtocolError(problem)
    # 2. The options that are fields of the request; the others are about the waiting.
    params: JsonObject = {"messages": conversation, "maxTokens": max_tokens}
    for name, value in options.items():
        if name not in SampleOptions.__annotations__:
            raise TypeError(f"sample() has no option {name}; there are {', '.join(SampleOptions.__annotations__)}")
        if name not in Options.__annotations__ and value is not None:
            first, *more = name.split("_")
            params[first + "".join(map(str.capitalize, more))] = value
    # 3. What the client can do.
    declared = capabilities.get("sampling", {})
    if "tools" in params or "toolChoice" in params:
        if not revision.sampling_tools:
            raise LocalProtocolError(f"sampling has no tools in {revision}")
        # A server MUST NOT send tools to a client that did not declare `sampling.tools`
        # (client/sampling#tools-in-sampling)
        if "tools" not in declared:
            raise undeclared(revision, "sampling.tools", "the client did not declare `sampling.tools`")
    if revision.sampling_tools and params.get("includeContext", "none") != "none":
        warn_deprecated('includeContext "thisServer" or "allServers"', revision)
        # A server SHOULD NOT use includeContext without the client's `sampling.context`; so it is sent, and logged
        # (client/sampling#capabilities)
        if "context" not in declared:
            log.warning("includeContext %r for a client without `sampling.context`", params["includeContext"])
    return "sampling/createMessage", params


def waiting(options: Mapping[str, Any]) -> Options:
    """Return those of the options of `sample` that are about the waiting."""
    return cast(Options, {name: value for name, value in options.items() if name in Options.__annotations__})


# -- the client's half ------------------------------------------------------------------------------------------------

SampleHandler = Callable[..., CreateMessageResult | JsonObject]
"""The function that `Client(..., sample=...)` takes: `(params) -> reply(...)` or `(params, ctx) -> reply(...)`.

It gets the whole request, changes or drops what the user wants, asks the model, and returns what the user approved.
"""


class UserRejected(Refusal):
    """-1: raised by a sample handler when the user said no."""

    code = -1

    def __init__(self, message: str = "User rejected sampling request", data: Any = None) -> None:
        super().__init__(message, data)


def reply(
    content: str | SamplingMessageContentBlock | list[SamplingMessageContentBlock],
    *,
    model: str,
    stop_reason: str | None = None,
) -> CreateMessageResult:
    """Return what a sample handler returns: an assistant's message from the model named.

    Args:
        content: a text, a block, or a list of blocks.
        model: the name of the model that wrote it; the page requires it, so it cannot be left out.
        stop_reason: left out: "toolUse" where the content holds a tool use, else "endTurn".
    """
    body: Any = text(content) if isinstance(content, str) else content
    if stop_reason is None:
        stop_reason = "toolUse" if of_type({"content": body}, "tool_use") else "endTurn"
    return {"role": "assistant", "content": body, "model": model, "stopReason": stop_reason}


def choose_model(preferences: ModelPreferences | None, available: Sequence[str]) -> str | None:
    """Return the first model that a hint fits, hints in their order; None where none does: then the priorities decide.

    Args:
        preferences: `params.get("modelPreferences")` of a request.
        available: names of models, the client's favourite first.
    Spec: client/sampling#model-hints
    """
    # MUST: take the hints of `modelPreferences` in order, and the first that matches (schema#ModelPreferences)
    # SHOULD: respect the hints of `modelPreferences` (client/sampling#security-considerations)
    for hint in (preferences or {}).get("hints", []):
        for name in available:
            # SHOULD: take a hint for a substring of a model's name (schema#ModelHint)
            if "name" in hint and hint["name"] in name:
                return name
    return None


def sampling_create_message(
    handler: SampleHandler, ctx: ClientContext, params: CreateMessageRequestParams
) -> CreateMessageResult:
    """Answer `sampling/createMessage` by the function that the user gave as `Client(..., sample=...)`.

    Args:
        handler: see `SampleHandler`. It returns `reply(...)`, or a dict of the same shape, in which `role` may be
            missing and `content` may be a string. It raises `UserRejected` when the user says no.
    Raises:
        InvalidParams: tools for a client that did not declare `sampling.tools`, or tool uses and results that do not
            pair.
        LocalProtocolError: the handler returned no message, or one that uses tools although `toolChoice` is "none"; the
            dispatcher answers -32603 for this and for whatever else the handler raises, unless it is a `Refusal`.
    Blocks: as long as the handler does.
    Spec: client/sampling#creating-messages, client/sampling#error-handling
    """
    for field in ("tools", "toolChoice") if ctx.revision.sampling_tools else ():
        # MUST: answer tools or toolChoice with an error if `sampling.tools` was not declared
        # (schema#CreateMessageRequestParams)
        if field in params and "tools" not in ctx.capabilities.get("sampling", {}):
            raise InvalidParams(f"params.{field}: this client did not declare `sampling.tools`")
    if (problem := message_problem(params["messages"])) is not None:
        raise InvalidParams(problem)
    returned: Any = call(handler, ctx, params)
    if not isinstance(returned, dict) or "content" not in returned or not isinstance(returned.get("model"), str):
        raise LocalProtocolError("a sample handler must return reply(content, model=...), which names the model")
    content = returned["content"]
    message = {"role": "assistant", **returned, "content": text(content) if isinstance(content, str) else content}
    # A model MUST NOT use tools if `toolChoice` is "none" (client/sampling#tool-choice-modes)
    if params.get("toolChoice", {}).get("mode") == "none" and of_type(message, "tool_use"):
        raise LocalProtocolError("the sample handler's message uses tools, which the request does not allow")
    return cast(CreateMessageResult, message)
