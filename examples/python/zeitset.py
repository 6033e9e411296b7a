"""What Zeitset answers, as Python values. Copy this file into your project, and grow it as you need."""

from math import ceil
from typing import NamedTuple

from redis import Redis


class Limit(NamedTuple):
    """The six numbers of ZRL.CHECK; times in milliseconds."""

    allowed: bool
    limit: int
    remaining: int
    retry_after_ms: int  # wait this long and the same call succeeds; 0: allowed, -1: it never will
    reset_after_ms: int  # until all units are free
    charged_until_ms: int  # Unix time at which the units of this call come back: what ZRL.REFUND asks for

    def headers(self, policy: str, window: int) -> dict[str, str]:
        """HTTP header fields: Retry-After, and those of draft-ietf-httpapi-ratelimit-headers. Window in seconds."""
        t = seconds(self.retry_after_ms if self.retry_after_ms > 0 else self.reset_after_ms)
        fields = {
            "RateLimit-Policy": f'"{policy}";q={self.limit};w={window}',
            "RateLimit": f'"{policy}";r={self.remaining};t={t}',
        }
        if self.retry_after_ms > 0:
            fields["Retry-After"] = str(seconds(self.retry_after_ms))
        return fields


def seconds(ms: int) -> int:
    """Whole seconds, rounded up: who waits them has waited long enough."""
    return ceil(ms / 1000)


def check(redis: Redis, key: str, limit: int, window: str, cost: int = 1) -> Limit:
    """Takes units from a limit, if they fit: `check(r, "search:ann", 5, "1m")`."""
    allowed, *numbers = redis.execute_command("ZRL.CHECK", key, limit, window, "COST", cost)
    return Limit(allowed == 1, *numbers)


class Job(NamedTuple):
    """A job that ZQ.CLAIM has leased to us. Whoever holds the token may finish it."""

    queue: str
    id: str
    token: int
    attempt: int
    deadline_ms: int
    payload: str


def claim(redis: Redis, queue: str, lease: str, block: str) -> Job | None:
    """The next job that is due; waits for one. The socket's timeout must be longer than `block`."""
    jobs = redis.execute_command("ZQ.CLAIM", 1, queue, "LEASE", lease, "BLOCK", block)
    return Job(*jobs[0]) if jobs else None
