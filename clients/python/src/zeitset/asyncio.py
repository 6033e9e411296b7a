"""The classes of `zeitset` for `redis.asyncio`. They have the same names and parameters, and their methods are
coroutines."""

from __future__ import annotations

from asyncio import Task, create_task
from asyncio import wait as asyncio_wait
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from . import _plans
from ._boards import BoardCalls, Entry
from ._call import Call
from ._codec import Undecodable
from ._cron import Cron
from ._deciding import Decider, Steps, check_with
from ._job import Event, Job
from ._limits import Algorithm, Check, Checks, LimiterCalls, OnError, Policy
from ._patience import once, patient
from ._queues import BoundQueue, Group, JobInfo, Lease, Listed, QueueCalls, Stats
from ._queues import queues as _queues
from ._run import Bound, Client, adrive, arun, arun_all, awaiting
from ._sets import ExpiringSetCalls
from ._telemetry import apushing, silent
from ._time import Duration, Instant, milliseconds
from ._worker import Worker
from .errors import CostTooHigh, Discard, LeaseLost, OutcomeUnknown, Retry

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
    "OutcomeUnknown",
    "Policy",
    "Queue",
    "Retry",
    "Stats",
    "Undecodable",
    "Worker",
    "check_all",
    "queues",
]


T = TypeVar("T")
_REFUND_TIMEOUT = 1.0
"""How long a limiter without a timeout may take to refund units, in seconds."""


