"""Our server of the skills below a folder, over stdio: `our_skills.py FOLDER`."""

from __future__ import annotations

import sys

from mcp_ref import Server, Skills

Server("ours", extensions=[Skills(sys.argv[1])]).run()
