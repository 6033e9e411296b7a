"""A broker for dramatiq: `dramatiq.set_broker(ZeitsetBroker(url="redis://localhost:6379"))`.

A delayed message stays in its queue until it is due. In dramatiq's own broker for Redis, a worker holds the message in
memory, and sends it again when it is due. If that worker ends at the wrong moment, the message is lost or runs twice.
dramatiq's middleware does the retries.
"""

from __future__ import annotations

import os
import socket
from threading import Event, Lock, Thread
from time import monotonic, sleep
from typing import Any

import redis
from dramatiq import Broker, Message, Middleware
from dramatiq.broker import Consumer, MessageProxy
from dramatiq.errors import ConnectionClosed, QueueJoinTimeout

from . import Queue
from ._call import Call
from ._claims import Claimed, Claims
from ._patience import patient
from ._queues import QueueCalls, State
from ._run import T, run
from ._time import Duration
from .errors import is_away

_PATIENCE = 5.0
_STATES: tuple[State, ...] = ("ready", "delayed", "claimed", "dead")


class ZeitsetBroker(Broker):
    """Takes a `client`, a `url`, or `parameters` of `redis.Redis`. The Redis key of a queue is `namespace`, ":" and its
    name. If the actor is declared in the process that sends a message, the message has the priority of the actor.

    `lease`: if a worker crashes, its messages are due again after this time. `dead_message_ttl`: for how many milliseconds
    a queue keeps its dead letters, as in dramatiq's broker for Redis. A worker sets it when it starts. None: the queue's
    own setting stays.
    """

    def __init__(
        self,
        *,
        url: str | None = None,
        client: Any = None,
        middleware: list[Middleware] | None = None,
        namespace: str = "dramatiq",
        lease: Duration = 30,
        dead_message_ttl: int | None = 7 * 24 * 3_600_000,
        **parameters: Any,
    ) -> None:
        super().__init__(middleware=middleware)
        self.client: Any = client or (redis.Redis.from_url(url) if url else redis.Redis(**parameters))
        self.namespace = namespace
        self.claims = Claims(lease)
        self.dead_message_ttl = dead_message_ttl
        self._held: dict[Claimed, None] = {}
        self._lock = Lock()
        self._beating: Event | None = None
        """When it is set, the heartbeats end."""

    def queue(self, name: str) -> Queue:
        return Queue(self.client, f"{self.namespace}:{name}", codec="bytes")

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 5000) -> Consumer:
        with self._lock:
            if self._beating is None:
                self._beating = Event()
                Thread(target=self._beat, args=(self._beating,), daemon=True).start()
        return _Consumer(self, queue_name, prefetch, timeout)

    def declare_queue(self, queue_name: str) -> None:
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues[queue_name] = None
            self.emit_after("declare_queue", queue_name)

    def enqueue(self, message: Message[Any], *, delay: int | None = None) -> Message[Any]:
        self.logger.debug("Enqueueing message %r on queue %r.", message.message_id, message.queue_name)
        self.emit_before("enqueue", message, delay)
        actor = self.actors.get(message.actor_name)
        wait = None if delay is None else f"{max(delay, 0)}ms"
        self.queue(message.queue_name).push(message.encode(), delay=wait, priority=actor.priority if actor else 0)
        self.emit_after("enqueue", message, delay)
        return message

    def flush(self, queue_name: str) -> None:
        """Removes all messages, including messages that a worker holds. The queue's settings stay."""
        queue = self.queue(queue_name)
        for state in _STATES:
            while page := queue.peek(state, count=1000):
                queue.cancel(*(job.id for job in page))

    def flush_all(self) -> None:
        for queue_name in self.queues:
            self.flush(queue_name)

    def join(self, queue_name: str, *, interval: int = 100, timeout: int | None = None) -> None:
        """Waits until no message is ready, delayed or held."""
        end = None if timeout is None else monotonic() + timeout / 1000
        while (stats := self.queue(queue_name).stats()) and any(stats[state] for state in _STATES[:3]):
            if end is not None and monotonic() >= end:
                raise QueueJoinTimeout(queue_name)  # type: ignore[no-untyped-call]
            sleep(interval / 1000)

    def close(self) -> None:
        """Ends the heartbeats. Messages that a worker still holds are due again when their leases expire."""
        with self._lock:
            if self._beating is not None:
                self._beating.set()
                self._beating = None

    def hold(self, jobs: list[Claimed]) -> None:
        with self._lock:
            self._held.update(dict.fromkeys(jobs))

    def tell(self, call: Call[bool], job: Claimed) -> None:
        """Reports the outcome of a job with `call`. After a temporary error, dramatiq repeats the report."""
        is_ours = self.ask(call, _PATIENCE)
        with self._lock:
            was_held = job in self._held
            self._held.pop(job, None)
        if not is_ours and not was_held:
            self.logger.warning("The lease of message %r of %r was lost: it runs again.", job.id, job.queue)

    def ask(self, call: Call[T], seconds: float) -> T:
        try:
            return run(patient(self.client, seconds), call)
        except Exception as error:
            if is_away(error):
                raise ConnectionClosed(error) from None  # type: ignore[no-untyped-call]
            raise

    def _beat(self, ends: Event) -> None:
        while not ends.wait(self.claims.beat):
            with self._lock:
                held = list(self._held)
            for jobs, call in self.claims.extend(held):
                try:
                    found = self.ask(call, min(_PATIENCE, self.claims.beat))
                except Exception as error:
                    self.logger.warning("A heartbeat failed: %r", error)
                    continue
                with self._lock:
                    for job, is_held in zip(jobs, found):
                        if not is_held:
                            self._held.pop(job, None)


