/** Recurring jobs with a calendar: the schedule is in the code of the workers. */

import type { Word } from "../connection.js";
import { whole } from "../values.js";
import { Calendar } from "./calendar.js";

export interface CronOptions {
  /** An IANA time zone such as `"Europe/Berlin"`; UTC by default. */
  readonly tz?: string;
  readonly payload?: unknown;
  /** Which of the worker's queues, the first by default. */
  readonly queue?: string;
  /** A run that has failed so often is given up, and the next one is pushed; 5 by default. */
  readonly maxAttempts?: number;
  readonly priority?: number;
  readonly group?: string;
}

/** `new Cron("report", "0 3 * * *", { tz: "Europe/Berlin" })`: a job whose id is the name. */
export class Cron {
  readonly payload: unknown;
  readonly queue: string | undefined;
  readonly maxAttempts: number;
  /** @internal */
  readonly group: string | undefined;
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
    if (!Number.isSafeInteger(maxAttempts) || maxAttempts < 1) {
      throw new RangeError(`maxAttempts must be 1 or more, not ${maxAttempts}`);
    }
    this.maxAttempts = maxAttempts;
    const priorities = priority ? ["PRIORITY", whole(priority, "priority")] : [];
    this.#options = [...priorities, ...(group === undefined ? [] : ["GROUP", group])];
    if (this.next(Date.now()) === null) throw new RangeError(`${expression} never comes`);
  }

  /** The first run after that time, in Unix ms; null if there is none. */
  next(afterMs: number): number | null {
    return this.#calendar.next(afterMs);
  }

  /** Pushes the run at that time, unless there is one in the queue. It cannot die: the worker counts its attempts. */
  push(key: string, payload: string | Buffer, atMs: number): Word[] {
    return ["ZQ.PUSH", key, payload, "ID", this.name, "AT", `${atMs}ms`, "MAXATTEMPTS", "0", ...this.#options];
  }
}

/** Whether a waiting run has to be moved, since the expression says another time. A run that failed and waits, or is about to begin, stays. */
export function isMisplaced(cron: Cron, run: { state: string; attempts: number; dueMs: number }, nowMs: number): boolean {
  return run.state === "delayed" && run.attempts === 0 && run.dueMs > nowMs + 1000 && run.dueMs !== cron.next(nowMs);
}
