"""The exceptions of the library, and the boundary to Redis.

`boundary` surrounds every place that sends a command, reads a reply or decodes it. Only this file decides what an error
means: whatever is raised within the boundary says that the connection is lost, unless it is a well-formed error reply
that no new connection would change (`is_away`).
"""

from __future__ import annotations

import asyncio

from redis import exceptions

from ._time import Duration, milliseconds

__all__ = ["CostTooHigh", "Discard", "LeaseLost", "OutcomeUnknown", "Retry", "boundary", "described", "is_away", "is_refused"]


class CostTooHigh(ValueError):
    """The cost is above the limit, so the call can never succeed."""


class OutcomeUnknown(exceptions.ConnectionError, exceptions.TimeoutError):
    """The reply to a command got lost, so the server may have carried out the command. The library sends a command that
    changes something only once. Its cause is the error of the connection."""


class Retry(Exception):
    """Raised by a handler to run the job again. `after`: the delay before the next attempt (default: the backoff).

    With `free`, this attempt does not count, for example because a service responded 429. With `hold`, no other job of
    the same group is claimed during this delay.
    """

    def __init__(
        self, reason: str = "", *, after: Duration | None = None, free: bool = False, hold: bool = False
    ) -> None:
        super().__init__(reason or "retry")
        if hold and after is None:
            raise TypeError("hold needs after: for how long the group rests")
        self.after_ms = None if after is None else milliseconds(after)
        self.free = free
        self.hold = hold


class LeaseLost(Exception):
    """Raised by `Job.check` if the worker no longer holds the job."""


class Discard(Exception):
    """Raised by a handler to make the job a dead letter, without further attempts."""


_REFUSING = frozenset("OOM MISCONF NOREPLICAS BUSY".split())
# Codes of permanent errors. All other codes count as temporary.
_PERMANENT = frozenset(
    "WRONGTYPE NOTEXPIRING NOTLIMIT NOBOARD BUSYKEY QUEUEFULL NOPERM NOAUTH WRONGPASS NOPROTO CROSSSLOT EXECABORT".split()
)
# The beginnings of permanent ERR texts of the server and the module. Other ERR texts are from a proxy, or from
# a server that accepts no more clients.
_MISTAKES = (
    "unknown ", "wrong number ", "syntax error", "invalid ", "value ", "time is ", "the ", "DB index", "numkeys", "a key ",
    "PRECISION ", "Number of keys ", "worker name ", "job ID ", "AGAIN requires ",
)  # fmt: skip
_PERMANENT_CLASSES = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.NoPermissionError,
    exceptions.AuthenticationWrongNumberOfArgsError,
    exceptions.ClusterCrossSlotError,
    exceptions.DataError,  # redis-py cannot encode an argument, so it has sent nothing
)
_REPLIES = (
    exceptions.ResponseError,
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.BusyLoadingError,
)
_OF_REDIS_PY = (exceptions.RedisError, exceptions.RedisClusterException)
_PASSING = (*_OF_REDIS_PY, KeyboardInterrupt, SystemExit, GeneratorExit)
"""What passes a boundary unchanged."""


class boundary:
    """Surrounds code that sends commands, reads replies or decodes them: `with boundary("ZQ.CLAIM"):`. If the code raises
    anything but an error of redis-py, raises a ConnectionError in its place, because only a fault of the connection can be
    the reason.

    A class, because it surrounds each call several times: a context manager with `yield` costs four times as much.
    """

    __slots__ = ("what",)

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        kind = type(error)  # `isinstance` would call code of the error
        if error is None or issubclass(kind, _PASSING):
            return
        if not issubclass(kind, asyncio.CancelledError):
            raise exceptions.ConnectionError(f"{self.what}: no reply of Redis: {described(error)}") from error
        if not _is_cancelled():
            raise exceptions.ConnectionError(f"{self.what}: cancelled") from error


def _is_cancelled() -> bool:
    """Whether the running task is cancelled. Before Python 3.11, a task does not tell: then returns True."""
    task = asyncio.current_task()
    return task is None or not hasattr(task, "cancelling") or task.cancelling() > 0


def described(error: BaseException) -> str:
    """Returns `Type: message`, or the type if the error has no message, or one that cannot be read."""
    try:
        message = str(error)
    except BaseException:
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def is_reply(error: BaseException) -> bool:
    """Whether the error is an error reply of the server, which has not carried out the command."""
    return isinstance(error, _REPLIES)


def is_away(error: BaseException) -> bool:
    """Whether Redis is away: no connection, a timeout, or a temporary error. `error` comes from within a boundary."""
    if not isinstance(error, _OF_REDIS_PY) or isinstance(error, _PERMANENT_CLASSES):
        return False
    if not isinstance(error, exceptions.ResponseError):
        return True
    code, _, rest = str(error).partition(" ")
    if code.isupper() and code not in ("ERR", "PRECISION", "AGAIN", "DB"):
        return code not in _PERMANENT
    # redis-py removes ERR from the text.
    return not (rest if code == "ERR" else str(error)).startswith(_MISTAKES)


def slot_elsewhere(error: BaseException) -> int | None:
    """Returns the slot of a MOVED or ASK error; None for other errors."""
    if isinstance(error, exceptions.AskError):
        return error.slot_id
    code, _, rest = str(error).partition(" ")  # redis-py 5 has classes for these errors only in cluster clients
    return int(rest.split(" ")[0]) if isinstance(error, exceptions.ResponseError) and code in ("MOVED", "ASK") else None


def is_refused(error: BaseException) -> bool:
    """Whether the server is alive, but takes no writes for now. If so, a new connection would not help."""
    return isinstance(error, exceptions.OutOfMemoryError) or (
        isinstance(error, exceptions.ResponseError) and str(error).partition(" ")[0] in _REFUSING
    )
