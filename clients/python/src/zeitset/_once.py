"""Sends a command at most once.

The clients of redis-py repeat a command if its reply got lost. Then `Board.incr` would count twice, and the second
`remove` of a one-time code would say that the code was wrong. So this module takes a connection from the client's pool,
and sends the command itself. If the reply gets lost, it raises OutcomeUnknown. After MOVED, ASK, TRYAGAIN and
CLUSTERDOWN, it sends the command again, because the server has not carried it out.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import redis
import redis.asyncio as aredis
from redis.exceptions import AskError, ClusterDownError, DataError, MovedError, SlotNotCoveredError, TryAgainError

from ._call import Word
from .errors import OutcomeUnknown, boundary, described, is_reply

_ELSEWHERE = (MovedError, AskError, TryAgainError, ClusterDownError)
_REDIRECTIONS = 16
_PAUSE = 0.05
"""In seconds. How long to wait while a cluster moves a slot or elects a primary."""


def send_once(client: Any, args: tuple[Word, ...]) -> Any:
    if hasattr(client, "execute_once"):
        return client.execute_once(*args)
    if hasattr(client, "connection_pool"):
        return _once(client, args)
    if isinstance(client, redis.RedisCluster):
        return cluster_once(client, args, lambda node: node)
    return client.execute_command(*args, NEVER_DECODE=True)


async def asend_once(client: Any, args: tuple[Word, ...], exchange: Exchange | None = None) -> Any:
    exchange = exchange or Exchange(str(args[0]))
    if hasattr(client, "execute_once"):
        return await client.execute_once(*args)
    if hasattr(client, "connection_pool"):
        return await _aonce(client, args, exchange)
    if isinstance(client, aredis.RedisCluster):
        return await _acluster_once(client, args, exchange)
    return await client.execute_command(*args, NEVER_DECODE=True)


def cluster_once(client: Any, args: tuple[Word, ...], of_node: Callable[[Any], Any]) -> Any:
    """Sends a command to the node of its key. `of_node` returns the client to use in place of the client of a node."""
    asked: Any = None
    for left in reversed(range(_REDIRECTIONS)):
        node, is_asked, asked = asked or client.get_node_from_key(key_of(args)), asked is not None, None
        try:
            if node is None or node.redis_connection is None:
                client.nodes_manager.initialize()
            else:
                return _once(of_node(node.redis_connection), args, is_asked)
        except _ELSEWHERE as error:
            if not left:
                raise
            asked = _asked_node(client, error)
            if asked is None:
                time.sleep(0 if isinstance(error, MovedError) else _PAUSE)
                client.nodes_manager.initialize()
    raise SlotNotCoveredError("no node has the slot of the key")


async def _acluster_once(client: Any, args: tuple[Word, ...], exchange: Exchange) -> Any:
    await client.initialize()
    asked: Any = None
    for left in reversed(range(_REDIRECTIONS)):
        node, is_asked, asked = asked or client.get_node_from_key(key_of(args)), asked is not None, None
        try:
            if node is None:
                await client.nodes_manager.initialize()
            else:
                connection = node.acquire_connection()
                try:
                    if connection.is_connected and await _is_stale(connection):
                        await connection.disconnect(nowait=True)
                    return await _aexchange(connection, args, exchange, is_asked)
                finally:
                    node.release(connection) if hasattr(node, "release") else node._free.append(connection)
        except _ELSEWHERE as error:
            if not left:
                raise
            asked = _asked_node(client, error)
            if asked is None:
                await asyncio.sleep(0 if isinstance(error, MovedError) else _PAUSE)
                await client.nodes_manager.initialize()
    raise SlotNotCoveredError("no node has the slot of the key")


def key_of(args: tuple[Word, ...]) -> Word:
    """Returns the first key of a command."""
    return args[{"ZRL.MCHECK": 2, "EVAL": 3}.get(str(args[0]), 1)]


def _asked_node(client: Any, error: Exception) -> Any:
    """Returns the node that an ASK error names, if the client knows this node. Only this node has the key."""
    if isinstance(error, MovedError) or not isinstance(error, AskError):
        return None
    return client.get_node(host=error.host, port=error.port)


def _once(client: Any, args: tuple[Word, ...], asking: bool = False) -> Any:
    pool = client.connection_pool
    own = client.connection  # of a client with `single_connection_client`
    connection = own or pool.get_connection(*_names_of(pool.__class__))
    try:
        if asking:
            connection.send_command("ASKING")
            connection.read_response()
        with Exchange(str(args[0])):
            connection.send_command(*args)
            return connection.read_response(disable_decoding=True)
    except BaseException as error:
        if not is_reply(error):
            connection.disconnect()
        raise
    finally:
        if own is None:
            pool.release(connection)


async def _aonce(client: Any, args: tuple[Word, ...], exchange: Exchange) -> Any:
    await client.initialize()
    pool = client.connection_pool
    if client.connection is not None:  # of a client with `single_connection_client`
        async with client._single_conn_lock:
            return await _aexchange(client.connection, args, exchange)
    connection = await pool.get_connection(*_names_of(pool.__class__))
    try:
        return await _aexchange(connection, args, exchange)
    finally:
        await pool.release(connection)


async def _is_stale(connection: Any) -> bool:
    """Whether the server has closed an idle connection. A pool finds this out by itself; the nodes of a cluster do not."""
    try:
        check = getattr(connection, "can_read", None) or connection.can_read_destructive  # redis-py has renamed it
        return bool(await check())
    except Exception:
        return True


async def _aexchange(connection: Any, args: tuple[Word, ...], exchange: Exchange, asking: bool = False) -> Any:
    await connection.connect()
    try:
        if asking:
            await connection.send_command("ASKING")
            await connection.read_response()
        with exchange:
            await connection.send_command(*args)
            return await connection.read_response(disable_decoding=True)
    except BaseException as error:
        if not is_reply(error):
            await connection.disconnect(nowait=True)
        raise


class Exchange(boundary):
    """A boundary around sending a command and reading the reply. Raises OutcomeUnknown if the server has not replied."""

    __slots__ = ("may_be_sent",)

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.may_be_sent = False
        """Whether the server may have carried out the command."""

    def unknown(self, error: BaseException) -> OutcomeUnknown:
        return OutcomeUnknown(f"{self.what}: the reply is lost: {described(error)}")

    def __enter__(self) -> None:
        self.may_be_sent = True

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            return
        try:
            super().__exit__(kind, error, traceback)
        except redis.ConnectionError as fault:
            error = fault
        if issubclass(type(error), redis.RedisError):
            # With a DataError, redis-py cannot encode an argument, so it has sent nothing.
            self.may_be_sent = not isinstance(error, DataError) and not is_reply(error)
            if self.may_be_sent:
                raise self.unknown(error) from error


@lru_cache
def _names_of(kind: Any) -> tuple[str, ...]:
    """Returns the arguments of `get_connection` of a pool: before redis-py 5.3, it needs a name of a command."""
    parameter = inspect.signature(kind.get_connection).parameters.get("command_name")
    return ("_",) if parameter is not None and parameter.default is inspect.Parameter.empty else ()
