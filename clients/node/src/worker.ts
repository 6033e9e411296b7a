/**
 * Takes jobs and runs a handler.
 *
 * One pump decides what to send next. While jobs are there, each turn is one round trip: what has come of jobs, and a claim for
 * the slots that are free. When a claim brings less than was asked for, the queue is empty, and the next claim waits for a job
 * on a connection of its own.
 */

import { EventEmitter } from "node:events";
import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { type Codec, type CodecName, codecOf } from "./codec.js";
import { connectionOf, type RedisClient, type Reply } from "./connection.js";
import { asError, passes } from "./errors.js";
import { type Duration, integer, milliseconds } from "./values.js";
import * as wire from "./wire/claims.js";
import { Chores } from "./worker/chores.js";
import type { Cron } from "./worker/cron.js";
import { Holding } from "./worker/holding.js";
import { Job } from "./worker/job.js";
import { Link } from "./worker/link.js";
import * as outcomes from "./worker/outcome.js";

export interface WorkerOptions<T> {
  /** How many jobs run at once; 10 by default. */
  readonly concurrency?: number;
  /** For how long a job is held without a heartbeat; 30 s by default. */
  readonly lease?: Duration;
  /** How long handlers have to finish when the worker stops; 20 s by default. */
  readonly grace?: Duration;
  /** The wait after a failure by the number of the attempt, where the queue has no BACKOFF. By default 1 s, 2 s, 4 s … at most 1 h. */
  readonly backoff?: (attempt: number) => Duration;
  readonly codec?: CodecName | Codec<T>;
  readonly cron?: readonly Cron[];
  /** What ZQ.GET shows of whoever holds a job; by default the host and the process. */
  readonly name?: string;
  /** Whether `run` stops on SIGTERM and SIGINT; true by default. */
  readonly signals?: boolean;
}

export type WorkerState = "new" | "running" | "reconnecting" | "stopping" | "stopped";

/** The names of events, and what listeners get. Times are in milliseconds. */
export interface WorkerEvents<T> {
  claimed: [{ readonly job: Job<T> }];
  completed: [outcomes.JobEvent<T>];
  failed: [outcomes.JobEvent<T>];
  retried: [outcomes.JobEvent<T>];
  discarded: [outcomes.JobEvent<T>];
  lost: [outcomes.JobEvent<T>];
  released: [outcomes.JobEvent<T>];
  stale: [outcomes.JobEvent<T>];
  connected: [];
  disconnected: [{ readonly error: Error }];
}

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Whether leases have ended is looked at that often between two heartbeats. */
const LOOKS = 4;

const CHORES_MS = 60_000;

/** How long a worker that stops tries to tell the server what has come of its jobs. */
const LAST_WORDS_MS = 5000;

/** `new Worker(redis, "mails", async (job) => { … })`, then `await worker.run()`. */
export class Worker<T = any> extends EventEmitter<WorkerEvents<T>> {
  readonly queues: readonly string[];
  readonly name: string;
  readonly #concurrency: number;
  readonly #leaseMs: number;
  readonly #graceMs: number;
  readonly #signals: boolean;
  readonly #link: Link;
  readonly #chores: Chores;
  readonly #holding: Holding<T>;
  /** The worker's own wait after a failure; undefined where the queue has one. */
  readonly #backoffMs: (queue: string, attempt: number) => number | undefined;

  #phase: "new" | "working" | "stopping" | "stopped" = "new";
  #isConnected = false;
  #isTurning = false;
  #isClaiming = false;
  /** The last claim brought less than was asked for. */
  #isDrained = false;
  #isPumpDue = false;
  #isBeating = false;
  /** Since the last reply that was none. */
  #troubles = 0;
  /** What is still to be told to the server. */
  #untold: outcomes.Outcome<T>[] = [];
  #fatal: Error | undefined;
  #stopped: Promise<void> | undefined;
  #endGrace: () => void = () => undefined;
  #watchers: (() => void)[] = [];

