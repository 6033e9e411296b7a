"""Measures the memory and the processor time of the server for one moving window of the package `limits`. Compares the
Redis storage of the package with the storage of Zeitset.

usage: limits_storage.py PORT; prints rows of a table
"""

import sys

import redis
from limits import RateLimitItemPerHour
from limits.storage import RedisStorage
from limits.strategies import MovingWindowRateLimiter

from zeitset.limits import ZeitsetStorage

CALLS = 300


def measure(r, limiter, item, calls=CALLS):
    """Returns the server's microseconds per call, by INFO commandstats."""
    r.config_resetstat()
    for _ in range(calls):
        limiter.hit(item, "ann")
    stats = r.info("commandstats")
    found = [stats[name] for name in ("cmdstat_evalsha", "cmdstat_ZRL.CHECK") if name in stats]
    return sum(each["usec"] for each in found) / sum(each["calls"] for each in found)


def main():
    port = int(sys.argv[1])
    r = redis.Redis(port=port)
    for limit in (100, 1_000, 70_000):
        for name, storage in (
            ("limits", RedisStorage(f"redis://localhost:{port}")),
            ("zeitset", ZeitsetStorage(f"zeitset://localhost:{port}")),
        ):
            r.flushall()
            limiter = MovingWindowRateLimiter(storage)
            item = RateLimitItemPerHour(limit)
            # Takes units one by one, until only the units for the measured calls are free.
            calls = min(limit, CALLS)
            for _ in range(limit - calls):
                limiter.hit(item, "ann")
            allowed = measure(r, limiter, item, calls)
            denied = measure(r, limiter, item)
            (key,) = r.keys()
            print(f"{limit} {name} {r.memory_usage(key)} {allowed:.1f} {denied:.1f}", flush=True)


if __name__ == "__main__":
    main()
