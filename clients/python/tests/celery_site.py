"""Brokers, and workers of Celery as processes, for the tests of `zeitset.celery`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from celery import Celery

import zeitset.celery  # noqa: F401

from .support import until


class Worker:
    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        self.process = process
        self.log = log

    def ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-3000:]
        return " ready." in self.log.read_text()

    def tell(self, *signals: signal.Signals) -> None:
        for each in signals:
            self.process.send_signal(each)

    def stop(self, *signals: signal.Signals) -> None:
        self.tell(*(signals or (signal.SIGTERM,)))
        self.process.wait(60)

    def kill(self) -> None:
        """Kills the worker and its pool."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Site:
    """A broker, its results and the notes of its tasks in one database, and the application that sends tasks."""

    def __init__(self, folder: Path, broker: str, results: str, client: Any, **options: Any) -> None:
        self.scheme = broker.partition(":")[0]
        self.r = client
        self.options = {"worker_prefetch_multiplier": 1, **options}
        self._folder = folder
        self._environment = {"CELERY_BROKER": broker, "CELERY_RESULTS": results, "CELERY_OPTIONS": json.dumps(self.options)}
        self.app: Any = Celery(broker=broker, backend=results, set_as_current=False)
        self.app.conf.update(self.options)

    def send(self, task: str, *args: Any, **options: Any) -> Any:
        return self.app.send_task(f"tests.celery_tasks.{task}", args, **options)

    @property
    def runs(self) -> Counter[str]:
        return Counter(each.decode() for each in self.r.lrange("runs", 0, -1))

    @property
    def ends(self) -> Counter[str]:
        return Counter(each.decode() for each in self.r.lrange("ends", 0, -1))

    def program(self, name: str, *arguments: str, **environment: str) -> Worker:
        """Starts a program of Celery, such as a worker."""
        log = self._folder / f"{self.scheme}-{name}-{os.urandom(4).hex()}.log"
        with open(log, "wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "tests.celery_tasks", name, *arguments],
                stdout=file,
                stderr=file,
                cwd=Path(__file__).parents[1],
                env=os.environ | self._environment | environment,
                start_new_session=True,
            )
        return Worker(process, log)

    @contextmanager
    def working(self, pool: str = "prefork", concurrency: int = 1, count: int = 1, *more: str) -> Iterator[list[Worker]]:
        """Runs workers, and kills those that still run at the end."""
        workers: list[Worker] = []
        try:
            for number in range(count):
                arguments = ["-P", pool, "-c", str(concurrency), "-n", f"{self.scheme}{number}@%h", *more]
                workers.append(self.program("worker", "-l", "info", *arguments))
            until(lambda: all(worker.ready() for worker in workers), 60)
            yield workers
        finally:
            for worker in workers:
                worker.kill()

    def close(self) -> None:
        self.app.close()
        self.r.close()
