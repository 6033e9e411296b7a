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
import { asError, isRefusal, passes } from "./errors.js";
import { type Duration, fields, milliseconds, text } from "./values.js";
import type { Telemetry } from "./telemetry.js";
import * as wire from "./wire/claims.js";
import { Chores } from "./worker/chores.js";
import type { Cron } from "./worker/cron.js";
import { Holding } from "./worker/holding.js";
import type { Job } from "./worker/job.js";
import { Link } from "./worker/link.js";
import * as outcomes from "./worker/outcome.js";

export type Handler<T> = (job: Job<T>) => unknown;

export interface WorkerOptions<T> {
  /** How many jobs run at once; 10 by default. */
  readonly concurrency?: number;
  /** For how long a job is held without a heartbeat; 30 s by default. */
  readonly lease?: Duration;
  /** How long a job may take; it has failed then. By default as long as it likes. */
  readonly timeout?: Duration | ((job: Job<T>) => Duration | undefined);
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
  /** Runs before the first connection. If it fails, `run` throws that. */
  readonly onStart?: () => unknown;
  /** Runs after the last job, before `run` returns or throws. */
  readonly onStop?: () => unknown;
  /** `OpenTelemetry` of zeitset/otel. */
  readonly telemetry?: Telemetry | undefined;
  /** The calendar of recurring jobs: `Clock` of zeitset/testing. */
  readonly clock?: { readonly aheadMs: number };
}

export type WorkerState = "new" | "running" | "reconnecting" | "stopping" | "stopped";

/** The names of events, and what listeners get. Times are in milliseconds. */
export interface WorkerEvents<T> {
  claimed: [{ readonly job: Job<T> }];
  completed: [outcomes.JobEvent<T>];
  failed: [outcomes.JobEvent<T>];
  retried: [outcomes.JobEvent<T>];
  discarded: [outcomes.JobEvent<T>];
  /** After `failed`, `retried` or `discarded`: that was the last attempt. */
  dead: [outcomes.JobEvent<T>];
  lost: [outcomes.JobEvent<T>];
  released: [outcomes.JobEvent<T>];
  stale: [outcomes.JobEvent<T>];
  connected: [];
  /** The connection is lost, or an attempt to connect has failed: the next one follows. */
  disconnected: [{ readonly error: Error }];
  /** The server refused a command for now (OOM …), which is sent again. */
  refused: [{ readonly error: Error }];
}

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** Whether leases have expired is looked at that often between two heartbeats. */
const LOOKS = 4;

const CHORES_MS = 60_000;

/** How long a worker that stops tries to tell the server what has come of its jobs. */
const LAST_WORDS_MS = 5000;

/**
 * `new Worker(redis, "mails", async (job) => { … })`, or one handler for each queue: `new Worker(redis, { mails: f, reports: g })`.
 * Then `await worker.run()`.
 */
export class Worker<T = any> extends EventEmitter<WorkerEvents<T>> {
  /** The keys of the queues, the first served first. */
  readonly queues: readonly string[];
  readonly name: string;
  readonly #options: WorkerOptions<T>;
  readonly #key: string;
  readonly #concurrency: number;
  readonly #leaseMs: number;
  readonly #graceMs: number;
  readonly #link: Link;
  readonly #chores: Chores;
  readonly #holding: Holding<T>;

  #phase: "new" | "working" | "stopping" | "stopped" = "new";
  #isBurst = false;
  #isConnected = false;
  #isTurning = false;
  #isClaiming = false;
  /** The last claim brought less than was asked for. */
  #isDrained = false;
  #isPumpDue = false;
  #isBeating = false;
  /** The server refused something a moment ago: no claims, and no repetitions. */
  #isResting = false;
  /** Which connection it is: what fails on a former one says nothing of this one. */
  #epoch = 0;
  /** Since the last reply that was none. */
  #troubles = 0;
  #beatMs = 0;
  /** What is still to be told to the server. */
  #untold: outcomes.Outcome<T>[] = [];
  #fatal: Error | undefined;
  #stopped: Promise<void> | undefined;
  #endGrace: () => void = () => undefined;
  #watchers: (() => void)[] = [];

