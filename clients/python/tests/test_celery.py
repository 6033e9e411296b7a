"""The transport of Celery, with kombu alone: queues, claims, leases, connections. `test_celery_workers` runs Celery."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import redis

from zeitset import Queue as Jobs

from .support import REDIS_SERVER, Proxy, Server, as_options, certificate, free_port, until

kombu = pytest.importorskip("kombu")

import zeitset.celery  # noqa: E402
from kombu.asynchronous.hub import Hub  # noqa: E402

Connect = Callable[..., Any]


@pytest.fixture
def connect(shared: Server, one: Any) -> Iterator[Connect]:
    """Opens connections to the server, with options of the transport."""
    opened: list[Any] = []

    def connect(url: str = "", **options: Any) -> Any:
        connection = kombu.Connection(url or shared.url.replace("redis", "zeitset"), transport_options=options)
        opened.append(connection)
        return connection

    yield connect
    for connection in opened:
        connection.close()


def jobs(r: Any, queue: str = "q", prefix: str = "kombu:") -> Jobs:
    return Jobs(r, prefix + queue, codec="bytes")


def state(r: Any, queue: str = "q") -> tuple[int, ...]:
    """Returns how many jobs are ready, delayed, claimed and dead."""
    stats = jobs(r, queue).stats() or {}
    return tuple(stats.get(each, 0) for each in ("ready", "delayed", "claimed", "dead"))


def publish(connection: Any, *bodies: Any, queue: str = "q", **options: Any) -> None:
    producer = kombu.Producer(connection.default_channel)
    declared = kombu.Queue(queue, kombu.Exchange(queue), routing_key=queue)
    for body in bodies:
        producer.publish(body, exchange=declared.exchange, routing_key=queue, declare=[declared], **options)


class Consumer:
    """Collects the messages of queues, and acknowledges none."""

    def __init__(self, connection: Any, *queues: str, prefetch: int = 0, **options: Any) -> None:
        self.connection = connection
        self.messages: list[Any] = []
        self.channel = connection.channel()
        if prefetch:
            self.channel.basic_qos(0, prefetch, False)
        declared = [kombu.Queue(queue, kombu.Exchange(queue), routing_key=queue) for queue in queues or ("q",)]
        self.consumer = kombu.Consumer(self.channel, declared, on_message=self.messages.append, **options)
        self.consumer.consume()

    @property
    def bodies(self) -> list[Any]:
        return [message.payload for message in self.messages]

    def drain(self, timeout: float = 0.05) -> bool:
        """Handles one event. Returns False if there was none."""
        try:
            self.connection.drain_events(timeout=timeout)
        except socket.timeout:
            return False
        return True

    def collect(self, count: int) -> list[Any]:
        until(lambda: len(self.messages) >= count or (self.drain() and False))
        return self.bodies


def in_seconds(seconds: float) -> str:
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).isoformat()


def test_both_brokers_share_a_database(connect: Connect, one: Any, shared: Server) -> None:
    ours, theirs = connect(), connect(shared.url)
    publish(theirs, "theirs")
    publish(ours, "one", "two")
    assert one.type("q") == b"list" and state(one) == (2, 0, 0, 0)
    assert Consumer(ours).collect(2) == ["one", "two"]
    assert Consumer(theirs).collect(1) == ["theirs"]


def test_messages_are_sized_got_and_purged(connect: Connect, one: Any) -> None:
    connection = connect()
    publish(connection, "now", 2, {"ä": [None, "\x00"]})
    publish(connection, "later", headers={"eta": in_seconds(600)})
    channel = connection.default_channel
    queue = kombu.Queue("q")(channel)
    assert queue.queue_declare(passive=True).message_count == 4
    assert kombu.Queue("none")(channel).queue_declare().message_count == 0
    assert queue.get(no_ack=True).payload == "now"
    assert state(one) == (2, 1, 0, 0)
    held = queue.get()
    assert queue.purge() == 2 and state(one) == (0, 0, 1, 0), "a message that a consumer holds is not purged"
    assert queue.get() is None
    held.ack()
    assert state(one) == (0, 0, 0, 0)
    queue.delete()
    assert not one.exists("kombu:q")


def test_a_rejected_message_is_removed_and_a_requeued_message_is_marked(connect: Connect, one: Any) -> None:
    consumer = Consumer(connect())
    publish(consumer.connection, "one", "two")
    consumer.collect(2)
    consumer.messages[0].requeue()
    consumer.messages[1].reject()
    assert consumer.collect(3)[2] == "one" and consumer.messages[2].delivery_info["redelivered"]
    assert "redelivered" not in consumer.messages[0].delivery_info
    consumer.messages[2].ack()
    assert state(one) == (0, 0, 0, 0)


def test_max_attempts_of_the_queue_end_endless_requeuing(connect: Connect, one: Any) -> None:
    jobs(one).configure(max_attempts=2)
    consumer = Consumer(connect())
    publish(consumer.connection, "poison")
    for count in (1, 2):
        consumer.collect(count)
        consumer.messages[-1].requeue()
    assert state(one) == (0, 0, 0, 1)


def test_priority_0_is_first_and_each_of_ten_priorities_counts(connect: Connect) -> None:
    connection = connect()
    for priority in (9, 0, 5, 4, 3, 12, 0, 1):
        publish(connection, priority, priority=priority)
    assert Consumer(connection).collect(8) == [0, 0, 1, 3, 4, 5, 9, 12]


def test_a_message_with_an_eta_waits_in_its_queue(connect: Connect, one: Any) -> None:
    connection = connect()
    publish(connection, "soon", headers={"eta": in_seconds(0.7)}, priority=9)
    publish(connection, "local time", headers={"eta": "2100-01-01T00:00:00"})
    publish(connection, "far", headers={"eta": "2100-01-01T00:00:00+01:00"})
    publish(connection, "past", headers={"eta": "1969-12-31T00:00:00Z"}, priority=1)
    publish(connection, "none", headers={"eta": None}, priority=2)
    assert state(one) == (3, 2, 0, 0), "a worker waits for a time without a zone, because only the worker knows the zone"
    consumer = Consumer(connection)
    assert consumer.collect(4) == ["local time", "past", "none", "soon"]
    (far,) = jobs(one).peek("delayed")
    assert far.due_ms == 4102441200_000


def test_an_expired_message_is_dropped_unless_drop_expired_is_false(connect: Connect, one: Any) -> None:
    connection = connect()
    publish(connection, "expires", headers={"expires": in_seconds(0.1)})
    publish(connection, "expiration", expiration=0.1)
    publish(connection, "due after it expires", headers={"eta": in_seconds(0.2), "expires": in_seconds(0.1)})
    publish(connection, "expires later", headers={"eta": in_seconds(0.2), "expires": in_seconds(600)})
    publish(connect(drop_expired=False), "kept", headers={"expires": in_seconds(0.1)})
    until(lambda: (jobs(one).stats() or {})["expired"] == 3)
    assert sorted(Consumer(connection).collect(2)) == ["expires later", "kept"]


def test_an_idle_consumer_sends_no_commands(connect: Connect, one: Any) -> None:
    consumer = Consumer(connect(), "q", "other")
    consumer.drain()
    one.config_resetstat()
    consumer.drain(1.5)
    assert {name for name in one.info("commandstats") if "zq" in name} == set()
    publish(connect(), "at once", queue="other")
    assert consumer.drain(20) and consumer.bodies == ["at once"]


def test_queues_take_turns(connect: Connect) -> None:
    connection = connect()
    for queue in ("a", "b"):
        publish(connection, *(queue * 3), queue=queue)
    assert "".join(Consumer(connection, "a", "b").collect(6)) in ("ababab", "bababa")
    ordered = connect(queue_order_strategy="sorted")
    for queue in ("b", "a"):
        publish(ordered, *(queue * 3), queue=queue)
    assert "".join(Consumer(ordered, "a", "b").collect(6)) == "aaabbb"


def test_a_queue_that_is_added_is_consumed_at_once(connect: Connect) -> None:
    consumer = Consumer(connect())
    consumer.drain()
    consumer.consumer.add_queue(kombu.Queue("added", kombu.Exchange("added"), routing_key="added"))
    consumer.consumer.consume()
    publish(connect(), "here", queue="added")
    end = time.monotonic() + zeitset.celery.Transport.brpop_timeout / 2
    while not consumer.bodies and time.monotonic() < end:
        consumer.drain()
    assert consumer.bodies == ["here"]


@pytest.mark.parametrize("how", ["cancel", "close"])
def test_a_consumer_that_ends_takes_no_message_with_it(connect: Connect, one: Any, how: str) -> None:
    consumer = Consumer(connect())
    consumer.drain()
    assert consumer.channel._in_poll, "a claim waits"
    consumer.consumer.cancel() if how == "cancel" else consumer.channel.close()
    publish(connect(), "for others")
    assert state(one) == (1, 0, 0, 0)


def test_a_message_that_meets_the_end_of_its_consumer_returns_at_once(connect: Connect, one: Any) -> None:
    consumer = Consumer(connect())
    consumer.drain()
    publish(connect(), "for others")
    until(lambda: state(one) == (0, 0, 1, 0))
    consumer.consumer.cancel()
    assert state(one) == (1, 0, 0, 0) and not consumer.messages
    assert jobs(one).peek()[0].attempts == 0


@pytest.mark.parametrize("may_unblock", [True, False])
def test_a_consumer_ends_although_its_connection_is_dead(shared: Server, connect: Connect, one: Any, may_unblock: bool) -> None:
    """A firewall drops the packets of the connection that waits. Other connections work."""
    refused = [] if may_unblock else ["-client|id", "-client|unblock"]
    one.acl_setuser("ben", enabled=True, nopass=True, keys=["*"], channels=["*"], categories=["+@all"], commands=refused)
    with Proxy(shared.port) as proxy:
        connection = connect(f"zeitset://ben@127.0.0.1:{proxy.port}/0", polling_interval=1)
        consumer = Consumer(connection)
        while not consumer.channel._in_poll:
            consumer.drain()
        consumer.channel.qos.client = shared.client()
        proxy.hold()
        ending = Thread(target=consumer.channel.close, daemon=True)
        ending.start()
        ending.join(60)
        assert not ending.is_alive()


def test_prefetch_limits_what_a_consumer_holds(connect: Connect, one: Any) -> None:
    consumer = Consumer(connect(), prefetch=2)
    publish(consumer.connection, *range(5))
    consumer.collect(2)
    assert not consumer.drain(0.3) and state(one) == (3, 0, 2, 0)
    consumer.messages[0].ack()
    assert consumer.collect(3) == [0, 1, 2]


def test_unacknowledged_messages_return_when_the_channel_closes(connect: Connect, one: Any) -> None:
    consumer = Consumer(connect())
    publish(consumer.connection, *range(3))
    consumer.collect(3)
    consumer.messages[1].ack()
    consumer.channel.close()
    assert state(one) == (2, 0, 0, 0)
    assert {job.attempts for job in jobs(one).peek()} == {0}, "the attempt of a consumer that stops does not count"


def deadline(r: Any, message: Any) -> int:
    id = message.delivery_tag.split(":")[0]
    return next(job.lease.deadline_ms for job in jobs(r).peek("claimed", lease=True) if job.id == id and job.lease)


def test_a_message_is_held_for_longer_than_its_lease(connect: Connect, one: Any) -> None:
    consumer = Consumer(connect(lease=4))
    publish(consumer.connection, "long")
    consumer.collect(1)
    first = deadline(one, consumer.messages[0])
    until(lambda: deadline(one, consumer.messages[0]) > first + 4000)
    assert not Consumer(connect()).drain() and (jobs(one).stats() or {})["expired_leases"] == 0
    consumer.messages[0].ack()
    assert state(one) == (0, 0, 0, 0)


def test_a_reply_that_is_read_too_late_is_omitted(connect: Connect, one: Any) -> None:
    """A consumer that does not drain events for a while must not run what another consumer got meanwhile."""
    slow = Consumer(connect(lease=1))
    slow.drain()
    publish(connect(), "once")
    until(lambda: state(one) == (0, 0, 1, 0))
    other = Consumer(connect(lease=20))
    assert other.collect(1) == ["once"], "after the lease of the slow consumer"
    for _ in range(3):
        slow.drain()
    assert slow.messages == []
    other.messages[0].ack()


def test_a_task_goes_on_over_a_lost_connection_and_is_not_delivered_again(shared: Server, connect: Connect, one: Any) -> None:
    """kombu closes the channel of a lost connection. Its own transport for Redis returns all messages then, also those
    of running tasks."""
    with Proxy(shared.port) as proxy:
        consumer = Consumer(connect(f"zeitset://127.0.0.1:{proxy.port}/0", lease=6))
        publish(connect(), "runs", "prefetched")
        consumer.collect(2)
        running = consumer.messages[0]
        first = deadline(one, running)
        proxy.cut()
        with pytest.raises(consumer.connection.connection_errors):
            for _ in range(10):
                consumer.drain()
        consumer.connection.collect()
        consumer.messages.clear()  # Celery forgets all tasks that do not run
        other = Consumer(connect(lease=6))
        assert other.collect(1) == ["prefetched"] and other.messages[0].delivery_tag != running.delivery_tag
        until(lambda: deadline(one, running) > first + 6000)
        assert not other.drain() and state(one) == (0, 0, 2, 0)
        running.ack()
        assert state(one) == (0, 0, 1, 0)
    other.messages[0].ack()


def test_an_acknowledgement_reaches_a_server_that_was_away(server: Server) -> None:
    with kombu.Connection(server.url.replace("redis", "zeitset"), transport_options={"lease": 2}) as connection:
        consumer = Consumer(connection)
        publish(connection, "done")
        consumer.collect(1)
        server.kill()
        consumer.messages[0].ack()
        server.start()
        with server.client() as r:
            until(lambda: state(r) == (0, 0, 0, 0))
            assert (jobs(r).stats() or {})["acked"] == 1
        connection.collect()


def test_a_lease_that_was_lost_is_not_acknowledged(connect: Connect, one: Any, caplog: pytest.LogCaptureFixture) -> None:
    consumer = Consumer(connect(lease=1))
    publish(consumer.connection, "slow")
    consumer.collect(1)
    one.execute_command("ZQ.NACK", "kombu:q", *consumer.messages[0].delivery_tag.split(":"))
    assert Consumer(connect()).collect(1) == ["slow"]
    until(lambda: not consumer.channel.qos._held)
    consumer.messages[0].ack()
    assert state(one) == (0, 0, 1, 0) and "was lost" in caplog.text


def test_a_job_that_is_no_message_is_a_dead_letter(connect: Connect, one: Any) -> None:
    one.execute_command("ZQ.PUSH", "kombu:q", b"\xff")
    one.execute_command("ZQ.PUSH", "kombu:q", b"[]")
    consumer = Consumer(connect())
    publish(consumer.connection, "good")
    assert consumer.collect(1) == ["good"]
    assert state(one) == (0, 0, 1, 2)


def test_a_consumer_without_acknowledgements_gets_each_message_once(connect: Connect, one: Any) -> None:
    consumer = Consumer(connect(), no_ack=True)
    publish(consumer.connection, *range(3))
    assert consumer.collect(3) == [0, 1, 2] and state(one) == (0, 0, 0, 0)


def test_the_hub_delivers_messages_and_closes_cleanly(connect: Connect, one: Any) -> None:
    connection, hub = connect(), Hub()
    consumer = Consumer(connection)
    connection.register_with_event_loop(hub)
    publish(connect(), *range(3))
    loop = hub.create_loop()
    until(lambda: len(consumer.messages) == 3 or next(loop))
    for message in consumer.messages:
        message.ack()
    assert consumer.bodies == [0, 1, 2] and state(one) == (0, 0, 0, 0)
    consumer.channel.close()
    hub.close()


def test_exchanges_route_to_queues_and_fanout_reaches_all(connect: Connect) -> None:
    connection = connect()
    topic = kombu.Exchange("topic", type="topic")
    received: dict[str, list[Any]] = {"eu": [], "all": []}
    with connection.channel() as channel, connection.channel() as far:
        for name, key in (("eu", "order.eu.*"), ("all", "order.#")):
            queue = kombu.Queue(name, topic, routing_key=key)
            kombu.Consumer(channel, [queue], on_message=lambda m, n=name: received[n].append(m.payload), no_ack=True).consume()
        producer = kombu.Producer(connection.default_channel, topic)
        producer.publish(1, routing_key="order.eu.berlin")
        producer.publish(2, routing_key="order.us.boston")
        until(lambda: received == {"eu": [1], "all": [1, 2]} or _drain(connection))

        fanout, heard = kombu.Exchange("news", type="fanout"), []
        for channel_, name in ((channel, "first"), (far, "second")):
            queue = kombu.Queue(name, fanout)
            kombu.Consumer(channel_, [queue], on_message=lambda m: heard.append(m.payload), no_ack=True).consume()
        _drain(connection)
        producer = kombu.Producer(connect().default_channel, fanout)

        def both() -> bool:  # fanout reaches those who have subscribed already
            if not heard:
                producer.publish("news", declare=[fanout])
            _drain(connection)
            return len(heard) >= 2

        until(both)


def _drain(connection: Any) -> bool:
    with suppress(socket.timeout):
        connection.drain_events(timeout=0.1)
    return False


def test_key_prefix_database_user_and_password_are_those_of_kombu(shared: Server, one: Any, connect: Connect) -> None:
    one.acl_setuser("ann", enabled=True, passwords=["+secret"], keys=["shop:*"], channels=["*"], categories=["+@all"])
    url = f"zeitset://ann:secret@127.0.0.1:{shared.port}/3"
    connection = connect(url, global_keyprefix="shop:", queue_prefix="tasks:", client_name="worker-7")
    consumer = Consumer(connection)
    publish(connection, "hello", headers={"eta": in_seconds(-1)})
    publish(connection, "later", headers={"eta": in_seconds(600)})
    assert consumer.collect(1) == ["hello"] and consumer.channel._size("q") == 1
    with shared.client(db=3) as r:
        (held,) = jobs(r, prefix="shop:tasks:").peek("claimed", lease=True)
        assert held.lease is not None and held.lease.worker == "worker-7"
        consumer.messages[0].ack()
        assert consumer.channel.queue_purge("q") == 1
        assert {key.decode().split(":")[0] for key in r.keys()} == {"shop"}
        consumer.channel.queue_delete("q")
        assert not r.exists("shop:tasks:q")
    with pytest.raises(connection.connection_errors):
        connect(f"zeitset://ann:wrong@127.0.0.1:{shared.port}/3").connect()


def test_tls_and_unix_sockets(tmp_path: Path) -> None:
    tls_port, path = free_port(), tmp_path / "socket"
    tls = {**certificate(tmp_path), "tls-port": str(tls_port), "tls-auth-clients": "no"}
    server = Server(tmp_path, *as_options(tls), "--unixsocket", str(path))
    try:
        trusted = f"zeitsets://127.0.0.1:{tls_port}/0?ssl_ca_certs={tmp_path / 'cert'}"
        for url in (trusted, f"zeitset+socket://{path}"):
            with kombu.Connection(url) as connection:
                publish(connection, "hello")
                consumer = Consumer(connection)
                assert consumer.collect(1) == ["hello"]
                consumer.messages[0].ack()
        with pytest.raises(Exception, match="CERTIFICATE_VERIFY_FAILED"):
            kombu.Connection(f"zeitsets://127.0.0.1:{tls_port}/0").default_channel  # unlike rediss of kombu
    finally:
        server.kill()


def test_a_batch_is_published_in_one_pipeline(connect: Connect, one: Any) -> None:
    connection = connect()
    producer = kombu.Producer(connection.default_channel)
    if not hasattr(producer, "batch"):
        pytest.skip("kombu has no batches")
    publish(connection)
    with producer.batch():
        for number in range(5):
            producer.publish(number, routing_key="q", headers={"eta": in_seconds(600)} if number > 2 else {})
        assert state(one) == (0, 0, 0, 0)
    assert state(one) == (3, 2, 0, 0)


def test_a_queue_with_expires_keeps_no_message_for_later(connect: Connect, one: Any) -> None:
    """The key expires without regard to due times. So the worker holds such a message, as with kombu's transport."""
    if not hasattr(connect().default_channel, "_expires"):
        pytest.skip("kombu has no x-expires for Redis")
    queue = kombu.Queue("q", kombu.Exchange("q"), routing_key="q", expires=60)
    kombu.Producer(connect().default_channel).publish(
        "later", exchange=queue.exchange, routing_key="q", declare=[queue], headers={"eta": in_seconds(600)}
    )
    assert state(one) == (1, 0, 0, 0) and 0 < one.pttl("kombu:q") <= 60_000


