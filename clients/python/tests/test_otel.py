"""OpenTelemetry of queues and workers, and the traceparent of jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis.asyncio

from zeitset import Discard, Job, Queue, Retry
from zeitset.asyncio import Queue as AsyncQueue

from .support import Server, until, working

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider  # noqa: E402
from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: E402
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter  # noqa: E402
from opentelemetry.trace import SpanKind, StatusCode  # noqa: E402

from zeitset.otel import OpenTelemetry  # noqa: E402

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Watch:
    def __init__(self, propagate: bool = False) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("test")
        meters = MeterProvider(metric_readers=[self.reader])
        self.telemetry = OpenTelemetry(propagate=propagate, tracer=self.tracer, meter=meters.get_meter("test"))

    def spans(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]

    def points(self, name: str) -> list[Any]:
        data: Any = self.reader.get_metrics_data()
        metrics = [each for resource in data.resource_metrics for scope in resource.scope_metrics for each in scope.metrics]
        assert all(each.unit in ("s", "{message}") for each in metrics)
        return [point for each in metrics if each.name == name for point in each.data.data_points]


@pytest.fixture
def watch() -> Iterator[Watch]:
    yield Watch(propagate=True)


@pytest.mark.parametrize("kind", ["tasks", "threads"])
def test_the_span_of_a_handler_is_linked_with_that_of_the_push(one: Any, watch: Watch, kind: str) -> None:
    mails = Queue(one, "mails", telemetry=watch.telemetry)
    following = Queue(one, "next", telemetry=watch.telemetry)
    with watch.tracer.start_as_current_span("request"):
        mails.push({"to": "ann"}, id="a")
    payloads: list[Any] = []

    def handle(job: Job) -> None:
        payloads.append(job.payload)
        watch.tracer.start_span("inner").end()
        job.chain(following.calls.push("done", id="b"))

    async def handle_async(job: Job) -> None:
        handle(job)

    with working(one, "mails", handle_async if kind == "tasks" else handle, telemetry=watch.telemetry) as watched:
        until(lambda: "completed" in watched.kinds())
    assert payloads == [{"to": "ann"}]
    (push,), (handled,), (request,), (inner,) = map(watch.spans, ("push mails", "process mails", "request", "inner"))
    assert push.kind == SpanKind.PRODUCER and push.parent and push.parent.span_id == request.context.span_id
    about = {"messaging.system": "zeitset", "messaging.destination.name": "mails", "messaging.message.id": "a"}
    assert dict(push.attributes or {}) == {**about, "messaging.operation.name": "push", "messaging.operation.type": "send"}
    assert handled.kind == SpanKind.CONSUMER and handled.parent is None
    assert [(link.context.trace_id, link.context.span_id) for link in handled.links] == [(push.context.trace_id, push.context.span_id)]
    doing = {"messaging.operation.name": "process", "messaging.operation.type": "process", "zeitset.job.attempt": 1}
    assert dict(handled.attributes or {}) == {**about, **doing}
    assert inner.parent and inner.parent.span_id == handled.context.span_id, "what a handler does is within its span"
    raw = one.execute_command("ZQ.CLAIM", 1, "next", "LEASE", "1m", NEVER_DECODE=True)[0][5].decode()
    assert raw == f'traceparent: 00-{handled.context.trace_id:032x}-{handled.context.span_id:016x}-{handled.context.trace_flags:02x}\n"done"'


def test_a_traceparent_travels_with_the_payload_where_it_is_asked_for(one: Any) -> None:
    plain = Queue(one, "plain", telemetry=Watch().telemetry)
    plain.push({"n": 1}, id="without")
    plain.push({"n": 2}, id="with", traceparent=PARENT)
    found = plain.get("without")
    assert found is not None and one.execute_command("ZQ.PEEK", "plain")[0][4] == b'{"n":1}'
    assert [job.payload for job in plain.peek()] == [{"n": 1}, {"n": 2}]
    seen: list[Any] = []
    handle = lambda job: seen.append((job.id, job.payload, job.traceparent))  # noqa: E731
    with working(one, "plain", handle, concurrency=1) as watched:
        until(lambda: watched.kinds().count("completed") == 2)
    assert seen == [("without", {"n": 1}, None), ("with", {"n": 2}, PARENT)]
    with pytest.raises(ValueError):
        plain.push(1, traceparent="00-1-2-01")
    with pytest.raises(TypeError):
        Queue(one, "bytes", codec="bytes").push(b"x", traceparent=PARENT)


def test_a_handler_that_raises_has_failed_and_one_that_wants_to_be_run_again_has_not(one: Any, watch: Watch) -> None:
    queue = Queue(one, "jobs", telemetry=watch.telemetry)
    queue.configure(max_attempts=1)
    queue.push_many([{"payload": name, "id": name} for name in ("fails", "again", "never")])
    errors = {"fails": IndexError("too far"), "again": Retry(after="1h"), "never": Discard("no such user")}

    def handle(job: Job) -> None:
        raise errors[job.payload]

    with working(one, "jobs", handle, telemetry=watch.telemetry) as watched:
        until(lambda: {"failed", "retried", "discarded"} <= set(watched.kinds()))
    handled = {(span.attributes or {})["messaging.message.id"]: span for span in watch.spans("process jobs")}
    found = [(handled[name].status.status_code, (handled[name].attributes or {})["error.type"]) for name in errors]
    assert found == [(StatusCode.ERROR, "IndexError"), (StatusCode.UNSET, "Retry"), (StatusCode.ERROR, "Discard")]
    (push,) = watch.spans("push jobs")
    assert (push.attributes or {})["messaging.batch.message_count"] == 3
    assert all(link.context.span_id == push.context.span_id for span in handled.values() for link in span.links)
    with pytest.raises(ValueError):
        queue.push(float("nan"))
    assert watch.spans("push jobs")[1].status.status_code == StatusCode.ERROR


def test_metrics_count_and_time_both(shared: Server, one: Any) -> None:
    watch = Watch()

    async def main() -> None:
        async with redis.asyncio.Redis(port=shared.port) as r:
            queue = AsyncQueue(r, "jobs", telemetry=watch.telemetry)
            await queue.push_many([{"payload": 1, "id": "a"}, {"payload": 2, "id": "b"}])
            assert await queue.push(1, id="a") is None

    asyncio.run(main())

    def handle(job: Job) -> None:
        if job.id == "b":
            raise KeyError("no")

    with working(one, "jobs", handle, telemetry=watch.telemetry) as watched:
        until(lambda: {"completed", "failed"} <= set(watched.kinds()))
    assert [point.value for point in watch.points("messaging.client.sent.messages")] == [2], "the one that was there was not added"
    assert [point.value for point in watch.points("messaging.client.consumed.messages")] == [2]
    assert [point.count for point in watch.points("messaging.client.operation.duration")] == [2]
    handled = watch.points("messaging.process.duration")
    assert {point.attributes.get("error.type"): point.count for point in handled} == {None: 1, "KeyError": 1}
    assert handled[0].explicit_bounds[0] == 0.005
    assert watch.spans("process jobs")[0].links == ()
