"""What an attempt has done so far is there at the next attempt, and a recurring job can be declared at each start."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from zeitset import Job, Queue, Retry

from .support import until, working


def test_the_next_attempt_reads_the_progress_of_the_last(r: Any) -> None:
    queue, seen = Queue(r, "q"), []

    def in_a_thread(job: Job) -> None:
        seen.append(job.last_progress())
        if job.attempt == 1:
            assert job.progress("40 %") is True
            raise Retry(after=0)

    async def in_the_loop(job: Job) -> None:
        seen.append(await job.last_progress())
        if job.attempt == 1:
            await asyncio.wait([job.progress("\u00e9t\u00e9")])
            raise Retry(after=0)

    for handler, text in ((in_a_thread, "40 %"), (in_the_loop, "\u00e9t\u00e9")):
        queue.push(1, id="j")
        with working(r, "q", handler) as watched:
            until(lambda: "completed" in watched.kinds())
        assert seen == [None, text]
        seen.clear()


def test_progress_is_shown_and_bounded_and_ends_with_the_claim(r: Any) -> None:
    queue, done = Queue(r, "q"), []

    def handler(job: Job) -> None:
        job.progress("half")
        shown = queue.get("j")
        done.append(shown and (shown.state, shown.progress, shown.fields["progress_ms"] > 1_700_000_000_000))
        with pytest.raises(ValueError, match="1024"):
            job.progress("\u20ac" * 342)
        queue.cancel("j")
        done.append(job.progress("too late"))
        done.append(job.last_progress())

    queue.push(1, id="j")
    with working(r, "q", handler):
        until(lambda: len(done) == 3)
    assert done == [("claimed", "half", True), False, None]


def test_a_recurring_job_is_declared_at_each_start(r: Any) -> None:
    queue = Queue(r, "q")
    assert queue.push({"v": 1}, id="nightly", at=4102444800, every="1d", declare=True) == "nightly"
    assert queue.push({"v": 2}, id="nightly", at=4102444800, every="1d", group="g", declare=True) == "nightly"
    job = queue.get("nightly")
    assert job and (job.payload, job.group, job.due_ms) == ({"v": 2}, "g", 4102444800000)
    assert queue.stats()["pushed"] == 1
    with pytest.raises(TypeError, match="declare needs"):
        queue.push(1, id="x", declare=True)
    with pytest.raises(TypeError, match="either"):
        queue.push(1, id="x", every="1d", declare=True, again=True)
