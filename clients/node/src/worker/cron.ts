/** Recurring jobs with a calendar: the schedule is in the code of the workers. */

import { Cron as Pattern } from "croner";
import type { Word } from "../connection.js";
import { whole } from "../values.js";

export interface CronOptions {
  /** An IANA time zone such as `"Europe/Berlin"`; UTC by default. */
  readonly tz?: string;
  readonly payload?: unknown;
  /** Which of the worker's queues, the first by default. */
  readonly queue?: string;
  /** A run that has failed so often is given up, and the next one is pushed; 5 by default. */
  readonly attempts?: number;
  readonly priority?: number;
  readonly group?: string;
}

/** `new Cron("report", "0 3 * * *", { tz: "Europe/Berlin" })`: a job whose id is the name. */
export class Cron {
  readonly payload: unknown;
  readonly queue: string | undefined;
  readonly attempts: number;
  readonly #options: readonly Word[];
  readonly #pattern: Pattern;

  constructor(
    readonly name: string,
    readonly expression: string,
    { tz = "UTC", payload = null, queue, attempts = 5, priority, group }: CronOptions = {},
  ) {
    // Made without a function, it schedules nothing.
    this.#pattern = new Pattern(expression, { timezone: tz });
    this.payload = payload;
    this.queue = queue;
    if (!Number.isSafeInteger(attempts) || attempts < 1) throw new RangeError(`attempts must be 1 or more, not ${attempts}`);
    this.attempts = attempts;
    const priorities = priority ? ["PRIORITY", whole(priority, "priority")] : [];
    this.#options = [...priorities, ...(group === undefined ? [] : ["GROUP", group])];
    // An unknown zone shows only when it is used.
    if (this.next(Date.now()) === null) throw new RangeError(`${expression} never comes`);
  }

  /** The first run after that time, in Unix ms; null if there is none. */
  next(afterMs: number): number | null {
    return this.#pattern.nextRun(new Date(afterMs))?.getTime() ?? null;
  }

  /** Pushes the run at that time, unless there is one in the queue. It cannot die: the worker counts its attempts. */
  push(queue: string, payload: string | Buffer, atMs: number): Word[] {
    return ["ZQ.PUSH", queue, payload, "ID", this.name, "AT", `${atMs}ms`, "ATTEMPTS", "0", ...this.#options];
  }
}

/** Whether a waiting run has to be moved, since the expression says another time. A run that failed and waits, or is about to begin, stays. */
export function isMisplaced(cron: Cron, run: { state: string; attempts: number; dueMs: number }, nowMs: number): boolean {
  return run.state === "delayed" && run.attempts === 0 && run.dueMs > nowMs + 1000 && run.dueMs !== cron.next(nowMs);
}
