"""A job that a worker holds, and what came of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Literal

from ._call import Call, Word

EventKind = Literal[
    "claimed", "completed", "failed", "retried", "discarded", "lost", "released", "stale", "error", "connected", "disconnected"
]


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
        "queue", "id", "token", "attempt", "deadline_ms", "raw", "payload", "lost", "stopping",
        "_chained", "_expires", "_task", "_started",
    )  # fmt: skip

    def __init__(self, queue: str, id: str, token: int, attempt: int, deadline_ms: int, raw: bytes) -> None:
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
        self.lost = False
        """True: the lease has ended; another worker may run this job. Handlers in threads look at it."""
        self.stopping = False
        """True: the worker's grace is over, and the job was released. Handlers in threads look at it."""
        self._chained: list[Call[Any]] = []
        self._expires = 0.0
        self._started = 0.0
        self._task: asyncio.Task[None] | None = None

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


def error_text(error: BaseException) -> bytes:
    """`Type: message`, at most 1,024 bytes of whole characters."""
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return message.encode("utf-8", "replace")[:1024].decode("utf-8", "ignore").encode()
