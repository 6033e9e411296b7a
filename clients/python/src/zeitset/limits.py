"""A storage for the package `limits`, and so for slowapi and flask-limiter: `storage_from_string("zeitset://localhost:6379")`.

If this module is imported, `limits` recognizes the schemes `zeitset://`, `zeitsets://` (TLS), `zeitset+unix://`,
`zeitset+sentinel://`, `zeitset+cluster://`, and each of them after `async+`. The strategy moving-window is a SLIDING
limit, which keeps about 100 slots for any limit. The strategy fixed-window is a plain counter. The two strategies have
keys of their own, and the prefix is not that of the package's own storage for Redis.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import unquote, urlsplit

import redis
import redis.asyncio as aredis
import redis.asyncio.cluster
import redis.asyncio.sentinel
import redis.cluster
import redis.sentinel
from limits.aio.storage import MovingWindowSupport as AsyncMovingWindowSupport
from limits.aio.storage import Storage as AsyncStorage
from limits.storage import MovingWindowSupport, Storage

from limits.errors import ConfigurationError

from ._call import Call, flag, mapping, optional_int
from ._patience import patient
from ._run import arun, run
from ._time import Duration, milliseconds

__all__ = ["AsyncZeitsetStorage", "ZeitsetStorage"]

_PAGE = 1000
_PREFIX = "zeitset"
_SCHEMES = {"zeitset": "redis", "zeitsets": "rediss", "zeitset+unix": "unix"}
_ALL = [*_SCHEMES, "zeitset+sentinel", "zeitset+cluster"]


_INCREASE = """
local count = redis.call("INCRBY", KEYS[1], ARGV[1])
redis.call("EXPIRE", KEYS[1], ARGV[2], "NX")
return count
"""


class _Calls:
    def __init__(self, prefix: str, exact: bool) -> None:
        self._prefix = prefix
        self._options = ("EXACT",) if exact else ()

    def key(self, key: str) -> str:
        """Returns the key of a SLIDING limit."""
        return f"{self._prefix}:{key}"

    def counter(self, key: str) -> str:
        """Returns the key of a plain counter."""
        return f"{self._prefix}:fixed:{key}"

    def keys(self, key: str) -> list[str]:
        return [self.key(key), self.counter(key)]

    def incr(self, key: str, expiry: int, amount: int) -> Call[int]:
        """Counts all requests, including requests beyond the limit."""
        return Call(("EVAL", _INCREASE, 1, self.counter(key), amount, expiry), int)

    def get(self, key: str) -> Call[int]:
        return Call(("GET", self.counter(key)), lambda reply: optional_int(reply) or 0)

    def expiry(self, key: str) -> Call[float]:
        return Call(("PTTL", self.counter(key)), lambda ms: max(ms, 0) / 1000 + time.time())

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

    def clear(self, key: Any) -> Call[int]:
        return Call(("UNLINK", key), int)


def _connected(uri: str, kinds: Any, options: dict[str, Any]) -> Any:
    """Returns a client for an address. `kinds` is the module `redis` or `redis.asyncio`."""
    scheme, _, rest = uri.removeprefix("async+").partition("://")
    if scheme in _SCHEMES:
        return kinds.Redis.from_url(f"{_SCHEMES[scheme]}://{rest}", **options)
    credentials, _, place = rest.rpartition("@")
    hosts, _, path = place.partition("/")
    user, _, password = credentials.partition(":")
    own = {"username": unquote(user), "password": unquote(password)}
    options = {**{name: value for name, value in own.items() if value}, **options}
    port = 6379 if scheme == "zeitset+cluster" else 26379
    nodes = [(found.hostname or "localhost", found.port or port) for found in (urlsplit(f"//{each}") for each in hosts.split(","))]
    if scheme == "zeitset+cluster":
        return kinds.RedisCluster(startup_nodes=[kinds.cluster.ClusterNode(*node) for node in nodes], **options)
    service = path.partition("?")[0] or options.pop("service_name", None)
    if not service:
        raise ConfigurationError("the address needs the name of a service: zeitset+sentinel://host:26379/service")
    own = {name: options[name] for name in ("username", "password") if name in options}
    sentinel = {**own, **options.pop("sentinel_kwargs", {})}
    return kinds.sentinel.Sentinel(nodes, sentinel_kwargs=sentinel, **options).master_for(service)


class ZeitsetStorage(Storage, MovingWindowSupport):
    """A storage for `limits`. `options`: parameters of `redis.Redis.from_url`. `client`: your own client, for example
    a RedisCluster, which the storage then uses instead of the URI. `timeout`: the longest time that a call may take, even if
    the client's own timeouts are longer; None: the client's timeouts.

    `exact`: units become available again at the exact millisecond. Without `exact`, units of a limit above 100 are late
    by up to 1% of the window. With `exact`, a key has a slot for each millisecond in which units were taken.
    """

    STORAGE_SCHEME = _ALL

    def __init__(
        self,
        uri: str = "zeitset://localhost:6379",
        wrap_exceptions: bool = False,
        key_prefix: str = _PREFIX,
        exact: bool = False,
        client: Any = None,
        timeout: Duration | None = 1,
        **options: Any,
    ) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self.storage: Any = _connected(uri, redis, options) if client is None else client
        self._client = self.storage if timeout is None else patient(self.storage, milliseconds(timeout) / 1000)
        self._calls = _Calls(key_prefix, exact)

    @property
    def base_exceptions(self) -> type[Exception]:
        return redis.RedisError

    def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return run(self._client, self._calls.incr(key, expiry, amount))

    def get(self, key: str) -> int:
        return run(self._client, self._calls.get(key))

    def get_expiry(self, key: str) -> float:
        return run(self._client, self._calls.expiry(key))

    def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return amount <= limit and run(self._client, self._calls.acquire(key, limit, expiry, amount))

    def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        return run(self._client, self._calls.window(key, expiry))

    def check(self) -> bool:
        try:
            return bool(self.storage.ping())
        except redis.RedisError:
            return False

    def reset(self) -> int | None:
        """Removes all keys of the prefix, found by SCAN, and returns their number."""
        removed = 0
        for key in self.storage.scan_iter(self._calls.key("*"), count=_PAGE):
            removed += run(self._client, self._calls.clear(key))
        return removed

    def clear(self, key: str) -> None:
        for each in self._calls.keys(key):
            run(self._client, self._calls.clear(each))


class AsyncZeitsetStorage(AsyncStorage, AsyncMovingWindowSupport):
    """The storage for `limits.aio`, with the parameters of `ZeitsetStorage`. `client` is a client of
    `redis.asyncio`."""

    STORAGE_SCHEME = [f"async+{scheme}" for scheme in _ALL]

    def __init__(
        self,
        uri: str = "async+zeitset://localhost:6379",
        wrap_exceptions: bool = False,
        key_prefix: str = _PREFIX,
        exact: bool = False,
        client: Any = None,
        timeout: Duration | None = 1,
        **options: Any,
    ) -> None:
        super().__init__(uri, wrap_exceptions=wrap_exceptions)
        self.storage: Any = _connected(uri, aredis, options) if client is None else client
        self._client = self.storage if timeout is None else patient(self.storage, milliseconds(timeout) / 1000)
        self._calls = _Calls(key_prefix, exact)

    @property
    def base_exceptions(self) -> type[Exception]:
        return redis.RedisError

    async def incr(self, key: str, expiry: int, amount: int = 1) -> int:
        return await arun(self._client, self._calls.incr(key, expiry, amount))

    async def get(self, key: str) -> int:
        return await arun(self._client, self._calls.get(key))

    async def get_expiry(self, key: str) -> float:
        return await arun(self._client, self._calls.expiry(key))

    async def acquire_entry(self, key: str, limit: int, expiry: int, amount: int = 1) -> bool:
        return amount <= limit and await arun(self._client, self._calls.acquire(key, limit, expiry, amount))

    async def get_moving_window(self, key: str, limit: int, expiry: int) -> tuple[float, int]:
        return await arun(self._client, self._calls.window(key, expiry))

    async def check(self) -> bool:
        try:
            return bool(await self.storage.ping())
        except redis.RedisError:
            return False

    async def reset(self) -> int | None:
        """Removes all keys of the prefix, found by SCAN, and returns their number."""
        removed = 0
        async for key in self.storage.scan_iter(self._calls.key("*"), count=_PAGE):
            removed += await arun(self._client, self._calls.clear(key))
        return removed

    async def clear(self, key: str) -> None:
        for each in self._calls.keys(key):
            await arun(self._client, self._calls.clear(each))
