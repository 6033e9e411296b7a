"""However a worker ends, it releases the jobs that it holds."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import redis

from zeitset import Job, Queue, Worker

from .support import Server, until


class Program:
    def __init__(self, server: Server, program: str) -> None:
        lines = textwrap.dedent(program).replace("PORT", str(server.port))
        self.process = subprocess.Popen([sys.executable, "-c", lines], stderr=subprocess.PIPE)

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(20)


def test_both_workers_of_a_loop_stop_and_release(server: Server) -> None:
    program = """
        import asyncio, redis.asyncio
        from zeitset import Worker

        async def handler(job):
            await asyncio.sleep(60)

        async def main():
            r = redis.asyncio.Redis(port=PORT)
            workers = [Worker(r, name, handler, lease=600, grace="100ms") for name in ("a", "b")]
            await asyncio.gather(*(worker.serve(signals=True) for worker in workers))

        asyncio.run(main())
    """
    with server.client() as r:
        queues = [Queue(r, "a"), Queue(r, "b")]
        for queue in queues:
            queue.push("x")
        running = Program(server, program)
        until(lambda: all(queue.stats()["claimed"] == 1 for queue in queues))
        assert running.end(signal.SIGTERM) == 0
        assert [queue.stats()["ready"] for queue in queues] == [1, 1]


@pytest.mark.parametrize("how", ["async def handler(job): await asyncio.sleep(60)", "def handler(job): time.sleep(60)"])
def test_ctrl_c_releases(server: Server, how: str) -> None:
    """Without signals=True: asyncio.run cancels the main task."""
    program = f"""
        import asyncio, signal, time, redis.asyncio
        from zeitset import Worker

        # A shell that runs the tests in the background makes its children ignore SIGINT.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        {how}

        async def main():
            await Worker(redis.asyncio.Redis(port=PORT), "q", handler, lease=600).serve()

        asyncio.run(main())
    """
    with server.client() as r:
        queue = Queue(r, "q")
        queue.push("x", max_attempts=1)
        running = Program(server, program)
        until(lambda: queue.stats()["claimed"] == 1)
        assert running.end(signal.SIGINT) != 0
        assert (queue.stats()["ready"], queue.peek()[0].attempts) == (1, 0)


def test_a_worker_that_is_cancelled_releases_what_it_holds(server: Server) -> None:
    async def main(r: Any) -> None:
        async def handler(job: Job) -> None:
            await asyncio.sleep(60)

        worker = Worker(r, "q", handler, lease=600)
        task = asyncio.create_task(worker.serve())
        while queue.stats()["claimed"] < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert worker.state == "stopped"

    with server.client() as r:
        queue = Queue(r, "q")
        queue.push("x")
        queue.push("y")
        asyncio.run(asyncio.wait_for(main(r), 20))
        assert (queue.stats()["ready"], queue.stats()["claimed"]) == (2, 0)


def test_a_worker_that_is_cancelled_while_it_waits_takes_no_job_along(server: Server) -> None:
    async def main(r: Any) -> None:
        worker = Worker(r, "q", lambda job: None, lease=600, block=60)
        task = asyncio.create_task(worker.serve())
        while r.info("clients")["blocked_clients"] < 1:
            await asyncio.sleep(0.01)
        task.cancel()
        queue.push("x")
        with pytest.raises(asyncio.CancelledError):
            await task

    with server.client() as r:
        queue = Queue(r, "q")
        asyncio.run(asyncio.wait_for(main(r), 20))
        stats = queue.stats()
        assert stats["claimed"] == 0 and stats["ready"] + stats["acked"] == 1


def test_a_stop_before_the_start_and_after_the_end(one: Any) -> None:
    runs: list[str] = []
    Queue(one, "q").push("x")
    worker = Worker(one, "q", lambda job: runs.append(job.id))
    worker.stop()
    worker.run()
    assert worker.state == "stopped" and runs == []
    worker.stop()
    worker.stop()
    worker = Worker(one, "q", lambda job: worker.stop())
    worker.run()
    worker.stop()
    assert worker.state == "stopped" and Queue(one, "q").stats()["acked"] == 1
    again = Worker(one, "q", lambda job: runs.append(job.payload))
    for payload in ("y", "z"):
        Queue(one, "q").push(payload)
        again.run(burst=True)
        again.stop()
    assert runs == ["y", "z"], "a worker may run again"


def test_a_handler_that_goes_on_is_released_and_one_that_was_done_is_not(one: Any) -> None:
    gate = asyncio.Event()

    async def handler(job: Job) -> None:
        if job.id == "done":
            job.done()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                pass

    queue = Queue(one, "q")
    queue.push("x", id="done")
    queue.push("x", id="open")

    async def main() -> None:
        worker = Worker(one, "q", handler, grace=0)
        task = asyncio.create_task(worker.serve())
        while worker.running < 2:
            await asyncio.sleep(0.01)
        worker.stop()
        await task
        gate.set()

    asyncio.run(main())
    assert [job.id for job in queue.peek()] == ["open"] and queue.stats()["acked"] == 1


def test_the_programs_own_signal_handler_is_there_again_afterwards(one: Any) -> None:
    before = signal.signal(signal.SIGINT, lambda *_: None)
    own = signal.getsignal(signal.SIGINT)
    try:
        Worker(one, "q", lambda job: None).run(burst=True)
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)
