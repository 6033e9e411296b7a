"""Threads for handlers that are not coroutines.

They are daemons: a handler that cannot be stopped must not keep the process alive, as those of `concurrent.futures` do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from threading import Thread
from typing import Any

from ._job import Job

Task = tuple[Context, Job, "asyncio.Future[Any]"]


class Threads:
    def __init__(self, handler: Callable[[Job], Any], count: int) -> None:
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._tasks: SimpleQueue[Task | None] = SimpleQueue()
        self._count = count
        for number in range(count):
            Thread(target=self._work, name=f"zeitset-{number}", daemon=True).start()

    async def run(self, job: Job) -> Any:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._tasks.put((copy_context(), job, future))
        return await future

    def close(self) -> None:
        """Threads end once their handlers do."""
        for _ in range(self._count):
            self._tasks.put(None)

    def _work(self) -> None:
        while task := self._tasks.get():
            context, job, future = task
            result, error = None, None
            try:
                result = context.run(self._handler, job)
            except BaseException as raised:
                error = raised
            try:
                self._loop.call_soon_threadsafe(settle, future, result, error)
            except RuntimeError:  # the worker is gone, and its loop with it
                return


def settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    elif isinstance(error, StopIteration):  # a future does not take it
        future.set_exception(RuntimeError("the handler raised StopIteration"))
    else:
        future.set_exception(error)
