"""A queue in several keys, so that the nodes of a cluster share it. `clients/shard-cases.json` says which job goes where, here and in Node."""

from __future__ import annotations

from binascii import crc_hqx

from ._call import encoded


def keys_of(queue: str, shards: int | None) -> list[str]:
    """The keys of a queue. Each shard has a hash tag of its own."""
    if shards is None:
        return [queue]
    if not 1 <= shards <= 1024:
        raise ValueError("shards must be 1 to 1024")
    if "{" in queue or "}" in queue:
        raise ValueError(f"the name of a queue with shards must not contain braces: {queue!r}")
    return [f"{{{queue}:{number}}}" for number in range(shards)]


def shard_of(id: str, group: str | None, shards: int) -> int:
    """The shard of a job: a hash of its group, or of its ID if it has none."""
    return crc_hqx(encoded(group or id), 0) % shards
