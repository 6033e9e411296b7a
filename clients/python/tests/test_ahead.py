"""Units ahead on a real server: processes that die, fork and end, threads, tasks."""

from __future__ import annotations

import asyncio
import heapq
import os
import random
import signal
import struct
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from zeitset import Call, CostTooHigh, Limiter, check_all
from zeitset._deciding import Decider
from zeitset._limits import LimiterCalls
from zeitset._run import drive, run
from zeitset.asyncio import Limiter as AsyncLimiter

from .support import NO_RETRY, Proxy, Server, free_port, until

LIMIT, WINDOW = 2000, 0.5
ROW = struct.Struct("ddi")

# For each allowed call, writes the moments before and after the call. The limiter handed out the unit in between.
CHILD = """
import os, random, struct, sys, time, redis
from zeitset import Limiter
port, rate, stop, file = int(sys.argv[1]), sys.argv[2], sys.argv[3], os.open(sys.argv[4], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
limiter = Limiter(redis.Redis(port=port), "hot", rate, ahead=50)
decided = 0
while (decided := decided + 1) % 100 or not os.path.exists(stop):
    before = time.monotonic()
    key = random.randrange(3)
    check = limiter.check(str(key))
    if check.allowed:
        os.write(file, struct.pack("ddi", before, time.monotonic(), key))
    else:
        time.sleep(random.uniform(0, check.retry_after))
"""


def most_in_a_window(rows: list[tuple[float, float]]) -> int:
    """Returns the most units that were certainly handed out within one window. A unit counts if its call began after
    the start of the window, and ended before the end."""
    most = 0
    inside: list[float] = []
    for before, after in sorted(rows, key=lambda row: row[1]):
        heapq.heappush(inside, before)
        while inside and inside[0] <= after - WINDOW:
            heapq.heappop(inside)
        most = max(most, len(inside))
    return most


