"""`zeitset.testing`, as the tests of applications use it."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import redis

import zeitset
from zeitset import Cron, Limiter, Queue, Worker
from zeitset.testing import Clock, start_server

from .support import MODULE, REDIS_SERVER, missing

pytest_plugins = ["pytester"]


def test_a_server_with_the_module() -> None:
    if reason := missing():
        pytest.fail(reason)
    with start_server(str(MODULE), options=["--maxclients", "77"], executable=REDIS_SERVER) as server:
        with redis.Redis.from_url(server.url) as r:
            assert Limiter(r, "a", "5/m").check("x").allowed and r.config_get("maxclients") == {"maxclients": "77"}
    with pytest.raises(redis.ConnectionError):
        redis.Redis(port=server.port).ping()


def test_a_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="no/such/module"):
        start_server("/no/such/module", executable=REDIS_SERVER)
    monkeypatch.delenv("ZEITSET_MODULE", raising=False)
    monkeypatch.setitem(sys.modules, "zeitset_server", None)  # not installed
    with pytest.raises(ValueError, match="ZEITSET_MODULE"):
        start_server()


def test_the_module_of_an_installed_package_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("zeitset_server")
    package.module_path = lambda: str(MODULE)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "zeitset_server", package)
    monkeypatch.delenv("ZEITSET_MODULE", raising=False)
    with start_server(executable=REDIS_SERVER) as server, redis.Redis.from_url(server.url) as r:
        assert Limiter(r, "a", "5/m").check("x").allowed


def test_the_fixture(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZEITSET_MODULE", str(MODULE))
    monkeypatch.setenv("PYTHONPATH", str(Path(zeitset.__file__).parents[1]))
    pytester.makeconftest('pytest_plugins = ["zeitset.testing"]')
    pytester.makepyfile(
        """
        import redis
        from zeitset import Queue

        def test_push(zeitset_server):
            with redis.Redis.from_url(zeitset_server.url) as r:
                assert Queue(r, "q").push("x", id="a") == "a"
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_a_clock_brings_recurring_jobs_forward(one: Any) -> None:
    queue, days, clock = Queue(one, "reports"), [], Clock(one, ["reports", "mails"])
    cron = Cron("daily", "0 3 * * *", tz="Europe/Berlin")

    def work() -> None:
        worker = Worker(one, "reports", lambda job: days.append(job.id), cron=[cron], clock=clock)
        asyncio.run(worker.serve(burst=True))

    work()
    first = queue.get("daily")
    assert days == [] and first and first.due_ms == cron.next_ms(first.fields["created_ms"])
    Queue(one, "mails").push("x", id="m", delay="1w")
    for day in range(3):
        clock.advance("1d")
        work()
        assert len(days) == day + 1
    mail, again = Queue(one, "mails").get("m"), queue.get("daily")
    assert mail and again and again.state == "delayed"
    left = timedelta(milliseconds=mail.due_ms) - timedelta(seconds=datetime.now(timezone.utc).timestamp())
    assert timedelta(days=3) < left < timedelta(days=4)
