"""A queue in several keys, on one server and on the nodes of a cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Lock
from typing import Any

import pytest
import redis
import redis.asyncio

from zeitset import Cron, Job, Queue, Worker
from zeitset.asyncio import Queue as AsyncQueue
from zeitset.testing import Clock

from .support import Server, clustered, until, working

SHARDS = 16


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    with clustered(tmp_path_factory.mktemp("cluster"), 3) as servers:
        yield servers


@pytest.fixture
def cluster(nodes: list[Server]) -> Iterator[Any]:
    for node in nodes:
        with node.client() as client:
            client.flushall()
    with redis.RedisCluster(port=nodes[0].port, host="127.0.0.1") as client:
        yield client


@pytest.fixture(params=["server", "cluster"])
def either(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue("one" if request.param == "server" else "cluster")


def blocked(nodes: list[Server]) -> int:
    count = 0
    for node in nodes:
        with node.client() as client:
            count += client.info("clients")["blocked_clients"]
    return count


def test_jobs_are_spread_and_found(either: Any) -> None:
    mails = Queue(either, "mails", shards=SHARDS)
    assert mails.stats() is None and mails.get("x") is None and mails.peek() == [] and mails.groups() == []
    ids = mails.push_many([{"payload": number} for number in range(400)])
    assert len(set(ids)) == 400 and None not in ids
    assert mails.stats()["ready"] == 400 and mails.stats()["pushed"] == 400
    counts = [shard.stats()["ready"] for shard in mails.shards]
    assert min(counts) > 0 and sum(counts) == 400
    assert mails.push("ann", id="a") == "a" and mails.push("ann", id="a") is None
    assert mails.push("ann", id="a", group="acme") == "a", "a job of another shard"
    assert [job and job.group for job in (mails.get("a"), mails.get("a", group="acme"))] in ([None, "acme"], ["", "acme"])
    assert mails.push("bob", id="b", group="acme", delay="1h") == "b"
    job = mails.get("b")
    assert job and (job.state, job.payload) == ("delayed", "bob") and mails.get("b", group="bloom") is None
    assert mails.reschedule("b", delay="2h") and mails.reschedule("b", delay=0, group="acme") and not mails.reschedule("c", delay=0)
    assert mails.cancel("a", "b", "c") == 2, "the job without a group, and that of acme which is not in the shard of its ID"
    assert mails.cancel("a", group="bloom") == 0 and mails.cancel("a", group="acme") == 1
    assert mails.cancel(*map(str, ids)) == 400 and mails.stats()["ready"] == 0


def test_pages_of_all_shards_are_merged(either: Any) -> None:
    mails = Queue(either, "mails", shards=SHARDS)
    for number in range(40):
        mails.push(number, id=str(number), priority=number % 2, at=f"{1_700_000_000_000 + number}ms")
    order = [*range(0, 40, 2), *range(1, 40, 2)]
    assert [job.payload for job in mails.peek(count=30)] == order[:30]
    with pytest.raises(TypeError, match=r"shard\(i\)"):
        mails.peek(after="1")
    mails.push(1, id="x", group="acme", delay="1h")
    mails.push(2, id="y", group="acme", delay="2h")
    assert [job.id for job in mails.peek("delayed", group="acme", after="x")] == ["y"]
    assert [job.id for job in mails.peek("delayed", group="")] == []


def test_groups_of_all_shards_are_merged(either: Any) -> None:
    mails = Queue(either, "mails", shards=SHARDS)
    names = [f"g{number:02}" for number in range(30)]
    for name in names:
        mails.push(1, group=name)
        mails.push(2, group=name, delay="1h")
        mails.push(3)
    first = mails.groups(count=11)
    assert [group.name for group in first] == ["", *names[:10]] and first[0].ready == 30
    assert [(group.name, group.ready, group.delayed) for group in mails.groups(count=50, after="g09")] == [
        (name, 1, 1) for name in names[10:]
    ]
    assert len(mails.groups()) == 10
    mails.push(4, group="g17")
    assert [(group.name, group.ready) for group in mails.groups(largest=True, count=3)] == [("", 30), ("g17", 2), ("g00", 1)]
    assert mails.hold("g03", "1h") and not mails.hold("nobody", "1h") and mails.hold("", "1h")
    assert [group.name for group in mails.groups(count=50) if group.held_until_ms] == ["", "g03"]


def test_settings_hold_for_each_shard(either: Any) -> None:
    mails = Queue(either, "mails", shards=3)
    mails.configure(max_attempts=3, concurrency=2)
    mails.push(1)
    stats = mails.stats()
    assert (stats["max_attempts"], stats["concurrency"], stats["ready"], stats["paused"]) == (3, 2, 1, "no")
    mails.pause()
    assert [shard.stats()["paused"] for shard in mails.shards] == ["yes"] * 3
    mails.resume()
    assert mails.stats()["paused"] == "no"


def test_dead_letters_of_all_shards_come_back_and_go(either: Any) -> None:
    mails = Queue(either, "mails", shards=SHARDS)
    mails.configure(max_attempts=1)
    mails.push_many([{"payload": number, "id": str(number), "group": "big" if number < 40 else None} for number in range(60)])

    def fail(job: Job) -> None:
        raise RuntimeError

    Worker(either, "mails", fail, shards=SHARDS).run(burst=True)
    assert mails.stats()["dead"] == 60 and len(mails.peek("dead", count=100)) == 60
    assert mails.redrive("1", "41", "none") == 2 and mails.redrive("2", group="big") == 1 and mails.redrive("42", group="big") == 0
    assert [mails.redrive(count=3), mails.redrive(count=30)] == [3, 30], "also if most are in one shard"
    assert mails.redrive(group="big", count=5) <= 5
    left = mails.stats()["dead"]
    assert mails.clean("dead", count=left - 1) == left - 1 and mails.clean("dead") == 1 and mails.clean("dead") == 0
    assert mails.stats()["dead"] == 0


def test_the_commands_of_one_shard_are_known(one: Any) -> None:
    mails = Queue(one, "mails", shards=4)
    call = mails.calls.push("ann", id="1", group="acme")
    key = call.args[1]
    assert key in [f"{{mails:{number}}}" for number in range(4)]
    assert call.parse(one.execute_command(*call.args)) == "1" and mails.get("1", group="acme")
    assert mails.calls.hold("acme", 1).args[1] == key
    with pytest.raises(TypeError, match=r"shard\(i\)"):
        mails.calls.stats()
    assert mails.shard(3).calls.stats().args[1] == "{mails:3}"
    assert [shard.calls.key for shard in Queue(one, "mails").shards] == ["mails"]


@pytest.mark.parametrize("name, shards", [("{mails}", 4), ("ma}ils", 4), ("mails", 0), ("mails", 1025)])
def test_what_cannot_be_sharded_is_refused(one: Any, name: str, shards: int) -> None:
    with pytest.raises(ValueError):
        Queue(one, name, shards=shards)
    with pytest.raises(ValueError):
        Worker(one, name, lambda job: None, shards=shards)


def test_shards_with_asyncio(nodes: list[Server], cluster: Any) -> None:
    async def main() -> None:
        async with redis.asyncio.RedisCluster(port=nodes[0].port, host="127.0.0.1") as r:
            mails = AsyncQueue(r, "mails", shards=SHARDS)
            await mails.push_many([{"payload": number, "id": str(number)} for number in range(40)])
            await mails.push(1, id="x", group="acme", delay="1h")
            assert (await mails.stats() or {})["ready"] == 40 and len(await mails.peek(count=50)) == 40
            assert await mails.get("x") and await mails.cancel("x", "1", "none") == 2
            assert await mails.shard(3).stats()
            assert [group.name for group in await mails.groups()] == [""]

            done: list[Any] = []

            async def handle(job: Job) -> None:
                done.append(job.payload)

            await Worker(r, "mails", handle, shards=SHARDS).serve(burst=True)
            assert sorted(done) == [0, *range(2, 40)]

    asyncio.run(main())


def test_a_worker_serves_all_shards(either: Any) -> None:
    mails = Queue(either, "mails", shards=SHARDS)
    done: list[tuple[str, Any]] = []
    with working(either, "mails", lambda job: done.append((job.queue, job.payload)), shards=SHARDS) as watched:
        mails.push_many([{"payload": number, "group": f"g{number % 7}" if number % 3 else None} for number in range(200)])
        until(lambda: watched.kinds().count("completed") == 200)
    assert sorted(done) == [("mails", number) for number in range(200)]
    stats = mails.stats()
    assert (stats["acked"], stats["claimed"], stats["ready"]) == (200, 0, 0)


def test_one_server_has_one_claim_whose_keys_rotate(one: Any, shared: Server) -> None:
    mails = Queue(one, "mails", shards=4)
    for shard in mails.shards:
        for number in range(5):
            shard.push(number)
    served: list[str] = []
    gate = Event()

    def handle(job: Job) -> None:
        served.append(job._key)
        gate.wait(20)

    with working(one, "mails", handle, shards=4, concurrency=1):
        until(lambda: len(served) == 1)
        gate.set()
        until(lambda: len(served) == 20)
        assert set(Counter(served[:4]).values()) == {1} and set(Counter(served[:8]).values()) == {2}
        until(lambda: blocked([shared]) == 1)


@pytest.mark.parametrize("names, claims", [(["q", "b", "other"], 3), (["{q}:high", "{q}:low"], 1)])
def test_a_worker_has_a_claim_for_each_slot_of_its_queues(nodes: list[Server], cluster: Any, names: list[str], claims: int) -> None:
    done: list[str] = []
    with working(cluster, names, lambda job: done.append(job.queue)):
        until(lambda: blocked(nodes) == claims)
        for name in names:
            Queue(cluster, name).push(1)
        until(lambda: sorted(done) == sorted(names))


def test_every_shard_is_served_when_slots_are_scarce(cluster: Any) -> None:
    """One shard always has jobs. The other shards get jobs while that shard is served."""
    mails = Queue(cluster, "mails", shards=SHARDS)
    at_once = most = 0
    served: list[str] = []
    lock = Lock()

    def handle(job: Job) -> None:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
            served.append(job._key)
        if job._key == "{mails:5}":
            mails.shard(5).push(0)
        with lock:
            at_once -= 1

    mails.shard(5).push(0)
    with working(cluster, "mails", handle, shards=SHARDS, concurrency=1) as watched:
        until(lambda: len(served) > 10)
        for round in range(3):
            for number, shard in enumerate(mails.shards):
                if number != 5:
                    shard.push(round)
            until(lambda: min(Counter(served)[f"{{mails:{number}}}"] for number in range(SHARDS)) > round)
        assert most == 1 and watched.worker.running <= 1
    assert mails.stats()["claimed"] == 0


def test_shards_that_have_jobs_take_turns(cluster: Any) -> None:
    mails = Queue(cluster, "mails", shards=SHARDS)
    for shard in mails.shards:
        shard.push_many([{"payload": number} for number in range(10)])
    served: list[str] = []
    with working(cluster, "mails", lambda job: served.append(job._key), shards=SHARDS, concurrency=1):
        until(lambda: len(served) == 160)
    assert min(Counter(served[: 4 * SHARDS]).values()) >= 2 and len(Counter(served[: 4 * SHARDS])) == SHARDS


def test_claims_end_when_the_slots_are_gone(nodes: list[Server], cluster: Any) -> None:
    """A job must not wait for a worker that has no free slot."""
    mails = Queue(cluster, "mails", shards=SHARDS)
    gate = Event()
    with working(cluster, "mails", lambda job: gate.wait(20), shards=SHARDS, concurrency=2, block=60, lease=600) as watched:
        until(lambda: blocked(nodes) == SHARDS)
        mails.shard(0).push("long")
        until(lambda: watched.worker.running == 1)
        until(lambda: blocked(nodes) == SHARDS)
        mails.shard(1).push("long")
        until(lambda: watched.worker.running == 2 and blocked(nodes) == 0)
        for shard in mails.shards:
            shard.push("short")
        assert mails.stats()["claimed"] == 2
        gate.set()
        until(lambda: watched.kinds().count("completed") == 18)
        until(lambda: blocked(nodes) == SHARDS)
    assert blocked(nodes) == 0


def test_jobs_beyond_the_slots_are_released_at_once(nodes: list[Server], cluster: Any) -> None:
    """All claims wait, and get a job at the same time."""
    mails = Queue(cluster, "mails", shards=SHARDS)
    mails.configure(max_attempts=1)
    at_once = most = 0

    async def handle(job: Job) -> None:
        nonlocal at_once, most
        assert job.attempt == 1
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.001)
        at_once -= 1

    with working(cluster, "mails", handle, shards=SHARDS, concurrency=2) as watched:
        for _ in range(5):
            until(lambda: blocked(nodes) == SHARDS)
            mails.push_many([{"payload": number} for number in range(100)])
            until(lambda: mails.stats()["ready"] == 0 and mails.stats()["claimed"] == 0)
        until(lambda: watched.kinds().count("completed") == 500)
    assert most == 2 and mails.stats()["dead"] == 0


def test_a_stop_gives_everything_back(cluster: Any) -> None:
    mails = Queue(cluster, "mails", shards=SHARDS)
    mails.push_many([{"payload": number} for number in range(50)])

    async def handle(job: Job) -> None:
        await asyncio.sleep(60)

    with working(cluster, "mails", handle, shards=SHARDS, concurrency=20, lease=600, grace=0) as watched:
        until(lambda: watched.worker.running == 20)
    stats = mails.stats()
    assert (stats["ready"], stats["claimed"], stats["acked"]) == (50, 0, 0)
    assert {job.attempts for job in mails.peek(count=50)} == {0}


def test_bursts_end_when_all_shards_are_empty(either: Any) -> None:
    """Handlers push to other shards."""
    mails = Queue(either, "mails", shards=SHARDS)
    for number in range(SHARDS):
        mails.push(5, id=f"{number}:5")

    def handle(job: Job) -> None:
        if job.payload:
            mails.push(job.payload - 1, id=f"{job.id}:{job.payload - 1}")

    Worker(either, "mails", handle, shards=SHARDS, concurrency=3).run(burst=True)
    stats = mails.stats()
    assert (stats["acked"], stats["ready"], stats["claimed"]) == (SHARDS * 6, 0, 0)


def test_recurring_jobs_are_in_the_shard_of_their_name(one: Any) -> None:
    runs: list[str] = []
    reports = Queue(one, "reports", shards=SHARDS)
    clock = Clock(one, "reports", shards=SHARDS)
    cron = [Cron("daily", "0 3 * * *"), Cron("acme", "0 4 * * *", group="acme")]
    worker = Worker(one, "reports", lambda job: runs.append(job.id), cron=cron, clock=clock, shards=SHARDS)
    worker.run(burst=True)
    for job in (reports.get("daily"), reports.get("acme", group="acme")):
        assert job and job.state == "delayed"
    for days in (1, 2):
        clock.advance("1d")
        worker.run(burst=True)
        assert sorted(runs) == ["acme"] * days + ["daily"] * days


def test_a_chain_leads_into_a_shard(one: Any) -> None:
    mails, log = Queue(one, "mails", shards=4), Queue(one, "log", shards=4)
    mails.push("ann", id="1")
    Worker(one, "mails", lambda job: job.chain(log.calls.push("sent", id=f"{job.id}:log", group="ann")), shards=4).run(burst=True)
    assert mails.stats()["acked"] == 1 and log.get("1:log", group="ann")


def test_a_chain_into_another_slot_of_a_cluster_fails(cluster: Any) -> None:
    mails = Queue(cluster, "mails", shards=SHARDS)
    mails.configure(max_attempts=1)
    mails.push_many([{"payload": number, "id": str(number)} for number in range(SHARDS)])
    Worker(cluster, "mails", lambda job: job.chain(Queue(cluster, "log").calls.push("sent")), shards=SHARDS).run(burst=True)
    assert mails.stats()["dead"] == SHARDS and Queue(cluster, "log").stats() is None
    job = mails.get("1")
    assert job and job.error and "slot" in job.error


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_a_node_that_is_down_does_not_stop_the_others(tmp_path: Path, how: str) -> None:
    done: list[str] = []
    with clustered(tmp_path, 3, "--cluster-require-full-coverage", "no") as nodes:
        down = nodes[1]
        with redis.RedisCluster(port=nodes[0].port, host="127.0.0.1") as client:
            mails = Queue(client, "mails", shards=SHARDS)
            ports = [client.get_node_from_key(shard.calls.key).port for shard in mails.shards]
            here = {shard.calls.key for shard, port in zip(mails.shards, ports) if port != down.port}
            assert 2 < len(here) < SHARDS - 2
            for shard in mails.shards:
                shard.push_many([{"payload": number} for number in range(20)])

            def handle(job: Job) -> None:
                done.append(job._key)

            with working(client, "mails", handle, shards=SHARDS, concurrency=1) as watched:
                until(lambda: len(done) > 2 * SHARDS)
                if how == "killed":
                    down.kill()
                else:
                    down.freeze()
                until(lambda: all(done.count(key) == 20 for key in here), 10)
                assert watched.worker.state == "running"
                if how == "killed":
                    down.start()
                else:
                    down.thaw()
                until(lambda: all(done.count(shard.calls.key) >= 20 for shard in mails.shards), 40)
