import assert from "node:assert/strict";
import { test } from "node:test";
import { Cron, Queue, Worker } from "zeitset";
import { withEach } from "./support/clients.js";
import { until } from "./support/until.js";
import { work } from "./support/work.js";

test("the next run is by the calendar of a zone", () => {
  const berlin = new Cron("report", "0 3 * * *", { tz: "Europe/Berlin" });
  const at = (text: string): number => Date.parse(text);
  assert.equal(berlin.next(at("2026-01-10T12:00:00Z")), at("2026-01-11T02:00:00Z"));
  assert.equal(berlin.next(at("2026-07-10T12:00:00Z")), at("2026-07-11T01:00:00Z"), "summer");
  // At the change to summer time a day has 23 hours.
  assert.equal(berlin.next(at("2026-03-28T02:00:00Z")), at("2026-03-29T01:00:00Z"));
  assert.equal(new Cron("utc", "*/5 * * * *").next(at("2026-01-10T12:05:00Z")), at("2026-01-10T12:10:00Z"), "the next, not the same");
  assert.throws(() => new Cron("x", "not a schedule"));
  assert.throws(() => new Cron("x", "0 3 * * *", { tz: "Nowhere/Land" }));
});

withEach("a recurring job runs, and its next run waits", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const runs: string[] = [];
  const cron = [new Cron("tick", "* * * * * *", { payload: "now" })];
  const { worker } = work<string>(place, "jobs", (job) => runs.push(`${job.id} ${job.payload}`), { cron });
  await until("three runs", () => runs.length >= 3);
  assert.equal(runs[0], "tick now");
  await worker.stop();
  const waiting = await queue.get("tick");
  assert.ok(waiting && waiting.attempts === 0, JSON.stringify(waiting));
  const stats = await queue.stats();
  assert.equal(stats.ready + stats.delayed, 1, "one, never more");
});

withEach("a run that fails is tried again, given up after its attempts, and the next one waits", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  const cron = [new Cron("flaky", "0 0 1 1 *", { attempts: 2 })];
  const attempts: number[] = [];
  const { events } = work(place, "jobs", (job) => {
    attempts.push(job.attempt);
    throw new Error("no luck");
  }, { cron, backoff: () => 10 });
  await until("it waits for the new year", async () => (await queue.stats()).delayed === 1);
  const first = await queue.get("flaky");
  assert.equal(new Date(first?.dueMs ?? 0).getUTCMonth(), 0);
  await queue.reschedule("flaky", { delay: 0 });
  await until("it is given up", () => events.length === 2);
  assert.deepEqual(events, ["failed flaky", "discarded flaky"]);
  assert.deepEqual(attempts, [1, 2]);
  const next = await queue.get("flaky");
  assert.equal(next?.dueMs, first?.dueMs);
  assert.equal(next?.attempts, 0);
  assert.equal((await queue.stats()).dead, 0);
});

withEach("a worker with another expression moves the run that waits; one that has failed stays", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  const start = async (expression: string): Promise<void> => {
    const worker = new Worker(place.redis, "jobs", () => undefined, { cron: [new Cron("report", expression)], signals: false });
    const run = worker.run();
    await until("it runs", () => worker.state === "running");
    await worker.stop();
    await run;
  };
  const month = async (): Promise<number> => new Date((await queue.get("report"))?.dueMs ?? 0).getUTCMonth();
  await start("0 0 1 1 *");
  assert.equal(await month(), 0);
  await start("0 0 1 6 *");
  assert.equal(await month(), 5);
});

test("a recurring job belongs to a queue of its worker, and is there once", () => {
  const client = { sendCommand: async () => null, duplicate: () => null, multi: () => null };
  const cron = (queue?: string): Cron => new Cron("a", "* * * * *", queue === undefined ? {} : { queue });
  assert.throws(() => new Worker(client, "jobs", () => undefined, { cron: [cron("others")] }), RangeError);
  assert.throws(() => new Worker(client, "jobs", () => undefined, { cron: [cron(), cron()] }), RangeError);
});
