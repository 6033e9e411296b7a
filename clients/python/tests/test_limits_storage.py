"""The storage for `limits`: the tests of that package, slowapi, flask-limiter."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio

from .support import NO_RETRY, Server, clustered, free_port

limits = pytest.importorskip("limits")

from limits import parse  # noqa: E402
from limits.aio.storage import MovingWindowSupport as AsyncMovingWindowSupport  # noqa: E402
from limits.errors import ConfigurationError, StorageError  # noqa: E402
from limits.storage import storage_from_string  # noqa: E402
from limits.strategies import FixedWindowRateLimiter, MovingWindowRateLimiter  # noqa: E402

from zeitset.limits import AsyncZeitsetStorage, ZeitsetStorage  # noqa: E402

SDIST = os.environ.get("LIMITS_SDIST")
"""The unpacked source distribution of `limits`."""
FLASK_LIMITER = os.environ.get("FLASK_LIMITER_SDIST")


def test_both_strategies_and_what_they_leave_in_redis(r: Any) -> None:
    storage = ZeitsetStorage(client=r)
    item = parse("3/minute")
    moving, fixed = MovingWindowRateLimiter(storage), FixedWindowRateLimiter(storage)
    assert [moving.hit(item, "ann") for _ in range(4)] == [True, True, True, False]
    assert not moving.test(item, "ann") and not moving.hit(item, "bob", cost=4) and moving.test(item, "bob", cost=3)
    stats = moving.get_window_stats(item, "ann")
    assert stats.remaining == 0 and 55 < stats.reset_time - time.time() <= 60
    assert [fixed.hit(item, "kim") for _ in range(4)] == [True, True, True, False]
    assert storage.get(item.key_for("kim")) == 4, "counts past the limit"
    assert 55 < storage.get_expiry(item.key_for("kim")) - time.time() <= 60
    assert r.type("zeitset:LIMITER/ann/3/1/minute") in (b"string", "string")
    assert storage.get(item.key_for("ann")) == 0, "a SLIDING limit is no counter"
    assert fixed.hit(item, "ann") and moving.test(item, "ann") is False, "the strategies have keys of their own"
    moving.clear(item, "ann")
    assert moving.hit(item, "ann") and fixed.hit(item, "ann", cost=3)
    r.set("other", 1)
    assert storage.reset() == 3 and r.dbsize() == 1 and storage.check()


def test_a_counter_without_an_expiry_gets_one(one: Any) -> None:
    one.incr("zeitset:fixed:key")
    assert ZeitsetStorage(client=one).incr("key", 60) == 2 and one.ttl("zeitset:fixed:key") > 50


@pytest.mark.parametrize("strategy", [MovingWindowRateLimiter, FixedWindowRateLimiter])
def test_zero_denies(one: Any, strategy: Any) -> None:
    limiter = strategy(ZeitsetStorage(client=one))
    item = parse("0/minute")
    assert not limiter.hit(item, "ann") and not limiter.test(item, "ann")
    assert limiter.get_window_stats(item, "ann").remaining == 0


def test_the_storage_of_the_package_is_not_in_its_way(shared: Server, one: Any) -> None:
    """In a rolling deployment, processes with either storage use one server."""
    item = parse("2/minute")
    for strategy in (MovingWindowRateLimiter, FixedWindowRateLimiter):
        for storage in (storage_from_string(shared.url), ZeitsetStorage(client=one)):
            limiter = strategy(storage)
            assert [limiter.hit(item, strategy.__name__) for _ in range(3)] == [True, True, False]


def test_a_call_takes_no_longer_than_the_timeout(server: Server) -> None:
    with server.client(socket_timeout=60) as client:
        storage = ZeitsetStorage(client=client, timeout=0.2)
        assert storage.acquire_entry("ann", 5, 60)
        server.freeze()
        try:
            with pytest.raises(redis.RedisError):
                storage.acquire_entry("ann", 5, 60)
        finally:
            server.thaw()


def test_a_cluster_and_sentinel_by_their_addresses(tmp_path: Path) -> None:
    with clustered(tmp_path, 1) as (node,):
        place = f"127.0.0.1:{node.port}"
        storage: Any = storage_from_string(f"zeitset+cluster://{place},{place}", key_prefix="shop", timeout=20)
        assert [storage.acquire_entry("ann", 1, 60), storage.acquire_entry("ann", 1, 60)] == [True, False]
        assert [storage.incr("ann", 60), storage.incr("ann", 60), storage.get("ann")] == [1, 2, 2]
        assert storage.reset() == 2

        async def main() -> None:
            other: Any = storage_from_string(f"async+zeitset+cluster://{place}", timeout=20)
            assert [await other.acquire_entry("bob", 1, 60), await other.acquire_entry("bob", 1, 60)] == [True, False]
            assert [await other.incr("bob", 60), await other.get("bob")] == [1, 1]
            await other.storage.aclose()

        asyncio.run(main())
    found: Any = storage_from_string("zeitset+sentinel://ann:pass%40word@a:1,b/mymaster", db=2)
    pool = found.storage.connection_pool
    assert (pool.service_name, pool.connection_kwargs["db"], pool.connection_kwargs["password"]) == ("mymaster", 2, "pass@word")
    asked = [sentinel.connection_pool.connection_kwargs for sentinel in pool.sentinel_manager.sentinels]
    assert [(each["host"], each["port"], each["username"]) for each in asked] == [("a", 1, "ann"), ("b", 26379, "ann")]
    with pytest.raises(ConfigurationError):
        storage_from_string("zeitset+sentinel://a:1")


def test_uris_and_errors(shared: Server, one: Any) -> None:
    storage = storage_from_string(shared.url.replace("redis://", "zeitset://"), key_prefix="shop")
    assert isinstance(storage, ZeitsetStorage) and storage.acquire_entry("ann", 1, 60)
    assert one.keys() == [b"shop:ann"]
    for uri, kind in (("zeitsets://a:1", redis.SSLConnection), ("zeitset+unix:///tmp/s", redis.UnixDomainSocketConnection)):
        found: Any = storage_from_string(uri)
        assert found.storage.connection_pool.connection_class is kind
    assert isinstance(storage_from_string("async+zeitset://a:1"), AsyncMovingWindowSupport)
    away = redis.Redis(port=free_port(), retry=NO_RETRY)
    assert not ZeitsetStorage(client=away).check()
    with pytest.raises(StorageError):
        ZeitsetStorage(client=away, wrap_exceptions=True).acquire_entry("ann", 1, 60)
    with pytest.raises(redis.ConnectionError):
        ZeitsetStorage(client=away).incr("ann", 60)


def test_asyncio(shared: Server, one: Any) -> None:
    async def main() -> None:
        async with redis.asyncio.Redis(port=shared.port) as client:
            storage = AsyncZeitsetStorage(client=client)
            assert [await storage.acquire_entry("ann", 2, 60) for _ in range(3)] == [True, True, False]
            start, used = await storage.get_moving_window("ann", 2, 60)
            assert used == 2 and abs(start - time.time()) < 5 and (await storage.get_moving_window("bob", 2, 60))[1] == 0
            assert [await storage.incr("kim", 60, 5), await storage.get("kim")] == [5, 5]
            assert await storage.get_expiry("kim") > time.time() + 50
            await storage.clear("kim")
            assert await storage.get("kim") == 0 and await storage.reset() == 1 and await storage.check()

    asyncio.run(main())


def test_slowapi(shared: Server, one: Any) -> None:
    slowapi = pytest.importorskip("slowapi")
    fastapi = pytest.importorskip("fastapi")
    testclient = pytest.importorskip("fastapi.testclient")
    from slowapi.errors import RateLimitExceeded
    from slowapi.util import get_remote_address

    uri = shared.url.replace("redis://", "zeitset://")
    limiter = slowapi.Limiter(get_remote_address, storage_uri=uri, strategy="moving-window", headers_enabled=True)
    app = fastapi.FastAPI()
    app.state.limiter = limiter
    app.add_exception_handler(RateLimitExceeded, slowapi._rate_limit_exceeded_handler)

    def root(request: Any, response: Any) -> str:
        return "hello"

    root.__annotations__ = {"request": fastapi.Request, "response": fastapi.Response}
    app.get("/")(limiter.limit("2/minute")(root))
    with testclient.TestClient(app) as client:
        answers = [client.get("/") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert [answer.headers["x-ratelimit-remaining"] for answer in answers] == ["1", "0", "0"]
    assert 55 <= int(answers[2].headers["retry-after"]) <= 61


def test_flask_limiter(shared: Server, one: Any) -> None:
    flask = pytest.importorskip("flask")
    flask_limiter = pytest.importorskip("flask_limiter")

    uri = shared.url.replace("redis://", "zeitset://")
    for strategy in ("moving-window", "fixed-window"):
        app = flask.Flask(__name__)
        limiter = flask_limiter.Limiter(
            lambda: "ann", app=app, storage_uri=uri, strategy=strategy, headers_enabled=True, key_prefix=strategy
        )
        app.add_url_rule(f"/{strategy}", strategy, limiter.limit("2/minute")(lambda: "hello"))
        answers = [app.test_client().get(f"/{strategy}") for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 200, 429]


@pytest.mark.skipif(SDIST is None, reason="LIMITS_SDIST names no source of limits")
def test_the_tests_of_limits_itself(shared: Server, one: Any, tmp_path: Path) -> None:
    """Runs the tests of `limits` with this storage only. The storage does not support sliding-window-counter, which
    approximates moving-window."""
    assert SDIST is not None
    for name in ("__init__.py", "utils.py", "test_strategy.py", "aio/__init__.py", "aio/test_strategy.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(Path(SDIST) / "tests" / name, tmp_path / "tests" / name)
    utils = tmp_path / "tests" / "utils.py"
    place = shared.url.removeprefix("redis://")
    ours = "".join(
        f'ALL_STORAGES{suffix} = {{"zeitset": pytest.param("{prefix}zeitset://{place}", {{"exact": True, "timeout": 20}}, lf("empty"), id="zeitset")}}\n'
        for suffix, prefix in (("", ""), ("_ASYNC", "async+"))
    )
    head, marker, tail = utils.read_text().partition("all_storage = ")
    assert marker
    utils.write_text(f"{head}{ours}\n{marker}{tail}")
    conftest = f"import pytest, redis, zeitset.limits\n\n@pytest.fixture\ndef empty():\n    redis.Redis(port={shared.port}).flushall()\n"
    (tmp_path / "conftest.py").write_text(conftest)
    (tmp_path / "pytest.ini").write_text("[pytest]\nasyncio_mode = auto\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rf"]
    found = subprocess.run([*command, "-k", "not sliding_window and not memory", "tests"], cwd=tmp_path, capture_output=True, text=True)
    assert " passed" in found.stdout and "skipped" not in found.stdout, found.stdout + found.stderr
    # Some of these tests compare times, and fail on a busy machine.
    for _ in range(3):
        failed = [line.split(" ")[1] for line in found.stdout.splitlines() if line.startswith("FAILED ")]
        if not failed:
            break
        found = subprocess.run([*command, *failed], cwd=tmp_path, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr


CONFTEST = """
import os, sys, types
import pytest

