"""A broker for Celery: after `import zeitset.celery`, set `broker_url = "zeitset://localhost:6379/0"`.

A transport of kombu, the messaging library of Celery. It changes only the queues of kombu's own transport for Redis, and
inherits everything else: connections, exchanges, bindings, fanout by Pub/Sub. In kombu's transport, a queue is a list,
and a worker holds each delayed task in memory. Here, a task waits in its queue until it is due. A worker leases a task,
and a thread extends the leases until the worker acknowledges the task.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from math import ceil
from queue import Empty
from threading import Event, Lock, Thread
from time import monotonic, sleep, time
from typing import Any

import kombu
import redis
from kombu.log import get_logger
from kombu.transport import TRANSPORT_ALIASES, virtual
from kombu.transport import redis as kombu_redis
from kombu.utils.json import dumps, loads

from . import Queue
from ._call import Call, mapping
from ._claims import Claimed, Claims
from ._patience import patient
from ._run import run, run_all
from .errors import is_away, is_refused

__all__ = ["Channel", "SentinelChannel", "SentinelTransport", "TLSTransport", "Transport", "move"]

logger = get_logger("zeitset.celery")

_PATIENCE = 5.0
"""How long an acknowledgement or a heartbeat may take, in seconds."""
_UNUSED = {"ack_emulation", "priority_steps", "visibility_timeout"}
"""Options of kombu's transport that have no meaning here, and may stay in a configuration. All others whose names begin
with `unacked` belong to them, too."""


class _Tag(str):
    """The delivery tag of a message, with the job of the message."""

    job: Claimed


class _Unconfirmed(str):
    """The delivery tag of a message that the server has not confirmed yet."""


class QoS(virtual.QoS):
    """Holds the leases of all messages that the consumer has not acknowledged. A thread extends the leases while there
    are any, also if the consumer's own thread runs a task.

    If a connection is lost, Celery closes the channel, but goes on with running tasks. Their messages stay leased as
    long as something in the process refers to them. So no other worker runs these tasks.
    """

    def __init__(self, channel: Any, prefetch_count: int = 0) -> None:
        super().__init__(channel, prefetch_count)
        self.claims: Claims = channel.claims
        self._source = channel._create_client()
        self.client: Any = patient(self._source, _PATIENCE)
        """Has its own connections, and outlives the channel."""
        self._held: dict[Claimed, weakref.ref[Any]] = {}
        self._late: dict[Claimed, Call[bool]] = {}
        """The reports that have failed. The thread repeats them."""
        self._lock = Lock()
        self._wake = Event()
        self._is_beating = False
        self._is_abandoned = False

    def append(self, message: Any, delivery_tag: str) -> None:
        super().append(message, delivery_tag)
        if isinstance(delivery_tag, _Tag):  # a message of a fanout exchange has no job
            with self._lock:
                self._held[delivery_tag.job] = weakref.ref(message)
                self._start()

    def ack(self, delivery_tag: str) -> None:
        self._report(delivery_tag, self.claims.ack)
        super().ack(delivery_tag)

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        self._report(delivery_tag, self.claims.retry if requeue else self.claims.ack)
        super().ack(delivery_tag)

    def restore_unacked(self) -> list[Any]:
        self._flush()
        jobs = [tag.job for tag in self._delivered if isinstance(tag, _Tag)]
        self._delivered.clear()
        self._try({job: self.claims.release(job) for job in jobs})
        return []

    def restore_unacked_once(self, stderr: Any = None) -> None:
        super().restore_unacked_once(stderr)
        if not (self._held or self._late):
            self.client.connection_pool.disconnect()

    def abandon(self) -> None:
        """Forgets the messages without returning them to their queues, because their tasks may still run."""
        self._on_collect.cancel()
        self._is_abandoned = True
        self._delivered.clear()
        self._delivered.restored = True

    def _report(self, tag: str, report: Callable[[Claimed], Call[bool]]) -> None:
        if isinstance(tag, _Tag):
            self._try({tag.job: report(tag.job)})

    def _try(self, calls: dict[Claimed, Call[bool]]) -> None:
        if not self._late:  # otherwise the server is away, and each call would wait until its timeout
            try:
                return self._send(calls)
            except Exception as error:
                if not is_away(error):
                    raise
                logger.warning("Redis is away. The worker acknowledges messages later: %r", error)
        with self._lock:
            self._late.update(calls)
            self._start()
        self._wake.set()

    def _send(self, calls: dict[Claimed, Call[bool]]) -> None:
        replies = run_all(self.client, list(calls.values())) if calls else []
        with self._lock:
            for job, is_ours in zip(calls, replies):
                self._late.pop(job, None)
                if not is_ours and job not in self._held:
                    logger.warning("The lease of message %r of %r was lost: it runs again.", job.id, job.queue)
                self._held.pop(job, None)

    def _start(self) -> None:
        if not self._is_beating:
            self._is_beating = True
            Thread(target=self._beat, name="zeitset-leases", daemon=True).start()

    def _beat(self) -> None:
        wait: float = self.claims.beat
        while True:
            self._wake.wait(wait)
            self._wake.clear()
            with self._lock:
                if not (self._held or self._late):
                    self._is_beating = False
                    return
            try:
                self._extend()
                wait = self.claims.beat
            except Exception as error:
                logger.warning("A heartbeat failed: %r", error)
                self.client.connection_pool.disconnect(inuse_connections=False)  # they are lost, too
                sleep(min(1.0, self.claims.beat))
                wait = 0

    def _extend(self) -> None:
        if self._is_abandoned:
            gc.collect()  # the requests of Celery refer to each other
        with self._lock:
            held = list(self._held)
            late = dict(self._late)
            gone = {job: self.claims.release(job) for job, ref in self._held.items() if ref() is None and job not in late}
        for jobs, call in self.claims.extend(held):
            found = run(self.client, call)
            for job, is_held in zip(jobs, found):
                if not is_held:
                    with self._lock:
                        self._held.pop(job, None)
        self._send(late | gone)


def _options(channel: Any) -> tuple[str, ...]:
    theirs = (each for each in channel.from_transport_options if not (each in _UNUSED or each.startswith("unacked")))
    return (*theirs, "lease", "queue_prefix", "drop_expired", "client_name")


class Channel(kombu_redis.Channel):
    """A queue is a key of the module."""

    from_transport_options = _options(kombu_redis.Channel)
    QoS = QoS
    priority_steps = [0]
    """All keys of a queue: one, for the module itself orders jobs by priority."""

    lease: float = 30
    queue_prefix = "kombu:"
    drop_expired = True
    client_name: str | None = None  # also an option of kombu's transport since kombu 5.5

    _client_id: int | None = None
    _asked: Any = None
    """The socket whose client ID is known."""

    @cached_property
    def claims(self) -> Claims:
        return Claims(self.lease)

    @cached_property
    def _worker(self) -> str:
        return str(self.client_name or f"{socket.gethostname()}:{os.getpid()}")

    def _q_for_pri(self, queue: str, pri: int) -> str:
        """Returns the key without the prefix that kombu's client adds."""
        return f"{self.queue_prefix}{queue}"

    def _key(self, queue: str) -> str:
        return f"{self.global_keyprefix}{self.queue_prefix}{queue}"

    # Publishing

    def basic_publish(self, message: dict[str, Any], *args: Any, **kwargs: Any) -> None:
        super().basic_publish(message, *args, **kwargs)
        message["properties"]["delivery_tag"] = str(message["properties"]["delivery_tag"])

    def _inplace_augment_message(self, message: dict[str, Any], exchange: str, routing_key: str) -> None:
        """If kombu publishes a message again because the reply was lost, the message keeps its delivery tag, which is
        the ID of the job. So the queue does not get the message twice."""
        tag = message["properties"].get("delivery_tag")
        super()._inplace_augment_message(message, exchange, routing_key)
        if not isinstance(tag, _Unconfirmed):
            tag = _Unconfirmed(message["properties"]["delivery_tag"])
        message["properties"]["delivery_tag"] = tag

    def _put(self, queue: str, message: dict[str, Any], _publish_batch: Any = None, **_: Any) -> None:
        words = ["ZQ.PUSH", self._key(queue), dumps(message), "ID", message["properties"]["delivery_tag"]]
        idle_ms = getattr(self, "_expires", {}).get(queue)
        now = time() * 1000
        due = _instant(message, "eta") if idle_ms is None else None  # a queue that expires keeps no task for later
        if due is not None and due > now:
            words += ["AT", f"{due}ms"]
        if (ends := self._expiry(message, now)) is not None:
            words += ["TTL", f"{max(1, ceil(ends - max(now, due or 0)))}ms"]
        if priority := self._get_message_priority(message):
            words += ["PRIORITY", priority]
        commands = [words] if idle_ms is None else [words, ["PEXPIRE", self._q_for_pri(queue, 0), idle_ms]]
        if _publish_batch is not None:
            for command in commands:
                _publish_batch.add("execute_command", *command)
            return
        with _reconnecting(), self.conn_or_acquire() as client:
            for command in commands:
                client.execute_command(*command)

    def _expiry(self, message: dict[str, Any], now: float) -> float | None:
        if not self.drop_expired:
            return None
        if (ends := _instant(message, "expires")) is not None:
            return ends
        with suppress(KeyError, TypeError, ValueError):
            return now + int(message["properties"]["expiration"])
        return None

    # Consuming

    def basic_consume(self, queue: str, no_ack: bool, callback: Any, consumer_tag: str, **kwargs: Any) -> Any:
        def acking(message: Any) -> Any:
            self.qos.ack(message.delivery_tag)
            return callback(message)

        acks = no_ack and queue not in self._fanout_queues
        return super().basic_consume(queue, no_ack and not acks, acking if acks else callback, consumer_tag, **kwargs)

    def basic_get(self, queue: str, no_ack: bool = False, **kwargs: Any) -> Any:
        message = super().basic_get(queue, **kwargs)
        if message is not None and no_ack:
            self.qos.ack(message.delivery_tag)
        return message

    def _get(self, queue: str) -> dict[str, Any]:
        with _reconnecting(), self.conn_or_acquire() as client:
            jobs = run(client, self.claims.claim([self._key(queue)], 1, 0, self._worker))
            if queue in getattr(self, "_expires", {}):  # since kombu 5.7
                self._maybe_update_queues_expire(client, queue)
        return self._message(jobs)

    def _brpop_start(self, timeout: float | None = None) -> None:
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        connection = self.client.connection
        if self._asked is not connection._sock:
            connection.send_command("CLIENT", "ID")
            try:
                self._client_id = int(connection.read_response())
            except redis.ResponseError:  # the user has no permission for CLIENT ID
                self._client_id = None
            self._asked = connection._sock
        block_ms = int(1000 * (timeout or self.connection.brpop_timeout or Transport.brpop_timeout))
        claim = self.claims.claim([self._key(queue) for queue in queues], 1, block_ms, self._worker)
        self._in_poll = connection
        self._brpop_sent_at = monotonic()
        self._block_seconds = block_ms / 1000
        connection.send_command(*claim.args)

    def _brpop_read(self, **_: Any) -> bool:
        jobs = self._read_claim()
        message = self._message(jobs)
        queue = jobs[0].queue[len(self._key("")) :]
        self._queue_cycle.rotate(queue)
        self.connection._deliver(message, queue)
        return True

    def _read_claim(self) -> list[Claimed]:
        """Reads the reply to the claim that was sent. If the reply waited for long, omits jobs whose leases have
        expired: another worker may have them."""
        connection, self._in_poll = self._in_poll, None
        if not connection:  # `_end_claim` has read the reply
            return []
        claim = self.claims.claim([""], 1, 0, "")
        try:
            with _reconnecting():
                jobs = claim.parse(self.client.parse_response(connection, "ZQ.CLAIM"))
        except self.connection_errors:
            connection.disconnect()
            raise
        finally:
            if hasattr(self, "_flush_brpop_reauth"):  # since kombu 5.7
                self._flush_brpop_reauth()
        if jobs and monotonic() - self._brpop_sent_at > self.claims.lease_ms / 2000:
            ((_, extend),) = self.claims.extend(jobs)
            (is_ours,) = run(self.qos.client, extend)
            if not is_ours:
                return []
        return jobs

    def _message(self, jobs: list[Claimed]) -> dict[str, Any]:
        if not jobs:
            raise Empty
        (job,) = jobs
        try:
            message: dict[str, Any] = loads(job.payload)
            properties = message["properties"]
            if job.attempt > 1:
                (message.get("headers") or {})["redelivered"] = True
                properties["delivery_info"]["redelivered"] = True
        except (LookupError, TypeError, ValueError) as error:
            logger.error("Job %r of %r is no message, and becomes a dead letter: %r", job.id, job.queue, error)
            run(self.qos.client, self.claims.bury(job, error))
            raise Empty from error
        tag = properties["delivery_tag"] = _Tag(f"{job.id}:{job.token}")
        tag.job = replace(job, payload=b"")
        return message

    def _update_queue_cycle(self) -> None:
        super()._update_queue_cycle()
        self._end_claim()

    def _end_claim(self) -> None:
        """Ends the waiting claim, because the queues have changed or the channel is closed. Returns a job of its reply
        to the queue. If the connection were closed instead, such a job would be claimed until its lease expires."""
        connection = self._in_poll
        if not connection:
            return
        ends = monotonic() + _PATIENCE if self._client_id else self._brpop_sent_at + self._block_seconds + _PATIENCE
        try:
            waiting = True
            while waiting:  # the claim may reach the server after the first CLIENT UNBLOCK
                if self._client_id is not None:
                    self.qos.client.execute_command("CLIENT", "UNBLOCK", self._client_id)
                waiting = not connection.can_read(timeout=0.05)
                if waiting and monotonic() > ends:  # a firewall may drop the packets of this connection only
                    raise redis.TimeoutError("no reply to the waiting claim")
            for job in self._read_claim():
                run(self.qos.client, self.claims.release(job))
        except (redis.RedisError, OSError):
            connection.disconnect()

    # Queues

    def _size(self, queue: str) -> int:
        with self.conn_or_acquire() as client:
            stats = run(client, Call(("ZQ.STATS", self._key(queue)), lambda reply: mapping(reply or [])))
        return int(stats.get("ready", 0)) + int(stats.get("delayed", 0))

    def _purge(self, queue: str) -> int:
        total = 0
        with self.conn_or_acquire() as client:
            for state in ("READY", "DELAYED"):
                clean = Call(("ZQ.CLEAN", self._key(queue), state), int)
                while removed := run(client, clean):
                    total += removed
        return total

    def make_due(self, queue: str) -> None:
        """Makes delayed messages due. A worker waits for the time that a message names in its headers."""
        jobs = Queue(self.qos.client, self._key(queue), codec="bytes")
        while page := jobs.peek("delayed", count=1000):
            for job in page:
                jobs.reschedule(job.id, delay=0)

    def close(self) -> None:
        self._end_claim()
        super().close()

    def abandon(self) -> None:
        """Prepares `close` after a lost connection: no command is sent."""
        if self._qos is not None:
            self._qos.abandon()
        self.auto_delete_queues.clear()
        if connection := self._in_poll:
            self._in_poll = None
            connection.disconnect()


