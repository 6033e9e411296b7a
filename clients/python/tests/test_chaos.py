"""Workers in processes of their own, faults between them and the server, and a ledger of all jobs.

CHAOS_SECONDS is the length of the run (default 15), and CHAOS_SEED repeats a run:
`CHAOS_SECONDS=600 pytest -s tests/test_chaos.py`.

Replication is asynchronous: a failover may lose what the primary has just accepted, whatever the library does. The
ledger counts a command as accepted if a replica has it: `Pair` sends a PUBLISH and WAIT again and again. If WAIT
succeeds, the replica has all writes of the primary from before the PUBLISH. Commands that the primary may have carried
out after the last success are in doubt. If a push is in doubt, its job need not run. If an ACK or a claim is in doubt,
the job may run again.
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

from .support import NO_RETRY, Proxy, Server, until

SECONDS = float(os.environ.get("CHAOS_SECONDS", "15"))
LONGEST = min(40.0, SECONDS / 4)
"""The longest freeze, in seconds."""
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
    id, token = ("-", 0) if job is None else (job.id, job.token)
    os.write(ledger, f"{time.time()} {what} {id} {token} {os.getpid()}\\n".encode())

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
    note(event.kind, event.job)

handler = {"task": task, "thread": thread, "lambda": lambda job: task(job)}[kind]
Worker(redis.Redis(port=port), "q", handler, lease=5, grace=2, backoff=("100ms", "1s"), on_event=on_event).run()
"""


class Pair:
    """A primary and its replica. `proxies` lead to the primary, as a virtual address does."""

    def __init__(self, folder: Path, proxies: int) -> None:
        self.primary, self.replica = (Server(folder, "--repl-diskless-sync-delay", "0") for _ in range(2))
        self.proxies = [Proxy(self.primary.port) for _ in range(proxies)]
        self.doubts: list[tuple[float, float]] = []
        """Times in doubt: from the last moment whose writes the replica certainly has, until the primary was killed."""
        self._replicated = time.time()
        self._link = Proxy(self.primary.port)
        with self.replica.client() as r:
            r.replicaof("127.0.0.1", self._link.port)
        until(self.is_in_sync)
        self._over = Event()
        Thread(target=self._confirm, daemon=True).start()

    def close(self) -> None:
        self._over.set()
        for proxy in (*self.proxies, self._link):
            proxy.__exit__()
        self.primary.kill()
        self.replica.kill()

    def is_in_sync(self) -> bool:
        try:
            with self.replica.client(socket_timeout=1, retry=NO_RETRY) as r:
                return bool(r.info("replication").get("master_link_status") == "up")
        except redis.RedisError:
            return False

    def fail_over(self, behind: float, late: float) -> None:
        """Kills the primary, and promotes the replica. `behind`: how long the replica gets no writes before the kill.
        `late`: how long clients reach the replica before it is promoted."""
        if behind:
            self._link.hold()
            time.sleep(behind)
        self.primary.kill()
        self.doubts.append((self._replicated, time.time()))
        self._link.cut()
        self._link.let_go()
        self.primary, self.replica = self.replica, self.primary
        for proxy in (*self.proxies, self._link):
            proxy.target = self.primary.port
        time.sleep(late)
        with self.primary.client() as r:
            r.replicaof("NO", "ONE")
        self.replica.start("--replicaof", "127.0.0.1", str(self._link.port))

    def _confirm(self) -> None:
        while not self._over.wait(0.02):
            primary = self.primary
            try:
                with primary.client(socket_timeout=2, retry=NO_RETRY) as r:
                    asked = time.time()
                    r.publish("ledger", "")  # a PUBLISH is replicated, and needs no memory
                    if r.wait(1, 1000) == 1 and primary is self.primary:
                        self._replicated = asked
            except redis.RedisError:
                pass