for name in ("pymemcache", "pymongo"):
    sys.modules.setdefault(name, types.ModuleType(name))
import flask_limiter, redis, zeitset.limits

init = flask_limiter.Limiter.__init__

def with_storage(self, *args, **options):
    init(self, *args, **{**options, "storage_uri": os.environ["STORAGE_URI"]})

flask_limiter.Limiter.__init__ = with_storage

@pytest.fixture(autouse=True)
def empty():
    redis.Redis.from_url(os.environ["STORAGE_URI"].replace("zeitset:", "redis:")).flushall()

@pytest.fixture
def docker_services():
    pytest.skip("needs a server of its own")
"""
NOT_OURS = {
    "tests/test_error_handling.py::test_fallback_to_memory": "replaces execute_command of redis-py, which the storage does not call",
    "tests/test_regressions.py::test_dynamic_limits": "moves the clock of the client; a SLIDING limit uses that of the server",
}


@pytest.mark.skipif(FLASK_LIMITER is None, reason="FLASK_LIMITER_SDIST names no source of flask-limiter")
def test_the_tests_of_flask_limiter_fare_as_with_its_storage_for_redis(tmp_path: Path) -> None:
    """Many of these tests move the clock of the client, and so fail with any storage on a server."""
    pytest.importorskip("hiro")
    pytest.importorskip("flask_restful")
    assert FLASK_LIMITER is not None
    shutil.copytree(Path(FLASK_LIMITER) / "tests", tmp_path / "tests")
    (tmp_path / "conftest.py").write_text(CONFTEST)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rfp", "--ignore", "tests/test_commands.py", "tests"]
    servers = {scheme: Server(tmp_path / scheme) for scheme in ("redis", "zeitset")}
    try:
        runs = {
            scheme: subprocess.Popen(
                command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                env={**os.environ, "STORAGE_URI": f"{scheme}://127.0.0.1:{server.port}"},
            )
            for scheme, server in servers.items()
        }
        printed = {scheme: run.communicate()[0] for scheme, run in runs.items()}
    finally:
        for server in servers.values():
            server.kill()
    passed = {scheme: {line.split(" ")[1] for line in text.splitlines() if line.startswith("PASSED ")} for scheme, text in printed.items()}
    assert len(passed["redis"]) > 60, printed["redis"]
    assert passed["redis"] - passed["zeitset"] <= set(NOT_OURS), printed["zeitset"]
