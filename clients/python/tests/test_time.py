from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis

from zeitset import Retry, Worker
from zeitset._time import duration, instant, rate


@pytest.mark.parametrize(
    "value, expected",
    [
        (5, "5000ms"),
        (0.1, "100ms"),
        (0.0001, "1ms"),
        (1e-7, "1ms"),
        ("5m", "300000ms"),
        ("1.5H", "5400000ms"),
        ("250ms", "250ms"),
        ("7", "7000ms"),
        (timedelta(minutes=2), "120000ms"),
        (timedelta(microseconds=1), "1ms"),
        (timedelta(days=60), "5184000000ms"),
        (0, "0ms"),
    ],
)
def test_durations_are_rounded_up_to_milliseconds(value: object, expected: str) -> None:
    assert duration(value) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, True, float("nan"), float("inf"), "soon", "-5s", "5 s", "", timedelta(seconds=-1), None])
def test_what_is_no_duration_is_refused(value: object) -> None:
    with pytest.raises((ValueError, OverflowError)):
        duration(value)  # type: ignore[arg-type]


def test_negative_durations_are_refused_everywhere() -> None:
    with pytest.raises(ValueError):
        Retry(after=timedelta(seconds=-1))
    for option in ("lease", "grace", "block"):
        for value in (-1, timedelta(seconds=-1), float("nan")):
            options: Any = {option: value}
            with pytest.raises(ValueError):
                Worker(redis.Redis(), "q", lambda job: None, **options)


def test_instants_need_a_zone() -> None:
    assert instant(datetime(2026, 12, 24, 18, tzinfo=timezone.utc)) == "1798135200000ms"
    assert instant(datetime(2026, 12, 24, 18, tzinfo=timezone(timedelta(hours=1)))) == "1798131600000ms"
    assert instant(1767225600) == "1767225600"
    with pytest.raises(ValueError, match="zone"):
        instant(datetime(2026, 12, 24, 18))


@pytest.mark.parametrize(
    "text, limit, window_ms",
    [
        ("5/1m", 5, 60_000),
        ("5/m", 5, 60_000),
        ("5/minute", 5, 60_000),
        ("100/2 hours", 100, 7_200_000),
        ("10 / 250ms", 10, 250),
        ("1000/Day", 1000, 86_400_000),
        ("3/1.5h", 3, 5_400_000),
    ],
)
def test_rates(text: str, limit: int, window_ms: int) -> None:
    assert rate(text) == (limit, window_ms)


@pytest.mark.parametrize("text", ["5", "5/", "/m", "5/fortnight", "0/m", "5/0s", "-5/m", "5/ms/s", "5/minutess"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        rate(text)
