/** What an attempt has done so far is there at the next attempt, and a recurring job can be declared at each start. */

import assert from "node:assert/strict";
import { type Job, Queue, Retry, Worker } from "zeitset";
import { until } from "./support/until.js";
import { withEach } from "./support/clients.js";

withEach("the next attempt reads the progress of the last", async ({ redis }) => {
  const queue = new Queue<number>(redis, "q");
  const seen: unknown[] = [];
  const worker = new Worker<number>(redis, "q", async (job: Job<number>) => {
    seen.push(await job.lastProgress());
    if (job.attempt > 1) return;
    seen.push(await job.progress("40 %"));
    const shown = await queue.get("j");
    seen.push(shown?.progress);
    await assert.rejects(job.progress("\u20ac".repeat(342)), RangeError);
    throw new Retry({ after: 0 });
  }, { signals: false });
  const running = worker.run();
  await queue.push(1, { id: "j" });
  await until("the second attempt", () => seen.length === 4);
  await worker.stop();
  await running;
  assert.deepEqual(seen, [null, true, "40 %", "40 %"]);
});

withEach("a recurring job is declared at each start", async ({ redis }) => {
  const queue = new Queue<{ v: number }>(redis, "q");
  const at = new Date("2100-01-01T00:00:00Z");
  assert.equal(await queue.push({ v: 1 }, { id: "nightly", at, every: "1d", declare: true }), "nightly");
  assert.equal(await queue.push({ v: 2 }, { id: "nightly", at, every: "1d", group: "g", declare: true }), "nightly");
  const job = await queue.get("nightly");
  assert.deepEqual([job?.payload, job?.group, job?.dueMs], [{ v: 2 }, "g", at.getTime()]);
  assert.equal((await queue.stats())?.pushed, 1);
  await assert.rejects(queue.push({ v: 3 }, { id: "x", declare: true }), TypeError);
  await assert.rejects(queue.push({ v: 3 }, { id: "x", every: "1d", declare: true, again: true }), TypeError);
});
