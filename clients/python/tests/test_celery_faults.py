"""The faults that users of Celery report of its Redis broker, with both brokers side by side on one server.

`zeitset://` must lose no task, and run no task twice. The tests print what `redis://` did, and make no assertion about
it. `CELERY_FAULTS=1` also runs the tests that take minutes.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from .support import REDIS_SERVER, Server, free_port, until

pytest.importorskip("celery")

from .celery_site import Site, Worker  # noqa: E402

SLOW = bool(os.environ.get("CELERY_FAULTS"))
TIMEOUT = 2
"""The lease, and the visibility timeout of kombu's transport for Redis, in seconds."""
OURS = {"lease": TIMEOUT}
THEIRS = {"visibility_timeout": TIMEOUT, "unacked_restore_interval": 0.5, "unacked_restore_throttle": 1}
"""By default, kombu's transport looks for lost messages each 100 s."""


class Pair:
    """The same workers and tasks with both brokers."""

    def __init__(self, ours: Site, theirs: Site) -> None:
        self.ours = ours
        self.theirs = theirs
        self.sites = (ours, theirs)
        self.stack = ExitStack()

    def each(self, act: Callable[[Site], Any]) -> list[Any]:
        return [act(site) for site in self.sites]

    def work(self, *options: Any) -> list[list[Worker]]:
        return self.each(lambda site: self.stack.enter_context(site.working(*options)))

    def report(self, what: str, count: int) -> None:
        """Prints what both have run. Gives the other broker some time more to run all."""
        with suppress(AssertionError):
            until(lambda: len(self.theirs.runs) == count, 3 * TIMEOUT)
        for site in self.sites:
            runs = site.runs
            most = max(runs.values(), default=0)
            print(f"{what}: {site.scheme}: of {count} tasks {len(runs)} ran, {sum(runs.values())} times, one {most} times")


def paired(server: Server, folder: Path, notes: Server, default: bool = False, **options: Any) -> Pair:
    """`notes` has the results and the notes of the tasks. `default`: the brokers have their default options."""
    sites = []
    for number, (scheme, transport) in enumerate((("zeitset", OURS), ("redis", THEIRS)), 1):
        results = notes.url[:-1] + str(number)
        client = redis.Redis.from_url(results)
        client.flushdb()
        broker = server.url[:-1].replace("redis", scheme) + str(number)
        options["broker_transport_options"] = {} if default else transport
        sites.append(Site(folder, broker, results, client, **options))
    return Pair(*sites)


@pytest.fixture
def pair(server: Server, shared: Server, tmp_path: Path) -> Iterator[Pair]:
    pair = paired(server, tmp_path, shared, task_acks_late=True)
    yield pair
    pair.stack.close()
    pair.each(Site.close)


def test_an_eta_of_three_timeouts(pair: Pair) -> None:
    pair.work("threads", 2, 2)
    pair.each(lambda site: site.send("note", "eta", countdown=3 * TIMEOUT))
    until(lambda: pair.ours.runs["eta"])
    until(lambda: pair.theirs.runs["eta"])
    time.sleep(TIMEOUT)
    pair.report("an ETA of three timeouts", 1)
    assert pair.ours.runs == {"eta": 1}


def test_a_task_of_three_leases(pair: Pair) -> None:
    pair.work("prefork", 1, 2)
    pair.each(lambda site: site.send("hold", "long", 3.5 * TIMEOUT))
    until(lambda: pair.ours.ends["long"], 60)
    pair.report("a task of three leases", 1)
    assert pair.ours.runs == {"long": 1} and pair.ours.ends == {"long": 1}


