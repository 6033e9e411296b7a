"""Sends calls, waiting (`blocking`) or not (`awaiting`).

A class of commands is written once, as methods that return a `Call`. `blocking` and `awaiting` turn each into a method
that sends it, with the same parameters and the same documentation.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from redis.exceptions import RedisError

from ._call import Call
from .errors import is_away

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")


class Client(Protocol):
    """`redis.Redis`, `redis.RedisCluster`, and their twins in `redis.asyncio`."""

    def execute_command(self, *args: Any, **options: Any) -> Any: ...


class Bound(Generic[C]):
    """A client, and the calls of one key or name."""

    def __init__(self, client: Client, calls: C) -> None:
        self._client = client
        self.calls = calls
        """The same methods, but they return a `Call`, for pipelines, MULTI and `Job.chain`."""


def run(client: Client, call: Call[T]) -> T:
    try:
        return call.parse(client.execute_command(*call.args, NEVER_DECODE=True))
    except (RedisError, OSError) as error:
        if call.recover is None or not is_away(error):
            raise
        return call.recover(error)


async def arun(client: Client, call: Call[T]) -> T:
    try:
        return call.parse(await client.execute_command(*call.args, NEVER_DECODE=True))
    except (RedisError, OSError) as error:
        if call.recover is None or not is_away(error):
            raise
        return call.recover(error)


def blocking(build: Callable[Concatenate[C, P], Call[T]]) -> Callable[Concatenate[Bound[C], P], T]:
    @wraps(build)
    def method(self: Bound[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return run(self._client, build(self.calls, *args, **kwargs))

    return method


def awaiting(
    build: Callable[Concatenate[C, P], Call[T]],
) -> Callable[Concatenate[Bound[C], P], Coroutine[Any, Any, T]]:
    @wraps(build)
    async def method(self: Bound[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await arun(self._client, build(self.calls, *args, **kwargs))

    return method
