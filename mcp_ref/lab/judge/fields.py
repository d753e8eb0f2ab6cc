"""The meaning of each member of a message, in a sentence, by its name on the wire.

Spec:      schema of every revision
Not here:  types and revisions of a member (the types of each page, which lab/judge/compare reads)
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from mcp_ref import REVISIONS, JsonObject
from mcp_ref.lab.judge.compare import members_of

# fmt: off
MEANINGS: Final[dict[str, str]] = {
    # JSON-RPC
    "jsonrpc": "The version of JSON-RPC, always 2.0.",
    "id": "Names a request; its response repeats it. In tool use, names one call of the model.",
    "method": "The name of the request or notification.",
    "params": "The parameters of the method.",
    "result": "The answer to a request that succeeded.",
    "error": "The answer to a request that could not be carried out.",
    "code": "Which error it is, as an integer.",
    # _meta
    "_meta": "Metadata: of the protocol, of extensions, or of either side.",
    "progressToken": "Asks for progress; each notification of it repeats the token.",
    "io.modelcontextprotocol/protocolVersion": "The revision in which this request is written.",
    "io.modelcontextprotocol/clientCapabilities": "What the client can do, for this request.",
    "io.modelcontextprotocol/clientInfo": "Which program the client is; it proves nothing.",
    "io.modelcontextprotocol/logLevel": "Asks for the log messages of this request, from that level on.",
    "io.modelcontextprotocol/serverInfo": "Which program the server is; it proves nothing.",
    "io.modelcontextprotocol/subscriptionId": "The subscription that a notification belongs to: the id of its request.",
    # opening
    "protocolVersion": "The revision that is proposed, or decided on.",
    "supportedVersions": "The revisions that the server speaks.",
    "supported": "The revisions that could be used instead.",
    "requested": "The revision that was asked for.",
    "capabilities": "What a side can do; what it does not declare must not be asked of it.",
    "requiredCapabilities": "What the client must declare for this request.",
    "clientInfo": "Which program the client is.",
    "serverInfo": "Which program the server is.",
    "instructions": "Hints of the server for the model, on how to use it.",
    "version": "The version of a program.",
    "websiteUrl": "A page about it.",
    "experimental": "Capabilities that no specification names.",
    "extensions": "Extensions that a side knows, by name, with their settings.",
    "listChanged": "Whether the server notifies clients when the list changes.",
    "subscribe": "Whether clients can subscribe to a single resource.",
    "completions": "The server proposes values for arguments.",
    "logging": "The server sends log messages.",
    "elicitation": "The client can ask its user; or how: by form, by URL.",
    "sampling": "The client can ask its model.",
    "form": "Questions may come as a form.",
    "context": "A model may be given context of other servers; or, values of arguments that were chosen already.",
    "tasks": "Requests may be made tasks; or, the tasks of a list.",
    # lists and pages
    "cursor": "Asks for the page that begins here; it came as nextCursor.",
    "nextCursor": "There is more: the next page is asked for with this.",
    "ttlMs": "For how many milliseconds the result may be kept.",
    "cacheScope": "Who may share a kept result: everybody, or this user alone.",
    "resultType": "Which kind of result it is: complete, or one that asks for input.",
    # tools
    "tools": "The tools that can be called.",
    "name": "The name by which it is called, unique in its list.",
    "title": "The name that people see.",
    "description": "What it does, for the model or the user.",
    "inputSchema": "Which arguments the tool takes, as JSON Schema.",
    "outputSchema": "What structuredContent looks like, as JSON Schema.",
    "annotations": "Hints about it, for the client; nobody has to believe them.",
    "readOnlyHint": "It changes nothing, the server says.",
    "destructiveHint": "It may destroy something, the server says.",
    "idempotentHint": "A second call with the same arguments changes nothing more, the server says.",
    "openWorldHint": "It deals with the world outside, the server says.",
    "execution": "How the tool may be run.",
    "taskSupport": "Whether a call may, must or must not be made a task.",
    "icons": "Pictures that a user interface may show.",
    "src": "Where the picture is, or the picture as a data: URL.",
    "sizes": "The sizes that the picture is made for.",
    "theme": "Whether the picture is made for a light or a dark background.",
    "arguments": "The values for a tool or prompt; in a list of prompts, the arguments that it takes.",
    "content": "The content, as blocks; of a form, the values that were filled in.",
    "structuredContent": "The result as JSON, as the outputSchema describes it.",
    "isError": "The tool has failed; the content says how, for the model to read.",
    # content
    "type": "Which kind of thing this is.",
    "text": "Text.",
    "data": "The content in base64; of an error or a log message, whatever belongs to it.",
    "mimeType": "The media type of the data.",
    "blob": "Binary content in base64.",
    "resource": "A resource that is given as a whole.",
    "audience": "For whom it is: the user, the model, or both.",
    "priority": "How important it is, from 0 to 1.",
    "lastModified": "When it was changed last.",
    "size": "How many bytes it has.",
    # resources and prompts
    "resources": "The resources that can be read.",
    "resourceTemplates": "Patterns of URIs of resources that can be read.",
    "uri": "The URI of a resource, or of a root.",
    "uriTemplate": "A pattern of URIs (RFC 6570).",
    "contents": "What the resource holds, in one or several parts.",
    "prompts": "The prompts that can be asked for.",
    "messages": "A conversation: of a prompt, or for the model.",
    "role": "Who speaks: the user or the assistant.",
    "required": "Which fields are required; of an argument, whether it is.",
    # completion, logging
    "ref": "What is to be completed: a prompt, or a template of resources.",
    "argument": "The argument that is to be completed, as far as it was typed.",
    "value": "What was typed so far; of a hint, what it is.",
    "completion": "Values that would fit.",
    "values": "Proposals, the best first, 100 at most.",
    "hasMore": "There are more than these.",
    "total": "How much there is in all, if that is known.",
    "level": "How serious a log message is, from debug to emergency.",
    "logger": "Which part of the server says it.",
    # progress, cancellation, subscriptions
    "progress": "How far it is; it grows with each notification.",
    "message": "What a person reads: of an error, of progress, or the question.",
    "requestId": "The request that is given up, or ended.",
    "reason": "Why, for a person.",
    "notifications": "The changes to be notified of.",
    "toolsListChanged": "Tell when the list of tools changes.",
    "promptsListChanged": "Tell when the list of prompts changes.",
    "resourcesListChanged": "Tell when the list of resources changes.",
    "resourceSubscriptions": "Tell when one of these resources changes.",
    # what a server asks
    "roots": "The folders that the server may work in.",
    "inputRequests": "What the server has to know before it can go on, by keys of its choice.",
    "inputResponses": "The answers, by the same keys.",
    "requestState": "What the server remembers: it goes back as it came. Signed, not encrypted: anybody can read it.",
    "action": "What the user did: accept, decline, or cancel.",
    "mode": "How the user is asked (form or url); of toolChoice, how free the model is.",
    "requestedSchema": "The fields of the form.",
    "url": "The page that the user is asked to visit.",
    "elicitationId": "Names the visit, so that its end can be told.",
    "elicitations": "The visits that are required first.",
    "systemPrompt": "What the model is told before the conversation.",
    "includeContext": "Whose context the model is to be given.",
    "maxTokens": "The most tokens that the answer may have.",
    "temperature": "How freely the model chooses.",
    "stopSequences": "Texts at which the model stops.",
    "stopReason": "Why the model stopped.",
    "model": "The model that has answered.",
    "modelPreferences": "What matters when the client picks a model.",
    "hints": "Names, or parts of names, of models that would suit.",
    "costPriority": "How much it matters that it is cheap, from 0 to 1.",
    "speedPriority": "How much it matters that it is fast, from 0 to 1.",
    "intelligencePriority": "How much it matters that it is able, from 0 to 1.",
    "metadata": "Data for the provider of the model, passed along as it is.",
    "toolChoice": "Whether the model may, must or must not use tools.",
    "toolUseId": "The tool use that this result belongs to.",
    "input": "The arguments with which the model uses a tool.",
    # forms
    "$schema": "The dialect of a schema.",
    "properties": "The fields, by name.",
    "enum": "The values that may be chosen.",
    "enumNames": "The titles that a person sees for these values.",
    "oneOf": "The choices, each with a title.",
    "anyOf": "The choices of a field for several, each with a title.",
    "const": "The value of a choice.",
    "items": "What may be chosen, several at once.",
    "default": "The value before the user changes it.",
    "format": "What kind of text it is, such as email or date.",
    "minimum": "The smallest number allowed.",
    "maximum": "The largest number allowed.",
    "minLength": "The least number of characters.",
    "maxLength": "The greatest number of characters.",
    "minItems": "The least number of choices.",
    "maxItems": "The greatest number of choices.",
    # tasks
    "task": "Make the request a task; or, the task that it has become.",
    "taskId": "Names a task.",
    "status": "The state of a task: working, input_required, completed, failed or cancelled.",
    "statusMessage": "The same, for a person.",
    "createdAt": "When the task began.",
    "lastUpdatedAt": "When the task changed last.",
    "ttl": "For how many milliseconds the task is kept.",
    "pollInterval": "How many milliseconds to wait before asking again.",
    "pollIntervalMs": "How many milliseconds to wait before asking again.",
}
# fmt: on


@cache
def members() -> dict[str, JsonObject]:
    """Return, of each member that a type of the wire names, its types and the revisions that have it."""
    found: dict[str, dict[str, Any]] = {}
    for revision in REVISIONS.values():
        for name, says in members_of(revision).items():
            if member := name.partition(".")[2]:
                row = found.setdefault(member, {"types": {}, "revisions": {}})
                row["types"][says.rpartition(", ")[0]] = row["revisions"][revision.name] = None
    return {name: {key: list(values) for key, values in row.items()} for name, row in found.items()}