class Limiter(Bound[LimiterCalls]):
    """A rate limit for each key: `await Limiter(r, "search", "5/1m").check("ann")`.

    The Redis key is `prefix`, name, ":", key. `timeout`: the longest time that a call may take, even if the client's
    own timeouts are longer. `unit`: the name of the units in header fields (default: requests). `remember`: the limiter
    remembers a denial until its `retry_after` has passed. Until then, the limiter denies calls for the same key that
    cost as much or more, without asking the server. `ahead`: the limiter takes up to this many units in one call, and
    hands them out later without asking the server.
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
        self._once: Any = once(client, seconds or _REFUND_TIMEOUT) if ahead else client
        self._sweep: Task[None] | None = None

    @property
    def policy(self) -> Policy:
        return self.calls.policy

    async def check(self, key: str, cost: int = 1, *, force: bool = False) -> Check:
        """Takes `cost` units if they fit. With `force`, takes the units in any case. If they do not fit, the limit is
        then in debt."""
        known = None if force else self._decider.known(key, cost)
        return known if known is not None else await self._drive(self._decider.check(key, cost, force))

    async def peek(self, key: str, cost: int = 1) -> Check:
        """Returns what `check` would return, and takes no units."""
        return await self._drive(self._decider.peek(key, cost))

    async def wait(self, key: str, cost: int = 1, timeout: Duration | None = None) -> Check:
        """Sleeps until `check` allows the call. If the wait would be longer than `timeout`, raises TimeoutError and
        takes no units."""
        return await self._drive(self._decider.wait(key, cost, timeout))

    async def refund(self, key: str, units: int, check: Check | int) -> int:
        """Refunds units that `check` took, for example for a request that failed. Returns how many were refunded."""
        return await self._drive(self._decider.refund(key, units, check))

    async def reset(self, key: str) -> bool:
        """Deletes the limit of the key, so that all units are available. Returns whether the limit existed."""
        return await self._drive(self._decider.reset(key))

    async def close(self) -> None:
        """Refunds the units that the limiter took because of `ahead` and has not handed out. If the event loop cancels
        its tasks before it ends, as `asyncio.run` does, the limiter refunds these units by itself."""
        if self._sweep is not None and not self._sweep.done():
            self._sweep.cancel()
            await asyncio_wait([self._sweep])
        await self._refund_all()

    async def _drive(self, steps: Steps[T]) -> T:
        try:
            return await adrive(self._client, steps)
        finally:
            ahead = self._decider.ahead
            if ahead is not None and ahead.start():
                self._sweep = create_task(self._run_sweep())

    async def _run_sweep(self) -> None:
        try:
            await adrive(self._once, self._decider.sweep())
        finally:
            await self._refund_all()

    async def _refund_all(self) -> None:
        if (ahead := self._decider.ahead) is not None:
            ahead.stop()
            await adrive(self._once, self._decider.close())
            await self._once.close()


async def check_all(
    *parts: tuple[Limiter, str] | tuple[Limiter, str, int], force: bool = False, block: Limiter | None = None
) -> Checks:
    """Takes units from all of these limits, or from none: `await check_all((user, "ann"), (tokens, "ann", 850))`.

    `block`, such as `Limiter(r, "blocked", "1/10m")`: if a limit denies, the key of the first limit stays blocked for the
    window of this limiter. The last check of the result is that of `block`.
    """
    asked = [(part[0]._decider, *part[1:]) for part in parts]
    found = check_with(asked, force, None if block is None else block._decider)
    return await adrive(parts[0][0]._client, found)


class ExpiringSet(Bound[ExpiringSetCalls]):
    """A set in which each member has its own expiry."""

    def __init__(self, client: Client, key: str) -> None:
        super().__init__(client, ExpiringSetCalls(key))

    add = awaiting(ExpiringSetCalls.add)
    expire = awaiting(ExpiringSetCalls.expire)
    persist = awaiting(ExpiringSetCalls.persist)
    ttl = awaiting(ExpiringSetCalls.ttl)
    remove = awaiting(ExpiringSetCalls.remove)
    card = awaiting(ExpiringSetCalls.card)
    contains = awaiting(ExpiringSetCalls.contains)
    contains_each = awaiting(ExpiringSetCalls.contains_each)
    members = awaiting(ExpiringSetCalls.members)
    members_with_ttl = awaiting(ExpiringSetCalls.members_with_ttl)
    random = awaiting(ExpiringSetCalls.random)
    pop = awaiting(ExpiringSetCalls.pop)


class Board(Bound[BoardCalls]):
    """A leaderboard: `Board(r, "medals", "gold", "silver", "bronze")`, `Board(r, "laps", "seconds asc float")`."""

    def __init__(self, client: Client, key: str, *dims: str) -> None:
        super().__init__(client, BoardCalls(key, *dims))

    create = awaiting(BoardCalls.create)
    set = awaiting(BoardCalls.set)
    set_many = awaiting(BoardCalls.set_many)
    incr = awaiting(BoardCalls.incr)
    get = awaiting(BoardCalls.get)
    rank = awaiting(BoardCalls.rank)
    rank_of = awaiting(BoardCalls.rank_of)
    range = awaiting(BoardCalls.range)
    around = awaiting(BoardCalls.around)
    remove = awaiting(BoardCalls.remove)
    remove_range = awaiting(BoardCalls.remove_range)
    merge_from = awaiting(BoardCalls.merge_from)
    card = awaiting(BoardCalls.card)
    clear = awaiting(BoardCalls.clear)


class Queue(BoundQueue):
    """A queue: pushes jobs and shows them. `Worker` runs them.

    `shards`: the number of keys that hold the jobs, so that the nodes of a cluster share the queue. All jobs of a group
    are in the same shard. `telemetry`: an `OpenTelemetry` of `zeitset.otel`.
    """

    push = apushing(awaiting(QueueCalls.push))
    cancel = awaiting(_plans.cancel)
    reschedule = awaiting(_plans.reschedule)
    get = awaiting(_plans.get)
    peek = awaiting(_plans.peek)
    redrive = awaiting(_plans.redrive)
    clean = awaiting(_plans.clean)
    stats = awaiting(_plans.stats)
    configure = awaiting(_plans.configure)
    pause = awaiting(_plans.pause)
    resume = awaiting(_plans.resume)
    groups = awaiting(_plans.groups)
    hold = awaiting(_plans.hold)

    async def push_many(self, jobs: Iterable[Mapping[str, Any]]) -> list[str | None]:
        """Pushes jobs in one pipeline. Each job is a dictionary of parameters of `push`:
        `[{"payload": "ann", "id": "1"}, …]`. Returns for each job what `push` returns."""
        many = list(jobs)
        with silent() if self._telemetry is None else self._telemetry.pushes(self.calls.name, len(many)) as added:
            ids = await arun_all(self._client, [self.calls.push(**job) for job in many])
            added(ids)
            return ids


async def queues(client: Client, *, count: int | None = None, after: str | None = None) -> list[str]:
    """Returns the names of the queues of this database."""
    return await arun(client, _queues(count=count, after=after))
