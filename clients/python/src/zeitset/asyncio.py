"""The classes of `zeitset` for `redis.asyncio`: the same names and parameters, and their methods are awaited."""

from ._boards import BoardCalls, Entry
from ._call import Call
from ._codec import CodecName
from ._cron import Cron
from ._job import Event, Job
from ._limits import Algorithm, Check, Checks, LimiterCalls, OnError, Policy
from ._limits import check_all as _check_all
from ._queues import Group, JobInfo, Listed, QueueCalls
from ._queues import queues as _queues
from ._run import Bound, Client, arun, awaiting
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
    """A rate limit for each key: `await Limiter(r, "search", "5/1m").check("ann")`."""

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

    check = awaiting(LimiterCalls.check)
    peek = awaiting(LimiterCalls.peek)
    refund = awaiting(LimiterCalls.refund)
    reset = awaiting(LimiterCalls.reset)


async def check_all(*parts: tuple[Limiter, str] | tuple[Limiter, str, int], force: bool = False) -> Checks:
    """Several limits, all or nothing: `await check_all((user, "ann"), (tokens, "ann", 850))`."""
    call = _check_all([(part[0].calls, *part[1:]) for part in parts], force=force)
    return await arun(parts[0][0]._client, call)


class ExpiringSet(Bound[ExpiringSetCalls]):
    """A set whose members expire, each at its time."""

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


class Queue(Bound[QueueCalls]):
    """Where jobs are pushed and looked at. `Worker` takes them."""

    def __init__(self, client: Client, key: str, *, codec: CodecName = "json") -> None:
        super().__init__(client, QueueCalls(key, codec=codec))

    push = awaiting(QueueCalls.push)
    cancel = awaiting(QueueCalls.cancel)
    reschedule = awaiting(QueueCalls.reschedule)
    get = awaiting(QueueCalls.get)
    peek = awaiting(QueueCalls.peek)
    redrive = awaiting(QueueCalls.redrive)
    clean = awaiting(QueueCalls.clean)
    stats = awaiting(QueueCalls.stats)
    configure = awaiting(QueueCalls.configure)
    pause = awaiting(QueueCalls.pause)
    resume = awaiting(QueueCalls.resume)
    groups = awaiting(QueueCalls.groups)


async def queues(client: Client, *, count: int | None = None, after: str | None = None) -> list[str]:
    """The names of the queues of this database."""
    return await arun(client, _queues(count=count, after=after))
