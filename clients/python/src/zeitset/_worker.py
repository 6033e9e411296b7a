"""The worker: claims jobs, runs the handler, tells the server what came of them.

Four loops share one event loop. `_claim` sends what is finished together with the next claim. `_flush` sends what is
finished while a claim waits. `_beat` extends leases, `_watch` ends the jobs whose lease is over. Handlers are tasks, or
run in threads.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import random
import signal
import socket
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Any, Literal

from ._call import Word, encoded, text
from ._codec import CodecName, codec as codec_of
from ._cron import Cron, by_queue
from ._job import Event, EventKind, Job, Outcome, error_text
from ._link import Backoff, Link, Place
from ._report import commands_of, read_replies
from ._threads import Threads
from ._time import Duration, milliseconds
from ._upkeep import Upkeep
from .errors import Discard, Retry, is_away

log = logging.getLogger("zeitset")

State = Literal["new", "running", "reconnecting", "stopping", "stopped"]
_PATIENCE = 5.0  # seconds for a reply that need not wait
_MINUTE = 60.0


class Worker:
    """Runs `handler(job)` for each job of the queues: a coroutine function as tasks, any other function in threads.

    The first queue that has a job is served first. `lease`: a worker that dies is noticed after that long. `grace`: how long
    handlers may go on once the worker is told to stop. `backoff`: the first and the longest wait after a failure, for queues that
    have no BACKOFF.
    """

    def __init__(
        self,
        client: Any,
        queues: str | Iterable[str],
        handler: Callable[[Job], Any],
        *,
        concurrency: int = 10,
        lease: Duration = 30,
        grace: Duration = 20,
        backoff: tuple[Duration, Duration] = (1, 3600),
        block: Duration = 5,
        codec: CodecName = "json",
        cron: Iterable[Cron] = (),
        name: str | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self.queues = [queues] if isinstance(queues, str) else list(queues)
        if not self.queues or concurrency < 1:
            raise ValueError("a worker needs at least one queue and one slot")
        self.concurrency = concurrency
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._client = client
        self._handler = handler
        self._is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)
        )
        self._lease_ms = milliseconds(lease)
        self._lease = self._lease_ms / 1000
        self._grace = milliseconds(grace) / 1000
        self._backoff_ms = milliseconds(backoff[0]), milliseconds(backoff[1])
        self._block_ms = max(1, milliseconds(block))
        if self._lease_ms < 1:
            raise ValueError("a lease is longer than that")
        self._codec = codec_of(codec)
        self._upkeep = Upkeep(self.queues, by_queue(cron, self.queues), self._codec)
        self._on_event = on_event
        self._state: State = "new"
        self._held: dict[Job, None] = {}
        self._outbox: list[Outcome] = []
        self._claim_words: tuple[Word, ...] = ("BLOCK", f"{self._block_ms}ms", "AS", encoded(self.name)[:255])
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def state(self) -> State:
        return self._state

    @property
    def running(self) -> int:
        """Jobs that the worker holds."""
        return len(self._held)

    def run(self) -> None:
        """Works until SIGTERM, SIGINT or `stop()`. Raises what does not pass by itself, such as a missing module."""
        asyncio.run(self.serve(signals=True))

    def stop(self) -> None:
        """Stops gracefully; the second call ends the grace. May be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop_now)

    async def serve(self, *, signals: bool = False) -> None:
        """As `run`, in the running event loop."""
        if self._state not in ("new", "stopped"):
            raise RuntimeError("the worker runs already")
        self._loop = asyncio.get_running_loop()
        self._stop, self._hurry = asyncio.Event(), asyncio.Event()
        self._slot, self._reported = asyncio.Event(), asyncio.Event()
        self._idle, self._delivering = asyncio.Event(), asyncio.Lock()
        self._fatal: BaseException | None = None
        self._threads = None if self._is_async else Threads(self._handler, self.concurrency)
        place = Place(self._client, self.queues[0])
        self._claims, self._control = Link(place, _PATIENCE), Link(place, min(_PATIENCE, self._lease / 3))
        undo = self._catch_signals() if signals else lambda: None
        self._state = "reconnecting"
        claiming = asyncio.create_task(self._guarded(self._claim()))
        others = [
            asyncio.create_task(self._guarded(loop())) for loop in (self._flush, self._beat, self._watch, self._look_after)
        ]
        try:
            await self._stop.wait()
            await self._wind_down(claiming)
        finally:
            tasks = [claiming, *others, *(job._task for job in self._held if job._task is not None)]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=2.0)
            await self._claims.close()
            await self._control.close()
            if self._threads is not None:
                self._threads.close()
            undo()
            self._state = "stopped"
        if self._fatal is not None:
            raise self._fatal

    # Claims

    async def _claim(self) -> None:
        backoff = Backoff()
        while not self._stop.is_set():
            free = self.concurrency - len(self._held)
            if free < 1:
                self._slot.clear()
                await self._slot.wait()
                continue
            try:
                if await self._claims.open():
                    await self._connected()
                claimed = await self._claim_once(free)
            except Exception as error:
                if not is_away(error):
                    raise
                await self._claims.close()
                if self._stop.is_set():
                    return
                self._disconnected(error)
                await self._pause(backoff.next())
                continue
            backoff.reset()
            for row in claimed:
                self._start(row)
            if claimed:
                # Short handlers are done before the next claim, which takes their ACKs along.
                await asyncio.sleep(0)

    async def _claim_once(self, free: int) -> list[Any]:
        outcomes = self._take_outbox()
        commands = commands_of(outcomes)
        lease: tuple[Word, ...] = ("LEASE", f"{self._lease_ms}ms", "COUNT", free)
        commands.append(("ZQ.CLAIM", len(self.queues), *self.queues, *lease, *self._claim_words))
        settled = False

        def settle(replies: list[Any]) -> None:
            nonlocal settled
            settled = True
            self._settle(outcomes, replies)

        try:
            claimed = (await self._claims.request(commands, self._block_ms / 1000 + _PATIENCE, settle))[-1]
        except BaseException:
            if not settled:
                self._outbox[:0] = outcomes
            raise
        if isinstance(claimed, Exception):
            raise claimed
        return list(claimed)

    def _start(self, row: list[Any]) -> None:
        key, id, token, attempt, deadline, raw = row
        job = Job(text(key), text(id), token, attempt, deadline, raw)
        job._started = monotonic()
        # The lease began when the reply left the server, which was before now: by less than a beat, or the link is broken.
        job._expires = job._started + self._lease
        if self._stop.is_set():
            self._report(job, "released", nack=("DELAY", 0, "FREE"))
            return
        cron = self._upkeep.cron(job)
        if cron is not None and job.attempt > cron.attempts:
            self._finish(job, "failed", RuntimeError("given up: earlier attempts left no result"))
            return
        try:
            job.payload = self._codec.loads(raw)
        except Exception as error:
            self._finish(job, "discarded", Discard(f"the payload cannot be decoded: {error}"))
            return
        self._held[job] = None
        self._emit(Event("claimed", job))
        job._task = asyncio.create_task(self._run(job))

    # Handlers

    async def _run(self, job: Job) -> None:
        try:
            await (self._handler(job) if self._threads is None else self._threads.run(job))
        except asyncio.CancelledError as error:
            if job.stopping:
                self._report(job, "released", nack=("DELAY", 0, "FREE"))
            elif job.lost and self._threads is None:
                self._emit(Event("lost", job, monotonic() - job._started))
            else:
                self._finish(job, "failed", error)
        except Discard as error:
            self._finish(job, "discarded", error)
        except Retry as error:
            free = ("FREE",) if error.free else ()
            delay = self._delay(job) if error.after_ms is None else ("DELAY", f"{error.after_ms}ms")
            self._report(job, "retried", error, (*delay, *free, "ERROR", error_text(error)))
        except (Exception, SystemExit) as error:
            self._finish(job, "failed", error)
        else:
            self._finish(job, "completed", None)
        finally:
            self._held.pop(job, None)
            self._slot.set()
            if not self._held:
                self._idle.set()

    def _finish(self, job: Job, kind: EventKind, error: BaseException | None) -> None:
        cron = self._upkeep.cron(job)
        if error is None or (cron is not None and (kind == "discarded" or job.attempt >= cron.attempts)):
            chained = tuple(call.args for call in job._chained) if error is None else ()
            if cron is not None:
                chained += (self._upkeep.next_run(job, cron, self._lease_ms),)
            self._report(job, kind, error, chained=chained)
        elif kind == "discarded":
            self._report(job, kind, error, ("DEAD", "ERROR", error_text(error)))
        else:
            self._report(job, kind, error, (*self._delay(job), "ERROR", error_text(error)))

    def _delay(self, job: Job) -> tuple[Word, ...]:
        """Nothing where the queue has a BACKOFF; a job that fails again and again must not keep the worker busy."""
        if self._upkeep.has_backoff(job.queue):
            return ()
        first, longest = self._backoff_ms
        wait = min(longest, first * 2 ** min(job.attempt - 1, 40))
        return ("DELAY", f"{int(wait * random.uniform(1.0, 1.25))}ms")

    # Reports

    def _report(
        self,
        job: Job,
        kind: EventKind,
        error: BaseException | None = None,
        nack: tuple[Word, ...] | None = None,
        chained: tuple[tuple[Word, ...], ...] = (),
    ) -> None:
        self._outbox.append(Outcome(job, Event(kind, job, monotonic() - job._started, error), nack, chained))
        self._reported.set()

    def _take_outbox(self) -> list[Outcome]:
        taken, self._outbox = self._outbox, []
        return taken

    def _settle(self, outcomes: list[Outcome], replies: list[Any]) -> None:
        again, events, problem = read_replies(outcomes, replies, self._delay)
        if again:
            self._outbox[:0] = again
            self._reported.set()
        for event in events:
            self._emit(event)
        if problem is not None:
            raise problem

    async def _deliver(self) -> None:
        async with self._delivering:
            outcomes = self._take_outbox()
            if not outcomes:
                return
            try:
                replies = await self._control.request(commands_of(outcomes))
            except BaseException:
                self._outbox[:0] = outcomes
                raise
            self._settle(outcomes, replies)

    async def _flush(self) -> None:
        backoff = Backoff()
        while True:
            await self._reported.wait()
            self._reported.clear()
            await asyncio.sleep(0.001)  # the next claim may take it along
            while self._outbox:
                try:
                    await self._deliver()
                except Exception as error:
                    if not is_away(error):
                        raise
                    await self._control.close()
                    await asyncio.sleep(backoff.next())
                else:
                    backoff.reset()

    # Leases

    async def _beat(self) -> None:
        backoff = Backoff()
        wait = self._lease / 3
        while True:
            await asyncio.sleep(wait)
            wait = self._lease / 3
            held = [job for job in self._held if not job.lost]
            if not held:
                continue
            asked = monotonic()
            try:
                replies = await self._control.request(
                    [("ZQ.EXTEND", job.queue, encoded(job.id), job.token, f"{self._lease_ms}ms") for job in held]
                )
                away = next((reply for reply in replies if isinstance(reply, Exception)), None)
                if away is not None:
                    raise away
            except Exception as error:
                if not is_away(error):
                    raise
                await self._control.close()
                wait = min(wait, backoff.next())
                continue
            backoff.reset()
            for job, deadline in zip(held, replies):
                if deadline is None:
                    self._lose(job)
                else:
                    job.deadline_ms, job._expires = deadline, asked + self._lease

    async def _watch(self) -> None:
        tick = min(1.0, self._lease / 20)
        while True:
            await asyncio.sleep(tick)
            soon = monotonic() + tick
            for job in list(self._held):
                if job._expires <= soon:
                    self._lose(job)

    def _lose(self, job: Job) -> None:
        if job.lost or job not in self._held:
            return
        job.lost = True
        if self._threads is not None:
            self._emit(Event("lost", job, monotonic() - job._started))
        elif job._task is not None:
            job._task.cancel()

    # Upkeep

    async def _connected(self) -> None:
        await self._upkeep.refresh(self._claims)
        self._state = "running" if not self._stop.is_set() else self._state
        self._emit(Event("connected"))

    async def _look_after(self) -> None:
        while True:
            await asyncio.sleep(_MINUTE)
            try:
                await self._upkeep.refresh(self._control)
            except Exception as error:
                if not is_away(error):
                    raise
                await self._control.close()

    # The end

    async def _wind_down(self, claiming: asyncio.Task[None]) -> None:
        self._state = "stopping"
        await self._unblock(claiming)
        ready = asyncio.create_task(self._all_ready())
        hurry = asyncio.create_task(self._hurry.wait())
        await asyncio.wait((ready, hurry), timeout=self._grace, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        hurry.cancel()
        tasks = []
        for job in list(self._held):
            if not job.lost:
                job.stopping = True
            if job._task is not None:
                tasks.append(job._task)
                job._task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=2.0)
        for job in self._held:  # handlers that caught their cancellation and went on
            self._report(job, "released", nack=("DELAY", 0, "FREE"))
        deadline = monotonic() + _PATIENCE
        while monotonic() < deadline:
            try:
                await self._deliver()
                if not self._outbox:
                    return
            except Exception as error:
                if not is_away(error):
                    self._fatal = self._fatal or error
                    return
                await self._control.close()
            await asyncio.sleep(0.1)

    async def _unblock(self, claiming: asyncio.Task[None]) -> None:
        """Ends a waiting claim by CLIENT UNBLOCK: a connection that is closed might take jobs along."""
        end = monotonic() + min(self._block_ms / 1000, self._grace) + 0.1
        while not claiming.done() and monotonic() < end and not self._hurry.is_set():
            self._slot.set()
            if (client_id := self._claims.client_id) is not None:
                try:
                    await self._control.request([("CLIENT", "UNBLOCK", client_id)])
                except Exception:
                    await self._control.close()
            await asyncio.wait((claiming,), timeout=0.1)
        claiming.cancel()
        await asyncio.wait((claiming,))

    async def _all_ready(self) -> None:
        while self._held:
            self._idle.clear()
            await self._idle.wait()

    def _stop_now(self) -> None:
        if self._stop.is_set():
            self._hurry.set()
        self._stop.set()

    def _catch_signals(self) -> Callable[[], None]:
        assert self._loop is not None
        loop, caught = self._loop, (signal.SIGTERM, signal.SIGINT)
        try:
            for number in caught:
                loop.add_signal_handler(number, self._stop_now)
        except (NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
            return lambda: None

        def undo() -> None:
            for number in caught:
                loop.remove_signal_handler(number)

        return undo

    async def _guarded(self, loop: Any) -> None:
        try:
            await loop
        except Exception as error:
            # Does not pass by itself.
            self._fatal = self._fatal or error
            log.error("the worker stops: %s", error)
            self._emit(Event("error", error=error))
            self._stop.set()

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), seconds)
        except asyncio.TimeoutError:
            pass

    def _disconnected(self, error: BaseException) -> None:
        if self._state != "stopping":
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

