"""The results of handlers, and jobs that a worker no longer holds."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis

from zeitset import Call, Event, Job, JobInfo, LeaseLost, Queue, Retry, Worker

from zeitset._link import Link

from .raised import raised
from .support import until, working


async def send(job: Job) -> None:
    await asyncio.sleep(0)
    job.payload["sent"].append(job.id)


def kept(queue: Queue, id: str) -> JobInfo:
    found = queue.get(id)
    assert found is not None
    return found


def plain_decorator(function: Callable[[Job], Any]) -> Callable[[Job], Any]:
    def wrapper(job: Job) -> Any:
        return function(job)

    return wrapper


async def forgets_await(job: Job) -> Any:
    return send(job)


EXECUTOR = concurrent.futures.ThreadPoolExecutor(1)


@pytest.mark.parametrize(
    "handler",
    [
        lambda job: send(job),
        plain_decorator(send),
        forgets_await,
        lambda job: EXECUTOR.submit(lambda: job.payload["sent"].append(job.id)),
    ],
    ids=["lambda", "decorator", "no await", "future"],
)
def test_what_a_handler_returns_is_awaited(one: Any, handler: Callable[[Job], Any]) -> None:
    queue = Queue(one, "q")
    sent: list[str] = []

    class Codec:
        def dumps(self, payload: Any) -> bytes:
            return b""

        def loads(self, raw: bytes) -> Any:
            return {"sent": sent}

    one.execute_command("ZQ.PUSH", "q", "", "ID", "a")
    with working(one, "q", handler, codec=Codec()) as watched:
        until(lambda: watched.kinds() == ["completed"])
    assert sent == ["a"] and queue.stats()["acked"] == 1


def test_a_generator_is_no_handler(one: Any) -> None:
    def generator(job: Job) -> Any:
        yield job

    async def async_generator(job: Job) -> Any:
        yield job

    for handler in (generator, async_generator):
        with pytest.raises(TypeError, match="generator"):
            Worker(one, "q", handler)
    queue = Queue(one, "q")
    queue.push("x", id="a", max_attempts=1)
    with working(one, "q", plain_decorator(generator)) as watched:
        until(lambda: watched.kinds() == ["failed", "dead"])
    assert watched.error is None and "yield" in str(kept(queue, "a").error)


@pytest.mark.parametrize("kind", ["task", "thread"])
def test_whatever_a_handler_raises_its_job_is_reported_and_the_worker_lives(one: Any, kind: str) -> None:
    errors = raised()

    def thread(job: Job) -> None:
        if job.payload in errors:
            raise errors[job.payload]

    async def task(job: Job) -> None:
        thread(job)

    queue = Queue(one, "q")
    queue.push_many([{"payload": name, "id": name, "max_attempts": 1} for name in errors])
    queue.push("StopIteration", id="twice")
    with working(one, "q", task if kind == "task" else thread, concurrency=3, backoff=("10m", "10m")) as watched:
        until(lambda: watched.kinds().count("dead") == len(errors) and "failed" in watched.kinds())
        until(lambda: kept(queue, "twice").state == "delayed")
        assert kept(queue, "twice").attempts == 1, "the attempt counts, and the job waits for its backoff"
        queue.push("nothing", id="last")
        until(lambda: "completed" in watched.kinds())
    assert watched.error is None
    assert "KeyboardInterrupt" in str(kept(queue, "KeyboardInterrupt").error)
    assert kept(queue, "Unreadable").error == "Unreadable" and kept(queue, "Silent").error == "Silent"


class NotAwaitable:
    def __await__(self) -> Any:
        raise KeyError("no iterator")


@pytest.mark.parametrize("result", [1, object(), NotAwaitable(), {}, Exception("returned"), Exception])
def test_whatever_a_handler_returns_its_job_is_reported(one: Any, result: Any) -> None:
    queue = Queue(one, "q")
    queue.push("x", id="a", max_attempts=1)
    with working(one, "q", lambda job: result) as watched:
        until(lambda: watched.kinds() in (["completed"], ["failed", "dead"]))
    assert watched.error is None


@pytest.mark.parametrize("after", ["9999999w", timedelta.max])
def test_a_delay_beyond_all_times_is_reported(one: Any, after: Any) -> None:
    def handler(job: Job) -> None:
        raise Retry(after=after, hold=True)

    queue = Queue(one, "q")
    queue.push("x", id="a", group="g")
    with working(one, "q", handler) as watched:
        until(lambda: watched.kinds() == ["retried"])
    assert kept(queue, "a").state == "delayed" and watched.error is None


def test_a_chained_command_that_cannot_be_sent_fails_its_job(one: Any) -> None:
    def handler(job: Job) -> None:
        job.chain(Call(("SET", "key", None), str))  # type: ignore[arg-type]

    queue = Queue(one, "q")
    queue.push("x", id="a", max_attempts=1)
    with working(one, "q", handler) as watched:
        until(lambda: watched.kinds() == ["failed", "dead"])
    assert watched.error is None and "TypeError" in str(kept(queue, "a").error)


def test_a_handler_that_blocks_the_event_loop_loses_its_lease(one: Any) -> None:
    """While the handler blocks, the worker sends no heartbeat, and another worker may get the job."""
    runs = []

    async def handler(job: Job) -> None:
        runs.append(job.attempt)
        if job.attempt == 1:
            until(lambda: job.deadline_ms + 50 < time.time() * 1000)

    queue = Queue(one, "q")
    queue.push("x", id="a")
    with working(one, "q", handler, lease="600ms") as watched:
        until(lambda: watched.kinds() == ["lost", "completed"])
    assert runs == [1, 2] and queue.stats()["acked"] == 1


@pytest.mark.parametrize("kind", ["task", "thread"])
@pytest.mark.parametrize("ending", ["returns", "checks", "raises"])
def test_a_job_whose_lease_was_lost_is_not_acknowledged(
    one: Any, monkeypatch: pytest.MonkeyPatch, kind: str, ending: str
) -> None:
    """The lease has expired, but no other worker has claimed the job, so an ACK would count."""
    queue, handlers, request = Queue(one, "q"), [], Link.request

    async def without_heartbeats(self: Link, commands: Any, *args: Any) -> Any:
        if any(command[0] == "ZQ.EXTEND" for command in commands):
            raise redis.ConnectionError("no heartbeats get through")
        return await request(self, commands, *args)

    monkeypatch.setattr(Link, "request", without_heartbeats)

    def end(job: Job) -> None:
        if ending == "checks":
            job.check()
        if ending == "raises":
            raise RuntimeError("no connection")

    async def task(job: Job) -> None:
        handlers.append(job)
        if job.attempt == 1:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                end(job)

    def thread(job: Job) -> None:
        handlers.append(job)
        if job.attempt == 1:
            until(lambda: job.lost)
            end(job)

    queue.push("x", id="a")
    with working(one, "q", task if kind == "task" else thread, lease="600ms", concurrency=1) as watched:
        until(lambda: [job.attempt for job in handlers] == [1, 2])
    kinds = watched.kinds()
    assert kinds[:1] == ["disconnected"], "a heartbeat that does not get through is told"
    assert [kind for kind in kinds if kind not in ("disconnected", "completed")] == ["lost"]


@pytest.mark.parametrize("kind", ["task", "thread"])
def test_a_handler_that_did_finish_says_so(one: Any, kind: str) -> None:
    queue = Queue(one, "q")

    async def task(job: Job) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            job.done()
            raise

    def thread(job: Job) -> None:
        until(lambda: job.lost)
        job.done()

    queue.push("x", id="a")
    with working(one, "q", task if kind == "task" else thread, lease="600ms") as watched:
        until(lambda: watched.worker.running == 1)
        (job,) = watched.worker._held
        assert watched.thread.is_alive() and watched.worker._loop
        watched.worker._loop.call_soon_threadsafe(watched.worker._lose, job)
        until(lambda: watched.kinds() == ["lost", "completed"])
    assert queue.stats()["acked"] == 1 and queue.get("a") is None


def test_check_says_that_the_worker_stops(one: Any) -> None:
    queue, raised = Queue(one, "q"), []

    def handler(job: Job) -> None:
        until(lambda: job.stopping)
        with pytest.raises(LeaseLost, match="stops"):
            job.check()
        raised.append(job.id)

    queue.push("x", id="a")
    with working(one, "q", handler, grace=0) as watched:
        until(lambda: watched.worker.running == 1)
    until(lambda: raised == ["a"])
    assert queue.stats()["ready"] == 1


def test_a_task_that_obeys_the_stop_by_returning_is_released(one: Any) -> None:
    queue = Queue(one, "q")

    async def handler(job: Job) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return

    queue.push("x", id="a")
    with working(one, "q", handler, grace=0) as watched:
        until(lambda: queue.stats()["claimed"] == 1)
    assert watched.kinds() == ["released"] and queue.stats()["ready"] == 1


class Odd(BaseException):
    pass


@pytest.mark.parametrize("kind", ["task", "thread"])
@pytest.mark.parametrize("raised", [Odd, SystemExit, GeneratorExit, asyncio.CancelledError])
def test_whatever_a_handler_raises_is_a_failure(one: Any, kind: str, raised: type[BaseException]) -> None:
    queue = Queue(one, "q")

    async def task(job: Job) -> None:
        raise raised("odd")

    def thread(job: Job) -> None:
        raise raised("odd")

    queue.push("x", id="a", max_attempts=1)
    with working(one, "q", task if kind == "task" else thread) as watched:
        until(lambda: watched.kinds() == ["failed", "dead"])
        queue.push("y", id="b")
        until(lambda: watched.kinds()[2:3] == ["failed"])
    job = queue.get("a")
    assert job and job.state == "dead" and (job.error or "").startswith(raised.__name__)


@pytest.mark.parametrize("kind", ["task", "thread", "lambda"])
def test_a_job_that_takes_too_long_fails(one: Any, kind: str) -> None:
    queue, seen = Queue(one, "q"), []

    async def task(job: Job) -> None:
        try:
            await asyncio.sleep(60)
        finally:
            seen.append(job.lost)

    def thread(job: Job) -> None:
        until(lambda: job.lost)
        seen.append(job.lost)

    handler = {"task": task, "thread": thread, "lambda": lambda job: task(job)}[kind]
    queue.push("x", id="a")
    with working(one, "q", handler, timeout="50ms", backoff=("1h", "1h")) as watched:
        until(lambda: watched.kinds() == ["failed"] and seen == [True])
        until(lambda: watched.worker.running == 0)
    job = queue.get("a")
    assert job and (job.state, job.error) == ("delayed", "TimeoutError: ran longer than 0.05 s")
    assert watched.kinds() == ["failed"]


def test_the_time_a_job_may_take_can_depend_on_it(one: Any) -> None:
    queue, gate = Queue(one, "q"), threading.Event()
    queue.push({"timeout": "20ms"}, id="a", max_attempts=1)
    queue.push({}, id="b")
    with working(one, "q", lambda job: gate.wait(20), timeout=lambda job: job.payload.get("timeout")) as watched:
        until(lambda: watched.kinds() == ["failed", "dead"])
        gate.set()
        until(lambda: watched.kinds() == ["failed", "dead", "completed"])


def test_the_timeout_of_a_push_comes_before_that_of_the_worker(one: Any) -> None:
    queue, gate = Queue(one, "q"), threading.Event()
    seen: dict[str, int | None] = {}

    def handle(job: Job) -> None:
        seen[job.id] = job.timeout_ms
        gate.wait(20)

    queue.push("x", id="short", timeout="20ms", max_attempts=1)
    with working(one, "q", handle, timeout="1h") as watched:
        until(lambda: watched.kinds() == ["failed", "dead"])
    queue.push("x", id="long", timeout="1h")
    queue.push("x", id="worker's", max_attempts=1)
    with working(one, "q", handle, timeout="20ms") as watched:
        until(lambda: watched.kinds() == ["failed", "dead"])
        gate.set()
        until(lambda: watched.kinds() == ["failed", "dead", "completed"])
    assert seen == {"short": 20, "long": 3_600_000, "worker's": None}


def test_a_job_whose_timeout_cannot_be_read_is_a_dead_letter(one: Any) -> None:
    one.execute_command("ZQ.PUSH", "q", 'timeout: soon\n"x"', "ID", "a")
    with working(one, "q", lambda job: None) as watched:
        until(lambda: watched.kinds() == ["discarded", "dead"])
    job = Queue(one, "q").get("a")
    assert job and job.error and "not a duration: 'soon'" in job.error


def test_queues_have_handlers_of_their_own(one: Any) -> None:
    mails, reports = Queue(one, "mails"), Queue(one, "reports")
    done: list[tuple[str, Any]] = []

    async def make(job: Job) -> None:
        done.append(("report", job.payload))

    events: list[Event] = []
    worker = Worker(one, {"mails": lambda job: done.append(("mail", job.payload)), "reports": make}, on_event=events.append)
    mails.push(1)
    reports.push(2)
    asyncio.run(worker.serve(burst=True))
    assert sorted(done) == [("mail", 1), ("report", 2)]
    for wrong in ((["a"], None), ({"a": send}, send), ({"a": None}, None)):
        with pytest.raises(TypeError):
            Worker(one, *wrong)


def test_a_burst_ends_when_nothing_is_due(one: Any) -> None:
    queue, done = Queue(one, "q"), []
    queue.push("later", delay="1h")
    for number in range(50):
        queue.push(number)

    async def handler(job: Job) -> None:
        done.append(job.payload)
        if job.payload == 49:
            await asyncio.sleep(0.1)
            queue.push("pushed by a job")
        if job.payload == 7 and job.attempt == 1:
            raise RuntimeError("once more")

    worker = Worker(one, "q", handler, concurrency=3, backoff=("0s", "0s"))
    asyncio.run(worker.serve(burst=True))
    assert sorted(map(str, done)) == sorted([*map(str, range(50)), "7", "pushed by a job"])
    stats = queue.stats()
    assert (stats["ready"], stats["claimed"], stats["delayed"]) == (0, 0, 1)


def test_hooks_are_called_before_the_first_job_and_after_the_last(one: Any) -> None:
    order: list[str] = []

    async def on_start() -> None:
        await asyncio.sleep(0)
        order.append("start")

    Queue(one, "q").push("x")
    worker = Worker(one, "q", lambda job: order.append("job"), on_start=on_start, on_stop=lambda: order.append("stop"))
    asyncio.run(worker.serve(burst=True))
    assert order == ["start", "job", "stop"]

    def fails() -> None:
        raise RuntimeError("no database")

    Queue(one, "q").push("x")
    worker = Worker(one, "q", lambda job: order.append("job"), on_start=fails, on_stop=lambda: order.append("stop"))
    with pytest.raises(RuntimeError, match="no database"):
        asyncio.run(worker.serve())
    assert worker.state == "stopped" and len(order) == 3 and Queue(one, "q").stats()["ready"] == 1


def test_the_last_attempt_is_told(one: Any) -> None:
    queue = Queue(one, "q")
    queue.configure(backoff=("1ms", "1ms"))
    queue.push("x", id="a", max_attempts=2)

    def handler(job: Job) -> None:
        raise RuntimeError("no")

    with working(one, "q", handler) as watched:
        until(lambda: watched.kinds() == ["failed", "failed", "dead"])
    last = watched.events[-1]
    assert last.job and last.job.attempt == 2 and str(last.error) == "no"
