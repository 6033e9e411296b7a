from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis
import redis.asyncio

from zeitset import Queue, Stats, Undecodable
from zeitset.asyncio import Queue as AsyncQueue


def test_jobs_are_pushed_and_looked_at(r: Any) -> None:
    mails = Queue(r, "mails")
    assert mails.push({"to": "ann"}, id="mail:1") == "mail:1"
    assert mails.push({"to": "bob"}, id="mail:1") is None
    assert mails.push({"to": "bob"}, id="mail:1", replace=True) == "mail:1"
    later = datetime(2100, 1, 1, tzinfo=timezone.utc)
    assert mails.push("ü", id="mail:2", at=later, priority=-5, max_attempts=3) == "mail:2"
    job = mails.get("mail:2")
    assert job and (job.state, job.payload, job.priority, job.attempts) == ("delayed", "ü", -5, 0)
    assert job.due_ms == later.timestamp() * 1000 and job.fields["max_attempts"] == 3
    assert mails.get("mail:3") is None
    assert [(job.id, job.payload) for job in mails.peek()] == [("mail:1", {"to": "bob"})]
    assert mails.reschedule("mail:2", delay=0) and not mails.reschedule("mail:3", delay=0)
    assert [job.id for job in mails.peek(count=5)] == ["mail:2", "mail:1"]
    assert mails.stats()["ready"] == 2
    assert Queue(r, "none").stats() is None
    assert mails.cancel("mail:1", "mail:3") == 1


def test_a_job_is_done_once_more_after_the_last_push(one: Any) -> None:
    index = Queue(one, "index")
    assert index.push({"rev": 1}, id="7", again=True) == "7"
    assert index.push({"rev": 2}, id="7", again=True) == "7"
    [[_, _, token, *_]] = one.execute_command("ZQ.CLAIM", 1, "index", "LEASE", "1m")
    assert index.push({"rev": 3}, id="7", again=True) == "7"
    job = index.get("7")
    assert job and (job.state, job.payload, job.again) == ("claimed", {"rev": 2}, {"rev": 3})
    assert index.peek() == []
    one.execute_command("ZQ.ACK", "index", "7", token)
    job = index.get("7")
    assert job and (job.state, job.payload, job.again) == ("ready", {"rev": 3}, None)
    with pytest.raises(TypeError, match="id"):
        index.push(1, again=True)
    with pytest.raises(TypeError, match="either"):
        index.push(1, id="7", again=True, replace=True)


def test_a_job_is_worth_doing_until_its_ttl_is_over(one: Any) -> None:
    prices = Queue(one, "prices")
    prices.push("shop", id="7", delay="1h", ttl=timedelta(minutes=5))
    job = prices.get("7")
    assert job and job.fields["ttl_ms"] == 300_000 and job.fields["expires_ms"] == job.due_ms + 300_000
    prices.push("shop", id="8", ttl=0.001)
    for _ in range(500):
        if (prices.stats() or {})["expired"]:
            break
        time.sleep(0.01)
    assert prices.get("8") is None and prices.peek() == []


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
    jobs.configure(group_concurrency=3, group_rate=(10, "1m"))
    stats = jobs.stats()
    assert (stats["groupconcurrency"], stats["grouprate_limit"], stats["grouprate_window_ms"]) == (3, 10, 60_000)
    jobs.configure(max_attempts=3, backoff=(1, "1h"), maxlen=1, rate=(5, "1s"), concurrency=9, aging="1m")
    stats = jobs.stats()
    assert (stats["max_attempts"], stats["backoff_base_ms"], stats["rate_limit"], stats["maxlen"]) == (3, 1000, 5, 1)
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


def test_a_payload_that_cannot_be_decoded_hides_no_other(r: Any) -> None:
    mails = Queue(r, "mails")
    for id, raw in (("a", b"\xff{"), ("b", b"NaN"), ("c", b"1")):
        r.execute_command("ZQ.PUSH", "mails", raw, "ID", id)
    bad, nan, good = (job.payload for job in mails.peek())
    assert isinstance(bad, Undecodable) and (bad.raw, type(bad.error)) == (b"\xff{", UnicodeDecodeError)
    assert isinstance(nan, Undecodable) and good == 1
    job = mails.get("a")
    assert job and isinstance(job.payload, Undecodable) and job.state == "ready"


def test_a_header_before_the_payload_is_no_part_of_it(r: Any) -> None:
    mails, parent = Queue(r, "mails"), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    mails.push({"to": "ann"}, traceparent=parent, timeout="1.5s")
    mails.push(None, timeout=timedelta(minutes=1))
    raw = [row[4] for row in r.execute_command("ZQ.PEEK", "mails", NEVER_DECODE=True)]
    assert raw == [f'traceparent: {parent}\ntimeout: 1500ms\n{{"to":"ann"}}'.encode(), b"timeout: 60000ms\nnull"]
    assert [job.payload for job in mails.peek()] == [{"to": "ann"}, None]
    # A later version of the library may write other header lines.
    r.execute_command("ZQ.PUSH", "mails", 'for: ann \u00e9\ntimeout: 5m\n"x"'.encode("latin1"), "ID", "a")
    job = mails.get("a")
    assert job and job.payload == "x"


