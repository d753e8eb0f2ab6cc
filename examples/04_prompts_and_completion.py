"""Lesson 4: prompts and completion.

Era:       stateless
Revision:  2026-07-28
Page:      server/prompts, server/utilities/completion
Needs:     lesson 1

A *prompt* is a text that the user picks, such as a slash command; its arguments are strings. While the user types one,
the client may ask the server what it could be.

    python examples/04_prompts_and_completion.py
"""

from mcp_ref import Client, PromptMessage, Server, assistant, prompt_ref, user

server = Server("translator")
LANGUAGES = {"europe": ["Finnish", "French", "Portuguese"], "asia": ["Farsi", "Pashto"]}


# A string becomes one message of the user; a list of messages is sent as it is.
@server.prompt()
def translate(continent: str, language: str, text: str = "Good morning") -> list[PromptMessage]:
    """Ask for a translation."""
    return [user(f"Translate into {language}: {text}"), assistant(f"In {language}, as spoken in {continent}:")]


# The second parameter holds what the client knows of the other arguments (sent since 2025-06-18).
@server.completion(prompt="translate", argument="language")
def language(value: str, arguments: dict[str, str]) -> list[str]:
    known = LANGUAGES.get(arguments.get("continent", ""), sum(LANGUAGES.values(), []))
    return [name for name in known if name.lower().startswith(value.lower())]


with Client(server) as client:
    for prompt in client.list_prompts():
        print(prompt["name"], [(row["name"], row.get("required")) for row in prompt.get("arguments", ())])

    ref = prompt_ref("translate")
    print("F:", client.complete(ref, "language", "F")["completion"])
    print("F in asia:", client.complete(ref, "language", "F", arguments={"continent": "asia"})["completion"]["values"])

    for message in client.get_prompt("translate", {"continent": "europe", "language": "Finnish"})["messages"]:
        print(message["role"], message["content"])

# Output:
#
# translate [('continent', True), ('language', True), ('text', False)]
# F: {'values': ['Finnish', 'French', 'Farsi'], 'total': 3, 'hasMore': False}
# F in asia: ['Farsi']
# user {'type': 'text', 'text': 'Translate into Finnish: Good morning'}
# assistant {'type': 'text', 'text': 'In Finnish, as spoken in europe:'}
