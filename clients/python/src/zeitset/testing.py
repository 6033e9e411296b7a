"""Helpers for tests: a server with the module, and a clock for delayed and recurring jobs.

`pytest_plugins = ["zeitset.testing"]` in conftest.py defines the fixture `zeitset_server`: one server for the whole
run.
"""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from time import monotonic, sleep
from typing import Any

import redis

from . import Queue
from ._time import Duration, milliseconds

try:
    import pytest
except ImportError:  # the rest of the module needs no pytest
    pytest = None  # type: ignore[assignment, unused-ignore]

_PATIENCE = 20.0


class Server:
    """A redis-server on a free port of this machine, which saves nothing: `redis.Redis.from_url(server.url)`."""

    def __init__(self, command: list[str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="zeitset-")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        place = ["--port", str(self.port), "--bind", "127.0.0.1", "--dir", self._folder.name, "--logfile", "log"]
        self._process = subprocess.Popen([*command, *place, "--save", ""], stdout=subprocess.DEVNULL)

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _wait(self) -> None:
        end = monotonic() + _PATIENCE
        with redis.Redis(port=self.port, socket_timeout=1) as r:
            while True:
                try:
                    r.ping()
                    return
                except (redis.ConnectionError, redis.TimeoutError):
                    if self._process.poll() is not None or monotonic() > end:
                        with open(os.path.join(self._folder.name, "log"), encoding="utf-8", errors="replace") as log:
                            said = log.read()[-2000:]
                        self.stop()
                        raise RuntimeError(f"the server did not start:\n{said}") from None
                sleep(0.01)


def start_server(module: str | None = None, *, options: Iterable[str] = (), executable: str = "redis-server") -> Server:
    """Starts a server with the module. `module`: the path of libzeitset.so. The default is the environment variable
    ZEITSET_MODULE, or else the file in the package zeitset-server. `options`: arguments of redis-server."""
    path = module or os.environ.get("ZEITSET_MODULE") or _installed_module()
    if path is None:
        raise ValueError("where is the module? Install zeitset-server, give the module's path, or set ZEITSET_MODULE")
    server = Server([executable, "--loadmodule", os.path.abspath(path), *options])
    server._wait()
    return server


def _installed_module() -> str | None:
    try:
        package = importlib.import_module("zeitset_server")
    except ImportError:
        return None
    return str(package.module_path())


class Clock:
    """Makes delayed and recurring jobs due sooner: `Worker(..., clock=clock)`, then `clock.advance("1d")`.

    The server's own clock stays as it is. `client` is a `redis.Redis`.
    """

    def __init__(self, client: Any, queues: str | Iterable[str], *, shards: int | None = None) -> None:
        self._client = client
        names = [queues] if isinstance(queues, str) else queues
        of_each = [Queue(client, name, shards=shards, codec="bytes") for name in names]
        self._queues = [shard for queue in of_each for shard in queue.shards]
        self.ahead_ms = 0

    def advance(self, duration: Duration) -> None:
        by_ms = milliseconds(duration)
        self.ahead_ms += by_ms
        seconds, micros = self._client.time()
        now_ms = seconds * 1000 + micros // 1000
        for queue in self._queues:
            after: str | None = None
            jobs: list[tuple[str, int]] = []
            while page := queue.peek("delayed", count=1000, after=after):
                jobs += [(job.id, job.due_ms) for job in page]
                after = page[-1].id
            for id, due_ms in jobs:
                queue.reschedule(id, at=f"{max(now_ms, due_ms - by_ms)}ms")


if pytest is not None:

    @pytest.fixture(scope="session")
    def zeitset_server() -> Iterator[Server]:
        with start_server() as server:
            yield server
