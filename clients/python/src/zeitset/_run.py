"""Makes blocking methods (`blocking`) and coroutines (`awaiting`) that send commands.

Each command is written once, as a method that sends nothing and returns a `Call`. If the command needs several calls,
the method returns `Steps`. `blocking` and `awaiting` turn this method into one that sends the calls. The new method has
the same parameters and documentation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from threading import Event
from time import sleep
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as NoReply

from ._call import Call
from ._deciding import Step, Steps
from ._link import within
from ._once import asend_once, send_once
from .errors import OutcomeUnknown, boundary, is_away, is_reply

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")


class Client(Protocol):
    """`redis.Redis`, `redis.RedisCluster`, and the classes of the same names in `redis.asyncio`."""

    def execute_command(self, *args: Any, **options: Any) -> Any: ...


class Bound(Generic[C]):
    """The base of classes such as `Board`: a client, and the commands for one key or name."""

    def __init__(self, client: Client, calls: C) -> None:
        self._client = client
        self.calls = calls
        """An object with the same methods as this one. They return a `Call` and do not send it: for pipelines, MULTI
        and `Job.chain`."""


def run(client: Client, call: Call[T]) -> T:
    words = call.words
    try:
        with boundary(call.name):
            reply = send_once(client, words) if call.only_once else client.execute_command(*words, NEVER_DECODE=True)
        return _decoded(call, reply)
    except Exception as error:
        if _is_fault(error) and (pool := getattr(client, "connection_pool", None)) is not None:
            _close_idle(pool)
        if call.recover is None or not is_away(error):
            raise
        return call.recover(error)


async def arun(client: Client, call: Call[T]) -> T:
    words = call.words
    try:
        with boundary(call.name):
            sent = asend_once(client, words) if call.only_once else client.execute_command(*words, NEVER_DECODE=True)
            reply = await sent
        return _decoded(call, reply)
    except Exception as error:
        if _is_fault(error) and (pool := getattr(client, "connection_pool", None)) is not None:
            with boundary("closing"):
                await _close_idle(pool)
        if call.recover is None or not is_away(error):
            raise
        return call.recover(error)


def _is_fault(error: Exception) -> bool:
    """Whether the replies on a connection may no longer belong to their commands. If so, `run` closes idle connections."""
    return isinstance(error, RedisError) and is_away(error) and not is_reply(error)


def _close_idle(pool: Any) -> Any:
    try:
        return pool.disconnect(inuse_connections=False)
    except TypeError:  # the BlockingConnectionPool of redis-py 5 can only close all connections
        return pool.disconnect()


def _decoded(call: Call[T], reply: Any) -> T:
    try:
        with boundary(call.name):
            return call.parse(reply)
    except RedisError as error:
        if call.only_once:
            raise OutcomeUnknown(str(error)) from error
        raise


def drive(client: Client, steps: Steps[T]) -> T:
    """Carries out the steps of a limiter or of a queue with shards: sends commands, waits, sleeps."""

    def take(step: Step) -> Any:
        if isinstance(step, Call):
            return run(client, step)
        if isinstance(step, list):
            return run_all(client, step)
        if isinstance(step, float):
            return sleep(step)
        replied = Event()
        if step.ahead.join(step.call, replied.set) and not replied.wait(step.seconds):
            raise NoReply(f"no reply within {step.seconds:g} s")

    try:
        step = next(steps)
        while True:
            try:
                found = take(step)
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(found)
    except StopIteration as end:
        result: T = end.value
        return result


async def adrive(client: Client, steps: Steps[T]) -> T:
    async def take(step: Step) -> Any:
        if isinstance(step, Call):
            return await arun(client, step)
        if isinstance(step, list):
            return await arun_all(client, step)
        if isinstance(step, float):
            return await asyncio.sleep(step)
        replied = asyncio.Event()
        if step.ahead.join(step.call, replied.set):
            async with within(step.seconds):
                await replied.wait()

    try:
        step = next(steps)
        while True:
            try:
                found = await take(step)
            except BaseException as error:
                step = steps.throw(error)
            else:
                step = steps.send(found)
    except StopIteration as end:
        result: T = end.value
        return result


def run_all(client: Any, calls: list[Call[T]]) -> list[T]:
    """Sends calls in one pipeline. After all were sent, raises the first error. Sends calls that are sent at most once
    one after the other, because the pipelines of redis-py repeat them."""
    if len(calls) == 1 or any(call.only_once for call in calls):
        return [run(client, call) for call in calls]
    with boundary("a pipeline"), client.pipeline(**_plain(client)) as pipe:
        for call in calls:
            pipe.execute_command(*call.words, NEVER_DECODE=True)
        replies = pipe.execute(raise_on_error=False) if calls else []
    return _read(calls, replies)


async def arun_all(client: Any, calls: list[Call[T]]) -> list[T]:
    if len(calls) == 1 or any(call.only_once for call in calls):
        return [await arun(client, call) for call in calls]
    with boundary("a pipeline"):
        async with client.pipeline(**_plain(client)) as pipe:
            for call in calls:
                pipe.execute_command(*call.words, NEVER_DECODE=True)
            replies = await pipe.execute(raise_on_error=False) if calls else []
    return _read(calls, replies)


def _plain(client: Any) -> dict[str, bool]:
    return {} if hasattr(client, "nodes_manager") else {"transaction": False}


def _read(calls: list[Call[T]], replies: list[Any]) -> list[T]:
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    with boundary("a pipeline"):
        return [_decoded(call, reply) for call, reply in zip(calls, replies, strict=True)]


def blocking(build: Callable[Concatenate[C, P], Call[T] | Steps[T]]) -> Callable[Concatenate[Bound[C], P], T]:
    @wraps(build)
    def method(self: Bound[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        built = build(self.calls, *args, **kwargs)
        return run(self._client, built) if isinstance(built, Call) else drive(self._client, built)

    return method


def awaiting(
    build: Callable[Concatenate[C, P], Call[T] | Steps[T]],
) -> Callable[Concatenate[Bound[C], P], Coroutine[Any, Any, T]]:
    @wraps(build)
    async def method(self: Bound[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        built = build(self.calls, *args, **kwargs)
        return await (arun(self._client, built) if isinstance(built, Call) else adrive(self._client, built))

    return method