class Chaos:
    def __init__(self, pair: Pair, workers: list[subprocess.Popen[bytes]], seed: int) -> None:
        self._pair = pair
        self._proxies = pair.proxies[1:]
        self._workers = workers
        self._random = random.Random(seed)
        self.over = Event()
        self.done: Counter[str] = Counter()
        self._undo: list[tuple[float, Any]] = []
        # Each round has each kind of fault once. The first faults are given, so that even the shortest run has a
        # failover while jobs run.
        self._next = ["fail over", "cut"]

    def run(self) -> None:
        """Begins and ends faults, until `over` is set."""
        with self._pair.primary.client() as r:
            until(lambda: (Queue(r, "q").stats() or {}).get("acked"))
        next_fault = 0.0
        while not self.over.wait(0.02):
            self.end()
            if time.monotonic() > next_fault:
                self.step()
                next_fault = time.monotonic() + self._random.uniform(0.2, 4)
        self.end(everything=True)

    def step(self) -> None:
        """Begins a fault."""
        if not self._next:
            self._next = ["freeze server", "freeze worker", "hold replies", "cut", "garbage", "no memory", "fail over"]
            self._random.shuffle(self._next)
        kind = self._next.pop()
        seconds = self._random.uniform(1, max(1.5, LONGEST)) if self._random.random() < 0.5 else self._random.uniform(0.1, 3)
        proxy, worker = self._random.choice(self._proxies), self._random.choice(self._workers)
        if kind == "freeze server":
            self._stop(self._pair.primary._process, seconds)
        elif kind == "freeze worker":
            self._stop(worker, seconds)
        elif kind == "hold replies":
            proxy.hold(self._random.choice([b"", b"ZQ.ACK", b"ZQ.EXTEND", b"ZQ.CLAIM"]))
            if self._random.random() < 0.5:
                self._undo.append((time.monotonic() + seconds, proxy.cut))
            self._undo.append((time.monotonic() + seconds, proxy.let_go))
        elif kind == "cut":
            proxy.cut()
        elif kind == "garbage":
            proxy.garbage[self._random.choice(COMMANDS)] = self._random.choice(GARBAGE)
        elif kind == "no memory":
            self._memory("1")
            self._undo.append((time.monotonic() + min(seconds, 5), lambda: self._memory("0")))
        elif self._pair.is_in_sync():
            self._pair.fail_over(self._random.choice([0.0, 0.0, 0.3, 1.0]), self._random.uniform(0, 1))
        else:  # the replica is not in sync since the last failover
            return
        self.done[kind] += 1

    def end(self, everything: bool = False) -> None:
        """Ends the faults whose time has come."""
        due = [each for each in self._undo if everything or each[0] <= time.monotonic()]
        self._undo = [each for each in self._undo if each not in due]
        for _, undo in due:
            undo()
        if everything:
            for proxy in self._proxies:
                proxy.garbage.clear()
                proxy.let_go()
            self._memory("0")

    def _stop(self, process: subprocess.Popen[bytes], seconds: float) -> None:
        process.send_signal(signal.SIGSTOP)
        self._undo.append((time.monotonic() + seconds, lambda: process.send_signal(signal.SIGCONT)))

    def _memory(self, limit: str) -> None:
        try:
            with self._pair.primary.client(socket_timeout=0.2) as r:
                r.config_set("maxmemory", limit)
        except Exception:  # the server is frozen: the fault does not begin, or ends later
            if limit == "0":
                self._undo.append((time.monotonic() + 0.5, lambda: self._memory("0")))


def test_chaos_loses_nothing(tmp_path: Path) -> None:
    seed = int(os.environ.get("CHAOS_SEED", random.randrange(1 << 32)))
    ledger = tmp_path / "ledger"
    pair = Pair(tmp_path, 4)
    workers = [
        subprocess.Popen([sys.executable, "-c", WORKER, kind, str(proxy.port), str(ledger), str(seed + number)], stderr=subprocess.DEVNULL)
        for number, (kind, proxy) in enumerate(zip(("task", "thread", "lambda"), pair.proxies[1:]))
    ]
    chaos = Chaos(pair, workers, seed)
    pushes: list[tuple[str, float, float]] = []
    tried = 0
    faults = Thread(target=chaos.run)
    try:
        # No time limit, and no retries: if a push is repeated after its job is done, it adds the job again.
        with pair.proxies[0].client(socket_timeout=None, retry=NO_RETRY) as r:
            queue = Queue(r, "q")
            began = time.monotonic()
            faults.start()
            while time.monotonic() < began + SECONDS:
                asked = time.time()
                try:
                    queue.push(tried, id=str(tried), max_attempts=0)
                    pushes.append((str(tried), asked, time.time()))
                except redis.RedisError:
                    pass
                tried += 1
                time.sleep(0.08)  # 19 of the 30 slots are in use on average; the others are for outages
            chaos.over.set()
            faults.join()
            deadline = time.monotonic() + 90 + SECONDS / 4
            while left(stats := queue.stats()) and time.monotonic() < deadline:
                time.sleep(0.05)
        ended = [worker.args for worker in workers if worker.poll() is not None]
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
        pair.close()
    figures = read(ledger.read_text(), pushes, pair.doubts)
    figures |= {"left": left(stats), "ended by themselves": len(ended), "acknowledged twice": max(0, stats["acked"] - tried)}
    faulty = f"{sum(chaos.done.values())} faults {dict(chaos.done)}"
    print(f"\nCHAOS_SEED={seed}: {SECONDS:g} s, {tried} pushes, {faulty}: {figures}")
    assert figures["accepted"] and not stats["dead"] and codes == [0, 0, 0]
    for name in ("left", "lost", "undone", "run after an accepted ACK", "ended by themselves", "acknowledged twice"):
        assert figures[name] == 0, name


