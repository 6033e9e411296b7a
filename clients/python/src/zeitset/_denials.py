"""Remembers denials. A denial says how long the key stays denied. During that time, the limiter does not ask the
server."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from threading import Lock
from typing import NamedTuple

from ._limits import Check, Checks
from ._time import now

_REMEMBERED = 10_000
"""The most keys for which a limiter remembers a denial. The least recently used key is forgotten first."""

Signature = tuple[tuple[str, int], ...]
"""The keys and costs of a call for several limits."""


class _Denial(NamedTuple):
    cost: int
    replied: float
    until: float
    check: Check
    call: Signature | None
    """The denied call, if it was for several limits. None: the call was for one limit."""
    checks: Checks | None


class Denials:
    """The denials that a limiter remembers. Any thread may call the methods."""

    def __init__(self, most: float = inf) -> None:
        """No denial is remembered for more than `most` seconds."""
        self._most = most
        self._denials: dict[str, _Denial] = {}
        self.clear()

    def clear(self) -> None:
        """Forgets all denials. Also replaces the lock: at a fork, another thread of the parent process may hold it."""
        self._lock = Lock()
        self._denials.clear()
        self.forgotten = 0
        """How often `forget` was called. `note` ignores the reply to a call that was sent before the last `forget`."""

    def known(self, key: str, cost: int) -> Check | None:
        """Returns the denial of the key, if a call that costs `cost` is still denied."""
        denial = self._find(key)
        return _later(denial.check, denial.replied) if denial is not None and cost >= denial.cost else None

    def known_of_all(self, key: str, call: Signature) -> Checks | None:
        """Returns what the server would reply now to `call`, which is for several limits. One of them is this limiter's
        limit for `key`. Returns None if this limiter remembers no denial of `call`, or if the wait for one of the
        limits is over."""
        denial = self._find(key)
        if denial is None or denial.checks is None or denial.call != call:
            return None
        checks = tuple(_later(check, denial.replied) for check in denial.checks.checks)
        # If the wait of one limit is over, the decision of the server is no longer known.
        return Checks(False, checks) if all(check.allowed or check.retry_after_ms > 0 for check in checks) else None

    def note(
        self, key: str, cost: int, check: Check, forgotten: int, call: Signature | None = None, checks: Checks | None = None
    ) -> None:
        """Remembers a denial. `forgotten`: the value of `self.forgotten` when the command was sent. If `forget` was
        called since then, ignores the denial."""
        if check.allowed or check.error or check.retry_after_ms <= 0:
            return
        replied = now()
        with self._lock:
            if forgotten == self.forgotten:
                self._denials.pop(key, None)
                self._denials[key] = _Denial(cost, replied, replied + min(check.retry_after_ms / 1000, self._most), check, call, checks)
                if len(self._denials) > _REMEMBERED:
                    del self._denials[next(iter(self._denials))]

    def forget(self, key: str) -> None:
        with self._lock:
            self.forgotten += 1
            self._denials.pop(key, None)

    def _find(self, key: str) -> _Denial | None:
        if key not in self._denials:
            return None
        with self._lock:
            denial = self._denials.pop(key, None)
            if denial is None or denial.until <= now():
                return None
            self._denials[key] = denial
            return denial


def _later(check: Check, replied: float) -> Check:
    passed = int((now() - replied) * 1000)
    retry = max(check.retry_after_ms - passed, 0)
    return replace(check, retry_after_ms=retry, reset_after_ms=max(check.reset_after_ms - passed, retry))
