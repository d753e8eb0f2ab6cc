"""A Flask application that asks a server: one client for all requests, whatever thread serves them.

Needs: flask

    python examples/recipes/flask_app.py
"""

import atexit
import sys
from functools import cache
from pathlib import Path

from flask import Flask, Response, jsonify

from mcp_ref import Client, McpError, text_of

app = Flask(__name__)
WEATHER = Path(__file__).parent.parent / "weather.py"


@cache
def weather() -> Client:
    """Connected by the first request, and not at import, so that each process of a server has its own."""
    client = Client([sys.executable, str(WEATHER)]).connect()
    atexit.register(client.close)
    return client


@app.get("/forecast/<city>")
def forecast(city: str) -> tuple[Response, int]:
    try:
        result = weather().call_tool("forecast", {"city": city}, timeout=10)
    except McpError as problem:
        return jsonify(error=str(problem)), 502
    return jsonify(forecast=text_of(result)), 422 if result.get("isError") else 200


if __name__ == "__main__":
    with app.test_client() as browser:
        print(browser.get("/forecast/Lisbon").json)

# Output: {'forecast': 'Lisbon: sun for 3 days'}
