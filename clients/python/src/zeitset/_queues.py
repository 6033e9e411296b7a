"""Queues, but for what workers do: ZQ commands."""

from __future__ import annotations

from dataclasses import dataclass
from secrets import token_urlsafe
from typing import Any, Literal

from ._call import Call, Word, encoded, flag, mapping, nothing, optional_text, text, texts
from ._codec import CodecName, codec
from ._time import Duration, Instant, duration, instant

State = Literal["ready", "delayed", "claimed", "dead"]


@dataclass(frozen=True)
class JobInfo:
    """A job as ZQ.GET shows it; `fields` has all of them by their names."""

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


@dataclass(frozen=True)
class Listed:
    """A job as ZQ.PEEK shows it."""

    id: str
    due_ms: int
    priority: int
    attempts: int
    payload: Any


@dataclass(frozen=True)
class Group:
    """A group of a queue; None is the group without a name."""

    name: str | None
    ready: int
    delayed: int
    claimed: int


class QueueCalls:
    def __init__(self, key: str, *, codec: CodecName = "json") -> None:
        self.key = key
        self._codec = _codec_of(codec)

    def push(
        self,
        payload: Any,
        *,
        id: str | None = None,
        delay: Duration | None = None,
        at: Instant | None = None,
        priority: int = 0,
        attempts: int | None = None,
        every: Duration | None = None,
        group: str | None = None,
        replace: bool = False,
    ) -> Call[str | None]:
        """Adds a job, and replies its id; None if a job of this id is there, and `replace` is not set.

        Lower priorities are served first. `attempts`: deliveries before the job is dead, 0: unlimited; default: the queue's.
        """
        # A random id: a push that is repeated after a lost reply is the same job.
        name = token_urlsafe(12) if id is None else id
        args: list[Word] = ["ZQ.PUSH", self.key, self._codec.dumps(payload), "ID", encoded(name)]
        args += _due(delay, at)
        if priority:
            args += ("PRIORITY", priority)
        if attempts is not None:
            args += ("ATTEMPTS", attempts)
        if every is not None:
            args += ("EVERY", duration(every))
        if group is not None:
            args += ("GROUP", encoded(group))
        if replace:
            args.append("REPLACE")
        return Call(tuple(args), optional_text if id is not None else lambda _: name)

    def cancel(self, *ids: str) -> Call[int]:
        """Removes jobs, in whatever state. Replies how many."""
        return Call(("ZQ.CANCEL", self.key, *map(encoded, ids)), int)

    def reschedule(
        self, id: str, *, delay: Duration | None = None, at: Instant | None = None, priority: int | None = None
    ) -> Call[bool]:
        """False: there is no such job, or it is claimed or dead."""
        args: tuple[Word, ...] = ("ZQ.RESCHEDULE", self.key, encoded(id), *_due(delay, at))
        return Call(args if priority is None else (*args, "PRIORITY", priority), flag)

    def get(self, id: str) -> Call[JobInfo | None]:
        def read(reply: Any) -> JobInfo | None:
            if reply is None:
                return None
            fields = {name: _plain(name, value) for name, value in mapping(reply).items()}
            return JobInfo(
                id=id,
                state=fields["state"],
                payload=self._codec.loads(fields["payload"]),
                priority=fields["priority"],
                attempts=fields["attempts"],
                due_ms=fields["due_ms"],
                error=fields.get("error"),
                worker=fields.get("worker"),
                group=fields.get("group"),
                fields=fields,
            )

        return Call(("ZQ.GET", self.key, encoded(id)), read)

    def peek(self, state: State = "ready", *, count: int = 10, after: str | None = None) -> Call[list[Listed]]:
        """Jobs in serving order; `after` goes on behind that job."""
        args: tuple[Word, ...] = ("ZQ.PEEK", self.key, state.upper(), "COUNT", count)

        def read(reply: Any) -> list[Listed]:
            return [Listed(text(id), due, priority, attempts, self._codec.loads(raw)) for id, due, priority, attempts, raw in reply]

        return Call(args if after is None else (*args, "AFTER", encoded(after)), read)

    def redrive(self, *ids: str, count: int | None = None) -> Call[int]:
        """Dead letters back to ready, attempts at 0: those named, or at most `count` (default 1,000). Replies how many."""
        args: tuple[Word, ...] = ("ZQ.REDRIVE", self.key)
        if ids:
            args += ("ID", *map(encoded, ids))
        return Call(args if count is None else (*args, "COUNT", count), int)

    def clean(
        self, state: Literal["ready", "delayed", "dead"], *, older: Duration | None = None, count: int | None = None
    ) -> Call[int]:
        """Removes up to `count` (default 1,000) jobs of a state, oldest first. Replies how many; 0: done."""
        args: tuple[Word, ...] = ("ZQ.CLEAN", self.key, state.upper())
        if older is not None:
            args += ("OLDER", duration(older))
        return Call(args if count is None else (*args, "COUNT", count), int)

    def stats(self) -> Call[dict[str, Any]]:
        """Figures and settings, by the names of ZQ.STATS."""
        return Call(("ZQ.STATS", self.key), _figures)

    def configure(
        self,
        *,
        attempts: int | None = None,
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
        """ZQ.CONFIG. Settings that are not given stay as they are; 0 switches one off."""
        args: list[Word] = ["ZQ.CONFIG", self.key]
        for name, number in (
            ("ATTEMPTS", attempts),
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
        """No claims until `resume`."""
        return self.configure(paused=True)

    def resume(self) -> Call[None]:
        return self.configure(paused=False)

    def groups(self, *, count: int | None = None, after: str | None = None) -> Call[list[Group]]:
        args: tuple[Word, ...] = ("ZQ.GROUPS", self.key)
        if after is not None:
            args += ("AFTER", encoded(after))
        if count is not None:
            args += ("COUNT", count)
        return Call(args, lambda reply: [Group(optional_text(row[0]), *row[1:4]) for row in reply])


def queues(*, count: int | None = None, after: str | None = None) -> Call[list[str]]:
    """The names of the queues of this database."""
    args: tuple[Word, ...] = ("ZQ.LIST",)
    if after is not None:
        args += ("AFTER", encoded(after))
    return Call(args if count is None else (*args, "COUNT", count), texts)


_codec_of = codec


def _due(delay: Duration | None, at: Instant | None) -> tuple[Word, ...]:
    if delay is not None and at is not None:
        raise TypeError("either delay or at")
    if at is not None:
        return ("AT", instant(at))
    return () if delay is None else ("DELAY", duration(delay))


def _plain(name: str, value: Any) -> Any:
    return text(value) if isinstance(value, bytes) and name != "payload" else value


def _figures(reply: Any) -> dict[str, Any]:
    return {name: _plain(name, value) for name, value in mapping(reply).items()}
