/** The outcomes of jobs, and the commands that report them to the server. */

import type { Word } from "../connection.js";
import { describe } from "../errors.js";
import type { Duration } from "../values.js";
import * as wire from "../wire/claims.js";
import { Discard, type Job, Retry } from "./job.js";

export type Ending = "completed" | "failed" | "retried" | "discarded" | "released";

/** The argument of listeners for events of jobs. */
export interface JobEvent<T> {
  readonly job: Job<T>;
  /** How long the handler ran. */
  readonly ms: number;
  readonly error?: Error;
}

export interface Outcome<T> extends JobEvent<T> {
  readonly ending: Ending;
  /** The commands that report the outcome. Several commands are sent in one MULTI. */
  readonly commands: readonly (readonly Word[])[];
  /** Whether this outcome makes the job a dead letter. */
  readonly isDead?: boolean;
  /** A ZQ.GET that follows a failed attempt. Its reply shows whether the job is now a dead letter. */
  readonly look?: readonly Word[];
  /** Whether the attempt is not counted towards the maximum number of attempts. */
  readonly isFree?: boolean;
  /**
   * Whether an earlier report of this outcome failed. A stale token is then no error: perhaps only the reply to the
   * earlier report got lost.
   */
  readonly isRepeated?: boolean;
}

/** Returns the wait after a failure, by the number of the attempt: 1 s, 2 s, 4 s … at most an hour. */
export const defaultBackoff = (attempt: number): Duration => Math.min(3600, 2 ** Math.min(attempt - 1, 30));

/** Returns the first 1,024 bytes of an error's text. Does not cut within a character. */
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

/**
 * Returns the outcome of a job whose handler threw. `backoffMs`: the worker's wait; undefined if the queue has a
 * BACKOFF.
 */
export function failed<T>(job: Job<T>, ms: number, error: Error, backoffMs: number | undefined): Outcome<T> {
  if (error instanceof Discard) return discarded(job, ms, error);
  const text = kept(error);
  const look = ["ZQ.GET", job.key, job.rawId];
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
