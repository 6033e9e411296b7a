"""Handles SIGTERM and SIGINT for all workers of an event loop, as a loop has only one handler for each signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

Stop = Callable[[], None]


class _Caught:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.stops: list[Stop] = []
        self._loop = loop
        self._before: dict[int, Any] = {}

    def catch(self) -> None:
        """Catches the signals. On Windows, and outside of the main thread, this is not possible, and the method does
        nothing."""
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)
            try:
                self._loop.add_signal_handler(number, self._stop_all)
            except (NotImplementedError, RuntimeError, ValueError):
                return
            self._before[number] = before

    def undo(self) -> None:
        for number, before in self._before.items():
            self._loop.remove_signal_handler(number)
            signal.signal(number, before)
        self._before.clear()

    def _stop_all(self) -> None:
        for stop in list(self.stops):
            stop()


_caught: WeakKeyDictionary[Any, _Caught] = WeakKeyDictionary()


@contextmanager
def on_signals(stop: Stop) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    caught = _caught.setdefault(loop, _Caught(loop))
    if not caught.stops:
        caught.catch()
    caught.stops.append(stop)
    try:
        yield
    finally:
        caught.stops.remove(stop)
        if not caught.stops:
            caught.undo()
            _caught.pop(loop, None)
