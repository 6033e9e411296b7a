/** What a handler gets, and what it may throw. */

import type { Header } from "../codec.js";
import type { Word } from "../connection.js";
import { slotOf } from "../shards.js";
import { type Duration, milliseconds } from "../values.js";
import type { Claimed } from "../wire/claims.js";

/** Thrown by a handler: give the job back, to be run again. */
export class Retry extends Error {
  override readonly name = "Retry";
  /** @internal */
  readonly afterMs: number | undefined;
  /** @internal */
  readonly free: boolean;
  /** @internal */
  readonly hold: boolean;

  /**
   * `after`: how long to wait, the backoff by default. `free`: this attempt does not count, as for a service that answered 429.
   * `hold`: no other job of its group runs `after` that long either; everybody else's jobs go on.
   * `new Retry({ after: "5m" })`
   */
  constructor({ after, free = false, hold = false, reason = "retry", cause }: RetryOptions = {}) {
    super(reason, cause === undefined ? undefined : { cause });
    if (hold && after === undefined) throw new TypeError("hold needs after: for how long the group rests");
    this.afterMs = after === undefined ? undefined : milliseconds(after);
    this.free = free;
    this.hold = hold;
  }
}

export interface RetryOptions {
  readonly after?: Duration;
  readonly free?: boolean;
  readonly hold?: boolean;
  readonly reason?: string;
  readonly cause?: unknown;
}

/** Thrown by a handler: no further attempt; the job becomes a dead letter. */
export class Discard extends Error {
  override readonly name = "Discard";
}

/** A command to be sent with an ACK: as `queue.calls` answers them, or any other on a key. */
export interface Chained {
  readonly key: string;
  readonly words: readonly Word[];
}

export class Job<T> {
  /** @internal */
  readonly key: string;
  readonly id: string;
  /** Grows with every claim of the queue: store it with what the handler writes, and refuse a smaller one. */
  readonly token: number;
  /** From 1. */
  readonly attempt: number;
  /** The end of the lease as the claim answered it; heartbeats move it. */
  readonly deadlineMs: number;
  /** Of whoever pushed the job, if it came with one. */
  readonly traceparent: string | undefined;
  /** How long the handler may run, if the push said so; then the worker's `timeout` does not apply. */
  readonly timeoutMs: number | undefined;
  readonly #abort = new AbortController();
  readonly #slot: number | undefined;
  #isDone = false;
  readonly #chained: Chained[] = [];

  constructor(
    claimed: Claimed,
    /** Its name, as the worker has it. */
    readonly queue: string,
    readonly payload: T,
    { traceparent, timeoutMs }: Header = {},
    /** Of its key, in a cluster. */
    slot?: number,
  ) {
    this.#slot = slot;
    this.key = claimed.key;
    this.id = claimed.id;
    this.token = claimed.token;
    this.attempt = claimed.attempt;
    this.deadlineMs = claimed.deadlineMs;
    this.traceparent = traceparent;
    this.timeoutMs = timeoutMs;
  }

  /**
   * Aborted when the lease is lost, when the worker stops and gives the job back, and when the job takes longer than `timeout`.
   * Its `reason` says which. A handler that returns then has not done the job: see `done`.
   */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Throws if the job is no longer this worker's: `LeaseLost`, `Stopped` or `TimeoutError`. */
  check(): void {
    this.signal.throwIfAborted();
  }

  /** Says that the work is done: the job is acknowledged when the handler ends, in whatever way, even if the lease is lost by then. */
  done(): void {
    this.#isDone = true;
  }

  /** @internal */
  get isDone(): boolean {
    return this.#isDone;
  }

  /**
   * Sends another command in the same MULTI as the ACK of this job: `job.chain(mails.calls.push("done", { id: `${job.id}:mail` }))`.
   * An ACK that comes too late does not stop it; so give a push an id. In a cluster both keys need one slot.
   */
  chain(call: Chained): void {
    if (this.#slot !== undefined && slotOf(call.key) !== this.#slot) {
      throw new RangeError(`in a cluster a chained command needs a key in the slot of ${this.key}, not ${call.key}`);
    }
    this.#chained.push(call);
  }

  /** @internal */
  get chained(): readonly Chained[] {
    return this.#chained;
  }

  /** @internal */
  cancel(reason: Error): void {
    this.#abort.abort(reason);
  }
}
