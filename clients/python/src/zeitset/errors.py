"""What the library raises, and which of the server's errors pass by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import exceptions

from ._time import Duration, milliseconds

__all__ = ["CostTooHigh", "Discard", "LeaseLost", "Retry", "is_away", "is_refused", "unexpected"]


class CostTooHigh(ValueError):
    """The cost is above the limit, so that the call can never succeed."""


class Retry(Exception):
    """Raised by a handler: give the job back, to run again `after` that long (default: the backoff).

    With `free`, this attempt does not count, as for a service that answered 429. With `hold`, no other job of its group runs `after` that
    long either: the customer whose API said so rests, everybody else's jobs go on.
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
    """Raised by `Job.check`: the job is not this worker's any more."""


class Discard(Exception):
    """Raised by a handler: no further attempt; the job becomes a dead letter."""


# Replies that redis-py has no class for, or has one only in some versions.
_PASSING = frozenset(
    "LOADING READONLY MASTERDOWN UNBLOCKED CLUSTERDOWN TRYAGAIN MOVED ASK NOREPLICAS MISCONF BUSY OOM".split()
)
_REFUSING = frozenset("OOM MISCONF NOREPLICAS BUSY".split())
# How the server's and the module's own ERR texts begin. Others are a proxy's, or say that the server has no room.
_MISTAKES = ("unknown ", "wrong number ", "syntax error", "invalid ", "value ", "the ", "DB index", "numkeys", "a key ")
_LASTING = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.NoPermissionError,
    exceptions.AuthenticationWrongNumberOfArgsError,
    exceptions.ClusterCrossSlotError,
)


def is_away(error: BaseException) -> bool:
    """Whether Redis is away: no connection, a timeout, or an error that passes by itself."""
    if isinstance(error, _LASTING):
        return False
    if isinstance(
        error,
        (
            exceptions.ConnectionError,
            exceptions.TimeoutError,
            exceptions.InvalidResponse,
            exceptions.ReadOnlyError,
            exceptions.ClusterError,
            exceptions.TryAgainError,
            exceptions.AskError,
            exceptions.OutOfMemoryError,
            exceptions.RedisClusterException,
            OSError,
            EOFError,
            asyncio.TimeoutError,  # not an OSError before Python 3.11
        ),
    ):
        return True
    if not isinstance(error, exceptions.ResponseError):
        return False
    code, _, rest = str(error).partition(" ")
    if code.isupper() and code != "ERR":
        return code in _PASSING
    # redis-py takes ERR away.
    return not (rest if code == "ERR" else str(error)).startswith(_MISTAKES)


def slot_elsewhere(error: BaseException) -> int | None:
    """The slot of a MOVED or ASK."""
    if isinstance(error, exceptions.AskError):
        return error.slot_id
    code, _, rest = str(error).partition(" ")  # redis-py 5 has that class for cluster clients only
    return int(rest.split(" ")[0]) if isinstance(error, exceptions.ResponseError) and code in ("MOVED", "ASK") else None


def is_refused(error: BaseException) -> bool:
    """Whether the server lives, and takes no writes for the moment: there is no reason to connect again."""
    return isinstance(error, exceptions.OutOfMemoryError) or str(error).partition(" ")[0] in _REFUSING


@contextmanager
def unexpected(what: str, reply: Any) -> Iterator[None]:
    """A reply of a shape that Redis does not give is a broken connection, not a mistake of the program."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise exceptions.ConnectionError(f"not a reply of Redis to {what}: {reply!r:.100}") from error
