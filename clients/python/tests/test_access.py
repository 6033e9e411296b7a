"""Tests that the users of docs/operations.md may send all commands that the library sends for their tasks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from zeitset import Cron, Discard, Job, Limiter, Queue, Retry, check_all

from .support import ROOT, Server, until, working


PAGE = (ROOT / "docs" / "operations.md").read_text()


def create_users(server: Server, *more: str) -> list[str]:
    lines = [line.split()[1:] for line in PAGE.splitlines() if line.startswith("user ")]
    with server.client() as admin:
        for words in lines:
            admin.execute_command("ACL", "SETUSER", *words, *more)
    return [name for name, *_ in lines]


@pytest.fixture
def users(server: Server) -> Iterator[dict[str, Any]]:
    """Clients of the documented users, by their names."""
    clients = {name: server.client(username=name, password="change-me") for name in create_users(server)}
    yield clients
    for client in clients.values():
        client.close()


def refused(server: Server) -> set[str]:
    """Returns the commands that the server refused to users, except CLIENT SETINFO, which redis-py does not need."""
    with server.client(decode_responses=True) as admin:
        return {entry["object"] for entry in admin.acl_log()} - {"client|setinfo"}


def test_the_documented_users_push_and_work(server: Server, users: dict[str, Any]) -> None:
    queue, worker = Queue(users["producer"], "jobs:mails"), users["worker"]
    admin = server.client()

    def handler(job: Job) -> None:
        if job.payload == "long":
            until(lambda: "cmdstat_ZQ.EXTEND" in admin.info("commandstats"))
        if job.payload == "chain":
            job.chain(Queue(worker, "jobs:next").calls.push("sent", id=f"{job.id}:next"))
        if job.attempt == 1 and job.payload == "fail":
            raise ValueError("no")
        if job.attempt == 1 and job.payload == "retry":
            raise Retry("later", after="1ms")
        if job.payload == "discard":
            raise Discard("never")

    payloads = ["plain", "long", "chain", "fail", "retry", "discard"]
    for payload in payloads:
        assert queue.push(payload, id=payload)
    with working(worker, "jobs:mails", handler, lease="600ms", backoff=("1ms", "1ms")) as watched:
        until(lambda: len(watched.kinds()) == len(payloads) + 3 or watched.error)
    assert watched.error is None
    assert sorted(watched.kinds()) == [*["completed"] * 5, "dead", "discarded", "failed", "retried"]
    job = queue.get("discard")
    assert job and job.state == "dead" and queue.cancel("discard") == 1
    assert queue.push("later", id="later", delay="1h") and queue.reschedule("later", delay="2h")
    assert queue.stats()["delayed"] == 1
    assert refused(server) == set()


def test_the_documented_worker_stops_while_it_waits_and_while_it_works(server: Server, users: dict[str, Any]) -> None:
    queue = Queue(users["producer"], "jobs:mails")
    with working(users["worker"], "jobs:mails", lambda job: until(lambda: job.stopping), grace=0) as watched:
        until(lambda: server.client().info("clients")["blocked_clients"] == 1)
    assert watched.error is None
    queue.push("slow")
    with working(users["worker"], "jobs:mails", lambda job: until(lambda: job.stopping), grace=0) as watched:
        until(lambda: queue.stats()["claimed"] == 1)
    assert (watched.error, watched.kinds(), queue.stats()["ready"]) == (None, ["released"], 1)
    assert refused(server) == set()


def test_the_documented_worker_keeps_a_schedule(server: Server, users: dict[str, Any]) -> None:
    queue = Queue(users["producer"], "jobs:reports")
    runs: list[str] = []
    for expression in ("0 0 1 1 *", "0 0 1 6 *"):
        cron = Cron("yearly", expression)
        with working(users["worker"], "jobs:reports", lambda job: runs.append(job.id), cron=[cron]) as watched:
            job = until(lambda: watched.error or queue.get("yearly"))
        assert watched.error is None and job.due_ms == cron.next_ms(job.fields["created_ms"])
        with working(users["worker"], "jobs:reports", lambda job: runs.append(job.id), cron=[cron]) as watched:
            queue.reschedule("yearly", delay=0)
            until(lambda: watched.kinds() == ["completed"])
    assert runs == ["yearly"] * 2
    assert refused(server) == set()


def test_the_documented_limiter_checks(server: Server, users: dict[str, Any]) -> None:
    minute, day = Limiter(users["limiter"], "limit:minute", "5/1m"), Limiter(users["limiter"], "limit:day", "50/1d")
    check = minute.check("ann", 2)
    assert check.allowed and minute.peek("ann").allowed and minute.refund("ann", 1, check) == 1
    assert check_all((minute, "ann"), (day, "ann")).allowed
    assert minute.reset("ann")
    assert refused(server) == set()


def test_with_the_rules_for_a_cluster_the_documented_users_push_and_work(tmp_path: Path) -> None:
    server = Server(tmp_path, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
    try:
        with server.client() as admin:
            admin.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            until(lambda: admin.execute_command("CLUSTER INFO")["cluster_state"] == "ok")
        found = re.search(r"of a cluster, add `([^`]*)`", PAGE)
        assert found
        create_users(server, *found[1].split())
        place: dict[str, Any] = {"host": "127.0.0.1", "port": server.port, "password": "change-me"}
        cluster = redis.RedisCluster
        with cluster(username="producer", **place) as producer, cluster(username="worker", **place) as worker:
            Queue(producer, "jobs:mails").push("x")
            with working(worker, "jobs:mails", lambda job: None) as watched:
                until(lambda: watched.kinds() == ["completed"] or watched.error)
            assert watched.error is None
        assert refused(server) == set()
    finally:
        server.kill()