def test_a_publish_that_kombu_repeats_adds_one_message(shared: Server, connect: Connect, one: Any) -> None:
    with Proxy(shared.port) as proxy:
        connection = connect(f"zeitset://127.0.0.1:{proxy.port}/0")
        publish(connection)
        proxy.hold(b"ZQ.PUSH")
        publishing = Thread(target=publish, args=(connection, "once"), kwargs={"retry": True})
        publishing.start()
        until(lambda: proxy.holds and state(one)[0] == 1)
        proxy.cut()
        proxy.let_go()
        publishing.join()
        assert (jobs(one).stats() or {})["pushed"] == 1 and state(one) == (1, 0, 0, 0)


def test_a_full_server_refuses_new_messages_and_delivers_the_old(server: Server) -> None:
    """With kombu's transport for Redis, a consumer of a full server removes messages that it cannot store as taken."""
    with kombu.Connection(server.url.replace("redis", "zeitset")) as connection, server.client() as r:
        publish(connection, *range(3))
        r.config_set("maxmemory", 1)
        with pytest.raises(redis.OutOfMemoryError):
            publish(connection, "more")
        consumer = Consumer(connection)
        consumer.collect(3)
        for message in consumer.messages:
            message.ack()
        assert consumer.bodies == [0, 1, 2] and state(r) == (0, 0, 0, 0)


