"""What is told to the server about finished jobs, as commands, and what its replies say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from redis.exceptions import ResponseError

from ._call import Word, encoded
from ._job import Event, Job, Outcome, error_text
from .errors import is_away

Commands = list[tuple[Word, ...]]


def steps(outcomes: list[Outcome]) -> Iterator[tuple[list[Outcome], Commands]]:
    """One ZQ.ACK for each queue, a MULTI for each job with chained commands, a ZQ.NACK for each job given back."""
    plain: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        job = outcome.job
        if outcome.nack is not None:
            yield [outcome], [("ZQ.NACK", job.queue, encoded(job.id), job.token, *outcome.nack)]
        elif outcome.chained:
            ack: tuple[Word, ...] = ("ZQ.ACK", job.queue, encoded(job.id), job.token)
            yield [outcome], [("MULTI",), ack, *outcome.chained, ("EXEC",)]
        else:
            plain.setdefault(job.queue, []).append(outcome)
    for queue, group in plain.items():
        acks: list[Word] = ["ZQ.ACK", queue]
        for outcome in group:
            acks += (encoded(outcome.job.id), outcome.job.token)
        yield group, [tuple(acks)]


def commands_of(outcomes: list[Outcome]) -> Commands:
    return [command for _, commands in steps(outcomes) for command in commands]


def read_replies(
    outcomes: list[Outcome], replies: list[Any], delay: Callable[[Job], tuple[Word, ...]]
) -> tuple[list[Outcome], list[Event], BaseException | None]:
    """What has to be sent again, what happened, and the error that stands in the way."""
    again: list[Outcome] = []
    events: list[Event] = []
    problem: BaseException | None = None
    rest = iter(replies)
    for group, commands in steps(outcomes):
        own = [next(rest) for _ in commands]
        # In a MULTI, the reply to the ACK tells whether the server takes commands at all.
        first = own[1] if len(own) > 1 else own[0]
        if isinstance(first, Exception):
            problem = first
            if is_away(first):
                again += group
            else:
                events += [Event("error", outcome.job, error=first) for outcome in group]
        elif len(own) == 1:
            missed = len(group) - int(first)
            if missed and len(group) == 1:
                events.append(Event("stale", group[0].job))
            else:
                # Which of several came too late is not known.
                events += [outcome.event for outcome in group] + [Event("stale")] * missed
        else:
            more, told = _transaction(group[0], own, delay)
            again += more
            events += told
    return again, events, problem


def _transaction(
    outcome: Outcome, replies: list[Any], delay: Callable[[Job], tuple[Word, ...]]
) -> tuple[list[Outcome], list[Event]]:
    executed = replies[-1]
    if isinstance(executed, Exception):
        # The server has refused a chained command, and so the ACK.
        cause = next((reply for reply in replies if isinstance(reply, Exception)), executed)
        event = Event("failed", outcome.job, outcome.event.seconds, cause)
        return [Outcome(outcome.job, event, (*delay(outcome.job), "ERROR", error_text(cause)))], []
    if executed is None:
        return [outcome], []
    events = [outcome.event if executed[0] == 1 else Event("stale", outcome.job)]
    events += [Event("error", outcome.job, error=reply) for reply in executed if isinstance(reply, ResponseError)]
    return [], events