  constructor(
    client: RedisClient,
    queues: string | readonly string[],
    handler: (job: Job<T>) => unknown,
    options: WorkerOptions<T> = {},
  ) {
    super();
    const { concurrency = 10, lease = "30s", grace = "20s", backoff = outcomes.defaultBackoff } = options;
    this.queues = typeof queues === "string" ? [queues] : [...queues];
    const [key] = this.queues;
    if (key === undefined) throw new TypeError("a worker needs a queue");
    if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
      throw new RangeError(`concurrency must be a whole number above 0, not ${concurrency}`);
    }
    const codec = codecOf(options.codec);
    this.name = options.name ?? `${hostname()}:${process.pid}`;
    this.#concurrency = concurrency;
    this.#leaseMs = milliseconds(lease);
    this.#graceMs = milliseconds(grace);
    this.#signals = options.signals ?? true;
    this.#link = new Link(connectionOf(client), key);
    this.#chores = new Chores(this.queues, options.cron ?? [], codec as Codec<unknown>);
    this.#backoffMs = (queue, attempt) => (this.#chores.hasBackoff(queue) ? undefined : milliseconds(backoff(attempt)));
    this.#holding = new Holding(handler, codec, this.#leaseMs, this.#backoffMs, {
      claimed: (job) => this.#announce("claimed", { job }),
      ended: (outcome) => {
        this.#untold.push(this.#chores.andNext(outcome, this.#leaseMs));
        this.#pumpSoon();
      },
      lost: (event) => this.#announce("lost", event),
      freed: () => this.#pumpSoon(),
    });
  }

  get state(): WorkerState {
    if (this.#phase !== "working") return this.#phase;
    return this.#isConnected ? "running" : "reconnecting";
  }

  /** Works until it is stopped: by `stop`, by SIGTERM or SIGINT, or by an error that does not pass, which it throws. */
  async run(): Promise<void> {
    if (this.#phase !== "new") throw new Error("a worker runs once");
    this.#phase = "working";
    const onSignal = (): void => {
      if (this.#stopped) this.#endGrace();
      else void this.stop();
    };
    if (this.#signals) for (const signal of SIGNALS) process.on(signal, onSignal);
    const heart = this.#startHeart();
    const chores = setInterval(() => void this.#doChores(), CHORES_MS);
    void this.#connect();
    try {
      await this.#when(() => this.#phase === "stopped");
    } finally {
      clearInterval(heart);
      clearInterval(chores);
      for (const signal of SIGNALS) process.off(signal, onSignal);
    }
    if (this.#fatal) throw this.#fatal;
  }

  /** Claims no more, waits for the handlers up to the grace, and gives back what is not ready then. */
  stop({ grace = this.#graceMs }: { grace?: Duration } = {}): Promise<void> {
    this.#stopped ??= this.#stop(milliseconds(grace));
    return this.#stopped;
  }

  async #stop(graceMs: number): Promise<void> {
    const hasRun = this.#phase !== "new";
    this.#phase = hasRun ? "stopping" : "stopped";
    if (!hasRun) return;
    if (this.#isConnected && this.#isClaiming) this.#link.endWait().catch((error: unknown) => this.#trouble(asError(error)));
    let isGraceOver = false;
    this.#endGrace = () => {
      isGraceOver = true;
      this.#changed();
    };
    await this.#when(() => isGraceOver || this.#holding.size === 0, graceMs);
    this.#holding.release();
    await this.#when(() => this.#untold.length === 0 && !this.#isTurning && !this.#isClaiming, LAST_WORDS_MS);
    this.#phase = "stopped";
    this.#link.drop();
    this.#changed();
  }

  // --- what to send next -----------------------------------------------------------------------------------------------------

  /** Once for all that happens in this turn of the event loop. */
  #pumpSoon(): void {
    if (this.#isPumpDue) return;
    this.#isPumpDue = true;
    setImmediate(() => {
      this.#isPumpDue = false;
      this.#pump();
      this.#changed();
    });
  }

  #pump(): void {
    if (!this.#isConnected || this.#phase === "stopped") return;
    const free = this.#phase === "working" && !this.#isClaiming ? this.#concurrency - this.#holding.size : 0;
    if (!this.#isTurning) {
      const count = this.#isDrained ? 0 : free;
      if (this.#untold.length > 0 || count > 0) void this.#turn(this.#untold.splice(0), count);
    }
    if (this.#isDrained && free > 0) void this.#wait(free);
  }

  /** One round trip: what has come of jobs, then a claim for `count` more, if any. */
  async #turn(told: outcomes.Outcome<T>[], count: number): Promise<void> {
    this.#isTurning = true;
    this.#isClaiming ||= count > 0;
    const sentMs = performance.now();
    const [single, several] = [told.filter((o) => o.commands.length === 1), told.filter((o) => o.commands.length > 1)];
    const commands = [...single.flatMap((o) => o.commands), ...(count > 0 ? [this.#claim(count)] : [])];
    // In this order on one connection: a claim sees what the outcomes have changed.
    const transactions = several.map(async (o) => this.#told(o, await result(this.#link.transaction(o.commands))));
    const replies = await result(commands.length > 0 ? this.#link.request(commands, "bytes") : Promise.resolve([]));
    for (const [at, outcome] of single.entries()) this.#told(outcome, replies instanceof Error ? replies : [replies[at] ?? null]);
    await Promise.all(transactions);
    if (count > 0) {
      this.#isClaiming = false;
      this.#take(replies instanceof Error ? replies : (replies.at(-1) ?? null), count, sentMs);
    }
    this.#isTurning = false;
    this.#pumpSoon();
  }

  /** Waits for up to `count` jobs. */
  async #wait(count: number): Promise<void> {
    this.#isClaiming = true;
    const blockMs = this.#link.longestWaitMs;
    const reply = await result(this.#link.wait(this.#claim(count, blockMs), blockMs));
    this.#isClaiming = false;
    this.#take(reply, count, performance.now());
    this.#pumpSoon();
  }

  #claim(count: number, blockMs?: number): ReturnType<typeof wire.claim> {
    const claim = { queues: this.queues, leaseMs: this.#leaseMs, count, worker: this.name };
    return wire.claim(blockMs === undefined ? claim : { ...claim, blockMs });
  }

  #take(reply: Reply | Error, count: number, sinceMs: number): void {
    if (reply instanceof Error) return this.#trouble(reply);
    this.#troubles = 0;
    const jobs = reply === null ? [] : wire.claimed(reply);
    this.#isDrained = jobs.length < count;
    for (const claimed of jobs) {
      if (this.#phase === "working") this.#holding.start(claimed, sinceMs);
      else this.#untold.push(outcomes.released(new Job(claimed, undefined as T), 0));
    }
  }

  /** What the server made of an outcome: the replies to its commands, the first of which ends the claim. */
  #told(outcome: outcomes.Outcome<T>, replies: readonly (Reply | Error)[] | Error): void {
    const reply = replies instanceof Error ? replies : (replies[0] ?? null);
    if (reply instanceof Error) return this.#untellable(outcome, reply);
    const { job, ms, ending, isRepeated } = outcome;
    // The claim is ended all the same if a command chained to it has failed.
    const error = outcome.error ?? (replies as readonly (Reply | Error)[]).find((other) => other instanceof Error);
    const isStale = integer(reply) === 0 && !isRepeated;
    this.#announce(isStale ? "stale" : ending, error ? { job, ms, error } : { job, ms });
  }

  /** The server did not take it. */
  #untellable(outcome: outcomes.Outcome<T>, error: Error): void {
    const { job, ms, commands } = outcome;
    if (passes(error)) this.#untold.push({ ...outcome, isRepeated: true });
    else if (commands.length > 1) {
      // It refused a chained command, and so all of them.
      this.#untold.push(outcomes.failed(job, ms, error, this.#backoffMs(job.queue, job.attempt)));
      return;
    }
    this.#trouble(error);
  }

  // --- heartbeats ------------------------------------------------------------------------------------------------------------

  #startHeart(): NodeJS.Timeout {
    let looks = 0;
    return setInterval(
      () => {
        this.#holding.loseEnded();
        looks += 1;
        if (looks % LOOKS === 0) void this.#beat();
      },
      Math.max(10, this.#leaseMs / (3 * LOOKS)),
    );
  }

  async #beat(): Promise<void> {
    if (!this.#isConnected || this.#isBeating || this.#holding.size === 0) return;
    const beats = this.#holding.heartbeats();
    if (beats.commands.length === 0) return;
    this.#isBeating = true;
    const replies = await result(this.#link.request(beats.commands));
    this.#isBeating = false;
    if (replies instanceof Error) return this.#trouble(replies);
    for (const [at, reply] of replies.entries()) {
      if (reply instanceof Error) this.#trouble(reply);
      else beats.answered(at, wire.extended(reply));
    }
  }

  // --- connections -----------------------------------------------------------------------------------------------------------

  async #connect(): Promise<void> {
    while (this.#phase !== "stopped") {
      if (this.#troubles > 0) await sleep(reconnectMs(this.#troubles));
      const error = await result(this.#link.open().then(() => this.#chores.run(this.#link)));
      if (!(error instanceof Error)) break;
      this.#link.drop();
      this.#troubles += 1;
      if (!passes(error)) return this.#fail(error);
    }
    if (this.#phase === "stopped") return this.#link.drop();
    this.#isConnected = true;
    this.#isDrained = false;
    this.#announce("connected");
    this.#pumpSoon();
  }

  async #doChores(): Promise<void> {
    if (!this.#isConnected) return;
    const error = await result(this.#chores.run(this.#link));
    if (error instanceof Error) this.#trouble(error);
  }

  /** One of the commands failed. */
  #trouble(error: Error): void {
    if (!passes(error)) return this.#fail(error);
    if (!this.#isConnected) return;
    this.#isConnected = false;
    this.#troubles += 1;
    this.#link.drop();
    this.#announce("disconnected", { error });
    void this.#connect();
  }

  #fail(error: Error): void {
    this.#fatal ??= error;
    void this.stop();
  }

  /** A listener that throws fails by itself, and not the worker. */
  #announce<Name extends keyof WorkerEvents<T>>(name: Name, ...event: WorkerEvents<T>[Name]): void {
    try {
      (this.emit as (name: Name, ...event: WorkerEvents<T>[Name]) => boolean)(name, ...event);
    } catch (thrown) {
      setImmediate(() => {
        throw thrown;
      });
    }
  }

  // --- waiting ---------------------------------------------------------------------------------------------------------------

  #changed(): void {
    for (const watcher of this.#watchers) watcher();
  }

  /** Until that is so, or so much time has passed. */
  async #when(condition: () => boolean, ms?: number): Promise<void> {
    if (condition()) return;
    let timer: NodeJS.Timeout | undefined;
    let watcher: (() => void) | undefined;
    await new Promise<void>((resolve) => {
      watcher = () => condition() && resolve();
      this.#watchers.push(watcher);
      if (ms !== undefined) timer = setTimeout(resolve, ms);
    });
    clearTimeout(timer);
    this.#watchers = this.#watchers.filter((other) => other !== watcher);
  }
}

/** 0.1 s, 0.2 s … at most 3 s, less up to a third at random: workers do not come back all at once. */
const reconnectMs = (troubles: number): number => Math.min(3000, 100 * 2 ** Math.min(troubles - 1, 10)) * (1 - Math.random() / 3);

/** What a promise comes to, an error included. */
const result = <R>(promise: Promise<R>): Promise<R | Error> => promise.catch(asError);
