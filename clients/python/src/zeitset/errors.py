"""What the library raises, and which of the server's errors pass by themselves."""

from __future__ import annotations

import asyncio

from redis import exceptions

from ._time import Duration, milliseconds

__all__ = ["CostTooHigh", "Discard", "Retry", "is_away"]


class CostTooHigh(ValueError):
    """The cost is above the limit, so that the call can never succeed."""


class Retry(Exception):
    """Raised by a handler: give the job back, to run again `after` that long (default: the backoff).

    With `free`, this attempt does not count, as for a service that answered 429.
    """

    def __init__(self, reason: str = "", *, after: Duration | None = None, free: bool = False) -> None:
        super().__init__(reason or "retry")
        self.after_ms = None if after is None else milliseconds(after)
        self.free = free


class Discard(Exception):
    """Raised by a handler: no further attempt; the job goes to the dead letters."""


# Replies that redis-py has no class for, or has one only in some versions.
_PASSING = frozenset(
    "LOADING READONLY MASTERDOWN UNBLOCKED CLUSTERDOWN TRYAGAIN MOVED ASK NOREPLICAS MISCONF BUSY OOM".split()
)
_LASTING = (exceptions.AuthenticationError, exceptions.AuthorizationError)


def is_away(error: BaseException) -> bool:
    """Whether Redis is away: no connection, a timeout, or an error that passes by itself."""
    if isinstance(error, _LASTING):
        return False
    if isinstance(
        error,
        (
            exceptions.ConnectionError,
            exceptions.TimeoutError,
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
    return isinstance(error, exceptions.ResponseError) and str(error).partition(" ")[0] in _PASSING

