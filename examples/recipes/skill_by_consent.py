"""A chat that loads a skill by consent: the user sees whose it is and what it asks for before the model reads it.

Needs: yaml

    python examples/recipes/skill_by_consent.py
"""

import sys
import tempfile
from pathlib import Path

from mcp_ref import Answer, Consent, Host, Question, Rule

SERVER = "import sys; from mcp_ref import Server, Skills; Server('team', extensions=[Skills(sys.argv[1])]).run()"
TEXT = "---\nname: greeting\ndescription: How we greet.\nallowed-tools: Bash\n---\nSay hello in Portuguese.\n"


asked: list[str] = []


def ask(question: Question) -> Answer:
    """Return what a user reads; this one says yes, once."""
    asked.append(f"{question.kind} {question.subject}, {', '.join(question.warnings)}")
    return Answer(allow=True)


with tempfile.TemporaryDirectory() as place:
    Path(place, "greeting").mkdir()
    Path(place, "greeting", "SKILL.md").write_text(TEXT)
    config = {"mcpServers": {"team": {"command": sys.executable, "args": ["-c", SERVER, place]}}}

    with Host(config, consent=Consent([Rule("allow", "start")], ask=ask), skills=True) as host:
        for row in host.skills():
            message = host.load_skill(row.server, row.definition["uri"])
            print(*asked, "|", message["content"]["text"].splitlines()[-1])

# Output: skill team/greeting, allowed-tools is ignored: Bash | Say hello in Portuguese.
