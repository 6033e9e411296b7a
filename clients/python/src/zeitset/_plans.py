"""Operations on the shards of a queue. An operation is a generator of steps. A step is a list of calls for one
pipeline. `drive` and `adrive` of `_run` carry out the steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from heapq import merge
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, cast

from ._call import Call, encoded
from ._deciding import Steps
from ._queues import Group, JobInfo, Listed, QueueCalls, State, Stats
from ._time import Duration, Instant

P = ParamSpec("P")
T = TypeVar("T")
U = TypeVar("U")
_SETTINGS = "max_attempts"
"""The first setting in the reply to ZQ.STATS. The fields before it are counts."""


def _everywhere(
    build: Callable[Concatenate[QueueCalls, P], Call[T]], combine: Callable[[list[T]], U]
) -> Callable[Concatenate[QueueCalls, P], Steps[U]]:
    @wraps(build)
    def steps(calls: QueueCalls, /, *args: P.args, **kwargs: P.kwargs) -> Steps[U]:
        return combine((yield [build(shard, *args, **kwargs) for shard in calls.shards]))

    return steps


def get(calls: QueueCalls, id: str, *, group: str | None = None) -> Steps[JobInfo | None]:
    """Returns a job; None if the queue does not have it. If `group` is given, searches only the shard of this group."""
    return _sought(calls, id, group, lambda shard: shard.get(id))


def reschedule(
    calls: QueueCalls,
    id: str,
    *,
    delay: Duration | None = None,
    at: Instant | None = None,
    priority: int | None = None,
    group: str | None = None,
) -> Steps[bool]:
    """Changes the due time or the priority of a waiting job. Returns False if the job is claimed, dead or missing.
    With `group`, sends the command only to the shard of this group."""
    return _sought(calls, id, group, lambda shard: shard.reschedule(id, delay=delay, at=at, priority=priority))


def cancel(calls: QueueCalls, *ids: str, group: str | None = None) -> Steps[int]:
    """Removes jobs in any state. Returns how many. `group`: if the queue has shards, only the shard of this group is
    asked."""
    return _each(calls, ids, group, lambda shard, some: shard.cancel(*some))


def redrive(calls: QueueCalls, *ids: str, count: int | None = None, group: str | None = None) -> Steps[int]:
    """Makes dead letters ready again, with 0 attempts. Without IDs, takes at most `count` dead letters (default 1,000).
    Returns how many."""
    if ids:
        return _each(calls, ids, group, lambda shard, some: shard.redrive(*some, count=count, group=group))
    return _shared(calls, count, group, lambda shard, count: shard.redrive(count=count, group=group))


def clean(
    calls: QueueCalls,
    state: Literal["ready", "delayed", "dead"],
    *,
    older: Duration | None = None,
    count: int | None = None,
    group: str | None = None,
) -> Steps[int]:
    """Removes up to `count` (default 1,000) jobs of a state, oldest first. Returns how many; 0 if none are left."""
    return _shared(calls, count, group, lambda shard, count: shard.clean(state, older=older, count=count, group=group))


def hold(calls: QueueCalls, group: str, wait: Duration) -> Steps[bool]:
    """Holds a group: during `wait`, none of its jobs is claimed. A `wait` of 0 ends the hold. The group "" has the jobs
    without a group. Returns False if no job is in the group."""
    return any((yield [shard.hold(group, wait) for shard in _shards(calls, "", group)]))


def peek(
    calls: QueueCalls,
    state: State = "ready",
    *,
    count: int = 10,
    after: str | None = None,
    group: str | None = None,
    lease: bool = False,
) -> Steps[list[Listed]]:
    """Returns the first jobs in a state. `after`: begins after the job of this ID. `group`: only jobs of this
    group; "" means the jobs without a group. `lease`: includes the leases of claimed jobs. If the queue has several
    shards, returns the first jobs by priority and due time. In such a queue, `after` needs a `group`. Without a group,
    call `peek` on each `queue.shard(i)`."""
    shards = _shards(calls, "", group)
    if after is not None and len(shards) > 1:
        raise TypeError("a queue with shards has no pages: use queue.shard(i).peek(after=...), or a group")
    pages = yield [shard.peek(state, count=count, after=after, group=group, lease=lease) for shard in shards]
    return list(merge(*pages, key=lambda job: (job.priority if state == "ready" else 0, job.due_ms)))[:count]


def groups(
    calls: QueueCalls, *, count: int | None = None, after: str | None = None, largest: bool = False
) -> Steps[list[Group]]:
    """Returns the groups of all shards in the order of their names. `largest`: the groups with most ready jobs first.
    All jobs without a group count as one group."""
    found: dict[str, Group] = {}
    for page in (yield [shard.groups(count=count, after=after, largest=largest) for shard in calls.shards]):
        for row in page:
            known = found.get(row.name)
            found[row.name] = row if known is None else _sum_of_groups(known, row)
    order = sorted(found.values(), key=lambda row: (-row.ready if largest else 0, encoded(row.name)))
    return order[: 10 if count is None else count]


def _sum_of_groups(one: Group, other: Group) -> Group:
    until = max(one.held_until_ms or 0, other.held_until_ms or 0) or None
    return Group(one.name, one.ready + other.ready, one.delayed + other.delayed, one.claimed + other.claimed, until)


def _sum_of_stats(shards: list[Stats | None]) -> Stats | None:
    stats: list[Any] = [each for each in shards if each is not None]
    if not stats:
        return None
    total: Any = dict(stats[0])
    figures = list(total)[: list(total).index(_SETTINGS)]
    for name in figures:
        values = [each[name] for each in stats if each[name] is not None]
        total[name] = min(values, default=None) if name == "oldest_ready_ms" else sum(values)
    return cast("Stats", total)


stats = _everywhere(QueueCalls.stats, _sum_of_stats)
configure = _everywhere(QueueCalls.configure, lambda _: None)
pause = _everywhere(QueueCalls.pause, lambda _: None)
resume = _everywhere(QueueCalls.resume, lambda _: None)


def _shards(calls: QueueCalls, id: str, group: str | None) -> list[QueueCalls]:
    """Returns the shards that may have jobs of the group. Without a group, returns all shards, the shard of the ID
    first."""
    own = calls.shard_of(id, group)
    return [own] if group else [own, *(shard for shard in calls.shards if shard is not own)]


def _sought(calls: QueueCalls, id: str, group: str | None, ask: Callable[[QueueCalls], Call[T]]) -> Steps[T]:
    """Asks the ID's shard for a job. If this shard does not have the job, asks all other shards. Returns the reply
    of the shard that has the job."""
    own, *others = _shards(calls, id, group)
    (found,) = yield [ask(own)]
    if not found and others:
        found = next(filter(None, (yield [ask(shard) for shard in others])), found)
    reply: T = found
    return reply


def _each(
    calls: QueueCalls, ids: tuple[str, ...], group: str | None, ask: Callable[[QueueCalls, tuple[str, ...]], Call[int]]
) -> Steps[int]:
    """Asks the shard of each ID, and then all shards for the IDs not found. Returns the sum of the replies."""
    if group or len(calls.shards) == 1:
        (count,) = yield [ask(calls.shard_of("", group), ids)]
        return int(count)
    counts = yield [ask(calls.shard_of(id, None), (id,)) for id in ids]
    missing = tuple(id for id, count in zip(ids, counts) if not count)
    if missing:
        counts += yield [ask(shard, missing) for shard in calls.shards]
    return sum(counts)


def _shared(
    calls: QueueCalls, count: int | None, group: str | None, ask: Callable[[QueueCalls, int | None], Call[int]]
) -> Steps[int]:
    """Handles at most `count` jobs of all shards together. Each shard gets an equal part. If a shard does not use up
    its part, the rest goes to shards with more jobs. Returns the number of handled jobs."""
    shards = _shards(calls, "", group)
    if len(shards) == 1:
        (done,) = yield [ask(shards[0], count)]
        return int(done)
    total, left = 0, 1000 if count is None else count
    while left > 0 and shards:
        part, more = divmod(left, len(shards))
        asked = [(shard, part + (number < more)) for number, shard in enumerate(shards) if part or number < more]
        counts = yield [ask(shard, share) for shard, share in asked]
        total, left = total + sum(counts), left - sum(counts)
        used_up = [shard for (shard, share), each in zip(asked, counts) if each == share]
        shards = shards[len(asked) :] + used_up
    return total
