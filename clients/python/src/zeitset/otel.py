"""OpenTelemetry of queues and workers, by the semantic conventions for messaging. Needs opentelemetry-api.

`telemetry = OpenTelemetry()`, `Queue(r, "mails", telemetry=telemetry)`, `Worker(r, "mails", handler, telemetry=telemetry)`.
If a job has a `traceparent`, the handler's span has a link to the span of the push. The handler's span begins a new
trace, because a job can run long after its push, and more than once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import Histogram, Meter
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, StatusCode, TraceFlags, Tracer

from ._job import Job
from ._telemetry import Added
from .errors import Retry

__all__ = ["OpenTelemetry"]

_BOUNDARIES = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
"""The boundaries that the conventions give, in seconds."""
Attributes = dict[str, "str | int"]


class OpenTelemetry:
    """Traces and metrics of queues and workers. With `propagate`, each pushed job carries the current `traceparent`,
    in a line before its JSON.

    `tracer` and `meter` come from the global providers by default.
    """

    def __init__(self, *, propagate: bool = False, tracer: Tracer | None = None, meter: Meter | None = None) -> None:
        self.propagate = propagate
        self._tracer = tracer or trace.get_tracer("zeitset")
        meter = meter or metrics.get_meter("zeitset")
        self._sent = meter.create_counter("messaging.client.sent.messages", "{message}", "Jobs that were pushed")
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Jobs that were handed to handlers"
        )
        self._pushing = _histogram(meter, "messaging.client.operation.duration", "How long pushes took")
        self._handling = _histogram(meter, "messaging.process.duration", "How long handlers ran")

    def traceparent(self) -> str | None:
        span = trace.get_current_span().get_span_context()
        if not span.is_valid:
            return None
        return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"

    @contextmanager
    def pushes(self, queue: str, count: int) -> Iterator[Added]:
        attributes = _of(queue, "push", "send")
        several: Attributes = {"messaging.batch.message_count": count} if count > 1 else {}
        span = self._tracer.start_span(f"push {queue}", kind=SpanKind.PRODUCER, attributes={**attributes, **several})

        def added(replied: Iterable[str | None]) -> None:
            ids = [id for id in replied if id is not None]
            if count == 1 and ids:
                span.set_attribute("messaging.message.id", ids[0])
            if ids:
                self._sent.add(len(ids), attributes)

        with _timed(span, self._pushing, attributes):
            yield added

    @contextmanager
    def handles(self, job: Job) -> Iterator[None]:
        attributes = _of(job.queue, "process", "process")
        span = self._tracer.start_span(
            f"process {job.queue}",
            context=Context(),  # the span begins a new trace
            kind=SpanKind.CONSUMER,
            attributes={**attributes, "messaging.message.id": job.id, "zeitset.job.attempt": job.attempt},
            links=_link_to(job.traceparent),
        )
        self._consumed.add(1, attributes)
        with _timed(span, self._handling, attributes):
            yield


def _histogram(meter: Meter, name: str, description: str) -> Histogram:
    return meter.create_histogram(name, "s", description, explicit_bucket_boundaries_advisory=_BOUNDARIES)


@contextmanager
def _timed(span: Span, histogram: Histogram, attributes: Attributes) -> Iterator[None]:
    begun = perf_counter()
    failed: Attributes = {}
    try:
        with trace.use_span(span, end_on_exit=True, record_exception=False, set_status_on_exception=False):
            try:
                yield
            except BaseException as error:
                failed = {"error.type": type(error).__name__}
                span.set_attributes(failed)
                if not isinstance(error, Retry):  # a handler that asks for a retry has not failed
                    span.record_exception(error)
                    span.set_status(StatusCode.ERROR, str(error))
                raise
    finally:
        histogram.record(perf_counter() - begun, {**attributes, **failed})


def _of(queue: str, name: str, type: str) -> Attributes:
    return {
        "messaging.system": "zeitset",
        "messaging.destination.name": queue,
        "messaging.operation.name": name,
        "messaging.operation.type": type,
    }


def _link_to(traceparent: str | None) -> list[Link]:
    if traceparent is None:
        return []
    _, trace_id, span_id, flags = traceparent.split("-")
    sampled = TraceFlags(int(flags, 16) & TraceFlags.SAMPLED)
    return [Link(SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=sampled))]
