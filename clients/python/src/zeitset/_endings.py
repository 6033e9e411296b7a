"""Decides the outcome of a job whose handler has ended."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from time import monotonic

from ._call import Word
from ._job import Event, EventKind, Job, Outcome, error_text
from ._report import Outbox
from ._upkeep import Upkeep
from .errors import Discard, LeaseLost, Retry

log = logging.getLogger("zeitset")

_AT_ONCE: tuple[Word, ...] = ("DELAY", 0, "FREE")
_LONGEST_MS = 2**52
"""The server refuses a due time beyond 2^53 ms. A job with such a delay would not be reported."""


class Endings:
    def __init__(self, upkeep: Upkeep, backoff_ms: tuple[int, int], lease_ms: int, emit: Callable[[Event], None]) -> None:
        self.outbox = Outbox(self._delay, emit)
        self._upkeep = upkeep
        self._backoff_ms = backoff_ms
        self._lease_ms = lease_ms

    def conclude(self, job: Job, error: BaseException | None, hurried: bool = False) -> None:
        """Reports the outcome of a job. `hurried`: the worker stops without waiting for its handlers. A job with a
        cancelled handler is then returned to the queue."""
        is_cancelled = isinstance(error, asyncio.CancelledError)
        if job._done:
            if error is not None and not is_cancelled:
                log.warning("%r was done, and then its handler raised", job, exc_info=error)
            self.finish(job, "completed", None)
        elif job.lost:
            if error is not None and not is_cancelled and not isinstance(error, LeaseLost):
                log.warning("%r was lost, and then its handler raised", job, exc_info=error)
        elif job.stopping or (is_cancelled and hurried):
            self.release(job)
        elif isinstance(error, Discard):
            self.finish(job, "discarded", error)
        elif isinstance(error, Retry) and (error.free or not self._is_used_up(job)):
            after_ms = None if error.after_ms is None else min(error.after_ms, _LONGEST_MS)
            delay: tuple[Word, ...] = self._delay(job) if after_ms is None else ("DELAY", f"{after_ms}ms")
            free = ("FREE",) if error.free else ()
            hold = ("HOLD", f"{after_ms}ms") if error.hold and after_ms else ()
            self._report(job, "retried", error, (*delay, *free, *hold, "ERROR", error_text(error)))
        else:
            self.finish(job, "completed" if error is None else "failed", error)

    def release(self, job: Job) -> None:
        """Returns a job to the queue, so that another worker gets it at once. The attempt does not count."""
        self._report(job, "released", nack=_AT_ONCE)

    def finish(self, job: Job, kind: EventKind, error: BaseException | None) -> None:
        cron = self._upkeep.cron(job)
        if error is None or (cron is not None and (kind == "discarded" or self._is_used_up(job))):
            chained = tuple(call.words for call in job._chained) if error is None else ()
            if cron is not None:
                chained += (self._upkeep.next_run(job, cron, self._lease_ms),)
            self._report(job, kind, error, chained=chained)
        elif kind == "discarded":
            self._report(job, kind, error, ("DEAD", "ERROR", error_text(error)))
        else:
            self._report(job, kind, error, (*self._delay(job), "ERROR", error_text(error)))

    def _is_used_up(self, job: Job) -> bool:
        """Whether the job is a run of a recurring job, and has no attempt left."""
        cron = self._upkeep.cron(job)
        return cron is not None and job.attempt >= cron.max_attempts

    def _delay(self, job: Job) -> tuple[Word, ...]:
        """Returns the option DELAY for a failed job. If the queue has a BACKOFF, returns no option. Without any delay,
        a job that always fails would keep the worker busy."""
        if self._upkeep.has_backoff(job._key):
            return ()
        first, longest = self._backoff_ms
        wait = min(longest, first * 2 ** min(job.attempt - 1, 40))
        return ("DELAY", f"{min(int(wait * random.uniform(1.0, 1.25)), _LONGEST_MS)}ms")

    def _report(
        self,
        job: Job,
        kind: EventKind,
        error: BaseException | None = None,
        nack: tuple[Word, ...] | None = None,
        chained: tuple[tuple[Word, ...], ...] = (),
    ) -> None:
        self.outbox.add(Outcome(job, Event(kind, job, monotonic() - job._started, error), nack, chained))
