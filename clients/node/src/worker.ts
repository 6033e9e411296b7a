/**
 * Claims jobs, and runs a handler for each job.
 *
 * A pump claims jobs and reports their outcomes. Outside a cluster, a worker has one pump. In a cluster, a worker has a
 * pump for each slot of its queues, because all keys of a command must be in one slot. All pumps together start at most
 * `concurrency` jobs at a time.
 */

import { EventEmitter } from "node:events";
import { hostname } from "node:os";
import { type Codec, type CodecName, codecOf } from "./codec.js";
import { connectionOf, type RedisClient } from "./connection.js";
import { asError } from "./errors.js";
import { keysOf, shardOf, slotOf } from "./shards.js";
import { type Duration, milliseconds } from "./values.js";
import type { Telemetry } from "./telemetry.js";
import { Chores } from "./worker/chores.js";
import type { Cron } from "./worker/cron.js";
import { Holding } from "./worker/holding.js";
import type { Job } from "./worker/job.js";
import { checkedWeights, type Weights } from "./worker/order.js";
import * as outcomes from "./worker/outcome.js";
import { Place } from "./worker/place.js";
import { Pump, type Shared } from "./worker/pump.js";

export type Handler<T> = (job: Job<T>) => unknown;

export interface WorkerOptions<T> {
  /** How many jobs run at once; 10 by default. */
  readonly concurrency?: number;
  /** The lease of a job; 30 s by default. If the worker crashes, its jobs are due again after this time. */
  readonly lease?: Duration;
  /** How long a handler may run before its job fails; by default without limit. */
  readonly timeout?: Duration | ((job: Job<T>) => Duration | undefined);
  /** How long handlers may still run after the worker was told to stop; 20 s by default. */
  readonly grace?: Duration;
  /**
   * Returns the wait after a failed attempt, by the number of the attempt. Default: 1 s, 2 s, 4 s … at most 1 h. The
   * BACKOFF of a queue replaces this wait.
   */
  readonly backoff?: (attempt: number) => Duration;
  readonly codec?: CodecName | Codec<T>;
  /** The number of shards of each queue, as in the options of `Queue`; none by default. */
  readonly shards?: number | undefined;
  /**
   * A weight for each queue: `{ high: 3, low: 1 }`. While both queues have jobs, the worker claims three jobs of the
   * first for each job of the second. By default, the worker serves the queues in their order.
   */
  readonly weights?: Weights | undefined;
  readonly cron?: readonly Cron[];
  /** The name of the worker in ZQ.GET; by default the host and the process. */
  readonly name?: string;
  /** Whether `run` stops on SIGTERM and SIGINT; true by default. */
  readonly signals?: boolean;
  /** Runs before the first connection. If it fails, `run` throws its error. */
  readonly onStart?: () => unknown;
  /** Runs after the last job, before `run` returns or throws. */
  readonly onStop?: () => unknown;
  /** An `OpenTelemetry` of zeitset/otel. */
  readonly telemetry?: Telemetry | undefined;
  /** The clock of recurring jobs: a `Clock` of zeitset/testing. */
  readonly clock?: { readonly aheadMs: number };
}

export type WorkerState = "new" | "running" | "reconnecting" | "stopping" | "stopped";

/** The names of events, and the arguments of their listeners. Times are in milliseconds. */
export interface WorkerEvents<T> {
  claimed: [{ readonly job: Job<T> }];
  completed: [outcomes.JobEvent<T>];
  failed: [outcomes.JobEvent<T>];
  retried: [outcomes.JobEvent<T>];
  discarded: [outcomes.JobEvent<T>];
  /** The job became a dead letter. This event comes after the job's `failed`, `retried` or `discarded`. */
  dead: [outcomes.JobEvent<T>];
  lost: [outcomes.JobEvent<T>];
  released: [outcomes.JobEvent<T>];
  stale: [outcomes.JobEvent<T>];
  /** The worker is connected. The event has no error; it is an object like the two events below. */
  connected: [{ readonly error?: undefined }];
  /** The connection was lost, or an attempt to connect has failed. The worker tries again. */
  disconnected: [{ readonly error: Error }];
  /** The server refused a command for now (OOM …). The worker sends the command again. */
  refused: [{ readonly error: Error }];
}