def left(stats: Any) -> int:
    return sum(stats[state] for state in ("ready", "delayed", "claimed"))


def read(ledger: str, pushes: list[tuple[str, float, float]], doubts: list[tuple[float, float]]) -> dict[str, int]:
    def in_doubt(earliest: float, latest: float) -> bool:
        """Returns whether the replica may lack writes of the server from between these moments."""
        return any(earliest <= killed and latest >= replicated for replicated, killed in doubts)

    started: dict[str, list[tuple[int, float]]] = {}
    ended: dict[tuple[str, int], float] = {}
    completed: dict[str, list[tuple[int, float]]] = {}
    pids: dict[tuple[str, int], str] = {}
    unclear: list[tuple[str, float]] = []
    """When a worker did not learn which of its ACKs were accepted: it got no reply, or one for several ACKs, some of
    which were too late."""
    events: Counter[str] = Counter()
    for line in ledger.splitlines():
        words = line.split()
        what, id, token, at = words[1], words[2], int(words[3]), float(words[0])
        events[what] += 1
        pids[id, token] = words[4]
        if what == "disconnected" or (what == "stale" and id == "-"):
            unclear.append((words[4], at))
        if what == "start":
            started.setdefault(id, []).append((token, at))
        elif what == "end":
            ended[id, token] = at
        elif what == "completed":
            completed.setdefault(id, []).append((token, at))
    finished = {id for id, _ in ended}
    accepted = {id for id, asked, replied in pushes if not in_doubt(asked, replied)}

    def is_final(id: str, token: int, at: float) -> bool:
        """Returns whether the ACK was certainly accepted. A token is the time of its claim in microseconds."""
        # The ACK was sent after the end of the handler.
        sent = ended.get((id, token), token / 1e6)
        # If the ACK was sent again after a lost reply, it counts as `completed`, although the job may have been claimed
        # in between.
        is_unclear = any(pid == pids[id, token] and sent <= when <= at + 0.1 for pid, when in unclear)
        return not is_unclear and not in_doubt(token / 1e6, token / 1e6) and not in_doubt(sent, at)

    final = {id: [(token, at) for token, at in acks if is_final(id, token, at)] for id, acks in completed.items()}
    # After a final ACK, the job must not be claimed, and no handler may begin with an earlier claim.
    late = [
        id
        for id, starts in started.items()
        for token, at in starts
        if any((at if token < by else token / 1e6) > when for by, when in final.get(id, ()) if by != token)
    ]
    replied = {id for id, *_ in pushes}
    return {
        "accepted": len(accepted),
        "lost": len(accepted - started.keys()),
        "undone": len((accepted & started.keys()) - finished),
        "run after an accepted ACK": len(late),
        "in doubt: seconds": round(sum(killed - replicated for replicated, killed in doubts)),
        "in doubt: pushes": len(replied - accepted),
        "of these lost": len((replied - accepted) - started.keys()),
        "ACKs in doubt, or unclear": sum(map(len, completed.values())) - sum(map(len, final.values())),
        "runs": events["start"],
        "leases lost": events["lost"],
        **{kind: events[kind] for kind in ("completed", "failed", "released", "stale")},
    }
