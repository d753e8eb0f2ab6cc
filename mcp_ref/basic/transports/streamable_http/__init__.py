"""Streamable HTTP: one endpoint, messages by POST, replies as JSON or as an event stream.

Spec:      basic/transports#streamable-http (2025-03-26 ... 2025-11-25)
Upholds:   spec_notes/basic/transports.md
Reads:     nothing: the rooms are
           http.py       a request and its reply, without a socket
           guards.py     what a request must be to come in
           endpoint.py   POST, GET and DELETE
           sessions.py   ids, time-outs, caps
           exchange.py   what one POST is answered with
           streams.py    event streams that outlive their connections
           server.py     the adapter for `http.server`
           client.py, connections.py   the client's side, on `requests`
Not here:  the event-stream format (sse.py), the transport of 2024-11-05 (http_sse)
"""
