"""Lesson 32: skills, an extension: a folder of instructions that a server hands out, and a client verifies.

Era:       stateless
Revision:  2026-07-28
Page:      extensions/skills
Needs:     lessons 3, 13 and 25; pip install 'mcp-ref[skills]'

A skill is a folder with a `SKILL.md`, whose frontmatter says its name and what it is for. `skills/list` gives an entry
for each: the frontmatter, and every file with its size and its digest. The files are resources. What is read is
compared with the entry, so a user who has agreed to a skill gets that one, or none. A digest proves no more than that:
entry and file come from the same server.

    python examples/32_skills.py
"""

import tempfile
from pathlib import Path

from mcp_ref import SKILLS, Client, Server, SkillMismatch, Skills

SKILL = """---
name: git-workflow
description: How this team names its branches.
---
Name a branch as references/NAMES.md says.
"""

with tempfile.TemporaryDirectory() as place:
    folder = Path(place, "git-workflow", "references")
    folder.mkdir(parents=True)
    (folder.parent / "SKILL.md").write_text(SKILL)
    (folder / "NAMES.md").write_text("feature/what-it-does\n")

    skills = Skills(place)  # read once: no request touches the folder
    server = Server("team", extensions=[skills])

    with Client(server, extensions=[SKILLS]) as client:
        [skill] = client.list_skills()
        print(skill["uri"], skill["frontmatter"]["description"])
        for each in skill["resources"]:
            print("  ", each["uri"], each["size"], each["digest"][:14])
        print(client.read_skill(skill, "references/NAMES.md").decode().strip())

        # Somebody changes a byte, and the server reads its folder again: the entry that we hold is no longer true.
        (folder / "NAMES.md").write_text("feature/what-it-doez\n")
        skills.reload()
        try:
            client.read_skill(skill, "references/NAMES.md")
        except SkillMismatch as mismatch:
            print(mismatch.reason, mismatch)

        # A path out of the skill is refused before anything is sent.
        try:
            client.read_skill(skill, "../../etc/passwd")
        except SkillMismatch as mismatch:
            print(mismatch.reason)

        # To go on, ask for the entry again; a host also asks its user again.
        again = client.get_skill(skill["uri"])
        print(client.read_skill(again, "references/NAMES.md").decode().strip())

# Output:
#
# skill://git-workflow/SKILL.md How this team names its branches.
#    skill://git-workflow/SKILL.md 117 sha256:ef45399
#    skill://git-workflow/references/NAMES.md 21 sha256:b4bd2bb
# feature/what-it-does
# digest skill://git-workflow/references/NAMES.md: its digest is not that of its entry
# unlisted
# feature/what-it-doez
