"""The broker for dramatiq: dramatiq's own tests, delays, leases, workers that die."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from .support import Proxy, Server, until

dramatiq = pytest.importorskip("dramatiq")

from zeitset.dramatiq import ZeitsetBroker  # noqa: E402

SDIST = os.environ.get("DRAMATIQ_SDIST")
"""The unpacked source distribution of dramatiq."""
THEIRS = "sent_messages or retry_with_backoff or retry_multiple or messages_delayed or independent or join_with_timeout or flush"


@contextmanager
def working(broker: Any, threads: int = 4) -> Iterator[Any]:
    worker = dramatiq.Worker(broker, worker_timeout=50, worker_threads=threads)
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()
        broker.middleware.pop()  # the middleware that the worker has added


@pytest.fixture
def broker(one: Any) -> Iterator[ZeitsetBroker]:
    broker = ZeitsetBroker(client=one, lease=1)
    yield broker
    broker.close()


def test_a_delayed_message_stays_in_the_queue_and_runs_once(broker: ZeitsetBroker) -> None:
    """In dramatiq's own broker for Redis, a worker holds a delayed message, and sends it again when it is due."""
    runs: list[str] = []
    record = dramatiq.actor(runs.append, broker=broker, actor_name="record")
    due = time.monotonic() + 1
    record.send_with_options(args=("late",), delay=1000)
    for _ in range(3):
        with working(broker):
            record.send("now")
            until(lambda: runs.count("now") == 1)
            runs.clear()
            assert broker.queue("default").stats()["delayed"] == 1 or time.monotonic() > due
    with working(broker), working(ZeitsetBroker(client=broker.client)):
        broker.join("default", timeout=20_000)
        until(lambda: runs == ["late"])
    assert broker.queue("default").stats()["pushed"] == 4, "it was pushed once"


def test_retries_are_the_middlewares_and_what_fails_is_a_dead_letter(broker: ZeitsetBroker) -> None:
    runs: list[int] = []

    def fail() -> None:
        runs.append(1)
        raise RuntimeError("no")

    failing = dramatiq.actor(fail, broker=broker, actor_name="fail", max_retries=2, min_backoff=10, max_backoff=20)
    failing.send()
    with working(broker):
        until(lambda: broker.queue("default").stats()["dead"] == 1)
    assert len(runs) == 3
    (dead,) = broker.queue("default").peek("dead")
    found = broker.queue("default").get(dead.id)
    assert found is not None and found.error == "RuntimeError: no"
    broker.flush_all()
    assert broker.queue("default").peek("dead") == []


def test_dead_letters_are_kept_for_a_week_as_by_the_broker_of_dramatiq(shared: Server, one: Any) -> None:
    for name, ttl, expected in (("default", 7 * 24 * 3_600_000, 7 * 24 * 3_600_000), ("own", None, 0)):
        broker = ZeitsetBroker(client=one, dead_message_ttl=ttl)
        broker.queue(name).push(b"no message")
        consumer = broker.consume(name)
        assert next(consumer) is None
        stats = broker.queue(name).stats()
        assert stats is not None and (stats["dead"], stats["deadttl_ms"]) == (1, expected)
        consumer.close()
        broker.close()


def test_a_message_that_cannot_be_read_is_a_dead_letter(broker: ZeitsetBroker) -> None:
    broker.declare_queue("default")
    broker.queue("default").push(b"\xff")
    with working(broker):
        until(lambda: broker.queue("default").stats()["dead"] == 1)


def test_a_message_that_runs_longer_than_its_lease_runs_once(broker: ZeitsetBroker) -> None:
    runs: list[int] = []

    def work() -> None:
        runs.append(1)
        time.sleep(2.5)  # more than two leases

    dramatiq.actor(work, broker=broker, actor_name="work").send()
    with working(broker), working(ZeitsetBroker(client=broker.client)):
        broker.join("default", timeout=20_000)
    assert runs == [1] and broker.queue("default").stats()["pushed"] == 1


