"""Decides whether a limiter allows a call. Asks the server only if the limiter remembers no denial of the key and
holds too few units. This module does no I/O; `drive` and `adrive` of `_run` carry out the steps."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Generator, Sequence
from dataclasses import replace
from math import inf
from typing import Any, TypeVar, Union
from weakref import WeakSet

from ._ahead import Ahead, PendingCall, Refund
from ._call import Call
from ._denials import Denials
from ._limits import Check, Checks, LimiterCalls
from ._limits import check_all as all_of
from ._time import Duration, milliseconds, now
from .errors import is_away

T = TypeVar("T")
log = logging.getLogger("zeitset")


class AwaitReply:
    """Tells `_run` to wait for the reply to another caller's call, for at most `seconds`. None: no limit."""

    def __init__(self, ahead: Ahead, call: PendingCall, seconds: float | None) -> None:
        self.ahead = ahead
        self.call = call
        self.seconds = seconds


Step = Union[Call[Any], list[Call[Any]], AwaitReply, float]
"""What the driver does next: sends a command, sends several commands in one pipeline, waits for the reply to another
caller's call (`AwaitReply`), or sleeps for this number of seconds."""
Steps = Generator[Step, Any, T]
Part = Union[tuple["Decider", str], tuple["Decider", str, int]]

_deciders: WeakSet[Decider] = WeakSet()


class Decider:
    """Decides whether a limiter allows a call. Uses units that the limiter holds, or a denial that it remembers.
    Otherwise, asks the server."""

    def __init__(self, calls: LimiterCalls, timeout: float | None, remember: bool) -> None:
        if calls.ahead is not None and not remember:
            raise ValueError("a limiter that takes units ahead remembers denials")
        self.calls = calls
        self.timeout = timeout
        # Remembers a denial for one hold at most: other limiters refund units at the end of their hold, so units may be
        # free before the wait of the denial is over.
        self.denials = Denials(calls.hold_ms / 1000 if calls.ahead else inf) if remember else None
        self.ahead = None if calls.ahead is None else Ahead(calls)
        _deciders.add(self)

    def known(self, key: str, cost: int) -> Check | None:
        """Decides without the server, by held units or by a remembered denial. Returns None if neither suffices."""
        if cost > self.calls.policy.limit:
            self.calls.fits(cost)
        if self.ahead is not None and (check := self.ahead.take(key, cost)):
            return check
        return None if self.denials is None else self.denials.known(key, cost)

    def check(self, key: str, cost: int, force: bool) -> Steps[Check]:
        if force:
            forced: Check = yield self.calls.check(key, cost, force=True)
            return forced
        ahead = self.ahead
        end = None if self.timeout is None else now() + self.timeout
        while (known := self.known(key, cost)) is None:
            if ahead is None:
                return (yield from self._ask(key, cost, cost))
            call, is_new = ahead.begin(key, cost)
            if is_new:
                return (yield from self._call(ahead, key, call))
            try:
                yield AwaitReply(ahead, call, None if end is None else max(end - now(), 0))
                if call.error is not None:
                    raise call.error
            except Exception as error:
                if self.calls.on_error == "raise" or not is_away(error):
                    raise
                return self.calls.away(error)
        return known

    def peek(self, key: str, cost: int) -> Steps[Check]:
        self.calls.fits(cost)
        held = None if self.ahead is None else self.ahead.take(key, cost, peek=True)
        return held or (yield self.calls.peek(key, cost))

    def refund(self, key: str, units: int, check: Check | int) -> Steps[int]:
        try:
            given: int = yield self.calls.refund(key, units, check)
            return given
        finally:  # after an error, too: the server may have carried out the command
            if self.denials is not None:
                self.denials.forget(key)

    def reset(self, key: str) -> Steps[bool]:
        try:
            was_there: bool = yield self.calls.reset(key)
            return was_there
        finally:
            if self.denials is not None:
                self.denials.forget(key)
            if self.ahead is not None:
                self.ahead.drop(key)

    def wait(self, key: str, cost: int, timeout: Duration | None) -> Steps[Check]:
        """Calls `check` until it allows the call. After each denial, sleeps for the wait that the denial gives. From
        the second denial on, adds a random time, so that waiting callers do not call at the same moment."""
        end = None if timeout is None else now() + milliseconds(timeout) / 1000
        policy = self.calls.policy
        denials = 0
        while True:
            check: Check = yield from self.check(key, cost, False)
            if check.allowed:
                return check
            # If Redis is away, the wait is not known.
            pause = 0.1 if check.error else check.retry_after_ms / 1000
            if end is not None and now() + pause > end:
                raise TimeoutError(f"{policy.name!r} does not allow {cost} units for {key!r} in time") from check.error
            others = min(denials * policy.window_ms / policy.limit, policy.window_ms / 10) / 1000
            pause += random.uniform(0, others)
            yield pause if end is None else min(pause, max(end - now(), 0))
            denials += 1

    def sweep(self) -> Steps[None]:
        """Refunds units that were taken ahead, but not handed out in time. Ends when no units are left to refund."""
        ahead = self.ahead
        while ahead is not None and (pause := ahead.pause()) is not None:
            yield pause
            yield from self._refund(ahead.due())

    def close(self) -> Steps[None]:
        if self.ahead is not None:
            yield from self._refund(self.ahead.drain())

    def after_fork(self) -> None:
        """Forgets all denials and units. The units belong to the parent process."""
        if self.denials is not None:
            self.denials.clear()
        if self.ahead is not None:
            self.ahead.clear()

    def _ask(self, key: str, cost: int, units: int) -> Steps[Check]:
        forgotten = 0 if self.denials is None else self.denials.forgotten
        check: Check = yield self.calls.check(key, units)
        if self.denials is not None and units == cost:
            self.denials.note(key, cost, check, forgotten)
        return check

    def _call(self, ahead: Ahead, key: str, call: PendingCall) -> Steps[Check]:
        try:
            check = yield from self._ask(key, call.cost, call.units)
            if call.units > call.cost and not check.allowed and check.error is None:
                call.units = call.cost
                check = yield from self._ask(key, call.cost, call.cost)
        except BaseException as error:
            ahead.finish(key, call, None, error if isinstance(error, Exception) else None)
            raise
        ahead.finish(key, call, check, check.error)
        return replace(check, remaining=check.remaining + call.units - call.cost) if check.allowed else check

    def _refund(self, refunds: list[Refund]) -> Steps[None]:
        """Refunds units. Ignores errors, because the units become available again when their window ends."""
        for key, units, charged_until_ms in refunds:
            try:
                yield from self.refund(key, units, charged_until_ms)
            except Exception as error:
                log.debug("%d units of %r were not refunded: %r", units, key, error)


