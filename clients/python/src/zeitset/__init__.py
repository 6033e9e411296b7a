"""Zeitset for redis-py: rate limits, expiring sets, leaderboards, queues and workers.

The methods of these classes block until the reply. In `zeitset.asyncio`, classes of the same names have coroutine
methods. `Worker` takes clients of both kinds.
"""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Mapping
from threading import Thread
from typing import Any, TypeVar

from . import _plans
from ._ahead import Ahead
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
from ._run import Bound, Client, blocking, drive, run, run_all
from ._sets import ExpiringSetCalls
from ._telemetry import pushing, silent
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

_limiters: set[Limiter] = set()


@atexit.register
def _refund_at_exit() -> None:
    for limiter in list(_limiters):
        limiter.close()


class Limiter(Bound[LimiterCalls]):
    """A rate limit for each key: `Limiter(r, "search", "5/1m").check("ann")`.

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
        self._once = once(client, seconds or _REFUND_TIMEOUT) if ahead else client

    @property
    def policy(self) -> Policy:
        return self.calls.policy

    def check(self, key: str, cost: int = 1, *, force: bool = False) -> Check:
        """Takes `cost` units if they fit. With `force`, takes the units in any case. If they do not fit, the limit is
        then in debt."""
        known = None if force else self._decider.known(key, cost)
        return known or self._drive(self._decider.check(key, cost, force))

    def peek(self, key: str, cost: int = 1) -> Check:
        """Returns what `check` would return, and takes no units."""
        return self._drive(self._decider.peek(key, cost))

    def wait(self, key: str, cost: int = 1, timeout: Duration | None = None) -> Check:
        """Sleeps until `check` allows the call. If the wait would be longer than `timeout`, raises TimeoutError and
        takes no units."""
        return self._drive(self._decider.wait(key, cost, timeout))

    def refund(self, key: str, units: int, check: Check | int) -> int:
        """Refunds units that `check` took, for example for a request that failed. Returns how many were refunded."""
        return self._drive(self._decider.refund(key, units, check))

    def reset(self, key: str) -> bool:
        """Deletes the limit of the key, so that all units are available. Returns whether the limit existed."""
        return self._drive(self._decider.reset(key))

    def close(self) -> None:
        """Refunds the units that the limiter took because of `ahead` and has not handed out. At the end of the process,
        each limiter calls `close` by itself."""
        drive(self._once, self._decider.close())

    def _drive(self, steps: Steps[T]) -> T:
        try:
            return drive(self._client, steps)
        finally:
            ahead = self._decider.ahead
            if ahead is not None and ahead.start():
                Thread(target=self._sweep, args=(ahead,), daemon=True).start()

    def _sweep(self, ahead: Ahead) -> None:
        _limiters.add(self)
        try:
            drive(self._once, self._decider.sweep())
        finally:
            ahead.stop()
            _limiters.discard(self)


def check_all(
    *parts: tuple[Limiter, str] | tuple[Limiter, str, int], force: bool = False, block: Limiter | None = None
) -> Checks:
    """Takes units from all of these limits, or from none: `check_all((user, "ann"), (tokens, "ann", 850))`.

    `block`, such as `Limiter(r, "blocked", "1/10m")`: if a limit denies, the key of the first limit stays blocked for the
    window of this limiter. The last check of the result is that of `block`.
    """
    asked = [(part[0]._decider, *part[1:]) for part in parts]
    found = check_with(asked, force, None if block is None else block._decider)
    return drive(parts[0][0]._client, found)


class ExpiringSet(Bound[ExpiringSetCalls]):
    """A set in which each member has its own expiry."""

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


class Queue(BoundQueue):
    """A queue: pushes jobs and shows them. `Worker` runs them.

    `shards`: the number of keys that hold the jobs, so that the nodes of a cluster share the queue. All jobs of a group
    are in the same shard. `telemetry`: an `OpenTelemetry` of `zeitset.otel`.
    """

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
        """Pushes jobs in one pipeline. Each job is a dictionary of parameters of `push`:
        `[{"payload": "ann", "id": "1"}, …]`. Returns for each job what `push` returns."""
        many = list(jobs)
        with silent() if self._telemetry is None else self._telemetry.pushes(self.calls.name, len(many)) as added:
            ids = run_all(self._client, [self.calls.push(**job) for job in many])
            added(ids)
            return ids


def queues(client: Client, *, count: int | None = None, after: str | None = None) -> list[str]:
    """Returns the names of the queues of this database."""
    return run(client, _queues(count=count, after=after))
