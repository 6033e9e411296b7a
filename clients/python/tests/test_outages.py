"""Servers that stand still, and connections that break or carry garbage."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from typing import Any

import pytest
import redis
from redis.cluster import ClusterNode

from zeitset import Cron, Job, Queue, Worker

from .support import Proxy, Server, until, working


@pytest.fixture
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zeitset._source._PATIENCE", 0.3)


def test_a_server_that_stands_still_does_not_end_the_worker(server: Server, short_patience: None) -> None:
    done: list[Any] = []
    with server.client() as r:
        queue = Queue(r, "q")
        with working(r, "q", lambda job: done.append(job.payload), block=0.1) as watched:
            for round in range(3):
                os.kill(server._process.pid, signal.SIGSTOP)
                until(lambda: watched.worker.state == "reconnecting" or not watched.thread.is_alive())
                os.kill(server._process.pid, signal.SIGCONT)
                queue.push(round)
                until(lambda: len(done) == round + 1 or not watched.thread.is_alive())
                assert watched.error is None
    assert done == [0, 1, 2]


def heartbeats(r: Any) -> int:
    stats = r.info("commandstats").get("cmdstat_ZQ.EXTEND")
    return int(stats["calls"]) if stats else 0


def test_a_late_reply_is_not_taken_for_the_next_ones(shared: Server, one: Any) -> None:
    """The reply to a heartbeat comes too late. The worker must not take this reply for the reply to the next heartbeat,
    and must not lose the lease."""
    queue, gate = Queue(one, "q"), threading.Event()
    with Proxy(shared.port) as proxy, proxy.client() as r:
        with working(r, "q", lambda job: gate.wait(20), lease="3s", concurrency=1) as watched:
            queue.push("x")
            until(lambda: queue.stats()["claimed"] == 1)
            proxy.hold(b"ZQ.EXTEND")
            until(lambda: proxy.holds)
            # The time limit for this reply is a second. The lease is longer.
            until(lambda: watched.worker._sources[0]._control._connection is None or watched.kinds())
            proxy.let_go()
            extended = heartbeats(one)
            until(lambda: heartbeats(one) > extended + 1)
            gate.set()
            until(lambda: "completed" in watched.kinds())
        assert [kind for kind in watched.kinds() if kind != "disconnected"] == ["completed"]


GARBAGE = [
    b"HTTP/1.1 502 Bad Gateway\r\n\r\n",
    b":abc\r\n",
    b"$abc\r\n",
    b"*-7\r\n",
    b"-ERR proxy: no upstream\r\n",
    b"+OK\r\n",
    b":1\r\n",
    b"$-1\r\n",
    b"*1\r\n+OK\r\n",
    b"*1\r\n*6\r\n$1\r\nq\r\n$1\r\na\r\n+x\r\n+y\r\n+z\r\n$1\r\n1\r\n",
    b"-ERR max number of clients reached\r\n",
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=[each[:12].decode().strip() for each in GARBAGE])
@pytest.mark.parametrize("command", ["ZQ.CLAIM", "ZQ.EXTEND", "ZQ.ACK", "ZQ.STATS", "ID"])
def test_garbage_is_a_lost_connection(
    shared: Server, one: Any, short_patience: None, garbage: bytes, command: str
) -> None:
    if (command, garbage) in {
        ("ZQ.ACK", b":1\r\n"),
        ("ID", b":1\r\n"),
        ("ZQ.STATS", b"$-1\r\n"),
    }:
        pytest.skip("a good reply")
    done: list[Any] = []

    def handler(job: Job) -> None:
        if job.payload == "long" and job.attempt == 1:
            until(lambda: not proxy.garbage)
        done.append(job.payload)

    queue = Queue(one, "q")
    with Proxy(shared.port) as proxy, proxy.client() as r:
        with working(r, "q", handler, lease="600ms", block="100ms") as watched:
            proxy.garbage[command.encode()] = garbage
            if command in ("ID", "ZQ.STATS"):
                proxy.cut()
            if command == "ZQ.ACK":
                queue.push("x")
            if command == "ZQ.EXTEND":
                queue.push("long")
            until(lambda: not proxy.garbage)
            queue.push("after")
            until(lambda: "after" in done or not watched.thread.is_alive())
            until(lambda: queue.stats()["claimed"] + queue.stats()["ready"] == 0 or not watched.thread.is_alive())
        assert watched.error is None and "after" in done


def test_wrong_credentials_in_a_cluster_are_raised_also_if_a_node_is_down(tmp_path: Any) -> None:
    cluster = Server(tmp_path, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
    try:
        with cluster.client() as admin:
            admin.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            until(lambda: b"cluster_state:ok" in admin.execute_command("CLUSTER", "INFO", NEVER_DECODE=True))
            client = redis.RedisCluster(host="127.0.0.1", port=cluster.port)
            admin.execute_command("ACL", "SETUSER", "default", ">secret", "resetpass", ">secret")
            client.nodes_manager.startup_nodes["127.0.0.1:1"] = ClusterNode("127.0.0.1", 1)
            worker = Worker(client, "q", lambda job: None)
            with pytest.raises(redis.RedisError, match="[Aa]uth"):
                asyncio.run(asyncio.wait_for(worker.serve(), 10))
    finally:
        cluster.kill()


def test_a_lost_reply_to_an_ack_is_completed(shared: Server, one: Any, short_patience: None) -> None:
    queue, gate = Queue(one, "q"), threading.Event()
    with Proxy(shared.port) as proxy, proxy.client() as r:
        with working(r, "q", lambda job: gate.wait(20), lease=30, block="100ms") as watched:
            for number in range(3):
                queue.push(number)
            until(lambda: queue.stats()["claimed"] == 3)
            proxy.hold(b"ZQ.ACK")
            gate.set()
            until(lambda: queue.stats()["acked"] > 0)
            proxy.cut()
            proxy.let_go()
            until(lambda: len([kind for kind in watched.kinds() if kind != "disconnected"]) >= 3)
    assert [kind for kind in watched.kinds() if kind != "disconnected"] == ["completed"] * 3
    assert queue.stats()["acked"] == 3


def test_what_is_finished_and_not_yet_told_is_extended(server: Server) -> None:
    """For longer than a lease, the server refuses an ACK with a chained push. The job must not run again."""
    runs: list[int] = []
    with server.client() as r:
        queue, next_ones = Queue(r, "q"), Queue(r, "next")

        def handler(job: Job) -> None:
            runs.append(job.attempt)
            r.config_set("maxmemory", "1")
            job.chain(next_ones.calls.push("y", id="y"))

        with working(r, "q", handler, lease="900ms", block="100ms") as watched:
            queue.push("x", id="x")
            until(lambda: runs)
            until(lambda: heartbeats(r) > 6)
            job = queue.get("x")
            assert job and job.state == "claimed" and set(watched.kinds()) == {"refused"}, "told each time"
            r.config_set("maxmemory", "0")
            until(lambda: "completed" in watched.kinds())
        assert (runs, queue.stats()["expired_leases"], next_ones.stats()["ready"]) == ([1], 0, 1)


def test_a_refused_outcome_does_not_lose_the_claim_that_is_sent_with_it(server: Server) -> None:
    """ZQ.CLAIM works while the server has no memory. The chained push is refused, and with it the ACK."""
    runs: list[tuple[str, int]] = []
    with server.client() as r:
        queue, next_ones = Queue(r, "q"), Queue(r, "next")

        def handler(job: Job) -> None:
            runs.append((job.id, job.attempt))
            if job.id == "0":
                r.config_set("maxmemory", "1")
                job.chain(next_ones.calls.push("y", id="y"))

        queue.push_many([{"payload": number, "id": str(number)} for number in range(12)])
        with working(r, "q", handler, concurrency=3, lease=60) as watched:
            until(lambda: len(runs) == 12)
            until(lambda: watched.kinds().count("completed") == 11 and "refused" in watched.kinds())
            r.config_set("maxmemory", "0")
            until(lambda: watched.kinds().count("completed") == 12)
            assert watched.worker.state == "running"
        assert set(watched.kinds()) == {"refused", "completed"}, "the connections are kept"
        assert sorted(runs) == sorted((str(number), 1) for number in range(12))
        assert next_ones.stats()["ready"] == 1


def test_a_worker_whose_recurring_jobs_are_refused_does_the_other_jobs(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zeitset._source._MINUTE", 0.1)
    done: list[Any] = []
    with server.client() as r:
        queue = Queue(r, "q")
        queue.push("x")
        r.config_set("maxmemory", "1")
        with working(r, "q", lambda job: done.append(job.payload), cron=[Cron("report", "0 3 1 1 *")]) as watched:
            until(lambda: done == ["x"])
            assert watched.worker.state == "running" and watched.kinds()[0] == "refused" and not queue.get("report")
            r.config_set("maxmemory", "0")
            until(lambda: queue.get("report"))
        assert set(watched.kinds()) == {"refused", "completed"}


def test_a_claim_that_came_late_is_given_back(shared: Server, one: Any) -> None:
    """The lease may have expired, so another worker may have the job."""
    queue, runs = Queue(one, "q"), []
    with Proxy(shared.port) as proxy, proxy.client() as r:
        with working(r, "q", lambda job: runs.append(job.attempt), lease="3s", block="1s") as watched:
            until(lambda: one.info("clients")["blocked_clients"] == 1)
            proxy.hold()
            queue.push("x")
            claimed = until(lambda: queue.get("x") or queue.stats()["claimed"] == 1)
            started = time.monotonic()
            until(lambda: time.monotonic() - started > 1.7)  # more than half of the lease
            proxy.let_go()
            until(lambda: runs)
        assert claimed and watched.kinds()[0] == "released" and runs == [1]
