/** Keeps the jobs that a worker holds: runs their handlers, extends their leases, cancels the handlers of lost jobs. */

import { type Codec, decode, headerOf } from "../codec.js";
import type { Reply, Word } from "../connection.js";
import { asError, describe, LeaseLost, Stopped, TimeoutError } from "../errors.js";
import * as wire from "../wire/claims.js";
import { slotOf } from "../shards.js";
import { Job } from "./job.js";
import * as outcomes from "./outcome.js";

interface Held<T> {
  readonly job: Job<T>;
  readonly startedMs: number;
  /** The time at which the lease expires, by the clock of this process. */
  leaseEndsMs: number;
  isRunning: boolean;
  /**
   * Why the handler was cancelled. The worker ignores the result of a cancelled handler. But if the lease was lost and
   * the handler has called `job.done()`, the worker sends an ACK.
   */
  isGivenUp: "lost" | "released" | "timed out" | undefined;
  timer?: NodeJS.Timeout;
}

export interface Options<T> {
  /** Returns the name of the queue to which this key belongs. The key is the queue's own, or the key of a shard. */
  nameOf(key: string): string;
  /** Whether the server is a cluster, in which keys have slots. */
  readonly isCluster: boolean;
  handler(job: Job<T>): unknown;
  readonly codec: Codec<T>;
  readonly leaseMs: number;
  /** Sends a command of a handler to the server of the queues. */
  ask(key: string, command: readonly Word[]): Promise<Reply>;
  /** Returns how long a handler may run; undefined if there is no limit. */
  timeoutMs(job: Job<T>): number | undefined;
  /**
   * Returns the delay before the next attempt of a failed job, from the worker's options. Undefined if the queue has a
   * BACKOFF, because the server then computes the delay.
   */
  backoffMs(job: Job<T>): number | undefined;
}

export interface Reports<T> {
  claimed(job: Job<T>): void;
  ended(outcome: outcomes.Outcome<T>): void;
  lost(event: outcomes.JobEvent<T>): void;
  /** A handler has ended, so its slot is free. */
  freed(): void;
}

export class Holding<T> {
  /** The jobs whose handlers run, and the jobs whose outcomes are not confirmed yet. */
  readonly #held = new Map<Job<T>, Held<T>>();
  #running = 0;

  constructor(
    private readonly options: Options<T>,
    private readonly reports: Reports<T>,
  ) {}

  get running(): number {
    return this.#running;
  }

