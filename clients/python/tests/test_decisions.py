"""Remembered denials, and the wait until a limit allows a call."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
import redis.asyncio

from zeitset import Check, Limiter, OutcomeUnknown, Policy, check_all
from zeitset import _denials
from zeitset._denials import Denials
from zeitset.asyncio import Limiter as AsyncLimiter
from zeitset.asyncio import check_all as acheck_all

from .support import NO_RETRY, Proxy, Server, free_port


def checks(client: Any) -> int:
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_ZRL.{name}", {}).get("calls", 0) for name in ("CHECK", "MCHECK"))


def test_an_attack_costs_one_call_for_each_key(r: Any) -> None:
    limiter = Limiter(r, "login", "2/1h")
    r.config_resetstat()
    found = [limiter.check("ann") for _ in range(500)]
    assert [check.allowed for check in found[:3]] == [True, True, False] and checks(r) == 3
    last = found[-1]
    assert not last.allowed and 3590 < last.retry_after <= 3600 and last.reset_after >= last.retry_after
    assert "Retry-After" in last.headers() and (last.remaining, last.charged_until_ms) == (0, 0)
    assert not limiter.check("ann", 2).allowed and checks(r) == 3, "what costs more is denied, too"
    assert limiter.check("bob").allowed and checks(r) == 4


def test_a_call_that_costs_less_is_asked(one: Any) -> None:
    limiter = Limiter(one, "tokens", "10/1h")
    assert limiter.check("ann", 8).allowed and not limiter.check("ann", 5).allowed
    assert limiter.check("ann", 2).allowed and limiter.check("ann", 0).allowed


def test_a_client_that_waits_as_a_remembered_denial_says_is_allowed(one: Any) -> None:
    limiter = Limiter(one, "knock", "1/200ms")
    assert limiter.check("ann").allowed and not limiter.check("ann").allowed
    time.sleep(limiter.check("ann").retry_after)
    assert limiter.check("ann").allowed


def test_refund_and_reset_forget_denials(one: Any) -> None:
    limiter = Limiter(one, "tokens", "10/1h")
    taken = limiter.check("ann", 10)
    assert not limiter.check("ann").allowed
    limiter.refund("ann", 4, taken)
    assert limiter.check("ann", 4).allowed and not limiter.check("ann").allowed
    limiter.reset("ann")
    assert limiter.check("ann").allowed


@pytest.mark.parametrize("command", ["DEL", "ZRL.REFUND"])
def test_a_refund_or_reset_whose_reply_is_lost_forgets_the_denial(shared: Server, one: Any, command: str) -> None:
    """The server has carried out the command."""

    def mend(limiter: Any, check: Check) -> Any:
        return limiter.reset("ann") if command == "DEL" else limiter.refund("ann", 1, check)

    async def main(proxy: Proxy) -> None:
        async with redis.asyncio.Redis(port=proxy.port) as r:
            limiter = AsyncLimiter(r, "async", "1/1d", timeout=20)
            taken = await limiter.check("ann")
            assert not (await limiter.check("ann")).allowed
            one.config_resetstat()
            proxy.hold(command.encode())
            mending = asyncio.create_task(mend(limiter, taken))
            while f"cmdstat_{command.lower()}" not in map(str.lower, one.info("commandstats")):
                await asyncio.sleep(0.001)
            mending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await mending
            proxy.let_go()
            assert (await limiter.check("ann")).allowed

    with Proxy(shared.port) as proxy, proxy.client() as r:
        limiter = Limiter(r, "tokens", "1/1d")
        taken = limiter.check("ann")
        assert not limiter.check("ann").allowed
        proxy.lose(command.encode())
        with pytest.raises(OutcomeUnknown):
            mend(limiter, taken)
        assert limiter.check("ann").allowed
        asyncio.run(main(proxy))


def test_another_process_that_refunds_is_not_heard_until_the_wait_is_over(one: Any) -> None:
    here, there = Limiter(one, "tokens", "10/1h"), Limiter(one, "tokens", "10/1h", remember=False)
    taken = here.check("ann", 10)
    assert not here.check("ann").allowed and not there.check("ann").allowed
    there.refund("ann", 10, taken)
    assert here.check("ann").allowed is False and here.peek("ann").allowed, "peek asks"
    assert there.check("ann").allowed


def test_a_denial_that_was_on_its_way_during_a_refund_is_not_remembered() -> None:
    denials = Denials()
    denied = Check(Policy("a", 5, 1000), False, 0, 60_000, 60_000, 0)
    before = denials.forgotten
    denials.forget("ann")
    denials.note("ann", 1, denied, before)
    assert denials.known("ann", 1) is None
    denials.note("ann", 1, denied, denials.forgotten)
    assert denials.known("ann", 1) is not None


def test_the_memory_is_bounded_and_forgets_who_was_asked_least_recently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_denials, "_REMEMBERED", 3)
    denials = Denials()
    denied = Check(Policy("a", 5, 1000), False, 0, 60_000, 60_000, 0)
    for key in ("a", "b", "c"):
        denials.note(key, 1, denied, 0)
    assert denials.known("a", 1)
    denials.note("d", 1, denied, 0)
    assert [bool(denials.known(key, 1)) for key in "abcd"] == [True, False, True, True]


def test_several_limits_are_remembered_together(shared: Server, one: Any) -> None:
    minute, day = Limiter(one, "minute", "1/1m"), Limiter(one, "day", "9/1d")
    one.config_resetstat()
    found = [check_all((minute, "ann"), (day, "ann")) for _ in range(50)]
    assert [each.allowed for each in found] == [True] + [False] * 49 and checks(one) == 2
    assert [check.allowed for check in found[-1].checks] == [False, True] and found[-1].checks[1].remaining == 8
    assert 55 < found[-1].retry_after <= 60
    assert not minute.check("ann").allowed and checks(one) == 2, "the limit that denied is known alone"
    assert day.check("ann").allowed
    minute.reset("ann")
    assert check_all((minute, "ann"), (day, "ann")).allowed
    assert not check_all((minute, "ann"), (day, "ann"), force=True).checks[0].debt == 0

    async def main() -> None:
        async with redis.asyncio.Redis(port=shared.port) as r:
            both = [AsyncLimiter(r, name, "1/1m") for name in ("c", "d")]
            one.config_resetstat()
            for number in range(50):
                assert (await acheck_all(*((limiter, "ann") for limiter in both))).allowed is (number == 0)
            assert checks(one) == 2

    asyncio.run(main())


def test_redis_away_is_no_denial() -> None:
    limiter = Limiter(redis.Redis(port=free_port(), retry=NO_RETRY), "a", "5/m", on_error="deny")
    assert limiter.check("ann").error is not limiter.check("ann").error


def test_wait_sleeps_until_it_is_allowed(one: Any) -> None:
    limiter = Limiter(one, "api", "1/100ms")
    first = limiter.wait("github")
    second = limiter.wait("github")
    assert second.charged_until_ms - first.charged_until_ms >= 100 and second.allowed


def test_wait_does_not_sleep_for_what_is_too_late(one: Any) -> None:
    limiter = Limiter(one, "api", "5/1h")
    assert limiter.wait("github", 5, timeout=1).allowed
    for timeout in (0, "30m"):
        with pytest.raises(TimeoutError, match="'api' does not allow 1 units for 'github' in time"):
            limiter.wait("github", timeout=timeout)
    assert one.execute_command("ZRL.PEEK", "api:github", 5, "1h")[2] == 0, "nothing was taken"


def test_all_who_wait_get_their_turn(shared: Server, one: Any) -> None:
    limiter = Limiter(one, "api", "5/100ms")
    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(lambda _: limiter.wait("github", timeout=20), range(40)))
    assert all(check.allowed for check in found)

    async def main() -> list[Check]:
        async with redis.asyncio.Redis(port=shared.port) as r:
            waiting = AsyncLimiter(r, "api", "5/100ms")
            return await asyncio.gather(*(waiting.wait("gitlab", timeout=20) for _ in range(30)))

    assert all(check.allowed for check in asyncio.run(main()))


def test_wait_outlasts_an_outage_if_errors_deny(tmp_path: Any) -> None:
    server = Server(tmp_path)
    limiter = Limiter(server.client(), "api", "5/1h", on_error="deny")
    assert limiter.check("ann").allowed
    server.kill()
    with pytest.raises(TimeoutError) as caught:
        limiter.wait("ann", timeout=0.3)
    assert isinstance(caught.value.__cause__, redis.ConnectionError)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(limiter.wait, "ann", timeout=20)
        server.start()
        assert waiting.result().error is None
    server.kill()
    assert Limiter(server.client(), "api", "5/1h", on_error="allow").wait("ann").allowed
    with pytest.raises(redis.ConnectionError):
        Limiter(server.client(), "api", "5/1h").wait("ann")


def test_a_task_that_waits_can_be_cancelled(shared: Server, one: Any) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=shared.port) as r:
            limiter = AsyncLimiter(r, "api", "1/1h")
            await limiter.wait("ann")
            waiting = asyncio.create_task(limiter.wait("ann"))
            while limiter._decider.known("ann", 1) is None:
                await asyncio.sleep(0.001)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(main())
