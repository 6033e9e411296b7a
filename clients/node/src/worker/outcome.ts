/** What came of a job, and the commands that tell the server. Pure. */

import type { Word } from "../connection.js";
import { describe } from "../errors.js";
import type { Duration } from "../values.js";
import * as wire from "../wire/claims.js";
import { Discard, type Job, Retry } from "./job.js";

export type Ending = "completed" | "failed" | "retried" | "discarded" | "released";

/** What listeners are told of a job. */
export interface JobEvent<T> {
  readonly job: Job<T>;
  /** How long the handler ran. */
  readonly ms: number;
  readonly error?: Error;
}

export interface Outcome<T> extends JobEvent<T> {
  readonly ending: Ending;
  /** The commands: more than one go into a MULTI. */
  readonly commands: readonly (readonly Word[])[];
  /** The job is a dead letter by this. */
  readonly isDead?: boolean;
  /** Asks what has become of a job that has failed: it may have been its last attempt. */
  readonly look?: readonly Word[];
  /** The attempt does not count. */
  readonly isFree?: boolean;
  /** It was sent before, and was refused or its reply got lost: a stale token may be our own doing. */
  readonly isRepeated?: boolean;
}

/** The wait after a failure: 1 s, 2 s, 4 s … at most an hour, by the number of the attempt. */
export const defaultBackoff = (attempt: number): Duration => Math.min(3600, 2 ** Math.min(attempt - 1, 30));

/** What is kept of an error is cut by bytes, at the end of a character. */
function kept(error: Error): string {
  const text = Buffer.from(describe(error));
  return text.length <= 1024 ? text.toString() : text.subarray(0, 1024).toString().replace(/\uFFFD+$/, "");
}

export function completed<T>(job: Job<T>, ms: number): Outcome<T> {
  return { job, ms, ending: "completed", commands: [wire.ack(job), ...job.chained.map((call) => call.words)] };
}

export function released<T>(job: Job<T>, ms: number): Outcome<T> {
  return { job, ms, ending: "released", commands: [wire.nack(job, { delayMs: 0, free: true })] };
}

/** `backoffMs`: the worker's own wait, undefined where the queue has a BACKOFF. */
export function failed<T>(job: Job<T>, ms: number, error: Error, backoffMs: number | undefined): Outcome<T> {
  if (error instanceof Discard) return discarded(job, ms, error);
  const text = kept(error);
  const look = ["ZQ.GET", job.key, job.id];
  if (error instanceof Retry) {
    const holdMs = error.hold ? error.afterMs : undefined;
    const words = wire.nack(job, { delayMs: error.afterMs ?? backoffMs, free: error.free, holdMs, error: text });
    return { job, ms, error, ending: "retried", isFree: error.free, commands: [words], look };
  }
  return { job, ms, error, ending: "failed", commands: [wire.nack(job, { delayMs: backoffMs, error: text })], look };
}

export function discarded<T>(job: Job<T>, ms: number, error: Error): Outcome<T> {
  const words = wire.nack(job, { dead: true, error: kept(error) });
  return { job, ms, error, ending: "discarded", isDead: true, commands: [words] };
}
