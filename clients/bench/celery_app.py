"""The application of `celery_python.py`."""

from __future__ import annotations

import os
import time

import redis
from celery import Celery

import zeitset.celery  # noqa: F401

app = Celery("bench", broker=os.environ["BROKER"])
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)
r = redis.Redis.from_url(os.environ["NOTES"])


@app.task
def nothing(mark: bool) -> None:
    if mark:
        r.rpush("marks", time.time())


@app.task
def late(due: float) -> None:
    r.rpush("late", time.time() - due)
