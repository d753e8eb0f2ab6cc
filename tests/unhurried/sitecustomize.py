"""On the path of the programs whose words are compared: what they print must not depend on how busy the machine is.

A client over stdio waits for the answer to its probe as long as for any other, before it asks `initialize` as well; and
`mcp-ref` does not say that a server is slow to start.
"""

import sys

from mcp_ref.client.client import Client

Client.__init__.__kwdefaults__ |= {"probe_timeout": 60, "connect_timeout": 60}

if "mcp_ref" in sys.orig_argv:
    from mcp_ref.lab.cli import commands

    commands._SLOW = 60.0  # type: ignore[misc]
