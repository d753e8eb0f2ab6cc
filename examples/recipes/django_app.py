"""A Django view that asks a server: one client for each process, shared by its threads.

Needs: django

    python examples/recipes/django_app.py
"""

import atexit
import sys
from functools import cache
from pathlib import Path

import django
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.test import RequestFactory
from django.urls import path, resolve

from mcp_ref import Client, text_of

WEATHER = Path(__file__).parent.parent / "weather.py"
settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["testserver"])


@cache
def weather() -> Client:
    client = Client([sys.executable, str(WEATHER)]).connect()
    atexit.register(client.close)
    return client


def forecast(request: HttpRequest, city: str) -> JsonResponse:
    return JsonResponse({"forecast": text_of(weather().call_tool("forecast", {"city": city}, timeout=10))})


urlpatterns = [path("forecast/<city>", forecast)]

if __name__ == "__main__":
    django.setup()
    found = resolve("/forecast/Lisbon")
    print(found.func(RequestFactory().get("/forecast/Lisbon"), **found.kwargs).content.decode())

# Output: {"forecast": "Lisbon: sun for 3 days"}
