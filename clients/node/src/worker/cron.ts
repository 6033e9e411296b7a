/** Jobs that recur by a cron expression. The expression is in the code of the workers. */

import type { Word } from "../connection.js";
import { whole } from "../values.js";
import { Calendar } from "./calendar.js";

export interface CronOptions {
  /** An IANA time zone such as `"Europe/Berlin"`; UTC by default. */
  readonly tz?: string;
  readonly payload?: unknown;
  /** One of the worker's queues; by default the first. */
  readonly queue?: string;
  /** If a run has failed this number of times, the worker drops the run and pushes the next one; 5 by default. */
  readonly maxAttempts?: number;
  readonly priority?: number;
  readonly group?: string;
}

/** A job that recurs: `new Cron("report", "0 3 * * *", { tz: "Europe/Berlin" })`. `name` is the id of the job. */
export class Cron {
  readonly payload: unknown;
  readonly queue: string | undefined;
  readonly maxAttempts: number;
  /** @internal */
  readonly group: string | undefined;
  /** @internal */
  readonly priority: number;
  readonly #options: readonly Word[];
  readonly #calendar: Calendar;

  constructor(
    readonly name: string,
    readonly expression: string,
    { tz = "UTC", payload = null, queue, maxAttempts = 5, priority, group }: CronOptions = {},
  ) {
    this.#calendar = new Calendar(expression, tz);
    this.payload = payload;
    this.queue = queue;
    this.group = group;
    this.priority = priority ?? 0;
    if (!Number.isSafeInteger(maxAttempts) || maxAttempts < 1) {
      throw new RangeError(`maxAttempts must be 1 or more, not ${maxAttempts}`);
    }
    this.maxAttempts = maxAttempts;
    const priorities = priority ? ["PRIORITY", whole(priority, "priority")] : [];
    this.#options = [...priorities, ...(group === undefined ? [] : ["GROUP", group])];
    if (this.next(Date.now()) === null) throw new RangeError(`${expression} never comes`);
  }

  /** Returns the first run after `afterMs`, in Unix ms; null if there is none. */
  next(afterMs: number): number | null {
    return this.#calendar.next(afterMs);
  }

  /**
   * Returns the command that pushes the job, due at `atMs`. If the job is in the queue, the command does nothing.
   * MAXATTEMPTS is 0 (no limit), because the worker counts the attempts.
   */
  push(key: string, payload: string | Buffer, atMs: number): Word[] {
    return ["ZQ.PUSH", key, payload, "ID", this.name, "AT", `${atMs}ms`, "MAXATTEMPTS", "0", ...this.#options];
  }
}

/** The fields of a job that tell whether it is a run of a recurring job, and of which one. */
export interface Run {
  readonly state: string;
  readonly attempts: number;
  readonly maxAttempts: number;
  readonly hasPeriod: boolean;
  readonly dueMs: number;
  readonly payload: Buffer;
  readonly priority: number;
  readonly group: string;
}

/**
 * Whether a job is a run that waits for a time of a cron expression, for another second at least. Such a run has no
 * limit of attempts, is due at a whole minute, and has never been claimed.
 */
export function isRun({ state, attempts, maxAttempts, hasPeriod, dueMs }: Run, nowMs: number): boolean {
  const isWaiting = state === "delayed" && attempts === 0 && dueMs > nowMs + 1000;
  return isWaiting && dueMs % 60_000 === 0 && maxAttempts === 0 && !hasPeriod;
}

/** Whether a waiting run has this payload, and the priority and group of `cron`. */
export function isAsPushed(cron: Cron, run: Run, payload: string | Buffer): boolean {
  const isSame = Buffer.from(payload).equals(run.payload) && run.priority === cron.priority;
  return isSame && run.group === (cron.group ?? "");
}
