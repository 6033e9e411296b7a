"""Workers in processes of their own, faults between them and the server, and a ledger of all jobs.

CHAOS_SECONDS is the length of the run (default 30), and CHAOS_SEED repeats a run:
`CHAOS_SECONDS=600 pytest -s tests/test_chaos.py`.

Replication is asynchronous: a failover may lose what the primary has just accepted, whatever the library does. The
ledger counts a command as accepted if a replica has it: `Pair` sends a PUBLISH and WAIT again and again. If WAIT
succeeds, the replica has all writes of the primary from before the PUBLISH. Commands that the primary may have carried
out after the last success are in doubt. If a push is in doubt, its job need not run. If an ACK or a claim is in doubt,
the job may run again.

Some jobs have a TTL. Some are pushed again and again with the same ID (AGAIN). Some belong to groups, which the test
and the workers hold. The payload of a job is the number of its push.
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
from typing import Any, NamedTuple

import pytest
import redis

from zeitset import Queue

from .support import NO_RETRY, Proxy, Server, until

SECONDS = float(os.environ.get("CHAOS_SECONDS", "30"))
LONG_FORM = SECONDS >= 60
LONGEST = min(40.0, SECONDS / 4)
"""The longest freeze, in seconds."""
GARBAGE = [b"HTTP/1.1 502 Bad Gateway\r\n\r\n", b":abc\r\n", b"$9x\r\n", b"-ERR proxy: no upstream\r\n", b"+OK\r\n", b"*1\r\n+OK\r\n"]
COMMANDS = [b"ZQ.CLAIM", b"ZQ.ACK", b"ZQ.NACK", b"ZQ.EXTEND", b"ID", b"ZQ.STATS"]
GROUPS = ["a", "b", "c", "d"]
LEASE = 5.0
HELD = 1.0
"""How long a worker holds a group, in seconds."""
PRECISION = 0.002
"""The server's clock counts whole milliseconds."""

# When a handler is cancelled, half of the handlers return. The ledger gets a line with the time for each event, and for
# each start, success ("end") and end ("over") of a handler.
WORKER = """
import asyncio, os, random, sys, time
import redis
from zeitset import Retry, Worker

kind, port, path, seed = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
ledger, chance = os.open(path, os.O_APPEND | os.O_WRONLY | os.O_CREAT), random.Random(seed)

def note(what, job):
    push, token = ("-", 0) if job is None else (job.payload, job.token)
    os.write(ledger, f"{time.time()} {what} {push} {token} {os.getpid()}\\n".encode())

def plan(job):
    if chance.random() < 0.03:
        raise RuntimeError("at random")
    if job.id.startswith("group") and chance.random() < 0.1:
        note("hold", job)
        raise Retry(after=HELD, hold=True)
    # A long run of a job that waited for a release, or for another run, would delay the end of a short test.
    longest = 8.0 if LONG_FORM or job.id.startswith("plain") else 3.0
    return chance.choice([0.0, 0.01, 0.1, 1.0, 1.0, 3.0, longest]), chance.random() < 0.5

async def task(job):
    note("start", job)
    try:
        seconds, returns = plan(job)
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            if returns:
                return
            raise
        note("end", job)
    finally:
        note("over", job)

def thread(job):
    note("start", job)
    try:
        seconds, returns = plan(job)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if job.lost or job.stopping:
                if returns:
                    return
                job.check()
            time.sleep(0.02)
        note("end", job)
    finally:
        note("over", job)

def on_event(event):
    note(event.kind, event.job)

handler = {"task": task, "thread": thread, "lambda": lambda job: task(job)}[kind]
Worker(redis.Redis(port=port), "q", handler, lease=LEASE, grace=2, backoff=("100ms", "1s"), on_event=on_event).run()
""".replace("HELD", str(HELD)).replace("LEASE", str(LEASE)).replace("LONG_FORM", str(LONG_FORM))


class Push(NamedTuple):
    number: int
    id: str
    asked: float
    replied: float | None
    """None: the push failed, and may have added its job or not."""
    group: str | None = None
    ttl: float | None = None


