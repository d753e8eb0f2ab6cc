"""A Celery task that asks a server: each worker process has a client of its own, made after the fork.

Needs: celery, redis, redis-server

    python examples/recipes/celery_task.py
"""

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

from celery import Celery
from celery.signals import worker_process_shutdown

from mcp_ref import Client, text_of

PORT = os.environ.setdefault("RECIPE_REDIS_PORT", "6399")
app = Celery("celery_task", broker=f"redis://127.0.0.1:{PORT}", backend=f"redis://127.0.0.1:{PORT}")


@cache
def weather() -> Client:
    return Client([sys.executable, str(Path(__file__).parent.parent / "weather.py")]).connect()


@worker_process_shutdown.connect  # type: ignore[untyped-decorator]
def end(**_: object) -> None:
    weather().close()


@app.task  # type: ignore[untyped-decorator]
def forecast(city: str) -> str:
    return text_of(weather().call_tool("forecast", {"city": city}, timeout=20))


if __name__ == "__main__":
    worker = [sys.executable, "-m", "celery", "-A", "celery_task", "worker", "-c", "2", "--loglevel", "ERROR"]
    with subprocess.Popen(["redis-server", "--port", PORT, "--save", ""], stdout=subprocess.DEVNULL) as redis:
        with subprocess.Popen(worker, cwd=Path(__file__).parent, stdout=subprocess.DEVNULL) as working:
            tasks = [app.send_task("celery_task.forecast", [city]) for city in ("Lisbon", "Oslo")]
            print([task.get(timeout=40) for task in tasks])
            working.terminate()
        redis.terminate()

# Output: ['Lisbon: sun for 3 days', 'Oslo: sun for 3 days']
