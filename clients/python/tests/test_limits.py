from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any, Literal

import pytest
import redis
import redis.asyncio

from zeitset import Check, Checks, CostTooHigh, Limiter, OutcomeUnknown, Policy, check_all
from zeitset.asyncio import Limiter as AsyncLimiter
from zeitset.asyncio import check_all as acheck_all

from .support import NO_RETRY, Proxy, Server, free_port, until


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


def test_a_client_that_waits_for_retry_after_is_allowed(one: Any) -> None:
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
    assert limiter.check("ann", 30, force=True).debt == 0
    forced = limiter.check("ann", 150, force=True)
    assert (forced.allowed, forced.remaining, forced.debt, forced.retry_after_ms) == (True, 0, 80, 0)
    denied = limiter.check("ann")
    assert (denied.allowed, denied.remaining, denied.debt) == (False, 0, 80)


def test_no_wait_is_told_to_a_forced_call(one: Any) -> None:
    limiter = Limiter(one, "tokens", "100/1m")
    for check in (limiter.check("ann", 150, force=True), check_all((limiter, "bob", 150), force=True)):
        fields = check.headers()
        assert check.allowed and "Retry-After" not in fields
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
    # 150 of 1,000 units remain, which last for 540 s at the policy's rate. By the draft, t and Retry-After are at least
    # 540 s, even shortly before the hour ends.
    assert int(refused.headers()["Retry-After"]) == max(540, -(-refused.checks[1].retry_after_ms // 1000))
    with pytest.raises(ValueError, match="all SLIDING limits of one call must have the same precision"):
        check_all((requests, "ann"), (Limiter(r, "exact", "2/1m", exact=True), "ann"))


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
    in_debt = Check(policy, True, 0, 0, 1001, 7, debt=20)
    assert in_debt.headers() == never.headers(), "the field has no negative numbers"


def test_fields_promise_no_more_than_the_limit() -> None:
    """r units in t seconds are no faster than q units in w seconds. Retry-After is at least the t of the limits that
    deny. Integers have at most 15 digits."""
    leaky = Check(Policy("a", 5, 60_000), True, 4, 0, 12_000, 7)
    assert leaky.headers()["RateLimit"] == '"a";r=4;t=48'
    denied = Check(Policy("a", 10, 60_000), False, 8, 2_000, 12_000, 0)
    assert denied.headers()["RateLimit"] == '"a";r=8;t=48' and denied.headers()["Retry-After"] == "48"
    other = Check(Policy("b", 2, 86_400_000), True, 1, 0, 86_400_000, 0)
    assert Checks(False, (other, denied)).headers()["Retry-After"] == "48", "the other one does not deny"
    large = Check(Policy("a", 2**53 - 1, 1_000), True, 2**53 - 2, 0, 1_000, 0).headers()
    assert large == {"RateLimit-Policy": '"a";q=999999999999999;w=1', "RateLimit": '"a";r=999999999999999;t=1'}


def test_units_stand_in_the_policy(one: Any) -> None:
    check = Limiter(one, "llm", "5/m", unit='to"kens').check("ann")
    assert check.headers()["RateLimit-Policy"] == '"llm";q=5;w=60;qu="to\\"kens"'
    with pytest.raises(ValueError):
        Limiter(one, "llm", "5/m", unit="\n")


def test_a_prefix_stands_before_the_name(one: Any) -> None:
    check = Limiter(one, "search", "5/m", prefix="shop:").check("ann")
    assert one.keys() == [b"shop:search:ann"] and '"search"' in check.headers()["RateLimit"]


@pytest.mark.parametrize("kind", ["waiting", "asyncio", "cluster", "asyncio cluster"])
def test_a_server_that_hangs_holds_no_check_up(tmp_path: Any, kind: str) -> None:
    options = ("--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1") if "cluster" in kind else ()
    server = Server(tmp_path, *options)
    try:
        if options:
            with server.client() as admin:
                admin.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
                until(lambda: b"cluster_state:ok" in admin.execute_command("CLUSTER", "INFO", NEVER_DECODE=True))
        place: Any = {"host": "127.0.0.1", "port": server.port}
        if "asyncio" in kind:
            errors = asyncio.run(hanging(server, place, (redis.asyncio.RedisCluster if options else redis.asyncio.Redis)))
        else:
            limiter = Limiter((redis.RedisCluster if options else redis.Redis)(**place), "a", "9/m", on_error="allow", timeout="100ms")
            assert limiter.check("x").error is None
            os.kill(server._process.pid, signal.SIGSTOP)
            errors = [limiter.check("x") for _ in range(3)]
            os.kill(server._process.pid, signal.SIGCONT)
            until(lambda: limiter.check("x").error is None)
        assert all(check.allowed and isinstance(check.error, redis.TimeoutError) for check in errors), errors
        # The first call has a connection. The others fail while they connect, and have sent nothing.
        assert [isinstance(check.error, OutcomeUnknown) for check in errors] == [True, False, False]
    finally:
        os.kill(server._process.pid, signal.SIGCONT)
        server.kill()


TAKING: dict[str, Callable[[Any], Any]] = {
    "ZRL.CHECK": lambda limiter: limiter.check("x"),
    "ZRL.MCHECK": lambda limiter: (acheck_all if isinstance(limiter, AsyncLimiter) else check_all)((limiter, "x")),
    "ZRL.REFUND": lambda limiter: limiter.refund("x", 1, 1),
    "DEL": lambda limiter: limiter.reset("x"),
    "ZRL.PEEK": lambda limiter: limiter.peek("x"),
}


@pytest.mark.parametrize("command", TAKING)
def test_a_call_that_takes_too_long_may_have_been_carried_out(shared: Server, one: Any, command: str) -> None:
    async def main() -> BaseException:
        async with redis.asyncio.Redis(port=proxy.port) as r:
            limiter = AsyncLimiter(r, "a", "9/m", timeout="300ms")
            await limiter.check("x")
            proxy.hold(command.encode())
            with pytest.raises(redis.TimeoutError) as found:
                await TAKING[command](limiter)
            return found.value

    with Proxy(shared.port) as proxy, proxy.client() as r:
        limiter = Limiter(r, "a", "9/m", timeout="300ms")
        limiter.check("x")
        proxy.hold(command.encode())
        with pytest.raises(redis.TimeoutError) as found:
            TAKING[command](limiter)
        proxy.let_go()
        errors = [found.value, asyncio.run(main())]
        proxy.let_go()
    assert [isinstance(error, OutcomeUnknown) for error in errors] == [command != "ZRL.PEEK"] * 2, errors


async def hanging(server: Server, place: Any, client: Any) -> list[Check]:
    async with client(**place) as r:
        limiter = AsyncLimiter(r, "a", "9/m", on_error="allow", timeout="100ms")
        assert (await limiter.check("x")).error is None
        os.kill(server._process.pid, signal.SIGSTOP)
        found = [await limiter.check("x") for _ in range(3)]
        os.kill(server._process.pid, signal.SIGCONT)
        while (await limiter.check("x")).error is not None:
            await asyncio.sleep(0.01)
        return found


def test_a_check_of_its_own_time_limit_speaks_as_the_client_does(tmp_path: Any) -> None:
    socket = str(tmp_path / "socket")
    server = Server(tmp_path, "--unixsocket", socket)
    try:
        with server.client() as admin:
            admin.execute_command("ACL", "SETUSER", "ann", "on", ">secret", "~*", "+@all")
        client = redis.Redis(unix_socket_path=socket, username="ann", password="secret", db=3, decode_responses=True)
        first, second = Limiter(client, "a", "5/m"), Limiter(client, "b", "5/m")
        assert first.check("x").allowed and second.check("x").allowed
        assert sorted(client.keys()) == ["a:x", "b:x"]
        assert len([each for each in client.client_list() if each["cmd"] == "ZRL.CHECK"]) <= 1, "one connection for both"
    finally:
        server.kill()


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
        with pytest.raises(redis.ResponseError, match="PRECISION must not exceed the window"):
            Limiter(one, "b", "5/s", precision="1m", on_error=on_error).check("x")
        with pytest.raises(redis.ResponseError, match="time is out of range"):
            Limiter(one, "c", "5/9007199254740991ms", on_error=on_error).check("x")


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
