from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis

from zeitset import Queue


def test_jobs_are_pushed_and_looked_at(r: Any) -> None:
    mails = Queue(r, "mails")
    assert mails.push({"to": "ann"}, id="mail:1") == "mail:1"
    assert mails.push({"to": "bob"}, id="mail:1") is None
    assert mails.push({"to": "bob"}, id="mail:1", replace=True) == "mail:1"
    later = datetime(2100, 1, 1, tzinfo=timezone.utc)
    assert mails.push("ü", id="mail:2", at=later, priority=-5, attempts=3) == "mail:2"
    job = mails.get("mail:2")
    assert job and (job.state, job.payload, job.priority, job.attempts) == ("delayed", "ü", -5, 0)
    assert job.due_ms == later.timestamp() * 1000 and job.fields["max_attempts"] == 3
    assert mails.get("mail:3") is None
    assert [(job.id, job.payload) for job in mails.peek()] == [("mail:1", {"to": "bob"})]
    assert mails.reschedule("mail:2", delay=0) and not mails.reschedule("mail:3", delay=0)
    assert [job.id for job in mails.peek(count=5)] == ["mail:2", "mail:1"]
    assert mails.stats()["ready"] == 2
    assert mails.cancel("mail:1", "mail:3") == 1


def test_a_push_without_an_id_has_one_all_the_same(r: Any) -> None:
    mails = Queue(r, "mails")
    call = mails.calls.push("x")
    ids = {call.parse(r.execute_command(*call.args)) for _ in range(2)}
    assert len(ids) == 1 and mails.stats()["ready"] == 1, "a push that is repeated is the same job"
    assert mails.push("x") not in ids


def test_delays_and_periods(one: Any) -> None:
    jobs = Queue(one, "jobs")
    jobs.push(1, id="a", delay=timedelta(hours=1), every="1d")
    job = jobs.get("a")
    assert job and job.state == "delayed" and job.fields["every_ms"] == 86_400_000
    with pytest.raises(TypeError):
        jobs.push(1, delay=1, at=1)


def test_settings(one: Any) -> None:
    jobs = Queue(one, "jobs")
    jobs.configure(attempts=3, backoff=(1, "1h"), maxlen=1, rate=(5, "1s"), concurrency=9, aging="1m")
    stats = jobs.stats()
    assert (stats["attempts"], stats["backoff_base_ms"], stats["rate_limit"], stats["maxlen"]) == (3, 1000, 5, 1)
    jobs.pause()
    assert jobs.stats()["paused"] == "yes"
    jobs.resume()
    assert jobs.stats()["paused"] == "no"
    jobs.push(1)
    with pytest.raises(redis.ResponseError, match="QUEUEFULL"):
        jobs.push(2)


def test_bytes_go_as_they_are(r: Any) -> None:
    raw = Queue(r, "raw", codec="bytes")
    raw.push(b"\xff\x00", id="a")
    assert raw.peek()[0].payload == b"\xff\x00"
    with pytest.raises(TypeError):
        raw.push("text")
