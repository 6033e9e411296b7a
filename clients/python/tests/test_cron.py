from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from zeitset import Cron, Job, Queue

from .support import until, working


def utc(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1000)


@pytest.mark.parametrize(
    "expression, after, expected",
    [
        ("0 3 * * *", "2026-01-10T02:00", "2026-01-11T02:00"),
        ("0 3 * * *", "2026-07-10T01:00", "2026-07-11T01:00"),
        # The clock is set forward: 02:30 does not exist, so the job runs an hour later.
        ("30 2 * * *", "2026-03-28T01:30", "2026-03-29T01:30"),
        ("30 2 * * *", "2026-03-29T01:30", "2026-03-30T00:30"),
        ("*/20 * * * *", "2026-03-29T00:40", "2026-03-29T01:00"),
        # The clock is set back: 02:30 occurs twice, and counts once. With `*` as the hour, both times count.
        ("30 2 * * *", "2026-10-24T00:30", "2026-10-25T00:30"),
        ("30 2 * * *", "2026-10-25T00:30", "2026-10-26T01:30"),
        ("0 * * * *", "2026-10-25T00:00", "2026-10-25T01:00"),
        ("0 * * * *", "2026-10-25T01:00", "2026-10-25T02:00"),
        ("*/20 * * * *", "2026-10-25T00:40", "2026-10-25T01:00"),
        ("*/20 * * * *", "2026-10-25T01:20", "2026-10-25T01:40"),
        ("0 0 29 2 *", "2026-03-01T00:00", "2028-02-28T23:00"),
    ],
)
def test_times_are_those_of_the_wall_clock(expression: str, after: str, expected: str) -> None:
    assert Cron("x", expression, tz="Europe/Berlin").next_ms(utc(after)) == utc(expected)


def test_the_next_run_is_pushed_with_the_ack(one: Any) -> None:
    queue, runs = Queue(one, "q"), []

    def handler(job: Job) -> None:
        runs.append((job.id, job.payload))

    cron = Cron("report", "0 3 1 1 *", tz="Europe/Berlin", payload={"kind": "yearly"})
    with working(one, "q", handler, cron=[cron]) as watched:
        waiting = until(lambda: queue.get("report"))
        assert waiting.state == "delayed" and waiting.due_ms == cron.next_ms(utc("2026-11-21T00:00"))
        queue.reschedule("report", delay=0)
        until(lambda: watched.kinds() == ["completed"])
        assert runs == [("report", {"kind": "yearly"})]
        again = queue.get("report")
    assert again and (again.state, again.due_ms, again.attempts) == ("delayed", waiting.due_ms, 0)
    assert queue.stats()["pushed"] == 2


def test_a_run_that_fails_is_given_up_and_the_next_one_comes(one: Any) -> None:
    queue = Queue(one, "q")
    queue.configure(backoff=("1ms", "1ms"))

    def handler(job: Job) -> None:
        raise RuntimeError("no")

    with working(one, "q", handler, cron=[Cron("report", "0 3 1 1 *", max_attempts=3)]) as watched:
        until(lambda: queue.get("report"))
        queue.reschedule("report", delay=0)
        until(lambda: watched.kinds() == ["failed"] * 3)
        job = queue.get("report")
    assert job and (job.state, job.attempts) == ("delayed", 0)


def test_another_expression_moves_the_job(one: Any) -> None:
    queue = Queue(one, "q")
    for expression in ("0 3 1 1 *", "0 4 1 1 *", "0 4 1 1 *"):
        cron = Cron("report", expression)
        with working(one, "q", lambda job: None, cron=[cron]):
            until(lambda: (job := queue.get("report")) and job.due_ms == cron.next_ms(utc("2026-11-21T00:00")))
    assert queue.stats()["pushed"] == 1


def test_a_run_that_is_overdue_is_not_moved(one: Any) -> None:
    queue, runs = Queue(one, "q"), []
    queue.push(None, id="report", at=1767225600)
    with working(one, "q", lambda job: runs.append(job.id), cron=[Cron("report", "0 3 1 1 *")]):
        until(lambda: runs == ["report"])
        until(lambda: (job := queue.get("report")) and job.state == "delayed")


def test_mistakes() -> None:
    with pytest.raises(ValueError):
        Cron("x", "at noon")
    with pytest.raises(Exception, match="Nowhere"):
        Cron("x", "* * * * *", tz="Europe/Nowhere")
