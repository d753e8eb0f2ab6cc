"""On the path of the programs whose words are compared: what they print must not depend on how busy the machine is.

A client over stdio waits for the answer to its probe as long as for any other, before it asks `initialize` as well.
"""

from mcp_ref.client.client import Client

Client.__init__.__kwdefaults__ |= {"probe_timeout": 60, "connect_timeout": 60}