def test_a_worker_that_stops_gives_back_what_has_not_begun(broker: ZeitsetBroker) -> None:
    begun, go_on = Event(), Event()

    def work() -> None:
        begun.set()
        go_on.wait(20)

    actor = dramatiq.actor(work, broker=broker, actor_name="work")
    for _ in range(4):
        actor.send()
    queue = broker.queue("default")
    worker = dramatiq.Worker(broker, worker_timeout=50, worker_threads=1)
    worker.start()
    begun.wait(20)
    until(lambda: queue.stats()["claimed"] == 2)  # one runs, one is prefetched
    worker.workers[0].stop()
    go_on.set()
    worker.stop()
    broker.middleware.pop()
    ready = queue.peek("ready")
    assert len(ready) == 3 and {job.attempts for job in ready} == {0}


def test_priorities_are_those_of_actors(broker: ZeitsetBroker) -> None:
    order: list[str] = []
    low = dramatiq.actor(lambda: order.append("low"), broker=broker, actor_name="low", priority=10)
    high = dramatiq.actor(lambda: order.append("high"), broker=broker, actor_name="high", priority=1)
    for actor in (low, low, high):
        actor.send()
    assert [job.priority for job in broker.queue("default").peek()] == [1, 10, 10]
    with working(broker, threads=1):
        broker.join("default", timeout=20_000)
    assert sorted(order) == ["high", "low", "low"]


def test_lost_connections_lose_no_message_and_run_none_twice(shared: Server, one: Any) -> None:
    with Proxy(shared.port) as proxy:
        broker = ZeitsetBroker(url=f"redis://127.0.0.1:{proxy.port}", lease=20)
        runs: list[int] = []

        def work(number: int) -> None:
            runs.append(number)
            if number % 10 == 0:
                proxy.cut()

        actor = dramatiq.actor(work, broker=broker, actor_name="work")
        for number in range(1, 31):
            actor.send(number)
        direct = ZeitsetBroker(client=one)
        with working(broker):
            direct.join("default", timeout=60_000)
        broker.close()
    assert sorted(set(runs)) == list(range(1, 31))
    assert len(runs) == 30, "an ACK that is sent again counts"


def test_a_worker_that_is_killed_loses_nothing(shared: Server, one: Any, broker: ZeitsetBroker) -> None:
    code = """
import sys, time, dramatiq, redis
from zeitset.dramatiq import ZeitsetBroker
broker = ZeitsetBroker(url=sys.argv[1], lease=1)

def work():
    broker.client.incr("runs")
    time.sleep(60)

dramatiq.actor(work, broker=broker, actor_name="work")
dramatiq.Worker(broker, worker_threads=1).start()
time.sleep(60)
"""
    dramatiq.actor(lambda: one.incr("runs"), broker=broker, actor_name="work").send()
    child = subprocess.Popen([sys.executable, "-c", code, shared.url])
    until(lambda: one.get("runs") == b"1")
    child.kill()
    child.wait()
    with working(broker):
        until(lambda: one.get("runs") == b"2")
        broker.join("default", timeout=20_000)


@pytest.mark.skipif(SDIST is None, reason="DRAMATIQ_SDIST names no source of dramatiq")
def test_the_tests_of_dramatiq_itself(shared: Server, one: Any, tmp_path: Path) -> None:
    """Runs the tests of dramatiq's broker for Redis that do not read its keys and scripts."""
    assert SDIST is not None
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "__init__.py").touch()
    shutil.copy(Path(SDIST) / "tests" / "test_redis.py", tests)
    (tests / "common.py").write_text(
        "from contextlib import contextmanager\nfrom dramatiq import Worker\n\n@contextmanager\ndef worker(*args, **options):\n"
        "    made = Worker(*args, **options)\n    made.start()\n    try:\n        yield made\n    finally:\n        made.stop()\n"
    )
    (tests / "conftest.py").write_text(
        "import dramatiq, pytest, redis\nfrom zeitset.dramatiq import ZeitsetBroker\n\n@pytest.fixture\ndef redis_broker():\n"
        f"    broker = ZeitsetBroker(url='{shared.url}')\n    broker.client.flushall()\n    dramatiq.set_broker(broker)\n    yield broker\n"
        "    broker.flush_all()\n    broker.close()\n\n@pytest.fixture\ndef redis_worker(redis_broker):\n"
        "    worker = dramatiq.Worker(redis_broker, worker_threads=32)\n    worker.start()\n    yield worker\n    worker.stop()\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-k", THEIRS, "tests"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "7 passed" in found.stdout
