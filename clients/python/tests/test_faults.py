"""Workers during faults of the server and the network."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from zeitset import Job, Limiter, Queue

from .support import Proxy, Server, until, working


class Script:
    """A worker in its own process, with a handler of the test."""

    def __init__(self, server: Server, handler: str, options: str = "") -> None:
        lines = textwrap.dedent(handler)
        program = (
            "import asyncio, time, redis\nfrom zeitset import Worker\n"
            f"{lines}\nWorker(redis.Redis(port={server.port}), 'q', handler, {options}).run()\n"
        )
        self.process = subprocess.Popen([sys.executable, "-c", program])

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)


def test_a_restart_of_the_server_loses_nothing(server: Server) -> None:
    done: list[int] = []
    with server.client() as r:
        queue = Queue(r, "q")
        with working(r, "q", lambda job: done.append(job.payload)) as watched:
            for number in range(20):
                queue.push(number, id=str(number))
            until(lambda: len(done) == 20)
            server.kill()
            until(lambda: watched.worker.state == "reconnecting")
            server.start()
            for number in range(20, 40):
                queue.push(number, id=str(number))
            until(lambda: len(done) == 40)
            assert watched.worker.state == "running"
        assert sorted(done) == list(range(40))
        assert [event.kind for event in watched.events].count("connected") == 2


def test_what_finishes_while_redis_is_away_is_acknowledged_afterwards(server: Server) -> None:
    gate, runs = threading.Event(), []

    def handler(job: Job) -> None:
        runs.append(job.attempt)
        gate.wait(20)

    with server.client() as r:
        queue = Queue(r, "q")
        with working(r, "q", handler, lease=60) as watched:
            queue.push("x", id="a")
            until(lambda: runs)
            server.kill()
            until(lambda: watched.worker.state == "reconnecting")
            gate.set()
            until(lambda: watched.worker.running == 0)
            server.start()
            until(lambda: watched.kinds()[-1:] == ["completed"])
        assert queue.get("a") is None and runs == [1]


def test_a_worker_may_start_before_redis(server: Server) -> None:
    server.kill()
    done: list[Any] = []
    with server.client() as r:
        events: list[Any] = []
        from zeitset import Worker

        worker = Worker(r, "q", lambda job: done.append(job.payload), on_event=events.append)
        thread = threading.Thread(target=lambda: asyncio.run(worker.serve()))
        thread.start()
        until(lambda: [event for event in events if event.kind == "disconnected"])
        server.start()
        Queue(r, "q").push("x")
        until(lambda: done == ["x"])
        worker.stop()
        thread.join(10)
        assert worker.state == "stopped"


def test_a_worker_stops_while_redis_is_away(server: Server) -> None:
    with server.client() as r:
        with working(r, "q", lambda job: None, grace=1) as watched:
            server.kill()
            until(lambda: watched.worker.state == "reconnecting")
        assert watched.worker.state == "stopped" and watched.error is None


def test_a_killed_workers_job_runs_again(server: Server) -> None:
    with server.client() as r:
        queue = Queue(r, "q")
        queue.push("x", id="a")
        script = Script(server, "def handler(job): time.sleep(60)", "lease='3s'")
        until(lambda: queue.stats()["claimed"] == 1)
        end_of_lease = queue.get("a").due_ms  # type: ignore[union-attr]
        until(lambda: queue.get("a").due_ms > end_of_lease)  # type: ignore[union-attr]
        assert script.end(signal.SIGKILL) == -signal.SIGKILL
        attempts: list[int] = []
        with working(r, "q", lambda job: attempts.append(job.attempt)):
            until(lambda: attempts == [2])
        assert queue.get("a") is None


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_sigterm_gives_unfinished_jobs_back(server: Server, kind: str) -> None:
    sleep = "time.sleep(60)" if kind == "def" else "await asyncio.sleep(60)"
    with server.client() as r:
        queue = Queue(r, "q")
        for number in range(5):
            queue.push(number, id=str(number), max_attempts=1)
        script = Script(server, f"{kind} handler(job): {sleep}", "grace='200ms', lease=600, concurrency=3, block=60")
        until(lambda: queue.stats()["claimed"] == 3)
        assert script.end(signal.SIGTERM) == 0
        assert (queue.stats()["ready"], queue.stats()["dead"]) == (5, 0), "at once, and it has cost no attempt"
        assert [job.attempts for job in queue.peek()] == [0] * 5


def test_sigterm_lets_short_jobs_finish(server: Server) -> None:
    with server.client() as r:
        queue = Queue(r, "q")
        queue.push("x")
        script = Script(server, "async def handler(job): await asyncio.sleep(4)", "lease='3s'")
        until(lambda: queue.stats()["claimed"] == 1)
        assert script.end(signal.SIGTERM) == 0
        stats = queue.stats()
        assert (stats["acked"], stats["expired_leases"]) == (1, 0), "heartbeats go on while it stops"


def test_an_idle_worker_stops_at_once(server: Server) -> None:
    with server.client() as r:
        script = Script(server, "def handler(job): pass", "block=600")
        until(lambda: r.info("clients")["blocked_clients"] == 1)
        assert script.end(signal.SIGTERM) == 0


def test_a_lease_that_was_lost_cancels_the_task(one: Any) -> None:
    queue, cancelled = Queue(one, "q"), []

    async def handler(job: Job) -> None:
        if job.attempt > 1:
            return
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(job.lost)
            raise

    queue.push("x", id="a")
    with working(one, "q", handler, lease="3s") as watched:
        until(lambda: queue.stats()["claimed"] == 1)
        # Another client replaces the job, so the token is stale.
        queue.push("y", id="a", replace=True, delay="1h")
        until(lambda: watched.kinds() == ["lost"])
        assert cancelled == [True]
        job = queue.get("a")
    assert job and (job.payload, job.state, job.error) == ("y", "delayed", None)


def test_a_lease_that_was_lost_is_told_to_the_thread(one: Any) -> None:
    queue = Queue(one, "q")
    queue.push("x", id="a")

    def handler(job: Job) -> None:
        until(lambda: job.lost)

    with working(one, "q", handler, lease="3s") as watched:
        until(lambda: queue.stats()["claimed"] == 1)
        queue.push("y", id="a", replace=True, delay="1h")
        until(lambda: watched.kinds() == ["lost"])
        until(lambda: watched.worker.running == 0)
    assert queue.stats()["acked"] == 0


def test_a_lease_that_cannot_be_extended_is_lost_in_time(server: Server) -> None:
    lost: list[float] = []
    started = 0.0

    async def handler(job: Job) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            lost.append(time.monotonic())
            raise

    with server.client() as r:
        Queue(r, "q").push("x")
        # The worker gives up a twentieth of the lease before its end: with this lease, 0.3 s.
        with working(r, "q", handler, lease=6, grace=1) as watched:
            until(lambda: watched.worker.running == 1)
            os.kill(server._process.pid, signal.SIGSTOP)
            try:
                started = time.monotonic()
                until(lambda: lost)
                assert lost[0] - started <= 6.0, "before another worker may have the job"
            finally:
                os.kill(server._process.pid, signal.SIGCONT)


def test_unblocked_and_readonly_pass_by_themselves(server: Server, tmp_path: Path) -> None:
    primary = Server(tmp_path / "other")
    done: list[Any] = []
    try:
        with server.client() as r, primary.client() as other:
            with working(r, "q", lambda job: done.append(job.payload), block=60) as watched:
                until(lambda: r.info("clients")["blocked_clients"] == 1)
                other.execute_command("ZQ.PUSH", "other", "x")
                r.replicaof("127.0.0.1", primary.port)
                until(lambda: watched.worker.state == "reconnecting")
                until(lambda: watched.kinds().count("disconnected") >= 2)
                r.replicaof("NO", "ONE")
                until(lambda: watched.worker.state == "running")
                Queue(r, "q").push("after")
                until(lambda: done == ["after"])
            causes = " ".join(str(event.error) for event in watched.events if event.kind == "disconnected")
            assert "UNBLOCKED" in causes and ("READONLY" in causes or "read only replica" in causes)
    finally:
        primary.kill()


def test_a_reset_of_an_idle_connection_is_an_outage(shared: Server, one: Any) -> None:
    """Load balancers reset idle connections. In some versions of Python, asyncio then raises AttributeError."""
    done: list[Any] = []
    queue = Queue(one, "q")
    with Proxy(shared.port) as proxy, proxy.client() as r:
        with working(r, "q", lambda job: done.append(job.payload), block="50ms", lease="1s") as watched:
            for number in range(8):
                queue.push(number)
                until(lambda: number in done)
                proxy.reset()
            queue.push("last")
            until(lambda: "last" in done)
        assert watched.error is None
        limiter = Limiter(r, "api", "1000/1m", on_error="allow")
        for _ in range(8):
            assert limiter.check("ann").allowed
            proxy.reset()


def idle(one: Any, seconds: float, **options: Any) -> None:
    queue, done = Queue(one, "q"), []
    with working(one, "q", lambda job: done.append(job.payload), **options) as watched:
        time.sleep(seconds)  # the test is about the wait
        assert done == [] and watched.kinds() == [], "no error, no reconnect"
        queue.push("x")
        until(lambda: done == ["x"])


def test_an_idle_queue_is_no_error(one: Any) -> None:
    idle(one, 7, block=6)  # longer than redis-py's own time limit of 5 s


@pytest.mark.slow
@pytest.mark.skipif(not os.environ.get("CI"), reason="takes a minute: runs where CI is set")
def test_an_idle_queue_for_a_minute_is_no_error(one: Any) -> None:
    idle(one, 60, block=50)
