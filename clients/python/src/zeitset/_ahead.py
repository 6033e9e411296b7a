"""Units ahead: a limiter takes many units in one call, and hands them out without asking the server.

The limiter hands out the units of a call only for a short time, the hold. The hold begins when the limiter sends the
call. So the limiter hands out a unit at most one hold after the server has counted it. For this reason, the limiter
adds the hold to the window that it sends to the server.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from ._limits import Check, LimiterCalls
from ._time import now

_new = object.__new__
_MAX_KEYS = 10_000
"""The most keys for which a limiter holds units at the same time."""


class Refund(NamedTuple):
    """Units to refund."""

    key: str
    units: int
    charged_until_ms: int


class PendingCall:
    """A call in flight that takes units in advance. Other callers that need units of the key wait for its reply."""

    def __init__(self, cost: int, units: int) -> None:
        self.cost = cost
        self.units = units
        self.sent = now()
        self.wanted = 0
        """The sum of the costs of the waiting callers."""
        self.error: BaseException | None = None
        self.has_reply = False
        self.was_reset = False
        """Whether the key's limit was reset during the call. The server may have counted the units before the reset."""
        self.waiting: list[Callable[[], object]] = []


class _Stock:
    """The held units of a key."""

    __slots__ = ("call", "check", "deadline", "left", "replied", "sweep_at", "used", "want")

    def __init__(self) -> None:
        self.want = 1
        """How many units the next call is to take."""
        self.left = 0
        self.used = 0
        """Units handed out since the last call."""
        self.check: Check | None = None
        """The reply to the last call."""
        self.replied = self.deadline = self.sweep_at = 0.0
        """Times in seconds, by the clock `now`. `replied`: when the last reply arrived. `deadline`: the end of the hold.
        `sweep_at`: when the sweep, which refunds unused units, next checks this key."""
        self.call: PendingCall | None = None


class Ahead:
    """The units that a limiter holds. Any thread may call the methods."""

    def __init__(self, calls: LimiterCalls) -> None:
        self._max_units = min(calls.ahead or 1, calls.policy.limit)
        self._hold = (calls.hold_ms - 1) / 1000
        self._stocks: dict[str, _Stock] = {}
        """The held units of each key. The key with the earliest `sweep_at` comes first."""
        self._refunds: list[Refund] = []
        self.clear()

    def clear(self) -> None:
        """Forgets all units. Also replaces the lock: at a fork, another thread of the parent process may hold it."""
        self._lock = Lock()
        self._stocks.clear()
        self._refunds.clear()
        self._sweeping = False

    def take(self, key: str, cost: int, *, peek: bool = False) -> Check | None:
        """Takes units that the limiter got in advance. Returns None if too few are left. With `peek`, takes none."""
        with self._lock:
            stock = self._stocks.get(key)
            if stock is None or stock.left < cost:
                return None
            time = now()
            check = stock.check
            if time >= stock.deadline or check is None:
                return None
            if not peek:
                stock.left -= cost
                stock.used += cost
            # Copies the fields, because calling the constructor of a frozen dataclass would take four times as long.
            found = _new(Check)
            fields = found.__dict__
            fields.update(check.__dict__)
            fields["remaining"] += stock.left
            fields["reset_after_ms"] -= int((time - stock.replied) * 1000)
            if peek:
                fields["charged_until_ms"] = 0
            return found

    def begin(self, key: str, cost: int) -> tuple[PendingCall, bool]:
        """Returns the call in flight, or a new call. Also returns whether the caller has to send the call."""
        with self._lock:
            stock = self._stocks.setdefault(key, _Stock())
            if stock.call is not None:
                stock.call.wanted += cost
                return stock.call, False
            if now() >= stock.deadline:
                self._expire(key, stock)
            else:
                stock.want *= 2  # the units were used up during the hold
            stock.want = min(stock.want, self._max_units)
            stock.call = PendingCall(cost, max(cost, stock.want))
            self._keep(key, stock, stock.call.sent + self._hold)
            return stock.call, True

    def join(self, call: PendingCall, wake: Callable[[], object]) -> bool:
        """Registers `wake`, a function to call when the reply arrives. Returns False if the reply has arrived already.
        `wake` is then never called."""
        with self._lock:
            if not call.has_reply:
                call.waiting.append(wake)
            return not call.has_reply

    def finish(self, key: str, call: PendingCall, check: Check | None, error: BaseException | None = None) -> None:
        """Handles the reply to the call: keeps the units that the call has taken, and wakes the waiting callers."""
        with self._lock:
            call.has_reply, call.error = True, error
            stock = self._stocks.get(key) or _Stock()
            if stock.call is call:
                stock.call = None
            if check is not None and check.error is None:
                if check.allowed:
                    self._expire(key, stock)
                    stock.want = max(call.units, min(call.wanted, self._max_units))
                    stock.left, stock.used = 0 if call.was_reset else call.units - call.cost, call.cost
                    stock.check, stock.replied, stock.deadline = check, now(), call.sent + self._hold
                    self._keep(key, stock, stock.deadline)
                else:
                    stock.want = max(call.units // 2, 1)
        for wake in call.waiting:
            wake()

    def drop(self, key: str) -> None:
        """Forgets the units that were taken ahead for a key, because the key's limit was reset. Also forgets those of a
        call in flight."""
        with self._lock:
            stock = self._stocks.get(key)
            if stock is not None:
                stock.left = 0
                if stock.call is not None:
                    stock.call.was_reset = True

    def start(self) -> bool:
        """Marks the sweep as running. The sweep refunds unused units. If the sweep was not running, returns True, and
        the caller must start it."""
        with self._lock:
            starts = not self._sweeping
            self._sweeping = True
            return starts

    def stop(self) -> None:
        with self._lock:
            self._sweeping = False

    def pause(self) -> float | None:
        """Returns how many seconds `sweep` must sleep before it refunds unused units. If no units are left to refund,
        returns None, and `sweep` must end."""
        with self._lock:
            first = next(iter(self._stocks.values()), None)
            if first is None and not self._refunds:
                self._sweeping = False
                return None
            return 0.0 if first is None else max(first.sweep_at - now(), 0.001)

    def due(self) -> list[Refund]:
        """Removes and returns the unused units that must not be handed out any more. The caller refunds them."""
        with self._lock:
            time = now()
            while self._stocks:
                key, stock = next(iter(self._stocks.items()))
                if stock.sweep_at > time:
                    break
                if self._expire(key, stock) or stock.call is not None:
                    self._keep(key, stock, time + self._hold)
                else:
                    del self._stocks[key]
            refunds, self._refunds = self._refunds, []
            return refunds

    def drain(self) -> list[Refund]:
        """Forgets and returns all units. The caller refunds them."""
        with self._lock:
            for key, stock in self._stocks.items():
                self._expire(key, stock)
            self._stocks.clear()
            refunds, self._refunds = self._refunds, []
            return refunds

    def _expire(self, key: str, stock: _Stock) -> bool:
        """Moves the unused units of a key to `self._refunds`. Returns whether `stock.used` was above 0."""
        if stock.left and stock.check is not None:
            self._refunds.append(Refund(key, stock.left, stock.check.charged_until_ms))
        was_used = stock.used > 0
        if was_used:
            stock.want = stock.used
        stock.left = stock.used = 0
        return was_used

    def _keep(self, key: str, stock: _Stock, sweep_at: float) -> None:
        stock.sweep_at = sweep_at
        self._stocks.pop(key, None)
        self._stocks[key] = stock
        if len(self._stocks) > _MAX_KEYS:
            oldest = next(iter(self._stocks))
            self._expire(oldest, self._stocks.pop(oldest))