class Hold(NamedTuple):
    group: str
    asked: float
    replied: float
    """When the call had certainly taken effect or failed."""
    seconds: float
    """0: a release."""
    accepted: bool
    """False: perhaps the call had no effect."""


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
            until(lambda: (stats := Queue(r, "q").stats()) and stats["acked"])
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
            self._next = ["freeze server", "freeze worker", "hold replies", "cut", "reset", "half a reply", "garbage", "no memory", "fail over"]
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
        elif kind == "reset":
            proxy.reset()
        elif kind == "half a reply":
            proxy.halve(self._random.choice(COMMANDS))
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
    chance = random.Random(seed)
    pushes: list[Push] = []
    holds: list[Hold] = []
    faults = Thread(target=chaos.run)
    try:
        # No time limit, and no retries: if a push is repeated after its job is done, it adds the job again.
        with pair.proxies[0].client(socket_timeout=None, retry=NO_RETRY) as r:
            queue = Queue(r, "q")
            for group in GROUPS:  # a hold also ends when the last job of its group is removed
                queue.push(None, id=group, group=group, delay="1d")
            r.wait(1, 5000)
            holding = Thread(target=hold_groups, args=(queue, holds, chaos.over, random.Random(seed)))
            began = time.monotonic()
            faults.start()
            holding.start()
            while time.monotonic() < began + SECONDS:
                pushes.append(push(queue, len(pushes), chance))
                time.sleep(0.08)  # 19 of the 30 slots are in use on average; the others are for outages
            chaos.over.set()
            faults.join()
            holding.join()
            assert queue.cancel(*GROUPS) == len(GROUPS)
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
    figures, violations = read(ledger.read_text(), pushes, holds, pair.doubts, stats["expired"])
    violations |= {"left": left(stats), "ended by themselves": len(ended), "acknowledged twice": max(0, stats["acked"] - len(pushes))}
    faulty = f"{sum(chaos.done.values())} faults {dict(chaos.done)}"
    print(f"\nCHAOS_SEED={seed}: {SECONDS:g} s, {len(pushes)} pushes, {faulty}: {figures}, {violations}")
    assert figures["accepted"] and not stats["dead"] and codes == [0, 0, 0]
    assert not {name: count for name, count in violations.items() if count}
    if LONG_FORM:
        for name in ("dropped by TTL", "AGAIN during a run", "holds", "holds by workers", "claims of others during holds"):
            assert figures[name], name


PUSHES = [
    Push(0, "ttl:0", 100.0, 100.1, "a", 1.0),
    Push(1, "again:0", 100.0, 100.1),
    Push(2, "again:0", 102.0, 102.1),
    Push(3, "group:3", 100.0, 100.1, "a"),
    Push(4, "group:4", 100.0, 100.1, "a"),
]
RUNS = {0: (100.2, 100.5), 1: (100.2, 103.0), 2: (103.1, 104.0), 3: (105.2, 106.0), 4: (107.2, 108.0)}
"""When each job is claimed, and done."""


@pytest.mark.parametrize(
    ("violation", "changed", "dropped"),
    [
        (None, {}, 0),
        (None, {0: None}, 1),
        ("run after their TTL", {0: (105.2, 105.3)}, 0),
        ("neither done nor dropped", {0: None}, 0),
        ("dropped too often", {}, 1),
        ("lost", {2: None}, 0),
        ("lost", {3: None}, 0),
        ("run twice at a time", {2: (102.5, 104.0)}, 0),
        ("claimed from a held group", {3: (103.0, 104.0)}, 0),  # held by the test
        ("claimed from a held group", {4: (106.5, 108.0)}, 0),  # held by the worker of job 3
    ],
)
def test_ledger_notices(violation: str | None, changed: dict[int, Any], dropped: int) -> None:
    lines = ["106.0 hold 3 106000000 1", "106.1 over 3 106000000 1", "106.1 retried 3 106000000 1"]
    for number, run in (RUNS | changed).items():
        if run is not None:
            claimed, over = run
            lines += [f"{at} {what} {number} {int(claimed * 1e6)} 1" for at, what in ((claimed, "start"), (over, "end"), (over, "over"))]
            lines.append(f"{over + 0.05} completed {number} {int(claimed * 1e6)} 1")
    holds = [Hold("a", 101.0, 101.1, 60.0, True), Hold("a", 105.0, 105.1, 0.0, True)]
    _, violations = read("\n".join(lines), PUSHES, holds, [], dropped)
    assert {name for name, count in violations.items() if count} == ({violation} if violation else set())


