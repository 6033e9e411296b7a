"""The boundary to Redis: whatever is raised while a command is sent, a reply is read or decoded, Redis is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio as aredis
from redis.connection import AbstractConnection
from redis.asyncio.connection import AbstractConnection as AsyncConnection

import zeitset.asyncio
from zeitset import Board, ExpiringSet, Limiter, OutcomeUnknown, Queue
from zeitset._link import Backoff
from zeitset.errors import boundary, is_away

from .raised import raised
from .support import NO_RETRY, Proxy, Server, free_port, until, working

PLACES = ("sending", "reading", "decoding")
ENDS = ("KeyboardInterrupt", "SystemExit", "GeneratorExit")
"""These end a process, wherever they are raised."""
FAULTS = {name: error for name, error in raised().items() if name not in ENDS}


class Undecodable:
    """A reply that raises whatever is done with it."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def _raise(self, *_: Any) -> Any:
        raise self.error

    __iter__ = __getitem__ = __len__ = __int__ = __index__ = __bool__ = __eq__ = __str__ = __contains__ = _raise
    items = property(_raise)


class Faults:
    """Raises an error at one of the three places, once."""

    def __init__(self, patch: pytest.MonkeyPatch, place: str) -> None:
        self.next: BaseException | None = None
        self.fits: Callable[[Any], bool] = lambda connection: True
        for kind in (AbstractConnection, AsyncConnection):
            send, read = kind.send_packed_command, kind.read_response
            if place == "sending":
                patch.setattr(kind, "send_packed_command", self._wrapped(send, kind is AsyncConnection))
            else:
                patch.setattr(kind, "read_response", self._wrapped(read, kind is AsyncConnection, place == "decoding"))

    def _wrapped(self, method: Any, is_async: bool, decodes: bool = False) -> Any:
        def plain(connection: Any, *args: Any, **options: Any) -> Any:
            error = self._take(connection)
            found = None if error and not decodes else method(connection, *args, **options)
            if error is not None and decodes:
                return Undecodable(error)
            if error is not None:
                raise error
            return found

        async def awaited(connection: Any, *args: Any, **options: Any) -> Any:
            error = self._take(connection)
            if error is not None and not decodes:
                raise error
            found = await method(connection, *args, **options)
            return found if error is None else Undecodable(error)

        return awaited if is_async else plain

    def _take(self, connection: Any) -> BaseException | None:
        if self.next is None or not self.fits(connection):
            return None
        error, self.next = self.next, None
        return error


