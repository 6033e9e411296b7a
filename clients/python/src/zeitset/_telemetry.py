"""What a queue and a worker tell of what they do, and to whom: `OpenTelemetry` of `zeitset.otel`."""

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
"""Takes the ids that the queue replied: None for a job that was there."""


class Telemetry(Protocol):
    propagate: bool
    """Whether each job that is pushed takes a `traceparent` along."""

    def traceparent(self) -> str | None:
        """That of the span that is active now."""

    def pushes(self, queue: str, count: int) -> AbstractContextManager[Added]:
        """Around what adds `count` jobs."""

    def handles(self, job: Job) -> AbstractContextManager[object]:
        """Around a handler."""


def silent() -> AbstractContextManager[Added]:
    """For a queue without telemetry."""
    return nullcontext(lambda ids: None)


def pushing(push: Callable[Concatenate[Q, P], T]) -> Callable[Concatenate[Q, P], T]:
    """Tells of a method that pushes one job."""

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
