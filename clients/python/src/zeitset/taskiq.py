"""A broker for taskiq: `broker = ZeitsetBroker("redis://localhost:6379")`.

The label `delay` (seconds) makes a task due later. Tasks with a lower label `priority` run first. taskiq's middlewares
do the retries.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncGenerator
from functools import partial
from typing import Any

import redis.asyncio as aredis
from taskiq import AckableMessage, AsyncBroker, BrokerMessage

from ._call import Call
from ._claims import Claimed, Claims
from ._link import Backoff, Link, Place
from ._run import T
from ._time import Duration, now
from .asyncio import Queue
from .errors import boundary, is_away

log = logging.getLogger("zeitset")
_BLOCK_MS = 2000
_PATIENCE = 5.0
_UNKNOWN_ATTEMPTS = 8
"""How often a task that the worker does not know is claimed before it becomes a dead letter: after two minutes."""


class ZeitsetBroker(AsyncBroker):
    """`client`: a client of `redis.asyncio`, instead of `url`. `options`: parameters of `redis.asyncio.Redis`.
    `queue_name` is the Redis key.

    `lease`: if a worker crashes, its tasks are due again after this time. A worker extends the leases of its tasks
    until taskiq acknowledges them.
    """

    def __init__(
        self,
        url: str = "redis://localhost:6379",
        queue_name: str = "taskiq",
        *,
        client: Any = None,
        lease: Duration = 30,
        **options: Any,
    ) -> None:
        super().__init__()
        self.client: Any = aredis.Redis.from_url(url, **options) if client is None else client
        self._owns_client = client is None
        self.queue_name = queue_name
        self.queue = Queue(self.client, queue_name, codec="bytes")
        self._claims = Claims(lease)
        # The broker has its own connections, as `Worker` has. The client would repeat a claim whose reply got lost, and
        # the jobs of the first claim would wait until their leases expire.
        place = Place(self.client, queue_name)
        self._claiming, self._reporting = Link(place, _PATIENCE), Link(place, _PATIENCE)
        self._held: dict[Claimed, None] = {}
        self._beating: asyncio.Task[None] | None = None

    async def kick(self, message: BrokerMessage) -> None:
        delay = message.labels.get("delay")
        priority = int(message.labels.get("priority", 0))
        await self.queue.push(message.message, delay=None if delay is None else float(delay), priority=priority)

    async def listen(self) -> AsyncGenerator[AckableMessage, None]:
        if self._beating is None or self._beating.done():
            self._beating = asyncio.create_task(self._beat())
        claim = self._claims.claim([self.queue_name], 1, _BLOCK_MS, f"{socket.gethostname()}:{os.getpid()}")
        backoff = Backoff()
        while True:
            try:
                jobs = await _ask(self._claiming, claim, _BLOCK_MS / 1000 + _PATIENCE)
                backoff.reset()
            except Exception as error:
                if not is_away(error):
                    raise
                log.warning("taskiq: Redis is away: %r", error)
                await asyncio.sleep(backoff.next())
                continue
            for job in jobs:
                self._held[job] = None
                if (refused := self._refuse(job)) is None:
                    yield AckableMessage(data=job.payload, ack=partial(self._ack, job))
                else:
                    await self._tell(job, refused)

    def _refuse(self, job: Claimed) -> Call[bool] | None:
        """Returns the report of a task that this worker cannot run. taskiq would drop such a task, or never end it. The
        worker of a newer version may know the task, so it is due again a few times before it becomes a dead letter."""
        try:
            name = self.formatter.loads(message=job.payload).task_name
        except Exception as error:
            return self._claims.bury(job, error)
        if self.find_task(name) is not None:
            return None
        unknown = LookupError(f"this worker has no task {name!r}")
        log.warning("taskiq: %s", unknown)
        if job.attempt >= _UNKNOWN_ATTEMPTS:
            return self._claims.bury(job, unknown)
        return self._claims.later(job, 1000 * 2 ** (job.attempt - 1), unknown)

    async def shutdown(self) -> None:
        """Returns unacknowledged tasks to the queue, so that another worker gets them at once."""
        if self._beating is not None:
            self._beating.cancel()
            self._beating = None
        held, self._held = self._held, {}
        for job in held:
            try:
                await _ask(self._reporting, self._claims.release(job))
            except Exception as error:
                log.warning("taskiq: %s was not released; its lease has to expire: %r", job.id, error)
        await super().shutdown()
        await self._claiming.close()
        await self._reporting.close()
        if self._owns_client:
            await self.client.connection_pool.disconnect()

    async def _ack(self, job: Claimed) -> None:
        await self._tell(job, self._claims.ack(job))

    async def _tell(self, job: Claimed, call: Call[bool]) -> None:
        """Reports the end of a task. Repeats the report while Redis is away, because a token works only once."""
        end = now() + self._claims.lease_ms / 1000
        backoff = Backoff()
        try:
            while True:
                try:
                    is_ours = await _ask(self._reporting, call)
                    break
                except Exception as error:
                    if not is_away(error) or now() > end:
                        raise
                await asyncio.sleep(backoff.next())
            if not is_ours and job not in self._held:
                log.warning("taskiq: the lease of %s was lost: it runs again", job.id)
        finally:
            self._held.pop(job, None)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._claims.beat)
            for jobs, call in self._claims.extend(list(self._held)):
                try:
                    found = await _ask(self._reporting, call)
                except Exception as error:
                    log.warning("taskiq: a heartbeat failed: %r", error)
                    continue
                for job, is_held in zip(jobs, found):
                    if not is_held:
                        self._held.pop(job, None)


async def _ask(link: Link, call: Call[T], patience: float | None = None) -> T:
    (reply,) = await link.request([call.args], patience)
    if isinstance(reply, Exception):
        if is_away(reply):  # another server may have the queue now
            await link.close()
        raise reply
    with boundary(call.name):
        return call.parse(reply)
