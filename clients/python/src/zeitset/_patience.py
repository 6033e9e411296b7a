"""Limits the time of a call, even if the caller's client has longer time limits or retries commands."""

from __future__ import annotations

import os
from threading import Lock, Thread
from typing import Any
from weakref import WeakKeyDictionary

import redis
import redis.asyncio as aredis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.exceptions import TimeoutError as NoReply
from redis.retry import Retry
from redis.sentinel import SentinelConnectionPool

from ._call import text
from ._link import Link, Place, kept, within
from ._once import Exchange, asend_once, cluster_once
from .errors import OutcomeUnknown, is_reply

_own: WeakKeyDictionary[Any, dict[float, Any]] = WeakKeyDictionary()
_refreshing = Lock()


def patient(client: Any, seconds: float) -> Any:
    """Returns a client whose commands take at most `seconds`, and are sent only once."""
    if isinstance(client, (aredis.Redis, aredis.RedisCluster)):
        return _Awaiting(client, seconds)
    return _Cluster(client, seconds) if isinstance(client, redis.RedisCluster) else _twin(client, seconds)


def once(client: Any, seconds: float) -> Any:
    """Returns a client like that of `patient`, for commands that are sent when an event loop or a process ends. Its
    connection is not the caller's."""
    if isinstance(client, (aredis.Redis, aredis.RedisCluster)):
        return _AwaitingOnce(client, seconds)
    return patient(client, seconds)


class _Awaiting:
    def __init__(self, client: Any, seconds: float) -> None:
        self._client = client
        self._seconds = seconds
        self.connection_pool = getattr(client, "connection_pool", None)

    async def execute_once(self, *args: Any) -> Any:
        exchange = Exchange(str(args[0]))
        try:
            async with within(self._seconds):
                return await asend_once(self._client, args, exchange)
        except NoReply as error:
            if isinstance(error, OutcomeUnknown) or not exchange.may_be_sent:
                raise
            raise exchange.unknown(error) from error

    async def execute_command(self, *args: Any, **_: Any) -> Any:
        async with within(self._seconds):
            return await asend_once(self._client, args)


class _AwaitingOnce:
    """Sends commands over its own connection, not over that of the caller's client. In a cluster, each command gets a
    new connection. Cancelling a command closes its connection."""

    def __init__(self, client: Any, seconds: float) -> None:
        self._client = client
        self._seconds = seconds
        self._link: Link | None = None
        self._process = os.getpid()

    async def execute_once(self, *args: Any) -> Any:
        if self._link is None or self._process != os.getpid():  # after a fork, the connection belongs to the parent process
            self._process = os.getpid()
            self._link = Link(Place(self._client, text(args[1])), self._seconds)
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
    """Sends commands to the nodes of their keys."""

    def __init__(self, client: Any, seconds: float) -> None:
        self._client = client
        self._seconds = seconds

    def execute_once(self, *args: Any) -> Any:
        try:
            return cluster_once(self._client, args, lambda node: _twin(node, self._seconds))
        except (RedisError, OSError) as error:
            if not is_reply(error):
                Thread(target=self._look_again, daemon=True).start()
            raise

    def execute_command(self, *args: Any, **_: Any) -> Any:
        return self.execute_once(*args)

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
