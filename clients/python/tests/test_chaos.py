"""Workers in processes of their own, everything that goes wrong between them and the server, and a ledger of all jobs.

CHAOS_SECONDS says for how long (15), CHAOS_SEED repeats a run: `CHAOS_SECONDS=300 pytest -s tests/test_chaos.py`.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from threading import Event, Thread
from typing import Any

import redis

from zeitset import Queue

from .support import Proxy, Server, until

SECONDS = float(os.environ.get("CHAOS_SECONDS", "15"))
LONGEST = min(40.0, SECONDS / 4)
"""Of a freeze."""
GARBAGE = [b"HTTP/1.1 502 Bad Gateway\r\n\r\n", b":abc\r\n", b"$9x\r\n", b"-ERR proxy: no upstream\r\n", b"+OK\r\n", b"*1\r\n+OK\r\n"]
COMMANDS = [b"ZQ.CLAIM", b"ZQ.ACK", b"ZQ.NACK", b"ZQ.EXTEND", b"ID", b"ZQ.STATS"]

# Half of the handlers obey their cancellation by returning. The ledger gets a line for each start, end and event, with the time.
WORKER = """
import asyncio, os, random, sys, time
import redis
from zeitset import Worker

kind, port, path, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
ledger, chance = os.open(path, os.O_APPEND | os.O_WRONLY | os.O_CREAT), random.Random(seed)

def note(what, job):
    os.write(ledger, f"{time.monotonic()} {what} {job.id} {job.token}\\n".encode())

def plan():
    if chance.random() < 0.03:
        raise RuntimeError("at random")
    return chance.choice([0.0, 0.01, 0.1, 1.0, 1.0, 3.0, 8.0]), chance.random() < 0.5

async def task(job):
    note("start", job)
    seconds, returns = plan()
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        if returns:
            return
        raise
    note("end", job)

def thread(job):
    note("start", job)
    seconds, returns = plan()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if job.lost or job.stopping:
            if returns:
                return
            job.check()
        time.sleep(0.02)
    note("end", job)

def on_event(event):
    if event.job is not None:
        note(event.kind, event.job)

