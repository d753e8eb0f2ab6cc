"""The window: `mcp-ref window -- python server.py`, a host with a page in the browser; see lab/window/window."""
