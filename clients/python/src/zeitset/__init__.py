"""Zeitset for redis-py: rate limits, expiring sets, leaderboards, queues and workers.

The classes here wait for their replies; those of the same names in `zeitset.asyncio` are awaited. `Worker` serves both.
"""

from ._boards import BoardCalls, Entry
from ._call import Call
from ._codec import CodecName
from ._cron import Cron
from ._job import Event, Job
from ._limits import Algorithm, Check, Checks, LimiterCalls, OnError, Policy
from ._limits import check_all as _check_all
from ._queues import Group, JobInfo, Listed, QueueCalls
from ._queues import queues as _queues
from ._run import Bound, Client, blocking, run
from ._sets import ExpiringSetCalls
from ._time import Duration, Instant
from ._worker import Worker
from .errors import CostTooHigh, Discard, Retry

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
    "Limiter",
    "Listed",
    "Policy",
    "Queue",
    "Retry",
    "Worker",
    "check_all",
    "queues",
]


class Limiter(Bound[LimiterCalls]):
    """A rate limit for each key: `Limiter(r, "search", "5/1m").check("ann")`."""

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
    ) -> None:
        calls = LimiterCalls(name, rate, algorithm=algorithm, precision=precision, exact=exact, on_error=on_error)
        super().__init__(client, calls)

    @property
    def policy(self) -> Policy:
        return self.calls.policy

    check = blocking(LimiterCalls.check)
    peek = blocking(LimiterCalls.peek)
    refund = blocking(LimiterCalls.refund)
    reset = blocking(LimiterCalls.reset)


def check_all(*parts: tuple[Limiter, str] | tuple[Limiter, str, int], force: bool = False) -> Checks:
    """Several limits, all or nothing: `check_all((user, "ann"), (tokens, "ann", 850))`."""
    call = _check_all([(part[0].calls, *part[1:]) for part in parts], force=force)
    return run(parts[0][0]._client, call)


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
    """Where jobs are pushed and looked at. `Worker` takes them."""

    def __init__(self, client: Client, key: str, *, codec: CodecName = "json") -> None:
        super().__init__(client, QueueCalls(key, codec=codec))

    push = blocking(QueueCalls.push)
    cancel = blocking(QueueCalls.cancel)
    reschedule = blocking(QueueCalls.reschedule)
    get = blocking(QueueCalls.get)
    peek = blocking(QueueCalls.peek)
    redrive = blocking(QueueCalls.redrive)
    clean = blocking(QueueCalls.clean)
    stats = blocking(QueueCalls.stats)
    configure = blocking(QueueCalls.configure)
    pause = blocking(QueueCalls.pause)
    resume = blocking(QueueCalls.resume)
    groups = blocking(QueueCalls.groups)


def queues(client: Client, *, count: int | None = None, after: str | None = None) -> list[str]:
    """The names of the queues of this database."""
    return run(client, _queues(count=count, after=after))
