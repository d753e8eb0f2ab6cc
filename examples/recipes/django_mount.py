"""A Django project with an MCP server inside: the endpoint at /mcp, everything else is Django's.

Needs: django

    python examples/recipes/django_mount.py

This is the project's wsgi.py; for many clients: gunicorn --threads 64 django_mount:application, from its folder.
"""

import threading
from typing import Any
from wsgiref.simple_server import make_server

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path, reverse

from mcp_ref import Client, Server, text_of

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["localhost", "127.0.0.1"])
server = Server("shop")
mcp = server.wsgi(hosts=settings.ALLOWED_HOSTS)
pages = get_wsgi_application()
urlpatterns = [path("shop/<int:item>", lambda request, item: HttpResponse(f"item {item}".encode()), name="item")]


@server.tool()
def link(item: int) -> str:
    """Where an item is shown."""
    # A tool may use models, too, and calls django.db.close_old_connections() first: Django does so for its own pages.
    return str(reverse("item", args=[item]))


def application(environ: dict[str, Any], start_response: Any) -> Any:
    return (mcp if environ["PATH_INFO"] == "/mcp" else pages)(environ, start_response)


if __name__ == "__main__":
    front = make_server("127.0.0.1", 0, application)
    threading.Thread(target=front.serve_forever).start()
    with Client(f"http://127.0.0.1:{front.server_port}/mcp") as client:
        print(text_of(client.call_tool("link", {"item": 7})))
    mcp.close()
    front.shutdown()

# Output: /shop/7