@pytest.mark.parametrize("codec", ["bytes", type("Raw", (), {"dumps": bytes, "loads": bytes})])
def test_other_codecs_have_no_header(one: Any, codec: Any) -> None:
    queue = Queue(one, "q", codec=codec)
    for option in ({"timeout": 1}, {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}):
        with pytest.raises(TypeError, match="a traceparent and a timeout travel with JSON payloads only"):
            queue.push(b"x", **option)
    queue.push(b"timeout: 5s\nx", id="a")
    job = queue.get("a")
    assert job and job.payload == b"timeout: 5s\nx"


@pytest.mark.parametrize("timeout", [0, -1, "soon", float("nan")])
def test_an_invalid_timeout_is_not_pushed(one: Any, timeout: Any) -> None:
    with pytest.raises(ValueError):
        Queue(one, "q").push("x", timeout=timeout)
    assert Queue(one, "q").stats() is None


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_no_json_is_not_pushed(one: Any, number: float) -> None:
    with pytest.raises(ValueError):
        Queue(one, "q").push({"x": number})
    assert one.exists("q") == 0


def test_many_jobs_are_pushed_in_one_go(r: Any) -> None:
    mails = Queue(r, "mails")
    mails.push("x", id="b")
    ids = mails.push_many([{"payload": 1, "id": "a"}, {"payload": 2, "id": "b"}, {"payload": 3, "priority": -1}])
    assert ids[:2] == ["a", None] and ids[2] and mails.push_many([]) == []
    assert [(job.id, job.payload) for job in mails.peek()] == [(ids[2], 3), ("b", "x"), ("a", 1)]
    mails.configure(maxlen=4)
    with pytest.raises(redis.ResponseError, match="QUEUEFULL"):
        mails.push_many([{"payload": number} for number in range(3)])
    assert mails.stats()["ready"] == 4
    with pytest.raises(ValueError):
        mails.push_many([{"payload": 1}, {"payload": float("nan")}])


def test_many_jobs_are_pushed_with_asyncio(shared: Any, one: Any) -> None:
    async def main() -> list[str | None]:
        async with redis.asyncio.Redis(port=shared.port) as r:
            return await AsyncQueue(r, "q").push_many([{"payload": 1, "id": "a"}, {"payload": 2, "id": "a"}])

    assert asyncio.run(main()) == ["a", None]


def test_the_jobs_of_one_group_are_shown_held_and_redriven(r: Any) -> None:
    calls = Queue(r, "calls")
    calls.push_many([{"payload": id, "id": id, "group": group} for id, group in (("a", "acme"), ("b", "bloom"), ("c", "acme"))])
    assert [job.id for job in calls.peek(group="acme")] == ["a", "c"]
    assert [job.id for job in calls.peek(group="acme", after="a")] == ["c"] and calls.peek(group="") == []
    assert calls.hold("acme", "1h") and not calls.hold("nobody", "1h")
    acme, bloom = calls.groups()
    assert [group.name for group in calls.groups(largest=True, count=1)] == ["acme"]
    with pytest.raises(TypeError, match="either"):
        calls.groups(largest=True, after="acme")
    assert (acme.name, acme.ready, bloom.held_until_ms) == ("acme", 2, None)
    assert acme.held_until_ms and acme.held_until_ms > 1_700_000_000_000
    ((_, id, token, *_),) = r.execute_command("ZQ.CLAIM", 1, "calls", "LEASE", "1h", "COUNT", 9, "AS", "w1")
    assert id in (b"b", "b"), "the jobs of acme rest"
    (held,) = calls.peek("claimed", lease=True)
    assert held.lease and (held.id, held.lease.worker, held.lease.token) == ("b", "w1", token)
    assert held.lease.deadline_ms == held.due_ms and calls.peek("claimed")[0].lease is None
    assert calls.hold("acme", 0) and calls.groups()[0].held_until_ms is None
    for _, id, token, *_ in r.execute_command("ZQ.CLAIM", 1, "calls", "LEASE", "1h", "COUNT", 9):
        r.execute_command("ZQ.NACK", "calls", id, token, "DEAD")
    assert calls.redrive("a", group="bloom") == 0 and calls.redrive(group="bloom") == 0
    assert calls.redrive("a", group="acme") == 1 and calls.clean("dead", group="bloom") == 0
    assert calls.clean("dead", group="acme") == 1 and calls.stats()["ready"] == 1


def test_the_fields_of_stats_are_those_of_the_server(r: Any) -> None:
    queue = Queue(r, "q")
    queue.push("x")
    stats = queue.stats()
    assert stats is not None and list(stats) == list(Stats.__annotations__)
