"""The interface to which a queue and a worker report their operations. `OpenTelemetry` of `zeitset.otel` implements
it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

from ._job import Job

P = ParamSpec("P")
Q = TypeVar("Q")
T = TypeVar("T")
Added = Callable[[Iterable["str | None"]], None]
"""A function that takes the ids in the reply of the queue. None: the job was not added."""


class Telemetry(Protocol):
    propagate: bool
    """Whether each pushed job carries a `traceparent`."""

    def traceparent(self) -> str | None:
        """Returns the traceparent of the active span."""

    def pushes(self, queue: str, count: int) -> AbstractContextManager[Added]:
        """Returns a context manager for a push of `count` jobs."""

    def handles(self, job: Job) -> AbstractContextManager[object]:
        """Returns a context manager for the run of a handler."""


def silent() -> AbstractContextManager[Added]:
    """Replaces `Telemetry.pushes` in a queue without telemetry."""
    return nullcontext(lambda ids: None)


def pushing(push: Callable[Concatenate[Q, P], T]) -> Callable[Concatenate[Q, P], T]:
    """Wraps a method that pushes one job. The wrapper reports the push to the telemetry."""

    @wraps(push)
    def method(self: Q, /, *args: P.args, **kwargs: P.kwargs) -> T:
        queue: Any = self
        if queue._telemetry is None:
            return push(self, *args, **kwargs)
        with queue._telemetry.pushes(queue.calls.name, 1) as added:
            id: Any = push(self, *args, **kwargs)
            added([id])
            return cast("T", id)

    return method


def apushing(push: Callable[Concatenate[Q, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Q, P], Coroutine[Any, Any, T]]:
    @wraps(push)
    async def method(self: Q, /, *args: P.args, **kwargs: P.kwargs) -> T:
        queue: Any = self
        if queue._telemetry is None:
            return await push(self, *args, **kwargs)
        with queue._telemetry.pushes(queue.calls.name, 1) as added:
            id: Any = await push(self, *args, **kwargs)
            added([id])
            return cast("T", id)

    return method
