"""Runs handlers: coroutine functions as tasks, other functions in daemon threads.

A handler in a thread cannot be stopped, and must not keep the process alive. `concurrent.futures` has no daemon
threads.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
from collections.abc import Callable, Mapping
from contextvars import Context, copy_context
from queue import SimpleQueue
from threading import Thread
from typing import Any

from ._job import Job

Handler = Callable[[Job], Any]
Call = tuple[Context, Handler, Job, "asyncio.Future[Any]"]


def is_async(handler: Handler) -> bool:
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))


def checked(handler: Handler) -> Handler:
    if not callable(handler):
        raise TypeError(f"a handler is a function of the job, not {handler!r}")
    if inspect.isgeneratorfunction(handler) or inspect.isasyncgenfunction(handler):
        raise TypeError(f"{handler!r} is a generator: nobody would run it. A handler has no `yield`")
    return handler


class NotRun(TypeError):
    """The handler returned a generator, so its code has not run."""


class Handlers:
    def __init__(self, handlers: Mapping[str, Handler], concurrency: int) -> None:
        self._handlers = handlers
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._count = 0 if all(map(is_async, handlers.values())) else concurrency
        for number in range(self._count):
            Thread(target=self._work, name=f"zeitset-{number}", daemon=True).start()

    async def run(self, job: Job) -> None:
        """Runs the handler to its end. Sets `job._cancellable` as soon as the handler can be cancelled."""
        handler = self._handlers[job.queue]
        if is_async(handler):
            job._cancellable = True
            result = await handler(job)
        else:
            future: asyncio.Future[Any] = self._loop.create_future()
            self._calls.put((copy_context(), handler, job, future))
            result, error = await future
            if error is not None:
                raise error
        if isinstance(result, concurrent.futures.Future):
            result = asyncio.wrap_future(result)
        while inspect.isawaitable(result):  # for example the coroutine of `lambda job: send(job)`
            job._cancellable = True
            result = await result
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            raise NotRun("the handler returned a generator, which nobody runs: a handler has no `yield`")

    def close(self) -> None:
        """Ends each thread when its handler has ended."""
        for _ in range(self._count):
            self._calls.put(None)

    def _work(self) -> None:
        while call := self._calls.get():
            context, handler, job, future = call
            result, error = None, None
            try:
                result = context.run(handler, job)
            except BaseException as raised:
                error = raised
            try:
                self._loop.call_soon_threadsafe(settle, future, result, error)
            except RuntimeError:  # the event loop of the worker is closed
                return


def settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if not future.done():
        future.set_result((result, error))  # `set_exception` would refuse StopIteration
