"""Measures Celery with one broker, and prints the figures as JSON.

usage: celery_python.py zeitset | redis  PORT  [idle]

Workers are processes of `celery_app.py`. With `idle`, it measures only the commands of ten workers without tasks.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

scheme, port = sys.argv[1], int(sys.argv[2])
os.environ["BROKER"] = f"{scheme}://127.0.0.1:{port}/0"
os.environ["NOTES"] = f"redis://127.0.0.1:{port}/1"
import celery_app  # noqa: E402

TASKS = int(os.environ.get("TASKS", "4000"))
LATE = 300
WAITING = 5_000
IDLE_WORKERS = 10
IDLE_SECONDS = 20
r: Any = redis.Redis(port=port)


@contextmanager
def working(*options: str, count: int = 1) -> Iterator[None]:
    command = [sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-l", "error", *options]
    workers = [subprocess.Popen([*command, "-n", f"w{number}@bench"], stdout=subprocess.DEVNULL) for number in range(count)]
    try:
        while len(celery_app.app.control.ping(timeout=1, limit=count) or []) < count:
            pass
        yield
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.wait()


def publish(count: int, **options: Any) -> float:
    """Publishes tasks, of which the first and the last note when they ran. Returns the tasks a second."""
    with celery_app.app.producer_or_acquire() as producer:
        celery_app.nothing.apply_async((False,), producer=producer, countdown=3600)  # declares the queue
        celery_app.app.control.purge()
        began = time.perf_counter()
        for number in range(count):
            celery_app.nothing.apply_async((number in (0, count - 1),), producer=producer, **options)
        return count / (time.perf_counter() - began)


def run(pool: str) -> float:
    celery_app.r.delete("marks")
    publish(TASKS)
    with working("-P", pool, "-c", "2"):
        while celery_app.r.llen("marks") < 2:
            time.sleep(0.05)
        first, last = sorted(map(float, celery_app.r.lrange("marks", 0, -1)))
    return (TASKS - 2) / (last - first)


def latency() -> list[float]:
    celery_app.r.delete("late")
    with working("-P", "prefork", "-c", "2"):
        for _ in range(LATE):
            celery_app.late.apply_async((time.time() + 1,), countdown=1)
            time.sleep(0.01)
        while celery_app.r.llen("late") < LATE:
            time.sleep(0.05)
    return sorted(1000 * float(each) for each in celery_app.r.lrange("late", 0, -1))


def idle() -> float:
    with working("-P", "solo", count=IDLE_WORKERS):
        time.sleep(5)
        before = r.info("stats")["total_commands_processed"]
        time.sleep(IDLE_SECONDS)
        return (r.info("stats")["total_commands_processed"] - before) / IDLE_SECONDS


def waiting() -> float:
    publish(1)
    before = r.info("memory")["used_memory"]
    publish(WAITING, countdown=3600)
    return (r.info("memory")["used_memory"] - before) / WAITING


r.flushall()
if sys.argv[3:] == ["idle"]:
    figures = {"idle": idle()}
else:
    figures = {"waiting": waiting()}
    r.flushall()
    figures["publish"] = publish(TASKS)
    for pool in ("prefork", "threads"):
        r.flushall()
        figures[pool] = run(pool)
    r.flushall()
    late = latency()
    figures |= {"p50": statistics.median(late), "p99": late[int(len(late) * 0.99)]}
print(json.dumps({"broker": scheme, **figures}))
