"""A worker's slots for jobs, and which of its sources may use them.

A slot is room for one running job. A source claims jobs of some queues (`_source`). If a worker has one source, this
source claims as many jobs as slots are free. In a cluster, several sources share the slots. A source that probably has
jobs waits for its turn, reserves free slots, and claims without BLOCK. Any other source claims with BLOCK while slots
are free. This claim may wait for long, so it reserves no slots. If the claim returns more jobs than slots are free,
the source releases the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from ._job import Job

_LONG = 0.1
"""In seconds. If a source got no slot for this long, and other sources have started jobs, the source gets a turn,
because its queues may have jobs by now."""
_SOON = 0.2
"""In seconds. A claim without BLOCK reserves slots until its reply, but at most for this time. Then other sources may
use these slots, because a node that hangs must not keep them."""


@dataclass
class Turn:
    """Permission to claim up to `count` jobs."""

    count: int
    waits: bool
    """Whether the claim may wait for jobs."""
    reserved: int = 0
    timer: asyncio.TimerHandle | None = None


@dataclass(eq=False)
class _Waiting:
    eager: bool
    since: float
    started: int
    turn: asyncio.Future[Turn]


class Slots:
    def __init__(self, size: int, held: dict[Job, None], sources: int) -> None:
        self._size = size
        self.held = held
        """The jobs whose handlers run."""
        self.started = 0
        """The number of jobs that were started so far."""
        self.parked: set[Callable[[], None]] = set()
        """The claims that wait without reserved slots: for each, a function that ends the claim."""
        self._is_shared = sources > 1
        self._reserved = 0
        self._waiting: list[_Waiting] = []
        self._late_is_next = False
        self._freed = asyncio.Event()
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        self._offering: asyncio.Handle | None = None

    @property
    def full(self) -> bool:
        return len(self.held) >= self._size

    @property
    def free(self) -> int:
        return self._size - len(self.held) - self._reserved

    async def turn(self, eager: bool) -> Turn:
        """Waits until a slot is free. Returns how many jobs the caller may claim. `eager` tells whether the caller's
        queues probably have jobs. After the claim, the caller must call `settle`."""
        waiting = _Waiting(eager, monotonic(), self.started, self._loop.create_future())
        self._waiting.append(waiting)
        self._offer()
        try:
            return await waiting.turn
        except asyncio.CancelledError:
            if waiting.turn.done() and not waiting.turn.cancelled():
                self.settle(waiting.turn.result())
            raise

    def settle(self, turn: Turn, start: Callable[[], None] = lambda: None) -> None:
        """Ends a source's turn. Calls `start`, which starts the claimed jobs. Offers free slots to other sources."""
        if turn.timer is not None:
            turn.timer.cancel()
        self._reserved -= turn.reserved
        turn.reserved = 0
        start()
        self._offer()

    def hold(self, job: Job) -> None:
        self.held[job] = None
        self.started += 1
        if self.full:
            for end in list(self.parked):
                end()

    def drop(self, job: Job) -> None:
        self.held.pop(job, None)
        self._freed.set()
        if self._offering is None:  # offers once for all jobs that end at this moment
            self._offering = self._loop.call_soon(self._offer)

    async def freed(self) -> None:
        """Waits until a job ends, or until `close`."""
        self._freed.clear()
        if not self._is_closed:
            await self._freed.wait()

    def close(self) -> None:
        self._is_closed = True
        self._freed.set()
        self._offer()

    def _offer(self) -> None:
        self._offering = None
        self._waiting = [each for each in self._waiting if not each.turn.done()]
        while self._waiting and (self._is_closed or self.free > 0):
            first = None if self._is_closed else self._first()
            if first is None:
                for waiting in self._waiting:
                    waiting.turn.set_result(Turn(0 if self._is_closed else self.free, waits=True))
                self._waiting.clear()
            else:
                self._waiting.remove(first[0])
                first[0].turn.set_result(self._reserve(first[1]))

    def _first(self) -> tuple[_Waiting, int] | None:
        """Returns the waiting source whose turn is next, and the number of jobs that it may claim."""
        if not self._is_shared:
            return self._waiting[0], self.free
        before = monotonic() - _LONG
        eager = [each for each in self._waiting if each.eager]
        late = [each for each in self._waiting if not each.eager and each.since <= before and each.started < self.started]
        if eager and late:
            self._late_is_next = not self._late_is_next
        if late and (self._late_is_next or not eager):
            return late[0], 1
        return (eager[0], -(-self.free // len(eager))) if eager else None

    def _reserve(self, count: int) -> Turn:
        turn = Turn(count, waits=not self._is_shared, reserved=count)
        self._reserved += count
        if self._is_shared:
            turn.timer = self._loop.call_later(_SOON, self.settle, turn)
        return turn
