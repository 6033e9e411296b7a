/**
 * OpenTelemetry of queues and workers, by the semantic conventions for messaging. Needs @opentelemetry/api.
 *
 * If a job has a `traceparent`, the span of its handler is linked with the span of the push. The handler's span begins
 * its own trace, because a job can run more than once, and long after the push.
 */

import {
  type Attributes,
  context,
  type Counter,
  type Histogram,
  type Link,
  type Meter,
  metrics,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Tracer,
} from "@opentelemetry/api";
import { asError } from "./errors.js";
import type { Handled, Telemetry } from "./telemetry.js";
import { Retry } from "./worker/job.js";

export interface OpenTelemetryOptions {
  /** Whether each pushed job carries the `traceparent`, in a line before its JSON; false by default. */
  readonly propagate?: boolean;
  /** `tracer` and `meter` come from the global providers by default. */
  readonly tracer?: Tracer;
  readonly meter?: Meter;
}

/** The boundaries of the histograms' buckets, in seconds, as the semantic conventions recommend. */
const BOUNDARIES = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];

/** `const telemetry = new OpenTelemetry()`, `new Queue(redis, "mails", { telemetry })`, `new Worker(redis, "mails", handler, { telemetry })` */
export class OpenTelemetry implements Telemetry {
  readonly propagate: boolean;
  readonly #tracer: Tracer;
  readonly #sent: Counter;
  readonly #consumed: Counter;
  readonly #pushing: Histogram;
  readonly #handling: Histogram;

  constructor({ propagate = false, tracer = trace.getTracer("zeitset"), meter = metrics.getMeter("zeitset") }: OpenTelemetryOptions = {}) {
    this.propagate = propagate;
    this.#tracer = tracer;
    const seconds = { unit: "s", advice: { explicitBucketBoundaries: BOUNDARIES } };
    this.#sent = meter.createCounter("messaging.client.sent.messages", { unit: "{message}", description: "Jobs that were pushed" });
    this.#consumed = meter.createCounter("messaging.client.consumed.messages", { unit: "{message}", description: "Jobs that were handed to handlers" });
    this.#pushing = meter.createHistogram("messaging.client.operation.duration", { ...seconds, description: "How long pushes took" });
    this.#handling = meter.createHistogram("messaging.process.duration", { ...seconds, description: "How long handlers ran" });
  }

  traceparent(): string | undefined {
    const { traceId, spanId, traceFlags } = trace.getActiveSpan()?.spanContext() ?? {};
    return traceId && spanId ? `00-${traceId}-${spanId}-${(traceFlags ?? 0).toString(16).padStart(2, "0")}` : undefined;
  }

  async pushes(queue: string, count: number, push: () => Promise<(string | null)[]>): Promise<(string | null)[]> {
    const attributes = of(queue, "push", "send");
    const several = count > 1 ? { "messaging.batch.message_count": count } : {};
    const span = this.#tracer.startSpan(`push ${queue}`, { kind: SpanKind.PRODUCER, attributes: { ...attributes, ...several } });
    return this.#timed(span, this.#pushing, attributes, async () => {
      const ids = await push();
      const added = ids.filter((id) => id !== null);
      if (count === 1 && added[0] !== undefined) span.setAttribute("messaging.message.id", added[0]);
      if (added.length > 0) this.#sent.add(added.length, attributes);
      return ids;
    });
  }

  async handles({ queue, id, attempt, traceparent }: Handled, handler: () => unknown): Promise<unknown> {
    const attributes = of(queue, "process", "process");
    const links = linkTo(traceparent);
    const all = { ...attributes, "messaging.message.id": id, "zeitset.job.attempt": attempt };
    const span = this.#tracer.startSpan(`process ${queue}`, { kind: SpanKind.CONSUMER, attributes: all, links, root: true });
    this.#consumed.add(1, attributes);
    return this.#timed(span, this.#handling, attributes, handler);
  }

  async #timed<R>(span: Span, histogram: Histogram, attributes: Attributes, body: () => R): Promise<Awaited<R>> {
    const begunMs = performance.now();
    let failed: Attributes = {};
    try {
      return await context.with(trace.setSpan(context.active(), span), body);
    } catch (thrown) {
      const error = asError(thrown);
      failed = { "error.type": String(error.name) };
      span.setAttributes(failed);
      // A handler that asks for a retry has not failed.
      if (!(error instanceof Retry)) {
        span.recordException(error);
        span.setStatus({ code: SpanStatusCode.ERROR, message: String(error.message) });
      }
      throw thrown;
    } finally {
      histogram.record((performance.now() - begunMs) / 1000, { ...attributes, ...failed });
      span.end();
    }
  }
}

const of = (queue: string, name: string, type: string): Attributes => ({
  "messaging.system": "zeitset",
  "messaging.destination.name": queue,
  "messaging.operation.name": name,
  "messaging.operation.type": type,
});

function linkTo(traceparent: string | undefined): Link[] {
  const [, traceId, spanId, flags] = traceparent?.split("-") ?? [];
  if (!traceId || !spanId) return [];
  const pushed: SpanContext = { traceId, spanId, traceFlags: parseInt(flags ?? "0", 16) & TraceFlags.SAMPLED, isRemote: true };
  return [{ context: pushed }];
}
