"""Durations, instants and rates: converts what callers pass to arguments of commands."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from functools import partial
from math import ceil
from numbers import Real
from typing import NamedTuple, Union

Duration = Union[int, float, str, timedelta]
"""Seconds, a `timedelta`, or a string that Redis takes: `"250ms"` `"5m"` `"1.5h"`."""

Instant = Union[datetime, int, str]
"""A `datetime` with a zone, or what Redis takes after AT: Unix seconds or milliseconds, RFC 3339."""

_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_WORDS = {"millisecond": "ms", "sec": "s", "second": "s", "min": "m", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_MOST = 2**53 - 1
"""The largest number that the commands accept."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])?", re.ASCII | re.IGNORECASE)
_RATE = re.compile(r"\s*(\d+)\s*/\s*(?=[\da-z])(\d+(?:\.\d+)?)?\s*([a-z]*)\s*", re.ASCII | re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
now: Callable[[], float] = time.monotonic if _CLOCK is None else partial(time.clock_gettime, _CLOCK)
"""Returns the seconds since a fixed moment. Like the server's clock, it counts the time while the machine sleeps."""


def milliseconds(value: Duration) -> int:
    """Returns a duration in milliseconds, rounded up as the server does."""
    if isinstance(value, timedelta) and value >= timedelta():
        return -(value // timedelta(milliseconds=-1))
    if isinstance(value, str) and (match := _DURATION.fullmatch(value)):
        return ceil(Fraction(match[1]) * _MS[(match[2] or "s").lower()])
    if isinstance(value, (Real, Decimal)) and not isinstance(value, bool) and 0 <= value < float("inf"):
        return ceil(Fraction(str(value)) * 1000)
    raise ValueError(f"not a duration: {value!r}; expected seconds, a timedelta, or a number with ms, s, m, h, d or w")


def duration(value: Duration) -> str:
    return f"{milliseconds(value)}ms"


def instant(value: Instant) -> str:
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(f"a datetime needs a zone: {value!r}")
        return f"{-((value - _EPOCH) // timedelta(milliseconds=-1))}ms"
    return str(value)


class Rate(NamedTuple):
    """A limit of units per window."""

    limit: int
    window_ms: int


def rate(text: str) -> Rate:
    """Reads a rate: `"5/1m"`, `"5/m"`, `"5/minute"`, `"100/2 hours"`. A window without a unit is in seconds."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError(f"not a rate: {text!r}; expected units/window, such as '5/1m' or '100/hour'")
    word = match[3].lower() or "s"
    if word not in _MS:
        word = _WORDS.get(word, "") or _WORDS.get(word.removesuffix("s"), "")
    window = ceil(Fraction(match[2] or 1) * _MS.get(word, 0))
    if not (1 <= window <= _MOST and 1 <= int(match[1]) <= _MOST):
        raise ValueError(f"not a rate: {text!r}; a limit and a window are from 1 to {_MOST}")
    return Rate(int(match[1]), window)
