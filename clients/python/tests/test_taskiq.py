"""The broker for taskiq, through taskiq's own receiver."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from .support import PATIENCE, Proxy, Server

taskiq = pytest.importorskip("taskiq")

from taskiq import SimpleRetryMiddleware, SmartRetryMiddleware  # noqa: E402
from taskiq.receiver import Receiver  # noqa: E402

from zeitset.taskiq import ZeitsetBroker  # noqa: E402


@asynccontextmanager
async def working(broker: ZeitsetBroker, **options: Any) -> AsyncIterator[None]:
    broker.is_worker_process = True
    ends = asyncio.Event()
    with ThreadPoolExecutor(4) as executor:
        receiver = Receiver(broker, executor=executor, max_async_tasks=10, run_startup=True, **options)
        listening = asyncio.create_task(receiver.listen(ends))
        try:
            yield
        finally:
            ends.set()
            await listening
            await broker.shutdown()


async def eventually(condition: Callable[[], Any]) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        await asyncio.sleep(0.01)


async def stats(broker: ZeitsetBroker) -> Any:
    return await broker.queue.stats() or {}


def test_tasks_run_delayed_ones_when_they_are_due(shared: Server, one: Any) -> None:
    async def main() -> None:
        broker = ZeitsetBroker(shared.url, lease=2)
        runs: list[Any] = []

        @broker.task
        async def work(name: str) -> None:
            runs.append(name)

        @broker.task
        def threaded(name: str) -> None:
            runs.append(name)

        await work.kicker().with_labels(delay=0.5).kiq("late")
        assert (await stats(broker))["delayed"] == 1
        await work.kicker().with_labels(priority=5).kiq("second")
        await work.kicker().with_labels(priority=-5).kiq("first")
        assert [job.priority for job in await broker.queue.peek()] == [-5, 5]
        await threaded.kiq("thread")
        async with working(broker):
            await eventually(lambda: len(runs) == 4)
        assert set(runs[:3]) == {"first", "second", "thread"} and runs[3] == "late"
        assert (await stats(ZeitsetBroker(shared.url)))["acked"] == 4

    asyncio.run(main())


@pytest.mark.parametrize("middleware", [SimpleRetryMiddleware(3), SmartRetryMiddleware(3, default_delay=0.05)])
def test_retries_are_the_middlewares(shared: Server, one: Any, middleware: Any) -> None:
    async def main() -> None:
        broker = ZeitsetBroker(shared.url)
        broker.add_middlewares(middleware)
        runs: list[int] = []
        one.config_resetstat()

        @broker.task(retry_on_error=True)
        async def fail() -> None:
            runs.append(1)
            raise RuntimeError("no")

        await fail.kiq()
        async with working(broker):
            await eventually(lambda: len(runs) == 3)
            await eventually(lambda: one.info("commandstats")["cmdstat_ZQ.ACK"]["calls"] == 3)

    asyncio.run(main())


def test_a_task_that_runs_longer_than_its_lease_runs_once(shared: Server, one: Any) -> None:
    async def main() -> None:
        first, second = ZeitsetBroker(shared.url, lease=1), ZeitsetBroker(shared.url, lease=1)
        runs: list[int] = []

        async def work() -> None:
            runs.append(1)
            await asyncio.sleep(2.5)  # more than two leases
            runs.append(2)

        for broker in (first, second):
            broker.register_task(work, "work")
        task = first.find_task("work")
        assert task is not None
        await task.kiq()
        async with working(first), working(second):
            await eventually(lambda: 2 in runs)
        assert runs == [1, 2]

    asyncio.run(main())


def test_a_worker_that_is_killed_loses_nothing(shared: Server, one: Any) -> None:
    code = """
import asyncio, sys
from taskiq.receiver import Receiver
from concurrent.futures import ThreadPoolExecutor
from zeitset.taskiq import ZeitsetBroker

broker = ZeitsetBroker(sys.argv[1], lease=1)

@broker.task(task_name="work")
async def work():
    await broker.client.incr("runs")
    await asyncio.sleep(60)

async def main():
    broker.is_worker_process = True
    await Receiver(broker, executor=ThreadPoolExecutor(1), run_startup=True).listen(asyncio.Event())

asyncio.run(main())
"""

    async def main() -> None:
        broker = ZeitsetBroker(shared.url, lease=1)

        async def work() -> None:
            await broker.client.incr("runs")

        await broker.register_task(work, "work").kiq()
        child = subprocess.Popen([sys.executable, "-c", code, shared.url])
        await eventually(lambda: one.get("runs") == b"1")
        child.kill()
        child.wait()
        async with working(broker):
            await eventually(lambda: one.get("runs") == b"2")

    asyncio.run(main())


def test_what_is_not_acknowledged_at_the_end_is_given_back(shared: Server, one: Any) -> None:
    async def main() -> None:
        broker = ZeitsetBroker(shared.url, lease=3600)

        @broker.task(ack_type="manual")
        async def work() -> None:
            began.set()

        began = asyncio.Event()
        await work.kiq()
        async with working(broker):
            await asyncio.wait_for(began.wait(), PATIENCE)
            assert (await stats(broker))["claimed"] == 1
        (job,) = await broker.queue.peek("ready")
        assert job.attempts == 0

    asyncio.run(main())


def test_a_task_that_the_worker_does_not_know_is_left_to_others(shared: Server, one: Any) -> None:
    async def main() -> None:
        newer, older = ZeitsetBroker(shared.url), ZeitsetBroker(shared.url)

        @newer.task(task_name="new")
        async def new() -> None: ...

        await new.kiq()
        await newer.queue.push(b"no task", id="garbage")
        async with working(older):
            end = time.monotonic() + PATIENCE
            while (found := await stats(older))["nacked"] < 2:
                assert time.monotonic() < end, found
                await asyncio.sleep(0.01)
        assert (found["delayed"], found["dead"], found["claimed"]) == (1, 1, 0)
        dead, (waiting,) = await newer.queue.get("garbage"), await newer.queue.peek("delayed")
        assert dead is not None and dead.state == "dead" and waiting.attempts == 1
        for _ in range(7):
            await newer.queue.reschedule(waiting.id, delay=0)
            async with working(older):
                end = time.monotonic() + PATIENCE
                while (await stats(older))["delayed"] + (await stats(older))["dead"] < 2 or (await stats(older))["ready"]:
                    assert time.monotonic() < end
                    await asyncio.sleep(0.01)
        info = await newer.queue.get(waiting.id)
        assert info is not None and info.state == "dead" and "no task 'new'" in str(info.error)

    asyncio.run(main())


def test_lost_connections_run_no_task_twice(shared: Server, one: Any) -> None:
    async def main(proxy: Proxy) -> None:
        broker = ZeitsetBroker(f"redis://127.0.0.1:{proxy.port}", lease=20)
        runs: list[int] = []

        @broker.task
        async def work(number: int) -> None:
            runs.append(number)
            if number % 10 == 0:
                proxy.cut()

        for number in range(1, 31):
            await work.kiq(number)
        async with working(broker):
            await eventually(lambda: set(runs) == set(range(1, 31)))
            await eventually(lambda: one.info("commandstats")["cmdstat_ZQ.ACK"]["calls"] >= 30)
        assert len(runs) == 30

    with Proxy(shared.port) as proxy:
        one.config_resetstat()
        asyncio.run(main(proxy))