handler = {"task": task, "thread": thread, "lambda": lambda job: task(job)}[kind]
Worker(redis.Redis(port=port), "q", handler, lease=5, grace=2, backoff=("100ms", "1s"), on_event=on_event).run()
"""


class Chaos:
    def __init__(self, server: Server, proxies: list[Proxy], workers: list[subprocess.Popen[bytes]], seed: int) -> None:
        self._server = server
        self._proxies = proxies
        self._workers = workers
        self._random = random.Random(seed)
        self.over = Event()
        self.done: Counter[str] = Counter()
        self._undo: list[tuple[float, Any]] = []

    def run(self) -> None:
        """Until it is told to end."""
        next_fault = 0.0
        while not self.over.wait(0.02):
            self.end()
            if time.monotonic() > next_fault:
                self.step()
                next_fault = time.monotonic() + self._random.uniform(0.2, 4)
        self.end(everything=True)

    def step(self) -> None:
        """Begins a fault, and ends those whose time has come."""
        kind = self._random.choice(["freeze server", "freeze worker", "hold replies", "cut", "garbage", "no memory"])
        seconds = self._random.uniform(1, max(1.5, LONGEST)) if self._random.random() < 0.5 else self._random.uniform(0.1, 3)
        proxy, worker = self._random.choice(self._proxies), self._random.choice(self._workers)
        if kind == "freeze server":
            self._stop(self._server._process.pid, seconds)
        elif kind == "freeze worker":
            self._stop(worker.pid, seconds)
        elif kind == "hold replies":
            proxy.hold(self._random.choice([b"", b"ZQ.ACK", b"ZQ.EXTEND", b"ZQ.CLAIM"]))
            if self._random.random() < 0.5:
                self._undo.append((time.monotonic() + seconds, proxy.cut))
            self._undo.append((time.monotonic() + seconds, proxy.let_go))
        elif kind == "cut":
            proxy.cut()
        elif kind == "garbage":
            proxy.garbage[self._random.choice(COMMANDS)] = self._random.choice(GARBAGE)
        else:
            self._memory("1")
            self._undo.append((time.monotonic() + min(seconds, 5), lambda: self._memory("0")))
        self.done[kind] += 1

    def end(self, everything: bool = False) -> None:
        due = [each for each in self._undo if everything or each[0] <= time.monotonic()]
        self._undo = [each for each in self._undo if each not in due]
        for _, undo in due:
            undo()
        if everything:
            for proxy in self._proxies:
                proxy.garbage.clear()
                proxy.let_go()
            self._memory("0")

    def _stop(self, pid: int, seconds: float) -> None:
        os.kill(pid, signal.SIGSTOP)
        self._undo.append((time.monotonic() + seconds, lambda: os.kill(pid, signal.SIGCONT)))

    def _memory(self, limit: str) -> None:
        try:
            with self._server.client(socket_timeout=0.2) as r:
                r.config_set("maxmemory", limit)
        except Exception:  # frozen: then there is no such fault, or its end comes later
            if limit == "0":
                self._undo.append((time.monotonic() + 0.5, lambda: self._memory("0")))


def test_chaos_loses_nothing(server: Server, tmp_path: Path) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(1 << 32)))
    ledger = tmp_path / "ledger"
    proxies = [Proxy(server.port) for _ in range(3)]
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, kind, str(proxy.port), str(ledger), str(seed + number)], stderr=subprocess.DEVNULL)
        for number, (kind, proxy) in enumerate(zip(("task", "thread", "lambda"), proxies))
    ]
    chaos, pushed = Chaos(server, proxies, workers, seed), 0
    faults = Thread(target=chaos.run)
    try:
        # No time limit: a push that is repeated after its job is done adds the job again.
        with server.client(socket_timeout=None) as r:
            queue = Queue(r, "q")
            began = time.monotonic()
            faults.start()
            while time.monotonic() < began + SECONDS:
                try:
                    queue.push(pushed, id=str(pushed), max_attempts=0)
                    pushed += 1
                except redis.OutOfMemoryError:
                    pass
                time.sleep(0.03)
            chaos.over.set()
            faults.join()
            ended = [worker.args for worker in workers if worker.poll() is not None]
            until(lambda: all(queue.stats()[state] == 0 for state in ("ready", "delayed", "claimed")), 90 + SECONDS / 4)
            stats = queue.stats()
        codes = []
        for worker in workers:
            worker.terminate()
            codes.append(worker.wait(30))
    finally:
        chaos.over.set()
        chaos.end(everything=True)
        for worker in workers:
            worker.kill()
            worker.wait()
        for proxy in proxies:
            proxy.__exit__()
    figures = read(ledger.read_text(), pushed)
    figures |= {"ended by themselves": len(ended), "acknowledged twice": stats["acked"] - pushed}
    print(f"\nCHAOS_SEED={seed}: {SECONDS:g} s, {pushed} jobs, {sum(chaos.done.values())} faults {dict(chaos.done)}: {figures}")
    assert pushed and not stats["dead"] and codes == [0, 0, 0]
    for name in ("lost", "undone", "run after an accepted ACK", "ended by themselves", "acknowledged twice"):
        assert figures[name] == 0, name


def read(ledger: str, pushed: int) -> dict[str, int]:
    started: dict[str, list[tuple[int, float]]] = {}
    finished: set[str] = set()
    completed: dict[str, list[tuple[int, float]]] = {}
    events: Counter[str] = Counter()
    for line in ledger.splitlines():
        at, what, id, token = line.split()
        events[what] += 1
        if what == "start":
            started.setdefault(id, []).append((int(token), float(at)))
        elif what == "end":
            finished.add(id)
        elif what == "completed":
            completed.setdefault(id, []).append((int(token), float(at)))
    # A later token than that of an accepted ACK cannot be: then the server would count two.
    late = [
        id
        for id, starts in started.items()
        for token, at in starts
        if any(token < by and at > when for by, when in completed.get(id, ()))
    ]
    ids = {str(number) for number in range(pushed)}
    return {
        "lost": len(ids - started.keys()),
        "undone": len((ids & started.keys()) - finished),
        "run after an accepted ACK": len(late),
        "runs": events["start"],
        "leases lost": events["lost"],
        **{kind: events[kind] for kind in ("completed", "failed", "released", "stale")},
    }