def test_a_worker_that_is_killed(pair: Pair) -> None:
    killed = pair.work("prefork", 1)
    pair.each(lambda site: site.send("hold", "killed", 60))
    until(lambda: all(pair.each(lambda site: site.runs["killed"])))
    for (worker,) in killed:
        worker.kill()
    when = time.monotonic()
    pair.each(lambda site: site.r.set("go:killed", 1))
    pair.work("prefork", 1)
    until(lambda: pair.ours.ends["killed"], 60)
    print(f"a killed worker: zeitset: runs again after {time.monotonic() - when:.1f} s")
    with suppress(AssertionError):
        until(lambda: pair.theirs.ends["killed"], 10)
    print(f"a killed worker: redis: {pair.theirs.runs['killed']} runs after {time.monotonic() - when:.1f} s")
    assert pair.ours.runs == {"killed": 2}, "the lease has really ended"


def test_many_tasks_with_an_eta_and_a_restart_of_all_workers(pair: Pair) -> None:
    count = 10_000 if SLOW else 500
    for site in pair.sites:
        with site.app.producer_or_acquire() as producer:
            for number in range(count):
                site.send("note", str(number), countdown=count / 50, producer=producer, ignore_result=True)
    before = pair.work("threads", 4, 2)
    for workers in before:
        for worker in workers:
            worker.stop()
    pair.work("threads", 4, 2)
    until(lambda: len(pair.ours.runs) == count, 600)
    pair.report(f"{count} tasks with an ETA and a restart", count)
    assert set(pair.ours.runs.values()) == {1}


def test_priorities_that_are_mixed(pair: Pair) -> None:
    for site in pair.sites:
        for number, priority in enumerate((9, 5, 0, 9, 4, 0, 5, 3)):
            site.send("note", f"{priority}:{number}", priority=priority)
    pair.work("solo", 1)
    until(lambda: all(len(site.runs) == 8 for site in pair.sites))
    for site in pair.sites:
        print(f"priorities: {site.scheme}:", b" ".join(site.r.lrange("runs", 0, -1)).decode())
    ran = [each.decode() for each in pair.ours.r.lrange("runs", 0, -1)]
    assert ran == sorted(ran), "0 is first, then in the order of publishing"


@pytest.mark.parametrize("seconds", [10, pytest.param(70, marks=pytest.mark.skipif(not SLOW, reason="takes minutes"))])
def test_a_broker_that_stands_still(server: Server, shared: Server, tmp_path: Path, seconds: int) -> None:
    """The lease is the default of 30 s."""
    pair = paired(server, tmp_path, shared, default=True, task_acks_late=True)
    with pair.stack:
        pair.work("prefork", 2)
        pair.each(lambda site: site.send("hold", "runs", 120))
        pair.each(lambda site: [site.send("note", str(number), countdown=3) for number in range(20)])
        until(lambda: all(pair.each(lambda site: site.runs["runs"])))
        server.freeze()
        time.sleep(seconds)
        pair.each(lambda site: site.r.set("go:runs", 1))
        server.thaw()
        until(lambda: len(pair.ours.runs) == 21 and pair.ours.ends["runs"], 120)
        pair.each(lambda site: site.send("note", "after"))
        until(lambda: pair.ours.runs["after"] == 1, 60)
        pair.report(f"a broker that stands still for {seconds} s", 22)
        assert max(pair.ours.runs[str(number)] for number in range(20)) == 1
        assert pair.ours.runs["runs"] == 1 or seconds > 30, "twice only if the lease has ended"


@pytest.mark.parametrize("how", ["warm", "cold"])
def test_a_worker_that_shuts_down(pair: Pair, how: str) -> None:
    pair.each(lambda site: site.options.update(worker_prefetch_multiplier=4))
    stopped = pair.work("prefork", 1)
    pair.each(lambda site: [site.send("hold", str(number), 60) for number in range(4)])
    until(lambda: all(pair.each(lambda site: site.runs["0"])))
    for (worker,) in stopped:
        worker.tell(signal.SIGTERM if how == "warm" else signal.SIGQUIT)
    if how == "warm":
        pair.each(lambda site: site.r.set("go:0", 1))
    for (worker,) in stopped:
        worker.process.wait(60)
    pair.each(lambda site: site.r.mset({f"go:{number}": 1 for number in range(4)}))
    pair.work("prefork", 1)
    until(lambda: len(pair.ours.ends) == 4, 60)
    pair.report(f"{how} shutdown", 4)
    assert pair.ours.runs == {"0": 1 if how == "warm" else 2, "1": 1, "2": 1, "3": 1}
    assert set(pair.ours.ends.values()) == {1}