def check_all(parts: Sequence[Part], force: bool) -> Steps[Checks]:
    """Takes units from all limits, or from none. Uses no units that a limiter holds from earlier calls."""
    call = all_of([(part[0].calls, *part[1:]) for part in parts], force=force)
    asked = tuple((part[0].calls.key(part[1]), part[2] if len(part) == 3 else 1) for part in parts)
    remembering = [] if force else [(part[0].denials, part[1], cost) for part, (_, cost) in zip(parts, asked) if part[0].denials]
    if len(remembering) < len(parts):
        asked_all: Checks = yield call
        return asked_all
    for denials, key, _ in remembering:
        if known := denials.known_of_all(key, asked):
            return known
    forgotten = [denials.forgotten for denials, _, _ in remembering]
    checks: Checks = yield call
    if not checks.allowed:
        for (denials, key, cost), number, check in zip(remembering, forgotten, checks.checks):
            denials.note(key, cost, check, number, asked, checks)
    return checks


def check_with(parts: Sequence[Part], force: bool, block: Decider | None) -> Steps[Checks]:
    """The steps of `zeitset.check_all`."""
    if block is None:
        return check_all(parts, force)
    if force:
        raise ValueError("a forced call blocks nobody")
    return _check_or_block(parts, block)


def _check_or_block(parts: Sequence[Part], block: Decider) -> Steps[Checks]:
    """Like `check_all`, and blocks a client that a limit denies, for the window of `block`. The last check of the result
    is that of the block. It has the key of the first limit."""
    key = parts[0][1]
    asked = [*parts, (block, key, 0)]
    checks = yield from check_all(asked, False)
    if not checks.allowed and checks.error is None and checks.checks[-1].allowed:
        # A debt, because a call of cost 0 is denied only then.
        yield block.calls.check(key, block.calls.policy.limit + 1, force=True)
        # The waits of the remembered denials are shorter than the block.
        for part in parts:
            if part[0].denials is not None:
                part[0].denials.forget(part[1])
        checks = yield from check_all(asked, False)
    return checks


def _after_fork() -> None:
    for decider in _deciders:
        decider.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
