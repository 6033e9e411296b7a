"""Leaderboards: ZLB commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from ._call import Call, Word, encoded, nothing, optional_int, text
from ._sets import Member

Number = float
"""`int` from INT dimensions, `float` from FLOAT ones."""

Ranking = Literal["position", "dense", "competition"]


class Entry(NamedTuple):
    """A row of a leaderboard."""

    rank: int
    member: str
    values: tuple[Number, ...]


class BoardCalls:
    """The commands of a leaderboard. Each of `dims` is a name, optionally followed by a direction and a type:
    `"gold"`, `"seconds asc float"`. The default is `desc int`."""

    def __init__(self, key: str, *dims: str) -> None:
        if not dims:
            raise ValueError("a board has at least one dimension")
        self.key = key
        self.names: list[str] = []
        self._schema: list[Word] = []
        self._reals: list[bool] = []
        for dim in dims:
            name, *words = dim.split()
            words = [word.upper() for word in words]
            if not set(words) <= {"ASC", "DESC", "INT", "FLOAT"}:
                raise ValueError(f"not a dimension: {dim!r}; expected a name, asc or desc, int or float")
            self.names.append(name)
            self._reals.append("FLOAT" in words)
            self._schema += ("DIM", name, *words)

    def create(
        self, *, ties: Literal["first", "last", "name"] = "first", keep: int | None = None
    ) -> Call[None]:
        """Creates the board. Does nothing if a board with the same schema exists."""
        kept = () if keep is None else ("KEEP", keep)
        return Call(("ZLB.CREATE", self.key, *self._schema, "TIES", ties.upper(), *kept), nothing)

    def set(
        self,
        member: Member,
        *values: Number,
        only: Literal["new", "present"] | None = None,
        best: bool = False,
    ) -> Call[int | None]:
        """Sets the values of a member. With `best`, sets them only if they are better than the member's values.
        Returns the member's rank. If KEEP removes the member from the board, returns None. If `only` is
        `"present"` and the member is not on the board, changes nothing and returns None."""
        args: tuple[Word, ...] = ("ZLB.SET", self.key, *_options(only, best), "WITHRANK", encoded(member), *self._row(values))
        return Call(args, lambda reply: optional_int(reply[1]))

    def set_many(
        self,
        rows: Mapping[str, tuple[Number, ...]],
        *,
        only: Literal["new", "present"] | None = None,
        best: bool = False,
    ) -> Call[int]:
        """Sets the values of several members. Returns how many of them are new on the board."""
        args: list[Word] = ["ZLB.SET", self.key, *_options(only, best)]
        for member, values in rows.items():
            args += (encoded(member), *self._row(values))
        return Call(tuple(args), int)

    def incr(self, member: Member, by: Mapping[str, Number]) -> Call[Entry]:
        """Adds to values of a member: `incr("China", {"gold": 1})`. A member that is not on the board starts with
        zeros. If KEEP removes the member from the board, the rank of the entry is -1."""
        args: list[Word] = ["ZLB.INCR", self.key, "WITHRANK", encoded(member)]
        for name, amount in by.items():
            args += (name, amount)

        def read(reply: Any) -> Entry:
            rank = -1 if reply[0] is None else int(reply[0])
            return Entry(rank, text(encoded(member)), self._values(reply[1:]))

        return Call(tuple(args), read)

    def get(self, *members: Member) -> Call[list[Entry | None]]:
        names = [text(encoded(member)) for member in members]

        def read(reply: Any) -> list[Entry | None]:
            return [
                None if row is None else Entry(int(row[0]), name, self._values(row[1:]))
                for name, row in zip(names, reply)
            ]

        return Call(("ZLB.GET", self.key, *map(encoded, members)), read)

    def rank(self, member: Member, ranking: Ranking = "position") -> Call[int | None]:
        """Returns the rank of a member, 0 for the best. `competition`: the number of members that are strictly better.
        `dense`: the number of different values that are strictly better."""
        return Call(("ZLB.RANK", self.key, encoded(member), *_ranking(ranking)), optional_int)

    def rank_of(self, *values: Number) -> Call[int]:
        """Returns the rank that a new member with these values would get."""
        return Call(("ZLB.RANKOF", self.key, *self._row(values)), int)

    def range(self, start: int = 0, stop: int = -1, *, reverse: bool = False, ranking: Ranking = "position") -> Call[list[Entry]]:
        """Returns the entries from index `start` through index `stop`, best first. Negative indexes count from the
        end."""
        args: tuple[Word, ...] = ("ZLB.RANGE", self.key, start, stop)
        if reverse:
            args += ("REV",)
        return Call((*args, "WITHRANK", *_ranking(ranking), "WITHVALUES"), self._entries)

    def around(self, member: Member, radius: int, *, ranking: Ranking = "position") -> Call[list[Entry] | None]:
        """Returns the member with `radius` neighbours on either side. None: the member is not on the board."""
        args = ("ZLB.AROUND", self.key, encoded(member), radius, "WITHRANK", *_ranking(ranking), "WITHVALUES")
        return Call(args, lambda reply: None if reply is None else self._entries(reply))

    def remove(self, *members: Member) -> Call[int]:
        return Call(("ZLB.REM", self.key, *map(encoded, members)), int)

    def remove_range(self, start: int, stop: int) -> Call[int]:
        return Call(("ZLB.REMRANGE", self.key, start, stop), int)

    def merge_from(self, *keys: str, how: Literal["sum", "best"] = "sum") -> Call[int]:
        """Writes the union of the boards `keys` into this board. Returns the number of members of this board."""
        return Call(("ZLB.MERGE", self.key, len(keys), *keys, how.upper()), int)

    def card(self) -> Call[int]:
        return Call(("ZLB.CARD", self.key), int)

    def clear(self) -> Call[int]:
        """Removes all members, and keeps the schema."""
        return Call(("ZLB.CLEAR", self.key), int)

    def _row(self, values: tuple[Number, ...]) -> tuple[Number, ...]:
        if len(values) != len(self.names):
            raise ValueError(f"a value for each dimension is needed: {', '.join(self.names)}")
        return values

    def _values(self, reply: Any) -> tuple[Number, ...]:
        return tuple(float(value) if real else int(value) for value, real in zip(reply, self._reals))

    def _entries(self, reply: Any) -> list[Entry]:
        return [Entry(int(row[0]), text(row[1]), self._values(row[2:])) for row in reply]


def _options(only: Literal["new", "present"] | None, best: bool) -> tuple[Word, ...]:
    condition: tuple[Word, ...] = ("NX" if only == "new" else "XX",) if only else ()
    return (*condition, "BEST") if best else condition


def _ranking(ranking: Ranking) -> tuple[Word, ...]:
    return () if ranking == "position" else (ranking.upper(),)