def test_a_full_server(server: Server, shared: Server, tmp_path: Path) -> None:
    pair = paired(server, tmp_path, shared)
    with pair.stack, server.client() as r:
        pair.work("threads", 1)
        pair.each(lambda site: site.send("hold", "first", 60))
        until(lambda: all(site.runs["first"] for site in pair.sites))
        pair.each(lambda site: [site.send("note", str(number)) for number in range(20)])
        r.config_set("maxmemory", 1)
        pair.each(lambda site: site.r.set("go:first", 1))
        until(lambda: pair.ours.runs["19"], 60)
        r.config_set("maxmemory", 0)
        pair.each(lambda site: site.send("note", "last"))
        until(lambda: pair.ours.runs["last"])
        pair.report("a full server", 22)
        assert len(pair.ours.runs) == 22 and set(pair.ours.runs.values()) == {1}


def test_a_failover_by_sentinel(shared: Server, tmp_path: Path) -> None:
    """The lease is the default of 30 s: longer than the failover."""
    first, second, port = Server(tmp_path), Server(tmp_path), free_port()
    (tmp_path / "sentinel.conf").write_text(
        f"port {port}\nsentinel monitor main 127.0.0.1 {first.port} 1\nsentinel down-after-milliseconds main 500\n"
        "sentinel failover-timeout main 2000\n"
    )
    sentinel = subprocess.Popen([REDIS_SERVER, tmp_path / "sentinel.conf", "--sentinel"], stdout=subprocess.DEVNULL, cwd=tmp_path)
    sites = []
    for number, scheme in enumerate(("zeitset-sentinel", "sentinel"), 1):
        results, broker = shared.url[:-1] + str(number), f"{scheme}://127.0.0.1:{port}/{number}"
        client = redis.Redis.from_url(results)
        client.flushdb()
        options = {"broker_transport_options": {"master_name": "main"}, "task_acks_late": True}
        sites.append(Site(tmp_path, broker, results, client, **options))
    pair = Pair(*sites)
    try:
        with second.client() as r:
            r.replicaof("127.0.0.1", first.port)
            until(lambda: r.info("replication")["master_link_status"] == "up")
        with redis.Redis(port=port) as r:
            until(lambda: len(r.execute_command("SENTINEL", "REPLICAS", "main")) == 1)
        pair.work("prefork", 1, 2)
        pair.each(lambda site: [site.send("hold", str(number), 60) for number in range(2)])
        pair.each(lambda site: [site.send("note", f"later {number}", countdown=5) for number in range(5)])
        until(lambda: all(len(site.runs) == 2 for site in pair.sites))
        with first.client() as r:
            r.execute_command("WAIT", 1, 5000)
        first.kill()
        with second.client() as r:
            until(lambda: r.info("replication")["role"] == "master")
            until(lambda: sum(client["cmd"] == "psubscribe" for client in r.client_list()) == 4, 60)  # all workers
        time.sleep(2 * TIMEOUT)
        pair.each(lambda site: site.r.mset({"go:0": 1, "go:1": 1}))
        until(lambda: len(pair.ours.runs) == 7 and len(pair.ours.ends) == 2, 60)
        pair.report("failover", 7)
        with second.client(db=1) as r:
            until(lambda: r.execute_command("ZQ.CLAIM", 1, "kombu:celery", "LEASE", 1) == [])
        assert set(pair.ours.runs.values()) == {1}
    finally:
        pair.stack.close()
        for each in (sentinel, first._process, second._process):
            each.kill()
            each.wait()

