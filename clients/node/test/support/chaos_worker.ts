/**
 * A worker of the chaos run: node chaos_worker.js <library> <url>. It tells its parent process about each run, each
 * finished run, and events.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { type Job, Queue, Retry, Stopped, Worker } from "zeitset";
import { HELD_MS, LEASE_MS, type Report } from "./ledger.js";

export interface Payload {
  /** The number of the push. */
  readonly number: number;
  readonly ms: number;
  /** What the handler does if it is cancelled. */
  readonly cancelled: "returns" | "throws" | "goes on";
  readonly fails: boolean;
  /** Whether the handler chains the push of another job to its ACK. */
  readonly chains: boolean;
  /** Whether the first attempt holds the job's group. */
  readonly holds: boolean;
}

if (process.send) {
  const [library, url = ""] = process.argv.slice(2);
  const report = (what: Report["what"], job?: Job<Payload>, error?: Error): void => {
    const { id = "", token = 0, payload } = job ?? {};
    const number = payload?.number ?? -1;
    process.send?.({ what, id, number, token, atMs: Date.now(), pid: process.pid, ...(error && { error: error.message }) } satisfies Report);
  };
  const redis = library === "ioredis" ? new Redis(url, { lazyConnect: true }) : createClient({ url });
  redis.on("error", () => undefined);
  const next = new Queue<Payload>(redis, "chaos");

  const run = async (job: Job<Payload>): Promise<void> => {
    const { ms, cancelled, fails, chains, holds } = job.payload;
    if (holds && job.attempt === 1) {
      report("hold", job);
      throw new Retry({ after: `${HELD_MS}ms`, hold: true });
    }
    if (fails && job.attempt === 1) throw new Error("the first attempt fails");
    try {
      await sleep(ms, undefined, cancelled === "goes on" ? {} : { signal: job.signal });
    } catch (thrown) {
      if (cancelled === "throws") throw thrown;
      return;
    }
    report("done", job);
    job.done();
    if (chains) job.chain(next.calls.push({ ...job.payload, chains: false }, { id: `${job.id}:next`, maxAttempts: 0 }));
  };
  const handler = async (job: Job<Payload>): Promise<void> => {
    report("begun", job);
    try {
      await run(job);
    } finally {
      // A worker that stops has released the job before its handler ends.
      if (!(job.signal.reason instanceof Stopped)) report("over", job);
    }
  };
  const worker = new Worker<Payload>(redis, "chaos", handler, { lease: `${LEASE_MS}ms`, grace: "2s", backoff: () => "200ms" });
  for (const what of ["completed", "retried", "stale"] as const) worker.on(what, ({ job }) => report(what, job));
  for (const what of ["disconnected", "refused"] as const) worker.on(what, ({ error }) => report("trouble", undefined, error));
  worker.run().then(
    () => report("ended"),
    (error: Error) => report("ended", undefined, error),
  ).finally(() => setTimeout(() => process.exit(), 100));
}
