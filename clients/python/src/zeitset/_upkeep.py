"""The upkeep of a worker: checks whether its queues have a BACKOFF, and pushes missing recurring jobs. The upkeep runs
when the worker connects, and every minute."""

from __future__ import annotations

from time import time
from typing import Any, Protocol

from ._call import Word, mapping
from ._codec import Codec
from ._cron import Cron
from ._job import Job
from ._link import Link
from .errors import boundary


class Clock(Protocol):
    """The part of `zeitset.testing.Clock` that a worker uses."""

    ahead_ms: int


class Upkeep:
    def __init__(self, queues: list[str], crons: dict[tuple[str, str], Cron], codec: Codec, clock: Clock | None) -> None:
        self._queues = queues
        self._crons = crons
        self._codec = codec
        self._clock = clock
        self._backoffs: set[str] = set()
        self._clock_offset_ms = 0

    def has_backoff(self, queue: str) -> bool:
        return queue in self._backoffs

    def cron(self, job: Job) -> Cron | None:
        return self._crons.get((job._key, job.id)) if self._crons else None

    def next_run(self, job: Job, cron: Cron, lease_ms: int) -> tuple[Word, ...]:
        # By the server's clock, the next run must be later than the claim, or the last heartbeat. Otherwise the same run
        # would start again.
        now_ms = max(int(time() * 1000) + self._clock_offset_ms, job.deadline_ms - lease_ms)
        return self._push(job._key, cron, now_ms)

    async def refresh(self, link: Link) -> None:
        stats = await _all(link, [("ZQ.STATS", queue) for queue in self._queues])
        with boundary("ZQ.STATS"):
            self._backoffs = {
                queue
                for queue, reply in zip(self._queues, stats)
                if int(mapping(reply or ()).get("backoff_base_ms") or 0) > 0
            }
        if self._crons:
            (now,) = await _all(link, [("TIME",)])
            with boundary("TIME"):
                now_ms = int(now[0]) * 1000 + int(now[1]) // 1000
            await self._push_all(link, now_ms)

    async def _push_all(self, link: Link, now_ms: int) -> None:
        self._clock_offset_ms = now_ms - int(time() * 1000)
        crons = self._crons.items()
        await _all(link, [self._push(queue, cron, now_ms) for (queue, _), cron in crons])
        jobs = await _all(link, [("ZQ.GET", queue, name) for queue, name in self._crons])
        moves: list[tuple[Word, ...]] = []
        for ((queue, name), cron), reply in zip(crons, jobs):
            # Does not move a job that is due now, or that waits for another attempt after a failure.
            due = self._next_ms(cron, now_ms)
            with boundary("ZQ.GET"):
                job = mapping(reply or ())
                is_waiting = bool(job) and job["state"] == b"delayed" and job["attempts"] == 0
                if is_waiting and job["due_ms"] != due:
                    moves.append(("ZQ.RESCHEDULE", queue, name, "AT", f"{due}ms"))
        if moves:
            await _all(link, moves)

    def _push(self, queue: str, cron: Cron, now_ms: int) -> tuple[Word, ...]:
        return cron.push(queue, self._codec.dumps(cron.payload), self._next_ms(cron, now_ms))

    def _next_ms(self, cron: Cron, now_ms: int) -> int:
        """Returns when a recurring job is due next, as Unix ms of the server's clock."""
        ahead_ms = 0 if self._clock is None else self._clock.ahead_ms
        return cron.next_ms(now_ms + ahead_ms) - ahead_ms


async def _all(link: Link, commands: list[tuple[Word, ...]]) -> list[Any]:
    replies = await link.request(commands)
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
