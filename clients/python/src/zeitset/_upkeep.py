"""The upkeep of a worker: checks whether its queues have a BACKOFF, and pushes missing recurring jobs. The upkeep runs
when the worker connects, and every minute.

If the definition of a recurring job has changed, the upkeep also replaces the run that waits, in whatever queue or shard
of the worker. A run that a worker has claimed meanwhile must not be replaced, or it would run twice. So the upkeep first
puts off the run by an hour. The server refuses this for a claimed job."""

from __future__ import annotations

from collections.abc import Iterable
from time import time
from typing import Any, Protocol

from ._call import Word, mapping
from ._codec import Codec
from ._cron import Cron, is_run
from ._job import Job
from ._link import Link
from .errors import boundary


_HOUR_MS = 3_600_000


class Clock(Protocol):
    """The part of `zeitset.testing.Clock` that a worker uses."""

    ahead_ms: int


class Upkeep:
    def __init__(self, queues: list[str], crons: dict[tuple[str, str], Cron], codec: Codec, clock: Clock | None) -> None:
        """`queues`: the keys of this connection. `crons`: all recurring jobs of the worker, by key and name."""
        self._queues = queues
        self._crons = {place: cron for place, cron in crons.items() if place[0] in queues}
        names = {name for _, name in crons}
        self._strays = [(queue, name) for queue in queues for name in names if (queue, name) not in crons]
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
        if self._crons or self._strays:
            (now,) = await _all(link, [("TIME",)])
            with boundary("TIME"):
                now_ms = int(now[0]) * 1000 + int(now[1]) // 1000
            self._clock_offset_ms = now_ms - int(time() * 1000)
            is_left = await self._remove_strays(link, now_ms)
            # A run of the old place that is due now stays there. The new place gets the run after it.
            await self._push_all(link, now_ms + 1000 if is_left else now_ms)

    async def _remove_strays(self, link: Link, now_ms: int) -> bool:
        """Removes the runs that wait in keys in which an earlier version of the program has pushed the recurring jobs.
        Returns whether such a key still has a job of the same name."""
        found = await self._look(link, self._strays)
        waiting = [place for place, job in found.items() if is_run(job, now_ms, self._ahead_ms)]
        taken = await self._put_off(link, waiting, now_ms)
        await _all(link, [("ZQ.CANCEL", queue, name) for queue, name in taken])
        return len(taken) < len(found)

    async def _push_all(self, link: Link, now_ms: int) -> None:
        await _all(link, [self._push(queue, cron, now_ms) for (queue, _), cron in self._crons.items()])
        moves: list[tuple[Word, ...]] = []
        outdated: list[tuple[str, str]] = []
        for place, job in (await self._look(link, self._crons)).items():
            # Does not change a job that is due now, or that waits for another attempt after a failure.
            if is_run(job, now_ms, self._ahead_ms):
                cron, due = self._crons[place], self._next_ms(self._crons[place], now_ms)
                if not cron.is_as_pushed(job, self._codec.dumps(cron.payload)):
                    outdated.append(place)
                elif job["due_ms"] != due:
                    moves.append(("ZQ.RESCHEDULE", *place, "AT", f"{due}ms"))
        await _all(link, moves)
        taken = await self._put_off(link, outdated, now_ms)
        await _all(link, [(*self._push(place[0], self._crons[place], now_ms), "REPLACE") for place in taken])

    async def _look(self, link: Link, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, Any]]:
        """Returns the jobs of these keys and names that exist."""
        places = list(places)
        replies = await _all(link, [("ZQ.GET", *place) for place in places])
        with boundary("ZQ.GET"):
            return {place: mapping(reply) for place, reply in zip(places, replies) if reply is not None}

    async def _put_off(self, link: Link, places: list[tuple[str, str]], now_ms: int) -> list[tuple[str, str]]:
        """Postpones runs so far that no worker claims them. Returns those that were still waiting."""
        at = f"{now_ms + _HOUR_MS}ms"
        replies = await _all(link, [("ZQ.RESCHEDULE", *place, "AT", at) for place in places])
        return [place for place, reply in zip(places, replies) if reply == 1]

    def _push(self, queue: str, cron: Cron, now_ms: int) -> tuple[Word, ...]:
        return cron.push(queue, self._codec.dumps(cron.payload), self._next_ms(cron, now_ms))

    @property
    def _ahead_ms(self) -> int:
        return 0 if self._clock is None else self._clock.ahead_ms

    def _next_ms(self, cron: Cron, now_ms: int) -> int:
        """Returns when a recurring job is due next, as Unix ms of the server's clock."""
        return cron.next_ms(now_ms + self._ahead_ms) - self._ahead_ms


async def _all(link: Link, commands: list[tuple[Word, ...]]) -> list[Any]:
    replies = await link.request(commands) if commands else []
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies
