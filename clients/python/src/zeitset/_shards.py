"""Queues of several keys, which the nodes of a cluster share. `clients/shard-cases.json` defines the shard of each job,
for Python and Node.js."""

from __future__ import annotations

from binascii import crc_hqx

from ._call import encoded


def keys_of(queue: str, shards: int | None) -> list[str]:
    """Returns the keys of a queue. Each shard has a hash tag of its own."""
    if shards is None:
        return [queue]
    if not 1 <= shards <= 1024:
        raise ValueError("shards must be 1 to 1024")
    if "{" in queue or "}" in queue:
        raise ValueError(f"the name of a queue with shards must not contain braces: {queue!r}")
    return [f"{{{queue}:{number}}}" for number in range(shards)]


def shard_of(id: str, group: str | None, shards: int) -> int:
    """Returns the number of a job's shard: a hash of its group, or of its ID if it has no group."""
    return crc_hqx(encoded(group or id), 0) % shards