@pytest.mark.parametrize("place", PLACES)
def test_a_worker_reconnects_after_any_fault(one: Any, monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setattr(Backoff, "next", lambda self: 0.0)
    faults, queue, done = Faults(monkeypatch, place), Queue(one, "q"), []
    faults.fits = lambda connection: isinstance(connection, AsyncConnection)
    with working(one, "q", lambda job: done.append(job.payload), block="20ms", lease="500ms") as watched:
        for number, (name, error) in enumerate(FAULTS.items()):
            faults.next = error
            until(lambda: faults.next is None or watched.error)
            queue.push(name, id=str(number))
            assert watched.thread.is_alive(), (name, watched.error)
        until(lambda: len(set(done)) == len(FAULTS) or watched.error)
    assert watched.error is None and watched.kinds().count("disconnected") > len(FAULTS) / 2
    assert sorted(set(done)) == sorted(FAULTS) and queue.stats()["dead"] == 0


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("timeout", [1, None])
def test_a_limiter_says_that_redis_is_away_after_any_fault(
    shared: Server, one: Any, monkeypatch: pytest.MonkeyPatch, place: str, timeout: int | None
) -> None:
    """With and without asyncio, with a limiter's own connections and those of the client."""
    faults = Faults(monkeypatch, place)

    async def check_all() -> None:
        async with aredis.Redis(port=shared.port) as r:
            lenient = zeitset.asyncio.Limiter(r, "async", "1000000/1m", on_error="allow", timeout=timeout)
            strict = zeitset.asyncio.Limiter(r, "async", "1000000/1m", timeout=timeout)
            for name, error in FAULTS.items():
                assert not (await lenient.check("ann")).error, name
                faults.next = error
                check = await lenient.check("ann")
                assert check.allowed and isinstance(check.error, OutcomeUnknown), name
                assert not (await lenient.check("ann")).error, name
                faults.next = error
                with pytest.raises(redis.RedisError) as found:
                    await strict.check("ann")
                assert is_away(found.value)

    with shared.client(retry=NO_RETRY) as r:
        lenient = Limiter(r, "sync", "1000000/1m", on_error="allow", timeout=timeout)
        strict = Limiter(r, "sync", "1000000/1m", timeout=timeout)
        for name, error in FAULTS.items():
            assert not lenient.check("ann").error, name
            faults.next = error
            check = lenient.check("ann")
            assert check.allowed and isinstance(check.error, OutcomeUnknown), name
            assert not lenient.check("ann").error, name
            faults.next = error
            with pytest.raises(redis.RedisError) as found:
                strict.peek("ann")
            assert is_away(found.value)
    asyncio.run(check_all())


@pytest.mark.parametrize("garbage", [b"+OK\r\n", b":1\r\n", b"*0\r\n", b"$-1\r\n", b"$3\r\nabc\r\n", b"HTTP/1.1 400\r\n", b"*1\r\n*-7\r\n", b"\r\n"])
def test_a_reply_that_is_not_that_of_redis_is_an_outage(shared: Server, one: Any, garbage: bytes) -> None:
    async def ask(proxy: Proxy) -> None:
        async with aredis.Redis(port=proxy.port) as r:
            proxy.garbage[b"ZRL.CHECK"] = garbage
            check = await zeitset.asyncio.Limiter(r, "async", "5/1m", on_error="allow").check("ann")
            assert check.allowed and check.error
            assert (await zeitset.asyncio.Limiter(r, "async", "5/1m").check("ann")).remaining == 4

    with Proxy(shared.port) as proxy, proxy.client() as r:
        proxy.garbage[b"ZRL.CHECK"] = garbage
        check = Limiter(r, "sync", "5/1m", on_error="allow").check("ann")
        assert check.allowed and check.error
        assert Limiter(r, "sync", "5/1m").check("ann").remaining == 4, "the garbage has reached nobody else"
        asyncio.run(ask(proxy))


class OldPool(redis.BlockingConnectionPool):
    """As in redis-py 5: `disconnect` has no parameter."""

    def disconnect(self) -> None:  # type: ignore[override]
        super().disconnect()


@pytest.mark.parametrize("kind", [redis.BlockingConnectionPool, OldPool])
def test_a_pool_of_redis_py_5_does_not_hide_the_error(kind: type[redis.ConnectionPool]) -> None:
    r = redis.Redis(connection_pool=kind(port=free_port(), retry=NO_RETRY))
    with pytest.raises(redis.ConnectionError):
        Queue(r, "q").push("x")
    assert Limiter(r, "a", "5/1m", on_error="allow", timeout=None).check("ann").allowed


def calls(r: Any, command: str) -> int:
    """Returns how often the server has carried out a command."""
    found = {name.lower(): stats for name, stats in r.info("commandstats").items()}
    return int(found.get(f"cmdstat_{command.lower()}", {"calls": 0})["calls"])


CHANGES: dict[str, Callable[[Any], Any]] = {
    "ZEXP.POP": lambda r: ExpiringSet(r, "set").pop(),
    "ZEXP.REM": lambda r: ExpiringSet(r, "set").remove("code"),
    "ZEXP.ADD": lambda r: ExpiringSet(r, "set").add("new", ttl=60, cap=3),
    "ZLB.INCR": lambda r: Board(r, "board", "points").incr("ann", {"points": 1}),
    "ZLB.REM": lambda r: Board(r, "board", "points").remove("ann"),
    "ZRL.CHECK": lambda r: Limiter(r, "limit", "5/1m").check("ann"),
    "ZRL.MCHECK": lambda r: zeitset.check_all((Limiter(r, "limit", "5/1m"), "ann")),
    "ZRL.REFUND": lambda r: Limiter(r, "limit", "5/1m").refund("ann", 1, 1),
    "ZQ.CANCEL": lambda r: Queue(r, "queue").cancel("a"),
    "ZQ.CLEAN": lambda r: Queue(r, "queue").clean("dead"),
}


@pytest.mark.parametrize("command", CHANGES)
def test_a_command_that_changes_something_is_sent_once(shared: Server, one: Any, command: str) -> None:
    """The client repeats commands ten times. The proxy passes the command to the server, and drops the connection."""
    Board(one, "board", "points").create()
    ExpiringSet(one, "set").add("code", "other", ttl=60)
    Queue(one, "queue").push("x", id="a")
    with Proxy(shared.port) as proxy:
        client = proxy.client(retry=redis.retry.Retry(redis.backoff.NoBackoff(), 10), retry_on_error=[redis.ConnectionError])
        with client as r:
            r.ping()
            one.config_resetstat()
            proxy.lose(command.encode())
            with pytest.raises(OutcomeUnknown, match=command):
                CHANGES[command](r)
        assert calls(one, command) == 1


@pytest.mark.parametrize("command", ["ZEXP.POP", "ZLB.INCR", "ZRL.CHECK"])
def test_asyncio_sends_it_once_too(shared: Server, one: Any, command: str) -> None:
    async def main(proxy: Proxy) -> None:
        retry = aredis.retry.Retry(redis.backoff.NoBackoff(), 10)
        async with aredis.Redis(port=proxy.port, retry=retry) as r:
            await r.ping()
            one.config_resetstat()
            proxy.lose(command.encode())
            with pytest.raises(OutcomeUnknown, match=command):
                if command == "ZEXP.POP":
                    await zeitset.asyncio.ExpiringSet(r, "set").pop()
                elif command == "ZLB.INCR":
                    await zeitset.asyncio.Board(r, "board", "points").incr("ann", {"points": 1})
                else:
                    await zeitset.asyncio.Limiter(r, "limit", "5/1m").check("ann")

    Board(one, "board", "points").create()
    with Proxy(shared.port) as proxy:
        asyncio.run(main(proxy))
    assert calls(one, command) == 1


def test_a_push_is_repeated(shared: Server, one: Any) -> None:
    with Proxy(shared.port) as proxy, proxy.client(retry=redis.retry.Retry(redis.backoff.NoBackoff(), 3)) as r:
        r.ping()
        proxy.lose(b"ZQ.PUSH")
        Queue(r, "q").push("x")
    assert Queue(one, "q").stats()["pushed"] == 1


def test_a_mistake_of_the_caller_is_no_outage(one: Any) -> None:
    limiter = Limiter(one, "limit", "5/1m", on_error="allow")
    one.lpush("limit:list", 1)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        limiter.check("list")
    with pytest.raises(UnicodeEncodeError):
        limiter.check("\ud800")
    with pytest.raises(redis.DataError):
        ExpiringSet(one, "set").random(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("code", ["WRONGTYPE", "NOTLIMIT", "NOPERM", "QUEUEFULL", "ERR unknown command", "ERR syntax error"])
def test_few_errors_are_permanent(code: str) -> None:
    assert not is_away(redis.ResponseError(f"{code} text"))


@pytest.mark.parametrize("code", ["LOADING", "OOM", "NEWCODE", "ERR max number of clients reached", "ERR upstream", "-", ""])
def test_all_other_errors_pass(code: str) -> None:
    assert is_away(redis.ResponseError(f"{code} text"))


@pytest.mark.parametrize("name", ENDS)
def test_what_ends_a_process_passes_the_boundary(name: str) -> None:
    error = raised()[name]
    with pytest.raises(type(error)):
        with boundary("PING"):
            raise error
