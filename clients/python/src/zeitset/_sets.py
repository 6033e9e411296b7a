"""Sets whose members expire: ZEXP commands."""

from __future__ import annotations

from typing import Any, Literal, Union

from ._call import Call, Word, encoded, flag, flags, integers, optional_int, pairs, text, texts
from ._time import Duration, Instant, duration, instant

Member = Union[str, bytes]


def ttls(reply: Any) -> list[float | None]:
    return [None if ms == -2 else float("inf") if ms == -1 else ms / 1000 for ms in reply]


def members_with_ttl(reply: Any) -> list[tuple[str, float]]:
    return [(text(member), float("inf") if int(ms) == -1 else int(ms) / 1000) for member, ms in pairs(reply)]


class ExpiringSetCalls:
    """The calls of an expiring set. Members are `str`. Bytes that are not UTF-8 become surrogates (PEP 383), and are
    sent as the same bytes again."""

    def __init__(self, key: str) -> None:
        self.key = key

    def add(
        self,
        *members: Member,
        ttl: Duration | None = None,
        at: Instant | None = None,
        only: Literal["new", "present"] | None = None,
        when: Literal["later", "sooner"] | None = None,
        changed: bool = False,
        cap: int | None = None,
    ) -> Call[int | None]:
        """Adds members that live for `ttl` or until `at`. If a member is in the set, sets its expiry.

        Returns how many members were added; with `changed`, how many were added or changed. `only`: adds only new
        members (NX), or changes only present ones (XX). `when`: sets only a later (GT) or a sooner (LT) expiry. `cap`:
        if the set would have more members than this, does nothing and returns None.
        """
        args: list[Word] = ["ZEXP.ADD", self.key]
        if only:
            args.append("NX" if only == "new" else "XX")
        if when:
            args.append("GT" if when == "later" else "LT")
        if changed:
            args.append("CH")
        if cap is not None:
            args += ("CAP", cap)
        expiry = _expiry(ttl, at)
        args += expiry[:-1]
        for member in members:
            args += (expiry[-1], encoded(member))
        return Call(tuple(args), optional_int)

    def expire(
        self, *members: Member, ttl: Duration | None = None, at: Instant | None = None, when: Literal["later", "sooner"] | None = None
    ) -> Call[list[int]]:
        """Sets the expiry of members. Returns a number for each member. 1: the expiry was set. 0: the condition was not
        met. 2: the member was removed, because the time is past. -2: there is no such member."""
        condition = ("GT" if when == "later" else "LT",) if when else ()
        return Call(("ZEXP.EXPIRE", self.key, *condition, *_expiry(ttl, at), *map(encoded, members)), integers)

    def persist(self, *members: Member) -> Call[list[int]]:
        """Removes the expiry of members. Returns a number for each member. 1: the expiry was removed. -1: the member
        had no expiry. -2: there is no such member."""
        return Call(("ZEXP.PERSIST", self.key, *map(encoded, members)), integers)

    def ttl(self, *members: Member) -> Call[list[float | None]]:
        """Returns for each member the seconds until it expires. Infinity: the member has no expiry. None: there is no
        such member."""
        return Call(("ZEXP.PTTL", self.key, *map(encoded, members)), ttls)

    def remove(self, *members: Member) -> Call[int]:
        """Removes members. Returns how many were in the set."""
        return Call(("ZEXP.REM", self.key, *map(encoded, members)), int)

    def card(self) -> Call[int]:
        """Returns the exact number of live members."""
        return Call(("ZEXP.CARD", self.key), int)

    def contains(self, member: Member) -> Call[bool]:
        return Call(("ZEXP.ISMEMBER", self.key, encoded(member)), flag)

    def contains_each(self, *members: Member) -> Call[list[bool]]:
        return Call(("ZEXP.MISMEMBER", self.key, *map(encoded, members)), flags)

    def members(self, *, within: Duration | None = None, offset: int = 0, count: int = -1) -> Call[list[str]]:
        """Returns members, soonest to expire first. `within`: only members that expire within this time."""
        return Call(self._members(within, offset, count), texts)

    def members_with_ttl(
        self, *, within: Duration | None = None, offset: int = 0, count: int = -1
    ) -> Call[list[tuple[str, float]]]:
        """Returns the members that `members` returns, each with the seconds until it expires. Infinity: no expiry."""
        return Call((*self._members(within, offset, count), "WITHPTTL"), members_with_ttl)

    def random(self, count: int = 1) -> Call[list[str]]:
        """Returns random members, as SRANDMEMBER does: up to `count` different ones. With a negative `count`, members
        may repeat."""
        return Call(("ZEXP.RANDMEMBER", self.key, count), texts)

    def pop(self, count: int = 1) -> Call[list[str]]:
        """Removes and returns up to `count` members, soonest to expire first."""
        return Call(("ZEXP.POP", self.key, count), texts)

    def _members(self, within: Duration | None, offset: int, count: int) -> tuple[Word, ...]:
        args: tuple[Word, ...] = ("ZEXP.MEMBERS", self.key)
        if within is not None:
            args += ("WITHIN", duration(within))
        if offset or count >= 0:
            args += ("LIMIT", offset, count)
        return args


def _expiry(ttl: Duration | None, at: Instant | None) -> tuple[Word, ...]:
    if (ttl is None) == (at is None):
        raise TypeError("either ttl or at")
    return (duration(ttl),) if ttl is not None else ("AT", instant(at)) if at is not None else ()
