"""The order in which a claim names the queues.

The server takes jobs from the first queue that has some. Without weights, the order is always the same. With weights,
each queue has a clock, which runs slower the higher its weight is: a job moves it by 1 / weight. The queue whose clock is
behind comes first. A queue that had no job for a while does not catch up: its clock is set to that of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class Order:
    def __init__(self, queues: list[str], weights: Mapping[str, float] | None) -> None:
        self._queues = queues
        self._weights = weights
        self._clocks = dict.fromkeys(queues, 0.0)

    def next(self) -> list[str]:
        if self._weights is None:
            return self._queues
        return sorted(self._queues, key=lambda queue: self._clocks[queue])

    def claimed(self, order: list[str], jobs: Iterable[str], is_full: bool) -> None:
        """Handles the reply to a claim that named the queues in `order`. `jobs`: the queue of each claimed job.
        `is_full`: whether the claim got as many jobs as it asked for. If not, all queues are empty now."""
        if self._weights is None:
            return
        found = list(jobs)
        last = order.index(found[-1]) if found and is_full else len(order)
        for queue in found:
            self._clocks[queue] += 1 / self._weights[queue]
        # The server has passed by the queues before the last one: they are empty.
        for queue in order[:last]:
            self._clocks[queue] = max(self._clocks.values())


def checked(weights: Mapping[str, float] | None, queues: list[str]) -> Mapping[str, float] | None:
    if weights is None:
        return None
    if set(weights) != set(queues):
        raise ValueError(f"weights need a number for each queue of the worker: {', '.join(queues)}")
    for queue, weight in weights.items():
        if not 0 < weight < float("inf"):
            raise ValueError(f"a weight is a number above 0: {queue!r} has {weight!r}")
    return weights
