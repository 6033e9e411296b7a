"""A job that a worker holds, and its outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Literal

from ._call import Call, Word, encoded, mapping
from .errors import LeaseLost, boundary, described

_MAX_PROGRESS = 1024

EventKind = Literal[
    "claimed", "completed", "failed", "retried", "discarded", "dead", "lost", "released", "stale",
    "error", "connected", "disconnected", "refused",
]  # fmt: skip


@dataclass(frozen=True)
class Event:
    """An event of a worker: the argument of `on_event`."""

    kind: EventKind
    job: Job | None = None
    seconds: float = 0.0
    """How long the handler ran."""
    error: BaseException | None = None


class Job:
    """A job that a worker holds: the argument of a handler."""

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
        """A fencing token. Later claims of the queue have larger tokens. Let the handler store the token with its
        data, and refuse writes with a smaller token."""
        self.attempt = attempt
        """The number of the attempt, from 1."""
        self.deadline_ms = deadline_ms
        """When the lease expires, in Unix ms. Heartbeats update this value."""
        self.raw = raw
        """The payload as it was pushed."""
        self.payload: Any = None
        self.traceparent: str | None = None
        """The traceparent of the push, if the job has one."""
        self.timeout_ms: int | None = None
        """How long the handler may run, if the push gave a timeout. This value replaces the worker's `timeout`."""
        self.lost = False
        """Whether the lease has expired, or the job has run longer than its `timeout`. If so, another worker may run
        the job."""
        self.stopping = False
        """Whether the worker's grace is over, and the worker releases the job."""
        self._key = queue if key is None else key
        """The key of the queue, or of the shard if the queue has shards."""
        self._source: Any = None
        """The source that has claimed the job and will report its outcome."""
        self._chained: list[Call[Any]] = []
        self._done = False
        self._expires = 0.0
        self._reported = False
        self._started = 0.0
        self._task: asyncio.Task[None] | None = None
        self._cancellable = False
        """Whether the handler can be cancelled: it runs in the event loop, not in a thread."""
        self._timer: asyncio.TimerHandle | None = None

    def check(self) -> None:
        """Raises LeaseLost if this worker no longer holds the job. A handler in a thread should call `check` from time
        to time."""
        if self.lost or self.stopping:
            raise LeaseLost("the worker stops" if self.stopping else "the lease has expired, or the job took too long")

    def done(self) -> None:
        """Declares that the work is done, so that the job is acknowledged even if its lease was lost. Without `done`, a
        job whose lease was lost is not acknowledged when its handler returns."""
        self._done = True

    def progress(self, text: str) -> Any:
        """Stores how far the job has come: `job.progress("40 %")`. The queue shows the text (`Queue.get`), and keeps it for
        the next attempt (`last_progress`). At most 1,024 bytes. In a coroutine, `await` the result; a handler in a thread
        waits for it. Returns False if this worker no longer holds the job."""
        data = encoded(text)
        if len(data) > _MAX_PROGRESS:
            raise ValueError(f"a text of progress has at most {_MAX_PROGRESS} bytes, not {len(data)}")
        return self._asked(self._store(data))

    def last_progress(self) -> Any:
        """Reads the last text of `progress`, of this attempt or an earlier one; None if there is none. In a coroutine,
        `await` the result; a handler in a thread waits for it."""
        return self._asked(self._read())

    async def _store(self, text: bytes) -> bool:
        reply = await self._source.ask(("ZQ.PROGRESS", self._key, encoded(self.id), self.token, text))
        with boundary("ZQ.PROGRESS"):
            return int(reply) == 1

    async def _read(self) -> str | None:
        reply = await self._source.ask(("ZQ.GET", self._key, encoded(self.id)))
        with boundary("ZQ.GET"):
            found = mapping(reply or ()).get("progress")
        return None if found is None else bytes(found).decode("utf-8", "replace")

    def _asked(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        loop = self._source.loop
        try:
            is_inside = asyncio.get_running_loop() is loop
        except RuntimeError:
            is_inside = False
        return loop.create_task(coroutine) if is_inside else asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    def chain(self, call: Call[Any]) -> None:
        """Sends `call` in the same MULTI as the ACK of this job: `job.chain(mails.calls.push("done", id=f"{job.id}:mail"))`.

        The server carries out `call` even if the ACK is too late. So give a chained push an id, which prevents a second
        job.
        """
        if not all(isinstance(word, (str, bytes, int, float)) and not isinstance(word, bool) for word in call.words):
            raise TypeError(f"a word of a command is text, bytes or a number: {call.args!r}")
        self._chained.append(call)

    def __repr__(self) -> str:
        id = encoded(self.id).decode("utf-8", "backslashreplace")  # a log may refuse text without UTF-8
        return f"<Job {id} of {self.queue}, attempt {self.attempt}>"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a job, to be reported to the server."""

    job: Job
    event: Event
    nack: tuple[Word, ...] | None = None
    """The options of ZQ.NACK. None: the outcome is reported by ZQ.ACK."""
    chained: tuple[tuple[Word, ...], ...] = ()
    repeated: bool = False
    """Whether the outcome was sent before, and the reply got lost."""

    @property
    def may_be_last(self) -> bool:
        """Whether this outcome may have made the job a dead letter. If so, the worker asks the server."""
        return self.nack is not None and "FREE" not in self.nack and "DEAD" not in self.nack


def error_text(error: BaseException) -> bytes:
    """Returns the first 1,024 bytes of `Type: message`. Does not cut within a character."""
    return described(error).encode("utf-8", "replace")[:1024].decode("utf-8", "ignore").encode()
