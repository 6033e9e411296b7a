"""Zeitset for redis-py: rate limits, expiring sets, leaderboards, queues and workers.

The classes here wait for their replies; those of the same names in `zeitset.asyncio` are awaited. `Worker` serves both.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Mapping
from copy import copy
from threading import Thread
from typing import Any, TypeVar

from . import _plans
from ._ahead import Ahead
from ._boards import BoardCalls, Entry
from ._call import Call
from ._codec import CodecName, Undecodable
from ._cron import Cron
from ._deciding import Decider, Steps
from ._deciding import check_all as _check_all
from ._job import Event, Job
from ._limits import Algorithm, Check, Checks, LimiterCalls, OnError, Policy
from ._patience import once, patient
from ._queues import Group, JobInfo, Lease, Listed, QueueCalls
from ._queues import queues as _queues
from ._run import Bound, Client, blocking, drive, run, run_all
from ._sets import ExpiringSetCalls
from ._telemetry import Telemetry, pushing, silent
from ._time import Duration, Instant, milliseconds
from ._worker import Worker
from .errors import CostTooHigh, Discard, LeaseLost, Retry

__all__ = [
    "Board",
    "Call",
    "Check",
    "Checks",
    "CostTooHigh",
    "Cron",
    "Discard",
    "Duration",
    "Entry",
    "Event",
    "ExpiringSet",
    "Group",
    "Instant",
    "Job",
    "JobInfo",
    "Lease",
    "LeaseLost",
    "Limiter",
    "Listed",
    "Policy",
    "Queue",
    "Retry",
    "Undecodable",
    "Worker",
    "check_all",
    "queues",
]


T = TypeVar("T")
_RETURNING = 1.0
"""Seconds to give units back, for a limiter without a timeout."""

_holding: set[Limiter] = set()
"""Those that hold units."""


@atexit.register
def _give_back() -> None:
    for limiter in list(_holding):
        limiter.close()


class Limiter(Bound[LimiterCalls]):
    """A rate limit for each key: `Limiter(r, "search", "5/1m").check("ann")`.

    `timeout`: how long a call may take, whatever the client's settings are. The Redis key is `prefix`, name, ":", key. `unit`: what
    the units are, for header fields, if not requests. `remember`: a key that was denied is denied without asking, until the wait is
    over that the reply told. `ahead`: takes up to that number of units in one call, and hands them out without asking.
    """

    def __init__(
        self,
        client: Client,
        name: str,
        rate: str,
        *,
        algorithm: Algorithm = "sliding",
        precision: Duration | None = None,
        exact: bool = False,
        on_error: OnError = "raise",
        timeout: Duration | None = 1,
        prefix: str = "",
        unit: str | None = None,
        remember: bool = True,
        ahead: int | None = None,
    ) -> None:
        calls = LimiterCalls(
            name,
            rate,
            algorithm=algorithm,
            precision=precision,
            exact=exact,
            on_error=on_error,
            prefix=prefix,
            unit=unit,
            ahead=ahead,
        )
        seconds = None if timeout is None else milliseconds(timeout) / 1000
        super().__init__(client if seconds is None else patient(client, seconds), calls)
        self._decider = Decider(calls, seconds, remember)
        self._once = once(client, seconds or _RETURNING) if ahead else client

    @property
    def policy(self) -> Policy:
        return self.calls.policy

    def check(self, key: str, cost: int = 1, *, force: bool = False) -> Check:
        """Takes `cost` units if they fit; with `force`, in any case (the limit goes into debt)."""
        known = None if force else self._decider.known(key, cost)
        return known or self._drive(self._decider.check(key, cost, force))

    def peek(self, key: str, cost: int = 1) -> Check:
        """What `check` would say. Takes nothing."""
        return self._drive(self._decider.peek(key, cost))

    def wait(self, key: str, cost: int = 1, timeout: Duration | None = None) -> Check:
        """Sleeps until `check` allows. Raises TimeoutError, and takes nothing, if that is not before `timeout`."""
        return self._drive(self._decider.wait(key, cost, timeout))

    def refund(self, key: str, units: int, check: Check | int) -> int:
        """Gives back units that `check` took: a request that failed, a reservation that was too large. Replies how many."""
        return self._drive(self._decider.refund(key, units, check))

    def reset(self, key: str) -> bool:
        """Forgets what was taken."""
        return self._drive(self._decider.reset(key))

    def close(self) -> None:
        """Gives back the units that it has taken ahead. The end of the process does that, too."""
        drive(self._once, self._decider.close())

    def _drive(self, steps: Steps[T]) -> T:
        try:
            return drive(self._client, steps)
        finally:
            ahead = self._decider.ahead
            if ahead is not None and ahead.start():
                Thread(target=self._sweep, args=(ahead,), daemon=True).start()

    def _sweep(self, ahead: Ahead) -> None:
        _holding.add(self)
        try:
            drive(self._once, self._decider.sweep())
        finally:
            ahead.stop()
            _holding.discard(self)



def check_all(*parts: tuple[Limiter, str] | tuple[Limiter, str, int], force: bool = False) -> Checks:
    """Several limits, all or nothing: `check_all((user, "ann"), (tokens, "ann", 850))`."""
    found = _check_all([(part[0]._decider, *part[1:]) for part in parts], force=force)
    return drive(parts[0][0]._client, found)


class ExpiringSet(Bound[ExpiringSetCalls]):
    """A set whose members expire, each at its time."""

    def __init__(self, client: Client, key: str) -> None:
        super().__init__(client, ExpiringSetCalls(key))

    add = blocking(ExpiringSetCalls.add)
    expire = blocking(ExpiringSetCalls.expire)
    persist = blocking(ExpiringSetCalls.persist)
    ttl = blocking(ExpiringSetCalls.ttl)
    remove = blocking(ExpiringSetCalls.remove)
    card = blocking(ExpiringSetCalls.card)
    contains = blocking(ExpiringSetCalls.contains)
    contains_each = blocking(ExpiringSetCalls.contains_each)
    members = blocking(ExpiringSetCalls.members)
    members_with_ttl = blocking(ExpiringSetCalls.members_with_ttl)
    random = blocking(ExpiringSetCalls.random)
    pop = blocking(ExpiringSetCalls.pop)


class Board(Bound[BoardCalls]):
    """A leaderboard: `Board(r, "medals", "gold", "silver", "bronze")`, `Board(r, "laps", "seconds asc float")`."""

    def __init__(self, client: Client, key: str, *dims: str) -> None:
        super().__init__(client, BoardCalls(key, *dims))

    create = blocking(BoardCalls.create)
    set = blocking(BoardCalls.set)
    set_many = blocking(BoardCalls.set_many)
    incr = blocking(BoardCalls.incr)
    get = blocking(BoardCalls.get)
    rank = blocking(BoardCalls.rank)
    rank_of = blocking(BoardCalls.rank_of)
    range = blocking(BoardCalls.range)
    around = blocking(BoardCalls.around)
    remove = blocking(BoardCalls.remove)
    remove_range = blocking(BoardCalls.remove_range)
    merge_from = blocking(BoardCalls.merge_from)
    card = blocking(BoardCalls.card)
    clear = blocking(BoardCalls.clear)


class Queue(Bound[QueueCalls]):
    """Where jobs are pushed and looked at. `Worker` takes them.

    `shards`: the queue is that many keys, which the nodes of a cluster share. Jobs of a group are in one of them. `telemetry`: of
    `zeitset.otel`.
    """

    def __init__(
        self,
        client: Client,
        key: str,
        *,
        shards: int | None = None,
        codec: CodecName = "json",
        telemetry: Telemetry | None = None,
    ) -> None:
        traceparent = telemetry.traceparent if telemetry is not None and telemetry.propagate else lambda: None
        super().__init__(client, QueueCalls(key, shards=shards, codec=codec, traceparent=traceparent))
        self._telemetry = telemetry

    @property
    def shards(self) -> list[Queue]:
        """A queue for each shard; of a queue without shards, itself."""
        return [self.shard(number) for number in range(len(self.calls.shards))]

    def shard(self, number: int) -> Queue:
        shard = copy(self)
        shard.calls = self.calls.shards[number]
        return shard

    push = pushing(blocking(QueueCalls.push))
    cancel = blocking(_plans.cancel)
    reschedule = blocking(_plans.reschedule)
    get = blocking(_plans.get)
    peek = blocking(_plans.peek)
    redrive = blocking(_plans.redrive)
    clean = blocking(_plans.clean)
    stats = blocking(_plans.stats)
    configure = blocking(_plans.configure)
    pause = blocking(_plans.pause)
    resume = blocking(_plans.resume)
    groups = blocking(_plans.groups)
    hold = blocking(_plans.hold)

    def push_many(self, jobs: Iterable[Mapping[str, Any]]) -> list[str | None]:
        """In one pipeline; each job has the parameters of `push`: `[{"payload": "ann", "id": "1"}, …]`. Replies as `push` does."""
        many = list(jobs)
        with silent() if self._telemetry is None else self._telemetry.pushes(self.calls.name, len(many)) as added:
            ids = run_all(self._client, [self.calls.push(**job) for job in many])
            added(ids)
            return ids


def queues(client: Client, *, count: int | None = None, after: str | None = None) -> list[str]:
    """The names of the queues of this database."""
    return run(client, _queues(count=count, after=after))