class SentinelChannel(Channel, kombu_redis.SentinelChannel):
    from_transport_options = _options(kombu_redis.SentinelChannel)

    def _sentinel_managed_pool(self, asynchronous: bool = False) -> Any:
        client = self.connection.client
        urls = client.alt
        client.alt = [url.replace("zeitset-sentinel://", "sentinel://", 1) for url in urls]  # the only scheme kombu reads
        try:
            return super()._sentinel_managed_pool(asynchronous)
        finally:
            client.alt = urls


class Transport(kombu_redis.Transport):
    Channel = Channel
    brpop_timeout = 10
    """How long a claim waits, in seconds. It ends at once when a job is due, or when the queues change."""

    def _collect(self, connection: Any) -> None:
        """kombu calls it instead of `close_connection` after the connection was lost."""
        for channel in (*self.channels, *self._avail_channels):
            channel.abandon()
        with suppress(AttributeError, *self.connection_errors):
            self.close_connection(connection)


class TLSTransport(Transport):
    def __init__(self, client: Any, **kwargs: Any) -> None:
        client.ssl = client.ssl or {"ssl_cert_reqs": "required"}
        super().__init__(client, **kwargs)


class SentinelTransport(Transport):
    default_port = 26379
    Channel = SentinelChannel


@contextmanager
def _reconnecting() -> Iterator[None]:
    """Raises ConnectionError for temporary errors, such as READONLY and UNBLOCKED after a failover, so that Celery
    connects again. A server that is full is no reason to connect again."""
    try:
        yield
    except redis.ResponseError as error:
        if is_away(error) and not is_refused(error):
            raise redis.ConnectionError(str(error)) from error
        raise


