"""Rate limits: ZRL commands, the six numbers of their replies, and HTTP header fields."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Union

from ._call import Call, Word
from ._time import Duration, duration, rate
from .errors import CostTooHigh

Algorithm = Literal["sliding", "fixed", "leaky"]
OnError = Literal["raise", "allow", "deny"]

NEVER = -1
"""The wait of a call that costs more than its limit."""


@dataclass(frozen=True)
class Policy:
    name: str
    limit: int
    window_ms: int
    unit: str | None = None
    """The name of the units, for example `"tokens"`. None: the units are requests."""

    @property
    def header(self) -> str:
        unit = "" if self.unit is None else f";qu={quoted(self.unit)}"
        return f"{quoted(self.name)};q={integer(self.limit)};w={seconds_up(self.window_ms)}{unit}"


@dataclass(frozen=True)
class Check:
    """The decision of a limit. If `error` is set, the server could not be asked, and the numbers mean nothing."""

    policy: Policy
    allowed: bool
    remaining: int
    """Units that are free after this call, at least 0."""
    retry_after_ms: int
    """After this time, the same call succeeds, unless other callers take units. 0: the call was allowed. -1: the call
    costs more than the limit, and never succeeds."""
    reset_after_ms: int
    """The time until all units are free."""
    charged_until_ms: int
    """Unix ms at which the units of this call become available again. 0: the call took no units."""
    error: BaseException | None = field(default=None, repr=False)
    debt: int = 0
    """Units in use beyond the limit, taken by `force`. Later calls are denied until this debt is paid."""

    @property
    def limit(self) -> int:
        return self.policy.limit

    @property
    def retry_after(self) -> float:
        """`retry_after_ms` in seconds. -1: the call never succeeds."""
        return seconds(self.retry_after_ms)

    @property
    def reset_after(self) -> float:
        """`reset_after_ms` in seconds."""
        return self.reset_after_ms / 1000

    def headers(self) -> dict[str, str]:
        """Returns the fields `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers). If the call was
        denied, also returns `Retry-After`."""
        return headers((self,))


@dataclass(frozen=True)
class Checks:
    """The common decision of several limits. Units were taken from all of them, or from none."""

    allowed: bool
    checks: tuple[Check, ...]

    @property
    def retry_after_ms(self) -> int:
        """The longest `retry_after_ms` of the limits that denied the call. -1: the call never succeeds."""
        return longest_wait(self.checks)

    @property
    def retry_after(self) -> float:
        """`retry_after_ms` in seconds. -1: the call never succeeds."""
        return seconds(self.retry_after_ms)

    @property
    def error(self) -> BaseException | None:
        return next((check.error for check in self.checks if check.error), None)

    def headers(self) -> dict[str, str]:
        """Returns the fields of `Check.headers`. The RateLimit fields list all limits, and `Retry-After` is the longest
        wait."""
        return headers(self.checks)


def headers(checks: Iterable[Check]) -> dict[str, str]:
    """Returns the header fields for these checks. If a check has an error, its limit is only in `RateLimit-Policy`."""
    checks = tuple(checks)
    fields = {"RateLimit-Policy": ", ".join(check.policy.header for check in checks)}
    asked = [check for check in checks if not check.error]
    if asked:
        fields["RateLimit"] = ", ".join(
            f"{quoted(check.policy.name)};r={integer(check.remaining)};t={shown_wait(check)}" for check in asked
        )
    if longest_wait(checks) > 0:
        fields["Retry-After"] = str(max(shown_wait(check) for check in asked if not check.allowed))
    return fields


def shown_wait(check: Check) -> int:
    """Returns the wait that the headers show, in seconds. The wait is `retry_after_ms` if it is positive, otherwise
    `reset_after_ms`. If this is shorter than `window * remaining / limit`, the wait is `window * remaining / limit`."""
    wait = check.retry_after_ms if check.retry_after_ms > 0 else check.reset_after_ms
    least = -(-seconds_up(check.policy.window_ms) * check.remaining // check.limit)
    return max(seconds_up(wait), integer(least))


def longest_wait(checks: Iterable[Check]) -> int:
    waits = [check.retry_after_ms for check in checks if not check.allowed]
    return NEVER if NEVER in waits else max(waits, default=0)


def seconds(ms: int) -> float:
    return NEVER if ms == NEVER else ms / 1000


def seconds_up(ms: int) -> int:
    return integer(-(-ms // 1000))


def integer(value: int) -> int:
    """Limits an integer to the 15 digits of RFC 9651."""
    return min(value, 10**15 - 1)


def quoted(name: str) -> str:
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


class LimiterCalls:
    def __init__(
        self,
        name: str,
        rate_: str,
        *,
        algorithm: Algorithm = "sliding",
        precision: Duration | None = None,
        exact: bool = False,
        on_error: OnError = "raise",
        prefix: str = "",
        unit: str | None = None,
        ahead: int | None = None,
    ) -> None:
        for word in (name, "." if unit is None else unit):
            if not word or not all(" " <= letter <= "~" for letter in word):
                raise ValueError(f"names and units go into header fields: printable ASCII only, not {word!r}")
        if algorithm not in ("sliding", "fixed", "leaky"):
            raise ValueError(f"no such algorithm: {algorithm!r}")
        if on_error not in ("raise", "allow", "deny"):
            raise ValueError(f"on_error is 'raise', 'allow' or 'deny', not {on_error!r}")
        self.policy = Policy(name, *rate(rate_), unit)
        self.ahead = ahead
        self.hold_ms = 0
        """How long the limiter holds the units that it takes ahead, plus 1 ms for the resolution of the server's clock.
        0: the limiter takes no units ahead."""
        if ahead is not None:
            self.hold_ms = self.policy.window_ms // 100 + 1
            if ahead < 1:
                raise ValueError(f"ahead is 1 unit or more, not {ahead!r}")
            if algorithm != "sliding" or self.hold_ms < 2:
                raise ValueError("units are taken ahead from sliding limits whose window is 100 ms or longer")
        self.window_ms = self.policy.window_ms + self.hold_ms
        """The window in the commands: the window of the policy, plus `hold_ms`."""
        self._prefix = prefix
        self.algorithm = algorithm
        self.on_error = on_error
        self.options: tuple[Word, ...] = ()
        if exact:
            self.options += ("EXACT",)
        if precision is not None:
            self.options += ("PRECISION", duration(precision))

    def key(self, key: str) -> str:
        return f"{self._prefix}{self.policy.name}:{key}"

    def check(self, key: str, cost: int = 1, *, force: bool = False) -> Call[Check]:
        return self._ask("ZRL.CHECK", key, cost, force)

    def peek(self, key: str, cost: int = 1) -> Call[Check]:
        return self._ask("ZRL.PEEK", key, cost, False)

    def refund(self, key: str, units: int, check: Check | int) -> Call[int]:
        at = check.charged_until_ms if isinstance(check, Check) else check
        return Call(("ZRL.REFUND", self.key(key), units, "AT", f"{at}ms"), int)

    def reset(self, key: str) -> Call[bool]:
        return Call(("DEL", self.key(key)), bool)

    def _ask(self, command: str, key: str, cost: int, force: bool) -> Call[Check]:
        if not force:
            self.fits(cost)
        args: tuple[Word, ...] = (command, self.key(key), self.policy.limit, f"{self.window_ms}ms")
        if cost != 1:
            args += ("COST", cost)
        if self.algorithm != "sliding":
            args += (self.algorithm.upper(),)
        args += self.options
        if force:
            args += ("FORCE",)
        return Call(args, self.read, self.away if self.on_error != "raise" else None)

    def fits(self, cost: int) -> None:
        if cost > self.policy.limit:
            raise CostTooHigh(f"{cost} units can never fit into the limit {self.policy.name!r} of {self.policy.limit}")

    def read(self, reply: Any) -> Check:
        allowed, _limit, left, retry, reset, charged = reply
        return Check(self.policy, allowed == 1, max(left, 0), retry, reset, charged, debt=max(-left, 0))

    def away(self, error: BaseException) -> Check:
        return Check(self.policy, self.on_error == "allow", 0, 0, 0, 0, error)


Part = Union[tuple[LimiterCalls, str], tuple[LimiterCalls, str, int]]


def check_all(parts: list[Part], *, force: bool = False) -> Call[Checks]:
    if not parts:
        raise ValueError("no limits")
    limiters = [part[0] for part in parts]
    costs = [part[2] if len(part) == 3 else 1 for part in parts]
    if not force:
        for limiter, cost in zip(limiters, costs):
            limiter.fits(cost)
    args: list[Word] = ["ZRL.MCHECK", len(parts)]
    args += [part[0].key(part[1]) for part in parts]
    for limiter in limiters:
        args += (limiter.policy.limit, f"{limiter.window_ms}ms")
    if any(cost != 1 for cost in costs):
        args += ("COST", *(costs[:1] if len(set(costs)) == 1 else costs))
    algorithms = [limiter.algorithm.upper() for limiter in limiters]
    if set(algorithms) != {"SLIDING"}:
        args += algorithms[:1] if len(set(algorithms)) == 1 else algorithms
    options = {limiter.options for limiter in limiters if limiter.algorithm == "sliding"}
    if len(options) > 1:
        raise ValueError("all SLIDING limits of one call must have the same precision")
    args += options.pop() if options else ()
    if force:
        args.append("FORCE")

    def read(reply: Any) -> Checks:
        allowed, *each = reply
        return Checks(allowed == 1, tuple(limiter.read(six) for limiter, six in zip(limiters, each)))

    def away(error: BaseException) -> Checks:
        checks = tuple(limiter.away(error) for limiter in limiters)
        return Checks(all(check.allowed for check in checks), checks)

    raises = any(limiter.on_error == "raise" for limiter in limiters)
    return Call(tuple(args), read, None if raises else away)
