import { type Job, Worker, type WorkerOptions } from "zeitset";
import type { Place } from "./clients.js";

export interface Work<T> {
  readonly worker: Worker<T>;
  /** The events of jobs in order, for example `completed a`. */
  readonly events: string[];
  readonly disconnected: Error[];
  readonly run: Promise<void>;
}

/** Runs a worker until the test is over. Returns the worker and its events, in order. */
export function work<T>(
  { redis, test }: Pick<Place, "redis" | "test">,
  queues: string | string[],
  handler: (job: Job<T>) => unknown,
  options: WorkerOptions<T> = {},
): Work<T> {
  const worker = new Worker<T>(redis, queues, handler, { signals: false, ...options });
  const events: string[] = [];
  for (const name of ["completed", "failed", "retried", "discarded", "dead", "lost", "released", "stale"] as const) {
    worker.on(name, ({ job }) => events.push(`${name} ${job.id}`));
  }
  const disconnected: Error[] = [];
  worker.on("disconnected", ({ error }) => disconnected.push(error));
  const run = worker.run();
  run.catch(() => undefined);
  test.after(() => worker.stop({ grace: 0 }));
  return { worker, events, disconnected, run };
}

