"""A source of a worker: some of the worker's queues, and connections to the server of these queues.

Outside a cluster, a worker has one source. In a cluster, it has a source for each slot of its queues. Each source
claims jobs, reports their outcomes and extends their leases by itself. So the failure of one node does not stop the
sources of other nodes.

`_claim` sends outcomes of jobs together with the next claim. `_flush` sends outcomes while a claim waits.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from itertools import count
from time import monotonic
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from ._call import Word, encoded, text
from ._endings import Endings
from ._job import Job
from ._leases import Leases
from ._link import Backoff, Link, Place
from ._order import Order
from ._report import commands_of
from ._slots import Turn
from ._upkeep import Upkeep
from .errors import boundary, is_away, is_refused

if TYPE_CHECKING:
    from ._worker import Worker

_PATIENCE = 5.0  # seconds for the reply to a command that does not wait
_MINUTE = 60.0


class Source:
    def __init__(self, worker: Worker, place: Place, queues: list[list[str]], upkeep: Upkeep, endings: Endings) -> None:
        self._worker = worker
        self._slots = worker._slots
        names = [worker._queue_of[keys[0]] for keys in queues]
        self._keys_of = dict(zip(names, queues))
        self._order = Order(names, worker._weights)
        self._turns = count()
        self.upkeep = upkeep
        self.endings = endings
        self._outbox = endings.outbox
        self._claims = Link(place, _PATIENCE)
        self._control = Link(place, min(_PATIENCE, worker._lease / 3))
        self._leases = Leases(worker._lease_ms, self._mine, self._outbox, self._control, worker._lose, self._interrupted)
        self.connected = False
        self._eager = True
        self._replied = asyncio.Event()
        """Is set while no claim waits."""
        self._replied.set()
        self._ending: asyncio.Task[None] | None = None
        self._dry = -1
        """Set by each claim that finds no job while the worker holds none: the value of `Slots.started` at that claim.
        -1: there was no such claim yet."""

    def start(self) -> None:
        guarded = self._worker._guarded
        self._claiming = asyncio.create_task(guarded(self._claim()))
        loops = (self._flush, self._leases.beat, self._look_after)
        self.tasks = [self._claiming, *(asyncio.create_task(guarded(loop())) for loop in loops)]

    def _mine(self) -> list[Job]:
        return [job for job in self._slots.held if job._source is self]

    # Claims

    async def _claim(self) -> None:
        backoff = Backoff()
        worker, slots = self._worker, self._slots
        while not worker._stop.is_set():
            try:
                if await self._claims.open():
                    await self._connected()
                turn = await slots.turn(self._eager or worker._burst)
                started, was_idle = slots.started, not slots.held
                claimed = await self._claim_once(turn)
            except Exception as error:
                if not is_away(error):
                    raise
                self._eager = True
                await self._interrupted(self._claims, error)
                if worker._stop.is_set():
                    return
                await worker._pause(backoff.next())
                continue
            backoff.reset()
            if claimed:
                # Lets short handlers end, so that their ACKs are sent with the next claim.
                await asyncio.sleep(0)
            elif worker._burst and not self._outbox:
                if was_idle:
                    self._dry = started
                    worker._end_burst()
                if slots.held or self.is_dry:
                    await slots.freed()

    @property
    def is_dry(self) -> bool:
        return self._dry == self._slots.started

    async def _claim_once(self, turn: Turn) -> int:
        jobs: list[Job] = []
        problem: Exception | None = None
        asked = monotonic()
        try:
            if turn.count:
                jobs, problem = await self._ask(turn)
        finally:
            self._eager = len(jobs) >= turn.count
            self._slots.settle(turn, lambda: self._start(jobs, asked))
        if problem is not None:
            raise problem
        return len(jobs)

    async def _ask(self, turn: Turn) -> tuple[list[Job], Exception | None]:
        """Sends outcomes and a claim. Returns the claimed jobs, and an error if the server did not accept an outcome:
        the server may refuse an outcome, and still carry out the claim."""
        worker = self._worker
        problem: Exception | None = None

        def settle(replies: list[Any]) -> None:
            nonlocal problem
            problem = self._outbox.settle(outcomes, replies)
            if problem is not None and not is_away(problem):
                worker._fail(problem)  # this ends the claim
                problem = None

        outcomes = self._outbox.take()
        block_ms = worker._block_ms if turn.waits and not worker._burst else 0
        waits: tuple[Word, ...] = ("BLOCK", f"{block_ms}ms") if block_ms else ()
        order = self._order.next()
        keys = self._keys(order)
        lease: tuple[Word, ...] = ("LEASE", f"{worker._lease_ms}ms", "COUNT", turn.count)
        claim: tuple[Word, ...] = ("ZQ.CLAIM", len(keys), *keys, *lease, *waits, "AS", encoded(worker.name)[:255])
        if block_ms:
            self._replied.clear()
            if not turn.reserved:
                self._park()
        try:
            *_, claimed = await self._claims.request(
                [*commands_of(outcomes), claim],
                block_ms / 1000 + _PATIENCE,
                settle,
            )
        except BaseException:
            self._outbox.put_back(outcomes)
            raise
        finally:
            self._slots.parked.discard(self._end_claim)
            self._replied.set()
        if isinstance(claimed, Exception):
            raise claimed
        with boundary("ZQ.CLAIM"):
            jobs = [
                Job(worker._queue_of[text(key)], text(id), int(token), int(attempt), int(deadline), raw, text(key))
                for key, id, token, attempt, deadline, raw in claimed
            ]
        self._order.claimed(order, (job.queue for job in jobs), len(jobs) >= turn.count)
        return jobs, problem

    def _start(self, jobs: list[Job], asked: float) -> None:
        for job in jobs:
            job._source = self
            if self._slots.free > 0:
                self._worker._start(job, asked)
            else:  # other sources have used the slots
                self.endings.release(job)
                self._eager = True

    def _keys(self, order: list[str]) -> list[str]:
        """Returns the keys for the next claim. The shards of a queue take turns to be the first."""
        turn = next(self._turns)
        parts = [self._keys_of[queue] for queue in order]
        return [key for keys in parts for key in (*keys[turn % len(keys) :], *keys[: turn % len(keys)])]

    def _park(self) -> None:
        self._slots.parked.add(self._end_claim)
        if self._slots.full:
            self._end_claim()

    def _end_claim(self) -> None:
        if self._ending is None or self._ending.done():
            self._ending = asyncio.create_task(self._unblock_while_full())

    async def _unblock_while_full(self) -> None:
        """Ends the waiting claim. Repeats CLIENT UNBLOCK, because the claim may reach the server after the first CLIENT
        UNBLOCK."""
        while self._slots.full and not self._replied.is_set():
            await self._unblock()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._replied.wait(), 0.1)

    async def _unblock(self) -> None:
        """Ends a waiting claim by CLIENT UNBLOCK. If the connection were closed instead, claimed jobs might be lost
        with the reply."""
        if (client_id := self._claims.client_id) is not None:
            try:
                await self._control.request([("CLIENT", "UNBLOCK", client_id)])
            except Exception:
                await self._control.close()

    # Reports

    async def _flush(self) -> None:
        backoff = Backoff()
        while True:
            await self._outbox.reported.wait()
            self._outbox.reported.clear()
            await asyncio.sleep(0.001)  # the next claim may send the outcomes
            try:
                await self._outbox.deliver(self._control)
            except Exception as error:
                if not is_away(error):
                    raise
                await self._interrupted(self._control, error)
                self._outbox.reported.set()
                await asyncio.sleep(backoff.next())
            else:
                backoff.reset()

    # Progress

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        assert self._worker._loop is not None, "a job runs in a worker"
        return self._worker._loop

    async def ask(self, command: tuple[Word, ...]) -> Any:
        """Sends a command of a handler."""
        (reply,) = await self._control.request([command])
        if isinstance(reply, Exception):
            raise reply
        return reply

    # Upkeep

    async def _connected(self) -> None:
        try:
            await self.upkeep.refresh(self._claims)
        except ResponseError as error:
            if not is_refused(error):
                raise
            self._worker._interrupted(error)
        self.connected = True
        self._worker._on_connected()

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(_MINUTE)
            try:
                await self.upkeep.refresh(self._control)
            except Exception as error:
                if not is_away(error):
                    raise
                await self._interrupted(self._control, error)

    async def _interrupted(self, link: Link, error: Exception) -> None:
        """Handles a temporary error."""
        if not is_refused(error):
            await link.close()
            self.connected = self.connected and link is not self._claims
        self._worker._interrupted(error)

    # The end

    async def end_claims(self, end: float) -> None:
        """Unblocks the waiting claim. Cancels the claim if it has not ended at `end`."""
        while not self._claiming.done() and monotonic() < end:
            if not self._replied.is_set():
                await self._unblock()
            await asyncio.wait((self._claiming,), timeout=0.1)
        self._claiming.cancel()
        await asyncio.wait((self._claiming,))

    async def deliver(self) -> None:
        """Tries for at most `_PATIENCE` seconds to send all outcomes."""
        deadline = monotonic() + _PATIENCE
        while self._outbox and monotonic() < deadline:
            try:
                await self._outbox.deliver(self._control)
            except Exception as error:
                if not is_away(error):
                    raise
                await self._control.close()
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        if self._ending is not None:
            self._ending.cancel()
        await self._claims.close()
        await self._control.close()