const SIGNALS = ["SIGTERM", "SIGINT"] as const;

/** How often the worker checks for expired leases between two heartbeats. */
const LOOKS = 4;

const CHORES_MS = 60_000;

/** The minimum time between two claims of a pump whose queues are empty, while other pumps have jobs. */
const ASK_AGAIN_MS = 100;

/** How long a worker tries to report the outcomes of its jobs after it was told to stop. */
const LAST_WORDS_MS = 5000;

/**
 * Runs a handler for each job of a queue: `new Worker(redis, "mails", async (job) => { … })`. Each queue can have its
 * own handler: `new Worker(redis, { mails: f, reports: g })`. `await worker.run()` starts the worker.
 */
export class Worker<T = any> extends EventEmitter<WorkerEvents<T>> {
  /** The names of the queues. The first queue is served first. */
  readonly queues: readonly string[];
  readonly name: string;
  readonly #options: WorkerOptions<T>;
  readonly #concurrency: number;
  readonly #leaseMs: number;
  readonly #graceMs: number;
  readonly #holding: Holding<T>;
  /** The pumps, which claim the jobs. When a pump claims without BLOCK, it moves to the end of this list. */
  #pumps: readonly Pump<T>[];

  #phase: "new" | "working" | "stopping" | "stopped" = "new";
  #isBurst = false;
  #isShareDue = false;
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
    if (this.queues.length === 0) throw new TypeError("a worker needs a queue");
    if (!Number.isSafeInteger(concurrency) || concurrency < 1) {
      throw new RangeError(`concurrency must be a whole number above 0, not ${concurrency}`);
    }
    const codec = codecOf(options.codec);
    const weights = checkedWeights(options.weights, this.queues);
    this.name = options.name ?? `${hostname()}:${process.pid}`;
    this.#options = options;
    this.#concurrency = concurrency;
    this.#leaseMs = milliseconds(lease);
    this.#graceMs = milliseconds(grace);
    if (this.#leaseMs < 1) throw new RangeError("lease must be at least 1 ms");
    const timeoutMs = typeof timeout === "function" || timeout === undefined ? undefined : milliseconds(timeout);
    const connection = connectionOf(client);
    const keys = new Map(this.queues.map((queue) => [queue, keysOf(queue, options.shards)]));
    const nameOf = new Map([...keys].flatMap(([queue, its]) => its.map((key) => [key, queue])));
    const pumpOf = new Map<string, Pump<T>>();
    const backoffMs = (job: Job<T>): number | undefined => (pumpOf.get(job.key)?.hasBackoff(job.key) ? undefined : waitOf(backoff, job.attempt));
    this.#holding = new Holding(
      {
        nameOf: (key) => nameOf.get(key) ?? key,
        isCluster: connection.isCluster,
        handler: (job) => {
          const handler = (): unknown => handlers.get(job.queue)?.(job);
          return options.telemetry ? options.telemetry.handles(job, handler) : handler();
        },
        codec,
        leaseMs: this.#leaseMs,
        ask: async (key, command) => {
          const pump = pumpOf.get(key);
          if (!pump) throw new Error(`no connection for ${key}`);
          return pump.ask(command);
        },
        timeoutMs: (job) => {
          const own = typeof timeout === "function" ? timeout(job) : undefined;
          return own === undefined ? timeoutMs : milliseconds(own);
        },
        backoffMs,
      },
      {
        claimed: (job) => this.#announce("claimed", { job }),
        ended: (outcome) => {
          pumpOf.get(outcome.job.key)?.ended(outcome);
          // The handler may have pushed jobs. So with `burst`, the worker claims again.
          if (this.#isBurst) for (const pump of this.#pumps) pump.isDrained = false;
          this.#shareSoon();
        },
        lost: (event) => this.#announce("lost", event),
        freed: () => this.#shareSoon(),
      },
    );
    const shared: Shared<T> = {
      place: new Place(connection, Math.min(10_000, Math.max(1000, this.#leaseMs / 3))),
      holding: this.#holding,
      name: this.name,
      leaseMs: this.#leaseMs,
      weightOf: weights && ((key) => weights[nameOf.get(key) ?? key] ?? 1),
      phase: () => (this.#phase === "new" ? "working" : this.#phase),
      room: () => this.#concurrency - this.#holding.running,
      backoffMs,
      announce: (name: keyof WorkerEvents<T>, event: never) => this.#announce(name, event),
      connected: () => this.#announce("connected", {}),
      changed: () => this.#shareSoon(),
      fail: (error) => this.#fail(error),
      go: (promise) => this.#go(promise),
    };
    const crons = (options.cron ?? []).map((cron) => {
      const its = keys.get(cron.queue ?? this.queues[0] ?? "");
      if (!its) throw new RangeError(`${cron.name} is of the queue ${cron.queue}, which is none of this worker's`);
      return [its[shardOf(cron.group || cron.name, its.length)] ?? "", cron] as const;
    });
    const slots = new Map<number, string[][]>();
    for (const its of keys.values()) {
      for (const [slot, some] of connection.isCluster ? bySlot(its) : [[0, its] as const]) slots.set(slot, [...(slots.get(slot) ?? []), some]);
    }
    this.#pumps = [...slots.values()].map((queues) => {
      const own = new Set(queues.flat());
      const chores = new Chores([...own], crons, codec as Codec<unknown>, options.clock ?? { aheadMs: 0 });
      const pump = new Pump<T>(queues, chores, shared);
      for (const key of own) pumpOf.set(key, pump);
      return pump;
    });
  }

  get state(): WorkerState {
    if (this.#phase !== "working") return this.#phase;
    return this.#pumps.some((pump) => pump.isConnected) ? "running" : "reconnecting";
  }

  /**
   * Works until `stop`, SIGTERM, SIGINT, or a permanent error, which it throws. With `burst`, also ends when no job is
   * ready and none runs.
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
      timers = [this.#startHeart(), setInterval(() => this.#each((pump) => this.#go(pump.doChores())), CHORES_MS)];
      this.#each((pump) => this.#go(pump.connect()));
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

  /**
   * Stops the worker. It claims no more jobs, and waits for the handlers until the grace is over. Then it returns the
   * unfinished jobs to the queue.
   */
  stop({ grace }: { grace?: Duration } = {}): Promise<void> {
    this.#stopped ??= this.#stop(grace === undefined ? this.#graceMs : milliseconds(grace));
    return this.#stopped;
  }

  async #stop(graceMs: number): Promise<void> {
    const isWorking = this.#phase === "working";
    this.#phase = isWorking ? "stopping" : "stopped";
    if (!isWorking) return;
    this.#each((pump) => pump.endWait());
    let isGraceOver = false;
    this.#endGrace = () => {
      isGraceOver = true;
      this.#changed();
    };
    await this.#when(() => isGraceOver || this.#holding.running === 0, graceMs);
    this.#holding.release();
    await this.#when(() => this.#pumps.every((pump) => pump.isIdle), LAST_WORDS_MS);
    this.#phase = "stopped";
    this.#each((pump) => pump.disconnect());
    this.#changed();
  }

  // --- who claims next -------------------------------------------------------------------------------------------------------

  /** Calls `#share` once, after all events of this turn of the event loop. */
  #shareSoon(): void {
    if (this.#isShareDue) return;
    this.#isShareDue = true;
    setImmediate(() => {
      this.#isShareDue = false;
      if (this.#phase !== "stopped") this.#share();
      this.#changed();
    });
  }

  /**
   * Divides the free slots among the pumps, and lets the pumps claim jobs. A free slot is room for one more job within
   * `concurrency`.
   *
   * A pump is drained if its last claim has emptied its queues. There are two rounds. In the first, each pump that is
   * not drained gets a share of the free slots. If there is such a pump, a drained pump gets a share, too, once
   * `ASK_AGAIN_MS` have passed since its last claim.
   *
   * In the second round, all drained pumps share the slots that are left, and claim with BLOCK. With `burst`, no pump
   * claims with BLOCK. A claim with BLOCK is for at least one job. So these claims together may return more jobs than
   * there are free slots.
   */
  #share(): void {
    const isWorking = this.#phase === "working";
    let free = isWorking ? this.#concurrency - this.#holding.running - sum(this.#pumps.map((pump) => pump.reserved)) : 0;
    const share = (pump: Pump<T>, count: number): number => Math.min(count, this.#concurrency - this.#holding.running - pump.repeated);
    const isBusy = this.#pumps.some((pump) => pump.isConnected && !pump.isDrained);
    const expects = (pump: Pump<T>): boolean => !pump.isDrained || (isBusy && pump.isDrainedSince(ASK_AGAIN_MS));
    const eager = this.#pumps.filter((pump) => pump.mayClaim && !pump.isTurning && expects(pump));
    const served = new Set<Pump<T>>();
    for (const [at, pump] of eager.entries()) {
      const count = share(pump, Math.ceil(free / (eager.length - at)));
      if (count <= 0) continue;
      free -= count;
      served.add(pump);
      pump.turn(count);
    }
    this.#each((pump) => pump.turn(0));
    if (this.#isBurst) {
      const isOver = this.#pumps.every((pump) => pump.mayClaim && pump.isDrained && pump.isIdle);
      if (isWorking && isOver && this.#holding.running === 0) void this.stop();
    } else if (free > 0) {
      for (const pump of this.#pumps) {
        const count = share(pump, Math.max(1, Math.floor(free / this.#pumps.length)));
        if (pump.mayClaim && pump.isDrained && count > 0) pump.wait(count);
      }
    }
    if (isWorking && this.#holding.running >= this.#concurrency) this.#each((pump) => pump.endWait());
    if (served.size > 0) this.#pumps = [...this.#pumps.filter((pump) => !served.has(pump)), ...served];
  }

  #each(body: (pump: Pump<T>) => void): void {
    for (const pump of this.#pumps) body(pump);
  }

  #startHeart(): NodeJS.Timeout {
    const look = (): void => {
      this.#holding.loseEnded();
      this.#each((pump) => pump.beatIfDue());
    };
    return setInterval(look, Math.max(10, this.#leaseMs / (3 * LOOKS)));
  }

  #fail(error: Error): void {
    this.#fatal ??= error;
    void this.stop();
  }

  /** Handles a promise that nothing awaits. If the promise fails, the worker stops, and `run` throws the error. */
  #go(promise: Promise<void>): void {
    promise.catch((error: unknown) => this.#fail(asError(error)));
  }

  /**
   * Calls the listeners of an event. If a listener throws, the worker goes on, and the error becomes an uncaught
   * exception.
   */
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

const result = <R>(promise: Promise<R>): Promise<R | Error> => promise.catch(asError);

const sum = (numbers: readonly number[]): number => numbers.reduce((total, each) => total + each, 0);

function bySlot(keys: readonly string[]): Map<number, string[]> {
  const slots = new Map<number, string[]>();
  for (const key of keys) slots.set(slotOf(key), [...(slots.get(slotOf(key)) ?? []), key]);
  return slots;
}

/** Returns the wait after a failure. If `backoff` throws, returns the default wait. */
function waitOf(backoff: (attempt: number) => Duration = outcomes.defaultBackoff, attempt: number): number {
  try {
    return milliseconds(backoff(attempt));
  } catch (thrown) {
    process.emitWarning(`the backoff of a worker failed: ${asError(thrown).message}`);
    return milliseconds(outcomes.defaultBackoff(attempt));
  }
}
