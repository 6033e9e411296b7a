/** The argument of a handler, and the errors that it may throw. */

import type { Header } from "../codec.js";
import type { Reply, Word } from "../connection.js";
import { decoded } from "../boundary.js";
import { slotOf } from "../shards.js";
import { type Duration, fields, integer, milliseconds, textOrNull } from "../values.js";
import type { Claimed } from "../wire/claims.js";

/** Thrown by a handler to run the job again. */
export class Retry extends Error {
  override readonly name = "Retry";
  /** @internal */
  readonly afterMs: number | undefined;
  /** @internal */
  readonly free: boolean;
  /** @internal */
  readonly hold: boolean;

  /**
   * `new Retry({ after: "5m" })`. `after`: the delay before the next attempt; by default the backoff. `free`: this
   * attempt does not count, for example because a service responded 429. `hold`: no other job of the same group is
   * claimed during this delay.
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

/** Thrown by a handler to make the job a dead letter, without further attempts. */
export class Discard extends Error {
  override readonly name = "Discard";
}

/** A command to send with an ACK: a command of `queue.calls`, or any other command with a key. */
export interface Chained {
  readonly key: string;
  readonly words: readonly Word[];
}

/** The largest text of `progress`, in bytes. */
const MAX_PROGRESS = 1024;

export class Job<T> {
  /** @internal */
  readonly key: string;
  /** The ID. If another client has pushed an ID that is not UTF-8, its bytes have the form `\xff`. */
  readonly id: string;
  /** @internal */
  readonly rawId: Word;
  /**
   * A fencing token. Later claims of the queue have larger tokens. Let the handler store the token with its data, and
   * refuse writes with a smaller token.
   */
  readonly token: number;
  /** The number of the attempt, from 1. */
  readonly attempt: number;
  /** The traceparent of the push, if the job has one. */
  readonly traceparent: string | undefined;
  /** How long the handler may run, if the push gave a timeout. This value replaces the worker's `timeout`. */
  readonly timeoutMs: number | undefined;
  readonly #abort = new AbortController();
  readonly #slot: number | undefined;
  readonly #ask: (command: readonly Word[]) => Promise<Reply>;
  #deadlineMs: number;
  #isDone = false;
  readonly #chained: Chained[] = [];

  constructor(
    claimed: Claimed,
    readonly queue: string,
    readonly payload: T,
    { traceparent, timeoutMs }: Header = {},
    /** The slot of the key, in a cluster. */
    slot?: number,
    /** Sends a command to the server of the queue. */
    ask: (command: readonly Word[]) => Promise<Reply> = () => Promise.reject(new Error("this job has no worker")),
  ) {
    this.#slot = slot;
    this.#ask = ask;
    this.key = claimed.key;
    this.id = claimed.id;
    this.rawId = claimed.rawId;
    this.token = claimed.token;
    this.attempt = claimed.attempt;
    this.#deadlineMs = claimed.deadlineMs;
    this.traceparent = traceparent;
    this.timeoutMs = timeoutMs;
  }

  /** When the lease expires, in Unix ms. Heartbeats extend the lease. */
  get deadlineMs(): number {
    return this.#deadlineMs;
  }

  /** @internal */
  extendTo(deadlineMs: number): void {
    this.#deadlineMs = deadlineMs;
  }

  /**
   * Is aborted if the lease is lost, if the worker stops and returns the job, or if the handler runs longer than
   * `timeout`. Its `reason` is `LeaseLost`, `Stopped` or `TimeoutError`. If the handler returns later, the job does not
   * count as done: see `done`.
   */
  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Throws if this worker no longer holds the job: `LeaseLost`, `Stopped` or `TimeoutError`. */
  check(): void {
    this.signal.throwIfAborted();
  }

  /**
   * Declares that the work is done. The worker then sends an ACK, even if the handler throws an error later or the
   * lease is lost. An ACK after the loss of the lease has no effect if another worker has the job.
   */
  done(): void {
    this.#isDone = true;
  }

  /** @internal */
  get isDone(): boolean {
    return this.#isDone;
  }

  /**
   * Stores how far the job has come: `await job.progress("40 %")`. The queue shows the text (`queue.get`), and keeps it
   * for the next attempt (`lastProgress`). At most 1,024 bytes. Returns false if this worker no longer holds the job.
   */
  async progress(text: string): Promise<boolean> {
    const length = Buffer.byteLength(text);
    if (length > MAX_PROGRESS) throw new RangeError(`a text of progress has at most ${MAX_PROGRESS} bytes, not ${length}`);
    const reply = await this.#ask(["ZQ.PROGRESS", this.key, this.rawId, `${this.token}`, text]);
    return decoded(() => integer(reply)) === 1;
  }

  /** Reads the last text of `progress`, of this attempt or an earlier one; null if there is none. */
  async lastProgress(): Promise<string | null> {
    const reply = await this.#ask(["ZQ.GET", this.key, this.rawId]);
    return decoded(() => (reply === null ? null : textOrNull(fields(reply).get("progress") ?? null)));
  }

  /**
   * Sends another command in the same MULTI as the ACK of this job:
   * `job.chain(mails.calls.push("done", { id: `${job.id}:mail` }))`. The server carries out the command even if the ACK
   * is too late. So give a chained push an id, which prevents a second job. In a cluster, the key of the command must
   * be in the slot of the job's queue.
   */
  chain(call: Chained): void {
    if (this.#slot !== undefined && slotOf(call.key) !== this.#slot) {
      throw new RangeError(`in a cluster a chained command needs a key in the slot of ${this.key}, not ${call.key}`);
    }
    if (!call.words.every((word) => typeof word === "string" || Buffer.isBuffer(word))) {
      throw new TypeError("a word of a chained command is a string or a Buffer");
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
