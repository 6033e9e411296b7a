"""A job that a worker holds, and what came of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from ._call import Call, Word
from .errors import LeaseLost

EventKind = Literal[
    "claimed", "completed", "failed", "retried", "discarded", "dead", "lost", "released", "stale",
    "error", "connected", "disconnected", "refused",
]  # fmt: skip


@dataclass(frozen=True)
class Event:
    """What `on_event` is told."""

    kind: EventKind
    job: Job | None = None
    seconds: float = 0.0
    """How long the handler ran."""
    error: BaseException | None = None


class Job:
    """What a handler gets."""

    __slots__ = (
        "queue", "id", "token", "attempt", "deadline_ms", "raw", "payload", "traceparent", "timeout_ms", "lost", "stopping",
        "_cancellable", "_chained", "_done", "_expires", "_key", "_reported", "_source", "_started", "_task", "_timer",
    )  # fmt: skip

    def __init__(
        self, queue: str, id: str, token: int, attempt: int, deadline_ms: int, raw: bytes, key: str | None = None
    ) -> None:
        self.queue = queue
        self.id = id
        self.token = token
        """Grows with every claim of the queue: store it with what the handler writes, and refuse a smaller one."""
        self.attempt = attempt
        """From 1."""
        self.deadline_ms = deadline_ms
        """The end of the lease as the claim replied it; heartbeats move it."""
        self.raw = raw
        """The payload as it was pushed."""
        self.payload: Any = None
        self.traceparent: str | None = None
        """That of the push, if it came with the job."""
        self.timeout_ms: int | None = None
        """How long the handler may run, if the push said so; then the worker's `timeout` does not apply."""
        self.lost = False
        """True: the lease has expired, or the job ran longer than its `timeout`; another worker may run it."""
        self.stopping = False
        """True: the worker's grace is over, and it releases the job."""
        self._key = queue if key is None else key
        """That of the shard, if the queue has shards."""
        self._source: Any = None
        """Claimed it, and reports it."""
        self._chained: list[Call[Any]] = []
        self._done = False
        self._expires = 0.0
        self._reported = False
        self._started = 0.0
        self._task: asyncio.Task[None] | None = None
        self._cancellable = False
        """Whether the handler runs in the event loop."""
        self._timer: asyncio.TimerHandle | None = None

    def check(self) -> None:
        """Raises LeaseLost if the job is not this worker's any more. Handlers in threads call it now and then."""
        if self.lost or self.stopping:
            raise LeaseLost("the worker stops" if self.stopping else "the lease has expired, or the job took too long")

    def done(self) -> None:
        """Says that the work is done. Without it, a job whose lease was lost is not acknowledged, though its handler returns."""
        self._done = True

    def chain(self, call: Call[Any]) -> None:
        """Sends `call` in the same MULTI as the ACK of this job: `job.chain(mails.calls.push("done", id=f"{job.id}:mail"))`.

        An ACK that comes too late does not stop it; so give a push an id.
        """
        self._chained.append(call)

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self.queue}, attempt {self.attempt}>"


@dataclass(frozen=True)
class Outcome:
    """What is still to be told to the server about a job."""

    job: Job
    event: Event
    nack: tuple[Word, ...] | None = None
    """The options of ZQ.NACK; None: ZQ.ACK."""
    chained: tuple[tuple[Word, ...], ...] = ()
    repeated: bool = False
    """Whether it was sent before, and the reply got lost."""

    @property
    def may_be_last(self) -> bool:
        """Whether the job may have become a dead letter by this."""
        return self.nack is not None and "FREE" not in self.nack and "DEAD" not in self.nack


def error_text(error: BaseException) -> bytes:
    """`Type: message`, at most 1,024 bytes of whole characters."""
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return message.encode("utf-8", "replace")[:1024].decode("utf-8", "ignore").encode()
