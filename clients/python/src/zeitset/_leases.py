"""Extends the leases of jobs, and finds out which leases were lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from ._call import Word, encoded
from ._job import Job
from ._link import Backoff, Link
from ._report import Outbox
from .errors import boundary, is_away


class Leases:
    def __init__(
        self,
        lease_ms: int,
        held: Callable[[], list[Job]],
        outbox: Outbox,
        link: Link,
        lose: Callable[[Job], None],
        interrupted: Callable[[Link, Exception], Awaitable[None]],
    ) -> None:
        self._lease_ms = lease_ms
        self._lease = lease_ms / 1000
        self._held = held
        self._outbox = outbox
        self._link = link
        self._lose = lose
        self._interrupted = interrupted

    async def beat(self) -> None:
        backoff = Backoff()
        wait = self._lease / 3
        while True:
            await asyncio.sleep(wait)
            wait = self._lease / 3
            by_queue: dict[str, list[Job]] = {}
            # Includes finished jobs whose outcomes are not confirmed yet, so that no other worker claims these jobs.
            for job in dict.fromkeys((*self._held(), *self._outbox.jobs)):
                if not job.lost:
                    by_queue.setdefault(job._key, []).append(job)
            if not by_queue:
                continue
            asked = monotonic()
            try:
                replies = await self._link.request([self._extend(queue, jobs) for queue, jobs in by_queue.items()])
                deadlines = [each for jobs, reply in zip(by_queue.values(), replies) for each in _deadlines(jobs, reply)]
            except Exception as error:
                if not is_away(error):
                    raise
                await self._interrupted(self._link, error)
                wait = min(wait, backoff.next())
                continue
            backoff.reset()
            for job, deadline in deadlines:
                if deadline is None:
                    self._lose(job)
                else:
                    job.deadline_ms, job._expires = deadline, asked + self._lease

    def _extend(self, queue: str, jobs: list[Job]) -> tuple[Word, ...]:
        words: list[Word] = ["ZQ.EXTEND", queue, f"{self._lease_ms}ms"]
        for job in jobs:
            words += (encoded(job.id), job.token)
        return tuple(words)


def _deadlines(jobs: list[Job], reply: Any) -> list[tuple[Job, int | None]]:
    if isinstance(reply, Exception):
        raise reply
    with boundary("ZQ.EXTEND"):
        if not isinstance(reply, list):
            raise TypeError("not an array")
        return [(job, None if each is None else int(each)) for job, each in zip(jobs, reply, strict=True)]
