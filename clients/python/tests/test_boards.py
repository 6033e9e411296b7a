from __future__ import annotations

from typing import Any

import pytest
import redis

from zeitset import Board, Entry


def test_a_board_of_several_dimensions(r: Any) -> None:
    medals = Board(r, "medals", "gold", "silver", "bronze")
    medals.create()
    medals.create()
    assert medals.set_many({"Japan": (20, 12, 13), "USA": (40, 44, 42)}) == 2
    assert medals.set("China", 40, 27, 24) == 1
    assert medals.range() == [
        Entry(0, "USA", (40, 44, 42)),
        Entry(1, "China", (40, 27, 24)),
        Entry(2, "Japan", (20, 12, 13)),
    ]
    assert medals.incr("China", {"gold": 1}) == Entry(0, "China", (41, 27, 24))
    assert medals.get("China", "Atlantis") == [Entry(0, "China", (41, 27, 24)), None]
    assert medals.rank("Japan") == 2 and medals.rank("Atlantis") is None
    assert [entry.member for entry in medals.around("USA", 1) or []] == ["China", "USA", "Japan"]
    assert medals.around("Atlantis", 1) is None
    assert medals.rank_of(40, 50, 0) == 1
    assert medals.range(0, 0, reverse=True)[0].member == "Japan"
    assert medals.remove("Japan") == 1 and medals.card() == 2 and medals.clear() == 2


def test_real_numbers_and_best(r: Any) -> None:
    laps = Board(r, "laps", "seconds asc float")
    laps.create(ties="first", keep=2)
    assert laps.set("ann", 61.25, best=True) == 0
    assert laps.set("ann", 70.5, best=True) == 0
    assert laps.range() == [Entry(0, "ann", (61.25,))]
    assert laps.set("bob", 61.25) == 1
    assert laps.rank("bob", "dense") == 0 and laps.rank("bob", "competition") == 0
    assert laps.set("eve", 99.0) is None


def test_whole_numbers_are_exact(one: Any) -> None:
    big = Board(one, "big", "points")
    big.create()
    big.set("ann", 2**63 - 1)
    assert big.range()[0].values == (2**63 - 1,)


def test_boards_merge(one: Any) -> None:
    days = [Board(one, f"day:{n}", "points") for n in range(3)]
    for day in days:
        day.create()
    days[0].set("ann", 5)
    days[1].set("ann", 6)
    assert days[2].merge_from("day:0", "day:1") == 1
    assert days[2].range() == [Entry(0, "ann", (11,))]


def test_mistakes(one: Any) -> None:
    with pytest.raises(ValueError):
        Board(one, "x", "gold best")
    board = Board(one, "x", "gold")
    with pytest.raises(ValueError):
        board.set("ann", 1, 2)
    with pytest.raises(redis.ResponseError, match="NOBOARD"):
        board.set("ann", 1)