  /**
   * Runs the handler. The lease began at `sinceMs` or later. If more than half of the lease may be over, returns the
   * job to the queue instead.
   */
  start(claimed: wire.Claimed, sinceMs: number): void {
    const nowMs = performance.now();
    if (nowMs - sinceMs > this.options.leaseMs / 2) return this.giveBack(claimed);
    let job: Job<T>;
    try {
      const { nameOf, codec, isCluster } = this.options;
      const slot = isCluster ? slotOf(claimed.key) : undefined;
      job = new Job(claimed, nameOf(claimed.key), decode(codec, claimed.raw), headerOf(codec, claimed.raw), slot, (command) => this.options.ask(claimed.key, command));
    } catch (thrown) {
      this.reports.ended(outcomes.discarded(this.#unread(claimed), 0, asError(thrown)));
      return;
    }
    const leaseEndsMs = sinceMs + this.options.leaseMs;
    const held: Held<T> = { job, startedMs: nowMs, leaseEndsMs, isRunning: true, isGivenUp: undefined };
    this.#held.set(job, held);
    this.#running += 1;
    this.reports.claimed(job);
    void this.#run(held);
  }

  /** Returns a job to the queue before its handler has begun, so that another worker can run the job. */
  giveBack(claimed: wire.Claimed): void {
    this.reports.ended(outcomes.released(this.#unread(claimed), 0));
  }

  /** Reports a job as failed without running it, because its earlier attempts left no result. */
  giveUp(claimed: wire.Claimed): void {
    const error = new Error("given up: earlier attempts left no result");
    this.reports.ended(outcomes.failed(this.#unread(claimed), 0, error, undefined));
  }

  #unread(claimed: wire.Claimed): Job<T> {
    return new Job(claimed, this.options.nameOf(claimed.key), undefined as T);
  }

  async #run(held: Held<T>): Promise<void> {
    const { job } = held;
    let error: Error | undefined;
    try {
      const timeoutMs = job.timeoutMs ?? this.options.timeoutMs(job);
      // A longer timer of Node.js would fire at once.
      if (timeoutMs !== undefined && timeoutMs < 2 ** 31) held.timer = setTimeout(() => this.#timeOut(held, timeoutMs), timeoutMs);
      const unrun = unrunOf(await this.options.handler(job));
      if (unrun) throw new TypeError(`the handler returned ${unrun}, which nobody runs: write async (job) => { … }`);
    } catch (thrown) {
      error = asError(thrown);
    }
    clearTimeout(held.timer);
    // If the handler has blocked the event loop, `loseEnded` has not noticed yet that the lease has expired.
    if (performance.now() >= held.leaseEndsMs) this.#lose(held);
    held.isRunning = false;
    this.#running -= 1;
    if (job.isDone) error = undefined;
    const counts = !held.isGivenUp || (held.isGivenUp === "lost" && job.isDone);
    if (counts) this.reports.ended(error ? this.#failed(held, error) : outcomes.completed(job, since(held)));
    else this.settled(job);
    this.reports.freed();
  }

  #failed(held: Held<T>, error: Error): outcomes.Outcome<T> {
    const { job } = held;
    const backoffMs = this.options.backoffMs(job);
    try {
      return outcomes.failed(job, since(held), error, backoffMs);
    } catch (thrown) {
      // A property of the handler's error throws.
      return outcomes.failed(job, since(held), new Error(describe(asError(thrown))), backoffMs);
    }
  }

  /** Forgets a job whose outcome the server has confirmed, or whose outcome the worker does not report. */
  settled(job: Job<T>): void {
    if (!this.#held.get(job)?.isRunning) this.#held.delete(job);
  }

  /** Cancels the handlers of jobs whose leases have expired because no heartbeat succeeded. */
  loseEnded(): void {
    const now = performance.now();
    for (const held of this.#held.values()) if (held.isRunning && now >= held.leaseEndsMs) this.#lose(held);
  }

  /** For each key, returns a heartbeat for the held jobs, and a function that handles its reply. */
  heartbeats(keys: ReadonlySet<string>): { readonly command: Word[]; answered(reply: Reply): void }[] {
    const sentMs = performance.now();
    const queues = new Map<string, Held<T>[]>();
    for (const held of this.#held.values()) {
      const { key } = held.job;
      if (held.isGivenUp || !keys.has(key)) continue;
      const alive = queues.get(key);
      if (alive) alive.push(held);
      else queues.set(key, [held]);
    }
    return [...queues].map(([key, alive]) => ({
      command: wire.extend(key, alive.map((held) => held.job), this.options.leaseMs),
      answered: (reply) => {
        for (const [at, deadlineMs] of wire.extended(reply, alive.length).entries()) {
          const held = alive[at];
          // A job that has ended since the heartbeat is not lost: its outcome is reported.
          if (!held?.isRunning) continue;
          if (deadlineMs === null) this.#lose(held);
          else {
            held.job.extendTo(deadlineMs);
            held.leaseEndsMs = sentMs + this.options.leaseMs;
          }
        }
      },
    }));
  }

  /** Returns to the queue all jobs whose handlers still run, and cancels the handlers. */
  release(): void {
    for (const held of this.#held.values()) {
      if (!held.isRunning || held.isGivenUp) continue;
      held.isGivenUp = "released";
      this.reports.ended((held.job.isDone ? outcomes.completed : outcomes.released)(held.job, since(held)));
      held.job.cancel(new Stopped("the worker stops"));
    }
  }

  #lose(held: Held<T>): void {
    if (held.isGivenUp) return;
    held.isGivenUp = "lost";
    const error = new LeaseLost(`the lease of ${held.job.id} is lost`);
    this.reports.lost({ job: held.job, ms: since(held), error });
    held.job.cancel(error);
  }

  /** Reports the job as failed without waiting for its handler, which may never return. */
  #timeOut(held: Held<T>, timeoutMs: number): void {
    if (held.isGivenUp || held.job.isDone) return;
    held.isGivenUp = "timed out";
    const error = new TimeoutError(`ran longer than ${shortly(timeoutMs)}`);
    this.reports.ended(this.#failed(held, error));
    held.job.cancel(error);
  }
}

const since = ({ startedMs }: Held<unknown>): number => performance.now() - startedMs;

const shortly = (ms: number): string => (ms % 1000 === 0 ? `${ms / 1000}s` : `${ms}ms`);

/**
 * If a handler's result is a function or a generator, returns the type of the result. The code of such a handler has
 * not run, so the job must not be acknowledged.
 */
function unrunOf(result: unknown): string | undefined {
  if (typeof result === "function") return "a function";
  const [, kind] = /^\[object (Generator|AsyncGenerator)\]$/.exec(Object.prototype.toString.call(result)) ?? [];
  return kind && `${kind === "Generator" ? "a" : "an"} ${kind}`;
}
