"""Sentinel and Cluster."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.sentinel import Sentinel

from zeitset import Limiter, Queue, check_all
from zeitset.asyncio import Queue as AsyncQueue

from .support import REDIS_SERVER, Server, as_options, certificate, clustered, free_port, move, until, working


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Server, Server, int]]:
    """A primary, its replica, and the port of the Sentinel that watches them."""
    primary = Server(tmp_path)
    replica = Server(tmp_path, "--replicaof", "127.0.0.1", str(primary.port))
    port = free_port()
    settings = tmp_path / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\n"
        f"sentinel monitor zeit 127.0.0.1 {primary.port} 1\n"
        "sentinel down-after-milliseconds zeit 500\nsentinel failover-timeout zeit 3000\n"
    )
    process = subprocess.Popen([REDIS_SERVER, str(settings), "--sentinel"], stdout=subprocess.DEVNULL)
    with redis.Redis(port=port, decode_responses=True) as sentinel:
        until(lambda: knows_replica(sentinel))
    yield primary, replica, port
    process.kill()
    process.wait()
    primary.kill()
    replica.kill()


def knows_replica(sentinel: Any) -> bool:
    try:
        replicas = sentinel.execute_command("SENTINEL", "REPLICAS", "zeit")
        return any("ok" == row.get("master-link-status") for row in map(as_map, replicas))
    except redis.RedisError:
        return False


def as_map(row: Any) -> dict[str, str]:
    return row if isinstance(row, dict) else dict(zip(row[::2], row[1::2]))


@pytest.mark.parametrize("kind", ["waiting", "asyncio"])
def test_a_worker_follows_a_failover(pair: tuple[Server, Server, int], kind: str) -> None:
    primary, replica, port = pair
    done: list[Any] = []
    client: Any = Sentinel([("127.0.0.1", port)], socket_timeout=1).master_for("zeit")
    worker_client = client
    if kind == "asyncio":
        worker_client = redis.asyncio.Sentinel([("127.0.0.1", port)], socket_timeout=1).master_for("zeit")
    queue = Queue(client, "q")
    with working(worker_client, "q", lambda job: done.append(job.payload), block=2) as watched:
        for number in range(10):
            queue.push(number, id=str(number))
        until(lambda: len(done) == 10)
        client.wait(1, 5000)
        primary.kill()
        with replica.client(retry_on_error=[redis.ConnectionError]) as promoted:  # a replica drops its clients when it is promoted
            until(lambda: promoted.role()[0] == b"master")
            for number in range(10, 20):
                Queue(promoted, "q").push(number, id=str(number))
        until(lambda: sorted(done) == list(range(20)))
        assert watched.worker.state == "running"


def test_a_limiter_asks_the_primary_that_sentinel_names(pair: tuple[Server, Server, int]) -> None:
    primary, replica, port = pair
    client = Sentinel([("127.0.0.1", port)], socket_timeout=1).master_for("zeit")
    limiter = Limiter(client, "a", "9/m", on_error="deny")
    assert limiter.check("x").remaining == 8
    primary.kill()
    until(lambda: limiter.check("x").allowed)
    with replica.client(retry_on_error=[redis.ConnectionError]) as promoted:
        assert Limiter(promoted, "a", "9/m").peek("x").remaining < 9


def test_a_limiter_trusts_the_certificates_of_a_client_that_asks_sentinel(tmp_path: Path) -> None:
    tls, tls_port, port = certificate(tmp_path), free_port(), free_port()
    server = Server(tmp_path, *as_options(tls), "--tls-port", str(tls_port))
    settings = tmp_path / "sentinel.conf"
    settings.write_text(
        f"port {port}\nbind 127.0.0.1\ndir {tmp_path}\ntls-replication yes\n"
        + "".join(f"{name} {file}\n" for name, file in tls.items())
        + f"sentinel monitor zeit 127.0.0.1 {tls_port} 1\n"
    )
    process = subprocess.Popen([REDIS_SERVER, str(settings), "--sentinel"], stdout=subprocess.DEVNULL)
    try:
        # The server asks for the certificate of the client.
        trusted = {"ssl_ca_certs": f"{tmp_path}/cert", "ssl_certfile": f"{tmp_path}/cert", "ssl_keyfile": f"{tmp_path}/key"}
        client = Sentinel([("127.0.0.1", port)], ssl=True, **trusted).master_for("zeit")
        until(lambda: is_up(client))
        assert Limiter(client, "a", "9/m").check("x").remaining == 8
    finally:
        process.kill()
        process.wait()
        server.kill()


def is_up(client: Any) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Server]]:
    with clustered(tmp_path, 2) as servers:
        yield servers


@pytest.mark.parametrize("kind", ["waiting", "asyncio"])
@pytest.mark.parametrize("name", ["q", "b"])  # each queue is on another node
def test_a_worker_finds_its_queue_in_a_cluster(nodes: list[Server], kind: str, name: str) -> None:
    done: list[Any] = []
    cluster = redis.RedisCluster(port=nodes[0].port, host="127.0.0.1")
    assert cluster.get_node_from_key("q") != cluster.get_node_from_key("b")
    client: Any = cluster
    if kind == "asyncio":
        client = redis.asyncio.RedisCluster(port=nodes[0].port, host="127.0.0.1")
    queue = Queue(cluster, name)
    with working(client, name, lambda job: done.append(job.payload)) as watched:
        assert len(set(queue.push_many([{"payload": number} for number in range(10)]))) == 10
        until(lambda: len(done) == 10)
        until(lambda: watched.kinds() == ["completed"] * 10)
    assert queue.stats()["acked"] == 10


def test_many_jobs_are_pushed_in_a_cluster_with_asyncio(nodes: list[Server]) -> None:
    async def main() -> list[str | None]:
        async with redis.asyncio.RedisCluster(port=nodes[0].port, host="127.0.0.1") as r:
            return await AsyncQueue(r, "b").push_many([{"payload": 1, "id": "x"}, {"payload": 1, "id": "x"}])

    assert asyncio.run(main()) == ["x", None]


def test_a_worker_follows_a_slot_that_moves(nodes: list[Server]) -> None:
    done: list[Any] = []
    cluster = redis.RedisCluster(port=nodes[0].port, host="127.0.0.1")
    source = cluster.get_node_from_key("q").port
    old, new = sorted((server for server in nodes), key=lambda server: server.port != source)
    with old.client() as here, new.client() as there, working(cluster, "q", lambda job: done.append(job.payload)) as watched:
        Queue(here, "q").push("before")
        until(lambda: done == ["before"])
        move("q", old, new)
        Queue(there, "q").push("after")
        until(lambda: done == ["before", "after"])
        assert watched.worker.state == "running"


def test_limits_in_a_cluster(nodes: list[Server]) -> None:
    cluster = redis.RedisCluster(port=nodes[0].port, host="127.0.0.1")
    minute, day = Limiter(cluster, "minute", "2/1m"), Limiter(cluster, "day", "3/1d")
    assert minute.check("ann").remaining == 1
    assert check_all((minute, "{ann}"), (day, "{ann}", 3)).allowed
    assert not check_all((minute, "{ann}"), (day, "{ann}")).allowed


def test_limits_of_asyncio_in_a_cluster(nodes: list[Server]) -> None:
    from zeitset.asyncio import Limiter as AsyncLimiter
    from zeitset.asyncio import check_all as check_all_async

    async def main() -> None:
        async with redis.asyncio.RedisCluster(port=nodes[0].port, host="127.0.0.1") as cluster:
            minute = AsyncLimiter(cluster, "minute", "2/1m")
            assert (await minute.check("ann")).remaining == 1
            assert (await check_all_async((minute, "{ann}"))).allowed

    asyncio.run(main())