  constructor(client: RedisClient, handlers: Readonly<Record<string, Handler<T>>>, options?: WorkerOptions<T>);
  constructor(client: RedisClient, queues: string | readonly string[], handler: Handler<T>, options?: WorkerOptions<T>);
  constructor(
    client: RedisClient,
    what: string | readonly string[] | Readonly<Record<string, Handler<T>>>,
    second?: Handler<T> | WorkerOptions<T>,
    third?: WorkerOptions<T>,
  ) {
    super();
    const [handler, options] = typeof second === "function" ? [second, third ?? {}] : [undefined, second ?? third ?? {}];
    const isOne = typeof what === "string" || Array.isArray(what);
    const names = isOne ? ([what].flat() as string[]) : Object.keys(what);
    const handlers = new Map<string, Handler<T>>();
    const { concurrency = 10, lease = "30s", grace = "20s", backoff = outcomes.defaultBackoff, timeout } = options;
    for (const name of names) {
      const its = isOne ? handler : (what as Readonly<Record<string, Handler<T>>>)[name];
      if (typeof its !== "function") throw new TypeError(`a worker needs a handler for ${name}`);
      handlers.set(name, its);
    }
    this.queues = [...handlers.keys()];
    const [key] = this.queues;
    if (key === undefined) throw new TypeError("a worker needs a queue");
    if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
      throw new RangeError(`concurrency must be a whole number above 0, not ${concurrency}`);
    }
    const codec = codecOf(options.codec);
    this.#key = key;
    this.name = options.name ?? `${hostname()}:${process.pid}`;
    this.#options = options;
    this.#concurrency = concurrency;
    this.#leaseMs = milliseconds(lease);
    this.#graceMs = milliseconds(grace);
    if (this.#leaseMs < 1) throw new RangeError("lease must be at least 1 ms");
    const timeoutMs = typeof timeout === "function" || timeout === undefined ? undefined : milliseconds(timeout);
    const connection = connectionOf(client);
    if (connection.isCluster && this.queues.some((queue) => tagOf(queue) !== tagOf(key))) {
      throw new RangeError(`in a cluster the queues of a worker need one hash tag, such as {${key}}: ${this.queues.join(" ")}`);
    }
    this.#link = new Link(connection, this.#leaseMs);
    this.#chores = new Chores(this.queues, options.cron ?? [], codec as Codec<unknown>, options.clock ?? { aheadMs: 0 });
    this.#holding = new Holding(
      {
        handler: (job) => {
          const handler = (): unknown => handlers.get(job.queue)?.(job);
          return options.telemetry ? options.telemetry.handles(job, handler) : handler();
        },
        codec,
        leaseMs: this.#leaseMs,
        timeoutMs: (job) => {
          const own = typeof timeout === "function" ? timeout(job) : undefined;
          return own === undefined ? timeoutMs : milliseconds(own);
        },
        backoffMs: (queue, attempt) => (this.#chores.hasBackoff(queue) ? undefined : waitOf(backoff, attempt)),
      },
      {
        claimed: (job) => this.#announce("claimed", { job }),
        ended: (outcome) => {
          this.#untold.push(this.#chores.andNext(outcome, this.#leaseMs));
          // There may be more by now: a burst looks again.
          if (this.#isBurst) this.#isDrained = false;
          this.#pumpSoon();
        },
        lost: (event) => this.#announce("lost", event),
        unrun: (job, what) => {
          this.#untold.push(outcomes.released(job, 0));
          this.#fail(new TypeError(`a handler of ${job.queue} returned ${what}, which nobody runs: write async (job) => { … }`));
        },
        freed: () => this.#pumpSoon(),
      },
    );
  }

  get state(): WorkerState {
    if (this.#phase !== "working") return this.#phase;
    return this.#isConnected ? "running" : "reconnecting";
  }

  /**
   * Works until it is stopped: by `stop`, by SIGTERM or SIGINT, or by an error that does not pass, which it throws. With `burst`
   * also when no job is ready and none runs.
   */
  async run({ burst = false }: { burst?: boolean } = {}): Promise<void> {
    if (this.#phase === "stopped" && this.#stopped) return;
    if (this.#phase !== "new") throw new Error("a worker runs once");
    this.#phase = "working";
    this.#isBurst = burst;
    const onSignal = (): void => {
      if (this.#stopped) this.#endGrace();
      else void this.stop();
    };
    const signals = (this.#options.signals ?? true) ? SIGNALS : [];
    for (const signal of signals) process.on(signal, onSignal);
    let timers: NodeJS.Timeout[] = [];
    try {
      await this.#options.onStart?.();
      timers = [this.#startHeart(), setInterval(() => this.#go(this.#doChores()), CHORES_MS)];
      this.#go(this.#connect());
      await this.#when(() => this.#phase === "stopped");
      const failed = await result(Promise.resolve().then(this.#options.onStop));
      if (failed instanceof Error) this.#fatal ??= failed;
    } finally {
      this.#phase = "stopped";
      for (const timer of timers) clearInterval(timer);
      for (const signal of signals) process.off(signal, onSignal);
    }
    if (this.#fatal) throw this.#fatal;
  }

  /** Claims no more, waits for the handlers up to the grace, and gives back what is not ready then. */
  stop({ grace }: { grace?: Duration } = {}): Promise<void> {
    this.#stopped ??= this.#stop(grace === undefined ? this.#graceMs : milliseconds(grace));
    return this.#stopped;
  }

  async #stop(graceMs: number): Promise<void> {
    const isWorking = this.#phase === "working";
    this.#phase = isWorking ? "stopping" : "stopped";
    if (!isWorking) return;
    const epoch = this.#epoch;
    if (this.#isConnected && this.#isClaiming) {
      this.#link.endWait(this.#key).catch((error: unknown) => this.#trouble(asError(error), epoch));
    }
    let isGraceOver = false;
    this.#endGrace = () => {
      isGraceOver = true;
      this.#changed();
    };
    await this.#when(() => isGraceOver || this.#holding.running === 0, graceMs);
    this.#holding.release();
    await this.#when(() => this.#untold.length === 0 && !this.#isTurning && !this.#isClaiming, LAST_WORDS_MS);
    this.#phase = "stopped";
    this.#disconnect();
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
    const again = this.#untold.filter((outcome) => outcome.isRepeated);
    // What could not be told yet keeps its slot: no more is held than the worker may hold.
    const slots = this.#concurrency - this.#holding.running - again.length;
    const free = this.#phase === "working" && !this.#isClaiming && !this.#isResting ? slots : 0;
    if (!this.#isTurning) {
      const told = this.#isResting ? this.#untold.filter((outcome) => !outcome.isRepeated) : this.#untold;
      const count = this.#isDrained ? 0 : Math.max(0, free);
      this.#untold = this.#isResting ? again : [];
      if (told.length > 0 || count > 0) this.#go(this.#turn(told, count));
    }
    if (!this.#isDrained || free <= 0) return;
    if (!this.#isBurst) this.#go(this.#wait(free));
    else if (!this.#isTurning && this.#untold.length === 0 && this.#holding.running === 0) void this.stop();
  }

  /** One round trip: what has come of jobs, then a claim for `count` more, if any. */
  async #turn(told: outcomes.Outcome<T>[], count: number): Promise<void> {
    this.#isTurning = true;
    this.#isClaiming ||= count > 0;
    const epoch = this.#epoch;
    const sentMs = performance.now();
    const [single, several] = [told.filter((o) => o.commands.length === 1), told.filter((o) => o.commands.length > 1)];
    const sent = single.map(({ commands, look }) => (look ? [...commands, look] : commands));
    const commands = [...sent.flat(), ...(count > 0 ? [this.#claim(count)] : [])];
    // In this order on one connection: a claim sees what the outcomes have changed.
    const transactions = several.map(async (o) => {
      this.#told(o, await result(this.#link.transaction(o.job.queue, o.commands)), epoch);
    });
    const replies = await result(commands.length > 0 ? this.#link.request(this.#key, commands, "bytes") : Promise.resolve([]));
    let at = 0;
    for (const [n, outcome] of single.entries()) {
      this.#told(outcome, replies instanceof Error ? replies : replies.slice(at, (at += sent[n]?.length ?? 0)), epoch);
    }
    await Promise.all(transactions);
    if (count > 0) {
      this.#isClaiming = false;
      this.#take(replies instanceof Error ? replies : (replies.at(-1) ?? null), count, sentMs, epoch);
    }
    this.#isTurning = false;
    this.#pumpSoon();
  }

  /** Waits for up to `count` jobs. */
  async #wait(count: number): Promise<void> {
    this.#isClaiming = true;
    const epoch = this.#epoch;
    const sentMs = performance.now();
    const blockMs = this.#link.longestWaitMs;
    const reply = await result(this.#link.wait(this.#key, this.#claim(count, blockMs), blockMs));
    this.#isClaiming = false;
    this.#take(reply, count, sentMs, epoch);
    this.#pumpSoon();
  }

  #claim(count: number, blockMs?: number): ReturnType<typeof wire.claim> {
    const claim = { queues: this.queues, leaseMs: this.#leaseMs, count, worker: this.name };
    return wire.claim(blockMs === undefined ? claim : { ...claim, blockMs });
  }

  #take(reply: Reply | Error, count: number, sinceMs: number, epoch: number): void {
    const jobs = reply instanceof Error ? reply : read(() => (reply === null ? [] : wire.claimed(reply)));
    if (jobs instanceof Error) return this.#trouble(jobs, epoch);
    this.#troubles = 0;
    this.#isDrained = jobs.length < count;
    for (const claimed of jobs) {
      if (this.#phase === "working") this.#holding.start(claimed, sinceMs);
      else this.#holding.giveBack(claimed);
    }
  }

  /** What the server made of an outcome: the replies to its commands, the first of which ends the claim. */
  #told(outcome: outcomes.Outcome<T>, replies: readonly (Reply | Error)[] | Error, epoch: number): void {
    const reply = replies instanceof Error ? replies : (replies[0] ?? null);
    const hasEnded = reply instanceof Error ? reply : read(() => wire.ended(reply));
    if (hasEnded instanceof Error) return this.#untellable(outcome, hasEnded, epoch);
    const { job, ms, ending, commands, isRepeated } = outcome;
    const [others, [look]] = splitAt(replies as readonly (Reply | Error)[], commands.length);
    // The claim is ended all the same if a command chained to it has failed.
    const error = outcome.error ?? others.find((other) => other instanceof Error);
    const event = error ? { job, ms, error } : { job, ms };
    const isStale = !hasEnded && !isRepeated;
    this.#holding.settled(job);
    this.#announce(isStale ? "stale" : ending, event);
    if (!isStale && (outcome.isDead || isDead(look))) this.#announce("dead", event);
  }

  /** The server did not take it. */
  #untellable(outcome: outcomes.Outcome<T>, error: Error, epoch: number): void {
    const { job, ms, commands } = outcome;
    if (passes(error)) this.#untold.push({ ...outcome, isRepeated: true });
    else if (commands.length > 1) {
      // It refused a chained command, and so all of them.
      const backoffMs = this.#chores.hasBackoff(job.queue) ? undefined : waitOf(this.#options.backoff, job.attempt);
      this.#untold.push(outcomes.failed(job, ms, error, backoffMs));
      return;
    }
    this.#trouble(error, epoch);
  }

  // --- heartbeats ------------------------------------------------------------------------------------------------------------

  #startHeart(): NodeJS.Timeout {
    const look = (): void => {
      this.#holding.loseEnded();
      if (performance.now() - this.#beatMs >= this.#leaseMs / 3 - 1) this.#go(this.#beat());
    };
    return setInterval(look, Math.max(10, this.#leaseMs / (3 * LOOKS)));
  }

  async #beat(): Promise<void> {
    if (!this.#isConnected || this.#isBeating) return;
    const beats = this.#holding.heartbeats();
    this.#beatMs = performance.now();
    if (beats.length === 0) return;
    this.#isBeating = true;
    const epoch = this.#epoch;
    const replies = await result(this.#link.request(this.#key, beats.map((beat) => beat.command)));
    this.#isBeating = false;
    if (replies instanceof Error) return this.#trouble(replies, epoch);
    for (const [at, reply] of replies.entries()) {
      const error = reply instanceof Error ? reply : read(() => beats[at]?.answered(reply));
      if (error instanceof Error) this.#trouble(error, epoch);
    }
  }

  // --- connections -----------------------------------------------------------------------------------------------------------

  async #connect(): Promise<void> {
    while (this.#phase === "working" || this.#phase === "stopping") {
      if (this.#troubles > 0) await sleep(reconnectMs(this.#troubles));
      const error = await result(this.#link.open(this.#key).then(() => this.#chores.run(this.#link)));
      if (error instanceof Error && isRefusal(error)) this.#refused(error);
      else if (error instanceof Error) {
        this.#link.drop();
        this.#troubles += 1;
        if (this.state === "stopped") return;
        if (!passes(error)) return this.#fail(error);
        this.#announce("disconnected", { error });
        continue;
      }
      break;
    }
    if (this.#phase === "stopped") return this.#link.drop();
    this.#isConnected = true;
    this.#isDrained = false;
    this.#announce("connected");
    this.#go(this.#beat());
    this.#pumpSoon();
  }

  async #doChores(): Promise<void> {
    if (!this.#isConnected) return;
    const epoch = this.#epoch;
    const error = await result(this.#chores.run(this.#link));
    if (error instanceof Error) this.#trouble(error, epoch);
  }

  /** One of the commands failed. */
  #trouble(error: Error, epoch: number): void {
    if (epoch !== this.#epoch || !this.#isConnected) return;
    if (isRefusal(error)) return this.#refused(error);
    if (!passes(error)) return this.#fail(error);
    this.#troubles += 1;
    this.#disconnect();
    this.#announce("disconnected", { error });
    this.#go(this.#connect());
  }

  /** The connection is good: heartbeats go on. Claims, and what was refused, wait a little. */
  #refused(error: Error): void {
    this.#announce("refused", { error });
    if (this.#isResting) return;
    this.#isResting = true;
    this.#troubles += 1;
    setTimeout(() => {
      this.#isResting = false;
      this.#pumpSoon();
    }, reconnectMs(this.#troubles));
  }

  #disconnect(): void {
    this.#isConnected = false;
    this.#epoch += 1;
    this.#link.drop();
  }

  #fail(error: Error): void {
    this.#fatal ??= error;
    void this.stop();
  }

  /** Nothing that `run` does not wait for may fail unheard: `run` throws it. */
  #go(promise: Promise<void>): void {
    promise.catch((error: unknown) => this.#fail(asError(error)));
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

/** What decides on a key's slot: its hash tag, or all of it. */
const tagOf = (key: string): string => /^[^{]*\{([^}]+)\}/.exec(key)?.[1] ?? key;

/** What a reply says, or why it says nothing. */
function read<R>(parse: () => R): R | Error {
  try {
    return parse();
  } catch (thrown) {
    return asError(thrown);
  }
}

/** Whether ZQ.GET shows a dead letter. It may have failed: then nothing is known. */
const isDead = (reply: Reply | Error | undefined): boolean =>
  !!reply && !(reply instanceof Error) && read(() => text(fields(reply).get("state"))) === "dead";

const splitAt = <R>(list: readonly R[], at: number): [R[], R[]] => [list.slice(0, at), list.slice(at)];

/** The wait after a failure. A `backoff` that fails leaves the job its failure. */
function waitOf(backoff: (attempt: number) => Duration = outcomes.defaultBackoff, attempt: number): number {
  try {
    return milliseconds(backoff(attempt));
  } catch (thrown) {
    process.emitWarning(`the backoff of a worker failed: ${asError(thrown).message}`);
    return milliseconds(outcomes.defaultBackoff(attempt));
  }
}
