"""The application of the tests of `zeitset.celery`. Workers of it are processes: `celery -A tests.celery_tasks worker`.
The environment names the servers, and options as JSON."""

from __future__ import annotations

import json
import os
import time
from typing import Any

import redis
from celery import Celery
from kombu import Queue

import zeitset.celery  # noqa: F401

r: Any = redis.Redis.from_url(os.environ.get("CELERY_RESULTS", "redis://localhost"))
app: Any = Celery("tests", broker=os.environ.get("CELERY_BROKER"), backend=os.environ.get("CELERY_RESULTS"))
app.conf.update(
    broker_connection_retry_on_startup=True,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    task_queues=[Queue("celery"), Queue("other")],
    **json.loads(os.environ.get("CELERY_OPTIONS", "{}")),
)


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def note(name: str) -> None:
    """Records that it ran."""
    r.rpush("runs", name)


@app.task
def hold(name: str, seconds: float) -> None:
    """Records that it began, and how it ended."""
    r.rpush("runs", name)
    end = time.monotonic() + seconds
    while time.monotonic() < end and not r.exists("go:" + name):
        time.sleep(0.02)
    r.rpush("ends", name)


@app.task(bind=True, max_retries=2)
def retry(self: Any, name: str) -> int:
    r.rpush("runs", name)
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return int(self.request.retries)


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def die(self: Any, name: str) -> bool:
    """Kills its process at the first attempt. Returns whether the message is marked as redelivered."""
    r.rpush("runs", name)
    if r.llen("runs") == 1:
        os.kill(os.getpid(), 9)
    return bool(self.request.delivery_info["redelivered"])


@app.task(acks_late=True, acks_on_failure_or_timeout=False)
def fail(name: str) -> None:
    r.rpush("runs", name)
    raise ValueError(name)


@app.task(acks_late=True, acks_on_failure_or_timeout=False)
def stall(name: str) -> None:
    """Takes a minute at the first attempt."""
    r.rpush("runs", name)
    if r.llen("runs") == 1:
        time.sleep(60)
