"""The outcomes of jobs."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from zeitset import Discard, ExpiringSet, Job, Queue, Retry, Worker
from zeitset.asyncio import Queue as AsyncQueue

from .support import Server, until, working


@pytest.mark.parametrize("kind", ["task", "thread"])
def test_a_job_that_returns_is_done(one: Any, kind: str) -> None:
    done: list[Any] = []

    async def task(job: Job) -> None:
        done.append(job.payload)

    mails = Queue(one, "mails")
    with working(one, "mails", task if kind == "task" else lambda job: done.append(job.payload)) as watched:
        for number in range(100):
            mails.push({"number": number})
        until(lambda: watched.kinds().count("completed") == 100)
    assert sorted(each["number"] for each in done) == list(range(100))
    stats = mails.stats()
    assert (stats["acked"], stats["ready"], stats["claimed"], stats["dead"]) == (100, 0, 0, 0)


def test_it_runs_as_many_at_once_as_it_has_slots(one: Any) -> None:
    at_once, most, gate = 0, 0, threading.Event()

    async def handler(job: Job) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        while not gate.is_set():
            await asyncio.sleep(0.01)
        at_once -= 1

    queue = Queue(one, "q")
    for number in range(9):
        queue.push(number)
    with working(one, "q", handler, concurrency=4) as watched:
        until(lambda: most == 4)
        assert queue.stats()["claimed"] == 4, "no job is held that does not run"
        gate.set()
        until(lambda: watched.kinds().count("completed") == 9)
    assert most == 4


def test_an_ack_does_not_wait_for_the_next_job(one: Any) -> None:
    queue = Queue(one, "q")
    with working(one, "q", lambda job: None, block=60) as watched:
        queue.push(1)
        until(lambda: queue.stats()["acked"] == 1)
        until(lambda: watched.kinds() == ["completed"])


def test_what_became_of_a_job_is_told_before_the_next_one_comes(one: Any) -> None:
    """The ACK of the job may have been sent with a claim that waits."""
    queue = Queue(one, "q")
    for _ in range(20):
        queue.push(1)
    with working(one, "q", lambda job: None, block=60, concurrency=3) as watched:
        until(lambda: watched.kinds() == ["completed"] * 20, 10)


def test_a_failure_is_given_back_with_its_error(one: Any) -> None:
    queue = Queue(one, "q")
    queue.configure(max_attempts=2, backoff=("1ms", "1ms"))
    queue.push("x", id="a")

    def handler(job: Job) -> None:
        raise KeyError("no such customer")

    with working(one, "q", handler) as watched:
        until(lambda: queue.stats()["dead"] == 1)
        until(lambda: watched.kinds() == ["failed", "failed", "dead"])
    job = queue.get("a")
    assert job and job.state == "dead" and job.error == "KeyError: 'no such customer'"
    assert [event.job.attempt for event in watched.events if event.kind == "failed" and event.job] == [1, 2]


def test_without_a_backoff_of_the_queue_the_worker_has_its_own(one: Any) -> None:
    queue = Queue(one, "q")
    queue.push("x", id="a")

    async def handler(job: Job) -> None:
        raise RuntimeError("again and again")

    with working(one, "q", handler, backoff=("1h", "2h")) as watched:
        until(lambda: watched.kinds() == ["failed"])
    job = queue.get("a")
    assert job and job.state == "delayed"
    left_ms = job.due_ms - time.time() * 1000
    assert 3_500_000 < left_ms <= 4_500_000


def test_retry_says_when(one: Any) -> None:
    queue = Queue(one, "q")
    queue.push("x", id="a", max_attempts=2)
    attempts: list[int] = []

    def handler(job: Job) -> None:
        attempts.append(job.attempt)
        if len(attempts) < 4:
            raise Retry("429", after="1ms", free=True)
        raise Retry("later", after="1h")

    with working(one, "q", handler) as watched:
        until(lambda: watched.kinds() == ["retried"] * 4)
    job = queue.get("a")
    assert job and (job.state, job.attempts, job.error) == ("delayed", 1, "Retry: later")
    assert attempts == [1, 1, 1, 1], "what is given back free does not count"


def test_a_429_of_one_customer_rests_its_other_jobs_and_nobody_elses(one: Any) -> None:
    queue = Queue(one, "q")
    queue.push_many([{"payload": id, "id": id, "group": id[0]} for id in ("a1", "a2", "b1", "b2")])
    ran: list[str] = []

    def handler(job: Job) -> None:
        ran.append(job.id)
        if job.payload == "a1":
            raise Retry("429", after="1h", free=True, hold=True)

    with working(one, "q", handler, concurrency=1) as watched:
        until(lambda: len(watched.kinds()) == 3)
    assert ran == ["a1", "b1", "b2"]
    held, stays = queue.groups()[0], queue.get("a2")
    assert (held.name, held.ready, held.delayed) == ("a", 1, 1) and held.held_until_ms
    assert stays and stays.state == "ready", "a job of a held group does not run"
    with pytest.raises(TypeError):
        Retry("429", hold=True)


def test_a_429_that_says_at_once_holds_nobody(one: Any) -> None:
    queue = Queue(one, "q")
    queue.push("x", id="a", group="a")

    def handler(job: Job) -> None:
        if one.incr("tries") == 1:
            raise Retry("429", after=0, hold=True)

    with working(one, "q", handler) as watched:
        until(lambda: watched.kinds() == ["retried", "completed"])


def test_discard_goes_to_the_dead_letters(one: Any) -> None:
    queue = Queue(one, "q")
    queue.push("x", id="a", max_attempts=10)

    def handler(job: Job) -> None:
        raise Discard("no such address")

    with working(one, "q", handler) as watched:
        until(lambda: watched.kinds() == ["discarded", "dead"])
    job = queue.get("a")
    assert job and (job.state, job.error) == ("dead", "Discard: no such address")


def test_a_payload_that_cannot_be_decoded_is_discarded(one: Any) -> None:
    one.execute_command("ZQ.PUSH", "q", b"\xff{", "ID", "a")
    with working(one, "q", lambda job: pytest.fail("it must not run")) as watched:
        until(lambda: watched.kinds() == ["discarded", "dead"])
    assert one.execute_command("ZQ.STATS", "q")  # the queue still works
    assert Queue(one, "q").stats()["dead"] == 1


def test_a_job_whose_id_is_no_text_is_a_job_like_any_other(one: Any) -> None:
    """Other clients may push any bytes."""
    queue, seen = Queue(one, "q"), ExpiringSet(one, "seen")

    async def handler(job: Job) -> None:
        assert await job.progress("half") and await job.last_progress() == "half"
        if job.payload == "fails":
            raise RuntimeError("no luck")
        if job.payload == "stops":
            raise Discard("never")
        first = job.deadline_ms
        while job.deadline_ms == first:  # until a heartbeat has extended the lease
            await asyncio.sleep(0.01)
        if job.payload == "chains":
            job.chain(seen.calls.add(job.id, ttl=60))
            job.chain(ExpiringSet(one, f"seen:{job.id}").calls.add("m", ttl=60))

    names = ("ok", "chains", "fails", "stops")
    for name in names:
        one.execute_command("ZQ.PUSH", "q", f'"{name}"', "ID", b"\xff\0" + name.encode(), "MAXATTEMPTS", 1)
    with working(one, "q", handler, lease="3s") as watched:
        until(lambda: len(watched.kinds()) == 6 or watched.error)
    assert watched.error is None
    assert sorted(watched.kinds()) == ["completed", "completed", "dead", "dead", "discarded", "failed"]
    assert (queue.stats()["acked"], queue.stats()["expired_leases"]) == (2, 0)
    assert r"<Job \xff" in repr(watched.events[-1].job), "a log can write it"
    assert one.execute_command("ZEXP.MEMBERS", "seen") == [b"\xff\0chains"]
    assert one.execute_command("ZEXP.MEMBERS", b"seen:\xff\0chains") == [b"m"]


def test_bytes_are_for_who_asks(one: Any) -> None:
    got: list[Any] = []
    Queue(one, "q", codec="bytes").push(b"\xff\x00")
    with working(one, "q", lambda job: got.append(job.payload), codec="bytes"):
        until(lambda: got == [b"\xff\x00"])


def test_the_first_queue_is_served_first(one: Any) -> None:
    order: list[str] = []
    for number in range(3):
        Queue(one, "slow").push(number)
        Queue(one, "urgent").push(number)
    with working(one, ["urgent", "slow"], lambda job: order.append(job.queue), concurrency=1):
        until(lambda: len(order) == 6)
    assert order == ["urgent"] * 3 + ["slow"] * 3


def test_a_chained_push_and_the_ack_are_one(one: Any) -> None:
    orders, mails = Queue(one, "orders"), Queue(one, "mails")
    orders.push("book", id="order:1")

    def handler(job: Job) -> None:
        job.chain(mails.calls.push(f"bought {job.payload}", id=f"{job.id}:mail"))

    with working(one, "orders", handler) as watched:
        until(lambda: watched.kinds() == ["completed"])
    assert orders.stats()["acked"] == 1
    assert [job.payload for job in mails.peek()] == ["bought book"]


def test_a_job_that_failed_chains_nothing(one: Any) -> None:
    orders, mails = Queue(one, "orders"), Queue(one, "mails")
    orders.push("book")

    def handler(job: Job) -> None:
        job.chain(mails.calls.push("bought"))
        raise RuntimeError("after all not")

    with working(one, "orders", handler) as watched:
        until(lambda: watched.kinds() == ["failed"])
    assert mails.peek() == []


def test_a_chained_command_that_is_refused_is_a_failure(one: Any) -> None:
    from zeitset import Call

    orders = Queue(one, "orders")
    orders.push("book", id="a")

    def handler(job: Job) -> None:
        job.chain(Call(("NO.SUCH.COMMAND",), str))

    with working(one, "orders", handler) as watched:
        until(lambda: watched.kinds() == ["failed"])
    job = orders.get("a")
    assert job and job.state == "delayed" and "unknown command" in (job.error or "")


def test_async_clients_and_loops_of_ones_own(shared: Server, one: Any) -> None:
    async def main() -> list[str]:
        from zeitset import Worker

        client = redis.asyncio.Redis(port=shared.port)
        queue, got = AsyncQueue(client, "q"), asyncio.Event()

        async def handler(job: Job) -> None:
            got.set()

        worker = Worker(client, "q", handler)
        task = asyncio.create_task(worker.serve())
        await queue.push("x")
        await asyncio.wait_for(got.wait(), 10)
        states = [worker.state]
        worker.stop()
        await asyncio.wait_for(task, 10)
        await client.aclose()
        return [*states, worker.state]

    assert asyncio.run(main()) == ["running", "stopped"]
    assert Queue(one, "q").stats()["acked"] == 1


def test_who_holds_a_job_is_shown(one: Any) -> None:
    queue, gate = Queue(one, "q"), threading.Event()
    queue.push("x", id="a")
    with working(one, "q", lambda job: gate.wait(10), name="worker-7"):
        until(lambda: queue.stats()["claimed"] == 1)
        job = queue.get("a")
        gate.set()
    assert job and job.worker == "worker-7"


def test_a_hook_that_raises_does_no_harm(one: Any) -> None:
    from zeitset import Event, Worker

    def hook(event: Event) -> None:
        raise RuntimeError("metrics are down")

    queue = Queue(one, "q")
    worker = Worker(one, "q", lambda job: None, on_event=hook)
    thread = threading.Thread(target=lambda: asyncio.run(worker.serve()))
    thread.start()
    queue.push("x")
    until(lambda: queue.stats()["acked"] == 1)
    worker.stop()
    thread.join(10)
    assert worker.state == "stopped"


def test_a_mistake_stops_the_worker_and_is_raised(one: Any) -> None:
    one.set("text", "no queue")
    with working(one, "text", lambda job: None) as watched:
        watched.thread.join(10)
    assert isinstance(watched.error, redis.ResponseError) and "WRONGTYPE" in str(watched.error)
    assert watched.worker.state == "stopped"


def test_it_connects_as_the_client_does(shared: Server, one: Any, tmp_path: Path) -> None:
    server = Server(tmp_path, "--unixsocket", str(tmp_path / "socket"))
    try:
        with server.client() as admin:
            admin.execute_command("ACL", "SETUSER", "ann", "on", ">secret", "~*", "&*", "+@all", "-client|id", "-client|unblock")
        client = redis.Redis(
            unix_socket_path=str(tmp_path / "socket"), username="ann", password="secret", db=3, decode_responses=True
        )
        with working(client, "q", lambda job: None, block=1) as watched:
            with server.client(db=3) as same:
                Queue(same, "q").push("x")
                until(lambda: watched.kinds() == ["completed"])

            def who_claims() -> set[tuple[str, str]]:
                return {(each["user"], each["db"]) for each in client.client_list() if each["cmd"].lower().startswith("zq.")}

            until(lambda: ("ann", "3") in who_claims())
            assert ("ann", "0") not in who_claims()
        assert watched.worker.state == "stopped" and watched.error is None, "also without CLIENT UNBLOCK"
        wrong = redis.Redis(port=server.port, username="ann", password="wrong")
        with working(wrong, "q", lambda job: None) as refused:
            refused.thread.join(10)
        assert isinstance(refused.error, redis.AuthenticationError), "does not pass by itself"
    finally:
        server.kill()


@pytest.mark.parametrize("concurrency", [1, 7])
def test_weights_share_the_worker_and_starve_nobody(one: Any, concurrency: int) -> None:
    weights = {"high": 6, "middle": 3, "low": 1}
    for name in weights:
        Queue(one, name).push_many([{"payload": name} for _ in range(400)])
    order: list[str] = []
    with working(one, list(weights), lambda job: order.append(job.payload), weights=weights, concurrency=concurrency):
        until(lambda: len(order) == 1200)
    # Until the first queue is empty after 400 of its jobs, the shares are 6:3:1. A claim takes at most 7 jobs.
    first = order[:600]
    for name, weight in weights.items():
        assert abs(first.count(name) - 60 * weight) <= 2 * concurrency + 2, (name, first.count(name))
    assert "low" in order[: 20 * concurrency], "the lowest weight does not wait for long"


def test_a_queue_that_was_empty_does_not_catch_up(one: Any) -> None:
    order: list[str] = []
    options = {"weights": {"a": 1, "b": 1}, "concurrency": 1}
    Queue(one, "a").push_many([{"payload": "a"} for _ in range(50)])
    gate = threading.Event()

    def handler(job: Job) -> None:
        order.append(job.payload)
        if len(order) == 50:
            gate.wait(20)

    with working(one, ["a", "b"], handler, **options):
        until(lambda: len(order) == 50)
        Queue(one, "b").push_many([{"payload": "b"} for _ in range(20)])
        Queue(one, "a").push_many([{"payload": "a"} for _ in range(20)])
        gate.set()
        until(lambda: len(order) == 90)
    assert 8 <= order[50:70].count("a") <= 12, order[50:]


@pytest.mark.parametrize("weights", [{}, {"a": 1}, {"a": 1, "b": 0}, {"a": 1, "b": float("inf")}, {"a": 1, "b": 1, "c": 1}])
def test_weights_name_each_queue(one: Any, weights: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="weight"):
        Worker(one, ["a", "b"], print, weights=weights)
