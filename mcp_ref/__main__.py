"""`python -m mcp_ref`: the command line (cli)."""

from __future__ import annotations

import sys

from mcp_ref.lab.cli import main

if __name__ == "__main__":
    sys.exit(main())
