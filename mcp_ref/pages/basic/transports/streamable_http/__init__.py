"""Streamable HTTP: one endpoint, messages by POST, replies as JSON or as an event stream.

Spec:      basic/transports#streamable-http (2025-03-26 ... 2025-11-25)
Upholds:   spec_notes/basic/transports.md
Not here:  the event-stream format (sse.py), the transport of 2024-11-05 (http_sse)
"""
