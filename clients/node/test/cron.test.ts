import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { Cron, Queue, Worker } from "zeitset";
import { withEach } from "./support/clients.js";
import { until } from "./support/until.js";
import { work } from "./support/work.js";

const docs = process.env["DOCS"] ?? fileURLToPath(new URL("../../../../docs", import.meta.url));

interface Case {
  readonly expression: string;
  readonly tz: string;
  readonly after: number;
  /** Null: the expression is refused. */
  readonly next: readonly number[] | null;
}

const cases = JSON.parse(readFileSync(join(docs, "../clients/cron-cases.json"), "utf8")) as Case[];

test("an expression means what it means in Python", () => {
  assert.ok(cases.length > 300);
  for (const { expression, tz, after, next } of cases) {
    const what = `${expression} ${tz} after ${after}`;
    if (next === null) {
      assert.throws(() => new Cron("x", expression, { tz }), RangeError, what);
      continue;
    }
    const cron = new Cron("x", expression, { tz });
    assert.deepEqual(next.map((_, at) => cron.next(next[at - 1] ?? after)), next, what);
  }
  assert.throws(() => new Cron("x", "0 3 * * *", { tz: "Nowhere/Land" }), RangeError);
});

withEach("a recurring job runs, and its next run waits", async (place) => {
  const queue = new Queue<string>(place.redis, "jobs");
  const runs: string[] = [];
  const cron = [new Cron("yearly", "@yearly", { payload: "now" })];
  const { worker } = work<string>(place, "jobs", (job) => runs.push(`${job.id} ${job.payload}`), { cron });
  for (const count of [1, 2, 3]) {
    await until("it waits", async () => (await queue.stats())?.delayed === 1);
    await queue.reschedule("yearly", { delay: 0 });
    await until("it has run", () => runs.length === count);
  }
  assert.equal(runs[0], "yearly now");
  await worker.stop();
  const waiting = await queue.get("yearly");
  assert.ok(waiting && waiting.attempts === 0, JSON.stringify(waiting));
  const stats = await queue.stats();
  assert.equal(stats && stats.ready + stats.delayed, 1, "one, never more");
});

withEach("a run that fails is tried again, given up after its attempts, and the next one waits", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  const cron = [new Cron("flaky", "0 0 1 1 *", { maxAttempts: 2 })];
  const attempts: number[] = [];
  const { events } = work(place, "jobs", (job) => {
    attempts.push(job.attempt);
    throw new Error("no luck");
  }, { cron, backoff: () => "10ms" });
  await until("it waits for the new year", async () => (await queue.stats())?.delayed === 1);
  const first = await queue.get("flaky");
  assert.equal(new Date(first?.dueMs ?? 0).getUTCMonth(), 0);
  await queue.reschedule("flaky", { delay: 0 });
  await until("it is given up", () => events.length === 2);
  assert.deepEqual(events, ["failed flaky", "discarded flaky"]);
  assert.deepEqual(attempts, [1, 2]);
  const next = await queue.get("flaky");
  assert.equal(next?.dueMs, first?.dueMs);
  assert.equal(next?.attempts, 0);
  assert.equal((await queue.stats())?.dead, 0);
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

withEach("a run that ends its process each time is given up", async (place) => {
  const queue = new Queue(place.redis, "jobs");
  const cron = [new Cron("killer", "0 0 1 1 *", { maxAttempts: 2 })];
  await place.call("ZQ.PUSH", "jobs", "null", "ID", "killer");
  for (const _ of [1, 2]) {
    // A worker claims the run, and its process ends. Its lease expires.
    await place.call("ZQ.CLAIM", "1", "jobs", "LEASE", "1ms");
    await until("its lease has expired", async () => (await queue.get("killer"))?.state === "ready");
  }
  const { events } = work(place, "jobs", () => assert.fail("it does not run a third time"), { cron });
  await until("it is given up", () => events.length === 1);
  assert.deepEqual(events, ["discarded killer"]);
  assert.deepEqual([(await queue.get("killer"))?.state, (await queue.get("killer"))?.attempts], ["delayed", 0]);
});

interface Change {
  readonly expression?: string;
  readonly payload?: string;
  readonly priority?: number;
  readonly group?: string;
  readonly queue?: string;
}

const changes: readonly (readonly [Change, Change, number])[] = [
  [{ payload: "old" }, { payload: "new" }, 1],
  [{ priority: 1 }, {}, 1],
  [{ group: "acme" }, { group: "bloom", priority: -1 }, 1],
  [{ expression: "0 3 1 1 *", payload: "old" }, { expression: "0 4 2 1 *", payload: "new" }, 1],
  // With shards, another group means another shard.
  [{ group: "acme" }, { group: "bloom", payload: "new" }, 8],
  [{ queue: "first" }, { queue: "second", payload: "new" }, 1],
  [{ queue: "first" }, { queue: "second", payload: "new" }, 3],
];

for (const [before, after, shards] of changes) {
  const what = `${JSON.stringify(before)}, then ${JSON.stringify(after)}, ${shards} shards`;
  withEach(`a deploy takes effect at the next run next to the old process: ${what}`, async (place) => {
    const queues = ["first", "second"];
    const all = queues.flatMap((name) => [...new Queue<string>(place.redis, name, { shards }).shards]);
    const runs: unknown[] = [];
    const cronOf = ({ expression = "0 3 1 1 *", ...options }: Change): Cron => new Cron("report", expression, options);
    const waiting = async (): Promise<unknown[]> => {
      const jobs = await Promise.all(all.map((queue) => queue.get("report")));
      return jobs.flatMap((job) => (job ? [[job.payload, job.priority, job.group, job.dueMs]] : []));
    };
    const [old, next] = [cronOf(before), cronOf(after)];
    const isNew = async (): Promise<boolean> => {
      const expected = [next.payload, after.priority ?? 0, after.group ?? null, next.next(Date.now())];
      return JSON.stringify(await waiting()) === JSON.stringify([expected]);
    };
    const start = (cron: Cron): { worker: Worker<string> } =>
      work<string>(place, queues, (job) => runs.push(job.payload), { cron: [cron], shards });
    const first = start(old);
    await until("the old process has pushed it", async () => (await waiting()).length === 1);
    const second = start(next);
    await until("the new process has replaced it", isNew);
    for (const queue of all) await queue.reschedule("report", { delay: 0 });
    await until("it has run", () => runs.length > 0);
    await first.worker.stop();
    await second.worker.stop();
    const third = start(next);
    await until("the next run waits", isNew);
    await third.worker.stop();
    assert.deepEqual(runs, [next.payload]);
  });
}

withEach("a run that is being worked on goes on, and the job of another is left alone", async (place) => {
  const [queue, other] = [new Queue<string>(place.redis, "first"), new Queue<string>(place.redis, "second")];
  await other.push("mine", { id: "report", maxAttempts: 3, at: 2_000_000_040 });
  await queue.push("old", { id: "report" });
  const attempts: unknown[] = [];
  let finish = (): void => undefined;
  const held = new Promise<void>((resolve) => (finish = resolve));
  const old = work<string>(place, "first", (job) => (attempts.push(job.payload), held), {});
  await until("it runs", () => attempts.length === 1);
  const cron = [new Cron("report", "0 3 1 1 *", { payload: "new" })];
  const { worker } = work<string>(place, ["first", "second"], () => assert.fail("nothing is due"), { cron });
  await until("the chores are done", () => worker.state === "running");
  assert.equal((await queue.get("report"))?.state, "claimed");
  assert.equal((await other.get("report"))?.payload, "mine");
  finish();
  await until("it is done", () => old.events.includes("completed report"));
});
