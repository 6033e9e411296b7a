"""Reports finished jobs to the server: makes the commands, and reads the replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from redis.crc import key_slot
from redis.exceptions import ClusterCrossSlotError, ResponseError

from ._call import Word, encoded, mapping
from ._job import Event, Job, Outcome, error_text
from ._link import Link
from .errors import boundary, is_away, slot_elsewhere

Commands = list[tuple[Word, ...]]
Delay = Callable[[Job], tuple[Word, ...]]


class Outbox:
    """Outcomes that the server has not confirmed."""

    def __init__(self, delay: Delay, emit: Callable[[Event], None]) -> None:
        self._delay = delay
        self._emit = emit
        self._waiting: list[Outcome] = []
        self._unconfirmed: dict[Job, None] = {}
        self._delivering = asyncio.Lock()
        self.reported = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._unconfirmed)

    @property
    def jobs(self) -> Iterable[Job]:
        return list(self._unconfirmed)

    def add(self, outcome: Outcome) -> None:
        self._waiting.append(outcome)
        self._unconfirmed[outcome.job] = None
        self.reported.set()

    def take(self) -> list[Outcome]:
        """Returns the outcomes to send. The caller must pass them to `settle` with the replies, or to `put_back`."""
        taken, self._waiting = self._waiting, []
        return taken

    def put_back(self, outcomes: list[Outcome]) -> None:
        """Puts unconfirmed outcomes in front of the waiting outcomes, so that they are sent again. After `settle`,
        `outcomes` is empty, and this function does nothing."""
        self._waiting[:0] = [replace(outcome, repeated=True) for outcome in outcomes]
        if outcomes:
            self.reported.set()

    def settle(self, outcomes: list[Outcome], replies: list[Any]) -> Exception | None:
        """Reads the replies, and empties `outcomes`. If an error prevented the server from taking an outcome, returns
        that error."""
        with boundary("ZQ.ACK"):
            again, events, problem = read_replies(outcomes, replies, self._delay)
        for outcome in outcomes:
            self._unconfirmed.pop(outcome.job, None)
        outcomes.clear()
        for outcome in again:
            self.add(outcome)
        for event in events:
            self._emit(event)
        return problem

    async def deliver(self, link: Link) -> None:
        async with self._delivering:
            if not self._waiting:
                return
            await link.open()
            outcomes = self.take()
            try:
                problem = self.settle(outcomes, await link.request(commands_of(outcomes)))
            except BaseException:
                self.put_back(outcomes)
                raise
            if problem is not None:
                raise problem


def steps(outcomes: list[Outcome]) -> Iterator[tuple[list[Outcome], Commands]]:
    """Yields outcomes with their commands. Completed jobs of a queue share one ZQ.ACK. A job with chained commands gets
    a MULTI. Any other outcome gets a ZQ.NACK."""
    plain: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        job = outcome.job
        if outcome.nack is not None:
            asked: Commands = [("ZQ.GET", job._key, encoded(job.id))] if outcome.may_be_last else []
            yield [outcome], [("ZQ.NACK", job._key, encoded(job.id), job.token, *outcome.nack), *asked]
        elif outcome.chained:
            ack: tuple[Word, ...] = ("ZQ.ACK", job._key, encoded(job.id), job.token)
            yield [outcome], [("MULTI",), ack, *outcome.chained, ("EXEC",)]
        else:
            plain.setdefault(job._key, []).append(outcome)
    for queue, group in plain.items():
        acks: list[Word] = ["ZQ.ACK", queue]
        for outcome in group:
            acks += (encoded(outcome.job.id), outcome.job.token)
        yield group, [tuple(acks)]


def commands_of(outcomes: list[Outcome]) -> Commands:
    return [command for _, commands in steps(outcomes) for command in commands]


def read_replies(
    outcomes: list[Outcome], replies: list[Any], delay: Delay
) -> tuple[list[Outcome], list[Event], Exception | None]:
    """Returns the outcomes to send again, and the worker's events (`on_event`). Also returns an error if the server did
    not accept an outcome."""
    again: list[Outcome] = []
    events: list[Event] = []
    problem: Exception | None = None
    rest = iter(replies)
    for group, commands in steps(outcomes):
        own = [next(rest) for _ in commands]
        outcome = group[0]
        # In a MULTI, the reply to the ACK shows whether the server takes commands at all.
        first = own[1] if outcome.chained else own[0]
        if isinstance(first, Exception):
            problem = first
            if is_away(first):
                again += group
            else:
                events += [Event("error", each.job, error=first) for each in group]
        elif outcome.chained:
            more, reported, refused = _transaction(outcome, own, delay)
            again += more
            events += reported
            problem = refused or problem
        else:
            # For each outcome that was sent twice, assumes that the first report ended the claim.
            missed = max(0, len(group) - _integer(first) - sum(each.repeated for each in group))
            if missed and len(group) == 1:
                events.append(Event("stale", outcome.job))
            else:
                # The reply does not tell which of several ACKs came too late.
                events += [each.event for each in group] + [Event("stale")] * missed
                if outcome.nack is not None and _is_dead(outcome, own[1:]):
                    events.append(replace(outcome.event, kind="dead"))
    return again, events, problem


def _transaction(
    outcome: Outcome, replies: list[Any], delay: Delay
) -> tuple[list[Outcome], list[Event], Exception | None]:
    executed = replies[-1]
    if isinstance(executed, Exception):
        # The server has refused a chained command, and therefore also the ACK.
        cause = next((reply for reply in replies if isinstance(reply, Exception)), executed)
        if slot_elsewhere(cause) not in (None, key_slot(encoded(outcome.job._key))):
            cause = ClusterCrossSlotError("the key of a chained command must be in the slot of the job's queue")
        if is_away(cause):
            return [outcome], [], cause
        event = Event("failed", outcome.job, outcome.event.seconds, cause)
        return [Outcome(outcome.job, event, (*delay(outcome.job), "ERROR", error_text(cause)))], [], None
    if executed is None:
        return [outcome], [], None
    counted = _integer(executed[0]) == 1 or outcome.repeated
    events = [outcome.event if counted else Event("stale", outcome.job)]
    events += [Event("error", outcome.job, error=reply) for reply in executed if isinstance(reply, ResponseError)]
    return [], events, None


def _is_dead(outcome: Outcome, asked: list[Any]) -> bool:
    if not asked:
        return outcome.nack is not None and "DEAD" in outcome.nack
    (job,) = asked
    return job is not None and not isinstance(job, Exception) and mapping(job)["state"] == b"dead"


def _integer(reply: Any) -> int:
    if not isinstance(reply, int):
        raise TypeError("not an integer")
    return reply
