import assert from "node:assert/strict";
import { after, before } from "node:test";
import { context, metrics, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { AggregationTemporality, type Histogram, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { Discard, Queue, Retry } from "zeitset";
import { OpenTelemetry } from "zeitset/otel";
import { withEach } from "./support/clients.js";
import { until } from "./support/until.js";
import { work } from "./support/work.js";

const spans = new InMemorySpanExporter();
const points = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
const meters = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter: points, exportIntervalMillis: 3_600_000 })] });

before(() => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] }));
  metrics.setGlobalMeterProvider(meters);
});
after(() => meters.shutdown());

const named = (name: string): ReadableSpan[] => spans.getFinishedSpans().filter((span) => span.name === name);

withEach("the span of a handler is linked with that of the push, through the job", async (place) => {
  spans.reset();
  const telemetry = new OpenTelemetry({ propagate: true });
  const mails = new Queue<{ to: string }>(place.redis, "mails", { telemetry });
  const next = new Queue(place.redis, "next", { telemetry });
  const tracer = trace.getTracer("test");
  await tracer.startActiveSpan("request", async (request) => {
    await mails.push({ to: "ann" }, { id: "a" });
    request.end();
  });
  let payload: unknown;
  const { events } = work<{ to: string }>(place, "mails", async (job) => {
    payload = job.payload;
    tracer.startSpan("inner").end();
    job.chain(next.calls.push("done", { id: "b" }));
  }, { telemetry });
  await until("it is done", () => events.includes("completed a"));
  assert.deepEqual(payload, { to: "ann" });

  const [push] = named("push mails");
  const [handled] = named("process mails");
  const [request] = named("request");
  const [inner] = named("inner");
  assert.ok(push && handled && request && inner);
  assert.equal(push.kind, SpanKind.PRODUCER);
  assert.equal(push.parentSpanContext?.spanId, request.spanContext().spanId);
  assert.deepEqual(push.attributes, {
    "messaging.system": "zeitset",
    "messaging.destination.name": "mails",
    "messaging.operation.name": "push",
    "messaging.operation.type": "send",
    "messaging.message.id": "a",
  });
  assert.equal(handled.kind, SpanKind.CONSUMER);
  assert.equal(handled.parentSpanContext, undefined);
  assert.deepEqual(handled.links.map(({ context }) => [context.traceId, context.spanId]), [[push.spanContext().traceId, push.spanContext().spanId]]);
  assert.deepEqual(handled.attributes, {
    "messaging.system": "zeitset",
    "messaging.destination.name": "mails",
    "messaging.operation.name": "process",
    "messaging.operation.type": "process",
    "messaging.message.id": "a",
    "zeitset.job.attempt": 1,
  });
  assert.equal(inner.parentSpanContext?.spanId, handled.spanContext().spanId, "what a handler does is within its span");
  const { traceId, spanId } = handled.spanContext();
  const raw = String(await place.call("ZQ.CLAIM", "1", "next", "LEASE", "1m"));
  assert.ok(raw.endsWith(`traceparent: 00-${traceId}-${spanId}-01\n"done"`), raw);
});

withEach("a traceparent travels with the job, and only where it is asked for", async (place) => {
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const plain = new Queue(place.redis, "plain", { telemetry: new OpenTelemetry() });
  await plain.push({ n: 1 }, { id: "without" });
  await plain.push({ n: 2 }, { id: "with", traceparent });
  const fields = (await place.call("ZQ.GET", "plain", "without")) as unknown[];
  assert.equal(fields[fields.indexOf("payload") + 1], '{"n":1}');
  assert.deepEqual((await plain.get("with"))?.payload, { n: 2 });
  assert.deepEqual((await plain.peek()).map(({ payload }) => payload), [{ n: 1 }, { n: 2 }]);
  const seen: unknown[] = [];
  const { events } = work(place, "plain", (job) => void seen.push([job.id, job.payload, job.traceparent]), { concurrency: 1 });
  await until("both are done", () => events.length === 2);
  assert.deepEqual(seen, [["without", { n: 1 }, undefined], ["with", { n: 2 }, traceparent]]);
  await assert.rejects(plain.push(1, { traceparent: "00-1-2-01" }), RangeError);
  const bytes = new Queue(place.redis, "bytes", { codec: "bytes" });
  await assert.rejects(bytes.push(Buffer.from("x"), { traceparent }), TypeError);
});

withEach("a handler that throws has failed, one that wants to be run again has not", async (place) => {
  spans.reset();
  const telemetry = new OpenTelemetry();
  const queue = new Queue(place.redis, "jobs", { telemetry });
  await queue.configure({ maxAttempts: 1 });
  await queue.pushMany([{ payload: "fails", id: "a" }, { payload: "again", id: "b" }, { payload: "never", id: "c" }]);
  const failures: Record<string, () => Error> = {
    fails: () => new RangeError("too far"),
    again: () => new Retry({ after: "1h" }),
    never: () => new Discard("no such user"),
  };
  const { events } = work<string>(place, "jobs", (job) => {
    throw failures[job.payload]?.() ?? new Error(job.payload);
  }, { telemetry });
  await until("all have ended", () => ["failed a", "retried b", "discarded c"].every((event) => events.includes(event)));
  const handled = new Map(named("process jobs").map((span) => [span.attributes["messaging.message.id"], span]));
  assert.deepEqual(
    ["a", "b", "c"].map((id) => [handled.get(id)?.status.code, handled.get(id)?.attributes["error.type"]]),
    [[SpanStatusCode.ERROR, "RangeError"], [SpanStatusCode.UNSET, "Retry"], [SpanStatusCode.ERROR, "Discard"]],
  );
  assert.equal(handled.get("a")?.links.length, 0);
  assert.equal(named("push jobs")[0]?.attributes["messaging.batch.message_count"], 3);
  await assert.rejects(queue.push(NaN), RangeError);
  assert.equal(named("push jobs")[1]?.status.code, SpanStatusCode.ERROR);
});

withEach("metrics count what was sent and handled, and time both", async (place) => {
  const name = `metered ${process.hrtime.bigint()}`;
  const telemetry = new OpenTelemetry();
  const queue = new Queue(place.redis, name, { telemetry });
  await queue.pushMany([{ payload: 1, id: "a" }, { payload: 2, id: "b" }]);
  await queue.push(1, { id: "a" });
  const { events } = work(place, name, (job) => {
    if (job.id === "b") throw new TypeError("no");
  }, { telemetry });
  await until("both have ended", () => events.includes("completed a") && events.includes("failed b"));
  points.reset();
  await meters.forceFlush();
  const found = points.getMetrics().flatMap((of) => of.scopeMetrics).flatMap((of) => of.metrics);
  const of = (metric: string) =>
    found
      .filter(({ descriptor }) => descriptor.name === metric)
      .flatMap(({ dataPoints }) => dataPoints.map(({ attributes, value }) => ({ attributes, value })))
      .filter(({ attributes }) => attributes["messaging.destination.name"] === name);
  assert.deepEqual(of("messaging.client.sent.messages").map(({ value }) => value), [2], "the one that was there was not added");
  assert.deepEqual(of("messaging.client.consumed.messages").map(({ value }) => value), [2]);
  assert.deepEqual(of("messaging.client.operation.duration").map(({ value }) => (value as Histogram).count), [2]);
  const handled = of("messaging.process.duration").map(({ attributes, value }) => [attributes["error.type"], (value as Histogram).count]);
  assert.deepEqual(handled.sort(), [[undefined, 1], ["TypeError", 1]]);
  assert.ok(found.every(({ descriptor }) => ["s", "{message}"].includes(descriptor.unit)));
});