def _instant(message: dict[str, Any], header: str) -> int | None:
    """Returns a header of Celery in Unix ms. None: there is no such header, or its time has no zone. In the latter
    case, only the worker knows the zone, and waits itself."""
    try:
        at = datetime.fromisoformat(message["headers"][header].replace("Z", "+00:00"))
    except (AttributeError, LookupError, TypeError, ValueError):
        return None
    return None if at.tzinfo is None else ceil(at.timestamp() * 1000)


def move(source: str, target: str, *queues: str, unacked: bool = False) -> int:
    """Moves all waiting messages of queues from one broker to another one, in the order in which they are delivered.
    Returns their number. If it is interrupted, one message may be in both brokers. With `unacked`, also moves the
    messages that workers of kombu's transport for Redis hold."""
    moved = 0
    with kombu.Connection(source) as old, kombu.Connection(target) as new:
        channel, producer = old.default_channel, kombu.Producer(new.default_channel)
        if unacked and not hasattr(channel, "make_due"):
            channel.visibility_timeout = 0  # kombu's transport returns only messages that are older
            channel.qos.restore_visible(num=None, interval=1)
        for queue in queues:
            if hasattr(channel, "make_due"):  # not `isinstance`: with `python -m`, the class is that of another module
                channel.make_due(queue)
            while (message := channel.basic_get(queue)) is not None:
                kept = ("priority", "correlation_id", "reply_to")
                producer.publish(
                    message.body,
                    exchange="",
                    routing_key=queue,
                    content_type=message.content_type,
                    content_encoding=message.content_encoding,
                    headers={name: value for name, value in message.headers.items() if name != "compression"},
                    **{name: message.properties[name] for name in kept if name in message.properties},
                )
                message.ack()
                moved += 1
    return moved


TRANSPORT_ALIASES.update(
    {
        "zeitset": "zeitset.celery:Transport",
        "zeitsets": "zeitset.celery:TLSTransport",
        "zeitset-sentinel": "zeitset.celery:SentinelTransport",
    }
)

if __name__ == "__main__":
    arguments = [each for each in sys.argv[1:] if each != "--unacked"]
    if len(arguments) < 3:
        sys.exit("usage: python -m zeitset.celery [--unacked] SOURCE-URL TARGET-URL QUEUE [QUEUE ...]")
    print("moved", move(*arguments, unacked="--unacked" in sys.argv))
