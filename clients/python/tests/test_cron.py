from __future__ import annotations

import asyncio
import time
from datetime import datetime, timezone
from typing import Any

import pytest

from zeitset import Cron, Job, Queue, Retry
from zeitset._codec import Json
from zeitset._upkeep import Upkeep

from .support import until, working


def utc(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1000)


@pytest.mark.parametrize(
    "expression, after, expected",
    [
        ("0 3 * * *", "2026-01-10T02:00", "2026-01-11T02:00"),
        ("0 3 * * *", "2026-07-10T01:00", "2026-07-11T01:00"),
        # The clock is set forward: 02:30 does not exist, so the job runs an hour later.
        ("30 2 * * *", "2026-03-28T01:30", "2026-03-29T01:30"),
        ("30 2 * * *", "2026-03-29T01:30", "2026-03-30T00:30"),
        ("*/20 * * * *", "2026-03-29T00:40", "2026-03-29T01:00"),
        # The clock is set back: 02:30 occurs twice, and counts once. With `*` as the hour, both times count.
        ("30 2 * * *", "2026-10-24T00:30", "2026-10-25T00:30"),
        ("30 2 * * *", "2026-10-25T00:30", "2026-10-26T01:30"),
        ("0 * * * *", "2026-10-25T00:00", "2026-10-25T01:00"),
        ("0 * * * *", "2026-10-25T01:00", "2026-10-25T02:00"),
        ("*/20 * * * *", "2026-10-25T00:40", "2026-10-25T01:00"),
        ("*/20 * * * *", "2026-10-25T01:20", "2026-10-25T01:40"),
        ("0 0 29 2 *", "2026-03-01T00:00", "2028-02-28T23:00"),
    ],
)
def test_times_are_those_of_the_wall_clock(expression: str, after: str, expected: str) -> None:
    assert Cron("x", expression, tz="Europe/Berlin").next_ms(utc(after)) == utc(expected)


def test_the_next_run_is_pushed_with_the_ack(one: Any) -> None:
    queue, runs = Queue(one, "q"), []

    def handler(job: Job) -> None:
        runs.append((job.id, job.payload))

    cron = Cron("report", "0 3 1 1 *", tz="Europe/Berlin", payload={"kind": "yearly"})
    with working(one, "q", handler, cron=[cron]) as watched:
        waiting = until(lambda: queue.get("report"))
        assert waiting.state == "delayed" and waiting.due_ms == cron.next_ms(utc("2026-11-21T00:00"))
        queue.reschedule("report", delay=0)
        until(lambda: watched.kinds() == ["completed"])
        assert runs == [("report", {"kind": "yearly"})]
        again = queue.get("report")
    assert again and (again.state, again.due_ms, again.attempts) == ("delayed", waiting.due_ms, 0)
    assert queue.stats()["pushed"] == 2


def test_a_run_that_fails_is_given_up_and_the_next_one_comes(one: Any) -> None:
    queue = Queue(one, "q")
    queue.configure(backoff=("1ms", "1ms"))

    def handler(job: Job) -> None:
        raise RuntimeError("no")

    with working(one, "q", handler, cron=[Cron("report", "0 3 1 1 *", max_attempts=3)]) as watched:
        until(lambda: queue.get("report"))
        queue.reschedule("report", delay=0)
        until(lambda: watched.kinds() == ["failed"] * 3)
        job = queue.get("report")
    assert job and (job.state, job.attempts) == ("delayed", 0)


def test_a_run_that_asks_for_one_attempt_too_many_is_given_up(one: Any) -> None:
    queue, errors = Queue(one, "q"), [Retry(after="1d", free=True), Retry(after="1d")]

    def handler(job: Job) -> None:
        raise errors.pop(0)

    cron = Cron("report", "0 3 1 1 *", max_attempts=1)
    with working(one, "q", handler, cron=[cron]) as watched:
        until(lambda: queue.get("report"))
        queue.reschedule("report", delay=0)
        until(lambda: watched.kinds() == ["retried"])
        queue.reschedule("report", delay=0)
        until(lambda: watched.kinds() == ["retried", "failed"])
        job = queue.get("report")
    assert job and (job.state, job.attempts, job.due_ms) == ("delayed", 0, due(cron)), "the next run waits"


def test_another_expression_moves_the_job(one: Any) -> None:
    queue = Queue(one, "q")
    for expression in ("0 3 1 1 *", "0 4 1 1 *", "0 4 1 1 *"):
        cron = Cron("report", expression)
        with working(one, "q", lambda job: None, cron=[cron]):
            until(lambda: (job := queue.get("report")) and job.due_ms == cron.next_ms(utc("2026-11-21T00:00")))
    assert queue.stats()["pushed"] == 1


