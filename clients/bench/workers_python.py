"""Pushes jobs, runs them with ten at once, and prints how long that took.

usage: workers_python.py zeitset-tasks | zeitset-threads | arq | rq  nothing | wait  PORT [JOBS]

The time is from the start of the first job to the end of the last one. The start of the program is not included.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import time
from importlib.metadata import version
from typing import Any

import redis

CONCURRENCY = 10
WAIT = 0.01
# Enough jobs for some seconds.
JOBS = {"zeitset-tasks": 20_000, "zeitset-threads": 20_000, "arq": 500, "rq": 300}
JOBS_THAT_WAIT = {"zeitset-tasks": 2_000, "zeitset-threads": 2_000, "arq": 100, "rq": 200}


def zeitset(kind: str, job: str, port: int, count: int) -> float:
    from zeitset import Job, Queue, Worker

    r = redis.Redis(port=port)
    queue = Queue(r, "bench")
    with r.pipeline(transaction=False) as pipe:
        for number in range(count):
            pipe.execute_command(*queue.calls.push({"number": number}).args)
        pipe.execute()
    times: list[float] = []

    def begin() -> None:
        if not times:
            times.append(time.monotonic())

    def end(event: Any) -> None:
        if event.kind == "completed":
            times.append(time.monotonic())
            if len(times) == count + 1:
                worker.stop()

    async def task(_: Job) -> None:
        begin()
        if job == "wait":
            await asyncio.sleep(WAIT)

    def thread(_: Job) -> None:
        begin()
        if job == "wait":
            time.sleep(WAIT)

    worker = Worker(r, "bench", task if kind == "tasks" else thread, concurrency=CONCURRENCY, on_event=end)
    worker.run()
    assert queue.stats()["acked"] == count
    return times[-1] - times[0]


def arq(job: str, port: int, count: int) -> float:
    from arq import create_pool
    from arq.connections import RedisSettings
    from arq.worker import Worker, func

    settings = RedisSettings(port=port)
    times: list[float] = []

    async def handler(_: Any, number: int) -> None:
        times.append(time.monotonic())
        if job == "wait":
            await asyncio.sleep(WAIT)

    async def after(_: Any) -> None:
        times.append(time.monotonic())

    async def main() -> None:
        pool = await create_pool(settings)
        for number in range(count):
            await pool.enqueue_job("handler", number)
        worker = Worker(
            [func(handler, name="handler")],
            redis_settings=settings,
            max_jobs=CONCURRENCY,
            burst=True,
            handle_signals=False,
            after_job_end=after,
        )
        await worker.main()
        assert worker.jobs_complete == count
        await pool.aclose()

    asyncio.run(main())
    return times[-1] - times[0]


def rq_job(job: str) -> None:
    if job == "wait":
        time.sleep(WAIT)


def rq(job: str, port: int, count: int) -> float:
    """A pool of ten processes, each of which forks for a job, as `rq worker-pool -n 10` does."""
    from rq import Queue
    from rq.worker_pool import WorkerPool

    r = redis.Redis(port=port)
    queue = Queue("bench", connection=r)
    ids = [queue.enqueue("workers_python.rq_job", job).id for _ in range(count)]
    WorkerPool([queue], connection=r, num_workers=CONCURRENCY).start(burst=True, logging_level="ERROR")
    jobs = [queue.fetch_job(id) for id in ids]
    assert all(each is not None and each.is_finished for each in jobs)
    started = min(each.started_at for each in jobs if each and each.started_at)
    ended = max(each.ended_at for each in jobs if each and each.ended_at)
    return (ended - started).total_seconds()


def main() -> None:
    program, job, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    logging.disable(logging.INFO)
    count = int(sys.argv[4]) if len(sys.argv) > 4 else (JOBS if job == "nothing" else JOBS_THAT_WAIT)[program]
    redis.Redis(port=port).flushall()
    name, _, kind = program.partition("-")
    if name == "zeitset":
        seconds = zeitset(kind, job, port, count)
    else:
        seconds = (arq if name == "arq" else rq)(job, port, count)
    what = {"tasks": ", tasks", "threads": ", threads"}.get(kind, "")
    library = f"{name} {version(name)}{what}"
    print(json.dumps({"library": library, "job": job, "jobs": count, "seconds": seconds}))


if __name__ == "__main__":
    main()