class _Proxy(MessageProxy):
    def __init__(self, message: Message[Any], job: Claimed) -> None:
        super().__init__(message)
        self.job = job


class _Consumer(Consumer):
    def __init__(self, broker: ZeitsetBroker, queue_name: str, prefetch: int, timeout: int) -> None:
        self._broker = broker
        self._key = broker.queue(queue_name).calls.key
        self._prefetch = prefetch
        self._timeout = timeout
        self._claimed: list[Claimed] = []
        self._is_configured = broker.dead_message_ttl is None
        self._out: set[Claimed] = set()
        """The jobs that the worker has received, and has not reported yet."""
        self._freed = Event()
        self._name = f"{socket.gethostname()}:{os.getpid()}"

    def __next__(self) -> _Proxy | None:
        if not self._claimed:
            self._freed.clear()
            free = self._prefetch - len(self._out)
            if free < 1:
                self._freed.wait(self._timeout / 1000)
                return None
            self._configure()
            claim = self._broker.claims.claim([self._key], free, self._timeout, self._name)
            self._claimed = self._broker.ask(claim, self._timeout / 1000 + _PATIENCE)
            self._broker.hold(self._claimed)
            if not self._claimed:
                return None
        job = self._claimed.pop(0)
        try:
            message = Message.decode(job.payload)
        except Exception as error:
            self._tell(job, self._broker.claims.bury(job, error))
            return None
        self._out.add(job)
        return _Proxy(message, job)

    def _configure(self) -> None:
        if not self._is_configured:
            ttl = f"{self._broker.dead_message_ttl}ms"
            self._broker.ask(QueueCalls(self._key, codec="bytes").configure(deadttl=ttl), _PATIENCE)
            self._is_configured = True

    def ack(self, message: Any) -> None:
        self._tell(message.job, self._broker.claims.ack(message.job))

    def nack(self, message: Any) -> None:
        self._tell(message.job, self._broker.claims.bury(message.job, message._exception))

    def requeue(self, messages: Any) -> None:
        for message in messages:
            self._tell(message.job, self._broker.claims.release(message.job))

    def close(self) -> None:
        while self._claimed:
            job = self._claimed.pop()
            self._tell(job, self._broker.claims.release(job))

    def _tell(self, job: Claimed, call: Call[bool]) -> None:
        try:
            self._broker.tell(call, job)
        finally:
            self._out.discard(job)
            self._freed.set()
