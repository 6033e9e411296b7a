"""The worker, which runs the handlers. Its sources claim jobs and report outcomes, in the same event loop."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from time import monotonic
from typing import Any, Literal

from ._codec import CodecName, codec as codec_of, header_of
from ._cron import Cron, by_key
from ._endings import Endings
from ._handlers import Handler, Handlers, checked
from ._job import Event, Job
from ._link import Place, by_slot
from ._order import checked as checked_weights
from ._shards import keys_of
from ._signals import on_signals
from ._slots import Slots
from ._source import Source
from ._telemetry import Telemetry
from ._time import Duration, milliseconds
from ._upkeep import Clock, Upkeep
from .errors import Discard, is_refused

log = logging.getLogger("zeitset")

State = Literal["new", "running", "reconnecting", "stopping", "stopped"]
Hook = Callable[[], Any]


class Worker:
    """Runs `handler(job)` for each job of the queues. A coroutine function runs in the event loop, any other function
    in a thread.

    `queues` may be a dictionary of queues and their handlers: `Worker(r, {"mails": send, "reports": make})`. The worker
    serves the queues in this order, unless a cluster has them in different slots. `weights={"high": 3, "low": 1}`: while
    both queues have jobs, the worker claims three jobs of the first for each job of the second, instead of serving the
    queues in their order. `shards`: the number of shards of each queue. `lease`: if a worker crashes, its jobs are due again after this time. `grace`: how long handlers may
    still run after the worker was told to stop. `timeout`: how long a handler may run before its job fails. It
    may also be a function that takes a job and returns this time. `backoff`: the first and the longest wait after a
    failure, for queues without a BACKOFF. `on_start` is called (and awaited) before the first claim, and `on_stop` at
    the end. `clock`: a `Clock` of `zeitset.testing`. `telemetry`: an `OpenTelemetry` of `zeitset.otel`.
    """

    def __init__(
        self,
        client: Any,
        queues: str | Iterable[str] | Mapping[str, Handler],
        handler: Handler | None = None,
        *,
        shards: int | None = None,
        weights: Mapping[str, float] | None = None,
        concurrency: int = 10,
        lease: Duration = 30,
        grace: Duration = 20,
        timeout: Duration | Callable[[Job], Duration | None] | None = None,
        backoff: tuple[Duration, Duration] = (1, 3600),
        block: Duration = 5,
        codec: CodecName = "json",
        cron: Iterable[Cron] = (),
        name: str | None = None,
        on_event: Callable[[Event], None] | None = None,
        on_start: Hook | None = None,
        on_stop: Hook | None = None,
        clock: Clock | None = None,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.queues = [queues] if isinstance(queues, str) else list(queues)
        if not self.queues or concurrency < 1:
            raise ValueError("a worker needs at least one queue and one slot")
        if isinstance(queues, Mapping) != (handler is None):
            raise TypeError("a worker needs queues and a handler, or a dictionary of queues and their handlers")
        of: Mapping[str, Any] = queues if isinstance(queues, Mapping) else dict.fromkeys(self.queues, handler)
        self._weights = checked_weights(weights, self.queues)
        self._handlers_of = {queue: checked(of[queue]) for queue in self.queues}
        self.concurrency = concurrency
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        keys = {queue: keys_of(queue, shards) for queue in self.queues}
        self._queue_of = {key: queue for queue, each in keys.items() for key in each}
        self._parts = [(Place(client, part[0]), part) for part in by_slot(client, list(self._queue_of))]
        self._lease_ms = milliseconds(lease)
        self._lease = self._lease_ms / 1000
        self._grace = milliseconds(grace) / 1000
        self._timeout_of = timeout if callable(timeout) else lambda job: timeout
        self._backoff_ms = milliseconds(backoff[0]), milliseconds(backoff[1])
        if self._lease_ms < 1:
            raise ValueError("lease must be at least 1 ms")
        # A lease counts from the moment the claim was sent, so a claim must not wait for long.
        self._block_ms = max(1, min(milliseconds(block), self._lease_ms // 3))
        self._burst = False
        self._codec = codec_of(codec)
        self._crons = by_key(cron, keys)
        self._clock = clock
        self._on_event = on_event
        self._telemetry = telemetry
        self._on_start, self._on_stop = on_start, on_stop
        self._state: State = "new"
        self._held: dict[Job, None] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_asked = False

    @property
    def state(self) -> State:
        return self._state

    @property
    def running(self) -> int:
        """The number of jobs that the worker has claimed and not yet finished."""
        return len(self._held)

    def run(self, *, burst: bool = False) -> None:
        """Works until SIGTERM, SIGINT or `stop()`. With `burst`, also ends when no job is due and none runs.

        Raises a permanent error, for example if the server lacks the module.
        """
        asyncio.run(self.serve(signals=True, burst=burst))

    def stop(self) -> None:
        """Stops the worker after its handlers have ended. Waits for them for at most `grace`. A second call ends this
        wait. Any thread may call `stop`. If `stop` is called before `run`, `run` ends at once."""
        if self._state == "stopped":
            return
        self._stop_asked = True
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._stop_now)
            except RuntimeError:  # the loop is closed
                pass

    async def serve(self, *, signals: bool = False, burst: bool = False) -> None:
        """Works as `run` does, in the running event loop. With `signals`, also ends at SIGTERM and SIGINT.

        If this coroutine is cancelled, the worker releases the jobs that it holds.
        """
        if self._state not in ("new", "stopped"):
            raise RuntimeError("the worker runs already")
        self._state = "reconnecting"
        self._burst = burst
        self._fatal: BaseException | None = None
        try:
            if not self._stop_asked:
                with on_signals(self._stop_now) if signals else nullcontext():
                    await self._serve()
        finally:
            self._state, self._loop, self._stop_asked = "stopped", None, False
        if self._fatal is not None:
            raise self._fatal

    def _source(self, place: Place, keys: list[str]) -> Source:
        upkeep = Upkeep(keys, self._crons, self._codec, self._clock)
        queues: dict[str, list[str]] = {}
        for key in keys:
            queues.setdefault(self._queue_of[key], []).append(key)
        endings = Endings(upkeep, self._backoff_ms, self._lease_ms, self._emit)
        return Source(self, place, list(queues.values()), upkeep, endings)

    async def _serve(self) -> None:
        self._stop, self._hurry, self._idle = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if self._stop_asked:  # another thread has called `stop`
            return
        self._slots = Slots(self.concurrency, self._held, len(self._parts))
        self._sources = [self._source(place, keys) for place, keys in self._parts]
        await _call(self._on_start)
        self._handlers = Handlers(self._handlers_of, self.concurrency)
        for source in self._sources:
            source.start()
        watching = asyncio.create_task(self._guarded(self._watch()))
        ending = asyncio.create_task(self._wind_down())
        cancelled: BaseException | None = None
        while not ending.done():
            try:
                await asyncio.wait((ending,))
            except asyncio.CancelledError as error:
                cancelled = error
                self._stop.set()
                self._hurry.set()
            if ending.cancelled():  # asyncio.run cancels all tasks, including this one
                ending = asyncio.create_task(self._wind_down())
        tasks = [watching, *(task for source in self._sources for task in source.tasks)]
        tasks += [job._task for job in self._held if job._task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=2.0)
        for source in self._sources:
            await source.close()
        self._handlers.close()
        await _call(self._on_stop)
        if cancelled is not None:
            raise cancelled
        await ending

    # Jobs

    def _start(self, job: Job, asked: float) -> None:
        job._started = monotonic()
        job._expires = asked + self._lease
        # This process or the server stood still, and more than half of the lease has passed.
        if self._stop.is_set() or job._started - asked > self._lease / 2:
            job._source.endings.release(job)
            return
        cron = job._source.upkeep.cron(job)
        if cron is not None and job.attempt > cron.max_attempts:
            job._source.endings.finish(job, "failed", RuntimeError("given up: earlier attempts left no result"))
            return
        try:
            job.payload = self._codec.loads(job.raw)
            job.traceparent, job.timeout_ms = header_of(self._codec, job.raw)
        except Exception as error:
            job._source.endings.finish(job, "discarded", Discard(f"the payload cannot be decoded: {error}"))
            return
        self._slots.hold(job)
        self._emit(Event("claimed", job))
        job._task = asyncio.create_task(self._run(job))

    async def _run(self, job: Job) -> None:
        error: BaseException | None = None
        try:
            self._set_timer(job)
            with nullcontext() if self._telemetry is None else self._telemetry.handles(job):
                await self._handlers.run(job)
        except asyncio.CancelledError as raised:
            error = raised
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0)  # if all tasks are cancelled, `serve` notices it now
        except BaseException as raised:
            error = raised
        if job._timer is not None:
            job._timer.cancel()
        if monotonic() >= job._expires:  # the handler has blocked the event loop, so `_watch` has not noticed it yet
            self._lose(job)
        self._slots.drop(job)
        if not self._held:
            self._idle.set()
        if not job._reported:
            try:
                job._source.endings.conclude(job, error, self._hurry.is_set())
            except Exception as raised:  # a property of the handler's exception has raised
                job._source.endings.finish(job, "failed", raised)
        if isinstance(error, KeyboardInterrupt) and _is_interrupt(job):
            self._stop_now()

    def _set_timer(self, job: Job) -> None:
        limit = f"{job.timeout_ms}ms" if job.timeout_ms is not None else self._timeout_of(job)
        if limit is not None and self._loop is not None:
            seconds = milliseconds(limit) / 1000
            job._timer = self._loop.call_later(seconds, self._time_out, job, seconds)

    def _time_out(self, job: Job, seconds: float) -> None:
        if job.lost or job.stopping or job not in self._held:
            return
        job.lost = True
        if not job._done:
            job._reported = True
            job._source.endings.finish(job, "failed", TimeoutError(f"ran longer than {seconds:g} s"))
        self._cancel(job)

    def _lose(self, job: Job) -> None:
        if job.lost or job not in self._held:
            return
        job.lost = True
        self._emit(Event("lost", job, monotonic() - job._started))
        self._cancel(job)

    def _cancel(self, job: Job) -> None:
        """Cancels the handler of a job. A handler in a thread cannot be cancelled: it keeps its slot, and can check
        `job.lost`."""
        if job._cancellable and job._task is not None:
            job._task.cancel()

    # Sources

    def _on_connected(self) -> None:
        self._state = "running" if not self._stop.is_set() else self._state
        self._emit(Event("connected"))

    def _end_burst(self) -> None:
        if not self._held and all(source.is_dry for source in self._sources):
            self._stop.set()

    async def _watch(self) -> None:
        tick = min(1.0, self._lease / 20)
        while True:
            await asyncio.sleep(tick)
            soon = monotonic() + tick
            for job in list(self._held):
                if job._expires <= soon:
                    self._lose(job)

    # The end

    async def _wind_down(self) -> None:
        await self._stop.wait()
        self._state = "stopping"
        self._slots.close()
        end = monotonic() + min(self._block_ms / 1000, max(self._grace, 1.0)) + 0.1
        await asyncio.gather(*(source.end_claims(end) for source in self._sources))
        ready = asyncio.create_task(self._all_ready())
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait((ready, hurry), timeout=self._grace, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        hurry.cancel()
        tasks = []
        for job in list(self._held):
            job.stopping = not job.lost
            if job._task is not None:
                tasks.append(job._task)
                job._task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2.0)
        for job in self._held:  # handlers that caught their cancellation and went on
            if not job._reported:
                job._source.endings.conclude(job, None)
                job._reported = True
        for error in await asyncio.gather(*(source.deliver() for source in self._sources), return_exceptions=True):
            if isinstance(error, Exception):
                self._fatal = self._fatal or error

    async def _all_ready(self) -> None:
        while self._held:
            self._idle.clear()
            await self._idle.wait()

    def _stop_now(self) -> None:
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    async def _guarded(self, loop: Any) -> None:
        try:
            await loop
        except asyncio.CancelledError:
            if not self._stop.is_set():  # before Python 3.11, nothing tells a fault of the connection from `cancel`
                self._fail(RuntimeError("a loop of the worker was cancelled"))
            raise
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """Stops the worker because of a permanent error."""
        self._fatal = self._fatal or error
        log.error("the worker stops: %s", error)
        self._emit(Event("error", error=error))
        self._stop.set()

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except asyncio.TimeoutError:
            pass

    def _interrupted(self, error: Exception) -> None:
        if is_refused(error):
            log.warning("Redis takes no commands: %s", error)
            self._emit(Event("refused", error=error))
            return
        if self._state == "running" and not any(source.connected for source in self._sources):
            self._state = "reconnecting"
        log.warning("Redis is away: %s", error)
        self._emit(Event("disconnected", error=error))

    def _emit(self, event: Event) -> None:
        if event.kind == "failed" and event.error is not None:
            log.error("%r failed", event.job, exc_info=event.error)
        if self._on_event is not None:
            try:
                self._on_event(event)
            except Exception:
                log.exception("on_event failed")


def _is_interrupt(job: Job) -> bool:
    """Whether a KeyboardInterrupt of the handler comes from SIGINT. If the worker or asyncio handles SIGINT, or the
    handler runs in a thread, the handler itself has raised it."""
    in_main = job._cancellable and threading.current_thread() is threading.main_thread()
    return in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


async def _call(hook: Hook | None) -> None:
    result = None if hook is None else hook()
    if inspect.isawaitable(result):
        await result
