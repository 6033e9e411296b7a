from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from zeitset import ExpiringSet


def test_members_live_as_long_as_they_were_told(r: Any) -> None:
    codes = ExpiringSet(r, "otp")
    assert codes.add("a", "b", ttl="5m") == 2
    assert codes.add("c", at=datetime.now(timezone.utc) + timedelta(hours=1)) == 1
    assert codes.members() == ["a", "b", "c"]
    assert codes.members(within="10m") == ["a", "b"] and codes.members(offset=1, count=1) == ["b"]
    named = codes.members_with_ttl(within="10m")
    assert [name for name, _ in named] == ["a", "b"] and all(299 < ttl <= 300 for _, ttl in named)
    assert codes.contains("a") is True and codes.contains_each("a", "x") == [True, False]
    assert codes.card() == 3 and codes.remove("a", "x") == 1
    assert codes.persist("b", "x") == [1, -2]
    assert codes.ttl("b", "x") == [float("inf"), None]
    assert codes.expire("b", "x", ttl=60) == [1, -2]
    assert codes.pop() == ["b"] and codes.random() == ["c"] and codes.random(-3) == ["c"] * 3


def test_conditions(one: Any) -> None:
    seen = ExpiringSet(one, "seen")
    assert seen.add("m", ttl="60d", only="new") == 1
    assert seen.add("m", ttl="60d", only="new") == 0
    assert seen.add("m", ttl="1s", when="later", changed=True) == 0
    assert seen.add("m", ttl="90d", when="later", changed=True) == 1
    assert seen.add("x", ttl="1d", cap=1) is None
    with pytest.raises(TypeError):
        seen.add("m")


def test_any_bytes_are_members(r: Any) -> None:
    odd = ExpiringSet(r, "odd")
    odd.add(b"\xff\x00", "ü", ttl=60)
    assert set(odd.members()) == {"\udcff\x00", "ü"}
    assert all(odd.contains_each(*odd.members()))
