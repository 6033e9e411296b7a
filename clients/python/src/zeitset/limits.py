"""A storage for the package `limits`, and so for slowapi and flask-limiter: `storage_from_string("zeitset://localhost:6379")`.

If this module is imported, `limits` recognizes the schemes `zeitset://`, `zeitsets://` (TLS), `zeitset+unix://`, and
each of them after `async+`. The strategy moving-window is a SLIDING limit, which keeps about 100 slots for any limit.
The strategy fixed-window is a plain counter.
"""

from __future__ import annotations

import time
from typing import Any

import redis
import redis.asyncio as aredis
from limits.aio.storage import MovingWindowSupport as AsyncMovingWindowSupport
from limits.aio.storage import Storage as AsyncStorage
from limits.storage import MovingWindowSupport, Storage

from ._call import Call, flag, mapping, optional_int
from ._run import arun, arun_all, run, run_all

__all__ = ["AsyncZeitsetStorage", "ZeitsetStorage"]

_PAGE = 1000
_SCHEMES = {"zeitset": "redis", "zeitsets": "rediss", "zeitset+unix": "unix"}


class _Calls:
    def __init__(self, prefix: str, exact: bool) -> None:
        self._prefix = prefix
        self._options = ("EXACT",) if exact else ()

    def key(self, key: str) -> str:
        return f"{self._prefix}:{key}"

    def incr(self, key: str, expiry: int, amount: int) -> list[Call[int]]:
        """Counts all requests, including requests beyond the limit. If the connection breaks between INCRBY and EXPIRE,
        the next call sets the expiry."""
        key = self.key(key)
        return [Call(("INCRBY", key, amount), int), Call(("EXPIRE", key, expiry, "NX"), int)]

    def get(self, key: str) -> Call[int]:
        return Call(("GET", self.key(key)), lambda reply: optional_int(reply) or 0)

    def expiry(self, key: str) -> Call[float]:
        return Call(("PTTL", self.key(key)), lambda ms: max(ms, 0) / 1000 + time.time())

    def acquire(self, key: str, limit: int, expiry: int, amount: int) -> Call[bool]:
        return Call(("ZRL.CHECK", self.key(key), limit, f"{expiry}s", "COST", amount, *self._options), lambda reply: flag(reply[0]))

    def window(self, key: str, expiry: int) -> Call[tuple[float, int]]:
        """Returns the time at which the oldest unit in use was taken, and the number of units in use."""

        def read(reply: Any) -> tuple[float, int]:
            fields = mapping(reply or ())
            if not fields.get("units"):
                return time.time(), 0
            return fields["next_available_ms"] / 1000 - expiry, fields["units"]

        return Call(("ZRL.INFO", self.key(key)), read)

    def clear(self, *keys: Any) -> Call[int]:
        return Call(("UNLINK", *keys), int)


def _address(uri: str) -> str:
    scheme, _, rest = uri.removeprefix("async+").partition("://")
    return f"{_SCHEMES[scheme]}://{rest}"


class ZeitsetStorage(Storage, MovingWindowSupport):
    """A storage for `limits`. `options`: parameters of `redis.Redis.from_url`. `client`: your own client, for example
    a RedisCluster, which the storage then uses instead of the URI.

    `exact`: units become available again at the exact millisecond. Without `exact`, units of a limit above 100 are late
    by up to 1% of the window. With `exact`, a key has a slot for each millisecond in which units were taken.
    """

    STORAGE_SCHEME = list(_SCHEMES)

    def __init__(
        self,
        uri: str = "zeitset://localhost:6379",
        wrap_exceptions: bool = False,
        key_prefix: str = "LIMITS",
        exact: bool = False,
        client: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self.storage: Any = redis.Redis.from_url(_address(uri), **options) if client is None else client
        self._calls = _Calls(key_prefix, exact)

    @property
    def base_exceptions(self) -> type[Exception]:
        return redis.RedisError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return run_all(self.storage, self._calls.incr(key, expiry, amount))[0]

    def get(self, key: str) -> int:
        return run(self.storage, self._calls.get(key))

    def get_expiry(self, key: str) -> float:
        return run(self.storage, self._calls.expiry(key))

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return run(self.storage, self._calls.acquire(key, limit, expiry, amount))

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        return run(self.storage, self._calls.window(key, expiry))

    def check(self) -> bool:
        try:
            return bool(self.storage.ping())
        except redis.RedisError:
            return False

    def reset(self) -> int | None:
        """Removes all keys of the prefix, found by SCAN, and returns their number."""
        removed = 0
        for key in self.storage.scan_iter(self._calls.key("*"), count=_PAGE):
            removed += run(self.storage, self._calls.clear(key))
        return removed

    def clear(self, key: str) -> None:
        run(self.storage, self._calls.clear(self._calls.key(key)))


class AsyncZeitsetStorage(AsyncStorage, AsyncMovingWindowSupport):
    """The storage for `limits.aio`, with the parameters of `ZeitsetStorage`. `client` is a client of
    `redis.asyncio`."""

    STORAGE_SCHEME = [f"async+{scheme}" for scheme in _SCHEMES]

    def __init__(
        self,
        uri: str = "async+zeitset://localhost:6379",
        wrap_exceptions: bool = False,
        key_prefix: str = "LIMITS",
        exact: bool = False,
        client: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self.storage: Any = aredis.Redis.from_url(_address(uri), **options) if client is None else client
        self._calls = _Calls(key_prefix, exact)

    @property
    def base_exceptions(self) -> type[Exception]:
        return redis.RedisError

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return (await arun_all(self.storage, self._calls.incr(key, expiry, amount)))[0]

    async def get(self, key: str) -> int:
        return await arun(self.storage, self._calls.get(key))

    async def get_expiry(self, key: str) -> float:
        return await arun(self.storage, self._calls.expiry(key))

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return await arun(self.storage, self._calls.acquire(key, limit, expiry, amount))

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        return await arun(self.storage, self._calls.window(key, expiry))

    async def check(self) -> bool:
        try:
            return bool(await self.storage.ping())
        except redis.RedisError:
            return False

    async def reset(self) -> int | None:
        """Removes all keys of the prefix, found by SCAN, and returns their number."""
        removed = 0
        async for key in self.storage.scan_iter(self._calls.key("*"), count=_PAGE):
            removed += await arun(self.storage, self._calls.clear(key))
        return removed

    async def clear(self, key: str) -> None:
        await arun(self.storage, self._calls.clear(self._calls.key(key)))
