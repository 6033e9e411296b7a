/** The jobs that a worker holds: runs the handler on each, and cancels those whose lease is lost. */

import { type Codec, decode } from "../codec.js";
import type { Word } from "../connection.js";
import { asError, LeaseLost, Stopped } from "../errors.js";
import * as wire from "../wire/claims.js";
import { Job } from "./job.js";
import * as outcomes from "./outcome.js";

interface Held<T> {
  readonly job: Job<T>;
  readonly startedMs: number;
  /** When the lease ends by this process's own clock, unless it is extended. */
  leaseEndsMs: number;
  /** The server was told, or is not to be told, what came of it. */
  isGivenUp: "lost" | "released" | undefined;
}

export interface Told<T> {
  claimed(job: Job<T>): void;
  ended(outcome: outcomes.Outcome<T>): void;
  lost(event: outcomes.JobEvent<T>): void;
  /** A handler has returned: its slot is free. */
  freed(): void;
}

export class Holding<T> {
  readonly #jobs = new Set<Held<T>>();

  constructor(
    private readonly handler: (job: Job<T>) => unknown,
    private readonly codec: Codec<T>,
    private readonly leaseMs: number,
    /** The worker's own wait after a failure; undefined where the queue has one. */
    private readonly backoffMs: (queue: string, attempt: number) => number | undefined,
    private readonly tell: Told<T>,
  ) {}

  /** Slots in use. */
  get size(): number {
    return this.#jobs.size;
  }

  /** Runs the handler. `sinceMs`: when the lease began at the earliest. */
  start(claimed: wire.Claimed, sinceMs: number): void {
    let payload: T;
    try {
      payload = decode(this.codec, claimed.raw);
    } catch (thrown) {
      this.tell.ended(outcomes.discarded(new Job(claimed, undefined as T), 0, asError(thrown)));
      return;
    }
    const job = new Job(claimed, payload);
    const held: Held<T> = { job, startedMs: performance.now(), leaseEndsMs: sinceMs + this.leaseMs, isGivenUp: undefined };
    this.#jobs.add(held);
    this.tell.claimed(job);
    void this.#run(held);
  }

  async #run(held: Held<T>): Promise<void> {
    const { job } = held;
    let error: Error | undefined;
    try {
      await this.handler(job);
    } catch (thrown) {
      error = asError(thrown);
    }
    this.#jobs.delete(held);
    // A late success counts unless somebody else has claimed the job; a late failure is the end of the lease.
    const isTold = held.isGivenUp === "released" || (held.isGivenUp === "lost" && error !== undefined);
    if (!isTold) {
      const ms = performance.now() - held.startedMs;
      this.tell.ended(
        error ? outcomes.failed(job, ms, error, this.backoffMs(job.queue, job.attempt)) : outcomes.completed(job, ms),
      );
    }
    this.tell.freed();
  }

  /** Cancels the handlers whose lease has ended without a heartbeat getting through. */
  loseEnded(): void {
    const now = performance.now();
    for (const held of this.#jobs) if (now >= held.leaseEndsMs) this.#lose(held);
  }

  /** Heartbeats for all jobs held, and what to do with the replies. */
  heartbeats(): { readonly commands: Word[][]; answered(at: number, deadlineMs: number | null): void } {
    const sentMs = performance.now();
    const alive = [...this.#jobs].filter((held) => held.isGivenUp === undefined);
    return {
      commands: alive.map((held) => wire.extend(held.job, this.leaseMs)),
      answered: (at, deadlineMs) => {
        const held = alive[at];
        // What has ended meanwhile is no longer ours to extend.
        if (!held || !this.#jobs.has(held)) return;
        if (deadlineMs === null) this.#lose(held);
        else held.leaseEndsMs = sentMs + this.leaseMs;
      },
    };
  }

  /** Gives all jobs back that are still running, and cancels their handlers. */
  release(): void {
    for (const held of this.#jobs) {
      if (held.isGivenUp) continue;
      held.isGivenUp = "released";
      this.tell.ended(outcomes.released(held.job, performance.now() - held.startedMs));
      held.job.cancel(new Stopped("the worker stops"));
    }
  }

  #lose(held: Held<T>): void {
    if (held.isGivenUp) return;
    held.isGivenUp = "lost";
    const error = new LeaseLost(`the lease of ${held.job.id} is lost`);
    this.tell.lost({ job: held.job, ms: performance.now() - held.startedMs, error });
    held.job.cancel(error);
  }
}
