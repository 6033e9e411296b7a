"""Queues: the ZQ commands that are not for workers."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from secrets import token_urlsafe
from typing import Any, Literal, TypedDict, TypeVar, cast

from ._call import Call, Word, encoded, flag, mapping, nothing, optional_text, text, texts
from ._codec import CodecName, codec, decoded, headed
from ._run import Bound, Client
from ._shards import keys_of, shard_of
from ._telemetry import Telemetry
from ._time import Duration, Instant, duration, instant

Q = TypeVar("Q", bound="BoundQueue")
State = Literal["ready", "delayed", "claimed", "dead"]


@dataclass(frozen=True)
class JobInfo:
    """A job as ZQ.GET shows it. `fields` has all fields of the reply by their names."""

    id: str
    state: str
    payload: Any
    priority: int
    attempts: int
    due_ms: int
    error: str | None
    worker: str | None
    group: str | None
    fields: dict[str, Any]
    again: Any = None
    """The payload of the push (with `again` or `declare`) that waits until the claim has ended. None: no push waits."""
    progress: str | None = None
    """The last text of `Job.progress`."""


@dataclass(frozen=True)
class Lease:
    """The claim of a job. `worker` is None if the worker gave no name."""

    worker: str | None
    token: int
    deadline_ms: int


@dataclass(frozen=True)
class Listed:
    """A job as ZQ.PEEK shows it."""

    id: str
    due_ms: int
    priority: int
    attempts: int
    payload: Any
    lease: Lease | None = None
    """The lease of a claimed job, if `peek` was called with `lease`."""


@dataclass(frozen=True)
class Group:
    """A group of a queue. The jobs without a group are the group with the empty name."""

    name: str
    ready: int
    delayed: int
    claimed: int
    held_until_ms: int | None
    """Until when no job of the group is claimed (`hold`). None: the group is not held."""


class Stats(TypedDict):
    """The fields of ZQ.STATS: jobs in each state, counters, and settings. A newer server may have more fields."""

    ready: int
    delayed: int
    claimed: int
    dead: int
    groups: int
    oldest_ready_ms: int | None
    pushed: int
    claimed_total: int
    acked: int
    nacked: int
    cancelled: int
    redriven: int
    expired_leases: int
    replaced: int
    recurred: int
    missed: int
    cleaned: int
    dropped: int
    revoked: int
    late: int
    expired: int
    max_attempts: int
    backoff_base_ms: int
    backoff_max_ms: int
    aging_ms: int
    maxlen: int
    concurrency: int
    rate_limit: int
    rate_window_ms: int
    groupconcurrency: int
    grouprate_limit: int
    grouprate_window_ms: int
    ordered: Literal["yes", "no"]
    paused: Literal["yes", "no"]
    jitter: int
    deadlen: int
    deadttl_ms: int


class QueueCalls:
    """The commands of a queue. If the queue has shards, `push` and `hold` choose the shard, and the other methods raise
    TypeError: use `queue.shard(i).calls`."""

    def __init__(
        self,
        name: str,
        *,
        shards: int | None = None,
        codec: CodecName = "json",
        traceparent: Callable[[], str | None] = lambda: None,
    ) -> None:
        self.name = name
        self._codec = _codec_of(codec)
        self._traceparent = traceparent
        self.shards: list[QueueCalls] = [self]
        """The calls of each shard. If the queue has no shards, this object is the only item."""
        keys = keys_of(name, shards)
        if shards is not None:
            self.shards = [QueueCalls(key, codec=codec, traceparent=traceparent) for key in keys]

    @property
    def key(self) -> str:
        if self.shards != [self]:
            raise TypeError(f"{self.name!r} has several shards; use queue.shard(i) for one of them")
        return self.name

    def shard_of(self, id: str, group: str | None) -> QueueCalls:
        return self.shards[shard_of(id, group, len(self.shards))]

    def push(
        self,
        payload: Any,
        *,
        id: str | None = None,
        delay: Duration | None = None,
        at: Instant | None = None,
        priority: int = 0,
        max_attempts: int | None = None,
        every: Duration | None = None,
        group: str | None = None,
        ttl: Duration | None = None,
        replace: bool = False,
        again: bool = False,
        declare: bool = False,
        traceparent: str | None = None,
        timeout: Duration | None = None,
    ) -> Call[str | None]:
        """Adds a job, and returns its id. Without `replace` and `again`, returns None if the queue has a job of this
        id.

        `ttl`: how long after its due time a worker may still get the job.

        `again`: after this push, the job runs at least once. Two runs never overlap. If a job of this id waits, that
        job gets the payload and the TTL of this push. If a worker holds the job, the queue stores this push until the job
        is done, dead or cancelled. A later push replaces the stored push.

        `declare`, with an `id` and `every`: the recurring job of this id becomes what this push says, and keeps its due
        time. If a worker holds the job, that run goes on, and the change takes effect when it ends. So a program can
        declare its recurring jobs at each start.

        Jobs of a lower `priority` are served first. `max_attempts`: the number of deliveries after which the job
        becomes a dead letter; 0: unlimited; default: the setting of the queue. `traceparent`: the library stores it
        with the job, before the JSON payload. The handler gets it as `job.traceparent`. `timeout`: how long the handler
        may run. This value replaces the worker's `timeout`. Raises TypeError for a `traceparent` or a `timeout` if the
        codec is not JSON.
        """
        if again and id is None:
            raise TypeError("again needs an id")
        if again + replace + declare > 1:
            raise TypeError("either replace, again or declare")
        if declare and (id is None or every is None):
            raise TypeError("declare needs an id and every")
        # If a push is repeated after a lost reply, the random id prevents a second job.
        name = token_urlsafe(12) if id is None else id
        # A declaration of the same job must have the same payload at each start.
        traceparent = traceparent or (None if declare else self._traceparent())
        body = headed(self._codec, self._codec.dumps(payload), traceparent, timeout)
        args: list[Word] = ["ZQ.PUSH", self.shard_of(name, group).key, body, "ID", encoded(name)]
        args += _due(delay, at)
        if priority:
            args += ("PRIORITY", priority)
        if max_attempts is not None:
            args += ("MAXATTEMPTS", max_attempts)
        if every is not None:
            args += ("EVERY", duration(every))
        if group is not None:
            args += ("GROUP", encoded(group))
        if ttl is not None:
            args += ("TTL", duration(ttl))
        if replace:
            args.append("REPLACE")
        if again:
            args.append("AGAIN")
        if declare:
            args.append("DECLARE")
        return Call(tuple(args), optional_text if id is not None else lambda _: name)

    def cancel(self, *ids: str) -> Call[int]:
        return Call(("ZQ.CANCEL", self.key, *map(encoded, ids)), int)

    def reschedule(
        self, id: str, *, delay: Duration | None = None, at: Instant | None = None, priority: int | None = None
    ) -> Call[bool]:
        args: tuple[Word, ...] = ("ZQ.RESCHEDULE", self.key, encoded(id), *_due(delay, at))
        return Call(args if priority is None else (*args, "PRIORITY", priority), flag)

    def get(self, id: str) -> Call[JobInfo | None]:
        def read(reply: Any) -> JobInfo | None:
            if reply is None:
                return None
            fields = {name: _plain(name, value) for name, value in mapping(reply).items()}
            again = fields.get("again_payload")
            return JobInfo(
                id=id,
                state=fields["state"],
                payload=decoded(self._codec, fields["payload"]),
                priority=fields["priority"],
                attempts=fields["attempts"],
                due_ms=fields["due_ms"],
                error=fields.get("error"),
                worker=fields.get("worker"),
                group=fields.get("group"),
                fields=fields,
                again=None if again is None else decoded(self._codec, again),
                progress=fields.get("progress"),
            )

        return Call(("ZQ.GET", self.key, encoded(id)), read)

    def peek(
        self,
        state: State = "ready",
        *,
        count: int = 10,
        after: str | None = None,
        group: str | None = None,
        lease: bool = False,
    ) -> Call[list[Listed]]:
        args: list[Word] = ["ZQ.PEEK", self.key, state.upper(), "COUNT", count]
        if after is not None:
            args += ("AFTER", encoded(after))
        args += _of(group)
        if lease:
            args.append("WITHLEASE")

        def read(reply: Any) -> list[Listed]:
            return [
                Listed(
                    text(id),
                    due,
                    priority,
                    attempts,
                    decoded(self._codec, raw),
                    Lease(optional_text(held[0]), *held[1:]) if held else None,
                )
                for id, due, priority, attempts, raw, *held in reply
            ]

        return Call(tuple(args), read)

    def redrive(self, *ids: str, count: int | None = None, group: str | None = None) -> Call[int]:
        args: tuple[Word, ...] = ("ZQ.REDRIVE", self.key, *_of(group))
        if ids:
            args += ("ID", *map(encoded, ids))
        return Call(args if count is None else (*args, "COUNT", count), int)

    def clean(
        self,
        state: Literal["ready", "delayed", "dead"],
        *,
        older: Duration | None = None,
        count: int | None = None,
        group: str | None = None,
    ) -> Call[int]:
        args: tuple[Word, ...] = ("ZQ.CLEAN", self.key, state.upper(), *_of(group))
        if older is not None:
            args += ("OLDER", duration(older))
        return Call(args if count is None else (*args, "COUNT", count), int)

    def hold(self, group: str, wait: Duration) -> Call[bool]:
        key = self.shard_of("", group).key if group else self.key
        return Call(("ZQ.HOLD", key, encoded(group), duration(wait)), flag)

    def stats(self) -> Call[Stats | None]:
        """Returns the fields of ZQ.STATS by name. None: the queue does not exist."""
        return Call(("ZQ.STATS", self.key), _figures)

    def configure(
        self,
        *,
        max_attempts: int | None = None,
        backoff: tuple[Duration, Duration] | None = None,
        jitter: int | None = None,
        aging: Duration | None = None,
        maxlen: int | None = None,
        deadlen: int | None = None,
        deadttl: Duration | None = None,
        concurrency: int | None = None,
        rate: tuple[int, Duration] | None = None,
        group_concurrency: int | None = None,
        group_rate: tuple[int, Duration] | None = None,
        ordered: bool | None = None,
        paused: bool | None = None,
    ) -> Call[None]:
        """Changes settings by ZQ.CONFIG. Settings that are not given stay as they are. 0 switches a setting off."""
        args: list[Word] = ["ZQ.CONFIG", self.key]
        for name, number in (
            ("MAXATTEMPTS", max_attempts),
            ("JITTER", jitter),
            ("MAXLEN", maxlen),
            ("DEADLEN", deadlen),
            ("CONCURRENCY", concurrency),
            ("GROUPCONCURRENCY", group_concurrency),
        ):
            if number is not None:
                args += (name, number)
        for name, wait in (("AGING", aging), ("DEADTTL", deadttl)):
            if wait is not None:
                args += (name, duration(wait))
        for name, pair in (("RATE", rate), ("GROUPRATE", group_rate)):
            if pair is not None:
                args += (name, pair[0], duration(pair[1]))
        if backoff is not None:
            args += ("BACKOFF", duration(backoff[0]), duration(backoff[1]))
        for name, choice in (("ORDERED", ordered), ("PAUSED", paused)):
            if choice is not None:
                args += (name, "yes" if choice else "no")
        return Call(tuple(args), nothing)

    def pause(self) -> Call[None]:
        """Stops claims until `resume`."""
        return self.configure(paused=True)

    def resume(self) -> Call[None]:
        return self.configure(paused=False)

    def groups(
        self, *, count: int | None = None, after: str | None = None, largest: bool = False
    ) -> Call[list[Group]]:
        if largest and after is not None:
            raise TypeError("either after or largest")
        args: tuple[Word, ...] = ("ZQ.GROUPS", self.key, *(("LARGEST",) if largest else ()))
        if after is not None:
            args += ("AFTER", encoded(after))
        if count is not None:
            args += ("COUNT", count)
        return Call(args, lambda reply: [Group(text(row[0]), *row[1:5]) for row in reply])


class BoundQueue(Bound[QueueCalls]):
    """The base class of the blocking `Queue` and the `Queue` for asyncio."""

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
    def shards(self: Q) -> list[Q]:
        """One queue for each shard. If the queue has no shards, the only item is the queue itself."""
        return [self.shard(number) for number in range(len(self.calls.shards))]

    def shard(self: Q, number: int) -> Q:
        shard = copy(self)
        shard.calls = self.calls.shards[number]
        return shard


def queues(*, count: int | None = None, after: str | None = None) -> Call[list[str]]:
    """Returns the names of the queues of this database."""
    args: tuple[Word, ...] = ("ZQ.LIST",)
    if after is not None:
        args += ("AFTER", encoded(after))
    return Call(args if count is None else (*args, "COUNT", count), texts)


_codec_of = codec


def _of(group: str | None) -> tuple[Word, ...]:
    return () if group is None else ("GROUP", encoded(group))


def _due(delay: Duration | None, at: Instant | None) -> tuple[Word, ...]:
    if delay is not None and at is not None:
        raise TypeError("either delay or at")
    if at is not None:
        return ("AT", instant(at))
    return () if delay is None else ("DELAY", duration(delay))


def _plain(name: str, value: Any) -> Any:
    return text(value) if isinstance(value, bytes) and name not in ("payload", "again_payload") else value


def _figures(reply: Any) -> Stats | None:
    if reply is None:
        return None
    return cast("Stats", {name: _plain(name, value) for name, value in mapping(reply).items()})
