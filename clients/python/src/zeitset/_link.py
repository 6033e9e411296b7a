"""A worker's own connections: where the primary is, and a pipeline of raw commands to it.

redis-py's clients hide what a worker has to see (a connection that breaks, another primary), and repeat commands by
themselves. So a worker takes the settings of the client that it is given, and uses a bare connection.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Callable
from typing import Any

import redis.asyncio as aredis
from redis import Connection, SSLConnection, UnixDomainSocketConnection
from redis.crc import key_slot
from redis.exceptions import ConnectionError, RedisError, ResponseError

from ._call import Word

Address = tuple[str, int] | None
"""None: the settings name a Unix socket."""

_KEPT = ("db", "username", "password", "credential_provider", "host", "port", "path", "socket_connect_timeout")


class Place:
    """Where the primary is that has the worker's queues."""

    def __init__(self, client: Any, key: str) -> None:
        manager = getattr(client, "nodes_manager", None)
        pool = getattr(client, "connection_pool", None)
        self._find: Callable[[], Any]
        if manager is not None:
            settings = {**getattr(client, "connection_kwargs", {}), **getattr(manager, "connection_kwargs", {})}
            kind = settings.get("connection_class", SSLConnection if settings.get("ssl") else Connection)
            self._nodes = [(node.host, node.port) for node in manager.startup_nodes.values()]
            self._slot = key_slot(key.encode())
            self._find = self._in_cluster
        elif pool is None:
            raise TypeError(f"a worker needs a Redis or RedisCluster of redis-py, not {type(client).__name__}")
        elif hasattr(pool, "sentinel_manager"):
            settings, kind = dict(pool.connection_kwargs), pool.connection_class
            self._find = lambda: pool.sentinel_manager.discover_master(pool.service_name)
        else:
            settings, kind = dict(pool.connection_kwargs), pool.connection_class
            self._find = lambda: None if "path" in settings else (settings["host"], settings["port"])
        tls = issubclass(kind, (SSLConnection, aredis.SSLConnection))
        unix = issubclass(kind, (UnixDomainSocketConnection, aredis.UnixDomainSocketConnection))
        self._class: Any = (
            aredis.SSLConnection if tls else aredis.UnixDomainSocketConnection if unix else aredis.Connection
        )
        known = set(inspect.signature(self._class.__init__).parameters)
        self._settings = {
            name: value
            for name, value in settings.items()
            if value is not None and (name in _KEPT or (name.startswith("ssl_") and name in known))
        }
        if not unix:
            self._settings["socket_keepalive"] = True

    async def connect(self, timeout: float) -> Any:
        address = await self._address()
        return await self._open(address, timeout)

    async def _address(self) -> Address:
        # A blocking client's Sentinel would hold up the event loop.
        found = self._find() if self._find == self._in_cluster else await asyncio.to_thread(self._find)
        address: Address = await found if inspect.isawaitable(found) else found
        return address

    async def _in_cluster(self) -> Address:
        """Asks one node after the other who serves the slot, and remembers all nodes it hears of."""
        problem: Exception | None = None
        for node in list(self._nodes):
            try:
                connection = await self._open(node, 5.0)
                try:
                    await connection.send_command("CLUSTER", "SLOTS")
                    ranges = await connection.read_response()
                finally:
                    await connection.disconnect(nowait=True)
            except (RedisError, OSError, asyncio.TimeoutError) as error:
                problem = error
                continue
            addresses = [((each[0] or b"").decode() or node[0], each[1]) for row in ranges for each in row[2:]]
            self._nodes = [*dict.fromkeys((*addresses, *self._nodes))]
            for first, last, primary, *_ in ranges:
                if first <= self._slot <= last:
                    return (primary[0] or b"").decode() or node[0], primary[1]
            problem = ConnectionError("no node serves the queue's slot")
        raise problem or ConnectionError("no nodes")

    async def _open(self, address: Address, timeout: float) -> Any:
        settings = dict(self._settings)
        if address is not None:
            settings["host"], settings["port"] = address
        settings.setdefault("socket_connect_timeout", timeout)
        # protocol 2: replies are the same, and no message comes that was not asked for.
        connection = self._class(**settings, socket_timeout=timeout, protocol=2, decode_responses=False)
        try:
            await connection.connect()
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection


class Link:
    """One connection, opened when it is needed. Requests wait for each other."""

    def __init__(self, place: Place, timeout: float) -> None:
        self._place = place
        self._timeout = timeout
        self._lock = asyncio.Lock()
        self._connection: Any = None
        self.client_id: int | None = None

    async def open(self) -> bool:
        """True: it was closed before."""
        async with self._lock:
            if self._connection is not None:
                return False
            connection = await self._place.connect(self._timeout)
            try:
                await connection.send_command("CLIENT", "ID")
                self.client_id = int(await connection.read_response())
            except ResponseError:  # this user may not ask
                self.client_id = None
            except BaseException:
                await connection.disconnect(nowait=True)
                raise
            self._connection = connection
            return True

    async def request(
        self,
        commands: list[tuple[Word, ...]],
        patience: float | None = None,
        early: Callable[[list[Any]], None] | None = None,
    ) -> list[Any]:
        """Replies in order, errors among them. Whatever breaks the connection is raised, and closes it.

        The last command may wait, for `patience`; `early` gets the replies to the others before that.
        """
        await self.open()
        async with self._lock:
            connection = self._connection
            if connection is None:
                raise ConnectionError("closed by an earlier request")
            try:
                await connection.send_packed_command(connection.pack_commands(commands), check_health=False)
                replies: list[Any] = []
                for left in range(len(commands), 0, -1):
                    if left == 1 and early is not None:
                        early(list(replies))
                    try:
                        wait = patience if left == 1 and patience else self._timeout
                        replies.append(await connection.read_response(timeout=wait))
                    except ResponseError as error:
                        replies.append(error)
                return replies
            except BaseException:
                await self._drop()
                raise

    async def close(self) -> None:
        """After a reply that says to look for another primary. The next request connects again."""
        async with self._lock:
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection, self.client_id = self._connection, None, None
        if connection is not None:
            await connection.disconnect(nowait=True)


class Backoff:
    """0.1 s, 0.2 s, ... at most 3 s, less up to a third at random."""

    def __init__(self) -> None:
        self._next = 0.1

    def reset(self) -> None:
        self._next = 0.1

    def next(self) -> float:
        wait, self._next = self._next, min(3.0, self._next * 2)
        return wait * random.uniform(0.67, 1.0)
