"""A Flask application with an MCP server inside: its pages at /, the endpoint at /mcp, on one address.

Needs: flask

    python examples/recipes/flask_mount.py

For many clients: gunicorn --threads 64 flask_mount:app, from its folder.
"""

import threading

from flask import Flask
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import make_server

from mcp_ref import Client, Server, text_of

app = Flask(__name__)
server = Server("notes")
notes: list[str] = []


@app.get("/")
def page() -> str:
    return "<br>".join(notes)


@server.tool()
def note(text: str) -> int:
    """Write a note, for everybody who looks at the page."""
    notes.append(text)
    return len(notes)


# Clients know the server by these names, and browsers by these origins; behind a proxy add the public one.
mcp = server.wsgi(hosts=["localhost", "127.0.0.1"], origins=["localhost"])
app.wsgi_app = DispatcherMiddleware(app.wsgi_app, {"/mcp": mcp})  # type: ignore[method-assign]

if __name__ == "__main__":
    front = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=front.serve_forever).start()
    with Client(f"http://127.0.0.1:{front.server_port}/mcp") as client:
        print(text_of(client.call_tool("note", {"text": "buy milk"})), app.test_client().get("/").text)
    mcp.close()
    front.shutdown()

# Output: 1 buy milk