def test_sentinel_names_the_primary_and_a_failover_loses_no_message(tmp_path: Path) -> None:
    first, second = Server(tmp_path), Server(tmp_path)
    port = free_port()
    (tmp_path / "sentinel.conf").write_text(
        f"port {port}\nsentinel monitor main 127.0.0.1 {first.port} 1\nsentinel down-after-milliseconds main 500\n"
        "sentinel failover-timeout main 2000\n"
    )
    sentinel = subprocess.Popen([REDIS_SERVER, str(tmp_path / "sentinel.conf"), "--sentinel"], stdout=subprocess.DEVNULL, cwd=tmp_path)
    try:
        with second.client() as r:
            r.replicaof("127.0.0.1", first.port)
            until(lambda: r.info("replication")["master_link_status"] == "up")
        asked = redis.Redis(port=port)
        until(lambda: _answer(lambda: len(asked.execute_command("SENTINEL", "REPLICAS", "main")) == 1))
        options = {"master_name": "main", "lease": 2}
        url = ";".join([f"zeitset-sentinel://127.0.0.1:{port}/0"] * 2)
        connection = kombu.Connection(url, transport_options=options)
        consumer = Consumer(connection)
        publish(connection, "runs", "waits")
        consumer.collect(1)
        with first.client() as r:
            r.execute_command("WAIT", 1, 5000)
        first.kill()
        with pytest.raises(connection.connection_errors):
            until(lambda: consumer.drain() and False)
        connection.collect()
        until(lambda: _answer(lambda: int(asked.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main")[1]) == second.port))
        connection = kombu.Connection(url, transport_options=options)
        until(lambda: _answer(lambda: connection.ensure_connection(max_retries=1)))
        after = Consumer(connection)
        assert after.collect(1) == ["waits"]
        consumer.messages[0].ack()
        after.messages[0].ack()
        with second.client() as r:
            until(lambda: state(r) == (0, 0, 0, 0))
        connection.close()
    finally:
        sentinel.kill()
        sentinel.wait()
        first.kill()
        second.kill()


def _answer(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except (redis.RedisError, OSError, kombu.exceptions.OperationalError):
        return None


@pytest.mark.parametrize("back", [False, True], ids=["to zeitset", "back to redis"])
def test_moving_takes_all_waiting_messages_with_their_due_times(shared: Server, connect: Connect, one: Any, back: bool) -> None:
    ours, theirs = shared.url.replace("redis", "zeitset"), shared.url
    source, target = (ours, theirs) if back else (theirs, ours)
    due = in_seconds(600)
    publish(connect(source), {"ä": 1}, headers={"task": "a", "eta": due, "stamp": "ä"}, correlation_id="c")
    publish(connect(source), "zipped", compression="gzip", priority=3)
    publish(connect(source), "elsewhere", queue="other")
    command = [sys.executable, "-m", "zeitset.celery", source, target, "q", "other", "none"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.stdout == "moved 3\n", found.stderr
    if not back:
        assert state(one) == (1, 1, 0, 0) and state(one, "other") == (1, 0, 0, 0)
        connect(target).default_channel.make_due("q")
    else:
        assert state(one) == (0, 0, 0, 0) == state(one, "other")
    consumer = Consumer(connect(target), "q", "other")
    consumer.collect(3)
    found_ = {str(message.payload): message for message in consumer.messages}
    first = found_["{'ä': 1}"]
    assert first.headers == {"task": "a", "eta": due, "stamp": "ä"} and first.properties["correlation_id"] == "c"
    assert found_["zipped"].properties["priority"] == 3 and "elsewhere" in found_


def test_moving_unacked_messages_takes_what_workers_of_the_old_broker_hold(shared: Server, connect: Connect, one: Any) -> None:
    old, new = shared.url, shared.url.replace("redis", "zeitset")
    publish(connect(old), "held", "also held", headers={"eta": in_seconds(600)}, priority=3)
    Consumer(connect(old)).collect(2)
    publish(connect(old), "waits")
    command = [sys.executable, "-m", "zeitset.celery", old, new, "q"]
    assert subprocess.run(command, capture_output=True, text=True).stdout == "moved 1\n"
    assert (state(one), one.hlen("unacked")) == ((1, 0, 0, 0), 2)
    found = subprocess.run([*command, "--unacked"], capture_output=True, text=True)
    assert found.stdout == "moved 2\n", found.stderr
    assert (state(one), one.hlen("unacked")) == ((1, 2, 0, 0), 0)
