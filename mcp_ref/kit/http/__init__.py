"""HTTP in blocking threads: a server for endpoints, and a client whose calls another thread or the clock can end.

Contract: each wait ends at its deadline, and each body, connection and queue is bounded. A client's request is written
once, and follows no redirect to another origin. An endpoint depends on nothing that serves it.

Door: `http_client.HttpClient`, `http_call.HttpCall`, `guarded_fetch.fetch` for URLs that strangers name;
`http_server.HttpServer`, `http_exchange.HttpRequest`, `HttpReply`, `HttpRefusal`, `HttpLimits`.
"""
