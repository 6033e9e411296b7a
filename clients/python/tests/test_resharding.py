"""A queue with shards, while slots move between the nodes of a cluster and a primary is killed. No job is lost, and
groups keep their order.

RESHARDING_SECONDS is how long the test pushes jobs (default 12), and RESHARDING_SEED repeats a run. Redis replicates
asynchronously, so a push counts as accepted only if a replica has it (WAIT).
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from pathlib import Path
from threading import Event, Thread
from typing import Any

import redis

from zeitset import Job, Queue

from .support import Server, clustered, move, until, working

SECONDS = float(os.environ.get("RESHARDING_SECONDS", "12"))
SHARDS = 16
CONCURRENCY = 3
OPTIONS = ("--appendonly", "no", "--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0")


class Resharding:
    """Moves slots, and kills a primary in the middle."""

    def __init__(self, nodes: list[Server], keys: list[str], chance: random.Random) -> None:
        self._live = list(nodes[:3])
        self._nodes = nodes
        self._keys = keys
        self._random = chance
        self._half = time.monotonic() + SECONDS / 2
        self.moved = 0
        self.killed: Server | None = None
        self.error: BaseException | None = None
        self._over = Event()
        self._thread = Thread(target=self._run)
        self._thread.start()

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        if self.error is not None:
            raise self.error

    def _run(self) -> None:
        try:
            while not self._over.wait(self._random.uniform(0, 0.3)):
                if self.killed is None and time.monotonic() > self._half:
                    self._kill()
                else:
                    self._move()
        except BaseException as error:
            self.error = error

    def _move(self) -> None:
        key = self._random.choice(self._keys)
        old = next(node for node in self._live if self._knows(node, key, node))
        new = self._random.choice([node for node in self._live if node is not old])
        move(key, old, new, [node for node in self._live if node not in (old, new)])
        with new.client() as client:
            # If a replica does not know the slot or does not have the queue, it cannot replace its primary.
            if self.killed is None:
                until(lambda: replicated(client, f"{key}:moved"))
            until(lambda: all(self._knows(node, key, new) for node in self._nodes if node is not self.killed))
        self.moved += 1

    def _kill(self) -> None:
        victim = self._random.choice(self._live)
        number = self._live.index(victim)
        victim.kill()
        self.killed = victim
        self._live[number] = self._nodes[3 + number]
        with self._live[number].client() as client:
            until(lambda: client.info("replication")["role"] == "master")
        until(lambda: all(self._knows(node, key) for node in self._live for key in self._keys))

    def _knows(self, node: Server, key: str, primary: Server | None = None) -> bool:
        """Returns whether the node knows the primary of the key."""
        with node.client() as client:
            slot = client.execute_command("CLUSTER", "KEYSLOT", key)
            for first, last, owner, *_ in client.execute_command("CLUSTER", "SLOTS", NEVER_DECODE=True):
                if first <= slot <= last:
                    return owner[1] in ([node.port for node in self._live] if primary is None else [primary.port])
        return False


def replicated(client: Any, key: str) -> bool:
    """Returns whether a replica has all writes. WAIT counts only for writes of its own connection, so this connection
    writes first."""
    pipe = client.pipeline(transaction=False)
    pipe.set(key, 1)
    pipe.delete(key)
    pipe.execute_command("WAIT", 1, 1000)
    return bool(pipe.execute()[-1] >= 1)


def push(cluster: Any, queue: Queue, resharding: Resharding, **job: Any) -> None:
    """Pushes a job until the push is accepted. A repeated push has the ID of the first push."""
    call = queue.calls.push(**job)
    end = time.monotonic() + 20
    while True:
        replicas = 0 if resharding.killed is not None else 1  # no other node will be killed
        try:
            node = cluster.get_node_from_key(call.args[1])
            with redis.Redis(port=node.port, socket_timeout=1, single_connection_client=True) as r:
                r.execute_command(*call.args)
                if r.wait(replicas, 1000) >= replicas:
                    return
        except (redis.RedisError, OSError):
            try:
                cluster.nodes_manager.initialize()
            except redis.RedisError:
                pass
        assert time.monotonic() < end, "the push is not accepted"
        time.sleep(0.02)


def test_nothing_is_lost_while_slots_move_and_a_node_fails(tmp_path: Path) -> None:
    seed = int(os.environ.get("RESHARDING_SEED", random.randrange(1 << 32)))
    chance = random.Random(seed)
    pushed: Counter[str] = Counter()
    runs: list[tuple[str, int, str]] = []
    running, most = [0, 0], [0, 0]

    def begin(worker: int, job: Job) -> None:
        assert job.queue == "mails"
        runs.append((job.payload["group"], job.payload["number"], job._key))
        running[worker] += 1
        most[worker] = max(most[worker], running[worker])

    async def task(job: Job) -> None:
        begin(0, job)
        try:
            await asyncio.sleep(job.payload["seconds"])
        finally:
            running[0] -= 1

    def thread(job: Job) -> None:
        begin(1, job)
        time.sleep(job.payload["seconds"])
        running[1] -= 1

    options: dict[str, Any] = {"shards": SHARDS, "concurrency": CONCURRENCY, "lease": 5}
    with clustered(tmp_path, 3, *OPTIONS, replicas=True) as nodes:
        with redis.RedisCluster(port=nodes[0].port, host="127.0.0.1") as cluster:
            queue = Queue(cluster, "mails", shards=SHARDS)
            queue.configure(ordered=True)
            keys = [shard.calls.key for shard in queue.shards]
            with working(cluster, "mails", task, **options) as one, working(cluster, "mails", thread, **options) as two:
                resharding = Resharding(nodes, keys, chance)
                began = time.monotonic()
                try:
                    while time.monotonic() < began + SECONDS:
                        group = f"g{chance.randrange(40)}"
                        payload = {"group": group, "number": pushed[group], "seconds": chance.choice([0, 0, 0.005, 0.05])}
                        push(cluster, queue, resharding, payload=payload, id=f"{group}:{pushed[group]}", group=group)
                        pushed[group] += 1
                        time.sleep(0.005)
                finally:
                    resharding.end()
                until(lambda: {run[:2] for run in runs} == {(group, n) for group in pushed for n in range(pushed[group])}, 30)
                until(lambda: is_empty(cluster, queue), 30)
                events = Counter(one.kinds() + two.kinds())
                assert (one.worker.state, two.worker.state) == ("running", "running")
            assert is_empty(cluster, queue)
    first: dict[str, list[int]] = {group: [] for group in pushed}
    for group, number, _ in runs:
        if number not in first[group]:
            first[group].append(number)
    print(
        f"\nRESHARDING_SEED={seed}: {SECONDS:g} s, {sum(pushed.values())} jobs, {resharding.moved} slots moved, 1 primary killed, "
        f"{len(runs)} runs, {dict(events)}"
    )
    assert all(numbers == sorted(numbers) for numbers in first.values()), "a group keeps its order"
    assert max(most) <= CONCURRENCY and resharding.moved > 3 and resharding.killed is not None
    assert {key for *_, key in runs} == {queue.calls.shard_of("", group).key for group in pushed}


def is_empty(cluster: Any, queue: Queue) -> bool:
    try:
        stats = queue.stats()
        return stats is not None and not any(stats[state] for state in ("ready", "delayed", "claimed", "dead"))
    except redis.RedisError:
        cluster.nodes_manager.initialize()
        return False
