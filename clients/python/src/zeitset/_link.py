"""A worker's own connections: finds the primary, and sends it raw commands in a pipeline.

The clients of redis-py do not report a broken connection or a new primary, and repeat commands by themselves. A worker
has to know of both events. So it takes the settings of its client, and opens its own connections.

After a timeout, this module closes the connection, because a late reply would be taken for the reply to the next
command. `read_response(timeout=…)` of redis-py leaves the connection open, so this module has its own time limits.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import redis.asyncio as aredis
from redis import Connection, SSLConnection, UnixDomainSocketConnection
from redis.crc import key_slot
from redis.exceptions import ConnectionError, RedisError, ResponseError, TimeoutError

from ._call import Word, encoded
from .errors import boundary, is_away

if sys.version_info >= (3, 11):
    from asyncio import timeout as _timeout
else:
    from async_timeout import timeout as _timeout  # redis-py requires this package before Python 3.11

_KEPT = ("db", "username", "password", "credential_provider", "host", "port", "path", "socket_connect_timeout")
_ASKING = 5.0
"""How long a Sentinel or a node of a cluster may take to name the primary, in seconds."""


@asynccontextmanager
async def within(seconds: float | None) -> AsyncIterator[None]:
    try:
        async with _timeout(seconds):
            yield
    except asyncio.TimeoutError:
        raise TimeoutError(f"no reply within {seconds:g} s") from None


def kept(kind: type, settings: dict[str, Any]) -> dict[str, Any]:
    """Returns the settings for the server's address, TLS and credentials."""
    # Some classes, such as those of Sentinel, take the settings of a base class as `**kwargs`.
    known = {name for each in kind.__mro__ for name in inspect.signature(each.__init__).parameters}  # type: ignore[misc]
    return {
        name: value
        for name, value in settings.items()
        if value is not None and (name in _KEPT or (name.startswith("ssl_") and name in known))
    }


class Node:
    """How to connect to a server: the settings of a redis-py connection, without its time limits."""

    def __init__(self, kind: type, settings: dict[str, Any]) -> None:
        tls = issubclass(kind, (SSLConnection, aredis.SSLConnection))
        unix = issubclass(kind, (UnixDomainSocketConnection, aredis.UnixDomainSocketConnection))
        self._class: Any = (
            aredis.SSLConnection if tls else aredis.UnixDomainSocketConnection if unix else aredis.Connection
        )
        self.settings = kept(self._class, settings)
        if not unix:
            self.settings["socket_keepalive"] = True

    def at(self, host: Any, port: int) -> Node:
        node = object.__new__(Node)
        node._class, node.settings = self._class, {**self.settings, "host": _text(host), "port": port}
        return node

    async def open(self, timeout: float) -> Any:
        # In RESP2, the server sends no push messages.
        connection = self._class(**self.settings, socket_timeout=None, protocol=2, decode_responses=False)
        try:
            with boundary("connecting"):
                async with within(timeout):
                    await connection.connect()
        except BaseException:
            await _close(connection)
            raise
        return connection

    async def ask(self, *words: Word) -> Any:
        connection = await self.open(_ASKING)
        try:
            with boundary(str(words[0])):
                async with within(_ASKING):
                    await connection.send_command(*words)
                    (reply,) = await _replies(connection, 1)
        finally:
            await _close(connection)
        if isinstance(reply, Exception):
            raise reply
        return reply


def by_slot(client: Any, keys: list[str]) -> list[list[str]]:
    """Returns groups of keys. One command may name all keys of a group."""
    slots: dict[int, list[str]] = {}
    for key in keys:
        slots.setdefault(key_slot(encoded(key)) if hasattr(client, "nodes_manager") else 0, []).append(key)
    return list(slots.values())


