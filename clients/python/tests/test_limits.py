from __future__ import annotations

import time
from typing import Any, Literal

import pytest
import redis

from zeitset import Check, Checks, CostTooHigh, Limiter, Policy, check_all

from .support import NO_RETRY, Server, free_port


def test_a_limit_denies_and_says_how_long_to_wait(r: Any) -> None:
    limiter = Limiter(r, "search", "2/1m")
    first = limiter.check("ann")
    assert (first.allowed, first.limit, first.remaining, first.retry_after) == (True, 2, 1, 0)
    assert first.charged_until_ms > time.time() * 1000
    assert limiter.peek("ann", 2).allowed is False
    assert limiter.check("ann").allowed
    denied = limiter.check("ann")
    assert not denied.allowed
    assert 59 < denied.retry_after <= 60
    assert denied.charged_until_ms == 0
    assert limiter.check("bob").allowed
    assert r.exists("search:ann") and limiter.reset("ann") and limiter.check("ann").allowed


def test_who_waits_as_told_is_let_in(one: Any) -> None:
    limiter = Limiter(one, "knock", "1/100ms")
    assert limiter.check("ann").allowed
    while not (check := limiter.check("ann")).allowed:
        time.sleep(check.retry_after)


def test_a_refund_gives_back_what_the_check_took(r: Any) -> None:
    limiter = Limiter(r, "tokens", "100/10m")
    check = limiter.check("ann", 80)
    assert limiter.refund("ann", 50, check) == 50
    assert limiter.peek("ann").remaining == 70
    assert limiter.refund("ann", 50, check.charged_until_ms) == 30


def test_a_cost_above_the_limit_is_an_error_and_nothing_is_sent(one: Any) -> None:
    limiter = Limiter(one, "tokens", "100/1m", on_error="deny")
    for ask in (limiter.check, limiter.peek):
        with pytest.raises(CostTooHigh):
            ask("ann", 101)
    with pytest.raises(CostTooHigh):
        check_all((limiter, "ann", 101))
    assert one.exists("tokens:ann") == 0


def test_force_goes_into_debt(one: Any) -> None:
    limiter = Limiter(one, "tokens", "100/1m")
    assert limiter.check("ann", 150, force=True).remaining == 0
    assert not limiter.check("ann").allowed


def test_no_wait_is_told_to_a_forced_call_above_the_limit(one: Any) -> None:
    limiter = Limiter(one, "tokens", "100/1m")
    for check in (limiter.check("ann", 150, force=True), check_all((limiter, "bob", 150), force=True)):
        fields = check.headers()
        assert "Retry-After" not in fields, "no wait makes room for it"
        assert fields["RateLimit"] == '"tokens";r=0;t=60', "when the limit is free"


@pytest.mark.parametrize("algorithm", ["sliding", "fixed", "leaky"])
def test_algorithms(one: Any, algorithm: Literal["sliding", "fixed", "leaky"]) -> None:
    assert Limiter(one, "a", "5/1h", algorithm=algorithm).check("x").remaining == 4
    assert one.get("a:x").startswith(f"{algorithm}:".encode())


def test_several_limits_take_all_or_nothing(r: Any) -> None:
    requests, tokens = Limiter(r, "requests", "2/1m"), Limiter(r, "tokens", "1000/1h", algorithm="fixed")
    both = check_all((requests, "ann"), (tokens, "ann", 850))
    assert both.allowed and [check.remaining for check in both.checks] == [1, 150]
    refused = check_all((requests, "ann"), (tokens, "ann", 850))
    assert not refused.allowed and [check.allowed for check in refused.checks] == [True, False]
    assert refused.retry_after == refused.checks[1].retry_after > 0
    assert requests.peek("ann").remaining == 1
    policy = '"requests";q=2;w=60, "tokens";q=1000;w=3600'
    assert refused.headers()["RateLimit-Policy"] == policy
    assert int(refused.headers()["Retry-After"]) == -(-refused.checks[1].retry_after_ms // 1000)


def test_header_fields() -> None:
    policy = Policy('a "b"', 5, 1500)
    allowed = Check(policy, True, 3, 0, 1001, 7)
    assert allowed.headers() == {"RateLimit-Policy": '"a \\"b\\"";q=5;w=2', "RateLimit": '"a \\"b\\"";r=3;t=2'}
    denied = Check(policy, False, 0, 1, 1001, 0)
    assert denied.headers()["RateLimit"].endswith(";r=0;t=1")
    assert denied.headers()["Retry-After"] == "1"
    never = Check(policy, False, 0, -1, 1001, 7)
    assert (never.retry_after, never.headers()) == (-1, {**allowed.headers(), "RateLimit": '"a \\"b\\"";r=0;t=2'})
    both = Checks(False, (denied, never))
    assert (both.retry_after_ms, both.retry_after, "Retry-After" in both.headers()) == (-1, -1, False)
    in_debt = Check(policy, True, -20, 0, 1001, 7)
    assert in_debt.headers() == never.headers(), "the field has no negative numbers"


def test_redis_away_is_the_callers_choice() -> None:
    away = redis.Redis(port=free_port(), retry=NO_RETRY)
    with pytest.raises(redis.ConnectionError):
        Limiter(away, "a", "5/m").check("x")
    allowed = Limiter(away, "a", "5/m", on_error="allow").check("x")
    assert allowed.allowed and isinstance(allowed.error, redis.ConnectionError)
    assert list(allowed.headers()) == ["RateLimit-Policy"], "nothing is claimed that is not known"
    deny = Limiter(away, "a", "5/m", on_error="deny")
    assert not deny.check("x").allowed and deny.check("x").headers() == allowed.headers()
    both = check_all((Limiter(away, "b", "5/m", on_error="allow"), "x"), (deny, "x"))
    assert not both.allowed and both.error


def test_a_mistake_is_raised_whatever_on_error_says(one: Any) -> None:
    one.set("a:x", "no limit")
    for on_error in ("allow", "deny"):
        with pytest.raises(redis.ResponseError, match="NOTLIMIT"):
            Limiter(one, "a", "5/m", on_error=on_error).check("x")


def test_a_server_without_the_module_is_a_mistake(tmp_path: Any) -> None:
    plain = Server(tmp_path, module=False)
    try:
        with pytest.raises(redis.ResponseError, match="unknown command"):
            Limiter(plain.client(), "a", "5/m", on_error="allow").check("x")
    finally:
        plain.stop()


def test_names_fit_into_header_fields() -> None:
    with pytest.raises(ValueError):
        Limiter(None, "line\nbreak", "5/m")  # type: ignore[arg-type]
