"""Recurring jobs at times of the wall clock."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from ._call import Word

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_HOURS = 3 * 3_600_000  # longer than any clock is set forward or back


class Cron:
    """A job that recurs: `Cron("report", "0 3 * * *", tz="Europe/Berlin")`. Its name is the job's id.

    A run that failed `attempts` times is given up; the next one comes at its time all the same. Needs `zeitset[cron]`.
    """

    def __init__(
        self,
        name: str,
        expression: str,
        *,
        tz: str = "UTC",
        payload: Any = None,
        queue: str | None = None,
        attempts: int = 5,
        priority: int = 0,
        group: str | None = None,
    ) -> None:
        try:
            from croniter import croniter
        except ImportError as error:
            raise ImportError("Cron needs croniter: pip install 'zeitset[cron]'") from error
        self._iterate = croniter
        self._zone = ZoneInfo(tz)
        if not croniter.is_valid(expression):
            raise ValueError(f"not a cron expression: {expression!r}")
        if attempts < 1:
            raise ValueError("attempts is 1 or more")
        self._every_hour = len(expression.split()) >= 2 and expression.split()[1].startswith("*")
        self.name = name
        self.expression = expression
        self.payload = payload
        self.queue = queue
        self.attempts = attempts
        self.priority = priority
        self.group = group

    def next_ms(self, after_ms: int) -> int:
        """The first time after that moment, in Unix ms.

        The expression is read on the wall clock. A time that a change of the clock skips comes as much later as the clock was set
        forward. A time that comes twice counts once, or twice if the hour is `*` (as in Vixie cron).
        """
        after = self._at(after_ms)
        near_change = self._at(after_ms - _HOURS).utcoffset() != self._at(after_ms + _HOURS).utcoffset()
        start = after.replace(tzinfo=None, fold=0) - (timedelta(milliseconds=_HOURS) if near_change else timedelta())
        times = self._iterate(self.expression, start)
        second: int | None = None
        while True:
            wall: datetime = times.get_next(datetime)
            ms = self._unix_ms(wall)
            if self._every_hour:
                again = self._unix_ms(wall.replace(fold=1))
                if ms <= after_ms < again and second is None:
                    second = again
            if ms > after_ms:
                return ms if second is None else min(ms, second)

    def _at(self, ms: int) -> datetime:
        return (_EPOCH + timedelta(milliseconds=ms)).astimezone(self._zone)

    def _unix_ms(self, wall: datetime) -> int:
        moment = wall.replace(tzinfo=self._zone).astimezone(timezone.utc)
        return (moment - _EPOCH) // timedelta(milliseconds=1)

    def push(self, queue: str, payload: bytes, at_ms: int) -> tuple[Word, ...]:
        """Does nothing if the job is there. It cannot die: attempts are counted by the worker."""
        args: tuple[Word, ...] = ("ZQ.PUSH", queue, payload, "ID", self.name, "AT", f"{at_ms}ms", "ATTEMPTS", 0)
        if self.priority:
            args += ("PRIORITY", self.priority)
        return args if self.group is None else (*args, "GROUP", self.group)


def by_queue(crons: Iterable[Cron], queues: list[str]) -> dict[tuple[str, str], Cron]:
    found: dict[tuple[str, str], Cron] = {}
    for cron in crons:
        queue = cron.queue or queues[0]
        if queue not in queues:
            raise ValueError(f"the worker does not serve the queue of {cron.name!r}: {queue!r}")
        if (queue, cron.name) in found:
            raise ValueError(f"two recurring jobs of one name: {cron.name!r}")
        found[queue, cron.name] = cron
    return found
