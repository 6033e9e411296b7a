//! Spans of `tracing`, with the names of OpenTelemetry's semantic conventions for messaging. With
//! `tracing-opentelemetry`, they become spans of OpenTelemetry.

use tracing::{Span, field};

/// The span of a push.
pub(crate) fn push(queue: &str) -> Span {
    tracing::info_span!(
        "push",
        otel.name = format!("push {queue}"),
        otel.kind = "producer",
        messaging.system = "zeitset",
        messaging.destination.name = queue,
        messaging.operation.name = "push",
        messaging.operation.type = "send",
        messaging.message.id = field::Empty,
    )
}

/// Adds the ID of the pushed job to the current span.
pub(crate) fn pushed(id: Option<&str>) {
    if let Some(id) = id {
        Span::current().record("messaging.message.id", id);
    }
}

/// The span of a run of a handler. It has no parent, because a job can run more than once, and long after the push.
#[cfg(feature = "worker")]
pub(crate) fn process(job: &crate::worker::JobInfo) -> Span {
    tracing::info_span!(
        parent: None,
        "process",
        otel.name = format!("process {}", job.queue()),
        otel.kind = "consumer",
        otel.status_code = field::Empty,
        error.r#type = field::Empty,
        messaging.system = "zeitset",
        messaging.destination.name = job.queue(),
        messaging.operation.name = "process",
        messaging.operation.type = "process",
        messaging.message.id = job.id(),
        zeitset.job.attempt = job.attempt(),
        traceparent = job.traceparent(),
    )
}

/// Marks the current span as failed.
#[cfg(feature = "worker")]
pub(crate) fn failed(kind: &str) {
    let span = Span::current();
    span.record("otel.status_code", "ERROR");
    span.record("error.type", kind);
}
