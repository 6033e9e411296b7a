"""Measures the decisions per second of a limit, with and without units ahead:
ahead_python.py PORT SECONDS PROCESSES AHEAD (0: none)."""

import sys
import time
from multiprocessing import Barrier, Process, Queue

import redis

from zeitset import Limiter

RATE = "100000000/1s"  # all calls are allowed


def decide(port, seconds, ahead, barrier, found):
    limiter = Limiter(redis.Redis(port=port), "bench", RATE, ahead=ahead or None)
    check = limiter.check
    check("warm")
    barrier.wait()
    end = time.monotonic() + seconds
    decided = 0
    while time.monotonic() < end:
        for _ in range(100):
            check("hot")
        decided += 100
    found.put(decided)
    limiter.close()


def main():
    port, processes, ahead = int(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4])
    seconds = float(sys.argv[2])
    r = redis.Redis(port=port)
    r.flushall()
    barrier, found = Barrier(processes + 1), Queue()
    children = [Process(target=decide, args=(port, seconds, ahead, barrier, found)) for _ in range(processes)]
    for child in children:
        child.start()
    barrier.wait()
    r.config_resetstat()
    before = r.info("cpu")
    decided = sum(found.get() for _ in children)
    after = r.info("cpu")
    stats = r.info("commandstats")
    commands = sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("ZRL.CHECK", "ZRL.REFUND"))
    cpu = sum(after[name] - before[name] for name in ("used_cpu_user", "used_cpu_sys"))
    for child in children:
        child.join()
    print(f"{processes} {ahead} {decided / seconds:.0f} {commands / seconds:.0f} {cpu / seconds * 100:.1f}", flush=True)


if __name__ == "__main__":
    main()
