"""The calls by which the workers of Celery, dramatiq and taskiq claim jobs. `Worker` has its own, faster code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._call import Call, Word, encoded, flag, text
from ._job import error_text
from ._time import Duration, milliseconds
from .errors import boundary


@dataclass(frozen=True)
class Claimed:
    queue: str
    id: str
    token: int
    payload: bytes
    attempt: int = 1


class Claims:

    def __init__(self, lease: Duration) -> None:
        self.lease_ms = milliseconds(lease)
        if self.lease_ms < 1000:
            raise ValueError("the lease must be 1 s or longer, for it is extended every third of it")
        self.beat = self.lease_ms / 3000
        """Seconds between two heartbeats."""

    def claim(self, queues: list[str], count: int, block_ms: int, worker: str) -> Call[list[Claimed]]:
        # A BLOCK of 0 would wait forever.
        waits: tuple[Word, ...] = ("BLOCK", f"{block_ms}ms") if block_ms > 0 else ()
        args: tuple[Word, ...] = ("ZQ.CLAIM", len(queues), *queues, "LEASE", f"{self.lease_ms}ms", "COUNT", count)
        return Call((*args, *waits, "AS", encoded(worker)[:255]), _claimed)

    def ack(self, job: Claimed) -> Call[bool]:
        """Acknowledges a job. False: this worker no longer holds the job."""
        return Call(("ZQ.ACK", job.queue, encoded(job.id), job.token), flag)

    def release(self, job: Claimed) -> Call[bool]:
        """Returns a job to the queue, so that another worker gets it at once. The attempt does not count."""
        return Call(("ZQ.NACK", job.queue, encoded(job.id), job.token, "DELAY", 0, "FREE"), flag)

    def later(self, job: Claimed, wait_ms: int, error: BaseException) -> Call[bool]:
        """Returns a job to the queue, due after a wait. The attempt counts."""
        args: tuple[Word, ...] = ("ZQ.NACK", job.queue, encoded(job.id), job.token, "DELAY", f"{wait_ms}ms")
        return Call((*args, "ERROR", error_text(error)), flag)

    def retry(self, job: Claimed) -> Call[bool]:
        """Returns a job to the queue after a failed attempt. The queue's BACKOFF applies."""
        return Call(("ZQ.NACK", job.queue, encoded(job.id), job.token), flag)

    def bury(self, job: Claimed, error: BaseException | None) -> Call[bool]:
        """Makes a job a dead letter."""
        why: tuple[Word, ...] = () if error is None else ("ERROR", error_text(error))
        return Call(("ZQ.NACK", job.queue, encoded(job.id), job.token, "DEAD", *why), flag)

    def extend(self, jobs: list[Claimed]) -> list[tuple[list[Claimed], Call[list[bool]]]]:
        """Splits the jobs by queue. Returns each part with a call that extends its leases. The reply shows for each job
        whether the worker still holds the job."""
        by_queue: dict[str, list[Claimed]] = {}
        for job in jobs:
            by_queue.setdefault(job.queue, []).append(job)
        beats: list[tuple[list[Claimed], Call[list[bool]]]] = []
        for queue, held in by_queue.items():
            words: list[Word] = ["ZQ.EXTEND", queue, f"{self.lease_ms}ms"]
            for job in held:
                words += (encoded(job.id), job.token)
            beats.append((held, Call(tuple(words), lambda reply: [deadline is not None for deadline in reply])))
        return beats


def _claimed(reply: Any) -> list[Claimed]:
    with boundary("ZQ.CLAIM"):
        return [Claimed(text(row[0]), text(row[1]), int(row[2]), row[5], int(row[3])) for row in reply or ()]
