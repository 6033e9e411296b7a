"""The exceptions of the library, and which errors of the server are temporary."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import exceptions

from ._time import Duration, milliseconds

__all__ = ["CostTooHigh", "Discard", "LeaseLost", "Retry", "is_away", "is_refused", "unexpected"]


class CostTooHigh(ValueError):
    """The cost is above the limit, so the call can never succeed."""


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


# Codes of temporary errors for which some versions of redis-py have no class.
_PASSING = frozenset(
    "LOADING READONLY MASTERDOWN UNBLOCKED CLUSTERDOWN TRYAGAIN MOVED ASK NOREPLICAS MISCONF BUSY OOM".split()
)
_REFUSING = frozenset("OOM MISCONF NOREPLICAS BUSY".split())
# The beginnings of permanent ERR texts of the server and the module. Other ERR texts are from a proxy, or from
# a server that accepts no more clients.
_MISTAKES = (
    "unknown ", "wrong number ", "syntax error", "invalid ", "value ", "time is ", "the ", "DB index", "numkeys", "a key ",
)  # fmt: skip
_LASTING = (
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.NoPermissionError,
    exceptions.AuthenticationWrongNumberOfArgsError,
    exceptions.ClusterCrossSlotError,
)


def is_away(error: BaseException) -> bool:
    """Whether Redis is away: no connection, a timeout, or a temporary error."""
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
    return isinstance(error, exceptions.OutOfMemoryError) or str(error).partition(" ")[0] in _REFUSING


@contextmanager
def unexpected(what: str, reply: Any) -> Iterator[None]:
    """Raises ConnectionError if the `with` block cannot read the reply. Redis never sends such a reply, so the
    connection is at fault."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise exceptions.ConnectionError(f"not a reply of Redis to {what}: {reply!r:.100}") from error
