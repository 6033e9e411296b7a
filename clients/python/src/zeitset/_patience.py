"""Limits the time of a call, even if the caller's client has longer time limits or retries commands. `_Cluster` may
pass a command to the caller's client. In this case, the limits of that client apply."""

from __future__ import annotations

import os
from threading import Lock, Thread
from typing import Any
from weakref import WeakKeyDictionary

import redis
import redis.asyncio as aredis
from redis.backoff import NoBackoff
from redis.exceptions import AskError, ClusterDownError, ConnectionError, MovedError, RedisError, TryAgainError
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from ._link import Link, Place, kept, within

_own: WeakKeyDictionary[Any, dict[float, Any]] = WeakKeyDictionary()
_refreshing = Lock()


def patient(client: Any, seconds: float) -> Any:
    """Returns a client whose `execute_command` takes at most `seconds`."""
    if isinstance(client, (aredis.Redis, aredis.RedisCluster)):
        return _Awaiting(client, seconds)
    return _Cluster(client, seconds) if isinstance(client, redis.RedisCluster) else _twin(client, seconds)


def once(client: Any, seconds: float) -> Any:
    """Returns a client whose `execute_command` takes at most `seconds`, and sends no command twice. A second REFUND
    could refund units that another call took."""
    if isinstance(client, (aredis.Redis, aredis.RedisCluster)):
        return _AwaitingOnce(client, seconds)
    return _Cluster(client, seconds, repeats=False) if isinstance(client, redis.RedisCluster) else _twin(client, seconds)


class _Awaiting:
    def __init__(self, client: Any, seconds: float) -> None:
        self._client = client
        self._seconds = seconds

    async def execute_command(self, *args: Any, **options: Any) -> Any:
        async with within(self._seconds):
            return await self._client.execute_command(*args, **options)


class _AwaitingOnce:
    """Sends commands over its own connection, not over that of the caller's client. In a cluster, each command gets a
    new connection. Cancelling a command closes its connection."""

    def __init__(self, client: Any, seconds: float) -> None:
        self._client = client
        self._seconds = seconds
        self._link: Link | None = None
        self._process = os.getpid()

    async def execute_command(self, *args: Any, **_: Any) -> Any:
        if self._link is None or self._process != os.getpid():  # after a fork, the connection belongs to the parent process
            self._process = os.getpid()
            self._link = Link(Place(self._client, args[1]), self._seconds)
        (reply,) = await self._link.request([args])
        if isinstance(reply, Exception) or isinstance(self._client, aredis.RedisCluster):
            await self.close()
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def close(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.close()


class _Cluster:
    """Sends commands to the nodes of their keys. With `repeats`, the cluster client sends a command again after MOVED,
    ASK, TRYAGAIN or CLUSTERDOWN."""

    def __init__(self, client: Any, seconds: float, *, repeats: bool = True) -> None:
        self._client = client
        self._seconds = seconds
        self._repeats = repeats

    def execute_command(self, *args: Any, **options: Any) -> Any:
        key = args[2] if args[0] == "ZRL.MCHECK" else args[1]
        node = self._client.get_node_from_key(key)
        if node is None or node.redis_connection is None:
            if not self._repeats:
                raise ConnectionError("no connection to the node of the key")
            return self._client.execute_command(*args, **options)
        try:
            return _twin(node.redis_connection, self._seconds).execute_command(*args, **options)
        except (MovedError, AskError, TryAgainError, ClusterDownError):
            if not self._repeats:
                raise
            return self._client.execute_command(*args, **options)
        except (RedisError, OSError):
            Thread(target=self._look_again, daemon=True).start()
            raise

    def _look_again(self) -> None:
        """Reloads the slots, because another node may serve the key now. Runs in a thread, because the reload may take
        long."""
        if _refreshing.acquire(blocking=False):
            try:
                self._client.nodes_manager.initialize()
            except Exception:  # the next call that fails tries again
                pass
            finally:
                _refreshing.release()


def _twin(client: Any, seconds: float) -> Any:
    """Returns a client of the same server, with its own connections and with `seconds` as timeouts. All limiters
    with the same client and timeout share the returned client."""
    pool = getattr(client, "connection_pool", None)
    if pool is None:
        return client
    twins = _own.setdefault(client, {})
    if seconds not in twins:
        settings = kept(pool.connection_class, pool.connection_kwargs)
        settings |= {"socket_timeout": seconds, "socket_connect_timeout": seconds, "retry": Retry(NoBackoff(), 0)}
        settings |= {"protocol": pool.connection_kwargs.get("protocol") or 2}
        kind: Any = redis.ConnectionPool
        if isinstance(pool, SentinelConnectionPool):
            settings |= {"service_name": pool.service_name, "sentinel_manager": pool.sentinel_manager}
            kind = SentinelConnectionPool
        twins[seconds] = redis.Redis(connection_pool=kind(connection_class=pool.connection_class, **settings))
    return twins[seconds]
