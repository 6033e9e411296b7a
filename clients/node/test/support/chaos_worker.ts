/**
 * A worker of the chaos run: node chaos_worker.js <library> <url>. It tells its parent process about each run, each
 * finished run, and events.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { type Job, Queue, Worker } from "zeitset";

export interface Payload {
  readonly ms: number;
  /** What the handler does if it is cancelled. */
  readonly cancelled: "returns" | "throws" | "goes on";
  readonly fails: boolean;
  /** Whether the handler chains the push of another job to its ACK. */
  readonly chains: boolean;
}

export interface Told {
  readonly what: "begun" | "done" | "completed" | "stale" | "trouble" | "ended";
  readonly id: string;
  readonly token: number;
  readonly atMs: number;
  readonly pid: number;
  readonly error?: string;
}

if (process.send) {
  const [library, url = ""] = process.argv.slice(2);
  const tell = (what: Told["what"], { id, token }: { id: string; token: number }, error?: Error): void => {
    process.send?.({ what, id, token, atMs: Date.now(), pid: process.pid, ...(error && { error: error.message }) } satisfies Told);
  };
  const nobody = { id: "", token: 0 };
  const redis = library === "ioredis" ? new Redis(url, { lazyConnect: true }) : createClient({ url });
  redis.on("error", () => undefined);
  const next = new Queue<Payload>(redis, "chaos");

  const handler = async (job: Job<Payload>): Promise<void> => {
    tell("begun", job);
    const { ms, cancelled, fails, chains } = job.payload;
    if (fails && job.attempt === 1) throw new Error("the first attempt fails");
    try {
      await sleep(ms, undefined, cancelled === "goes on" ? {} : { signal: job.signal });
    } catch (thrown) {
      if (cancelled === "throws") throw thrown;
      return;
    }
    tell("done", job);
    job.done();
    if (chains) job.chain(next.calls.push({ ...job.payload, chains: false }, { id: `${job.id}:next`, maxAttempts: 0 }));
  };
  const worker = new Worker<Payload>(redis, "chaos", handler, { lease: "3s", grace: "2s", backoff: () => "200ms" });
  for (const what of ["completed", "stale"] as const) worker.on(what, ({ job }) => tell(what, job));
  for (const what of ["disconnected", "refused"] as const) worker.on(what, ({ error }) => tell("trouble", nobody, error));
  worker.run().then(
    () => tell("ended", nobody),
    (error: Error) => tell("ended", nobody, error),
  ).finally(() => setTimeout(() => process.exit(), 100));
}