CHANGES: list[tuple[dict[str, Any], dict[str, Any], int]] = [
    ({"payload": "old"}, {"payload": "new"}, 1),
    ({"priority": 1}, {}, 1),
    ({"group": "acme"}, {"group": "bloom", "priority": -1}, 1),
    ({"expression": "0 3 1 1 *", "payload": "old"}, {"expression": "0 4 2 1 *", "payload": "new"}, 1),
    # With shards, another group means another shard.
    ({"group": "acme"}, {"group": "bloom", "payload": "new"}, 8),
    ({"queue": "first"}, {"queue": "second", "payload": "new"}, 1),
    ({"queue": "first"}, {"queue": "second", "payload": "new"}, 3),
]


def all_shards(client: Any, shards: int) -> list[Any]:
    return [shard for name in ("first", "second") for shard in Queue(client, name, shards=shards).shards]


def waiting_runs(client: Any, shards: int) -> list[Any]:
    return [job for shard in all_shards(client, shards) if (job := shard.get("report"))]


@pytest.mark.parametrize("before, after, shards", CHANGES)
def test_a_deploy_takes_effect_at_the_next_run_next_to_the_old_process(
    one: Any, before: dict[str, Any], after: dict[str, Any], shards: int
) -> None:
    runs: list[Any] = []

    def cron(changes: dict[str, Any]) -> Cron:
        options = {"expression": "0 3 1 1 *", "payload": None} | changes
        return Cron("report", options.pop("expression"), **options)

    def handler(job: Job) -> None:
        runs.append(job.payload)

    old, new = cron(before), cron(after)
    with working(one, ["first", "second"], handler, cron=[old], shards=shards):
        until(lambda: waiting_runs(one, shards))
        with working(one, ["first", "second"], handler, cron=[new], shards=shards):
            until(lambda: is_of(new, waiting_runs(one, shards)))
            for shard in all_shards(one, shards):
                shard.reschedule("report", delay=0)
            until(lambda: runs)
    with working(one, ["first", "second"], handler, cron=[new], shards=shards):
        until(lambda: is_of(new, waiting_runs(one, shards)))
    assert runs == [new.payload]


def due(cron: Cron) -> int:
    return cron.next_ms(int(time.time() * 1000))


def is_of(cron: Cron, jobs: list[Any]) -> bool:
    found = [(job.payload, job.priority, job.group, job.due_ms) for job in jobs]
    return found == [(cron.payload, cron.priority, cron.group, due(cron))]


def test_a_run_that_is_being_worked_on_is_not_replaced_and_the_job_of_another_is_left_alone(one: Any) -> None:
    queue, other = Queue(one, "first"), Queue(one, "second")
    # Not a run of a cron expression: one has a limit of attempts, the other one is not due at a whole minute.
    other.push("mine", id="report", max_attempts=3, at=2_000_000_040)
    queue.push("old", id="report")
    ((_, _, token, *_),) = one.execute_command("ZQ.CLAIM", 1, "first", "LEASE", "1m")
    with working(one, ["first", "second"], print, cron=[Cron("report", "0 3 1 1 *", payload="new")]):
        pass
    job = queue.get("report")
    assert job and (job.state, job.payload) == ("claimed", "old")
    assert (mine := other.get("report")) and mine.payload == "mine"
    assert one.execute_command("ZQ.ACK", "first", "report", token) == 1


class ClaimingLink:
    """A connection of a worker. Before it sends a command of this name, another worker claims the run."""

    def __init__(self, client: Any, before: str) -> None:
        self._client, self._before, self.tokens = client, before, []  # type: ignore[var-annotated]

    async def request(self, commands: list[tuple[Any, ...]]) -> list[Any]:
        if commands[0][0] == self._before and not self.tokens:
            self._client.execute_command("ZQ.RESCHEDULE", commands[0][1], "report", "DELAY", 0)
            ((_, _, token, *_),) = self._client.execute_command("ZQ.CLAIM", 1, commands[0][1], "LEASE", "1m")
            self.tokens.append(token)
        return [self._client.execute_command(*command) for command in commands]


@pytest.mark.parametrize("place", ["first", "second"])
def test_a_run_that_is_claimed_in_the_meantime_goes_on(one: Any, place: str) -> None:
    old, new = Cron("report", "0 3 1 1 *", payload="old"), Cron("report", "0 3 1 1 *", payload="new")
    one.execute_command(*old.push("first", b'"old"', due(old)))
    link: Any = ClaimingLink(one, "ZQ.RESCHEDULE")
    upkeep = Upkeep(["first", "second"], {(place, "report"): new}, Json(), None)
    asyncio.run(upkeep.refresh(link))
    (token,) = link.tokens
    assert one.execute_command("ZQ.ACK", "first", "report", token) == 1


def test_a_run_that_is_overdue_is_not_moved(one: Any) -> None:
    queue, runs = Queue(one, "q"), []
    queue.push(None, id="report", at=1767225600)
    with working(one, "q", lambda job: runs.append(job.id), cron=[Cron("report", "0 3 1 1 *")]):
        until(lambda: runs == ["report"])
        until(lambda: (job := queue.get("report")) and job.state == "delayed")


def test_mistakes() -> None:
    with pytest.raises(ValueError):
        Cron("x", "at noon")
    with pytest.raises(Exception, match="Nowhere"):
        Cron("x", "* * * * *", tz="Europe/Nowhere")
