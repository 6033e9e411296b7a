"""Celery with `zeitset.celery`: what its users rely on, in each pool."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any
from urllib.request import urlopen

import pytest

from zeitset import Queue as Jobs

from .support import Server, free_port, until

pytest.importorskip("celery")

from celery import chord, group, signature  # noqa: E402
from celery.exceptions import TaskRevokedError  # noqa: E402

from .celery_site import Site  # noqa: E402


@pytest.fixture
def site(shared: Server, one: Any, tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path, shared.url.replace("redis", "zeitset"), shared.url, shared.client(), task_send_sent_event=True)
    yield site
    site.close()


def jobs(site: Site, queue: str = "celery") -> Jobs:
    return Jobs(site.r, f"kombu:{queue}", codec="bytes")


def call(site: Site, task: str, *args: Any, **options: Any) -> Any:
    return signature(f"tests.celery_tasks.{task}", args, options=options, app=site.app)


@pytest.mark.parametrize("pool", ["prefork", "threads", "solo", "gevent", "eventlet"])
def test_what_users_rely_on(site: Site, pool: str) -> None:
    if pool in ("gevent", "eventlet"):
        pytest.importorskip(pool)
    heard: list[str] = []
    stopped = Event()
    receiver = site.app.events.Receiver(site.app.connection_for_read(), handlers={"*": lambda e: heard.append(e["type"])})

    def listen() -> None:
        while not stopped.is_set():
            with suppress(socket.timeout):
                receiver.capture(limit=None, timeout=1, wakeup=False)

    listening = Thread(target=listen)
    with site.working(pool, 2, 1, "-E") as (worker,):
        listening.start()
        assert site.send("add", 1, 2).get(timeout=20) == 3
        began = time.time()
        assert site.send("add", 1, 2, countdown=0.5).get(timeout=20) == 3 and time.time() - began >= 0.5
        assert site.send("retry", "retry").get(timeout=20) == 2 and site.runs["retry"] == 3
        assert chord(group(call(site, "add", n, n) for n in range(3)))(call(site, "add", 1).set(immutable=False)) is not None
        chained = call(site, "add", 1, 2) | call(site, "add", 4)
        assert chained.apply_async().get(timeout=20) == 7
        late = site.send("note", "revoked", countdown=1)
        site.app.control.revoke(late.id)
        with pytest.raises(TaskRevokedError):
            late.get(timeout=20)
        name = f"zeitset0@{socket.gethostname()}"
        inspect = site.app.control.inspect([name], timeout=10)
        assert inspect.ping() == {name: {"ok": "pong"}}
        assert "tests.celery_tasks.add" in inspect.registered()[name]
        assert {queue["name"] for queue in inspect.active_queues()[name]} == {"celery", "other"}
        site.app.control.add_consumer("extra", destination=[name], reply=True, timeout=10)
        assert site.send("add", 2, 2, queue="extra").get(timeout=5) == 4, "at once, not at the end of a claim"
        site.app.control.cancel_consumer("extra", destination=[name], reply=True, timeout=10)
        # gevent: the worker cancels the queue after its reply
        until(lambda: "extra" not in {queue["name"] for queue in inspect.active_queues()[name]})
        site.send("note", "not consumed", queue="extra")
        told = {"task-sent", "task-received", "task-started", "task-succeeded"}
        until(lambda: told <= set(heard) or site.send("add", 1, 2).get(timeout=20) is None)
        until(lambda: not any((jobs(site).stats() or {})[state] for state in ("ready", "delayed", "claimed", "dead")))
        worker.stop()
        stopped.set()
        listening.join()
        assert jobs(site, "extra").peek() and "not consumed" not in site.runs
        assert "revoked" not in site.runs


def test_flower_shows_workers_and_tasks(site: Site) -> None:
    pytest.importorskip("flower")
    with site.working("solo", 1, 1, "-E"):
        port = free_port()
        flower = site.program("flower", "--address=127.0.0.1", f"--port={port}", FLOWER_UNAUTHENTICATED_API="true")
        try:

            def get(path: str) -> Any:
                with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/api/{path}", timeout=10) as response:
                    return json.load(response)

            name = f"zeitset0@{socket.gethostname()}"
            until(lambda: "celery" in str((get("workers?refresh=1") or {}).get(name, {}).get("active_queues")), 60)
            sent = site.send("add", 1, 2)
            assert sent.get(timeout=20) == 3
            until(lambda: (get(f"task/info/{sent.id}") or {}).get("state") == "SUCCESS")
        finally:
            flower.kill()


def test_a_task_whose_process_dies_runs_again_and_is_marked_as_redelivered(site: Site) -> None:
    with site.working("prefork", 1):
        assert site.send("die", "die").get(timeout=30) is True
    assert site.runs == {"die": 2}


@pytest.mark.parametrize("scheme", ["zeitset", "redis"])
def test_without_acks_on_failure_a_failed_task_is_removed_and_a_timeout_requeues(
    shared: Server, one: Any, tmp_path: Path, scheme: str
) -> None:
    site = Site(tmp_path, shared.url.replace("redis", scheme), shared.url, shared.client())
    try:
        with site.working("prefork"):
            assert site.send("stall", "stall", time_limit=0.5).get(timeout=20, propagate=False) is not None
            until(lambda: site.runs["stall"] == 2)
            with pytest.raises(ValueError):
                site.send("fail", "fail").get(timeout=20)
            assert site.send("add", 1, 2).get(timeout=20) == 3
        assert site.runs == {"stall": 2, "fail": 1}
        with site.working("prefork"):
            assert site.send("add", 1, 2).get(timeout=20) == 3
        assert site.runs == {"stall": 2, "fail": 1}
    finally:
        site.close()


def test_a_task_that_expires_in_the_queue_is_dropped_there(site: Site) -> None:
    site.send("note", "expired", expires=0.1)
    site.send("note", "in time", expires=600)
    until(lambda: (jobs(site).stats() or {})["expired"] == 1)
    with site.working("solo"):
        until(lambda: site.runs == {"in time": 1})


def test_an_unknown_task_is_removed_as_with_redis(site: Site) -> None:
    with site.working("solo"):
        result = site.app.send_task("nobody.knows")
        with pytest.raises(Exception, match="NotRegistered|nobody.knows"):
            result.get(timeout=20)
        until(lambda: (jobs(site).stats() or {})["claimed"] == 0)


def test_prefetched_tasks_return_when_a_worker_stops(site: Site) -> None:
    site.options["worker_prefetch_multiplier"] = 4
    with site.working("threads", 1) as (worker,):
        site.send("hold", "runs", 60)
        until(lambda: site.runs["runs"])
        for _ in range(5):
            site.send("note", "waits")
        worker.tell(signal.SIGTERM)
        site.r.set("go:runs", 1)
        worker.process.wait(60)
    assert site.ends == {"runs": 1}
    with site.working("solo"):
        until(lambda: site.runs["waits"] == 5)


def test_the_page_of_celery(site: Site, shared: Server, tmp_path: Path) -> None:
    """Runs the programs of clients/celery.md."""
    page = (Path(__file__).parents[2] / "celery.md").read_text()
    shop, schedules = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (tmp_path / "shop.py").write_text(shop.replace("localhost:6379", f"127.0.0.1:{shared.port}"))
    (tmp_path / "schedules.py").write_text(schedules.replace("Redis()", f"Redis(port={shared.port})").replace("run()", "run(burst=True)"))
    worker = subprocess.Popen([sys.executable, "-m", "celery", "-A", "shop", "worker", "-P", "solo", "-l", "error"], cwd=tmp_path)
    try:
        call = "from shop import add; print(add.apply_async((1, 2), countdown=0.5).get(timeout=20))"
        found = subprocess.run([sys.executable, "-c", call], cwd=tmp_path, capture_output=True, text=True)
        assert found.stdout == "3\n", found.stderr
    finally:
        worker.kill()
        worker.wait()
    subprocess.run([sys.executable, "schedules.py"], cwd=tmp_path, check=True)
    assert [job.id for job in Jobs(site.r, "schedules").peek("delayed")] == ["shop.report"]


def test_a_setting_replaces_the_import_and_the_scheme(shared: Server) -> None:
    call = f"""from celery import Celery
app = Celery(broker="{shared.url}")
app.conf.broker_transport = "zeitset.celery:Transport"
print(type(app.connection_for_read().transport).__module__, type(app.connection_for_write().transport).__module__)"""
    found = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True)
    assert found.stdout == "zeitset.celery zeitset.celery\n", found.stderr