def push(queue: Queue, number: int, chance: random.Random) -> Push:
    kind = chance.choice(["plain", "plain", "ttl", "again", "group"])
    id = f"again:{chance.randrange(4)}" if kind == "again" else f"{kind}:{number}"
    group = chance.choice(GROUPS) if kind in ("ttl", "group") else None
    ttl = chance.uniform(0.1, 4) if kind == "ttl" else None
    asked, replied = time.time(), None
    try:
        queue.push(number, id=id, group=group, ttl=ttl, again=kind == "again", max_attempts=0)
        replied = time.time()
    except redis.RedisError:
        pass
    return Push(number, id, asked, replied, group, ttl)


def hold_groups(queue: Queue, holds: list[Hold], over: Event, chance: random.Random) -> None:
    """Holds and releases one group after the other, until `over` is set."""
    while not over.is_set():
        group = chance.choice(GROUPS)
        for seconds in (chance.uniform(0.5, 5), 0.0):
            asked, accepted = time.time(), False
            try:
                accepted = queue.hold(group, seconds)
            except redis.RedisError:
                pass
            holds.append(Hold(group, asked, time.time(), seconds, accepted))
            over.wait(chance.uniform(0, 5) if seconds else 0.2)


def left(stats: Any) -> int:
    return sum(stats[state] for state in ("ready", "delayed", "claimed"))