def test_eight_processes_that_die_never_exceed_the_limit(shared: Server, one: Any, tmp_path: Path) -> None:
    stop, folder = tmp_path / "stop", tmp_path / "rows"
    folder.mkdir()

    def start(number: int) -> subprocess.Popen[bytes]:
        words = [str(shared.port), f"{LIMIT}/{WINDOW * 1000:g}ms", str(stop), str(folder / str(number))]
        return subprocess.Popen([sys.executable, "-c", CHILD, *words])

    processes = [start(number) for number in range(8)]
    try:
        for number in range(8, 14):
            until(lambda: (folder / str(number - 8)).exists())
            time.sleep(random.uniform(0.1, 0.4))  # the test ends the process at a random moment
            processes[number % 8].kill()
            processes[number % 8].wait()
            processes[number % 8] = start(number)
        until(lambda: sum(file.stat().st_size for file in folder.iterdir()) > 3 * 4 * LIMIT * ROW.size, 60)
    finally:
        stop.touch()
        codes = [process.wait() for process in processes]
    assert codes == [0] * 8
    rows: dict[int, list[tuple[float, float]]] = {}
    for file in folder.iterdir():
        for before, after, key in ROW.iter_unpack(file.read_bytes()[: file.stat().st_size // ROW.size * ROW.size]):
            rows.setdefault(key, []).append((before, after))
    checks = one.info("commandstats")["cmdstat_ZRL.CHECK"]["calls"]
    assert len(rows) == 3
    for key in rows:
        assert len(rows[key]) > LIMIT, "the recorder has seen more than one window"
        assert most_in_a_window(rows[key]) <= LIMIT
    assert checks < sum(map(len, rows.values())), "most decisions took no call"


def calls(client: Any, command: str) -> int:
    found: int = client.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0)
    return found


def test_a_key_that_is_asked_once_takes_one_unit(one: Any) -> None:
    limiter = Limiter(one, "api", "100000/10s", ahead=200)
    assert limiter.check("ann", 3).remaining == 99_997
    assert one.execute_command("ZRL.PEEK", "api:ann", 100_000, "10101ms")[2] == 99_997


def test_hundreds_of_decisions_take_a_few_calls_and_the_rest_is_given_back(r: Any) -> None:
    r.config_resetstat()
    limiter = Limiter(r, "api", "100000/20s", ahead=200)
    for number in range(1000):
        check = limiter.check("ann")
        assert check.allowed and check.remaining == 99_999 - number and check.charged_until_ms > time.time() * 1000
    assert calls(r, "ZRL.CHECK") <= 15
    assert limiter.peek("ann").remaining == 99_000 and calls(r, "ZRL.PEEK") == 0
    until(lambda: int(r.execute_command("ZRL.PEEK", "api:ann", 100_000, "20201ms")[2]) == 99_000)
    assert limiter.refund("ann", 5, check) == 5


def test_what_is_left_is_asked_for_exactly(one: Any) -> None:
    limiter = Limiter(one, "api", "300/10s", ahead=200)
    other = Limiter(one, "api", "300/10s", ahead=1)
    for number in range(120):
        assert limiter.check("ann").allowed
    limiter.close()
    assert other.check("ann", 177).remaining == 3
    assert [limiter.check("ann").allowed for _ in range(4)] == [True, True, True, False]
    denied = limiter.check("ann")
    assert 9 < denied.retry_after <= 10.2 and other.check("ann").allowed is False
    assert calls(one, "ZRL.CHECK") < 40


def test_close_gives_back_what_is_held(one: Any) -> None:
    limiter = Limiter(one, "api", "1000/1h", ahead=200)
    for _ in range(20):
        limiter.check("ann")
    limiter.close()
    assert Limiter(one, "api", "1000/1h", ahead=1).peek("ann").remaining == 980
    assert limiter.check("ann").remaining == 979, "it goes on"


def test_a_process_that_ends_gives_back_what_it_holds(shared: Server, one: Any) -> None:
    code = """
import sys, redis
from zeitset import Limiter
limiter = Limiter(redis.Redis(port=int(sys.argv[1])), "api", "1000/1h", ahead=200)
for _ in range(20):
    limiter.check("ann")
"""
    subprocess.run([sys.executable, "-c", code, str(shared.port)], check=True)
    assert Limiter(one, "api", "1000/1h", ahead=1).peek("ann").remaining == 980


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_neither_shares_nor_gives_back_units(shared: Server, one: Any) -> None:
    code = """
import os, sys, redis
from zeitset import Limiter
limiter = Limiter(redis.Redis(port=int(sys.argv[1])), "api", "1000/1h", ahead=200)
for _ in range(20):
    limiter.check("ann")
if os.fork():
    os.wait()
    assert limiter.check("ann").remaining == 979
    os._exit(0)
assert limiter.check("ann").remaining < 979, "it does not know what the parent holds"
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(shared.port)], check=True)
    # The parent held 12 of 32 units, and has not given them back. The child has taken one more unit.
    assert Limiter(one, "api", "1000/1h", ahead=1).peek("ann").remaining < 970


def test_threads_share_what_is_held(one: Any) -> None:
    limiter = Limiter(one, "api", "5000/1h", ahead=500)
    one.config_resetstat()
    with ThreadPoolExecutor(16) as pool:
        found = Counter(check.allowed for check in pool.map(lambda _: limiter.check("ann"), range(6000)))
    assert found == {True: 5000, False: 1000}
    assert calls(one, "ZRL.CHECK") < 200


def test_tasks_wait_for_one_call_and_the_loops_end_gives_back(shared: Server, one: Any) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=shared.port) as r:
            limiter = AsyncLimiter(r, "api", "5000/1h", ahead=500)
            found = await asyncio.gather(*(limiter.check("ann") for _ in range(1200)))
            assert all(check.allowed for check in found)
            assert calls(one, "ZRL.CHECK") < 15
            closing = AsyncLimiter(r, "api", "5000/1h", ahead=500)
            for _ in range(20):
                await closing.check("bob")
            await closing.close()
            assert (await closing.peek("bob")).remaining == 4980

    one.config_resetstat()
    asyncio.run(main())
    assert Limiter(one, "api", "5000/1h", ahead=1).peek("ann").remaining == 3800


@pytest.mark.parametrize("kind", ["waiting", "asyncio"])
def test_a_refund_whose_reply_got_lost_is_not_repeated(shared: Server, one: Any, kind: str) -> None:
    """The client is configured to repeat commands. A second REFUND would give back units that were handed out."""
    with Proxy(shared.port) as proxy:
        one.config_resetstat()

        def lose(refunding: Any) -> None:
            until(lambda: calls(one, "ZRL.REFUND") == 1)
            proxy.cut()
            proxy.let_go()

        async def main() -> None:
            async with redis.asyncio.Redis(port=proxy.port) as r:
                limiter = AsyncLimiter(r, "api", "1000/1h", ahead=200, timeout=5)
                for _ in range(20):
                    await limiter.check("ann")
                proxy.hold(b"ZRL.REFUND")
                losing = asyncio.get_running_loop().run_in_executor(None, lose, None)
                await limiter.close()
                await losing

        if kind == "asyncio":
            asyncio.run(main())
        else:
            limiter = Limiter(proxy.client(), "api", "1000/1h", ahead=200, timeout=5)
            for _ in range(20):
                limiter.check("ann")
            proxy.hold(b"ZRL.REFUND")
            with ThreadPoolExecutor(1) as pool:
                losing = pool.submit(lose, None)
                limiter.close()
                losing.result()
        assert calls(one, "ZRL.REFUND") == 1
        assert Limiter(one, "api", "1000/1h", ahead=1).peek("ann").remaining == 980


def test_reset_drops_what_is_held_and_several_limits_are_asked(one: Any) -> None:
    limiter = Limiter(one, "api", "1000/1h", ahead=200)
    for _ in range(20):
        limiter.check("ann")
    assert limiter.reset("ann") and limiter.check("ann").remaining == 999
    limiter.close()
    both = check_all((limiter, "ann", 5), (Limiter(one, "day", "9/1d"), "ann"))
    assert both.allowed and both.checks[0].remaining == 994
    assert limiter.check("ann", 1000, force=True).debt == 6


def test_a_reset_drops_the_units_of_a_call_in_flight(one: Any) -> None:
    """The server has carried out the call before the reset, and its reply comes after that of the reset."""
    decider = Decider(LimiterCalls("api", "1000/1h", ahead=200), None, True)
    for _ in range(3):
        drive(one, decider.check("ann", 1, False))
    checking = decider.check("ann", 1, False)
    call = next(checking)
    assert isinstance(call, Call)
    check = run(one, call)
    assert check.remaining == 993, "the call takes four units"
    drive(one, decider.reset("ann"))
    with pytest.raises(StopIteration) as end:
        checking.send(check)
    assert end.value.value.allowed and decider.known("ann", 1) is None


def test_callers_that_wait_share_the_fate_of_the_call() -> None:
    away = redis.Redis(port=free_port(), retry=NO_RETRY)
    limiter = Limiter(away, "api", "1000/1h", ahead=200, on_error="allow")
    with ThreadPoolExecutor(8) as pool:
        assert all(check.allowed and check.error for check in pool.map(lambda _: limiter.check("ann"), range(50)))
    with pytest.raises(redis.ConnectionError):
        Limiter(away, "api", "1000/1h", ahead=200).check("ann")


def test_a_server_that_hangs_holds_waiting_callers_up_no_longer_than_a_call(tmp_path: Path) -> None:
    server = Server(tmp_path)
    try:
        limiter = Limiter(server.client(), "api", "1000/1h", ahead=200, on_error="deny", timeout="300ms")
        assert limiter.check("ann").allowed
        os.kill(server._process.pid, signal.SIGSTOP)
        begun = time.monotonic()
        with ThreadPoolExecutor(30) as pool:
            found = list(pool.map(lambda _: limiter.check("ann"), range(30)))
        assert all(check.error is not None for check in found)
        assert time.monotonic() - begun < 6, "thirty callers did not wait one after the other"
    finally:
        os.kill(server._process.pid, signal.SIGCONT)
        server.kill()


def test_what_cannot_be_taken_ahead_is_refused(one: Any) -> None:
    for options in ({"algorithm": "fixed"}, {"algorithm": "leaky"}, {"remember": False}, {"rate": "5/99ms"}, {"ahead": 0}):
        with pytest.raises(ValueError):
            Limiter(one, "api", **{"rate": "100/1s", "ahead": 5, **options})  # type: ignore[arg-type]
    limiter = Limiter(one, "api", "100/1s", ahead=500)
    assert limiter.calls.window_ms == 1011 and limiter.calls.hold_ms == 11, "the hold, and a millisecond of the server's clock"
    with pytest.raises(CostTooHigh):
        limiter.check("ann", 101)
    assert limiter.check("ann").headers()["RateLimit-Policy"] == '"api";q=100;w=1'


def test_units_are_given_back_in_a_cluster(tmp_path: Path) -> None:
    server = Server(tmp_path, "--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1")
    try:
        with server.client() as admin:
            admin.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
            until(lambda: b"cluster_state:ok" in admin.execute_command("CLUSTER", "INFO", NEVER_DECODE=True))
        limiter = Limiter(redis.RedisCluster(host="127.0.0.1", port=server.port), "api", "1000/1h", ahead=200)
        for number in range(60):
            assert limiter.check(str(number % 3)).allowed
        limiter.close()

        async def main() -> None:
            async with redis.asyncio.RedisCluster(host="127.0.0.1", port=server.port) as r:
                awaited = AsyncLimiter(r, "async", "1000/1h", ahead=200)
                for number in range(60):
                    assert (await awaited.check(str(number % 3))).allowed
                await awaited.close()

        asyncio.run(main())
        with server.client() as admin:
            for name in ("api", "async"):
                for key in range(3):
                    assert admin.execute_command("ZRL.PEEK", f"{name}:{key}", 1000, "3636001ms")[2] == 980
    finally:
        server.kill()
