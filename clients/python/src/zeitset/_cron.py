"""Jobs that recur at times of the wall clock. `clients/cron-cases.json` defines what expressions mean, for Python and
Node.js."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

from ._call import Word
from ._shards import shard_of

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_CHANGE = timedelta(hours=3)  # no clock is set forward or back by more than this
_MS = timedelta(milliseconds=1)
_YEARS = 41  # within this time, 29 February falls on each day of the week
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_DAYS = "sun mon tue wed thu fri sat".split()
_NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


class Schedule:
    """A cron expression of five fields: minute, hour, day of the month, month, day of the week (0 and 7: Sunday).

    A field is a list. Each item is `*`, a number, a name, a range, or a step of `*` or of a range. If neither of the
    two fields for days begins with `*`, a day has to match only one of them.
    """

    def __init__(self, expression: str) -> None:
        fields = _NAMED.get(expression.strip().lower(), expression).split()
        if len(fields) != 5:
            raise ValueError("expected five fields: minute, hour, day of the month, month, day of the week")
        minute, hour, day, month, weekday = fields
        self.minutes = _numbers(minute, 0, 59)
        self.hours = _numbers(hour, 0, 23)
        self.every_hour = hour.startswith("*")
        self._days = set(_numbers(day, 1, 31))
        self._months = set(_numbers(month, 1, 12, _MONTHS))
        self._weekdays = {number % 7 for number in _numbers(weekday, 0, 7, _DAYS)}
        self._either = not day.startswith("*") and not weekday.startswith("*")

    def days(self, first: date) -> Iterator[date]:
        day, last = first, first + timedelta(days=366 * _YEARS)
        while day < last:
            if day.month not in self._months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            in_month, in_week = day.day in self._days, day.isoweekday() % 7 in self._weekdays
            if (in_month or in_week) if self._either else (in_month and in_week):
                yield day
            day += timedelta(days=1)


def _numbers(field: str, low: int, high: int, names: list[str] = []) -> list[int]:
    def number(word: str) -> int:
        if word.lower() in names:
            return low + names.index(word.lower())
        if not (word.isascii() and word.isdigit() and low <= int(word) <= high):
            raise ValueError(f"{word!r} is not a number from {low} to {high}")
        return int(word)

    found: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        first, dash, last = span.partition("-")
        if slash and not (step.isascii() and step.isdigit() and int(step) > 0 and (dash or span == "*")):
            raise ValueError(f"{part!r} is not a step of * or of a range")
        begin = low if span == "*" else number(first)
        end = high if span == "*" else number(last) if dash else begin
        if end < begin:
            raise ValueError(f"{span!r} is a range that ends before it begins")
        found.update(range(begin, end + 1, int(step) if slash else 1))
    return sorted(found)


class Cron:
    """A job that recurs: `Cron("report", "0 3 * * *", tz="Europe/Berlin")`. `name` is the id of the job.

    If a run has failed `max_attempts` times, the worker drops the run. The next run starts at its usual time.
    """

    def __init__(
        self,
        name: str,
        expression: str,
        *,
        tz: str = "UTC",
        payload: Any = None,
        queue: str | None = None,
        max_attempts: int = 5,
        priority: int = 0,
        group: str | None = None,
    ) -> None:
        self._zone = ZoneInfo(tz)
        try:
            self._schedule = Schedule(expression)
            next(self._schedule.days(date(2024, 1, 1)))
        except ValueError as error:
            raise ValueError(f"not a cron expression: {expression!r}: {error}") from None
        except StopIteration:
            raise ValueError(f"this cron expression never comes: {expression!r}") from None
        if max_attempts < 1:
            raise ValueError("max_attempts must be 1 or more")
        self.name = name
        self.expression = expression
        self.payload = payload
        self.queue = queue
        self.max_attempts = max_attempts
        self.priority = priority
        self.group = group

    def next_ms(self, after_ms: int) -> int:
        """Returns the first time after `after_ms`, in Unix ms.

        The expression gives times of the wall clock. If the clock is set forward and skips a time, the job runs later
        by the length of that change. If a time occurs twice, the job runs once, or twice if the hour field begins with
        `*` (as in Vixie cron).
        """
        start = self._at(after_ms).replace(tzinfo=None, fold=0)
        best: int | None = None
        for wall in self._walls(start if self._is_steady(after_ms) else start - _CHANGE):
            if best is not None and self._unix_ms(wall - _CHANGE) > best:
                return best
            once, again = self._unix_ms(wall), self._unix_ms(wall.replace(fold=1))
            # If the change of the clock skips `wall`, `again` is before `once`.
            moments = (once, again) if self._schedule.every_hour and again > once else (once,)
            later = [ms for ms in moments if ms > after_ms]
            best = min(later if best is None else [best, *later], default=None)
            # Near a change of the clock, the search goes on, because a later wall time may be an earlier moment.
            if best is not None and self._is_steady(best):
                return best
        raise ValueError(f"this cron expression never comes: {self.expression!r}")

    def _at(self, ms: int) -> datetime:
        return (_EPOCH + ms * _MS).astimezone(self._zone)

    def _is_steady(self, ms: int) -> bool:
        """Returns whether the UTC offset of the zone is the same shortly before and shortly after the moment."""
        at = _EPOCH + ms * _MS
        return (at - _CHANGE).astimezone(self._zone).utcoffset() == (at + _CHANGE).astimezone(self._zone).utcoffset()

    def _walls(self, start: datetime) -> Iterator[datetime]:
        for day in self._schedule.days(start.date()):
            for hour in self._schedule.hours:
                for minute in self._schedule.minutes:
                    wall = datetime(day.year, day.month, day.day, hour, minute)
                    if wall >= start:
                        yield wall

    def _unix_ms(self, wall: datetime) -> int:
        return (wall.replace(tzinfo=self._zone).astimezone(timezone.utc) - _EPOCH) // _MS

    def push(self, queue: str, payload: bytes, at_ms: int) -> tuple[Word, ...]:
        """Returns the command that pushes the job, due at `at_ms`. If the job is in the queue, the command does
        nothing. MAXATTEMPTS is 0 (no limit), because the worker counts the attempts."""
        args: tuple[Word, ...] = ("ZQ.PUSH", queue, payload, "ID", self.name, "AT", f"{at_ms}ms", "MAXATTEMPTS", 0)
        if self.priority:
            args += ("PRIORITY", self.priority)
        return args if self.group is None else (*args, "GROUP", self.group)

    def is_as_pushed(self, run: dict[str, Any], payload: bytes) -> bool:
        """Returns whether a waiting run has this payload, and the priority and group of this object."""
        is_same = run["payload"] == payload and run["priority"] == self.priority
        return is_same and (run["group"] or b"") == (self.group or "").encode()


def is_run(job: dict[str, Any], now_ms: int, ahead_ms: int) -> bool:
    """Returns whether a job is a run that waits for a time of a cron expression, for another second at least. Such a
    run has no limit of attempts, is due at a whole minute, and has never been claimed."""
    is_waiting: bool = job.get("state") == b"delayed" and job["attempts"] == 0 and job["due_ms"] > now_ms + 1000
    return is_waiting and (job["due_ms"] + ahead_ms) % 60_000 == 0 and not job["max_attempts"] and job["every_ms"] is None


def by_key(crons: Iterable[Cron], keys: Mapping[str, list[str]]) -> dict[tuple[str, str], Cron]:
    """Returns the recurring jobs by their key and name. `keys`: the keys of the shards of each queue."""
    found: dict[tuple[str, str], Cron] = {}
    names: set[tuple[str, str]] = set()
    for cron in crons:
        queue = cron.queue or next(iter(keys))
        if queue not in keys:
            raise ValueError(f"the worker does not serve the queue of {cron.name!r}: {queue!r}")
        if (queue, cron.name) in names:
            raise ValueError(f"two recurring jobs of one name: {cron.name!r}")
        names.add((queue, cron.name))
        found[keys[queue][shard_of(cron.name, cron.group, len(keys[queue]))], cron.name] = cron
    return found