class Place:
    """Finds the primary that has a key, and connects to it."""

    def __init__(self, client: Any, key: str) -> None:
        manager = getattr(client, "nodes_manager", None)
        pool = getattr(client, "connection_pool", None)
        self._primary: Callable[[Node], Any] | None = None
        """Asks a Sentinel or a node of a cluster for the primary. None: the client's settings name the server."""
        if manager is not None:
            settings = {**getattr(client, "connection_kwargs", {}), **getattr(manager, "connection_kwargs", {})}
            kind = settings.get("connection_class", SSLConnection if settings.get("ssl") else Connection)
            self._node = Node(kind, settings)
            self._nodes = [self._node.at(node.host, node.port) for node in manager.startup_nodes.values()]
            self._slot = key_slot(encoded(key))
            self._primary = self._of_slot
        elif pool is None:
            raise TypeError(f"a worker needs a Redis or RedisCluster of redis-py, not {type(client).__name__}")
        else:
            self._node = Node(pool.connection_class, pool.connection_kwargs)
            if hasattr(pool, "sentinel_manager"):
                pools = [sentinel.connection_pool for sentinel in pool.sentinel_manager.sentinels]
                self._nodes = [Node(each.connection_class, each.connection_kwargs) for each in pools]
                self._service = pool.service_name
                self._primary = self._of_service

    async def connect(self, timeout: float) -> Any:
        return await (await self._find()).open(timeout)

    async def _find(self) -> Node:
        """Asks one node after the other, until one names the primary."""
        if self._primary is None:
            return self._node
        problem: Exception | None = None
        for node in list(self._nodes):
            try:
                found: Node | None = await self._primary(node)
            except Exception as error:
                if not is_away(error):
                    raise
                problem = error
            else:
                if found is not None:
                    return found
                problem = problem or ConnectionError("no primary is known")
        raise problem or ConnectionError("no nodes")

    async def _of_service(self, sentinel: Node) -> Node | None:
        found = await sentinel.ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._service)
        with boundary("an address"):
            return None if found is None else self._node.at(found[0], int(found[1]))

    async def _of_slot(self, node: Node) -> Node | None:
        """Asks a node for the primary of the slot. Remembers all nodes of the reply."""
        ranges = await node.ask("CLUSTER", "SLOTS")
        with boundary("slots"):
            # A node that does not know its own address replies with an empty address.
            addresses = [(_text(each[0]) or node.settings["host"], each[1]) for row in ranges for each in row[2:]]
            known = [(other.settings["host"], other.settings["port"]) for other in self._nodes]
            self._nodes = [self._node.at(*address) for address in dict.fromkeys((*addresses, *known))]
            for first, last, primary, *_ in ranges:
                if first <= self._slot <= last:
                    return self._node.at(_text(primary[0]) or node.settings["host"], primary[1])
        return None


class Link:
    """A connection, which is opened when it is needed. Sends one request at a time."""

    def __init__(self, place: Place, timeout: float) -> None:
        self._place = place
        self._timeout = timeout
        self._lock = asyncio.Lock()
        self._connection: Any = None
        self.client_id: int | None = None

    async def open(self) -> bool:
        """Opens the connection, unless it is open. Returns whether it was closed before."""
        async with self._lock:
            if self._connection is not None:
                return False
            connection = await self._place.connect(self._timeout)
            try:
                with boundary("CLIENT ID"):
                    async with within(self._timeout):
                        await connection.send_command("CLIENT", "ID")
                        (reply,) = await _replies(connection, 1)
                    refused = isinstance(reply, ResponseError)  # the user has no permission for CLIENT ID
                    self.client_id = None if refused else int(reply)
            except BaseException:
                await _close(connection)
                raise
            self._connection = connection
            return True

    async def request(
        self,
        commands: Iterable[tuple[Word, ...]],
        patience: float | None = None,
        early: Callable[[list[Any]], None] | None = None,
    ) -> list[Any]:
        """Sends commands in a pipeline. Returns the replies in the same order, error replies included. If the
        connection fails, closes it and raises the error.

        With `patience`, waits up to that many seconds for the reply to the last command. Before this wait, calls
        `early` with the other replies.
        """
        commands = list(commands)
        if not commands:
            return []
        await self.open()
        async with self._lock:
            connection = self._connection
            if connection is None:
                raise ConnectionError("closed by an earlier request")
            try:
                soon = len(commands) if patience is None else len(commands) - 1
                packed = connection.pack_commands(commands)
                name = str(commands[-1][0])
                with boundary(name):
                    async with within(self._timeout):
                        await connection.send_packed_command(packed, check_health=False)
                        replies = await _replies(connection, soon)
                if early is not None:
                    early(list(replies))
                if patience is not None:
                    with boundary(name):
                        async with within(patience):
                            replies += await _replies(connection, 1)
                return replies
            except BaseException:
                await self._drop()
                raise

    async def close(self) -> None:
        """Closes the connection, for example after a reply that names another primary. The next request connects
        again."""
        async with self._lock:
            await self._drop()

    async def _drop(self) -> None:
        connection, self._connection, self.client_id = self._connection, None, None
        if connection is not None:
            await _close(connection)


class Backoff:
    """The waits between attempts, in seconds. The first wait is 0.1 s. Each later wait is twice as long as the one
    before it, but at most 3 s. Each wait is then shortened at random by up to a third."""

    def __init__(self) -> None:
        self._next = 0.1

    def reset(self) -> None:
        self._next = 0.1

    def next(self) -> float:
        wait, self._next = self._next, min(3.0, self._next * 2)
        return wait * random.uniform(0.67, 1.0)


async def _replies(connection: Any, count: int) -> list[Any]:
    replies: list[Any] = []
    for _ in range(count):
        try:
            replies.append(await connection.read_response())
        except ResponseError as error:
            replies.append(error)
    return replies


async def _close(connection: Any) -> None:
    """Closes a connection. Its error is of no interest: the connection is not used again."""
    try:
        with boundary("closing"):
            await connection.disconnect(nowait=True)
    except RedisError:
        pass


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