def read(
    ledger: str, pushes: list[Push], holds: list[Hold], doubts: list[tuple[float, float]], dropped: int
) -> tuple[dict[str, int], dict[str, int]]:
    """Returns figures and violations. `dropped`: how many jobs the queue dropped because of their TTL."""

    def in_doubt(earliest: float, latest: float) -> bool:
        """Returns whether the replica may lack writes of the server from between these moments."""
        return any(earliest <= killed and latest >= replicated for replicated, killed in doubts)

    started: dict[int, list[tuple[int, float]]] = {}
    ended: set[int] = set()
    over: dict[tuple[int, int], float] = {}
    completed: dict[int, list[tuple[int, float]]] = {}
    retried: dict[tuple[int, int], float] = {}
    held: list[tuple[int, int, float]] = []
    released: set[tuple[int, int]] = set()
    pids: dict[tuple[int, int], str] = {}
    unclear: list[tuple[str, float]] = []
    """When a worker did not learn which of its commands were accepted. It got no reply, or the reply to several ACKs
    did not tell which of them were too late."""
    events: Counter[str] = Counter()
    for line in ledger.splitlines():
        words = line.split()
        at, what, token = float(words[0]), words[1], int(words[3])
        number = int(words[2]) if words[2].isdigit() else -1
        events[what] += 1
        pids[number, token] = words[4]
        if what == "disconnected" or (what == "stale" and number == -1):
            unclear.append((words[4], at))
        if what == "start":
            started.setdefault(number, []).append((token, at))
        elif what == "end":
            ended.add(number)
        elif what == "over":
            over[number, token] = at
        elif what == "completed":
            completed.setdefault(number, []).append((token, at))
        elif what == "retried":
            retried[number, token] = at
        elif what == "hold":
            held.append((number, token, at))
        elif what == "released":
            released.add((number, token))

    def is_final(number: int, token: int, at: float) -> bool:
        """Returns whether the ACK or NACK was certainly accepted. A token is the time of its claim in microseconds."""
        # The command was sent after the end of the handler.
        sent = over.get((number, token), token / 1e6)
        # A command that was sent again after a lost reply counts as accepted, although the job may have been claimed in
        # between.
        is_unclear = any(pid == pids[number, token] and sent <= when <= at + 0.1 for pid, when in unclear)
        return not is_unclear and not in_doubt(token / 1e6, token / 1e6) and not in_doubt(sent, at)

    accepted = [push for push in pushes if push.replied and not in_doubt(push.asked, push.replied)]
    final = {number: [(token, at) for token, at in acks if is_final(number, token, at)] for number, acks in completed.items()}
    # After a final ACK, the job must not be claimed, and no handler may begin with an earlier claim.
    late = [
        number
        for number, starts in started.items()
        for token, at in starts
        if any((at if token < by else token / 1e6) > when for by, when in final.get(number, ()) if by != token)
    ]
    # AGAIN: a later push of the same ID stands for all earlier ones.
    last_started: dict[str, int] = {}
    last_ended: dict[str, int] = {}
    runs: dict[str, list[tuple[int, int, float]]] = {}
    for push in pushes:
        if push.number in started:
            last_started[push.id] = push.number
        if push.number in ended:
            last_ended[push.id] = push.number
        runs.setdefault(push.id, []).extend((token, push.number, at) for token, at in started.get(push.number, ()))
    lasting = [push for push in accepted if push.ttl is None]
    lost = [push for push in lasting if push.number > last_started.get(push.id, -1)]
    undone = [push for push in lasting if last_started.get(push.id, -1) >= push.number > last_ended.get(push.id, -1)]

    # A job is claimed a second time only if its first run is over, or if its lease has expired. An accepted ACK shows
    # that no other worker had claimed the job.
    twice = 0
    for each in runs.values():
        each.sort()
        for place, (token, number, at) in enumerate(each):
            leased = 0.0 if in_doubt(token / 1e6, token / 1e6) else token / 1e6 + LEASE
            acked = next((when for by, when in final.get(number, ()) if by == token), 0.0)
            for other, *_ in each[place + 1 :]:
                claimed = other / 1e6
                if claimed > over.get((number, token), at) - PRECISION or (number, token) in released:
                    break
                twice += claimed < leased - PRECISION or (claimed < acked and not in_doubt(claimed, claimed))

    # TTL: after its TTL, a job is not claimed. If no handler finished a job, the queue has dropped it.
    perishable = [push for push in pushes if push.ttl is not None]
    stale = [
        push
        for push in perishable
        for token, _ in started.get(push.number, ())
        if push.replied and push.ttl and token / 1e6 > push.replied + push.ttl + PRECISION
    ]
    least = sum(push.ttl is not None and push.number not in ended for push in accepted)
    most = sum(not final.get(push.number) for push in perishable)

    # HOLD: no job of the group is claimed until the hold expires, or until another call may have replaced the hold.
    group_of = {push.number: push.group for push in pushes}
    for number, token, at in held:
        replied = retried.get((number, token))
        is_accepted = replied is not None and is_final(number, token, replied)
        if replied is None or not is_accepted:
            # The NACK may take effect at any time before the next claim of the job.
            replied = min((other for other, _ in started[number] if other > token), default=sys.maxsize) / 1e6
        holds = [*holds, Hold(group_of[number] or "", at, replied, HELD, is_accepted)]
    claims = [(token / 1e6, group_of.get(number)) for number, starts in started.items() for token, _ in starts]
    windows = []
    for hold in holds:
        if hold.accepted and hold.seconds and not in_doubt(hold.asked, hold.replied):
            others = (other.asked for other in holds if other.group == hold.group and other is not hold and other.replied >= hold.asked)
            end = min((hold.asked + hold.seconds, *others))
            if end > hold.replied:
                windows.append((hold.group, hold.replied + PRECISION, end - PRECISION))
    during = [group == other for group, begin, end in windows for claim, other in claims if begin < claim < end]

    return {
        "accepted": len(accepted),
        "in doubt: seconds": round(sum(killed - replicated for replicated, killed in doubts)),
        "in doubt: pushes": sum(push.replied is not None for push in pushes) - len(accepted),
        "ACKs in doubt, or unclear": sum(map(len, completed.values())) - sum(map(len, final.values())),
        "runs": events["start"],
        "leases lost": events["lost"],
        **{kind: events[kind] for kind in ("completed", "failed", "released", "stale")},
        "pushes with TTL": len(perishable),
        "dropped by TTL": dropped,
        "pushes with AGAIN": sum(push.id.startswith("again") for push in pushes),
        "AGAIN during a run": sum(
            any(at < push.asked < over.get((number, token), at) for token, number, at in runs[push.id])
            for push in pushes
            if push.id.startswith("again")
        ),
        "holds": len(windows),
        "holds by workers": len(retried.keys() & {(number, token) for number, token, _ in held}),
        "claims of others during holds": during.count(False),
    }, {
        "lost": len(lost),
        "undone": len(undone),
        "run after an accepted ACK": len(late),
        "run twice at a time": twice,
        "run after their TTL": len(stale),
        "neither done nor dropped": max(0, least - dropped),
        "dropped too often": max(0, dropped - most),
        "claimed from a held group": during.count(True),
    }
